//! The cases of a ladder, and the jobs of their processes.

use std::fmt;

use serde::{Deserialize, Serialize};
pub(crate) use stripline::terms::WaitStrategy as Wait;

use crate::machine::allowed_cpus;
use crate::statistics::median;
use crate::usage::{Disturbance, RunTime, Usage};

/// The part of a subject in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only the leader works.
    OneSide,
    /// Memory or a socket without a link: a limit or a reference.
    Bare,
    /// A link of Stripline.
    Ours,
    /// Another library.
    Peer,
}

macro_rules! subjects {
    ($($(#[$doc:meta])* $subject:ident: $kind:ident, $name:literal;)*) => {
        /// The subject of a measurement: the means that carries the packets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub(crate) enum Subject { $($(#[$doc])* $subject,)* }

        impl Subject {
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$subject => $name,)* }
            }

            pub(crate) fn kind(self) -> Kind {
                match self { $(Self::$subject => Kind::$kind,)* }
            }
        }
    };
}

subjects! {
    Atomics: Bare, "two atomics";
    Futex: Bare, "futex hand-over";
    Memcpy: OneSide, "memcpy";
    /// A ring with a header and a cursor, but nothing else.
    MinimalRing: Bare, "minimal ring";
    /// The same, with the headers in an array of their own.
    DescriptorRing: Bare, "descriptor ring";
    /// Stripline's ring without the links.
    Ring: Bare, "bare ring";
    UnixSocket: Bare, "bare Unix socket";
    TcpSocket: Bare, "bare TCP socket";
    /// Both directions on the same socket. A dialogue can use such a socket, but a one-way stream
    /// cannot.
    UnixDuplex: Bare, "bare Unix, duplex";
    TcpDuplex: Bare, "bare TCP, duplex";
    PosixQueue: Bare, "bare POSIX queue";
    UdpSocket: Bare, "bare UDP socket";
    Stripline: Ours, "stripline";
    /// Stripline with many packets at a time: `send_many` and `drain`.
    Many: Ours, "stripline many";
    /// Stripline with scope `none`: a queue in the sender's process, and a thread that empties the
    /// queue.
    Queued: Ours, "stripline queued";
    /// Stripline with dispatch `direct`: a handler replies where the packet is received.
    Direct: Ours, "stripline direct";
    /// Two-way calls.
    Calls: Ours, "stripline calls";
    Iceoryx2: Peer, "iceoryx2";
    Zeromq: Peer, "ZeroMQ";
    Zenoh: Peer, "zenoh";
    Dds: Peer, "Cyclone DDS";
    Omniorb: Peer, "omniORB";
    /// zenoh, with the work in a callback.
    ZenohCallback: Peer, "zenoh, in its callback";
    /// omniORB, with the work in the servant.
    OmniorbServant: Peer, "omniORB, in the servant";
    /// No peer: only the clock and the machine.
    Noise: OneSide, "noise";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Measure {
    /// Round trips of packets.
    Latency,
    /// Packets one way and back, each to a sleeping receiver.
    Wake,
    /// A one-way stream at full rate.
    Throughput,
    /// The cost of a publish with many readers.
    Publish,
    /// A chain of components.
    Pipeline,
    /// Calls, with `readers` calls outstanding.
    Outstanding,
}

/// A rung of the ladder, with all parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Case {
    pub measure: Measure,
    pub subject: Subject,
    pub transport: String,
    /// The way in which both sides wait, if there are two.
    pub wait: Wait,
    pub size: usize,
    pub readers: u32,
    pub components: u32,
    /// Whether statistics have the default setting.
    pub statistics: bool,
    /// Whether this case is a repetition, for comparing a case with itself.
    pub again: bool,
}

impl Case {
    pub(crate) fn new(measure: Measure, subject: Subject, transport: &str, wait: Wait, size: usize) -> Self {
        let (transport, readers, components) = (transport.into(), 1, 2);
        Self { measure, subject, transport, wait, size, readers, components, statistics: true, again: false }
    }

    /// Returns whether only the leader works.
    pub(crate) fn has_one_side(&self) -> bool {
        self.subject.kind() == Kind::OneSide
    }

    /// Returns whether the links of Stripline carry the packets.
    pub(crate) fn is_ours(&self) -> bool {
        self.subject.kind() == Kind::Ours
    }

