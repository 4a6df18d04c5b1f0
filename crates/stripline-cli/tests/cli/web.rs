//! `stripline web` against real runs: the responses and the limits for clients.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::common::page::{Page, Response};
use crate::common::waveform::File;
use crate::common::{run, wait_until};
use rustix::process::{Resource, Rlimit, Signal};
use serde_json::{Value, json};

/// The most clients of each kind at a time: without the token, with the token, and with a spectrum.
const WITHOUT_TOKEN_MAX: usize = 32;
const WITH_TOKEN_MAX: usize = 64;
const WITH_SPECTRUM_MAX: usize = 16;

/// A name, the beginning of a request, and the rest of the request or a part of it.
type HostileRequest = (&'static str, fn(&Page) -> String, &'static str);

/// Writes a tone of a thousand packets a second, and a filter that receives it.
fn thousand() -> File {
    let tone = r#"type = "signal-generator"
        properties = { rate = 48e3, output = "f32", packet = 48, frequency = 6e3 }"#;
    File::filtered("tone", tone, "properties = { high = 4e3 }")
}

#[test]
fn without_the_token_only_the_files_of_the_page_are_shown() {
    let page = Page::start(&[]);
    let other = if page.token.starts_with('0') { "1" } else { "0" };
    let forged = format!("{other}{}", &page.token[1..]);
    let paths = ["/metrics", "/events", "/api/properties", "/api/set", "/no-such"];
    for path in paths {
        for credential in [
            String::new(),
            // A cookie would reach every port of the host, and addresses are logged.
            format!("Cookie: stripline-{}={}\r\n", page.port, page.token),
            format!("Authorization: Bearer {forged}\r\n"),
            format!("Authorization: Basic {}\r\n", page.token),
        ] {
            let response = page.request(&format!("GET {path} HTTP/1.1\r\n{}{credential}\r\n", page.host()));
            assert_eq!(response.status, 403, "{path} {credential}");
            assert!(response.body.contains("token is missing or wrong"), "{}", response.body);
            assert!(!response.head.contains(&page.token) && !response.body.contains(&page.token));
        }
    }
    let in_the_query = format!("GET /metrics?token={} HTTP/1.1\r\n{}\r\n", page.token, page.host());
    assert_eq!(page.request(&in_the_query).status, 403);

    // Browsers do not send the part of an address after `#`.
    let file = |path: &str| page.request(&format!("GET {path} HTTP/1.1\r\n{}\r\n", page.host()));
    assert_eq!(file("/app.js").status, 200);
    let html = file("/");
    assert_eq!(html.status, 200);
    assert!(!html.head.contains("Set-Cookie") && !html.body.contains(&page.token), "{}", html.head);
    assert!(html.body.contains("<title>Stripline</title>"), "{}", html.body);
    for field in [
        "Content-Security-Policy: default-src 'self';",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(html.head.contains(field), "{field}: {}", html.head);
    }
    assert_eq!(page.get("/no-such").status, 404);
    let delete = format!("DELETE / HTTP/1.1\r\n{}{}{}\r\n", page.host(), page.pass(), page.origin());
    assert_eq!(page.request(&delete).status, 405);
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let page = Page::start(&[]);
    let get = |host: &str, fields: &str| {
        page.request(&format!("GET / HTTP/1.1\r\n{host}{}{fields}\r\n", page.pass()))
    };
    assert_eq!(get(&page.host(), "").status, 200);
    assert_eq!(get(&format!("Host: localhost:{}\r\n", page.port), "").status, 200);
    for host in ["", "Host: evil.example\r\n", &format!("Host: evil.example:{}\r\n", page.port)] {
        let response = get(host, "");
        assert_eq!(response.status, 403, "{host}");
        assert!(response.body.contains("Host"), "{}", response.body);
    }
    assert_eq!(get(&page.host(), "Origin: http://evil.example\r\n").status, 403);
    let set = |origin: &str| page.post("/api/set", origin, "application/json", "{}").status;
    for origin in
        ["", "Origin: null\r\n", "Origin: http://evil.example\r\n", "Origin: http://127.0.0.1:1\r\n"]
    {
        assert_eq!(set(origin), 403, "{origin}");
    }
    // The request is admitted from the page, but the body is not a setting.
    assert_eq!(set(&page.origin()), 400);
    assert_eq!(page.post("/api/set", &page.origin(), "text/plain", "{}").status, 415);
}

