//! Tests of `impair` with plain programs at both ends: this file, started again, uses sockets of
//! the standard library.
//!
//! If the system allows no network namespaces or TAP devices, the program reports this, and the
//! tests check the report.
#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);
const PORT: u16 = 7000;
/// A wait that takes longer counts as a hang.
const TIMEOUT: Duration = Duration::from_secs(30);
const DATAGRAMS: u64 = 4000;
/// The maximum number of datagrams in transit, so that no socket buffer is full.
const IN_TRANSIT: u64 = 32;
/// The number of the datagram that ends the stream of a sender.
const LAST: u64 = u64::MAX;
/// The environment variable that holds the role when this program is started again.
const ROLE: &str = "STRIPLINE_IMPAIR_TEST_ROLE";
/// The exit code of a system that lacks a requirement.
const NOT_POSSIBLE: i32 = 77;

fn impair(options: &[&str], role_a: &str, role_b: &str) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stripline-torture"));
    command.arg("impair").args(options);
    for role in [role_a, role_b] {
        let variable = format!("{ROLE}={role}");
        command.args(["--", "env", &variable, this.to_str().unwrap(), "--exact", "play", "--nocapture"]);
    }
    command.output().unwrap()
}

/// Runs two roles. Returns the counts of frames from A to B and the lines that the roles print;
/// `None` if this is not possible on this system.
fn run(options: &[&str], role_a: &str, role_b: &str) -> Option<(Counts, String)> {
    let output = impair(options, role_a, role_b);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(NOT_POSSIBLE) {
        assert!(text.contains("NOT POSSIBLE here"), "{text}");
        println!("NOT RUN: {text}");
        return None;
    }
    assert!(output.status.success(), "{text}{printed}");
    assert!(text.contains("impair: seed "), "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix("impair: a to b: ")).unwrap();
    let counts = Counts::parse(line);
    assert_eq!(counts.of("dropped"), 0, "{line}");
    assert_eq!(counts.of("not"), 0, "{line}");
    let sum = counts.of("lost") + counts.of("refused") + counts.of("passed") + counts.of("on");
    assert_eq!(counts.of("frames") + counts.of("duplicated"), sum, "{line}");
    Some((counts, printed))
}

/// The counts of a line, by the word that follows each.
struct Counts(Vec<(String, u64)>);

impl Counts {
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
        let counts = words.windows(2).filter_map(|pair| Some((pair[1].to_string(), pair[0].parse().ok()?)));
        Self(counts.collect())
    }

    fn of(&self, word: &str) -> u64 {
        self.0.iter().find(|(name, _)| name == word).unwrap().1
    }
}

