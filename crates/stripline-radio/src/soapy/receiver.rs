//! The loop of `soapy-source`.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use stripline::component::{Change, ControlRequests, Ports, Properties, Request, Status, StopSignal};
use stripline::{Error, Output, Result, Sample, StreamInfo};

use super::claim::ClaimedDevice;
use super::library::{Device, NativeSample, ReadOutcome, Stream, Way};
use super::packet_clock::PacketClock;
use super::settings::{self, DeviceSettings, Reached, ReachedStatus};
use super::timeline::{ArrivalStep, Labels, Piece, Timeline};
use super::tuning::{self, TuneChange, TuneRequest};
use super::watch::Watch;
use crate::tuner::TunerError;

/// The longest wait in a read: the time to a request or a stop.
const READ_TIME_US: std::ffi::c_long = 100_000;
/// The reads without a sample until the source asks whether the device is there. A driver does not
/// always report that it is not: a datagram of a server that has ended does not come.
const SILENT_READS: u32 = 10;
/// The most errors of a driver in a row.
const ERRORS_MAX: u32 = 10;
/// The pause between two attempts to open a device.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);
/// The time from a request to a change of the frequency at a hardware time.
const LEAD_NS: i64 = 20_000_000;
/// The time that a change of the frequency takes, if the device does not change it at a time.
const SETTLE_MS: f64 = 50.0;
/// The longest plausible time from the next sample to a change of the device.
const AHEAD_MAX_S: f64 = 10.0;

/// The counts of a source.
pub(super) struct ReceiveCounts {
    overflows: Status<u64>,
    missing: Status<u64>,
    unknown_losses: Status<u64>,
    left_out: Status<u64>,
    reopened: Status<u64>,
    /// Sent and missing samples of all channels, and places of gaps.
    pub samples: u64,
    pub all_missing: u64,
    pub places: u64,
}

impl ReceiveCounts {
    pub fn new(ports: &Ports) -> Result<Self> {
        Ok(Self {
            overflows: ports.status("overflows")?,
            missing: ports.status("missing")?,
            unknown_losses: ports.status("unknown_losses")?,
            left_out: ports.status("left_out")?,
            reopened: ports.status("reopened")?,
            samples: 0,
            all_missing: 0,
            places: 0,
        })
    }
}

/// A device with a running stream.
pub(super) struct Opened<T> {
    stream: Stream<T>,
    device: ClaimedDevice,
    reached: Reached,
    timeline: Timeline,
    /// The most samples of a read.
    samples_preferred: usize,
}

impl<T: NativeSample> Opened<T> {
    pub fn new(
        device: ClaimedDevice,
        channels: &[usize],
        settings: &DeviceSettings,
        uses_stamps: bool,
    ) -> Result<Self> {
        settings.apply(&device, Way::Receive, channels, &DeviceSettings::default())?;
        if let Some(frequency) = settings.frequency_hz {
            settings::tune(&device, Way::Receive, channels, frequency)?;
        }
        let mut stream = settings::stream::<T>(&device, Way::Receive, channels)?;
        let first = channels.first().copied().unwrap_or_default();
        let reached = Reached::of(&device, Way::Receive, first);
        if !(reached.sample_rate_hz.is_finite() && reached.sample_rate_hz > 0.0) {
            return Err(settings::wrong("sample_rate", "the device has no sample rate", "set `sample_rate`"));
        }
        stream.activate().map_err(|error| Error::failed(format!("the stream does not start: {error}")))?;
        let timeline = Timeline::new(reached.sample_rate_hz, uses_stamps);
        let samples_preferred = stream.samples_preferred();
        Ok(Self { device, stream, reached, timeline, samples_preferred })
    }
}

/// The parts of a source that its loop takes over.
pub(super) struct DeviceReceiverParts<T: NativeSample + Sample> {
    pub name: String,
    pub properties: Properties,
    pub stop: StopSignal,
    pub watch: Arc<Watch>,
    pub settings: DeviceSettings,
    pub channels: Vec<usize>,
    pub output: Output<T>,
    pub counts: ReceiveCounts,
    pub status: ReachedStatus,
    pub opened: Opened<T>,
    pub tuning: mpsc::Receiver<TuneRequest>,
}

