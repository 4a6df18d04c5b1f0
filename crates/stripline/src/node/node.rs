//! A process's membership in a domain of topics.

use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::link::policy;
use crate::link::{
    ConnectionOptions, ConnectionReport, Incoming, Outgoing, PortBuilder, PortEvent, PortEvents,
};
use crate::packet::content::{DynamicForm, PortName, PortType};
use crate::packet::payload::{Content, TypeName};
use crate::sys::doorbell::Doorbell;
use crate::sys::fork::Local;
use crate::sys::mutex::lock;
use crate::sys::socket::{Listener, connect_unix_at_once};
use crate::sys::socket_place::SocketPlace;
use crate::sys::thread::JoinedThread;
use crate::terms::{Group, LinkOptions, SenderOptions};
use crate::transport::{self, ConnectRequest, Endpoint, StopToken, handshake::is_late};

use super::connection_log::ConnectionLog;
use super::domain::{check_domain, domain_of_environment, rendezvous_name};
use super::node_state::NodeState;
use super::rendezvous::{self, DiscoveryMessage, Offer, OfferSink, Offers};
use super::subscription::{FirstAttempts, OfferConsumer, Subscription};
use super::topics::check_topic;
use super::{Publisher, Subscriber, Topics};

/// The interval between two attempts to connect to a publisher that does not answer.
const RETRY: Duration = Duration::from_millis(250);

/// A node connects publishers and subscribers of the same topic without a daemon, across all
/// processes of a user or of the members of a group (see [`Topics`]).
///
/// Nodes meet in a *domain*: nodes with the same domain name discover each other. [`Topics`] select
/// the transport of each topic.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::Node;
///
/// let node = Node::isolated()?;
/// let mut publisher = node.publisher::<i16>("audio")?;
/// let mut subscriber = node.subscriber::<i16>("audio")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// assert_eq!(&*subscriber.receive()?.expect("a packet"), [1, 2, 3]);
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Node {
    _thread: Local<JoinedThread>,
    pub(super) shared: Local<Arc<NodeShared>>,
}

pub(super) struct NodeShared {
    pub(super) topics: Topics,
    doorbell: Doorbell,
    stop: StopToken,
    pub(super) state: Mutex<NodeState>,
}

/// A subscriber as a consumer of offers.
struct SubscribedPort {
    shared: Weak<NodeShared>,
    payload: TypeName,
    events: Weak<PortEvents>,
}

impl OfferConsumer for SubscribedPort {
    fn is_there(&self) -> bool {
        self.events.strong_count() > 0
    }

    fn wants(&self, payload: &TypeName) -> bool {
        // A server of calls is not a topic, even under the same name.
        calls_payload().map_or(true, |marker| *payload != marker)
    }

    fn takes(&self) -> Option<&TypeName> {
        Some(&self.payload)
    }

    fn set_refused(&self, refused: Vec<RefusedSender>) {
        if let Some(events) = self.events.upgrade() {
            events.set_refused(refused);
        }
    }

    fn report_refused(&self, offer: &Offer, error: Error) {
        let Some(shared) = self.shared.upgrade() else { return };
        if shared.topics.of(&offer.topic).refusal_is_error
            && let Some(events) = self.events.upgrade()
        {
            events.push(PortEvent::Refused(error));
        }
    }

    fn connect(&self, offer: &Offer, connection: &str) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        // The receiver is kept until this function returns: if the port leaves before that, the
        // goodbye follows with the connection.
        let Some(events) = self.events.upgrade() else { return Ok(()) };
        let options = shared.topics.of(&offer.topic).link_of(&self.payload);
        let request = ConnectRequest::new(connection.into(), self.payload.clone(), options);
        let inlet = policy::connect(&offer.endpoint, &request)?;
        events.push(PortEvent::Connected(request.connection, inlet));
        Ok(())
    }
}

