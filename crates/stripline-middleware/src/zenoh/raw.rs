//! `zenoh-source` and `zenoh-sink`: the payloads of publications, unchanged, for any zenoh program.

use std::sync::mpsc::{self, RecvTimeoutError, sync_channel};

use ::zenoh::bytes::ZBytes;
use ::zenoh::key_expr::KeyExpr;
use ::zenoh::pubsub::{Publisher, Subscriber};
use ::zenoh::qos::CongestionControl;
use ::zenoh::sample::{Sample, SampleKind};
use ::zenoh::{Session, Wait};
use stripline::component::{ComponentSpec, PortTypes, Properties, PropertySpec};
use stripline::payload::Dynamic;
use stripline::{Error, Packet, Result};

use super::session::settings;
use crate::components::ends::{Setup, Wire, WireOutput, WireReceiver, WireSender, source};
use crate::components::properties::{
    STOP_CHECK, any_samples, hertz, ip_of, is_this_host, names_messages, place, refusal, text, tls,
};

/// The address of a zenoh router on this host, unless it is configured otherwise.
const ROUTER: &str = "tcp/127.0.0.1:7447";
/// The maximum number of waiting publications. Beyond it, zenoh waits, and then the publisher.
const WAITING_MAX: usize = 256;

/// The summaries of two properties.
const ITEMS: &str = "samples of a payload; 0: any number";
const CONGESTION: &str = "reaction of zenoh to a subscriber that is behind; drops are not counted";

/// Payloads of publications.
pub(crate) struct RawPayloads;

impl Wire for RawPayloads {
    type Receiver = Subscription;
    type Sender = Publication;

    const ONE_CHANNEL: Option<&'static str> = Some("a publication");

    fn source() -> ComponentSpec {
        source(
            "zenoh-source",
            "Receives publications of zenoh: each payload is a packet, as it is.",
            "the samples of the payloads, or messages",
        )
        .property(any_samples())
        .property(PropertySpec::integer("items", 0, 0, 1 << 28, ITEMS).unit("samples"))
        .property(hertz("sample_rate", "0: unknown"))
    }

    fn sink() -> ComponentSpec {
        ComponentSpec::new("zenoh-sink", "Publishes packets over zenoh: each is a payload, as it is.")
            .input("in", PortTypes::Any, "samples to publish, or messages in CBOR")
            .property(PropertySpec::choice("congestion", &["block", "drop"], "block", CONGESTION))
    }

    fn properties(_is_sink: bool) -> Vec<PropertySpec> {
        let connect = "where a peer or a router listens; empty without `listen`: tcp/127.0.0.1:7447";
        let modes = &["peer", "client"];
        let properties = [
            place("key", "key expression of the publications, as radio/iq", "radio/iq"),
            text("connect", connect),
            text("listen", "where peers connect to, as tcp/127.0.0.1:7447"),
            PropertySpec::choice("mode", modes, "peer", "how it takes part; client: by one router"),
        ];
        properties.into_iter().chain(tls()).collect()
    }

    fn check(properties: &Properties) -> Result<()> {
        let key = properties.text("key");
        if let Err(error) = KeyExpr::new(key) {
            let problem = format!("`{key}` is not a key expression: {error}");
            return Err(refusal("key", problem, "write words between slashes, as radio/iq"));
        }
        if names_messages(properties) && properties.count("items") > 0 {
            let problem = "a message has no samples, and `items` is a number of samples";
            return Err(refusal("items", problem, "leave `items` out"));
        }
        for property in ["connect", "listen"] {
            let address = properties.text(property);
            if !address.is_empty() {
                check_address(property, address, properties)?;
            }
        }
        let (connects, listens) = (properties.text("connect"), properties.text("listen"));
        if properties.text("mode") == "client" && !listens.is_empty() {
            let problem = "a client connects to one router, and does not listen";
            return Err(refusal("mode", problem, "set `connect` alone, or use the mode peer"));
        }
        let is_tls = |address: &str| address.starts_with("tls/");
        let lacks = |name: &str| properties.text(name).is_empty();
        if is_tls(listens) && (lacks("certificate") || lacks("private_key")) {
            let problem = "a listener of TLS has a certificate and its key";
            return Err(refusal("certificate", problem, "set `certificate` and `private_key`"));
        }
        if (is_tls(connects) || is_tls(listens)) && lacks("ca") {
            let problem = "peers are authenticated by TLS, but no certificate is set to check them";
            return Err(refusal("ca", problem, "set `ca`"));
        }
        Ok(())
    }
}

/// A subscription. The fields are dropped in this order: a callback that waits for space returns,
/// and the session can end.
pub(crate) struct Subscription {
    publications: mpsc::Receiver<ZBytes>,
    _subscriber: Subscriber<()>,
    _session: Session,
    /// The number of bytes that each payload must have; 0: any number.
    bytes: usize,
    refused: u64,
}

