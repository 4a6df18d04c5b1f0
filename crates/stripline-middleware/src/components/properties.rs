//! Properties that several formats have, and their checks.

use std::net::IpAddr;
use std::time::Duration;

use stripline::Error;
use stripline::component::{InvalidProperties, PortTypes, Properties, PropertySpec, Value};
use stripline::payload::TypeName;

/// The longest wait between two checks of the stop signal.
pub(crate) const STOP_CHECK: Duration = Duration::from_millis(20);

/// Returns the property `samples` of a source.
pub(crate) fn samples(types: &[&str], summary: &str) -> PropertySpec {
    PropertySpec::choice("samples", types, "cf32", summary)
}

/// Returns the property `samples` of a source over a middleware without types.
pub(crate) fn any_samples() -> PropertySpec {
    let summary = "type of the samples, also a layout; u8: bytes; message/NAME: messages in CBOR";
    PropertySpec::text("samples", "cf32", summary)
}

/// Returns whether the property `samples` of a source has the name of messages.
pub(crate) fn names_messages(properties: &Properties) -> bool {
    matches!(properties.value("samples"), Some(Value::Text(name)) if name.starts_with("message/"))
}

/// Returns the property `sample_rate`, or `frequency`, of a source.
pub(crate) fn hertz(name: &str, summary: &str) -> PropertySpec {
    PropertySpec::float(name, 0.0, summary).range(0.0, 1e12).unit("Hz")
}

/// Returns a property with a text, which is empty by default.
pub(crate) fn text(name: &str, summary: &str) -> PropertySpec {
    PropertySpec::text(name, "", summary)
}

/// Returns the property that names the place of the samples, with an example.
pub(crate) fn place(name: &str, summary: &str, example: &str) -> PropertySpec {
    text(name, summary).required().example(Value::Text(example.into()))
}

/// Returns the types of the input of a sink.
pub(crate) fn one_of(types: &[&str]) -> PortTypes {
    PortTypes::OneOf(types.iter().filter_map(|name| TypeName::parse(name).ok()).collect())
}

/// Returns the properties of TLS: the files `ca`, `certificate` and `private_key`.
pub(crate) fn tls() -> [PropertySpec; 3] {
    [
        PropertySpec::text(
            "ca",
            "",
            "file with the certificate that the certificates of peers are checked by (tls)",
        ),
        text("certificate", "file with the certificate of this side (tls)"),
        text("private_key", "file with the key of `certificate` (tls)"),
    ]
}

/// Returns the property `insecure`.
pub(crate) fn insecure() -> PropertySpec {
    PropertySpec::boolean(
        "insecure",
        false,
        "whether to leave this host, without authentication or encryption",
    )
}

/// Returns the error for a property.
pub(crate) fn refusal(property: &str, problem: impl Into<String>, remedy: &str) -> Error {
    InvalidProperties::new(problem.into()).property(property).remedy(remedy).into()
}

/// Returns the address in the host part of an address; `None`: it is a name.
pub(crate) fn ip_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns whether only programs of this host are reached at a host part.
pub(crate) fn is_this_host(host: &str) -> bool {
    host == "localhost" || ip_of(host).is_some_and(|ip| ip.is_loopback())
}
