//! Components: their specification, and the functions that make and run them.

mod declare;
mod given;
mod handler;
mod harness;
mod instance;
mod main;
mod open;
mod ports;
mod properties;
mod readout;
mod reason;

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use stripline::component::{
    Access, ComponentSpec, Direction, Properties as RustProperties, Registry, TestSpec,
};

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::packet::Packet;
use crate::sized;
use crate::status::Status;
use crate::text;

use instance::{Functions, Instance};

pub(crate) use given::Given;

pub use declare::{Port, PortDirection, Property, PropertyAccess, PropertyKind};
pub use handler::Made;
pub use harness::{Harness, TestOutcome};
pub use ports::Ports;
pub use properties::Properties;
pub use readout::Readout;
pub use reason::Reason;

/// A component type: its name, ports, properties, self-tests and functions. Programs run it by
/// `stripline_main` and `stripline_harness_new`.
pub struct Component {
    declared: Mutex<Declared>,
}

struct Declared {
    spec: ComponentSpec,
    functions: Functions,
}

/// A function that creates a component of checked properties. It gets the context of the functions,
/// and gives its result in `instance`, which the other functions get.
///
/// It returns 0, or `STRIPLINE_FAILED` and its words in `reason`. Failures that can be found before
/// the first packet belong here.
pub type ComponentCreate = unsafe extern "C" fn(
    context: *mut c_void,
    properties: *const Properties,
    instance: *mut *mut c_void,
    reason: *mut Reason,
) -> i32;

/// A function that runs a component until the end of its input or of its own work.
///
/// It returns 0 at its end, which then is the end of its streams. `STRIPLINE_STOPPED` is a clean
/// end as well: it returns what its ports return when it must stop. Any other positive number is
/// its failure, with its words in `reason` (`stripline_reason_take`).
pub type ComponentRun =
    unsafe extern "C" fn(instance: *mut c_void, ports: *mut Ports, reason: *mut Reason) -> i32;

/// A function that makes one packet of each received packet. What it makes is sent with the stream,
/// sample index and time of `packet`; also an empty packet. Without an output, `made` is NULL.
///
/// The waveform selects the threads that run it. With a pool, it runs on several at once. It
/// returns as a `stripline_packet_handler` does, with its words in `reason`.
pub type ComponentHandler = unsafe extern "C" fn(
    instance: *mut c_void,
    packet: *mut Packet,
    made: *mut Made,
    reason: *mut Reason,
) -> i32;

/// A function that takes new values of changeable properties. It gets all properties, the changed
/// ones with their new values, which fit their ranges.
///
/// It returns 0, or `STRIPLINE_FAILED` and the reason against them. Then the old values stay.
pub type ComponentChange =
    unsafe extern "C" fn(instance: *mut c_void, properties: *const Properties, reason: *mut Reason) -> i32;

/// A function that runs the self-test of that name.
///
/// It returns 0 if the test passed, and otherwise `STRIPLINE_FAILED`. `reason` is a remark for the
/// user in both cases. It may set `value` to what it has measured, a finite number.
pub type ComponentTest = unsafe extern "C" fn(
    instance: *mut c_void,
    test: *const c_char,
    value: *mut f64,
    reason: *mut Reason,
) -> i32;

/// A function that checks properties which are valid one by one, before any part of a waveform
/// starts. It may read files, and changes nothing. It returns 0, or `STRIPLINE_FAILED` and the
/// problem.
pub type ComponentValidate =
    unsafe extern "C" fn(context: *mut c_void, properties: *const Properties, reason: *mut Reason) -> i32;

/// A function that destroys a component, after all its other functions have returned.
pub type ComponentDestroy = unsafe extern "C" fn(instance: *mut c_void);

/// The functions of a component type. One of `run` and `handle` is set, and the others may be NULL.
///
/// They are called on threads of the library. Of one component, `change` and `test` run on the
/// thread that runs it; with a pool, beside `handle`. They must return: no `longjmp`, no exception
/// of C++.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ComponentFunctions {
    /// `sizeof(stripline_component_functions)`.
    pub size: usize,
    /// What `create` and `validate` get. Without `create`, also the instance.
    pub context: *mut c_void,
    /// Creates a component.
    pub create: Option<ComponentCreate>,
    /// Runs it.
    pub run: Option<ComponentRun>,
    /// Makes one packet of each; the type has one input and at most one output.
    pub handle: Option<ComponentHandler>,
    /// Takes new values; needed for properties that are changeable.
    pub change: Option<ComponentChange>,
    /// Runs self-tests; needed where some are declared.
    pub test: Option<ComponentTest>,
    /// Checks the properties together.
    pub validate: Option<ComponentValidate>,
    /// Destroys what `create` has created.
    pub destroy: Option<ComponentDestroy>,
}

sized::sized!(
    ComponentFunctions, "stripline_component_functions",
    size: usize, context: *mut c_void, create: Option<ComponentCreate>, run: Option<ComponentRun>,
    handle: Option<ComponentHandler>, change: Option<ComponentChange>, test: Option<ComponentTest>,
    validate: Option<ComponentValidate>, destroy: Option<ComponentDestroy>,
);

