//! `stripline top` in a pseudo-terminal.

use std::fs::File as Device;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::waveform::{File, PLACEMENTS};
use crate::common::{TIMEOUT, pty, run, send, stripline, wait_until};
use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr, tcsetwinsize};

/// The command in a terminal, and the output.
struct View {
    child: Child,
    /// The user's end of the terminal. `None`: the terminal has hung up.
    user: Option<Device>,
    /// The programs' end of the terminal.
    device: Device,
    output: Vec<u8>,
}

impl View {
    fn start(arguments: &[&str]) -> Self {
        let (user, device) = pty::open(120, 40);
        rustix::io::ioctl_fionbio(&user, true).unwrap();
        let end = || Stdio::from(device.try_clone().unwrap());
        let mut command = stripline();
        command.arg("top").args(arguments).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        Self { child, user: Some(user), device, output: Vec::new() }
    }

    /// Starts the view of a waveform, and waits for the first figures.
    fn of(file: &File) -> Self {
        let mut view = Self::start(&[&file.name, "--every", "0.1", "--color=never"]);
        view.wait("the connection is shown", |view| view.line("tone.out -> filter.in").is_some());
        view
    }

    /// Reads output until the condition holds.
    #[track_caller]
    fn wait(&mut self, what: &str, done: impl Fn(&mut Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "timed out waiting until {what}:\n{}",
                self.picture().join("\n")
            );
            self.read();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read(&mut self) {
        let mut part = [0; 4096];
        while let Some(Ok(count @ 1..)) = self.user.as_mut().map(|user| user.read(&mut part)) {
            self.output.extend_from_slice(&part[..count]);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into()
    }

    /// Returns the lines of the newest picture that was read completely.
    fn picture(&self) -> Vec<String> {
        let text = self.text();
        let whole = text.split("\x1b[?2026h").skip(1).filter_map(|rest| rest.split_once("\x1b[?2026l"));
        let Some((picture, _)) = whole.last() else { return Vec::new() };
        let rows = picture.split("\x1b[").skip(1).filter_map(|piece| piece.split_once(";1H"));
        rows.map(|(_, text)| text.into()).collect()
    }

    /// Returns the first line with the words.
    fn line(&self, words: &str) -> Option<String> {
        self.picture().into_iter().find(|line| line.contains(words))
    }

    fn press(&mut self, keys: &str) {
        self.user.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, width: u16, height: u16) {
        tcsetwinsize(&self.device, pty::size(width, height)).unwrap();
    }

    /// Waits for the end. Asserts that the terminal is restored, unless it has hung up.
    #[track_caller]
    fn ends(&mut self, code: i32) {
        self.wait("it ends", |view| view.child.try_wait().unwrap().is_some());
        self.read();
        assert_eq!(self.child.wait().unwrap().code(), Some(code), "{}", self.text());
        if self.user.is_some() {
            let modes = tcgetattr(&self.device).unwrap().local_modes;
            assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
            let text = self.text();
            assert_eq!(text.matches("\x1b[?1049h").count(), text.matches("\x1b[?1049l").count(), "{text:?}");
            assert_eq!(text.matches("\x1b[?25l").count(), text.matches("\x1b[?25h").count(), "{text:?}");
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_change_properties_and_quit() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let mut view = View::of(&file);
    let selected =
        |view: &View| view.picture().into_iter().find(|line| line.starts_with('>')).unwrap_or_default();
    while !selected(&view).starts_with(">filter.high ") {
        let before = selected(&view);
        view.press("\x1b[B");
        view.wait("the next property is selected", |view| selected(view) != before);
    }
    let value = || file.property("filter.high")["value"].as_f64().unwrap();
    view.press("\x1b[C");
    view.wait("the filter has the next value", |_| value() == 4100.0);
    view.wait("the change is shown", |view| view.line("filter.high = 4100 Hz (was 4000)").is_some());
    view.wait("the value is shown", |view| selected(view).contains(" 4100 "));
    view.press("\r");
    view.press("5e3");
    view.wait("the value is typed", |view| view.line("filter.high = 5e3_").is_some());
    view.press("\r");
    view.wait("the filter has the typed value", |_| value() == 5000.0);
    view.press("\rquick\r");
    view.wait("the problem is shown", |view| {
        view.line("filter.high: `quick`").is_some()
            || view.line("filter.high: ").is_some_and(|line| line.contains("quick"))
    });
    assert_eq!(value(), 5000.0);
    view.press("q");
    view.ends(0);
}

#[test]
fn rates_latencies_and_loads_are_shown() {
    for (placement, processes) in PLACEMENTS {
        let file = File::radio();
        let _running = file.start(&["--placement", placement], processes);
        let mut view = View::of(&file);
        view.wait("it has a latency and its course", |view| {
            let line = view.line("tone.out -> filter.in").unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_course = |word: &&str| word.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']);
            let course = words.iter().position(is_course).unwrap_or_default();
            course > 0 && ["ns", "µs", "ms", "s"].contains(&words[course - 1])
        });
        view.wait("the filter has a load", |view| {
            view.line("fir-filter").is_some_and(|line| line.contains(" % ") && line.contains("running"))
        });
        view.press("q");
        view.ends(0);
    }
}

/// Returns the last time of a line in ms.
fn milliseconds(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let units = [("ns", 1e-6), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let time = |pair: &[&str]| {
        let (_, unit) = units.into_iter().find(|(name, _)| *name == pair[1])?;
        Some(pair[0].parse::<f64>().ok()? * unit)
    };
    words.windows(2).rev().find_map(time)
}

/// Shows where samples get old: at a filter in the middle, with a delay of 0.8 s.
#[test]
fn a_planted_delay_is_shown_at_its_place() {
    let source = r#"type = "signal-generator", properties = { output = "f32", sample_rate = 1e3, rate = 1e3"#;
    let file = File::new(&format!(
        r#"
        [component]
        tone = {{ {source}, frequency = 10.0, packet = 10 }} }}
        first = {{ type = "awgn" }}
        slow = {{ type = "fir-filter", properties = {{ high = 100.0, transition = 2.0 }} }}
        last = {{ type = "awgn" }}
        sink = {{ type = "null-sink" }}
        [[connection]]
        from = "tone"
        to = "first"
        [[connection]]
        from = "first"
        to = "slow"
        [[connection]]
        from = "slow"
        to = "last"
        [[connection]]
        from = "last"
        to = "sink"
        "#
    ));
    let _running = file.start(&[], 5);
    let connections =
        ["tone.out -> first.in", "first.out -> slow.in", "slow.out -> last.in", "last.out -> sink.in"];
    let is_shown = |ages: [Option<f64>; 4]| match ages {
        [Some(first), Some(slow), Some(last), Some(sink)] => {
            let growths = [first, slow - first, last - slow, sink - last];
            (0..4).all(|place| (growths[place] > 400.0) == (place == 2))
        }
        _ => false,
    };
    let mut view = View::start(&[&file.name, "--every", "0.1", "--color=never"]);
    view.resize(160, 40);
    view.wait("the delay is shown behind the filter", |view| {
        is_shown(connections.map(|name| milliseconds(&view.line(name)?)))
    });
    view.press("q");
    view.ends(0);
    wait_until("the delay is listed behind the filter", || {
        let listed = run(&["links", &file.name]).stdout;
        let row = |name: &str| {
            let (from, to) = name.split_once(" -> ")?;
            listed.lines().find(|line| line.contains(from) && line.contains(to))
        };
        is_shown(connections.map(|name| milliseconds(row(name)?)))
    });
}

#[test]
fn it_follows_the_size_of_the_terminal() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let mut view = View::of(&file);
    for (width, height) in [(1, 1), (80, 24), (1, 1), (60, 10), (200, 50)] {
        view.resize(width, height);
        view.wait("the picture fits", |view| {
            let picture = view.picture();
            picture.len() == usize::from(height)
                && picture.iter().all(|line| line.chars().count() == usize::from(width))
        });
    }
    assert!(view.line("q quit").is_some() && view.line("tone.out -> filter.in").is_some());
    view.resize(1, 1);
    view.press("\x1b[B\x1b[5~\x1b[6~q");
    view.ends(0);
}

#[test]
fn it_ends_on_ctrl_c_and_signals_and_restores_the_terminal() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let mut view = View::of(&file);
    view.press("\x03");
    view.ends(0);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut view = View::of(&file);
        send(view.child.id(), signal);
        view.ends(0);
    }
    // The view also ends while a value is typed.
    let mut view = View::of(&file);
    view.press("\rq");
    view.wait("a value is typed", |view| view.line("= q_").is_some());
    view.press("\x03");
    view.ends(0);
}

