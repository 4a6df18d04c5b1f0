//! The service with which programs tune a receiver or a transmitter: [`Tuner`].
//!
//! A component with a tuner implements the trait, and offers it with [`OfferedTuner`] beside its
//! ports. `docs/tuning.md` has the operations for other languages.

mod offer;
mod scanner;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use offer::OfferedTuner;
pub use scanner::{ScanStep, Scanner};

/// The settings of a tuner. Each operation that sets a value returns the value that the device has
/// reached. The settings apply to all channels of the stream.
///
/// `at_ns` is the time at which a setting takes effect, in nanoseconds since 1970 (UTC), as the
/// times of packets. Without a time, it takes effect at once. A device without timed commands
/// refuses a time with [`TunerError::NotTimed`]. A setting that a type does not implement is an
/// error, [`TunerError::NotSupported`].
///
/// ```
/// use stripline::call::{CallError, ClientOptions};
/// use stripline::node::Node;
/// use stripline_radio::tuner::{TunerClient, TunerError, TunerService};
///
/// fn tune(node: &Node) -> stripline::Result<()> {
///     let tuner = TunerClient::connect(node, TunerService::NAME, ClientOptions::default())?;
///     match tuner.set_frequency(433.92e6, None) {
///         Ok(reached_hz) => println!("{reached_hz} Hz"),
///         Err(CallError::User(TunerError::OutOfRange { ranges, .. })) => println!("not in {ranges:?}"),
///         Err(error) => println!("{error}"),
///     }
///     Ok(())
/// }
/// ```
#[stripline::service(name = "tuner")]
pub trait Tuner {
    /// Returns the centre frequency in Hz.
    fn frequency(&self) -> Result<f64, TunerError>;
    /// Sets the centre frequency in Hz, at a time or null. Returns the frequency reached.
    fn set_frequency(&self, frequency_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError>;
    /// Returns the sample rate of each channel in Hz.
    fn rate(&self) -> Result<f64, TunerError>;
    /// Sets the sample rate of each channel in Hz, at a time or null. Returns the rate reached.
    fn set_rate(&self, rate_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let _ = (rate_hz, at_ns);
        missing(self, TunerSetting::Rate)
    }
    /// Returns the width of the analogue filter in Hz.
    fn bandwidth(&self) -> Result<f64, TunerError> {
        missing(self, TunerSetting::Bandwidth)
    }
    /// Sets the width of the analogue filter in Hz, at a time or null. Returns the width reached.
    fn set_bandwidth(&self, bandwidth_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let _ = (bandwidth_hz, at_ns);
        missing(self, TunerSetting::Bandwidth)
    }
    /// Returns the gain of all stages together in dB.
    fn gain(&self) -> Result<f64, TunerError> {
        missing(self, TunerSetting::Gain)
    }
    /// Sets the gain of all stages together in dB, at a time or null, and ends the automatic gain.
    /// Returns the gain reached.
    fn set_gain(&self, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let _ = (gain_db, at_ns);
        missing(self, TunerSetting::Gain)
    }
    /// Returns the gain of a stage in dB. The abilities have the names of the stages.
    fn stage_gain(&self, stage: String) -> Result<f64, TunerError> {
        let _ = stage;
        missing(self, TunerSetting::StageGain)
    }
    /// Sets the gain of a stage in dB, at a time or null. Returns the gain reached.
    fn set_stage_gain(&self, stage: String, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        let _ = (stage, gain_db, at_ns);
        missing(self, TunerSetting::StageGain)
    }
    /// Returns whether the device sets the gain itself.
    fn automatic_gain(&self) -> Result<bool, TunerError> {
        missing(self, TunerSetting::AutomaticGain)
    }
    /// Sets whether the device sets the gain itself, at a time or null. Returns the state reached.
    fn set_automatic_gain(&self, is_on: bool, at_ns: Option<i64>) -> Result<bool, TunerError> {
        let _ = (is_on, at_ns);
        missing(self, TunerSetting::AutomaticGain)
    }
    /// Returns the name of the antenna port.
    fn antenna(&self) -> Result<String, TunerError> {
        missing(self, TunerSetting::Antenna)
    }
    /// Sets the antenna port, at a time or null. Returns the port reached.
    fn set_antenna(&self, antenna: String, at_ns: Option<i64>) -> Result<String, TunerError> {
        let _ = (antenna, at_ns);
        missing(self, TunerSetting::Antenna)
    }
    /// Returns the ranges of all settings, and the abilities of the device.
    fn abilities(&self) -> Result<TunerAbilities, TunerError>;
}

/// Returns the error for a setting that a tuner does not have.
pub(crate) fn missing<T>(tuner: &(impl Tuner + ?Sized), setting: TunerSetting) -> Result<T, TunerError> {
    Err(TunerError::NotSupported { setting, device: tuner.abilities()?.device })
}

/// A setting of a [`Tuner`].
///
/// ```
/// use stripline_radio::tuner::TunerSetting;
///
/// assert_eq!(TunerSetting::AutomaticGain.to_string(), "automatic_gain");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TunerSetting {
    /// The centre frequency, in Hz.
    Frequency,
    /// The sample rate of each channel, in Hz.
    Rate,
    /// The width of the analogue filter, in Hz.
    Bandwidth,
    /// The gain of all stages together, in dB.
    Gain,
    /// The gain of one stage, in dB.
    StageGain,
    /// Whether the device sets the gain itself.
    AutomaticGain,
    /// The antenna port.
    Antenna,
}

