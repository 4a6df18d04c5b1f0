//! Events from other threads for a receiving port: new connections, and requests to the port's
//! component. The port checks when its doorbell rings or a flag is set. The hot path of the port
//! does one plain load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::sys::doorbell::Doorbell;
use crate::sys::fork::LocalMutex;
use crate::sys::futex::ParkWakers;
use crate::sys::mutex::lock;
use crate::transport::{AnyInlet, Attention, Endpoint};

/// An event for a receiving port.
pub(crate) enum PortEvent {
    /// A connection will be made under this name. The port does not end before that connection has
    /// ended.
    Expect(String),
    /// No further connection will be made under this name.
    Abandoned(String),
    /// A connection was made under this name, for the first time or again.
    Connected(String, AnyInlet),
    /// The sender of this connection will continue on another path, which was connected to this
    /// endpoint.
    Moving(String, AnyInlet, Endpoint),
    /// The sender of this connection will not continue on the path to this endpoint.
    MoveCancelled(String, Endpoint),
    /// A connection was refused. The next receive reports the error.
    Refused(Error),
    /// The only sender has failed, and nothing follows the packets that it has sent. Receives
    /// behind these packets report the failure.
    Failed(String),
}

pub(crate) struct PortEvents {
    pending: AtomicBool,
    requested: AtomicBool,
    queue: Mutex<EventQueue>,
    refused: LocalMutex<Vec<RefusedSender>>,
    doorbell: Doorbell,
    wakers: ParkWakers,
}

#[derive(Default)]
struct EventQueue {
    events: Vec<PortEvent>,
    /// Whether the port has ended with a goodbye; `None`: it has not ended.
    ended: Option<bool>,
}

impl PortEvents {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pending: AtomicBool::new(false),
            requested: AtomicBool::new(false),
            queue: Mutex::default(),
            refused: LocalMutex::default(),
            doorbell: Doorbell::new()?,
            wakers: ParkWakers::default(),
        })
    }

    /// Puts an event in the queue. If the port has ended, a new connection is closed, and gets the
    /// goodbye of the port.
    pub(crate) fn push(&self, event: PortEvent) {
        let mut queue = lock(&self.queue);
        let Some(says_goodbye) = queue.ended else {
            queue.events.push(event);
            return self.notify(queue);
        };
        drop(queue);
        if let PortEvent::Connected(_, mut inlet) = event
            && says_goodbye
        {
            inlet.say_goodbye();
        }
    }

    /// Replaces the list of the senders that the port cannot connect to.
    pub(crate) fn set_refused(&self, refused: Vec<RefusedSender>) {
        if let Some(mut before) = self.refused.lock() {
            *before = refused;
        }
    }

    /// Returns the senders that the port cannot connect to.
    pub(crate) fn refused(&self) -> Vec<RefusedSender> {
        self.refused.lock().map_or_else(Vec::new, |refused| refused.clone())
    }

    /// Wakes the thread that waits at the port, because of a request for the component.
    pub(crate) fn notify_request(&self) {
        // The store comes before the flag that is checked first. The ordering of that flag is
        // enough for both.
        self.requested.store(true, Ordering::Relaxed);
        self.notify(lock(&self.queue));
    }

    /// Makes the thread that waits at the port prepare the wait again.
    pub(crate) fn renew_wait(&self) {
        self.notify(lock(&self.queue));
    }

    /// Returns whether a request has arrived since the last call.
    pub(crate) fn take_request(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }

    fn notify(&self, queue: MutexGuard<'_, EventQueue>) {
        // The doorbell rings before the flag is set, and `drain` works the other way round: the
        // flag of a ringing doorbell is always set. Otherwise no sleep at the port would last.
        self.doorbell.notify();
        // Release: it pairs only with loads of the flag, as the lock orders the contents.
        self.pending.store(true, Ordering::Release);
        // The lock is held up to here, for `is_quiet`.
        drop(queue);
        self.wakers.wake();
    }

    /// Returns whether no event is pending, for a port that is about to sleep at the doorbell.
    /// Waits for a thread that has rung the doorbell and not set the flag yet. Otherwise each sleep
    /// would end at once until that thread continues, which a receiver of a higher priority may
    /// prevent.
    pub(crate) fn is_quiet(&self) -> bool {
        let _rung = lock(&self.queue);
        !self.is_pending()
    }

    /// Returns whether events are pending. Relaxed: the doorbell ensures that they are noticed
    /// eventually.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns whether events are in the queue.
    pub(crate) fn has_queued(&self) -> bool {
        !lock(&self.queue).events.is_empty()
    }

    /// Makes the port check everything at the next receive.
    pub(crate) fn set_pending(&self) {
        // Relaxed: only the receiving thread reads it.
        self.pending.store(true, Ordering::Relaxed);
    }

    /// Returns the wakers to call besides the doorbell.
    pub(crate) fn wakers(&self) -> &ParkWakers {
        &self.wakers
    }

    pub(crate) fn drain(&self) -> Vec<PortEvent> {
        self.pending.swap(false, Ordering::Acquire);
        self.doorbell.drain();
        std::mem::take(&mut lock(&self.queue).events)
    }

    /// Ends the queue together with the port. Returns the connections that were made but not taken
    /// up by a receive. All other events are dropped: a sender must not wait for a path without a
    /// port.
    pub(crate) fn end(&self, says_goodbye: bool) -> Vec<AnyInlet> {
        lock(&self.queue).ended = Some(says_goodbye);
        let connected = |event| match event {
            PortEvent::Connected(_, inlet) => Some(inlet),
            _ => None,
        };
        self.drain().into_iter().filter_map(connected).collect()
    }

    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

