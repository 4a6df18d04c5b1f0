//! `stripline echo` and `hz` against real runs. A tap shows the packets that are sent, and changes
//! nothing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use crate::common::waveform::File;
use crate::common::{run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use stripline::node::{Node, Topics};
use stripline::payload::{Cbor, NoSchema};

/// A tap in a separate process, which is killed when the value is dropped.
struct Tap {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tap {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in("", arguments)
    }

    fn start_in(domain: &str, arguments: &[&str]) -> Self {
        let mut command = stripline();
        if !domain.is_empty() {
            command.env("STRIPLINE_DOMAIN", domain);
        }
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Returns the next line. Returns `None` at the end.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Skips lines until one reports this event.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended without the event `{event}`"));
            if line["event"] == event {
                return line;
            }
        }
    }

    fn end(mut self) -> Option<i32> {
        while self.line().is_some() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn packets_of_outputs_and_inputs_are_shown() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let text = file.ask("echo", &["tone.out", "--count", "2", "--samples", "3"]);
    text.says(0, &["tone.out: f32"]);
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!(lines[0], "stream tone, 48000 samples/s, clock host ± ?");
    assert!(lines[1].starts_with("packet ") && lines[1].contains("Z (480 samples): "), "{}", lines[1]);
    assert!(lines[1].ends_with(" …") && lines.len() == 3, "{}", text.stdout);

    // An input shows the packets of its sender.
    let json = file.ask("echo", &["sink.in", "--count", "2", "--json"]);
    json.says(0, &["filter.out: f32"]);
    let lines: Vec<Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["event"], &lines[0]["stream"]["sample_rate_hz"]), (&"stream".into(), &48e3.into()));
    assert_eq!((lines[1]["values"].as_array().unwrap().len(), &lines[1]["samples"]), (480, &480.into()));
    let number = |line: &Value| line["sequence"].as_u64().unwrap();
    assert_eq!(number(&lines[2]), number(&lines[1]) + 1);
    assert_eq!(lines[2]["sample_index"], number(&lines[2]) * 480);

    let rates = file.ask("hz", &["tone.out", "--duration", "1", "--json"]);
    rates.says(0, &[]);
    let rates: Value = serde_json::from_str(rates.stdout.trim()).unwrap();
    assert_eq!(rates["samples"].as_u64().unwrap(), rates["packets"].as_u64().unwrap() * 480);
    assert_eq!(rates["bytes"].as_u64().unwrap(), rates["samples"].as_u64().unwrap() * 4);
    let text = file.ask("hz", &["tone.out", "--duration", "1"]);
    for words in ["packets/s, ", "samples/s, ", "B/s", "interval ", "(std "] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_wrong_name_is_refused_with_the_one_meant() {
    let file = File::radio();
    let running = file.start(&[], 3);
    for command in ["echo", "hz"] {
        file.ask(command, &["tone.uot"]).says(2, &["`tone` has no port `uot`; did you mean `out`?"]);
        file.ask(command, &["tnoe.out"]).says(2, &["no component `tnoe`; did you mean `tone`?"]);
        file.ask(command, &["tone"]).says(2, &["COMPONENT.PORT"]);
        file.ask(command, &[]).says(2, &["<COMPONENT.PORT>"]);
        run(&[command, "no-such", "tone.out"]).says(2, &["no waveform `no-such`"]);
        run(&[command]).says(2, &["<WAVEFORM>", "--topic"]);
    }
    drop(running);
}

/// Writes a tone that sends 200 packets in two seconds.
fn tone() -> File {
    File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { rate = 48e3, output = "f32", packet = 480, duration_s = 2.0 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "sink.in"
        "#,
    )
}