impl Node {
    /// Joins the domain named by the environment variable `STRIPLINE_DOMAIN` (`default` if the
    /// variable is unset). Topics are read from the file named by `STRIPLINE_TOPICS`, if it is set.
    /// Sockets are in the folder named by `STRIPLINE_RUNTIME_DIR`, if it is set, so that programs
    /// in other containers can be found.
    ///
    /// # Errors
    /// An invalid file, domain or folder, with the variable's name; too few descriptors or threads.
    ///
    /// ```no_run
    /// let node = stripline::node::Node::new()?;
    /// let mut levels = node.subscriber::<f32>("levels")?; // From any process of this user and domain.
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn new() -> Result<Self> {
        let domain = domain_of_environment()?;
        let topics = match std::env::var_os("STRIPLINE_TOPICS") {
            Some(path) => Topics::load(path.as_ref())
                .map_err(|e| Error::Configuration(format!("topics file of STRIPLINE_TOPICS: {e}")))?,
            None => Topics::default(),
        };
        Self::join(&domain, topics)
    }

    /// Joins a private domain: nothing outside this node is connected. For tests and examples.
    ///
    /// # Errors
    /// Same as [`Node::new`].
    pub fn isolated() -> Result<Self> {
        Self::join(&format!("{:016x}", transport::random()?), Topics::default())
    }

