//! The interface to the operating system: memory, sockets, credentials, sleeping, clocks,
//! processes. It contains nearly all of this crate's `unsafe` code.

pub(crate) mod adaptive_spin;
pub(crate) mod aligned_buffer;
pub(crate) mod build;
#[cfg(feature = "corba")]
pub(crate) mod bulkio;
pub(crate) mod clock;
#[cfg(feature = "corba")]
pub(crate) mod corba;
pub(crate) mod credentials;
#[cfg(feature = "dds")]
pub(crate) mod dds;
#[cfg(feature = "dds")]
pub(crate) mod dds_samples;
#[cfg(feature = "dds")]
pub(crate) mod dds_security;
#[cfg(any(feature = "zeromq", feature = "dds", feature = "corba"))]
#[cfg_attr(not(any(feature = "zeromq", feature = "corba")), allow(dead_code, reason = "a part is for them"))]
pub(crate) mod descriptors;
pub(crate) mod doorbell;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod huge_pages;
#[cfg(feature = "iceoryx2")]
pub(crate) mod iceoryx2;
pub(crate) mod lease;
pub(crate) mod membarrier;
pub(crate) mod memory;
pub(crate) mod message_queue;
pub(crate) mod messages;
pub(crate) mod mutex;
#[cfg(test)]
pub(crate) mod own_process;
#[cfg(any(feature = "iceoryx2", feature = "corba"))]
pub(crate) mod owned_names;
pub(crate) mod pending;
pub(crate) mod poller;
pub(crate) mod process;
pub(crate) mod ready_set;
pub(crate) mod refusal;
#[cfg(any(
    feature = "test-transports",
    feature = "zeromq",
    feature = "zenoh",
    feature = "dds",
    feature = "corba"
))]
pub(crate) mod running_limit;
pub(crate) mod runtime_folder;
pub(crate) mod scoped_call;
pub(crate) mod socket;
pub(crate) mod socket_names;
pub(crate) mod socket_place;
#[cfg(feature = "iceoryx2")]
pub(crate) mod sole_owner;
pub(crate) mod thread;
pub(crate) mod timer;
#[cfg(any(feature = "zeromq", feature = "iceoryx2", feature = "zenoh", feature = "dds", feature = "corba"))]
#[cfg_attr(
    not(all(
        feature = "zeromq",
        feature = "iceoryx2",
        feature = "zenoh",
        feature = "dds",
        feature = "corba"
    )),
    allow(dead_code, reason = "each transport uses a part of it")
)]
pub(crate) mod transit_page;
pub(crate) mod udp;
pub(crate) mod udp_batch;
pub(crate) mod udp_charge;
#[cfg(feature = "zenoh")]
pub(crate) mod zenoh;
#[cfg(feature = "zeromq")]
pub(crate) mod zeromq;
