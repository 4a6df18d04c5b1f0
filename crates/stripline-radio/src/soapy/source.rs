//! `soapy-source`: receives the samples of a device.

use std::sync::{Arc, mpsc};

use stripline::component::kit::PacedSource;
use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
};
use stripline::{Complex, Error, Result, Sample, StreamClock};

use super::claim::ClaimedDevice;
use super::library::{NativeSample, Way};
use super::receiver::{DeviceReceiver, DeviceReceiverParts, Opened, ReceiveCounts};
use super::settings::{self, DeviceSettings, ReachedStatus};
use super::tuning::SourceTuner;
use super::watch::watched;
use crate::tuner::OfferedTuner;

/// The formats of samples.
const FORMATS: [&str; 4] = ["cs16", "cs8", "cu8", "cf32"];

/// The component `soapy-source`.
pub struct SoapySource {
    properties: Properties,
    device: ClaimedDevice,
}

impl Component for SoapySource {
    fn describe() -> ComponentSpec {
        let count = |name, summary| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        let spec = ComponentSpec::new("soapy-source", "Receives the samples of a device by SoapySDR.")
            .output("out", PortTypes::Property("format".into()), "the samples of the device")
            .facts(facts)
            .validated(check);
        let format = "type of the samples, as the driver has them";
        let spec = spec.property(PropertySpec::choice("format", &FORMATS, FORMATS[0], format));
        settings::with_properties(spec, "sample rate of each channel; 0: as the device has it")
            .property(
                PropertySpec::float(
                    "settle_ms",
                    -1.0,
                    "time that a new frequency takes, whose samples are left out; -1: 50 and two buffers of the driver, \
                     or 0 for a device that changes the frequency at a time",
                )
                .range(-1.0, 60_000.0)
                .unit("ms"),
            )
            .property(PropertySpec::boolean(
                "stamps",
                true,
                "whether the device's time stamps count lost samples; false: for a driver whose stamps are not exact",
            ))
            .property(PropertySpec::choice(
                "time",
                &["host", "device"],
                "host",
                "time of the packets: the host's at the start, continued by the device's clock; or the device's stamps",
            ))
            .property(
                PropertySpec::integer(
                    "clock_error_ns",
                    0,
                    0,
                    StreamClock::ERROR_NS_MAX as i64,
                    "largest difference between the device's time and UTC; 0: not stated",
                )
                .unit("ns"),
            )
            .property(
                PropertySpec::float("reopen_s", 0.0, "time to wait for a device that has failed; 0: end")
                    .range(0.0, 1e9)
                    .unit("s"),
            )
            .property(PacedSource::duration_property(0.0, "length of the reception; 0: for ever"))
            .property(
                PropertySpec::integer("packet", 16 << 10, 1, 1 << 24, "most samples of each channel in a packet")
                    .unit("samples"),
            )
            .property(OfferedTuner::property())
            .property(count("overflows", "losses that the driver has reported"))
            .property(count("missing", "samples of each channel that were lost, by the time stamps"))
            .property(count("unknown_losses", "losses of an unknown number of samples: a new stream begins at each"))
            .property(count("left_out", "samples of each channel that were left out while the frequency changed"))
            .property(count("reopened", "how often the device was opened again"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        check(properties)?;
        let channels = settings::channels(properties)?;
        let device = settings::open(properties.text("device"), Way::Receive, &channels)?;
        Ok(Self { properties: properties.clone(), device })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match self.properties.text("format") {
            "cu8" => self.run_as::<Complex<u8>>(ports),
            "cs8" => self.run_as::<Complex<i8>>(ports),
            "cs16" => self.run_as::<Complex<i16>>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

impl SoapySource {
    fn run_as<T: NativeSample + Sample>(self, mut ports: Ports) -> Result<()> {
        let (stop, files) = (ports.stop_signal(), ports.files());
        let output = ports.output::<T>("out")?;
        let (requests, counts) = (ports.requests(), ReceiveCounts::new(&ports)?);
        let (status, name) = (ReachedStatus::new(&ports)?, ports.component().to_owned());
        let signal = stop.clone();
        watched(&stop, move |watch| {
            let Self { properties, device } = self;
            let path = format!("soapy:{}", properties.text("device"));
            let settings = DeviceSettings::new(&properties)?;
            let channels = settings::channels(&properties)?;
            let opened = watch
                .call(|| Opened::<T>::new(device, &channels, &settings, properties.boolean("stamps")))?;
            let (sender, tuning) = mpsc::channel();
            let tuner = SourceTuner { device: properties.text("device").to_owned(), requests: sender };
            // The loop ends first, so that no call of the tuner waits for it.
            let _offered = OfferedTuner::of_properties(&properties, &name, tuner)?;
            let mut receiver = DeviceReceiver::new(DeviceReceiverParts {
                name,
                properties,
                stop: signal,
                watch: Arc::clone(watch),
                settings,
                channels,
                output,
                counts,
                status,
                opened,
                tuning,
            });
            let received = receiver.run(&requests);
            let counts = &receiver.counts;
            files.report(FileReport {
                samples: counts.samples,
                missing: counts.all_missing,
                places: counts.places,
                finished: matches!(received, Ok(()) | Err(Error::Stopped)),
                ..FileReport::new(path)
            });
            watch.close(|| drop(receiver));
            received
        })
    }
}

/// Checks the properties, without opening the device.
fn check(properties: &Properties) -> Result<()> {
    settings::channels(properties)?;
    if properties.count("clock_error_ns") > 0 && properties.text("time") != "device" {
        let problem = "the times of the packets are the host's, not the device's";
        return Err(settings::wrong("clock_error_ns", problem, "set `time` to `device`"));
    }
    DeviceSettings::new(properties).map(drop)
}

fn facts(properties: &Properties) -> PropertyFacts {
    let channels = settings::channels(properties).ok().map(|channels| channels.len());
    let rate = Some(properties.float("sample_rate")).filter(|rate| *rate > 0.0);
    PropertyFacts {
        sample_rate_hz: rate.zip(channels).map(|(rate, channels)| rate * channels as f64),
        channels,
        ..PropertyFacts::default()
    }
}
