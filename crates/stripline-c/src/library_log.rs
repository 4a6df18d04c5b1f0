//! The log of the library, for a function of the program.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{PoisonError, RwLock};

use log::{LevelFilter, Log, Metadata, Record};

use crate::border::ErrorOut;
use crate::error::Failure;
use crate::status::Status;
use crate::text::Text;

/// A function that gets the records of the log: the context, the level, the part of the library,
/// such as `stripline::node`, and the text.
///
/// Level 1 is an error that ends a service of this process, level 2 is about another process, and 3
/// to 5 are information. Both texts are valid until the function returns. The library calls it on
/// any thread, on several at once, and sometimes with a lock of the library held. The function must
/// not call this library.
pub type LogCallback = unsafe extern "C" fn(context: *mut c_void, level: i32, target: Text, text: Text);

struct Target {
    callback: LogCallback,
    context: *mut c_void,
}

// SAFETY: the program promises that the function may be called on any thread with this context.
unsafe impl Send for Target {}
// SAFETY: as above, on several threads at once.
unsafe impl Sync for Target {}

static TARGET: RwLock<Option<Target>> = RwLock::new(None);

thread_local! {
    /// Whether the function of the program runs on this thread.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct Forward;

impl Log for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("stripline")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || IS_INSIDE.get() {
            return;
        }
        let target = TARGET.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Target { callback, context }) = &*target {
            let text = record.args().to_string();
            IS_INSIDE.set(true);
            // SAFETY: the program promises that the function may be called with this context.
            unsafe { callback(*context, record.level() as i32, Text::of(record.target()), Text::of(&text)) };
            IS_INSIDE.set(false);
        }
    }

    fn flush(&self) {}
}

static FORWARD: Forward = Forward;

/// Sets the function that gets the records of the log, up to a level from 1 (errors) to 5 (all).
/// The process has one such function. A second call replaces it, and NULL removes it.
///
/// Errors that no call can return go to the log. Without a function, they are lost.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a level out of range, and with `STRIPLINE_IN_USE`
/// within the function. In a Rust program with a logger of its own, it fails with
/// `STRIPLINE_FAILED`.
///
/// - Ownership: the caller keeps `context`. When this returns, the previous function is not
///   running, and is not called again.
/// - Blocking: until the previous function has returned.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_log_set(
    callback: Option<LogCallback>,
    context: *mut c_void,
    level: i32,
    error: ErrorOut,
) -> Status {
    error.guard(|| set(callback, context, level))
}

fn set(callback: Option<LogCallback>, context: *mut c_void, level: i32) -> Result<Status, Failure> {
    if IS_INSIDE.get() {
        return Err(Failure::new(Status::InUse, "the function of the log cannot replace itself"));
    }
    let filter = match (callback, level) {
        (None, _) => LevelFilter::Off,
        (_, 1) => LevelFilter::Error,
        (_, 2) => LevelFilter::Warn,
        (_, 3) => LevelFilter::Info,
        (_, 4) => LevelFilter::Debug,
        (_, 5) => LevelFilter::Trace,
        _ => return Err(Failure::argument(format!("the level is {level}; it must be from 1 to 5"))),
    };
    let is_ours = log::set_logger(&FORWARD).is_ok() || std::ptr::addr_eq(log::logger(), &raw const FORWARD);
    if !is_ours {
        return Err(Failure::new(Status::Failed, "this process has a logger of Rust's own; use that one"));
    }
    let mut target = TARGET.write().unwrap_or_else(PoisonError::into_inner);
    *target = callback.map(|callback| Target { callback, context });
    log::set_max_level(filter);
    Ok(Status::Ok)
}
