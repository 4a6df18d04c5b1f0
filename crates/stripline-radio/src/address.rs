//! Addresses of TCP: a host and a port.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use stripline::component::{InvalidProperties, Properties, PropertySpec, Value};
use stripline::{Error, Result};

/// Describes the property `address`.
pub(crate) fn property(summary: &str, example: &str) -> PropertySpec {
    PropertySpec::text("address", "", summary).required().example(Value::Text(example.into()))
}

/// Describes the property `insecure`.
pub(crate) fn insecure_property() -> PropertySpec {
    let summary = "whether to leave this host, without authentication or encryption";
    PropertySpec::boolean("insecure", false, summary)
}

/// Checks the properties `address` and `insecure`.
///
/// # Errors
/// The address is no host with a port, or leaves this host without `insecure`.
pub(crate) fn check(properties: &Properties) -> Result<()> {
    let address = properties.text("address");
    let refused = |problem: &str, remedy: &str| {
        let invalid = InvalidProperties::new(format!("`{address}` {problem}"));
        Err(Error::from(invalid.property("address").remedy(remedy)))
    };
    let example = "write it as 127.0.0.1:1234 or [::1]:1234";
    let Some((host, port)) = address.rsplit_once(':') else {
        return refused("is no address with a port", example);
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains('/') || host.contains(':') != is_bracketed {
        return refused("is no address with a port", example);
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return refused("has no port from 1 to 65535", example);
    }
    let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    if is_bracketed && ip.is_none() {
        return refused("is no address of IPv6", example);
    }
    let is_this_host = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
    if !is_this_host && !properties.boolean("insecure") {
        let remedy = "use 127.0.0.1, or set `insecure` to true";
        return refused("can leave this host, without authentication or encryption", remedy);
    }
    Ok(())
}

/// Returns the first address that a text stands for.
pub(crate) fn resolve(address: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::other("the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use stripline::component::ComponentSpec;

    use super::*;

    /// Checks that an address is refused before the start, and by which words.
    #[test]
    fn an_address_is_checked_before_the_start() {
        let spec = ComponentSpec::new("radio", "A radio.")
            .property(property("where", "127.0.0.1:1234"))
            .property(insecure_property());
        let refusal = |address: &str, insecure: bool| {
            let given = [("address", Value::Text(address.into())), ("insecure", Value::Boolean(insecure))];
            let given = given.map(|(name, value)| (name.to_owned(), value)).into();
            let checked = check(&Properties::new(&spec, given).unwrap());
            checked.err().map_or(String::new(), |found| found.to_string())
        };
        for taken in ["127.0.0.1:1", "localhost:65535", "[::1]:1234"] {
            assert_eq!(refusal(taken, false), "", "{taken}");
        }
        for (address, problem) in [
            ("127.0.0.1", "no address with a port"),
            ("rtl_tcp://127.0.0.1:1234", "no address with a port"),
            ("::1:1234", "no address with a port"),
            (":1234", "no address with a port"),
            ("127.0.0.1:0", "no port from 1"),
            ("[::radio]:1234", "no address of IPv6"),
            ("192.0.2.1:1234", "can leave this host"),
        ] {
            assert!(refusal(address, false).contains(problem), "{address}");
        }
        assert_eq!(refusal("192.0.2.1:1234", true), "");
    }
}
