//! The place of received samples in the stream, by the hardware times of a driver, and the samples
//! from which on a description holds.

use std::collections::VecDeque;

use stripline::StreamInfo;

const NS_PER_S: f64 = 1e9;
/// The most samples of a gap. A stamp further ahead does not belong to the same count.
const GAP_MAX: f64 = 1e15;

/// The relation of arrived samples to the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalStep {
    /// The samples continue the stream.
    Next,
    /// This number of samples of each channel is missing before.
    Gap(u64),
    /// An unknown number of samples is missing before.
    Unknown,
}

/// The count of the samples of a channel.
#[derive(Debug)]
pub(super) struct Timeline {
    rate_hz: f64,
    uses_stamps: bool,
    /// The index of the next sample.
    next: u64,
    /// An index and its hardware time.
    anchor: Option<(u64, i64)>,
    /// Whether the driver has reported a loss since the last samples.
    is_interrupted: bool,
    /// Whether the rate has changed since the last samples.
    is_retimed: bool,
}

impl Timeline {
    pub fn new(rate_hz: f64, uses_stamps: bool) -> Self {
        Self { rate_hz, uses_stamps, next: 0, anchor: None, is_interrupted: false, is_retimed: false }
    }

    /// Returns the index of the next sample.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the sample rate.
    pub fn rate_hz(&self) -> f64 {
        self.rate_hz
    }

    /// Notes a loss that the driver reports.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Places samples. With [`ArrivalStep::Unknown`], the count begins again at 0.
    pub fn arrive(&mut self, samples: usize, stamp_ns: Option<i64>) -> ArrivalStep {
        let step = self.step(stamp_ns);
        match step {
            ArrivalStep::Next => {}
            ArrivalStep::Gap(missing) => self.next += missing,
            ArrivalStep::Unknown => (self.next, self.anchor) = (0, None),
        }
        (self.is_interrupted, self.is_retimed) = (false, false);
        if let Some(stamp_ns) = stamp_ns {
            self.anchor = Some((self.next, stamp_ns));
        }
        self.next += samples as u64;
        step
    }

    /// Counts the following samples at another rate.
    pub fn retime(&mut self, rate_hz: f64) {
        self.anchor = self.anchor.map(|_| (self.next, self.time_ns(self.next).unwrap_or(0)));
        (self.rate_hz, self.is_retimed) = (rate_hz, true);
    }

    /// Returns the hardware time of a sample.
    pub fn time_ns(&self, index: u64) -> Option<i64> {
        let (first, time_ns) = self.anchor?;
        let samples = index as f64 - first as f64;
        Some(time_ns.saturating_add((samples * NS_PER_S / self.rate_hz).round() as i64))
    }

    /// Returns the first sample that was taken at this time or later, but not before the next one.
    pub fn index_at(&self, time_ns: i64) -> Option<u64> {
        let (first, anchor_ns) = self.anchor?;
        let samples = (time_ns.saturating_sub(anchor_ns)) as f64 * self.rate_hz / NS_PER_S;
        // A stamp is rounded to nanoseconds, which is less than this part of a sample.
        let samples = (samples - self.rate_hz / NS_PER_S).ceil().clamp(0.0, GAP_MAX) as u64;
        Some(self.next.max(first + samples))
    }

    fn step(&self, stamp_ns: Option<i64>) -> ArrivalStep {
        if self.next == 0 && self.anchor.is_none() {
            return ArrivalStep::Next;
        }
        let stamps = self.anchor.zip(stamp_ns).filter(|_| self.uses_stamps);
        let Some(((first, anchor_ns), stamp_ns)) = stamps else {
            return if self.is_interrupted || self.is_retimed {
                ArrivalStep::Unknown
            } else {
                ArrivalStep::Next
            };
        };
        let since = stamp_ns.saturating_sub(anchor_ns) as f64 * self.rate_hz / NS_PER_S;
        let missing = since.round() - (self.next - first) as f64;
        match missing {
            0.0 => ArrivalStep::Next,
            // The time at which the old rate ended is not exact.
            _ if missing < 0.0 && self.is_retimed => ArrivalStep::Next,
            _ if (0.0..=GAP_MAX).contains(&missing) => ArrivalStep::Gap(missing as u64),
            _ => ArrivalStep::Unknown,
        }
    }
}

/// A description that is about to hold.
#[derive(Debug)]
struct Coming {
    /// The old description holds up to this sample. Between both, none is sure to hold.
    until: u64,
    from: u64,
    info: StreamInfo,
}

/// The next thing to do with samples.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// Send this number of samples.
    Send(usize),
    /// Leave this number of samples out, because no description is sure to hold for them.
    LeaveOut(usize),
    /// Begin this description.
    Describe(Box<StreamInfo>),
}

/// The descriptions that are about to hold, in the order of samples.
#[derive(Debug, Default)]
pub(super) struct Labels(VecDeque<Coming>);

