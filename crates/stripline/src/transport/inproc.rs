//! `inproc`: threads of one process share a ring. A table in the process leads to the ring.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::duplex::{self, CallConnection, Duplex};
use super::handshake::{CallHello, Hello};
use super::ring::{Doorbells, PeerHandle, ReaderRegistration, RingInlet, RingOutlet, RingPages, RingShared};
use super::{AnyInlet, AnyOutlet, BindRequest, Capabilities, ConnectRequest, Endpoint, Transport};
use crate::error::{Error, Result};
use crate::packet::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::fork::PerProcess;
use crate::sys::membarrier;
use crate::sys::mutex::lock;
use crate::terms::{LinkOptions, WaitStrategy};

/// The transport.
pub(super) struct Inproc;

/// The sending ports of this process, by address.
static PORTS: AddressTable<BoundPort> = AddressTable(PerProcess::new(Mutex::default));
/// The servers of calls of this process, by address.
static SERVERS: AddressTable<Arc<Mutex<BoundServer>>> = AddressTable(PerProcess::new(Mutex::default));

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

/// A table of this process, from addresses to the values that listen there.
struct AddressTable<T>(PerProcess<Mutex<HashMap<String, T>>>);

impl<T: Clone> AddressTable<T> {
    fn entries(&'static self) -> MutexGuard<'static, HashMap<String, T>> {
        lock(self.0.get())
    }

    /// Adds a value, which is removed when the entry is dropped.
    fn add(&'static self, address: &str, value: T) -> Entry<T> {
        self.entries().insert(address.into(), value);
        Entry { table: self, address: address.into() }
    }

    fn find(&'static self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<T> {
        self.entries().get(&endpoint.address).cloned().ok_or_else(|| Error::Refused {
            peer: request.connection.clone(),
            reason: format!("{endpoint} is not in this process; `inproc` joins threads of one process only"),
        })
    }
}

/// An entry in a table.
struct Entry<T: Clone + 'static> {
    table: &'static AddressTable<T>,
    address: String,
}

impl<T: Clone> Drop for Entry<T> {
    fn drop(&mut self) {
        // The value is dropped without the table's lock: the handlers of a server may own anything.
        let value = self.table.entries().remove(&self.address);
        drop(value);
    }
}

impl Transport for Inproc {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "inproc",
            summary: "a memory ring between threads",
            // No other process can connect in any case.
            groups: true,
            trust: "the process",
            ..RingOutlet::CAPABILITIES
        }
    }

    fn bind(&self, request: BindRequest) -> Result<AnyOutlet> {
        let endpoint = listen()?;
        let (keys, payload, address) = (endpoint.keys, request.payload.clone(), endpoint.address.clone());
        let mut outlet = RingOutlet::new(request, endpoint, Doorbell::within)?;
        let shared = Arc::clone(&outlet.shared);
        outlet.hold(PORTS.add(&address, BoundPort { shared, payload, keys }));
        Ok(outlet.into())
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
        let port = PORTS.find(endpoint, request)?;
        let hello = Hello::new(endpoint, request);
        hello
            // Both ends are in one program.
            .check(port.keys[0], &port.payload, true)
            .map_err(|refusal| Error::Refused {
                peer: request.connection.clone(),
                reason: refusal.to_string(),
            })?;
        Ok(attach(&port.shared, &hello, request)?.into())
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener> {
        let endpoint = listen()?;
        let server = Arc::new(Mutex::new(BoundServer { keys: endpoint.keys, request, acceptor }));
        let entry = SERVERS.add(&endpoint.address, server);
        Ok(duplex::CallListener::new(endpoint, entry))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let server = SERVERS.find(endpoint, request)?;
        // One client at a time, like at any other listener.
        let mut server = lock(&server);
        let call = Some(CallHello::new(&bind));
        let hello = Hello { call, ..Hello::new(endpoint, request) };
        let BoundServer { keys, request: offered, acceptor } = &mut *server;
        duplex::check_client(&hello, keys[0], &offered.payload, &mut **acceptor).map_err(|refusal| {
            Error::Refused { peer: request.connection.clone(), reason: refusal.to_string() }
        })?;
        let replies = BindRequest { port: hello.connection.clone(), ..server.request.clone() };
        // The client's limit for its replies also limits unread requests, as over all other
        // transports.
        let options = LinkOptions { wait: replies.options.wait, ..request.options };
        let peer_request = ConnectRequest { options, ..request.clone() };
        let (replies_wait, own_wait) = (replies.options.wait, request.options.wait);
        let (outlet, server_inlet) = one_way(bind, endpoint, &peer_request, replies_wait)?;
        let (server_outlet, inlet) = one_way(replies, endpoint, request, own_wait)?;
        server.acceptor.accept(&hello, Duplex { outlet: server_outlet, inlet: server_inlet });
        let server_info = server.acceptor.server_info();
        Ok(CallConnection { duplex: Duplex { outlet, inlet }, server_info })
    }
}

/// Returns an endpoint with an address that cannot be guessed.
fn listen() -> Result<Endpoint> {
    Endpoint::new("inproc", format!("{:016x}", super::random()?))
}

/// Returns both ends of one direction of a two-way connection.
fn one_way(
    bind: BindRequest,
    endpoint: &Endpoint,
    request: &ConnectRequest,
    wait: WaitStrategy,
) -> Result<(AnyOutlet, AnyInlet)> {
    let outlet = RingOutlet::new(bind, endpoint.clone(), Doorbell::within)?;
    let hello = Hello { membarrier: membarrier::is_used_with(wait), ..Hello::new(endpoint, request) };
    let inlet = attach(&outlet.shared, &hello, request)?;
    Ok((outlet.into(), inlet.into()))
}

/// Makes a reader of a ring of this process, and queues it for the writer.
fn attach(shared: &Arc<RingShared>, hello: &Hello, request: &ConnectRequest) -> Result<RingInlet> {
    let (handles, pending) = shared.prepare_reader(hello, Some(std::process::id()))?;
    let locked = shared.locked || request.options.locked;
    let pages = RingPages::map(&shared.memory, shared.capacity, &handles.cursor, &handles.sleepers, locked)?;
    let doorbells = Doorbells { data: handles.doorbell, space: shared.space_notify.clone() };
    let peer_handle = PeerHandle::Local(ReaderRegistration::new(shared, handles.token));
    let inlet = RingInlet::new(pages, doorbells, peer_handle, shared.membarrier, request)?;
    shared.queue_reader(pending, || Ok::<(), Error>(()))?;
    Ok(inlet)
}
