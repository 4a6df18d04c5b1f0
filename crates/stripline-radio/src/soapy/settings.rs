//! The settings of a device: from the properties, into the device, and the values that the device
//! has reached.

use std::fmt::Display;

use stripline::component::{ComponentSpec, InvalidProperties, Ports, Properties, PropertySpec, Status};
use stripline::{Error, Result};

use super::claim::ClaimedDevice;
use super::library::{Device, NativeSample, Stream, Way};
use super::tuning::TuneChange;

/// The value of `gain` that leaves the gain of the device unchanged.
const UNCHANGED_GAIN_DB: f64 = -1000.0;
/// The most channels of a device.
const CHANNELS_MAX: usize = 64;
/// The longest text that names a device, an antenna or stages, in bytes.
const TEXT_MAX: usize = 1000;

/// The settings that the user has chosen. `None`: the device's own value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeviceSettings {
    pub frequency_hz: Option<f64>,
    pub sample_rate_hz: Option<f64>,
    gain_db: Option<f64>,
    gains_db: Vec<(String, f64)>,
    antenna: Option<String>,
    bandwidth_hz: Option<f64>,
    agc: Option<bool>,
    correction_ppm: Option<f64>,
    clock_source: Option<String>,
    time_source: Option<String>,
}

/// Adds the properties of both directions.
pub(super) fn with_properties(spec: ComponentSpec, sample_rate: &str) -> ComponentSpec {
    let text = |name, summary| PropertySpec::text(name, "", summary).changeable();
    let float = |name, default, summary| PropertySpec::float(name, default, summary).changeable();
    let reached = |name, summary, unit| {
        PropertySpec::float(name, 0.0, summary).range(-1e15, 1e15).unit(unit).read_only()
    };
    let found = |name, summary| PropertySpec::text(name, "", summary).read_only();
    spec.property(PropertySpec::text(
        "device",
        "",
        "the device, as `stripline devices` prints it; empty: the only one",
    ))
    .property(PropertySpec::text("channels", "0", "numbers of the device's channels, as `0,1`"))
    .property(float("sample_rate", 0.0, sample_rate).range(0.0, 1e12).unit("Hz"))
    .property(
        float("frequency", 0.0, "centre frequency; 0: as the device has it").range(0.0, 1e12).unit("Hz"),
    )
    .property(
        float("gain", UNCHANGED_GAIN_DB, "whole gain; -1000: as the device has it")
            .range(UNCHANGED_GAIN_DB, 1000.0)
            .unit("dB"),
    )
    .property(text("gains", "gain of stages in dB, as `LNA=20,VGA=10`; set behind `gain`"))
    .property(text("antenna", "name of the antenna; empty: as the device has it"))
    .property(
        float("bandwidth", 0.0, "bandwidth of the filter; 0: as the device has it")
            .range(0.0, 1e12)
            .unit("Hz"),
    )
    .property(
        PropertySpec::choice(
            "agc",
            &["unchanged", "on", "off"],
            "unchanged",
            "automatic gain; unchanged: as the device has it",
        )
        .changeable(),
    )
    .property(float("correction", 0.0, "correction of the frequency").range(-1e4, 1e4).unit("ppm"))
    .property(text("clock_source", "source of the reference clock; empty: as the device has it"))
    .property(text("time_source", "source of the time; empty: as the device has it"))
    .property(reached("actual_frequency", "centre frequency that the device has reached", "Hz"))
    .property(reached("actual_sample_rate", "sample rate of each channel that the device has reached", "Hz"))
    .property(reached("actual_gain", "whole gain that the device has reached", "dB"))
    .property(found("actual_gains", "gain of each stage that the device has reached"))
    .property(found("actual_antenna", "the antenna in use"))
    .property(reached("actual_bandwidth", "bandwidth that the device has reached", "Hz"))
    .property(found("actual_agc", "automatic gain: on, off, or none"))
    .property(reached("actual_correction", "correction that the device has reached", "ppm"))
    .property(found("actual_clock_source", "the source of the reference clock in use"))
    .property(found("actual_time_source", "the source of the time in use"))
    .property(found("sensors", "values of the device's sensors, at the start and after each change"))
    .test("sensors", "reads all sensors; fails if a clock or time is not locked to its source")
}

