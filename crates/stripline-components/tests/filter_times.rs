//! The times behind a filter are the times at the centre of the filter.

#![allow(clippy::unwrap_used)]

mod stage;

use stage::{Part, stage};
use stripline::component::Value;
use stripline::{ClockReference, StreamClock, StreamInfo};

const RATE_HZ: f64 = 10_000.0;
const START_NS: i64 = 1_000_000_000;
/// The sample that is not zero.
const PULSE: usize = 700;

/// Returns packets of different lengths, with one pulse.
fn packets() -> Vec<Part<f32>> {
    let mut samples = vec![0.0; 2_000];
    samples[PULSE] = 1.0;
    let mut packets = Vec::new();
    let mut rest = &samples[..];
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.len().min(130 + packets.len()));
        let index = samples.len() - rest.len();
        packets.push((index as u64, START_NS + (index as f64 / RATE_HZ * 1e9) as i64, part.to_vec()));
        rest = after;
    }
    packets
}

/// Checks that the peak behind each filter has the time of the pulse, and that the clock is kept.
#[test]
fn the_peak_has_the_time_of_the_pulse() {
    let clock = StreamClock::new(ClockReference::Gps).error_ns(100);
    let stream = StreamInfo::new("pulse").sample_rate_hz(RATE_HZ).clock(clock);
    let at_ns = START_NS + (PULSE as f64 / RATE_HZ * 1e9) as i64;
    let number = |name, value| (name, Value::Integer(value));
    for (component, rate_hz) in [
        (stage("fir-filter", [("high", Value::Float(1_000.0))]), RATE_HZ),
        (stage("decimator", [number("factor", 5)]), RATE_HZ / 5.0),
        (stage("resampler", [number("up", 3), number("down", 2)]), RATE_HZ * 1.5),
    ] {
        let (sent, found) = component.run::<f32, f32>(&[(&stream, &packets())]).unwrap();
        assert_eq!((sent.clock, sent.sample_rate_hz), (Some(clock), Some(rate_hz)), "{}", component.name);
        let times = found.iter().flat_map(|(_, start_ns, samples)| {
            let at = |place: usize| *start_ns as f64 + place as f64 / rate_hz * 1e9;
            samples.iter().enumerate().map(move |(place, value)| (at(place), *value))
        });
        let (peak_ns, _) = times.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let off = (peak_ns - at_ns as f64).abs();
        assert!(off <= 0.5e9 / rate_hz + 2.0, "{}: {off} ns", component.name);
    }
}

#[test]
fn an_unknown_time_stays_unknown() {
    let stream = StreamInfo::new("pulse").sample_rate_hz(RATE_HZ);
    let unknown: Vec<_> = packets().into_iter().map(|(index, _, samples)| (index, 0, samples)).collect();
    for component in [
        stage("fir-filter", [("high", Value::Float(1_000.0))]),
        stage("decimator", [("factor", Value::Integer(5))]),
        stage("resampler", [("up", Value::Integer(3))]),
    ] {
        let (_, found) = component.run::<f32, f32>(&[(&stream, &unknown)]).unwrap();
        assert!(!found.is_empty() && found.iter().all(|part| part.1 == 0), "{}", component.name);
    }
}
