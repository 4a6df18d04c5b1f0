//! The inspection view of a port on sockets: its state of its readers, and the kernel's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::receiver::NOTHING_YET;
use crate::introspect::{self, Reader, Sending, SendingPort, Shown};
use crate::link::Overflow;
use crate::sys::socket::{self, Socket};
use crate::transport::{BindRequest, Endpoint};

/// The port as inspection shows it.
pub(super) struct Sign {
    /// The constant part.
    port: SendingPort,
    guests: Mutex<Vec<Guest>>,
    _shown: Shown,
}

struct Guest {
    connection: String,
    pid: Option<u32>,
    overflow: Overflow,
    depth: u32,
    high: u32,
    /// Invalid once the reader is gone.
    socket: Weak<Socket>,
    next_sequence: Arc<AtomicU64>,
    waits: Arc<Waits>,
}

/// What the sender waits for while it sleeps because of a reader.
#[derive(Default)]
pub(super) struct Waits {
    pub room: AtomicBool,
    pub ack: AtomicBool,
}

impl Sign {
    pub(super) fn hang(request: &BindRequest, endpoint: &Endpoint) -> Arc<Self> {
        let sign =
            Arc::new(Self { port: request.inspection(endpoint), guests: Mutex::default(), _shown: Shown });
        introspect::show_sending(&sign);
        sign
    }

    /// Adds a reader; the flags returned are set while the sender sleeps because of it.
    pub(super) fn enter(
        &self,
        connection: &str,
        (overflow, depth, high): (Overflow, u32, u32),
        socket: &Arc<Socket>,
        next_sequence: &Arc<AtomicU64>,
    ) -> Arc<Waits> {
        let waits = Arc::<Waits>::default();
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
            high,
            socket: Arc::downgrade(socket),
            next_sequence: Arc::clone(next_sequence),
            waits: Arc::clone(&waits),
        });
        waits
    }
}

impl Sending for Sign {
    fn look(&self) -> SendingPort {
        let mut port = self.port.clone();
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        for guest in guests.iter() {
            // One that has hung up is removed at the next packet.
            let Some(socket) = guest.socket.upgrade().filter(|socket| !socket.has_hung_up()) else {
                continue;
            };
            // Relaxed: momentary values, each by itself.
            let next = Some(guest.next_sequence.load(Ordering::Relaxed)).filter(|next| *next != NOTHING_YET);
            // Each reader has been offered all packets, but may have missed the last.
            port.packets = port.packets.max(next);
            let [waited_for, answer_awaited] =
                [&guest.waits.room, &guest.waits.ack].map(|flag| flag.load(Ordering::Relaxed));
            port.waits |= waited_for || answer_awaited;
            port.readers.push(Reader {
                connection: guest.connection.clone(),
                pid: guest.pid,
                overflow: guest.overflow.to_string(),
                depth: guest.depth,
                high_watermark: (guest.high < guest.depth).then_some(guest.high),
                attached: next.is_some(),
                kernel_bytes: socket::unsent_bytes(&socket),
                waited_for,
                answer_awaited,
                ..Reader::default()
            });
        }
        port
    }
}
