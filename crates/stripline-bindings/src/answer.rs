//! The answer to one call.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stripline::call::Responder;

/// The right and the duty to answer one call, which a program takes once, on any thread.
///
/// ```no_run
/// # fn responder() -> stripline::call::Responder { unimplemented!() }
/// use stripline_bindings::Answer;
///
/// let answer = Answer::new(responder());
/// if let Some(responder) = answer.take() {
///     responder.reply(b"done");
/// }
/// assert!(answer.take().is_none());
/// ```
#[derive(Debug)]
pub struct Answer(Mutex<Option<Responder>>);

impl Answer {
    /// Creates the answer of a call.
    pub fn new(responder: Responder) -> Self {
        Self(Mutex::new(Some(responder)))
    }

    /// Takes the responder; `None` once the call was answered.
    pub fn take(&self) -> Option<Responder> {
        self.lock().take()
    }

    /// Returns the name of the client's connection; empty once the call was answered.
    pub fn client(&self) -> String {
        self.lock().as_ref().map_or_else(String::new, |responder| responder.client().into())
    }

    /// Returns the time that the client waits, from the start of the call; zero once the call was
    /// answered.
    pub fn deadline(&self) -> Duration {
        self.lock().as_ref().map_or(Duration::ZERO, Responder::deadline)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Responder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