impl DeviceSettings {
    /// Takes the settings from properties.
    ///
    /// # Errors
    /// A text that does not have its form.
    pub fn new(properties: &Properties) -> Result<Self> {
        for name in ["device", "gains", "antenna", "clock_source", "time_source"] {
            let text = properties.text(name);
            if text.len() > TEXT_MAX || text.contains('\0') {
                return Err(wrong(name, format!("has a zero, or more than {TEXT_MAX} bytes"), "shorten it"));
            }
        }
        let above_0 = |name| Some(properties.float(name)).filter(|value| *value > 0.0);
        let text = |name| Some(properties.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        let gain = properties.float("gain");
        Ok(Self {
            frequency_hz: above_0("frequency"),
            sample_rate_hz: above_0("sample_rate"),
            gain_db: (gain > UNCHANGED_GAIN_DB).then_some(gain),
            gains_db: stages(properties.text("gains"))?,
            antenna: text("antenna"),
            bandwidth_hz: above_0("bandwidth"),
            agc: match properties.text("agc") {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            },
            correction_ppm: Some(properties.float("correction")).filter(|ppm| *ppm != 0.0),
            clock_source: text("clock_source"),
            time_source: text("time_source"),
        })
    }

    /// Returns these settings with the named ones of others.
    pub fn with<'a>(mut self, new: Self, names: impl Iterator<Item = &'a str>) -> Self {
        for name in names {
            match name {
                "frequency" => self.frequency_hz = new.frequency_hz,
                "sample_rate" => self.sample_rate_hz = new.sample_rate_hz,
                "gain" => self.gain_db = new.gain_db,
                "gains" => self.gains_db.clone_from(&new.gains_db),
                "antenna" => self.antenna.clone_from(&new.antenna),
                "bandwidth" => self.bandwidth_hz = new.bandwidth_hz,
                "agc" => self.agc = new.agc,
                "correction" => self.correction_ppm = new.correction_ppm,
                "clock_source" => self.clock_source.clone_from(&new.clock_source),
                "time_source" => self.time_source.clone_from(&new.time_source),
                _ => {}
            }
        }
        self
    }

    /// Returns these settings with the value of a tuner's client.
    pub fn tuned(mut self, change: TuneChange, has_agc: bool) -> Self {
        match change {
            TuneChange::Frequency(frequency) => self.frequency_hz = Some(frequency),
            TuneChange::Rate(rate) => self.sample_rate_hz = Some(rate),
            TuneChange::Bandwidth(bandwidth) => self.bandwidth_hz = Some(bandwidth),
            TuneChange::Gain(gain) => {
                // The gain of stages is set behind the whole gain.
                self.gains_db.clear();
                (self.gain_db, self.agc) = (Some(gain), if has_agc { Some(false) } else { self.agc });
            }
            TuneChange::StageGain(stage, gain) => {
                self.gains_db.retain(|(name, _)| *name != stage);
                self.gains_db.push((stage, gain));
            }
            TuneChange::AutomaticGain(is_on) => self.agc = Some(is_on),
            TuneChange::Antenna(antenna) => self.antenna = Some(antenna),
        }
        self
    }

    /// Returns the same settings with another rate.
    pub fn with_sample_rate(self, sample_rate_hz: Option<f64>) -> Self {
        Self { sample_rate_hz, ..self }
    }

