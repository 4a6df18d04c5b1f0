//! The cases of a ladder, and the jobs of their processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::processes::Usage;

/// The subject of a measurement: the means by which packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Subject {
    Atomics,
    Futex,
    Memcpy,
    Ring,
    UnixSocket,
    TcpSocket,
    /// Both ways on the same socket. A dialogue can use it; a one-way stream of packets cannot.
    UnixDuplex,
    TcpDuplex,
    PosixQueue,
    Stripline,
    /// Two-way calls.
    Calls,
    Iceoryx2,
    Zeromq,
    /// No peer: the clock and the machine alone.
    Noise,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Atomics => "two atomics",
            Self::Futex => "futex hand-over",
            Self::Memcpy => "memcpy",
            Self::Ring => "bare ring",
            Self::UnixSocket => "bare Unix socket",
            Self::TcpSocket => "bare TCP socket",
            Self::UnixDuplex => "bare Unix, duplex",
            Self::TcpDuplex => "bare TCP, duplex",
            Self::PosixQueue => "bare POSIX queue",
            Self::Stripline => "stripline",
            Self::Calls => "stripline calls",
            Self::Iceoryx2 => "iceoryx2",
            Self::Zeromq => "ZeroMQ",
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
    /// Round trips.
    Latency,
    /// One way, at full rate.
    Throughput,
    /// The cost of a publish with many readers.
    Publish,
    /// A chain of components.
    Pipeline,
    /// Calls, `readers` of them outstanding.
    Outstanding,
}

/// One rung of the ladder, with all its parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Case {
    pub measure: Measure,
    pub subject: Subject,
    pub transport: String,
    pub wait: Wait,
    pub size: usize,
    pub readers: u32,
    pub components: u32,
    /// Whether statistics are at their default.
    pub statistics: bool,
    /// Whether this is the repetition of a case, to compare it with itself.
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

    /// Returns the number of processes that take part.
    pub(crate) fn processes(&self) -> u32 {
        match self.subject {
            Subject::Memcpy | Subject::Noise => 1,
            Subject::Stripline | Subject::Calls if self.transport == "inproc" => 1,
            _ => self.components,
        }
    }

    /// Returns the number of sides that wait for each other before they start.
    pub(crate) fn sides(&self) -> u32 {
        if matches!(self.subject, Subject::Memcpy | Subject::Noise) { 1 } else { self.components }
    }

    /// Returns the bytes of a ring, and of what is compared with it: at least the default, and room
    /// for two messages.
    pub(crate) fn buffer(&self) -> usize {
        (2 * (self.size + 1024)).next_power_of_two().max(1 << 21)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.subject.name())?;
        if matches!(self.subject, Subject::Stripline | Subject::Calls) {
            write!(f, " {}", self.transport)?;
        }
        match self.measure {
            Measure::Latency if self.subject == Subject::Calls => write!(f, ", half of one")?,
            Measure::Latency => write!(f, ", one way")?,
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

/// The job of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub case: Case,
    /// Its place in the chain, from 0.
    pub place: u32,
    /// Processors, one per side, in order. The sides of a pipeline share them all.
    pub cpus: Vec<usize>,
    pub seconds: f64,
    /// The domain of Stripline's nodes, also the name of other objects that need one.
    pub domain: String,
    /// The shared memory that synchronises the start.
    pub board: i32,
    /// Inherited descriptors, as the case needs them.
    pub descriptors: Vec<i32>,
}

/// The result of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Single round trips: nanoseconds, and the number of each value.
    pub round_trips: Vec<(u64, u64)>,
    /// The mean time of one trip, publish or copy in a batch; the median over batches.
    pub typical_ns: Option<f64>,
    /// Number of packets received in `elapsed_s`, first to last.
    pub packets: u64,
    pub elapsed_s: f64,
    pub lost: u64,
    pub reordered: u64,
    pub usage: Usage,
    /// The time of a cache line between the processors around the run, in nanoseconds; `None`: not
    /// measured.
    pub line_ns: Option<f64>,
    /// Whether that time changed during the run.
    pub is_unsettled: bool,
    /// The reason why there is no result.
    pub error: Option<Problem>,
}

impl Outcome {
    /// Merges the result of another process of the same run.
    pub(crate) fn merge(&mut self, other: Self) {
        self.round_trips.extend(other.round_trips);
        self.typical_ns = self.typical_ns.or(other.typical_ns);
        self.packets += other.packets;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.usage.add(other.usage);
        self.error = self.error.take().or(other.error);
    }

    pub(crate) fn packets_per_s(&self) -> Option<f64> {
        (self.packets > 0 && self.elapsed_s > 0.0).then(|| self.packets as f64 / self.elapsed_s)
    }
}
