//! Interleaved channels in the stock components: the output for each channel is the same as if the
//! channel were alone.

#![allow(clippy::unwrap_used)]

mod stage;

use std::collections::BTreeMap;

use num_complex::Complex;
use proptest::prelude::*;
use stage::{Part, Stage, stage};
use stripline::component::Value;
use stripline::{Axis, Sample, StreamInfo};

/// The rate of each channel, and the time of sample 0.
const RATE_HZ: f64 = 48e3;
const START_NS: i64 = 1_000_000_000;

/// A sequence of frames without a gap: the first frame, the number of frames, and the lengths of
/// the packets in samples.
type Run = (u64, usize, Vec<usize>);

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (1u64..500, 1usize..700, prop::collection::vec(1usize..400, 0..5));
    prop::collection::vec(run, 1..4).prop_map(|runs| {
        let mut end = 0;
        let placed = runs.into_iter().map(|(gap, frames, cuts)| {
            let first = end + gap;
            end = first + frames as u64;
            (first, frames, cuts)
        });
        placed.collect()
    })
}

/// Returns a pseudo-random sample of a channel.
fn noise(frame: u64, channel: u64) -> f32 {
    let mixed = (frame + 7919 * channel + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as f32 / 8_388_608.0 - 1.0
}

fn time_ns(index: u64, rate_hz: f64) -> i64 {
    START_NS + (index as f64 / rate_hz * 1e9).round() as i64
}

/// Returns the packets of a stream of interleaved channels.
fn interleaved<T: Sample>(runs: &[Run], channels: u64, sample: fn(u64, u64) -> T) -> Vec<Part<T>> {
    let mut packets = Vec::new();
    for (first, frames, cuts) in runs {
        let mut index = first * channels;
        let end = index + *frames as u64 * channels;
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let samples: Vec<T> =
                (index..end).take(cut).map(|n| sample(n / channels, n % channels)).collect();
            if !samples.is_empty() {
                let count = samples.len() as u64;
                packets.push((index, time_ns(index, RATE_HZ * channels as f64), samples));
                index += count;
            }
        }
    }
    packets
}

/// Compares the output for interleaved channels with the output for each channel alone. `row` is
/// the number of samples in a row of the output.
fn compare<T: Sample, R: Sample + PartialEq + std::fmt::Debug>(
    component: &Stage,
    runs: &[Run],
    channels: u64,
    sample: fn(u64, u64) -> T,
    row: u64,
) {
    let name = component.name;
    let mut expected = BTreeMap::new();
    let one = StreamInfo::new("iq").sample_rate_hz(RATE_HZ).center_frequency_hz(1e8);
    let mut alone = StreamInfo::default();
    for channel in 0..channels {
        let packets: Vec<Part<T>> = runs
            .iter()
            .map(|(first, frames, _)| {
                let samples = (*first..first + *frames as u64).map(|n| sample(n, channel)).collect();
                (*first, time_ns(*first, RATE_HZ), samples)
            })
            .collect();
        let (stream, found) = component.run::<T, R>(&[(&one, &packets)]).unwrap();
        for (index, packet_ns, samples) in found {
            for (n, value) in (index..).zip(samples) {
                let place = (n / row * channels + channel) * row + n % row;
                expected.insert(place, (value, (n == index).then_some(packet_ns)));
            }
        }
        alone = stream;
    }
    let names: Vec<String> = (0..channels).map(|channel| format!("channel {channel}")).collect();
    let all = one.sample_rate_hz(RATE_HZ * channels as f64).channels(names.clone());
    let (stream, found) = component.run::<T, R>(&[(&all, &interleaved(runs, channels, sample))]).unwrap();
    let mut count = 0;
    for (index, packet_ns, samples) in found {
        for (n, value) in (index..).zip(samples) {
            let (right, alone_ns) = expected.get(&n).unwrap_or_else(|| panic!("{name}: no sample {n}"));
            assert_eq!((n, value), (n, *right), "{name}");
            // Compare the time of a packet's first sample. Without rows, only the first channel of
            // a frame has the time of the frame: the others are later by a fraction of the sample
            // period. The rows of a frame begin at the same time.
            let is_comparable = n == index && (row > 1 || n % channels == 0);
            if let Some(alone_ns) = alone_ns.filter(|_| is_comparable) {
                assert!((packet_ns - alone_ns).abs() <= 2, "{name}: {packet_ns}, not {alone_ns}");
            }
            count += 1;
        }
    }
    assert_eq!(count, expected.len(), "{name}");
    if count > 0 {
        let mut described = alone.channels(names);
        let rate = described.sample_rate_hz.unwrap();
        described.sample_rate_hz = Some(rate * channels as f64);
        if let Some(across) = described.axes.get_mut(1) {
            across.step /= channels as f64;
        }
        assert_eq!(stream, described, "{name}");
    }
}

