//! Random waveforms: components, connections, and the behaviour of each. Everything follows from
//! one seed.

use std::fmt::Write;

use crate::payload::{Rng, mix};

/// The maximum number of components.
const COMPONENTS_MAX: u64 = 8;
/// The maximum number of packets of a source.
const PACKETS_MAX: u64 = 3000;

/// A waveform.
pub struct Plan {
    /// The components.
    pub components: Vec<Component>,
    /// The connections. There is at most one between two components, and it leads to the later
    /// component.
    pub connections: Vec<Connection>,
    /// Whether outputs move to other transports during the run.
    pub has_moves: bool,
}

/// A component.
#[derive(Clone, Debug)]
pub struct Component {
    /// Whether the component shares a process with the other threads.
    pub is_thread: bool,
    /// Whether the launcher restarts the component when it fails.
    pub is_restarted: bool,
    /// Packets of a source.
    pub packets: u64,
    /// Packets of a source between two pauses.
    pub burst: u64,
    /// The length of a pause, in microseconds.
    pub pause_us: u64,
    /// The time for which every fourth packet is held, in microseconds.
    pub hold_us: u64,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The sending component.
    pub from: usize,
    /// The receiving component.
    pub to: usize,
    /// The name of the transport.
    pub transport: &'static str,
    /// The value of `overflow` in the file.
    pub overflow: &'static str,
    /// The value of `scope` in the file.
    pub scope: &'static str,
    /// The value of `flow` in the file.
    pub flow: &'static str,
    /// The value of `wait` in the file.
    pub wait: &'static str,
    /// The maximum number of packets in the queue.
    pub depth: u64,
    /// The size of the ring in bytes.
    pub buffer: u64,
    /// Whether the connection may move to another transport.
    pub may_move: bool,
}

/// Returns the name of a component.
pub fn name(index: usize) -> String {
    format!("c{index}")
}

/// Returns the name of a connection, as receivers report it.
pub fn connection_name(from: usize, to: usize) -> String {
    format!("c{from}.out -> c{to}.in")
}

/// Returns the sender of a connection with this name.
pub fn sender_in(connection: &str) -> Option<usize> {
    connection.strip_prefix('c')?.split_once('.')?.0.parse().ok()
}

impl Connection {
    /// Returns whether the receiver may lose packets.
    pub fn is_lossy(&self) -> bool {
        self.overflow != "block"
    }

    /// Returns whether a ring carries the packets.
    pub fn is_ring(&self) -> bool {
        matches!(self.transport, "inproc" | "shm")
    }

    /// Returns whether a receiver gets an exact gap for packets that a killed receiver before it
    /// had not released.
    ///
    /// A ring has no separate queue that would be lost with the receiver.
    pub fn resumes_exactly(&self) -> bool {
        self.is_ring() && !self.is_lossy() && !self.may_move
    }

    /// Returns whether a receiver gets everything that a killed sender had sent.
    ///
    /// The queue of the scope `none` is lost with the sender. If a TCP socket is closed with unread
    /// acks, the kernel discards data that it had not sent.
    pub fn outlives_sender(&self) -> bool {
        let answers = matches!(self.scope, "server" | "target") || self.flow != "transport";
        let may_be_tcp = self.transport == "tcp" || self.may_move;
        !self.is_lossy() && self.scope != "none" && !(may_be_tcp && answers)
    }
}

impl Plan {
    /// Creates the waveform of a seed, with outputs that may all move.
    pub fn of_deadly_moves(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        plan.has_moves = true;
        plan.connections.iter_mut().for_each(|connection| connection.may_move = true);
        plan
    }

    /// Creates the waveform of a seed, with outputs that may all move and components that run until
    /// they are stopped.
    pub fn of_moves(seed: u64) -> Self {
        let mut plan = Self::of_deadly_moves(seed);
        plan.components.iter_mut().for_each(|component| component.packets = 1 << 40);
        plan
    }

