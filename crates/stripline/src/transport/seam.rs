//! The traits that a transport implements: [`Transport`] opens and connects, [`Outlet`] sends,
//! [`Inlet`] receives.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{Capabilities, Endpoint, StopToken, Wait, duplex};
use crate::error::Result;
use crate::flow::{self, AckSender, AckWait};
use crate::inspect::SendingPort;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::PollSet;
use crate::sys::futex::ParkWaker;
use crate::terms::{Flow, LinkOptions, Scope, SenderOptions};

/// A kind of link.
pub(crate) trait Transport: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Opens the sending side of a port; receivers may connect from now on.
    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>>;

    /// Connects a receiving port; blocks for a few seconds at most.
    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>>;

    /// Opens the listener of a server of calls; clients may connect from now on.
    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener>;

    /// Connects to a server of calls; blocks for a few seconds at most. `bind` has the options of
    /// the direction to the server, `request` those of the direction back.
    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<duplex::CallConnection>;
}

/// A sending port's request to a transport.
#[derive(Clone)]
pub(crate) struct BindRequest {
    /// The port, for names and messages.
    pub port: String,
    pub payload: TypeName,
    pub options: SenderOptions,
    pub stop: StopToken,
}

impl BindRequest {
    /// Returns the constant part of the port's inspection view.
    pub(super) fn inspection(&self, endpoint: &Endpoint) -> SendingPort {
        SendingPort {
            name: self.port.clone(),
            transport: endpoint.transport.clone(),
            address: endpoint.address.clone(),
            payload: self.payload.to_string(),
            buffer: u64::from(self.options.buffer),
            wait: self.options.wait.to_string(),
            ..SendingPort::default()
        }
    }
}

/// A receiving port's request to a transport.
#[derive(Clone)]
pub(crate) struct ConnectRequest {
    /// The connection's name, `from -> to`; the same again after a restart.
    pub connection: String,
    pub payload: TypeName,
    pub options: LinkOptions,
}

/// The sending side of one port over one transport: any number of receivers.
pub(crate) trait Outlet: Send {
    fn endpoint(&self) -> Endpoint;

    /// Returns the largest frame, in bytes.
    fn frame_max(&self) -> usize;

    /// Returns the number of receivers connected now.
    fn receivers(&self) -> usize;

    /// Returns whether there are no receivers, as far as can be checked without a system call.
    fn has_no_receivers(&self) -> bool {
        self.receivers() == 0
    }

    /// Returns whether a receiver's policy drops packets, so that a frame sent once may be lost.
    fn is_lossy(&self) -> bool;

    /// Returns whether no receiver can miss a frame, however slow it is.
    fn loses_nothing(&self) -> bool {
        false
    }

    /// Accepts receivers that came, and removes those that left; true when some came. Cheap when
    /// nothing has changed.
    fn admit(&mut self) -> bool;

    /// Reserves room for a frame of up to `bytes` at every blocking receiver, and returns it for
    /// writing.
    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]>;

    /// Reserves on the fast path of [`Outlet::reserve`]: no accepting, checking or waiting is
    /// needed. After `None`, which holds nothing, call `reserve`.
    fn try_reserve_fast(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// Returns the room reserved last.
    fn reserved(&mut self) -> &mut [u8];

    /// Sends the first `bytes` of the reserved room.
    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()>;

    /// Releases the reserved room unsent.
    fn cancel(&mut self);

    /// Checks that it can wait for a scope; to be called before the packet is published.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    fn supports_scope(&self, _scope: Scope) -> Result<()> {
        Ok(())
    }

    /// Waits until every receiver of the packet published last has acknowledged it. A receiver that
    /// left before is not waited for.
    ///
    /// # Errors
    /// The first error; the other receivers are waited for all the same. The packet stays sent.
    fn wait_acks(&mut self, _awaited: &AckWait) -> Result<()> {
        Ok(())
    }

    /// Returns the flow control of the link that stalls it for that connection, and for how long.
    fn flow_stall(&self, _connection: &str) -> Option<(Flow, Duration)> {
        None
    }

    /// Waits until everything published has left this process.
    fn flush(&mut self, wait: Wait) -> Result<()>;
}

