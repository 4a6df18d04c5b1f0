//! A move of a sending port to another transport, between two packets.
//!
//! Another thread opens the port on the new transport, and the port's receivers connect there. Then
//! the port ends the old transports with [`Header::MOVED`](crate::packet::Header::MOVED), and sends
//! the next packet over the new one. Each receiver first takes the packets that are left on the old
//! path: docs/decisions/0059-a-move-is-an-end-and-a-start.md.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::policy;
use crate::error::{self, Error};
use crate::fail_point::fail_point;
use crate::packet::payload::TypeName;
use crate::sys::mutex::lock;
use crate::terms::SenderOptions;
use crate::transport::{
    AnyOutlet, Attention, BindRequest, Endpoint, Flush, FormerPath, FormerPaths, NextPacket, Outlet,
    StopToken, Wait,
};

/// The place where another thread leaves a transport for the port's own thread.
pub(crate) struct MoveSlot {
    port: String,
    /// The strongest options of all connections of the port.
    strongest: SenderOptions,
    stop: StopToken,
    requested: AtomicBool,
    state: Mutex<MoveSlotState>,
    attention: Arc<PortAttention>,
    former_paths: Arc<FormerPaths>,
}

/// A function that gets the number of the first packet over the new transport, or the reason that
/// the port did not move. The function must not block.
pub(crate) type MoveReply = Box<dyn FnOnce(Result<u64, PortEnd>) + Send>;

#[derive(Default)]
struct MoveSlotState {
    prepared: Option<AnyOutlet>,
    reply: Option<MoveReply>,
    closed: Option<PortEnd>,
}

/// The reason that a sending port takes no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortEnd {
    /// The port has sent the end of stream.
    Ended,
    /// The port was dropped without an end of stream: the component has failed, and may be started
    /// again.
    Gone,
}

impl MoveSlot {
    pub(super) fn new(
        port: &str,
        strongest: SenderOptions,
        stop: StopToken,
        attention: Arc<PortAttention>,
        former_paths: Arc<FormerPaths>,
    ) -> Self {
        let (requested, state) = (AtomicBool::new(false), Mutex::default());
        Self { port: port.into(), strongest, stop, requested, state, attention, former_paths }
    }

    /// Opens the port on a transport that it may move to. Receivers may connect to the endpoint
    /// from now on. An endpoint that was prepared before is replaced.
    ///
    /// # Errors
    /// The transport does not exist, or the system lacks memory, descriptors or threads.
    pub(crate) fn prepare(
        &self,
        transport: &str,
        payload: &TypeName,
        options: SenderOptions,
    ) -> error::Result<Result<Endpoint, PortEnd>> {
        if let Some(end) = lock(&self.state).closed {
            return Ok(Err(end));
        }
        let options = options.within_port(&self.strongest);
        let (port, payload, stop) = (self.port.clone(), payload.clone(), self.stop.clone());
        let former_paths = Arc::clone(&self.former_paths);
        let outlet = policy::bind(transport, BindRequest { port, payload, options, stop, former_paths })?;
        fail_point!("move-prepared");
        let endpoint = outlet.traits().endpoint;
        let before = {
            let mut state = lock(&self.state);
            if let Some(end) = state.closed {
                return Ok(Err(end));
            }
            state.prepared.replace(outlet)
        };
        drop(before);
        Ok(Ok(endpoint))
    }

    /// Requests the move to the transport prepared last, before the next packet.
    pub(crate) fn request(&self, reply: MoveReply) {
        let refused = {
            let mut state = lock(&self.state);
            match (state.closed, &state.prepared) {
                (None, Some(_)) => {
                    state.reply = Some(reply);
                    // Relaxed: the lock orders the rest. If the port reads an old value, it reads
                    // again later.
                    self.requested.store(true, Ordering::Relaxed);
                    None
                }
                (end, _) => Some((end.unwrap_or(PortEnd::Gone), reply)),
            }
        };
        match refused {
            Some((end, reply)) => reply(Err(end)),
            None => self.attention.request(),
        }
    }

