//! What other threads have for a receiving port: new connections, and that its component is asked something. The port looks when its bell rings or a flag
//! says so; its hot path sees a plain load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::futex::Alarms;
use crate::transport::Inlet;

/// One delivery.
pub(crate) enum Delivery {
    /// A connection will be made under this name; the port has not ended before it has.
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

    /// Wakes whoever waits at the port: there is something to be looked at elsewhere.
    pub(crate) fn ask(&self) {
        // Before the flag that is looked at first, whose order is enough for both.
        self.asked.store(true, Ordering::Relaxed);
        self.ring();
    }

    /// Whether somebody has asked since this was last called.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    fn ring(&self) {
        // Release: pairs with nothing but the flag; the lock orders the contents.
        self.full.store(true, Ordering::Release);
        self.bell.ring();
        self.alarms.raise();
    }

    /// Whether there is something. Relaxed: the bell makes sure that it is seen at last.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// What to raise besides the bell.
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
