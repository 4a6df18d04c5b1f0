//! The log of the library for Python's `logging`.
//!
//! Some records are made with a lock of the library held, so a record must not wait: a thread
//! passes the records on. The thread starts with the first node.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;

use crate::waits;

/// The maximum number of records that wait for the interpreter. Further records are dropped.
const WAITING_MAX: usize = 1000;

/// The queue of this process. The queue is never freed, because any thread may be about to use it.
static QUEUE: AtomicPtr<Queue> = AtomicPtr::new(ptr::null_mut());
static FORWARD: Forward = Forward;

#[derive(Default)]
struct Queue {
    records: Mutex<VecDeque<QueuedRecord>>,
    arrived: Condvar,
    is_ending: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct QueuedRecord {
    level: Level,
    target: String,
    text: String,
}

struct Forward;

impl Log for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("stripline")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let Some(queue) = current() else { return };
        let target = record.target().replace("::", ".");
        let waiting = QueuedRecord { level: record.level(), target, text: record.args().to_string() };
        let mut records = lock(&queue.records);
        if records.len() < WAITING_MAX {
            records.push_back(waiting);
            queue.arrived.notify_one();
        }
    }

    fn flush(&self) {}
}

/// Makes this module the logger of the library that is linked into it.
pub fn install() {
    if log::set_logger(&FORWARD).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Starts the thread of this process, unless it runs.
pub fn start() {
    if current().is_some() {
        return;
    }
    let queue: &'static Queue = Box::leak(Box::default());
    // If the thread cannot start, the log is missing, and everything else works.
    let started = waits::without_signals(|| {
        std::thread::Builder::new().name("stripline-log".into()).spawn(|| queue.pass_on())
    });
    if let Ok(thread) = started {
        *lock(&queue.thread) = Some(thread);
        QUEUE.store(ptr::from_ref(queue).cast_mut(), Ordering::Release);
    }
}

/// Passes on the records that wait, and ends the thread.
pub fn end(py: Python<'_>) {
    let Some(queue) = current() else { return };
    queue.is_ending.store(true, Ordering::SeqCst);
    drop(lock(&queue.records));
    queue.arrived.notify_one();
    let thread = lock(&queue.thread).take();
    // A thread that has panicked has nothing to pass on.
    py.detach(|| thread.map(JoinHandle::join).map(drop));
    QUEUE.store(ptr::null_mut(), Ordering::Release);
}

/// Forgets the parent's thread.
pub fn after_fork() {
    QUEUE.store(ptr::null_mut(), Ordering::Release);
}

fn current() -> Option<&'static Queue> {
    // SAFETY: the pointer is null, or points to a queue that is never freed.
    unsafe { QUEUE.load(Ordering::Acquire).as_ref() }
}

impl Queue {
    fn pass_on(&self) {
        loop {
            let mut records = lock(&self.records);
            while records.is_empty() {
                if self.is_ending.load(Ordering::SeqCst) {
                    return;
                }
                records = self.arrived.wait(records).unwrap_or_else(PoisonError::into_inner);
            }
            let taken = std::mem::take(&mut *records);
            drop(records);
            Python::attach(|py| {
                for waiting in taken {
                    if let Err(error) = waiting.pass_on(py) {
                        error.write_unraisable(py, None);
                    }
                }
            });
        }
    }
}

impl QueuedRecord {
    fn pass_on(self, py: Python<'_>) -> PyResult<()> {
        let level = match self.level {
            Level::Error => 40,
            Level::Warn => 30,
            Level::Info => 20,
            Level::Debug | Level::Trace => 10,
        };
        let logger = py.import("logging")?.call_method1("getLogger", (self.target,))?;
        logger.call_method1("log", (level, "%s", self.text))?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
