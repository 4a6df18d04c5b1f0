//! `soapy-sink`: transmits samples by a device.

use std::ffi::c_long;
use std::ops::Range;
use std::sync::Arc;

use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertySpec, Request, Status,
    StopSignal,
};
use stripline::payload::TypeName;
use stripline::{Complex, Error, Packet, Result, Sample};

use super::claim::ClaimedDevice;
use super::library::{NativeSample, Stream, TransmitStatus, Way};
use super::settings::{self, DeviceSettings, Reached, ReachedStatus};
use super::watch::{Watch, watched};
use crate::host_clock::host_ns;

/// The longest wait in a write: the time to a stop.
const WRITE_TIME_US: c_long = 100_000;
/// The longest wait for a status behind the last samples.
const LAST_STATUS_TIME_US: c_long = 100_000;
/// The most statuses that are taken between two packets.
const STATUSES_MAX: usize = 1000;

/// The component `soapy-sink`.
pub struct SoapySink {
    properties: Properties,
    device: ClaimedDevice,
}

impl Component for SoapySink {
    fn describe() -> ComponentSpec {
        let count = |name, summary| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        let formats = vec![
            TypeName::of::<Complex<i16>>(),
            TypeName::of::<Complex<i8>>(),
            TypeName::of::<Complex<u8>>(),
            TypeName::of::<Complex<f32>>(),
        ];
        let spec = ComponentSpec::new("soapy-sink", "Transmits samples by a device by SoapySDR.")
            .input("in", PortTypes::OneOf(formats), "samples, of all channels in turn")
            .validated(check);
        settings::with_properties(spec, "sample rate of each channel; 0: the rate of the stream")
            .property(PropertySpec::choice(
                "bursts",
                &["stream", "packet"],
                "stream",
                "what is a burst: the samples from gap to gap, or each packet",
            ))
            .property(PropertySpec::choice(
                "time",
                &["now", "host", "device"],
                "now",
                "when a burst begins: at once, or at the packet's time by the host's clock or by the device's clock",
            ))
            .property(
                PropertySpec::float("delay_ms", 0.0, "time from the packet's time to its burst")
                    .range(-1e9, 1e9)
                    .unit("ms"),
            )
            .property(count("sent", "samples of each channel that the driver has taken"))
            .property(count("bursts_sent", "bursts that have begun"))
            .property(count("late", "bursts that came too late, by the driver's report"))
            .property(count("underflows", "places where the device had no samples, by the driver's report"))
            .property(count("faults", "other faults that the driver has reported"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        check(properties)?;
        let channels = settings::channels(properties)?;
        let device = settings::open(properties.text("device"), Way::Transmit, &channels)?;
        Ok(Self { properties: properties.clone(), device })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "cu8" => self.run_as::<Complex<u8>>(ports),
            "cs8" => self.run_as::<Complex<i8>>(ports),
            "cs16" => self.run_as::<Complex<i16>>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

/// Checks the properties, without opening the device.
fn check(properties: &Properties) -> Result<()> {
    settings::channels(properties)?;
    DeviceSettings::new(properties).map(drop)
}

impl SoapySink {
    fn run_as<T: NativeSample + Sample>(self, mut ports: Ports) -> Result<()> {
        let (stop, files, requests) = (ports.stop_signal(), ports.files(), ports.requests());
        let mut input = ports.input::<T>("in")?;
        let (counts, status) = (TransmitCounts::new(&ports)?, ReachedStatus::new(&ports)?);
        let signal = stop.clone();
        watched(&stop, move |watch| {
            let Self { properties, device } = self;
            let path = format!("soapy:{}", properties.text("device"));
            let channels = settings::channels(&properties)?;
            let mut transmitter = Transmitter::<T> {
                settings: DeviceSettings::default(),
                wanted: DeviceSettings::new(&properties)?,
                properties,
                watch: Arc::clone(watch),
                stop: signal,
                device,
                stream: None,
                held: Vec::with_capacity(channels.len()),
                channels,
                status,
                counts,
                offset_ns: 0,
                next: None,
                scratch: Vec::new(),
                has_status: true,
            };
            let received = loop {
                let packet = input.receive_with(|| {
                    while let Some(request) = requests.request() {
                        transmitter.answer(request);
                    }
                });
                let outcome = match packet {
                    Ok(Some(packet)) => transmitter.take(&packet),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                };
                if let Err(error) = outcome {
                    break Err(error);
                }
            };
            let ended = transmitter.finish();
            let counts = &transmitter.counts;
            files.report(FileReport {
                samples: counts.samples,
                missing: counts.missing,
                places: counts.places,
                finished: received.is_ok() && ended.is_ok(),
                ..FileReport::new(path)
            });
            watch.close(|| drop(transmitter));
            received.and(ended)
        })
    }
}

/// The counts of a sink.
struct TransmitCounts {
    sent: Status<u64>,
    bursts_sent: Status<u64>,
    late: Status<u64>,
    underflows: Status<u64>,
    faults: Status<u64>,
    /// Transmitted and missing samples of all channels, and places of gaps.
    samples: u64,
    missing: u64,
    places: u64,
}

impl TransmitCounts {
    fn new(ports: &Ports) -> Result<Self> {
        Ok(Self {
            sent: ports.status("sent")?,
            bursts_sent: ports.status("bursts_sent")?,
            late: ports.status("late")?,
            underflows: ports.status("underflows")?,
            faults: ports.status("faults")?,
            samples: 0,
            missing: 0,
            places: 0,
        })
    }
}

/// The place behind a packet: the stream, and the index of the next sample.
struct NextPlace {
    stream: String,
    index: u64,
}

/// The loop of a sink.
struct Transmitter<T> {
    properties: Properties,
    watch: Arc<Watch>,
    stop: StopSignal,
    /// The settings in the device, and those that the user wants.
    settings: DeviceSettings,
    wanted: DeviceSettings,
    /// `None`: no packet has arrived.
    stream: Option<Stream<T>>,
    device: ClaimedDevice,
    channels: Vec<usize>,
    status: ReachedStatus,
    counts: TransmitCounts,
    /// The device's time minus the time of packets.
    offset_ns: i64,
    /// `None`: no burst is open.
    next: Option<NextPlace>,
    /// The last sample of each channel of an open burst: the end of a burst is a flag of its last
    /// samples.
    held: Vec<T>,
    /// Samples, one channel behind the other.
    scratch: Vec<T>,
    /// Whether the driver reports the status of transmitted samples.
    has_status: bool,
}

impl<T: NativeSample + Sample> Transmitter<T> {
    /// Transmits a packet.
    fn take(&mut self, packet: &Packet<'_, T>) -> Result<()> {
        let (many, info) = (self.channels.len(), packet.stream());
        let found = info.channels.len().max(1);
        if found != many {
            return Err(Error::failed(format!(
                "the stream `{}` has {found} channels, and `channels` names {many}: name as many",
                info.id
            )));
        }
        let index = packet.sample_index();
        if !index.is_multiple_of(many as u64) || !packet.len().is_multiple_of(many) {
            return Err(Error::failed(format!(
                "a packet at sample {index} does not have whole turns of {many} channels: send it in whole turns"
            )));
        }
        self.start(info.sample_rate_hz.map(|rate| rate / many as f64))?;
        let is_next = |next: &NextPlace| next.stream == info.id && next.index == index;
        if packet.gap().is_some() || self.next.as_ref().is_some_and(|next| !is_next(next)) {
            self.note_gap(&info.id, index);
            self.end_burst()?;
        }
        if packet.is_empty() {
            return Ok(());
        }
        let is_whole = self.properties.text("bursts") == "packet";
        let is_first = self.next.is_none();
        let time_ns = (is_first && self.properties.text("time") != "now").then(|| {
            let delay_ns = (self.properties.float("delay_ms") * 1e6) as i64;
            packet.time_ns().saturating_add(self.offset_ns).saturating_add(delay_ns)
        });
        if is_first {
            self.counts.bursts_sent.add(1);
        }
        if is_whole && many == 1 {
            self.write(packet, time_ns, true)?;
        } else {
            self.gather(packet, is_whole);
            let scratch = std::mem::take(&mut self.scratch);
            let written = self.write(&scratch, time_ns, is_whole);
            self.scratch = scratch;
            written?;
        }
        let behind = NextPlace { stream: info.id.clone(), index: index + packet.len() as u64 };
        self.next = (!is_whole).then_some(behind);
        self.take_statuses(0);
        Ok(())
    }

    /// Copies the held samples and the packet to the scratch memory, one channel behind the other.
    /// Unless the burst ends here, holds the last sample of each channel.
    fn gather(&mut self, packet: &[T], is_whole: bool) {
        let many = self.channels.len();
        let before = std::mem::take(&mut self.held);
        let frames = packet.len() / many - usize::from(!is_whole);
        self.scratch.clear();
        for channel in 0..many {
            self.scratch.extend(before.get(channel));
            self.scratch.extend(packet.iter().skip(channel).step_by(many).take(frames));
        }
        if !is_whole {
            self.held.extend_from_slice(&packet[frames * many..]);
        }
    }

    /// Writes samples of all channels, one channel behind the other.
    fn write(&mut self, samples: &[T], mut time_ns: Option<i64>, is_end: bool) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let count = samples.len() / self.channels.len();
        let mut rest: Range<usize> = 0..count;
        while !rest.is_empty() {
            let taken =
                self.watch.stream(|| stream.write(samples, rest.clone(), time_ns, is_end, WRITE_TIME_US));
            let taken =
                taken.map_err(|error| Error::failed(format!("the device takes no samples: {error}")))?;
            if taken > 0 {
                time_ns = None;
                rest.start += taken;
                self.counts.sent.add(taken as u64);
                self.counts.samples += (taken * self.channels.len()) as u64;
            } else if self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    }

    /// Ends the open burst, if there is one.
    fn end_burst(&mut self) -> Result<()> {
        self.next = None;
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        self.write(&held, None, true)
    }

    /// Ends the last burst, and takes the last statuses.
    fn finish(&mut self) -> Result<()> {
        let ended = self.end_burst();
        self.take_statuses(LAST_STATUS_TIME_US);
        let Some(mut stream) = self.stream.take() else { return ended };
        let stopped = self.watch.close(move || stream.deactivate());
        ended.and(stopped.map_err(Error::failed))
    }

    fn note_gap(&mut self, stream: &str, index: u64) {
        self.counts.places += 1;
        if let Some(next) = self.next.as_ref().filter(|next| next.stream == stream) {
            self.counts.missing += index.saturating_sub(next.index);
        }
    }

    /// Sets up the stream with the first packet.
    fn start(&mut self, stream_rate_hz: Option<f64>) -> Result<()> {
        if self.stream.is_some() {
            return Ok(());
        }
        let rate = self.wanted.sample_rate_hz.or(stream_rate_hz);
        let wanted = self.wanted.clone().with_sample_rate(rate);
        let (watch, device) = (Arc::clone(&self.watch), Arc::clone(&*self.device));
        watch.call(|| {
            self.set(wanted)?;
            let mut stream = settings::stream::<T>(&device, Way::Transmit, &self.channels)?;
            stream
                .activate()
                .map_err(|error| Error::failed(format!("the stream does not start: {error}")))?;
            self.stream = Some(stream);
            if self.properties.text("time") == "now" {
                return Ok(());
            }
            let device_ns = device.hardware_time_ns().ok_or_else(|| {
                settings::wrong("time", "the device has no time for bursts", "set `time` to `now`")
            })?;
            if self.properties.text("time") == "host" {
                self.offset_ns = device_ns.saturating_sub(host_ns());
            }
            Ok(())
        })
    }

    /// Sets new values in the device.
    fn set(&mut self, new: DeviceSettings) -> Result<()> {
        let (device, channels) = (&self.device, &*self.channels);
        let set = new.apply(device, Way::Transmit, channels, &self.settings).and_then(|()| {
            let frequency = new.frequency_hz.filter(|_| new.frequency_hz != self.settings.frequency_hz);
            frequency.map_or(Ok(()), |frequency| settings::tune(device, Way::Transmit, channels, frequency))
        });
        if let Err(error) = set {
            // The error is about the new values. The old ones were taken before.
            drop(self.settings.apply(device, Way::Transmit, channels, &new));
            return Err(error);
        }
        self.settings = new;
        let first = channels.first().copied().unwrap_or_default();
        self.status.set(&Reached::of(device, Way::Transmit, first));
        self.status.set_sensors(&device.sensors());
        Ok(())
    }

    fn answer(&mut self, request: Request) {
        let watch = Arc::clone(&self.watch);
        match request {
            Request::Change(change) => {
                let mut set = |new: DeviceSettings| {
                    let rate = new.sample_rate_hz.or(self.settings.sample_rate_hz);
                    self.set(new.clone().with_sample_rate(rate))?;
                    self.wanted = new;
                    Ok(())
                };
                match DeviceSettings::new(change.properties()).and_then(|new| watch.call(|| set(new))) {
                    Ok(()) => change.accept(),
                    Err(error) => change.refuse(error),
                }
            }
            Request::Test(test) => match watch.call(|| settings::test_sensors(&self.device)) {
                Ok(values) => test.pass(values),
                Err(fault) => test.fail(fault),
            },
        }
    }

    /// Counts the reports of the driver about transmitted samples. Waits at most the given time for
    /// each report.
    fn take_statuses(&mut self, timeout_us: c_long) {
        let Some(stream) = self.stream.as_mut().filter(|_| self.has_status) else { return };
        for _ in 0..STATUSES_MAX {
            let (count, what) = match self.watch.stream(|| stream.transmit_status(timeout_us)) {
                TransmitStatus::Nothing => return,
                TransmitStatus::Unsupported => {
                    self.has_status = false;
                    return;
                }
                TransmitStatus::Underflow => (&self.counts.underflows, "had no samples in time"),
                TransmitStatus::Late => (&self.counts.late, "got a burst too late"),
                TransmitStatus::Fault(code) => {
                    log::warn!(
                        target: "stripline::soapy-sink",
                        "the driver reports {}", super::library::error_text(code)
                    );
                    (&self.counts.faults, "reported a fault")
                }
            };
            count.add(1);
            log::debug!(target: "stripline::soapy-sink", "the device {what}");
        }
    }
}
