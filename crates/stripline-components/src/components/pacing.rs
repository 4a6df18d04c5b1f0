//! Pacing for sources: packets of a fixed size, sent as fast as possible or at a steady rate.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use stripline::component::{Ports, Properties, PropertySpec, StopSignal};
use stripline::{Output, Result, Sample};

/// The longest wait of a packet for its time, in seconds: a hundred years.
const WAIT_S_MAX: f64 = 3.2e9;

/// A source of packets of samples, each sent when its last sample is due.
pub(super) struct PacedSource {
    pace: Pace,
    packet: usize,
    /// Number of samples to send; `None`: no limit.
    limit: Option<u64>,
}

impl PacedSource {
    /// Describes the property `packet`.
    pub fn packet_property(default: i64) -> PropertySpec {
        PropertySpec::integer("packet", default, 1, 1 << 27, "samples in a packet").unit("samples")
    }

    /// Describes the property `rate`.
    pub fn rate_property() -> PropertySpec {
        let summary = "pace at which samples are sent; 0: as fast as the receivers take them";
        PropertySpec::float("rate", 0.0, summary).range(0.0, 1e12).unit("samples/s")
    }

    /// Describes the property `duration_s`.
    pub fn duration_property(default: f64, summary: &str) -> PropertySpec {
        PropertySpec::float("duration_s", default, summary).range(0.0, 1e9).unit("s")
    }

    /// Creates a source with the packet size of the property `packet` and `rate` samples per
    /// second; 0: as fast as possible.
    pub fn new(ports: &Ports, properties: &Properties, rate: f64) -> Self {
        let packet = usize::try_from(properties.count("packet")).unwrap_or(usize::MAX);
        Self { pace: Pace::new(ports.stop_signal(), rate), packet, limit: None }
    }

    /// Limits the stream to so many seconds, to the nearest sample; 0: no limit.
    pub fn limited(mut self, duration_s: f64, sample_rate: f64) -> Self {
        // The cast saturates: a duration too long to count has no end.
        self.limit = (duration_s > 0.0).then_some((duration_s * sample_rate).round() as u64);
        self
    }

    /// Sends packets that `fill` writes in place, until it writes nothing or the limit is reached.
    /// `fill` returns the number of samples written.
    pub fn run<T: Sample>(
        mut self,
        mut output: Output<T>,
        mut fill: impl FnMut(&mut [T]) -> Result<usize>,
    ) -> Result<()> {
        let mut sent = 0;
        loop {
            let left = self.limit.map_or(u64::MAX, |limit| limit - sent);
            let samples = usize::try_from(left).unwrap_or(usize::MAX).min(self.packet);
            if samples == 0 {
                return Ok(());
            }
            let mut packet = output.loan(samples)?;
            let count = fill(&mut packet)?.min(samples);
            if count == 0 {
                return Ok(());
            }
            packet.truncate(count);
            sent += count as u64;
            let due_ns = self.pace.wait_for(sent)?;
            packet.intended_ns(due_ns).send()?;
        }
    }
}

/// A clock of a steady rate. Every time is counted from the start. So delays do not accumulate, and
/// a late source catches up with the schedule.
pub(super) struct Pace {
    stop: StopSignal,
    /// Samples per second; 0: unlimited.
    rate: f64,
    start: Option<(Instant, u64)>,
}

impl Pace {
    /// Creates a clock of `rate` samples per second (0: unlimited) that starts with the first wait.
    pub fn new(stop: StopSignal, rate: f64) -> Self {
        Self { stop, rate, start: None }
    }

    /// Sleeps until `samples` samples have passed since the start. Returns the intended end of the
    /// sleep in monotonic nanoseconds; 0 without a rate.
    ///
    /// # Errors
    /// [`Error::Stopped`](stripline::Error::Stopped) if the component is requested to stop.
    pub fn wait_for(&mut self, samples: u64) -> Result<u64> {
        if self.rate <= 0.0 {
            return if self.stop.is_stopped() { Err(stripline::Error::Stopped) } else { Ok(0) };
        }
        let (start, start_ns) = *self.start.get_or_insert_with(|| (Instant::now(), monotonic_ns()));
        let after = Duration::from_secs_f64((samples as f64 / self.rate).min(WAIT_S_MAX));
        self.stop.sleep_until(start + after)?;
        Ok(start_ns + after.as_nanos() as u64)
    }

    /// Restarts with the next wait.
    pub fn restart(&mut self) {
        self.start = None;
    }
}

/// Returns the time on the clock of `intended_ns`.
fn monotonic_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}
