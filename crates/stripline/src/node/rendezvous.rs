//! Discovery between nodes without a daemon or a broker.
//!
//! All nodes of a domain use one Unix name. The node that binds it first is the host. The other
//! nodes connect to the host, join, send their publishers, and receive the publishers of all
//! others. A domain belongs to one user, or to a group if the domain names one: each side checks
//! the kernel's credentials of the other. When the host dies, the kernel reports this to all nodes
//! at once. A single node binds the name again; the other nodes connect to it and send their offers
//! again. Links between publishers and subscribers are not affected.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::Descriptor;
use crate::sys::messages;
use crate::sys::pending::{Admission, PendingPeers, name_of, oldest_of_most};
use crate::sys::poller::{Interest, Poller};
use crate::sys::process::state_and_parent;
use crate::sys::refusal::ViolationLog;
use crate::sys::socket::{self, Listener, Socket};
use crate::terms::Group;
use crate::transport::Endpoint;

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 8192;
/// The most nodes of a domain that the host serves.
const PEERS_MAX: usize = 1024;
/// The most publishers that one node may announce.
const OFFERS_MAX: usize = 4096;
/// The most bytes of changes that may wait for a node that does not read, in addition to the list
/// that it gets when it joins. The host closes a node that falls further behind. The node joins
/// again once it continues.
const UNSENT_MAX: usize = 4 << 20;
/// The interval between two attempts to become or find a host.
const RETRY: Duration = Duration::from_millis(5);
/// The version of the discovery messages.
const VERSION: u32 = 1;
/// The poller's token of the doorbell. The tokens of peers are smaller.
const DOORBELL: u64 = 1 << 62;

/// A publisher that subscribers may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub topic: String,
    pub payload: TypeName,
    pub endpoint: Endpoint,
    /// The publisher's process, as the publisher states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

impl Offer {
    /// Returns the offer of an endpoint of this process.
    pub(crate) fn new(topic: &str, payload: TypeName, endpoint: Endpoint) -> Self {
        Self { topic: topic.into(), payload, endpoint, process: Some(std::process::id()) }
    }

