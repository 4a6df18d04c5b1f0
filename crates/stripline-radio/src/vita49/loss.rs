//! The counter of lost samples: a function of packet counts and stamps.

use super::packet::{Fraction, PS_PER_S, Seconds, Stamp};

/// The number of packet counts, which repeat.
const COUNTS: i64 = 16;
/// A packet that is no more than half of the counts behind is late, and not a new start.
const LATE_COUNTS: i64 = COUNTS / 2;
/// Counters of 32 bits have wrapped if they then continue within this number of samples.
const WRAP_MAX: u32 = 1 << 28;
/// The distance of a stamp from the due one, in samples, that is rounding.
const TOLERANCE: f64 = 1.5;
/// The part of the measured jitter that remains after each packet.
const DECAY: f64 = 0.999;
/// Seconds of a day of UTC: a leap second is the last of a day.
const DAY_S: u32 = 86_400;
/// The seconds from 1970 to 6 January 1980.
const GPS_EPOCH_S: i64 = 315_964_800;

/// The counter of the samples that are missing between packets of signal data.
///
/// A packet count alone gives the loss modulo 16 packets. Counters of samples give the exact loss.
/// Stamps in picoseconds give the exact loss with the sample rate, where the count corrects stamps
/// with jitter.
#[derive(Debug, Default)]
pub(crate) struct LossCounter {
    rate_hz: Option<f64>,
    last: Option<Last>,
    /// Whether all packets so far had the same number of samples.
    has_varied: bool,
    /// The largest recent distance of a stamp from the stamp that was due, in samples.
    jitter: f64,
    /// Whether the rate has changed within the last packet.
    is_new_rate: bool,
    /// Whether the counter of samples goes on when a second begins; `None`: no second began yet.
    runs_on: Option<bool>,
}

/// The previous packet.
#[derive(Clone, Copy, Debug)]
struct Last {
    count: u8,
    stamp: Stamp,
    samples: u64,
    /// The fewest samples of a packet so far.
    fewest: u64,
}

/// The relation of a packet to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The packet is the first one, or continues the previous one.
    Next,
    /// Samples are missing before the packet. If the number is not exact, it is the smallest of
    /// those that are possible.
    Missing { samples: u64, is_exact: bool },
    /// The packet came before, or its samples are counted as missing: leave it out.
    Late,
    /// The stamps have gone back: the sender or its clock has started anew, and an unknown number
    /// of samples is missing.
    Restarted,
}

/// The samples from the stamp of one packet to the stamp of the next.
enum Elapsed {
    Unknown,
    Exact(i64),
    /// By the clock and the rate.
    Estimated(f64),
}

impl LossCounter {
    /// Sets the sample rate from the last packet on.
    pub fn set_rate(&mut self, rate_hz: Option<f64>) {
        self.rate_hz = rate_hz;
    }

    /// Sets the sample rate from a sample within the last packet on: the next stamp is due
    /// between the times by the old and by the new rate.
    pub fn set_rate_within(&mut self, rate_hz: Option<f64>) {
        self.is_new_rate |= self.rate_hz != rate_hz;
        self.rate_hz = rate_hz;
    }

    /// Forgets the previous packet: the next one is the first of another sender.
    pub fn restart(&mut self) {
        *self = Self { rate_hz: self.rate_hz, ..Self::default() };
    }