#[test]
fn requests_that_are_too_long_broken_or_cut_off_leave_the_server_as_it_was() {
    let page = Page::start(&[]);
    let long = "x".repeat(1 << 20);
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nA: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000)), 431),
        ("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".into(), 413),
        ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".into(), 400),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".into(), 411),
        ("\u{16}\u{3}\u{1} this is TLS\r\n\r\n".into(), 400),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), 400),
    ] {
        let start: String = request.chars().take(60).collect();
        assert_eq!(page.request(&request).status, status, "{start}");
    }
    // A request is cut off after each byte. The server sends no response, and takes no harm.
    let whole = format!("GET / HTTP/1.1\r\n{}{}\r\n", page.host(), page.pass());
    for length in (0..whole.len()).step_by(7) {
        let mut stream = page.connect();
        stream.write_all(&whole.as_bytes()[..length]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{length}: {rest:?}");
    }
    assert_eq!(page.get("/").status, 200);
}

#[test]
fn a_thousand_clients_that_send_nothing_keep_no_other_out() {
    // Both this process and the server have a descriptor for each connection.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(Resource::Nofile, all).unwrap();
    let page = Page::start(&[]);
    let mut silent = Vec::new();
    for number in 0..1000 {
        silent.push(page.connect());
        if number % 100 == 99 {
            assert_eq!(page.get("/").status, 200, "after {number}");
        }
    }
    assert_eq!(page.get("/metrics").status, 200);
    // The oldest clients were closed for newer ones.
    assert!(is_closed(&mut silent[0]));
    wait_until("the threads of those that were closed have ended", || page.clients() <= WITHOUT_TOKEN_MAX);
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", page.pid())).unwrap().count();
    assert!(descriptors <= WITHOUT_TOKEN_MAX + 64, "{descriptors}");
}

#[test]
fn clients_that_do_nothing_or_move_a_byte_at_a_time_keep_no_newcomer_out() {
    let post = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    let requests: [HostileRequest; 7] = [
        ("nothing", |_| String::new(), ""),
        ("a part of a request", |page| format!("GET / HTTP/1.1\r\n{}", page.host()), "A: "),
        ("a part with the token", |page| format!("GET / HTTP/1.1\r\n{}{}", page.host(), page.pass()), "A: "),
        (
            "a request without its body",
            |page| format!("POST /api/set HTTP/1.1\r\n{}{}{}", page.host(), page.pass(), page.origin()),
            post,
        ),
        ("a file", |page| format!("GET /app.js HTTP/1.1\r\n{}", page.host()), "\r\n"),
        ("metrics", |page| format!("GET /metrics HTTP/1.1\r\n{}{}", page.host(), page.pass()), "\r\n"),
        ("events", |page| format!("GET /events HTTP/1.1\r\n{}{}", page.host(), page.pass()), "\r\n"),
    ];
    for (name, start, end) in requests {
        for moves in [false, true] {
            let context = format!("{name}, {}", if moves { "a byte at a time" } else { "and then nothing" });
            let page = Page::start(&[]);
            let request = start(&page) + end;
            // The hostile clients stay until the newcomers have been served.
            let mut hostile: Vec<TcpStream> = (0..WITH_TOKEN_MAX)
                .map(|_| {
                    let mut stream = page.open(&request);
                    if end == "\r\n" {
                        // After the first byte of a response, the client has a place.
                        stream.read_exact(&mut [0]).unwrap();
                    }
                    stream.set_nonblocking(true).unwrap();
                    stream
                })
                .collect();
            let mut move_a_byte = || {
                for stream in hostile.iter_mut().filter(|_| moves) {
                    let _ = (stream.write(b"x"), stream.read(&mut [0]));
                }
            };
            move_a_byte();
            let file = page.request(&format!("GET / HTTP/1.1\r\n{}\r\n", page.host()));
            assert_eq!(file.status, 200, "{context}");
            for path in ["/", "/metrics"] {
                move_a_byte();
                assert_eq!(page.get(path).status, 200, "{context}: {path}");
            }
            move_a_byte();
            let events = format!("GET /events HTTP/1.1\r\n{}{}\r\n", page.host(), page.pass());
            assert!(Events::new(page.open(&events)).next()["waveforms"].is_array(), "{context}");
            drop(hostile);
        }
    }
}