    /// Creates the waveform of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(mix(seed));
        let count = 2 + rng.below(COMPONENTS_MAX - 1) as usize;
        let has_threads = rng.below(3) == 0;
        let components: Vec<_> = (0..count).map(|_| component(has_threads, &mut rng)).collect();
        // These random numbers are independent, so a seed gives the same waveform with and without
        // moves.
        let has_moves = Rng::new(mix(!seed)).below(3) == 0;
        let connections = edges(count, &mut rng)
            .into_iter()
            .map(|(from, to)| {
                let is_local = components[from].is_thread && components[to].is_thread;
                Connection { may_move: has_moves, ..connection(from, to, is_local, &mut rng) }
            })
            .collect();
        Self { components, connections, has_moves }
    }

    /// Returns the text of the waveform file. Component n writes the log to the nth of these files.
    pub fn file(&self, logs: &[String]) -> String {
        let mut text = String::from("[waveform]\nname = \"torture\"\n");
        for (index, component) in self.components.iter().enumerate() {
            let Component { is_thread, is_restarted, packets, burst, pause_us, hold_us } = component;
            let placement = if *is_thread { "thread" } else { "process" };
            let restart = if *is_restarted { "on-failure" } else { "never" };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[component.{}]\ntype = \"numbers\"\nplacement = \"{placement}\"\nrestart = \"{restart}\"\n\
                 [component.{0}.properties]\nindex = {index}\npackets = {packets}\nburst = {burst}\n\
                 pause-us = {pause_us}\nhold-us = {hold_us}\nlog = \"{}\"\n",
                name(index),
                logs[index]
            );
        }
        for connection in &self.connections {
            let Connection { from, to, transport, overflow, scope, flow, wait, depth, buffer, .. } =
                connection;
            let _ = write!(
                text,
                "\n[[connection]]\nfrom = \"{}.out\"\nto = \"{}.in\"\ntransport = \"{transport}\"\n\
                 overflow = \"{overflow}\"\nscope = \"{scope}\"\nwait = \"{wait}\"\ndepth = {depth}\n\
                 buffer = {buffer}\ndeadline-ms = 30000\n",
                name(*from),
                name(*to)
            );
            if !connection.is_lossy() {
                let _ = writeln!(text, "flow = \"{flow}\"");
            }
        }
        text
    }
}

fn component(has_threads: bool, rng: &mut Rng) -> Component {
    let is_thread = has_threads && rng.below(2) == 0;
    Component {
        is_thread,
        is_restarted: !is_thread && rng.below(8) > 0,
        packets: 1 + rng.below(PACKETS_MAX),
        burst: [4, 16, 64][rng.below(3) as usize],
        pause_us: [100, 500, 2000][rng.below(3) as usize],
        hold_us: [0, 0, 100][rng.below(3) as usize],
    }
}

fn connection(from: usize, to: usize, is_local: bool, rng: &mut Rng) -> Connection {
    let transport = match is_local && rng.below(2) == 0 {
        true => "inproc",
        false => ["shm", "uds", "tcp"][rng.below(3) as usize],
    };
    let overflow = ["block", "block", "block", "drop-oldest", "drop-newest", "eject"][rng.below(6) as usize];
    // A receiver that drops packets needs room for several of the largest packets.
    let smallest = if overflow == "block" { 12 } else { 14 };
    Connection {
        from,
        to,
        transport,
        overflow,
        scope: ["transport", "transport", "none", "server", "target"][rng.below(5) as usize],
        flow: ["transport", "transport", "credit", "stop-resume"][rng.below(4) as usize],
        wait: ["block", "adaptive"][rng.below(2) as usize],
        depth: 1 << rng.below(8),
        buffer: 1 << (smallest + rng.below(5)),
        may_move: false,
    }
}

/// Chooses the connections: a chain, a fan-out, a fan-in, or a mixture.
fn edges(count: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    match rng.below(5) {
        0 => (1..count).map(|to| (to - 1, to)).collect(),
        1 => (1..count).map(|to| (0, to)).collect(),
        2 => (0..count - 1).map(|from| (from, count - 1)).collect(),
        _ => mixed(count, rng),
    }
}

fn mixed(count: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for to in 1..count {
        let is_source = to + 1 < count && rng.below(5) == 0;
        let first = rng.below(to as u64) as usize;
        let second = rng.below(to as u64) as usize;
        if !is_source {
            edges.push((first, to));
            if second != first && rng.below(3) == 0 {
                edges.push((second, to));
            }
        }
    }
    // A component without a connection sends to the last one.
    let alone = |index: &usize| !edges.iter().any(|(from, to)| from == index || to == index);
    let lonely: Vec<_> = (0..count - 1).filter(alone).collect();
    edges.extend(lonely.into_iter().map(|from| (from, count - 1)));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_waveform() {
        let logs = vec!["log".to_string(); COMPONENTS_MAX as usize];
        for seed in 0..200 {
            let plan = Plan::new(seed);
            assert_eq!(plan.file(&logs), Plan::new(seed).file(&logs));
            let count = plan.components.len();
            assert!((2..=COMPONENTS_MAX as usize).contains(&count));
            assert!(plan.connections.iter().all(|c| c.from < c.to && c.to < count));
            for index in 0..count {
                assert!(plan.connections.iter().any(|c| c.from == index || c.to == index), "seed {seed}");
            }
        }
    }

    #[test]
    fn connections_are_told_by_their_names() {
        assert_eq!(sender_in(&connection_name(3, 7)), Some(3));
        assert_eq!(sender_in("other"), None);
    }
}
