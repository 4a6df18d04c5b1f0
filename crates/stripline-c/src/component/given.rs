//! The publishers and subscribers that a component's ports have given.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::publisher::Publisher;
use crate::subscriber::Subscriber;

/// Those that are not freed yet. They end with the function that got the ports.
pub(crate) struct Given(Mutex<Handles>);

#[derive(Default)]
struct Handles {
    publishers: Vec<*const Publisher>,
    subscribers: Vec<*const Subscriber>,
}

// SAFETY: the handles are only compared, but by `end`, which runs when no other thread uses them.
unsafe impl Send for Handles {}

impl Given {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    pub fn add_publisher(&self, publisher: *const Publisher) {
        self.handles().publishers.push(publisher);
    }

    pub fn add_subscriber(&self, subscriber: *const Subscriber) {
        self.handles().subscribers.push(subscriber);
    }

    /// Forgets a publisher that is freed.
    pub fn remove_publisher(&self, publisher: *const Publisher) {
        self.handles().publishers.retain(|other| *other != publisher);
    }

    /// Forgets a subscriber that is freed.
    pub fn remove_subscriber(&self, subscriber: *const Subscriber) {
        self.handles().subscribers.retain(|other| *other != subscriber);
    }

    /// Frees those that are left: inputs first, so that no sender waits for one.
    ///
    /// # Safety
    /// None of them is used again, and none is in use.
    pub unsafe fn end(&self) {
        // Each forgets itself, which takes the lock again.
        let subscribers = std::mem::take(&mut self.handles().subscribers);
        for subscriber in subscribers {
            // SAFETY: not freed, or it would not be here; the caller keeps the rest.
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
