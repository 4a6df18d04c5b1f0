//! `shm`: processes of one host share a ring. Its descriptors travel over an abstract Unix socket.
//! The socket then stays open so that each side detects the other's death.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::accept::{AcceptThread, Acceptor};
use super::duplex::{self, CallConnection, CallHello, CallListener, CallWelcome, Duplex};
use super::handshake::{self, Answer, Hello, Welcome};
use super::ring::{
    Bells, CursorPage, Lobby, Pages, Presence, RingInlet, RingMemory, RingOutlet, SleepersPage, Ticket, Tie,
};
use super::watch::Watched;
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint, Inlet, Outlet, Reach, Transport, pump};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{Flow, LinkOptions, Overflow, Scope};
use crate::payload::TypeName;
use crate::sys::barrier;
use crate::sys::doorbell::Doorbell;
use crate::sys::memory::{PAGE, SharedMemory};
use crate::sys::socket::{self, Listener, Socket};

/// The transport.
pub(super) struct Shm;

impl Transport for Shm {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "shm",
            summary: "a memory ring between processes",
            reach: Reach::Host,
            copies: "none",
            depth: "packets in the ring",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: true,
            groups: true,
            trust: "same user or a named group (kernel credentials), key",
        }
    }

    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>> {
        let endpoint = Endpoint::new("shm", format!("stripline-{:016x}", super::random()?))?;
        let listener = Listener::unix(&endpoint.address, request.group)?;
        let (keys, payload) = (endpoint.keys, request.payload.clone());
        let outlet = RingOutlet::new(request, endpoint, Doorbell::between, |lobby| {
            AcceptThread::start(listener, ShmGreeter { lobby, payload, keys })
        })?;
        Ok(Box::new(outlet))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>> {
        let socket = Socket::Unix(socket::connect_unix(&endpoint.address, request.options.group)?);
        fail_point!("connect");
        let (welcome, fds) = handshake::introduce(&socket, endpoint, request)?;
        fail_point!("connect-welcome");
        let locked = welcome.locked || request.options.locked;
        let ring = Ring { bytes: welcome.buffer, page: welcome.page, locked, barriers: welcome.barriers };
        let inlet = ring.inlet(fds, socket, None, request)?;
        fail_point!("connect-attached");
        pump::for_policy(Box::new(inlet), request)
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<CallListener> {
        let endpoint = Endpoint::new("shm", format!("stripline-{:016x}", super::random()?))?;
        let listener = Listener::unix(&endpoint.address, request.group)?;
        let call_acceptor = ShmCallAcceptor { endpoint: endpoint.clone(), request, acceptor };
        Ok(CallListener::new(endpoint, AcceptThread::start(listener, call_acceptor)?))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let stream = socket::connect_unix(&endpoint.address, request.options.group)?;
        let pid = socket::peer_process(&stream);
        let socket = Socket::Unix(stream);
        let mut entrance = None;
        let call = CallHello {
            buffer: bind.buffer,
            page: PAGE as u32,
            barriers: barrier::is_run_by(bind.wait),
            outstanding: bind.watermarks.high(),
        };
        let hello = Hello { call: Some(call), ..Hello::new(endpoint, request) };
        let outlet = RingOutlet::new(bind, endpoint.clone(), Doorbell::between, |lobby| {
            entrance = Some(lobby);
            Ok(())
        })?;
        let lobby = entrance.ok_or_else(|| Error::failed("the ring's shared state is missing"))?;
        let (ticket, mut arrival) = lobby.prepare(&hello, pid)?;
        let (welcome, fds) =
            handshake::introduce_as(&socket, endpoint, &hello, &descriptors(&lobby, &ticket))?;
        let call = duplex::call_welcome(&request.connection, &welcome)?;
        arrival.barriers = call.barriers;
        arrival.tie = Some(socket.try_clone().map_err(|e| Error::system("cannot copy a socket", e))?);
        let presence = Presence::new(&lobby, ticket.token);
        let ring =
            Ring { bytes: welcome.buffer, page: welcome.page, locked: false, barriers: welcome.barriers };
        let inlet = ring.inlet(fds, socket, Some(presence), request)?;
        lobby.enter(arrival, || Ok::<(), Error>(()))?;
        Ok(CallConnection {
            duplex: Duplex { outlet: Box::new(outlet), inlet: Box::new(inlet) },
            server_info: call.card,
        })
    }
}

/// The announcement of a ring that goes with its descriptors.
struct Ring {
    bytes: u32,
    page: u32,
    locked: bool,
    barriers: bool,
}

impl Ring {
    /// Returns the receiving end of it.
    fn inlet(
        &self,
        fds: Vec<OwnedFd>,
        socket: Socket,
        its_reader: Option<Presence>,
        request: &ConnectRequest,
    ) -> Result<RingInlet> {
        let peer = &request.connection;
        if !duplex::is_valid_buffer(self.bytes) {
            return Err(Error::misbehaved(peer, format!("announced a ring of {} bytes", self.bytes)));
        }
        let capacity = self.bytes as usize;
        let fds: [OwnedFd; 5] = fds.try_into().map_err(|fds: Vec<_>| {
            Error::misbehaved(peer, format!("sent {} descriptors, not 5", fds.len()))
        })?;
        let [ring, cursor, sleepers, data, space] = fds;
        let ring = SharedMemory::ring_from_peer(peer, ring, self.page as usize, capacity)?;
        let pages = Pages {
            memory: Arc::new(RingMemory::map(&ring, capacity, false, self.locked)?),
            cursor: Arc::new(CursorPage::map(&SharedMemory::from_peer(peer, cursor, PAGE)?, self.locked)?),
            sleepers: SleepersPage(Arc::new(SharedMemory::from_peer(peer, sleepers, PAGE)?.map()?)),
        };
        let bells =
            Bells { data: Doorbell::from_peer(peer, data)?, space: Doorbell::from_peer(peer, space)? };
        fail_point!("connect-mapped");
        let watched = Watched::new(socket, bells.data.clone(), Arc::clone(&pages.cursor), its_reader)?;
        RingInlet::new(pages, bells, Tie::Socket(watched), self.barriers, request)
    }
}

/// Returns the descriptors that a receiver needs of a ring, in the order of the wire.
fn descriptors<'a>(lobby: &'a Lobby, ticket: &'a Ticket) -> [BorrowedFd<'a>; 5] {
    [
        lobby.memory.as_fd(),
        ticket.cursor.as_fd(),
        ticket.sleepers.as_fd(),
        ticket.bell.as_fd(),
        lobby.space_rope.as_fd(),
    ]
}

