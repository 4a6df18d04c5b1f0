//! Programs without the library: the blocks of docs/join.md, and peers of TCP, UDP and pipes that
//! leave, send nothing or send something else.

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::waveform::File;
use crate::common::{Run, free_port, repository, stripline, wait_until};

const TONE: &str = r#"type = "signal-generator"
    properties = { output = "f32", sample_rate = 1e6, rate = 1e6, packet = 1000 }"#;

/// The sum of the samples that the programs of the page send: 0 to 99.
const PRINTED: &str = "10000 4950.0\n";

fn waveform(source: &str, sink: &str) -> File {
    File::new(&format!(
        "[component.source]\n{source}\n[component.sink]\n{sink}\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n"
    ))
}

fn spawn(file: &File) -> Child {
    let mut command = stripline();
    command.args(["run", file.path("file.toml").to_str().unwrap(), "--json", "-q"]);
    command.current_dir(file.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn runs(file: &File) {
    wait_until("it runs", || {
        let listed = crate::common::run(&["waveforms", "--json"]).stdout;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let mut waveforms = listed["waveforms"].as_array().unwrap().iter();
        waveforms.any(|waveform| waveform["name"] == *file.name && waveform["phase"] == "running")
    });
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Waits for a run that ends in order, and returns the report.
#[track_caller]
fn report(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the report of the only file of the sink.
fn written(report: &Value) -> &Value {
    &reported(report, "sink")["files"][0]
}

fn reported<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut components = report["components"].as_array().unwrap().iter();
    components.find(|component| component["name"] == name).unwrap()
}

/// Asserts that each packet that the sink received was written or is counted.
#[track_caller]
fn all_is_counted(report: &Value) {
    let (file, connection) = (written(report), &report["connections"][0]);
    let count = |value: &Value, key: &str| value[key].as_u64().unwrap();
    let given = count(connection, "bytes") / 4;
    assert_eq!(count(file, "samples") + count(file, "missing"), given, "{report}");
}

/// Returns the blocks of a language in a section of docs/join.md.
fn block(page: &str, section: &str, language: &str) -> String {
    let from = page.split_once(&format!("\n## {section}\n")).unwrap().1;
    let section = from.split("\n## ").next().unwrap();
    let block = section.split_once(&format!("\n```{language}\n")).unwrap().1;
    block.split_once("```\n").unwrap().0.into()
}

fn compile(folder: &Path, text: &str) {
    std::fs::write(folder.join("program.c"), text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "program.c", "-o", "program"]);
    assert!(compiler.current_dir(folder).status().unwrap().success());
}

#[test]
fn the_programs_of_the_page_join() {
    let page = std::fs::read_to_string(repository("docs/join.md")).unwrap();
    let spectrum = File::new(&block(&page, "16-bit I/Q to a spectrum", "toml"));
    crate::common::run(&["check", spectrum.path("file.toml").to_str().unwrap()]).says(0, &[]);
    for section in ["FIFO", "TCP", "UDP"] {
        let [first, second] = [(); 2].map(|()| free_port());
        let placed = |language: &str| {
            let text = block(&page, section, language);
            text.replace("5555", &first.to_string()).replace("5556", &second.to_string())
        };
        let file = File::new(&placed("toml"));
        let folder = file.path("");
        if section == "FIFO" {
            let made = Command::new("mkfifo").args(["to.fifo", "from.fifo"]).current_dir(&folder).status();
            assert!(made.unwrap().success());
        }
        compile(&folder, &placed("c"));
        let child = spawn(&file);
        runs(&file);
        let mut python = Command::new("python3");
        let receiver = python.args(["-c", &placed("python")]).current_dir(&folder).stdout(Stdio::piped());
        let receiver = receiver.spawn().unwrap();
        if section == "UDP" {
            // Datagrams to a closed port are lost.
            wait_until("the program receives", || UdpSocket::bind(("127.0.0.1", second)).is_err());
        }
        assert!(Command::new("./program").current_dir(&folder).status().unwrap().success(), "{section}");
        let output = receiver.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), PRINTED, "{section}");
        if section == "UDP" {
            interrupt(&child);
        }
        let report = report(child);
        assert_eq!(written(&report)["samples"], 10_000, "{report}");
        assert_eq!(written(&report)["missing"], 0, "{report}");
    }
}

