//! The formats of other programs on the wire, read and written without a library.

pub mod bulkio;
pub mod dds;
pub mod gnuradio;
