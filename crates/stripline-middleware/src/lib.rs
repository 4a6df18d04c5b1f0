//! Other middleware for Stripline: `zeromq`, `iceoryx2`, `zenoh`, `dds` and `corba`, each a
//! feature. Each is a transport between components of Stripline. All but `iceoryx2` also have
//! components that exchange samples with other programs ([`wire_formats`]).
//!
//! Each middleware has a folder with all of its code: the wrapper of the library, the carrier with
//! both ends of a path, the components, and the tests. `transit` bounds the messages in queues that
//! have no bound. `components` has the source and the sink of all formats. [`gnuradio`] reads and
//! writes the messages and tags of GNU Radio, also without a feature.
//!
//! ```
//! stripline_middleware::register();
//! let names: Vec<_> = stripline::transport::all().map(|transport| transport.name).collect();
//! assert!(names.contains(&"shm"));
//! ```

mod components;
mod conditions;
#[cfg(feature = "corba")]
mod corba;
#[cfg(feature = "dds")]
mod dds;
#[cfg(feature = "iceoryx2")]
mod iceoryx2;
#[doc(hidden)]
pub mod internal;
mod system;
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
mod transit;
mod wire;
#[cfg(feature = "zenoh")]
mod zenoh;
#[cfg(feature = "zeromq")]
mod zeromq;

use stripline::carrier::{AbsentTransport, StreamTransport};

pub use components::{WireFormat, wire_formats, with_components};
pub use wire::gnuradio;

/// The transports that this build has.
static TRANSPORTS: &[&StreamTransport] = &[
    #[cfg(feature = "zeromq")]
    &zeromq::ZEROMQ,
    #[cfg(feature = "iceoryx2")]
    &iceoryx2::ICEORYX2,
    #[cfg(feature = "zenoh")]
    &zenoh::ZENOH,
    #[cfg(feature = "dds")]
    &dds::DDS,
    #[cfg(feature = "corba")]
    &corba::CORBA,
];

/// The transports that this build lacks.
static ABSENT: &[AbsentTransport] = &[
    #[cfg(not(feature = "zeromq"))]
    AbsentTransport {
        name: "zeromq",
        summary: "sockets of ZeroMQ, PUSH to PULL",
        remedy: "not in this program: build it with the feature `zeromq`, which takes a C++ compiler (g++)",
    },
    #[cfg(not(feature = "iceoryx2"))]
    AbsentTransport {
        name: "iceoryx2",
        summary: "shared memory of iceoryx2",
        remedy: "not in this program: build it with the feature `iceoryx2`, which takes Rust 1.89",
    },
    #[cfg(not(feature = "zenoh"))]
    AbsentTransport {
        name: "zenoh",
        summary: "publications of zenoh, between peers or across routers",
        remedy: "not in this program: build it with the feature `zenoh`, which takes a C compiler (gcc)",
    },
    #[cfg(not(feature = "dds"))]
    AbsentTransport {
        name: "dds",
        summary: "topics of Cyclone DDS",
        remedy: "not in this program: build it with the feature `dds`, which takes Cyclone DDS \
                 (cyclonedds-dev, cyclonedds-tools)",
    },
    #[cfg(not(feature = "corba"))]
    AbsentTransport {
        name: "corba",
        summary: "one-way calls of CORBA, by omniORB",
        remedy: "not in this program: build it with the feature `corba`, which takes a C++ compiler (g++) and \
                 omniORB 4 (Debian: libomniorb4-dev, omniidl)",
    },
];

/// Adds the transports of this crate to this process. A transport can be used from then on. Later
/// calls do nothing.
///
/// ```
/// stripline_middleware::register();
/// let has = |name| stripline::transport::all().any(|transport| transport.name == name);
/// let lacks = |name| stripline::transport::absent().iter().any(|transport| transport.name == name);
/// assert!(has("zenoh") != lacks("zenoh"));
/// ```
pub fn register() {
    stripline::carrier::register(TRANSPORTS, ABSENT);
}

// Compiles the examples of the README, and runs them.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