impl TunerSetting {
    /// Returns the unit; empty for a setting without one.
    ///
    /// ```
    /// assert_eq!(stripline_radio::tuner::TunerSetting::Gain.unit(), "dB");
    /// ```
    pub fn unit(self) -> &'static str {
        match self {
            Self::Frequency | Self::Rate | Self::Bandwidth => "Hz",
            Self::Gain | Self::StageGain => "dB",
            Self::AutomaticGain | Self::Antenna => "",
        }
    }
}

impl fmt::Display for TunerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frequency => "frequency",
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
            Self::Gain => "gain",
            Self::StageGain => "stage_gain",
            Self::AutomaticGain => "automatic_gain",
            Self::Antenna => "antenna",
        })
    }
}

/// The values that a device takes for a setting: from `min` to `max`, both included.
///
/// ```
/// use stripline_radio::tuner::TunerRange;
///
/// let range = TunerRange { min: 24e6, max: 1766e6, step: 0.0 };
/// assert!(range.contains(1090e6) && !range.contains(2.4e9));
/// assert_eq!(range.to_string(), "24000000 to 1766000000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunerRange {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The distance between two values; 0: continuous, or unknown.
    pub step: f64,
}

impl TunerRange {
    /// Returns the range of a single value.
    ///
    /// ```
    /// assert!(stripline_radio::tuner::TunerRange::only(0.0).contains(0.0));
    /// ```
    pub fn only(value: f64) -> Self {
        Self { min: value, max: value, step: 0.0 }
    }

    /// Returns whether the value is within the range. Values between two steps are: the device
    /// reaches the nearest one.
    pub fn contains(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Checks a requested value against the ranges of a device. Without ranges, every finite value
    /// is valid.
    ///
    /// # Errors
    /// [`TunerError::OutOfRange`], with the ranges; also for a value that is not finite.
    ///
    /// ```
    /// use stripline_radio::tuner::{TunerRange, TunerSetting};
    ///
    /// let ranges = [TunerRange { min: 0.0, max: 49.6, step: 0.0 }];
    /// assert!(TunerRange::check(TunerSetting::Gain, 20.0, &ranges).is_ok());
    /// let error = TunerRange::check(TunerSetting::Gain, 60.0, &ranges).unwrap_err();
    /// assert_eq!(error.to_string(), "gain is 60 dB; the device takes 0 to 49.6 dB");
    /// ```
    pub fn check(setting: TunerSetting, value: f64, ranges: &[Self]) -> Result<(), TunerError> {
        let fits = ranges.is_empty() || ranges.iter().any(|range| range.contains(value));
        if value.is_finite() && fits {
            return Ok(());
        }
        Err(TunerError::OutOfRange { setting, requested: value, ranges: ranges.to_vec() })
    }
}

impl fmt::Display for TunerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{} to {}", self.min, self.max)
        }
    }
}

/// A gain stage of a device.
///
/// ```
/// use stripline_radio::tuner::{TunerRange, TunerStage};
///
/// let stage = TunerStage { name: "LNA".into(), gain_db: vec![TunerRange { min: 0.0, max: 40.0, step: 8.0 }] };
/// assert!(stage.gain_db[0].contains(16.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunerStage {
    /// The name of the stage, such as `LNA`.
    pub name: String,
    /// The gains of the stage.
    pub gain_db: Vec<TunerRange>,
}

/// The ranges and the abilities of a device. An empty list of ranges means that the device does not
/// have the setting, or does not describe it.
///
/// ```
/// use stripline_radio::tuner::{TunerAbilities, TunerRange};
///
/// let dongle = TunerAbilities {
///     device: "R820T at 127.0.0.1:1234".into(),
///     frequency_hz: vec![TunerRange { min: 24e6, max: 1766e6, step: 0.0 }],
///     ..TunerAbilities::default()
/// };
/// assert!(!dongle.is_timed);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunerAbilities {
    /// The device, as a text for users.
    pub device: String,
    /// The centre frequencies.
    pub frequency_hz: Vec<TunerRange>,
    /// The sample rates of each channel.
    pub rate_hz: Vec<TunerRange>,
    /// The widths of the analogue filter.
    pub bandwidth_hz: Vec<TunerRange>,
    /// The gains of all stages together.
    pub gain_db: Vec<TunerRange>,
    /// The gain stages.
    pub stages: Vec<TunerStage>,
    /// The names of the antenna ports.
    pub antennas: Vec<String>,
    /// Whether the device can set the gain itself.
    pub has_automatic_gain: bool,
    /// Whether the device takes a time with a setting.
    pub is_timed: bool,
}