#[test]
fn pages_that_are_not_read_keep_no_spectrum_from_a_newcomer() {
    let file = thousand();
    let running = file.start(&[], 3);
    let page = Page::start(&[&file.name]);
    let unread: Vec<TcpStream> = (0..WITH_SPECTRUM_MAX)
        .map(|_| {
            let mut stream = page.open_events(&file, Some("tone.out"));
            stream.read_exact(&mut [0]).unwrap();
            stream
        })
        .collect();
    let mut events = Events::new(page.open_events(&file, Some("tone.out")));
    loop {
        let spectrum = &events.next()["spectrum"];
        assert!(spectrum["problem"].is_null(), "{spectrum}");
        if spectrum["levels"].as_array().is_some_and(|levels| !levels.is_empty()) {
            break;
        }
    }
    drop(unread);
    drop(running);
}

#[test]
fn clients_that_stop_reading_delay_no_other_and_are_closed() {
    let file = thousand();
    let running = file.start(&[], 3);
    let page = Page::start(&[&file.name]);
    let events = RefCell::new(Events::new(page.open_events(&file, None)));
    let port = |number| (number % 16 == 0).then_some("tone.out");
    // The stuck clients have all places but one, which is served all the time.
    let stuck: Vec<TcpStream> = (1..WITH_TOKEN_MAX)
        .map(|number| {
            let mut stream = page.open_events(&file, port(number));
            let mut status = [0; 15];
            stream.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 200 OK");
            stream
        })
        .collect();
    for stream in &stuck {
        // With a small buffer, unread data soon fills the buffers of the kernel.
        rustix::net::sockopt::set_socket_recv_buffer_size(stream, 4096).unwrap();
    }
    wait_until("those that do not read are closed", || {
        drop(events.borrow_mut().next());
        page.clients() < WITH_TOKEN_MAX / 2
    });
    assert_eq!(page.get("/").status, 200);
    drop(stuck);
    drop(running);
}

