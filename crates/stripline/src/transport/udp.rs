//! `udp`: datagrams (RFC 768), one socket at each end of a connection, or one send for all members
//! of a multicast group. Datagrams stay on the loopback interface, unless the connection has
//! `insecure` and an address in `bind`.
//!
//! The receiver binds a port, and the hello carries the port's address. A token in each datagram
//! keeps out datagrams of other programs.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use super::carrier::{Carrier, PathRequest, Sink, Source, Ticket, WAIT_MAX};
use super::session::{
    DatagramSink, DatagramSource, GroupSink, SessionSink, SessionSockets, SessionSource, SessionTicket,
};
use super::stream::StreamTransport;
use super::tcp;
use super::uds;
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint, Reach};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::{Listener, Socket};
use crate::sys::udp::{MulticastInterface, UdpEnd};
use crate::sys::udp_batch::DatagramParts;
use crate::sys::udp_charge::loopback_charges;
use crate::terms::{Interface, UdpOptions};

/// The transport.
pub(super) static UDP: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "udp",
        summary: "UDP over the loopback interface, repaired or reported; to other hosts with `insecure`",
        reach: Reach::Network,
        depth: "the receiver's socket buffer; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials); with `bind`, key on both sides; token in each datagram",
        ..StreamTransport::CAPABILITIES
    },
    listen,
    connect,
    carrier: Some(CARRIER),
};

/// The most routers that a datagram to a group passes. With 1, it stays on the network.
const TTL: u32 = 1;
/// Opens the listener of the signalling sockets: on a Unix socket, or on the address in `bind`.
pub(super) fn listen(transport: &str, request: &BindRequest) -> Result<(Listener, Endpoint)> {
    let udp = request.options.transport_options.udp.unwrap_or_default();
    udp.check().map_err(|fault| Error::Configuration(format!("{}: {fault}", request.port)))?;
    match udp.bind {
        Some(address) => tcp::listen(transport, address),
        None => uds::listen(transport, request),
    }
}

/// Connects the signalling socket.
pub(super) fn connect(endpoint: &Endpoint, request: &ConnectRequest) -> Result<Socket> {
    let is_insecure = request.options.transport_options.udp.is_some_and(|udp| udp.insecure);
    tcp::connect_or_unix(endpoint, request, is_insecure)
}

/// The carrier.
pub(super) const CARRIER: Carrier = Carrier { source, sink };

/// A group, and the interface through which it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UdpGroup {
    pub group: SocketAddrV4,
    /// `None`: the interface of the system's route.
    pub interface: Option<Interface>,
}

impl UdpGroup {
    /// Returns the group in the options of a table; `None`: the table has no group.
    fn of_options(options: &UdpOptions) -> Option<Self> {
        Some(Self { group: options.group?, interface: options.interface })
    }

