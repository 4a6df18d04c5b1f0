//! Common parts of `bulkio-source` and `bulkio-sink`: properties, and types of samples.

use std::path::PathBuf;
use std::time::Duration;

use stripline::component::{ComponentSpec, InvalidProperties, Properties, PropertySpec};
use stripline::internal::socket_names::unique_suffix;
use stripline::payload::{SampleType, Scalar, TypeName};
use stripline::{Error, Result};
use stripline_middleware::internal::{BulkioPlace, BulkioType, TlsFiles, corba_has_tls};

use super::tls;

/// The sample types for which a data port has elements.
pub(super) const TYPES: [&str; 14] =
    ["cf32", "f32", "cs16", "s16", "u8", "cu8", "u16", "cu16", "s32", "cs32", "u32", "cu32", "f64", "cf64"];
/// The remedy for an address that does not fit.
const LISTEN: &str =
    "use unix, name the address to listen on, or set `ca`, `certificate` and `private_key` for tls/";
/// The time between two checks of the stop signal.
pub(super) const STOP_CHECK: Duration = Duration::from_millis(20);

/// Returns the names of the types, for a port.
pub(super) fn type_names() -> Vec<TypeName> {
    TYPES.iter().filter_map(|name| TypeName::parse(name).ok()).collect()
}

/// Adds the properties of both components. `others` names the kind of ports that the component
/// connects to: uses, or provides.
pub(super) fn described(spec: ComponentSpec, others: &str) -> ComponentSpec {
    let spec = properties(others).into_iter().fold(spec, ComponentSpec::property);
    spec.validated(|properties| place(properties).map(drop))
}

fn properties(others: &str) -> [PropertySpec; 8] {
    let [ca, certificate, private_key] = tls::properties();
    [
        PropertySpec::text(
            "connect",
            "",
            &format!(
                "references of {others} ports that are connected at the start, with spaces between: files, IOR:, \
                 corbaloc: or corbaname:"
            ),
        ),
        PropertySpec::text(
            "listen",
            "unix",
            "where other programs connect to: unix, or an address as tcp/127.0.0.1:2900 or tls/192.0.2.1:2900 (port 0: \
             any)",
        ),
        PropertySpec::path("ior_file", "file that gets the reference of the port; empty: none"),
        PropertySpec::text(
            "name",
            "",
            "name of the port in a naming service, as corbaname::127.0.0.1#radio/iq; empty: none",
        ),
        ca,
        certificate,
        private_key,
        PropertySpec::boolean(
            "insecure",
            false,
            "whether to leave this host, without authentication or encryption",
        ),
    ]
}

fn refuse<T>(property: &str, problem: String, remedy: &str) -> Result<T> {
    Err(InvalidProperties::new(problem).property(property).remedy(remedy).into())
}

/// Checks the properties without an ORB. Returns the place where the ORB will listen.
pub(super) fn place(properties: &Properties) -> Result<BulkioPlace> {
    let (listen, insecure) = (properties.text("listen"), properties.boolean("insecure"));
    let place = match BulkioPlace::parse(listen, insecure, tls_files(properties)?) {
        Ok(place) => place,
        Err(problem) => return refuse("listen", problem, LISTEN),
    };
    if !place.is_protected() && !insecure {
        let problem = format!("`{listen}` leaves this host, and tcp has no security");
        return refuse("listen", problem, "use unix, 127.0.0.1 or tls/, or set `insecure` to true");
    }
    let name = properties.text("name");
    let is_name =
        name.starts_with("corbaname:") && name.split_once('#').is_some_and(|(_, name)| !name.is_empty());
    if !name.is_empty() && (!is_name || name.contains('%')) {
        let problem = format!("`{name}` is no name in a naming service");
        return refuse("name", problem, "write it as corbaname::127.0.0.1#radio/iq");
    }
    Ok(place)
}

/// Returns the files for TLS; `None` if TLS is not requested.
fn tls_files(properties: &Properties) -> Result<Option<TlsFiles>> {
    let names = ["ca", "certificate", "private_key"];
    let given = names.map(|name| Some(properties.text(name)).filter(|file| !file.is_empty()));
    let [Some(ca), Some(certificate), Some(private_key)] = given else {
        let missing = names.iter().zip(given).find(|(_, file)| file.is_none());
        return match missing {
            Some((name, _)) if given.iter().any(Option::is_some) => {
                let problem = format!("each end of TLS shows a certificate, and `{name}` is missing");
                refuse(name, problem, "set `ca`, `certificate` and `private_key`")
            }
            _ => Ok(None),
        };
    };
    if !corba_has_tls() {
        let problem = "TLS is asked for, and this program was built without that of omniORB".to_string();
        return refuse("ca", problem, "build it where omniORB has omnisslTP4 (Debian: libomniorb4-dev)");
    }
    let files = [ca, certificate, private_key].map(PathBuf::from);
    let [ca, certificate, private_key] = files;
    Ok(Some(TlsFiles { ca, certificate, private_key }))
}

/// Starts the ORB of this process.
pub(super) fn open(properties: &Properties) -> Result<()> {
    check_ways(properties)?;
    place(properties)?.open()
}

/// Checks that other programs can find the port, or that it connects to another port.
fn check_ways(properties: &Properties) -> Result<()> {
    if is_findable(properties)? || references(properties).next().is_some() {
        return Ok(());
    }
    let problem = "no other program can find the port".to_string();
    refuse("ior_file", problem, "set `ior_file`, `name` or `connect`, or a port in `listen`")
}

