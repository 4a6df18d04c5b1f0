//! `inproc`: threads of one process share a ring; a table in the process leads to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::duplex::{self, CallConnection, Duplex};
use super::handshake::Hello;
use super::ring::{
    CursorPage, Doorbells, PeerHandle, PendingReader, ReaderRegistration, RingInlet, RingMemory, RingOutlet,
    RingPages, RingShared, SleepersPage,
};
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint, Inlet, Outlet, Reach, Transport};
use crate::error::{Error, Result};
use crate::packet::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::fork::PerProcess;
use crate::sys::membarrier;
use crate::sys::memory::PAGE;
use crate::terms::{Flow, LinkOptions, Overflow, Scope};

/// The transport.
pub(super) struct Inproc;

/// The sending ports of this process, by address.
static PORTS: PerProcess<Mutex<HashMap<String, BoundPort>>> = PerProcess::new(Mutex::default);
/// The servers of calls of this process, by address.
static SERVERS: PerProcess<Mutex<HashMap<String, Arc<Mutex<BoundServer>>>>> = PerProcess::new(Mutex::default);

/// A server of calls.
struct BoundServer {
    keys: [u64; 2],
    request: BindRequest,
    acceptor: Box<dyn duplex::CallAcceptor>,
}

#[derive(Clone)]
struct BoundPort {
    shared: Arc<RingShared>,
    payload: TypeName,
    keys: [u64; 2],
}

impl Transport for Inproc {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "inproc",
            summary: "a memory ring between threads",
            reach: Reach::Process,
            copies: "none",
            depth: "packets in the ring",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: true,
            // No other process can connect in any case.
            groups: true,
            trust: "the process",
        }
    }

    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>> {
        let endpoint = Endpoint::new("inproc", format!("{:016x}", super::random()?))?;
        let (keys, payload, address) = (endpoint.keys, request.payload.clone(), endpoint.address.clone());
        let outlet = RingOutlet::new(request, endpoint, Doorbell::within, |shared| {
            ports().insert(address.clone(), BoundPort { shared, payload, keys });
            Ok(PortEntry(address))
        })?;
        Ok(Box::new(outlet))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>> {
        let port = ports().get(&endpoint.address).cloned();
        let port = port.ok_or_else(|| Error::Refused {
            peer: request.connection.clone(),
            reason: format!("{endpoint} is not in this process; `inproc` joins threads of one process only"),
        })?;
        let hello = Hello::new(endpoint, request);
        hello
            .check(port.keys[0], &port.payload)
            .map_err(|reason| Error::Refused { peer: request.connection.clone(), reason })?;
        let (inlet, pending) = attach(&port.shared, &hello, request)?;
        port.shared.queue_reader(pending, || Ok::<(), Error>(()))?;
        Ok(Box::new(inlet))
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener> {
        let endpoint = Endpoint::new("inproc", format!("{:016x}", super::random()?))?;
        let server = Arc::new(Mutex::new(BoundServer { keys: endpoint.keys, request, acceptor }));
        servers().insert(endpoint.address.clone(), server);
        Ok(duplex::CallListener::new(endpoint.clone(), ServerEntry(endpoint.address)))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let server = servers().get(&endpoint.address).cloned();
        let server = server.ok_or_else(|| Error::Refused {
            peer: request.connection.clone(),
            reason: format!("{endpoint} is not in this process; `inproc` joins threads of one process only"),
        })?;
        // One client at a time, as at any other listener.
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        let call = duplex::CallHello {
            buffer: bind.options.buffer,
            page: PAGE as u32,
            membarrier: membarrier::is_used_with(bind.options.wait),
            outstanding: bind.options.watermarks.high(),
        };
        let hello = Hello { call: Some(call), ..Hello::new(endpoint, request) };
        hello
            .check(server.keys[0], &server.request.payload)
            .and_then(|()| duplex::check_call_hello(&hello))
            .and_then(|()| server.acceptor.check(&hello))
            .map_err(|reason| Error::Refused { peer: request.connection.clone(), reason })?;
        let its = BindRequest { port: hello.connection.clone(), ..server.request.clone() };
        // The client's limit for its replies also limits unread requests, as over all other
        // transports.
        let options = LinkOptions { wait: its.options.wait, ..request.options };
        let peer_request = ConnectRequest { options, ..request.clone() };
        let there =
            OneWay::connect(bind, endpoint, &peer_request, membarrier::is_used_with(its.options.wait))?;
        let back = OneWay::connect(its, endpoint, request, membarrier::is_used_with(request.options.wait))?;
        server.acceptor.accept(&hello, Duplex { outlet: back.outlet, inlet: there.inlet });
        let duplex = Duplex { outlet: there.outlet, inlet: back.inlet };
        Ok(CallConnection { duplex, server_info: server.acceptor.server_info() })
    }
}

/// One direction of a two-way connection.
struct OneWay {
    outlet: Box<dyn Outlet>,
    inlet: Box<dyn Inlet>,
}

impl OneWay {
    fn connect(
        bind: BindRequest,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        membarrier: bool,
    ) -> Result<Self> {
        let mut opened = None;
        let outlet = RingOutlet::new(bind, endpoint.clone(), Doorbell::within, |shared| {
            opened = Some(shared);
            Ok(())
        })?;
        let shared = opened.ok_or_else(|| Error::failed("the ring's shared state is missing"))?;
        let hello = Hello { membarrier, ..Hello::new(endpoint, request) };
        let (inlet, pending) = attach(&shared, &hello, request)?;
        shared.queue_reader(pending, || Ok::<(), Error>(()))?;
        Ok(Self { outlet: Box::new(outlet), inlet: Box::new(inlet) })
    }
}

/// Makes a reader of a ring of this process, and the pending reader for its writer.
fn attach(
    shared: &Arc<RingShared>,
    hello: &Hello,
    request: &ConnectRequest,
) -> Result<(RingInlet, PendingReader)> {
    let (handles, pending) = shared.prepare_reader(hello, Some(std::process::id()))?;
    let locked = shared.locked || request.options.locked;
    let pages = RingPages {
        memory: Arc::new(RingMemory::map(&shared.memory, shared.capacity, false, locked)?),
        cursor: Arc::new(CursorPage::map(&handles.cursor, locked)?),
        sleepers: SleepersPage(Arc::new(handles.sleepers.map()?)),
    };
    let doorbells = Doorbells { data: handles.doorbell, space: shared.space_notify.clone() };
    let peer_handle = PeerHandle::Local(Box::new(ReaderRegistration::new(shared, handles.token)));
    Ok((RingInlet::new(pages, doorbells, peer_handle, shared.membarrier, request)?, pending))
}

fn servers() -> MutexGuard<'static, HashMap<String, Arc<Mutex<BoundServer>>>> {
    // Entries are valid even if the last holder panicked.
    SERVERS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server's entry in the table, removed when dropped.
struct ServerEntry(String);

impl Drop for ServerEntry {
    fn drop(&mut self) {
        // The server is dropped without the table's lock: its handlers may own anything.
        let server = servers().remove(&self.0);
        drop(server);
    }
}

fn ports() -> MutexGuard<'static, HashMap<String, BoundPort>> {
    // Entries are valid even if the last holder panicked.
    PORTS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the table, removed when dropped.
struct PortEntry(String);

impl Drop for PortEntry {
    fn drop(&mut self) {
        ports().remove(&self.0);
    }
}
