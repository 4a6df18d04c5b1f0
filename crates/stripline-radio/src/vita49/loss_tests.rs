//! Tests of the counter of lost samples against a plain model.

use proptest::prelude::*;

use super::*;

const RATE_HZ: f64 = 9.6e6;

/// A kind of stamps, made from the index of a sample.
#[derive(Clone, Copy, Debug)]
enum Stamps {
    Counter,
    CounterOf32Bits,
    SamplesOfSecond,
    SamplesRunningOn,
    Utc,
    Gps,
}

const ALL: [Stamps; 6] = [
    Stamps::Counter,
    Stamps::CounterOf32Bits,
    Stamps::SamplesOfSecond,
    Stamps::SamplesRunningOn,
    Stamps::Utc,
    Stamps::Gps,
];

impl Stamps {
    fn at(self, index: u64) -> Stamp {
        let rate = RATE_HZ as u64;
        let second = (1_700_000_000 + index / rate) as u32;
        // To the nearest picosecond: a sample has no whole number of them.
        let ps = (u128::from(index % rate) * u128::from(PS_PER_S) / u128::from(rate)) as u64;
        let (seconds, fraction) = match self {
            Self::Counter => (Seconds::Absent, Fraction::FreeRunning(index.wrapping_sub(1_000_000))),
            Self::CounterOf32Bits => {
                (Seconds::Absent, Fraction::Samples(u64::from((index as u32).wrapping_sub(1_000_000))))
            }
            Self::SamplesOfSecond => (Seconds::Utc(second), Fraction::Samples(index % rate)),
            Self::SamplesRunningOn => (Seconds::Utc(second), Fraction::Samples(index)),
            Self::Utc => (Seconds::Utc(second), Fraction::Picoseconds(ps)),
            Self::Gps => (Seconds::Gps(second), Fraction::Picoseconds(ps)),
        };
        Stamp { seconds, fraction }
    }
}

fn counter() -> LossCounter {
    LossCounter { rate_hz: Some(RATE_HZ), ..LossCounter::default() }
}

/// A generator of numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Plants losses with bursts of up to 200 packets, from 0.001 to 30 %, for each kind of stamps, and
/// compares the place of each packet that is left. `STRIPLINE_PACKETS` sets the packets of each.
#[test]
fn every_planted_loss_is_counted_at_its_index() {
    let end = std::env::var("STRIPLINE_PACKETS").ok().map_or(100_000, |text| text.parse().unwrap());
    for stamps in ALL {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for per_million in [10, 1000, 50_000, 300_000] {
            let (mut counter, mut packets, mut index, mut lost) = (counter(), 0_u64, 0_u64, 0_u64);
            let (mut found, mut missing) = (None, 0);
            while packets < end {
                // A burst has ten packets on average: at 30 %, every 23rd packet begins one.
                if numbers.below(100_000_000) < per_million * 100 / 7 && packets > 20 {
                    let longest = if numbers.below(20) == 0 { 200 } else { 10 };
                    let burst = 1 + numbers.below(longest);
                    (packets, index, lost) = (packets + burst, index + burst * 360, lost + burst * 360);
                }
                let step = counter.step((packets & 15) as u8, stamps.at(index), 360);
                let samples = match step {
                    Step::Next => 0,
                    Step::Missing { samples, is_exact: true } => samples,
                    other => panic!("{stamps:?}: {other:?} at {index}"),
                };
                missing += samples;
                let place = found.map_or(0, |due: u64| due + samples);
                assert_eq!(place, index, "{stamps:?}");
                found = Some(index + 360);
                (packets, index) = (packets + 1, index + 360);
            }
            assert_eq!(missing, lost, "{stamps:?}");
            assert!(lost > 0 || per_million == 10);
        }
    }
}

/// Runs through a day of packets in which every counter wraps: the packet count each 1.6 seconds,
/// counters of 32 bits each 7 minutes, and the seconds and counters of 64 bits at noon.
#[test]
fn a_day_of_losses_is_counted_over_all_wraps() {
    let (rate, samples) = (RATE_HZ as u64, RATE_HZ as u64 / 10);
    let noon = 43_200;
    for stamps in ALL {
        let at = |index: u64| {
            let Stamp { seconds, fraction } = stamps.at(index);
            let second = ((index / rate) as u32).wrapping_sub(noon);
            let seconds = match seconds {
                Seconds::Utc(_) => Seconds::Utc(second),
                Seconds::Gps(_) => Seconds::Gps(second),
                other => other,
            };
            let fraction = match fraction {
                Fraction::FreeRunning(_) => {
                    Fraction::FreeRunning(index.wrapping_sub(u64::from(noon) * rate + 5))
                }
                other => other,
            };
            Stamp { seconds, fraction }
        };
        let (mut counter, mut numbers) = (counter(), Numbers(0x9e37_79b9_7f4a_7c15));
        let (mut packet, mut due, mut lost, mut missing) = (0_u64, 0, 0, 0);
        while packet < 864_000 {
            if packet > 20 && numbers.below(1000) == 0 {
                let burst = 1 + numbers.below(200);
                (packet, lost) = (packet + burst, lost + burst * samples);
            }
            let found = match counter.step((packet & 15) as u8, at(packet * samples), samples) {
                Step::Next => 0,
                Step::Missing { samples, is_exact: true } => samples,
                other => panic!("{stamps:?}: {other:?} at {packet}"),
            };
            assert_eq!(due + found, packet * samples, "{stamps:?}");
            missing += found;
            (due, packet) = ((packet + 1) * samples, packet + 1);
        }
        assert_eq!(missing, lost, "{stamps:?}");
    }
}

