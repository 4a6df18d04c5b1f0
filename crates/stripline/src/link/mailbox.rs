//! Events from other threads for a receiving port: new connections, and requests to its component.
//! The port checks when its doorbell rings or a flag is set; its hot path does one plain load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::futex::Alarms;
use crate::transport::Inlet;

/// One event.
pub(crate) enum Delivery {
    /// A connection will be made under this name; the port does not end before it has.
    Expect(String),
    /// No connection will be made under this name any more.
    Abandoned(String),
    /// A connection was made (again) under this name.
    Connected(String, Box<dyn Inlet>),
}

pub(crate) struct Mailbox {
    full: AtomicBool,
    asked: AtomicBool,
    deliveries: Mutex<Vec<Delivery>>,
    bell: Doorbell,
    alarms: Alarms,
}

impl Mailbox {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            full: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            deliveries: Mutex::default(),
            bell: Doorbell::new()?,
            alarms: Alarms::default(),
        })
    }

    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        self.ring();
    }

    /// Wakes the thread that waits at the port, because of a request for its component.
    pub(crate) fn ask(&self) {
        // Stored before the flag that is checked first; its ordering is enough for both.
        self.asked.store(true, Ordering::Relaxed);
        self.ring();
    }

    /// Whether a request has arrived since the last call of this.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    fn ring(&self) {
        // Release: pairs with nothing but the flag; the lock orders the contents.
        self.full.store(true, Ordering::Release);
        self.bell.ring();
        self.alarms.raise();
    }

    /// Whether events are pending. Relaxed: the doorbell makes sure that they are noticed
    /// eventually.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Returns the wakers to wake besides the doorbell.
    pub(crate) fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    pub(crate) fn empty(&self) -> Vec<Delivery> {
        self.full.swap(false, Ordering::Acquire);
        self.bell.quiet();
        std::mem::take(&mut self.deliveries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn bell(&self) -> &Doorbell {
        &self.bell
    }
}
