//! Pacing for sources: packets of a fixed size, sent as fast as possible or at a steady rate.

use std::time::{Duration, Instant};

use crate::component::pace_log::PaceRecord;
use crate::component::{Ports, Properties, PropertySpec, StopSignal};
use crate::error::{Error, Result};
use crate::node::Output;
use crate::packet::payload::Content;
use crate::packet::{ClockReference, StreamClock, StreamInfo};
use crate::sys::clock::{now_ns, utc_ns};

/// The longest time that a packet waits until it is due, in seconds: a hundred years.
const WAIT_S_MAX: f64 = 3.2e9;

/// The longest time that a request waits while a [`Pace`] sleeps.
const REQUESTS_TIME: Duration = Duration::from_millis(100);

/// A source of packets of samples, each sent when its last sample is due.
///
/// ```no_run
/// use stripline::Result;
/// use stripline::component::kit::PacedSource;
/// use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties};
///
/// struct Ramp { properties: Properties }
///
/// impl Component for Ramp {
///     fn describe() -> ComponentSpec {
///         ComponentSpec::new("ramp", "Counts.")
///             .output("out", PortTypes::of::<f32>(), "0, 1, 2 and so on")
///             .property(PacedSource::packet_property(1024))
///             .property(PacedSource::rate_property())
///     }
///     fn new(properties: &Properties) -> Result<Self> {
///         Ok(Self { properties: properties.clone() })
///     }
///     fn run(self, mut ports: Ports) -> Result<()> {
///         let output = ports.output::<f32>("out")?;
///         let source = PacedSource::new(&ports, &self.properties, self.properties.float("rate"));
///         let mut next = 0.0;
///         source.run(output, |place| {
///             for sample in place.iter_mut() {
///                 (*sample, next) = (next, next + 1.0);
///             }
///             Ok(place.len())
///         })
///     }
/// }
/// ```
pub struct PacedSource {
    pace: Pace,
    packet: usize,
    /// The number of samples to send; `None`: no limit.
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

    /// Creates a source with the packet size of the property `packet` that sends `rate` samples per
    /// second; 0: as fast as possible.
    pub fn new(ports: &Ports, properties: &Properties, rate: f64) -> Self {
        let packet = usize::try_from(properties.count("packet")).unwrap_or(usize::MAX);
        Self { pace: Pace::new(ports.stop_signal(), rate), packet, limit: None }
    }

    /// Limits the stream to `duration_s` seconds, to the nearest sample; 0: no limit.
    pub fn limited(mut self, duration_s: f64, sample_rate: f64) -> Self {
        // The cast saturates: a duration that is too long to count never ends.
        self.limit = (duration_s > 0.0).then_some((duration_s * sample_rate).round() as u64);
        self
    }

    /// Sends packets that `fill` writes in place, until `fill` writes nothing or the limit is
    /// reached. `fill` returns the number of samples written. In real time, the packets have the
    /// times of [`Pace::time_ns`].
    ///
    /// # Errors
    /// The errors of `fill` and of sends. [`Error::Stopped`] if the component must stop.
    pub fn run<T: Content>(
        mut self,
        mut output: Output<T>,
        mut fill: impl FnMut(&mut [T::Item]) -> Result<usize>,
    ) -> Result<()> {
        let stream = self.pace.described((**output.place().0).clone());
        output.set_stream(stream);
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
            let first = sent;
            sent += count as u64;
            let due_ns = self.pace.wait_for(sent)?;
            packet.intended_ns(due_ns).at_time_ns(self.pace.time_ns(first)).send()?;
        }
    }
}

/// A clock with a steady rate. Every time is counted from the start, so delays do not accumulate,
/// and a late source catches up with the schedule. The report of a run shows how far a source was
/// behind the schedule of its last `Pace`.
///
/// ```no_run
/// use stripline::component::Ports;
/// use stripline::component::kit::Pace;
///
/// fn run(mut ports: Ports) -> stripline::Result<()> {
///     let mut output = ports.output::<f32>("out")?;
///     let mut pace = Pace::new(ports.stop_signal(), 48e3);
///     for packet in 1.. {
///         let due_ns = pace.wait_for(packet * 480)?;
///         output.loan(480)?.intended_ns(due_ns).send()?;
///     }
///     Ok(())
/// }
/// ```
pub struct Pace {
    stop: StopSignal,
    /// Samples per second; 0: unlimited.
    rate: f64,
    start: Option<PaceStart>,
    behind_max: Duration,
    is_real_time: bool,
}

