//! Read-only properties, which a component sets while it runs.

use std::ffi::c_char;

use stripline::component::{ComponentSpec, Ports as RustPorts, PropertyKind, Status as RustStatus};

use crate::error::{Error, Failure};
use crate::handle::guard;
use crate::status::Status;
use crate::text;

/// A read-only property that a component sets: `stripline get` prints the last value. Setting a
/// number costs one store. A value out of the property's range is shown as unknown.
pub struct Readout {
    name: String,
    place: Place,
}

enum Place {
    Boolean(RustStatus<bool>),
    /// `set` and `add` are the same place.
    Integer {
        set: RustStatus<i64>,
        add: RustStatus<u64>,
    },
    Float(RustStatus<f64>),
    Text(RustStatus<String>),
}

impl Readout {
    /// Finds the named property.
    pub(super) fn new(ports: &RustPorts, spec: &ComponentSpec, name: &str) -> Result<Self, Failure> {
        let place = match spec.find_property(name).map(|property| &property.kind) {
            Some(PropertyKind::Boolean) => Place::Boolean(ports.status(name)?),
            Some(PropertyKind::Integer { .. }) => {
                // The last of these calls decides how the value is read: as a signed number.
                let add = ports.status(name)?;
                Place::Integer { set: ports.status(name)?, add }
            }
            Some(PropertyKind::Float { .. }) => Place::Float(ports.status(name)?),
            // For a property that is not declared, `status` fails.
            _ => Place::Text(ports.status(name)?),
        };
        Ok(Self { name: name.into(), place })
    }

    /// Sets the value by a function that fits the kind of the property.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    unsafe fn set(
        readout: *const Self,
        kind: &str,
        error: *mut *mut Error,
        set: impl FnOnce(&Place) -> Result<bool, Failure>,
    ) -> Status {
        let set = || {
            // SAFETY: the caller makes the same promise.
            let found = unsafe { readout.as_ref() }.ok_or_else(|| Failure::null("readout"))?;
            if set(&found.place)? {
                return Ok(Status::Ok);
            }
            let name = &found.name;
            Err(Failure::argument(format!("property `{name}` was declared as no {kind}")))
        };
        // SAFETY: the caller makes the same promise.
        unsafe { guard(error, set) }
    }
}

/// Sets a real number.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property of another kind.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_readout_set_float(
    readout: *const Readout,
    value: f64,
    error: *mut *mut Error,
) -> Status {
    let set = |place: &Place| {
        let Place::Float(status) = place else { return Ok(false) };
        status.set(value);
        Ok(true)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Readout::set(readout, "float", error, set) }
}

/// Sets a whole number, like `stripline_readout_set_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_readout_set_integer(
    readout: *const Readout,
    value: i64,
    error: *mut *mut Error,
) -> Status {
    let set = |place: &Place| {
        let Place::Integer { set, .. } = place else { return Ok(false) };
        set.set(value);
        Ok(true)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Readout::set(readout, "integer", error, set) }
}

/// Adds to a whole number, like `stripline_readout_set_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_readout_add(
    readout: *const Readout,
    count: u64,
    error: *mut *mut Error,
) -> Status {
    let add = |place: &Place| {
        let Place::Integer { add, .. } = place else { return Ok(false) };
        add.add(count);
        Ok(true)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Readout::set(readout, "integer", error, add) }
}

/// Sets a boolean, like `stripline_readout_set_float`: 0 is false, any other number is true.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_readout_set_boolean(
    readout: *const Readout,
    value: i32,
    error: *mut *mut Error,
) -> Status {
    let set = |place: &Place| {
        let Place::Boolean(status) = place else { return Ok(false) };
        status.set(value != 0);
        Ok(true)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Readout::set(readout, "boolean", error, set) }
}

/// Sets a text of at most 4096 bytes, like `stripline_readout_set_float`. A longer text is cut.
///
/// - Ownership: nothing is kept.
/// - Blocking: only for a lock. It allocates.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_readout_set_text(
    readout: *const Readout,
    value: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let set = |place: &Place| {
        // SAFETY: the program follows the header's rule for texts.
        let value = unsafe { text::required(value, "value") }?;
        let Place::Text(status) = place else { return Ok(false) };
        status.set(value.into());
        Ok(true)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Readout::set(readout, "text", error, set) }
}
