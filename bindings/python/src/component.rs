//! Components: classes of a program, their registry, and the `main` of a script.
//!
//! The package's `_components` reads the classes, and calls their functions. This module connects
//! them to the library: it creates an instance on the thread of the launcher's commands. The
//! instance runs on a Python thread, so that no frame of this module lies below its `run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stripline::Error;
use stripline::component::{
    Access, ComponentSpec, Ports as RustPorts, Properties, Registry, Value, main_with_args,
};

use crate::component_ports::Ports;
use crate::component_requests::Requests;
use crate::{component_handler, error, library_log, waits};

/// The exit code of a program that was called with wrong arguments.
const USAGE: u8 = 2;

/// Returns a function of the package's module of components.
macro_rules! function {
    ($py:expr, $name:literal) => {{
        static FUNCTION: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::PyAny>> = pyo3::sync::PyOnceLock::new();
        FUNCTION.import($py, "stripline._components", $name)
    }};
}

pub(crate) use function;

/// A component class of a program.
pub struct ComponentClass {
    class: Py<PyAny>,
    pub spec: ComponentSpec,
    /// A list for the exceptions that the component raises, for a harness; or None.
    record: Py<PyAny>,
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
        let mut spec = self.spec.clone();
        if spec.validates {
            let of = Arc::clone(&self);
            spec = spec.validated(move |values| of.validate(values));
        }
        registry.with_value(spec, move |values: &Properties| {
            let instance = Instance::create(Arc::clone(&self), values)?;
            Ok(move |ports| Arc::new(instance).run(ports))
        })
    }

    fn validate(&self, values: &Properties) -> Result<(), Error> {
        Python::attach(|py| {
            let check = || -> PyResult<Option<String>> {
                let values = self.values(py, values)?;
                waits::call(function!(py, "_validate")?, (&self.class, values))?.extract()
            };
            match check() {
                Ok(None) => Ok(()),
                Ok(Some(words)) => Err(Error::failed(words)),
                Err(error) => Err(Error::failed(error)),
            }
        })
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
        let words = || -> PyResult<Option<String>> {
            waits::call(function!(py, "_failed")?, (raised.value(py), &self.record))?.extract()
        };
        match words() {
            Ok(None) => Error::Stopped,
            Ok(Some(words)) => Error::failed(words),
            Err(error) => Error::failed(error),
        }
    }

    /// Returns whether the class has functions for requests.
    fn takes_requests(&self) -> bool {
        let is_changeable = self.spec.properties.iter().any(|it| it.access == Access::Changeable);
        is_changeable || !self.spec.tests.is_empty()
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

impl Instance {
    fn create(class: Arc<ComponentClass>, values: &Properties) -> Result<Self, Error> {
        Python::attach(|py| {
            let create = || {
                let values = class.values(py, values)?;
                waits::call(function!(py, "_create")?, (&class.class, values))
            };
            match create() {
                Ok(object) => {
                    let object = object.unbind();
                    Ok(Self { class, object })
                }
                Err(raised) => match class.failed(py, raised) {
                    Error::Stopped => Err(Error::failed("`__init__` has called `sys.exit`")),
                    failed => Err(failed),
                },
            }
        })
    }

    fn run(self: Arc<Self>, ports: RustPorts) -> Result<(), Error> {
        let requests = self.class.takes_requests().then(|| ports.requests());
        let requests = requests.map(|requests| Arc::new(Requests::new(requests, Arc::clone(&self))));
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
    let code = py.detach(|| main_with_args(&registry, arguments));
    Ok(match code {
        code if code == ExitCode::SUCCESS => 0,
        code if code == ExitCode::from(USAGE) => USAGE,
        _ => 1,
    })
}
