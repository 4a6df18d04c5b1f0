//! Tests, over every transport, of protocol violations by peers and their consequences.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::link::{Outgoing, Sampling};
use crate::message_queue_turn::MessageQueueTurn;
use crate::node::rendezvous::Offer;
use crate::node::{Node, calls_payload};
use crate::packet::{Header, Kind};
use crate::sys::refusal::PeerRefusal;
use crate::terms::{LinkOptions, Watermarks};
use crate::transport::duplex::{CallAcceptor, Duplex};
use crate::transport::handshake::Hello;
use crate::transport::{self, AnyInlet, AnyOutlet, BindRequest, ConnectRequest, Next, StopToken, Wait};

use super::connect::bind;
use super::wire::{ReplyStatus, call_head, cancel, reply_head};
use super::{CallError, Client, ClientOptions, Server, ServerOptions};

const LONG: Duration = Duration::from_secs(120);

fn transports() -> impl Iterator<Item = &'static str> {
    transport::all().map(|transport| transport.name)
}

fn patient() -> ClientOptions {
    ClientOptions { deadline: LONG, ..ClientOptions::default() }
}

fn echo(node: &Node, transport: &str) -> Server<'static> {
    let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
    node.server("echo", Ok::<u32, String>, options).unwrap()
}

/// Connects to the server as a client that can send any bytes.
fn intrude(node: &Node, server: &Server<'_>, transport: &str) -> (Outgoing, AnyInlet) {
    let (request, bind) = asked(node.stop_token());
    let connection =
        transport::find(transport).unwrap().connect_calls(server.endpoint(), &request, bind).unwrap();
    let stop = node.stop_token().clone();
    (outgoing_of(connection.duplex.outlet, stop), connection.duplex.inlet)
}

fn outgoing_of(outlet: AnyOutlet, stop: StopToken) -> Outgoing {
    let mut outgoing = Outgoing::new("evil".into(), vec![outlet], Sampling::Off, stop);
    outgoing.admit();
    outgoing
}

fn asked(stop: &StopToken) -> (ConnectRequest, BindRequest) {
    let link = LinkOptions { depth: 128, buffer: 1 << 14, ..LinkOptions::default() };
    let connection = format!("evil {}", transport::random().unwrap());
    let request = ConnectRequest::new(connection, calls_payload().unwrap(), link);
    (request, bind("evil", &link, stop.clone()).unwrap())
}

/// Sends a packet with these bytes. Returns `false` if the connection is closed.
fn send(outgoing: &mut Outgoing, bytes: &[u8]) -> bool {
    let put = |place: &mut [u8]| place.copy_from_slice(bytes);
    let sent = outgoing.send_bytes(bytes.len(), Wait::Until(Some(Instant::now() + LONG)), put);
    sent.is_ok() && !outgoing.has_no_receivers()
}

/// Serves until `count` clients have been disconnected.
fn serve_until_evicted(server: &mut Server<'_>, count: u64, context: &str) {
    let end = Instant::now() + LONG;
    while server.counts().evicted < count {
        assert!(Instant::now() < end, "{context}: it was not noticed");
        server.serve_one(Duration::from_millis(1)).unwrap();
    }
}

#[test]
fn a_client_that_breaks_the_rules_is_thrown_out_and_the_others_are_served() {
    let deeds: [(&str, Vec<u8>); 6] = [
        ("nothing", vec![]),
        ("too little", call_head(1, 0, 0, 1000)[..15].to_vec()),
        ("an unknown kind", [&1u64.to_le_bytes()[..], &[0, 0, 9, 0, 0, 0, 0, 0]].concat()),
        ("too long a chain", [&call_head(1, 0, 33, 1000)[..], &[0; 33 * 16]].concat()),
        ("a chain that does not exist", call_head(1, 0, 2, 1000).to_vec()),
        ("extra bytes", [&cancel(1)[..], &[0]].concat()),
    ];
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let mut server = echo(&node, transport);
        let honest: Client<u32, u32> = node.client("echo", patient()).unwrap();
        for (index, (violation, bytes)) in deeds.iter().enumerate() {
            let (mut outgoing, _inlet) = intrude(&node, &server, transport);
            assert!(send(&mut outgoing, bytes), "{transport}: {violation}");
            serve_until_evicted(&mut server, index as u64 + 1, &format!("{transport}: {violation}"));
            let pending = honest.start(&7).unwrap();
            while !server.serve_one(Duration::from_millis(1)).unwrap() {}
            assert_eq!(pending.wait().unwrap(), 7, "{transport}: {violation}");
        }
        assert_eq!(server.counts().clients, 1, "{transport}");
    }
}

