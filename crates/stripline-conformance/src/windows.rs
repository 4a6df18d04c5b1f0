//! Windows across the boundaries of packets, compared with the simplest model: all samples of a
//! stream in a row.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stripline::node::Windowed;
use stripline::{Error, Received, StreamInfo};

use crate::support::{DEADLINE, Dice, node, pair};

/// An operation of a sender: a packet with this number of samples, which starts a new stream if the
/// flag is set.
type Sent = (usize, bool);

fn packets() -> impl Strategy<Value = Vec<Sent>> {
    let size = prop_oneof![8 => 0..300_usize, 2 => Just(1_usize), 1 => 2_000..20_000_usize];
    proptest::collection::vec((size, proptest::bool::weighted(0.1)), 0..60)
}

/// Generates lengths of windows, and how much of each window is consumed.
fn asked() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let length = prop_oneof![6 => 1..200_usize, 2 => 1..2_000_usize, 1 => 1..30_000_usize];
    proptest::collection::vec(length.prop_flat_map(|n| (Just(n), 1..=n)), 1..20)
}

pub fn any_windows_match_the_model(transport: &'static str) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(packets(), asked()), |(packets, asked)| {
        play(transport, &packets, &asked);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn play(transport: &'static str, packets: &[Sent], asked: &[(usize, usize)]) {
    let node = node(transport, "buffer = 16384");
    let (mut publisher, subscriber) = pair::<u32>(&node, "windows");
    // The samples of each stream in a row.
    let mut runs = vec![0_u32];
    for (samples, next_stream) in packets {
        if *next_stream {
            runs.push(0);
        }
        *runs.last_mut().unwrap() += *samples as u32;
    }
    let packets = packets.to_vec();
    let sender = std::thread::spawn(move || {
        let (mut run, mut sample) = (0, 0);
        publisher.set_stream(StreamInfo::new("run-0").sample_rate_hz(1e6));
        for (samples, next_stream) in packets {
            if next_stream {
                (run, sample) = (run + 1, 0);
                publisher.set_stream(StreamInfo::new(&format!("run-{run}")).sample_rate_hz(1e6));
            }
            let mut loan = publisher.loan(samples).unwrap();
            loan.iter_mut().zip(sample..).for_each(|(place, value)| *place = value << 8 | run & 255);
            loan.at_time_ns(1_000 * (i64::from(sample) + 1)).send().unwrap();
            sample += samples as u32;
        }
        publisher.finish().unwrap();
    });
    let (mut windows, mut asked) = (subscriber.windowed(), asked.iter().cycle());
    for (run, of_run) in runs.into_iter().enumerate() {
        let mut at = 0;
        while at < of_run {
            let (samples, step) = *asked.next().unwrap();
            let Received::Packet(window) = windows.window_timeout(samples, DEADLINE).unwrap() else {
                panic!("no window at {at} of run {run}");
            };
            let expected = samples.min((of_run - at) as usize);
            assert_eq!((window.len(), window.is_whole()), (expected, expected == samples));
            assert!(window.iter().zip(at..).all(|(sample, i)| *sample == i << 8 | run as u32 & 255));
            assert_eq!((window.sample_index(), window.gap()), (u64::from(at), None));
            assert_eq!(window.time_ns(), 1_000 * (i64::from(at) + 1));
            assert_eq!(window.stream().id, format!("run-{run}"));
            assert!(window.connection().ends_with("-> windows"));
            at += if expected == samples { step as u32 } else { expected as u32 };
            window.consume(step);
        }
    }
    assert!(matches!(windows.window_timeout(1, DEADLINE).unwrap(), Received::Ended));
    sender.join().unwrap();
}

pub fn windows_begin_anew_behind_a_gap(transport: &'static str) {
    for policy in ["drop-oldest", "drop-newest"] {
        let node = node(transport, &format!("overflow = \"{policy}\"\ndepth = 3\nbuffer = 65536"));
        let (mut publisher, subscriber) = pair::<u32>(&node, "windows");
        let sender = std::thread::spawn(move || {
            let (mut rng, mut sample) = (Dice::new(11), 0);
            for _ in 0..500 {
                // From time to time a packet is fragmented.
                let count = if rng.below(40) == 0 { 12_000 } else { rng.below(300) as u32 };
                publisher.send(&(sample..sample + count).collect::<Vec<_>>()).unwrap();
                sample += count;
            }
            publisher.finish().unwrap();
            sample
        });
        let (mut windows, mut rng) = (subscriber.windowed(), Dice::new(5));
        let (mut next, mut lost) = (0, 0);
        loop {
            let asked = 1 + rng.below(700);
            let window = match windows.window_timeout(asked, DEADLINE).unwrap() {
                Received::Packet(window) => window,
                Received::Empty => panic!("nothing in time"),
                Received::Ended => break,
            };
            let missing = window.gap().map_or(0, |gap| gap.samples);
            assert!(window.iter().zip(window[0]..).all(|(sample, i)| *sample == i), "a window across a gap");
            assert_eq!(u64::from(window[0]), next + missing);
            assert_eq!(window.sample_index(), u64::from(window[0]));
            lost += missing;
            let step = 1 + rng.below(asked);
            next += missing + if window.is_whole() { step } else { window.len() } as u64;
            window.consume(step);
        }
        let sent = sender.join().unwrap();
        lost += windows.gap_at_end().map_or(0, |gap| gap.samples);
        let report = &node.connections()[0];
        assert_eq!(report.lost_samples, lost);
        assert_eq!(report.bytes / 4 + lost, u64::from(sent));
    }
}

pub fn windows_keep_unconsumed_samples(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, subscriber) = pair::<u16>(&node, "windows");
    let mut windows = subscriber.windowed();
    let empty = |windows: &mut Windowed<u16>, samples| {
        matches!(windows.try_window(samples).unwrap(), Received::Empty)
    };
    publisher.send(&[1, 2, 3]).unwrap();
    assert_eq!(*windows.window(2).unwrap().unwrap(), [1, 2]);
    assert!(empty(&mut windows, 2));
    publisher.send(&[4]).unwrap();
    publisher.send(&[]).unwrap();
    publisher.send(&[5, 6]).unwrap();
    windows.window(4).unwrap().unwrap().consume(0);
    let window = windows.window(4).unwrap().unwrap();
    assert_eq!((&*window, window.sequence(), window.sample_index()), (&[3, 4, 5, 6][..], 0, 2));
    window.consume(1);
    let window = windows.window(2).unwrap().unwrap();
    assert_eq!((&*window, window.sequence()), (&[4, 5][..], 1));
    drop(window);
    assert!(matches!(windows.window(0), Err(Error::Port { .. })));
    assert!(matches!(windows.window(1 << 30), Err(Error::TooLarge { .. })));
    publisher.finish().unwrap();
    let last = windows.window(100).unwrap().unwrap();
    assert_eq!((&*last, last.is_whole()), (&[6][..], false));
    last.consume(0);
    assert!(windows.window(1).unwrap().is_none(), "an incomplete window is returned once");
}
