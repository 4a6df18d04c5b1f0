//! One component in this process, with ports that a test feeds and reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stripline::Error;
use stripline::component::Registry;
use stripline::component::harness::{Harness as RustHarness, HarnessRun};
use stripline::payload::Dynamic;
use stripline_bindings::{self as bindings, measured};

use crate::array::ArrayType;
use crate::component::{ComponentClass, value_of, values_object};
use crate::error;
use crate::forks::Owner;
use crate::messages::{MessagePublisher, MessageSubscriber, MessageType};
use crate::packet::Shared;
use crate::publisher::Publisher;
use crate::subscriber::Subscriber;
use crate::{library_log, waits};

/// The time that a wait for the end lasts before Python may run signal handlers.
const SIGNALS_TIME: Duration = Duration::from_millis(20);

/// A run of one component, for `stripline.testing`.
#[pyclass(frozen, module = "stripline._stripline", name = "_Harness")]
pub struct Harness {
    owner: Owner,
    name: String,
    state: Mutex<bindings::Harness>,
    /// Set by a thread that stops the component while another thread waits for the end.
    is_stopping: AtomicBool,
}

impl Harness {
    fn lock(&self) -> PyResult<MutexGuard<'_, bindings::Harness>> {
        self.owner.check(|| format!("the harness of `{}`", self.name))?;
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(error)) => Ok(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => Err(error::in_use("the harness of", &self.name)),
        }
    }

    fn prepare(&self, change: impl FnOnce(RustHarness) -> RustHarness) -> PyResult<()> {
        self.lock()?.prepare(change).map_err(error::raised)
    }

    fn run<R>(&self, use_it: impl FnOnce(&mut HarnessRun) -> Result<R, Error>) -> PyResult<R> {
        use_it(self.lock()?.run().map_err(error::raised)?).map_err(error::raised)
    }

    /// Makes a request to the component. A signal handler that raises ends the wait for the answer.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        request: impl FnOnce(&mut HarnessRun, Duration, &mut (dyn FnMut() -> bool + Send)) -> Result<R, Error>
        + Send,
    ) -> PyResult<R> {
        let time = waits::time_left(waits::deadline(timeout)?);
        let mut state = self.lock()?;
        let run = state.run().map_err(error::raised)?;
        let mut raised = None;
        let mut goes_on = || {
            // Signal handlers run on the main thread. Other threads must not enter an interpreter
            // that is ending.
            if waits::is_main_thread() {
                raised = Python::attach(|py| py.check_signals()).err();
            }
            raised.is_none() && !waits::is_ending()
        };
        let outcome = waits::detached(py, || request(run, time, &mut goes_on));
        match raised {
            Some(raised) => Err(raised),
            None => outcome.map_err(error::raised),
        }
    }
}

#[pymethods]
impl Harness {
    #[new]
    fn new(class_: Py<PyAny>, spec: &str, record: Py<PyAny>) -> PyResult<Self> {
        library_log::start();
        let class = ComponentClass::new(class_, spec, record)?;
        let (name, spec) = (class.spec.name.clone(), class.spec.clone());
        let registry = class.add_to(Registry::new());
        let state = Mutex::new(bindings::Harness::new(&registry, spec));
        Ok(Self { owner: Owner::current(), name, state, is_stopping: AtomicBool::new(false) })
    }

    /// Sets a property: before the start, or while the component runs.
    fn set(
        &self,
        py: Python<'_>,
        property: &str,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let value = value_of(value)?;
        if self.lock()?.is_prepared() {
            return self.prepare(|harness| harness.property(property, value));
        }
        self.ask(py, timeout, |run, time, goes_on| run.set_while(property, value, time, goes_on))
    }

    fn set_type(&self, port: &str, samples: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = ArrayType::resolve(samples)?;
        self.prepare(|harness| harness.payload(port, array.samples.name()))
    }

