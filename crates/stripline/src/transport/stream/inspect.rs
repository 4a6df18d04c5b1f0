//! The inspection view of a port on sockets: its state of its readers, and the kernel's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::receiver::NOTHING_YET;
use crate::inspect::{self, InspectPort, PortSnapshot, Reader, RegistryGuard, SendingPort};
use crate::sys::mutex::lock;
use crate::sys::socket::{self, Socket};
use crate::transport::{BindRequest, Endpoint};

/// The port as inspection shows it.
pub(super) struct StreamPortView {
    /// The constant part.
    port: SendingPort,
    receivers: Mutex<Vec<ReceiverEntry>>,
    _registered: RegistryGuard,
}

struct ReceiverEntry {
    /// The constant part.
    reader: Reader,
    /// Invalid once the reader is gone.
    socket: Weak<Socket>,
    next_sequence: Arc<AtomicU64>,
    waits: Arc<WaitFlags>,
}

/// The reasons of a sender to sleep for a reader.
#[derive(Default)]
pub(super) struct WaitFlags {
    pub space: AtomicBool,
    pub ack: AtomicBool,
}

impl StreamPortView {
    pub(super) fn register(request: &BindRequest, endpoint: &Endpoint) -> Arc<Self> {
        let view = Arc::new(Self {
            port: request.inspection(endpoint),
            receivers: Mutex::default(),
            _registered: RegistryGuard,
        });
        inspect::register(&view);
        view
    }

    /// Adds a reader; the flags returned are set while the sender sleeps because of it.
    pub(super) fn add(
        &self,
        mut reader: Reader,
        socket: &Arc<Socket>,
        next_sequence: &Arc<AtomicU64>,
    ) -> Arc<WaitFlags> {
        let waits = Arc::<WaitFlags>::default();
        if let Socket::Unix(stream) = &**socket {
            reader.pid = socket::peer_process(stream);
        }
        let mut receivers = lock(&self.receivers);
        receivers.retain(|entry| entry.socket.strong_count() > 0);
        receivers.push(ReceiverEntry {
            reader,
            socket: Arc::downgrade(socket),
            next_sequence: Arc::clone(next_sequence),
            waits: Arc::clone(&waits),
        });
        waits
    }
}

impl InspectPort for StreamPortView {
    fn snapshot(&self) -> PortSnapshot {
        let mut port = self.port.clone();
        let receivers = lock(&self.receivers);
        for entry in receivers.iter() {
            // One that has hung up is removed at the next packet.
            let Some(socket) = entry.socket.upgrade().filter(|socket| !socket.has_hung_up()) else {
                continue;
            };
            // Relaxed: momentary values, each by itself.
            let next = Some(entry.next_sequence.load(Ordering::Relaxed)).filter(|next| *next != NOTHING_YET);
            // Each reader has been offered all packets, but may have missed the last.
            port.packets = port.packets.max(next);
            let [waited_for, answer_awaited] =
                [&entry.waits.space, &entry.waits.ack].map(|flag| flag.load(Ordering::Relaxed));
            port.waits |= waited_for || answer_awaited;
            port.readers.push(Reader {
                attached: next.is_some(),
                kernel_bytes: socket::unsent_bytes(&socket),
                waited_for,
                answer_awaited,
                ..entry.reader.clone()
            });
        }
        PortSnapshot::Sending(port)
    }
}