#[test]
fn a_client_that_was_thrown_out_may_come_back() {
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let mut server = echo(&node, transport);
        let client: Client<u32, u32> = node.client("echo", patient()).unwrap();
        for round in 1..=3 {
            let end = Instant::now() + LONG;
            while !client.misbehave(&[1, 2, 3]) {
                let state = || (client.core.servers(), node.refused_connections(), server.counts());
                assert!(Instant::now() < end, "{transport} {round}: no way to a server: {:?}", state());
                server.serve_one(Duration::from_millis(1)).unwrap();
            }
            serve_until_evicted(&mut server, round, transport);
            // The first call may still find the old connection, and then reports that it is closed.
            loop {
                let Ok(pending) = client.start(&7) else { continue };
                let served = (0..100).any(|_| server.serve_one(Duration::from_millis(10)).unwrap());
                if served && pending.wait().is_ok() {
                    break;
                }
                assert!(Instant::now() < end, "{transport}: it did not come back");
            }
            assert_eq!(server.counts().clients, 1, "{transport}");
        }
    }
}

#[test]
fn calls_of_operations_that_are_not_there_are_answered() {
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let mut server = echo(&node, transport);
        let (mut outgoing, _inlet) = intrude(&node, &server, transport);
        assert!(send(&mut outgoing, &call_head(5, 77, 0, 1_000_000)));
        while !server.serve_one(Duration::from_millis(1)).unwrap() {}
        assert_eq!((server.counts().refused, server.counts().evicted), (1, 0), "{transport}");
    }
}

#[test]
fn a_client_that_has_not_polled_yet_gets_the_replies_of_a_server_that_is_gone() {
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let mut server = echo(&node, transport);
        let (mut outgoing, mut inlet) = intrude(&node, &server, transport);
        assert!(send(&mut outgoing, &call_head(5, 77, 0, 1_000_000)));
        while !server.serve_one(Duration::from_millis(1)).unwrap() {}
        drop(server);
        let end = Instant::now() + LONG;
        let mut kinds = Vec::new();
        loop {
            match inlet.try_next().unwrap() {
                Next::Frame(frame) => kinds.push(Header::read(&[frame, &[0; 48]].concat()).unwrap().kind),
                Next::Empty => assert!(Instant::now() < end, "{transport}: no end came"),
                Next::Closed => break,
            }
            inlet.release();
        }
        // The stream's description and the reply. A stream of replies has no end of stream.
        assert_eq!(kinds, [Kind::Stream as u8, Kind::Data as u8], "{transport}");
    }
}

/// A listener without a server.
struct Trap(Sender<Duplex>);

impl CallAcceptor for Trap {
    fn server_info(&self) -> serde_json::Value {
        let operation = serde_json::json!({
            "name": "call", "request": "message/cbor", "reply": "message/cbor", "error": "message/cbor"
        });
        serde_json::json!({"service": "echo", "server": "evil", "id": 666, "operations": [operation]})
    }

    fn check(&mut self, _: &Hello) -> Result<(), PeerRefusal> {
        Ok(())
    }

    fn accept(&mut self, _: &Hello, duplex: Duplex) {
        let _ = self.0.send(duplex);
    }
}

fn set_trap(node: &Node, transport: &str) -> (impl Send, Receiver<Duplex>) {
    let (tell, told) = channel();
    let (_, bind) = asked(node.stop_token());
    let listener = transport::find(transport).unwrap().listen_calls(bind, Box::new(Trap(tell))).unwrap();
    let offer = Offer::new("echo", calls_payload().unwrap(), listener.endpoint.clone());
    ((node.offer(offer), listener), told)
}

