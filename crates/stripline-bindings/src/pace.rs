//! The pace of a source.

use std::sync::{Arc, Weak};

use stripline::component::StopSignal;
use stripline::component::kit;
use stripline::{Error, Result};

use crate::{Instance, Requests};

/// A clock with a steady rate, for a source that also handles requests. The report of a run shows
/// how far the source was behind the last one.
///
/// ```no_run
/// use std::sync::Arc;
/// use stripline::component::Ports;
/// use stripline_bindings::{Instance, Pace, Requests};
///
/// fn run<I: Instance>(ports: Ports, requests: Option<Arc<Requests<I>>>) -> stripline::Result<()> {
///     let mut pace = Pace::new(ports.stop_signal(), 48e3, requests.as_ref())?;
///     let due_ns = pace.wait_for(480)?;
///     # assert_ne!(due_ns, 0);
///     Ok(())
/// }
/// ```
pub struct Pace<I> {
    pace: kit::Pace,
    /// Weak, because the requests keep the component, which may have the pace.
    requests: Option<Weak<Requests<I>>>,
}

impl<I: Instance> Pace<I> {
    /// Creates a clock of `rate` samples per second (0: unlimited) that starts with the first wait.
    ///
    /// # Errors
    /// A rate that is negative or not a number.
    pub fn new(stop: StopSignal, rate: f64, requests: Option<&Arc<Requests<I>>>) -> Result<Self> {
        if !rate.is_finite() || rate < 0.0 {
            return Err(Error::InvalidArgument(format!(
                "the rate of the pace is {rate}; give samples per second, or 0 for no limit"
            )));
        }
        Ok(Self { pace: kit::Pace::new(stop, rate), requests: requests.map(Arc::downgrade) })
    }

    /// Waits until `samples` samples have passed since the start, and serves requests meanwhile.
    /// Returns the time at which they are due, in monotonic nanoseconds; 0 without a rate.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the component must stop; [`Error::Forked`].
    pub fn wait_for(&mut self, samples: u64) -> Result<u64> {
        let requests = self.requests.as_ref().and_then(Weak::upgrade);
        self.pace.wait_with(samples, || requests.iter().for_each(|requests| requests.serve()))
    }
}
