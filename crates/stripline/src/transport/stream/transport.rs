//! The transports over byte streams. The transports differ in how they open a socket, and in the
//! carrier.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::StreamInlet;
use super::outlet::StreamOutlet;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::sys::doorbell::PollSet;
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::{self, Listener, Socket};
use crate::terms::{Flow, Overflow, Scope};
use crate::transport::accept::{AcceptThread, Acceptor, ArrivedReceiver};
use crate::transport::carrier::{Carrier, PathRequest, Sink, Source, Ticket, open_sink};
use crate::transport::duplex::{self, CallAcceptor, CallConnection, CallListener, Duplex};
use crate::transport::handshake::{self, CallHello, CallWelcome, Hello, HelloReply, Welcome};
use crate::transport::uds;
use crate::transport::{
    AnyInlet, AnyOutlet, BindRequest, Capabilities, ConnectRequest, Endpoint, Reach, Transport,
};

/// The longest wait of a receiving end for its path to open, longer than the time in which the
/// sender probes.
const OPEN_TIME: Duration = Duration::from_secs(5);

/// A transport over byte streams.
pub struct StreamTransport {
    /// The capabilities, for the registry.
    pub capabilities: Capabilities,
    /// Opens a listener of the signalling sockets, and returns the endpoint with the transport's
    /// name.
    pub listen: fn(&str, &BindRequest) -> Result<(Listener, Endpoint)>,
    /// Connects a signalling socket.
    pub connect: fn(&Endpoint, &ConnectRequest) -> Result<Socket>,
    /// The carrier of the frames; `None`: they travel on the signalling socket.
    pub carrier: Option<Carrier>,
}

/// The receiving end of a data path, and the ticket for the other end; empty without a carrier.
#[derive(Default)]
struct ReceivingPath {
    source: Option<Source>,
    ticket: Option<Ticket>,
}

impl ReceivingPath {
    /// Makes the receiving end of a data path, if there is a carrier.
    fn new(carrier: Option<Carrier>, request: &PathRequest<'_>) -> Result<Self> {
        let Some(carrier) = carrier else { return Ok(Self::default()) };
        let (source, ticket) = (carrier.source)(request)?;
        Ok(Self { source: Some(source), ticket: Some(ticket) })
    }

    fn address(&self) -> Option<String> {
        self.ticket.as_ref().map(|ticket| ticket.address.clone())
    }

    fn hello(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Hello {
        let session = self.ticket.as_ref().and_then(|ticket| ticket.session);
        Hello { path: self.address(), session, ..Hello::new(endpoint, request) }
    }

    /// Sends a hello and receives the reply. In between, the source opens the path.
    fn exchange(self, socket: &Socket, endpoint: &Endpoint, hello: &Hello) -> Result<Welcomed> {
        let Self { mut source, ticket } = self;
        let fds = ticket.as_ref().map(Ticket::borrowed_fds).unwrap_or_default();
        let open = |socket: &Socket| source.as_mut().map_or(Ok(()), |source| open_source(source, socket));
        let (welcome, sender_fds) = handshake::exchange_hello(socket, endpoint, hello, &fds, open)?;
        Ok((welcome, sender_fds, source))
    }
}

/// Opens a path as far as the receiving end has a part in that. Returns once the path is open,
/// something can be read from the signalling socket, or the path is late. The reply on the socket
/// then has the reason.
fn open_source(source: &mut Source, signalling: &Socket) -> io::Result<()> {
    let until = Instant::now() + OPEN_TIME;
    while let Some(on) = source.end.open()? {
        let mut poll_set = PollSet::default();
        poll_set.readable(on);
        poll_set.readable(signalling.as_fd());
        if !poll_set.wait(Some(until)).map_err(io::Error::other)? || poll_set.is_ready(1) {
            break;
        }
    }
    Ok(())
}

/// A welcome with descriptors, and the source of the path.
type Welcomed = (Welcome, Vec<OwnedFd>, Option<Source>);

impl StreamTransport {
    /// A transport with Unix sockets for signalling, between processes of one host.
    pub const LOCAL: Self =
        Self { capabilities: Self::CAPABILITIES, listen: uds::listen, connect: uds::connect, carrier: None };