/// The start of a [`Pace`] by three clocks.
#[derive(Clone, Copy)]
struct PaceStart {
    at: Instant,
    monotonic_ns: u64,
    utc_ns: i64,
}

impl Pace {
    /// Creates a clock of `rate` samples per second (0: unlimited) that starts with the first wait.
    pub fn new(stop: StopSignal, rate: f64) -> Self {
        Self { stop, rate, start: None, behind_max: Duration::ZERO, is_real_time: false }
    }

    /// Returns the description of a stream of this pace. In real time, which means at the sample
    /// rate of the stream, the times of the samples stand on the clock of the host.
    ///
    /// ```no_run
    /// # fn example(ports: stripline::component::Ports, output: &mut stripline::Output<f32>) -> stripline::Result<()> {
    /// use stripline::StreamInfo;
    /// use stripline::component::kit::Pace;
    ///
    /// let mut pace = Pace::new(ports.stop_signal(), 48e3);
    /// output.set_stream(pace.described(StreamInfo::new("levels").sample_rate_hz(48e3)));
    /// let packet = output.loan(480)?;
    /// pace.wait_for(480)?;
    /// packet.at_time_ns(pace.time_ns(0)).send()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn described(&mut self, stream: StreamInfo) -> StreamInfo {
        self.is_real_time = self.rate > 0.0 && stream.sample_rate_hz == Some(self.rate);
        match self.is_real_time {
            true => stream.clock(StreamClock::new(ClockReference::Host)),
            false => stream,
        }
    }

    /// Returns the host's UTC at which the sample after `samples` samples was due, in nanoseconds.
    /// 0, which means unknown: the stream described last is not in real time, or no wait has begun.
    pub fn time_ns(&self, samples: u64) -> i64 {
        match self.start.filter(|_| self.is_real_time) {
            Some(start) => start.utc_ns.saturating_add(self.after(samples).as_nanos() as i64),
            None => 0,
        }
    }

    /// Sleeps until `samples` samples have passed since the start. Returns the intended end of the
    /// sleep in monotonic nanoseconds; 0 without a rate.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the component must stop.
    pub fn wait_for(&mut self, samples: u64) -> Result<u64> {
        let Some((due, due_ns)) = self.due(samples)? else { return Ok(0) };
        self.stop.sleep_until(due)?;
        Ok(due_ns)
    }

    /// Sleeps like [`Pace::wait_for`], for a component that also handles requests: `on_request` is
    /// called before the sleep, and every 100 ms during the sleep.
    ///
    /// ```no_run
    /// # fn example(ports: stripline::component::Ports) -> stripline::Result<()> {
    /// use stripline::component::kit::Pace;
    ///
    /// let requests = ports.requests();
    /// let mut level = 1.0;
    /// // Ten seconds.
    /// Pace::new(ports.stop_signal(), 48e3).wait_with(480_000, || {
    ///     requests.apply_changes(|new| Ok(level = new.float("level")));
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Pace::wait_for`].
    pub fn wait_with(&mut self, samples: u64, mut on_request: impl FnMut()) -> Result<u64> {
        on_request();
        let Some((due, due_ns)) = self.due(samples)? else { return Ok(0) };
        loop {
            let step = Instant::now() + REQUESTS_TIME;
            if due <= step {
                self.stop.sleep_until(due)?;
                return Ok(due_ns);
            }
            self.stop.sleep_until(step)?;
            on_request();
        }
    }

    /// Returns the time at which this number of samples is due, also in monotonic nanoseconds, and
    /// records how late the component is; `None` without a rate.
    fn due(&mut self, samples: u64) -> Result<Option<(Instant, u64)>> {
        if self.rate <= 0.0 {
            return if self.stop.is_stopped() { Err(Error::Stopped) } else { Ok(None) };
        }
        let begin = || PaceStart { at: Instant::now(), monotonic_ns: now_ns(), utc_ns: utc_ns() };
        let PaceStart { at: start, monotonic_ns, .. } = *self.start.get_or_insert_with(begin);
        let after = self.after(samples);
        let late = Instant::now().saturating_duration_since(start + after);
        self.behind_max = self.behind_max.max(late);
        let (rate, behind_max) = (self.rate, self.behind_max);
        self.stop.pace_log().set(PaceRecord { rate, start, due: after, behind_max, end: None });
        Ok(Some((start + after, monotonic_ns + after.as_nanos() as u64)))
    }

    /// Returns the time that this number of samples takes.
    fn after(&self, samples: u64) -> Duration {
        Duration::from_secs_f64((samples as f64 / self.rate).min(WAIT_S_MAX))
    }

    /// Restarts with the next wait.
    pub fn restart(&mut self) {
        self.start = None;
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            self.stop.pace_log().end(start.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::harness::Harness;
    use crate::component::{ComponentSpec, PortTypes, Registry, Value};

    #[test]
    fn a_long_wait_takes_requests_and_ends_at_a_stop() {
        let spec = ComponentSpec::new("slow", "Waits for an hour.")
            .property(PropertySpec::float("level", 1.0, "a level").changeable())
            .property(PropertySpec::float("taken", 0.0, "the level that was taken").read_only());
        let registry = Registry::new().with_value(spec, |_: &Properties| {
            Ok(|ports: Ports| {
                let (requests, taken) = (ports.requests(), ports.status::<f64>("taken")?);
                let take = || {
                    requests.apply_changes(|new| {
                        taken.set(new.float("level"));
                        Ok(())
                    });
                };
                assert_eq!(Pace::new(ports.stop_signal(), 0.0).wait_with(1, || ())?, 0);
                let mut pace = Pace::new(ports.stop_signal(), 1e9);
                let due_ns = [1, 1000].map(|samples| pace.wait_with(samples, || ()).unwrap());
                assert_eq!(due_ns[1] - due_ns[0], 999);
                // The test stops the component only after this wait has taken its request.
                let waited = Pace::new(ports.stop_signal(), 1.0).wait_with(3600, take);
                assert!(matches!(waited, Err(Error::Stopped)), "{waited:?}");
                Ok(())
            })
        });
        let mut run = Harness::of_type(&registry, "slow").start().unwrap();
        run.set("level", 2.0).unwrap();
        run.stop();
        assert_eq!(run.finish().unwrap()["taken"], Value::Float(2.0));
    }

    /// Compares the times of packets with the host's UTC, and gives none at another pace.
    #[test]
    fn samples_in_real_time_have_the_time_of_the_host() {
        let source = |rate: f64| {
            let spec = ComponentSpec::new("ramp", "Counts.")
                .output("out", PortTypes::of::<f32>(), "numbers")
                .property(PacedSource::packet_property(10));
            let registry = Registry::new().with_value(spec, move |properties: &Properties| {
                let properties = properties.clone();
                Ok(move |mut ports: Ports| {
                    let mut output = ports.output::<f32>("out")?;
                    output.set_stream(StreamInfo::new("ramp").sample_rate_hz(1e4));
                    let source = PacedSource::new(&ports, &properties, rate).limited(0.002, 1e4);
                    source.run(output, |place| Ok(place.len()))
                })
            });
            let before = utc_ns();
            let mut run = Harness::of_type(&registry, "ramp").start().unwrap();
            let mut output = run.output::<f32>("out").unwrap();
            let (mut times, mut clocks) = (Vec::new(), Vec::new());
            while let Some(packet) = output.receive().unwrap() {
                times.push(packet.time_ns());
                clocks.push(packet.stream().clock);
            }
            run.finish().unwrap();
            (times, clocks, before..utc_ns())
        };
        let (times, clocks, run) = source(1e4);
        assert_eq!(times[1] - times[0], 1_000_000);
        assert!(run.contains(&times[0]) && run.contains(&times[1]), "{times:?} {run:?}");
        assert_eq!(clocks, [Some(StreamClock::new(ClockReference::Host)); 2]);
        for rate in [0.0, 2e4] {
            let (times, clocks, _) = source(rate);
            assert_eq!((times, clocks), (vec![0, 0], vec![None, None]), "{rate}");
        }
    }
}
