//! Asking a running waveform: what it is, what its properties are; to change them, to test components, to stop.
//!
//! Each launcher is a server of [calls](crate::call) in a domain of its own, whose name says user, version and process
//! (`stripline-UID-run-VERSION-PID-RANDOM`). Only processes of the same user get in. There is no daemon, and nothing is
//! left when the launcher is gone, however it ended. [`Client`] is what the `stripline` command uses;
//! [`Live`](crate::component::Live) is the component's side.

mod client;
mod error;
mod service;
mod types;

pub use client::{Client, Running, running};
pub use error::ControlError;
pub use service::SERVICE;
pub(crate) use service::{Operations, Service};
pub use types::{
    ComponentChange, NewValue, PropertyReading, RunPhase, RunningComponent, RunningWaveform, Setting,
    Stopped, Taken, TestRun,
};
pub(crate) use types::{Fault, GetRequest, Reply, Request, SET_MAX, SetRequest, StopRequest, TestRequest};
