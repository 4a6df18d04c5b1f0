//! The credits of a receiver on another host, which are calls to a servant of the sender.
//!
//! The two hosts share no memory. So the sender has a separate page, and this servant writes the
//! receiver's part of the page.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};

use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::socket::own_address;
use stripline::carrier::socket_names::unique_suffix;
use stripline::carrier::{Doorbell, random};
use stripline::{Error, Result};

use super::{CorbaTicket, LOW_CHARGE, PREFIX, check_object};
use crate::corba::orb::{CallBytes, CallClient, CallReceiver, CallServer, listen_at};
use crate::transit::TransitPage;

/// The bytes that arrive between two credits.
const STEP_BYTES: u64 = LOW_CHARGE;
/// The bytes of a call: the count of all bytes that have arrived.
const CREDIT_BYTES: usize = 8;

/// The place where a sender takes credits. The bytes of the sender's probe hold it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreditPlace {
    address: SocketAddr,
    object: String,
    /// The key in each call.
    key: u64,
}

impl CreditPlace {
    /// The most bytes of a probe.
    pub(super) const BYTES_MAX: usize = 512;

    /// Returns the object, the address and the key.
    #[cfg(test)]
    pub(super) fn parts(&self) -> (&str, SocketAddr, u64) {
        (&self.object, self.address, self.key)
    }

    /// Parses the bytes of a probe. `is_insecure`: the sender may be on another host.
    pub(super) fn parse(bytes: &[u8], is_insecure: bool) -> Result<Self, String> {
        let place: Self = serde_json::from_slice(bytes)
            .map_err(|e| format!("the probe of the data path does not parse: {e}"))?;
        check_object(&place.object)?;
        let ip = place.address.ip();
        if place.address.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
            return Err(format!("{} is not an address of a sender", place.address));
        }
        if !is_insecure && !ip.is_loopback() {
            return Err(format!(
                "{} is on another host, and the receiver does not have `insecure`",
                place.address
            ));
        }
        Ok(place)
    }
}

/// The sender's end: a servant.
pub(super) struct CreditTaker {
    _server: CallServer,
    place: CreditPlace,
}

/// The ends that the servant's calls write to.
struct CreditShared {
    page: TransitPage,
    /// The sender's doorbell.
    doorbell: Doorbell,
    key: u64,
    low: u64,
    state: Mutex<TakenState>,
}

/// The highest counts that have arrived. omniORB's threads may deliver the counts out of order.
#[derive(Default)]
struct TakenState {
    frames: u64,
    calls: u64,
    received: u64,
    /// The memory of a call, kept for the next one.
    kept: Option<Box<CallBytes>>,
}

impl CreditTaker {
    /// Activates a servant for a receiver. Returns the sender's ends of the page and of the
    /// doorbell.
    ///
    /// # Errors
    /// The process lacks memory or descriptors, or no route leads to the receiver.
    pub(super) fn new(ticket: &CorbaTicket, receiver: SocketAddr) -> Result<(Self, TransitPage, Doorbell)> {
        let address = listen_at(own_address(receiver)?)?;
        let (page, page_fd) = TransitPage::new()?;
        let [ringing, sleeping] = Doorbell::between()?;
        let place = CreditPlace { address, object: format!("{PREFIX}{}", unique_suffix()?), key: random()? };
        let shared = CreditShared {
            page,
            doorbell: ringing,
            key: place.key,
            low: ticket.low(),
            state: Mutex::default(),
        };
        let server = CallServer::new(&place.object, &Arc::new(Local::new(shared)))?;
        let page = TransitPage::from_peer("the sender itself", page_fd)?;
        Ok((Self { _server: server, place }, page, sleeping))
    }

    /// Returns the bytes of the probe.
    pub(super) fn probe(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.place).map_err(Error::of_system)
    }

    /// Returns the address that the receiver has to reach.
    pub(super) fn address(&self) -> SocketAddr {
        self.place.address
    }
}

impl CallReceiver for Local<CreditShared> {
    fn place(
        &self,
        key: u64,
        _number: u64,
        bytes: usize,
        _connection: Option<BorrowedFd<'_>>,
    ) -> Option<Box<CallBytes>> {
        if key != self.key || bytes != CREDIT_BYTES {
            return None;
        }
        let mut call = lock(&self.state).kept.take().unwrap_or_default();
        call.set_len(bytes);
        Some(call)
    }

    fn arrived(&self, call: Box<CallBytes>, number: u64, frames: u64) {
        let received = call.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let mut state = lock(&self.state);
        state.frames = state.frames.max(frames);
        state.calls = state.calls.max(number);
        state.received = state.received.max(received);
        state.kept = Some(call);
        // The lock is still held, so that the counts in the page never decrease.
        let has_room = self.page.set_taken(state.frames, state.calls, self.low);
        let is_received = self.page.set_received(state.received, LOW_CHARGE);
        let is_first = !self.page.is_connected();
        if is_first {
            self.page.set_connected();
        }
        drop(state);
        if has_room || is_received || is_first {
            self.doorbell.notify();
        }
    }

