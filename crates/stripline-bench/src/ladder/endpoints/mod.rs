//! The subjects of measurements, each with two ends. The bare subjects are written as a good
//! engineer would write them.

pub(super) mod bare;
pub(super) mod calls;
#[cfg(feature = "corba")]
pub(super) mod corba;
pub(super) mod datagram;
#[cfg(feature = "dds")]
pub(super) mod dds;
#[cfg(any(feature = "peers", feature = "iceoryx2"))]
pub(super) mod iceoryx2;
pub(super) mod minimal;
pub(super) mod queue;
pub(super) mod ring;
pub(super) mod socket;
pub(super) mod stripline;
#[cfg(feature = "zenoh")]
pub(super) mod zenoh;
#[cfg(any(feature = "peers", feature = "zeromq"))]
pub(super) mod zeromq;
