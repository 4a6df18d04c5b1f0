//! The choice of the packets that carry a time stamp.

use serde::{Deserialize, Serialize};

use crate::sys::clock::now_ns;

/// Packets per second up to which every packet is measured.
const EVERY_PACKET_RATE: f64 = 100_000.0;
/// Packets measured per second at higher rates. The cost of measuring is then below the noise. A
/// second of samples gives the 99 % percentile, and four seconds give the 99.9 % percentile.
const SAMPLED_RATE: f64 = 25_000.0;

/// The share of packets that are measured.
///
/// ```
/// use stripline::link::Sampling;
///
/// assert_eq!(Sampling::default(), Sampling::Auto);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Every packet up to about 100,000 packets/s. Above this rate, an unbiased sample of about
    /// 25,000 packets/s.
    #[default]
    Auto,
    /// Every packet.
    All,
    /// No packet. The counters stay exact.
    Off,
}

/// A decision for each packet whether to measure it. A clock reading costs 20 ns, and the whole
/// trip of a small packet 70 ns. So above a certain rate, measured packets are drawn at random
/// distances, which no periodic traffic can bias.
pub(crate) struct Sampler {
    sampling: Sampling,
    /// Packets until the next measured one.
    countdown: u32,
    /// The mean distance between measured packets.
    stride: u32,
    since_last: u32,
    last_ns: u64,
    random: u64,
    /// A clock reading already made for the next packet; 0: no reading.
    reserved_ns: u64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        let start = now_ns();
        Self {
            sampling,
            countdown: 1,
            stride: 1,
            since_last: 0,
            last_ns: start,
            random: start | 1,
            reserved_ns: 0,
        }
    }

    /// Returns whether the next stamp may be nonzero.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.countdown == 1
    }

    /// Counts a packet that is not due.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.countdown -= 1;
    }

    /// Returns the stamp of the next packet before the packet is sent, for callers that need it
    /// beforehand.
    #[inline]
    pub(crate) fn reserve_timestamp(&mut self) -> u64 {
        if !self.is_due() || self.sampling == Sampling::Off {
            return 0;
        }
        self.reserved_ns = now_ns();
        self.reserved_ns
    }

    /// Discards the reserved stamp, because the packet is not sent yet.
    pub(crate) fn cancel_timestamp(&mut self) {
        self.reserved_ns = 0;
    }

    /// Returns the stamp of this packet in monotonic nanoseconds, or 0 if the packet is not
    /// measured.
    #[inline]
    pub(crate) fn stamp(&mut self) -> u64 {
        self.countdown -= 1;
        if self.countdown > 0 { 0 } else { self.stamp_now() }
    }

    /// Returns the stamp when the countdown is over.
    #[cold]
    fn stamp_now(&mut self) -> u64 {
        match self.sampling {
            Sampling::Off => {
                self.countdown = u32::MAX;
                0
            }
            Sampling::All => {
                self.countdown = 1;
                self.now()
            }
            Sampling::Auto => {
                let now = self.now();
                self.measure(now)
            }
        }
    }

    #[inline]
    fn now(&mut self) -> u64 {
        match std::mem::take(&mut self.reserved_ns) {
            0 => now_ns(),
            ahead_ns => ahead_ns,
        }
    }

    fn measure(&mut self, now: u64) -> u64 {
        self.since_last = self.since_last.saturating_add(self.stride);
        let elapsed = now.saturating_sub(self.last_ns);
        // The rate is measured over at least a millisecond, so that a fast pair of packets cannot
        // determine it.
        if elapsed >= 1_000_000 {
            let rate = f64::from(self.since_last) * 1e9 / elapsed as f64;
            let is_slow = rate <= EVERY_PACKET_RATE;
            self.stride = if is_slow { 1 } else { (rate / SAMPLED_RATE).ceil().min(65_536.0) as u32 };
            self.since_last = 0;
            self.last_ns = now;
        }
        self.countdown = if self.stride == 1 { 1 } else { 1 + self.draw(2 * self.stride - 1) };
        now
    }

    /// Returns a number below `bound` (xorshift64; Marsaglia 2003).
    fn draw(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u64::from(bound) * (self.random >> 32)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sender_is_measured_packet_by_packet() {
        let mut sampler = Sampler::new(Sampling::Auto);
        for i in 1..1000 {
            assert_ne!(sampler.measure(sampler.last_ns + i * 20_000), 0);
            assert_eq!(sampler.countdown, 1);
        }
    }

    #[test]
    fn a_fast_sender_is_sampled_at_about_the_rate() {
        let mut sampler = Sampler::new(Sampling::Auto);
        let (mut now, mut measured) = (sampler.last_ns, 0);
        // Ten million packets/s for a second, after a millisecond in which the rate is measured.
        for packet in 0..10_010_000 {
            now += 100;
            sampler.countdown -= 1;
            if sampler.countdown == 0 {
                sampler.measure(now);
                measured += u32::from(packet >= 10_000);
            }
        }
        assert!((20_000..30_000).contains(&measured), "{measured}");
    }

    #[test]
    fn off_measures_nothing() {
        let mut off = Sampler::new(Sampling::Off);
        assert_eq!((off.reserve_timestamp(), off.stamp()), (0, 0));
        assert_ne!(Sampler::new(Sampling::All).stamp(), 0);
    }

    #[test]
    fn a_stamp_that_was_told_ahead_is_that_of_the_next_packet_only() {
        let mut sampler = Sampler::new(Sampling::All);
        let ahead = sampler.reserve_timestamp();
        assert!(ahead != 0 && sampler.stamp() == ahead && sampler.stamp() != ahead);
        let ahead = sampler.reserve_timestamp();
        sampler.cancel_timestamp();
        assert!(sampler.stamp() > ahead);
    }
}
