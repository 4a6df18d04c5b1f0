//! Forks: a child does not use objects of its parent.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use stripline::Error;

use crate::{error, library_log, waits};

/// The number of forks between the process that imported the module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process that made an object. The check comes before the object's mutex is locked, because
/// another thread of the parent may have held the mutex at the fork.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    pub fn current() -> Self {
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns whether this process made the object.
    pub fn is_current(self) -> bool {
        // Relaxed: only a new child writes it, before it has a second thread.
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    /// Checks that this process made the object.
    pub fn check(self, what: impl FnOnce() -> String) -> PyResult<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(error::raised(Error::Forked { what: what() }))
    }
}

/// Forgets the objects of the parent. Python calls this in the child of each fork.
#[pyfunction(name = "_after_fork")]
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    waits::after_fork();
    library_log::after_fork();
}
