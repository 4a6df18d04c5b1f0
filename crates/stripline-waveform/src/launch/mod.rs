//! Launching and supervision. Each component has a process, except that all components placed in
//! threads share one process for each program. Each process has a control socket. A single loop
//! waits for all sockets.

mod age_watch;
mod bottleneck;
mod connection_state;
mod line_reader;
mod paths;
mod process;
mod report;
mod signals;
mod supervisor;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub use paths::{PathPart, PathTimes};
pub use process::ComponentOutput;
pub use report::{ComponentResult, ConnectionResult, HeldUp, PaceResult, Progress, RunReport};

use super::control::{Announcement, NewValue};
use super::plan::Waveform;
use stripline::Result;
use stripline::component::Registry;
use stripline::link::Sampling;

/// The options of a run.
///
/// ```
/// use std::time::Duration;
/// use stripline::link::Sampling;
/// use stripline_waveform::RunOptions;
///
/// let host = std::env::current_exe()?;
/// let ten_seconds = Some(Duration::from_secs(10));
/// let output = Default::default();
/// let sampling = Sampling::Auto;
/// let options = RunOptions { host, duration: ten_seconds, sampling, quiet: false, output };
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The executable with the stock components, which must call [`host_if_launched`] first.
    pub host: PathBuf,
    /// The time after which the waveform is stopped in order.
    pub duration: Option<Duration>,
    /// Which packets are measured.
    pub sampling: Sampling,
    /// Whether components print only warnings and errors.
    pub quiet: bool,
    /// The log and the output of components.
    pub output: ComponentOutput,
}

/// A step in the life of a component.
///
/// ```
/// use stripline_waveform::Step;
///
/// let step = Step::Spawned { pid: 4711 };
/// assert_eq!(step.to_string(), "process 4711 started");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The process was started.
    Spawned {
        /// The process number.
        pid: u32,
    },
    /// The component has been created, and the outputs are open.
    Ready,
    /// The component was ordered to run.
    Running,
    /// The component was ordered to stop.
    Stopping,
    /// The component has ended by itself.
    Ended,
    /// The component has failed, for this reason.
    Failed(String),
    /// The process has ended before its work was done, in this way.
    Exited(String),
    /// The component is being restarted.
    Restarting {
        /// Number of restarts so far, including this one.
        count: u32,
    },
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spawned { pid } => write!(f, "process {pid} started"),
            Self::Ready => f.write_str("ready"),
            Self::Running => f.write_str("running"),
            Self::Stopping => f.write_str("stopping"),
            Self::Ended => f.write_str("ended"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Exited(how) => f.write_str(how),
            Self::Restarting { count } => write!(f, "restart {count}"),
        }
    }
}

/// The observer of a run.
///
/// ```
/// use stripline_waveform::Observer;
///
/// #[derive(Default)]
/// struct Log(Vec<String>);
///
/// impl Observer for Log {
///     fn warning(&mut self, component: &str, text: &str) {
///         self.0.push(format!("{component}: {text}"));
///     }
/// }
///
/// let mut log = Log::default();
/// log.warning("source", "runs at normal priority");
/// assert_eq!(log.0, ["source: runs at normal priority"]);
/// ```
pub trait Observer {
    /// Receives the notice that all components are running.
    fn started(&mut self) {}

    /// Receives the progress, about four times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }

    /// Receives a problem that does not stop the waveform. `component` names the subject of the
    /// problem.
    fn warning(&mut self, component: &str, text: &str) {
        let _ = (component, text);
    }

    /// Receives a line that a component wrote on standard error.
    fn line(&mut self, component: &str, text: &str) {
        let _ = (component, text);
    }

    /// Receives a line that a component wrote on standard output, if the output is
    /// [captured](ComponentOutput::captured).
    fn output(&mut self, component: &str, text: &str) {
        let _ = (component, text);
    }

    /// Receives a log record of a component process. By default it becomes a [line](Self::line).
    fn record(&mut self, component: &str, level: log::Level, target: &str, message: &str) {
        let _ = (level, target);
        self.line(component, &format!("stripline: {message}"));
    }

    /// Receives a step in the life of a component.
    fn step(&mut self, component: &str, step: &Step) {
        let _ = (component, step);
    }

