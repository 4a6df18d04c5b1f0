//! Discovery between nodes without a daemon or a broker.
//!
//! All nodes of a domain use one Unix name. The node that binds it first is the host. The
//! others connect to it, join, send their publishers, and receive those of all others. The domain
//! is one user's, or one group's where it names one: each side checks the kernel's credentials of
//! the other. When the host dies, the kernel reports it to all of them at once. One of them binds
//! the name anew; the others connect to it and send again what they offer. Links between publishers
//! and subscribers are not affected.

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
use crate::sys::pending::{Admission, PendingPeers, oldest_of_most};
use crate::sys::poller::Interest;
use crate::sys::socket::{self, Listener, Socket};
use crate::terms::Group;
use crate::transport::Endpoint;

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 8192;
/// Nodes of a domain that the host serves.
const PEERS_MAX: usize = 1024;
/// Publishers that one node may announce.
const OFFERS_MAX: usize = 4096;
/// Between two attempts to become or to find a host.
const RETRY: Duration = Duration::from_millis(5);
/// The version of these messages.
const VERSION: u32 = 1;
/// The poller's token of the doorbell; those of peers are below it.
const DOORBELL: u64 = 1 << 62;

/// One publisher that subscribers may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub topic: String,
    pub payload: TypeName,
    pub endpoint: Endpoint,
}

#[derive(Debug, Serialize, Deserialize)]
enum DiscoveryMessage {
    /// The first one, from a node to the host.
    Join {
        version: u32,
    },
    Offer(Offer),
    Withdraw(String),
}

/// A node's handling of the offers of other nodes.
pub(crate) trait OfferSink: Send {
    /// Returns this node's own publishers, all of them, and whether the node has ended.
    fn offers(&mut self) -> (Vec<Offer>, bool);
    /// Adds a publisher, which may be there already.
    fn learn(&mut self, offer: Offer);
    /// Removes a publisher.
    fn forget(&mut self, address: &str);
}