fn real(frame: u64, channel: u64) -> f32 {
    noise(frame, channel)
}

fn complex(frame: u64, channel: u64) -> Complex<f32> {
    Complex::new(noise(frame, channel), noise(frame, channel + 100))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_demultiplexer_is_the_reverse_of_a_multiplexer(runs in runs(), channels in 2u64..5) {
        let names: Vec<String> = (0..channels).map(|channel| format!("{channel}")).collect();
        let all = StreamInfo::new("iq").sample_rate_hz(RATE_HZ * channels as f64).channels(names);
        let packets = interleaved(&runs, channels, complex);
        for channel in 0..channels {
            let stage = Stage { output: channel as usize, ..stage("demultiplexer", []) };
            let (stream, found) = stage.run::<_, Complex<f32>>(&[(&all, &packets)]).unwrap();
            assert_eq!((&stream.id[..], stream.sample_rate_hz), (&format!("iq.{channel}")[..], Some(RATE_HZ)));
            let mut found: Vec<_> = found
                .into_iter()
                .flat_map(|(index, packet_ns, samples)| {
                    assert!((packet_ns - time_ns(index, RATE_HZ)).abs() <= 2, "{packet_ns} at {index}");
                    (index..).zip(samples).collect::<Vec<_>>()
                })
                .collect();
            found.reverse();
            for (first, frames, _) in &runs {
                for frame in *first..first + *frames as u64 {
                    assert_eq!(found.pop(), Some((frame, complex(frame, channel))));
                }
            }
            assert_eq!(found, []);
        }
    }

    #[test]
    fn channels_are_processed_as_each_of_them_alone(runs in runs(), channels in 2u64..5) {
        let filter = stage("fir-filter", [("high", Value::Float(4e3))]);
        compare::<_, f32>(&filter, &runs, channels, real, 1);
        compare::<_, Complex<f32>>(&filter, &runs, channels, complex, 1);
        let decimator = stage("decimator", [("factor", Value::Integer(3))]);
        compare::<_, f32>(&decimator, &runs, channels, real, 1);
        let resampler = stage("resampler", [("up", Value::Integer(3)), ("down", Value::Integer(2))]);
        compare::<_, Complex<f32>>(&resampler, &runs, channels, complex, 1);
        compare::<_, f32>(&stage("am-demodulator", []), &runs, channels, complex, 1);
        let fm = stage("fm-demodulator", [("deviation", Value::Float(5e3))]);
        compare::<_, f32>(&fm, &runs, channels, complex, 1);
        let spectra = [("size", Value::Integer(16)), ("overlap", Value::Float(0.5)), ("average", Value::Integer(2))];
        compare::<_, f32>(&stage("fft", spectra), &runs, channels, real, 9);
        let amplitudes = [("size", Value::Integer(16)), ("output", Value::Text("cf32".into()))];
        compare::<_, Complex<f32>>(&stage("fft", amplitudes), &runs, channels, complex, 16);
    }
}

/// Returns runs of samples without a gap: the samples missing before each, its samples, and the
/// lengths of its packets.
fn sample_runs() -> impl Strategy<Value = Vec<(u64, u64, Vec<usize>)>> {
    let run = (1u64..60, 1u64..200, prop::collection::vec(1usize..80, 0..5));
    prop::collection::vec(run, 1..5)
}

/// Returns the packets of runs that begin and end anywhere in a frame, and the ranges of indexes.
fn anywhere(
    runs: &[(u64, u64, Vec<usize>)],
    rate_hz: f64,
) -> (Vec<Part<Complex<f32>>>, Vec<std::ops::Range<u64>>) {
    let (mut packets, mut ranges, mut next) = (Vec::new(), Vec::new(), 0);
    for (gap, count, cuts) in runs {
        let (mut index, end) = (next + gap, next + gap + count);
        ranges.push(index..end);
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let samples: Vec<_> = (index..end).take(cut).map(|n| complex(n, 0)).collect();
            if !samples.is_empty() {
                let count = samples.len() as u64;
                packets.push((index, time_ns(index, rate_hz), samples));
                index += count;
            }
        }
        next = end;
    }
    (packets, ranges)
}