/// Reads samples of the tone, asserts that the first one is whole, and leaves within a sample.
fn read_and_leave(mut reader: impl Read) {
    let mut bytes = vec![0; 4 * 500 + 2];
    reader.read_exact(&mut bytes).unwrap();
    let samples = bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    // From the middle of a sample on, half of the numbers would be out of this range.
    assert!(samples.into_iter().all(|sample| sample.abs() <= 1.0));
}

#[test]
fn a_reader_of_a_pipe_that_leaves_is_followed_by_the_next_one() {
    let file = waveform(TONE, "type = \"file-sink\"\nproperties = { path = \"pipe\" }");
    assert!(Command::new("mkfifo").arg(file.path("pipe")).status().unwrap().success());
    let child = spawn(&file);
    for _ in 0..3 {
        read_and_leave(std::fs::File::open(file.path("pipe")).unwrap());
        let folder = format!("/proc/{}/fd", process(&file, "sink").as_raw_pid());
        wait_until("the sink has noticed it", || {
            let mut open = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path().read_link());
            !open.any(|path| path.is_ok_and(|path| path == file.path("pipe")))
        });
    }
    interrupt(&child);
    let report = report(child);
    assert!(written(&report)["missing"].as_u64() > Some(0), "{report}");
    assert!(
        written(&report)["places"].as_u64() > Some(0) && written(&report)["problem"].is_null(),
        "{report}"
    );
    all_is_counted(&report);
}

