//! A receiving port with connections over a middleware that calls back.

use std::sync::Arc;

use super::Incoming;
use crate::sys::scoped_call::{CallSlot, ScopedCall};
use crate::transport::AnyInlet;

/// The function that the middleware's threads call, and the places where it is entered.
#[derive(Default)]
pub(super) struct Callbacks {
    slots: Vec<Arc<CallSlot>>,
    call: Option<Arc<ScopedCall>>,
}

impl Incoming {
    /// Takes note of a new connection's place for a call.
    pub(super) fn add_call_slot(&mut self, inlet: &mut AnyInlet) {
        if let Some(slot) = inlet.parts().call_slot {
            slot.set(self.callbacks.call.as_ref());
            self.callbacks.slots.push(slot);
        }
    }

    /// Returns whether a connection of the port is over a middleware that calls back.
    #[inline]
    pub(crate) fn is_called_back(&self) -> bool {
        !self.callbacks.slots.is_empty()
    }

    /// Sets what the middleware's threads call once a frame may be there, also for connections to
    /// come; or removes it.
    pub(crate) fn set_call(&mut self, call: Option<&Arc<ScopedCall>>) {
        let callbacks = &mut self.callbacks;
        // The other owner is the connection.
        callbacks.slots.retain(|slot| Arc::strong_count(slot) > 1);
        callbacks.call = call.cloned();
        callbacks.slots.iter().for_each(|slot| slot.set(call));
    }
}
