//! The wrappers of the libraries, for components and benchmarks that exchange data with programs
//! without Stripline.
//!
//! This is not public API: any release may change or remove it.

#[cfg(feature = "corba")]
pub use crate::corba::bulkio::{BulkioInput, BulkioOutput, BulkioPacket, BulkioPlace};
#[cfg(feature = "corba")]
pub use crate::corba::orb::{TlsFiles, has_tls as corba_has_tls, socket_path as corba_socket_path};
#[cfg(feature = "dds")]
pub use crate::dds::ends::DdsPlace;
#[cfg(feature = "dds")]
pub use crate::dds::samples::{DdsSampleReader, DdsSampleWriter, DdsTerms};
#[cfg(feature = "dds")]
pub use crate::dds::security::{DdsEnclave, has_security as dds_has_security};
pub use crate::system::check_descriptors;
pub use crate::wire::bulkio::{BulkioSri, BulkioTime, BulkioType, BulkioValue};
pub use crate::wire::dds::{DdsSampleInfo, DdsSampleMessage, DdsSampleType, FramesSample};
#[cfg(feature = "zenoh")]
pub use crate::zenoh::session::settings as zenoh_settings;
