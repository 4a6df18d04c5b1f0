//! A thread for the calls of a driver, which may never return.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use stripline::component::StopSignal;
use stripline::{Error, Result};

/// The longest time in a read or write. Each has a time limit of its own, which is far below.
const STREAM_TIME: Duration = Duration::from_secs(5);
/// The longest time in any other call. Some drivers load firmware while a device is opened.
const CALL_TIME: Duration = Duration::from_secs(120);
/// The longest time in a call after the request to stop.
const STOP_TIME: Duration = Duration::from_secs(1);
/// The interval between two checks.
const CHECK_TIME: Duration = Duration::from_millis(50);

/// The call in which the thread of a driver is.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    /// The microseconds from the beginning to the start of the call, and 1. 0: in no call.
    entered: AtomicU64,
    /// The microseconds that the call may take.
    limit: AtomicU64,
}

impl Watch {
    /// Runs a read or a write.
    pub fn stream<R>(&self, call: impl FnOnce() -> R) -> R {
        self.call_within(STREAM_TIME, call)
    }

    /// Runs another call.
    pub fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        self.call_within(CALL_TIME, call)
    }

    fn call_within<R>(&self, limit: Duration, call: impl FnOnce() -> R) -> R {
        // Relaxed: the numbers are only compared with seconds.
        self.limit.store(micros(limit), Ordering::Relaxed);
        self.entered.store(micros(self.begun.elapsed()) + 1, Ordering::Relaxed);
        let result = call();
        self.entered.store(0, Ordering::Relaxed);
        result
    }

    /// Returns the time in the present call, and whether the call takes too long.
    fn in_call(&self) -> Option<(Duration, bool)> {
        let entered = self.entered.load(Ordering::Relaxed).checked_sub(1)?;
        let spent = micros(self.begun.elapsed()).saturating_sub(entered);
        Some((Duration::from_micros(spent), spent > self.limit.load(Ordering::Relaxed)))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Runs the work of a component on a thread of its own. A driver that does not return from a call
/// ends the component, and keeps the thread.
///
/// # Errors
/// The errors of the work; a call that does not return.
pub(super) fn watched(
    stop: &StopSignal,
    work: impl FnOnce(&Arc<Watch>) -> Result<()> + Send + 'static,
) -> Result<()> {
    let watch = Watch { begun: Instant::now(), entered: AtomicU64::new(0), limit: AtomicU64::new(0) };
    let watch = Arc::new(watch);
    let (sender, ended) = mpsc::channel();
    let of_thread = Arc::clone(&watch);
    let thread = std::thread::Builder::new().name("stripline-soapy".into());
    let run = move || drop(sender.send(work(&of_thread)));
    let thread = thread.spawn(run).map_err(|error| Error::system("start the thread of the driver", error))?;
    loop {
        match ended.recv_timeout(CHECK_TIME) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
                return Err(Error::failed("the thread of the driver ended"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some((time, is_too_long)) = watch.in_call() else { continue };
        if is_too_long || stop.is_stopped() && time > STOP_TIME {
            return Err(Error::failed(format!(
                "the driver has not returned from a call for {} s: unplug the device, and start again",
                time.as_secs()
            )));
        }
    }
}
