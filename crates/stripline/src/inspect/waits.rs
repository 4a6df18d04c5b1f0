//! The waits between ports, and the chains that they form.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::types::{Connection, Overview, Process, Reader, ReceivingPort, SendingPort};

/// A port that waits for another port.
///
/// ```
/// use stripline::inspect::{Waiting, WaitReason};
///
/// let text = r#"{ "pid": 3, "port": "a.out", "for_pid": 4, "for_port": "b.in", "why": "full" }"#;
/// let waiting: Waiting = serde_json::from_str(text).unwrap();
/// assert_eq!(waiting.to_string(), "a.out waits for b.in (full)");
/// assert_eq!(waiting.why, WaitReason::Full);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The process that waits.
    pub pid: u32,
    /// The waiting port.
    pub port: String,
    /// The process that is waited for, if it can be determined.
    pub for_pid: Option<u32>,
    /// The port that is waited for.
    pub for_port: String,
    /// The reason.
    pub why: WaitReason,
}

/// The reason for a wait.
///
/// ```
/// assert_eq!(stripline::inspect::WaitReason::Empty.to_string(), "empty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// A sender waits for space.
    Full,
    /// A receiver waits for packets.
    Empty,
    /// A sender waits for the acknowledgement of a packet that it has sent.
    Answer,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Empty => "empty",
            Self::Answer => "answer",
        })
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {} ({})", self.port, self.for_port, self.why)
    }
}

/// A chain of waits. Each wait is for the component that waits in the next one.
///
/// ```
/// let overview = stripline::inspect::Overview::default();
/// assert!(overview.chains().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The waits in order. No port waits for the first component; all others wait for the last,
    /// directly or not.
    pub waits: Vec<Waiting>,
    /// Whether the last component waits for the first, so that none of them can continue by itself.
    pub circle: bool,
}

/// A sending port's side of a connection.
///
/// ```
/// use stripline::inspect::SenderEnd;
///
/// fn is_behind((_, _, reader): SenderEnd<'_>) -> bool {
///     reader.lag_packets.is_some_and(|lag| lag >= u64::from(reader.high_watermark.unwrap_or(reader.depth)))
/// }
/// ```
pub type SenderEnd<'a> = (&'a Process, &'a SendingPort, &'a Reader);
/// A receiving port's side of a connection.
///
/// ```
/// use stripline::inspect::ReceiverEnd;
///
/// fn idles((_, port, connection): ReceiverEnd<'_>) -> bool {
///     port.sleeps && connection.open
/// }
/// ```
pub type ReceiverEnd<'a> = (&'a Process, &'a ReceivingPort, &'a Connection);

impl Overview {
    /// Creates an overview of these processes, which must have different numbers.
    ///
    /// ```
    /// use stripline::inspect::{Overview, Process};
    ///
    /// let overview = Overview::of(vec![Process::default()]);
    /// assert!(overview.connections().is_empty());
    /// ```
    pub fn of(processes: Vec<Process>) -> Self {
        Self { processes, problems: Vec::new() }
    }