    /// Joins the domain with the given name: 1 to 64 letters, digits, `-` and `_`. The domain
    /// belongs to this user, or to a group if the topics' `[domain]` names one. Domains of
    /// different owners are separate even under the same name.
    ///
    /// # Errors
    /// An invalid name, or a name that another user has taken; a group that this process is not in.
    /// Otherwise the same as [`Node::new`].
    ///
    /// ```
    /// use stripline::node::{Node, Topics};
    ///
    /// let domain = format!("bench-{}", std::process::id());
    /// let node = Node::join(&domain, Topics::parse("[topic.spectrum]\ntransport = 'inproc'")?)?;
    /// assert!(Node::join("no spaces", Topics::default()).is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn join(domain: &str, topics: Topics) -> Result<Self> {
        // The name is bound before this returns, so that other nodes find the domain from then on.
        let listen = |name: &str, group| match Listener::unix(name, group) {
            Ok(listener) => Ok(Some(listener)),
            // If the folder cannot hold sockets, a later attempt would fail too.
            Err(error) if SocketPlace::is_folder() && !is_taken(&error) => Err(error),
            // A stranger that holds the name would keep this node apart from the others.
            Err(_) => match connect_unix_at_once(name, group) {
                Err(stranger @ Error::PeerMisbehaved { .. }) => Err(Error::of_system(format!(
                    "domain `{domain}`: another user has taken the name ({stranger}); choose another domain, or \
                     set STRIPLINE_RUNTIME_DIR to a folder of this user"
                ))),
                Ok(_) | Err(_) => Ok(None),
            },
        };
        Self::enter(domain, topics, listen, rendezvous::run)
    }

    /// Observes a domain of this user that another process has opened. This node never becomes the
    /// rendezvous host, and stops when the host has gone.
    ///
    /// # Errors
    /// Same as [`Node::new`]; also if the host is missing or belongs to another user. `WouldBlock`
    /// within [`Error::System`] when the queue of the host's listener is full.
    pub(crate) fn observe(domain: &str) -> Result<Self> {
        let connect = |name: &str, group| connect_unix_at_once(name, group).map(|(host, _)| host);
        let meet = |_: &str, _, host, doorbell: &Doorbell, keeper: NodeOffers| {
            let stop = keeper.0.stop.clone();
            rendezvous::observe(host, doorbell, keeper);
            stop.stop();
        };
        Self::enter(domain, Topics::default(), connect, meet)
    }

    /// Joins a domain. `prepare` runs on this thread. `meet` runs on the node's thread and gets the
    /// value that `prepare` returned.
    fn enter<P: Send + 'static>(
        domain: &str,
        topics: Topics,
        prepare: impl FnOnce(&str, Option<Group>) -> Result<P>,
        meet: impl FnOnce(&str, Option<Group>, P, &Doorbell, NodeOffers) + Send + 'static,
    ) -> Result<Self> {
        check_domain(domain)?;
        let group = topics.group();
        let name = rendezvous_name(domain, group)?;
        topics.show();
        let shared = Arc::new(NodeShared {
            topics,
            doorbell: Doorbell::new()?,
            stop: StopToken::new()?,
            state: Mutex::default(),
        });
        let node = Arc::clone(&shared);
        let prepared = prepare(&name, group)?;
        let run = move || meet(&name, group, prepared, &node.doorbell.clone(), NodeOffers(node));
        let thread = JoinedThread::spawn("stripline-node", run)?;
        Ok(Self { shared: Local::new(shared), _thread: Local::new(thread) })
    }

    /// Creates a publisher on a topic. The content is samples of a Rust type, messages
    /// ([`Cbor`](crate::payload::Cbor)), or a type by value ([`Dynamic`](crate::payload::Dynamic)).
    ///
    /// # Errors
    /// A name that is empty, has more than 255 bytes or contains control characters; a missing
    /// transport; a lack of memory or descriptors. [`Error::Port`] for samples without a size, or
    /// aligned to more than 16 bytes, and for `Dynamic` content without a type or a size.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::{Cbor, Dynamic, SampleType, TypeName};
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut audio = node.publisher::<Dynamic>(("audio", &SampleType::parse("s16")?))?;
    /// let mut samples = node.subscriber::<i16>("audio")?;
    /// audio.wait_for_receivers(1, Duration::from_secs(5))?;
    /// audio.send(&[1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat())?;
    /// assert_eq!(*samples.receive()?.expect("a packet"), [1, 2]);
    /// let error = audio.send(&[0; 3]).unwrap_err().to_string();
    /// assert!(error.contains("cannot send 3 bytes: its samples have 2 bytes each"), "{error}");
    ///
    /// // A program that encodes messages itself sends their bytes.
    /// let mut count = node.publisher::<Dynamic>(("count", &TypeName::parse("message/cbor(u32)")?))?;
    /// let mut messages = node.subscriber::<Cbor<u32>>("count")?;
    /// count.wait_for_receivers(1, Duration::from_secs(5))?;
    /// count.send(&[0x18, 0x2a])?;
    /// assert_eq!(messages.receive()?.expect("a message").decode()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publisher<'a, C: Content>(&self, topic: impl Into<PortName<'a, C>>) -> Result<Publisher<C>> {
        let PortName { name, given, .. } = topic.into();
        let (payload, PortType { form, .. }) = port_type::<C>(name, given)?;
        Ok(Publisher::of(self.outgoing(name, payload.clone())?, None, form).checked(&payload))
    }

    /// Creates a subscriber to a topic, connected to every present and future publisher. A
    /// publisher of another type is refused: see [`Subscriber::refusals`].
    ///
    /// # Errors
    /// Same as [`Node::publisher`].
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use stripline::payload::{Cbor, NoSchema};
    ///
    /// #[derive(Serialize, Deserialize, stripline::Message)]
    /// struct Tune { hz: f64 }
    ///
    /// #[derive(Serialize, Deserialize, stripline::Message)]
    /// #[message(name = "tune")]
    /// struct OldTune { mhz: f64 }
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let _publisher = node.publisher::<Cbor<Tune>>("tune")?;
    /// let _new = node.subscriber::<Cbor<Tune>>("tune")?;
    /// let _untyped = node.subscriber::<Cbor<Tune, NoSchema>>("tune")?;
    /// let _old = node.subscriber::<Cbor<OldTune>>("tune")?;
    /// let [(_, reason)] = &node.refused_connections()[..] else { panic!("one is refused") };
    /// assert!(reason.contains("message/tune{hz:f64}, not message/tune{mhz:f64}"), "{reason}");
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn subscriber<'a, C: Content>(&self, topic: impl Into<PortName<'a, C>>) -> Result<Subscriber<C>> {
        let PortName { name, given, .. } = topic.into();
        let (payload, PortType { sample_bytes, form, .. }) = port_type::<C>(name, given)?;
        let subscriber = Subscriber::of(self.incoming(name, payload, sample_bytes)?, form);
        Ok(subscriber.with_dispatch(self.shared.topics.of(name).dispatch))
    }

    /// Stops this node: blocking calls of its publishers and subscribers return [`Error::Stopped`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// node.stop();
    /// assert!(matches!(subscriber.receive(), Err(stripline::Error::Stopped)));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn stop(&self) {
        if self.shared.is_current() {
            self.shared.stop.stop();
        }
    }

    /// The most ended connections that [`Node::connections`] still lists.
    pub const ENDED_MAX: usize = ConnectionLog::ENDED_MAX;

    /// Returns the counters of every connection to this node's subscribers, and of the last
    /// [`Node::ENDED_MAX`] connections that have ended. The list is empty in a child of a fork.
    pub fn connections(&self) -> Vec<ConnectionReport> {
        if self.shared.is_current() { lock(&self.shared.state).log.listed() } else { Vec::new() }
    }

    /// Returns how many ended connections [`Node::connections`] no longer lists, and the sums of
    /// their counters, under an empty name.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// assert_eq!(node.ended_connection_totals(), (0, Default::default()));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn ended_connection_totals(&self) -> (u64, ConnectionReport) {
        if self.shared.is_current() { lock(&self.shared.state).log.unlisted() } else { Default::default() }
    }

    /// Returns the refused connections and the reasons, for example because the other side has
    /// another payload type. The list is empty in a child of a fork.
    ///
    /// A refused connection is listed for as long as it is offered.
    ///
    /// ```
    /// use stripline::node::Node;
    ///
    /// let node = Node::isolated()?;
    /// let _publisher = node.publisher::<f32>("levels")?;
    /// let _subscriber = node.subscriber::<i16>("levels")?;
    /// let [(connection, reason)] = &node.refused_connections()[..] else { panic!("one is refused") };
    /// assert!(connection.ends_with("-> levels"));
    /// assert!(reason.contains("type f32, not s16"), "{reason}");
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refused_connections(&self) -> Vec<(String, String)> {
        if !self.shared.is_current() {
            return Vec::new();
        }
        let state = lock(&self.shared.state);
        let all = state.subscriptions.values().flatten();
        let living = all.filter(|subscription| subscription.consumer.is_there());
        let refused = living.flat_map(|subscription| &subscription.refused);
        let offered = refused.filter(|(endpoint, _)| state.is_known(endpoint));
        offered.map(|(_, refused)| (refused.connection.clone(), refused.reason.clone())).collect()
    }

    /// Checks that this process made the node.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made it.
    pub(crate) fn check_own(&self) -> Result<()> {
        self.shared.check(|| "a node".into())
    }

    pub(super) fn outgoing(&self, topic: &str, payload: TypeName) -> Result<Outgoing> {
        self.check_own()?;
        check_topic(topic)?;
        let options = self.shared.topics.of(topic);
        let any_build = options.allows(&payload);
        let rules = SenderOptions { any_build, ..SenderOptions::from(&options.link) };
        let mut port = PortBuilder::new(topic, rules, &self.shared.stop);
        let endpoint = port.bind(&options.transport, &payload, rules)?;
        let guard = self.offer(Offer::new(topic, payload, endpoint));
        let mut outgoing = port.build(options.sampling);
        outgoing.hold(guard);
        Ok(outgoing)
    }

    /// Connects a consumer to every offer with that name, now and later. Existing offers are
    /// connected when the returned first attempts have been waited for, except offers that do not
    /// answer.
    #[must_use = "the offers at hand are connected after its wait"]
    pub(crate) fn subscribe(&self, topic: &str, consumer: Arc<dyn OfferConsumer>) -> FirstAttempts {
        let mut state = lock(&self.shared.state);
        let wanted = |offer: &&Offer| offer.topic == topic && consumer.wants(&offer.payload);
        let known: Vec<Offer> = state.known.values().filter(wanted).cloned().collect();
        let connected = known.iter().map(|offer| offer.endpoint.clone()).collect();
        state.subscribe(topic, Subscription::new(Arc::clone(&consumer), connected));
        drop(state);
        let tasks =
            known.into_iter().map(|offer| ConnectTask::new(&self.shared, offer, Arc::clone(&consumer)));
        ConnectTask::run_all(tasks)
    }

    /// Offers an endpoint to the domain until the returned guard is dropped.
    pub(crate) fn offer(&self, offer: Offer) -> impl Send + 'static {
        lock(&self.shared.state).change_own(DiscoveryMessage::Offer(offer.clone()));
        let guard = OfferGuard { shared: Arc::clone(&self.shared), address: offer.endpoint.address.clone() };
        // The node's own subscribers need not wait for the rendezvous.
        self.shared.learn(offer, Timing::Inline);
        self.shared.doorbell.notify();
        guard
    }

    /// Returns a handle that reconnects a consumer after it has lost a connection that is still
    /// offered.
    pub(crate) fn reconnector(&self) -> Reconnector {
        Reconnector(Arc::downgrade(&self.shared))
    }

    /// Returns the names and endpoints of the offers discovered so far with that payload type.
    pub(crate) fn known_offers(&self, payload: &TypeName) -> Vec<(String, Endpoint)> {
        let state = lock(&self.shared.state);
        let those = state.known.values().filter(|offer| offer.payload == *payload);
        those.map(|offer| (offer.topic.clone(), offer.endpoint.clone())).collect()
    }

    pub(crate) fn topics(&self) -> &Topics {
        &self.shared.topics
    }

    pub(crate) fn stop_token(&self) -> &StopToken {
        &self.shared.stop
    }

    pub(super) fn incoming(
        &self,
        topic: &str,
        payload: TypeName,
        sample_bytes: Option<usize>,
    ) -> Result<Incoming> {
        self.check_own()?;
        check_topic(topic)?;
        let events = Arc::new(PortEvents::new()?);
        let port_events = Arc::downgrade(&events);
        let port = SubscribedPort { shared: Arc::downgrade(&self.shared), payload, events: port_events };
        let attempts = self.subscribe(topic, Arc::new(port));
        let shared = Arc::clone(&self.shared);
        let options = self.shared.topics.of(topic).link;
        let terms_for = Arc::new(move |name: &str| {
            let connection_options = ConnectionOptions::new(&options);
            lock(&shared.state).log.open(name, &connection_options.stats);
            connection_options
        });
        let stop = self.shared.stop.clone();
        let mut incoming = Incoming::new(topic.into(), events, terms_for, stop, true, sample_bytes);
        incoming.say_goodbye_on_drop();
        if options.resequence.is_some() {
            incoming.resequence(None);
        }
        attempts.wait_for(&mut incoming);
        Ok(incoming)
    }
}

