//! `rtl-tcp-source` and `rtl-tcp-sink`: the protocol of `rtl_tcp`, without a library.

mod client_queue;
mod protocol;
mod server_link;
mod sink;
mod source;
#[cfg(test)]
mod tests;

pub use sink::RtlTcpSink;
pub use source::RtlTcpSource;
