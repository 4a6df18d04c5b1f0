//! One component that was created: the functions of the program, and their arguments.

use std::ffi::{CString, c_void};
use std::ptr::{from_mut, null_mut};
use std::sync::Arc;

use stripline::Error as LinkError;
use stripline::component::{
    Change, ComponentSpec, Ports as RustPorts, Properties as RustProperties, Test, TestResult,
};
use stripline_bindings::{self as bindings, Class, Requests};

use super::handler;
use super::{ComponentDestroy, ComponentFunctions, Ports, Properties, Reason};

/// The functions of a component type.
#[derive(Clone, Copy)]
pub(super) struct Functions(pub ComponentFunctions);

// SAFETY: the program promises that the functions may be called on threads of the library.
unsafe impl Send for Functions {}
// SAFETY: as above, with the same arguments, on several threads at once where the header states it.
unsafe impl Sync for Functions {}

/// A component type: the functions, and the specification.
pub(super) struct ComponentType {
    pub functions: Functions,
    pub spec: ComponentSpec,
}

impl Class for ComponentType {
    type Instance = Instance;

    fn validate(&self, values: &RustProperties) -> stripline::Result<()> {
        let functions = self.functions.0;
        let Some(validate) = functions.validate else { return Ok(()) };
        let values = Properties::new(&self.spec, values, Vec::new());
        let mut reason = Reason::new();
        // SAFETY: the program promises that the function may be called with this context.
        let returned = unsafe { validate(functions.context, &raw const values, &raw mut reason) };
        reason.outcome(returned)
    }

    fn create(class: &Arc<Self>, values: &RustProperties) -> stripline::Result<Instance> {
        let ComponentFunctions { context, create, destroy, .. } = class.functions.0;
        let class = Arc::clone(class);
        let Some(create) = create else {
            // The context is the instance here, and the component must not destroy it.
            return Ok(Instance { class, pointer: context, destroy: None });
        };
        let values = Properties::new(&class.spec, values, Vec::new());
        let (mut reason, mut pointer) = (Reason::new(), null_mut());
        // SAFETY: the program promises that the function may be called with this context.
        let returned = unsafe { create(context, &raw const values, &raw mut pointer, &raw mut reason) };
        reason.outcome(returned)?;
        Ok(Instance { class, pointer, destroy })
    }
}

/// A component. The program's function destroys it when the instance is dropped.
pub(super) struct Instance {
    pub class: Arc<ComponentType>,
    pub pointer: *mut c_void,
    destroy: Option<ComponentDestroy>,
}

// SAFETY: only the functions use the pointer, and the program promises that they may run on other
// threads.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl bindings::Instance for Instance {
    fn takes_requests(&self) -> bool {
        let functions = self.class.functions.0;
        functions.change.is_some() || functions.test.is_some()
    }

    fn run(
        self: Arc<Self>,
        ports: RustPorts,
        requests: Option<Arc<Requests<Self>>>,
    ) -> stripline::Result<()> {
        let functions = self.class.functions.0;
        if let Some(handle) = functions.handle {
            return handler::run(&self, handle, ports, requests);
        }
        let run = functions.run.ok_or_else(|| LinkError::failed("the component has no function `run`"))?;
        let pointer = self.pointer;
        let (mut ports, mut reason) = (Ports::new(ports, self, requests), Reason::new());
        // SAFETY: the program promises that the function may be called with this instance.
        let returned = unsafe { run(pointer, from_mut(&mut ports), &raw mut reason) };
        // SAFETY: the function has returned, and the header forbids the use of the ports after
        // that.
        drop(unsafe { ports.end() });
        reason.outcome(returned)
    }

    fn change(&self, change: Change) {
        let Some(function) = self.class.functions.0.change else {
            return change.refuse("it takes no new values while it runs");
        };
        let names = change.names().map(String::from).collect();
        let values = Properties::new(&self.class.spec, change.properties(), names);
        let mut reason = Reason::new();
        // SAFETY: the program promises that the function may be called with this instance.
        match unsafe { function(self.pointer, &raw const values, &raw mut reason) } {
            ..=0 => change.accept(),
            failed => change.refuse(reason.words(failed)),
        }
    }

    fn test(&self, test: Test) {
        let Some(function) = self.class.functions.0.test else {
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
        if let Some(destroy) = self.destroy {
            // SAFETY: created by the program's function, and destroyed once.
            unsafe { destroy(self.pointer) };
        }
    }
}
