//! The two sockets of a session, at the receiver. Between processes of one host they are socket
//! pairs, and the other ends travel with the ticket. To another host they are separate connections,
//! which are joined before the hello.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::SessionTicket;
use crate::error::{Error, Result};
use crate::sys::fork;
use crate::sys::socket::Socket;
use crate::transport::carrier::{PathRequest, Ticket};
use crate::transport::handshake::{self, PartHello, SessionPart};
use crate::transport::{random, tcp};

/// The sockets, and the token of their session.
pub(in crate::transport) struct SessionSockets {
    pub(super) token: u64,
    pub(super) control: Socket,
    /// The socket of acknowledgements.
    pub(super) acks: Socket,
    /// The other ends; `None`: the sender has them.
    others: Option<[OwnedFd; 2]>,
}

impl SessionSockets {
    /// Opens the sockets of a receiver.
    ///
    /// # Errors
    /// A lack of descriptors, or a sender that does not accept the sockets.
    pub(in crate::transport) fn open(request: &PathRequest<'_>) -> Result<Self> {
        let token = random()?;
        let remote = request.endpoint.filter(|endpoint| endpoint.address.parse::<SocketAddr>().is_ok());
        let Some(endpoint) = remote else {
            let failed = |e| Error::system(format!("{}: cannot make sockets", request.connection), e);
            let pair = || fork::open(|| UnixStream::pair().map(|(own, other)| [own, other]));
            let pairs = || -> io::Result<_> {
                let [[control, peer_control], [acks, peer_acks]] = [pair()?, pair()?];
                let others = [peer_control.try_clone()?, peer_acks.try_clone()?].map(OwnedFd::from);
                Ok(([control, acks].map(Socket::Unix), others))
            };
            let ([control, acks], others) = pairs().map_err(failed)?;
            return Ok(Self { token, control, acks, others: Some(others) });
        };
        let is_insecure = request.options.udp.is_some_and(|udp| udp.insecure);
        let join = |part| {
            let socket = tcp::connect(endpoint, is_insecure)?;
            let part = PartHello { key: endpoint.keys[0], token, part };
            handshake::join_part(&socket, endpoint, request.connection, &part)?;
            Ok::<_, Error>(socket)
        };
        let (control, acks) = (join(SessionPart::Control)?, join(SessionPart::Acks)?);
        Ok(Self { token, control, acks, others: None })
    }

    /// Returns the address from which this host reaches the sender; `None`: the sender is on this
    /// host.
    pub(in crate::transport) fn own_address(&self) -> Option<IpAddr> {
        self.control.addresses().map(|[own, _]| own.ip())
    }

    /// Returns the ticket of a session with these sockets, and moves the other ends into the
    /// ticket.
    pub(super) fn ticket(&mut self, session: &SessionTicket) -> io::Result<Ticket> {
        let address = serde_json::to_string(session)?;
        Ok(match self.others.take() {
            Some(others) => Ticket::new(address, others.into()),
            None => Ticket { address, session: Some(self.token), ..Ticket::default() },
        })
    }
}
