//! The terms of the link contract: the options that an engineer sets on a connection. The folder
//! imports nothing.
//!
//! ```
//! use stripline::terms::{LinkOptions, Overflow, Scope};
//!
//! let options = LinkOptions { overflow: Overflow::DropOldest, ..LinkOptions::default() };
//! assert_eq!(options.scope, Scope::Transport);
//! ```

mod group;
mod options;
pub(crate) mod sender_options;
mod transport_options;
mod wait_strategy;
pub(crate) mod watermarks;

pub use group::Group;
pub use options::{LinkOptions, Overflow, Resequence, Scope};
pub(crate) use sender_options::SenderOptions;
pub use transport_options::{Interface, Repair, TcpOptions, TransportOptions, UdpOptions, ZenohOptions};
pub use wait_strategy::WaitStrategy;
pub use watermarks::Flow;
pub(crate) use watermarks::Watermarks;
