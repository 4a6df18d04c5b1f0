//! `shm`: processes of one host share a ring. The ring's descriptors travel over a Unix socket. The
//! socket then stays open, so that each side detects the death of the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::accept::{AcceptThread, Acceptor, ArrivedReceiver};
use super::duplex::{self, CallConnection, CallListener, Duplex};
use super::handshake::{self, CallHello, CallWelcome, Hello, HelloReply, Welcome};
use super::peer_monitor::MonitoredPeer;
use super::ring::{
    Doorbells, PeerHandle, ReaderHandles, ReaderRegistration, RingInlet, RingOutlet, RingPages, RingShared,
};
use super::{
    AnyInlet, AnyOutlet, BindRequest, Capabilities, ConnectRequest, Endpoint, Reach, Transport, uds,
};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::membarrier;
use crate::sys::memory::{PAGE, SharedMemory};
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::{self, Socket};
use crate::terms::LinkOptions;

/// The transport.
pub(super) struct Shm;

impl Transport for Shm {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "shm",
            summary: "a memory ring between processes",
            reach: Reach::Host,
            trust: "same user or a named group (kernel credentials), key",
            ..RingOutlet::CAPABILITIES
        }
    }

    fn bind(&self, request: BindRequest) -> Result<AnyOutlet> {
        let (listener, endpoint) = uds::listen("shm", &request)?;
        let (keys, payload, any_build) = (endpoint.keys, request.payload.clone(), request.options.any_build);
        let port = request.port.clone();
        let mut outlet = RingOutlet::new(request, endpoint, Doorbell::between)?;
        let shared = Arc::clone(&outlet.shared);
        outlet.hold(AcceptThread::start(&port, listener, ShmAcceptor { shared, payload, any_build, keys })?);
        Ok(outlet.into())
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
        let socket = Socket::Unix(socket::connect_address(&endpoint.address, request.options.group)?);
        fail_point!("connect");
        let (welcome, fds) =
            handshake::exchange_hello(&socket, endpoint, &Hello::new(endpoint, request), &[], |_| Ok(()))?;
        fail_point!("connect-welcome");
        let locked = welcome.locked || request.options.locked;
        let ring = Ring { bytes: welcome.buffer, page: welcome.page, locked, membarrier: welcome.membarrier };
        let inlet = ring.inlet(fds, socket, None, request)?;
        fail_point!("connect-attached");
        Ok(inlet.into())
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<CallListener> {
        let (listener, endpoint) = uds::listen("shm", &request)?;
        let port = request.port.clone();
        let call_acceptor = ShmCallAcceptor { endpoint: endpoint.clone(), request, acceptor };
        Ok(CallListener::new(endpoint, AcceptThread::start(&port, listener, call_acceptor)?))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let stream = socket::connect_address(&endpoint.address, request.options.group)?;
        let pid = socket::peer_process(&stream);
        let socket = Socket::Unix(stream);
        let hello = Hello { call: Some(CallHello::new(&bind)), ..Hello::new(endpoint, request) };
        let outlet = RingOutlet::new(bind, endpoint.clone(), Doorbell::between)?;
        let (handles, mut pending) = outlet.shared.prepare_reader(&hello, pid)?;
        let fds = descriptors(&outlet.shared, &handles);
        let (welcome, fds) = handshake::exchange_hello(&socket, endpoint, &hello, &fds, |_| Ok(()))?;
        let call = duplex::call_welcome(&request.connection, &welcome)?;
        pending.membarrier = call.membarrier;
        pending.peer = Some(socket.try_clone().map_err(|e| Error::system("cannot copy a socket", e))?);
        let registration = ReaderRegistration::new(&outlet.shared, handles.token);
        let ring =
            Ring { bytes: welcome.buffer, page: welcome.page, locked: false, membarrier: welcome.membarrier };
        let inlet = ring.inlet(fds, socket, Some(registration), request)?;
        outlet.shared.queue_reader(pending, || Ok::<(), Error>(()))?;
        Ok(CallConnection {
            duplex: Duplex { outlet: outlet.into(), inlet: inlet.into() },
            server_info: call.server,
        })
    }
}

/// The announcement of a ring that comes with the ring's descriptors.
struct Ring {
    bytes: u32,
    page: u32,
    locked: bool,
    membarrier: bool,
}

impl Ring {
    /// Returns the receiving end of the ring.
    fn inlet(
        &self,
        fds: Vec<OwnedFd>,
        socket: Socket,
        registration: Option<ReaderRegistration>,
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
        let cursor = SharedMemory::from_peer(peer, cursor, PAGE)?;
        let sleepers = SharedMemory::from_peer(peer, sleepers, PAGE)?;
        let pages = RingPages::map(&ring, capacity, &cursor, &sleepers, self.locked)?;
        let doorbells =
            Doorbells { data: Doorbell::from_peer(peer, data)?, space: Doorbell::from_peer(peer, space)? };
        fail_point!("connect-mapped");
        let monitored =
            MonitoredPeer::new(socket, doorbells.data.clone(), Arc::clone(&pages.cursor), registration)?;
        RingInlet::new(pages, doorbells, PeerHandle::Socket(monitored), self.membarrier, request)
    }
}

