//! The ports of a running component.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use stripline::Error;
use stripline::component::{Ports as RustPorts, StopSignal, Value};
use stripline::internal::quoted;
use stripline::payload::Dynamic;
use stripline_bindings as bindings;

use crate::array::ArrayType;
use crate::component::{Instance, Requests, value_of};
use crate::error;
use crate::forks::Owner;
use crate::messages::{MessagePublisher, MessageSubscriber, MessageType};
use crate::packet::Shared;
use crate::publisher::Publisher;
use crate::subscriber::Subscriber;
use crate::waits;
use crate::windows::WindowedSubscriber;

/// The ports of a running component, and other facts about the waveform.
///
/// The ports are `self.ports`, from the beginning to the end of `run`.
#[pyclass(frozen, module = "stripline")]
pub struct Ports {
    owner: Owner,
    component: String,
    is_quiet: bool,
    stop: StopSignal,
    requests: Option<Arc<Requests>>,
    inside: Mutex<Inside>,
}

struct Inside {
    ports: Option<RustPorts>,
    /// The ends that were taken from the ports, and that end with the ports.
    inputs: Vec<End>,
    outputs: Vec<End>,
    /// The channel for the outcome of `run`.
    outcome: Option<Sender<Result<(), Error>>>,
}

/// A function that ends a port which was taken from the ports.
type End = Box<dyn Fn() -> PyResult<()> + Send + Sync>;

impl Ports {
    pub fn new(
        ports: RustPorts,
        requests: Option<Arc<Requests>>,
        outcome: Sender<Result<(), Error>>,
    ) -> Self {
        Self::made(ports, requests, Some(outcome))
    }

    /// Returns the ports of a handler. The library takes them.
    pub fn of_handler(ports: RustPorts, requests: Option<Arc<Requests>>) -> Self {
        Self::made(ports, requests, None)
    }

    fn made(
        ports: RustPorts,
        requests: Option<Arc<Requests>>,
        outcome: Option<Sender<Result<(), Error>>>,
    ) -> Self {
        let (component, is_quiet, stop) =
            (ports.component().to_string(), ports.is_quiet(), ports.stop_signal());
        let inside = Inside { ports: Some(ports), inputs: Vec::new(), outputs: Vec::new(), outcome };
        Self { owner: Owner::current(), component, is_quiet, stop, requests, inside: Mutex::new(inside) }
    }

    /// Gives the ports of a handler to the library.
    pub fn take(&self) -> Option<RustPorts> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).ports.take()
    }

    /// Returns the name of the component, and a new pace.
    pub fn pace(&self, rate: f64) -> PyResult<(String, bindings::Pace<Instance>)> {
        self.owner.check(|| format!("component `{}`", self.component))?;
        let pace = bindings::Pace::new(self.stop.clone(), rate, self.requests.as_ref());
        Ok((self.component.clone(), pace.map_err(error::raised)?))
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Inside>> {
        self.owner.check(|| format!("component `{}`", self.component))?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.inside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut RustPorts) -> Result<R, Error>) -> PyResult<R> {
        let mut inside = self.lock()?;
        let ports = inside.ports.as_mut();
        let ports = ports.ok_or_else(|| error::closed("the ports of component", &self.component))?;
        use_it(ports).map_err(error::raised)
    }
}

#[pymethods]
impl Ports {
    /// Returns the component's name in the waveform.
    #[getter]
    fn component(&self) -> &str {
        &self.component
    }

    /// Returns whether the user wants only warnings and errors (`stripline run --quiet`). In this
    /// case, a component prints nothing.
    #[getter]
    fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Handles the requests that wait: setters and self-tests run in this call. The call is for a
    /// component that does not receive. Raises `StoppedError` when the component must stop.
    fn poll(&self) -> PyResult<()> {
        self.owner.check(|| format!("component `{}`", self.component))?;
        self.requests.iter().for_each(|requests| requests.serve());
        if self.stop.is_stopped() { Err(error::raised(Error::Stopped)) } else { Ok(()) }
    }

    /// Sleeps. Raises `StoppedError`, at once, when the component must stop. Requests wait until
    /// the next `poll`.
    fn sleep(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let until = waits::deadline(Some(seconds))?;
        let time = until.map_or(Duration::MAX, |_| waits::time_left(until));
        py.detach(|| self.stop.sleep(time)).map_err(error::raised)
    }

    /// Returns the type of a port in this waveform, as the text of the layout; None if the port is
    /// not connected.
    #[pyo3(name = "type")]
    fn type_of(&self, port: &str) -> PyResult<Option<String>> {
        self.with(|ports| Ok(ports.payload(port).map(|name| name.full_text().into())))
    }

    #[pyo3(name = "_input")]
    fn input(
        &self,
        py: Python<'_>,
        port: &str,
        samples: &Bound<'_, PyAny>,
        hold: usize,
        copy: bool,
    ) -> PyResult<Py<Subscriber>> {
        let array = ArrayType::resolve(samples)?;
        let holding = self.with(|ports| ports.input::<Dynamic>((port, &array.samples))?.holding(hold))?;
        let shared = Shared::new(port, array);
        let made = Py::new(py, Subscriber::of_component(holding, shared, self.requests.clone(), copy))?;
        let taken = made.clone_ref(py);
        self.lock()?.inputs.push(Box::new(move || taken.get().give_back()));
        Ok(made)
    }