impl Attention for PortEvents {
    /// Ends the fast path of the port. The next slow receive enables it again. The function only
    /// makes an atomic store, so a signal handler may call it.
    fn request_attention(&self) {
        // Release: a port that reads the flag also sees the reason.
        self.pending.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Barrier;
    use std::time::Instant;

    use super::*;
    use crate::sys::doorbell::PollSet;

    /// Fails after some rounds if a port may sleep while its doorbell rings.
    #[test]
    fn a_doorbell_that_rings_lets_no_port_sleep() {
        const ROUNDS: usize = 5000;
        let events = PortEvents::new().unwrap();
        let round = Barrier::new(2);
        let mut quiet = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    round.wait();
                    events.push(PortEvent::Abandoned(String::new()));
                }
            });
            for _ in 0..ROUNDS {
                round.wait();
                let rings = || {
                    let mut poll_set = PollSet::default();
                    poll_set.readable(events.doorbell().as_fd());
                    poll_set.wait(Some(Instant::now())).unwrap()
                };
                while !rings() {}
                quiet += usize::from(events.is_quiet());
                while events.drain().is_empty() {}
            }
        });
        assert_eq!(quiet, 0, "of {ROUNDS}");
    }

    /// Fails after some rounds if the flag is set before the doorbell rings.
    #[test]
    fn a_doorbell_does_not_ring_on_after_its_event_was_taken() {
        const ROUNDS: usize = 5000;
        let events = PortEvents::new().unwrap();
        let round = Barrier::new(2);
        let mut rang_on = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    events.push(PortEvent::Abandoned(String::new()));
                    round.wait();
                    round.wait();
                }
            });
            for _ in 0..ROUNDS {
                let mut taken = 0;
                while taken == 0 {
                    if events.is_pending() {
                        taken = events.drain().len();
                    }
                }
                round.wait();
                let mut poll_set = PollSet::default();
                poll_set.readable(events.doorbell().as_fd());
                let rings = poll_set.wait(Some(Instant::now())).unwrap();
                rang_on += usize::from(rings && !events.is_pending());
                events.drain();
                // The next event is pushed after the barrier.
                round.wait();
            }
        });
        assert_eq!(rang_on, 0, "of {ROUNDS}");
    }
}