impl Labels {
    /// Returns whether no description is about to hold.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a description that holds from sample `from` on. The one before holds up to `until`.
    pub fn add(&mut self, until: u64, from: u64, info: StreamInfo) {
        let from = from.max(until);
        match self.0.back_mut() {
            // The previous description would hold for no sample.
            Some(last) if until <= last.from => (last.from, last.info) = (from.max(last.from), info),
            _ => self.0.push_back(Coming { until, from, info }),
        }
    }

    /// Returns the newest description, and drops the samples from which on it would hold.
    pub fn take_last(&mut self) -> Option<StreamInfo> {
        std::mem::take(&mut self.0).pop_back().map(|coming| coming.info)
    }

    /// Returns the number of samples from `index` on up to the newest description.
    pub fn length_from(&self, index: u64) -> u64 {
        self.0.back().map_or(0, |coming| coming.from.saturating_sub(index))
    }

    /// Returns what to do with the samples from `index` on.
    pub fn piece(&mut self, index: u64, samples: usize) -> Piece {
        let up_to = |end: u64| usize::try_from(end - index).map_or(samples, |count| count.min(samples));
        match self.0.front() {
            None => Piece::Send(samples),
            Some(coming) if index < coming.until => Piece::Send(up_to(coming.until)),
            Some(coming) if index < coming.from => Piece::LeaveOut(up_to(coming.from)),
            Some(_) => match self.0.pop_front() {
                Some(coming) => Piece::Describe(Box::new(coming.info)),
                None => Piece::Send(samples),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts exactly for rates that do not divide a second, however long a run is.
    #[test]
    fn a_gap_has_its_exact_length() {
        for rate in [1e6, 2.4e6, 2_048_000.3, 61.44e6] {
            let mut line = Timeline::new(rate, true);
            let stamp = |index: u64| Some(7_000_000_000 + (index as f64 * 1e9 / rate).round() as i64);
            assert_eq!(line.arrive(1000, stamp(0)), ArrivalStep::Next);
            let mut at = 1000;
            for missing in [0, 1, 0, 17, 1_000_000, 0, 1_000_000_007] {
                at += missing;
                let step = line.arrive(1000, stamp(at));
                assert_eq!(
                    step,
                    if missing == 0 { ArrivalStep::Next } else { ArrivalStep::Gap(missing) },
                    "{rate}"
                );
                at += 1000;
                assert_eq!(line.next(), at);
            }
            // Stamps of samples are the times of these samples.
            for index in [at, at + 1, at + 12_345] {
                assert_eq!(line.index_at(stamp(index).unwrap_or(0)), Some(index), "{rate}");
            }
            assert_eq!(line.index_at(0), Some(at));
        }
    }

    /// Reports a loss of unknown length, and begins the count again, where stamps do not help.
    #[test]
    fn a_loss_without_stamps_is_unknown() {
        let mut line = Timeline::new(1e6, true);
        line.interrupt();
        assert_eq!(line.arrive(10, None), ArrivalStep::Next);
        assert_eq!(line.arrive(10, None), ArrivalStep::Next);
        line.interrupt();
        assert_eq!(line.arrive(10, None), ArrivalStep::Unknown);
        assert_eq!(line.next(), 10);
        // Stamps that go back, and stamps that are not used.
        assert_eq!(line.arrive(10, Some(5_000_000)), ArrivalStep::Next);
        assert_eq!(line.arrive(10, Some(1_000_000)), ArrivalStep::Unknown);
        let mut line = Timeline::new(1e6, false);
        assert_eq!(line.arrive(10, Some(0)), ArrivalStep::Next);
        assert_eq!(line.arrive(10, Some(1_000_000)), ArrivalStep::Next);
    }

    /// Counts the time between two rates in samples of the new one.
    #[test]
    fn another_rate_goes_on_behind_the_last_sample() {
        let mut line = Timeline::new(1e6, true);
        line.arrive(1000, Some(0));
        line.retime(2e6);
        assert_eq!(line.arrive(1000, Some(1_500_000)), ArrivalStep::Gap(1000));
        assert_eq!(line.next(), 3000);
    }

    /// Cuts samples where descriptions hold, and leaves out those between.
    #[test]
    fn descriptions_begin_at_their_sample() {
        let mut labels = Labels::default();
        let info = |id: &str| StreamInfo::new(id);
        assert_eq!(labels.piece(0, 100), Piece::Send(100));
        labels.add(110, 120, info("b"));
        labels.add(115, 130, info("c"));
        labels.add(140, 140, info("d"));
        assert_eq!(labels.piece(100, 100), Piece::Send(10));
        assert_eq!(labels.piece(110, 90), Piece::LeaveOut(20));
        assert_eq!(labels.piece(130, 70), Piece::Describe(Box::new(info("c"))));
        assert_eq!(labels.piece(130, 70), Piece::Send(10));
        assert_eq!(labels.piece(140, 60), Piece::Describe(Box::new(info("d"))));
        assert_eq!(labels.piece(140, 60), Piece::Send(60));
        labels.add(200, 300, info("e"));
        assert_eq!(labels.take_last(), Some(info("e")));
        assert!(labels.is_empty());
    }
}
