//! Components that exchange samples with other programs over a middleware. Each folder of a
//! middleware has its formats; this folder has the parts that all formats share.

#[cfg(any(feature = "zeromq", feature = "zenoh", feature = "dds", feature = "corba"))]
#[cfg_attr(
    not(all(feature = "zeromq", feature = "zenoh", feature = "dds", feature = "corba")),
    allow(dead_code, reason = "each format uses a part of it")
)]
pub(crate) mod ends;
mod formats;
#[cfg(any(feature = "zeromq", feature = "zenoh", feature = "dds", feature = "corba"))]
#[cfg_attr(
    not(all(feature = "zeromq", feature = "zenoh", feature = "dds", feature = "corba")),
    allow(dead_code, reason = "each format uses a part of it")
)]
pub(crate) mod properties;

use stripline::component::Registry;

pub use formats::{WireFormat, wire_formats};

/// Adds the components of this build to a registry: a source and a sink for each format in
/// [`wire_formats`].
///
/// ```
/// use stripline::component::Registry;
///
/// let registry = stripline_middleware::with_components(Registry::new());
/// for format in stripline_middleware::wire_formats() {
///     assert_eq!(registry.specs().contains_key(format.components[0]), format.in_program);
/// }
/// ```
#[must_use]
pub fn with_components(registry: Registry) -> Registry {
    #[cfg(feature = "zeromq")]
    let registry = ends::add::<crate::zeromq::gr_zeromq::GrZeromq>(registry);
    #[cfg(feature = "zenoh")]
    let registry = ends::add::<crate::zenoh::raw::RawPayloads>(registry);
    #[cfg(feature = "dds")]
    let registry = ends::add::<crate::dds::typed::TypedTopics>(registry);
    #[cfg(feature = "corba")]
    let registry = ends::add::<crate::corba::data_ports::DataPorts>(registry);
    registry
}
