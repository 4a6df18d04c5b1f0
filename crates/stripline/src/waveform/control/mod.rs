//! Asking a running waveform: what it is, what its properties are; to change them, to test components, to stop.
//!
//! Each launcher has, as long as it runs, an abstract Unix socket whose name says user and process
//! (`stripline-run-UID-PID-RANDOM`). Whoever connects as the same user sends one request and gets one answer. There
//! is no daemon, and nothing is left when the launcher is gone, however it ended. [`Client`] is what the `stripline`
//! command uses; [`Live`](crate::component::Live) is the component's side.

mod client;
mod error;
mod service;
mod types;
mod wire;

pub use client::{Client, Running, running};
pub use error::ControlError;
pub(crate) use service::{Operations, Service};
pub use types::{
    ComponentChange, NewValue, PropertyReading, RunPhase, RunningComponent, RunningWaveform, Setting,
    Stopped, Taken, TestRun,
};
pub(crate) use types::{Operation, Reply, SET_MAX};
#[cfg(fuzzing)]
pub(crate) use wire::parse;