    /// Closes the transport prepared last, unless the move to it was requested.
    pub(crate) fn cancel(&self) {
        let prepared = {
            let mut state = lock(&self.state);
            if state.reply.is_some() { None } else { state.prepared.take() }
        };
        drop(prepared);
    }

    fn take(&self) -> Option<(AnyOutlet, MoveReply)> {
        self.requested.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        let reply = state.reply.take()?;
        Some((state.prepared.take()?, reply))
    }

    fn close(&self, end: PortEnd) {
        let (prepared, reply) = {
            let mut state = lock(&self.state);
            state.closed.get_or_insert(end);
            (state.prepared.take(), state.reply.take())
        };
        drop(prepared);
        if let Some(reply) = reply {
            reply(Err(end));
        }
    }
}

/// A port's side of the slot, and the outlets that the port has left.
#[derive(Default)]
pub(super) struct PortMoves {
    slot: Option<Arc<MoveSlot>>,
    /// The left outlets, until their receivers have taken the remaining packets.
    former: Vec<FormerPath>,
    former_paths: Arc<FormerPaths>,
}

impl PortMoves {
    /// Keeps the slot, and returns it for other threads.
    pub(super) fn allow(&mut self, slot: MoveSlot) -> Arc<MoveSlot> {
        Arc::clone(self.slot.insert(Arc::new(slot)))
    }

    /// Returns whether the port should move before the next packet.
    pub(super) fn is_requested(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.requested.load(Ordering::Relaxed))
    }

    /// Takes the outlet that the port moves to.
    pub(super) fn take(&self) -> Option<(AnyOutlet, MoveReply)> {
        self.slot.as_ref()?.take()
    }

    pub(super) fn set_former_paths(&mut self, former_paths: Arc<FormerPaths>) {
        self.former_paths = former_paths;
    }

    /// Returns the paths that the port has left, for other threads.
    pub(super) fn former_paths(&self) -> Arc<FormerPaths> {
        Arc::clone(&self.former_paths)
    }

    /// Keeps outlets until their receivers have taken the remaining packets. `end`: the number of
    /// the first packet over the next path.
    pub(super) fn leave(&mut self, outlets: Vec<AnyOutlet>, end: u64) {
        self.former
            .extend(outlets.into_iter().map(|outlet| FormerPath::new(outlet, &self.former_paths, end)));
    }

    pub(super) fn has_former_paths(&self) -> bool {
        !self.former.is_empty()
    }

    /// Waits until all left outlets have sent everything.
    pub(super) fn flush(&mut self, wait: Wait) -> error::Result<()> {
        self.former.iter_mut().try_for_each(|path| path.with(|outlet| outlet.flush(Flush::All, wait)))
    }

    /// Drops the outlets without receivers. Cheap if the port has left no outlet.
    pub(super) fn drop_unread(&mut self) {
        self.former.retain_mut(|path| {
            let is_read = path.with(|outlet| {
                outlet.admit(NextPacket::default());
                // The flush comes first: a queue counts its receivers only after it is flushed.
                !is_flushed(outlet) || outlet.receivers(true) > 0
            });
            if !is_read {
                fail_point!("move-left");
            }
            is_read
        });
    }

    /// Refuses moves from now on, because the port has sent the end of stream.
    pub(super) fn end(&self) {
        self.slot.iter().for_each(|slot| slot.close(PortEnd::Ended));
    }
}

/// Returns whether an outlet has sent everything that the receivers take.
fn is_flushed(outlet: &mut dyn Outlet) -> bool {
    match outlet.flush(Flush::All, Wait::Never) {
        Ok(()) => true,
        Err(error) => {
            if !matches!(error, Error::Full { .. } | Error::Stopped | Error::Interrupted { .. }) {
                log::warn!(target: "stripline::link", "a transport that was left: {error}");
            }
            false
        }
    }
}

impl Drop for PortMoves {
    fn drop(&mut self) {
        self.slot.iter().for_each(|slot| slot.close(PortEnd::Gone));
    }
}

/// A request by another thread that a port reserves the next packet on the slow path. The request
/// reaches the outlets that the port has at the time of the request.
#[derive(Default)]
pub(super) struct PortAttention(Mutex<Vec<Arc<dyn Attention>>>);