/// The receiving side of one connection.
pub(crate) trait Inlet: Send {
    /// Returns what the link reads once, when the inlet is connected. The first call takes the flow
    /// control.
    fn parts(&mut self) -> InletParts;

    /// Returns where the frames of this connection start. Available with the first frame.
    fn start_position(&self) -> StartPosition;

    /// Returns the next frame; the same one until it is released.
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// Takes on the fast path of [`Inlet::try_next`]: a frame that is already buffered. After
    /// `None`, call `try_next`.
    fn try_next_fast(&mut self) -> Option<&[u8]> {
        None
    }

    /// Spins for that many polls, or until there may be a frame.
    fn spin(&mut self, _looks: u32) {
        std::hint::spin_loop();
    }

    /// Returns whether another frame may follow the last one without a system call.
    fn has_buffered(&self) -> bool {
        true
    }

    /// Releases the frame returned last.
    fn release(&mut self);

    /// Sends a goodbye before the drop: this receiver has finished, and no other comes in its
    /// place.
    fn say_goodbye(&mut self) {}

    /// Requests a wake-up; false when there is a frame already.
    fn prepare_sleep(&mut self) -> bool;

    /// Withdraws the request.
    fn cancel_sleep(&mut self);

    /// Returns whether it can be parked on until then. Parking works on one inlet alone, and is
    /// cheaper than `poll`.
    fn can_park(&self, _deadline: Option<Instant>) -> bool {
        false
    }

    /// Prepares to park, as [`Inlet::prepare_sleep`] does for a sleep.
    fn prepare_park(&mut self) -> bool {
        false
    }

    /// Parks, after preparation, until there is a frame, a wake-up or the deadline; false: the
    /// deadline has passed. May return spuriously.
    fn park(&mut self, _deadline: Option<Instant>) -> Result<bool> {
        Ok(true)
    }

    /// Adds the descriptors that wake it.
    fn add_to<'a>(&'a self, poll_set: &mut PollSet<'a>);

    /// Returns when the last frame arrived, in monotonic nanoseconds; `None`: when it was returned.
    fn received_ns(&self) -> Option<u64> {
        None
    }

    /// Returns whether the other end has hung up, although frames of it may be left to take.
    fn is_peer_gone(&mut self) -> bool {
        false
    }
}

/// The constant properties of an inlet, and the parts of it that other threads use.
#[derive(Default)]
pub(crate) struct InletParts {
    /// The sender of acknowledgements; `None` where the sending side cannot wait.
    pub acks: Option<Arc<dyn AckSender>>,
    /// This receiver's flow control, if the link keeps it.
    pub flow: Option<flow::Receiver>,
    /// The waker that ends parking for other reasons. Without it, parking is short.
    pub waker: Option<Arc<dyn ParkWaker>>,
    /// The probe of its queue in this process, for inspection.
    pub queue_probe: Option<Weak<dyn QueueProbe>>,
    /// Whether the port cannot find packets without help. Then a thread must move them to its queue
    /// before the sender may get acknowledgements.
    pub needs_receive_queue: bool,
    /// Whether a poll takes no system call, so that a short spin pays.
    pub polls_without_syscall: bool,
}

/// The first frames of a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct StartPosition {
    /// The sequence number after the last packet that a predecessor of this receiver had taken.
    pub resume_from: Option<u64>,
    /// The sequence number and sample index of the first frame sent to this receiver, where that
    /// frame may have been lost.
    pub first_sent: Option<(u64, u64)>,
}

/// A queue that another thread can inspect.
pub(crate) trait QueueProbe: Send + Sync {
    /// Returns the number of packets in it now.
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
