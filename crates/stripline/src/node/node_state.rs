//! The offers and subscriptions of a node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transport::Endpoint;

use super::connection_log::ConnectionLog;
use super::rendezvous::{DiscoveryMessage, Offer, Offers};
use super::subscription::{OfferConsumer, Subscription};

/// The offers that a node has made and discovered, and the node's subscriptions.
#[derive(Default)]
pub(super) struct NodeState {
    pub over: bool,
    /// The offers of this node.
    pub own: Offers,
    /// The changes of `own` that the node's thread has not taken.
    pub own_changes: Vec<DiscoveryMessage>,
    /// All offers in the domain, by address.
    pub known: BTreeMap<String, Offer>,
    /// The subscriptions by topic.
    pub subscriptions: HashMap<String, Vec<Subscription>>,
    /// The number of topics at which ended subscriptions are removed.
    swept_at: usize,
    /// The publishers of stopped processes that still have to be connected.
    pub stopped: StoppedOffers,
    pub log: ConnectionLog,
}

/// Offers of stopped processes, with the consumers to be connected to them.
///
/// A stopped process does not answer. The first attempt to connect is made when the process
/// continues, or at the eighth check. So a new subscriber costs no thread while a publisher's
/// process is stopped.
#[derive(Default)]
pub(super) struct StoppedOffers {
    offers: Vec<(Offer, Arc<dyn OfferConsumer>)>,
    due: Option<Instant>,
    turn: u64,
}

/// The offers of stopped processes that are due for another check.
pub(super) struct DueOffers {
    pub offers: Vec<(Offer, Arc<dyn OfferConsumer>)>,
    /// Whether to try all offers, including offers of processes that are still stopped.
    pub is_for_all: bool,
}

impl StoppedOffers {
    /// The interval between two checks of the processes.
    const INTERVAL: Duration = Duration::from_millis(250);
    /// Every eighth check connects to all offers, because the process that an offer states may be
    /// wrong.
    const TURNS: u64 = 8;

    /// Adds an offer, to be checked after [`Self::INTERVAL`] at the latest.
    pub(super) fn push(&mut self, offer: Offer, consumer: Arc<dyn OfferConsumer>) {
        self.offers.push((offer, consumer));
        self.due.get_or_insert_with(|| Instant::now() + Self::INTERVAL);
    }

    /// Returns the time of the next check; `None` if no offers wait.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes all offers, if the check is due.
    pub(super) fn take_due(&mut self) -> Option<DueOffers> {
        self.due.take_if(|due| Instant::now() >= *due)?;
        self.turn += 1;
        let is_for_all = self.turn.is_multiple_of(Self::TURNS);
        Some(DueOffers { offers: std::mem::take(&mut self.offers), is_for_all })
    }
}

impl NodeState {
    pub(super) fn subscriptions_to(&mut self, topic: &str) -> impl Iterator<Item = &mut Subscription> {
        self.subscriptions.get_mut(topic).into_iter().flatten()
    }

    pub(super) fn subscription_of(
        &mut self,
        topic: &str,
        consumer: &Arc<dyn OfferConsumer>,
    ) -> Option<&mut Subscription> {
        self.subscriptions_to(topic).find(|subscription| Arc::ptr_eq(&subscription.consumer, consumer))
    }

    /// Adds a subscription and removes subscriptions of consumers that have gone.
    pub(super) fn subscribe(&mut self, topic: &str, subscription: Subscription) {
        if self.subscriptions.len() >= self.swept_at {
            self.subscriptions.retain(|_, subscriptions| {
                subscriptions.retain(|subscription| subscription.consumer.is_there());
                !subscriptions.is_empty()
            });
            self.swept_at = 2 * self.subscriptions.len() + 1;
        }
        let to_topic = self.subscriptions.entry(topic.into()).or_default();
        to_topic.retain(|subscription| subscription.consumer.is_there());
        to_topic.push(subscription);
    }

    /// Removes an offer that is withdrawn or replaced.
    pub(super) fn forget(&mut self, address: &str) {
        let Some(Offer { topic, .. }) = self.known.remove(address) else { return };
        for subscription in self.subscriptions_to(&topic) {
            // Another publisher may reuse a TCP port.
            subscription.connected.retain(|endpoint| endpoint.address != address);
            subscription.forget_refused(address);
        }
    }

    /// Offers a publisher of this node, or withdraws it.
    pub(super) fn change_own(&mut self, change: DiscoveryMessage) {
        if self.own.change(&change) {
            self.own_changes.push(change);
        }
    }

    pub(super) fn is_known(&self, endpoint: &Endpoint) -> bool {
        self.known.get(&endpoint.address).is_some_and(|known| known.endpoint == *endpoint)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Weak;

    use super::*;
    use crate::error::Result;
    use crate::packet::payload::TypeName;

    /// A consumer that exists while the owner holds the other end.
    struct Held(Weak<()>);

    impl OfferConsumer for Held {
        fn is_there(&self) -> bool {
            self.0.strong_count() > 0
        }

        fn connect(&self, _: &Offer, _: &str) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn offers_of_stopped_processes_are_taken_when_they_are_due() {
        let mut stopped = StoppedOffers::default();
        assert!(stopped.due().is_none() && stopped.take_due().is_none());
        let endpoint = Endpoint { transport: "shm".into(), address: "name".into(), keys: [1, 2] };
        let offer = Offer::new("levels", TypeName::of::<f32>(), endpoint);
        for turn in 1..=StoppedOffers::TURNS {
            stopped.push(offer.clone(), Arc::new(Held(Weak::new())));
            let due = stopped.due().expect("one waits");
            stopped.due = Some(due + Duration::from_secs(86_400));
            assert!(stopped.take_due().is_none());
            stopped.due = Some(Instant::now());
            let due = stopped.take_due().expect("it is due");
            assert_eq!((due.offers.len(), due.is_for_all), (1, turn == StoppedOffers::TURNS));
            assert!(stopped.due().is_none());
        }
    }

    #[test]
    fn subscriptions_that_have_ended_take_no_more_room_than_the_others() {
        let mut state = NodeState::default();
        let subscription =
            |held: &Arc<()>| Subscription::new(Arc::new(Held(Arc::downgrade(held))), HashSet::default());
        let lasting: Vec<Arc<()>> = (0..10).map(|_| Arc::default()).collect();
        for (number, held) in lasting.iter().enumerate() {
            state.subscribe(&format!("lasting-{number}"), subscription(held));
        }
        for number in 0..1000 {
            state.subscribe(&format!("topic-{number}"), subscription(&Arc::default()));
            state.subscribe("same", subscription(&Arc::default()));
            assert_eq!(state.subscriptions["same"].len(), 1);
            assert!(state.subscriptions.len() < 3 * lasting.len());
        }
        for number in 0..lasting.len() {
            assert_eq!(state.subscriptions_to(&format!("lasting-{number}")).count(), 1);
        }
    }
}
