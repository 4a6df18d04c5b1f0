//! Tests of the source over the loopback, with packets that the tests pack on their own.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU8, Ordering};

use stripline::ClockReference;
use stripline::component::Value;
use stripline::component::harness::{Harness, HarnessRun};
use stripline::node::Subscriber;

use super::*;

const RATE_HZ: u64 = 2_000_000;
const SECOND: u64 = 1_700_000_000;
/// The samples of a packet.
const SAMPLES: u64 = 90;

/// A sender of packets to a running source.
struct Bench {
    run: HarnessRun,
    output: Subscriber<Dynamic>,
    socket: UdpSocket,
}

impl Bench {
    fn new(address: &str, set: &[(&str, Value)]) -> Self {
        static BENCHES: AtomicU8 = AtomicU8::new(0);
        // No other test gets the port in between.
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{low}.{}:", 1 | high >> 1, BENCHES.fetch_add(1, Ordering::Relaxed));
        let address = &*address.replace("127.0.0.1:", &host);
        let free = UdpSocket::bind(address).unwrap().local_addr().unwrap();
        let mut harness = Harness::of::<Vita49Source>().property("address", free.to_string());
        let output = set.iter().find(|(name, _)| *name == "output");
        let output =
            output.map_or("cs16".to_string(), |(_, value)| value.to_string().trim_matches('"').into());
        for (name, value) in set {
            harness = harness.property(name, value.clone());
        }
        let payload = stripline::payload::TypeName::parse(&output).unwrap();
        let mut run = harness.payload("out", &payload).start().unwrap();
        let output = run.output::<Dynamic>("out").unwrap();
        let socket = UdpSocket::bind(address).unwrap();
        socket.connect(free).unwrap();
        Self { run, output, socket }
    }

    fn send(&self, datagram: &[u8]) {
        assert_eq!(self.socket.send(datagram).unwrap(), datagram.len());
    }

