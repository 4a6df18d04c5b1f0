//! Events from other threads for a receiving port: new connections, and requests to its component.
//! The port checks when its doorbell rings or a flag is set; its hot path does one plain load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::sys::doorbell::Doorbell;
use crate::sys::futex::ParkWakers;
use crate::sys::mutex::lock;
use crate::transport::AnyInlet;

/// One event.
pub(crate) enum PortEvent {
    /// A connection will be made under this name; the port does not end before it has.
    Expect(String),
    /// No connection will be made under this name any more.
    Abandoned(String),
    /// A connection was made (again) under this name.
    Connected(String, AnyInlet),
}

pub(crate) struct PortEvents {
    pending: AtomicBool,
    requested: AtomicBool,
    queue: Mutex<Vec<PortEvent>>,
    doorbell: Doorbell,
    wakers: ParkWakers,
}

impl PortEvents {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pending: AtomicBool::new(false),
            requested: AtomicBool::new(false),
            queue: Mutex::default(),
            doorbell: Doorbell::new()?,
            wakers: ParkWakers::default(),
        })
    }

    pub(crate) fn push(&self, event: PortEvent) {
        lock(&self.queue).push(event);
        self.notify();
    }

    /// Wakes the thread that waits at the port, because of a request for its component.
    pub(crate) fn notify_request(&self) {
        // Stored before the flag that is checked first; its ordering is enough for both.
        self.requested.store(true, Ordering::Relaxed);
        self.notify();
    }

    /// Returns whether a request has arrived since the last call of this.
    pub(crate) fn take_request(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }

    fn notify(&self) {
        // Release: pairs with nothing but the flag; the lock orders the contents.
        self.pending.store(true, Ordering::Release);
        self.doorbell.notify();
        self.wakers.wake();
    }

    /// Returns whether events are pending. Relaxed: the doorbell makes sure that they are noticed
    /// eventually.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Makes the port check everything at its next receive.
    pub(crate) fn set_pending(&self) {
        // Relaxed: for the thread that receives.
        self.pending.store(true, Ordering::Relaxed);
    }

    /// Returns the wakers to wake besides the doorbell.
    pub(crate) fn wakers(&self) -> &ParkWakers {
        &self.wakers
    }

    pub(crate) fn drain(&self) -> Vec<PortEvent> {
        self.pending.swap(false, Ordering::Acquire);
        self.doorbell.drain();
        std::mem::take(&mut lock(&self.queue))
    }

    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}
