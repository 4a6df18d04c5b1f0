//! Work on the thread of a middleware that calls back, and on the port's own thread for all else.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::ready_set::ReadySet;
use crate::sys::scoped_call::ScopedCall;

/// Work that is done on the thread by which something has arrived.
pub(crate) trait Called: Send {
    /// Works until nothing is left; false: the work is over.
    fn work(&mut self) -> bool;

    /// Sets what the middleware's threads call, or removes it.
    fn set_call(&mut self, call: Option<&Arc<ScopedCall>>);

    /// Makes the set ready once there is work that no call of the middleware brings; false: there
    /// is work already.
    ///
    /// # Errors
    /// A lack of descriptors.
    fn arm(&mut self, ready: &ReadySet) -> Result<bool>;

    /// Ends the work with an error of [`Called::arm`].
    fn fail(&mut self, error: crate::Error);
}

/// Works until the work is over, here and on the middleware's threads.
///
/// # Errors
/// When the system refuses to wait.
pub(crate) fn run_called(work: &Mutex<impl Called>) -> Result<()> {
    let (ready, ended, is_over) = (ReadySet::new()?, Doorbell::new()?, AtomicBool::new(false));
    let function = || {
        let mut work = lock(work);
        loop {
            if !work.work() {
                // Release: with it comes what the work has left.
                is_over.store(true, Ordering::Release);
                return ended.notify();
            }
            // The thread that sleeps below waits for what this one has left behind.
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
            // Acquire: see above.
            if is_over.load(Ordering::Acquire) {
                break Ok(());
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(ended.as_fd());
            poll_set.readable(ready.as_fd());
            if let Err(error) = poll_set.wait(None) {
                break Err(error);
            }
            // What is ready stays so while another thread works: this one waits for it.
            drop(lock(work));
        };
        lock(work).set_call(None);
        outcome
    })
}