    /// Takes the next packet, of at least one sample.
    pub fn step(&mut self, count: u8, stamp: Stamp, samples: u64) -> Step {
        let Some(last) = self.last else {
            self.last = Some(Last { count, stamp, samples, fewest: samples });
            return Step::Next;
        };
        let skipped = i64::from(count.wrapping_sub(last.count).wrapping_sub(1) & 15);
        let step = match self.elapsed(&last, stamp) {
            Elapsed::Unknown if skipped == 0 => Step::Next,
            Elapsed::Unknown => {
                Step::Missing { samples: skipped.cast_unsigned() * last.samples, is_exact: false }
            }
            Elapsed::Exact(samples) => {
                let due = i64::try_from(last.samples).unwrap_or(i64::MAX);
                self.by_samples(&last, skipped, samples.saturating_sub(due))
            }
            Elapsed::Estimated(samples) => {
                self.by_clock(&last, skipped, samples - last.samples as f64, stamp)
            }
        };
        self.is_new_rate = false;
        if step != Step::Late {
            self.has_varied |= samples != last.samples;
            self.last = Some(Last { count, stamp, samples, fewest: last.fewest.min(samples) });
        }
        step
    }

    /// Decides by the exact number of samples between the end of the last packet and this one.
    fn by_samples(&self, last: &Last, skipped: i64, missing: i64) -> Step {
        match u64::try_from(missing) {
            Ok(0) => Step::Next,
            Ok(samples) => Step::Missing { samples, is_exact: true },
            Err(_) if skipped >= LATE_COUNTS && missing.unsigned_abs() <= last.samples.saturating_mul(16) => {
                Step::Late
            }
            Err(_) => Step::Restarted,
        }
    }

    /// Decides by the number of samples that the clock gives, which may be off.
    fn by_clock(&mut self, last: &Last, skipped: i64, mut missing: f64, stamp: Stamp) -> Step {
        let packet = last.samples.max(1) as f64;
        if let (Seconds::Utc(second), Some(rate_hz)) = (stamp.seconds, self.rate_hz)
            && (second % DAY_S == 0 || second % DAY_S == DAY_S - 1)
            && missing < 0.0
            && (missing + rate_hz).abs() <= (packet * LATE_COUNTS as f64).min(rate_hz / 2.0)
        {
            missing += rate_hz;
        }
        // The number of packets that the count allows, nearest to the clock.
        let turns = ((missing / packet - skipped as f64) / COUNTS as f64).round();
        let packets = (turns as i64).saturating_mul(COUNTS).saturating_add(skipped);
        let by_count = packets as f64 * packet;
        let off = (missing - by_count).abs();
        let is_steady = self.jitter <= packet / 4.0 && !self.is_new_rate;
        let tolerance = (self.jitter * 4.0).max(TOLERANCE);
        if packets == 0 && skipped == 0 {
            // An early stamp has jitter. A late one may show a gap of the sender.
            let early = if missing < 0.0 { off } else { 0.0 };
            self.jitter = early.max(self.jitter * DECAY);
        }
        let is_early = skipped == 0 && missing < 0.0 && -missing < last.fewest as f64 * LATE_COUNTS as f64;
        let missing = match self.has_varied {
            false if off <= tolerance || !is_steady || is_early => by_count,
            true if skipped == 0 && (missing.abs() <= tolerance || is_early) => 0.0,
            true if skipped == 0 && !is_steady && missing < last.fewest as f64 * LATE_COUNTS as f64 => 0.0,
            _ => missing.round(),
        };
        self.by_samples(last, skipped, missing as i64)
    }