/// Runs until the node has ended; the doorbell rings when its offers have changed. With a listener
/// this node begins as the host.
pub(super) fn run(
    name: &str,
    group: Option<Group>,
    mut listener: Option<Listener>,
    doorbell: &Doorbell,
    mut sink: impl OfferSink,
) {
    let mut last_report = Instant::now();
    loop {
        let started = Instant::now();
        let outcome = match listener.take().map_or_else(|| Listener::unix(name, group), Ok) {
            Ok(listener) => serve(listener, doorbell, &mut sink),
            Err(_) => match socket::connect_unix(name, group) {
                Ok(stream) => match join(RendezvousPeer::new(stream, None), doorbell, &mut sink) {
                    // The host has no place for this node, or has just died.
                    Ok(false) if started.elapsed() < RETRY => pause(doorbell, &mut sink),
                    outcome => outcome,
                },
                // Another user has the name, or its owner does not listen yet: reported at times.
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

/// Does as [`run`], but never as the host: until that one has ended.
pub(super) fn observe(name: &str, group: Option<Group>, doorbell: &Doorbell, mut sink: impl OfferSink) {
    if let Ok(stream) = socket::connect_unix(name, group) {
        let _ = join(RendezvousPeer::new(stream, None), doorbell, &mut sink);
    }
}

/// Waits before another attempt; true: the node has ended.
fn pause(doorbell: &Doorbell, sink: &mut impl OfferSink) -> Result<bool> {
    let mut poll_set = PollSet::default();
    poll_set.readable(doorbell.as_fd());
    // The bell may go on ringing: changed offers are sent to the next host as a whole.
    poll_set.wait(Some(Instant::now() + RETRY)).map(|_| sink.offers().1)
}

/// Exchanges offers with a host; true: the node has ended; false: the host has.
fn join(mut host: RendezvousPeer, doorbell: &Doorbell, sink: &mut impl OfferSink) -> Result<bool> {
    if !host.send(&DiscoveryMessage::Join { version: VERSION }) {
        return Ok(false);
    }
    let mut sent: Vec<Offer> = Vec::new();
    loop {
        let (offers, ended) = sink.offers();
        if ended {
            return Ok(true);
        }
        if !host.send_changes(&sent, &offers) {
            return Ok(false);
        }
        sent = offers;
        let mut poll_set = PollSet::default();
        poll_set.readable(doorbell.as_fd());
        poll_set.readable(host.stream.as_fd());
        poll_set.wait(None)?;
        doorbell.drain();
        let Some(messages) = host.receive() else { return Ok(false) };
        messages.into_iter().for_each(|message| apply(message, sink));
    }
}

/// Serves as the host until the node has ended.
fn serve(listener: Listener, doorbell: &Doorbell, sink: &mut impl OfferSink) -> Result<bool> {
    let mut pending = PendingPeers::new(listener, message_length)?;
    pending.poller().add(doorbell.as_fd(), DOORBELL, Interest::Readable)?;
    let mut host = RendezvousHost::default();
    loop {
        let (offers, ended) = sink.offers();
        if ended {
            return Ok(true);
        }
        host.set_own(offers, sink);
        let woken = pending.wait()?;
        for token in woken.tokens {
            match token {
                DOORBELL => drop(doorbell.drain()),
                token => host.receive(token, sink),
            }
        }
        for admission in woken.admissions {
            // All others are closed: what they sent was no first message of a node.
            if let Admission::Message { socket: Socket::Unix(stream), process, message, .. } = admission
                && is_join(message)
            {
                let peer = RendezvousPeer::new(stream, process);
                if let Some(token) = host.add(peer, sink) {
                    let added = host.peers[&token].stream.as_fd();
                    pending.poller().add(added, token, Interest::Readable)?;
                }
            }
        }
    }
}

fn apply(message: DiscoveryMessage, sink: &mut impl OfferSink) {
    match message {
        DiscoveryMessage::Join { .. } => {}
        DiscoveryMessage::Offer(offer) => sink.learn(offer),
        DiscoveryMessage::Withdraw(address) => sink.forget(&address),
    }
}

/// The host's state: what it sends to each of the other nodes.
#[derive(Default)]
pub(crate) struct RendezvousHost {
    /// In the order in which they joined.
    peers: BTreeMap<u64, RendezvousPeer>,
    own: Vec<Offer>,
    next_token: u64,
}

impl RendezvousHost {
    /// Returns the tokens of the nodes that have joined.
    #[cfg(fuzzing)]
    pub(crate) fn peers(&self) -> impl Iterator<Item = u64> {
        self.peers.keys().copied()
    }

    /// Sends what has changed of this node's own offers to all others.
    fn set_own(&mut self, offers: Vec<Offer>, sink: &mut impl OfferSink) {
        if offers == self.own {
            return;
        }
        let before = std::mem::replace(&mut self.own, offers);
        let broken = self.unreachable(None, |peer| peer.send_changes(&before, &self.own));
        self.remove(broken, sink);
    }

    /// Adds a node that has joined, and sends it all offers. Returns its token, unless it was
    /// closed at once.
    pub(crate) fn add(&mut self, peer: RendezvousPeer, sink: &mut impl OfferSink) -> Option<u64> {
        if self.peers.len() >= PEERS_MAX {
            let processes = self.peers.values().map(|peer| peer.process);
            let token = *self.peers.keys().nth(oldest_of_most(processes)?)?;
            // One process cannot take the places of all others, but it keeps what it had.
            if self.peers[&token].process == peer.process {
                return None;
            }
            self.remove(vec![token], sink);
        }
        let offers: Vec<Offer> =
            self.own.iter().chain(self.peers.values().flat_map(|peer| &peer.offers)).cloned().collect();
        if !peer.send_changes(&[], &offers) {
            return None;
        }
        let token = self.next_token;
        self.next_token += 1;
        self.peers.insert(token, peer);
        Some(token)
    }

    /// Receives what a node has sent and forwards it to the others.
    pub(crate) fn receive(&mut self, token: u64, sink: &mut impl OfferSink) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let Some(messages) = peer.receive() else { return self.remove(vec![token], sink) };
        for message in messages {
            let Some(peer) = self.peers.get_mut(&token) else { return };
            if peer.note(&message) {
                let broken = self.unreachable(Some(token), |peer| peer.send(&message));
                self.remove(broken, sink);
                apply(message, sink);
            }
        }
    }

    /// Sends to all nodes but one, and returns those to which that failed.
    fn unreachable(&self, except: Option<u64>, send: impl Fn(&RendezvousPeer) -> bool) -> Vec<u64> {
        let others = self.peers.iter().filter(|(token, _)| Some(**token) != except);
        others.filter(|(_, peer)| !send(peer)).map(|(token, _)| *token).collect()
    }

    /// Removes nodes with what they offered, and those to which this cannot be sent.
    fn remove(&mut self, mut tokens: Vec<u64>, sink: &mut impl OfferSink) {
        while let Some(token) = tokens.pop() {
            let Some(peer) = self.peers.remove(&token) else { continue };
            for offer in peer.offers {
                let message = DiscoveryMessage::Withdraw(offer.endpoint.address);
                tokens.extend(self.unreachable(None, |peer| peer.send(&message)));
                apply(message, sink);
            }
        }
    }
}

/// The other end of a connection between a node and the host.
pub(crate) struct RendezvousPeer {
    stream: Descriptor<UnixStream>,
    process: Option<u32>,
    received: Vec<u8>,
    offers: Vec<Offer>,
}

impl RendezvousPeer {
    pub(crate) fn new(stream: Descriptor<UnixStream>, process: Option<u32>) -> Self {
        // A stream that cannot be made non-blocking fails at its first use.
        let _ = stream.set_nonblocking(true);
        Self { stream, process, received: Vec::new(), offers: Vec::new() }
    }

    /// Sends the difference between two lists of offers; false: the other end has to be closed.
    fn send_changes(&self, before: &[Offer], now: &[Offer]) -> bool {
        let gone = before.iter().filter(|offer| !now.contains(offer));
        let withdrawn = gone.map(|offer| DiscoveryMessage::Withdraw(offer.endpoint.address.clone()));
        let new = now.iter().filter(|offer| !before.contains(offer)).cloned().map(DiscoveryMessage::Offer);
        withdrawn.chain(new).all(|message| self.send(&message))
    }

    /// Sends a message. Returns false if the other end has to be closed: it does not read, or part
    /// of a message has been sent to it.
    fn send(&self, message: &DiscoveryMessage) -> bool {
        let Ok(bytes) = messages::framed(message) else { return true };
        // Messages are few and small: an end with a full buffer does not read.
        matches!((&*self.stream).write(&bytes), Ok(written) if written == bytes.len())
    }

    /// Records an offer of the node, or its end. Returns false if the message changes nothing, or
    /// is one offer too many.
    fn note(&mut self, message: &DiscoveryMessage) -> bool {
        match message {
            DiscoveryMessage::Join { .. } => false,
            // An offer that is not kept could not be withdrawn when its owner dies.
            DiscoveryMessage::Offer(offer) => {
                let is_new = self.offers.len() < OFFERS_MAX && !self.offers.contains(offer);
                if is_new {
                    self.offers.push(offer.clone());
                }
                is_new
            }
            DiscoveryMessage::Withdraw(address) => {
                self.offers.retain(|offer| offer.endpoint.address != *address);
                true
            }
        }
    }

    /// Returns the messages that have arrived; `None`: the other end hung up or broke the protocol.
    fn receive(&mut self) -> Option<Vec<DiscoveryMessage>> {
        let mut piece = [0; 4096];
        loop {
            match (&*self.stream).read(&mut piece) {
                Ok(0) => return None,
                Ok(read) => self.received.extend_from_slice(&piece[..read]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            if self.received.len() > 64 * MESSAGE_MAX {
                break;
            }
        }
        let mut messages = Vec::new();
        messages::take(&mut self.received, MESSAGE_MAX, &mut messages).ok()?;
        Some(messages)
    }
}

/// Returns the length of the message that begins with these bytes, with its prefix.
///
/// The prefix is four bytes, the length of the text.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MESSAGE_MAX {
        return Err(format!("announced a message of {length} bytes (at most {MESSAGE_MAX} are allowed)"));
    }
    Ok(Some(4 + length))
}

fn is_join(mut message: Vec<u8>) -> bool {
    let mut messages = Vec::new();
    let taken = messages::take(&mut message, MESSAGE_MAX, &mut messages);
    taken.is_ok() && matches!(messages[..], [DiscoveryMessage::Join { version: VERSION }])
}
