//! Read-only properties, which a component sets while it runs.

use stripline::component::Value;
use stripline_bindings as bindings;

use crate::border::{ErrorOut, Ref, Str};
use crate::error::Failure;
use crate::status::Status;

/// A read-only property that a component sets: `stripline get` prints the last value. Setting a
/// number costs one store. A value out of the property's range is shown as unknown.
pub struct Readout(pub(super) bindings::Readout);

impl Ref<Readout> {
    /// Sets the value by a function that returns false for a property of another kind.
    fn set(
        &self,
        kind: &str,
        error: ErrorOut,
        set: impl FnOnce(&bindings::Readout) -> Result<bool, Failure>,
    ) -> Status {
        error.guard(|| {
            let Readout(found) = self.get("readout")?;
            if set(found)? {
                return Ok(Status::Ok);
            }
            let name = found.name();
            Err(Failure::argument(format!("property `{name}` was not declared as {kind}")))
        })
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
pub extern "C" fn stripline_readout_set_float(readout: Ref<Readout>, value: f64, error: ErrorOut) -> Status {
    readout.set("a float", error, |found| Ok(found.set(Value::Float(value))))
}

/// Sets a whole number, like `stripline_readout_set_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_readout_set_integer(
    readout: Ref<Readout>,
    value: i64,
    error: ErrorOut,
) -> Status {
    readout.set("an integer", error, |found| Ok(found.set(Value::Integer(value))))
}

/// Adds to a whole number, like `stripline_readout_set_float`.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_readout_add(readout: Ref<Readout>, count: u64, error: ErrorOut) -> Status {
    readout.set("an integer", error, |found| Ok(found.add(count)))
}

/// Sets a boolean, like `stripline_readout_set_float`: 0 is false, any other number is true.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_readout_set_boolean(
    readout: Ref<Readout>,
    value: i32,
    error: ErrorOut,
) -> Status {
    readout.set("a boolean", error, |found| Ok(found.set(Value::Boolean(value != 0))))
}

/// Sets a text of at most 4096 bytes, like `stripline_readout_set_float`. A longer text is cut.
///
/// - Ownership: nothing is kept.
/// - Blocking: only for a lock. The call allocates.
/// - Threads: any, several at once, until the component's function returns.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_readout_set_text(readout: Ref<Readout>, value: Str, error: ErrorOut) -> Status {
    let set = |found: &bindings::Readout| Ok(found.set(Value::Text(value.required("value")?.into())));
    readout.set("a text", error, set)
}
