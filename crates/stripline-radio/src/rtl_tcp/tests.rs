//! `rtl-tcp-source` against a server of the test, byte by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::ioctl_fionread;
use stripline::call::{CallError, ClientOptions};
use stripline::component::Value;
use stripline::component::harness::{Harness, HarnessRun};
use stripline::node::{Node, Subscriber};
use stripline::payload::TypeName;
use stripline::{ClockReference, Complex, StreamClock};

use super::client_queue::ClientQueue;
use super::protocol::Header;
use super::server_link::{Arrival, ServerLink, ServerSettings};
use super::{RtlTcpSink, RtlTcpSource};
use crate::tuner::{TunerClient, TunerError};

/// The header of an R820T with 29 gains.
const HEADER: &[u8; 12] = b"RTL0\0\0\0\x05\0\0\0\x1d";

/// A server with a listening socket.
struct Server(TcpListener);

impl Server {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Accepts a client, and sends the bytes of a header.
    fn accept(&self, header: &[u8]) -> TcpStream {
        let (mut socket, _) = self.0.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.write_all(header).unwrap();
        socket
    }
}

fn source(server: &Server, properties: &[(&str, Value)]) -> HarnessRun {
    let harness = Harness::of::<RtlTcpSource>().property("address", server.address()).property("tuner", "");
    let with = |harness: Harness, (name, value): &(&str, Value)| harness.property(name, value.clone());
    properties.iter().fold(harness, with).start().unwrap()
}

/// Reads the next commands of a client.
fn commands<const N: usize>(socket: &mut TcpStream) -> [[u8; 5]; N] {
    [(); N].map(|()| {
        let mut command = [0; 5];
        socket.read_exact(&mut command).unwrap();
        command
    })
}

/// The commands with which a client begins: rate, correction, frequency, manual gain off, AGC on.
const FIRST: [[u8; 5]; 5] = [
    [2, 0, 0x1e, 0x84, 0x80],
    [5, 0, 0, 0, 0],
    [1, 0x40, 0xf8, 0x14, 0x80],
    [3, 0, 0, 0, 0],
    [8, 0, 0, 0, 1],
];

