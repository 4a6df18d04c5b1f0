//! The transports over sockets. They differ only in how a socket is opened.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{StreamInlet, StreamOutlet};
use crate::error::{Error, Result};
use crate::sys::socket::{Listener, Socket};
use crate::terms::{Flow, Overflow, Scope};
use crate::transport::accept::{AcceptThread, Acceptor};
use crate::transport::duplex::{
    self, CallAcceptor, CallConnection, CallHello, CallListener, CallWelcome, Duplex,
};
use crate::transport::handshake::{self, Hello, HelloReply, Welcome};
use crate::transport::{
    AnyInlet, AnyOutlet, BindRequest, Capabilities, ConnectRequest, Endpoint, Reach, Transport,
};

/// A transport over sockets.
pub(in crate::transport) struct StreamTransport {
    pub capabilities: Capabilities,
    /// Opens a listener, and returns its endpoint.
    pub listen: fn(&BindRequest) -> Result<(Listener, Endpoint)>,
    pub connect: fn(&Endpoint, &ConnectRequest) -> Result<Socket>,
}

impl StreamTransport {
    /// The capabilities that all of them share.
    pub(in crate::transport) const CAPABILITIES: Capabilities = Capabilities {
        name: "",
        summary: "",
        reach: Reach::Host,
        copies: "two",
        depth: "the kernel's socket buffers; with flow credit or stop-resume, packets",
        flows: &Flow::ALL,
        scopes: &Scope::ALL,
        overflows: &Overflow::ALL,
        ring: false,
        groups: false,
        trust: "",
    };
}

impl Transport for StreamTransport {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn bind(&self, request: BindRequest) -> Result<AnyOutlet> {
        let (listener, endpoint) = (self.listen)(&request)?;
        Ok(AnyOutlet::other(StreamOutlet::new(request, endpoint, listener)?))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
        let socket = (self.connect)(endpoint, request)?;
        Ok(AnyInlet::other(StreamInlet::connect(socket, endpoint, request)?))
    }

    fn listen_calls(&self, request: BindRequest, acceptor: Box<dyn CallAcceptor>) -> Result<CallListener> {
        let (listener, endpoint) = (self.listen)(&request)?;
        let acceptor = StreamCallAcceptor { endpoint: endpoint.clone(), request, acceptor };
        Ok(CallListener::new(endpoint, AcceptThread::start(listener, acceptor)?))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let socket = (self.connect)(endpoint, request)?;
        let call = CallHello { page: 0, membarrier: false, ..CallHello::new(&bind) };
        let hello = Hello { call: Some(call), ..Hello::new(endpoint, request) };
        let (welcome, _) = handshake::exchange_hello(&socket, endpoint, &hello, &[])?;
        let call = duplex::call_welcome(&request.connection, &welcome)?;
        if !duplex::is_valid_buffer(welcome.buffer) {
            let violation = format!("announced a buffer of {} bytes", welcome.buffer);
            return Err(Error::misbehaved(&request.connection, violation));
        }
        let duplex = pair(socket, bind, endpoint.clone(), &request.connection, welcome.buffer)?;
        Ok(CallConnection { duplex, server_info: call.server })
    }
}

fn pair(
    socket: Socket,
    bind: BindRequest,
    endpoint: Endpoint,
    connection: &str,
    its_buffer: u32,
) -> Result<Duplex> {
    let socket = Arc::new(socket);
    let inlet = StreamInlet::of_pair(Arc::clone(&socket), connection, its_buffer)?;
    let outlet = StreamOutlet::of_pair(bind, endpoint, socket, connection)?;
    Ok(Duplex { outlet: AnyOutlet::other(outlet), inlet: AnyInlet::other(inlet) })
}

struct StreamCallAcceptor {
    endpoint: Endpoint,
    request: BindRequest,
    acceptor: Box<dyn CallAcceptor>,
}

impl Acceptor for StreamCallAcceptor {
    fn accept(&mut self, hello: Hello, socket: &Socket, _: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        let (key, payload) = (self.endpoint.keys[0], &self.request.payload);
        let buffer = duplex::check_client(&hello, key, payload, &mut *self.acceptor)?.buffer;
        let call = CallWelcome { membarrier: false, server: self.acceptor.server_info() };
        let welcome = Welcome::new(self.endpoint.keys[1], None, self.request.options.buffer);
        let answer = HelloReply::Welcome(Welcome { call: Some(call), ..welcome });
        let bytes = handshake::encode_reply(&answer).map_err(|e| e.to_string())?;
        let kept = socket.try_clone().map_err(|e| e.to_string())?;
        kept.set_nonblocking(false).map_err(|e| e.to_string())?;
        let bind = BindRequest { port: hello.connection.clone(), ..self.request.clone() };
        let duplex =
            pair(kept, bind, self.endpoint.clone(), &hello.connection, buffer).map_err(|e| e.to_string())?;
        (&mut &*socket).write_all(&bytes).map_err(|e| e.to_string())?;
        self.acceptor.accept(&hello, duplex);
        Ok(None)
    }
}