    /// Returns how both sides wait, as text for the user.
    pub(crate) fn wait_name(&self) -> &'static str {
        if self.has_one_side() { "none" } else { self.wait.as_str() }
    }

    /// Returns whether this is a stream that a separate thread carries.
    pub(crate) fn has_carrier_threads(&self) -> bool {
        let is_carried = match self.subject {
            Subject::Queued | Subject::Zeromq | Subject::Zenoh | Subject::ZenohCallback => true,
            // The same as for the subject with which these are compared.
            Subject::Stripline | Subject::Direct => ["zeromq", "zenoh"].contains(&&*self.transport),
            _ => false,
        };
        self.measure == Measure::Throughput && is_carried
    }

    /// Returns whether single packets are timed one way.
    pub(crate) fn has_times(&self) -> bool {
        matches!(self.measure, Measure::Latency | Measure::Wake) && !self.again
    }

    /// Returns the bytes of a ring, and of memory that is compared with a ring: at least the
    /// default, and enough for two messages.
    pub(crate) fn buffer(&self) -> usize {
        (2 * (self.size + 1024)).next_power_of_two().max(1 << 21)
    }

    /// Returns the number of packets that fit into this memory, over iceoryx2.
    pub(crate) fn places(&self) -> usize {
        (self.buffer() / self.size.max(1)).clamp(2, 1024)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.subject.name())?;
        if self.is_ours() {
            write!(f, " {}", self.transport)?;
        }
        match self.measure {
            Measure::Latency if self.subject == Subject::Calls => write!(f, ", half of one")?,
            Measure::Latency => write!(f, ", one way")?,
            Measure::Wake => write!(f, ", to a sleeper")?,
            Measure::Throughput => write!(f, ", throughput")?,
            Measure::Publish => write!(f, ", publish to {}", self.readers)?,
            Measure::Pipeline => write!(f, ", {} components", self.components)?,
            Measure::Outstanding => write!(f, ", {} outstanding", self.readers)?,
        }
        if self.size > 0 {
            write!(f, ", {} B", self.size)?;
        }
        if self.has_one_side() { Ok(()) } else { write!(f, ", {}", self.wait_name()) }
    }
}

/// The processes of a run, and the cases that take turns in these processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub cases: Vec<Case>,
    /// Whether the sides are threads of one process.
    pub threads: bool,
}

impl Group {
    /// Returns the number of sides. There is one for each place.
    pub(crate) fn sides(&self) -> u32 {
        self.cases.iter().map(|case| case.components).max().unwrap_or(1)
    }

    /// Returns whether the group has [threads in addition to the sides](Case::has_carrier_threads).
    pub(crate) fn has_carrier_threads(&self) -> bool {
        self.cases.iter().any(Case::has_carrier_threads)
    }

    /// Returns the number of processes.
    pub(crate) fn processes(&self) -> u32 {
        if self.threads { 1 } else { self.sides() }
    }

    /// Returns the index of the case that provides the sides for a case. A repetition uses the
    /// sides of the original.
    pub(crate) fn original(&self, index: usize) -> usize {
        let own = &self.cases[index];
        let is_original = |case: &Case| *case == Case { again: false, ..own.clone() };
        self.cases.iter().position(is_original).unwrap_or(index)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first case may only measure the distance of the processors.
        let typical = self.cases.iter().rev().find(|case| !case.again).or(self.cases.last());
        match typical {
            Some(case) => write!(f, "{case}, and {} more in turn", self.cases.len() - 1),
            None => write!(f, "nothing"),
        }
    }
}

/// The job of one process: a side of all cases, or all sides as threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SideJob {
    pub group: Group,
    /// The place in the chain, from 0.
    pub place: u32,
    /// Processors, one for each side, in order. The sides of a pipeline share all of them.
    pub cpus: Vec<usize>,
    pub seconds: f64,
    /// The name of the run. Each case has a separate domain, with a name that is derived from this
    /// one.
    pub name: String,
    /// The control page.
    pub page: i32,
    /// Inherited descriptors for each case.
    pub descriptors: Vec<Vec<i32>>,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunOutcome {
    /// The results of the cases, in order.
    pub cases: Vec<Outcome>,
    /// The times of the run; `None` if unknown.
    pub others: Option<RunTime>,
}

impl RunOutcome {
    pub(super) fn disturbance(&self) -> Disturbance {
        Disturbance::of(self.others, allowed_cpus().len())
    }
}

/// The result of a case in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Nanoseconds per packet, publish, copy or call in each block. For a packet that comes back,
    /// the time is one way.
    pub blocks: Vec<f64>,
    /// One-way times of single packets: nanoseconds, and the count of each value.
    pub times: Vec<(u64, u64)>,
    pub lost: u64,
    pub reordered: u64,
    pub usage: Usage,
}

impl Outcome {
    /// Merges the results of all sides of a run, case by case.
    pub(crate) fn merged(sides: impl IntoIterator<Item = Vec<Self>>) -> Vec<Self> {
        let mut whole: Vec<Self> = Vec::new();
        for side in sides {
            whole.resize(whole.len().max(side.len()), Self::default());
            for (own, other) in whole.iter_mut().zip(side) {
                own.blocks.extend(other.blocks);
                own.times.extend(other.times);
                own.lost += other.lost;
                own.reordered += other.reordered;
                own.usage.add(other.usage);
            }
        }
        whole
    }

    /// Returns the median over blocks.
    pub(crate) fn typical_ns(&self) -> Option<f64> {
        median(&self.blocks)
    }
}
