//! The pace of a source.

use pyo3::prelude::*;
use stripline_bindings as bindings;

use crate::component::Instance;
use crate::component_ports::Ports;
use crate::one_user::OneUser;
use crate::{error, waits};

/// A clock with a steady rate, for a source.
///
/// `Pace(self.ports, rate)` has a rate in samples per second; 0: no limit. The clock starts with
/// the first wait. Times are counted from there, so delays do not add up, and a late source catches
/// up. The report of `stripline run` shows how far a source was behind the last pace::
///
///     pace, sent = stripline.Pace(self.ports, 48e3), 0
///     while True:
///         sent += 480
///         due_ns = pace.wait_for(sent)
///         with self.out.loan(480, intended_ns=due_ns) as samples:
///             samples[:] = 1
///
/// Raises `UsageError` for a rate that is negative or not a number.
#[pyclass(frozen, module = "stripline")]
pub struct Pace {
    component: String,
    rate: f64,
    pace: OneUser<bindings::Pace<Instance>>,
}

#[pymethods]
impl Pace {
    #[new]
    fn new(ports: &Ports, rate: f64) -> PyResult<Self> {
        let (component, pace) = ports.pace(rate)?;
        Ok(Self { component, rate, pace: OneUser::new("the pace of component", pace) })
    }

    /// Waits until `samples` samples are due since the first wait. Returns the time at which they
    /// are due, in nanoseconds of the monotonic clock, for `intended_ns`; 0 without a rate.
    ///
    /// Setters and self-tests run before the wait, and at most 100 ms after a request during the
    /// wait. Raises `StoppedError`, at once, when the component must stop.
    fn wait_for(&self, py: Python<'_>, samples: u64) -> PyResult<u64> {
        self.pace.with(&self.component, |pace| {
            waits::detached(py, || pace.wait_for(samples)).map_err(error::raised)
        })
    }

    fn __repr__(&self) -> String {
        format!("<stripline.Pace of `{}`: {} samples/s>", self.component, self.rate)
    }
}