    /// Returns connections with both sides, as `(sending, receiving)`: the process, the port, and
    /// the view of that side. A side is missing if the process does not respond.
    ///
    /// ```
    /// let text = r#"{ "version": 1, "pid": 7,
    ///     "sending": [{ "name": "a.out", "readers": [{ "connection": "a.out -> b.in", "pid": 7 }] }],
    ///     "receiving": [{ "name": "b.in", "connections": [{ "connection": "a.out -> b.in", "packets": 3 }] }] }"#;
    /// let overview = stripline::inspect::Overview::of(vec![serde_json::from_str(text).unwrap()]);
    /// let connections = overview.connections();
    /// let (Some((_, from, _)), Some((_, to, seen))) = connections[0] else { panic!("both sides are known") };
    /// assert_eq!((&*from.name, &*to.name, seen.packets), ("a.out", "b.in", 3));
    /// ```
    pub fn connections(&self) -> Vec<(Option<SenderEnd<'_>>, Option<ReceiverEnd<'_>>)> {
        let mut receivers: HashMap<&str, Vec<(ReceiverEnd<'_>, bool)>> = HashMap::new();
        for process in &self.processes {
            for port in &process.receiving {
                for connection in &port.connections {
                    let named = receivers.entry(&connection.connection).or_default();
                    named.push(((process, port, connection), false));
                }
            }
        }
        let mut connections = Vec::new();
        for process in &self.processes {
            for port in &process.sending {
                for reader in &port.readers {
                    let named = receivers.get_mut(reader.connection.as_str());
                    // Over TCP the kernel names no process, so the right one of several receivers
                    // is unknown.
                    let is_only = named.as_ref().is_some_and(|named| named.len() == 1)
                        && address(&reader.connection) == Some(&port.address);
                    let fits = |(other, taken): &&mut (ReceiverEnd<'_>, bool)| {
                        !*taken
                            && match reader.pid {
                                Some(pid) => other.0.pid == pid,
                                // The connection of a topic has the sender's address in the name.
                                // No other sender has that address.
                                None if is_only => true,
                                // The names are the same in every run of a waveform, but the
                                // processes of a run have one parent.
                                None => {
                                    let siblings =
                                        process.parent.is_some() && other.0.parent == process.parent;
                                    other.0.pid == process.pid || siblings
                                }
                            }
                    };
                    let to = named.and_then(|named| named.iter_mut().find(fits)).map(|(other, taken)| {
                        *taken = true;
                        *other
                    });
                    connections.push((Some((process, port, reader)), to));
                }
            }
        }
        let alone = receivers.into_values().flatten().filter(|(_, taken)| !taken);
        connections.extend(alone.map(|(to, _)| (None, Some(to))));
        connections
    }

    /// Returns every wait: the waiting port and the port waited for.
    pub fn waits(&self) -> Vec<Waiting> {
        let mut waits = Vec::new();
        for (from, to) in self.connections() {
            let connection = from.map(|f| &f.2.connection).or(to.map(|t| &t.2.connection));
            let (left, right) = ends(connection.map_or("", |name| name));
            let sender = from.map_or(left, |(_, port, _)| &port.name);
            let receiver = to.map_or(right, |(_, port, _)| &port.name);
            if let Some((process, port, reader)) = from
                && port.waits
                && (reader.waited_for || reader.answer_awaited)
            {
                waits.push(Waiting {
                    pid: process.pid,
                    port: sender.into(),
                    for_pid: to.map(|(process, _, _)| process.pid).or(reader.pid),
                    for_port: receiver.into(),
                    why: if reader.waited_for { WaitReason::Full } else { WaitReason::Answer },
                });
            }
            if let Some((process, port, connection)) = to
                && connection.open
                && port.sleeps
            {
                waits.push(Waiting {
                    pid: process.pid,
                    port: receiver.into(),
                    for_pid: from.map(|(process, _, _)| process.pid),
                    for_port: sender.into(),
                    why: WaitReason::Empty,
                });
            }
        }
        waits
    }

    /// Returns the waits as chains. Each wait is in exactly one chain.
    pub fn chains(&self) -> Vec<Chain> {
        let waits = self.waits();
        let mut of_component: HashMap<(u32, &str), Vec<usize>> = HashMap::new();
        for (index, waiting) in waits.iter().enumerate() {
            if let Some(name) = component(&waiting.port) {
                of_component.entry((waiting.pid, name)).or_default().push(index);
            }
        }
        // Returns the waits of the component that this wait is for.
        let follow = |index: usize| -> &[usize] {
            let awaited = waits[index].for_pid.zip(component(&waits[index].for_port));
            awaited.and_then(|awaited| of_component.get(&awaited)).map_or(&[], Vec::as_slice)
        };
        let mut waited_for = vec![false; waits.len()];
        for (index, waiting) in waits.iter().enumerate() {
            for other in follow(index) {
                waited_for[*other] |= leads_to(waiting, &waits[*other]);
            }
        }
        // The heads of chains come first; the remaining waits form circles.
        let mut order: Vec<usize> = (0..waits.len()).collect();
        order.sort_by_key(|index| waited_for[*index]);
        let mut used = vec![false; waits.len()];
        let mut chains = Vec::new();
        for start in order {
            let mut chain: Vec<usize> = Vec::new();
            let mut next = (!used[start]).then_some(start);
            while let Some(index) = next {
                used[index] = true;
                chain.push(index);
                let waiting = &waits[index];
                let goes_on = |other: &&usize| !used[**other] && leads_to(waiting, &waits[**other]);
                next = follow(index).iter().find(goes_on).copied();
            }
            if let (Some(first), Some(last)) = (chain.first(), chain.last()) {
                let circle = leads_to(&waits[*last], &waits[*first]);
                chains
                    .push(Chain { waits: chain.iter().map(|index| waits[*index].clone()).collect(), circle });
            }
        }
        chains
    }
}

/// Splits a connection's name into the two ends. The sending end of a topic has the address behind
/// an `@`.
fn ends(connection: &str) -> (&str, &str) {
    let (from, to) = connection.split_once(" -> ").unwrap_or((connection, connection));
    (from.split('@').next().unwrap_or(from), to)
}

/// Returns the address of the sending end in the name of a topic's connection.
fn address(connection: &str) -> Option<&str> {
    let (from, _) = connection.rsplit_once(" -> ")?;
    from.rsplit_once('@').map(|(_, address)| address)
}

/// Returns whether `a` waits for the component that waits in `b`.
fn leads_to(a: &Waiting, b: &Waiting) -> bool {
    a.for_pid == Some(b.pid)
        && component(&a.for_port).is_some_and(|name| component(&b.port) == Some(name))
        // The two sides of one connection may seem to wait for each other because their snapshots
        // were taken at different times.
        && !(a.for_port == b.port && a.port == b.for_port)
}

/// Returns the component of a port. Ports of one component depend on each other; topics of one
/// program may be independent.
fn component(port: &str) -> Option<&str> {
    port.rsplit_once('.').map(|(component, _)| component)
}

#[cfg(test)]
mod tests {
    use super::super::types::ReceivingPort;
    use super::*;

