//! Components: classes of a program, their registry, and the `main` of a script.
//!
//! The package's `_components` reads the classes, and calls their functions. This module connects
//! them to the library: it creates an instance on the thread of the launcher's commands. The
//! instance runs on a Python thread, so that no frame of this module lies below its `run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, mpsc};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stripline::Error;
use stripline::component::{
    Access, Change, ComponentSpec, InvalidProperties, Ports as RustPorts, Properties, Registry, Test,
    TestResult, Value,
};
use stripline_bindings::{self as bindings, Class, add_class};

use crate::component_ports::Ports;
use crate::{component_handler, error, library_log, waits};

/// Returns a function of the package's module of components.
macro_rules! function {
    ($py:expr, $name:literal) => {{
        static FUNCTION: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::PyAny>> = pyo3::sync::PyOnceLock::new();
        FUNCTION.import($py, "stripline._components", $name)
    }};
}

pub(crate) use function;

/// The requests to a component, and the functions of the class that handle them.
pub type Requests = bindings::Requests<Instance>;

/// A component class of a program.
pub struct ComponentClass {
    class: Py<PyAny>,
    pub spec: ComponentSpec,
    /// The `_Record` of a harness; or None.
    pub record: Py<PyAny>,
}

impl ComponentClass {
    /// Reads the specification of a class, as JSON.
    pub fn new(class: Py<PyAny>, spec: &str, record: Py<PyAny>) -> PyResult<Arc<Self>> {
        let spec: ComponentSpec = serde_json::from_str(spec)
            .map_err(|error| error::argument(format!("the specification of a component: {error}")))?;
        for property in &spec.properties {
            if let Some(default) = &property.default {
                let refused = |problem| error::argument(format!("the default of {problem}"));
                property.check(default).map_err(refused)?;
            }
        }
        Ok(Arc::new(Self { class, spec, record }))
    }

    /// Adds the class to a registry.
    pub fn add_to(self: Arc<Self>, registry: Registry) -> Registry {
        add_class(registry, self.spec.clone(), self)
    }

    /// Returns the values of the properties that a waveform sets, by name.
    pub fn values<'py>(&self, py: Python<'py>, values: &Properties) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for property in self.spec.properties.iter().filter(|it| it.access != Access::ReadOnly) {
            if let Some(value) = values.value(&property.name) {
                found.set_item(&property.name, value_object(py, value)?)?;
            }
        }
        Ok(found)
    }

    /// Returns the error for a function of the class that has raised an exception.
    pub fn failed(&self, py: Python<'_>, raised: PyErr) -> Error {
        // With the traceback, which `value` leaves out.
        let error = raised.into_value(py);
        let failure = || -> PyResult<Option<(String, String)>> {
            waits::call(function!(py, "_failed")?, (&error, &self.record))?.extract()
        };
        match failure() {
            Ok(None) => Error::Stopped,
            Ok(Some((code, words))) => error::failed(&code, words),
            Err(error) => Error::failed(error),
        }
    }
}

impl Class for ComponentClass {
    type Instance = Instance;

    fn validate(&self, values: &Properties) -> Result<(), Error> {
        // A running component's thread may check new values while the interpreter ends.
        if waits::is_ending() {
            return Err(Error::Stopped);
        }
        Python::attach(|py| {
            let check = || -> PyResult<Option<(String, String)>> {
                let values = self.values(py, values)?;
                waits::call(function!(py, "_validate")?, (&self.class, values))?.extract()
            };
            match check() {
                Ok(None) => Ok(()),
                Ok(Some((words, remedy))) => Err(InvalidProperties::new(words).remedy(remedy).into()),
                Err(error) => Err(Error::failed(error)),
            }
        })
    }

    fn create(class: &Arc<Self>, values: &Properties) -> Result<Instance, Error> {
        Python::attach(|py| {
            let create = || {
                let values = class.values(py, values)?;
                waits::call(function!(py, "_create")?, (&class.class, values))
            };
            match create() {
                Ok(object) => Ok(Instance { class: Arc::clone(class), object: object.unbind() }),
                Err(raised) => match class.failed(py, raised) {
                    Error::Stopped => Err(Error::failed("`__init__` has called `sys.exit`")),
                    failed => Err(failed),
                },
            }
        })
    }
}

