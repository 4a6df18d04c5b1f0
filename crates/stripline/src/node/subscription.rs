//! Consumers of offers, and their subscriptions to topics.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::link::Incoming;
use crate::packet::payload::TypeName;
use crate::transport::Endpoint;

use super::rendezvous::Offer;

/// The longest wait of a new subscriber for publishers that do not answer. Such publishers are
/// connected later.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// The interval at which a new subscriber checks whether a packet waits for it.
const PACKET_CHECK: Duration = Duration::from_millis(1);

/// A consumer of offers.
pub(crate) trait OfferConsumer: Send + Sync {
    /// Returns whether the consumer still exists.
    fn is_there(&self) -> bool;

    /// Returns whether the consumer wants offers with that payload type.
    fn wants(&self, _: &TypeName) -> bool {
        true
    }

    /// Returns the payload type that the consumer takes, if the type decides about connections.
    fn takes(&self) -> Option<&TypeName> {
        None
    }

    /// Replaces the list of senders that the consumer cannot connect to.
    fn set_refused(&self, _: Vec<RefusedSender>) {}

    /// Reports that a connection was refused.
    fn report_refused(&self, _: &Offer, _: Error) {}

    /// Connects the consumer to an offer under the given connection name. Blocks for a few seconds
    /// at most.
    ///
    /// # Errors
    /// The cause of the failure. [`Error::Refused`], [`Error::PeerMisbehaved`] and
    /// [`Error::Unsupported`] are permanent. After any other error, the connection is tried again.
    fn connect(&self, offer: &Offer, connection: &str) -> Result<()>;
}

/// The subscription of a subscriber, or of another consumer of offers, to every publisher of a
/// topic.
pub(super) struct Subscription {
    pub consumer: Arc<dyn OfferConsumer>,
    pub connected: HashSet<Endpoint>,
    /// The refused connections and the reasons.
    pub refused: Vec<(Endpoint, RefusedSender)>,
}

impl Subscription {
    pub(super) fn new(consumer: Arc<dyn OfferConsumer>, connected: HashSet<Endpoint>) -> Self {
        Self { consumer, connected, refused: Vec::new() }
    }

    /// Lists the connection to an offer as refused. Returns false if it was listed with the same
    /// reason.
    pub(super) fn refuse(&mut self, offer: &Offer, connection: &str, reason: String) -> bool {
        let Offer { endpoint, payload, .. } = offer;
        let is_same =
            |(other, refused): &(Endpoint, RefusedSender)| other == endpoint && refused.reason == reason;
        if self.refused.iter().any(is_same) {
            return false;
        }
        let sends = payload.full_text();
        let takes = self.consumer.takes().map_or(sends, TypeName::full_text).into();
        let refused = RefusedSender { connection: connection.into(), sends: sends.into(), takes, reason };
        self.refused.retain(|(other, _)| other != endpoint);
        self.refused.push((endpoint.clone(), refused));
        self.show_refused();
        true
    }

    /// Removes the refusals of an endpoint that is connected or no longer offered.
    pub(super) fn forget_refused(&mut self, address: &str) {
        let before = self.refused.len();
        self.refused.retain(|(endpoint, _)| endpoint.address != address);
        if self.refused.len() != before {
            self.show_refused();
        }
    }

    fn show_refused(&self) {
        self.consumer.set_refused(self.refused.iter().map(|(_, refused)| refused.clone()).collect());
    }
}

/// The first attempts to connect a consumer to the existing offers.
pub(crate) struct FirstAttempts {
    /// Nothing is sent. The channel ends when the last first attempt has been made.
    attempts: mpsc::Receiver<()>,
    until: Instant,
}

impl FirstAttempts {
    pub(super) fn new(attempts: mpsc::Receiver<()>) -> Self {
        Self { attempts, until: Instant::now() + ANSWER_TIME }
    }

    /// Waits for the first attempt of each offer, for at most [`ANSWER_TIME`], but not for
    /// publishers of stopped processes.
    pub(crate) fn wait(self) {
        self.wait_unless(ANSWER_TIME, || false);
    }

    /// Waits like [`FirstAttempts::wait`], but only until a packet waits at the port: a sender that
    /// blocks must not wait for another sender that answers slowly.
    pub(crate) fn wait_for(self, incoming: &mut Incoming) {
        self.wait_unless(PACKET_CHECK, || incoming.is_ready().unwrap_or(true));
    }

    fn wait_unless(self, interval: Duration, mut is_needed: impl FnMut() -> bool) {
        while self.attempts.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout)
            && !is_needed()
            && Instant::now() < self.until
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_subscriber_with_a_packet_waits_for_no_other_publisher() {
        let (_unanswered, attempts) = mpsc::channel();
        let first = FirstAttempts::new(attempts);
        // The wait lasts until a packet arrives: the limit is a day.
        let first = FirstAttempts { until: Instant::now() + Duration::from_secs(86400), ..first };
        let mut checks = 0;
        first.wait_unless(Duration::ZERO, || {
            checks += 1;
            checks == 3
        });
        assert_eq!(checks, 3);
    }
}