#[test]
fn a_property_that_is_set_on_the_page_arrives_in_the_waveform() {
    let file = thousand();
    let running = file.start(&[], 3);
    let page = Page::start(&[&file.name]);
    let set = |component: &str, property: &str, value: &str| {
        let body = json!({ "waveform": file.name, "pid": null, "component": component, "property": property,
            "value": value });
        let response = page.post("/api/set", &page.origin(), "application/json", &body.to_string());
        (response.status, serde_json::from_str::<Value>(&response.body).unwrap())
    };
    let (status, result) = set("tone", "amplitude", "0.25");
    assert_eq!((status, &result["changes"][0]["taken"]), (200, &json!("applied")), "{result}");
    running.wait_for_line("tone: amplitude = 0.25 (was 1)");
    assert_eq!(file.property("tone.amplitude")["value"], 0.25);
    let path = format!("/api/properties?waveform={}", file.name);
    let readings: Value = serde_json::from_str(&page.get(&path).body).unwrap();
    let amplitude = readings.as_array().unwrap().iter().find(|it| it["property"] == "amplitude").unwrap();
    assert_eq!((&amplitude["value"], &amplitude["access"]), (&json!(0.25), &json!("changeable")));

    for (component, property, value, words) in [
        ("tone", "amplitude", "loud", "amplitude"),
        ("tone", "packet", "1", "packet"),
        ("tone", "amplitdue", "1", "did you mean `amplitude`?"),
        ("tnoe", "amplitude", "1", "did you mean `tone`?"),
    ] {
        let (status, result) = set(component, property, value);
        assert_eq!(status, 400, "{result}");
        assert!(result["error"].as_str().unwrap().contains(words), "{result}");
    }
    assert_eq!(file.property("tone.amplitude")["value"], 0.25);
    // The page of one waveform cannot change another one.
    let other = page.get("/api/properties?waveform=no-such");
    assert_eq!(other.status, 400);
    assert!(other.body.contains("only"), "{}", other.body);
}