impl Component {
    /// Runs a call that may change what is declared.
    ///
    /// # Safety
    /// The header's rules for handles and `error`.
    unsafe fn declare(
        component: *mut Self,
        error: *mut *mut Error,
        declare: impl FnOnce(&mut ComponentSpec) -> Result<(), Failure>,
    ) -> Status {
        let call = || {
            // SAFETY: the caller's promise is the same.
            let found = unsafe { component.as_ref() }.ok_or_else(|| Failure::null("component"))?;
            declare(&mut found.declared.lock().unwrap_or_else(PoisonError::into_inner).spec)?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller's promise is the same.
        unsafe { guard(error, call) }
    }

    /// Adds the type to a registry.
    ///
    /// # Errors
    /// What is declared, but has no function.
    fn add_to(&self, registry: Registry) -> Result<Registry, Failure> {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut spec, functions) = (declared.spec.clone(), declared.functions);
        drop(declared);
        check_functions(&spec, &functions.0)?;
        if functions.0.handle.is_some() {
            spec = spec.any_dispatch();
        }
        let its = Arc::new(spec.clone());
        if functions.0.validate.is_some() {
            let its = Arc::clone(&its);
            spec = spec.validated(move |values: &RustProperties| functions.validate(&its, values));
        }
        Ok(registry.with_value(spec, move |values: &RustProperties| {
            let instance = Instance::create(functions, Arc::clone(&its), values)?;
            Ok(move |ports| instance.run(ports))
        }))
    }
}

/// Checks that all that is declared has its function.
fn check_functions(spec: &ComponentSpec, functions: &ComponentFunctions) -> Result<(), Failure> {
    let name = &spec.name;
    let refused = |problem: String| Err(Failure::argument(format!("component type `{name}` {problem}")));
    match (functions.run, functions.handle) {
        (None, None) => {
            return refused(
                "has no function that runs it: set one by `stripline_component_set_functions`".into(),
            );
        }
        (Some(_), Some(_)) => return refused("has both `run` and `handle`; set one of them".into()),
        (Some(_), None) => {}
        (None, Some(_)) => {
            let count = |direction| spec.ports.iter().filter(|port| port.direction == direction).count();
            let (inputs, outputs) = (count(Direction::Input), count(Direction::Output));
            if inputs != 1 || outputs > 1 {
                return refused(format!(
                    "has {inputs} inputs and {outputs} outputs; with `handle` it has one input and at most one \
                     output"
                ));
            }
            if let Some(property) = spec.properties.iter().find(|it| it.access == Access::ReadOnly) {
                let property = &property.name;
                return refused(format!(
                    "declares the read-only property `{property}`, which only `run` can set"
                ));
            }
        }
    }
    if let Some(property) = spec.properties.iter().find(|it| it.access == Access::Changeable)
        && functions.change.is_none()
    {
        return refused(format!("has no function `change` for its property `{}`", property.name));
    }
    if let (Some(TestSpec { name, .. }), None) = (spec.tests.first(), functions.test) {
        return refused(format!("has no function `test` for its self-test `{name}`"));
    }
    Ok(())
}

/// Makes a component type without ports, properties and functions. `name` is that in waveform
/// files: 1 to 64 letters, digits, `-` and `_`. `summary` is one sentence for users.
///
/// - Ownership: the caller frees the component. Nothing else is kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_component_new(
    name: *const c_char,
    summary: *const c_char,
    component: *mut *mut Component,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(component, "component")?;
        // SAFETY: the header's rule for texts.
        let (name, summary) = unsafe { (text::required(name, "name")?, text::required(summary, "summary")?) };
        declare::check_name("component", name)?;
        // SAFETY: zero is a value of each member.
        let functions = Functions(unsafe { std::mem::zeroed() });
        let declared = Mutex::new(Declared { spec: ComponentSpec::new(name, summary), functions });
        let made = Box::into_raw(Box::new(Component { declared }));
        // SAFETY: the header's rule for results.
        unsafe { text::put(component, "component", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Sets the functions of a component type, in place of those before.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for NULL and for members that this library does not
/// have. What is declared without a function is found by `stripline_main` and
/// `stripline_harness_start`.
///
/// - Ownership: the context stays the program's. It is valid until all components of the type are
///   destroyed.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_component_set_functions(
    component: *mut Component,
    functions: *const ComponentFunctions,
    error: *mut *mut Error,
) -> Status {
    let set = || {
        // SAFETY: the header's rules for handles and structures.
        let found = unsafe { component.as_ref() }.ok_or_else(|| Failure::null("component"))?;
        if functions.is_null() {
            return Err(Failure::null("functions"));
        }
        // SAFETY: as above.
        let functions = unsafe { sized::read(functions) }?;
        found.declared.lock().unwrap_or_else(PoisonError::into_inner).functions = Functions(functions);
        Ok(Status::Ok)
    };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, set) }
}

/// Frees a component type; NULL is allowed. Components of it go on.
///
/// - Ownership: ends here. A second call with the same component is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_component_free(component: *mut Component) {
    if !component.is_null() {
        // SAFETY: made by `stripline_component_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(component) });
    }
}
