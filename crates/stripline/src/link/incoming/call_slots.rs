//! A receiving port with connections over a middleware that calls back.

use std::sync::Arc;

use super::Incoming;
use crate::sys::scoped_call::{CallSlot, ScopedCall};

/// The function that the middleware's threads call, and the places that refer to it.
#[derive(Default)]
pub(super) struct Callbacks {
    slots: Vec<Arc<CallSlot>>,
    call: Option<Arc<ScopedCall>>,
}

impl Callbacks {
    /// Adds the call slot of a new connection, and removes the slots of connections that are gone.
    pub(super) fn add(&mut self, slot: Arc<CallSlot>) {
        // The other owner is the connection.
        self.slots.retain(|slot| Arc::strong_count(slot) > 1);
        slot.set(self.call.as_ref());
        self.slots.push(slot);
    }
}

impl Incoming {
    /// Returns whether a connection of the port is over a middleware that calls back.
    #[inline]
    pub(crate) fn is_called_back(&self) -> bool {
        !self.callbacks.slots.is_empty()
    }

    /// Sets the function that the middleware's threads call once a frame may have arrived, also for
    /// later connections; `None` removes it.
    pub(crate) fn set_call(&mut self, call: Option<&Arc<ScopedCall>>) {
        self.callbacks.call = call.cloned();
        self.callbacks.slots.iter().for_each(|slot| slot.set(call));
    }
}