/// The loop of a source.
pub(super) struct DeviceReceiver<T: NativeSample + Sample> {
    name: String,
    properties: Properties,
    stop: StopSignal,
    watch: Arc<Watch>,
    settings: DeviceSettings,
    channels: Vec<usize>,
    output: Output<T>,
    labels: Labels,
    clock: PacketClock,
    pub counts: ReceiveCounts,
    status: ReachedStatus,
    /// `None`: the device has failed.
    opened: Option<Opened<T>>,
    /// The newest description.
    info: StreamInfo,
    /// The most samples of each channel in a packet.
    packet: usize,
    /// The number of streams so far.
    streams: u64,
    /// The errors of the driver since the last samples.
    errors: u32,
    /// The reads since the last samples, or the last question.
    silent_reads: u32,
    failed_at: Option<Instant>,
    /// The samples of a read, one channel behind the other.
    scratch: Vec<T>,
    /// The samples of each channel up to the end, also the missing ones. `None`: there is no end.
    left: Option<u64>,
    /// The requests of the tuner's clients.
    tuning: mpsc::Receiver<TuneRequest>,
}

impl<T: NativeSample + Sample> DeviceReceiver<T> {
    pub fn new(parts: DeviceReceiverParts<T>) -> Self {
        let DeviceReceiverParts { name, properties, stop, watch, settings, channels, output, .. } = parts;
        let duration_s = properties.float("duration_s");
        let rate = parts.opened.reached.sample_rate_hz;
        let mut receiver = Self {
            clock: PacketClock::new(
                properties.text("time") == "device",
                Some(properties.count("clock_error_ns")).filter(|error_ns| *error_ns > 0),
            ),
            packet: usize::try_from(properties.count("packet")).unwrap_or(usize::MAX),
            name,
            properties,
            stop,
            watch,
            settings,
            channels,
            output,
            labels: Labels::default(),
            counts: parts.counts,
            status: parts.status,
            opened: Some(parts.opened),
            info: StreamInfo::default(),
            streams: 1,
            errors: 0,
            silent_reads: 0,
            failed_at: None,
            scratch: Vec::new(),
            left: (duration_s > 0.0).then(|| (duration_s * rate).round() as u64),
            tuning: parts.tuning,
        };
        receiver.describe();
        receiver.output.set_stream(receiver.info.clone());
        receiver
    }

    /// Receives up to the end, a stop, or a failure.
    pub fn run(&mut self, requests: &ControlRequests) -> Result<()> {
        loop {
            while let Ok(request) = self.tuning.try_recv() {
                self.tune(request);
            }
            while let Some(request) = requests.request() {
                self.answer(request);
            }
            if self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            if self.left == Some(0) {
                return Ok(());
            }
            let outcome = self.receive()?;
            match outcome {
                ReadOutcome::Samples(..) => {
                    (self.errors, self.silent_reads, self.failed_at) = (0, 0, None);
                }
                ReadOutcome::Timeout => {
                    if let Some(reason) = self.absence() {
                        self.errors = ERRORS_MAX;
                        self.fail(&reason)?;
                    }
                }
                ReadOutcome::Overflow => {
                    self.counts.overflows.add(1);
                    self.interrupt();
                }
                ReadOutcome::Failed(reason) => self.fail(&reason)?,
            }
        }
    }

