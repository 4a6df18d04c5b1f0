//! Errors of requests to a running waveform.

use std::fmt;

use stripline::Error;

use crate::text::{listed, quoted, suggestion};

/// An error of a request to a running waveform.
///
/// ```
/// use stripline_waveform::control::{ControlClient, ControlError};
///
/// let error = ControlClient::find("no-such-waveform", None).unwrap_err();
/// assert!(matches!(&error, ControlError::NoSuchWaveform { name, .. } if name == "no-such-waveform"));
/// assert!(error.to_string().contains("is running"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// No waveform of that name runs under this user.
    NoSuchWaveform {
        /// The requested name.
        name: String,
        /// The requested process, if one was given.
        pid: Option<u32>,
        /// The running waveforms: name and process.
        running: Vec<(String, u32)>,
        /// Launchers that do not respond.
        silent: Vec<u32>,
    },
    /// Several waveforms of that name are running.
    Several {
        /// The name.
        name: String,
        /// The processes of the launchers.
        pids: Vec<u32>,
    },
    /// The launcher does not respond at all, or does not respond in time.
    Silent {
        /// The waveform.
        name: String,
        /// The process of the launcher.
        pid: u32,
        /// The probable reason.
        how: String,
    },
    /// The launcher ended before it responded.
    Gone {
        /// The waveform.
        name: String,
        /// The former process of the launcher.
        pid: u32,
    },
    /// The request is wrong and had no effect. There is a sentence for each fault.
    Wrong(Vec<String>),
    /// The request cannot be served now.
    Cannot(String),
    /// A system call failed, or the launcher sent an invalid reply.
    Failed(Error),
}

impl ControlError {
    /// Returns whether the request itself must be changed.
    ///
    /// ```
    /// use stripline_waveform::control::ControlError;
    ///
    /// assert!(ControlError::Wrong(vec!["`fm` has no property `gian`".into()]).is_wrong());
    /// assert!(!ControlError::Cannot("64 requests are in progress already".into()).is_wrong());
    /// ```
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchWaveform { name, pid, running, silent } => {
                write!(f, "no waveform {} of this user is running", quoted(name))?;
                if let Some(pid) = pid {
                    write!(f, " in process {pid}")?;
                }
                let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
                match suggestion(name, names.iter().copied()).filter(|meant| meant != name) {
                    Some(meant) => write!(f, "; did you mean `{meant}`?")?,
                    None if running.is_empty() => f.write_str("; nor is any other")?,
                    None => {
                        // The others of that name, if there are any, are meant.
                        let is_meant = |other: &str| other == name || !names.contains(&name.as_str());
                        let known = running.iter().filter(|(other, _)| is_meant(other));
                        let known: Vec<String> =
                            known.map(|(name, pid)| format!("{name} (process {pid})")).collect();
                        write!(f, "; there is {}", listed(known.iter().map(String::as_str), "and"))?;
                    }
                }
                for pid in silent.iter().take(8) {
                    write!(f, "; the launcher in process {pid} does not answer")?;
                }
                Ok(())
            }
            Self::Several { name, pids } => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                let (first, all) = (pids.first().map_or("", String::as_str), pids.join(", "));
                write!(f, "{} waveforms {} are running, in the processes {all}", pids.len(), quoted(name))?;
                write!(f, "; choose one, as in --pid {first}")
            }
            Self::Silent { name, pid, how } => {
                write!(f, "the launcher of {} (process {pid}) {how}", quoted(name))
            }
            Self::Gone { name, pid } => {
                write!(f, "the launcher of {} (process {pid}) ended before it answered", quoted(name))
            }
            Self::Wrong(faults) => f.write_str(&faults.join("\n")),
            Self::Cannot(why) => f.write_str(why),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for ControlError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_waveforms_those_of_the_name_are_listed() {
        let others = (100..150).map(|pid| (format!("other{pid}"), pid));
        let running: Vec<_> = others.chain([("radio".into(), 7), ("radio".into(), 8)]).collect();
        let error = |name: &str| {
            let (name, running) = (name.into(), running.clone());
            ControlError::NoSuchWaveform { name, pid: Some(1), running, silent: Vec::new() }.to_string()
        };
        assert_eq!(
            error("radio"),
            "no waveform `radio` of this user is running in process 1; there is `radio (process 7)` and `radio (process 8)`"
        );
        assert!(error("something-else").contains("other100 (process 100)"));
    }
}