impl Drop for Node {
    /// Leaves the domain; connected publishers and subscribers stay connected.
    fn drop(&mut self) {
        // In a forked child, the parent's node stays in the domain.
        if !self.shared.is_current() {
            return;
        }
        lock(&self.shared.state).over = true;
        self.shared.doorbell.notify();
    }
}

impl NodeShared {
    /// Connects every consumer that wants the offer and is not connected to it.
    fn learn(self: &Arc<Self>, offer: Offer, timing: Timing) {
        let wanted: Vec<Arc<dyn OfferConsumer>> = {
            let mut state = lock(&self.state);
            let address = &offer.endpoint.address;
            if state.known.get(address).is_some_and(|known| *known != offer) {
                state.forget(address);
            }
            state.known.insert(address.clone(), offer.clone());
            let wanting = state.subscriptions_to(&offer.topic).filter_map(|subscription| {
                let wants = subscription.consumer.wants(&offer.payload)
                    && subscription.connected.insert(offer.endpoint.clone());
                wants.then(|| Arc::clone(&subscription.consumer))
            });
            wanting.collect()
        };
        let is_stopped = !wanted.is_empty() && offer.is_stopped();
        for consumer in wanted {
            if is_stopped {
                self.connect_later(offer.clone(), consumer);
                continue;
            }
            let task = ConnectTask::new(self, offer.clone(), consumer);
            if matches!(timing, Timing::Background) || !task.attempt() {
                task.run_in_background(None);
            }
        }
    }