    fn abandoned(&self, call: Box<CallBytes>) {
        lock(&self.state).kept = Some(call);
    }
}

/// The receiver's end.
pub(super) struct CreditSender {
    /// Whether the sender may be on another host.
    is_insecure: bool,
    /// Frames, or calls, between two credits.
    step: u64,
    state: Mutex<CreditState>,
}

#[derive(Default)]
struct CreditState {
    client: Option<CallClient>,
    key: u64,
    /// The connection of the sender's probe, which stays open until the sender ends the connection.
    connection: Option<OwnedFd>,
    /// The frames and calls taken.
    taken: [u64; 2],
    /// The counts that were sent last: frames, calls and bytes received.
    sent: [u64; 3],
}

impl CreditSender {
    /// Makes the end of a receiver. The sender has not called yet.
    pub(super) fn new(ticket: &CorbaTicket, is_insecure: bool) -> Self {
        Self { is_insecure, step: (ticket.frames / 16).max(1), state: Mutex::default() }
    }

    /// Stores the connection of a probe.
    pub(super) fn set_connection(&self, connection: BorrowedFd<'_>) {
        let mut state = lock(&self.state);
        if state.connection.is_none() {
            state.connection = connection.try_clone_to_owned().ok();
        }
    }

    /// Answers a probe: the sender counts as connected with the first credit.
    pub(super) fn answer(&self, probe: &[u8]) {
        let mut state = lock(&self.state);
        if state.client.is_none() {
            let client = CreditPlace::parse(probe, self.is_insecure).and_then(|place| {
                state.key = place.key;
                CallClient::of_address(&place.object, place.address).map_err(|e| e.to_string())
            });
            match client {
                Ok(client) => state.client = Some(client),
                Err(error) => return warn(&error),
            }
        }
        if let Err(error) = state.send() {
            warn(&error);
        }
    }

    /// Counts the frames and calls taken, and sends a credit if it is due, or if enough was taken.
    /// `received` counts bytes.
    pub(super) fn send(&self, taken: Option<[u64; 2]>, received: u64, is_due: bool) {
        let mut state = lock(&self.state);
        state.taken = taken.unwrap_or(state.taken);
        let [frames, calls] = state.taken;
        let before = state.sent;
        let received = received.max(before[2]);
        let now = [frames, calls, received];
        // The sender's count is not trusted.
        let is_enough = frames.saturating_sub(before[0]) >= self.step
            || calls - before[1] >= self.step
            || received - before[2] >= STEP_BYTES;
        if now == before || !is_due && !is_enough {
            return;
        }
        state.sent = now;
        // The signalling socket shows that a sender is gone.
        let _ = state.send();
    }

    /// Returns whether the sender's connection has ended, and everything was read from it.
    pub(super) fn has_closed(&self) -> bool {
        let state = lock(&self.state);
        let Some(connection) = &state.connection else { return true };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(connection.as_fd(), &mut [0u8; 1][..], flags) {
            Ok((_, read)) => read == 0,
            Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

impl CreditState {
    fn send(&mut self) -> Result<(), String> {
        let [frames, calls, received] = self.sent;
        let Some(client) = &mut self.client else { return Ok(()) };
        let outcome = client.call(self.key, calls, frames, &received.to_le_bytes());
        if outcome.is_err() {
            self.client = None;
        }
        outcome
    }
}

#[cold]
fn warn(error: &str) {
    log::warn!(
        target: "stripline::transport",
        "the sender of a path of CORBA cannot be called, so it counts as not connected: {error}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_from_a_peer_is_checked() {
        let good = CreditPlace {
            address: "192.0.2.1:7".parse().unwrap(),
            object: format!("{PREFIX}12-0af"),
            key: 7,
        };
        let parse =
            |place: &CreditPlace, insecure| CreditPlace::parse(&serde_json::to_vec(place).unwrap(), insecure);
        assert_eq!(parse(&good, true), Ok(good.clone()));
        assert!(serde_json::to_vec(&good).unwrap().len() <= CreditPlace::BYTES_MAX);
        let at = |address: &str| CreditPlace { address: address.parse().unwrap(), ..good.clone() };
        assert!(parse(&at("127.0.0.1:7"), false).is_ok() && parse(&at("[::1]:7"), false).is_ok());
        for (bad, expected) in [
            (at("192.0.2.1:0"), "not an address of a sender"),
            (at("0.0.0.0:7"), "not an address of a sender"),
            (at("[::]:7"), "not an address of a sender"),
            (at("239.1.2.3:7"), "not an address of a sender"),
            (CreditPlace { object: "NameService".into(), ..good.clone() }, "names no object"),
        ] {
            let error = parse(&bad, true).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse(&good, false).unwrap_err().contains("`insecure`"));
        for bad in ["", "{}", "[]", r#"{"address":"localhost:1","object":"stripline-path-0","key":1}"#] {
            assert!(
                CreditPlace::parse(bad.as_bytes(), true).unwrap_err().contains("does not parse"),
                "{bad}"
            );
        }
    }
}
