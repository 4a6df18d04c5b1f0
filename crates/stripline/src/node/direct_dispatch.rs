//! Runs handlers on the receiving thread, even if that thread belongs to a middleware.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::link::{CallbackWork, run_callback_work};
use crate::packet::payload::Content;
use crate::sys::ready_set::ReadySet;
use crate::sys::scoped_call::ScopedCall;
use crate::transport::Wait;

use super::serve::serve_one;
use super::{PacketView, Received, Subscriber};

/// Runs the handler for all packets: on the middleware's threads, one packet at a time. Everything
/// else that wakes the port is handled on this thread. Returns as [`Subscriber::serve`] does.
pub(super) fn run<T: Content>(
    subscriber: &mut Subscriber<T>,
    handler: impl FnMut(PacketView<'_, T>) -> Result<()> + Send,
) -> Result<()> {
    let work = Mutex::new(DirectWork { subscriber, handler, outcome: None });
    run_callback_work(&work)?;
    work.into_inner().unwrap_or_else(PoisonError::into_inner).outcome.unwrap_or(Ok(()))
}

struct DirectWork<'a, T: Content, H> {
    subscriber: &'a mut Subscriber<T>,
    handler: H,
    outcome: Option<Result<()>>,
}

impl<T: Content, H: FnMut(PacketView<'_, T>) -> Result<()> + Send> CallbackWork for DirectWork<'_, T, H> {
    fn work(&mut self) -> bool {
        while self.outcome.is_none() {
            if let Err(error) = self.subscriber.incoming.stop().check(Wait::FOREVER) {
                self.outcome = Some(Err(error));
                break;
            }
            self.outcome = match serve_one(self.subscriber, Wait::Never, &mut self.handler) {
                Ok(Received::Packet(_)) => None,
                Ok(Received::Empty) => return true,
                Ok(Received::Ended) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
        }
        false
    }

    fn set_call(&mut self, call: Option<&Arc<ScopedCall>>) {
        self.subscriber.incoming.set_call(call);
    }

    fn arm(&mut self, ready: &ReadySet) -> Result<bool> {
        self.subscriber.incoming.arm(ready)
    }

    fn fail(&mut self, error: Error) {
        self.outcome = Some(Err(error));
    }
}
