//! One component that was created: the functions of the program, and their arguments.

use std::ffi::{CString, c_void};
use std::ptr::{from_mut, null_mut};
use std::sync::Arc;

use stripline::Error as LinkError;
use stripline::component::{
    Change, ComponentSpec, ControlRequests, Ports as RustPorts, Properties as RustProperties, Request, Test,
    TestResult,
};

use super::handler;
use super::{ComponentFunctions, Ports, Properties, Reason};

/// The functions of a component type.
#[derive(Clone, Copy)]
pub(super) struct Functions(pub ComponentFunctions);

// SAFETY: the program promises that the functions may be called on threads of the library.
unsafe impl Send for Functions {}
// SAFETY: as above, with the same arguments, on several threads at once where the header states it.
unsafe impl Sync for Functions {}

impl Functions {
    /// Checks a set of properties by the program's function.
    pub fn validate(&self, spec: &ComponentSpec, values: &RustProperties) -> stripline::Result<()> {
        let Some(validate) = self.0.validate else { return Ok(()) };
        let values = Properties::new(spec, values, Vec::new());
        let mut reason = Reason::new();
        // SAFETY: the program promises that the function may be called with this context.
        let returned = unsafe { validate(self.0.context, &raw const values, &raw mut reason) };
        reason.outcome(returned)
    }
}

/// A component. The program's function destroys it when the instance is dropped.
pub(super) struct Instance {
    pub functions: Functions,
    pub spec: Arc<ComponentSpec>,
    pub pointer: *mut c_void,
}

// SAFETY: only the functions use the pointer, and the program promises that they may run on other
// threads.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Creates a component of these properties.
    pub fn create(
        functions: Functions,
        spec: Arc<ComponentSpec>,
        values: &RustProperties,
    ) -> stripline::Result<Self> {
        let context = functions.0.context;
        let Some(create) = functions.0.create else {
            // The context is the instance here, and the component must not destroy it.
            let functions = Functions(ComponentFunctions { destroy: None, ..functions.0 });
            return Ok(Self { functions, spec, pointer: context });
        };
        let values = Properties::new(&spec, values, Vec::new());
        let (mut reason, mut pointer) = (Reason::new(), null_mut());
        // SAFETY: the program promises that the function may be called with this context.
        let returned = unsafe { create(context, &raw const values, &raw mut pointer, &raw mut reason) };
        reason.outcome(returned)?;
        Ok(Self { functions, spec, pointer })
    }

    /// Runs the component to its end.
    pub fn run(self, ports: RustPorts) -> stripline::Result<()> {
        let instance = Arc::new(self);
        let of = instance.functions.0;
        if let Some(handle) = of.handle {
            return handler::run(&instance, handle, ports);
        }
        let run = of.run.ok_or_else(|| LinkError::failed("the component has no function `run`"))?;
        let pointer = instance.pointer;
        let (mut ports, mut reason) = (Ports::new(ports, instance), Reason::new());
        // SAFETY: the program promises that the function may be called with this instance.
        let returned = unsafe { run(pointer, from_mut(&mut ports), &raw mut reason) };
        // SAFETY: the function has returned, and the header forbids the use of the ports after
        // that.
        drop(unsafe { ports.end() });
        reason.outcome(returned)
    }

    /// Returns whether the component has a function for requests.
    pub fn takes_requests(&self) -> bool {
        self.functions.0.change.is_some() || self.functions.0.test.is_some()
    }

    /// Runs the program's functions for the requests that wait.
    pub fn serve(&self, requests: &ControlRequests) {
        while let Some(request) = requests.request() {
            match request {
                Request::Change(change) => self.change(change),
                Request::Test(test) => self.test(test),
            }
        }
    }

    fn change(&self, change: Change) {
        let Some(function) = self.functions.0.change else {
            return change.refuse("it takes no new values while it runs");
        };
        let names = change.names().map(String::from).collect();
        let values = Properties::new(&self.spec, change.properties(), names);
        let mut reason = Reason::new();
        // SAFETY: the program promises that the function may be called with this instance.
        match unsafe { function(self.pointer, &raw const values, &raw mut reason) } {
            ..=0 => change.accept(),
            failed => change.refuse(reason.words(failed)),
        }
    }

    fn test(&self, test: Test) {
        let Some(function) = self.functions.0.test else {
            return test.fail("it has no function for self-tests");
        };
        // The program passed the names as C strings, so they contain no NUL.
        let name = CString::new(test.name()).unwrap_or_default();
        let (mut reason, mut value) = (Reason::new(), f64::NAN);
        // SAFETY: the program promises that the function may be called with this instance.
        let returned = unsafe { function(self.pointer, name.as_ptr(), &raw mut value, &raw mut reason) };
        let result = match returned {
            ..=0 => TestResult::pass(reason.text()),
            failed => TestResult::fail(reason.words(failed)),
        };
        test.answer(result.value(value));
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.0.destroy {
            // SAFETY: created by the program's function, and destroyed once.
            unsafe { destroy(self.pointer) };
        }
    }
}