struct ShmCallAcceptor {
    endpoint: Endpoint,
    request: BindRequest,
    acceptor: Box<dyn duplex::CallAcceptor>,
}

impl Acceptor for ShmCallAcceptor {
    fn accept(&mut self, hello: Hello, socket: &Socket, fds: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        let Socket::Unix(stream) = socket else { return Err("shared memory needs a Unix socket".into()) };
        hello.check(self.endpoint.keys[0], &self.request.payload)?;
        duplex::check_call_hello(&hello)?;
        self.acceptor.check(&hello)?;
        let Some(call) = &hello.call else { return Err("this is a server of calls, and no topic".into()) };
        let said = |error: Error| error.to_string();
        let copied = || socket.try_clone().map_err(|e| e.to_string());
        let mut entrance = None;
        let bind = BindRequest { port: hello.connection.clone(), ..self.request.clone() };
        let outlet = RingOutlet::new(bind, self.endpoint.clone(), Doorbell::between, |lobby| {
            entrance = Some(lobby);
            Ok(())
        });
        let outlet = outlet.map_err(said)?;
        let lobby = entrance.ok_or("the ring's shared state is missing")?;
        let (ticket, mut arrival) = lobby.prepare(&hello, socket::peer_process(stream)).map_err(said)?;
        arrival.tie = Some(copied()?);
        let ring = Ring { bytes: call.buffer, page: call.page, locked: false, barriers: call.barriers };
        let mut request = ConnectRequest {
            connection: hello.connection.clone(),
            payload: hello.payload.clone(),
            options: LinkOptions::default(),
        };
        request.options.wait = self.request.wait;
        let presence = Presence::new(&lobby, ticket.token);
        let inlet = ring.inlet(fds, copied()?, Some(presence), &request).map_err(said)?;
        let server_info = CallWelcome {
            barriers: barrier::is_run_by(self.request.wait),
            card: self.acceptor.server_info(),
        };
        let welcome = Welcome {
            page: lobby.memory.page() as u32,
            barriers: lobby.barriers,
            call: Some(server_info),
            ..Welcome::new(self.endpoint.keys[1], None, lobby.capacity as u32)
        };
        let bytes = handshake::encode_answer(&Answer::Welcome(welcome)).map_err(said)?;
        lobby.enter(arrival, || {
            socket::send_with_fds(stream, &bytes, &descriptors(&lobby, &ticket)).map_err(|e| e.to_string())
        })?;
        self.acceptor.accept(&hello, Duplex { outlet: Box::new(outlet), inlet: Box::new(inlet) });
        Ok(None)
    }

    fn closed(&mut self, _: u64) {}
}

struct ShmGreeter {
    lobby: Arc<Lobby>,
    payload: TypeName,
    keys: [u64; 2],
}

impl Acceptor for ShmGreeter {
    fn accept(&mut self, hello: Hello, socket: &Socket, _: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        let Socket::Unix(stream) = socket else { return Err("shared memory needs a Unix socket".into()) };
        hello.check(self.keys[0], &self.payload)?;
        fail_point!("greet");
        let pid = socket::peer_process(stream);
        let (ticket, mut arrival) = self.lobby.prepare(&hello, pid).map_err(|e| e.to_string())?;
        arrival.tie = Some(socket.try_clone().map_err(|e| e.to_string())?);
        let welcome = Welcome {
            page: self.lobby.memory.page() as u32,
            locked: self.lobby.locked,
            barriers: self.lobby.barriers,
            ..Welcome::new(self.keys[1], None, self.lobby.capacity as u32)
        };
        let fds = descriptors(&self.lobby, &ticket);
        let bytes = handshake::encode(&Answer::Welcome(welcome)).map_err(|e| e.to_string())?;
        self.lobby.enter(arrival, || {
            let sent = socket::send_with_fds(stream, &bytes, &fds).map_err(|e| e.to_string());
            fail_point!("greet-welcomed");
            sent
        })?;
        fail_point!("greet-entered");
        Ok(Some(ticket.token))
    }

    fn closed(&mut self, token: u64) {
        self.lobby.leave(token);
    }
}