#[test]
fn neither_a_tap_nor_its_end_changes_the_packets_of_a_waveform() {
    for (transport, placement) in [
        ("shm", "processes"),
        ("uds", "processes"),
        ("tcp", "processes"),
        ("udp", "processes"),
        ("inproc", "threads"),
    ] {
        let file = tone();
        let report = file.path("report.json");
        let options =
            ["--transport", transport, "--placement", placement, "--output", report.to_str().unwrap()];
        let running = file.start(&options, if placement == "threads" { 1 } else { 2 });
        let arguments = ["echo", &file.name, "tone.out", "--json"];
        let [mut killed, mut stopped, mut ended] = std::array::from_fn(|_| Tap::start(&arguments));
        // All taps receive packets before they are disturbed.
        for tap in [&mut killed, &mut stopped, &mut ended] {
            tap.wait_for("packet");
        }
        send(killed.child.id(), Signal::KILL);
        send(stopped.child.id(), Signal::STOP);
        // The waveform ends by itself with all packets, in spite of the stopped tap.
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
        let connection = &report["connections"][0];
        assert_eq!((&connection["packets"], &connection["lost"]), (&200.into(), &0.into()), "{transport}");
        // The tap that was not disturbed gets every packet up to the end.
        let mut next = None;
        loop {
            let line = ended.line().expect("a last line");
            match line["event"].as_str().unwrap() {
                "packet" => {
                    let sequence = line["sequence"].as_u64().unwrap();
                    assert_eq!(next.unwrap_or(sequence), sequence);
                    next = Some(sequence + 1);
                }
                "end" => break,
                other => panic!("{other}: {line}"),
            }
        }
        assert_eq!(next, Some(200), "{transport}");
        assert_eq!(ended.end(), Some(0));
    }
}

#[test]
fn a_tap_goes_on_with_a_component_that_is_started_again() {
    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        restart = "on-failure"
        properties = { rate = 48e3, output = "f32", packet = 480 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone.out"
        to = "sink.in"
        "#,
    );
    let running = file.start(&[], 2);
    let mut tap = Tap::start(&["echo", &file.name, "tone.out", "--json"]);
    tap.wait_for("packet");
    send(running.component("tone"), Signal::KILL);
    tap.wait_for("restart");
    tap.wait_for("packet");
    running.signal(Signal::INT);
    tap.wait_for("end");
    assert_eq!((tap.end(), running.end().0), (Some(0), Some(0)));
}

#[test]
fn an_output_without_a_connection_is_refused_with_the_remedy() {
    let file = File::new(
        "[component.tone]\ntype = \"signal-generator\"\nproperties = { rate = 48e3 }\n\
         [component.both]\ntype = \"tee\"\n[component.sink]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"tone.out\"\nto = \"both.in\"\n\
         [[connection]]\nfrom = \"both.out1\"\nto = \"sink.in\"\n",
    );
    let running = file.start(&[], 3);
    let asked = file.ask("echo", &["both.out2"]);
    assert_ne!(asked.code, Some(0));
    let words = ["output `out2` is not connected", "connect it, for example to a `null-sink`"];
    words.iter().for_each(|words| assert!(asked.stderr.contains(words), "{}", asked.stderr));
    drop(running);
}

#[test]
fn a_reader_that_closes_the_output_ends_the_command() {
    let file = File::radio();
    let running = file.start(&[], 3);
    for command in ["echo", "hz"] {
        let mut tap = Tap::start(&[command, &file.name, "tone.out", "--json"]);
        assert!(tap.line().is_some());
        let Tap { child, lines } = &mut tap;
        drop(std::mem::replace(lines, BufReader::new(closed())));
        let mut code = None;
        let child = std::cell::RefCell::new(child);
        wait_until("the command has ended", || child.borrow_mut().try_wait().unwrap().is_some());
        code.clone_from(&child.borrow_mut().wait().unwrap().code());
        assert_eq!(code, Some(0), "{command}");
    }
    drop(running);
}