/// Returns whether other programs can find the port.
pub(super) fn is_findable(properties: &Properties) -> Result<bool> {
    let is_published = ["ior_file", "name"].iter().any(|one| !properties.text(one).is_empty());
    Ok(is_published || place(properties)?.is_fixed())
}

/// Returns the references of `connect`.
pub(super) fn references(properties: &Properties) -> impl Iterator<Item = &str> {
    properties.text("connect").split_whitespace()
}

/// Returns a unique name for a connection.
pub(super) fn connection_name(component: &str) -> Result<String> {
    Ok(format!("{component}-{}", unique_suffix()?))
}

/// The elements of BulkIO for a type of samples.
pub(super) struct Elements {
    pub samples: SampleType,
    pub kind: BulkioType,
    pub is_complex: bool,
}

impl Elements {
    /// Returns the elements for a type of samples.
    pub(super) fn of(samples: &str) -> Result<Self> {
        let scalar = Scalar::parse(samples);
        let found = scalar.and_then(|scalar| Some((BulkioType::of(scalar)?, scalar.is_complex())));
        let Some((kind, is_complex)) = found else {
            return Err(Error::failed(format!("BulkIO has no data port for {samples}")));
        };
        Ok(Self { samples: SampleType::parse(samples)?, kind, is_complex })
    }
}

#[cfg(test)]
mod tests {
    use stripline::component::{Component, Value};

    use super::*;

    fn refusal(given: &[(&str, &str)]) -> String {
        let spec = super::super::BulkioSource::describe();
        let value = |text: &str| text.parse().map_or(Value::Text(text.into()), Value::Boolean);
        let given = given.iter().map(|(name, text)| ((*name).into(), value(text))).collect();
        let properties = Properties::new(&spec, given).unwrap();
        let checked = place(&properties).and_then(|_| check_ways(&properties));
        checked.err().map_or(String::new(), |e| e.to_string())
    }

    #[test]
    fn what_leaves_the_host_is_refused_unless_it_is_asked_for() {
        let file = ("ior_file", "out.ior");
        for listen in ["unix", "tcp/127.0.0.1:0", "tcp/127.0.0.2:2900", "tcp/[::1]:0"] {
            assert_eq!(refusal(&[file, ("listen", listen)]), "", "{listen}");
        }
        let remote = ("listen", "tcp/192.0.2.7:2900");
        assert!(refusal(&[file, remote]).contains("leaves this host"));
        assert_eq!(refusal(&[file, remote, ("insecure", "true")]), "");
        for listen in ["tcp/0.0.0.0:2900", "tcp/[::]:0"] {
            let problem = refusal(&[file, ("listen", listen), ("insecure", "true")]);
            assert!(problem.contains("all addresses"), "{problem}");
        }
        for listen in ["", "tcp", "tcp/localhost:1", "tcp/127.0.0.1", "ssl/127.0.0.1:1", "unix/a"] {
            assert!(refusal(&[file, ("listen", listen)]).contains("neither unix"), "{listen}");
        }
    }

    #[test]
    fn tls_takes_all_its_files_and_leaves_the_host() {
        let (file, remote) = (("ior_file", "out.ior"), ("listen", "tls/192.0.2.7:2900"));
        let tls = [("ca", "ca.pem"), ("certificate", "own.pem"), ("private_key", "own.key")];
        assert!(refusal(&[file, remote]).contains("takes certificates"));
        for number in 0..3 {
            let problem = refusal(&[file, remote, tls[number], tls[(number + 1) % 3]]);
            assert!(problem.contains("is missing") && problem.contains(tls[(number + 2) % 3].0), "{problem}");
        }
        let refusals = [remote, ("listen", "tls/0.0.0.0:2900"), ("listen", "tcp/192.0.2.7:2900")]
            .map(|listen| refusal(&[&[file, listen], &tls[..]].concat()));
        assert!(refusals[0].is_empty() || !corba_has_tls(), "{}", refusals[0]);
        assert!(refusals[1].contains("all addresses") || !corba_has_tls(), "{}", refusals[1]);
        assert!(refusals[2].contains("tcp has no security") || !corba_has_tls(), "{}", refusals[2]);
    }

    #[test]
    fn a_port_that_cannot_be_found_is_refused() {
        assert!(refusal(&[]).contains("no other program can find"));
        assert!(refusal(&[("listen", "tcp/127.0.0.1:0")]).contains("no other program can find"));
        for found in [
            ("listen", "tcp/127.0.0.1:2900"),
            ("name", "corbaname::127.0.0.1#radio/iq"),
            ("connect", "peer.ior"),
        ] {
            assert_eq!(refusal(&[found]), "", "{found:?}");
        }
        for name in ["iq", "corbaname::127.0.0.1", "corbaname::127.0.0.1#", "corbaname::h#a%2fb"] {
            assert!(refusal(&[("name", name)]).contains("no name in a naming service"), "{name}");
        }
    }

    #[test]
    fn every_type_has_elements() {
        assert_eq!(type_names().len(), TYPES.len());
        for name in TYPES {
            let elements = Elements::of(name).unwrap();
            let count = if elements.is_complex { 2 } else { 1 };
            assert_eq!(elements.samples.size(), count * elements.kind.element_bytes(), "{name}");
        }
        assert!(Elements::of("s64").is_err());
    }
}