/// Lets the seconds, and the counters of 64 bits, wrap between two packets.
#[test]
fn counters_wrap() {
    let rate = RATE_HZ as u64;
    for lost in [0_u64, 1, 40] {
        let missing = match lost {
            0 => Step::Next,
            lost => Step::Missing { samples: lost * rate, is_exact: true },
        };
        let stamp = |second| Stamp { seconds: Seconds::Utc(second), fraction: Fraction::Picoseconds(5) };
        let mut counter = counter();
        assert_eq!(counter.step(15, stamp(u32::MAX), rate), Step::Next);
        assert_eq!(counter.step((lost & 15) as u8, stamp(lost as u32), rate), missing);
        let stamp = |index| Stamp { seconds: Seconds::Absent, fraction: Fraction::FreeRunning(index) };
        let mut counter = LossCounter::default();
        assert_eq!(counter.step(15, stamp(u64::MAX - 9), rate), Step::Next);
        assert_eq!(counter.step((lost & 15) as u8, stamp((lost + 1) * rate - 10), rate), missing);
    }
}

#[test]
fn without_stamps_a_loss_is_counted_modulo_sixteen_packets() {
    let mut counter = counter();
    let mut step = |count| counter.step(count, Stamp::default(), 100);
    assert_eq!([step(14), step(15), step(0), step(1)], [Step::Next; 4]);
    assert_eq!(step(5), Step::Missing { samples: 300, is_exact: false });
    assert_eq!(step(6), Step::Next);
    // Picoseconds without the rate.
    let mut counter = LossCounter::default();
    assert_eq!(counter.step(0, Stamps::Utc.at(0), 100), Step::Next);
    assert_eq!(counter.step(2, Stamps::Utc.at(200), 100), Step::Missing { samples: 100, is_exact: false });
}

#[test]
fn late_and_repeated_packets_are_left_out() {
    for stamps in ALL {
        let mut counter = counter();
        let mut step = |packet: u64| counter.step((packet & 15) as u8, stamps.at(packet * 360), 360);
        (0..20).for_each(|packet| assert_eq!(step(packet), Step::Next));
        assert_eq!(step(22), Step::Missing { samples: 720, is_exact: true });
        assert_eq!([step(21), step(22), step(20)], [Step::Late; 3]);
        assert_eq!(step(23), Step::Next);
    }
}

#[test]
fn stamps_that_go_back_are_a_new_start() {
    for stamps in ALL {
        let mut counter = counter();
        let far = 40_000_000_u64;
        let mut step = |packet: u64, index| counter.step((packet & 15) as u8, stamps.at(index), 360);
        (0..20).for_each(|packet| assert_eq!(step(packet, far + packet * 360), Step::Next));
        assert_eq!(step(20, 2_000_000), Step::Restarted, "{stamps:?}");
        assert_eq!(step(21, 2_000_360), Step::Next);
        assert_eq!(step(30, 2_003_600), Step::Missing { samples: 2880, is_exact: true });
    }
    let mut counter = counter();
    assert_eq!(counter.step(3, Stamps::Utc.at(5), 10), Step::Next);
    counter.restart();
    assert_eq!(counter.step(9, Stamps::Utc.at(1), 10), Step::Next);
}

/// Repeats the last second of a day, as a clock of UTC does at a leap second.
#[test]
fn a_leap_second_is_no_loss() {
    let day = 86_400 * 20_000_u32;
    for repeated in [day, day - 1] {
        let mut counter = LossCounter { rate_hz: Some(1000.0), ..LossCounter::default() };
        let mut count = 0;
        let mut step = |second, ms: u64| {
            count = (count + 1) & 15;
            let fraction = Fraction::Picoseconds(ms * 1_000_000_000);
            counter.step(count, Stamp { seconds: Seconds::Utc(second), fraction }, 100)
        };
        for second in [repeated, repeated, repeated + 1] {
            (0..10).for_each(|part| assert_eq!(step(second, part * 100), Step::Next, "{second}"));
        }
    }
    // A step back at noon is a new start; up to eight packets would be jitter.
    let mut counter = LossCounter { rate_hz: Some(1000.0), ..LossCounter::default() };
    let noon = |second| Stamp { seconds: Seconds::Utc(day + 43_200 + second), ..Stamps::Utc.at(0) };
    assert_eq!([counter.step(0, noon(20), 1000), counter.step(1, noon(21), 1000)], [Step::Next; 2]);
    assert_eq!(counter.step(2, noon(0), 1000), Step::Restarted);
}

