//! The interface to the operating system: memory, sockets, credentials, sleeping, clocks,
//! processes. The folder contains nearly all of this crate's `unsafe` code.

pub(crate) mod adaptive_spin;
pub(crate) mod aligned_buffer;
pub(crate) mod build;
pub(crate) mod clock;
pub(crate) mod credentials;
pub(crate) mod doorbell;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod huge_pages;
pub(crate) mod lease;
pub(crate) mod membarrier;
pub(crate) mod memory;
pub(crate) mod message_queue;
pub(crate) mod messages;
pub(crate) mod mutex;
#[cfg(any(test, feature = "test-transports"))]
pub(crate) mod own_process;
pub(crate) mod pending;
pub(crate) mod poller;
pub(crate) mod process;
pub(crate) mod ready_set;
pub(crate) mod refusal;
pub(crate) mod running_limit;
pub(crate) mod runtime_folder;
pub(crate) mod scoped_call;
pub(crate) mod socket;
pub(crate) mod socket_names;
pub(crate) mod socket_place;
pub(crate) mod thread;
pub(crate) mod timer;
pub(crate) mod udp;
pub(crate) mod udp_batch;
pub(crate) mod udp_charge;
pub(crate) mod wait_clock;