impl PortAttention {
    pub(super) fn set(&self, outlets: Vec<Arc<dyn Attention>>) {
        *lock(&self.0) = outlets;
    }

    pub(super) fn request(&self) {
        lock(&self.0).iter().for_each(|outlet| outlet.request_attention());
    }
}

impl Attention for PortAttention {
    /// Does not wait for the lock, so that a signal handler may call it. If the lock is held,
    /// another request is being made, which has the same effect, or the port changes its outlets
    /// and then checks for a wake itself.
    fn request_attention(&self) {
        if let Ok(outlets) = self.0.try_lock() {
            outlets.iter().for_each(|outlet| outlet.request_attention());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::{
        ConnectionOptions, EndsWhen, Incoming, Outgoing, Polled, PortBuilder, PortEvent, PortEvents, Sampling,
    };
    use super::*;
    use crate::message_queue_turn::MessageQueueTurn;
    use crate::terms::{LinkOptions, Overflow, Scope};
    use crate::transport::{ConnectRequest, Wait};

    const CONNECTION: &str = "a.out -> b.in";
    const TRANSPORTS: [&str; 6] = ["inproc", "shm", "uds", "tcp", "udp", "mqueue"];

    fn time() -> Wait {
        Wait::within(Duration::from_secs(20))
    }

    /// A sending port that may move, and a port that receives from it.
    struct Link {
        out: Outgoing,
        slot: Arc<MoveSlot>,
        events: Arc<PortEvents>,
        incoming: Incoming,
        options: LinkOptions,
        /// The endpoint at which the receiver connected first.
        endpoint: Endpoint,
    }

    impl Link {
        fn new(transport: &str, options: LinkOptions) -> Self {
            let (out, slot, endpoint) = Self::sender(transport, options);
            let (events, incoming) = Self::receiver(options);
            events.push(PortEvent::Connected(CONNECTION.into(), Self::connect(&endpoint, options, false)));
            Self { out, slot, events, incoming, options, endpoint }
        }

        fn receiver(options: LinkOptions) -> (Arc<PortEvents>, Incoming) {
            let events = Arc::new(PortEvents::new().unwrap());
            let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&options));
            let stop = StopToken::new().unwrap();
            let port_events = Arc::clone(&events);
            let mut incoming = Incoming::new("b.in".into(), port_events, options_for, stop, false, Some(1));
            incoming.set_ends(EndsWhen::WithStreams);
            (events, incoming)
        }

        /// Makes the receiver die, and another one connect in its place.
        fn restart_receiver(&mut self, endpoint: &Endpoint) {
            (self.events, self.incoming) = Self::receiver(self.options);
            let inlet = Self::connect(endpoint, self.options, false);
            self.events.push(PortEvent::Connected(CONNECTION.into(), inlet));
        }

        fn sender(transport: &str, options: LinkOptions) -> (Outgoing, Arc<MoveSlot>, Endpoint) {
            let sender_options = SenderOptions::from(&options);
            let mut builder = PortBuilder::new("a.out", sender_options, &StopToken::new().unwrap());
            let endpoint = builder.bind(transport, &TypeName::of::<u8>(), sender_options).unwrap();
            let mut out = builder.build(Sampling::Off);
            let slot = out.move_slot(&sender_options);
            (out, slot, endpoint)
        }

        /// Makes the sender die, and another one start in its place.
        fn restart_sender(&mut self, transport: &str) {
            let endpoint;
            (self.out, self.slot, endpoint) = Self::sender(transport, self.options);
            let inlet = Self::connect(&endpoint, self.options, false);
            self.events.push(PortEvent::Connected(CONNECTION.into(), inlet));
        }

        fn connect(endpoint: &Endpoint, options: LinkOptions, moves: bool) -> crate::transport::AnyInlet {
            let (connection, payload) = (CONNECTION.to_string(), TypeName::of::<u8>());
            policy::connect(endpoint, &ConnectRequest { connection, payload, options, moves }).unwrap()
        }

        /// Opens another transport.
        fn open(&self, transport: &str) -> Endpoint {
            let sender_options = SenderOptions::from(&self.options);
            self.slot.prepare(transport, &TypeName::of::<u8>(), sender_options).unwrap().unwrap()
        }

        /// Gives up the move that was prepared last.
        fn cancel(&self, endpoint: Endpoint) {
            self.slot.cancel();
            self.events.push(PortEvent::MoveCancelled(CONNECTION.into(), endpoint));
        }

        /// Opens another transport, and connects the receiver to it.
        fn prepare(&self, transport: &str) -> Endpoint {
            let endpoint = self.open(transport);
            let inlet = Self::connect(&endpoint, self.options, true);
            self.events.push(PortEvent::Moving(CONNECTION.into(), inlet, endpoint.clone()));
            endpoint
        }

        /// Requests the move. The returned channel gets the port's reply.
        fn request(&self) -> mpsc::Receiver<Result<u64, PortEnd>> {
            let (replied, reply) = mpsc::channel();
            // A test that needs no reply drops it.
            self.slot.request(Box::new(move |outcome| {
                let _ = replied.send(outcome);
            }));
            reply
        }

        fn send(&mut self, byte: u8) {
            self.out.send_bytes(1, time(), |place| place[0] = byte).unwrap();
        }

        /// Receives the next packet. Returns the number, the byte, and the number of packets
        /// missing before.
        fn next(&mut self) -> Option<(u64, u8, u64)> {
            match self.incoming.receive(time).unwrap() {
                Polled::Packet => {
                    let taken = self.incoming.taken();
                    let missing = taken.gap.map_or(0, |gap| gap.packets);
                    let found = (taken.header.sequence, self.incoming.payload()[0], missing);
                    self.incoming.release();
                    Some(found)
                }
                Polled::Ended => None,
                Polled::Empty => panic!("no packet within the time"),
            }
        }
    }

