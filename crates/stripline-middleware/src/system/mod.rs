//! The operating system, as several middleware libraries need it.

mod descriptors;
#[cfg(any(feature = "iceoryx2", feature = "corba"))]
pub(crate) mod owned_names;
#[cfg(feature = "iceoryx2")]
pub(crate) mod sole_owner;

pub use descriptors::check_descriptors;
#[cfg(feature = "dds")]
pub(crate) use descriptors::check_descriptors_of_select;