/// Receives samples with their indexes, until there are `count`. Checks that all arrived before
/// now.
fn take(output: &mut Subscriber<Complex<u8>>, count: usize) -> (Vec<Complex<u8>>, u64, Vec<f64>) {
    let (mut samples, mut first, mut frequencies) = (Vec::new(), None, Vec::new());
    while samples.len() < count {
        let packet = output.receive().unwrap().expect("more samples");
        let index = *first.get_or_insert(packet.sample_index());
        assert_eq!(packet.sample_index(), index + samples.len() as u64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let age_ns = now - packet.time_ns();
        assert!((1..60_000_000_000).contains(&age_ns), "{age_ns}");
        assert_eq!(packet.stream().clock, Some(StreamClock::new(ClockReference::Host)));
        samples.extend_from_slice(&packet);
        frequencies.extend(packet.iter().map(|_| packet.stream().center_frequency_hz.unwrap()));
    }
    (samples, first.unwrap(), frequencies)
}

fn ramp(from: usize, samples: usize) -> Vec<u8> {
    (2 * from..2 * (from + samples)).map(|n| n as u8).collect()
}

fn bytes(samples: &[Complex<u8>]) -> Vec<u8> {
    samples.iter().flat_map(|sample| [sample.re, sample.im]).collect()
}

/// Compares samples, commands and descriptions with a server that is written by hand.
#[test]
fn samples_and_commands_have_these_bytes() {
    let server = Server::new();
    let mut run = source(&server, &[]);
    let mut output = run.output::<Complex<u8>>("out").unwrap();
    let mut socket = server.accept(HEADER);
    assert_eq!(commands(&mut socket), FIRST);
    // A sample arrives in two parts.
    socket.write_all(&ramp(0, 1000)[..1001]).unwrap();
    let (samples, first, _) = take(&mut output, 500);
    assert_eq!((bytes(&samples), first), (ramp(0, 500), 0));
    socket.write_all(&ramp(0, 1000)[1001..]).unwrap();
    let (samples, first, frequencies) = take(&mut output, 500);
    assert_eq!((bytes(&samples), first), (ramp(500, 500), 500));
    assert_eq!(frequencies, [1090e6; 500]);

    run.set("frequency", 433.92e6).unwrap();
    run.set("agc", false).unwrap();
    run.set("gain", 21.0).unwrap();
    run.set("correction", -2).unwrap();
    run.set("bias_tee", true).unwrap();
    assert_eq!(
        commands(&mut socket),
        [
            [1, 0x19, 0xdd, 0x18, 0x00],
            [3, 0, 0, 0, 1],
            [8, 0, 0, 0, 0],
            // 40.2 dB is next to the default of 40 dB, and 20.7 dB to 21 dB.
            [4, 0, 0, 1, 0x92],
            [4, 0, 0, 0, 207],
            [5, 0xff, 0xff, 0xff, 0xfe],
            [0x0e, 0, 0, 0, 1],
        ]
    );
    socket.write_all(&ramp(1000, 10)).unwrap();
    let (samples, first, frequencies) = take(&mut output, 10);
    assert_eq!((bytes(&samples), first), (ramp(1000, 10), 1000));
    assert_eq!(frequencies, [433.92e6; 10]);
    assert_eq!(run.values()["device"], Value::Text("R820T".into()));
    run.stop();
    drop(output);
    run.finish().unwrap();
}

/// Retunes while samples wait in the socket: the description changes behind them, and two changes
/// at one sample are one.
#[test]
fn samples_that_had_arrived_keep_their_description() {
    let server = Server::new();
    let socket = TcpStream::connect(server.address()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut peer = server.accept(b"");
    let settings =
        ServerSettings { frequency_hz: 100, rate_hz: 2, gain: 0, agc: true, correction: 0, bias_tee: false };
    let link = ServerLink::new(&server.address(), settings);
    let arrived = socket.try_clone().unwrap();
    link.begin(socket, Header::R820T).unwrap();
    // An odd number of bytes: the command comes within a sample.
    peer.write_all(&ramp(0, 501)[..1001]).unwrap();
    while ioctl_fionread(&arrived).unwrap() < 1001 {
        std::thread::yield_now();
    }
    let mut out = [0; 400];
    assert!(matches!(link.read(&mut out).unwrap(), Arrival::Samples(400)));
    link.change(|settings| settings.frequency_hz = 200).unwrap();
    link.change(|settings| settings.frequency_hz = 300).unwrap();
    peer.write_all(&[ramp(500, 1)[1], 7, 7]).unwrap();
    let mut found = Vec::new();
    let settings = loop {
        match link.read(&mut out).unwrap() {
            Arrival::Samples(count) => found.extend_from_slice(&out[..count]),
            Arrival::Settings(settings) => break settings,
            Arrival::Nothing => {}
            Arrival::End(_) => panic!("the peer is there"),
        }
    };
    assert_eq!((found, settings.frequency_hz), (ramp(200, 301), 300));
    drop(peer);
    while !matches!(link.read(&mut out), Ok(Arrival::End(_)) | Err(_)) {}
    // Without a server, the settings are for the next one.
    link.end();
    assert_eq!(link.change(|settings| settings.frequency_hz = 400).unwrap().frequency_hz, 400);
}

/// Tunes by the service, with values, refusals and the end of the server.
#[test]
fn the_tuner_sends_commands() {
    let server = Server::new();
    let service = format!("tuner-{}", std::process::id());
    let harness = Harness::of::<RtlTcpSource>().property("address", server.address());
    let mut run = harness.property("tuner", service.as_str()).start().unwrap();
    let mut output = run.output::<Complex<u8>>("out").unwrap();
    let mut socket = server.accept(HEADER);
    let _: [[u8; 5]; 5] = commands(&mut socket);
    socket.write_all(&ramp(0, 10)).unwrap();
    take(&mut output, 10);
    let node = Node::new().unwrap();
    let tuner = TunerClient::connect(&node, &service, ClientOptions::default()).unwrap();
    assert_eq!(tuner.frequency().unwrap(), 1090e6);
    assert_eq!(tuner.set_frequency(100e6, None).unwrap(), 100e6);
    assert_eq!(tuner.set_rate(1e6, None).unwrap(), 1e6);
    assert_eq!(tuner.set_gain(30.0, None).unwrap(), 29.7);
    assert!(!tuner.automatic_gain().unwrap());
    assert_eq!(
        commands(&mut socket),
        [[1, 5, 0xf5, 0xe1, 0], [2, 0, 0x0f, 0x42, 0x40], [3, 0, 0, 0, 1], [8, 0, 0, 0, 0], [4, 0, 0, 1, 41],]
    );
    let abilities = tuner.abilities().unwrap();
    assert!(abilities.device.starts_with("R820T at "), "{abilities:?}");
    assert_eq!(abilities.gain_db.len(), 29);
    let refused = |outcome| match outcome {
        Err(CallError::User(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(tuner.set_frequency(5e9, None)), TunerError::OutOfRange { .. }));
    assert!(matches!(refused(tuner.set_gain(60.0, None)), TunerError::OutOfRange { .. }));
    assert!(matches!(refused(tuner.set_frequency(1e8, Some(1))), TunerError::NotTimed { .. }));
    assert!(matches!(refused(tuner.bandwidth()), TunerError::NotSupported { .. }));
    // A change of one property keeps the settings of the service.
    run.set("correction", 3).unwrap();
    socket.write_all(&ramp(10, 10)).unwrap();
    let (_, _, frequencies) = take(&mut output, 10);
    assert_eq!(frequencies, [100e6; 10]);

    drop(socket);
    while !matches!(tuner.frequency(), Err(CallError::User(TunerError::Gone { .. }))) {
        std::thread::yield_now();
    }
    // The next connection gets the settings of the service.
    let mut socket = server.accept(HEADER);
    let [rate, _, frequency, ..]: [[u8; 5]; 6] = commands(&mut socket);
    assert_eq!((rate, frequency), ([2, 0, 0x0f, 0x42, 0x40], [1, 5, 0xf5, 0xe1, 0]));
    socket.write_all(&ramp(0, 10)).unwrap();
    let (_, first, _) = take(&mut output, 10);
    assert_eq!((first, &run.values()["connections"]), (0, &Value::Integer(2)));
    run.stop();
    drop(output);
    run.finish().unwrap();
}

/// Returns the error of a source, for a server that does this with the connection.
fn error_of(properties: &[(&str, Value)], serve: impl FnOnce(TcpStream)) -> String {
    let server = Server::new();
    let run = source(&server, properties);
    serve(server.accept(b""));
    run.finish_within(Duration::from_secs(20)).unwrap_err().to_string()
}

/// Reports the fault of a server, and ends.
#[test]
fn a_hostile_server_is_named() {
    let another = error_of(&[], |mut socket| {
        socket.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        socket.set_read_timeout(None).unwrap();
        let _ = socket.read(&mut [0]);
    });
    assert!(another.contains("begins with `HTTP` instead of `RTL0`"), "{another}");
    let truncated = error_of(&[], |mut socket| socket.write_all(&HEADER[..7]).unwrap());
    assert!(truncated.contains("ended, behind 7 of the 12 bytes"), "{truncated}");
    let silence = [("timeout_s", Value::Float(0.05))];
    let server = Server::new();
    let run = source(&server, &silence);
    let socket = server.accept(&HEADER[..4]);
    let hang = run.finish_within(Duration::from_secs(20)).unwrap_err().to_string();
    assert!(hang.contains("sent nothing for 0.05 s, behind 4 of the 12 bytes"), "{hang}");
    drop(socket);
}

/// Ends at the end of a server, if the property is set, and names a reset and a silence.
#[test]
fn the_end_of_a_server_can_end_the_stream() {
    let ends = ("server_gone", Value::Text("end".into()));
    let server = Server::new();
    let mut run = source(&server, std::slice::from_ref(&ends));
    let mut output = run.output::<Complex<u8>>("out").unwrap();
    let mut socket = server.accept(HEADER);
    assert_eq!(commands(&mut socket), FIRST);
    socket.write_all(&ramp(0, 100)).unwrap();
    take(&mut output, 100);
    drop(socket);
    assert!(output.receive().unwrap().is_none());
    run.finish().unwrap();

    let part = error_of(std::slice::from_ref(&ends), |mut socket| {
        socket.write_all(HEADER).unwrap();
        assert_eq!(commands(&mut socket), FIRST);
        socket.write_all(&[1]).unwrap();
    });
    assert!(part.contains("ended within a sample"), "{part}");
    // Bytes that were not read reset the connection.
    let reset = error_of(std::slice::from_ref(&ends), |mut socket| {
        socket.write_all(HEADER).unwrap();
        socket.peek(&mut [0]).unwrap();
    });
    assert!(reset.contains("reset"), "{reset}");
    let silence = [ends, ("timeout_s", Value::Float(0.05))];
    let server = Server::new();
    let run = source(&server, &silence);
    let mut socket = server.accept(HEADER);
    assert_eq!(commands(&mut socket), FIRST);
    let hang = run.finish_within(Duration::from_secs(20)).unwrap_err().to_string();
    assert!(hang.contains("has sent nothing for 0.05 s"), "{hang}");
}

/// Returns an address at which nothing listens.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Connects to a sink, and takes the header.
fn client(address: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut header = [0; 12];
    socket.read_exact(&mut header).unwrap();
    assert_eq!(&header, HEADER);
    socket
}

fn wait_for(run: &HarnessRun, property: &str, value: i64) {
    while run.values().get(property) != Some(&Value::Integer(value)) {
        std::thread::yield_now();
    }
}

/// Sends a ramp from the sink to the source, by the loopback.
#[test]
fn the_source_receives_the_samples_of_the_sink() {
    let address = free_address();
    let harness = Harness::of::<RtlTcpSink>().property("address", address.as_str());
    let mut sink = harness.payload("in", &TypeName::of::<Complex<u8>>()).start().unwrap();
    let mut input = sink.input::<Complex<u8>>("in").unwrap();
    let harness = Harness::of::<RtlTcpSource>().property("address", address.as_str()).property("tuner", "");
    let mut source = harness.property("server_gone", "end").start().unwrap();
    let mut output = source.output::<Complex<u8>>("out").unwrap();
    // The five commands at the start of a connection, which nothing takes.
    wait_for(&sink, "ignored", 5);
    let sent: Vec<Complex<u8>> = (0..100_000).map(|n| Complex::new(n as u8, (n >> 8) as u8)).collect();
    sent.chunks(1000).for_each(|part| input.send(part).unwrap());
    input.finish().unwrap();
    let (received, first, _) = take(&mut output, sent.len());
    assert_eq!(first, 0);
    assert!(received == sent, "the samples differ");
    assert!(output.receive().unwrap().is_none());
    let values = sink.finish().unwrap();
    assert_eq!((&values["clients"], &values["dropped"]), (&Value::Integer(1), &Value::Integer(0)));
    source.finish().unwrap();
}

/// Converts the numbers of each type to the bytes of a dongle.
#[test]
fn all_types_become_unsigned_bytes() {
    fn served<T: stripline::Sample>(samples: &[T]) -> Vec<u8> {
        let address = free_address();
        let harness = Harness::of::<RtlTcpSink>().property("address", address.as_str());
        let mut sink = harness.payload("in", &TypeName::of::<T>()).start().unwrap();
        let mut input = sink.input::<T>("in").unwrap();
        let mut socket = client(&address);
        input.send(samples).unwrap();
        input.finish().unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        sink.finish().unwrap();
        bytes
    }
    assert_eq!(served(&[Complex::new(0_u8, 255), Complex::new(127, 128)]), [0, 255, 127, 128]);
    assert_eq!(served(&[Complex::new(-128_i8, 127), Complex::new(0, 64)]), [0, 254, 128, 191]);
    assert_eq!(served(&[Complex::new(i16::MIN, i16::MAX), Complex::new(0, -1)]), [0, 255, 128, 127]);
    let floats = [Complex::new(-1.0_f32, 1.0), Complex::new(f32::NAN, 2.0), Complex::new(-3.0, 0.0)];
    assert_eq!(served(&floats), [0, 255, 128, 255, 0, 128]);
}

/// Drops the newest samples for a client that does not read, and counts them.
#[test]
fn samples_for_a_slow_client_are_counted() {
    let queue = ClientQueue::new(10).unwrap();
    assert_eq!((queue.push(&[0; 8]).without_client, queue.push(&[0; 8]).places), (4, 1));
    let address = free_address();
    let harness = Harness::of::<RtlTcpSink>().property("address", address.as_str()).property("buffer", 1000);
    let mut sink = harness.payload("in", &TypeName::of::<Complex<u8>>()).start().unwrap();
    let mut input = sink.input::<Complex<u8>>("in").unwrap();
    let mut socket = client(&address);
    let mut sent = 0_u64;
    let ramp: Vec<Complex<u8>> = (0..1000).map(|n| Complex::new(n as u8, n as u8)).collect();
    while sink.values().get("dropped").is_none_or(|dropped| *dropped == Value::Integer(0)) {
        input.send(&ramp).unwrap();
        sent += 1000;
    }
    input.finish().unwrap();
    // The client takes the rest: what it got and what was dropped are all samples.
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    let values = sink.finish().unwrap();
    let Value::Integer(dropped) = values["dropped"] else { panic!("{values:?}") };
    assert_eq!(bytes.len() as u64 / 2 + dropped as u64, sent);
}

/// Passes the commands of a client to the tuner of the sink's source, and counts the others.
#[test]
fn commands_of_a_client_reach_the_tuner() {
    let server = Server::new();
    let service = format!("commands-{}", std::process::id());
    let harness = Harness::of::<RtlTcpSource>().property("address", server.address());
    let source = harness.property("tuner", service.as_str()).start().unwrap();
    let mut dongle = server.accept(HEADER);
    let _: [[u8; 5]; 5] = commands(&mut dongle);

    let address = free_address();
    let harness = Harness::of::<RtlTcpSink>().property("address", address.as_str());
    let harness = harness.property("tuner", service.as_str()).payload("in", &TypeName::of::<Complex<u8>>());
    let mut sink = harness.start().unwrap();
    let input = sink.input::<Complex<u8>>("in").unwrap();
    let mut socket = client(&address);
    // A frequency in two parts, a gain by its place, a
    // gain without a place, power, and an unknown command.
    for part in [&[1, 5, 0xf5][..], &[0xe1, 0], &[0x0d, 0, 0, 0, 28], &[0x0d, 0, 0, 0, 29]] {
        socket.write_all(part).unwrap();
    }
    socket.write_all(&[0x0e, 0, 0, 0, 1, 0x77, 1, 2, 3, 4]).unwrap();
    let sent: [[u8; 5]; 4] = commands(&mut dongle);
    assert_eq!(sent, [[1, 5, 0xf5, 0xe1, 0], [3, 0, 0, 0, 1], [8, 0, 0, 0, 0], [4, 0, 0, 1, 0xf0]]);
    wait_for(&sink, "commands", 2);
    wait_for(&sink, "ignored", 3);
    // The next client gets a header, too.
    drop(socket);
    drop(client(&address));
    wait_for(&sink, "clients", 2);
    input.finish().unwrap();
    sink.finish().unwrap();
    source.stop();
    source.finish().unwrap();
}
