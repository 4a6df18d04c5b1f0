//! The capabilities of a transport.

use std::fmt;

use crate::terms::{Flow, Overflow, Scope};

/// The capabilities of a transport, for `stripline transports` and for refusing unsupported
/// options.
///
/// ```
/// let names: Vec<_> = stripline::transport::all().map(|t| t.name).collect();
/// assert_eq!(names[..6], ["inproc", "shm", "uds", "tcp", "mqueue", "udp"]);
/// ```
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The name in a waveform file.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The reach of the transport.
    pub reach: Reach,
    /// Copies of the payload between `send` and `receive`.
    pub copies: &'static str,
    /// The unit that `depth` and the watermarks bound under `block`, unless the link keeps flow
    /// control.
    pub depth: &'static str,
    /// The kinds of flow control that can keep this bound.
    pub flows: &'static [Flow],
    /// The scopes that the transport supports.
    pub scopes: &'static [Scope],
    /// The overflow policies that the transport supports.
    pub overflows: &'static [Overflow],
    /// Whether packets are in a memory ring, which can be made of huge pages and locked.
    pub ring: bool,
    /// Whether the transport can be opened to a group of users, which takes credentials from the
    /// kernel.
    pub groups: bool,
    /// The processes that may connect.
    pub trust: &'static str,
    /// Returns the library that moves the packets, with its version; `None`: the transport uses
    /// none.
    pub library: Option<fn() -> String>,
}

impl Capabilities {
    /// Returns the options that a connection cannot request from this transport, as words of a
    /// waveform file. Every other option is kept.
    ///
    /// ```
    /// let refused = |name| stripline::transport::all().find(|t| t.name == name).map(|t| t.refused());
    /// assert_eq!(refused("shm"), Some(vec![]));
    /// assert_eq!(refused("uds"), Some(vec!["huge-pages".into(), "locked".into()]));
    /// ```
    pub fn refused(&self) -> Vec<String> {
        let is_missing = |all: &[&'static str], has: Vec<&'static str>, key: &str| {
            let missing = all.iter().filter(|word| !has.contains(word));
            missing.map(|word| format!("{key} {word}")).collect::<Vec<_>>()
        };
        let scopes = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let overflows = self.overflows.iter().map(|overflow| overflow.as_str()).collect();
        let flows = self.flows.iter().map(|flow| flow.as_str()).collect();
        let mut refused = is_missing(&Scope::ALL.map(Scope::as_str), scopes, "scope");
        refused.extend(is_missing(&Overflow::ALL.map(Overflow::as_str), overflows, "overflow"));
        refused.extend(is_missing(&Flow::ALL.map(Flow::as_str), flows, "flow"));
        let options = [("huge-pages", self.ring), ("locked", self.ring), ("group", self.groups)];
        refused.extend(options.iter().filter(|(_, has)| !has).map(|(key, _)| (*key).to_string()));
        refused
    }
}

/// The reach of a transport.
///
/// ```
/// use stripline::transport::{Reach, all};
///
/// let inproc = all().find(|transport| transport.name == "inproc").expect("it is built in");
/// assert_eq!(inproc.reach, Reach::Process);
/// assert_eq!(inproc.reach.to_string(), "one process");
/// assert!(Reach::Process < Reach::Host && Reach::Host < Reach::Network);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Threads of one process.
    Process,
    /// Processes of one host.
    Host,
    /// Processes of several hosts, with `insecure = true` in the transport's own options.
    Network,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "one process",
            Self::Host => "one host",
            Self::Network => "hosts",
        })
    }
}