    fn leave_unconnected(&self, port: &str) -> PyResult<()> {
        self.prepare(|harness| harness.unconnected(port))
    }

    /// Sets the options of all connections, from the text of a topics file.
    fn set_options(&self, topics: &str) -> PyResult<()> {
        self.lock()?.set_options(topics).map_err(error::raised)
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock()?;
        let harness = &mut *state;
        py.detach(|| harness.start()).map_err(error::raised)
    }

    fn input(&self, port: &str, samples: &Bound<'_, PyAny>) -> PyResult<Publisher> {
        let array = ArrayType::resolve(samples)?;
        let publisher = self.run(|run| run.input::<Dynamic>((port, &array.samples)))?;
        Ok(Publisher::of_harness(publisher, port.into(), array))
    }

    fn output(
        &self,
        port: &str,
        samples: &Bound<'_, PyAny>,
        hold: usize,
        copy: bool,
    ) -> PyResult<Subscriber> {
        let array = ArrayType::resolve(samples)?;
        let found = self.run(|run| run.output::<Dynamic>((port, &array.samples))?.holding(hold))?;
        let shared = Shared::new(port, array);
        Ok(Subscriber::of_component(found, shared, None, copy))
    }

    fn message_input(
        &self,
        py: Python<'_>,
        port: &str,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<MessagePublisher> {
        let messages = MessageType::resolve(messages)?;
        let made = self.run(|run| run.input::<Dynamic>((port, &messages.name)))?;
        MessagePublisher::of_harness(py, made, port)
    }

    fn message_output(
        &self,
        py: Python<'_>,
        port: &str,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<MessageSubscriber> {
        let messages = MessageType::resolve(messages)?;
        let found = self.run(|run| run.output::<Dynamic>((port, &messages.name))?.holding(1))?;
        MessageSubscriber::of_component(py, found, port, messages, None)
    }

    /// Runs a self-test. Returns whether it passed, the text and the value.
    fn test(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: Option<f64>,
    ) -> PyResult<(bool, String, Option<f64>)> {
        let result = self.ask(py, timeout, |run, time, goes_on| run.test_while(name, time, goes_on))?;
        let value = measured(&result);
        Ok((result.passed, result.text, value))
    }

    /// Waits until the component has handled the packets that were sent before.
    fn catch_up(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.ask(py, timeout, |run, time, goes_on| run.catch_up_while(time, goes_on))
    }

    /// Returns the read-only properties that the component has set.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = self.lock()?.values().map_err(error::raised)?;
        values_object(py, &values)
    }

    /// Stops the component. A component that has ended stays as it is.
    fn stop(&self) -> PyResult<()> {
        self.owner.check(|| format!("the harness of `{}`", self.name))?;
        self.is_stopping.store(true, Ordering::SeqCst);
        if let Ok(mut state) = self.state.try_lock()
            && let Ok(run) = state.run()
        {
            run.stop();
        }
        Ok(())
    }

    /// Waits for the end of the component, and returns the read-only properties. If the component
    /// does not end in time, it is stopped.
    fn finish<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let deadline = waits::deadline(timeout)?;
        let mut state = self.lock()?;
        let harness = &mut *state;
        loop {
            if self.is_stopping.load(Ordering::SeqCst) {
                harness.run().map_err(error::raised)?.stop();
            }
            let pause = waits::time_left(deadline).min(SIGNALS_TIME);
            let found = py.detach(|| harness.wait_for_end(pause));
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            match found.map_err(error::raised)? {
                None if !is_late => py.check_signals()?,
                None => {
                    harness.end();
                    return Err(PyTimeoutError::new_err(format!(
                        "component `{}` has not ended within {} s: end its inputs, and take the packets of its outputs; otherwise, it hangs",
                        self.name,
                        timeout.unwrap_or(f64::INFINITY)
                    )));
                }
                Some(values) => return values_object(py, &values),
            }
        }
    }
}
