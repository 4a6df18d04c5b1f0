//! Publishers and subscribers of typed payloads. Without a waveform, a [`Node`] connects them by
//! topic. In a waveform, the ports of a component are already connected. Ports have the same types:
//! [`Input`] is another name for [`Subscriber`], and [`Output`] for [`Publisher`].
//!
//! # Which one do I want?
//!
//! | to | use | example |
//! | --- | --- | --- |
//! | receive packets one by one | [`Subscriber::receive`] | `subscriber` |
//! | receive a packet without waiting | [`Subscriber::try_receive`] | `embedded` |
//! | wait for a packet, but not longer than a time | [`Subscriber::receive_timeout`] | |
//! | own several packets at once, on any threads | [`Subscriber::holding`] | |
//! | take samples in lengths that you choose, across packets | [`Subscriber::windowed`] | `windows` |
//! | take property changes and tests while no packet comes | [`Subscriber::receive_with`] | `gain` |
//! | the same with samples in lengths that you choose | [`Windowed::window_with`] | |
//! | forward a packet or window at the same rate, or at another | [`Loan::send_like`], [`Loan::send_like_at_rate`] | |
//! | run a handler for each packet, on one thread or a pool | [`Subscriber::serve`], [`Dispatch`] | |
//! | the same, and send the results one at a time | [`Subscriber::serve_then`] | |
//! | let the waveform choose the threads of a handler | [`component::Handler`](crate::component::Handler) | `handler` |
//! | wait for several inputs at once, then receive | [`wait_any`] | |
//! | wait for ports, clients, servers and descriptors at once | [`WaitSet`] | |
//! | wait in your own event loop, or a toolkit's | [`Waitable::arm`], [`Publisher::arm`] | |
//! | end a wait from another thread | [`Subscriber::waker`], [`Publisher::waker`], [`Waker`] | |
//! | run handlers of several inputs in turn, with shared state | [`SingleThread`] | |
//! | restore the sequence behind a pool | [`Subscriber::resequenced`] | |
//! | write a packet where the receivers read it | [`Publisher::loan`] | `publisher` |
//! | end an incomplete stream, or limit the wait for the end | [`Publisher::abandon`], [`Publisher::finish_within`] | |
//! | send samples that are elsewhere in memory | [`Publisher::send`] | `embedded` |
//! | send and receive values of any serde type | [`Cbor`](crate::payload::Cbor), [`Packet::decode`] | `embedded` |
//! | send or receive samples of a type that is defined at run time | [`Dynamic`](crate::payload::Dynamic) | |
//! | get a reply to each request | [`call`](crate::call) | `tuner` |
//!
//! The examples are in the folder `crates/stripline/examples`; `examples/README.md` lists them. All
//! ways to receive follow the same contract for order, gaps, overflow and the end of stream.

mod connection_log;
mod direct_dispatch;
mod dispatch;
mod domain;
pub(crate) mod fast_path;
mod holding;
mod message;
#[allow(clippy::module_inception, reason = "the layer is named after its main type")]
mod node;
mod node_state;
mod packet_view;
mod pool;
mod publisher;
mod publisher_arm;
mod ready_descriptor;
pub(crate) mod rendezvous;
mod serve;
mod single_thread;
mod subscriber;
mod subscription;
mod tapped;
pub(crate) mod topics;
mod wait;
mod wait_set;
mod waker;
mod window;

pub use dispatch::{Completion, Dispatch};
pub(crate) use domain::domain_of_environment;
pub use holding::{HeldPacket, Holding};
pub use node::Node;
pub(crate) use node::{Reconnector, calls_payload};
pub use packet_view::{KeptStamps, PacketView, Stamped};
pub use publisher::{Input, Loan, Output, Publisher};
pub use ready_descriptor::ReadyDescriptor;
pub use single_thread::SingleThread;
pub use subscriber::{Packet, Received, Subscriber};
pub(crate) use subscription::OfferConsumer;
pub(crate) use tapped::connect_tap;
pub use topics::{TopicOptions, Topics};

pub use crate::packet::content::PortName;
pub use wait::{Waitable, wait_any};
pub use wait_set::{AddedReady, WaitInterest, WaitMember, WaitReady, WaitSet};
pub(crate) use waker::NoAttention;
pub use waker::Waker;
pub use window::{Window, WindowUnit, Windowed};