    /// Returns the next samples, with the index of the first and its time.
    fn next(&mut self) -> (u64, i64, Vec<i16>) {
        let packet = self.output.receive().unwrap().unwrap();
        let samples = packet.chunks(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect();
        (packet.sample_index(), packet.time_ns(), samples)
    }

    fn finish(self) -> BTreeMap<String, i64> {
        self.finish_with_ids().0
    }

    fn finish_with_ids(self) -> (BTreeMap<String, i64>, Value) {
        drop(self.output);
        self.run.stop();
        let mut values = self.run.finish().unwrap();
        let ids = values.remove("ids").unwrap();
        let number = |value| if let Value::Integer(number) = value { Some(number) } else { None };
        (values.into_iter().filter_map(|(name, value)| Some((name, number(value)?))).collect(), ids)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Packs the stamp of a sample: seconds of UTC, and picoseconds.
fn stamp(index: u64) -> [u32; 3] {
    let ps = index % RATE_HZ * 500_000;
    [(SECOND + index / RATE_HZ) as u32, (ps >> 32) as u32, ps as u32]
}

/// Packs signal data of DIFI: real parts count samples, and imaginary parts are -1.
fn data(stream: u32, count: u64, index: u64) -> Vec<u8> {
    let size = 7 + SAMPLES as u32;
    let [seconds, upper, lower] = stamp(index);
    let header = 0x1860_0000 | (count as u32 & 15) << 16 | size;
    let mut bytes = words(&[header, stream, 0x006a_621e, 0, seconds, upper, lower]);
    for sample in index..index + SAMPLES {
        bytes.extend((sample as i16).to_be_bytes());
        bytes.extend((-1_i16).to_be_bytes());
    }
    bytes
}

/// Packs a context with radio frequency, sample rate, and the format of complex 16-bit numbers.
fn context(stream: u32, index: u64, frequency_hz: u64) -> Vec<u8> {
    let [seconds, upper, lower] = stamp(index);
    let (frequency, rate) = (frequency_hz << 20, RATE_HZ << 20);
    words(&[
        0x4860_000e,
        stream,
        0x006a_621e,
        1,
        seconds,
        upper,
        lower,
        1 << 27 | 1 << 21 | 1 << 15,
        (frequency >> 32) as u32,
        frequency as u32,
        (rate >> 32) as u32,
        rate as u32,
        0xa000_03cf,
        0,
    ])
}

#[test]
fn samples_come_with_index_time_and_description() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut bench = Bench::new(address, &[]);
        bench.send(&data(7, 0, 0));
        bench.send(&context(7, 0, 1_090_000_000));
        let mut due = SAMPLES;
        // Several datagrams may become one packet.
        (1..100).for_each(|count| bench.send(&data(7, count, count * SAMPLES)));
        let mut place = 0;
        while due < 100 * SAMPLES {
            let packet = bench.output.receive().unwrap().unwrap();
            assert_eq!(packet.sample_index(), place);
            assert_eq!(packet.time_ns(), SECOND as i64 * 1_000_000_000 + due as i64 * 500);
            for sample in packet.chunks(4) {
                assert_eq!(sample, [due as u8, (due >> 8) as u8, 0xff, 0xff]);
                (due, place) = (due + 1, place + 1);
            }
            let stream = packet.stream();
            assert_eq!((stream.sample_rate_hz, stream.center_frequency_hz), (Some(2e6), Some(1090e6)));
            assert_eq!(stream.keywords["stream_id"], "0x00000007");
            assert_eq!(stream.clock.map(|clock| clock.reference), Some(ClockReference::Device));
        }
        let counts = bench.finish();
        assert_eq!((counts["waiting"], counts["streams"], counts["refused"]), (1, 1, 0));
    }
}

#[test]
fn losses_are_gaps_at_their_samples() {
    let mut bench = Bench::new("127.0.0.1:0", &[]);
    bench.send(&context(7, 0, 1_000_000));
    // Packets 5, 40 to 79 and 90 are lost, and 3 and 85 come twice.
    let is_lost = |count: u64| count == 5 || (40..80).contains(&count) || count == 90;
    let sent: Vec<u64> = (0..100).filter(|count| !is_lost(*count)).collect();
    for count in &sent {
        bench.send(&data(7, *count, count * SAMPLES));
        if [3, 85].contains(count) {
            bench.send(&data(7, *count, count * SAMPLES));
        }
    }
    let mut found = Vec::new();
    while found.len() < sent.len() * SAMPLES as usize {
        let (index, _, samples) = bench.next();
        found.extend((index..).zip(samples.chunks(2)).map(|(index, pair)| (index, pair[0])));
    }
    let expected = sent.iter().flat_map(|count| count * SAMPLES..(count + 1) * SAMPLES);
    assert!(found.into_iter().eq(expected.map(|index| (index, index as i16))));
    let counts = bench.finish();
    assert_eq!((counts["late"], counts["inexact"], counts["restarts"]), (2, 0, 0));
}

#[test]
fn a_change_holds_from_its_sample_on() {
    let mut bench = Bench::new("127.0.0.1:0", &[]);
    bench.send(&context(7, 0, 1_000_000));
    bench.send(&data(7, 0, 0));
    // The change is at the sample 100, the tenth of the second packet.
    bench.send(&context(7, 100, 2_000_000));
    bench.send(&data(7, 1, SAMPLES));
    bench.send(&data(7, 2, 2 * SAMPLES));
    let mut frequencies = Vec::new();
    while frequencies.len() < 270 {
        let packet = bench.output.receive().unwrap().unwrap();
        let frequency = packet.stream().center_frequency_hz.unwrap();
        assert_eq!(packet.time_ns(), SECOND as i64 * 1_000_000_000 + packet.sample_index() as i64 * 500);
        frequencies.extend(std::iter::repeat_n(frequency, packet.samples()));
    }
    assert!(frequencies[..100].iter().all(|frequency| *frequency == 1e6));
    assert!(frequencies[100..].iter().all(|frequency| *frequency == 2e6));
    bench.finish();
}

#[test]
fn packets_of_others_and_no_packets_are_counted() {
    let mut bench = Bench::new("127.0.0.1:0", &[("stream", Value::Integer(7))]);
    for stream in 0..1500 {
        bench.send(&data(stream | 1 << 20, 0, 0));
    }
    // No header, a size that is wrong, a command, and data of the stream from another sender.
    bench.send(&[1, 2, 3]);
    bench.send(&data(7, 0, 0)[..80]);
    bench.send(&words(&[0x6000_0002, 7]));
    bench.send(&context(7, 0, 1_000_000));
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    bench.send(&data(7, 0, 0));
    assert_eq!(bench.next().0, 0);
    second.send_to(&data(7, 9, 900), bench.socket.peer_addr().unwrap()).unwrap();
    bench.send(&data(7, 1, SAMPLES));
    assert_eq!(bench.next().0, SAMPLES);
    let (counts, ids) = bench.finish_with_ids();
    assert_eq!((counts["refused"], counts["others"], counts["streams"]), (2, 1502, 1024));
    let smallest = (1 << 20..).take(256).map(|id: u32| format!("0x{id:08x}"));
    assert_eq!(ids, Value::Text(smallest.collect::<Vec<String>>().join(" ")));
    assert_eq!((counts["restarts"], counts["dropped"]), (0, 0));
}

/// Sends packets of another size, then of numbers with 12 bits, then of a format that cannot be
/// carried.
#[test]
fn sizes_and_formats_may_change() {
    let mut bench = Bench::new("127.0.0.1:0", &[("samples", Value::Text("cs16".into()))]);
    let packet = |count: u32, samples: u32, counter: u32| {
        let mut bytes = words(&[0x1030_0000 | count << 16 | (4 + samples), 5, 0, counter]);
        bytes.extend((counter..counter + samples).flat_map(|n| [0, n as u8, 0, 0]));
        bytes
    };
    bench.send(&packet(0, 10, 0));
    bench.send(&packet(1, 100, 10));
    bench.send(&packet(2, 5, 110));
    let mut found = Vec::new();
    while found.len() < 115 {
        let (index, time_ns, samples) = bench.next();
        assert_eq!((index, time_ns), (found.len() as u64, 0));
        found.extend(samples.chunks(2).map(|pair| pair[0]));
    }
    assert!(found.into_iter().eq(0..115));
    // Two samples of 12 bits: 1, -1, 2047, -2048 in six bytes and two of padding.
    bench.send(&words(&[0x4000_0005, 5, 1 << 15, 0xa000_02cb, 0]));
    bench.send(&words(&[0x1830_0008, 5, 0x8000_0000, 0, 0, 115, 0x001f_ff7f, 0xf800_0000]));
    assert_eq!(bench.next().2, [1, -1, 2047, -2048]);
    // Amplitude and phase, and then the old format: an unknown number of samples is missing.
    bench.send(&words(&[0x4001_0005, 5, 1 << 15, 0xc000_03cf, 0]));
    bench.send(&packet(1, 10, 120));
    bench.send(&words(&[0x4002_0005, 5, 1 << 15, 0xa000_03cf, 0]));
    bench.send(&packet(2, 10, 130));
    assert_eq!(bench.next().0, 0);
    let counts = bench.finish();
    assert_eq!((counts["refused"], counts["waiting"], counts["restarts"]), (1, 1, 1));
}

#[test]
fn floats_are_sent_and_indicators_described() {
    let set = [("samples", Value::Text("cs16".into())), ("output", Value::Text("cf32".into()))];
    let mut bench = Bench::new("127.0.0.1:0", &set);
    // Trailers: nothing, over-range, nothing.
    for (count, trailer) in [(0, 0x0200_0000), (1, 0x0200_2000), (2, 0x0200_0000)] {
        bench.send(&words(&[0x1400_0004 | count << 16, 5, 0x4000_c000, trailer]));
        let packet = bench.output.receive().unwrap().unwrap();
        assert_eq!(packet.to_vec(), [0.5_f32.to_le_bytes(), (-0.5_f32).to_le_bytes()].concat());
        assert_eq!(packet.stream().keywords["over_range"], count == 1);
        assert_eq!(packet.stream().clock, None);
    }
    assert_eq!(bench.finish()["over_range"], 1);
}

#[test]
fn properties_are_checked_before_the_start() {
    let refusal = |given: &[(&str, &str)]| {
        let spec = Vita49Source::describe();
        let text = |(name, text): &(&str, &str)| ((*name).to_owned(), Value::Text((*text).into()));
        let properties = Properties::new(&spec, given.iter().map(text).collect()).unwrap();
        spec.validate(&properties).err().map_or(String::new(), |error| error.to_string())
    };
    assert_eq!(refusal(&[("address", "127.0.0.1:4991")]), "");
    assert_eq!(refusal(&[("address", "239.9.9.9:4991"), ("interface", "lo")]), "");
    for (given, problem) in [
        (&[("address", "radio:4991")][..], "no IP address"),
        (&[("address", "127.0.0.1:0")], "no IP address"),
        (&[("address", "239.9.9.9:4991")], "can leave this host"),
        (&[("address", "127.0.0.1:1"), ("interface", "lo")], "only for a multicast group"),
        (&[("address", "239.9.9.9:1"), ("interface", "a name too long")], "can leave this host"),
        (&[("address", "239.9.9.9:1"), ("interface", "a/b")], "no name of an interface"),
        (&[("address", "127.0.0.1:1"), ("samples", "s16")], "cannot be sent as cs16"),
    ] {
        assert!(refusal(given).contains(problem), "{given:?}: {}", refusal(given));
    }
}