    /// Leaves the attempt to the node's thread, which connects once the stopped process continues.
    fn connect_later(&self, offer: Offer, consumer: Arc<dyn OfferConsumer>) {
        lock(&self.state).stopped.push(offer, consumer);
        // From then on, the thread wakes for the next check.
        self.doorbell.notify();
    }

    /// Connects to the publishers that are no longer stopped.
    fn connect_stopped(self: &Arc<Self>) {
        let Some(due) = lock(&self.state).stopped.take_due() else { return };
        for (offer, consumer) in due.offers {
            let is_known = lock(&self.state).is_known(&offer.endpoint);
            if !is_known || !consumer.is_there() {
                continue;
            }
            // The process that an offer states may be wrong.
            if due.is_for_all || !offer.is_stopped() {
                ConnectTask::new(self, offer, consumer).run_in_background(None);
            } else {
                lock(&self.state).stopped.push(offer, consumer);
            }
        }
    }
}

/// A handle that reconnects consumers.
#[derive(Clone)]
pub(crate) struct Reconnector(Weak<NodeShared>);

impl Reconnector {
    /// Connects a consumer to an endpoint once more, if the endpoint is still offered. Does not
    /// block.
    pub(crate) fn connect(&self, consumer: &Arc<dyn OfferConsumer>, endpoint: &Endpoint) {
        let Some(shared) = self.0.upgrade() else { return };
        let offer = {
            let mut state = lock(&shared.state);
            let known = state.known.get(&endpoint.address);
            let offer = known.filter(|offer| offer.endpoint == *endpoint).cloned();
            let subscription = offer.as_ref().and_then(|offer| state.subscription_of(&offer.topic, consumer));
            if let Some(subscription) = subscription {
                subscription.connected.remove(endpoint);
            }
            offer
        };
        if let Some(offer) = offer {
            shared.learn(offer, Timing::Background);
        }
    }
}