    #[test]
    fn a_stream_goes_on_over_another_transport_between_two_packets() {
        let _turn = MessageQueueTurn::take("mqueue");
        for (index, from) in TRANSPORTS.into_iter().enumerate() {
            for to in TRANSPORTS.into_iter().chain([from]) {
                // The first packet may be sent before or after the move.
                let before = (index % 2) as u8 * 3;
                let mut link = Link::new(from, LinkOptions::default());
                (0..before).for_each(|byte| link.send(byte));
                link.prepare(to);
                let reply = link.request();
                assert!(reply.try_recv().is_err(), "the port has not moved yet");
                (before..before + 3).for_each(|byte| link.send(byte));
                assert_eq!(reply.try_recv(), Ok(Ok(u64::from(before))), "{from} to {to}");
                for byte in 0..before + 3 {
                    assert_eq!(link.next(), Some((u64::from(byte), byte, 0)), "{from} to {to}");
                }
                assert_eq!(link.incoming.connection_index(), (0, 0), "still the same connection");
                link.out.finish(time()).unwrap();
                assert_eq!(link.next(), None, "{from} to {to}");
                assert_eq!(link.incoming.stats().counters("").peer_deaths, 0);
            }
        }
    }

    #[test]
    fn the_end_of_a_path_waits_for_the_event_of_the_next_path() {
        let _turn = MessageQueueTurn::take("mqueue");
        for from in TRANSPORTS {
            for cancels in [false, true] {
                let mut link = Link::new(from, LinkOptions::default());
                link.send(0);
                assert_eq!(link.next(), Some((0, 0, 0)));
                // The port has checked the events, and the thread is held up before the poll.
                if cancels {
                    let endpoint = link.prepare("shm");
                    assert!(!link.incoming.is_ready().unwrap(), "{from}");
                    link.cancel(endpoint);
                }
                link.prepare("uds");
                let reply = link.request();
                link.send(1);
                assert_eq!(reply.try_recv(), Ok(Ok(1)), "{from}");
                for _ in 0..3 {
                    assert!(matches!(link.incoming.poll_connections(), Ok(Polled::Empty)), "{from}");
                }
                assert_eq!(link.next(), Some((1, 1, 0)), "{from}");
                assert_eq!(link.incoming.stats().counters("").peer_deaths, 0);
            }
        }
    }

