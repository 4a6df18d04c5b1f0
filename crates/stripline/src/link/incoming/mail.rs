//! Events from other threads for a receiving port: connections, and requests to its component.

use std::sync::Arc;

use super::{Incoming, Origin, Outcome};
use crate::error::Result;
use crate::link::{Delivery, WaitStrategy};
use crate::transport::Wait;

impl Incoming {
    /// Sets a function to call, on the thread that waits here, when a request for the component
    /// arrives.
    pub(crate) fn when_asked(&mut self, hook: Box<dyn FnMut() + Send>) {
        self.hook = Some(hook);
    }

    /// Receives like [`Incoming::receive`] without a deadline, but returns `Nothing` as soon as a
    /// request arrives.
    #[inline(always)]
    pub(crate) fn receive_or_asked(&mut self) -> Result<Outcome> {
        if self.is_easy() && self.take_at_hand() {
            return Ok(Outcome::Packet);
        }
        // Earlier requests have been handled.
        (self.heeds_asked, self.asked) = (true, false);
        let found = self.receive_slowly(Wait::FOREVER, u32::MAX);
        self.heeds_asked = false;
        found
    }

    /// Whether a request has arrived that ends the current wait.
    pub(in crate::link) fn is_interrupted(&self) -> bool {
        self.heeds_asked && self.asked
    }

    /// Handles the queued events.
    pub(super) fn open_mail(&mut self) {
        for delivery in self.mailbox.empty() {
            match delivery {
                Delivery::Expect(name) => drop(self.origin(name)),
                Delivery::Abandoned(name) => {
                    let origin = self.origin(name);
                    // A connection made earlier reports its own end.
                    origin.ended |= origin.inlet.is_none() && origin.successors.is_empty();
                }
                Delivery::Connected(name, inlet) => {
                    if let Some(alarm) = inlet.waker() {
                        self.mailbox.alarms().add(&alarm);
                        self.stop.wakers().add(&alarm);
                    }
                    let origin = match self.predecessor(&name) {
                        Some(index) => &mut self.origins[index],
                        None => self.origin(name.clone()),
                    };
                    origin.ended = false;
                    if origin.inlet.is_none() && origin.failed.is_none() {
                        origin.connect(name, inlet);
                    } else {
                        origin.successors.push_back((name, inlet));
                    }
                }
            }
        }
        let busiest = self.origins.iter().map(Origin::wait).max();
        self.spinner.set_strategy(busiest.unwrap_or(WaitStrategy::Block));
        self.sign.list(self.origins.iter().map(Origin::line).collect());
        if self.mailbox.was_asked() {
            self.asked = true;
            if let Some(hook) = &mut self.hook {
                hook();
            }
        }
    }

    /// Returns the connection that a new one replaces, because its sender is gone. This is for
    /// ports where senders come and go under ever new names. Of two dead senders, the earlier one
    /// is replaced first.
    fn predecessor(&mut self, name: &str) -> Option<usize> {
        if !self.open || self.origins.iter().any(|origin| origin.name == name) {
            return None;
        }
        let dead = self.origins.iter_mut().position(|origin| !origin.ended && origin.is_peer_gone());
        dead.or_else(|| self.origins.iter().position(|origin| origin.ended && origin.gap.is_none()))
    }

    pub(super) fn origin(&mut self, name: String) -> &mut Origin {
        let index = self.origins.iter().position(|origin| origin.name == name).unwrap_or_else(|| {
            let terms = (self.terms_for)(&name);
            let (terms_for, traffic) = (Arc::clone(&self.terms_for), Arc::clone(&self.traffic));
            self.origins.push(Origin::new(name, terms, terms_for, traffic));
            self.origins.len() - 1
        });
        &mut self.origins[index]
    }
}