/// The thread that makes the first attempt to connect.
#[derive(Clone, Copy)]
enum Timing {
    /// On the caller's thread: existing offers are connected when the caller continues.
    Inline,
    /// In the background, because a suspended publisher answers late.
    Background,
}

/// A task that connects one consumer to one offer, however long it takes.
struct ConnectTask {
    shared: Arc<NodeShared>,
    connection: String,
    offer: Offer,
    consumer: Arc<dyn OfferConsumer>,
}

impl ConnectTask {
    fn new(shared: &Arc<NodeShared>, offer: Offer, consumer: Arc<dyn OfferConsumer>) -> Self {
        let connection = format!("{}@{} -> {0}", offer.topic, offer.endpoint.address);
        Self { shared: Arc::clone(shared), connection, offer, consumer }
    }

    /// Starts tasks side by side. The node's thread connects to publishers of stopped processes
    /// later.
    fn run_all(tasks: impl Iterator<Item = Self>) -> FirstAttempts {
        let (running, attempts) = mpsc::channel();
        for task in tasks {
            match task.offer.process {
                // This process answers while this thread waits. No other process can delay the
                // attempt.
                Some(process) if process == std::process::id() && task.attempt() => {}
                _ if task.offer.is_stopped() => {
                    task.shared.connect_later(task.offer, task.consumer);
                }
                _ => task.run_in_background(Some(running.clone())),
            }
        }
        FirstAttempts::new(attempts)
    }

