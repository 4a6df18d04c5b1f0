//! Refusals of peers, and the log of peers that broke the protocol.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::{Error, printable};

/// The reason for a refusal, in words for the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRefusal {
    /// The peer follows the protocol, but does not fit.
    Unfit(String),
    /// This process lacks a resource, so the peer may try again.
    Lack(String),
    /// The data of the peer cannot be used, through the fault of either side.
    Unusable(String),
    /// The peer broke the protocol.
    Violation(String),
}

impl PeerRefusal {
    /// Returns the refusal of a peer that broke the protocol.
    pub fn violation(reason: impl Into<String>) -> Self {
        Self::Violation(reason.into())
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unfit(reason) | Self::Lack(reason) | Self::Unusable(reason) | Self::Violation(reason) => {
                reason
            }
        }
    }
}

impl fmt::Display for PeerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl From<&str> for PeerRefusal {
    fn from(reason: &str) -> Self {
        Self::Unfit(reason.into())
    }
}

impl From<String> for PeerRefusal {
    fn from(reason: String) -> Self {
        Self::Unfit(reason)
    }
}

impl From<Error> for PeerRefusal {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::PeerMisbehaved { .. } => Self::Violation(reason),
            Error::System { action: Some(_), .. } => Self::Lack(reason),
            _ => Self::Unfit(reason),
        }
    }
}

/// A log of the peers that broke the protocol at a place, such as a port. Any process can do that
/// as often as it likes, so the log has a bounded number of lines.
#[derive(Debug, Default)]
pub struct ViolationLog {
    target: &'static str,
    place: String,
    /// The start of the present period.
    since: Option<Instant>,
    /// Lines logged in this period, and violations that were not logged.
    lines: u32,
    omitted: u64,
}

impl ViolationLog {
    /// The maximum number of lines in a period.
    const LINES_MAX: u32 = 32;
    const PERIOD: Duration = Duration::from_secs(60);
    /// The maximum number of characters in a line.
    const LINE_MAX: usize = 1000;

    /// Returns the log of a place, such as `port levels`.
    pub fn new(target: &'static str, place: String) -> Self {
        Self { target, place, ..Self::default() }
    }

    /// Logs the refusal of the peer `peer`, unless the peer merely does not fit or a resource is
    /// missing.
    pub fn refused(&mut self, peer: &str, refusal: &PeerRefusal) {
        match refusal {
            PeerRefusal::Unfit(_) | PeerRefusal::Lack(_) => {}
            PeerRefusal::Unusable(reason) => self.add(format_args!("{peer} is refused: {reason}")),
            PeerRefusal::Violation(violation) => self.violation(peer, violation),
        }
    }

    /// Logs a violation by the peer `peer`.
    pub fn violation(&mut self, peer: &str, violation: &str) {
        let closed = "broke the protocol, so that its connection is closed";
        self.add(format_args!("{peer} {closed}: {violation}"));
    }

    /// Logs a line, unless there were too many in this period.
    fn add(&mut self, line: fmt::Arguments<'_>) {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= Self::PERIOD) {
            if self.omitted > 0 {
                let text = format!("{}: {} more violations were not logged", self.place, self.omitted);
                log::warn!(target: self.target, "{}", printable(&text));
            }
            (self.since, self.lines, self.omitted) = (Some(now), 0, 0);
        }
        if self.lines >= Self::LINES_MAX {
            self.omitted += 1;
            return;
        }
        self.lines += 1;
        let line: String = format!("{}: {line}", self.place).chars().take(Self::LINE_MAX).collect();
        log::warn!(target: self.target, "{}", printable(&line));
        if self.lines == Self::LINES_MAX {
            let (place, period) = (printable(&self.place), Self::PERIOD);
            log::warn!(target: self.target, "{place}: further violations are only counted within {period:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::own_process::{in_own_process, logged};

    #[test]
    fn a_flood_of_violations_leaves_few_lines() {
        in_own_process("sys::refusal::tests::a_flood_of_violations_leaves_few_lines", "log", || {
            let lines = logged();
            let mut violations = ViolationLog::new("stripline::transport", "port a".into());
            for number in 0..1000 {
                violations.violation("process 7", &format!("sent \u{1b}[2J{number}\n"));
            }
            let found: Vec<String> = lines.try_iter().collect();
            assert_eq!(found.len(), 33);
            let first = "port a: process 7 broke the protocol, so that its connection is closed: \
                         sent \\u{1b}[2J0\\n";
            assert_eq!(found[0], first);
            assert_eq!(found[32], "port a: further violations are only counted within 60s");
            // Pretend that the period has passed.
            violations.since = Instant::now().checked_sub(ViolationLog::PERIOD);
            violations.refused("process 7", &PeerRefusal::Unfit("has another type".into()));
            violations.refused("process 7", &PeerRefusal::Unusable("is back".into()));
            let found: Vec<String> = lines.try_iter().collect();
            assert_eq!(found[0], "port a: 968 more violations were not logged");
            assert_eq!(found[1..], ["port a: process 7 is refused: is back"]);
        });
    }

    #[test]
    fn a_refusal_blames_the_peer_only_for_a_violation() {
        let violation = PeerRefusal::from(Error::misbehaved("a -> b", "sent 3 descriptors, not 5"));
        assert!(matches!(&violation, PeerRefusal::Violation(reason) if reason.contains("not 5")));
        let lack = Error::system("no descriptor", std::io::ErrorKind::OutOfMemory);
        assert!(matches!(PeerRefusal::from(lack), PeerRefusal::Lack(_)));
        assert!(matches!(PeerRefusal::from(Error::failed("no type")), PeerRefusal::Unfit(_)));
        assert_eq!(PeerRefusal::from("no place").to_string(), "no place");
    }
}