    /// Sets everything but the frequency in the device that differs from `before`.
    ///
    /// # Errors
    /// The device refuses a value.
    pub fn apply(&self, device: &Device, way: Way, channels: &[usize], before: &Self) -> Result<()> {
        if let Some(name) = self.clock_source.as_ref().filter(|_| self.clock_source != before.clock_source) {
            device
                .set_clock_source(name)
                .map_err(|error| wrong("clock_source", error, "see SoapySDRUtil --probe"))?;
        }
        if let Some(name) = self.time_source.as_ref().filter(|_| self.time_source != before.time_source) {
            device
                .set_time_source(name)
                .map_err(|error| wrong("time_source", error, "see SoapySDRUtil --probe"))?;
        }
        for channel in channels {
            self.apply_to(device, way, *channel, before)?;
        }
        Ok(())
    }

    fn apply_to(&self, device: &Device, way: Way, channel: usize, before: &Self) -> Result<()> {
        let in_range = "choose a value in the device's range, as SoapySDRUtil --probe shows it";
        if let Some(rate) = self.sample_rate_hz.filter(|_| self.sample_rate_hz != before.sample_rate_hz) {
            let set = device.set_sample_rate_hz(way, channel, rate);
            set.map_err(|error| wrong("sample_rate", error, in_range))?;
        }
        if let Some(name) = self.antenna.as_ref().filter(|_| self.antenna != before.antenna) {
            // A driver may take any name without an effect.
            let names = device.antennas(way, channel);
            let remedy = format!("the device has {}", names.join(", "));
            if !names.is_empty() && !names.contains(name) {
                return Err(wrong("antenna", format!("there is no antenna `{name}`"), &remedy));
            }
            device.set_antenna(way, channel, name).map_err(|error| wrong("antenna", error, &remedy))?;
        }
        if let Some(bandwidth) = self.bandwidth_hz.filter(|_| self.bandwidth_hz != before.bandwidth_hz) {
            let set = device.set_bandwidth_hz(way, channel, bandwidth);
            set.map_err(|error| wrong("bandwidth", error, in_range))?;
        }
        if self.correction_ppm != before.correction_ppm {
            let has = device.has_correction(way, channel).unwrap_or(false);
            if !has {
                return Err(wrong("correction", "the device has no correction", "set it to 0"));
            }
            let set = device.set_correction_ppm(way, channel, self.correction_ppm.unwrap_or(0.0));
            set.map_err(|error| wrong("correction", error, in_range))?;
        }
        if let Some(agc) = self.agc.filter(|_| self.agc != before.agc) {
            if agc && !device.has_agc(way, channel).unwrap_or(false) {
                return Err(wrong("agc", "the device has no automatic gain", "set `gain`"));
            }
            device.set_agc(way, channel, agc).map_err(|error| wrong("agc", error, "set `gain`"))?;
        }
        let is_whole_new = self.gain_db != before.gain_db;
        if let Some(gain) = self.gain_db.filter(|_| is_whole_new) {
            device.set_gain_db(way, channel, gain).map_err(|error| wrong("gain", error, in_range))?;
        }
        if is_whole_new || self.gains_db != before.gains_db {
            let known = device.gain_stages(way, channel);
            for (stage, gain) in &self.gains_db {
                let remedy = format!("the device has {}", known.join(", "));
                if !known.contains(stage) {
                    return Err(wrong("gains", format!("there is no stage `{stage}`"), &remedy));
                }
                let set = device.set_stage_gain(way, channel, stage, *gain);
                set.map_err(|error| wrong("gains", error, in_range))?;
            }
        }
        Ok(())
    }
}

/// Sets the frequency of all channels.
///
/// # Errors
/// The device refuses the value.
pub(super) fn tune(device: &Device, way: Way, channels: &[usize], frequency_hz: f64) -> Result<()> {
    channels.iter().try_for_each(|channel| {
        let remedy = "choose a value in the device's range, as SoapySDRUtil --probe shows it";
        let set = device.set_frequency_hz(way, *channel, frequency_hz);
        set.map_err(|error| wrong("frequency", error, remedy))
    })
}

/// The name of a sensor, and its value or the reason that the value is missing.
pub(super) type Sensor = (String, std::result::Result<String, String>);

