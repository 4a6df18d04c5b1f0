//! The operating system, as several middleware libraries need it.

#[cfg(any(feature = "zeromq", feature = "dds", feature = "corba"))]
mod descriptors;
#[cfg(any(feature = "iceoryx2", feature = "corba"))]
pub(crate) mod owned_names;
#[cfg(feature = "iceoryx2")]
pub(crate) mod sole_owner;

#[cfg(any(feature = "zeromq", feature = "corba"))]
pub(crate) use descriptors::check_descriptors;
#[cfg(feature = "dds")]
pub(crate) use descriptors::check_descriptors_of_select;