/// Returns the numbers that a receiver prints: received datagrams, duplicates, and datagrams that
/// another overtook.
fn result(printed: &str) -> [u64; 3] {
    let line = printed.lines().find_map(|line| line.split("RESULT ").nth(1)).unwrap();
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn without_faults_every_datagram_arrives_once_and_in_order() {
    let Some((counts, printed)) = run(&[], "udp-send", "udp-receive") else { return };
    assert_eq!(result(&printed), [DATAGRAMS, 0, 0]);
    for fault in ["lost", "cut", "duplicated", "reordered", "delayed", "refused"] {
        assert_eq!(counts.of(fault), 0, "{fault}");
    }
}

#[test]
fn datagrams_are_lost_repeated_and_overtaken_by_their_shares() {
    let options = ["--loss", "10", "--duplicate", "5", "--reorder", "25", "--only", "udp", "--seed", "7"];
    let Some((counts, printed)) = run(&options, "udp-send", "udp-receive") else { return };
    let [received, repeated, overtaken] = result(&printed);
    // There is one frame per datagram. A few frames come from other parts of the system.
    let lost = DATAGRAMS - received;
    assert!((280..=520).contains(&lost) && counts.of("lost") >= lost, "{lost} lost");
    assert!((100..=300).contains(&repeated) && counts.of("duplicated") >= repeated, "{repeated} repeated");
    assert!((400..=1300).contains(&overtaken), "{overtaken} overtaken");
}

#[test]
fn cut_datagrams_do_not_arrive() {
    let options = ["--cut", "20", "--only", "udp"];
    let Some((counts, printed)) = run(&options, "udp-send", "udp-receive") else { return };
    let [received, _, _] = result(&printed);
    assert!((600..=1000).contains(&(DATAGRAMS - received)), "{received} arrived");
    assert!(counts.of("cut") >= DATAGRAMS - received);
}

#[test]
fn a_tcp_stream_arrives_whole_whatever_happens_to_its_frames() {
    let options = ["--loss", "3", "--duplicate", "5", "--reorder", "25", "--cut", "1", "--delay-ms", "0..1"];
    let Some((counts, _)) = run(&options, "tcp-serve", "tcp-send") else { return };
    assert!(counts.of("frames") > 0);
}

#[test]
fn multicast_reaches_the_other_side() {
    let Some((counts, printed)) = run(&["--rate", "500"], "multicast-send", "multicast-receive") else {
        return;
    };
    assert_eq!(result(&printed), [DATAGRAMS, 0, 0]);
    assert!(counts.of("delayed") >= DATAGRAMS);
}

#[test]
fn packets_through_an_impaired_link_are_all_accounted_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["network", "--packets", "400", "--stop-ms", "50", "--only", "loss-5", "--seed", "3"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NOT_POSSIBLE) {
        println!("NOT RUN: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["cells"].as_array().unwrap().len(), 4, "{report:#}");
    // No cell has this name.
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["network", "--only", "loss-6"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no cell has `loss-6` in its name"));
}

#[test]
fn a_command_that_fails_ends_the_other() {
    let output = impair(&[], "fail", "wait");
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(NOT_POSSIBLE) {
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("command A ended: exit status: 101"), "{text}");
    }
}

#[test]
fn bad_options_are_refused() {
    for (options, complaint) in [
        (vec!["--loss", "101", "--", "true", "--", "true"], "is not from 0 to 100 percent"),
        (vec!["--delay-ms", "5..1", "--", "true", "--", "true"], "the first time is the longer one"),
        (vec!["--", "true"], "give two commands"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
            .arg("impair")
            .args(options)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(complaint), "{text}");
    }
}

/// Plays a role at one end, if `impair` has started this program for that.
#[test]
fn play() {
    match std::env::var(ROLE).as_deref() {
        Ok("udp-send") => send_datagrams(SocketAddr::from((Ipv4Addr::new(10, 77, 0, 2), PORT))),
        Ok("udp-receive") => receive_datagrams(&bind()),
        Ok("multicast-send") => send_datagrams(SocketAddr::from((GROUP, PORT))),
        Ok("multicast-receive") => {
            let socket = bind();
            socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).unwrap();
            receive_datagrams(&socket);
        }
        Ok("tcp-serve") => {
            let listener = TcpListener::bind((A, PORT)).unwrap();
            let mut received = Vec::new();
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_to_end(&mut received).unwrap();
            assert!(received == stream_bytes());
            stream.write_all(&received[..1000]).unwrap();
        }
        Ok("tcp-send") => {
            let mut stream = connect();
            stream.write_all(&stream_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).unwrap();
            assert!(reply == stream_bytes()[..1000]);
        }
        Ok("fail") => panic!("as it must"),
        Ok("wait") => std::thread::sleep(TIMEOUT),
        _ => {}
    }
}

fn stream_bytes() -> Vec<u8> {
    (0..500_000u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn connect() -> TcpStream {
    let give_up = Instant::now() + TIMEOUT;
    loop {
        match TcpStream::connect((A, PORT)) {
            Ok(stream) => return stream,
            Err(error) if Instant::now() > give_up => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Sends numbered datagrams. From time to time the receiver sends the count back, so that not more
/// datagrams are in transit than fit into a buffer. The reply may be lost, or the datagram that
/// causes it; in that case a pause follows.
fn send_datagrams(to: SocketAddr) {
    let socket = UdpSocket::bind((A, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 8];
    // The receiver may start later. The receiver acknowledges a hello datagram before the stream
    // begins.
    let give_up = Instant::now() + TIMEOUT;
    let hello = |number: u64| socket.send_to(&number.to_le_bytes(), to);
    while hello(LAST - 1).is_err() || socket.recv(&mut buffer).is_err() {
        assert!(Instant::now() < give_up, "the receiver does not reply");
    }
    for number in 0..DATAGRAMS {
        let mut datagram = vec![number as u8; 200];
        datagram[..8].copy_from_slice(&number.to_le_bytes());
        socket.send_to(&datagram, to).unwrap();
        if number % IN_TRANSIT == IN_TRANSIT - 1 {
            let _ = socket.recv(&mut buffer);
        }
    }
    let give_up = Instant::now() + TIMEOUT;
    loop {
        socket.send_to(&LAST.to_le_bytes(), to).unwrap();
        if socket.recv(&mut buffer).is_ok() && u64::from_le_bytes(buffer) == LAST {
            return;
        }
        assert!(Instant::now() < give_up, "the receiver does not end");
    }
}

fn receive_datagrams(socket: &UdpSocket) {
    let mut seen = vec![false; DATAGRAMS as usize];
    let (mut highest, mut received, mut repeated, mut overtaken) = (0, 0, 0, 0);
    let mut buffer = [0; 2000];
    loop {
        let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
        let number = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        if number >= LAST - 1 {
            // The last reply may be lost as well, so several copies are sent.
            let replies = if number == LAST { 20 } else { 1 };
            (0..replies).for_each(|_| drop(socket.send_to(&number.to_le_bytes(), from)));
            if number == LAST {
                break;
            }
            continue;
        }
        assert!(bytes == 200 && buffer[8..200].iter().all(|byte| *byte == number as u8), "damaged");
        match std::mem::replace(&mut seen[number as usize], true) {
            true => repeated += 1,
            false => received += 1,
        }
        overtaken += u64::from(number < highest);
        highest = highest.max(number);
        if number % IN_TRANSIT == IN_TRANSIT - 1 {
            let _ = socket.send_to(&number.to_le_bytes(), from);
        }
    }
    println!("\nRESULT {received} {repeated} {overtaken}");
}
