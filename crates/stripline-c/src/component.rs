//! Components: their specification, and the functions that make and run them.

mod declare;
mod handler;
mod harness;
mod instance;
mod main;
mod ports;
mod properties;
mod readout;
mod reason;
mod taken_ports;

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stripline::component::{Access, ComponentSpec, Direction, Registry, TestSpec};
use stripline_bindings::add_class;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::packet::Packet;
use crate::sized;
use crate::status::Status;

use instance::{ComponentType, Functions};

pub(crate) use taken_ports::TakenPorts;

pub use declare::{Port, PortDirection, Property, PropertyAccess, PropertyKind};
pub use handler::Made;
pub use harness::{Harness, TestOutcome};
pub use ports::Ports;
pub use properties::Properties;
pub use readout::Readout;
pub use reason::Reason;

/// A component type: a name, ports, properties, self-tests and functions. Programs run it by
/// `stripline_main` and `stripline_harness_new`.
pub struct Component {
    declared: Mutex<Declared>,
}

struct Declared {
    spec: ComponentSpec,
    functions: Functions,
}

/// A function that creates a component from properties that were checked. The function gets the
/// context of the functions, and sets `instance`, which all other functions get.
///
/// The function returns 0, or `STRIPLINE_FAILED` with the cause in `reason`. Detect failures here
/// if they can be found before the first packet.
pub type ComponentCreate = unsafe extern "C" fn(
    context: *mut c_void,
    properties: *const Properties,
    instance: *mut *mut c_void,
    reason: *mut Reason,
) -> i32;

/// A function that runs a component until the end of the input, or until the component has
/// finished.
///
/// The function returns 0 when the component has finished, which also ends the output streams.
/// `STRIPLINE_STOPPED` is a clean end as well: when a port returns this status, the function
/// returns it, too. Any other positive number is a failure, with the cause in `reason`
/// (`stripline_reason_take`).
pub type ComponentRun =
    unsafe extern "C" fn(instance: *mut c_void, ports: *mut Ports, reason: *mut Reason) -> i32;

/// A function that makes one packet from each received packet. The packet that it makes is sent
/// with the stream, sample index and time of `packet`, even if it is empty. Without an output,
/// `made` is NULL.
///
/// The waveform selects the threads that run the function. With a pool, it runs on several threads
/// at once. The function returns the same numbers as a `stripline_packet_handler`, with the cause
/// in `reason`.
pub type ComponentHandler = unsafe extern "C" fn(
    instance: *mut c_void,
    packet: *mut Packet,
    made: *mut Made,
    reason: *mut Reason,
) -> i32;

/// A function that takes new values of changeable properties. The function gets all properties. The
/// changed ones have their new values, which are within their ranges.
///
/// The function returns 0, or `STRIPLINE_FAILED` with the cause in `reason`. Then the old values
/// stay.
pub type ComponentChange =
    unsafe extern "C" fn(instance: *mut c_void, properties: *const Properties, reason: *mut Reason) -> i32;

/// A function that runs the named self-test.
///
/// The function returns 0 if the test passed, and otherwise `STRIPLINE_FAILED`. In both cases,
/// `reason` is a remark for the user. The function may set `value` to the number that it has
/// measured, which must be finite.
pub type ComponentTest = unsafe extern "C" fn(
    instance: *mut c_void,
    test: *const c_char,
    value: *mut f64,
    reason: *mut Reason,
) -> i32;

/// A function that checks the properties together: before any part of a waveform starts, and before
/// each `change`, on the same thread. Each property is valid on its own. The function may read
/// files, changes nothing, and returns 0, or `STRIPLINE_FAILED` with the cause in `reason`.
pub type ComponentValidate =
    unsafe extern "C" fn(context: *mut c_void, properties: *const Properties, reason: *mut Reason) -> i32;

/// A function that destroys a component, after all other functions have returned.
pub type ComponentDestroy = unsafe extern "C" fn(instance: *mut c_void);