#[test]
fn a_client_of_tcp_that_leaves_is_followed_by_the_next_one() {
    let port = free_port();
    let file =
        waveform(TONE, &format!("type = \"tcp-sink\"\nproperties = {{ address = \"127.0.0.1:{port}\" }}"));
    let child = spawn(&file);
    runs(&file);
    for _ in 0..3 {
        read_and_leave(TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
    interrupt(&child);
    let report = report(child);
    assert!(written(&report)["places"].as_u64() > Some(0), "{report}");
    all_is_counted(&report);
}

#[test]
fn a_client_of_tcp_that_leaves_ends_the_sink_if_asked_to() {
    let port = free_port();
    let sink = format!(
        "type = \"tcp-sink\"\nproperties = {{ address = \"127.0.0.1:{port}\", reader_gone = \"end\" }}"
    );
    let file = waveform(TONE, &sink);
    let child = spawn(&file);
    runs(&file);
    read_and_leave(TcpStream::connect(("127.0.0.1", port)).unwrap());
    wait_until("the sink has ended", || component(&file, "sink")["state"] == "ended");
    interrupt(&child);
    let report = report(child);
    let problem = "its reader has closed it; any later packets are missing, too, and not counted";
    assert_eq!(written(&report)["problem"], problem, "{report}");
}

#[test]
fn a_peer_of_tcp_that_is_silent_holds_up_no_stop() {
    let [port, other] = [(); 2].map(|()| free_port());
    let source = format!("type = \"tcp-source\"\nproperties = {{ address = \"127.0.0.1:{port}\" }}");
    let sink = format!("type = \"tcp-sink\"\nproperties = {{ address = \"127.0.0.1:{other}\" }}");
    // Without a peer, with a peer that sends nothing, and with a peer that takes nothing.
    let file = waveform(&source, &sink);
    let child = spawn(&file);
    runs(&file);
    interrupt(&child);
    report(child);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let child = spawn(&file);
    runs(&file);
    let _sender = listener.accept().unwrap();
    let _client = TcpStream::connect(("127.0.0.1", other)).unwrap();
    interrupt(&child);
    report(child);

    let tone = TONE.replace("rate = 1e6, p", "p");
    let file = waveform(&tone, &sink);
    let child = spawn(&file);
    runs(&file);
    let client = TcpStream::connect(("127.0.0.1", other)).unwrap();
    let (mut before, mut equal) = (0, 0);
    while equal < 10 || before == 0 {
        let now = packets(&file);
        equal = if now == before { equal + 1 } else { 0 };
        before = now;
    }
    interrupt(&child);
    let report = report(child);
    all_is_counted(&report);
    drop(client);
}

#[test]
fn samples_of_a_sender_arrive_whole_up_to_the_partial_one() {
    for (bytes, fails) in [(40_000, false), (40_003, true)] {
        let port = free_port();
        let source = format!(
            "type = \"tcp-source\"\nproperties = {{ address = \"127.0.0.1:{port}\", samples = \"f32\", output = \"f32\", packet = 64 }}"
        );
        let file = waveform(&source, "type = \"file-sink\"\nproperties = { path = \"out.f32\" }");
        // The source connects as soon as this side listens.
        let child = spawn(&file);
        runs(&file);
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (mut sender, _) = listener.accept().unwrap();
        let sent: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        sent.chunks(33).for_each(|part| sender.write_all(part).unwrap());
        drop(sender);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(i32::from(fails)), "{text}");
        assert_eq!(text.contains("has ended within a sample, behind 3 bytes"), fails, "{text}");
        assert!(std::fs::read(file.path("out.f32")).unwrap() == sent[..40_000], "the samples are others");
    }
}

#[test]
fn a_source_waits_for_the_next_sender_if_asked_to() {
    let port = free_port();
    let source = format!(
        "type = \"tcp-source\"\nproperties = {{ address = \"127.0.0.1:{port}\", bind = true, samples = \"f32\", output = \"f32\", \
         sender_gone = \"wait\" }}"
    );
    let file = waveform(&source, "type = \"file-sink\"\nproperties = { path = \"out.f32\" }");
    let child = spawn(&file);
    runs(&file);
    for killed in [false, true] {
        let mut python = Command::new("python3");
        let send = "import socket, sys, time\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
                    s.sendall(bytes(4001)); print(flush=True); time.sleep(1000 * int(sys.argv[2]))";
        python.args(["-c", send, &port.to_string(), &u8::from(killed).to_string()]).stdout(Stdio::piped());
        let mut sender = python.spawn().unwrap();
        sender.stdout.take().unwrap().read_exact(&mut [0; 1]).unwrap();
        if killed {
            sender.kill().unwrap();
        }
        sender.wait().unwrap();
    }
    wait_until("both connections have ended within a sample", || {
        file.property("source.partial")["value"] == 2 && file.property("source.connections")["value"] == 2
    });
    interrupt(&child);
    let report = report(child);
    // The number of samples between the senders is unknown.
    let file = written(&report);
    assert_eq!((&file["samples"], &file["missing"], &file["places"]), (&2000.into(), &0.into(), &1.into()));
    // Each of them left an incomplete sample.
    let source = &reported(&report, "source")["files"][0];
    assert_eq!(
        (&source["samples"], &source["missing"], &source["places"]),
        (&2000.into(), &2.into(), &2.into())
    );
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = UdpSocket::bind(address).unwrap();
    for (source, sink) in [
        (TONE.to_owned(), format!("type = \"tcp-sink\"\nproperties = {{ address = \"{address}\" }}")),
        (
            format!("type = \"udp-source\"\nproperties = {{ address = \"{address}\" }}"),
            "type = \"null-sink\"".to_owned(),
        ),
    ] {
        let file = waveform(&source, &sink);
        let output = spawn(&file).wait_with_output().unwrap();
        let remedy = format!("`ss -ltunp 'sport = {}'`", address.port());
        Run::of(output).says(1, &["Address already in use", &address.to_string(), &remedy]);
    }
    drop(receiver);
}

#[test]
fn datagrams_of_other_sizes_are_left_out_and_drops_are_counted() {
    let port = free_port();
    let source = format!(
        "type = \"udp-source\"\nproperties = {{ address = \"127.0.0.1:{port}\", samples = \"f32\", output = \"f32\" }}"
    );
    let file = waveform(&source, "type = \"file-sink\"\nproperties = { path = \"out.f32\" }");
    let child = spawn(&file);
    runs(&file);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(("127.0.0.1", port)).unwrap();
    wait_until("it receives", || {
        let _ = sender.send(&[0; 8]);
        packets(&file) > 0
    });
    for bytes in [0, 1, 7, 65_507] {
        sender.send(&vec![0; bytes]).unwrap();
    }
    wait_until("they are counted", || file.property("source.refused")["value"] == 4);
    // A component that is stopped takes nothing, and the queue of the system is soon full.
    let pid = process(&file, "source");
    kill_process(pid, Signal::STOP).unwrap();
    for _ in 0..20_000 {
        let _ = sender.send(&[0; 400]);
    }
    kill_process(pid, Signal::CONT).unwrap();
    wait_until("the drops are counted", || {
        sender.send(&[0; 400]).unwrap();
        file.property("source.dropped")["value"].as_u64() > Some(0)
    });
    let dropped = file.property("source.dropped")["value"].as_u64().unwrap();
    interrupt(&child);
    let report = report(child);
    // Refused samples count, also incomplete ones. All datagrams behind the first ones have 100
    // samples.
    let refused = 1 + 2 + 16_377;
    assert_eq!(written(&report)["missing"], refused + 100 * dropped, "{report}");
    assert_eq!(written(&report)["places"], 2, "{report}");
    let received = &reported(&report, "source")["files"][0];
    assert_eq!(received["missing"], written(&report)["missing"], "{report}");
    assert_eq!(received["datagrams_missing"], 4 + dropped, "{report}");
}

#[test]
fn samples_that_wait_at_a_stop_are_sent_or_missing() {
    for protocol in ["tcp", "udp"] {
        let port = free_port();
        let bind = if protocol == "tcp" { "bind = true, " } else { "" };
        let source = format!(
            "type = \"{protocol}-source\"\nproperties = {{ address = \"127.0.0.1:{port}\", {bind}samples = \"f32\", \
             output = \"f32\" }}"
        );
        let file = waveform(&source, "type = \"null-sink\"");
        let child = spawn(&file);
        runs(&file);
        let pid = process(&file, "source");
        let send = |bytes: &[u8]| match protocol {
            "tcp" => {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                wait_until("it is connected", || file.property("source.connections")["value"] == 1);
                kill_process(pid, Signal::STOP).unwrap();
                stream.write_all(bytes).unwrap();
                Some(stream)
            }
            _ => {
                kill_process(pid, Signal::STOP).unwrap();
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                for part in bytes.chunks(400) {
                    socket.send_to(part, ("127.0.0.1", port)).unwrap();
                }
                None
            }
        };
        let stream = send(&[0; 40_000]);
        interrupt(&child);
        wait_until("it is stopping", || file.json("waveforms", &[])["waveforms"][0]["phase"] != "running");
        kill_process(pid, Signal::CONT).unwrap();
        let report = report(child);
        let received = &reported(&report, "source")["files"][0];
        let count = |key: &str| received[key].as_u64().unwrap();
        assert_eq!(count("samples") + count("missing"), 10_000, "{report}");
        drop(stream);
    }
}

#[test]
fn samples_of_integers_are_converted_to_floats() {
    for protocol in ["tcp", "udp"] {
        let port = free_port();
        let bind = if protocol == "tcp" { "bind = true, " } else { "" };
        let source = format!(
            "type = \"{protocol}-source\"\nproperties = {{ address = \"127.0.0.1:{port}\", {bind}samples = \"cs16\" }}"
        );
        let file = waveform(&source, "type = \"file-sink\"\nproperties = { path = \"out.cf32\" }");
        let child = spawn(&file);
        runs(&file);
        let sent: Vec<u8> = [16_384_i16, -32_768, 0, 8192].iter().flat_map(|n| n.to_le_bytes()).collect();
        if protocol == "tcp" {
            TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(&sent).unwrap();
        } else {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&sent, ("127.0.0.1", port)).unwrap();
            wait_until("it receives", || packets(&file) > 0);
            interrupt(&child);
        }
        assert_eq!(written(&report(child))["samples"], 2);
        let floats: Vec<u8> = [0.5_f32, -1.0, 0.0, 0.25].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(std::fs::read(file.path("out.cf32")).unwrap(), floats, "{protocol}");
    }
}