    /// An event of a connection.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send,
        Move,
        /// A move that the launcher gives up before requesting it.
        CancelledMove,
        /// A move that is given up while the receiver has not connected to the new path.
        UnconnectedMove,
        Receive,
        RestartSender,
    }

    impl Step {
        const ALL: [Self; 6] = [
            Self::Send,
            Self::Move,
            Self::CancelledMove,
            Self::UnconnectedMove,
            Self::Receive,
            Self::RestartSender,
        ];
    }

    /// Takes these steps, and then receives the rest. The model: every sent packet arrives, in
    /// order.
    fn walk(steps: &[Step]) {
        const PATHS: [&str; 4] = ["shm", "uds", "inproc", "tcp"];
        let mut link = Link::new(PATHS[0], LinkOptions::default());
        let (mut paths, mut sent, mut received) = ((1..).map(|n| PATHS[n % 4]), 0, 0);
        let mut receive = |link: &mut Link| {
            let (_, byte, missing) = link.next().unwrap_or_else(|| panic!("{steps:?}: the end"));
            assert_eq!((byte, missing), (received, 0), "{steps:?}");
            received += 1;
            received
        };
        let mut taken = 0;
        for step in steps {
            let path = paths.next().unwrap();
            match step {
                Step::Send => {
                    link.send(sent);
                    sent += 1;
                }
                Step::Move => {
                    link.prepare(path);
                    let reply = link.request();
                    // The port moves before this packet.
                    link.send(sent);
                    assert!(matches!(reply.try_recv(), Ok(Ok(_))), "{steps:?}");
                    sent += 1;
                }
                Step::CancelledMove => {
                    let endpoint = link.prepare(path);
                    link.cancel(endpoint);
                }
                Step::UnconnectedMove => {
                    let endpoint = link.open(path);
                    link.cancel(endpoint);
                }
                Step::Receive if taken < sent => taken = receive(&mut link),
                Step::Receive => {}
                Step::RestartSender => link.restart_sender(path),
            }
        }
        while taken < sent {
            taken = receive(&mut link);
        }
        link.out.finish(time()).unwrap();
        assert_eq!(link.next(), None, "{steps:?}");
    }

    /// Walks all orders of a few steps, and some longer ones.
    #[test]
    fn whatever_moves_come_together_every_packet_arrives_in_order() {
        let kinds = Step::ALL.len();
        let steps_of = |number: usize, steps: u32| -> Vec<Step> {
            (0..steps).map(|place| Step::ALL[number / kinds.pow(place) % kinds]).collect()
        };
        (0..kinds.pow(4)).for_each(|number| walk(&steps_of(number, 4)));
        // The stride and the number of orders of twelve steps have no common factor.
        (1..=100).for_each(|round| walk(&steps_of(round * 2_345_677 % kinds.pow(12), 12)));
    }

    /// The life of a receiver, as far as the sender can determine it.
    struct Life {
        /// The first packet that the receiver should take or report missing.
        start: u64,
        /// The first packet sent to the receiver.
        first: u64,
        /// The next packet that the receiver should take or report missing.
        next: u64,
    }

    impl Life {
        fn new(start: u64, first: u64) -> Self {
            Self { start, first, next: start }
        }

        /// Returns the packet at which the successor starts: behind all packets that this life has
        /// taken. `rings`: whether each packet was sent over a ring. A packet in a socket counts as
        /// taken.
        fn stopped_at(&self, rings: &[bool]) -> u64 {
            let sent = rings.len() as u64;
            let is_unread = |number: &u64| rings[*number as usize];
            let unread = (self.next.max(self.first)..sent).find(is_unread).unwrap_or(sent);
            if unread > self.first { unread } else { self.start }
        }
    }

    /// Takes steps with receivers that die. Each successor reports the packets that the predecessor
    /// missed, from the predecessor's first packet on.
    fn walk_with_deaths(steps: &[usize]) {
        const PATHS: [&str; 3] = ["shm", "uds", "inproc"];
        let mut link = Link::new(PATHS[0], LinkOptions::default());
        let (mut endpoint, mut path) = (link.endpoint.clone(), 0);
        let (mut life, mut rings) = (Life::new(0, 0), Vec::new());
        let send = |link: &mut Link, rings: &mut Vec<bool>, path: usize| {
            link.send(rings.len() as u8);
            rings.push(PATHS[path] != "uds");
        };
        let receive = |link: &mut Link, life: &mut Life, sent: usize| {
            let number = life.next.max(life.first);
            if number < sent as u64 {
                assert_eq!(link.next(), Some((number, number as u8, number - life.next)), "{steps:?}");
                life.next = number + 1;
            }
        };
        for step in steps {
            match step {
                0 => send(&mut link, &mut rings, path),
                1 => receive(&mut link, &mut life, rings.len()),
                2 => {
                    path = (path + 1) % PATHS.len();
                    endpoint = link.prepare(PATHS[path]);
                    link.request();
                    send(&mut link, &mut rings, path);
                }
                3 => {
                    life = Life::new(life.stopped_at(&rings), rings.len() as u64);
                    link.restart_receiver(&endpoint);
                }
                // The receiver dies while it connects for a move, which is given up.
                _ => {
                    life = Life::new(life.stopped_at(&rings), rings.len() as u64);
                    let other = link.open(PATHS[(path + 1) % PATHS.len()]);
                    (link.events, link.incoming) = Link::receiver(link.options);
                    drop(Link::connect(&other, link.options, true));
                    link.slot.cancel();
                    link.restart_receiver(&endpoint);
                }
            }
        }
        send(&mut link, &mut rings, path);
        while life.next < rings.len() as u64 {
            receive(&mut link, &mut life, rings.len());
        }
    }

    #[test]
    fn the_successor_of_a_dead_receiver_reports_all_that_was_left_on_every_path() {
        const KINDS: usize = 5;
        let steps_of = |number: usize, steps: u32| -> Vec<usize> {
            (0..steps).map(|place| number / KINDS.pow(place) % KINDS).collect()
        };
        (0..KINDS.pow(5)).for_each(|number| walk_with_deaths(&steps_of(number, 5)));
        // The stride and the number of orders of twelve steps have no common factor.
        (1..=300).for_each(|round| walk_with_deaths(&steps_of(round * 2_345_677 % KINDS.pow(12), 12)));
    }

    #[test]
    fn a_port_moves_as_often_as_it_is_asked_and_keeps_no_transport() {
        let _turn = MessageQueueTurn::take("mqueue");
        let mut link = Link::new("shm", LinkOptions::default());
        for round in 0..20 {
            link.prepare(TRANSPORTS[round as usize % TRANSPORTS.len()]);
            let reply = link.request();
            link.send(round);
            assert_eq!(reply.try_recv(), Ok(Ok(u64::from(round))));
            assert_eq!(link.next(), Some((u64::from(round), round, 0)));
        }
        // The receiver has left these paths. The port's next packets show whether the port has
        // noticed it.
        let give_up = std::time::Instant::now() + Duration::from_secs(20);
        while link.out.has_left_transports() {
            assert!(std::time::Instant::now() < give_up);
            link.send(0);
            link.next().unwrap();
        }
    }

    #[test]
    fn packets_that_wait_on_the_old_path_come_first_under_every_policy() {
        let _turn = MessageQueueTurn::take("mqueue");
        for overflow in [Overflow::Block, Overflow::DropOldest, Overflow::DropNewest] {
            for (from, to) in [("shm", "uds"), ("uds", "shm"), ("udp", "inproc"), ("tcp", "mqueue")] {
                let options = LinkOptions { overflow, depth: 4, ..LinkOptions::default() };
                let mut link = Link::new(from, options);
                let sent = if overflow == Overflow::Block { 3 } else { 30 };
                (0..sent).for_each(|byte| link.send(byte));
                link.prepare(to);
                let reply = link.request();
                link.send(sent);
                assert_eq!(reply.try_recv(), Ok(Ok(u64::from(sent))));
                link.out.finish(time()).unwrap();
                let (mut next, mut missing) = (0, 0);
                while let Some((sequence, byte, gap)) = link.next() {
                    next += gap;
                    missing += gap;
                    assert_eq!((sequence, u64::from(byte)), (next, next), "{overflow} {from} to {to}");
                    next += 1;
                }
                next += link.incoming.gap_at_end().map_or(0, |gap| gap.packets);
                assert_eq!(next, u64::from(sent) + 1, "{overflow} {from} to {to}");
                assert!(overflow != Overflow::Block || missing == 0, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_cancelled_move_changes_nothing() {
        let mut link = Link::new("uds", LinkOptions::default());
        link.send(0);
        let endpoint = link.prepare("shm");
        link.cancel(endpoint);
        assert_eq!(link.request().try_recv(), Ok(Err(PortEnd::Gone)), "nothing is prepared");
        link.send(1);
        link.prepare("tcp");
        // The end of the stream is sent first.
        link.out.finish(time()).unwrap();
        assert_eq!(link.request().try_recv(), Ok(Err(PortEnd::Ended)));
        assert_eq!([link.next(), link.next(), link.next()], [Some((0, 0, 0)), Some((1, 1, 0)), None]);
    }

    #[test]
    fn a_sender_that_dies_before_it_moves_is_one_death() {
        let mut link = Link::new("shm", LinkOptions::default());
        link.send(0);
        link.prepare("uds");
        link.incoming.senders();
        let reply = link.request();
        let Link { out, mut incoming, .. } = link;
        drop(out);
        assert_eq!(reply.try_recv(), Ok(Err(PortEnd::Gone)));
        assert!(matches!(incoming.receive(time), Ok(Polled::Packet)));
        incoming.release();
        assert!(matches!(incoming.receive(|| Wait::within(Duration::from_millis(50))), Ok(Polled::Empty)));
        assert_eq!(incoming.stats().counters("").peer_deaths, 1);
    }

    #[test]
    fn no_sender_waits_for_a_receiver_that_ended_before_it_received() {
        let options = LinkOptions { depth: 2, ..LinkOptions::default() };
        // The queue of events outlives the port, because other threads have it, too.
        let send = |link: &mut Link| {
            for byte in 0..=options.depth as u8 {
                link.out.send_bytes(1, time(), |place| place[0] = byte).unwrap();
            }
        };
        for moves in [false, true] {
            let mut link = Link::new("shm", options);
            let mut endpoint = link.endpoint.clone();
            if moves {
                endpoint = link.prepare("inproc");
                link.request();
            }
            drop(std::mem::replace(&mut link.incoming, Link::receiver(options).1));
            send(&mut link);
            let late = Link::connect(&endpoint, options, false);
            link.events.push(PortEvent::Connected(CONNECTION.into(), late));
            send(&mut link);
        }
    }

    #[test]
    fn a_port_that_moves_to_nowhere_is_refused() {
        let mut link = Link::new("uds", LinkOptions::default());
        link.send(0);
        link.open("shm");
        link.request();
        link.send(1);
        assert_eq!(link.next(), Some((0, 0, 0)));
        let error = link.incoming.receive(time).err().unwrap().to_string();
        assert!(error.contains("went on over another path that was not connected"), "{error}");
    }

    #[test]
    fn a_send_that_waits_for_its_receiver_does_so_after_the_move() {
        let _turn = MessageQueueTurn::take("mqueue");
        let options = LinkOptions { scope: Scope::Target, deadline_ms: 20_000, ..LinkOptions::default() };
        let mut link = Link::new("shm", options);
        for (round, to) in (0u8..).zip(["uds", "mqueue", "tcp", "shm"]) {
            link.prepare(to);
            link.request();
            let Link { out, incoming, .. } = &mut link;
            std::thread::scope(|scope| {
                scope.spawn(|| out.send_bytes(1, time(), |place| place[0] = round).unwrap());
                assert!(matches!(incoming.receive(time), Ok(Polled::Packet)), "{to}");
                incoming.release();
            });
        }
    }
}
