//! The contract of Stripline, as tests that run over every transport, in one process and in
//! several.
//!
//! [`link_rules!`] makes the tests of the link contract: order, ends, gaps, overflow, scopes,
//! restarts, trust. A crate with a carrier runs these tests over the carrier, as `examples/carrier`
//! does. If a transport cannot support a rule, the test asserts the refusal by name and prints it.
//!
//! The tests of this package run over every transport of the build:
//!
//! | tests | contract |
//! | --- | --- |
//! | `conformance` | links |
//! | `calls` | two-way calls |
//! | `packet_cost` | system calls and allocations per packet |
//! | `system` | forks, users, memory, floods, other hosts |
//!
//! A new rule is a function in the file of the section, with a name in the table of `links.rs`.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]
#![allow(missing_docs, reason = "the names of the rules are sentences")]

mod links;

#[doc(hidden)]
pub mod arm;
#[doc(hidden)]
pub mod arm_senders;
#[doc(hidden)]
pub mod builds;
#[doc(hidden)]
pub mod by_value;
#[doc(hidden)]
pub mod dispatch;
#[doc(hidden)]
pub mod ends;
#[doc(hidden)]
pub mod flow;
#[doc(hidden)]
pub mod forgotten;
#[doc(hidden)]
pub mod hold;
#[doc(hidden)]
pub mod large;
#[doc(hidden)]
pub mod many;
#[doc(hidden)]
pub mod matrix;
#[doc(hidden)]
pub mod message_queue_turn;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod order;
#[doc(hidden)]
pub mod overflow;
#[doc(hidden)]
pub mod overflow_lossy;
#[doc(hidden)]
pub mod peers;
#[doc(hidden)]
pub mod peers_restart;
#[doc(hidden)]
pub mod puppet;
#[doc(hidden)]
pub mod refusals;
#[doc(hidden)]
pub mod resequence;
#[doc(hidden)]
pub mod resequence_ports;
#[doc(hidden)]
pub mod scope;
#[doc(hidden)]
pub mod scope_answered;
#[doc(hidden)]
pub mod scope_deserted;
#[doc(hidden)]
pub mod statistics;
#[doc(hidden)]
pub mod support;
#[doc(hidden)]
pub mod test_process;
#[doc(hidden)]
pub mod topology;
#[doc(hidden)]
pub mod trust;
#[doc(hidden)]
pub mod trust_datagrams;
#[doc(hidden)]
pub mod trust_memory;
#[doc(hidden)]
pub mod trust_network;
#[doc(hidden)]
pub mod wakes;
#[doc(hidden)]
pub mod windows;
