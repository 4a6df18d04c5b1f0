//! The publishers and subscribers that a component has taken from the ports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::publisher::Publisher;
use crate::subscriber::Subscriber;

/// Ports that the component has taken and not yet freed. The ports are freed when the component's
/// function returns.
pub(crate) struct TakenPorts(Mutex<Handles>);

#[derive(Default)]
struct Handles {
    publishers: Vec<*const Publisher>,
    subscribers: Vec<*const Subscriber>,
}

// SAFETY: the pointers are only compared, except in `end`, which runs when no other thread uses the
// handles.
unsafe impl Send for Handles {}

impl TakenPorts {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    pub fn add_publisher(&self, publisher: *const Publisher) {
        self.handles().publishers.push(publisher);
    }

    pub fn add_subscriber(&self, subscriber: *const Subscriber) {
        self.handles().subscribers.push(subscriber);
    }

    /// Removes a publisher that is freed.
    pub fn remove_publisher(&self, publisher: *const Publisher) {
        self.handles().publishers.retain(|other| *other != publisher);
    }

    /// Removes a subscriber that is freed.
    pub fn remove_subscriber(&self, subscriber: *const Subscriber) {
        self.handles().subscribers.retain(|other| *other != subscriber);
    }

    /// Frees the remaining handles: subscribers first, so that no sender waits for a receiver.
    ///
    /// # Safety
    /// No thread may use the handles during this call or after it.
    pub unsafe fn end(&self) {
        // Each handle removes itself from the list, which takes the lock again.
        let subscribers = std::mem::take(&mut self.handles().subscribers);
        for subscriber in subscribers {
            // SAFETY: a freed handle would have been removed from the list; the caller promises the
            // rest.
            unsafe { Subscriber::free_at_end(subscriber) };
        }
        let publishers = std::mem::take(&mut self.handles().publishers);
        for publisher in publishers {
            // SAFETY: as above.
            unsafe { Publisher::free_with_loan(publisher) };
        }
    }

    fn handles(&self) -> MutexGuard<'_, Handles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
