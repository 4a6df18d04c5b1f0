//! A function of one thread that other threads may call within a scope, such as the threads of a
//! middleware with callbacks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::mutex::lock;

/// A function that may be called until [`ScopedCall::within`] returns. Only one call runs at a
/// time.
pub struct ScopedCall {
    /// Calls that the running call has not answered yet.
    calls: AtomicU32,
    function: Mutex<Option<&'static (dyn Fn() + Sync)>>,
}

impl ScopedCall {
    /// Runs the body. The function may be called while the body runs.
    pub fn within<R>(function: &(dyn Fn() + Sync), body: impl FnOnce(&Arc<Self>) -> R) -> R {
        // SAFETY: only the lifetime changes. The drop of `CallScope` removes the reference before
        // `within` returns, also after a panic. `call` holds the lock while it uses the reference,
        // so that the drop waits for the end of a call.
        let function =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(function) };
        let call = Arc::new(Self { calls: AtomicU32::new(0), function: Mutex::new(Some(function)) });
        let scope = CallScope(&call);
        body(scope.0)
    }

    /// Calls the function; false: the scope has ended. If another call runs, this one returns at
    /// once, and the running call runs the function again. The function itself may make such a
    /// call.
    pub fn call(&self) -> bool {
        // AcqRel, here and below: the count publishes the caller's earlier writes to the thread
        // that runs the function.
        if self.calls.fetch_add(1, Ordering::AcqRel) > 0 {
            return true;
        }
        let mut is_there = true;
        loop {
            let seen = self.calls.load(Ordering::Acquire);
            let function = lock(&self.function);
            match *function {
                Some(function) => function(),
                None => is_there = false,
            }
            drop(function);
            if self.calls.fetch_sub(seen, Ordering::AcqRel) == seen {
                return is_there;
            }
        }
    }
}

struct CallScope<'a>(&'a Arc<ScopedCall>);

impl Drop for CallScope<'_> {
    fn drop(&mut self) {
        *lock(&self.0.function) = None;
    }
}

/// A place for the function that a source of bytes calls when bytes have arrived.
#[derive(Default)]
pub struct CallSlot(Mutex<Option<Arc<ScopedCall>>>);

impl CallSlot {
    /// Replaces the call; `None`: none.
    pub fn set(&self, call: Option<&Arc<ScopedCall>>) {
        *lock(&self.0) = call.cloned();
    }

    /// Calls the function; false: no function is set, and a doorbell has to ring.
    pub fn call(&self) -> bool {
        let call = lock(&self.0).clone();
        call.is_some_and(|call| call.call())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_function_is_called_by_any_thread_until_its_scope_ends() {
        let (slot, count) = (CallSlot::default(), AtomicU32::new(0));
        assert!(!slot.call());
        let kept = ScopedCall::within(&|| _ = count.fetch_add(1, Ordering::Relaxed), |call| {
            slot.set(Some(call));
            std::thread::scope(|scope| {
                let threads = [0; 2].map(|_| scope.spawn(|| slot.call()));
                assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
            });
            Arc::clone(call)
        });
        let calls = count.load(Ordering::Relaxed);
        assert!((1..=3).contains(&calls), "{calls}");
        assert!(!slot.call() && !kept.call());
        assert_eq!(count.load(Ordering::Relaxed), calls);
    }

    #[test]
    fn a_call_during_a_call_is_made_up_for() {
        let (inside, gone_on) = (Barrier::new(2), Barrier::new(2));
        let (slot, count) = (CallSlot::default(), AtomicU32::new(0));
        let function = || {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                inside.wait();
                gone_on.wait();
            }
        };
        ScopedCall::within(&function, |call| {
            slot.set(Some(call));
            std::thread::scope(|scope| {
                scope.spawn(|| slot.call());
                inside.wait();
                // This call returns although the other one has not.
                assert!(slot.call());
                gone_on.wait();
            });
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[test]
    fn a_panic_ends_the_scope() {
        let slot = CallSlot::default();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ScopedCall::within(&|| (), |call| {
                slot.set(Some(call));
                panic!("on purpose");
            })
        }));
        assert!(outcome.is_err() && !slot.call());
    }
}