    #[pyo3(name = "_windowed_input")]
    fn windowed_input(
        &self,
        py: Python<'_>,
        port: &str,
        samples: &Bound<'_, PyAny>,
        hold: usize,
    ) -> PyResult<Py<WindowedSubscriber>> {
        let array = ArrayType::resolve(samples)?;
        let holding = self.with(|ports| ports.input::<Dynamic>((port, &array.samples))?.holding(hold))?;
        let made = WindowedSubscriber::of_component(holding, port.into(), array, self.requests.clone());
        let made = Py::new(py, made)?;
        let taken = made.clone_ref(py);
        self.lock()?.inputs.push(Box::new(move || taken.get().give_back()));
        Ok(made)
    }

    #[pyo3(name = "_message_input")]
    fn message_input(
        &self,
        py: Python<'_>,
        port: &str,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<Py<MessageSubscriber>> {
        let messages = MessageType::resolve(messages)?;
        let holding = self.with(|ports| ports.input::<Dynamic>((port, &messages.name))?.holding(1))?;
        let made = MessageSubscriber::of_component(py, holding, port, messages, self.requests.clone())?;
        let made = Py::new(py, made)?;
        let taken = made.clone_ref(py);
        self.lock()?.inputs.push(Box::new(move || taken.get().give_back()));
        Ok(made)
    }

    #[pyo3(name = "_message_output")]
    fn message_output(
        &self,
        py: Python<'_>,
        port: &str,
        messages: &Bound<'_, PyAny>,
    ) -> PyResult<Py<MessagePublisher>> {
        let messages = MessageType::resolve(messages)?;
        let publisher = self.with(|ports| ports.output::<Dynamic>((port, &messages.name)))?;
        let made = Py::new(py, MessagePublisher::of_component(py, publisher, port)?)?;
        let taken = made.clone_ref(py);
        self.lock()?.outputs.push(Box::new(move || taken.get().give_back()));
        Ok(made)
    }

    #[pyo3(name = "_output")]
    fn output(&self, py: Python<'_>, port: &str, samples: &Bound<'_, PyAny>) -> PyResult<Py<Publisher>> {
        let array = ArrayType::resolve(samples)?;
        let publisher = self.with(|ports| ports.output::<Dynamic>((port, &array.samples)))?;
        let made = Py::new(py, Publisher::of_component(publisher, port.into(), array))?;
        let taken = made.clone_ref(py);
        self.lock()?.outputs.push(Box::new(move || taken.get().give_back()));
        Ok(made)
    }

    #[pyo3(name = "_readout")]
    fn readout(&self, property: &str) -> PyResult<Readout> {
        self.with(|ports| bindings::Readout::new(ports, property).map(Readout))
    }

    /// Ends everything that was taken from the ports, and reports the outcome of `run`: the code
    /// and the message of a failure.
    #[pyo3(name = "_end")]
    fn end(&self, py: Python<'_>, failure: Option<(String, String)>) -> PyResult<()> {
        let (ports, inputs, outputs, outcome) = {
            let mut inside = self.lock()?;
            let Inside { ports, inputs, outputs, outcome } = &mut *inside;
            let taken = (std::mem::take(inputs), std::mem::take(outputs));
            (ports.take(), taken.0, taken.1, outcome.take())
        };
        // Inputs end first, so that no sender waits for a receiver.
        let of_inputs = inputs.iter().filter_map(|end| end().err());
        let of_outputs = outputs.iter().filter_map(|end| end().err());
        let in_use = of_inputs.chain(of_outputs).last();
        drop(ports);
        let Some(outcome) = outcome else { return Ok(()) };
        // The thread that runs the component waits for the outcome.
        let _ = outcome.send(match (failure, in_use) {
            (Some((code, words)), _) => Err(error::failed(&code, words)),
            (None, Some(error)) => {
                Err(Error::failed(format!("its `run` has returned, but {}", error.value(py))))
            }
            (None, None) => Ok(()),
        });
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<stripline.Ports of `{}`>", self.component)
    }
}

/// A read-only property of a component, which the component sets.
#[pyclass(frozen, module = "stripline._stripline", name = "_Readout")]
pub struct Readout(bindings::Readout);

#[pymethods]
impl Readout {
    /// Sets the value. A whole number is accepted for a float.
    fn set(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Self(readout) = self;
        let value = match value_of(value)? {
            Value::Integer(number) if readout.is_float() => Value::Float(number as f64),
            value => value,
        };
        let (name, noun) = (readout.name(), readout.noun());
        if readout.set(value.clone()) {
            return Ok(());
        }
        let value = quoted(&value.to_string());
        Err(error::argument(format!("property `{name}` is declared as {noun}, and {value} is none")))
    }
}