    /// Reads once, and sends what has arrived.
    fn receive(&mut self) -> Result<ReadOutcome> {
        let Some(opened) = &mut self.opened else { return Ok(ReadOutcome::Failed("it is closed".into())) };
        let many = self.channels.len();
        let most = (self.output.in_place_samples_max() / many).max(1);
        let preferred = if opened.samples_preferred == 0 { most } else { opened.samples_preferred };
        let left = self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let samples = self.packet.min(most).min(preferred).min(left);
        if many > 1 {
            self.scratch.resize(samples * many, T::default());
            let outcome = self.watch.stream(|| opened.stream.read(&mut self.scratch, READ_TIME_US));
            if let ReadOutcome::Samples(count, stamp_ns) = outcome {
                let next = opened.timeline.next();
                let step = opened.timeline.arrive(count, stamp_ns);
                self.deliver(samples, count, next, step)?;
            }
            return Ok(outcome);
        }
        let mut loan = self.output.loan(samples)?;
        let outcome = self.watch.stream(|| opened.stream.read(&mut loan, READ_TIME_US));
        let ReadOutcome::Samples(count, stamp_ns) = outcome else { return Ok(outcome) };
        let next = opened.timeline.next();
        let step = opened.timeline.arrive(count, stamp_ns);
        if step == ArrivalStep::Next && self.labels.is_empty() {
            let (rate, index) = (opened.reached.sample_rate_hz, opened.timeline.next() - count as u64);
            let time_ns = self.clock.time_ns(index, count, rate, opened.timeline.time_ns(index));
            loan.truncate(count);
            loan.at_sample(index).at_time_ns(time_ns).send()?;
            self.counts.samples += count as u64;
            self.count_down(count as u64);
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(&loan[..count]);
            drop(loan);
            self.deliver(count, count, next, step)?;
        }
        Ok(outcome)
    }

    /// Sends samples of the scratch memory, in which the channels are `stride` samples apart.
    /// The next sample had the index `next`, before these came.
    fn deliver(&mut self, stride: usize, count: usize, next: u64, step: ArrivalStep) -> Result<()> {
        self.count_down(count as u64);
        match step {
            ArrivalStep::Next => {}
            ArrivalStep::Gap(missing) => {
                self.count_down(missing);
                self.counts.missing.add(missing);
                self.counts.all_missing += missing * self.channels.len() as u64;
                self.counts.places += 1;
            }
            ArrivalStep::Unknown => {
                // A description that is about to hold may not do so yet.
                let coming = self.labels.length_from(next);
                self.begin_stream();
                self.labels.add(0, coming, self.info.clone());
            }
        }
        let Some(opened) = &self.opened else { return Ok(()) };
        let (rate, first) = (opened.reached.sample_rate_hz, opened.timeline.next() - count as u64);
        let time_ns = self.clock.time_ns(first, count, rate, opened.timeline.time_ns(first));
        let (mut done, mut is_left_out) = (0, false);
        while done < count {
            match self.labels.piece(first + done as u64, count - done) {
                Piece::Describe(info) => self.output.set_stream(*info),
                Piece::LeaveOut(samples) => {
                    done += samples;
                    is_left_out = true;
                    self.counts.left_out.add(samples as u64);
                    self.counts.all_missing += (samples * self.channels.len()) as u64;
                }
                Piece::Send(samples) => {
                    let later_ns = (done as f64 * 1e9 / rate).round() as i64;
                    self.send(stride, done..done + samples, first + done as u64, time_ns + later_ns)?;
                    done += samples;
                }
            }
        }
        self.counts.places += u64::from(is_left_out);
        Ok(())
    }

    /// Sends a range of the scratch memory, sample by sample of the channels in turn.
    fn send(&mut self, stride: usize, range: std::ops::Range<usize>, index: u64, time_ns: i64) -> Result<()> {
        let many = self.channels.len();
        let mut loan = self.output.loan(range.len() * many)?;
        for (channel, part) in self.scratch.chunks(stride).take(many).enumerate() {
            for (frame, sample) in loan.chunks_exact_mut(many).zip(&part[range.clone()]) {
                frame[channel] = *sample;
            }
        }
        loan.at_sample(index * many as u64).at_time_ns(time_ns).send()?;
        self.counts.samples += (range.len() * many) as u64;
        Ok(())
    }

    fn count_down(&mut self, samples: u64) {
        self.left = self.left.map(|left| left.saturating_sub(samples));
    }

    /// Notes a loss that the driver reports.
    fn interrupt(&mut self) {
        if let Some(opened) = &mut self.opened {
            opened.timeline.interrupt();
        }
    }