    /// Returns whether the publisher's process is stopped, so that it would not answer.
    pub(super) fn is_stopped(&self) -> bool {
        let other = self.process.filter(|pid| *pid != std::process::id());
        matches!(other.and_then(|pid| state_and_parent(pid).0), Some('T' | 't'))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DiscoveryMessage {
    /// The first message from a node to the host.
    Join {
        version: u32,
    },
    Offer(Offer),
    Withdraw(String),
}

/// The publishers of one node, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers(pub BTreeMap<String, Offer>);

impl Offers {
    /// Applies a change. Returns whether the change had an effect.
    pub(crate) fn change(&mut self, message: &DiscoveryMessage) -> bool {
        match message {
            DiscoveryMessage::Join { .. } => false,
            DiscoveryMessage::Offer(offer) => {
                let address = &offer.endpoint.address;
                self.0.insert(address.clone(), offer.clone()).as_ref() != Some(offer)
            }
            DiscoveryMessage::Withdraw(address) => self.0.remove(address).is_some(),
        }
    }

    /// Returns whether there is room for the offer in the message.
    fn has_room_for(&self, message: &DiscoveryMessage) -> bool {
        match message {
            DiscoveryMessage::Offer(offer) => {
                self.0.len() < OFFERS_MAX || self.0.contains_key(&offer.endpoint.address)
            }
            _ => true,
        }
    }
}

/// A node's handling of the offers of other nodes.
pub(crate) trait OfferSink: Send {
    /// Returns all publishers of this node.
    fn offers(&mut self) -> Offers;
    /// Returns the changes of this node's own publishers since the last call of either function, in
    /// order. `None`: the node has ended.
    fn changes(&mut self) -> Option<Vec<DiscoveryMessage>>;
    /// Returns the time at which [`OfferSink::changes`] must be called again, even without a
    /// change.
    fn wake_at(&self) -> Option<Instant> {
        None
    }
    /// Adds a publisher, which may already be listed.
    fn learn(&mut self, offer: Offer);
    /// Removes a publisher.
    fn forget(&mut self, address: &str);
}

/// Runs until the node has ended. The doorbell rings when the node's offers have changed. With a
/// listener, this node starts as the host.
pub(super) fn run(
    name: &str,
    group: Option<Group>,
    mut listener: Option<Listener>,
    doorbell: &Doorbell,
    mut sink: impl OfferSink,
) {
    let mut last_report = Instant::now();
    let mut violations = violations_in(&format!("domain {name}"));
    loop {
        let started = Instant::now();
        let outcome = match listener.take().map_or_else(|| Listener::unix(name, group), Ok) {
            Ok(listener) => serve(listener, doorbell, &mut sink, &mut violations),
            Err(_) => match socket::connect_unix(name, group) {
                Ok(stream) => {
                    match join(RendezvousPeer::new(stream, None), doorbell, &mut sink, &mut violations) {
                        // The host has no place for this node, or has just died.
                        Ok(false) if started.elapsed() < RETRY => pause(doorbell, &mut sink),
                        outcome => outcome,
                    }
                }
                // Another user has the name, or the owner does not listen yet. The error is
                // reported from time to time.
                Err(error) => {
                    if last_report.elapsed() > Duration::from_secs(5) {
                        log::warn!(target: "stripline::node", "domain {name}: cannot reach the other nodes: {error}");
                        last_report = Instant::now();
                    }
                    pause(doorbell, &mut sink)
                }
            },
        };
        match outcome {
            Ok(false) => {}
            Ok(true) => return,
            Err(error) => {
                log::error!(target: "stripline::node", "domain {name}: nodes cannot find each other any more: {error}");
                return;
            }
        }
    }
}

/// Runs like [`run`] with a connection to the host, until the host has ended. Never becomes the
/// host.
pub(super) fn observe(host: Descriptor<UnixStream>, doorbell: &Doorbell, mut sink: impl OfferSink) {
    let mut violations = violations_in("an observed domain");
    let _ = join(RendezvousPeer::new(host, None), doorbell, &mut sink, &mut violations);
}

fn violations_in(domain: &str) -> ViolationLog {
    ViolationLog::new("stripline::node", domain.into())
}

/// Waits before another attempt. Returns true if the node has ended.
fn pause(doorbell: &Doorbell, sink: &mut impl OfferSink) -> Result<bool> {
    let mut poll_set = PollSet::default();
    poll_set.readable(doorbell.as_fd());
    poll_set.wait(Some(Instant::now() + RETRY))?;
    // The changes can be dropped: the next host gets all offers.
    doorbell.drain();
    Ok(sink.changes().is_none())
}

/// Exchanges offers with a host. Returns true if the node has ended, and false if the host has.
fn join(
    mut host: RendezvousPeer,
    doorbell: &Doorbell,
    sink: &mut impl OfferSink,
    violations: &mut ViolationLog,
) -> Result<bool> {
    host.queue(&DiscoveryMessage::Join { version: VERSION });
    host.queue_all(&sink.offers());
    loop {
        let Some(changes) = sink.changes() else { return Ok(true) };
        changes.iter().for_each(|change| host.queue(change));
        if !host.flush() {
            return Ok(false);
        }
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        poll_set.readable(host.stream.as_fd());
        if !host.is_flushed() {
            poll_set.writable(host.stream.as_fd());
        }
        poll_set.wait(sink.wake_at())?;
        doorbell.drain();
        let messages = match host.receive() {
            Ok(Some(messages)) => messages,
            Ok(None) => return Ok(false),
            Err(violation) => {
                violations.violation("its host", &violation);
                return Ok(false);
            }
        };
        messages.into_iter().for_each(|message| apply(message, sink));
    }
}

/// Serves as the host until the node has ended.
fn serve(
    listener: Listener,
    doorbell: &Doorbell,
    sink: &mut impl OfferSink,
    violations: &mut ViolationLog,
) -> Result<bool> {
    let mut pending = PendingPeers::new(listener, message_length)?;
    pending.poller().add(doorbell.as_fd(), DOORBELL, Interest::Readable)?;
    let mut host = RendezvousHost { own: sink.offers(), ..RendezvousHost::default() };
    loop {
        let Some(changes) = sink.changes() else { return Ok(true) };
        host.change_own(&changes, sink);
        host.watch_room(pending.poller())?;
        let woken = pending.wait(sink.wake_at())?;
        for token in woken.tokens {
            match token {
                DOORBELL => drop(doorbell.drain()),
                token => {
                    if let Some((process, violation)) = host.receive(token, sink) {
                        let process = process.map_or("a node".into(), |process| format!("process {process}"));
                        violations.violation(&process, &violation);
                    }
                }
            }
        }
        for admission in woken.admissions {
            if let Some(peer) = joined(admission, violations)
                && let Some(token) = host.add(peer, sink)
            {
                let added = host.peers[&token].stream.as_fd();
                pending.poller().add(added, token, Interest::Readable)?;
            }
        }
    }
}

/// Returns a node that has joined. Any other peer is closed: the message was not the first message
/// of a node.
fn joined(admission: Admission, violations: &mut ViolationLog) -> Option<RendezvousPeer> {
    match admission {
        Admission::Message { socket, process, message, .. } => match (check_join(message), socket) {
            (Ok(()), Socket::Unix(stream)) => return Some(RendezvousPeer::new(stream, process)),
            (Ok(()), Socket::Tcp(_)) => {}
            (Err(violation), socket) => violations.violation(&name_of(&socket, process), &violation),
        },
        Admission::Rejected { socket, process, refusal } => {
            violations.refused(&name_of(&socket, process), &refusal);
        }
        Admission::Late { socket, process, bytes } if bytes > 0 => {
            let cut = format!("sent {bytes} bytes of a message, and not the rest in time");
            violations.violation(&name_of(&socket, process), &cut);
        }
        Admission::Late { .. } => {}
    }
    None
}

fn apply(message: DiscoveryMessage, sink: &mut impl OfferSink) {
    match message {
        DiscoveryMessage::Join { .. } => {}
        DiscoveryMessage::Offer(offer) => sink.learn(offer),
        DiscoveryMessage::Withdraw(address) => sink.forget(&address),
    }
}

/// The state of the host, with the data to be sent to each of the other nodes.
#[derive(Default)]
pub(crate) struct RendezvousHost {
    /// The nodes, in the order in which they joined.
    peers: BTreeMap<u64, RendezvousPeer>,
    own: Offers,
    next_token: u64,
}

impl RendezvousHost {
    /// Returns the tokens of the nodes that have joined.
    #[cfg(fuzzing)]
    pub(crate) fn peers(&self) -> impl Iterator<Item = u64> {
        self.peers.keys().copied()
    }

    /// Applies changes of this node's own offers and sends them to all other nodes.
    fn change_own(&mut self, changes: &[DiscoveryMessage], sink: &mut impl OfferSink) {
        if changes.is_empty() {
            return;
        }
        for change in changes {
            self.own.change(change);
        }
        let broken = self.broadcast(None, |peer| changes.iter().for_each(|it| peer.queue(it)));
        self.remove(broken, sink);
    }

    /// Adds a node that has joined and sends it all offers. Returns the token of the node, unless
    /// it was closed at once.
    pub(crate) fn add(&mut self, mut peer: RendezvousPeer, sink: &mut impl OfferSink) -> Option<u64> {
        if self.peers.len() >= PEERS_MAX {
            let processes = self.peers.values().map(|peer| peer.process);
            let token = *self.peers.keys().nth(oldest_of_most(processes)?)?;
            // A process cannot take the places of all others. The process keeps the places that it
            // has.
            if self.peers[&token].process == peer.process {
                return None;
            }
            self.remove(vec![token], sink);
        }
        peer.queue_all(&self.own);
        self.peers.values().for_each(|other| peer.queue_all(&other.offers));
        peer.unsent_max += peer.unsent.len();
        if !peer.flush() {
            return None;
        }
        let token = self.next_token;
        self.next_token += 1;
        self.peers.insert(token, peer);
        Some(token)
    }

    /// Receives the messages of a node and forwards them to the others. Sends pending messages to
    /// the node while it has room. If the node is removed for a violation, returns the violation
    /// and the node's process.
    pub(crate) fn receive(&mut self, token: u64, sink: &mut impl OfferSink) -> Option<(Option<u32>, String)> {
        let peer = self.peers.get_mut(&token)?;
        let received = if peer.flush() { peer.receive() } else { Ok(None) };
        let mut messages = match received {
            Ok(Some(messages)) => messages,
            gone => {
                let process = peer.process;
                self.remove(vec![token], sink);
                return gone.err().map(|violation| (process, violation));
            }
        };
        // An offer that the host does not keep could not be withdrawn when the owner dies.
        messages.retain(|message| peer.offers.has_room_for(message) && peer.offers.change(message));
        let broken = self.broadcast(Some(token), |peer| messages.iter().for_each(|it| peer.queue(it)));
        self.remove(broken, sink);
        messages.into_iter().for_each(|message| apply(message, sink));
        None
    }

    /// Waits for room only at the nodes that have not taken all messages.
    fn watch_room(&mut self, poller: &Poller) -> Result<()> {
        for (token, peer) in &mut self.peers {
            let awaits_room = !peer.is_flushed();
            if awaits_room != peer.awaits_room {
                let interest = if awaits_room { Interest::ReadableOrRoom } else { Interest::Readable };
                poller.change(peer.stream.as_fd(), *token, interest)?;
                peer.awaits_room = awaits_room;
            }
        }
        Ok(())
    }

    /// Sends messages to all nodes but one. Returns the nodes that have to be closed.
    fn broadcast(&mut self, except: Option<u64>, queue: impl Fn(&mut RendezvousPeer)) -> Vec<u64> {
        let others = self.peers.iter_mut().filter(|(token, _)| Some(**token) != except);
        let sent = others.map(|(token, peer)| {
            queue(peer);
            (*token, peer.flush())
        });
        sent.filter(|(_, is_open)| !is_open).map(|(token, _)| token).collect()
    }

    /// Removes nodes and their offers, and also every node to which the withdrawals cannot be sent.
    fn remove(&mut self, mut tokens: Vec<u64>, sink: &mut impl OfferSink) {
        while let Some(token) = tokens.pop() {
            let Some(peer) = self.peers.remove(&token) else { continue };
            let withdrawals: Vec<_> = peer.offers.0.into_keys().map(DiscoveryMessage::Withdraw).collect();
            tokens.extend(self.broadcast(None, |peer| withdrawals.iter().for_each(|it| peer.queue(it))));
            withdrawals.into_iter().for_each(|message| apply(message, sink));
        }
    }
}

/// The other end of a connection between a node and the host.
pub(crate) struct RendezvousPeer {
    stream: Descriptor<UnixStream>,
    process: Option<u32>,
    received: Vec<u8>,
    offers: Offers,
    /// Messages that the other end has not taken in full.
    unsent: Vec<u8>,
    /// The number of bytes of `unsent` that the other end has taken.
    taken: usize,
    /// The most bytes that may wait.
    unsent_max: usize,
    /// Whether the host waits for room at this peer.
    awaits_room: bool,
}

impl RendezvousPeer {
    pub(crate) fn new(stream: Descriptor<UnixStream>, process: Option<u32>) -> Self {
        // If the stream cannot be made non-blocking, the first use fails.
        let _ = stream.set_nonblocking(true);
        let (received, offers, unsent) = Default::default();
        let (taken, unsent_max, awaits_room) = (0, UNSENT_MAX, false);
        Self { stream, process, received, offers, unsent, taken, unsent_max, awaits_room }
    }

    /// Adds all offers of a node to the unsent messages.
    fn queue_all(&mut self, offers: &Offers) {
        offers.0.values().for_each(|offer| self.queue(&DiscoveryMessage::Offer(offer.clone())));
    }

    /// Adds a message to the unsent messages.
    fn queue(&mut self, message: &DiscoveryMessage) {
        if let Ok(bytes) = messages::framed(message) {
            self.unsent.extend_from_slice(&bytes);
        }
    }

    /// Returns whether the other end has taken everything.
    fn is_flushed(&self) -> bool {
        self.taken == self.unsent.len()
    }

    /// Sends as many bytes as there is room for. Returns false if the peer must be closed because
    /// it has hung up or does not read.
    fn flush(&mut self) -> bool {
        while !self.is_flushed() {
            match (&*self.stream).write(&self.unsent[self.taken..]) {
                Ok(written) => self.taken += written,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        // A removal never moves more bytes than it removes.
        if self.taken >= self.unsent.len() - self.taken {
            self.unsent.drain(..self.taken);
            self.taken = 0;
        }
        self.unsent.len() - self.taken <= self.unsent_max
    }

    /// Returns the messages that have arrived; `None`: the other end has hung up.
    ///
    /// # Errors
    /// A description of the other end's violation.
    fn receive(&mut self) -> Result<Option<Vec<DiscoveryMessage>>, String> {
        let mut piece = [0; 4096];
        let has_ended = loop {
            match (&*self.stream).read(&mut piece) {
                Ok(0) => break true,
                Ok(read) => self.received.extend_from_slice(&piece[..read]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
            if self.received.len() > 64 * MESSAGE_MAX {
                break false;
            }
        };
        let mut messages = Vec::new();
        messages::take(&mut self.received, MESSAGE_MAX, &mut messages).map_err(unreadable)?;
        // When a node has left, the last offers are dropped with the node.
        Ok(Some(messages).filter(|_| !has_ended))
    }
}

/// Returns the length of the message that begins with these bytes, including the prefix.
///
/// The prefix is four bytes with the length of the text.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MESSAGE_MAX {
        return Err(format!("announced a message of {length} bytes (at most {MESSAGE_MAX} are allowed)"));
    }
    Ok(Some(4 + length))
}

/// Checks that a first message joins the domain.
///
/// # Errors
/// A description of the other end's violation.
fn check_join(mut message: Vec<u8>) -> Result<(), String> {
    let mut messages = Vec::new();
    messages::take(&mut message, MESSAGE_MAX, &mut messages).map_err(unreadable)?;
    match messages[..] {
        [DiscoveryMessage::Join { version: VERSION }] => Ok(()),
        [DiscoveryMessage::Join { version }] => {
            Err(format!("uses version {version} of the messages of domains, not {VERSION}"))
        }
        _ => Err("did not begin with a join".into()),
    }
}

fn unreadable(error: std::io::Error) -> String {
    format!("sent something other than a message of a domain: {error}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::sys::own_process::{in_own_process, logged};
    use crate::sys::socket_names;

    /// The offers that a node has discovered, and the number of offers that it has removed.
    #[derive(Default)]
    struct Learned(Vec<Offer>, usize);

    impl OfferSink for Learned {
        fn offers(&mut self) -> Offers {
            Offers::default()
        }

        fn changes(&mut self) -> Option<Vec<DiscoveryMessage>> {
            Some(Vec::new())
        }

        fn learn(&mut self, offer: Offer) {
            self.0.push(offer);
        }

        fn forget(&mut self, _: &str) {
            self.1 += 1;
        }
    }

    fn offers(count: usize) -> Vec<Offer> {
        let payload = TypeName::of::<f32>();
        let endpoint = |number| Endpoint {
            transport: "uds".into(),
            address: format!("stripline-{number:016x}"),
            keys: [1, 2],
        };
        (0..count)
            .map(|number| Offer::new(&format!("topic-{number}"), payload.clone(), endpoint(number)))
            .collect()
    }

    fn pair() -> [RendezvousPeer; 2] {
        let (one, other) = UnixStream::pair().unwrap();
        [one, other].map(|stream| RendezvousPeer::new(Descriptor::new(stream), None))
    }

    /// Sends and receives in turn until the sockets' buffers, which hold only a few offers, are
    /// empty.
    #[test]
    fn thousands_of_offers_pass_the_buffers_of_two_sockets() {
        let (mut host, mut sink) = (RendezvousHost::default(), Learned::default());
        let [[at_host, mut giver], [late, mut taker]] = [pair(), pair()];
        let token = host.add(at_host, &mut sink).unwrap();
        let all = offers(4000);
        all.iter().for_each(|offer| giver.queue(&DiscoveryMessage::Offer(offer.clone())));
        assert!(giver.flush() && !giver.is_flushed(), "one buffer takes all");
        while sink.0.len() < all.len() {
            host.receive(token, &mut sink);
            assert!(giver.flush());
        }
        let late = host.add(late, &mut sink).unwrap();
        assert!(!host.peers[&late].is_flushed(), "one buffer takes all");
        let mut learned = Learned::default();
        while learned.0.len() < all.len() {
            taker.receive().unwrap().unwrap().into_iter().for_each(|message| apply(message, &mut learned));
            host.receive(late, &mut sink);
        }
        assert_eq!((&learned.0, &sink.0), (&all, &all));
        // Reporting the end of a node takes just as many messages.
        drop(giver);
        host.receive(token, &mut sink);
        while learned.1 < all.len() {
            taker.receive().unwrap().unwrap().into_iter().for_each(|message| apply(message, &mut learned));
            host.receive(late, &mut sink);
        }
        assert_eq!(sink.1, all.len());
    }

    #[test]
    fn a_node_that_does_not_read_is_closed_in_the_end() {
        let (mut host, mut sink) = (RendezvousHost::default(), Learned::default());
        let [at_host, silent] = pair();
        host.add(at_host, &mut sink).unwrap();
        let mut bytes = 0;
        while !host.peers.is_empty() {
            let are_offered = !host.own.0.is_empty();
            let changes = offers(1000).into_iter().map(|offer| match are_offered {
                true => DiscoveryMessage::Withdraw(offer.endpoint.address),
                false => DiscoveryMessage::Offer(offer),
            });
            host.change_own(&changes.collect::<Vec<_>>(), &mut sink);
            bytes += 1000 * messages::framed(&DiscoveryMessage::Withdraw(String::new())).unwrap().len();
            assert!(bytes < 2 * UNSENT_MAX, "what waits has no bound");
        }
        drop(silent);
    }

    #[test]
    fn what_changes_nothing_is_not_passed_on() {
        let mut own = Offers::default();
        let [first, second] = <[Offer; 2]>::try_from(offers(2)).unwrap();
        let mut changed = first.clone();
        changed.endpoint.keys = [3, 4];
        let messages = [
            (DiscoveryMessage::Offer(first.clone()), true),
            (DiscoveryMessage::Offer(first.clone()), false),
            (DiscoveryMessage::Offer(changed), true),
            (DiscoveryMessage::Withdraw(second.endpoint.address), false),
            (DiscoveryMessage::Withdraw(first.endpoint.address), true),
            (DiscoveryMessage::Join { version: VERSION }, false),
        ];
        for (message, changes) in messages {
            assert_eq!(own.change(&message), changes, "{message:?}");
        }
        assert_eq!(own, Offers::default());
    }

    #[test]
    fn a_node_with_too_many_offers_may_change_those_that_it_has() {
        let mut all = offers(OFFERS_MAX + 1);
        let mut one_more = DiscoveryMessage::Offer(all.pop().unwrap());
        let mut own = Offers::default();
        for offer in all {
            let message = DiscoveryMessage::Offer(offer);
            assert!(own.has_room_for(&message) && own.change(&message));
        }
        assert!(!own.has_room_for(&one_more));
        let address = own.0.keys().next().unwrap().clone();
        let DiscoveryMessage::Offer(offer) = &mut one_more else { unreachable!() };
        offer.endpoint.address.clone_from(&address);
        assert!(own.has_room_for(&one_more) && own.has_room_for(&DiscoveryMessage::Withdraw(address)));
    }

    #[test]
    fn each_malformed_message_of_a_node_or_host_is_logged() {
        let test = "node::rendezvous::tests::each_malformed_message_of_a_node_or_host_is_logged";
        in_own_process(test, "log", send_malformed_messages);
    }

    fn framed(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    /// The offers of a node that ends when the doorbell rings.
    struct UntilRung(Arc<AtomicBool>);

    impl OfferSink for UntilRung {
        fn offers(&mut self) -> Offers {
            Offers::default()
        }

        fn changes(&mut self) -> Option<Vec<DiscoveryMessage>> {
            (!self.0.load(Ordering::Relaxed)).then(Vec::new)
        }

        fn learn(&mut self, _: Offer) {}

        fn forget(&mut self, _: &str) {}
    }

    /// The end of the node, also after a failed assertion.
    struct RingOnDrop<'a>(&'a Doorbell, Arc<AtomicBool>);

    impl Drop for RingOnDrop<'_> {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
            self.0.notify();
        }
    }

    fn send_malformed_messages() {
        let lines = logged();
        let name = format!("stripline-domain-{}", socket_names::unique_suffix().unwrap());
        let (doorbell, over) = (Doorbell::new().unwrap(), Arc::new(AtomicBool::new(false)));
        let join = framed("{\"Join\":{\"version\":1}}");
        let joined = |message: Vec<u8>| [&join[..], &message].concat();
        let cases = [
            (u32::MAX.to_le_bytes().to_vec(), "announced a message of 4294967295 bytes"),
            (framed("hello"), "sent something other than a message of a domain: expected value"),
            (framed("{\"\\u001b[2J\":1}"), "unknown variant `\\u{1b}[2J`"),
            (framed("{\"Withdraw\":\"a\"}"), "did not begin with a join"),
            (framed("{\"Join\":{\"version\":2}}"), "uses version 2 of the messages of domains, not 1"),
            (join[..7].to_vec(), "sent 7 bytes of a message, and not the rest in time"),
            (
                joined(u32::MAX.to_le_bytes().to_vec()),
                "other than a message of a domain: a message of 4294967295 bytes",
            ),
            (
                joined(framed("{\"Offer\":{}}")),
                "sent something other than a message of a domain: missing field `topic`",
            ),
        ];
        std::thread::scope(|scope| {
            let listener = Listener::unix(&name, None).unwrap();
            let (bell, sink) = (&doorbell, UntilRung(Arc::clone(&over)));
            let _end = RingOnDrop(&doorbell, over);
            let host = &name;
            scope.spawn(move || run(host, None, Some(listener), bell, sink));
            for (message, fault) in &cases {
                let stranger = socket::connect_unix(&name, None).unwrap();
                (&*stranger).write_all(message).unwrap();
                // Blocks until the stranger is closed.
                let _ = (&*stranger).read_to_end(&mut Vec::new());
                let line = lines.recv().unwrap();
                let process = std::process::id();
                let blames = format!(
                    "domain {name}: process {process} broke the protocol, so that its connection is closed"
                );
                assert!(line.starts_with(&blames) && line.contains(fault), "{fault}: {line}");
            }
            // Here the stranger hangs up right after the message.
            let stranger = socket::connect_unix(&name, None).unwrap();
            (&*stranger).write_all(&joined(framed("x"))).unwrap();
            drop(stranger);
            assert!(lines.recv().unwrap().contains("sent something other than a message of a domain"));
        });
        // Here the host sends something that is not a discovery message.
        let (host, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(&framed("x")).unwrap();
        observe(Descriptor::new(host), &doorbell, UntilRung(Arc::default()));
        let line = lines.recv().unwrap();
        assert!(line.starts_with("an observed domain: its host broke the protocol"), "{line}");
    }
}