#[test]
fn it_ends_when_the_terminal_hangs_up() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let mut view = View::of(&file);
    view.user = None;
    view.ends(0);
}

#[test]
fn it_ends_when_the_terminal_takes_no_output() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    for input in ["signal", "q"] {
        // The first picture does not fit into the buffer of the kernel.
        let mut view = View::start(&[&file.name, "--every", "0.1"]);
        view.resize(1000, 1000);
        let user = view.user.as_ref().unwrap().try_clone().unwrap();
        wait_until("it draws", || rustix::io::ioctl_fionread(&user).unwrap() > 1000);
        match input {
            "signal" => send(view.child.id(), Signal::TERM),
            keys => view.press(keys),
        }
        let child = std::cell::RefCell::new(&mut view.child);
        wait_until("it ends", || child.borrow_mut().try_wait().unwrap().is_some());
        assert_eq!(view.child.wait().unwrap().code(), Some(0), "{input}");
        let modes = tcgetattr(&view.device).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
    }
}

#[test]
fn it_ends_with_the_waveform() {
    for signal in [Signal::INT, Signal::KILL] {
        let file = File::radio();
        let running = file.start(&[], 3);
        let mut view = View::of(&file);
        running.signal(signal);
        running.end();
        view.ends(0);
        assert!(view.text().ends_with(&format!("{} has ended\r\n", file.name)), "{}", view.text());
    }
}

