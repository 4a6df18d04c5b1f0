//! Tests of the sink: its datagrams are checked against the published limits of DIFI 1.1, and come
//! back through the source.

use stripline::Complex;
use stripline::component::Value;
use stripline::component::harness::Harness;

use super::super::context::Context;
use super::super::packet::{Fraction, Packet, PacketKind, Seconds};
use super::super::source::Vita49Source;
use super::*;

const TIME_NS: i64 = 1_700_000_000_000_000_000;

/// A checker of datagrams by the limits of DIFI 1.1 (IEEE-ISTO 4900-2021), as its Consortium
/// publishes them for the certification of sources.
#[derive(Default)]
struct DifiChecker {
    /// The next counts of data, contexts and versions.
    counts: [Option<u8>; 3],
    contexts: u64,
    samples: u64,
    bits: u32,
}

impl DifiChecker {
    fn check(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= 8972 && bytes.len().is_multiple_of(4), "{} bytes", bytes.len());
        let packet = Packet::parse(bytes).expect("a packet");
        let class = packet.class.expect("a class");
        assert_eq!(class.oui, 0x6a_621e);
        assert!(matches!(packet.stamp.seconds, Seconds::Utc(_) | Seconds::Gps(_)));
        assert!(matches!(packet.stamp.fraction, Fraction::Picoseconds(_)));
        assert_eq!((packet.pad_bits, packet.trailer), (0, None));
        // The reserved bits of the header.
        assert_eq!(bytes[0] & 0b110, 0);
        let kind = match packet.kind {
            PacketKind::Signal => {
                assert_eq!((class.information, class.packet, bytes[0] & 1), (0, 0, 0));
                assert!(self.contexts > 0, "a context comes first");
                self.samples += packet.payload.len() as u64 * 8 / u64::from(self.bits) / 2;
                0
            }
            PacketKind::Context => {
                assert_eq!((class.information, class.packet, bytes.len()), (0, 1, 27 * 4));
                assert!(packet.is_coarse);
                let fields = u32::from_be_bytes(packet.payload[..4].try_into().unwrap());
                assert_eq!(fields & 0x7fff_ffff, 0x7bb9_8000);
                let context = Context::parse(packet.payload).unwrap();
                assert_eq!(context.reference_point, Some(100));
                assert!((0.0..=100e9).contains(&context.rf_frequency_hz.unwrap()));
                let [format, repeats] =
                    [76, 80].map(|at| u32::from_be_bytes(packet.payload[at - 4..at].try_into().unwrap()));
                // Dense, complex, signed, no repeats and no tags.
                assert_eq!((format >> 16, repeats), (0xa000, 0));
                self.bits = (format & 63) + 1;
                assert!((4..=16).contains(&self.bits) && format >> 6 & 63 == format & 63);
                self.contexts += 1;
                1
            }
            PacketKind::ExtensionContext => {
                assert_eq!((class.information, class.packet, bytes.len()), (1, 4, 11 * 4));
                let words: Vec<u32> = packet
                    .payload
                    .chunks(4)
                    .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
                    .collect();
                assert_eq!((words[0] & 0x7fff_ffff, words[1], words[2]), (2, 12, 4));
                assert_eq!(words[3] & 0xffff, 1 << 10);
                2
            }
            other => panic!("{other}"),
        };
        let due = self.counts[kind].replace((packet.count + 1) & 15);
        assert!(due.is_none_or(|due| due == packet.count), "{}: {}", packet.kind, packet.count);
    }
}

fn receiver() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

fn described() -> StreamInfo {
    StreamInfo::new("iq").sample_rate_hz(1e6).center_frequency_hz(1090e6).keyword("gain_db", 30.0)
}

#[test]
fn datagrams_keep_the_limits_of_difi() {
    for format in ["cs16", "cs8"] {
        let (socket, address) = receiver();
        let mut run = Harness::of::<Vita49Sink>()
            .property("address", address)
            .property("format", format)
            .payload("in", &TypeName::of::<Complex<f32>>())
            .start()
            .unwrap();
        let mut input = run.input::<Complex<f32>>("in").unwrap();
        input.set_stream(described());
        let mut checker = DifiChecker::default();
        let receive = |checker: &mut DifiChecker| {
            let mut bytes = [0; 9000];
            let count = socket.recv(&mut bytes).unwrap();
            checker.check(&bytes[..count]);
        };
        for packet in 0..40 {
            let mut loan = input.loan(1000).unwrap();
            loan.fill(Complex::new(0.5, -0.5));
            loan.at_time_ns(TIME_NS + packet * 1_000_000).send().unwrap();
            while checker.samples + 2000 < (packet as u64 + 1) * 1000 {
                receive(&mut checker);
            }
        }
        // A change is described at once.
        let contexts = checker.contexts;
        input.set_stream(described().center_frequency_hz(100e6));
        input.send(&[Complex::new(2.0, 0.0); 10]).unwrap();
        while checker.samples < 40_000 || checker.contexts == contexts {
            receive(&mut checker);
        }
        // Without samples, contexts go on.
        let contexts = checker.contexts;
        while checker.contexts < contexts + 2 {
            receive(&mut checker);
        }
        input.finish().unwrap();
        while checker.samples < 40_010 {
            receive(&mut checker);
        }
        run.finish().unwrap();
    }
}

