//! Requests to a running waveform: describe it, read and change properties, run self-tests, stop,
//! and receive copies of packets.
//!
//! Each launcher serves [calls](stripline::call) in a domain of the launcher. The name of the
//! domain contains the user, the version and the process (`stripline-UID-run-VERSION-PID-RANDOM`).
//! Only processes of the same user can connect. There is no daemon, and no name or file remains
//! after the launcher has ended, by whichever cause. The `stripline` command uses
//! [`ControlClient`]; [`ControlRequests`](stripline::component::ControlRequests) is the component's
//! side.

mod announcement;
mod client;
mod error;
mod request_inbox;
mod service;
mod tap;
mod types;

#[doc(hidden)]
pub use announcement::Announcement;
pub use client::{ControlClient, Running, running};
pub use error::ControlError;
pub(crate) use request_inbox::RequestInbox;
pub(crate) use service::ControlService;
pub use service::SERVICE;
pub use tap::{Tap, Tapped};
pub use types::{
    ChangeState, ComponentChange, NewValue, PropertyReading, RunPhase, RunningComponent, RunningWaveform,
    Setting, Stopped, TestRun,
};
pub(crate) use types::{
    GetRequest, ReplySender, RequestFault, SET_MAX, SetRequest, StopRequest, TapReply, TapRequest,
    TestRequest, WaveformRequest,
};