    /// Makes attempts on a separate thread until one succeeds. The first attempt ends the channel.
    fn run_in_background(self, mut first: Option<mpsc::Sender<()>>) {
        let topic = self.offer.topic.clone();
        let thread = std::thread::Builder::new().name("stripline-connec".into());
        let started = thread.spawn(move || {
            loop {
                let state = lock(&self.shared.state);
                let known = state.is_known(&self.offer.endpoint);
                let is_in_vain = state.over || !known || !self.consumer.is_there();
                drop(state);
                if is_in_vain || self.attempt() {
                    return;
                }
                drop(first.take());
                if self.offer.is_stopped() {
                    let Self { shared, offer, consumer, .. } = self;
                    return shared.connect_later(offer, consumer);
                }
                std::thread::sleep(RETRY);
            }
        });
        if let Err(error) = started {
            let error = Error::not_started("cannot start a thread", error);
            log::error!(target: "stripline::node", "topic {topic}: {error}");
        }
    }

    /// Makes one attempt; false: it must be repeated.
    fn attempt(&self) -> bool {
        let Offer { topic, endpoint, .. } = &self.offer;
        // Another user may offer anything. Connect only over a transport on which the kernel can
        // name the user of the endpoint.
        let group = self.shared.topics.of(topic).link.group;
        let open_to = LinkOptions { group, ..LinkOptions::default() };
        let connected = transport::check(&endpoint.transport, &open_to)
            .and_then(|()| self.consumer.connect(&self.offer, &self.connection));
        match connected {
            Ok(()) => {
                let mut state = lock(&self.shared.state);
                if let Some(subscription) = state.subscription_of(topic, &self.consumer) {
                    subscription.forget_refused(&endpoint.address);
                }
                true
            }
            Err(error) if is_late(&error) => {
                self.show_refused(&error);
                false
            }
            // The publisher has just died, which the rendezvous will report, or does not answer
            // yet.
            Err(Error::System { action: Some(_), .. }) => false,
            // Errors of the other kinds are permanent.
            Err(
                error @ (Error::Refused { .. } | Error::PeerMisbehaved { .. } | Error::Unsupported { .. }),
            ) => {
                self.show_refused(&error);
                self.consumer.report_refused(&self.offer, error);
                true
            }
            // This process lacks something at present.
            Err(error) => {
                self.show_refused(&error);
                false
            }
        }
    }

    /// Lists the connection as refused, and logs the reason if it differs from the last one.
    fn show_refused(&self, error: &Error) {
        let mut state = lock(&self.shared.state);
        let subscription = state.subscription_of(&self.offer.topic, &self.consumer);
        if subscription.is_none_or(|to| to.refuse(&self.offer, &self.connection, error.to_string())) {
            log::warn!(target: "stripline::node", "topic {}: {error}", self.offer.topic);
        }
    }
}

/// A guard that withdraws a publisher's offer when it is dropped.
struct OfferGuard {
    shared: Arc<NodeShared>,
    address: String,
}

impl Drop for OfferGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.change_own(DiscoveryMessage::Withdraw(self.address.clone()));
        state.forget(&self.address);
        drop(state);
        self.shared.doorbell.notify();
    }
}

/// The offers of a node as seen by the node's thread.
struct NodeOffers(Arc<NodeShared>);

impl OfferSink for NodeOffers {
    fn offers(&mut self) -> Offers {
        let mut state = lock(&self.0.state);
        state.own_changes.clear();
        state.own.clone()
    }

    fn wake_at(&self) -> Option<Instant> {
        lock(&self.0.state).stopped.due()
    }

