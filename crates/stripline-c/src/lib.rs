//! Stripline for C: the functions and types of `include/stripline.h`.
//!
//! A test generates the header from this crate (`tests/header`), so that each function is
//! documented only once, here. The following rules apply to all functions:
//!
//! - **Pointers.** A handle or text that is NULL is refused with `STRIPLINE_INVALID_ARGUMENT`,
//!   unless the function allows NULL. Any other pointer must be valid: of the right type, not
//!   freed, and aligned. Texts that a program passes are UTF-8 and end with NUL.
//! - **Results.** A function writes results only if it returns `STRIPLINE_OK`, unless it documents
//!   more.
//! - **Panics.** No panic leaves this library: the call returns `STRIPLINE_PANICKED`, and so does
//!   each later call of the same handle. Such a handle can only be freed.
//! - **Forks.** A handle belongs to the process that made it. In a child, its functions return
//!   `STRIPLINE_FORKED`.
//! - **Structures** with `size` as the first member may grow. A program sets `size` to `sizeof`. If
//!   the program is older than the library, members that it lacks have their defaults. If the
//!   program is newer, the call works unless the program sets a member that this library does not
//!   have. The default of each member is 0.

#![allow(clippy::missing_safety_doc, reason = "what holds for all pointers is written above, once")]

mod arm;
mod batch;
mod border;
mod call;
mod component;
mod error;
mod handle;
mod library_log;
mod message_type;
mod node;
mod packet;
mod publisher;
mod report;
mod sample_type;
mod serve;
mod sized;
mod status;
mod stream;
mod subscriber;
mod text;
mod time;
mod version;
mod wait_set;
mod waker;

// Tests in Rust call the functions by these paths. C programs link them by their names.
pub use batch::PacketWriter;
pub use border::{Data, ErrorOut, Handle, Out, Ref, Str};
pub use call::{
    CallHandler, CallOptions, Client, ClientOptions, Operation, OperationType, Pending, Reply, Responder,
    Server, ServerCounts, ServerOptions, Service,
};
pub use component::{
    Component, ComponentChange, ComponentCreate, ComponentDestroy, ComponentFunctions, ComponentHandler,
    ComponentRun, ComponentTest, ComponentValidate, Harness, Made, Port, PortDirection, Ports, Properties,
    Property, PropertyAccess, PropertyKind, Readout, Reason, TestOutcome,
};
pub use error::Error;
pub use library_log::LogCallback;
pub use node::{Node, NodeOptions, stripline_node_free, stripline_node_new};
pub use packet::{GapReason, Packet, PacketInfo, stripline_packet_get_info, stripline_packet_release};
pub use publisher::{
    Loan, Publisher, SendOptions, SendSet, stripline_loan_commit, stripline_publisher_free,
    stripline_publisher_loan, stripline_publisher_new, stripline_publisher_send,
    stripline_publisher_wait_for_receivers,
};
pub use report::{ConnectionReport, Report};
pub use sample_type::SampleType;
pub use serve::{PacketHandler, Served};
pub use status::Status;
pub use stream::{Axis, AxisView, ClockReference, StreamDescription, StreamSet, StreamView};
pub use subscriber::{
    Subscriber, SubscriberOptions, WindowUnit, stripline_subscriber_free, stripline_subscriber_new,
    stripline_subscriber_receive,
};
pub use text::Text;
pub use version::{FOREVER, VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH};
pub use wait_set::{Ready, WaitEvent, WaitSet};
pub use waker::Waker;