#[test]
fn a_type_of_data_is_never_the_remedy() {
    let fifo = |output: &str| {
        let source = "type = \"file-source\"\nproperties = { path = \"to.fifo\", format = \"s16\"";
        let file = waveform(&format!("{source}, output = \"{output}\" }}"), "type = \"fft\"");
        assert!(Command::new("mkfifo").arg(file.path("to.fifo")).status().unwrap().success());
        crate::common::run(&["check", file.path("file.toml").to_str().unwrap()])
    };
    fifo("s16").says(2, &["set the property `output` of `source` to \"f32\""]);
    fifo("cf32").says(2, &["a pipe of s16 samples cannot be sent as cf32"]);
    let source = |more: &str| {
        format!(
            "type = \"udp-source\"\nproperties = {{ address = \"127.0.0.1:5555\", samples = \"s16\"{more} }}"
        )
    };
    let file = waveform(&source(""), "type = \"null-sink\"");
    let remedy = "set the property `output` to \"s16\", or to \"f32\" to convert them";
    crate::common::run(&["check", file.path("file.toml").to_str().unwrap()])
        .says(2, &["samples of the type s16 cannot be sent as cf32", remedy]);
    let file = waveform(&source(", output = \"s16\""), "type = \"fft\"");
    crate::common::run(&["check", file.path("file.toml").to_str().unwrap()])
        .says(2, &["set the property `output` of `source` to \"f32\""]);
}