    /// Builds a process with the port `out` of `from`, which waits because `in` of `to` is full.
    fn full(pid: u32, from: &str, to: &str, to_pid: u32) -> Process {
        let reader = Reader {
            connection: format!("{from}.out -> {to}.in"),
            pid: Some(to_pid),
            waited_for: true,
            ..Reader::default()
        };
        let port = SendingPort {
            name: format!("{from}.out"),
            waits: true,
            readers: vec![reader],
            ..SendingPort::default()
        };
        Process { pid, sending: vec![port], ..Process::default() }
    }

    fn told(chains: &[Chain]) -> Vec<String> {
        let line = |chain: &Chain| {
            let words: Vec<String> = chain.waits.iter().map(Waiting::to_string).collect();
            words.join(", ") + if chain.circle { " (circle)" } else { "" }
        };
        chains.iter().map(line).collect()
    }

    #[test]
    fn waits_make_chains_and_circles() {
        let chain =
            Overview { processes: vec![full(1, "b", "c", 3), full(2, "a", "b", 1)], ..Overview::default() };
        assert_eq!(told(&chain.chains()), ["a.out waits for b.in (full), b.out waits for c.in (full)"]);
        let circle =
            Overview { processes: vec![full(1, "a", "b", 2), full(2, "b", "a", 1)], ..Overview::default() };
        let told = told(&circle.chains());
        assert_eq!(told, ["a.out waits for b.in (full), b.out waits for a.in (full) (circle)"]);
    }

