//! Packets of another maker, in Python, and back. The peer is written by the standard alone.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use stripline::component::Value;
use stripline::component::harness::Harness;
use stripline::payload::{Dynamic, TypeName};
use stripline::{Complex, StreamInfo};
use stripline_radio::vita49::{Vita49Sink, Vita49Source};

const TIME_NS: i64 = 1_700_000_000_000_000_000;

fn peer(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vita49_peer.py")).args(arguments);
    command.stdout(Stdio::piped());
    command
}

/// Sends 2.4 seconds at the sample rate, with a gap and a change, and lets the peer check each
/// packet, the classes, the counts and the contexts.
#[test]
fn another_maker_reads_the_packets_of_a_sink() {
    // Real and imaginary parts, dense: the item format, and the sizes of number and field less one.
    std::thread::scope(|scope| {
        scope.spawn(|| check_sink("cs16", 32767.0, 1.0, 0xa000_03cf));
        scope.spawn(|| check_sink("cs8", 127.0, 1.0, 0xa000_01c7));
        scope.spawn(|| check_sink("cf32", 1.0, 0.0, 0xae00_07df));
    });
}

fn check_sink(format: &str, scale: f64, tolerance: f64, format_word: u64) {
    let mut peer = peer(&["receive", format, "120000"]).spawn().expect("the package python3");
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    let port = lines.next().expect("the port").unwrap();
    let mut sink = Harness::of::<Vita49Sink>()
        .property("address", format!("127.0.0.1:{port}"))
        .property("format", format)
        .property("stream", Value::Integer(0xbeef))
        .property("pace", true)
        .payload("in", &TypeName::of::<Complex<f32>>())
        .start()
        .unwrap();
    let mut input = sink.input::<Complex<f32>>("in").unwrap();
    let stream = StreamInfo::new("iq")
        .sample_rate_hz(50e3)
        .center_frequency_hz(1090e6)
        .keyword("gain_db", 30.5)
        .keyword("reference_level_dbm", -12.5);
    input.set_stream(stream.clone());
    let value = |index: u64| Complex::new((index % 100) as f32 / 100.0, -0.25);
    // The samples 60,000 to 60,776 are missing, and the frequency changes there.
    let index_at = |place: u64| if place < 60_000 { place } else { place + 777 };
    for place in (0..120_000).step_by(1000) {
        if place == 60_000 {
            input.set_stream(stream.clone().center_frequency_hz(100e6));
        }
        let index = index_at(place);
        let mut loan = input.loan(1000).unwrap();
        (index..).zip(loan.iter_mut()).for_each(|(index, sample)| *sample = value(index));
        loan.at_sample(index).at_time_ns(TIME_NS + index as i64 * 20_000).send().unwrap();
    }
    input.finish().unwrap();
    let found = lines.next().expect("the peer refused a packet: its error is above").unwrap();
    assert!(peer.wait().unwrap().success());
    sink.finish().unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let samples: Vec<(f64, f64)> = serde_json::from_value(found["samples"].clone()).unwrap();
    for (place, (real, imaginary)) in (0..).zip(&samples) {
        let due = value(index_at(place));
        assert!((real - f64::from(due.re) * scale).abs() <= tolerance, "{format}: {real} at {place}");
        assert!((imaginary - f64::from(due.im) * scale).abs() <= tolerance, "{format}");
    }
    // Picoseconds since the start, and the place of the sample.
    let places: Vec<(u64, u64)> = serde_json::from_value(found["places"].clone()).unwrap();
    for (ps, place) in places {
        assert_eq!(ps, index_at(place) * 20_000_000, "{format}");
    }
    assert_eq!(found["streams"], serde_json::json!([0xbeef]));
    assert!(found["span_ps"].as_u64().unwrap() <= 1_000_000_000_000, "a second without a context");
    let contexts = found["contexts"].as_array().unwrap();
    let versions = if format == "cf32" { 0 } else { contexts.len() as u64 };
    assert_eq!(found["versions"].as_u64(), Some(versions));
    let due = [
        ("reference_point", 100.0),
        ("bandwidth", 50e3),
        ("if_frequency", 0.0),
        ("band_offset", 0.0),
        ("reference_level", -12.5),
        ("sample_rate", 50e3),
        ("adjustment", 0.0),
        ("calibration", 0.0),
        ("state", 0.0),
    ];
    for context in contexts {
        for (name, due) in due {
            assert_eq!(context[name].as_f64(), Some(due), "{format}: {name}");
        }
        assert_eq!(context["gain"], serde_json::json!([0.0, 30.5]));
        assert_eq!(context["format"].as_u64(), Some(format_word << 32), "{format}");
    }
    let is_changed = |context: &&serde_json::Value| context["changed"].as_u64() == Some(1);
    let changes = contexts.iter().filter(is_changed).map(|context| context["rf_frequency"].as_f64());
    assert!(changes.eq([Some(1090e6), Some(100e6)]), "{format}");
}

