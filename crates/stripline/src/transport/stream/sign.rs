//! What a port on sockets shows to those who look from outside: what it knows of its readers and what the kernel says.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::outlet::NOTHING_YET;
use crate::introspect::{self, Reader, Sending, SendingPort, Shown};
use crate::link::Overflow;
use crate::sys::socket::{self, Socket};
use crate::transport::{Bind, Endpoint};

/// The port as it is shown.
pub(super) struct Sign {
    /// What does not change.
    port: SendingPort,
    guests: Mutex<Vec<Guest>>,
    _shown: Shown,
}

struct Guest {
    connection: String,
    pid: Option<u32>,
    overflow: Overflow,
    depth: u32,
    /// Gone with the reader.
    socket: Weak<Socket>,
    next_sequence: Arc<AtomicU64>,
    waited_for: Arc<AtomicBool>,
}

impl Sign {
    pub(super) fn hang(request: &Bind, endpoint: &Endpoint) -> Arc<Self> {
        let sign = Arc::new(Self { port: request.shown(endpoint), guests: Mutex::default(), _shown: Shown });
        introspect::show_sending(&sign);
        sign
    }

    /// Lists a reader; the flag returned is set while the sender sleeps for its sake.
    pub(super) fn enter(
        &self,
        connection: &str,
        (overflow, depth): (Overflow, u32),
        socket: &Arc<Socket>,
        next_sequence: &Arc<AtomicU64>,
    ) -> Arc<AtomicBool> {
        let waited_for = Arc::new(AtomicBool::new(false));
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.retain(|guest| guest.socket.strong_count() > 0);
        guests.push(Guest {
            connection: connection.into(),
            pid: match &**socket {
                Socket::Unix(stream) => socket::peer_process(stream),
                Socket::Tcp(_) => None,
            },
            overflow,
            depth,
            socket: Arc::downgrade(socket),
            next_sequence: Arc::clone(next_sequence),
            waited_for: Arc::clone(&waited_for),
        });
        waited_for
    }
}

impl Sending for Sign {
    fn look(&self) -> SendingPort {
        let mut port = self.port.clone();
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        for guest in guests.iter() {
            // One that has hung up is let go at the next packet.
            let Some(socket) = guest.socket.upgrade().filter(|socket| !socket.has_hung_up()) else {
                continue;
            };
            // Relaxed: each by itself, a moment that may be over.
            let next = Some(guest.next_sequence.load(Ordering::Relaxed)).filter(|next| *next != NOTHING_YET);
            // Each reader has been offered all packets, but may have missed the last.
            port.packets = port.packets.max(next);
            let waited_for = guest.waited_for.load(Ordering::Relaxed);
            port.waits |= waited_for;
            port.readers.push(Reader {
                connection: guest.connection.clone(),
                pid: guest.pid,
                overflow: guest.overflow.to_string(),
                depth: guest.depth,
                attached: next.is_some(),
                kernel_bytes: socket::unsent_bytes(&socket),
                waited_for,
                ..Reader::default()
            });
        }
        port
    }
}
