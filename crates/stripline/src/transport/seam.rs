//! The two sides of a transport: [`Outlet`] sends, [`Inlet`] receives. A port makes them with a
//! [`BindRequest`] or a [`ConnectRequest`].

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{Departures, Endpoint, FormerPaths, StopToken, Wait};
use crate::error::Result;
use crate::flow::{self, AckSender, AckWait};
use crate::inspect::{Ages, SendingPort};
use crate::packet::payload::TypeName;
use crate::packet::{LastSent, SampleSize};
use crate::sys::doorbell::PollSet;
use crate::sys::futex::ParkWaker;
use crate::sys::scoped_call::CallSlot;
use crate::terms::{Flow, LinkOptions, Scope, SenderOptions};

/// A sending port's request to a transport.
#[derive(Clone)]
pub struct BindRequest {
    /// The port, for names and messages.
    pub port: String,
    /// The payload type of the port.
    pub payload: TypeName,
    /// The options of the port.
    pub options: SenderOptions,
    /// The stop of the port, which ends its waits.
    pub stop: StopToken,
    /// The paths that the port has left.
    pub former_paths: Arc<FormerPaths>,
}

impl BindRequest {
    /// Returns the size of the port's samples; `None`: it sends messages, or the type has no
    /// layout.
    pub(super) fn sample_size(&self) -> Option<SampleSize> {
        self.payload.sample_bytes().map(|bytes| SampleSize::new(Some(bytes)))
    }

    /// Returns the constant part of the port's inspection view.
    pub(super) fn inspection(&self, endpoint: &Endpoint) -> SendingPort {
        SendingPort {
            name: self.port.clone(),
            transport: endpoint.transport.clone(),
            address: endpoint.address.clone(),
            payload: self.payload.full_text().into(),
            no_layout: self.payload.is_without_layout(),
            buffer: u64::from(self.options.buffer),
            wait: self.options.wait.to_string(),
            ..SendingPort::default()
        }
    }
}

/// A receiving port's request to a transport.
#[derive(Clone)]
pub struct ConnectRequest {
    /// The connection's name, `from -> to`. The name is the same after a restart.
    pub connection: String,
    /// The payload type of the port.
    pub payload: TypeName,
    /// The options of the connection.
    pub options: LinkOptions,
    /// Whether the receiver continues from another path of the port, after a move. Such a receiver
    /// has no predecessor.
    pub moves: bool,
}

impl ConnectRequest {
    /// Returns the request of a receiver that comes for the first time, or again after a restart.
    pub(crate) fn new(connection: String, payload: TypeName, options: LinkOptions) -> Self {
        Self { connection, payload, options, moves: false }
    }
}

/// The sending side of one port over one transport: any number of receivers.
pub(crate) trait Outlet: Send {
    /// Returns the constant properties of the outlet.
    fn traits(&self) -> OutletTraits;

    /// Returns the number of receivers connected now. Unless `polls_system`, it counts every
    /// receiver that was not yet found gone.
    fn receivers(&self, polls_system: bool) -> usize;

    /// Accepts receivers that came, and removes receivers that left. Cheap when nothing has
    /// changed. `next` is the packet that the port sends next.
    fn admit(&mut self, next: NextPacket) -> Admitted;