/// Returns the descriptors of a ring that a receiver needs, in the order of the wire.
fn descriptors<'a>(shared: &'a RingShared, handles: &'a ReaderHandles) -> [BorrowedFd<'a>; 5] {
    [
        shared.memory.as_fd(),
        handles.cursor.as_fd(),
        handles.sleepers.as_fd(),
        handles.doorbell.as_fd(),
        shared.space_notify.as_fd(),
    ]
}

struct ShmCallAcceptor {
    endpoint: Endpoint,
    request: BindRequest,
    acceptor: Box<dyn duplex::CallAcceptor>,
}

impl Acceptor for ShmCallAcceptor {
    fn accept(&mut self, arrival: ArrivedReceiver, socket: &Socket) -> Result<Option<u64>, PeerRefusal> {
        let ArrivedReceiver { hello, fds, .. } = arrival;
        let Socket::Unix(stream) = socket else { return Err("shared memory needs a Unix socket".into()) };
        let (key, payload) = (self.endpoint.keys[0], &self.request.payload);
        let call = duplex::check_client(&hello, key, payload, &mut *self.acceptor)?;
        let copied = || socket.try_clone().map_err(|e| e.to_string());
        let bind = BindRequest { port: hello.connection.clone(), ..self.request.clone() };
        let outlet = RingOutlet::new(bind, self.endpoint.clone(), Doorbell::between)?;
        let shared = &outlet.shared;
        let (handles, mut pending) = shared.prepare_reader(&hello, socket::peer_process(stream))?;
        pending.peer = Some(copied()?);
        let ring = Ring { bytes: call.buffer, page: call.page, locked: false, membarrier: call.membarrier };
        let options = LinkOptions { wait: self.request.options.wait, ..LinkOptions::default() };
        let request = ConnectRequest::new(hello.connection.clone(), hello.payload.clone(), options);
        let registration = ReaderRegistration::new(shared, handles.token);
        let inlet = ring.inlet(fds, copied()?, Some(registration), &request)?;
        let server_info = CallWelcome {
            membarrier: membarrier::is_used_with(self.request.options.wait),
            server: self.acceptor.server_info(),
        };
        let welcome = Welcome {
            page: shared.memory.page() as u32,
            membarrier: shared.membarrier,
            call: Some(server_info),
            ..Welcome::new(self.endpoint.keys[1], None, shared.capacity as u32)
        };
        let bytes = handshake::encode_reply(&HelloReply::Welcome(welcome))?;
        shared.queue_reader(pending, || {
            socket::send_with_fds(stream, &bytes, &descriptors(shared, &handles)).map_err(|e| e.to_string())
        })?;
        self.acceptor.accept(&hello, Duplex { outlet: outlet.into(), inlet: inlet.into() });
        Ok(None)
    }
}

struct ShmAcceptor {
    shared: Arc<RingShared>,
    payload: TypeName,
    /// Whether a type without a layout may go to a program that is built differently.
    any_build: bool,
    keys: [u64; 2],
}

impl Acceptor for ShmAcceptor {
    fn accept(
        &mut self,
        ArrivedReceiver { hello, .. }: ArrivedReceiver,
        socket: &Socket,
    ) -> Result<Option<u64>, PeerRefusal> {
        let Socket::Unix(stream) = socket else { return Err("shared memory needs a Unix socket".into()) };
        hello.check(self.keys[0], &self.payload, self.any_build)?;
        fail_point!("greet");
        let pid = socket::peer_process(stream);
        let (handles, mut pending) = self.shared.prepare_reader(&hello, pid)?;
        pending.peer = Some(socket.try_clone().map_err(|e| e.to_string())?);
        let welcome = Welcome {
            page: self.shared.memory.page() as u32,
            locked: self.shared.locked,
            membarrier: self.shared.membarrier,
            ..Welcome::new(self.keys[1], None, self.shared.capacity as u32)
        };
        let fds = descriptors(&self.shared, &handles);
        let bytes = handshake::encode(&HelloReply::Welcome(welcome))?;
        self.shared.queue_reader(pending, || {
            let sent = socket::send_with_fds(stream, &bytes, &fds).map_err(|e| e.to_string());
            fail_point!("greet-welcomed");
            sent
        })?;
        fail_point!("greet-entered");
        Ok(Some(handles.token))
    }

    fn closed(&mut self, token: u64) {
        self.shared.remove_reader(token);
    }
}