/// Receives four formats with lost and repeated packets.
#[test]
fn packets_of_another_maker_arrive_with_their_losses() {
    for (format, output) in [("cs8", "cs8"), ("cs12", "cs16"), ("cs16", "cs16"), ("cf32", "cf32")] {
        // No other program has an address of this process in between.
        let id = std::process::id();
        let own = Ipv4Addr::new(127, 1 + (id >> 16) as u8, (id >> 8) as u8, id as u8);
        let address = UdpSocket::bind((own, 0)).unwrap().local_addr().unwrap().to_string();
        let payload = TypeName::parse(output).unwrap();
        let mut source = Harness::of::<Vita49Source>()
            .property("address", address.clone())
            .property("output", output)
            .payload("out", &payload)
            .start()
            .unwrap();
        let mut samples = source.output::<Dynamic>("out").unwrap();
        let mut peer = peer(&["send", format, &address]).spawn().expect("the package python3");
        let is_lost = |packet: u64| packet == 7 || (30..67).contains(&packet) || (80..96).contains(&packet);
        let mut due = (0..120_u64)
            .filter(|packet| !is_lost(*packet))
            .flat_map(|packet| packet * 160..(packet + 1) * 160)
            .peekable();
        while due.peek().is_some() {
            let packet = samples.receive().unwrap().unwrap();
            let first = packet.sample_index();
            assert_eq!(packet.time_ns(), TIME_NS + first as i64 * 1000);
            let stream = packet.stream();
            assert_eq!((stream.sample_rate_hz, stream.center_frequency_hz), (Some(1e6), Some(100.5e6)));
            let number = |name: &str| stream.keywords[name].as_f64();
            assert_eq!((number("bandwidth_hz"), number("gain_db")), (Some(800e3), Some(21.5)));
            assert_eq!(number("reference_level_dbm"), Some(-12.5));
            assert_eq!(stream.keywords["stream_id"], "0x00000051");
            let is_over = stream.keywords.get("over_range").is_some_and(|value| *value == true);
            assert_eq!(is_over, first / 160 == 100);
            for (index, sample) in (first..).zip(packet.chunks(packet.len() / packet.samples())) {
                assert_eq!(due.next(), Some(index), "{format}");
                let (real, imaginary) = (index as i64 % 100 - 50, -(index as i64 % 7));
                let number = |bytes: &[u8]| match bytes.len() {
                    1 => i64::from(bytes[0] as i8),
                    2 => i64::from(i16::from_le_bytes(bytes.try_into().unwrap())),
                    _ => f32::from_le_bytes(bytes.try_into().unwrap()) as i64,
                };
                let (left, right) = sample.split_at(sample.len() / 2);
                assert_eq!((number(left), number(right)), (real, imaginary), "{format} at {index}");
            }
        }
        assert!(peer.wait().unwrap().success());
        source.stop();
        drop(samples);
        let values = source.finish().unwrap();
        let counts = ["late", "others", "streams", "inexact", "restarts"].map(|name| values[name].clone());
        assert_eq!(counts, [1, 1, 2, 0, 0].map(Value::Integer), "{format}");
        assert_eq!(values["ids"], Value::Text("0x00000051 0x00000052".into()));
    }
}