#[test]
fn a_suspended_launcher_is_named_until_it_goes_on() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let mut view = View::of(&file);
    running.signal(Signal::STOP);
    view.wait("it is named", |view| view.line("kill -CONT").is_some());
    running.signal(Signal::CONT);
    view.wait("the figures are shown again", |view| view.line("kill -CONT").is_none());
    view.press("q");
    view.ends(0);
}

#[test]
fn several_waveforms_are_listed_and_a_misspelt_name_is_corrected() {
    let (one, other) = (File::radio(), File::radio());
    let _running = [one.start(&[], 3), other.start(&[], 3)];
    let mut view = View::start(&[]);
    view.ends(2);
    let text = view.text();
    for words in ["several waveforms are running: ", &one.name, &other.name, "`stripline top "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let misspelt = format!("{}x", one.name);
    let mut view = View::start(&[&misspelt]);
    view.ends(2);
    assert!(view.text().contains("did you mean"), "{}", view.text());
    let mut view = View::start(&["--pid", "1"]);
    view.ends(2);
    assert!(view.text().contains("no waveform of this user runs in process 1"), "{}", view.text());
}

#[test]
fn without_a_terminal_it_names_the_alternative() {
    run(&["top"]).says(2, &["needs a terminal", "stripline links --watch --json"]);
    run(&["top", "--every", "0.01"]).says(2, &["0.1 seconds or more"]);
    run(&["top", "--every", "-1"]).says(2, &["0.001"]);
}
