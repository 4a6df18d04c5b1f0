//! The cases of a ladder, and the jobs of their processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Problem;
use super::statistics::median;
use crate::processes::{OthersTime, Usage};

/// The subject of a measurement: the means that carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Subject {
    Atomics,
    Futex,
    Memcpy,
    /// A ring with a header and a cursor, but nothing else.
    MinimalRing,
    /// Stripline's ring without the links.
    Ring,
    UnixSocket,
    TcpSocket,
    /// Both directions on the same socket. A dialogue can use such a socket, but a one-way stream
    /// cannot.
    UnixDuplex,
    TcpDuplex,
    PosixQueue,
    UdpSocket,
    Stripline,
    /// Stripline with many packets at a time: `send_many` and `drain`.
    Many,
    /// Stripline with scope `none`: a queue in the sender's process, and a thread that empties the
    /// queue.
    Queued,
    /// Stripline with dispatch `direct`: a handler replies where the packet is received.
    Direct,
    /// Two-way calls.
    Calls,
    Iceoryx2,
    Zeromq,
    Zenoh,
    Dds,
    Omniorb,
    /// zenoh, with the work in a callback.
    ZenohCallback,
    /// omniORB, with the work in the servant.
    OmniorbServant,
    /// No peer: only the clock and the machine.
    Noise,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Atomics => "two atomics",
            Self::Futex => "futex hand-over",
            Self::Memcpy => "memcpy",
            Self::MinimalRing => "minimal ring",
            Self::Ring => "bare ring",
            Self::UnixSocket => "bare Unix socket",
            Self::TcpSocket => "bare TCP socket",
            Self::UnixDuplex => "bare Unix, duplex",
            Self::TcpDuplex => "bare TCP, duplex",
            Self::PosixQueue => "bare POSIX queue",
            Self::UdpSocket => "bare UDP socket",
            Self::Stripline => "stripline",
            Self::Many => "stripline many",
            Self::Queued => "stripline queued",
            Self::Direct => "stripline direct",
            Self::Calls => "stripline calls",
            Self::Iceoryx2 => "iceoryx2",
            Self::Zeromq => "ZeroMQ",
            Self::Zenoh => "zenoh",
            Self::Dds => "Cyclone DDS",
            Self::Omniorb => "omniORB",
            Self::ZenohCallback => "zenoh, in its callback",
            Self::OmniorbServant => "omniORB, in the servant",
            Self::Noise => "noise",
        }
    }
}

/// The way in which both sides wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wait {
    /// No waiting.
    None,
    Spin,
    Adaptive,
    Block,
}

impl Wait {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
            Self::Block => "block",
        }
    }
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
        let transport = transport.into();
        Self {
            measure,
            subject,
            transport,
            wait,
            size,
            readers: 1,
            components: 2,
            statistics: true,
            again: false,
        }
    }

    /// Returns whether only the leader works.
    pub(crate) fn has_one_side(&self) -> bool {
        matches!(self.subject, Subject::Memcpy | Subject::Noise)
    }

    /// Returns whether the links of Stripline carry the packets.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(
            self.subject,
            Subject::Stripline | Subject::Many | Subject::Queued | Subject::Direct | Subject::Calls
        )
    }

    /// Returns whether another library carries the packets.
    pub(crate) fn is_peer(&self) -> bool {
        matches!(
            self.subject,
            Subject::Iceoryx2
                | Subject::Zeromq
                | Subject::Zenoh
                | Subject::ZenohCallback
                | Subject::Dds
                | Subject::Omniorb
                | Subject::OmniorbServant
        )
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
        if self.wait == Wait::None { Ok(()) } else { write!(f, ", {}", self.wait.name()) }
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

/// The job of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
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

/// The result of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunOutcome {
    /// The results of the cases, in order.
    pub cases: Vec<Outcome>,
    /// The reason why there is no result.
    pub error: Option<Problem>,
    /// The processor time of other programs during the run, which the launcher measures.
    #[serde(skip)]
    pub others: Option<OthersTime>,
}

impl RunOutcome {
    /// Merges the result of another process of the same run.
    pub(crate) fn merge(&mut self, other: Self) {
        self.cases.resize(self.cases.len().max(other.cases.len()), Outcome::default());
        self.cases.iter_mut().zip(other.cases).for_each(|(own, other)| own.merge(other));
        self.error = self.error.take().or(other.error);
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
    /// Merges the result of another process of the same run.
    fn merge(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
        self.times.extend(other.times);
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.usage.add(other.usage);
    }

    /// Returns the median over blocks.
    pub(crate) fn typical_ns(&self) -> Option<f64> {
        median(&self.blocks)
    }
}
