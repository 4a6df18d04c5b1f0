//! Carriers over datagrams that may be lost, repeated or overtaken. The session (`flow/session/`)
//! turns them into a path of frames. The two sockets of a session are separate from the signalling
//! socket, so the signalling stays the same for all carriers.
//!
//! A transport over datagrams only provides the two ends ([`DatagramSink`], [`DatagramSource`]).

mod batch;
mod cut;
mod group;
#[cfg(test)]
mod group_tests;
mod kept;
mod service;
mod sink;
mod sockets;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::carrier::{Opening, Ticket};
use crate::flow::session::DatagramCharges;
use crate::sys::doorbell::PollSet;
use crate::sys::socket::Socket;
use crate::sys::udp_batch::DatagramParts;

pub(super) use group::GroupSink;
pub(super) use sink::SessionSink;
pub(super) use sockets::SessionSockets;
pub(super) use source::SessionSource;

/// The default time after which a late datagram counts as missing. On one host, no datagram
/// overtakes another.
const LATE: Duration = Duration::from_millis(1);

/// Returns the state of a path with a receiver that has not answered a probe.
fn unanswered<'a>(destination: &str, acks: &'a Socket) -> Opening<'a> {
    Opening::Waits {
        on: acks.as_fd(),
        lacks: format!("no datagram from here has reached {destination}"),
        remedy: "let UDP to it through the firewalls, check the route (of a group: `ip route get` with its \
                 address), or use transport tcp",
    }
}

/// The sending end of a path of datagrams.
pub(super) trait DatagramSink: Send + Sync {
    /// Sends a datagram in two parts. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if the datagram was not sent. After any other error it counts as lost.
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()>;

    /// Sends several datagrams, with as few system calls as possible. Returns the number of
    /// datagrams that were sent, or count as lost. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there was no room for any datagram.
    fn send_many(&self, datagrams: &[DatagramParts<'_>]) -> io::Result<usize> {
        for (index, [header, payload]) in datagrams.iter().enumerate() {
            match self.send(header, payload) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return if index > 0 { Ok(index) } else { Err(e) };
                }
                _ => {}
            }
        }
        Ok(datagrams.len())
    }

    /// Adds the descriptor that becomes ready after [`DatagramSink::send`] would have blocked.
    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>);
}

/// The receiving end of a path of datagrams.
pub(super) trait DatagramSource: Send {
    /// Receives a datagram in two parts, and returns the number of bytes. Further datagrams that
    /// came with it are in `payload`, with their headers, at the places in `more`. `blocks`: waits
    /// for a datagram, for some milliseconds at most.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived.
    fn receive(
        &mut self,
        header: &mut [u8],
        payload: &mut [u8],
        blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize>;

    /// Returns the room that [`DatagramSource::receive`] needs, in bytes, if it needs more than one
    /// datagram.
    fn room_needed(&self) -> usize {
        0
    }

    /// Returns the charge of the datagrams in the receive buffer, by the kernel's count; 0: the
    /// kernel does not report it.
    fn queued_charge(&self) -> u64 {
        0
    }

    /// Returns the charge of a datagram of each size; empty: the charges cannot be measured.
    fn charges(&self, _sizes: &mut dyn Iterator<Item = usize>) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the descriptor that becomes readable once there is a datagram.
    fn arrivals(&self) -> BorrowedFd<'_>;
}

/// The ticket of a session. The ticket comes with the two sockets of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionTicket {
    /// The address in the transport's own form.
    pub address: String,
    /// The token in each datagram.
    pub token: u64,
    /// The bytes of the receive buffer, by the kernel's count.
    pub buffer: u64,
    /// Whether lost datagrams are repaired.
    pub is_repaired: bool,
    /// The kernel's charges for datagrams of each size, if they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<u32>,
}

impl SessionTicket {
    /// Bounds for a receive buffer, so that no sum overflows and a window holds at least something.
    const BUFFER: std::ops::RangeInclusive<u64> = 2048..=1 << 40;

    /// Returns the ticket, the control socket and the socket of acknowledgements.
    ///
    /// # Errors
    /// A description of the ticket's fault, for the peer.
    pub(super) fn of_peer(ticket: Ticket) -> Result<(Self, [Socket; 2]), String> {
        let sockets: [OwnedFd; 2] =
            ticket.fds.try_into().map_err(|_| "a session takes two descriptors".to_string())?;
        let session: Self = serde_json::from_str(&ticket.address)
            .map_err(|e| format!("the ticket for the data path does not parse: {e}"))?;
        if !Self::BUFFER.contains(&session.buffer) {
            return Err(format!("a receive buffer of {} bytes", session.buffer));
        }
        DatagramCharges::measured(&session.charges)?;
        let [control, acks] = sockets.map(Socket::of_stream);
        let fault = |_| "a descriptor is not of a socket of a session".to_string();
        Ok((session, [control.map_err(fault)?, acks.map_err(fault)?]))
    }

    /// Returns the charges of the receiver's datagrams.
    fn datagram_charges(&self) -> DatagramCharges {
        DatagramCharges::measured(&self.charges).unwrap_or_default()
    }
}