/// Puts jitter of up to three packets on stamps, and still expects the exact losses.
#[test]
fn the_count_corrects_stamps_with_jitter() {
    let (mut counter, mut numbers) = (counter(), Numbers(7));
    let mut due = 0;
    for packet in 0..20_000_u64 {
        let is_lost = packet > 100 && packet % 977 < 37;
        let jitter = numbers.below(2160) + if packet == 1 { 0 } else { 1080 };
        let stamp = Stamps::Utc.at(1_000_000 + packet * 360 + if packet == 0 { 2160 } else { jitter });
        if !is_lost {
            match counter.step((packet & 15) as u8, stamp, 360) {
                Step::Next => {}
                Step::Missing { samples, .. } => due += samples / 360,
                other => panic!("{other:?} at {packet}"),
            }
            assert_eq!(due, packet);
            due += 1;
        }
    }
}

#[test]
fn a_gap_of_the_sender_shows_in_the_stamps_alone() {
    let mut counter = counter();
    assert_eq!(counter.step(0, Stamps::Utc.at(0), 360), Step::Next);
    assert_eq!(counter.step(1, Stamps::Utc.at(1360), 360), Step::Missing { samples: 1000, is_exact: true });
    assert_eq!(counter.step(2, Stamps::Utc.at(1720), 360), Step::Next);
}

#[test]
fn stamps_are_times_of_utc() {
    let ns = 1_700_000_000_500_000_000;
    let at = |seconds, fraction| Stamp { seconds, fraction };
    let half = Fraction::Picoseconds(PS_PER_S / 2);
    assert_eq!(time_ns(at(Seconds::Utc(1_700_000_000), half), 18, None), Some(ns));
    // 1,700,000,000 - 315,964,800 + 18.
    assert_eq!(time_ns(at(Seconds::Gps(1_384_035_218), half), 18, None), Some(ns));
    assert_eq!(time_ns(at(Seconds::Utc(1_700_000_000), Fraction::Samples(500)), 18, Some(1e3)), Some(ns));
    assert_eq!(time_ns(at(Seconds::Utc(1_700_000_000), Fraction::Samples(5000)), 18, Some(1e3)), None);
    assert_eq!(time_ns(at(Seconds::Other(1), half), 18, None), None);
    assert_eq!(time_ns(at(Seconds::Utc(1), Fraction::FreeRunning(1)), 18, Some(1e3)), None);
    assert_eq!(
        samples_between(Stamps::Utc.at(100), Stamps::Utc.at(20_000_000), Some(RATE_HZ)),
        Some(19_999_900)
    );
    assert_eq!(samples_between(Stamps::Utc.at(100), Stamps::Gps.at(100), Some(RATE_HZ)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Compares random packets of any size, with any losses, with a plain model.
    #[test]
    fn any_losses_are_counted(
        kind in 0_usize..6,
        packets in proptest::collection::vec((16_u64..2000, 0_u64..40), 1..40),
        start in 0_u64..1 << 40,
    ) {
        let stamps = ALL[kind];
        let (mut counter, mut index, mut count) = (counter(), start, 0_u64);
        // A packet of the same size goes first, so that a counter over a second is recognised.
        prop_assert_eq!(counter.step(0, stamps.at(index), 16), Step::Next);
        index += 16;
        for (samples, burst) in packets {
            let lost = burst * 16;
            (index, count) = (index + lost, count + 1 + burst);
            let step = counter.step((count & 15) as u8, stamps.at(index), samples);
            let expected = match lost {
                0 => Step::Next,
                samples => Step::Missing { samples, is_exact: true },
            };
            prop_assert_eq!(step, expected);
            index += samples;
        }
    }

    #[test]
    fn any_stamps_give_a_step(steps in proptest::collection::vec((0_u8..16, any::<u32>(), any::<u64>(), 0_u8..9, 1_u64..100_000), 0..20), rate in 1e-3_f64..1e12) {
        let mut counter = LossCounter { rate_hz: Some(rate), ..LossCounter::default() };
        for (count, second, number, kind, samples) in steps {
            let seconds = [Seconds::Utc(second), Seconds::Gps(second), Seconds::Absent][usize::from(kind % 3)];
            let fraction = match kind / 3 {
                0 => Fraction::Picoseconds(number % PS_PER_S),
                1 => Fraction::Samples(number),
                _ => Fraction::FreeRunning(number),
            };
            counter.step(count, Stamp { seconds, fraction }, samples);
        }
    }
}
