//! Launching and supervision: one process per component (or one for all thread-placed ones), a control socket to
//! each, and one loop that waits for all of them.

mod link;
mod process;
mod report;
mod signals;
mod supervisor;

use std::path::PathBuf;
use std::time::Duration;

pub use report::{ComponentResult, ConnectionResult, Progress, RunReport};

use super::plan::Waveform;
use crate::error::Result;
use crate::link::Sampling;

/// How a waveform is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The executable with the stock components, which must call
    /// [`host_if_launched`](crate::component::host_if_launched) first thing.
    pub host: PathBuf,
    /// Stops the waveform in order after this time.
    pub duration: Option<Duration>,
    /// Which packets are measured.
    pub sampling: Sampling,
}

/// What a run tells while it goes on.
pub trait Observer {
    /// All components run.
    fn started(&mut self) {}

    /// About four times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }

    /// Something that does not stop the waveform but should be known; `component` names who it is about.
    fn warning(&mut self, component: &str, text: &str) {
        let _ = (component, text);
    }

    /// A line that a component wrote on its standard error.
    fn line(&mut self, component: &str, text: &str) {
        let _ = (component, text);
    }

    /// The waveform is being stopped in order, because of this.
    fn stopping(&mut self, reason: &str) {
        let _ = reason;
    }
}

/// Runs a waveform until all its components have ended, one has failed, the duration is over, or SIGINT or
/// SIGTERM arrives; a second signal ends it at once. Blocks all that time. Afterwards no process, socket, shared
/// memory or file of the run is left.
///
/// # Errors
/// When the system lacks what a run needs. A waveform that starts and fails is a [`RunReport`] with a failure.
///
/// ```no_run
/// # fn example(waveform: &stripline::waveform::Waveform) -> stripline::Result<()> {
/// use stripline::waveform::{Observer, RunOptions, run};
///
/// struct Silent;
/// impl Observer for Silent {}
///
/// let host = std::env::current_exe()?;
/// let options = RunOptions { host, duration: None, sampling: Default::default() };
/// let report = run(waveform, &options, &mut Silent)?;
/// println!("{} connections, failure: {:?}", report.connections.len(), report.failure);
/// # Ok(())
/// # }
/// ```
pub fn run(waveform: &Waveform, options: &RunOptions, observer: &mut dyn Observer) -> Result<RunReport> {
    supervisor::Supervisor::new(waveform, options, observer)?.run()
}