#[test]
fn a_second_sender_is_reported_once() {
    let port = free_port();
    let file = waveform(
        &format!("type = \"udp-source\"\nproperties = {{ address = \"127.0.0.1:{port}\" }}"),
        "type = \"null-sink\"",
    );
    let child = spawn(&file);
    runs(&file);
    let senders = [0; 3].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    for sender in senders.iter().chain(&senders) {
        sender.send_to(&[0; 8], ("127.0.0.1", port)).unwrap();
    }
    wait_until("they are counted", || file.property("source.senders")["value"] == 3);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("another program sends, from 127.0.0.1:").count(), 1, "{text}");
    assert!(text.contains(&format!("listening at udp://127.0.0.1:{port}")), "{text}");
}

#[test]
fn an_address_is_printed_before_the_waveform_runs() {
    let [port, other] = [(); 2].map(|()| free_port());
    for end in [format!("tcp-sink\"\nproperties = {{ address = \"127.0.0.1:{port}\" }}"), {
        // The source is the end that listens here.
        "null-sink\"".to_string()
    }] {
        let source = match end.starts_with("null") {
            true => format!("type = \"udp-source\"\nproperties = {{ address = \"127.0.0.1:{other}\" }}"),
            false => TONE.to_string(),
        };
        let file = waveform(&source, &format!("type = \"{end}"));
        let mut command = stripline();
        command.args(["run", file.path("file.toml").to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
        while !text.contains(" is running") {
            assert!(errors.read_line(&mut text).unwrap() > 0, "{text}");
        }
        assert!(text.contains("listening at "), "{text}");
        interrupt(&child);
        errors.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_name_without_an_address_is_reported_once() {
    let file = waveform(
        "type = \"tcp-source\"\nproperties = { address = \"radio.invalid:5555\", insecure = true }",
        "type = \"null-sink\"",
    );
    let mut child = spawn(&file);
    let mut text = String::new();
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    // The wait is reported a second later.
    while !text.contains("waiting for a program that listens at radio.invalid") {
        assert!(errors.read_line(&mut text).unwrap() > 0, "{text}");
    }
    interrupt(&child);
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("the name is looked up again and again").count(), 1, "{text}");
    child.wait().unwrap();
}

fn packets(file: &File) -> u64 {
    file.json("waveforms", &[])["waveforms"][0]["packets"].as_u64().unwrap()
}

fn component(file: &File, name: &str) -> Value {
    let listed = file.json("waveforms", &[]);
    let mut components = listed["waveforms"][0]["components"].as_array().unwrap().iter();
    components.find(|component| component["name"] == name).unwrap().clone()
}

fn process(file: &File, name: &str) -> Pid {
    let pid = component(file, name)["pid"].as_i64().unwrap();
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

#[test]
fn datagrams_that_no_program_receives_are_missing() {
    let port = free_port();
    let tone = TONE.replace("packet", "duration_s = 0.1, packet");
    let file =
        waveform(&tone, &format!("type = \"udp-sink\"\nproperties = {{ address = \"127.0.0.1:{port}\" }}"));
    let output: Output = spawn(&file).wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&written(&report)["samples"], &written(&report)["missing"]), (&0.into(), &100_000.into()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("100,000 samples missing"), "{text}");
}