/// Joins a sink and a source, with a gap, a change, and every format.
#[test]
fn the_source_receives_what_the_sink_sends() {
    for (format, output) in [("cs16", "cs16"), ("cs8", "cs8"), ("cf32", "cf32"), ("cs16", "cf32")] {
        let (socket, address) = receiver();
        drop(socket);
        let mut source = Harness::of::<Vita49Source>()
            .property("address", address.clone())
            .property("output", output)
            .payload("out", &TypeName::parse(output).unwrap())
            .start()
            .unwrap();
        let mut output = source.output::<Dynamic>("out").unwrap();
        let mut sink = Harness::of::<Vita49Sink>()
            .property("address", address)
            .property("format", format)
            .property("datagram", Value::Integer(8972))
            .payload("in", &TypeName::of::<Complex<f32>>())
            .start()
            .unwrap();
        let mut input = sink.input::<Complex<f32>>("in").unwrap();
        input.set_stream(described());
        let value = |index: u64| Complex::new((index % 100) as f32 / 127.0, -0.25);
        // The samples 3000 to 3776 are missing.
        let packets: Vec<u64> = vec![0, 1000, 2000, 3777, 4777];
        for index in &packets {
            let mut loan = input.loan(1000).unwrap();
            (*index..).zip(loan.iter_mut()).for_each(|(index, place)| *place = value(index));
            loan.at_sample(*index).at_time_ns(TIME_NS + *index as i64 * 1000).send().unwrap();
        }
        input.set_stream(described().center_frequency_hz(100e6));
        input.loan(2).unwrap().at_sample(5777).at_time_ns(TIME_NS + 5_777_000).send().unwrap();
        input.finish().unwrap();
        sink.finish().unwrap();
        let mut found = Vec::new();
        while found.len() < 5002 {
            let packet = output.receive().unwrap().unwrap();
            assert_eq!(packet.time_ns(), TIME_NS + packet.sample_index() as i64 * 1000);
            let is_behind = packet.sample_index() >= 5777;
            let stream = packet.stream();
            assert_eq!(stream.center_frequency_hz, Some(if is_behind { 100e6 } else { 1090e6 }));
            assert_eq!((stream.sample_rate_hz, stream.keywords["gain_db"].as_f64()), (Some(1e6), Some(30.0)));
            found.extend(packet.sample_index()..packet.sample_index() + packet.samples() as u64);
        }
        let expected = (0..3000).chain(3777..5779);
        assert!(found.into_iter().eq(expected), "{format}");
        source.stop();
        source.finish().unwrap();
    }
}

/// Sends an odd number of samples of 8 bits: half a word of padding is at the end.
#[test]
fn half_a_word_is_padding() {
    let (socket, address) = receiver();
    let mut run = Harness::of::<Vita49Sink>()
        .property("address", address)
        .property("sample_rate", 1e3)
        .payload("in", &TypeName::parse("cs8").unwrap())
        .start()
        .unwrap();
    let mut input = run.input::<Dynamic>(("in", &TypeName::parse("cs8").unwrap())).unwrap();
    input.send(&[1, 2, 3, 4, 5, 6]).unwrap();
    input.finish().unwrap();
    run.finish().unwrap();
    let mut bytes = [0; 2000];
    let (mut kinds, mut payload) = (Vec::new(), Vec::new());
    while payload.is_empty() {
        let count = socket.recv(&mut bytes).unwrap();
        let packet = Packet::parse(&bytes[..count]).unwrap();
        kinds.push(packet.kind);
        if packet.kind == PacketKind::Signal {
            (payload, _) = (packet.payload.to_vec(), assert_eq!(packet.pad_bits, 16));
        }
    }
    assert_eq!(payload, [1, 2, 3, 4, 5, 6, 0, 0]);
    assert_eq!(kinds, [PacketKind::Context, PacketKind::ExtensionContext, PacketKind::Signal]);
}

/// Sends to a group on the loopback interface, with two members on this host.
#[test]
fn a_group_has_several_members() {
    let (socket, address) = receiver();
    drop(socket);
    let port = address.rsplit(':').next().unwrap();
    let address = format!("239.9.9.9:{port}");
    let cs8 = TypeName::parse("cs8").unwrap();
    let mut sources = [(); 2].map(|()| {
        Harness::of::<Vita49Source>()
            .property("address", address.clone())
            .property("interface", "lo")
            .property("output", "cs8")
            .payload("out", &cs8)
            .start()
            .unwrap()
    });
    let mut sink = Harness::of::<Vita49Sink>()
        .property("address", address)
        .property("interface", "lo")
        .property("pace", true)
        .property("sample_rate", 1e6)
        .payload("in", &cs8)
        .start()
        .unwrap();
    let mut outputs = sources.each_mut().map(|source| source.output::<Dynamic>("out").unwrap());
    let mut input = sink.input::<Dynamic>(("in", &cs8)).unwrap();
    input.send(&[7; 4000]).unwrap();
    input.finish().unwrap();
    sink.finish().unwrap();
    for output in &mut outputs {
        let mut samples = 0;
        while samples < 2000 {
            let packet = output.receive().unwrap().unwrap();
            assert!(packet.iter().all(|byte| *byte == 7));
            samples += packet.samples();
        }
    }
    for source in sources {
        source.stop();
        source.finish().unwrap();
    }
}
