//! The inspection view of a port on byte streams: the outlet's and the kernel's state of the
//! readers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use super::receiver::StreamReceiver;
use crate::inspect::{self, InspectPort, PortSnapshot, Reader, RegistryGuard, SendingPort};
use crate::sys::mutex::lock;
use crate::sys::socket::{self, Socket};
use crate::sys::wait_clock::SenderWaits;
use crate::transport::carrier::{SessionEnd, Sink};
use crate::transport::signalling::{NOTHING_YET, ReceiverProgress, RemoteReceiver};
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
    /// Whether a carrier transports the frames, and not the socket.
    has_carrier: bool,
    session: Option<Weak<dyn SessionEnd>>,
    progress: Arc<ReceiverProgress>,
    waits: Arc<SenderWaits>,
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

    /// Returns a receiver that inspection shows as `reader`. Without a sink, the frames travel on
    /// the socket.
    pub(super) fn receiver(
        &self,
        mut reader: Reader,
        remote: RemoteReceiver,
        sink: Option<Sink>,
    ) -> StreamReceiver {
        if let Socket::Unix(stream) = &*remote.socket {
            reader.pid = socket::peer_process(stream);
        }
        let mut receivers = lock(&self.receivers);
        receivers.retain(|entry| entry.socket.strong_count() > 0);
        receivers.push(ReceiverEntry {
            reader,
            socket: Arc::downgrade(&remote.socket),
            has_carrier: sink.is_some(),
            session: sink.as_ref().and_then(|sink| sink.session.as_ref()).map(Arc::downgrade),
            progress: Arc::clone(&remote.progress),
            waits: Arc::clone(&remote.waits),
        });
        StreamReceiver::new(remote, sink)
    }
}

impl InspectPort for StreamPortView {
    fn snapshot(&self) -> PortSnapshot {
        let mut port = self.port.clone();
        let receivers = lock(&self.receivers);
        for entry in receivers.iter() {
            // A reader that has hung up is removed at the next packet.
            let Some(socket) = entry.socket.upgrade().filter(|socket| !socket.has_hung_up()) else {
                continue;
            };
            // Relaxed: momentary values that do not depend on each other.
            let next = entry.progress.next_sequence.load(Ordering::Relaxed);
            let next = Some(next).filter(|next| *next != NOTHING_YET);
            // Each reader has been offered all packets, but may have missed the last.
            port.packets = port.packets.max(next);
            let session = || entry.session.as_ref()?.upgrade()?.unread_bytes();
            let kernel_bytes = if entry.has_carrier { session() } else { socket::unsent_bytes(&socket) };
            let SenderWaits { room, ack } = &*entry.waits;
            let (waited_for, answer_awaited) = (room.is_running(), ack.is_running());
            port.waits |= waited_for || answer_awaited;
            port.readers.push(Reader {
                attached: next.is_some(),
                kernel_bytes,
                waited_for,
                room_waited_ns: room.total_ns(),
                answer_awaited,
                answer_waited_ns: ack.total_ns(),
                ..entry.reader.clone()
            });
        }
        PortSnapshot::Sending(port)
    }
}