/// Returns a stream of `channels` channels, sample by sample, row by row, or frame by frame.
fn ordered(channels: u64, order: usize) -> StreamInfo {
    let names = (0..channels).map(|channel| format!("{channel}th"));
    let axis = || Axis::new(0.0, 1.0, "s");
    let stream = StreamInfo::new("iq").sample_rate_hz(RATE_HZ * channels as f64);
    let stream = match order {
        0 => stream,
        1 => stream.rows(4, axis(), axis()),
        _ => stream.rows(4, axis(), axis()).frames(2, axis()),
    };
    stream.channels(names)
}

/// Returns the samples of an output by their indexes.
fn by_index(found: Vec<Part<Complex<f32>>>) -> BTreeMap<u64, Complex<f32>> {
    found.into_iter().flat_map(|(index, _, samples)| (index..).zip(samples)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Compares `channel-select` with the samples of the model: at their indexes, also behind gaps.
    #[test]
    fn selected_channels_are_the_samples_of_the_model(
        runs in sample_runs(), channels in 1u64..5, order in 0usize..3, mask in 1u64..16,
    ) {
        let stream = ordered(channels, order);
        let chosen: Vec<u64> = (0..channels).filter(|channel| mask >> channel & 1 == 1).collect();
        prop_assume!(!chosen.is_empty());
        let (packets, ranges) = anywhere(&runs, RATE_HZ * channels as f64);
        // By number and by name, in any order.
        let names = chosen.iter().rev().map(|n| if n % 2 == 0 { format!("{}", n + 1) } else { format!("{n}th") });
        let names: Vec<String> = names.collect();
        let select = stage("channel-select", [("channels", Value::Text(names.join(",")))]);
        let (described, found) = select.run::<_, Complex<f32>>(&[(&stream, &packets)]).unwrap();
        let (turn, frame) = (stream.turn_samples(), stream.frame_samples());
        let mut expected = BTreeMap::new();
        for n in ranges.into_iter().flatten() {
            if let Some(rank) = chosen.iter().position(|channel| *channel == n / turn % channels) {
                let index = (n / frame * chosen.len() as u64 + rank as u64) * turn + n % turn;
                expected.insert(index, complex(n, 0));
            }
        }
        if !expected.is_empty() {
            let rate_hz = RATE_HZ * chosen.len() as f64;
            prop_assert!((described.sample_rate_hz.unwrap() - rate_hz).abs() < 1e-6);
            prop_assert_eq!(described.channels.len(), if chosen.len() > 1 { chosen.len() } else { 0 });
            for (index, packet_ns, _) in found.iter().filter(|_| order == 0) {
                prop_assert!((packet_ns - time_ns(*index, rate_hz)).abs() <= 2, "{packet_ns} at {index}");
            }
        }
        prop_assert_eq!(by_index(found), expected);
    }

    /// Compares `beamformer` with the sums of the model, of all frames that are whole.
    #[test]
    fn a_beam_is_the_sum_of_the_model(
        runs in sample_runs(), channels in 1u64..5, order in 0usize..3, has_weights: bool,
    ) {
        let stream = ordered(channels, order);
        let (packets, ranges) = anywhere(&runs, RATE_HZ * channels as f64);
        let weight = |channel: u64| match has_weights {
            true => Complex::new(channel as f32 + 1.0, 0.5 - channel as f32),
            false => Complex::new(1.0 / channels as f32, 0.0),
        };
        let text: Vec<String> = (0..channels).map(|channel| weight(channel).to_string()).collect();
        let text = if has_weights { text.join(", ") } else { String::new() };
        let beam = stage("beamformer", [("weights", Value::Text(text))]);
        let (described, found) = beam.run::<_, Complex<f32>>(&[(&stream, &packets)]).unwrap();
        let (turn, frame) = (stream.turn_samples(), stream.frame_samples());
        let mut expected = BTreeMap::new();
        for range in ranges {
            for number in range.start.div_ceil(frame)..range.end / frame {
                for n in 0..turn {
                    let of = |channel| complex(number * frame + channel * turn + n, 0) * weight(channel);
                    expected.insert(number * turn + n, (0..channels).map(of).sum::<Complex<f32>>());
                }
            }
        }
        if !expected.is_empty() {
            prop_assert_eq!((described.sample_rate_hz, described.channels.len()), (Some(RATE_HZ), 0));
            for (index, packet_ns, _) in found.iter().filter(|_| order == 0) {
                prop_assert!((packet_ns - time_ns(*index, RATE_HZ)).abs() <= 2, "{packet_ns} at {index}");
            }
        }
        let found = by_index(found);
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (index, sum) in &found {
            prop_assert!((sum - expected[index]).norm() < 1e-4, "{index}: {sum}, not {}", expected[index]);
        }
    }
}

/// Returns a packet that begins at a sample index.
fn part(index: u64, samples: &[f32]) -> Part<f32> {
    (index, time_ns(index, 2.0 * RATE_HZ), samples.to_vec())
}

fn stereo(id: &str) -> StreamInfo {
    StreamInfo::new(id).sample_rate_hz(2.0 * RATE_HZ).channels(["left", "right"])
}

fn refusal(component: &Stage, streams: [&StreamInfo; 2]) -> String {
    let packets = [part(0, &[0.0; 8])];
    let inputs = streams.map(|stream| (stream, &packets[..]));
    component.run::<f32, f32>(&inputs).unwrap_err().to_string()
}

#[test]
fn a_sum_is_of_the_same_channel() {
    let adder = stage("adder", []);
    let one = [part(0, &[1.0, 10.0, 2.0, 20.0]), part(4, &[3.0, 30.0, 4.0, 40.0])];
    // The second packet goes back to index 1, in the middle of a frame.
    let two = [part(0, &[0.1, 0.2, 0.1]), part(1, &[0.2, 0.1, 0.2, 0.1, 0.2])];
    let (a, b) = (stereo("a"), stereo("b"));
    let (stream, found) = adder.run::<f32, f32>(&[(&a, &one), (&b, &two)]).unwrap();
    assert_eq!(stream, a);
    let sums: Vec<(u64, f32)> =
        found.iter().flat_map(|(index, _, samples)| (*index..).zip(samples.iter().copied())).collect();
    assert_eq!(sums, [(0, 1.1), (1, 10.2), (2, 2.1), (3, 20.2), (4, 3.1), (5, 30.2), (6, 4.1), (7, 40.2)]);

    let mono = StreamInfo::new("b").sample_rate_hz(2.0 * RATE_HZ);
    let error = refusal(&adder, [&a, &mono]);
    assert!(error.contains("`in2` has 0 channels (`channels`), and `in1` has 2"), "{error}");
    let rows = StreamInfo { row_length: Some(4), ..stereo("b") };
    let error = refusal(&adder, [&a, &rows]);
    assert!(error.contains("`in2` has rows of 4 samples (`row_length`), and `in1` has none"), "{error}");
    let error = refusal(&adder, [&a, &stereo("b").axis(Axis::new(1.0, 2.0, "m"))]);
    assert!(error.contains("`in2` has the axes 1 + n * 2 m (`axes`), and `in1` has none"), "{error}");

    // If the centre frequencies differ, the sum has no centre frequency.
    for (other, common) in [(1e6, Some(1e6)), (2e6, None)] {
        let streams = [a.clone().center_frequency_hz(1e6), b.clone().center_frequency_hz(other)];
        let (stream, _) = adder.run::<f32, f32>(&[(&streams[0], &one), (&streams[1], &one)]).unwrap();
        assert_eq!(stream.center_frequency_hz, common);
    }
}

#[test]
fn channels_of_several_streams_take_turns() {
    let multiplexer = |block: i64| {
        stage("multiplexer", [("mode", Value::Text("interleave".into())), ("block", Value::Integer(block))])
    };
    let (a, b) = (stereo("a").axis(Axis::new(0.0, 0.5, "m")), stereo("b").axis(Axis::new(0.0, 0.5, "m")));
    let (one, two) = ([part(1, &[10.0, 2.0, 20.0])], [part(1, &[11.0, 3.0, 21.0])]);
    let (stream, found) = multiplexer(1).run::<f32, f32>(&[(&a, &one), (&b, &two)]).unwrap();
    assert_eq!(found, [(2, time_ns(1, 2.0 * RATE_HZ), vec![10.0, 11.0, 2.0, 3.0, 20.0, 21.0])]);
    assert_eq!(stream.sample_rate_hz, Some(4.0 * RATE_HZ));
    assert_eq!(stream.channels, ["a.left", "b.left", "a.right", "b.right"]);
    assert_eq!((stream.channel_of(2), stream.channel_of(3)), (Some("a.right"), Some("b.right")));
    assert_eq!(stream.axes, [Axis::new(0.0, 0.25, "m")]);

    // The multiplexer does not divide rows.
    let row = |id: &str| {
        let axes = (Axis::new(0.0, 1.0, "Hz"), Axis::new(0.0, 0.5, "s"));
        StreamInfo::new(id).sample_rate_hz(RATE_HZ).rows(2, axes.0, axes.1)
    };
    let streams = [row("a"), row("b")];
    let (packets, inputs) = ([part(2, &[1.0, 2.0])], |n: usize| &streams[n]);
    let joined = multiplexer(2).run::<f32, f32>(&[(inputs(0), &packets), (inputs(1), &packets)]);
    let (stream, found) = joined.unwrap();
    assert_eq!(found, [(4, time_ns(2, 2.0 * RATE_HZ), vec![1.0, 2.0, 1.0, 2.0])]);
    assert_eq!((stream.row_length, stream.channels.len()), (Some(2), 2));
    assert_eq!(stream.axes, [Axis::new(0.0, 1.0, "Hz"), Axis::new(0.0, 0.25, "s")]);

    for (block, streams, words) in [
        (1, [&streams[0], &streams[1]], "rows of 2 samples (`row_length`)"),
        (3, [&a, &b], "the channels left, right (`channels`)"),
    ] {
        let error = refusal(&multiplexer(block), streams);
        assert!(error.contains(words) && error.contains("set block = "), "{error}");
    }
    let axis = StreamInfo::new("a").axis(Axis::new(0.0, 0.5, "m"));
    let error = refusal(&multiplexer(2), [&axis, &axis]);
    assert!(
        error.contains("an axis from sample to sample (`axes`)") && error.contains("block = 1"),
        "{error}"
    );
}

#[test]
fn channels_that_were_interleaved_are_streams_again() {
    let separated = |stream: &StreamInfo, packets: &[Part<f32>], first: i64, output: usize| {
        let stage = stage("demultiplexer", [("first", Value::Integer(first))]);
        Stage { output, ..stage }.run::<f32, f32>(&[(stream, packets)]).map(|(stream, mut found)| {
            // Compare microseconds: a time in nanoseconds is rounded more than once.
            found.iter_mut().for_each(|(_, time_ns, _)| *time_ns = (*time_ns + 500) / 1000);
            (stream, found)
        })
    };
    // Packets end in the middle of a frame, and a gap ends in the middle of another frame.
    let packets = [part(2, &[1.0, 10.0, 2.0]), part(5, &[20.0]), part(9, &[40.0, 5.0])];
    let all = stereo("a").axis(Axis::new(0.0, 0.5, "m"));
    let (stream, found) = separated(&all, &packets, 1, 0).unwrap();
    let alone = |id: &str| StreamInfo::new(id).sample_rate_hz(RATE_HZ).axis(Axis::new(0.0, 1.0, "m"));
    assert_eq!(stream, alone("a.left"));
    let at_us = |frame, rate_hz| (time_ns(frame, rate_hz) + 500) / 1000;
    let at = |frame| at_us(frame, RATE_HZ);
    assert_eq!(found, [(1, at(1), vec![1.0, 2.0]), (5, at(5), vec![5.0])]);
    let right = [(1, at(1), vec![10.0]), (2, at(2), vec![20.0]), (4, at(4), vec![40.0])];
    for (first, output) in [(1, 1), (2, 0)] {
        let (stream, found) = separated(&all, &packets, first, output).unwrap();
        assert_eq!((stream, found), (alone("a.right"), right.to_vec()));
    }

    // Each packet is one row of a spectrum.
    let rows = |across: f64| {
        let axes = (Axis::new(0.0, 1.0, "Hz"), Axis::new(0.0, across, "s"));
        StreamInfo::new("s").sample_rate_hz(96e3).rows(2, axes.0, axes.1)
    };
    let packets: Vec<Part<f32>> = [1.0, 2.0, 3.0, 4.0, 5.0]
        .iter()
        .zip(6u64..)
        .map(|(value, row)| (2 * row, time_ns(row / 2, 24e3), vec![*value, -*value]))
        .collect();
    let (stream, found) = separated(&rows(0.25).channels(["x", "y"]), &packets, 1, 1).unwrap();
    let expected = StreamInfo { sample_rate_hz: Some(48e3), id: "s.y".into(), ..rows(0.5) };
    assert_eq!(stream, expected);
    assert_eq!(found, [(6, at_us(3, 24e3), vec![2.0, -2.0]), (8, at_us(4, 24e3), vec![4.0, -4.0])]);

    // Each channel has frames of two rows; the first packet begins in the second row of `x`.
    let frames = |across: f64| {
        let stream = rows(across).frames(2, Axis::new(0.0, 1.0, "s"));
        StreamInfo { sample_rate_hz: None, ..stream }
    };
    let packets = [(2, 7, vec![1.0, 2.0, -1.0, -2.0, -3.0]), (7, 7, vec![-4.0, 3.0, 4.0])];
    let (stream, found) = separated(&frames(0.25).channels(["x", "y"]), &packets, 1, 1).unwrap();
    assert_eq!(stream, StreamInfo { id: "s.y".into(), ..frames(0.25) });
    let found: Vec<_> = found.into_iter().map(|(index, _, samples)| (index, samples)).collect();
    assert_eq!(found, [(0, vec![-1.0, -2.0, -3.0]), (3, vec![-4.0])]);

    // The largest indexes are accepted.
    let (_, found) = separated(&stereo("a"), &[(u64::MAX - 3, 0, vec![7.0, 8.0])], 1, 1).unwrap();
    assert_eq!((found.len(), &found[0].2), (1, &vec![8.0]));

    // A stream without `channels` has one channel.
    let mono = StreamInfo::new("m").sample_rate_hz(RATE_HZ);
    let (stream, found) = separated(&mono, &[part(3, &[1.0, 2.0])], 1, 0).unwrap();
    assert_eq!((stream, found.len(), &found[0].2), (mono.clone(), 1, &vec![1.0, 2.0]));
    for (stream, count) in [(&mono, "1 channel "), (&stereo("a"), "2 channels ")] {
        let error = separated(stream, &[part(0, &[0.0; 4])], 3, 0).unwrap_err().to_string();
        assert!(error.contains("for the channel 3") && error.contains(count), "{error}");
    }
}

#[test]
fn a_waterfall_is_of_one_channel_over_time() {
    let dir = tempfile::tempdir().unwrap();
    let draw = |channel: &str, stream: &StreamInfo, samples: &[f32]| {
        let path = dir.path().join(format!("{channel}.png"));
        let text = path.to_str().unwrap().to_owned();
        let word = |word: &str| Value::Text(word.into());
        let existing = ("existing", word("replace"));
        let sink = stage("waterfall-sink", [("path", word(&text)), ("channel", word(channel)), existing]);
        sink.run::<f32, f32>(&[(stream, &[part(0, samples)])]).map_err(|error| error.to_string())?;
        Ok::<_, String>(std::fs::read(path).unwrap())
    };
    let rows = |across: Axis| StreamInfo::new("s").rows(2, Axis::new(0.0, 1.0, "Hz"), across);
    let one = rows(Axis::new(0.0, 0.5, "s"));
    let both = rows(Axis::new(0.0, 0.25, "s")).channels(["left", "right"]);
    let hertz = |across: Axis| rows(across).frames(2, Axis::new(0.0, 1.0, "s"));
    let (left, right) = ([-80.0, 0.0, -80.0, -10.0], [-70.0, -60.0, -50.0, -40.0]);
    let turns = [-80.0, 0.0, -70.0, -60.0, -80.0, -10.0, -50.0, -40.0];
    assert_eq!(draw("left", &both, &turns), draw("", &one, &left));
    assert_eq!(draw("right", &both, &turns), draw("", &one, &right));
    assert_ne!(draw("right", &both, &turns), draw("left", &both, &turns));

    // The picture of frames is the newest whole frame, over any axis.
    let map = hertz(Axis::new(-500.0, 10.0, "Hz"));
    let maps = map.clone().channels(["left", "right"]);
    let frames = [&left[..], &right, &right, &left, &left[..3]].concat();
    assert_eq!(draw("left", &maps, &frames), draw("", &map, &right));
    assert_eq!(draw("right", &maps, &frames), draw("", &map, &left));

    let refused = |channel, stream: &StreamInfo| draw(channel, stream, &turns).unwrap_err();
    let error = refused("", &both);
    assert!(error.contains("has the channels left, right: name one by `channel`"), "{error}");
    let error = refused("centre", &both);
    assert!(error.contains("has the channels left, right, and no centre"), "{error}");
    let error = refused("left", &one);
    assert!(error.contains("has no `channels`") && error.contains("leave `channel` out"), "{error}");
    // The axis across the rows is a Doppler shift, not time.
    let error = refused("", &rows(Axis::new(-500.0, 10.0, "Hz")));
    assert!(error.contains("over an axis in `Hz` (`axes`), and a waterfall has rows over time"), "{error}");
}