    /// Begins another stream, because the number of lost samples is unknown.
    fn begin_stream(&mut self) {
        self.streams += 1;
        self.counts.unknown_losses.add(1);
        self.counts.places += 1;
        self.clock.reset();
        drop(self.labels.take_last());
        self.describe();
        self.output.set_stream(self.info.clone());
    }

    /// Describes the stream with the values that the device has reached.
    fn describe(&mut self) {
        let Some(opened) = &self.opened else { return };
        let (reached, many) = (&opened.reached, self.channels.len());
        let id = match self.streams {
            1 => self.name.clone(),
            number => format!("{}-{number}", self.name),
        };
        let mut info = StreamInfo::new(&id).sample_rate_hz(reached.sample_rate_hz * many as f64);
        if reached.frequency_hz.is_finite() && reached.frequency_hz != 0.0 {
            info = info.center_frequency_hz(reached.frequency_hz);
        }
        if many > 1 {
            info = info.channels(self.channels.iter().map(usize::to_string));
        }
        info = info.keyword("gain_db", reached.gain_db).keyword("device", self.properties.text("device"));
        if !reached.antenna.is_empty() {
            info = info.keyword("antenna", reached.antenna.clone());
        }
        if reached.bandwidth_hz > 0.0 {
            info = info.keyword("bandwidth_hz", reached.bandwidth_hz);
        }
        if self.streams > 1 {
            info = info.keyword("lost_before", "unknown");
        }
        self.info = info;
        self.status.set(reached);
        let asked = || (opened.device.sensors(), opened.device.hardware_time_ns().is_some());
        let (sensors, has_time) = self.watch.call(asked);
        self.info.clock = Some(self.clock.reference(has_time, &reached.time_source, &sensors));
        self.status.set_sensors(&sensors);
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Change(change) => self.change(change),
            Request::Test(test) => match &self.opened {
                Some(opened) => match self.watch.call(|| settings::test_sensors(&opened.device)) {
                    Ok(values) => test.pass(values),
                    Err(fault) => test.fail(fault),
                },
                None => test.fail("the device is closed"),
            },
        }
    }

    fn change(&mut self, change: Change) {
        let watch = Arc::clone(&self.watch);
        let changed = DeviceSettings::new(change.properties()).and_then(|new| {
            // A client of the tuner may have changed the others.
            let new = self.settings.clone().with(new, change.names());
            watch.call(|| self.apply(new, None))
        });
        match changed {
            Ok(()) => change.accept(),
            Err(error) => change.refuse(error),
        }
    }

    /// Answers a client of the tuner.
    fn tune(&mut self, request: TuneRequest) {
        let watch = Arc::clone(&self.watch);
        let name = self.properties.text("device").to_owned();
        let gone = || TunerError::Gone { device: name.clone() };
        let first = self.channels.first().copied().unwrap_or_default();
        // A client that does not wait any longer gets no answer.
        match request {
            TuneRequest::Read(reply) => {
                let reached = self.opened.as_ref().map(|opened| opened.reached.clone());
                drop(reply.send(reached.ok_or_else(gone)));
            }
            TuneRequest::Abilities(reply) => {
                let found = self
                    .opened
                    .as_ref()
                    .map(|opened| self.watch.call(|| tuning::abilities(&opened.device, &name, first)));
                drop(reply.send(found.ok_or_else(gone)));
            }
            TuneRequest::Set(change, at_ns, reply) => {
                let set = watch.call(|| self.set(change, at_ns));
                let reached = self.opened.as_ref().map(|opened| opened.reached.clone());
                drop(reply.send(set.and_then(|()| reached.ok_or_else(gone))));
            }
        }
    }

    /// Sets a value for a client of the tuner.
    fn set(&mut self, change: TuneChange, at_ns: Option<i64>) -> std::result::Result<(), TunerError> {
        let device = self.properties.text("device").to_owned();
        let Some(opened) = &self.opened else { return Err(TunerError::Gone { device }) };
        let first = self.channels.first().copied().unwrap_or_default();
        let (setting, abilities) = (change.setting(), tuning::abilities(&opened.device, &device, first));
        change.check(&abilities)?;
        let is_timed = abilities.is_timed && !matches!(change, TuneChange::Rate(_));
        let at_device_ns = match at_ns {
            None => None,
            Some(_) if !is_timed => return Err(TunerError::NotTimed { setting, device }),
            Some(at_ns) => {
                let times = self.clock.device_ns(at_ns).zip(opened.device.hardware_time_ns());
                let failed = || TunerError::Failed { setting, reason: "no sample has arrived yet".into() };
                let (device_ns, now_ns) = times.ok_or_else(failed)?;
                if device_ns <= now_ns {
                    let now_ns = at_ns.saturating_add(now_ns.saturating_sub(device_ns));
                    return Err(TunerError::Late { setting, at_ns, now_ns });
                }
                Some(device_ns)
            }
        };
        let new = self.settings.clone().tuned(change, abilities.has_automatic_gain);
        let failed = |error: Error| TunerError::Failed { setting, reason: error.to_string() };
        self.apply(new, at_device_ns).map_err(failed)
    }

    /// Sets new values in the device, all or none; at a hardware time, if there is one.
    fn apply(&mut self, new: DeviceSettings, at_ns: Option<i64>) -> Result<()> {
        let settle_ms = self.properties.float("settle_ms");
        let Some(opened) = &mut self.opened else { return Err(Error::failed("the device is closed")) };
        let (device, channels) = (&opened.device, &*self.channels);
        let is_new_rate = new.sample_rate_hz.is_some() && new.sample_rate_hz != self.settings.sample_rate_hz;
        let started = |error| Error::failed(format!("the stream does not start: {error}"));
        if is_new_rate {
            opened.stream.deactivate().map_err(Error::failed)?;
        }
        if let Some(at_ns) = at_ns {
            device.set_command_time_ns(at_ns).map_err(Error::failed)?;
        }
        let set = new.apply(device, Way::Receive, channels, &self.settings);
        let tuned = set.and_then(|()| {
            let frequency = new.frequency_hz.filter(|_| new.frequency_hz != self.settings.frequency_hz);
            if let Some(index) = at_ns.and_then(|at_ns| opened.timeline.index_at(at_ns)) {
                let tuned = frequency
                    .map_or(Ok(()), |frequency| settings::tune(device, Way::Receive, channels, frequency));
                device.set_command_time_ns(0).map_err(Error::failed)?;
                return tuned.map(|()| Some((index, index)));
            }
            frequency
                .map(|frequency| {
                    retune(device, channels, frequency, &opened.timeline, settle_ms, opened.samples_preferred)
                })
                .transpose()
        });
        let tuned = match tuned {
            Ok(tuned) => tuned,
            Err(error) => {
                // The error is about the new values. The old ones were taken before.
                if at_ns.is_some() {
                    drop(device.set_command_time_ns(0));
                }
                drop(self.settings.apply(device, Way::Receive, channels, &new));
                if is_new_rate {
                    opened.stream.activate().map_err(started)?;
                    opened.timeline.retime(opened.reached.sample_rate_hz);
                }
                return Err(error);
            }
        };
        opened.reached = Reached::of(device, Way::Receive, channels.first().copied().unwrap_or_default());
        let (next, now_ns) = (opened.timeline.next(), device.hardware_time_ns());
        let now = now_ns.and_then(|now_ns| opened.timeline.index_at(now_ns)).unwrap_or(next);
        if is_new_rate {
            opened.stream.activate().map_err(started)?;
            opened.timeline.retime(opened.reached.sample_rate_hz);
        }
        self.settings = new;
        let before = self.info.clone();
        self.describe();
        if is_new_rate {
            drop(self.labels.take_last());
            let length = tuned.map_or(0, |(until, from)| from - until);
            self.labels.add(next, next + length, self.info.clone());
        } else if let Some((until, from)) = tuned {
            self.labels.add(until, from, self.info.clone());
        } else if self.info != before {
            self.labels.add(now, now, self.info.clone());
        }
        Ok(())
    }

    /// Asks a silent device for its rate. Returns the reason if the device does not answer.
    fn absence(&mut self) -> Option<String> {
        self.silent_reads += 1;
        if self.silent_reads < SILENT_READS {
            return None;
        }
        self.silent_reads = 0;
        let (opened, first) = (self.opened.as_ref()?, self.channels.first().copied().unwrap_or_default());
        self.watch.call(|| opened.device.sample_rate(Way::Receive, first)).err()
    }

    /// Counts an error of the driver. After several ones, opens the device again, or ends.
    fn fail(&mut self, reason: &str) -> Result<()> {
        self.errors += 1;
        self.interrupt();
        if self.errors < ERRORS_MAX && self.opened.is_some() {
            return Ok(());
        }
        let device = self.properties.text("device").to_owned();
        let patience = Duration::from_secs_f64(self.properties.float("reopen_s"));
        let failed = |reason: &str| {
            Error::failed(format!(
                "the device `{device}` gives no samples: {reason}; check its cable, or let the source wait for it \
                 with `reopen_s`"
            ))
        };
        if patience.is_zero() {
            return Err(failed(reason));
        }
        log::warn!(target: "stripline::soapy-source", "the device `{device}` has failed: {reason}; it is opened again");
        let failed_at = *self.failed_at.get_or_insert_with(Instant::now);
        let watch = Arc::clone(&self.watch);
        watch.close(|| self.opened = None);
        let mut reason = reason.to_owned();
        loop {
            if failed_at.elapsed() >= patience {
                return Err(failed(&reason));
            }
            self.stop.sleep(REOPEN_PAUSE)?;
            let stamps = self.properties.boolean("stamps");
            let opened = watch.call(|| {
                let device = settings::open(&device, Way::Receive, &self.channels)?;
                Opened::new(device, &self.channels, &self.settings, stamps)
            });
            match opened {
                Ok(opened) => {
                    self.opened = Some(opened);
                    self.errors = 0;
                    self.counts.reopened.add(1);
                    self.begin_stream();
                    return Ok(());
                }
                Err(error) => reason = error.to_string(),
            }
        }
    }
}