    #[test]
    fn a_sender_without_its_acknowledgement_waits_for_the_receiver() {
        let mut sender = full(1, "a", "b", 2);
        let reader = &mut sender.sending[0].readers[0];
        (reader.waited_for, reader.answer_awaited) = (false, true);
        let overview = Overview { processes: vec![full(2, "b", "a", 1), sender], ..Overview::default() };
        let told = told(&overview.chains());
        assert_eq!(told, ["b.out waits for a.in (full), a.out waits for b.in (answer) (circle)"]);
    }

    #[test]
    fn a_topics_sender_over_tcp_is_joined_by_its_address() {
        let name = "iq@127.0.0.1:4000 -> iq";
        let joined = |address: &str, receivers: &[u32]| {
            let reader = Reader { connection: name.into(), ..Reader::default() };
            let port = SendingPort {
                name: "iq".into(),
                address: address.into(),
                readers: vec![reader],
                ..SendingPort::default()
            };
            let mut processes = vec![Process { pid: 1, sending: vec![port], ..Process::default() }];
            for pid in receivers {
                let connection = Connection { connection: name.into(), ..Connection::default() };
                let port = ReceivingPort {
                    name: "iq".into(),
                    connections: vec![connection],
                    ..ReceivingPort::default()
                };
                processes.push(Process { pid: *pid, receiving: vec![port], ..Process::default() });
            }
            let overview = Overview::of(processes);
            let pids = overview.connections().into_iter().map(|(from, to)| {
                (from.map(|(process, _, _)| process.pid), to.map(|(process, _, _)| process.pid))
            });
            let mut pids: Vec<_> = pids.collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(joined("127.0.0.1:4000", &[2]), [(Some(1), Some(2))]);
        // Of the two receivers, neither has the address that the sender names.
        let apart = [(None, Some(2)), (None, Some(3)), (Some(1), None)];
        assert_eq!(joined("127.0.0.1:4000", &[2, 3]), apart);
        assert_eq!(joined("127.0.0.1:4001", &[2]), [(None, Some(2)), (Some(1), None)]);
    }

    #[test]
    fn a_receiver_that_sleeps_waits_for_its_sender() {
        let mut sender = full(1, "a", "b", 2);
        sender.sending[0].waits = false;
        let connection =
            Connection { connection: "a.out -> b.in".into(), open: true, ..Connection::default() };
        let port = ReceivingPort {
            name: "b.in".into(),
            sleeps: true,
            connections: vec![connection],
            ..ReceivingPort::default()
        };
        let receiver = Process { pid: 2, receiving: vec![port], ..Process::default() };
        let overview = Overview { processes: vec![sender, receiver], ..Overview::default() };
        assert_eq!(told(&overview.chains()), ["b.in waits for a.out (empty)"]);
        assert_eq!(overview.waits()[0].for_pid, Some(1));
    }

    #[test]
    fn runs_of_the_same_waveform_are_kept_apart() {
        let connection =
            |packets| Connection { connection: "a.out -> b.in".into(), packets, ..Connection::default() };
        let mut processes = Vec::new();
        for run in [10, 20] {
            let mut sender = full(run + 1, "a", "b", 0);
            sender.sending[0].readers[0].pid = None;
            let port = ReceivingPort {
                name: "b.in".into(),
                connections: vec![connection(u64::from(run))],
                ..ReceivingPort::default()
            };
            let receiver = Process { pid: run + 2, receiving: vec![port], ..Process::default() };
            processes.extend([sender, receiver].map(|process| Process { parent: Some(run), ..process }));
        }
        processes.reverse();
        let overview = Overview { processes, ..Overview::default() };
        let joined = overview.connections();
        assert_eq!(joined.len(), 2);
        for (from, to) in joined {
            assert_eq!(from.unwrap().0.parent, to.unwrap().0.parent);
        }
    }
}
