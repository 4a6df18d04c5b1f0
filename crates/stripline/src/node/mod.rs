//! Publishers and subscribers of typed payloads. A component's ports are publishers and subscribers
//! as well, already connected. Without a waveform a [`Node`] connects them by topic.

mod connection_log;
mod dispatch;
mod message;
#[allow(clippy::module_inception, reason = "the layer is named after its main type")]
mod node;
mod packet_source;
mod pool;
mod publisher;
pub(crate) mod rendezvous;
mod single_thread;
mod subscriber;
mod topics;
mod view;
mod wait;
mod window;

pub use dispatch::{Completion, Dispatch};
pub use message::{Message, MessagePublisher, MessageSubscriber};
pub use node::Node;
pub(crate) use node::{OfferConsumer, Reconnector, calls_payload};
pub use publisher::{Input, Loan, Output, Publisher};
pub use single_thread::SingleThread;
pub use subscriber::{Packet, Received, Subscriber};
pub use topics::{TopicOptions, Topics};
pub use view::{PacketView, Stamped};
pub use wait::{Waitable, wait_any};
pub use window::{Window, Windowed};
