//! The page of `stripline web` in a real browser, without a screen: feature `chromium-tests`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::TIMEOUT;
use crate::common::page::Page;
use crate::common::waveform::File;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The names of the browser's executable.
const BROWSERS: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// A browser that is driven over pipes (the DevTools protocol), and killed when dropped.
struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    number: u64,
    /// The events that came between the replies.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    fn start() -> Self {
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let name = BROWSERS.into_iter().find(is_there).unwrap_or_else(|| {
            panic!(
                "no browser: install the Debian package chromium-headless-shell or chromium ({BROWSERS:?})"
            )
        });
        let profile = tempfile::tempdir().unwrap();
        // The browser reads from descriptor 3, and writes to descriptor 4.
        let command = format!(
            "exec {name} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
             --remote-debugging-pipe --user-data-dir={} about:blank 3<&0 4>&1 1>&2",
            profile.path().display()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (session, number, events) = (String::new(), 0, Vec::new());
        let mut this = Self { child, input, output, session, number, events, _profile: profile };
        let target = this.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = this.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        this.session = attached["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            this.call(&format!("{domain}.enable"), json!({}));
        }
        this
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls a method as [`Browser::call`] does, and returns the browser's error.
    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            bytes.pop();
            let reply: Value =
                serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{method}: {error}"));
            if reply["id"] == self.number {
                let is_ok = reply["error"].is_null();
                return if is_ok { Ok(reply["result"].clone()) } else { Err(reply.to_string()) };
            }
            self.events.push(reply);
        }
    }

    /// Returns the value of an expression on the page.
    fn value(&mut self, expression: &str) -> Value {
        self.try_value(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn try_value(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let result = self.try_call("Runtime.evaluate", parameters)?;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        Ok(result["result"]["value"].clone())
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.try_value(expression) {
                Ok(value) if value == true => return,
                // The page changes in the meantime.
                Err(error) if !error.contains("navigated") => panic!("{expression}: {error}"),
                _ => {}
            }
            let page = || "document.body.innerText";
            assert!(Instant::now() < deadline, "timed out waiting until {what}: {}", self.value(page()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the events with these names.
    fn events_of(&self, names: &[&str]) -> Vec<Value> {
        let is_one = |event: &&Value| event["method"].as_str().is_some_and(|name| names.contains(&name));
        self.events.iter().filter(is_one).cloned().collect()
    }

    fn size(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a simulated station and a receiver, in real time.
fn station() -> File {
    File::new(
        r#"
        [component.station]
        type = "fm-station"
        properties = { sample_rate = 240e3, rate = 240e3, packet = 480, frequency = 98.5e6 }
        [component.channel]
        type = "awgn"
        properties = { power = -35 }
        [component.demodulator]
        type = "fm-demodulator"
        properties = { deviation = 75e3 }
        [component.audio]
        type = "decimator"
        properties = { factor = 5, cutoff = 15e3 }
        [component.speaker]
        type = "null-sink"
        [component.monitor]
        type = "null-sink"
        [[connection]]
        from = "station.out"
        to = "channel.in"
        [[connection]]
        from = "channel.out"
        to = "demodulator.in"
        [[connection]]
        from = "demodulator.out"
        to = "audio.in"
        [[connection]]
        from = "audio.out"
        to = "speaker.in"
        [[connection]]
        from = "channel.out"
        to = "monitor.in"
        transport = "uds"
        overflow = "drop-oldest"
        "#,
    )
}

#[test]
fn the_page_shows_graph_spectrum_latency_and_properties() {
    let file = station();
    let running = file.start(&[], 6);
    let page = Page::start(&[&file.name]);
    let mut browser = Browser::start();
    browser.size(1280, 1180);
    browser.call("Page.navigate", json!({ "url": page.url }));

    browser.wait_until("the graph is there", "document.querySelectorAll('#graph .node').length === 6");
    assert_eq!(browser.value("document.querySelectorAll('#graph .edge').length"), 5);
    // The token is neither in the address nor in data that other pages of the host can read.
    assert_eq!(browser.value("location.hash + location.search + document.cookie"), "");
    assert_eq!(browser.value("localStorage.length + sessionStorage.length"), 0);
    // Each component of the chain is to the right of the component before it.
    let places = "[...document.querySelectorAll('#graph .node')].slice(0, 5).map((it) => it.getBoundingClientRect().x)";
    assert_eq!(
        browser.value(&format!("{places}.every((x, index, all) => index === 0 || x > all[index - 1])")),
        true
    );
    let rate = "/^[1-9].*packets\\/s/.test(document.querySelector('#graph .edge text').textContent)";
    browser.wait_until("an edge has a rate", rate);
    browser
        .wait_until("spectra are drawn", "Number(document.getElementById('spectrum').dataset.spectra) > 20");
    let painted = |id: &str| {
        format!(
            "(() => {{ const it = document.getElementById('{id}'); const data = it.getContext('2d')\
             .getImageData(0, 0, it.width, it.height).data; const seen = new Set(); \
             for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]); \
             return seen.size > 8; }})()"
        )
    };
    for id in ["spectrum", "waterfall", "latency"] {
        browser.wait_until(&format!("{id} is painted"), &painted(id));
    }
    let median = "document.getElementById('latency-text').textContent.includes('median')";
    browser.wait_until("the latency has a median", median);

    // A property is a field. A typed value is sent and takes effect in the waveform.
    let node = "[...document.querySelectorAll('#graph .node')].find((it) => it.textContent.includes('fm-demodulator'))";
    browser.value(&format!("{node}.dispatchEvent(new Event('click'))"));
    browser.wait_until("there is a form", "document.getElementById('property-deviation') !== null");
    let set = |value: &str| {
        format!(
            "(() => {{ const it = document.getElementById('property-deviation'); it.value = '{value}'; \
             it.dispatchEvent(new Event('input')); it.form.requestSubmit(); return true; }})()"
        )
    };
    browser.value(&set("5e4"));
    running.wait_for_line("demodulator: deviation = 50000");
    assert_eq!(file.property("demodulator.deviation")["value"], 5e4);
    let output = "document.getElementById('property-deviation').form.querySelector('output').textContent";
    browser.wait_until("the outcome is shown", &format!("{output}.includes('was 75000')"));
    browser.value(&set("loud"));
    browser.wait_until("the refusal is shown", &format!("{output}.includes('deviation')"));
    // A connection is selected with the keyboard.
    let key = "(() => { const it = document.querySelector('#graph .edge[aria-label*=\"audio.out\"]'); it.focus(); it.dispatchEvent(\
               new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })); return true; })()";
    browser.value(key);
    browser.wait_until("its port is shown", "document.getElementById('port').value === 'audio.out'");
    browser.wait_until(
        "its spectrum is shown",
        "document.getElementById('spectrum-text').textContent.startsWith('audio.out, f32')",
    );

    // The page loads nothing from other hosts, and nothing failed on the page.
    let own = format!("http://127.0.0.1:{}/", page.port);
    for event in browser.events_of(&["Network.requestWillBeSent"]) {
        let url = event["params"]["request"]["url"].as_str().unwrap();
        assert!(url.starts_with(&own) || url == "about:blank", "{url}");
    }
    let failed = browser.events_of(&["Runtime.exceptionThrown", "Log.entryAdded"]);
    // The response to the refused value counts as an error.
    let is_refusal =
        |event: &Value| event["params"]["entry"]["url"].as_str().is_some_and(|it| it.ends_with("api/set"));
    assert!(failed.iter().all(is_refusal), "{failed:?}");

    // The page shows the end of the waveform.
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
    browser
        .wait_until("the end is shown", "document.getElementById('phase').textContent.includes('has ended')");
    assert_eq!(browser.value("document.querySelectorAll('#graph .node.running').length"), 0);
    assert_eq!(browser.value("document.querySelectorAll('#rows tr').length"), 5, "the last figures stay");
    // The page sends no requests about components that have ended.
    browser.events.clear();
    let is_later = "(globalThis.endedAt ??= performance.now()) + 2500 < performance.now()";
    browser.wait_until("two more requests were due", is_later);
    let asked = browser.events_of(&["Network.requestWillBeSent"]);
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn a_page_without_the_token_shows_nothing() {
    let page = Page::start(&[]);
    let mut browser = Browser::start();
    let url = format!("http://127.0.0.1:{}/", page.port);
    browser.call("Page.navigate", json!({ "url": url }));
    let status = "document.getElementById('status')?.textContent";
    let refused = format!("{status} === 'refused: open the printed address again'");
    browser.wait_until("the refusal is shown", &refused);
    assert_eq!(browser.value("document.getElementById('waveform').options.length"), 0);

    // The printed address is opened in a tab that already shows the page.
    browser.call("Page.navigate", json!({ "url": page.url }));
    browser.wait_until("the page is live", &format!("{status} === 'live'"));
    // Another load of the page does not find the token of the first one.
    browser.call("Page.navigate", json!({ "url": url }));
    browser.wait_until("the refusal is shown again", &refused);
}