    fn changes(&mut self) -> Option<Vec<DiscoveryMessage>> {
        self.0.connect_stopped();
        let mut state = lock(&self.0.state);
        (!state.over).then(|| std::mem::take(&mut state.own_changes))
    }

    fn learn(&mut self, offer: Offer) {
        // `Node::offer` and `Node::subscribe` connect the node's own ends before they return. If
        // this thread connected them first, those functions would return too early.
        let own = lock(&self.0.state).own.0.get(&offer.endpoint.address).cloned();
        if own.is_none_or(|own| own.endpoint != offer.endpoint) {
            self.0.learn(offer, Timing::Background);
        }
    }

    fn forget(&mut self, address: &str) {
        lock(&self.0.state).forget(address);
    }
}

/// Returns whether another process has the name.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse)
}

/// Returns the type of a topic, and the payload type in it.
fn port_type<C: Content>(
    topic: &str,
    given: Option<PortType<DynamicForm>>,
) -> Result<(TypeName, PortType<C::Form>)> {
    let mut port = C::port_type(given).map_err(|problem| Error::port(topic, problem))?;
    let missing = || Error::port(topic, "is `Dynamic`: give its type with its name, as `(\"iq\", &cf32)`");
    let payload = port.payload.take().ok_or_else(missing)?;
    if port.sample_bytes.is_none() && payload.is_without_layout() {
        let problem = format!("`{payload}` is a name without a layout: give its size with a `SampleType`");
        return Err(Error::port(topic, problem));
    }
    Ok((payload, port))
}

/// Returns the payload type that marks a server of calls among the offers of nodes.
pub(crate) fn calls_payload() -> Result<TypeName> {
    Ok(TypeName::new("stripline/calls")?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::sys::socket;

    /// A consumer in a process that lacks a resource in the first attempts.
    #[derive(Default)]
    struct Lacking {
        attempts: AtomicU32,
        refused: Mutex<Vec<RefusedSender>>,
    }

    impl OfferConsumer for Lacking {
        fn is_there(&self) -> bool {
            true
        }

        fn set_refused(&self, refused: Vec<RefusedSender>) {
            *lock(&self.refused) = refused;
        }

        fn connect(&self, _: &Offer, _: &str) -> Result<()> {
            match self.attempts.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(Error::failed("the middleware cannot start")),
                3 => Err(Error::Refused { peer: "a".into(), reason: "it is full".into() }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn what_this_process_lacks_is_tried_again_and_a_refusal_is_not() {
        let domain = format!("{:016x}", transport::random().unwrap());
        let node = Node::join(&domain, Topics::default()).unwrap();
        let _publisher = node.publisher::<u8>("levels").unwrap();
        let consumer = Arc::new(Lacking::default());
        let mut offer = lock(&node.shared.state).own.0.values().next().unwrap().clone();
        offer.topic = "other".into();
        node.subscribe("other", Arc::clone(&consumer) as _).wait();
        let task = ConnectTask::new(&node.shared, offer, Arc::clone(&consumer) as _);
        for _ in 0..3 {
            assert!(!task.attempt());
            let refused = lock(&consumer.refused);
            assert_eq!((refused.len(), &*refused[0].reason), (1, "the middleware cannot start"));
        }
        assert!(task.attempt());
        assert!(lock(&consumer.refused)[0].reason.contains("it is full"));
        assert!(task.attempt());
        assert!(lock(&consumer.refused).is_empty());
    }

    /// Connects to the host of each domain right after the domain was opened.
    #[test]
    fn a_domain_can_be_found_when_its_first_node_has_joined() {
        for _ in 0..200 {
            let domain = format!("{:016x}", transport::random().unwrap());
            let node = Node::join(&domain, Topics::default()).unwrap();
            let name = rendezvous_name(&domain, None).unwrap();
            assert!(socket::connect_unix(&name, None).is_ok(), "{domain}");
            drop(node);
        }
    }
}
