//! A case of an experiment, with all its parameters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stripline::node::Dispatch;
use stripline::terms::Scope;

/// A pipeline: a producer and `stages` components in a row.
///
/// ```
/// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\ntransport = ['shm', 'tcp']";
/// let experiment = stripline_bench::experiment::Experiment::parse(text, "x.toml").expect("it is sound");
/// assert_eq!(experiment.cases[1].to_string(), "a, tcp");
/// assert_eq!((experiment.cases[1].stages, experiment.cases[1].packets), (3, 1000));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentCase {
    /// The name in the file. All members of a matrix share it.
    pub name: String,
    /// A short description; empty if the file has no description.
    pub title: String,
    /// The values that differ within the matrix, for example `shm` or `shm, 2 stages`.
    pub variant: String,
    /// Number of components in a row, after the producer.
    pub stages: u32,
    /// Number of packets that the producer sends.
    pub packets: u32,
    /// Bytes per packet.
    pub size: usize,
    /// The element type, such as `f64`.
    #[serde(rename = "type")]
    pub element: String,
    /// The work of a component on each packet.
    pub work: Work,
    /// Duration of the work, in milliseconds.
    pub work_ms: f64,
    /// The intended time between two sends, in milliseconds; 0 for no pause.
    pub pace_ms: f64,
    /// The scope of a send: the event at which it returns.
    pub scope: Scope,
    /// The dispatch: the threads that run a component's code.
    pub dispatch: Dispatch,
    /// The order in which a component gets its packets.
    pub order: Order,
    /// With resequencing: the maximum number of packets that may wait for a missing one.
    pub window: u32,
    /// With resequencing: the longest wait for a missing packet, in milliseconds.
    pub skip_after_ms: f64,
    /// The transport.
    pub transport: String,
    /// The placement of the components.
    pub placement: Placement,
}

impl ExperimentCase {
    /// Returns the number of places: the producer, the components, and with resequencing an
    /// observer after the last component.
    pub(crate) fn places(&self) -> u32 {
        self.stages + 1 + u32::from(self.order == Order::Resequence)
    }

    /// Returns the total time in seconds if all work and all pauses were sequential. No run takes
    /// much longer.
    pub(crate) fn seconds_max(&self) -> f64 {
        f64::from(self.packets) * (f64::from(self.stages) * self.work_ms + self.pace_ms) / 1e3
    }
}

impl fmt::Display for ExperimentCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name, self.variant)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident => $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// All words, as in an experiment file.
            pub(super) const WORDS: &[&str] = &[$($word),*];
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
        }

        impl FromStr for $type {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("`{word}` is not {}; use one of {}", $what, [$($word),*].join(", "))),
                }
            }
        }
    };
}

words! {
    /// The work of a component on each packet.
    ///
    /// ```
    /// use stripline_bench::experiment::Work;
    ///
    /// assert_eq!("busy".parse(), Ok(Work::Busy));
    /// assert_eq!("hard".parse::<Work>().unwrap_err(), "`hard` is not a kind of work; use one of none, busy, wait");
    /// ```
    Work, "a kind of work" {
        /// No work.
        None => "none",
        /// Busy work that runs until the thread has used the given processor time.
        Busy => "busy",
        /// A sleep, as if a co-processor did the work.
        Wait => "wait",
    }
}

words! {
    /// The order in which a component gets its packets when several threads run it.
    ///
    /// ```
    /// use stripline_bench::experiment::Order;
    ///
    /// assert_eq!("resequence".parse(), Ok(Order::Resequence));
    /// ```
    Order, "an order" {
        /// The order of arrival.
        AsCompleted => "as-completed",
        /// The order of the producer, which is restored before each component except the first, and
        /// after the last.
        Resequence => "resequence",
    }
}

words! {
    /// The placement of the components.
    ///
    /// ```
    /// use stripline_bench::experiment::Placement;
    ///
    /// assert_eq!(Placement::OneProcess.to_string(), "one-process");
    /// ```
    Placement, "a placement" {
        /// The producer and the components are threads of one process.
        OneProcess => "one-process",
        /// The producer and the components are separate processes.
        ProcessPerStage => "process-per-stage",
    }
}

/// The targets of a case. For ratios, the median over the runs counts. A count must hold in every
/// run.
///
/// ```
/// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\ntarget = { over-ideal = 1.01, reordered = 0 }";
/// let experiment = stripline_bench::experiment::Experiment::parse(text, "x.toml").expect("it is sound");
/// assert_eq!(experiment.targets["a"].over_ideal, Some(1.01));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExperimentTarget {
    /// The maximum ratio of the last packet's time to the ideal.
    pub over_ideal: Option<f64>,
    /// The maximum number of packets out of order at any stage. If packets are resequenced, only
    /// the order after the last stage counts.
    pub reordered: Option<u32>,
    /// The share of packets out of order after the last stage must be greater than this.
    pub reordered_share_min: Option<f64>,
    /// The maximum ratio of the last packet's time to the last packet's time of another case in the
    /// same round. The value has the name of the case and the ratio.
    pub over_case: Option<(String, f64)>,
}

/// The published figures of a case.
///
/// ```
/// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\npublished = { last-ms = [5, 6, 7] }";
/// let experiment = stripline_bench::experiment::Experiment::parse(text, "x.toml").expect("it is sound");
/// assert_eq!(experiment.published["a"].last_ms, [5.0, 6.0, 7.0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// The time at which the last packet left each stage, in milliseconds.
    pub last_ms: Vec<f64>,
    /// Number of packets out of order at each stage.
    pub reordered: Vec<u32>,
    /// The ideal that was published with the figures, in milliseconds.
    pub ideal_ms: Option<f64>,
    /// The published remark on the producer's sends.
    pub sends: String,
}