    /// Reserves room for a frame of up to `bytes` at every blocking receiver, and returns the room
    /// for writing. The call replaces a reservation that was not published.
    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]>;

    /// Reserves on the fast path of [`Outlet::reserve`], if nothing has to be accepted, checked or
    /// waited for. If it returns `None`, it holds no reservation: call `reserve`.
    fn try_reserve_fast(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// Returns the room reserved last.
    fn reserved(&mut self) -> &mut [u8];

    /// Sends the first `bytes` of the reserved room.
    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()>;

    /// Sets whether frames may be kept, to be sent together with later ones. If they may not, sends
    /// the kept frames. Where each frame is in the receivers' memory at once, this does nothing.
    fn gather(&mut self, _gathers: bool, _wait: Wait) -> Result<()> {
        Ok(())
    }

    /// Waits until every receiver of the packet published last has acknowledged it. Receivers that
    /// left before are not waited for.
    ///
    /// # Errors
    /// The first error; the other receivers are waited for all the same. The packet stays sent.
    fn wait_acks(&mut self, _awaited: &AckWait) -> Result<()> {
        Ok(())
    }

    /// Returns the flow control of the link that stalls the outlet for `connection`, and how long
    /// it has stalled.
    fn flow_stall(&self, _connection: &str) -> Option<(Flow, Duration)> {
        None
    }

    /// Prepares a wait elsewhere for `awaited`, by the descriptors that it adds. A request for
    /// attention, or any other call that changes the outlet, may end the preparation.
    ///
    /// # Errors
    /// The errors of [`Outlet::reserve`], except [`Error::Full`](crate::Error::Full).
    fn prepare_wait<'a>(&'a mut self, awaited: Awaited, poll_set: &mut PollSet<'a>) -> Result<Prepared>;

    /// Waits until what was published has left this process.
    fn flush(&mut self, what: Flush, wait: Wait) -> Result<()>;
}

/// The constant properties of an outlet.
pub(crate) struct OutletTraits {
    pub endpoint: Endpoint,
    /// The largest frame, in bytes.
    pub frame_max: usize,
    /// Whether a frame may have a short header.
    pub short_headers: bool,
    /// The scope that no packet may exceed. Set if the outlet does not read acknowledgements.
    pub scope_max: Option<Scope>,
    /// The handle that ends the fast path once. `None`: the outlet has no fast path.
    pub attention: Option<Arc<dyn Attention>>,
    /// The receivers that are gone. `None` for a ring, and for an outlet without receivers.
    pub departures: Option<Arc<dyn Departures>>,
}

/// The event that a sending port waits for elsewhere: in a program's own loop, or in a wait set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Room for a frame of up to this many bytes at every blocking receiver.
    Room(usize),
    /// New receivers.
    Receivers,
}

/// The frames that a flush waits for. A publication that does not wait may leave the rest of a
/// frame to a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// The frames for receivers that block, unless the scope is `none`.
    Blocking,
    /// All frames, and the acknowledgements that are still to come.
    All,
}

/// The result of preparing a wait elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// The awaited event may have happened already.
    Now,
    /// The awaited event may have happened once a descriptor is ready, or at the given time.
    Until(Option<Instant>),
}

/// A request of another thread to the port: the next packet is to be reserved by
/// [`Outlet::reserve`], after the port has checked for news.
pub(crate) trait Attention: Send + Sync {
    fn request_attention(&self);
}

/// The next packet of a port, with the properties that an outlet needs to count missing samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextPacket {
    /// The number of the packet. An outlet that has sent frames has counted it itself.
    pub sequence: u64,
    /// The sample index due; `None`: unknown.
    pub sample: Option<u64>,
    /// The number of the first packet of the packet's stream. Sample indexes before it count
    /// another stream.
    pub stream_start: u64,
}

/// A place between two packets of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortPosition {
    /// The number of the packet after this place.
    pub sequence: u64,
    /// The sample index of that packet; `None`: unknown.
    pub sample: Option<u64>,
}

impl PortPosition {
    /// Returns the same place. The sample index is kept only if it counts the present stream.
    pub(crate) fn in_stream_from(self, stream_start: u64) -> Self {
        Self { sample: self.sample.filter(|_| self.sequence >= stream_start), ..self }
    }
}

/// The receivers of an outlet, after new receivers were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Whether new receivers were admitted.
    pub is_new: bool,
    /// Whether a receiver's policy drops packets, so that a frame sent once may be lost.
    pub is_lossy: bool,
}

/// The receiving side of one connection.
pub(crate) trait Inlet: Send {
    /// Returns the parts that the link reads: when the inlet is connected, with the first frame,
    /// and once the inlet is closed. The first call takes the flow control.
    fn parts(&mut self) -> InletParts;

