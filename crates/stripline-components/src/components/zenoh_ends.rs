//! Common parts of `zenoh-source` and `zenoh-sink`: properties and sessions.

use std::net::IpAddr;

use stripline::component::{InvalidProperties, Properties, PropertySpec, Value};
use stripline::{Error, Result};
use stripline_middleware::internal::zenoh_settings;
use zenoh::key_expr::KeyExpr;
use zenoh::{Session, Wait};

use super::tls;

/// The address of a zenoh router on this host, unless it is configured otherwise.
const ROUTER: &str = "tcp/127.0.0.1:7447";

/// Returns the properties of both components.
pub(super) fn properties() -> [PropertySpec; 8] {
    let [ca, certificate, private_key] = tls::properties();
    [
        PropertySpec::text("key", "", "key expression of the publications, as radio/iq")
            .required()
            .example(Value::Text("radio/iq".into())),
        PropertySpec::text(
            "connect",
            "",
            "where a peer or a router listens; empty without `listen`: tcp/127.0.0.1:7447",
        ),
        PropertySpec::text("listen", "", "where peers connect to, as tcp/127.0.0.1:7447"),
        PropertySpec::choice("mode", &["peer", "client"], "peer", "how it takes part; client: by one router"),
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

fn refuse(property: &str, problem: String, remedy: &str) -> Error {
    InvalidProperties::new(problem).property(property).remedy(remedy).into()
}

/// Checks the properties without a session.
pub(super) fn check(properties: &Properties) -> Result<()> {
    let key = properties.text("key");
    if let Err(error) = KeyExpr::new(key) {
        let problem = format!("`{key}` is no key expression: {error}");
        return Err(refuse("key", problem, "write words between slashes, as radio/iq"));
    }
    for property in ["connect", "listen"] {
        let address = properties.text(property);
        if !address.is_empty() {
            check_address(property, address, properties)?;
        }
    }
    let (connects, listens) = (properties.text("connect"), properties.text("listen"));
    if properties.text("mode") == "client" && !listens.is_empty() {
        let problem = "a client connects to one router, and does not listen".to_string();
        return Err(refuse("mode", problem, "set `connect` alone, or use the mode peer"));
    }
    let is_tls = |address: &str| address.starts_with("tls/");
    let lacks = |name: &str| properties.text(name).is_empty();
    if is_tls(listens) && (lacks("certificate") || lacks("private_key")) {
        let problem = "a listener of TLS has a certificate and its key".to_string();
        return Err(refuse("certificate", problem, "set `certificate` and `private_key`"));
    }
    if (is_tls(connects) || is_tls(listens)) && lacks("ca") {
        let problem = "peers are authenticated by TLS, and there is nothing to check them by".to_string();
        return Err(refuse("ca", problem, "set `ca`"));
    }
    Ok(())
}

/// Checks an address: it stays on this host, the link is encrypted, or the properties allow
/// insecure links.
fn check_address(property: &str, address: &str, properties: &Properties) -> Result<()> {
    let parts = address.split_once('/').and_then(|(protocol, place)| {
        let (host, port) = place.rsplit_once(':')?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
        (["tcp", "tls"].contains(&protocol) && is_port && !place.contains(['#', '?']))
            .then_some((protocol, host))
    });
    let Some((protocol, host)) = parts else {
        let problem = format!("`{address}` is no address for zenoh");
        return Err(refuse(property, problem, "use tcp/HOST:PORT or tls/HOST:PORT"));
    };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if property == "listen" && !ip.as_ref().is_ok_and(|ip| !ip.is_unspecified()) && host != "localhost" {
        let problem = format!("`{address}` is not one address of this host");
        return Err(refuse(property, problem, "name the address to listen on"));
    }
    let stays = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    if !stays && protocol != "tls" && !properties.boolean("insecure") {
        let problem = format!("`{address}` can leave this host, and tcp has no security");
        return Err(refuse(property, problem, "use 127.0.0.1 or tls/, or set `insecure` to true"));
    }
    Ok(())
}

/// Opens a session.
pub(super) fn open(properties: &Properties) -> Result<Session> {
    check(properties)?;
    let list = |name| Some(properties.text(name).to_owned()).filter(|it| !it.is_empty());
    let (listens, connects): (Vec<_>, Vec<_>) =
        (list("listen").into_iter().collect(), list("connect").into_iter().collect());
    let connects = if listens.is_empty() && connects.is_empty() { vec![ROUTER.into()] } else { connects };
    let file = |name: &str| format!("{:?}", properties.text(name));
    let mut tls = Vec::new();
    if listens.iter().chain(&connects).any(|address| address.starts_with("tls/")) {
        tls.push(("transport/link/tls/root_ca_certificate", file("ca")));
        if !properties.text("certificate").is_empty() {
            for (key, name) in [
                ("transport/link/tls/listen_certificate", "certificate"),
                ("transport/link/tls/listen_private_key", "private_key"),
                ("transport/link/tls/connect_certificate", "certificate"),
                ("transport/link/tls/connect_private_key", "private_key"),
            ] {
                tls.push((key, file(name)));
            }
            tls.push(("transport/link/tls/enable_mtls", "true".into()));
        }
    }
    let config = zenoh_settings(properties.text("mode"), &listens, &connects, &tls).map_err(Error::failed)?;
    zenoh::open(config).wait().map_err(|error| {
        let places: Vec<_> = listens.iter().chain(&connects).map(String::as_str).collect();
        Error::failed(format!("cannot open a session of zenoh at {}: {error}", places.join(" and ")))
    })
}

#[cfg(test)]
mod tests {
    use stripline::component::Component;

    use super::*;

    fn refusal(given: &[(&str, &str)]) -> String {
        let spec = super::super::ZenohSource::describe();
        let value = |text: &str| text.parse().map_or(Value::Text(text.into()), Value::Boolean);
        let given = given.iter().map(|(name, text)| ((*name).into(), value(text))).collect();
        let properties = Properties::new(&spec, given).unwrap();
        check(&properties).err().map_or(String::new(), |e| e.to_string())
    }

    #[test]
    fn what_leaves_the_host_or_does_not_fit_is_refused() {
        let key = ("key", "radio/iq");
        assert_eq!(refusal(&[key, ("connect", "tcp/127.0.0.1:7447")]), "");
        for (given, words) in [
            (vec![("key", "a//b"), ("listen", "tcp/127.0.0.1:7447")], "no key expression"),
            (vec![key, ("connect", "udp/127.0.0.1:7447")], "no address for zenoh"),
            (vec![key, ("connect", "tcp/127.0.0.1:7447#iface=lo")], "no address for zenoh"),
            (vec![key, ("connect", "tcp/192.0.2.1:7447")], "insecure"),
            (vec![key, ("listen", "tcp/0.0.0.0:7447"), ("insecure", "true")], "not one address"),
            (vec![key, ("listen", "tls/127.0.0.1:7447")], "certificate"),
            (vec![key, ("connect", "tls/192.0.2.1:7447")], "nothing to check them by"),
            (vec![key, ("listen", "tcp/127.0.0.1:7447"), ("mode", "client")], "one router"),
        ] {
            let refusal = refusal(&given);
            assert!(refusal.contains(words), "{given:?}: {refusal}");
        }
        assert_eq!(refusal(&[key, ("connect", "tcp/192.0.2.1:7447"), ("insecure", "true")]), "");
        assert_eq!(refusal(&[key, ("connect", "tls/192.0.2.1:7447"), ("ca", "ca.pem")]), "");
    }
}