/// The values that a device has reached, of the first channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reached {
    pub frequency_hz: f64,
    pub sample_rate_hz: f64,
    pub gain_db: f64,
    pub gains: String,
    pub antenna: String,
    pub bandwidth_hz: f64,
    pub agc: &'static str,
    pub correction_ppm: f64,
    pub clock_source: String,
    pub time_source: String,
}

impl Reached {
    /// Asks the device. A value that the driver does not report is 0 or empty.
    pub fn of(device: &Device, way: Way, channel: usize) -> Self {
        let stage = |name: String| {
            let gain = device.stage_gain(way, channel, &name).ok()?;
            Some(format!("{name}={gain}"))
        };
        let gains: Vec<String> = device.gain_stages(way, channel).into_iter().filter_map(stage).collect();
        Self {
            frequency_hz: device.frequency(way, channel).unwrap_or_default(),
            sample_rate_hz: device.sample_rate(way, channel).unwrap_or_default(),
            gain_db: device.gain(way, channel).unwrap_or_default(),
            gains: gains.join(","),
            antenna: device.antenna(way, channel).unwrap_or_default(),
            bandwidth_hz: device.bandwidth(way, channel).unwrap_or_default(),
            agc: match (device.has_agc(way, channel), device.is_agc_on(way, channel)) {
                (Ok(true), Ok(true)) => "on",
                (Ok(true), Ok(false)) => "off",
                _ => "none",
            },
            correction_ppm: device.correction(way, channel).unwrap_or_default(),
            clock_source: device.clock_source().unwrap_or_default(),
            time_source: device.time_source().unwrap_or_default(),
        }
    }
}

/// The read-only properties of both directions.
pub(super) struct ReachedStatus {
    frequency: Status<f64>,
    sample_rate: Status<f64>,
    gain: Status<f64>,
    gains: Status<String>,
    antenna: Status<String>,
    bandwidth: Status<f64>,
    agc: Status<String>,
    correction: Status<f64>,
    clock_source: Status<String>,
    time_source: Status<String>,
    sensors: Status<String>,
}

impl ReachedStatus {
    pub fn new(ports: &Ports) -> Result<Self> {
        Ok(Self {
            frequency: ports.status("actual_frequency")?,
            sample_rate: ports.status("actual_sample_rate")?,
            gain: ports.status("actual_gain")?,
            gains: ports.status("actual_gains")?,
            antenna: ports.status("actual_antenna")?,
            bandwidth: ports.status("actual_bandwidth")?,
            agc: ports.status("actual_agc")?,
            correction: ports.status("actual_correction")?,
            clock_source: ports.status("actual_clock_source")?,
            time_source: ports.status("actual_time_source")?,
            sensors: ports.status("sensors")?,
        })
    }

    pub fn set(&self, reached: &Reached) {
        self.frequency.set(reached.frequency_hz);
        self.sample_rate.set(reached.sample_rate_hz);
        self.gain.set(reached.gain_db);
        self.gains.set(reached.gains.clone());
        self.antenna.set(reached.antenna.clone());
        self.bandwidth.set(reached.bandwidth_hz);
        self.agc.set(reached.agc.into());
        self.correction.set(reached.correction_ppm);
        self.clock_source.set(reached.clock_source.clone());
        self.time_source.set(reached.time_source.clone());
    }

    pub fn set_sensors(&self, sensors: &[Sensor]) {
        let line = |(name, value): &Sensor| match value {
            Ok(value) => format!("{name}={value}"),
            Err(error) => format!("{name}: {error}"),
        };
        self.sensors.set(sensors.iter().map(line).collect::<Vec<_>>().join(","));
    }
}

