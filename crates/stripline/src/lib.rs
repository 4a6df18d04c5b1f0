//! Stripline: low-loss links between radio components.
//!
//! A *waveform* is a set of *components* joined by *connections*. A component receives and sends
//! packets of samples through typed *ports* and never names a transport. The transport and the
//! options of a connection are set at run time.
//!
//! The layers, from top to bottom. Each layer is a folder that depends only on the folders below
//! it:
//!
//! | layer | folder | content |
//! | --- | --- | --- |
//! | component | [`component`] | components, their ports and properties, and their `main` |
//! | call | [`call`] | clients and servers of operations with replies |
//! | node | [`node`] | publishers and subscribers, by topic without a waveform |
//! | link | [`link`] | sequence, streams, gaps, overflow, end of stream, statistics |
//! | transport | [`transport`] | `inproc`, `shm`, `uds`, `tcp`, `mqueue`, `udp`; other crates add more |
//! | flow | private | credits, stop and resume, acks: no input or output |
//! | inspect | [`inspect`] | the view of a process's ports |
//! | sys | private | the edge to the operating system |
//! | packet, error, terms | re-exported | packets, errors, and the words of the contract |
//!
//! Below all of them is the crate `stripline-ring`, the lock-free ring itself. Above them is
//! `stripline-waveform`: files that describe waveforms, their check, launch and supervision.
//!
//! To write components, start with the crate that `stripline new component NAME` makes. [`prelude`]
//! has the first names, `docs/write-components.md` is the guide, and [`component::kit`] has parts
//! that most components need.
//!
//! # The log
//!
//! Errors that no call can return go to the crate [`log`], with the name of the port, topic or
//! connection in the message. The target is `stripline::` and the layer: `stripline::node`, `call`,
//! `transport`, `inspect`, `waveform`. The level is `warn` if a peer caused the error, and `error`
//! if the error ends a service of this process. A program without a logger gets no records:
//!
//! ```
//! struct Print;
//!
//! impl log::Log for Print {
//!     fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
//!         metadata.target().starts_with("stripline::")
//!     }
//!     fn log(&self, record: &log::Record<'_>) {
//!         if self.enabled(record.metadata()) {
//!             eprintln!("{} {}: {}", record.level(), record.target(), record.args());
//!         }
//!     }
//!     fn flush(&self) {}
//! }
//!
//! log::set_logger(&Print).map(|()| log::set_max_level(log::LevelFilter::Warn)).expect("the first");
//! ```
//!
//! A component process prints the records on standard error, unless the program installs a logger
//! before [`component::main`]. `STRIPLINE_LOG` selects other records: a level, and `target=level`
//! for single targets, as in `info,stripline::node=debug`. Records of the component's own code,
//! made with the macros of `log`, are selected and printed in the same way. A logger must not use
//! this library, because some records are made while a lock is held.

pub mod call;
pub mod carrier;
pub mod component;
mod error;
#[cfg(test)]
mod explorer;
#[doc(hidden)]
pub mod fail_point;
mod flow;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
#[doc(hidden)]
pub mod internal;
pub mod link;
#[cfg(test)]
#[path = "../../stripline-conformance/src/message_queue_turn.rs"]
mod message_queue_turn;
pub mod node;
pub mod packet;
pub mod prelude;
mod sys;
pub mod terms;
pub mod transport;

pub use error::{Error, ErrorCode, Result, SystemLimit};
pub use node::{Input, Loan, Output, Packet, Received};
pub use num_complex::Complex;
pub use packet::payload;
pub use packet::payload::{Message, Sample};
pub use packet::{Axis, ClockReference, Gap, GapReason, StreamClock, StreamInfo};

