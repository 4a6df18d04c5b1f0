//! The `main` of a program with components.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use stripline::component::Registry;

use crate::error::{Failure, missing};
use crate::handle::caught;

use super::Component;

/// The maximum number of component types in a program.
const TYPES_MAX: usize = 4096;

/// Runs `count` component types as the `main` of a program that a waveform file names by `exec`.
/// The function follows a launcher, prints the specifications (`--describe`), checks properties
/// (`--check`), or prints the usage. Call it before the program starts threads.
///
/// `argc` and `argv` are the arguments of `main`, with the program's own name first. A program with
/// additional arguments removes them first.
///
/// Returns the exit code for `main`: 0, 1 for a failure, 2 for wrong arguments. Failures are
/// printed on standard error. The log is printed there as well, unless `stripline_log_set` was
/// called before.
///
/// - Ownership: the caller keeps the components.
/// - Blocking: until the launcher has ended the program.
/// - Threads: one, once in a process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_main(
    argc: i32,
    argv: *mut *mut c_char,
    components: *const *mut Component,
    count: usize,
) -> i32 {
    let run = || {
        // SAFETY: the program follows the header's rules for handles and texts.
        let (arguments, registry) = unsafe { (arguments(argc, argv)?, registry(components, count)?) };
        Ok(stripline_bindings::main(&registry, arguments))
    };
    match caught(run) {
        Ok(code) => code.into(),
        Err(failure) => {
            // Without standard error, only the exit code reports the failure.
            let _ = writeln!(std::io::stderr(), "error: {}", failure.message);
            1
        }
    }
}

/// Returns the arguments after the program's name.
///
/// # Safety
/// `argv` must be NULL, or have `argc` texts.
unsafe fn arguments(argc: i32, argv: *const *mut c_char) -> Result<Vec<OsString>, Failure> {
    let count = usize::try_from(argc).unwrap_or(0);
    if count > 0 && argv.is_null() {
        return Err(missing("argv"));
    }
    let argument = |index| {
        // SAFETY: the index is within the array; the caller makes the same promise.
        let place = unsafe { *argv.add(index) };
        if place.is_null() {
            return Err(missing("argv"));
        }
        // SAFETY: the pointer is not NULL, and points to a text.
        let bytes = unsafe { CStr::from_ptr(place) }.to_bytes();
        Ok(OsStr::from_bytes(bytes).to_owned())
    };
    (1..count).map(argument).collect()
}

/// Returns the registry of these component types.
///
/// # Safety
/// `components` must be NULL, or have `count` components that are not freed.
unsafe fn registry(components: *const *mut Component, count: usize) -> Result<Registry, Failure> {
    if count == 0 || count > TYPES_MAX {
        return Err(Failure::argument(format!("`count` is {count}; it must be from 1 to {TYPES_MAX}")));
    }
    if components.is_null() {
        return Err(missing("components"));
    }
    stripline_middleware::register();
    let mut registry = Registry::new();
    for index in 0..count {
        // SAFETY: the index is within the array; the caller makes the same promise.
        let component = unsafe { (*components.add(index)).as_ref() };
        let types = registry.specs().len();
        registry = component.ok_or_else(|| missing("components[...]"))?.add_to(registry)?;
        if registry.specs().len() == types {
            return Err(Failure::argument("two of `components` have the same name"));
        }
    }
    Ok(registry)
}
