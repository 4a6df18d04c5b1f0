//! Requests to a running component: new values for properties, and self-tests.

use std::sync::Arc;

use pyo3::prelude::*;
use stripline::component::{Change, ControlRequests, Request, Test, TestResult};

use crate::component::{Instance, function};
use crate::waits;

/// The requests to a component, and the functions of the class that handle them.
pub struct Requests {
    waiting: ControlRequests,
    instance: Arc<Instance>,
}

impl Requests {
    pub fn new(waiting: ControlRequests, instance: Arc<Instance>) -> Self {
        Self { waiting, instance }
    }

    /// Handles the requests that wait. Without requests, it costs one load.
    pub fn serve(&self) {
        while let Some(request) = self.waiting.request() {
            // This thread may have the interpreter's lock. Dropping the request refuses it.
            if waits::is_ending() {
                return;
            }
            Python::attach(|py| match request {
                Request::Change(change) => self.change(py, change),
                Request::Test(test) => self.test(py, test),
            });
        }
    }

    fn change(&self, py: Python<'_>, change: Change) {
        let apply = || -> PyResult<Option<String>> {
            let names: Vec<&str> = change.names().collect();
            let values = self.instance.class.values(py, change.properties())?;
            waits::call(function!(py, "_change")?, (&self.instance.object, values, names))?.extract()
        };
        match apply() {
            Ok(None) => change.accept(),
            Ok(Some(words)) => change.refuse(words),
            Err(error) => change.refuse(error),
        }
    }

    fn test(&self, py: Python<'_>, test: Test) {
        let run = || -> PyResult<(bool, String, Option<f64>)> {
            waits::call(function!(py, "_test")?, (&self.instance.object, test.name()))?.extract()
        };
        let result = match run() {
            Ok((true, text, value)) => TestResult::pass(text).value(value.unwrap_or(f64::NAN)),
            Ok((false, text, value)) => TestResult::fail(text).value(value.unwrap_or(f64::NAN)),
            Err(error) => TestResult::fail(error),
        };
        test.answer(result);
    }
}
