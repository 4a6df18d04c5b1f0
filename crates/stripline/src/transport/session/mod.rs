//! Carriers over datagrams that may be lost, repeated or overtaken. The session
//! (`flow/session/`) makes a path of frames of them. Its two sockets are pairs of their own, so the
//! signalling stays the same for all carriers.
//!
//! A transport over datagrams gives two ends ([`DatagramSink`], [`DatagramSource`]); the rest is
//! here.

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
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::carrier::Ticket;
use crate::flow::session::DatagramCharges;
use crate::sys::doorbell::PollSet;
use crate::sys::socket::Socket;
use crate::sys::udp_batch::DatagramParts;

pub(super) use group::GroupSink;
pub(super) use sink::SessionSink;
pub(super) use sockets::SessionSockets;
pub(super) use source::SessionSource;

/// How late a datagram may be before it is missing, if nothing else is set. On one host nothing
/// overtakes.
const LATE: Duration = Duration::from_millis(1);

/// Returns why no probe has reached a receiver, and what to do.
fn probe_failure(destination: &str, within: Duration) -> String {
    format!(
        "no datagram from here has reached {destination} within {within:?}; let UDP to it through the firewalls, \
         check the route (of a group: `ip route get` with its address), or use transport tcp"
    )
}

/// The sending end of a path of datagrams.
pub(super) trait DatagramSink: Send + Sync {
    /// Sends a datagram in two parts. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if it was not sent. After any other error it counts as lost.
    fn send(&self, header: &[u8], payload: &[u8]) -> io::Result<()>;

    /// Sends several, with as few system calls as there can be. Returns how many were sent, or
    /// count as lost. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there was room for none.
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

/// The receiving end.
pub(super) trait DatagramSource: Send {
    /// Receives a datagram in two parts, and returns its bytes. Others that came with it are in
    /// `payload`, header and all, at the places in `more`. `blocks`: waits for one, for some
    /// milliseconds at most.
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

    /// Returns the room that [`DatagramSource::receive`] needs, in bytes, if it is more than a
    /// datagram.
    fn room_needed(&self) -> usize {
        0
    }

    /// Returns what the datagrams that have arrived take of the receive buffer, by the kernel's
    /// count; 0: it does not report that.
    fn queued_charge(&self) -> u64 {
        0
    }

    /// Returns what a datagram of each of these sizes takes; empty: it cannot be measured.
    fn charges(&self, _sizes: &mut dyn Iterator<Item = usize>) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the descriptor that can be read once there is a datagram.
    fn arrivals(&self) -> BorrowedFd<'_>;
}

/// The ticket of a session, beside its two sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionTicket {
    /// In the transport's own form.
    pub address: String,
    /// In each datagram.
    pub token: u64,
    /// Bytes of the receive buffer by the kernel's count.
    pub buffer: u64,
    /// Whether what is lost is repaired.
    pub is_repaired: bool,
    /// What the kernel counts for datagrams of each size, if that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<u32>,
}

impl SessionTicket {
    /// Bounds for a receive buffer, so that no sum overflows and a window holds something.
    const BUFFER: std::ops::RangeInclusive<u64> = 2048..=1 << 40;

    /// Returns the ticket, and the control socket and that of acknowledgements.
    ///
    /// # Errors
    /// A description of its fault, for the peer.
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

    /// Returns what the receiver's datagrams take.
    fn datagram_charges(&self) -> DatagramCharges {
        DatagramCharges::measured(&self.charges).unwrap_or_default()
    }
}