/// Generates a service of two-way [calls](call) from a trait, and a client with one function per
/// operation.
///
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use stripline::call::{CallError, CallOptions, ClientOptions, ServerOptions};
/// use stripline::node::{Dispatch, Node};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// pub struct OutOfRange;
///
/// #[stripline::service]
/// pub trait Tuner {
///     /// Tunes, and returns the frequency that was reached.
///     fn tune(&self, frequency_hz: f64) -> Result<f64, OutOfRange>;
///     /// The frequency.
///     fn frequency_hz(&self) -> f64;
/// }
///
/// struct Radio(Mutex<f64>);
///
/// impl Tuner for Radio {
///     fn tune(&self, frequency_hz: f64) -> Result<f64, OutOfRange> {
///         if !(1e6..6e9).contains(&frequency_hz) {
///             return Err(OutOfRange);
///         }
///         *self.0.lock().expect("not poisoned") = frequency_hz.round();
///         Ok(frequency_hz.round())
///     }
///     fn frequency_hz(&self) -> f64 {
///         *self.0.lock().expect("not poisoned")
///     }
/// }
///
/// let node = Node::isolated()?;
/// let radio = Radio(Mutex::new(100e6));
/// let mut server = node.service_server(TunerService::of(&radio)?, ServerOptions::default())?;
/// let tuner = TunerClient::connect(&node, TunerService::NAME, ClientOptions::default())?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| server.serve(Dispatch::Queue));
///     assert_eq!(tuner.frequency_hz().expect("it is served"), 100e6);
///     assert_eq!(tuner.tune(433.92e6).expect("it is in range"), 433.92e6);
///     assert!(matches!(tuner.tune(0.0), Err(CallError::User(OutOfRange))));
///     let pending = tuner.start_tune(1090e6).expect("a server is there");
///     // ... other work ...
///     assert_eq!(pending.wait().expect("it is in range"), 1090e6);
///     let patient = CallOptions::deadline(Duration::from_secs(60));
///     assert_eq!(tuner.with(patient).tune(162.4e6).expect("it is in range"), 162.4e6);
///     node.stop();
/// });
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// # Generated items
/// The trait itself is not changed. For a trait `Tuner` the attribute adds, with the trait's
/// visibility:
///
/// - `TunerService`: `of` makes a [`Service`](call::Service) from a value of any type with the
///   trait, and `named` makes one with another name. `NAME` is `tuner`, the trait's name in kebab
///   case, or the name in the attribute: `#[stripline::service(name = "vhf-tuner")]`.
/// - `TunerClient`: `connect` makes a client. `client` is the underlying
///   [`ServiceClient`](call::ServiceClient), for counts and servers. Each operation has two
///   functions, for example `tune` and `start_tune`. The first blocks, and returns the reply or a
///   [`CallError`](call::CallError) with the operation's error. The second returns a
///   [`Pending`](call::Pending).
/// - `TunerClientView`, the client with a key or a deadline: `with` makes one from
///   [`CallOptions`](call::CallOptions). The view has the functions of the operations.
/// - The trait for `&T` and `Arc<T>` of any `T` with the trait. So a program can keep a reference
///   to an object that it serves.
///
/// # Traits
/// The functions of the trait take `&self` (with [`Dispatch::Pool`](node::Dispatch::Pool), several
/// run at once) and up to 16 arguments by value. A function that returns `Result<Reply, Error>` has
/// its own error type; any other function has no errors ([`NoError`](call::NoError)). The name of
/// the operation is the name of the function. An argument `&Context<'_>` is the call's
/// [`Context`](call::Context), which the server provides. Functions may have bodies, and `#[cfg]`.
/// Their documentation becomes the documentation of the client's functions, and clients of any kind
/// can request it from servers ([`Operation::doc`](call::Operation::doc)).
///
/// # On the wire
/// A single argument is sent as the request, several arguments as a tuple, and no arguments as
/// `()`. Arguments, replies and errors derive serde's `Serialize` and `Deserialize` and travel as
/// CBOR, including a `Vec` of samples. [`Samples`](call::Samples) or [`Plain`](call::Plain), as the
/// only argument or as the reply, travel as plain memory.
///
/// # Limits
/// The compiler reports the place and the remedy. A function that changes its object:
///
/// ```compile_fail
/// #[stripline::service]
/// pub trait Tuner {
///     fn tune(&mut self, frequency_hz: f64); // error: an operation takes `&self`: ... keep what changes in a `Mutex`
/// }
/// ```
///
/// a type that other programs cannot name:
///
/// ```compile_fail
/// #[stripline::service]
/// pub trait Tuner<Frequency> { // error: a service cannot be generic: ... write the types out
///     fn tune(&self, frequency: Frequency);
/// }
/// ```
///
/// an asynchronous function:
///
/// ```compile_fail
/// #[stripline::service]
/// pub trait Tuner {
///     async fn tune(&self, frequency_hz: f64); // error: ... callers that do not want to wait use `start_...`
/// }
/// ```
///
/// a type that cannot leave its process:
///
/// ```compile_fail
/// #[stripline::service]
/// pub trait Tuner {
///     fn band(&self, name: &str) -> f64; // error: ... take `String` for `&str`
/// }
/// ```
///
/// ```compile_fail
/// pub struct Band; // has no `Serialize`
///
/// #[stripline::service]
/// pub trait Tuner {
///     fn tune(&self, band: Band); // error: the trait bound `Band: serde::Serialize` is not satisfied
/// }
/// ```
pub use stripline_macros::service;

// The examples of the README compile, and run where possible.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
