//! Events from other threads for a receiving port: connections, and requests to the port's
//! component.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::{EndsWhen, Incoming, IncomingConnection, Polled};
use crate::error::Result;
use crate::link::PortEvent;
use crate::link::PortEvents;
use crate::link::Progress;
use crate::link::connection::Successor;
use crate::terms::WaitStrategy;
use crate::transport::{AnyInlet, Attention, InletParts, Interrupt, StopToken, Wait};

impl Incoming {
    /// Sets a function that is called when a request for the component arrives, on the thread that
    /// waits here.
    pub(crate) fn on_request(&mut self, hook: Box<dyn FnMut() + Send>) {
        self.hook = Some(hook);
    }

    /// Returns the interrupt of this port's waits, and the handle that ends the fast path.
    pub(crate) fn interrupt(&self) -> (Arc<Interrupt>, Arc<dyn Attention>) {
        (Arc::clone(self.stop.interrupt()), Arc::<PortEvents>::clone(&self.events))
    }

    /// Sets the stop request and the interrupt, for a receiver that shares them.
    pub(crate) fn set_stop(&mut self, stop: StopToken) {
        self.stop = stop;
    }

    /// Returns the queue by which other threads send events to this port.
    pub(crate) fn port_events(&self) -> Arc<PortEvents> {
        Arc::clone(&self.events)
    }

    /// Receives like [`Incoming::receive`] without a deadline, but returns [`Polled::Empty`] as
    /// soon as a request arrives.
    #[inline(always)]
    pub(crate) fn receive_or_request(&mut self) -> Result<Polled> {
        if self.receive_fast() {
            return Ok(Polled::Packet);
        }
        // Earlier requests have been handled.
        (self.wakes_on_request, self.request_handler) = (true, false);
        let found = self.receive_slow(Wait::FOREVER, u32::MAX);
        self.wakes_on_request = false;
        found
    }

    /// Returns whether a request has arrived that ends the current wait.
    pub(in crate::link) fn is_interrupted(&self) -> bool {
        self.wakes_on_request && self.request_handler
    }

    /// Makes the port report the component's progress, and returns the report.
    pub(crate) fn track_progress(&mut self, changed: SyncSender<()>) -> Arc<Progress> {
        Arc::clone(self.progress.insert(Arc::new(Progress::new(changed))))
    }

    pub(crate) fn progress(&self) -> Option<&Arc<Progress>> {
        self.progress.as_ref()
    }

    /// Returns the number that an empty poll answers: see [`Progress`].
    pub(super) fn asked(&self) -> u64 {
        self.progress.as_ref().map_or(0, |progress| progress.asked())
    }

    /// Reports that the port is empty, and whether the thread waits at it without a limit.
    pub(crate) fn report_empty(&self, asked: u64, waits: bool) {
        if let Some(progress) = &self.progress {
            progress.emptied(asked, waits);
        }
    }

    /// Handles the queued events.
    pub(super) fn handle_events(&mut self) {
        for event in self.events.drain() {
            match event {
                PortEvent::Expect(name) => drop(self.connection_mut(name)),
                PortEvent::Abandoned(name) => {
                    let connection = self.connection_mut(name);
                    // A connection made earlier reports its own end, at the latest when the sender
                    // is gone.
                    connection.abandoned = true;
                    connection.ended |= connection.inlet.is_none() && connection.successors.is_empty();
                }
                PortEvent::Refused(error) => self.defer(error),
                PortEvent::Failed(failure) => self.ends = EndsWhen::Failed(failure),
                PortEvent::Moving(name, mut inlet, endpoint) => {
                    self.wake_by(&mut inlet);
                    let connection = self.connection_mut(name.clone());
                    // Without a sender, the move has no starting point. A sender may move again
                    // before this port has read its earlier paths, which are kept in order.
                    if connection.inlet.is_some() || !connection.successors.is_empty() {
                        connection.successors.push_back(Successor { name, inlet, path: Some(endpoint) });
                    }
                }
                PortEvent::MoveCancelled(name, endpoint) => {
                    self.connection_mut(name).cancel_move(&endpoint);
                }
                PortEvent::Connected(name, mut inlet) => {
                    self.wake_by(&mut inlet);
                    let connection = match self.replaced_connection(&name) {
                        Some(index) => &mut self.connections[index],
                        None => self.connection_mut(name.clone()),
                    };
                    (connection.ended, connection.abandoned) = (false, false);
                    if connection.inlet.is_none() && connection.failed.is_none() {
                        connection.connect(name, inlet);
                    } else {
                        connection.successors.push_back(Successor { name, inlet, path: None });
                    }
                }
            }
        }
        if self.stop.interrupt().is_pending() {
            // The interrupt is for the next receive that waits.
            self.events.set_pending();
        }
        let busiest = self.connections.iter().map(IncomingConnection::wait).max();
        self.spinner.set_strategy(busiest.unwrap_or(WaitStrategy::Block));
        self.view.set_connections(self.connections.iter().map(IncomingConnection::inspect).collect());
        if self.events.take_request() {
            self.request_handler = true;
            if let Some(hook) = &mut self.hook {
                hook();
            }
        }
    }

    /// Lets events and a stop end the parking at an inlet, and lets a middleware call back.
    fn wake_by(&mut self, inlet: &mut AnyInlet) {
        let InletParts { waker, call_slot, .. } = inlet.parts();
        if let Some(waker) = waker {
            self.events.wakers().add(&waker);
            self.stop.wakers().add(&waker);
        }
        if let Some(slot) = call_slot {
            self.callbacks.add(slot);
        }
    }

    /// Returns the connection that a new one replaces, because the sender of the old one is gone.
    /// The replacement is for ports with senders that come and go under ever new names. Of two dead
    /// senders, the earlier one is replaced first.
    fn replaced_connection(&mut self, name: &str) -> Option<usize> {
        if !self.open || self.connections.iter().any(|connection| connection.name == name) {
            return None;
        }
        let dead =
            self.connections.iter_mut().position(|connection| !connection.ended && connection.is_peer_gone());
        dead.or_else(|| {
            self.connections.iter().position(|connection| connection.ended && connection.gap.is_none())
        })
    }

    pub(super) fn connection_mut(&mut self, name: String) -> &mut IncomingConnection {
        let index =
            self.connections.iter().position(|connection| connection.name == name).unwrap_or_else(|| {
                let options = (self.options_for)(&name);
                let (options_for, counts) = (Arc::clone(&self.options_for), Arc::clone(&self.counts));
                let events = Arc::clone(&self.events);
                self.connections.push(IncomingConnection::new(name, options, options_for, counts, events));
                self.connections.len() - 1
            });
        &mut self.connections[index]
    }
}