/// Returns a value of a property as a Python object.
pub fn value_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Boolean(is_set) => is_set.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
    })
}

/// Reads a value of a property. A whole number is accepted for a float.
pub fn value_of(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(is_set) = given.extract::<bool>() {
        return Ok(Value::Boolean(is_set));
    }
    if let Ok(number) = given.extract::<i64>() {
        return Ok(Value::Integer(number));
    }
    if let Ok(number) = given.extract::<f64>() {
        return Ok(Value::Float(number));
    }
    if let Ok(text) = given.extract::<String>() {
        return Ok(Value::Text(text));
    }
    let kind = given.get_type();
    let kind = kind.name()?;
    Err(error::argument(format!("a property is text, a number or a bool, not {kind}")))
}

/// Returns values of properties by name.
pub fn values_object<'py>(py: Python<'py>, values: &BTreeMap<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for (name, value) in values {
        found.set_item(name, value_object(py, value)?)?;
    }
    Ok(found)
}

/// A component that was created.
pub struct Instance {
    pub class: Arc<ComponentClass>,
    pub object: Py<PyAny>,
}

impl bindings::Instance for Instance {
    fn takes_requests(&self) -> bool {
        let spec = &self.class.spec;
        !spec.tests.is_empty() || spec.properties.iter().any(|it| it.access == Access::Changeable)
    }

    fn run(self: Arc<Self>, ports: RustPorts, requests: Option<Arc<Requests>>) -> Result<(), Error> {
        if self.class.spec.any_dispatch {
            return component_handler::run(&self, ports, requests);
        }
        let (outcome, ended) = mpsc::channel();
        let started = Python::attach(|py| {
            let begin = || -> PyResult<()> {
                let ports = Bound::new(py, Ports::new(ports, requests, outcome))?;
                waits::call(function!(py, "_start")?, (&self.object, ports, &self.class.record))?;
                Ok(())
            };
            begin().map_err(|raised| self.class.failed(py, raised))
        });
        started?;
        let without = || Error::failed("the component's thread has ended without an outcome");
        ended.recv().unwrap_or_else(|_| Err(without()))
    }

    fn change(&self, change: Change) {
        // This thread may have the interpreter's lock. Dropping the request refuses it.
        if waits::is_ending() {
            return;
        }
        let apply = |py: Python<'_>| -> PyResult<Option<String>> {
            let names: Vec<&str> = change.names().collect();
            let values = self.class.values(py, change.properties())?;
            waits::call(function!(py, "_change")?, (&self.object, values, names))?.extract()
        };
        match Python::attach(apply) {
            Ok(None) => change.accept(),
            Ok(Some(words)) => change.refuse(words),
            Err(error) => change.refuse(error),
        }
    }

    fn test(&self, test: Test) {
        if waits::is_ending() {
            return;
        }
        let run = |py: Python<'_>| -> PyResult<(bool, String, Option<f64>)> {
            waits::call(function!(py, "_test")?, (&self.object, test.name()))?.extract()
        };
        let result = match Python::attach(run) {
            Ok((true, text, value)) => TestResult::pass(text).value(value.unwrap_or(f64::NAN)),
            Ok((false, text, value)) => TestResult::fail(text).value(value.unwrap_or(f64::NAN)),
            Err(error) => TestResult::fail(error),
        };
        test.answer(result);
    }
}

/// Returns the remedy for a misspelt name: the candidate probably meant, or all candidates.
#[pyfunction(name = "_did_you_mean")]
pub fn did_you_mean(name: &str, names: Vec<String>, there_is: &str) -> String {
    stripline::internal::did_you_mean(name, names.iter().map(String::as_str), there_is)
}

/// Runs classes as the `main` of a script, and returns the exit code.
#[pyfunction(name = "_main")]
pub fn main(py: Python<'_>, classes: Vec<(Py<PyAny>, String)>, arguments: Vec<OsString>) -> PyResult<u8> {
    let mut registry = Registry::new();
    for (class, spec) in classes {
        let class = ComponentClass::new(class, &spec, py.None())?;
        registry = class.add_to(registry);
    }
    library_log::start();
    Ok(py.detach(|| bindings::main(&registry, arguments)))
}