/// Sets the frequency. Returns the sample up to which the old one holds for sure, and the sample
/// from which on the new one does.
fn retune(
    device: &Device,
    channels: &[usize],
    frequency_hz: f64,
    timeline: &Timeline,
    settle_ms: f64,
    buffer: usize,
) -> Result<(u64, u64)> {
    let samples = |seconds: f64| (seconds * timeline.rate_hz()).ceil() as u64;
    let next = timeline.next();
    let index_at = |time_ns: Option<i64>| {
        let index = time_ns.and_then(|time_ns| timeline.index_at(time_ns)).unwrap_or(next);
        index.min(next + samples(AHEAD_MAX_S))
    };
    let command = || {
        let soon_ns = device.hardware_time_ns().filter(|_| device.is_timed())?.saturating_add(LEAD_NS);
        let index = timeline.index_at(soon_ns)?;
        Some((index, timeline.time_ns(index)?))
    };
    if let Some((index, time_ns)) = command() {
        device.set_command_time_ns(time_ns).map_err(Error::failed)?;
        let tuned = settings::tune(device, Way::Receive, channels, frequency_hz);
        device.set_command_time_ns(0).map_err(Error::failed)?;
        return tuned.map(|()| (index, index + samples(settle_ms.max(0.0) / 1e3)));
    }
    let settle = match settle_ms {
        // The driver may have filled a buffer, and the device a part of the next one.
        ..0.0 => samples(SETTLE_MS / 1e3) + 2 * (buffer as u64).min(samples(AHEAD_MAX_S)),
        _ => samples(settle_ms / 1e3),
    };
    let until = index_at(device.hardware_time_ns());
    settings::tune(device, Way::Receive, channels, frequency_hz)?;
    let from = index_at(device.hardware_time_ns()) + settle;
    Ok((until, from.max(until)))
}
