//! Ends of any type: receivers at a component's output tap or at a topic, and publishers.

use std::sync::{Arc, Weak};

use super::node::{Node, NodeShared};
use super::rendezvous::Offer;
use super::subscription::OfferConsumer;
use super::{Publisher, Subscriber, calls_payload};
use crate::error::{Error, Result};
use crate::link::{ConnectionOptions, EndsWhen, Incoming, PortEvent, PortEvents, policy};
use crate::packet::content::{DynamicForm, StaticForm};
use crate::packet::payload::{Dynamic, TypeName};
use crate::sys::mutex::lock;
use crate::terms::{LinkOptions, Overflow};
use crate::transport::{ConnectRequest, Endpoint, StopToken};

/// Connects to a tap of the output with that name. Packets arrive as bytes. Up to `depth` packets
/// wait; then the oldest are dropped. The stream ends when its sender ends.
pub(crate) fn connect_tap(
    port: &str,
    endpoint: &Endpoint,
    payload: &TypeName,
    depth: u32,
) -> Result<Subscriber<u8>> {
    // Any other transport lacks the kernel's credentials, or the rule that the sender never waits.
    if endpoint.transport != "shm" {
        return Err(Error::misbehaved(port, format!("offers a tap over {}, not shm", endpoint.transport)));
    }
    let options = options(LinkOptions::default(), depth, Overflow::DropOldest);
    let connection = format!("{port} -> tap-{}", std::process::id());
    let request = ConnectRequest::new(connection.clone(), payload.clone(), options);
    let inlet = policy::connect(endpoint, &request)?;
    let events = Arc::new(PortEvents::new()?);
    events.push(PortEvent::Connected(connection, inlet));
    let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&options));
    let name = format!("tap-{}", std::process::id());
    let mut incoming =
        Incoming::new(name, events, options_for, StopToken::new()?, false, payload.sample_bytes());
    incoming.set_ends(EndsWhen::WithSender);
    incoming.say_goodbye_on_drop();
    Ok(Subscriber::of(incoming, StaticForm::new()))
}

impl Node {
    /// Returns the payload types of the publishers of a topic that were discovered so far.
    pub(crate) fn payloads_of(&self, topic: &str) -> Vec<TypeName> {
        let calls = calls_payload().ok();
        let mut types: Vec<TypeName> = self.offers(|offer| offer.topic == topic);
        types.retain(|payload| Some(payload) != calls.as_ref());
        types
    }

    /// Returns the topics of the publishers that were discovered so far.
    pub(crate) fn known_topics(&self) -> Vec<String> {
        let calls = calls_payload().ok();
        let shared = self.shared();
        let state = lock(&shared.state);
        let streams = state.known.values().filter(|offer| Some(&offer.payload) != calls.as_ref());
        let mut topics: Vec<String> = streams.map(|offer| offer.topic.clone()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    /// Subscribes to a topic of any type, as bytes. Up to `depth` packets wait. Beyond that, the
    /// oldest packets are dropped or the senders wait, according to `overflow`.
    pub(crate) fn tap_topic(
        &self,
        topic: &str,
        payload: &TypeName,
        depth: u32,
        overflow: Overflow,
    ) -> Result<Subscriber<u8>> {
        self.check_own()?;
        let events = Arc::new(PortEvents::new()?);
        let shared = self.shared();
        let options = options(shared.topics.of(topic).link, depth, overflow);
        let tapped = TappedTopic { payload: payload.clone(), options, events: Arc::downgrade(&events) };
        let attempts = self.subscribe(topic, Arc::new(tapped));
        let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&options));
        let stop = self.stop_token().clone();
        let mut incoming =
            Incoming::new(topic.into(), events, options_for, stop, true, payload.sample_bytes());
        incoming.say_goodbye_on_drop();
        attempts.wait_for(&mut incoming);
        Ok(Subscriber::of(incoming, StaticForm::new()))
    }

    /// Creates a publisher on a topic of any type.
    pub(crate) fn raw_publisher(&self, topic: &str, payload: &TypeName) -> Result<Publisher<Dynamic>> {
        let outgoing = self.outgoing(topic, payload.clone())?;
        Ok(Publisher::of(outgoing, None, DynamicForm::of(Some(payload))))
    }

    fn offers(&self, wanted: impl Fn(&Offer) -> bool) -> Vec<TypeName> {
        let shared = self.shared();
        let state = lock(&shared.state);
        let those = state.known.values().filter(|offer| wanted(offer));
        let mut types: Vec<TypeName> = those.map(|offer| offer.payload.clone()).collect();
        types.sort();
        types.dedup();
        types
    }

    fn shared(&self) -> &NodeShared {
        &self.shared
    }
}

/// The subscriber of a tapped topic.
struct TappedTopic {
    payload: TypeName,
    options: LinkOptions,
    events: Weak<PortEvents>,
}

impl OfferConsumer for TappedTopic {
    fn is_there(&self) -> bool {
        self.events.strong_count() > 0
    }

    fn wants(&self, payload: &TypeName) -> bool {
        *payload == self.payload
    }

    fn connect(&self, offer: &Offer, connection: &str) -> Result<()> {
        let Some(events) = self.events.upgrade() else { return Ok(()) };
        let (connection, payload) = (connection.to_string(), self.payload.clone());
        let request = ConnectRequest::new(connection, payload, self.options);
        let inlet = policy::connect(&offer.endpoint, &request)?;
        events.push(PortEvent::Connected(request.connection, inlet));
        Ok(())
    }
}

/// Returns the options of a tap, with the reach of the link.
fn options(link: LinkOptions, depth: u32, overflow: Overflow) -> LinkOptions {
    let depth = depth.clamp(1, LinkOptions::DEPTH_MAX);
    let LinkOptions { group, transport_options, .. } = link;
    // A tap copies bytes, so a differing memory layout cannot matter.
    let any_build = true;
    LinkOptions { overflow, depth, group, transport_options, any_build, ..LinkOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::{TcpOptions, TransportOptions};

    #[test]
    fn a_tap_of_a_topic_reaches_what_its_link_reaches() {
        let tcp = Some(TcpOptions { insecure: true, ..TcpOptions::default() });
        let transport_options = TransportOptions { tcp, ..TransportOptions::default() };
        let link = LinkOptions { transport_options, depth: 7, ..LinkOptions::default() };
        let tapped = options(link, 0, Overflow::DropOldest);
        assert_eq!((tapped.transport_options, tapped.depth), (transport_options, 1));
        assert_eq!((tapped.overflow, tapped.any_build), (Overflow::DropOldest, true));
    }
}
