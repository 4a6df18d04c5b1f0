//! A view of the ports of this user's running processes, without a daemon. `stripline links`
//! prints it.
//!
//! Each process with an open port owns one Unix socket, served by one small thread. The name of the
//! socket contains user and process (`stripline-links-UID-PID-RANDOM`). A client of the same user
//! gets one JSON document, and then the connection is closed. The thread and the name disappear
//! with the last port, or with the process, no matter how the process ends.
//!
//! The thread reads state that exists for other reasons: the shared pages of a ring, the counters
//! of a connection, the kernel's socket statistics. Ports do no extra work per packet. Values that
//! a transport cannot provide are reported as unknown.

mod age;
mod client;
mod registry;
mod service;
mod topic_rules;
mod types;
mod waits;

pub use age::AgeReport;
pub(crate) use age::{Ages, UtcOffset};
#[cfg(fuzzing)]
pub(crate) use client::parse;
pub use client::processes;
pub(crate) use registry::{
    InspectPort, PortSnapshot, RegistryGuard, register, register_rules, set_waveform, snapshot,
};
pub(crate) use topic_rules::TopicRules;
pub use types::{
    Connection, Overview, Problem, Process, Reader, ReceivingPort, RefusedSender, SendingPort, TopicsFile,
};
pub use waits::{Chain, ReceiverEnd, SenderEnd, WaitReason, Waiting};