/// The reason why a tuner did not read or set a value.
///
/// ```
/// use stripline_radio::tuner::{TunerError, TunerSetting};
///
/// let error = TunerError::NotSupported { setting: TunerSetting::Antenna, device: "R820T".into() };
/// assert_eq!(error.to_string(), "R820T has no setting `antenna`");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TunerError {
    /// The value is outside the ranges of the device.
    OutOfRange {
        /// The setting.
        setting: TunerSetting,
        /// The requested value.
        requested: f64,
        /// The ranges of the device.
        ranges: Vec<TunerRange>,
    },
    /// The device does not have a stage or an antenna of this name.
    NoSuchName {
        /// The setting.
        setting: TunerSetting,
        /// The requested name.
        requested: String,
        /// The names that the device has.
        names: Vec<String>,
    },
    /// The device does not have the setting, or does not report its value.
    NotSupported {
        /// The setting.
        setting: TunerSetting,
        /// The device.
        device: String,
    },
    /// The device has no timed commands.
    NotTimed {
        /// The setting.
        setting: TunerSetting,
        /// The device.
        device: String,
    },
    /// The requested time had passed. The setting is unchanged.
    Late {
        /// The setting.
        setting: TunerSetting,
        /// The requested time.
        at_ns: i64,
        /// The time of the device.
        now_ns: i64,
    },
    /// The device is not there: unplugged, or its server has closed the connection.
    Gone {
        /// The device.
        device: String,
    },
    /// The device, or its driver, has refused for another reason.
    Failed {
        /// The setting.
        setting: TunerSetting,
        /// The text of the driver.
        reason: String,
    },
}

impl TunerError {
    /// Checks that a setting comes without a time, for a device without timed commands.
    ///
    /// # Errors
    /// [`TunerError::NotTimed`] if there is a time.
    ///
    /// ```
    /// use stripline_radio::tuner::{TunerError, TunerSetting};
    ///
    /// assert!(TunerError::check_untimed(TunerSetting::Gain, None, "R820T").is_ok());
    /// let error = TunerError::check_untimed(TunerSetting::Gain, Some(1), "R820T").unwrap_err();
    /// assert!(error.to_string().starts_with("R820T has no timed commands"));
    /// ```
    pub fn check_untimed(setting: TunerSetting, at_ns: Option<i64>, device: &str) -> Result<(), Self> {
        match at_ns {
            None => Ok(()),
            Some(_) => Err(Self::NotTimed { setting, device: device.into() }),
        }
    }

    /// Checks a name against the names that the device has.
    ///
    /// # Errors
    /// [`TunerError::NoSuchName`], with all names.
    ///
    /// ```
    /// use stripline_radio::tuner::{TunerError, TunerSetting};
    ///
    /// let names = ["RX".to_owned(), "TX/RX".to_owned()];
    /// assert!(TunerError::check_name(TunerSetting::Antenna, "RX", &names).is_ok());
    /// let error = TunerError::check_name(TunerSetting::Antenna, "RX2", &names).unwrap_err();
    /// assert_eq!(error.to_string(), "antenna is `RX2`; the device has RX, TX/RX");
    /// ```
    pub fn check_name(setting: TunerSetting, name: &str, names: &[String]) -> Result<(), Self> {
        if names.iter().any(|own| own == name) {
            return Ok(());
        }
        Err(Self::NoSuchName { setting, requested: name.into(), names: names.to_vec() })
    }
}

impl fmt::Display for TunerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { setting, requested, ranges } if ranges.is_empty() => {
                write!(f, "{setting} is {requested} {}; the device takes finite numbers", setting.unit())
            }
            Self::OutOfRange { setting, requested, ranges } => {
                let unit = setting.unit();
                let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                write!(f, "{setting} is {requested} {unit}; the device takes {} {unit}", ranges.join(", "))
            }
            Self::NoSuchName { setting, requested, names } if names.is_empty() => {
                write!(f, "{setting} is `{requested}`; the device has no names for it")
            }
            Self::NoSuchName { setting, requested, names } => {
                write!(f, "{setting} is `{requested}`; the device has {}", names.join(", "))
            }
            Self::NotSupported { setting, device } => write!(f, "{device} has no setting `{setting}`"),
            Self::NotTimed { setting, device } => write!(
                f,
                "{device} has no timed commands: set `{setting}` without a time, when the change is due"
            ),
            Self::Late { setting, at_ns, now_ns } => write!(
                f,
                "{setting} was requested for {at_ns} ns, and the device is at {now_ns} ns: send the request earlier"
            ),
            Self::Gone { device } => write!(f, "{device} is gone"),
            Self::Failed { setting, reason } => write!(f, "{setting} was not set: {reason}"),
        }
    }
}

impl std::error::Error for TunerError {}