#[test]
fn a_port_that_sends_spectra_is_shown_as_it_is() {
    let file = File::new(
        r#"
        [component.station]
        type = "fm-station"
        properties = { sample_rate = 960e3, rate = 960e3, frequency = 100e6, snr = 20 }
        [component.spectra]
        type = "fft"
        properties = { size = 1024, average = 20 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "station.out"
        to = "spectra.in"
        [[connection]]
        from = "spectra.out"
        to = "sink.in"
        "#,
    );
    let _running = file.start(&[], 3);
    let page = Page::start(&[]);
    let mut events = Events::new(page.open_events(&file, Some("spectra.out")));
    let spectrum = loop {
        let event = events.next();
        if event["spectrum"]["levels"].as_array().is_some_and(|levels| levels.len() == 512) {
            break event["spectrum"].clone();
        }
    };
    let half = 960e3 / 1024.0 / 2.0;
    assert_eq!(spectrum["axis"], json!([100e6 - 480e3 - half, 100e6 + 480e3 - half, "Hz"]));
    assert_eq!(spectrum["unit"], "");
    let levels = spectrum["levels"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
    // The station is in the middle. If the rows were transformed again, the largest value would be
    // at 0 Hz.
    let (bin, _) = levels.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!((150..362).contains(&bin), "{bin}");
}

#[test]
fn ten_events_a_second_at_most_while_a_port_has_a_thousand_packets() {
    let file = thousand();
    let running = file.start(&[], 3);
    let page = Page::start(&[]);
    let mut events = Events::new(page.open_events(&file, Some("tone.out")));
    let (mut before, mut first, mut peak) = (None, None, None);
    for number in 0.. {
        let event = events.next();
        let at_ms = event["at_ms"].as_u64().unwrap();
        // The server keeps the interval between events, however fast the port is.
        assert!(before.is_none_or(|before| at_ms >= before + 100), "{before:?}, {at_ms}");
        before = Some(at_ms);
        let connections = event["connections"].as_array().unwrap();
        let Some(tone) = connections.iter().find(|it| it["from"] == "tone.out") else { continue };
        assert_eq!(
            (&tone["to"], &tone["transport"], &tone["payload"]),
            (&json!("filter.in"), &json!("shm"), &json!("f32"))
        );
        let packets = tone["packets"].as_u64().unwrap();
        first.get_or_insert(packets);
        if event["spectrum"]["levels"].as_array().is_some_and(|levels| levels.len() == 512) {
            peak = Some(event["spectrum"].clone());
        }
        let is_measured =
            !tone["latency"].as_array().unwrap().is_empty() && tone["packets_per_s"].as_f64() > Some(1.0);
        // There are far more packets than events.
        if number >= 10 && packets > first.unwrap() + 50 * number && peak.is_some() && is_measured {
            break;
        }
    }
    let spectrum = peak.unwrap();
    assert_eq!((&spectrum["sample_rate_hz"], &spectrum["axis"]), (&json!(48e3), &json!([0.0, 24e3, "Hz"])));
    let levels = spectrum["levels"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
    let (bin, level) = levels.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    // 6 kHz is a quarter of 24 kHz, so the peak is at a quarter of 512 bins.
    assert!((127..=128).contains(&bin) && level.abs() < 0.5, "{bin}: {level}");
    // The events show the end of the waveform.
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
    let is_there = |event: &Value| {
        event["waveforms"].as_array().unwrap().iter().any(|it| it["name"] == file.name.as_str())
    };
    while is_there(&events.next()) {}
}

#[test]
fn metrics_are_in_the_text_format() {
    let file = thousand();
    let running = file.start(&[], 3);
    let page = Page::start(&[&file.name]);
    let metrics = || page.get("/metrics");
    let has_packets = |response: &Response| {
        let line =
            |line: &str| line.starts_with("stripline_connection_packets_total{") && !line.ends_with(" 0");
        response.body.lines().any(line)
    };
    wait_until("packets are counted", || has_packets(&metrics()));
    let response = metrics();
    assert!(response.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", response.head);
    let samples = parse_metrics(&response.body);
    let of =
        |name: &str| -> Vec<&(String, String, f64)> { samples.iter().filter(|it| it.0 == name).collect() };
    assert_eq!(of("stripline_waveform_running_seconds").len(), 1);
    assert_eq!(of("stripline_connection_packets_total").len(), 2);
    let labels = &of("stripline_connection_packets_total")[0].1;
    assert!(labels.contains(&format!("waveform=\"{}\"", file.name)), "{labels}");
    // The counts of buckets never fall, and the last bucket has all packets.
    let buckets: Vec<f64> = of("stripline_connection_latency_seconds_bucket")
        .iter()
        .filter(|it| it.1.contains("from=\"tone.out\""))
        .map(|it| it.2)
        .collect();
    assert!(buckets.len() > 20 && buckets.is_sorted(), "{buckets:?}");
    let count = of("stripline_connection_latency_seconds_count");
    assert_eq!(
        count.iter().find(|it| it.1.contains("from=\"tone.out\"")).unwrap().2,
        *buckets.last().unwrap()
    );
    drop(running);
}

#[test]
fn the_command_ends_in_order_and_refuses_what_cannot_be() {
    let page = Page::start(&[]);
    let mut open = page.connect();
    let number = page.port.to_string();
    run(&["web", "--port", &number]).says(1, &["cannot listen on 127.0.0.1:", "--port"]);
    assert_eq!(page.interrupt(), Some(0));
    assert!(is_closed(&mut open));
    run(&["web", "no-such"]).says(2, &["no waveform `no-such`"]);
    run(&["web", "--pid", "1"]).says(2, &["give the name, too"]);
    run(&["web", "--port", "70000"]).says(2, &["70000"]);
    let help = run(&["web", "--help"]);
    help.says(0, &[]);
    assert!(help.stdout.contains("stripline web radio"), "{}", help.stdout);
}

/// Returns whether the server has closed a connection, with an end of stream or a reset.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn new(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
        }
        Self(reader)
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the events have ended");
        }
        serde_json::from_str(&line["data: ".len()..]).unwrap()
    }
}

/// Parses the text format. Returns the name, labels and value of each sample. Each family must have
/// a head.
fn parse_metrics(text: &str) -> Vec<(String, String, f64)> {
    let mut families = BTreeSet::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            assert!(families.insert(name.to_string()), "twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
            let labels = labels.strip_suffix('}').unwrap();
            let family =
                ["_bucket", "_sum", "_count"].iter().fold(name, |name, end| name.trim_end_matches(end));
            assert!(families.contains(family), "no head: {line}");
            samples.push((name.into(), labels.into(), value.parse().unwrap()));
        }
    }
    samples
}