/// Runs the self-test `sensors`. Returns the values, or the fault.
pub(super) fn test_sensors(device: &Device) -> std::result::Result<String, String> {
    let mut lines = Vec::new();
    let sources = [("ref_locked", device.clock_source()), ("gps_locked", device.time_source())];
    let needs_lock = |name: &str| {
        let source =
            sources.iter().find(|(sensor, _)| *sensor == name).and_then(|(_, source)| source.clone().ok());
        source.is_some_and(|source| !["", "internal", "none"].contains(&&*source))
    };
    for (name, value) in device.sensors() {
        let value = value.map_err(|error| format!("the sensor `{name}` cannot be read: {error}"))?;
        if value == "false" && needs_lock(&name) {
            return Err(format!(
                "`{name}` is false: check the cable of the reference, and the antenna of GPS"
            ));
        }
        lines.push(format!("{name}={value}"));
    }
    Ok(if lines.is_empty() { "the device has no sensors".into() } else { lines.join(", ") })
}

/// Parses the numbers of channels.
///
/// # Errors
/// No number, a number twice, or too many.
pub(super) fn channels(properties: &Properties) -> Result<Vec<usize>> {
    let text = properties.text("channels");
    let remedy = "write numbers from 0 on, as `0,1`; SoapySDRUtil --probe has the device's channels";
    let mut channels = Vec::new();
    for word in text.split(',') {
        let number = word.trim().parse::<usize>().ok().filter(|number| *number < CHANNELS_MAX);
        let number =
            number.ok_or_else(|| wrong("channels", format!("`{}` is no channel", word.trim()), remedy))?;
        if channels.contains(&number) {
            return Err(wrong("channels", format!("{number} is there twice"), remedy));
        }
        channels.push(number);
    }
    Ok(channels)
}

/// Opens the device, and checks and claims the channels.
///
/// # Errors
/// There is no such device, the device lacks a channel, or another component uses one.
pub(super) fn open(arguments: &str, way: Way, channels: &[usize]) -> Result<ClaimedDevice> {
    let device = Device::open(arguments).map_err(|error| {
        wrong(
            "device",
            format!("the device `{arguments}` cannot be opened: {error}"),
            "`stripline devices` lists the devices; a device of another program must be closed there",
        )
    })?;
    let count = device.channels(way).map_err(Error::failed)?;
    match channels.iter().find(|channel| **channel >= count) {
        Some(channel) => Err(wrong(
            "channels",
            format!("there is no channel {channel}"),
            &format!("the device has {count}"),
        )),
        None => ClaimedDevice::new(device, arguments, way, channels),
    }
}

/// Sets up the stream.
///
/// # Errors
/// The driver refuses the format.
pub(super) fn stream<T: NativeSample>(
    device: &std::sync::Arc<Device>,
    way: Way,
    channels: &[usize],
) -> Result<Stream<T>> {
    Stream::new(device, way, channels).map_err(|error| {
        let first = channels.first().copied().unwrap_or_default();
        let remedy = match device.formats(way, first) {
            Ok((formats, native)) => {
                format!("the driver lists {}, and its native one is {native}", formats.join(", "))
            }
            Err(_) => "the driver lists no formats".into(),
        };
        let format = T::FORMAT.to_string_lossy();
        wrong("format", format!("the driver gives no stream of {format}: {error}"), &remedy)
    })
}

/// Parses the gains of stages.
pub(super) fn stages(text: &str) -> Result<Vec<(String, f64)>> {
    let remedy = "write it as `LNA=20,VGA=10`";
    let stage = |word: &str| {
        let pair = word.split_once('=').and_then(|(name, gain)| {
            let gain = gain.trim().parse::<f64>().ok().filter(|gain| gain.is_finite())?;
            Some((name.trim().to_owned(), gain))
        });
        pair.ok_or_else(|| wrong("gains", format!("`{}` is no stage with its gain", word.trim()), remedy))
    };
    text.split(',').filter(|word| !word.trim().is_empty()).map(stage).collect()
}

/// Returns the error of a property, with the remedy.
pub(super) fn wrong(property: &str, problem: impl Display, remedy: &str) -> Error {
    InvalidProperties::new(format!("`{property}`: {problem}")).property(property).remedy(remedy).into()
}