impl WireReceiver for Subscription {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let session = open(setup.properties)?;
        let (sender, publications) = sync_channel(WAITING_MAX);
        let key = setup.properties.text("key").to_owned();
        // The callback runs on a thread of zenoh, which waits while the component is behind.
        let each = move |sample: Sample| {
            if sample.kind() == SampleKind::Put {
                // Sending fails after the component has ended.
                let _ = sender.send(sample.payload().clone());
            }
        };
        let declared = session.declare_subscriber(key.clone()).callback(each).wait();
        let subscriber = declared.map_err(|e| Error::of_system(format!("cannot subscribe to {key}: {e}")))?;
        Ok(Self {
            publications,
            _subscriber: subscriber,
            _session: session,
            bytes: setup.properties.count("items") as usize * setup.sample_bytes,
            refused: 0,
        })
    }

    fn receive(&mut self, output: &mut WireOutput) -> Result<bool> {
        let payload = match self.publications.recv_timeout(STOP_CHECK) {
            Ok(payload) => payload,
            Err(error) => return Ok(error == RecvTimeoutError::Timeout),
        };
        let bytes = payload.to_bytes();
        let problem = match output.check(&bytes) {
            Ok(()) if self.bytes > 0 && bytes.len() != self.bytes => {
                Some(format!("{} bytes are not the {} bytes of `items`", bytes.len(), self.bytes))
            }
            found => found.err(),
        };
        // Any program may publish, so a publication that does not fit must not end the component.
        if let Some(problem) = problem {
            self.refused += 1;
            if self.refused == 1 {
                log::warn!(
                    target: "stripline::zenoh-source",
                    "a publication is left out, and further ones are counted: {problem}"
                );
            }
            return Ok(true);
        }
        output.send(&bytes, None, None).map(|()| true)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let refused = self.refused;
        if refused > 0 {
            log::warn!(target: "stripline::zenoh-source", "publications that did not fit and were left out: {refused}");
        }
    }
}

/// A publication. The fields are dropped in this order.
pub(crate) struct Publication {
    publisher: Publisher<'static>,
    _session: Session,
    key: String,
}

impl WireSender for Publication {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let session = open(setup.properties)?;
        let congestion = match setup.properties.text("congestion") {
            "drop" => CongestionControl::Drop,
            _ => CongestionControl::Block,
        };
        let key = setup.properties.text("key").to_owned();
        let publisher = session.declare_publisher(key.clone()).congestion_control(congestion).wait();
        let publisher = publisher.map_err(|e| Error::of_system(format!("cannot publish {key}: {e}")))?;
        Ok(Self { publisher, _session: session, key })
    }

    fn send(&mut self, packet: Packet<'_, Dynamic>) -> Result<()> {
        let put = self.publisher.put(&packet[..]).wait();
        put.map_err(|e| Error::of_system(format!("cannot publish {}: {e}", self.key)))
    }

    fn finish(self) -> Result<()> {
        Ok(())
    }
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
        let problem = format!("`{address}` is not an address for zenoh");
        return Err(refusal(property, problem, "use tcp/HOST:PORT or tls/HOST:PORT"));
    };
    if property == "listen" && ip_of(host).is_none_or(|ip| ip.is_unspecified()) && host != "localhost" {
        let problem = format!("`{address}` is not one address of this host");
        return Err(refusal(property, problem, "name the address to listen on"));
    }
    if !is_this_host(host) && protocol != "tls" && !properties.boolean("insecure") {
        let problem = format!("`{address}` can leave this host, and tcp has no security");
        return Err(refusal(property, problem, "use 127.0.0.1 or tls/, or set `insecure` to true"));
    }
    Ok(())
}

