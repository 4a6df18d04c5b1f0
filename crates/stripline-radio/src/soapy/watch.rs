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
/// The longest time in the calls that close a device, also after the request to stop.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// The interval between two checks.
const CHECK_TIME: Duration = Duration::from_millis(50);

/// The kinds of calls, from 1 on.
const KINDS: [CallKind; 3] = [
    // A read or a write.
    CallKind { limit: STREAM_TIME, stop_limit: STOP_TIME },
    // The calls that close a device.
    CallKind { limit: CLOSE_TIME, stop_limit: CLOSE_TIME },
    // Any other call.
    CallKind { limit: CALL_TIME, stop_limit: STOP_TIME },
];

/// The longest time of a call, also after the request to stop.
struct CallKind {
    limit: Duration,
    stop_limit: Duration,
}

/// The call in which the thread of a driver is.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    /// Four times the microseconds from the beginning to the start of the call, and the kind of the
    /// call. 0: in no call.
    entered: AtomicU64,
}

impl Watch {
    /// Runs a read or a write.
    pub fn stream<R>(&self, call: impl FnOnce() -> R) -> R {
        self.enter(1, call)
    }

    /// Runs the calls that close a device.
    pub fn close<R>(&self, call: impl FnOnce() -> R) -> R {
        self.enter(2, call)
    }

    /// Runs another call.
    pub fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        self.enter(3, call)
    }

    fn enter<R>(&self, kind: u64, call: impl FnOnce() -> R) -> R {
        // Relaxed: no other memory depends on the number.
        let of_caller = self.entered.swap(4 * micros(self.begun.elapsed()) + kind, Ordering::Relaxed);
        let result = call();
        // The call may be a part of another one.
        self.entered.store(of_caller, Ordering::Relaxed);
        result
    }

    /// Returns the time in the present call, if the call takes too long.
    fn overdue(&self, is_stopped: bool) -> Option<Duration> {
        let entered = self.entered.load(Ordering::Relaxed);
        let kind = KINDS.get(usize::try_from(entered % 4).ok()?.checked_sub(1)?)?;
        let spent = Duration::from_micros(micros(self.begun.elapsed()).saturating_sub(entered / 4));
        (spent > if is_stopped { kind.stop_limit } else { kind.limit }).then_some(spent)
    }
}

fn micros(time: Duration) -> u64 {
    // Four times the number has room for 146,000 years.
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX) & (u64::MAX / 4)
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
    let watch = Arc::new(Watch { begun: Instant::now(), entered: AtomicU64::new(0) });
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
        if let Some(time) = watch.overdue(stop.is_stopped()) {
            return Err(Error::failed(format!(
                "the driver has not returned from a call for {} s: unplug the device, and start again",
                time.as_secs()
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes on with the time and the limit of a call behind another call in it.
    #[test]
    fn a_call_in_a_call_leaves_the_outer_one() {
        let watch = Watch { begun: Instant::now(), entered: AtomicU64::new(0) };
        watch.call(|| {
            let outer = watch.entered.load(Ordering::Relaxed);
            assert_eq!(outer % 4, 3);
            watch.stream(|| assert_eq!(watch.entered.load(Ordering::Relaxed) % 4, 1));
            assert_eq!(watch.entered.load(Ordering::Relaxed), outer);
        });
        assert_eq!(watch.entered.load(Ordering::Relaxed), 0);
        watch.entered.store(1, Ordering::Relaxed);
        let late = Watch { begun: watch.begun - 2 * STOP_TIME, entered: watch.entered };
        assert!(late.overdue(true).is_some() && late.overdue(false).is_none());
    }
}