/// The functions of a component type. Set either `run` or `handle`. The others may be NULL.
///
/// The functions are called on threads of the library. For one component, `change` and `test` run
/// on the thread that runs the component; with a pool, they run beside `handle`. All functions must
/// return: no `longjmp`, no exception of C++.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ComponentFunctions {
    /// `sizeof(stripline_component_functions)`.
    pub size: usize,
    /// The context for `create` and `validate`. Without `create`, it is also the instance.
    pub context: *mut c_void,
    /// Creates a component.
    pub create: Option<ComponentCreate>,
    /// Runs the component.
    pub run: Option<ComponentRun>,
    /// Makes one packet from each received packet. The type must have one input and at most one
    /// output.
    pub handle: Option<ComponentHandler>,
    /// Takes new values. Required for changeable properties.
    pub change: Option<ComponentChange>,
    /// Runs self-tests. Required if self-tests are declared.
    pub test: Option<ComponentTest>,
    /// Checks the properties together.
    pub validate: Option<ComponentValidate>,
    /// Destroys the instance that `create` has made.
    pub destroy: Option<ComponentDestroy>,
}

sized::sized!(
    ComponentFunctions, "stripline_component_functions",
    size: usize, context: *mut c_void, create: Option<ComponentCreate>, run: Option<ComponentRun>,
    handle: Option<ComponentHandler>, change: Option<ComponentChange>, test: Option<ComponentTest>,
    validate: Option<ComponentValidate>, destroy: Option<ComponentDestroy>,
);

impl Handle<Component> {
    /// Runs a call that may change the declaration.
    fn declare(
        &self,
        error: ErrorOut,
        declare: impl FnOnce(&mut ComponentSpec) -> Result<(), Failure>,
    ) -> Status {
        error.guard(|| {
            declare(&mut self.get("component")?.declared().spec)?;
            Ok(Status::Ok)
        })
    }
}

impl Component {
    fn declared(&self) -> MutexGuard<'_, Declared> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the type to a registry.
    ///
    /// # Errors
    /// A declared item has no function.
    fn add_to(&self, registry: Registry) -> Result<Registry, Failure> {
        let declared = self.declared();
        let (mut spec, functions) = (declared.spec.clone(), declared.functions);
        drop(declared);
        check_functions(&spec, &functions.0)?;
        if functions.0.handle.is_some() {
            spec = spec.any_dispatch();
        }
        spec.validates = functions.0.validate.is_some();
        let class = ComponentType { functions, spec: spec.clone() };
        Ok(add_class(registry, spec, Arc::new(class)))
    }
}

/// Checks that every declared item has a function.
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

/// Makes a component type without ports, properties and functions. `name` is the name in waveform
/// files: 1 to 64 letters, digits, `-` and `_`. `summary` is one sentence for users.
///
/// - Ownership: the caller frees the component. Nothing else is kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_new(
    name: Str,
    summary: Str,
    component: Out<*mut Component>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        component.check("component")?;
        let (name, summary) = (name.required("name")?, summary.required("summary")?);
        check_name("component", name)?;
        // SAFETY: zero is a valid value of each member.
        let functions = Functions(unsafe { std::mem::zeroed() });
        let declared = Mutex::new(Declared { spec: ComponentSpec::new(name, summary), functions });
        component.give("component", Component { declared })
    })
}

/// Sets the functions of a component type, in place of any that were set before.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for NULL and for members that this library does not
/// have. A declared item without a function is reported later, by `stripline_main` and
/// `stripline_harness_start`.
///
/// - Ownership: the program keeps the context. The context must be valid until all components of
///   the type are destroyed.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_set_functions(
    component: Handle<Component>,
    functions: Ref<ComponentFunctions>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let found = component.get("component")?;
        found.declared().functions = Functions(functions.read_given("functions")?);
        Ok(Status::Ok)
    })
}

/// Frees a component type; NULL is allowed. Running components of the type continue.
///
/// - Ownership: ends with this call. A second call with the same component is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_free(component: Handle<Component>) {
    drop_quietly(component.into_box());
}

/// The maximum length of a name, in bytes.
const NAME_MAX: usize = 64;

fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_letter) {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "`{name}` is not a valid {what} name: use 1 to {NAME_MAX} letters, digits, `-` and `_`"
    )))
}
