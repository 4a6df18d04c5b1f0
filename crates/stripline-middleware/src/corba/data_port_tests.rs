//! `bulkio-source` and `bulkio-sink` in one process, connected by each other's references.
//! `tests/bulkio_peer.py` tests them with other programs.

use std::path::Path;
use std::time::{Duration, Instant};

use stripline::carrier::own_process::in_own_process;
use stripline::component::Registry;
use stripline::component::harness::{Harness, HarnessRun};
use stripline::payload::TypeName;
use stripline::{Complex, StreamInfo};

use crate::with_components;

const TIMEOUT: Duration = Duration::from_secs(30);

fn source(samples: &str, ior: &Path) -> HarnessRun {
    let registry = with_components(Registry::new());
    let source = Harness::of_type(&registry, "bulkio-source").property("samples", samples);
    source.property("ior_file", ior.to_str().unwrap()).start().unwrap()
}

fn sink(payload: &TypeName, connect: &Path) -> HarnessRun {
    let registry = with_components(Registry::new());
    let sink = Harness::of_type(&registry, "bulkio-sink").payload("in", payload);
    sink.property("connect", connect.to_str().unwrap()).start().unwrap()
}

fn wait_for(file: &Path) {
    let until = Instant::now() + TIMEOUT;
    while !file.exists() {
        assert!(Instant::now() < until, "{} does not come", file.display());
        std::thread::yield_now();
    }
}

#[test]
fn packets_and_descriptions_of_two_streams_come_over() {
    // A process has one ORB, and other tests start theirs in another way.
    let test = "corba::data_port_tests::packets_and_descriptions_of_two_streams_come_over";
    in_own_process(test, "streams", exchange_two_streams);
}

fn exchange_two_streams() {
    let folder = tempfile::tempdir().unwrap();
    let ior = folder.path().join("two-streams.ior");
    let mut source = source("cf32", &ior);
    let mut output = source.output::<Complex<f32>>("out").unwrap();
    wait_for(&ior);
    assert!(std::fs::read_to_string(&ior).unwrap().starts_with("IOR:"));
    let mut sink = sink(&TypeName::of::<Complex<f32>>(), &ior);
    let mut input = sink.input::<Complex<f32>>("in").unwrap();
    let streams = [
        StreamInfo::new("left").sample_rate_hz(48e3).keyword("gain", 7),
        StreamInfo::new("right").center_frequency_hz(1e9),
    ];
    let samples: Vec<_> = (0..100).map(|k| Complex::new(k as f32, f32::NAN)).collect();
    for number in 0..6_usize {
        input.set_stream(streams[number / 2 % 2].clone());
        let mut loan = input.loan(number + 1).unwrap();
        loan.copy_from_slice(&samples[..=number]);
        loan.at_time_ns(1_700_000_000_123_456_789 + number as i64).send().unwrap();
        let packet = output.receive().unwrap().unwrap();
        assert_eq!(packet.len(), number + 1);
        assert!(packet.iter().zip(&samples).all(|(x, y)| x.re == y.re && x.im.is_nan()));
        assert_eq!(packet.time_ns(), 1_700_000_000_123_456_789 + number as i64);
        let info = packet.stream();
        match number / 2 % 2 {
            0 => assert_eq!((**info).clone(), streams[0]),
            _ => assert_eq!((&*info.id, info.center_frequency_hz), ("right", Some(1e9))),
        }
    }
    input.finish().unwrap();
    sink.finish().unwrap();
    source.stop();
    source.finish().unwrap();
    assert!(!ior.exists(), "the reference of a port that has ended is there");
}