#[test]
fn a_server_that_breaks_the_rules_is_left_and_its_calls_fail() {
    // The number of the first call of a client.
    let first = 0x1_0000;
    let deeds: [(&str, Vec<u8>); 5] = [
        ("an unsolicited reply", reply_head(0x9_0000, ReplyStatus::Done).to_vec()),
        ("a reply to a call that was never made", reply_head(0, ReplyStatus::Done).to_vec()),
        ("a reply to a slot that does not exist", reply_head(first | 0xffff, ReplyStatus::Done).to_vec()),
        ("a reply that is too short", reply_head(first, ReplyStatus::Done)[..9].to_vec()),
        ("an unknown status", [&first.to_le_bytes()[..], &[99, 0, 0, 0, 0, 0, 0, 0]].concat()),
    ];
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        for (violation, bytes) in &deeds {
            let node = Node::isolated().unwrap();
            let (trap, pairs) = set_trap(&node, transport);
            let client: Client<u32, u32> = node.client("echo", patient()).unwrap();
            let duplex = pairs.recv_timeout(LONG).unwrap();
            // The inlet stays open, so that only the violation can end the connection.
            let _inlet = duplex.inlet;
            let mut outgoing = outgoing_of(duplex.outlet, StopToken::new().unwrap());
            let call = client.start(&1).unwrap();
            assert!(send(&mut outgoing, bytes));
            let error = call.wait().unwrap_err();
            assert!(matches!(error, CallError::ServerGone { .. }), "{transport}: {violation}: {error}");
            drop(trap);
        }
    }
}

#[test]
fn a_second_reply_to_a_call_ends_the_connection() {
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let (trap, pairs) = set_trap(&node, transport);
        let client: Client<u32, u32> = node.client("echo", patient()).unwrap();
        let duplex = pairs.recv_timeout(LONG).unwrap();
        let _inlet = duplex.inlet;
        let mut outgoing = outgoing_of(duplex.outlet, StopToken::new().unwrap());
        let (first, second) = (client.start(&1).unwrap(), client.start(&2).unwrap());
        // The CBOR of 5.
        let reply = [&reply_head(0x1_0000, ReplyStatus::Done)[..], &[5]].concat();
        assert!(send(&mut outgoing, &reply) && send(&mut outgoing, &reply));
        assert_eq!(first.wait().unwrap(), 5, "{transport}");
        assert!(matches!(second.wait(), Err(CallError::ServerGone { .. })), "{transport}");
        drop(trap);
    }
}

#[test]
fn who_is_no_client_is_turned_down() {
    for transport in transports() {
        let _turn = MessageQueueTurn::take(transport);
        let node = Node::isolated().unwrap();
        let options =
            ServerOptions { transport: Some(transport.into()), clients: 1, ..ServerOptions::default() };
        let server = node.server("echo", Ok::<u32, String>, options).unwrap();
        let over = transport::find(transport).unwrap();
        let connection = |change: &dyn Fn(&mut ConnectRequest, &mut BindRequest)| {
            let (mut request, mut bind) = asked(node.stop_token());
            change(&mut request, &mut bind);
            over.connect_calls(server.endpoint(), &request, bind).map(drop).unwrap_err().to_string()
        };
        let error = connection(&|request, _| request.payload = crate::packet::payload::TypeName::of::<u8>());
        assert!(error.contains("has type stripline/calls, not u8"), "{transport}: {error}");
        let error = connection(&|_, bind| bind.options.watermarks = Watermarks::of_depth(u32::MAX));
        assert!(error.contains("4294967295 calls outstanding"), "{transport}: {error}");
        let error =
            over.connect(server.endpoint(), &asked(node.stop_token()).0).map(drop).unwrap_err().to_string();
        assert!(error.contains("server of calls") || transport == "inproc", "{transport}: {error}");
        let (request, bind) = asked(node.stop_token());
        let inside = over.connect_calls(server.endpoint(), &request, bind).unwrap();
        let error = connection(&|_, _| {});
        assert!(error.contains("which is the limit"), "{transport}: {error}");
        drop(inside);
    }
}