    /// Parses the address of a ticket: `239.1.2.3:5000%lo`. `None`: the address of a single
    /// receiver.
    ///
    /// # Errors
    /// A description of the address's fault, for the peer.
    fn of_ticket(address: &str) -> Result<Option<Self>, String> {
        let Some((group, interface)) = address.split_once('%') else { return Ok(None) };
        let group: SocketAddrV4 = group.parse().map_err(|_| format!("`{address:.64}` is not a group"))?;
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(format!("{group} is not a group"));
        }
        let interface = if interface.is_empty() { None } else { Some(interface.parse()?) };
        Ok(Some(Self { group, interface }))
    }

    /// Returns the group that a sender may send to: the sender's own group, or a group that stays
    /// on the host.
    ///
    /// # Errors
    /// Another group, which would leave the host.
    fn allowed(self, own: &UdpOptions) -> Result<Self, String> {
        match Self::of_options(own) {
            Some(own) if own.group == self.group => Ok(own),
            _ if self.interface.is_some_and(Interface::is_loopback) => Ok(self),
            _ => Err(format!("{} is not the group of the sending port", self.group)),
        }
    }

    fn member(&self) -> io::Result<MulticastInterface> {
        let Some(interface) = self.interface else { return Ok(MulticastInterface::default()) };
        match (interface.address(), interface.name()) {
            (Some(IpAddr::V4(address)), _) => Ok(MulticastInterface { address, index: 0 }),
            (_, Some(name)) => MulticastInterface::named(name),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "a group has an address of IPv4")),
        }
    }

    /// Makes the receiving end of a member.
    pub(super) fn source(&self, request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
        let sockets = SessionSockets::open(request)?;
        let open = || {
            let options = request.options.udp.unwrap_or_default();
            let end = UdpEnd::join(self.group, self.member()?)?;
            let is_loopback = self.interface.is_some_and(Interface::is_loopback);
            let (path, buffer) = UdpSource::of(end, is_loopback, &options)?;
            let (path, address) = (Box::new(path), self.to_string());
            SessionSource::new(path, sockets, address, buffer, UdpEnd::DATAGRAM_MAX, request, true)
        };
        let (source, ticket) = open().map_err(|e| {
            let (connection, group) = (request.connection, self.group);
            match self.interface {
                Some(interface) => {
                    Error::system(format!("{connection}: cannot join group {group} on {interface}"), e)
                }
                None => {
                    Error::system(format!("{connection}: no route to group {group}; name an interface"), e)
                }
            }
        })?;
        Ok((source.into(), ticket))
    }

    /// Opens the sending end. Returns it with the most bytes of a datagram.
    ///
    /// # Errors
    /// A description of the problem, for the peer.
    fn sink(&self, options: &UdpOptions) -> Result<(Box<dyn DatagramSink>, usize), String> {
        let open = || {
            let ttl = options.ttl.map_or(TTL, u32::from);
            let end = UdpEnd::to_group(self.group, self.member()?, ttl)?;
            end.set_pace(options.pace_mbps)?;
            let datagram_max = end.datagram_max()?;
            Ok((Box::new(UdpSink(end)) as _, datagram_max))
        };
        open().map_err(|e: io::Error| format!("no UDP path to the group {self}: {e}"))
    }
}

impl fmt::Display for UdpGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.group)?;
        self.interface.map_or(Ok(()), |interface| interface.fmt(f))
    }
}

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let options = request.options.udp.unwrap_or_default();
    if let Some(group) = UdpGroup::of_options(&options).filter(|_| request.endpoint.is_some()) {
        return group.source(request);
    }
    let failed = |e: io::Error| Error::system(format!("{}: cannot open a UDP port", request.connection), e);
    let sockets = SessionSockets::open(request)?;
    let own = sockets.own_address().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let (path, address, buffer) = UdpSource::bind(own, &options).map_err(failed)?;
    let (path, address) = (Box::new(path), address.to_string());
    let (source, ticket) =
        SessionSource::new(path, sockets, address, buffer, UdpEnd::DATAGRAM_MAX, request, false)
            .map_err(failed)?;
    Ok((source.into(), ticket))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let (is_complete, options) = (ticket.is_complete, ticket.options.udp.unwrap_or_default());
    let groups = ticket.groups.clone();
    let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
    if let Some(group) = UdpGroup::of_ticket(&ticket.address)? {
        let groups = groups.ok_or("calls do not travel to a group")?;
        let group = group.allowed(&options)?;
        let sink = GroupSink::open(&groups, &ticket, sockets, is_complete, || group.sink(&options))?;
        return Ok(Sink::of_session(sink));
    }
    let path = UdpSink::connect(&ticket.address, &sockets[0], &options)?;
    let datagram_max = path.datagram_max()?;
    Ok(Sink::of_session(SessionSink::open(&ticket, sockets, Box::new(path), datagram_max, is_complete)?))
}

/// The receiving end.
pub(super) struct UdpSource {
    end: UdpEnd,
    /// Whether the datagrams come over the loopback interface.
    is_loopback: bool,
}