    /// The capabilities that all transports over byte streams share.
    pub const CAPABILITIES: Capabilities = Capabilities {
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
        library: None,
    };
}

impl Transport for StreamTransport {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn bind(&self, request: BindRequest) -> Result<AnyOutlet> {
        let (listener, endpoint) = (self.listen)(self.capabilities.name, &request)?;
        Ok(AnyOutlet::other(StreamOutlet::new(request, endpoint, listener, self.carrier)?))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
        let of_receiver = PathRequest::of_receiver(&request.connection, &request.options);
        let path =
            ReceivingPath::new(self.carrier, &PathRequest { endpoint: Some(endpoint), ..of_receiver })?;
        let socket = (self.connect)(endpoint, request)?;
        fail_point!("connect");
        let hello = path.hello(endpoint, request);
        let (welcome, _, source) = path.exchange(&socket, endpoint, &hello)?;
        fail_point!("connect-welcome");
        let inlet = StreamInlet::connect(socket, source, &welcome, endpoint, request)?;
        fail_point!("connect-attached");
        Ok(AnyInlet::other(inlet))
    }

    fn listen_calls(&self, request: BindRequest, acceptor: Box<dyn CallAcceptor>) -> Result<CallListener> {
        let (listener, endpoint) = (self.listen)(self.capabilities.name, &request)?;
        let carrier = self.carrier;
        if carrier.is_some() && matches!(listener, Listener::Tcp(_)) {
            let transport = endpoint.transport.clone();
            let rule = "calls with `bind` (a server has no session to another host)".into();
            return Err(Error::Unsupported { transport, rule, alternatives: "use tcp, or no `bind`".into() });
        }
        let port = request.port.clone();
        let acceptor = StreamCallAcceptor { endpoint: endpoint.clone(), request, carrier, acceptor };
        Ok(CallListener::new(endpoint, AcceptThread::start(&port, listener, acceptor)?))
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<CallConnection> {
        let path = ReceivingPath::new(
            self.carrier,
            &PathRequest::of_calls(
                &request.connection,
                request.options.watermarks(),
                request.options.buffer,
                request.options.transport_options,
            ),
        )?;
        let socket = (self.connect)(endpoint, request)?;
        let call = CallHello { page: 0, membarrier: false, ..CallHello::new(&bind) };
        let hello = Hello { call: Some(call), ..path.hello(endpoint, request) };
        let (welcome, fds, source) = path.exchange(&socket, endpoint, &hello)?;
        let peer = &request.connection;
        let call = duplex::call_welcome(peer, &welcome)?;
        if !duplex::is_valid_buffer(welcome.buffer) {
            let violation = format!("announced a buffer of {} bytes", welcome.buffer);
            return Err(Error::misbehaved(peer, violation));
        }
        // On a busy machine, the path may find the server late.
        let own = Ticket { fds, is_complete: true, must_be_open: true, ..Ticket::default() };
        let own = Ticket { options: bind.options.transport_options, ..own };
        let sink =
            open_sink(self.carrier, welcome.path.as_deref(), own).map_err(|refusal| match refusal {
                PeerRefusal::Lack(reason) => handshake::late(reason, endpoint, peer),
                fault => Error::misbehaved(peer, format!("sent a welcome that does not fit: {fault}")),
            })?;
        let duplex =
            pair(socket, (source, sink), bind, endpoint.clone(), peer, (welcome.buffer, welcome.clock))?;
        Ok(CallConnection { duplex, server_info: call.server })
    }
}

/// Both ends of this side's data paths; empty without a carrier.
type PathEnds = (Option<Source>, Option<Sink>);

fn pair(
    socket: Socket,
    (source, sink): PathEnds,
    bind: BindRequest,
    endpoint: Endpoint,
    connection: &str,
    (peer_buffer, peer_clock): (u32, Option<u64>),
) -> Result<Duplex> {
    let socket = Arc::new(socket);
    let inlet = StreamInlet::of_pair(Arc::clone(&socket), source, connection, peer_buffer, peer_clock)?;
    let outlet = StreamOutlet::of_pair(bind, endpoint, socket, sink, connection)?;
    Ok(Duplex { outlet: AnyOutlet::other(outlet), inlet: AnyInlet::other(inlet) })
}

struct StreamCallAcceptor {
    endpoint: Endpoint,
    request: BindRequest,
    carrier: Option<Carrier>,
    acceptor: Box<dyn CallAcceptor>,
}

impl StreamCallAcceptor {
    /// Checks a client, and returns the bytes of the client's buffer.
    fn check(&mut self, hello: &Hello) -> Result<u32, PeerRefusal> {
        let (key, payload) = (self.endpoint.keys[0], &self.request.payload);
        Ok(duplex::check_client(hello, key, payload, &mut *self.acceptor)?.buffer)
    }
}

impl Acceptor for StreamCallAcceptor {
    fn open_path(&mut self, hello: &Hello, fds: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal> {
        self.check(hello)?;
        let options = self.request.options.transport_options;
        let own = Ticket { fds: std::mem::take(fds), is_complete: true, options, ..Ticket::default() };
        open_sink(self.carrier, hello.path.as_deref(), own)
    }

    fn accept(&mut self, arrival: ArrivedReceiver, socket: &Socket) -> Result<Option<u64>, PeerRefusal> {
        let ArrivedReceiver { hello, path: sink, .. } = arrival;
        // Other clients may have connected while the path was probed.
        let buffer = self.check(&hello)?;
        let path_request = PathRequest::of_calls(
            &hello.connection,
            self.request.options.watermarks,
            self.request.options.buffer,
            self.request.options.transport_options,
        );
        let path = ReceivingPath::new(self.carrier, &path_request).map_err(|e| e.to_string())?;
        let call = CallWelcome { membarrier: false, server: self.acceptor.server_info() };
        let welcome = Welcome::new(self.endpoint.keys[1], None, self.request.options.buffer);
        let answer = HelloReply::Welcome(Welcome { path: path.address(), call: Some(call), ..welcome });
        let bytes = handshake::encode_reply(&answer).map_err(|e| e.to_string())?;
        let kept = socket.try_clone().map_err(|e| e.to_string())?;
        kept.set_nonblocking(false).map_err(|e| e.to_string())?;
        let bind = BindRequest { port: hello.connection.clone(), ..self.request.clone() };
        let fds = path.ticket;
        let paths = (path.source, sink);
        let duplex = pair(kept, paths, bind, self.endpoint.clone(), &hello.connection, (buffer, hello.clock))
            .map_err(|e| e.to_string())?;
        let sent = match (socket, &fds) {
            (Socket::Unix(stream), Some(ticket)) => {
                socket::send_with_fds(stream, &bytes, &ticket.borrowed_fds())
            }
            _ => (&mut &*socket).write_all(&bytes),
        };
        sent.map_err(|e| e.to_string())?;
        self.acceptor.accept(&hello, duplex);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::doorbell::Doorbell;
    use crate::transport::carrier::{PathSource, ReadRoom, ReadWait};

    /// The end of a path that never opens.
    struct Closed(Doorbell);

    impl PathSource for Closed {
        fn read(&mut self, _: &mut ReadRoom<'_>, _: ReadWait) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn poll_bytes<'a>(&'a mut self, _: &mut PollSet<'a>) -> bool {
            true
        }

        fn open(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
            Ok(Some(self.0.as_fd()))
        }
    }

    #[test]
    fn a_reply_ends_the_wait_for_a_path_to_open() {
        let (reply, sender) = UnixStream::pair().unwrap();
        drop(sender);
        open_source(&mut Source::new(Closed(Doorbell::new().unwrap())), &Socket::from(reply)).unwrap();
    }
}