    fn elapsed(&mut self, last: &Last, stamp: Stamp) -> Elapsed {
        use Fraction::{FreeRunning, Picoseconds, Samples};
        let seconds = seconds_between(last.stamp.seconds, stamp.seconds);
        match (last.stamp.fraction, stamp.fraction, seconds) {
            (FreeRunning(from), FreeRunning(to), _) => Elapsed::Exact(counted(from, to)),
            (Samples(from), Samples(to), Some(0)) => Elapsed::Exact(counted(from, to)),
            (Samples(from), Samples(to), Some(seconds)) => {
                let counted = counted(from, to);
                let is_beyond_second = self.rate_hz.is_some_and(|rate_hz| to as f64 >= rate_hz);
                // Once decided, a loss of whole seconds is not mistaken for the other kind.
                self.runs_on = match self.runs_on {
                    _ if is_beyond_second => Some(true),
                    None if seconds > 0 && to < from => Some(false),
                    None if u64::try_from(counted) == Ok(last.samples) => Some(true),
                    decided => decided,
                };
                match self.rate_hz {
                    _ if self.runs_on == Some(true) => Elapsed::Exact(counted),
                    Some(rate_hz) if rate_hz.fract() == 0.0 => {
                        // Both are far below 2^63: a second has at most 10^12 samples.
                        let seconds = seconds.saturating_mul(rate_hz as i64);
                        Elapsed::Exact(seconds.saturating_add(to.wrapping_sub(from).cast_signed()))
                    }
                    Some(rate_hz) => {
                        let fraction = to.wrapping_sub(from).cast_signed() as f64;
                        Elapsed::Estimated((seconds as f64).mul_add(rate_hz, fraction))
                    }
                    None => Elapsed::Unknown,
                }
            }
            (Picoseconds(from), Picoseconds(to), Some(seconds)) => match self.rate_hz {
                // Without whole seconds, a loss of a second would not be seen.
                Some(rate_hz) if stamp.seconds != Seconds::Absent => {
                    let fraction = (to as f64 - from as f64) / PS_PER_S as f64;
                    Elapsed::Estimated((seconds as f64).mul_add(rate_hz, fraction * rate_hz))
                }
                _ => Elapsed::Unknown,
            },
            _ => Elapsed::Unknown,
        }
    }
}

/// Returns the seconds between two stamps of one clock, which wrap.
fn seconds_between(from: Seconds, to: Seconds) -> Option<i64> {
    match (from, to) {
        (Seconds::Absent, Seconds::Absent) => Some(0),
        (Seconds::Utc(from), Seconds::Utc(to))
        | (Seconds::Gps(from), Seconds::Gps(to))
        | (Seconds::Other(from), Seconds::Other(to)) => Some(i64::from(to.wrapping_sub(from).cast_signed())),
        _ => None,
    }
}

/// Returns the samples from one value of a counter of 64 or 32 bits to another.
fn counted(from: u64, to: u64) -> i64 {
    if let (true, Ok(from), Ok(to)) = (to < from, u32::try_from(from), u32::try_from(to))
        && to.wrapping_sub(from) < WRAP_MAX
    {
        return i64::from(to.wrapping_sub(from));
    }
    to.wrapping_sub(from).cast_signed()
}

/// Returns the time of a stamp in nanoseconds since 1970; `None`: the stamp is on no such clock.
/// `leap_seconds` is the number of leap seconds since 1980.
pub(crate) fn time_ns(stamp: Stamp, leap_seconds: i64, rate_hz: Option<f64>) -> Option<i64> {
    let seconds = match stamp.seconds {
        Seconds::Utc(seconds) => i64::from(seconds),
        Seconds::Gps(seconds) => i64::from(seconds) + GPS_EPOCH_S - leap_seconds,
        Seconds::Absent | Seconds::Other(_) => return None,
    };
    let fraction_ns = match (stamp.fraction, rate_hz) {
        (Fraction::Picoseconds(number), _) => (number / 1000).cast_signed(),
        // A counter that runs on, and has left the second, gives no time.
        (Fraction::Samples(number), Some(rate_hz)) if (number as f64) < rate_hz => {
            (number as f64 / rate_hz * 1e9) as i64
        }
        _ => return None,
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// Returns the samples from one stamp to another, if both are on one clock.
pub(crate) fn samples_between(from: Stamp, to: Stamp, rate_hz: Option<f64>) -> Option<i64> {
    let last = Last { count: 0, stamp: from, samples: 0, fewest: 0 };
    let mut counter = LossCounter { rate_hz, ..LossCounter::default() };
    match counter.elapsed(&last, to) {
        Elapsed::Unknown => None,
        Elapsed::Exact(samples) => Some(samples),
        Elapsed::Estimated(samples) => Some(samples.round() as i64),
    }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
