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
use stripline::node::Topics;
use stripline::payload::Dynamic;

use crate::array::ArrayType;
use crate::component::{ComponentClass, value_of, values_object};
use crate::error;
use crate::forks::Owner;
use crate::messages::{MessagePublisher, MessageSubscriber, message_type};
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
    state: Mutex<State>,
    /// Set by a thread that stops the component while another thread waits for the end.
    is_stopping: AtomicBool,
}

enum State {
    /// Boxed, because the other variant is smaller.
    Prepared(Box<RustHarness>),
    Running(Box<HarnessRun>),
    Ended,
}

impl Harness {
    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        self.owner.check(|| format!("the harness of `{}`", self.name))?;
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(error)) => Ok(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => Err(error::in_use("the harness of", &self.name)),
        }
    }

    fn prepare(&self, change: impl FnOnce(RustHarness) -> RustHarness) -> PyResult<()> {
        let mut state = self.lock()?;
        let State::Prepared(harness) = &mut *state else {
            let name = &self.name;
            return Err(error::argument(format!(
                "component `{name}` was started before; make another harness"
            )));
        };
        let unused = RustHarness::of_type(&Registry::new(), "");
        **harness = change(std::mem::replace(harness, unused));
        Ok(())
    }

    fn run<R>(&self, use_it: impl FnOnce(&mut HarnessRun) -> PyResult<R>) -> PyResult<R> {
        match &mut *self.lock()? {
            State::Running(run) => use_it(run),
            State::Prepared(_) => {
                Err(error::argument(format!("component `{}` was not started yet", self.name)))
            }
            State::Ended => Err(error::closed("the harness of", &self.name)),
        }
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
        self.run(|run| {
            let mut raised = None;
            let mut goes_on = || {
                // Signal handlers run on the main thread. Other threads must not enter an
                // interpreter that is ending.
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
        })
    }
}

#[pymethods]
impl Harness {
    #[new]
    fn new(class_: Py<PyAny>, spec: &str, record: Py<PyAny>) -> PyResult<Self> {
        library_log::start();
        let class = ComponentClass::new(class_, spec, record)?;
        let name = class.spec.name.clone();
        let registry = class.add_to(Registry::new());
        let state = State::Prepared(Box::new(RustHarness::of_type(&registry, &name)));
        let is_stopping = AtomicBool::new(false);
        Ok(Self { owner: Owner::current(), name, state: Mutex::new(state), is_stopping })
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
        if matches!(&*self.lock()?, State::Prepared(_)) {
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
        let topics = Topics::parse(topics).map_err(error::raised)?;
        // The empty name matches no topic, so this returns the defaults.
        let options = topics.of("");
        self.prepare(|harness| harness.options(options.link).dispatch(options.dispatch))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.prepare(|harness| harness)?;
        let mut state = self.lock()?;
        // A component that could not start cannot be started later.
        if let State::Prepared(harness) = std::mem::replace(&mut *state, State::Ended) {
            let started = py.detach(|| harness.start()).map_err(error::raised)?;
            *state = State::Running(Box::new(started));
        }
        Ok(())
    }

    fn input(&self, port: &str, samples: &Bound<'_, PyAny>) -> PyResult<Publisher> {
        let array = ArrayType::resolve(samples)?;
        let publisher =
            self.run(|run| run.input::<Dynamic>((port, &array.samples)).map_err(error::raised))?;
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
        let found = self.run(|run| {
            run.output::<Dynamic>((port, &array.samples))
                .and_then(|made| made.holding(hold))
                .map_err(error::raised)
        })?;
        let shared = Shared { topic: port.into(), array, streams: Default::default() };
        Ok(Subscriber::of_component(found, shared, None, copy))
    }

    fn message_input(&self, py: Python<'_>, port: &str, messages: &str) -> PyResult<MessagePublisher> {
        let messages = message_type(messages)?;
        let made = self.run(|run| run.input::<Dynamic>((port, &messages)).map_err(error::raised))?;
        MessagePublisher::of_harness(py, made, port)
    }

    fn message_output(&self, py: Python<'_>, port: &str, messages: &str) -> PyResult<MessageSubscriber> {
        let messages = message_type(messages)?;
        let found = self.run(|run| {
            run.output::<Dynamic>((port, &messages)).and_then(|made| made.holding(1)).map_err(error::raised)
        })?;
        MessageSubscriber::of_component(py, found, port, None)
    }

    /// Runs a self-test. Returns whether it passed, the text and the value.
    fn test(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: Option<f64>,
    ) -> PyResult<(bool, String, Option<f64>)> {
        let result = self.ask(py, timeout, |run, time, goes_on| run.test_while(name, time, goes_on))?;
        let value = match result.value {
            Some(stripline::component::Value::Float(value)) => Some(value),
            _ => None,
        };
        Ok((result.passed, result.text, value))
    }

    /// Returns the read-only properties that the component has set.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = self.run(|run| Ok(run.values()))?;
        values_object(py, &values)
    }

    /// Stops the component. A component that has ended stays as it is.
    fn stop(&self) -> PyResult<()> {
        self.owner.check(|| format!("the harness of `{}`", self.name))?;
        self.is_stopping.store(true, Ordering::SeqCst);
        if let Ok(state) = self.state.try_lock()
            && let State::Running(run) = &*state
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
        loop {
            let State::Running(run) = &mut *state else {
                return Err(error::closed("the harness of", &self.name));
            };
            if self.is_stopping.load(Ordering::SeqCst) {
                run.stop();
            }
            let pause = waits::time_left(deadline).min(SIGNALS_TIME);
            let found = py.detach(|| run.wait_for_end(pause));
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            match found {
                Ok(None) if !is_late => py.check_signals()?,
                Ok(None) => {
                    *state = State::Ended;
                    return Err(PyTimeoutError::new_err(format!(
                        "component `{}` has not ended within {} s: end its inputs, and take the packets of its outputs",
                        self.name,
                        timeout.unwrap_or(f64::INFINITY)
                    )));
                }
                Ok(Some(values)) => {
                    *state = State::Ended;
                    return values_object(py, &values);
                }
                Err(error) => {
                    *state = State::Ended;
                    return Err(error::raised(error));
                }
            }
        }
    }
}
