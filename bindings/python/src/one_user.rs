//! A port that one thread uses at a time.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;

use crate::error;
use crate::forks::Owner;

/// A port, until it is closed. A second thread gets an error, and so does a child of a fork.
pub struct OneUser<P> {
    owner: Owner,
    /// The kind of port, for messages.
    kind: &'static str,
    port: Mutex<Option<P>>,
}

impl<P> OneUser<P> {
    pub fn new(kind: &'static str, port: P) -> Self {
        Self { owner: Owner::current(), kind, port: Mutex::new(Some(port)) }
    }

    /// Returns the process that made the port.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Locks the named port; `None`: it was closed.
    pub fn lock(&self, name: &str) -> PyResult<MutexGuard<'_, Option<P>>> {
        self.owner.check(|| format!("{} `{name}`", self.kind))?;
        match self.port.try_lock() {
            Ok(port) => Ok(port),
            Err(TryLockError::Poisoned(error)) => Ok(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => Err(error::in_use(self.kind, name)),
        }
    }

    /// Uses the named port.
    pub fn with<R>(&self, name: &str, use_it: impl FnOnce(&mut P) -> PyResult<R>) -> PyResult<R> {
        let mut port = self.lock(name)?;
        let Some(port) = &mut *port else { return Err(error::closed(self.kind, name)) };
        use_it(port)
    }

    /// Takes the port when the object ends. No thread uses it any more.
    pub fn take(&mut self) -> Option<P> {
        self.port.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}
