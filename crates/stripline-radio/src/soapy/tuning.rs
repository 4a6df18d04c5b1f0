//! The tuner of a source, which its clients call while the source runs.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::library::{Device, Way};
use super::settings::{Reached, stages};
use crate::tuner::{Tuner, TunerAbilities, TunerError, TunerRange, TunerSetting, TunerStage};

/// The longest wait for the loop of the source.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A new value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TuneChange {
    Frequency(f64),
    Rate(f64),
    Bandwidth(f64),
    Gain(f64),
    StageGain(String, f64),
    AutomaticGain(bool),
    Antenna(String),
}

impl TuneChange {
    /// Returns the setting.
    pub fn setting(&self) -> TunerSetting {
        match self {
            Self::Frequency(_) => TunerSetting::Frequency,
            Self::Rate(_) => TunerSetting::Rate,
            Self::Bandwidth(_) => TunerSetting::Bandwidth,
            Self::Gain(_) => TunerSetting::Gain,
            Self::StageGain(..) => TunerSetting::StageGain,
            Self::AutomaticGain(_) => TunerSetting::AutomaticGain,
            Self::Antenna(_) => TunerSetting::Antenna,
        }
    }

    /// Checks the value against the abilities of the device.
    ///
    /// # Errors
    /// The device does not have the value, or the setting.
    pub fn check(&self, abilities: &TunerAbilities) -> Result<(), TunerError> {
        let setting = self.setting();
        match self {
            Self::Frequency(value) => TunerRange::check(setting, *value, &abilities.frequency_hz),
            Self::Rate(value) => TunerRange::check(setting, *value, &abilities.rate_hz),
            Self::Bandwidth(value) => TunerRange::check(setting, *value, &abilities.bandwidth_hz),
            Self::Gain(value) => TunerRange::check(setting, *value, &abilities.gain_db),
            Self::StageGain(name, value) => {
                let names: Vec<String> = abilities.stages.iter().map(|stage| stage.name.clone()).collect();
                TunerError::check_name(setting, name, &names)?;
                let ranges = abilities.stages.iter().find(|stage| stage.name == *name);
                TunerRange::check(setting, *value, ranges.map_or(&[], |stage| &stage.gain_db))
            }
            Self::AutomaticGain(true) if !abilities.has_automatic_gain => {
                Err(TunerError::NotSupported { setting, device: abilities.device.clone() })
            }
            Self::AutomaticGain(_) => Ok(()),
            Self::Antenna(name) => TunerError::check_name(setting, name, &abilities.antennas),
        }
    }
}

/// A request to the loop of the source, with the sender of the answer.
pub(super) enum TuneRequest {
    /// The values that the device has reached.
    Read(Sender<Result<Reached, TunerError>>),
    /// A change, and its time.
    Set(TuneChange, Option<i64>, Sender<Result<Reached, TunerError>>),
    /// The ranges and abilities.
    Abilities(Sender<Result<TunerAbilities, TunerError>>),
}

/// The tuner of a source.
pub(super) struct SourceTuner {
    pub device: String,
    pub requests: Sender<TuneRequest>,
}

impl SourceTuner {
    fn ask<R>(
        &self,
        request: impl FnOnce(Sender<Result<R, TunerError>>) -> TuneRequest,
    ) -> Result<R, TunerError> {
        let (reply, answer) = channel();
        let gone = || TunerError::Gone { device: self.device.clone() };
        self.requests.send(request(reply)).map_err(|_| gone())?;
        answer.recv_timeout(ANSWER_TIME).map_err(|_| gone())?
    }

    fn read(&self) -> Result<Reached, TunerError> {
        self.ask(TuneRequest::Read)
    }

    fn set(&self, change: TuneChange, at_ns: Option<i64>) -> Result<Reached, TunerError> {
        self.ask(|reply| TuneRequest::Set(change, at_ns, reply))
    }

    fn stage_of(&self, reached: &Reached, stage: String) -> Result<f64, TunerError> {
        let all = stages(&reached.gains).unwrap_or_default();
        let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
        let gain = all.iter().find(|(name, _)| *name == stage).map(|(_, gain)| *gain);
        gain.ok_or(TunerError::NoSuchName { setting: TunerSetting::StageGain, requested: stage, names })
    }
}

impl Tuner for SourceTuner {
    fn frequency(&self) -> Result<f64, TunerError> {
        Ok(self.read()?.frequency_hz)
    }

    fn set_frequency(&self, frequency_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        Ok(self.set(TuneChange::Frequency(frequency_hz), at_ns)?.frequency_hz)
    }

    fn rate(&self) -> Result<f64, TunerError> {
        Ok(self.read()?.sample_rate_hz)
    }

    fn set_rate(&self, rate_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        Ok(self.set(TuneChange::Rate(rate_hz), at_ns)?.sample_rate_hz)
    }

    fn bandwidth(&self) -> Result<f64, TunerError> {
        Ok(self.read()?.bandwidth_hz)
    }

    fn set_bandwidth(&self, bandwidth_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        Ok(self.set(TuneChange::Bandwidth(bandwidth_hz), at_ns)?.bandwidth_hz)
    }

    fn gain(&self) -> Result<f64, TunerError> {
        Ok(self.read()?.gain_db)
    }

    fn set_gain(&self, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        Ok(self.set(TuneChange::Gain(gain_db), at_ns)?.gain_db)
    }

    fn stage_gain(&self, stage: String) -> Result<f64, TunerError> {
        self.stage_of(&self.read()?, stage)
    }

    fn set_stage_gain(&self, stage: String, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let reached = self.set(TuneChange::StageGain(stage.clone(), gain_db), at_ns)?;
        self.stage_of(&reached, stage)
    }

    fn automatic_gain(&self) -> Result<bool, TunerError> {
        Ok(self.read()?.agc == "on")
    }

    fn set_automatic_gain(&self, is_on: bool, at_ns: Option<i64>) -> Result<bool, TunerError> {
        Ok(self.set(TuneChange::AutomaticGain(is_on), at_ns)?.agc == "on")
    }

    fn antenna(&self) -> Result<String, TunerError> {
        Ok(self.read()?.antenna)
    }

    fn set_antenna(&self, antenna: String, at_ns: Option<i64>) -> Result<String, TunerError> {
        Ok(self.set(TuneChange::Antenna(antenna), at_ns)?.antenna)
    }

    fn abilities(&self) -> Result<TunerAbilities, TunerError> {
        self.ask(TuneRequest::Abilities)
    }
}

/// Returns the ranges and abilities of a device.
pub(super) fn abilities(device: &Device, name: &str, channel: usize) -> TunerAbilities {
    let way = Way::Receive;
    let ranges = |ranges: Vec<[f64; 3]>| -> Vec<TunerRange> {
        ranges.into_iter().map(|[min, max, step]| TunerRange { min, max, step }).collect()
    };
    let stage = |name: String| {
        let gain_db = ranges(device.stage_range(way, channel, &name).into_iter().collect());
        TunerStage { name, gain_db }
    };
    TunerAbilities {
        device: name.to_owned(),
        frequency_hz: ranges(device.frequency_ranges(way, channel)),
        rate_hz: ranges(device.rate_ranges(way, channel)),
        bandwidth_hz: ranges(device.bandwidth_ranges(way, channel)),
        gain_db: ranges(device.whole_gain_range(way, channel).into_iter().collect()),
        stages: device.gain_stages(way, channel).into_iter().map(stage).collect(),
        antennas: device.antennas(way, channel),
        has_automatic_gain: device.has_agc(way, channel).unwrap_or(false),
        is_timed: device.is_timed(),
    }
}
