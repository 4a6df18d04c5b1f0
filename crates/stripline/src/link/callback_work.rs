//! Work that is shared by the threads of a middleware with callbacks, and the port's own thread.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::ready_set::ReadySet;
use crate::sys::scoped_call::ScopedCall;

/// Work that runs on the thread that brings a message.
pub(crate) trait CallbackWork: Send {
    /// Works until nothing is left to do; false: the work is over.
    fn work(&mut self) -> bool;

    /// Sets the function that the middleware's threads call, or removes it.
    fn set_call(&mut self, call: Option<&Arc<ScopedCall>>);

    /// Makes the set ready once there is work that the middleware's calls do not announce; false:
    /// there is work already.
    ///
    /// # Errors
    /// A lack of descriptors.
    fn arm(&mut self, ready: &ReadySet) -> Result<bool>;

    /// Ends the work with an error of [`CallbackWork::arm`].
    fn fail(&mut self, error: crate::Error);
}

/// Works until the work is over, on this thread and on the middleware's threads.
///
/// # Errors
/// The system refuses to wait.
pub(crate) fn run_callback_work(work: &Mutex<impl CallbackWork>) -> Result<()> {
    let (ready, ended, is_over) = (ReadySet::new()?, Doorbell::new()?, AtomicBool::new(false));
    let function = || {
        let mut work = lock(work);
        loop {
            if !work.work() {
                // Release: publishes the results of the work.
                is_over.store(true, Ordering::Release);
                return ended.notify();
            }
            // The thread that sleeps below waits for the work that no call announces.
            match work.arm(&ready) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => work.fail(error),
            }
        }
    };
    ScopedCall::within(&function, |call| {
        lock(work).set_call(Some(call));
        let outcome = loop {
            call.call();
            // Acquire: pairs with the Release above.
            if is_over.load(Ordering::Acquire) {
                break Ok(());
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(ended.as_fd());
            poll_set.readable(ready.as_fd());
            if let Err(error) = poll_set.wait(None) {
                break Err(error);
            }
            // The set stays ready while another thread works, so this thread waits for that one.
            drop(lock(work));
        };
        lock(work).set_call(None);
        outcome
    })
}