/// Opens a session.
fn open(properties: &Properties) -> Result<Session> {
    let list = |name| Some(properties.text(name).to_owned()).filter(|it| !it.is_empty());
    let (listens, connects): (Vec<_>, Vec<_>) =
        (list("listen").into_iter().collect(), list("connect").into_iter().collect());
    let connects = if listens.is_empty() && connects.is_empty() { vec![ROUTER.into()] } else { connects };
    let mut tls = Vec::new();
    if listens.iter().chain(&connects).any(|address| address.starts_with("tls/")) {
        let has_certificate = !properties.text("certificate").is_empty();
        for (key, name) in [
            ("transport/link/tls/root_ca_certificate", "ca"),
            ("transport/link/tls/listen_certificate", "certificate"),
            ("transport/link/tls/listen_private_key", "private_key"),
            ("transport/link/tls/connect_certificate", "certificate"),
            ("transport/link/tls/connect_private_key", "private_key"),
        ] {
            if has_certificate || name == "ca" {
                tls.push((key, format!("{:?}", properties.text(name))));
            }
        }
        tls.push(("transport/link/tls/enable_mtls", has_certificate.to_string()));
    }
    let config =
        settings(properties.text("mode"), &listens, &connects, &tls).map_err(Error::Configuration)?;
    ::zenoh::open(config).wait().map_err(|error| {
        let places: Vec<_> = listens.iter().chain(&connects).map(String::as_str).collect();
        Error::of_system(format!("cannot open a session of zenoh at {}: {error}", places.join(" and ")))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stripline::Received;
    use stripline::component::harness::Harness;
    use stripline::component::{Registry, Value};
    use stripline::payload::TypeName;

    use super::*;
    use crate::components::ends::refusal_of;
    use crate::with_components;

    /// A message `tune` in CBOR, with 1 Hz.
    const ONE_HZ: &[u8] = b"\xa1\x62hz\xf9\x3c\x00";
    const WAIT: Duration = Duration::from_millis(20);

    /// Returns the address of a free port.
    fn free() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("tcp/{}", listener.local_addr().unwrap())
    }

    /// Opens a session of another program, to which the components connect.
    fn session(address: &str) -> Session {
        ::zenoh::open(settings("peer", &[address.into()], &[], &[]).unwrap()).wait().unwrap()
    }

    #[test]
    fn messages_pass_in_cbor_and_others_are_left_out() {
        let registry = with_components(Registry::new());
        let tune = TypeName::parse("message/tune{hz:f64}").unwrap();
        let address = free();
        let other = session(&address);
        let source = Harness::of_type(&registry, "zenoh-source").property("samples", tune.full_text());
        let mut source = source.property("key", "to").property("connect", address.as_str()).start().unwrap();
        let mut output = source.output::<Dynamic>(("out", &tune)).unwrap();
        // Publications before both ends have found each other are lost.
        let received = loop {
            for payload in [&b"{}"[..], b"\xa1\x62hz\xf5", ONE_HZ] {
                other.put("to", payload).wait().unwrap();
            }
            if let Received::Packet(packet) = output.receive_timeout(WAIT).unwrap() {
                break packet.to_vec();
            }
        };
        assert_eq!(received, ONE_HZ);
        drop(output);
        source.stop();

        let address = free();
        let other = session(&address);
        let sink = Harness::of_type(&registry, "zenoh-sink").payload("in", &tune);
        let mut sink = sink.property("key", "from").property("connect", address.as_str()).start().unwrap();
        let mut input = sink.input::<Dynamic>(("in", &tune)).unwrap();
        let (sender, found) = mpsc::channel();
        let each = move |sample: Sample| drop(sender.send(sample.payload().to_bytes().into_owned()));
        let _subscriber = other.declare_subscriber("from").callback(each).wait().unwrap();
        let received = loop {
            input.loan_copy_of(ONE_HZ).unwrap().send().unwrap();
            if let Ok(payload) = found.recv_timeout(WAIT) {
                break payload;
            }
        };
        assert_eq!(received, ONE_HZ);
        sink.stop();
    }

    #[test]
    fn a_message_has_no_items() {
        let registry = with_components(Registry::new());
        let spec = &registry.specs()["zenoh-source"];
        let given = [("key", "a".into()), ("samples", "message/cbor".into()), ("items", Value::Integer(2))];
        let given = given.map(|(name, value)| (name.to_owned(), value)).into();
        let error = spec.validate(&Properties::new(spec, given).unwrap()).unwrap_err().to_string();
        assert!(error.contains("a message has no samples") && error.contains("leave `items` out"), "{error}");
    }

    fn refusal(given: &[(&str, &str)]) -> String {
        refusal_of::<RawPayloads>(given, RawPayloads::check)
    }

    #[test]
    fn what_leaves_the_host_or_does_not_fit_is_refused() {
        let key = ("key", "radio/iq");
        assert_eq!(refusal(&[key, ("connect", "tcp/127.0.0.1:7447")]), "");
        for (given, words) in [
            (vec![("key", "a//b"), ("listen", "tcp/127.0.0.1:7447")], "not a key expression"),
            (vec![key, ("connect", "udp/127.0.0.1:7447")], "not an address for zenoh"),
            (vec![key, ("connect", "tcp/127.0.0.1:7447#iface=lo")], "not an address for zenoh"),
            (vec![key, ("connect", "tcp/192.0.2.1:7447")], "insecure"),
            (vec![key, ("listen", "tcp/0.0.0.0:7447"), ("insecure", "true")], "not one address"),
            (vec![key, ("listen", "tls/127.0.0.1:7447")], "certificate"),
            (vec![key, ("connect", "tls/192.0.2.1:7447")], "no certificate is set to check them"),
            (vec![key, ("listen", "tcp/127.0.0.1:7447"), ("mode", "client")], "one router"),
        ] {
            let refusal = refusal(&given);
            assert!(refusal.contains(words), "{given:?}: {refusal}");
        }
        assert_eq!(refusal(&[key, ("connect", "tcp/192.0.2.1:7447"), ("insecure", "true")]), "");
        assert_eq!(refusal(&[key, ("connect", "tls/192.0.2.1:7447"), ("ca", "ca.pem")]), "");
    }
}