    /// Receives the values that a component has taken from a client.
    fn changed(&mut self, component: &str, values: &BTreeMap<String, NewValue>) {
        let _ = (component, values);
    }

    /// Receives the reason when the waveform is stopped in order.
    fn stopping(&mut self, reason: &str) {
        let _ = reason;
    }
}

/// Runs the components that a launcher assigns, and returns the exit code. Returns `None` in a
/// process that no launcher started. For programs that are the [`host`](RunOptions::host) of a run.
///
/// ```no_run
/// use stripline::component::Registry;
/// use stripline_waveform::host_if_launched;
///
/// # struct Null;
/// # impl stripline::component::Component for Null {
/// #     fn describe() -> stripline::component::ComponentSpec {
/// #         stripline::component::ComponentSpec::new("null", "Does nothing.")
/// #     }
/// #     fn new(_: &stripline::component::Properties) -> stripline::Result<Self> { Ok(Self) }
/// #     fn run(self, _: stripline::component::Ports) -> stripline::Result<()> { Ok(()) }
/// # }
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = host_if_launched(&Registry::new().with::<Null>()) {
///         return code;
///     }
///     println!("not launched: the program does its own work");
///     std::process::ExitCode::SUCCESS
/// }
/// ```
pub fn host_if_launched(registry: &Registry) -> Option<ExitCode> {
    stripline::internal::host_if_launched(registry)
}

/// Runs a waveform and blocks until it has ended. The waveform ends when all components have ended,
/// when one has failed, when the duration is over, or on SIGINT, SIGTERM or SIGHUP. A SIGINT
/// while it stops ends it at once. Afterwards no process, socket, shared memory or file of the run
/// is left.
///
/// # Errors
/// When the system lacks a resource for the run. If the waveform starts and then fails, the result
/// is a [`RunReport`] with a failure.
///
/// ```standalone_crate
/// use std::process::ExitCode;
/// use stripline::component::Registry;
/// use stripline_waveform::{Catalog, Observer, Overrides, RunOptions, host_if_launched, parse_bytes, run};
/// # use stripline::{Result, component::{Component, ComponentSpec, Ports, Properties}};
///
/// struct Silent;
/// impl Observer for Silent {}
/// # struct Ticker;
/// # impl Component for Ticker {
/// #     fn describe() -> ComponentSpec { ComponentSpec::new("ticker", "WaitFlags a moment.") }
/// #     fn new(_: &Properties) -> Result<Self> { Ok(Self) }
/// #     fn run(self, ports: Ports) -> Result<()> {
/// #         ports.stop_signal().sleep(std::time::Duration::from_millis(1))
/// #     }
/// # }
///
/// fn main() -> ExitCode {
///     let registry = Registry::new().with::<Ticker>();
///     // The components also run in this executable.
///     if let Some(code) = host_if_launched(&registry) {
///         return code;
///     }
///     let catalog = Catalog::new(registry.specs(), &["inproc", "shm"]);
///     let text = b"[component.clock]\ntype = \"ticker\"";
///     let checked = parse_bytes(text, "clock.toml".as_ref(), &Overrides::default(), &catalog);
///     let (waveform, _) = checked.expect("nothing is wrong with it");
///     let host = std::env::current_exe().expect("its path");
///     let (sampling, output) = Default::default();
///     let options = RunOptions { host, duration: None, sampling, quiet: true, output };
///     let report = run(&waveform, &options, &mut Silent).expect("the system has what it takes");
///     assert_eq!((report.failure, report.components[0].outcome.as_str()), (None, "ended"));
///     ExitCode::SUCCESS
/// }
/// ```
pub fn run(waveform: &Waveform, options: &RunOptions, observer: &mut dyn Observer) -> Result<RunReport> {
    run_announced(waveform, options, observer, None)
}

/// Runs a waveform as [`run`] does, and takes over the service of the announcement.
pub fn run_announced(
    waveform: &Waveform,
    options: &RunOptions,
    observer: &mut dyn Observer,
    announcement: Option<Announcement>,
) -> Result<RunReport> {
    supervisor::Supervisor::new(waveform, options, observer)?.run(announcement)
}