#[test]
fn a_reader_that_takes_nothing_does_not_keep_the_command_from_its_end() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let (reader, writer) = std::io::pipe().unwrap();
    // The pipe has room for the line about the stream, and for a part of the first packet's line.
    rustix::pipe::fcntl_setpipe_size(&writer, 8192).unwrap();
    let mut command = stripline();
    command.args(["echo", &file.name, "tone.out", "--samples", "10000"]);
    let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the pipe is full", || rustix::io::ioctl_fionread(&reader).unwrap() > 4096);
    send(child.id(), Signal::TERM);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{text}");
    assert!(text.contains("cannot write to standard output: its reader does not take the last "), "{text}");
    drop(running);
}

/// Returns the standard output of a command that prints nothing.
fn closed() -> ChildStdout {
    let mut child = stripline().arg("--version").stdout(Stdio::piped()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    child.wait().unwrap();
    output
}

#[test]
fn samples_and_messages_of_topics_are_shown() {
    let domain = format!("data-{}", std::process::id());
    let node = Node::join(&domain, Topics::default()).unwrap();
    let mut levels = node.publisher::<i16>("levels").unwrap();
    let mut notes = node.publisher::<Cbor<(String, Option<u8>), NoSchema>>("notes").unwrap();
    let mut echo = Tap::start_in(&domain, &["echo", "--topic", "levels", "--json", "--count", "1"]);
    assert!(levels.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    levels.send(&[-1, 2]).unwrap();
    let line = echo.wait_for("packet");
    assert_eq!(line["values"], serde_json::json!([-1, 2]));
    assert_eq!(echo.end(), Some(0));
    let mut echo = Tap::start_in(&domain, &["echo", "--topic", "notes", "--json", "--count", "1"]);
    assert!(notes.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    notes.send(&("tuned".into(), None)).unwrap();
    assert_eq!(echo.wait_for("packet")["message"], serde_json::json!(["tuned", null]));
    assert_eq!(echo.end(), Some(0));
    // The payload is a message with a schema.
    let mut typed = node.publisher::<Cbor<(String, Option<u8>)>>("typed").unwrap();
    let mut echo = Tap::start_in(&domain, &["echo", "--topic", "typed", "--json", "--count", "1"]);
    assert!(typed.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
    typed.send(&("tuned".into(), Some(3))).unwrap();
    assert_eq!(echo.wait_for("packet")["message"], serde_json::json!(["tuned", 3]));
    assert_eq!(echo.end(), Some(0));
}

#[test]
fn a_sigmf_recording_states_what_it_lacks_and_refuses_channels_in_rows() {
    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { output = "f32", sample_rate = 48e3, rate = 48e3, packet = 480 }
        [component.other]
        type = "signal-generator"
        properties = { output = "f32", sample_rate = 48e3, rate = 48e3, packet = 480 }
        [component.pair]
        type = "multiplexer"
        properties = { mode = "interleave", block = 16 }
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "tone"
        to = "pair.in1"
        [[connection]]
        from = "other"
        to = "pair.in2"
        [[connection]]
        from = "pair"
        to = "sink"
        [component.rows]
        type = "demultiplexer"
        [component.end]
        type = "null-sink"
        [[connection]]
        from = "pair"
        to = "rows"
        [[connection]]
        from = "rows.out1"
        to = "end"
        "#,
    );
    let _running = file.start(&[], 6);
    let folder = file.path("rec");
    let record = |port: &str| {
        run(&["record", &file.name, port, "--sigmf", "--count", "3", "--to", folder.to_str().unwrap()])
    };
    let rows = record("rows.out1");
    rows.says(0, &[]);
    assert!(rows.stdout.contains("; SigMF cannot have: row_length"), "{}", rows.stdout);
    record("pair.out").says(1, &["row by row (`row_length`)", "use `stripline record` without `--sigmf`"]);
    assert!(!folder.join("pair.out.sigmf-meta").exists() && !folder.join("pair.out.sigmf-data").exists());
}