    /// Returns the next frame: the same frame until that is released.
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// Takes a frame on the fast path of [`Inlet::try_next`]: a frame that is already buffered.
    /// With `reads`, it first reads if nothing is buffered, without waiting; `Empty` is the outcome
    /// of such a read. If it returns `None`, call `try_next`.
    fn try_next_fast(&mut self, _reads: bool) -> Option<Next<'_>> {
        None
    }

    /// Releases the frame returned last.
    fn release(&mut self);

    /// Spins for `polls` polls, or until there may be a frame. Returns whether another frame may
    /// follow the last one without a system call.
    fn spin(&mut self, polls: u32) -> bool {
        if polls > 0 {
            std::hint::spin_loop();
        }
        true
    }

    /// Parks until there is a frame, a wake-up or the deadline. Parking works on one inlet alone,
    /// and is cheaper than `poll`. An inlet with a waker first announces the parking, and then asks
    /// `may_park`, because an earlier event has woken nothing. Parking also ends when `interrupt`
    /// changes from 0, unless it lasts for a few milliseconds only.
    fn park(
        &mut self,
        _deadline: Option<Instant>,
        _interrupt: Option<&AtomicU32>,
        _may_park: &mut dyn FnMut() -> bool,
    ) -> Result<Parked> {
        Ok(Parked::Unable)
    }

    /// Requests a wake-up by the descriptors that it adds. Returns false when there is a frame
    /// already.
    fn prepare_sleep<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool;

    /// Withdraws the request.
    fn cancel_sleep(&mut self) {}

    /// Returns whether the other end has hung up. Frames of it may still be left to take.
    fn is_peer_gone(&mut self) -> bool;

    /// Sends a goodbye before the drop: this receiver has finished, and no successor comes.
    fn say_goodbye(&mut self) {}
}

/// The result of parking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    /// The inlet cannot park, or not until this deadline: `poll` is needed.
    Unable,
    /// There may be a frame or a wake-up. The waking may have been spurious.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// The constant properties of an inlet, and the parts of it that other threads use.
#[derive(Default)]
pub(crate) struct InletParts {
    /// The sender of acknowledgements; `None`: the sending side cannot wait.
    pub acks: Option<Arc<dyn AckSender>>,
    /// The flow control of this receiver, if the link keeps it.
    pub flow: Option<flow::Receiver>,
    /// The waker that ends parking for other reasons. Without it, parking is short.
    pub waker: Option<Arc<dyn ParkWaker>>,
    /// The slot for the code that the middleware's thread calls once there is a frame.
    pub call_slot: Option<Arc<CallSlot>>,
    /// The probe of the inlet's queue in this process, for inspection.
    pub queue_probe: Option<Weak<dyn QueueProbe>>,
    /// Whether the port cannot find packets without help. If so, a thread must move the packets to
    /// the port's queue, before the sender may get acknowledgements.
    pub needs_receive_queue: bool,
    /// Whether a poll takes no system call, so that a short spin pays.
    pub polls_without_syscall: bool,
    /// Whether a frame may have a short header.
    pub short_headers: bool,
    /// Whether the sender's stamps came from another clock, so that no latency is measured.
    pub is_other_clock: bool,
    /// The ages of samples that the inlet measures, if the sender has another clock.
    pub ages: Option<Arc<Ages>>,
    /// The last packet that a dead sender had sent, if the transport can lose that packet. Valid
    /// once the inlet is closed.
    pub last_sent: Option<LastSent>,
    /// The position at which the frames start. Valid with the first frame.
    pub start: StartPosition,
}

/// The position of the first frames of a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct StartPosition {
    /// The place after the last packet that a predecessor of this receiver had taken.
    pub resume_from: Option<PortPosition>,
    /// The sequence number and sample index of the first frame sent to this receiver, if that frame
    /// may have been lost.
    pub first_sent: Option<(u64, u64)>,
}

/// A queue that another thread can inspect.
pub(crate) trait QueueProbe: Send + Sync {
    /// Returns the number of packets in the queue now.
    fn packets(&self) -> usize;
}

/// The result of polling an inlet.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    Frame(&'a [u8]),
    Empty,
    /// No frame will ever come again.
    Closed,
}