impl UdpSource {
    /// Opens a receiving end. Returns it with the address, and with the size of the receive buffer
    /// by the kernel's count.
    ///
    /// # Errors
    /// A lack of descriptors or ports.
    pub(super) fn bind(own: IpAddr, options: &UdpOptions) -> io::Result<(Self, SocketAddr, u64)> {
        let (source, buffer) = Self::of(UdpEnd::bind(own)?, own.is_loopback(), options)?;
        let address = source.end.address()?;
        Ok((source, address, buffer))
    }

    /// Returns the source over an end, and the size of the receive buffer by the kernel's count.
    fn of(end: UdpEnd, is_loopback: bool, options: &UdpOptions) -> io::Result<(Self, u64)> {
        let buffer = end.grow_receive_buffer(options.buffer)?;
        end.set_receive_timeout(WAIT_MAX)?;
        end.join_arrivals();
        Ok((Self { end, is_loopback }, buffer))
    }
}

impl DatagramSource for UdpSource {
    fn receive(
        &mut self,
        header: &mut [u8],
        payload: &mut [u8],
        blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize> {
        self.end.receive(header, payload, blocks, more)
    }

    fn room_needed(&self) -> usize {
        // Datagrams that the kernel joins are together at most as long as the largest datagram.
        UdpEnd::DATAGRAM_MAX
    }

    fn queued_charge(&self) -> u64 {
        self.end.queued_charge().unwrap_or(0)
    }

    fn charges(&self, sizes: &mut dyn Iterator<Item = usize>) -> Vec<u32> {
        static LOOPBACK: OnceLock<Vec<u32>> = OnceLock::new();
        // On another interface, no datagram can come for a measurement before there is a sender.
        let measure = || LOOPBACK.get_or_init(|| loopback_charges(sizes)).clone();
        if self.is_loopback { measure() } else { Vec::new() }
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// The sending end.
pub(super) struct UdpSink(UdpEnd);

impl UdpSink {
    /// Opens a sending end to a receiver's address, which arrived in a ticket. The address must be
    /// the address of the other end of the session's socket, so that nothing is sent to third
    /// parties.
    ///
    /// # Errors
    /// A description of the address's fault, for the peer.
    pub(super) fn connect(address: &str, socket: &Socket, options: &UdpOptions) -> Result<Self, String> {
        let to: SocketAddr = address.parse().map_err(|_| format!("`{address:.64}` is not a UDP address"))?;
        if !options.insecure && !to.ip().is_loopback() {
            return Err(format!("{to} is on another host, and the sender does not have `insecure`"));
        }
        let own = match socket.addresses() {
            Some([own, peer]) if peer.ip() == to.ip() => own.ip(),
            Some([_, peer]) => return Err(format!("{to} is not at {}, where the receiver is", peer.ip())),
            None if to.ip().is_loopback() => Ipv4Addr::LOCALHOST.into(),
            None => return Err(format!("{to} is not on the loopback interface")),
        };
        let open = || {
            let end = UdpEnd::bind(own)?;
            end.connect(to)?;
            end.set_pace(options.pace_mbps)?;
            Ok(Self(end))
        };
        open().map_err(|e: io::Error| format!("no UDP path to {to}: {e}"))
    }
}

impl UdpSink {
    /// Returns the most bytes of a datagram that is not fragmented on the way.
    ///
    /// # Errors
    /// A description of the system's refusal, for the peer.
    pub(super) fn datagram_max(&self) -> Result<usize, String> {
        self.0.datagram_max().map_err(|e| format!("no MTU of a UDP path: {e}"))
    }
}

impl DatagramSink for UdpSink {
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        self.0.send(header, payload)
    }

    fn send_many(&self, datagrams: &[DatagramParts<'_>]) -> io::Result<usize> {
        self.0.send_many(datagrams)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.writable(self.0.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::packet::payload::TypeName;
    use crate::terms::{LinkOptions, Repair, SenderOptions, TransportOptions};
    use crate::transport::test_path::{ReadBytes, WriteBytes};
    use crate::transport::{StopToken, Transport};

    /// A path that leads nowhere.
    struct Lost;

    impl DatagramSink for Lost {
        fn send(&self, _header: &[u8], _payload: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn poll_room<'a>(&'a self, _poll_set: &mut PollSet<'a>) {}
    }

    fn sink_to_nowhere(ticket: Ticket) -> Result<Sink, PeerRefusal> {
        let (ticket, sockets) = SessionTicket::of_peer(ticket)?;
        let sink = SessionSink::open(&ticket, sockets, Box::new(Lost), UdpEnd::DATAGRAM_MAX, false)?;
        Ok(Sink::of_session(sink))
    }

    static NOWHERE: StreamTransport = StreamTransport {
        capabilities: Capabilities { name: "udp", ..StreamTransport::CAPABILITIES },
        listen: UDP.listen,
        connect: UDP.connect,
        carrier: Some(Carrier { sink: sink_to_nowhere, ..CARRIER }),
    };

    fn options(udp: UdpOptions) -> LinkOptions {
        let transport_options = TransportOptions { udp: Some(udp), ..TransportOptions::default() };
        LinkOptions { transport_options, ..LinkOptions::default() }
    }

    fn bind(transport: &StreamTransport, udp: UdpOptions) -> Result<crate::transport::AnyOutlet> {
        transport.bind(BindRequest {
            port: "a".into(),
            payload: TypeName::of::<u8>(),
            options: SenderOptions::from(&options(udp)),
            stop: StopToken::new().unwrap(),
            former_paths: Arc::default(),
        })
    }

    fn request(udp: UdpOptions) -> ConnectRequest {
        ConnectRequest::new("a -> b".into(), TypeName::of::<u8>(), options(udp))
    }

    const SECOND: UdpOptions = UdpOptions {
        insecure: false,
        bind: Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))),
        repair: Repair::Needed,
        reorder_ms: None,
        buffer: None,
        ttl: None,
        group: None,
        interface: None,
        pace_mbps: None,
    };

    #[test]
    fn a_path_that_leads_nowhere_fails_the_connect_by_name() {
        for udp in [UdpOptions::default(), SECOND] {
            let outlet = bind(&NOWHERE, udp).unwrap();
            let error = NOWHERE.connect(&outlet.traits().endpoint, &request(udp)).err().unwrap().to_string();
            for words in ["no datagram", "reached 127.0.0.1:", "firewalls", "transport tcp"] {
                assert!(error.contains(words), "{error}");
            }
            assert_eq!(outlet.receivers(true), 0);
        }
    }

    #[test]
    fn a_session_of_joined_sockets_carries_frames() {
        let mut outlet = bind(&UDP, SECOND).unwrap();
        let endpoint = outlet.traits().endpoint;
        assert!(endpoint.address.starts_with("127.0.0.2:"), "{endpoint}");
        // The options of the receiver have no effect here.
        let mut inlet = UDP.connect(&endpoint, &request(UdpOptions::default())).unwrap();
        assert!(outlet.admit(Default::default()).is_new);
        let wait = crate::transport::Wait::Until(None);
        for number in 0..100 {
            let header = crate::packet::Header {
                sequence: number,
                sample_index: 0,
                time_ns: 0,
                intended_ns: 0,
                sent_ns: 0,
                length: 64,
                stream: 0,
                kind: crate::packet::Kind::Data as u8,
                flags: 0,
            };
            let bytes = crate::packet::HEADER_BYTES + 64;
            outlet.reserve(bytes, wait).unwrap()[..crate::packet::HEADER_BYTES]
                .copy_from_slice(bytemuck::bytes_of(&header));
            outlet.publish(bytes, wait).unwrap();
        }
        let mut next = 0;
        while next < 100 {
            match inlet.try_next().unwrap() {
                crate::transport::Next::Frame(frame) => {
                    assert_eq!(crate::packet::Header::read(frame).unwrap().sequence, next);
                    next += 1;
                    inlet.release();
                }
                crate::transport::Next::Empty => std::thread::yield_now(),
                crate::transport::Next::Closed => panic!("closed after {next}"),
            }
        }
    }

    /// Checks a path with a small MTU: a write of many frames becomes many datagrams, and arrives
    /// with few reads where the kernel joins datagrams.
    #[test]
    fn frames_that_are_cut_at_the_mtu_travel_together() {
        let link = options(UdpOptions::default());
        let request = PathRequest::of_receiver("a -> b", &link);
        let (mut source, ticket) = (CARRIER.source)(&request).unwrap();
        let (ticket, sockets) = SessionTicket::of_peer(ticket).unwrap();
        let path = UdpSink::connect(&ticket.address, &sockets[0], &UdpOptions::default()).unwrap();
        let sink =
            Sink::of_session(SessionSink::open(&ticket, sockets, Box::new(path), 1472, false).unwrap());
        // Whole small frames in each datagram, and then a large one in equal parts.
        for payload in [16, 40_000] {
            let mut frames = Vec::new();
            while frames.len() < 40_000 {
                let header = crate::packet::Header {
                    sequence: 0,
                    sample_index: 0,
                    time_ns: 0,
                    intended_ns: 0,
                    sent_ns: 0,
                    length: payload,
                    stream: 0,
                    kind: crate::packet::Kind::Data as u8,
                    flags: 0,
                };
                frames.extend_from_slice(bytemuck::bytes_of(&header));
                frames.resize(frames.len() + payload as usize, 7);
            }
            assert_eq!(sink.end.write_bytes(&frames).unwrap(), frames.len());
            let (mut read, mut reads, mut into) = (Vec::new(), 0, vec![0; 256 << 10]);
            while read.len() < frames.len() {
                match source.end.read_bytes(&mut into) {
                    Ok(bytes) => {
                        read.extend_from_slice(&into[..bytes]);
                        reads += 1;
                    }
                    Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
                }
            }
            assert!(read == frames, "{payload}");
            // There are 28 datagrams: one read takes all datagrams, or eight, or four.
            assert!(reads <= 10, "{reads} reads");
        }
    }

    #[test]
    fn what_would_leave_the_host_is_refused_on_both_sides() {
        let away = UdpOptions { bind: Some([192, 0, 2, 1].into()), ..UdpOptions::default() };
        let error = bind(&UDP, away).err().unwrap().to_string();
        assert!(error.contains("192.0.2.1") && error.contains("insecure = true"), "{error}");
        let error = bind(&UDP, UdpOptions { insecure: true, ..away }).err().unwrap().to_string();
        assert!(error.contains("192.0.2.1") && error.contains("this host does not have"), "{error}");
        let endpoint = Endpoint::new("udp", "192.0.2.1:5000".into()).unwrap();
        let error = UDP.connect(&endpoint, &request(UdpOptions::default())).err().unwrap().to_string();
        assert!(error.contains("192.0.2.1:5000") && error.contains("insecure = true"), "{error}");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = Socket::from(ours);
        let fault = |address: &str, insecure| {
            let options = UdpOptions { insecure, ..UdpOptions::default() };
            UdpSink::connect(address, &socket, &options).err().unwrap()
        };
        assert!(fault("192.0.2.1:9", false).contains("insecure"));
        assert!(fault("192.0.2.1:9", true).contains("not on the loopback"));
        assert!(fault("nowhere", true).contains("not a UDP address"));
    }

    #[test]
    fn parts_and_tickets_that_lie_are_refused() {
        use crate::transport::handshake::{self, Hello, PartHello, SessionPart};
        use std::io::{Read, Write};
        let outlet = bind(&UDP, SECOND).unwrap();
        let endpoint = outlet.traits().endpoint;
        let said = |bytes: &[u8]| {
            let mut stream = std::net::TcpStream::connect(&*endpoint.address).unwrap();
            stream.write_all(bytes).unwrap();
            let mut reply = [0; 1024];
            let read = stream.read(&mut reply).unwrap();
            (String::from_utf8_lossy(&reply[..read]).into_owned(), stream)
        };
        let [key, second_key] = endpoint.keys;
        let part = |key, part| handshake::encode_part(&PartHello { key, token: 7, part }).unwrap();
        assert!(said(&part(key ^ 1, SessionPart::Acks)).0.contains("the key is wrong"));
        let (joined, _control) = said(&part(key, SessionPart::Control));
        assert!(joined.contains(&format!("{{\"joined\":{second_key}}}")), "{joined}");
        assert!(said(&part(key, SessionPart::Control)).0.contains("twice"));
        let hello = |address: &str, session| {
            let path =
                serde_json::json!({"address": address, "token": 7, "buffer": 4096, "is_repaired": true});
            let path = Some(path.to_string());
            let hello = Hello { path, session, ..Hello::new(&endpoint, &request(UdpOptions::default())) };
            said(&handshake::encode(&hello).unwrap()).0
        };
        assert!(hello("127.0.0.1:9", None).contains("two descriptors"));
        // The other part is missing.
        assert!(hello("127.0.0.1:9", Some(7)).contains("has not been joined"));
        for (address, fault) in
            [("127.0.0.3:9", "127.0.0.3:9 is not at 127.0.0.1"), ("192.0.2.1:9", "insecure")]
        {
            let _parts = [SessionPart::Control, SessionPart::Acks].map(|kind| said(&part(key, kind)).1);
            let refusal = hello(address, Some(7));
            assert!(refusal.contains(fault), "{refusal}");
        }
        // No sessions are joined at a Unix socket.
        let outlet = bind(&UDP, UdpOptions::default()).unwrap();
        let local = outlet.traits().endpoint;
        let socket = crate::sys::socket::connect_address(&local.address, None).unwrap();
        let part = PartHello { key: local.keys[0], token: 7, part: SessionPart::Acks };
        let refused = handshake::join_part(&Socket::Unix(socket), &local, "a -> b", &part);
        assert!(refused.unwrap_err().to_string().contains("no sessions are joined here"));
    }

    #[test]
    fn what_is_never_repaired_need_not_arrive() {
        for (repair, is_complete) in [(Repair::Needed, true), (Repair::Never, false)] {
            let options = options(UdpOptions { repair, ..UdpOptions::default() });
            let request = PathRequest::of_receiver("a -> b", &options);
            assert_eq!(request.is_complete, is_complete);
            let (_source, ticket) = (CARRIER.source)(&request).unwrap();
            assert_eq!(SessionTicket::of_peer(ticket).unwrap().0.is_repaired, is_complete);
        }
    }

    #[test]
    fn calls_stay_on_the_host() {
        struct None;
        impl crate::transport::duplex::CallAcceptor for None {
            fn server_info(&self) -> serde_json::Value {
                serde_json::Value::Null
            }
            fn check(
                &mut self,
                _: &crate::transport::handshake::Hello,
            ) -> Result<(), crate::sys::refusal::PeerRefusal> {
                Ok(())
            }
            fn accept(
                &mut self,
                _: &crate::transport::handshake::Hello,
                _: crate::transport::duplex::Duplex,
            ) {
            }
        }
        let request = BindRequest {
            port: "a".into(),
            payload: TypeName::of::<u8>(),
            options: SenderOptions::from(&options(SECOND)),
            stop: StopToken::new().unwrap(),
            former_paths: Arc::default(),
        };
        let error = UDP.listen_calls(request, Box::new(None)).err().unwrap().to_string();
        assert!(error.contains("calls with `bind`") && error.contains("use tcp"), "{error}");
    }
}
