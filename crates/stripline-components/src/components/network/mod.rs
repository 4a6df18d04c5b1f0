//! `tcp-sink`, `tcp-source`, `udp-sink` and `udp-source`: raw samples for programs without the
//! library.

mod connector;
mod datagrams;
mod tcp;
mod udp;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use stripline::component::{
    ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, RateRule, Value,
};
use stripline::payload::{Scalar, TypeName};
use stripline::{Error, Result, StreamInfo};

use super::sent_type;
use crate::formats::encoding::{Encoding, TYPES, beyond_f32};

pub use tcp::{TcpSink, TcpSource};
pub use udp::{UdpSink, UdpSource};

/// Returns the description of a source, with the properties that both sources have.
fn source(name: &str, summary: &str, address: &str) -> ComponentSpec {
    let hertz = |name, summary| PropertySpec::float(name, 0.0, summary).range(0.0, 1e12).unit("Hz");
    ComponentSpec::new(name, summary)
        .sample_rate(RateRule::property("sample_rate").or_none())
        .output("out", PortTypes::Property("output".into()), "the samples")
        .property(address_property(address))
        .property(PropertySpec::choice("samples", &TYPES, TYPES[0], "type of the samples that arrive"))
        .property(sent_type::property("`samples`"))
        .property(hertz("sample_rate", "sample rate; 0: unknown"))
        .property(hertz("frequency", "centre frequency; 0: unknown"))
}

/// Describes the property `address`.
fn address_property(summary: &str) -> PropertySpec {
    PropertySpec::text("address", "", summary).required().example(Value::Text("127.0.0.1:5555".into()))
}

/// Describes the property `insecure`.
fn insecure_property() -> PropertySpec {
    let summary = "whether to leave this host, without authentication or encryption";
    PropertySpec::boolean("insecure", false, summary)
}

/// Checks the properties `address` and `insecure`.
fn check(properties: &Properties) -> Result<()> {
    let address = properties.text("address");
    let refused = |problem: &str, remedy: &str| {
        let invalid = InvalidProperties::new(format!("`{address}` {problem}"));
        Error::from(invalid.property("address").remedy(remedy))
    };
    let example = "write it as 127.0.0.1:5555 or [::1]:5555";
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err(refused("is no address with a port", example));
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains("//") || host.contains(':') != is_bracketed {
        return Err(refused("is no address with a port", example));
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(refused("has no port from 1 to 65535", example));
    }
    let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    if is_bracketed && ip.is_none() {
        return Err(refused("is no address of IPv6", example));
    }
    let is_this_host = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
    if !is_this_host && !properties.boolean("insecure") {
        let remedy = "use 127.0.0.1, or set `insecure` to true";
        return Err(refused("can leave this host, without authentication or encryption", remedy));
    }
    Ok(())
}

/// Returns the first address that a text stands for.
fn resolve(address: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::other("the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(none)
}

/// Returns the error for an address at which a socket cannot be opened.
fn not_opened(doing: &str, address: &str, error: io::Error) -> Error {
    let port = address.rsplit(':').next().unwrap_or_default();
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("; take another port, or end the program that `ss -ltunp 'sport = {port}'` shows")
        }
        _ => String::new(),
    };
    Error::failed(format!("cannot {doing} {address}: {error}{remedy}"))
}

/// Prints that a source can receive.
fn says_listens(protocol: &str, address: &str) {
    // The message is only for the user.
    let _ = writeln!(io::stderr(), "listening at {protocol}://{address}");
}

/// Checks the properties of a source.
fn check_source(properties: &Properties) -> Result<()> {
    check(properties)?;
    Conversion::new(properties).map(drop)
}

/// The samples of a source, as they arrive and as they are sent.
struct Conversion {
    arriving: Scalar,
    sent: Scalar,
    /// Samples as they arrive.
    scratch: Vec<u8>,
    /// The number of samples beyond the range of the sent type.
    clipped: u64,
}

impl Conversion {
    fn new(properties: &Properties) -> Result<Self> {
        let arriving = sent_type::scalar(properties, "samples")?;
        let sent = sent_type::scalar(properties, "output")?;
        let message = || format!("samples of the type {arriving} cannot be sent as {sent}");
        sent_type::check(arriving, sent, message)?;
        Ok(Self { arriving, sent, scratch: Vec::new(), clipped: 0 })
    }

    /// Returns the size of a sample that arrives, in bytes.
    fn size(&self) -> usize {
        self.arriving.size()
    }

    /// Calls `read` with space for as many samples as `out` has, converts the bytes that it
    /// returns, and returns the number of samples.
    fn read(
        &mut self,
        out: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.arriving == self.sent {
            return Ok(read(out)? / self.size());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(out.len() / self.sent.size() * self.size(), 0);
        let count = read(&mut scratch);
        if let Ok(bytes) = count {
            self.convert(&scratch[..bytes], &mut out[..bytes / self.arriving.size() * self.sent.size()]);
        }
        self.scratch = scratch;
        Ok(count? / self.size())
    }

    /// Converts samples that have arrived.
    fn convert(&mut self, bytes: &[u8], out: &mut [u8]) {
        if self.arriving == self.sent {
            return out.copy_from_slice(bytes);
        }
        self.clipped += beyond_f32(self.arriving, bytes);
        Encoding::raw(self.arriving).to_f32(bytes, out.as_chunks_mut().0);
    }
}

/// Returns the description of the stream of a source.
fn stream(ports: &Ports, properties: &Properties) -> StreamInfo {
    let known = |name| Some(properties.float(name)).filter(|value| *value > 0.0);
    StreamInfo {
        sample_rate_hz: known("sample_rate"),
        center_frequency_hz: known("frequency"),
        ..StreamInfo::new(ports.component())
    }
}

/// Returns the number of bytes of a sample at the input of a sink.
///
/// # Errors
/// The input has messages.
fn sample_bytes(ports: &Ports) -> Result<usize> {
    let payload = ports.payload("in");
    let Some(bytes) = payload.and_then(TypeName::sample_bytes).filter(|bytes| *bytes > 0) else {
        let payload = payload.map(TypeName::to_string).unwrap_or_default();
        return Err(Error::failed(format!(
            "`in` has {payload}, and messages have no samples: use a `print-sink`"
        )));
    };
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use stripline::component::Component;

    use super::*;

    #[test]
    fn an_address_is_checked_before_the_start() {
        let refusal = |address: &str, insecure: bool| {
            let given = [("address", Value::Text(address.into())), ("insecure", Value::Boolean(insecure))];
            let given = given.map(|(name, value)| (name.to_owned(), value)).into();
            let spec = TcpSink::describe();
            let properties = Properties::new(&spec, given).unwrap();
            spec.validate(&properties).err().map_or(String::new(), |found| found.to_string())
        };
        for taken in ["127.0.0.1:1", "localhost:65535", "[::1]:5555"] {
            assert_eq!(refusal(taken, false), "", "{taken}");
        }
        for (address, problem) in [
            ("127.0.0.1", "no address with a port"),
            ("tcp://127.0.0.1:5555", "no address with a port"),
            ("::1:5555", "no address with a port"),
            (":5555", "no address with a port"),
            ("127.0.0.1:0", "no port from 1"),
            ("127.0.0.1:70000", "no port from 1"),
            ("[::radio]:5555", "no address of IPv6"),
            ("[radio]:5555", "no address with a port"),
            ("0.0.0.0:5555", "can leave this host"),
            ("radio.example:5555", "can leave this host"),
        ] {
            assert!(refusal(address, false).contains(problem), "{address}");
        }
        assert_eq!(refusal("0.0.0.0:5555", true), "");
    }
}
