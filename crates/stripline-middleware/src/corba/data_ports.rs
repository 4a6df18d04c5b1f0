//! `bulkio-source` and `bulkio-sink`: streams of REDHAWK and other programs with BulkIO, through a
//! provides port and a uses port.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use stripline::carrier::packet::Scalar;
use stripline::carrier::socket_names::unique_suffix;
use stripline::component::{ComponentSpec, Ports, Properties, PropertySpec, StopSignal};
use stripline::payload::Dynamic;
use stripline::{Error, Packet, Result, StreamInfo};

use super::bulkio::{BulkioInput, BulkioOutput, ForeignConnection, PublishedReference};
use super::orb::{OpenAccess, OpenAddress, TlsFiles, has_tls, open};
use crate::components::ends::{Setup, Wire, WireOutput, WireReceiver, WireSender, source};
use crate::components::properties::{STOP_CHECK, hertz, one_of, refusal, samples, text, tls};
use crate::wire::bulkio::{BulkioSri, BulkioTime, BulkioType};

/// The sample types for which a data port has elements.
const TYPES: [&str; 14] =
    ["cf32", "f32", "cs16", "s16", "u8", "cu8", "u16", "cu16", "s32", "cs32", "u32", "cu32", "f64", "cf64"];
/// The remedy for an address that does not fit.
const LISTEN: &str =
    "use unix, name the address to listen on, or set `ca`, `certificate` and `private_key` for tls/";
/// The maximum number of sample bytes in a call: the default of omniORB accepts 2 MiB.
const CALL_BYTES: usize = 1 << 20;
/// The maximum number of open streams of a sink. Beyond it, the oldest stream ends.
const OPEN_MAX: usize = 64;

/// Data ports of BulkIO.
pub(crate) struct DataPorts;

impl Wire for DataPorts {
    type Receiver = ProvidesPort;
    type Sender = UsesPort;

    const ONE_CHANNEL: Option<&'static str> = Some("the description of a stream in BulkIO");

    fn source() -> ComponentSpec {
        let streams = "streams until the component ends; 0: it goes on";
        let summary = "Receives streams of REDHAWK and other programs by a provides port of BulkIO.";
        source("bulkio-source", summary, "the samples of all streams")
            .property(samples(&TYPES, "type of the samples, which gives the type of the port"))
            .property(hertz("sample_rate", "of streams without one; 0: unknown"))
            .property(PropertySpec::integer("streams", 0, 0, 1_000_000, streams))
    }

    fn sink() -> ComponentSpec {
        let connections =
            "connections to provides ports that are waited for, at the start and after one has failed";
        let summary = "Sends samples to REDHAWK and other programs by a uses port of BulkIO.";
        ComponentSpec::new("bulkio-sink", summary)
            .input("in", one_of(&TYPES), "samples for the other programs")
            .property(PropertySpec::integer("connections", 1, 0, 256, connections))
    }

    fn properties(is_sink: bool) -> Vec<PropertySpec> {
        let others = if is_sink { "provides" } else { "uses" };
        let connect = format!(
            "references of {others} ports that are connected at the start, with spaces between: files, IOR:, \
             corbaloc: or corbaname:"
        );
        let listen = "where other programs connect to: unix, or an address as tcp/127.0.0.1:2900 or \
                      tls/192.0.2.1:2900 (port 0: any)";
        let name = "name of the port in a naming service, as corbaname::127.0.0.1#radio/iq; empty: none";
        let properties = [
            text("connect", &connect),
            PropertySpec::text("listen", "unix", listen),
            PropertySpec::path("ior_file", "file that gets the reference of the port; empty: none"),
            text("name", name),
        ];
        properties.into_iter().chain(tls()).collect()
    }

    fn check(properties: &Properties) -> Result<()> {
        access(properties).map(drop)
    }

    fn create(properties: &Properties) -> Result<()> {
        check_ways(properties)?;
        open(&access(properties)?)
    }
}

/// The provides port of a source. The fields are dropped in this order.
pub(crate) struct ProvidesPort {
    connections: Vec<ForeignConnection>,
    _reference: PublishedReference,
    input: BulkioInput,
    name: String,
    /// The stream of the last packet.
    stream: Option<Arc<StreamInfo>>,
    /// The number of streams after which the source ends; 0: it goes on.
    streams: u64,
    ended: u64,
}

impl WireReceiver for ProvidesPort {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let Setup { properties, payload, ports, .. } = setup;
        let (kind, is_complex) = elements_of(payload.as_str())?;
        let name = ports.component().to_owned();
        let input = BulkioInput::new(&format!("{name}.out"), kind, is_complex)?;
        let reference = input.publish(properties.text("ior_file"), properties.text("name"))?;
        let connect = |reference| input.connect_to(reference, &connection_name(ports)?);
        let connections = references(properties).map(connect).collect::<Result<_>>()?;
        let streams = properties.count("streams");
        Ok(Self { connections, _reference: reference, input, name, stream: None, streams, ended: 0 })
    }

    fn receive(&mut self, output: &mut WireOutput) -> Result<bool> {
        let Some(packet) = self.input.receive(STOP_CHECK) else { return Ok(true) };
        if !self.stream.as_ref().is_some_and(|stream| Arc::ptr_eq(stream, &packet.stream)) {
            output.describe((*packet.stream).clone());
            self.stream = Some(Arc::clone(&packet.stream));
        }
        // The last packet of a stream may have no samples.
        output.send(&packet.bytes, None, packet.time_ns)?;
        self.ended += u64::from(packet.ends);
        self.input.recycle(packet);
        Ok(self.streams == 0 || self.ended < self.streams)
    }
}

impl Drop for ProvidesPort {
    fn drop(&mut self) {
        let dropped: usize =
            self.connections.drain(..).map(|connection| self.input.disconnect(connection)).sum();
        if dropped > 0 {
            let name = &self.name;
            log::warn!(target: "stripline::bulkio", "{name}: {dropped} packets came after the end, and are dropped");
        }
    }
}

/// The uses port of a sink, and the open streams. The fields are dropped in this order.
pub(crate) struct UsesPort {
    _watch: StopWatch,
    _reference: PublishedReference,
    output: Arc<BulkioOutput>,
    is_complex: bool,
    sample_bytes: usize,
    /// The number of connections without which the sink waits.
    connections: usize,
    /// Whether other programs can connect.
    may_come: bool,
    /// The open streams, in the order of their last descriptions.
    open: Vec<Arc<StreamInfo>>,
    stop: StopSignal,
}

/// A thread that ends a waiting call when the component must stop: a call waits as long as the
/// other program takes.
struct StopWatch {
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StopWatch {
    fn start(output: Arc<BulkioOutput>, stop: StopSignal) -> Result<Self> {
        let has_ended = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&has_ended);
        let watch = move || {
            // Relaxed: no other data is read depending on the flag.
            while !ended.load(Ordering::Relaxed) {
                if stop.sleep(STOP_CHECK).is_err() {
                    return output.end_pushing();
                }
            }
        };
        let thread = std::thread::Builder::new().spawn(watch);
        let thread = thread.map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok(Self { has_ended, thread: Some(thread) })
    }
}

impl Drop for StopWatch {
    fn drop(&mut self) {
        // Relaxed: no other data is read depending on the flag.
        self.has_ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl WireSender for UsesPort {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let Setup { properties, payload, sample_bytes, ports } = *setup;
        let (kind, is_complex) = elements_of(payload.as_str())?;
        let output = Arc::new(BulkioOutput::new(&format!("{}.in", ports.component()), kind)?);
        let reference = output.publish(properties.text("ior_file"), properties.text("name"))?;
        for reference in references(properties) {
            output.connect(reference, &connection_name(ports)?)?;
        }
        Ok(Self {
            _watch: StopWatch::start(Arc::clone(&output), ports.stop_signal())?,
            _reference: reference,
            output,
            is_complex,
            sample_bytes,
            connections: properties.count("connections") as usize,
            may_come: is_findable(properties)?,
            open: Vec::new(),
            stop: ports.stop_signal(),
        })
    }

    fn send(&mut self, packet: Packet<'_, Dynamic>) -> Result<()> {
        let info = packet.stream();
        if self.open.last() != Some(info) {
            self.describe(info)?;
        }
        let most = CALL_BYTES / self.sample_bytes * self.sample_bytes;
        let mut time_ns = Some(packet.time_ns());
        let rate = info.sample_rate_hz;
        let mut before = 0;
        for part in packet.chunks(most) {
            // If no connection has taken the part, push it again to the next connection.
            loop {
                self.await_connections()?;
                if self.output.push(&info.id, part, BulkioTime::of(time_ns), false)? > 0
                    || self.connections == 0
                {
                    break;
                }
            }
            before += part.len() / self.sample_bytes;
            // Without a rate, the times of later parts are unknown.
            time_ns = rate.map(|rate| packet.time_ns().saturating_add((before as f64 / rate * 1e9) as i64));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        std::mem::take(&mut self.open).iter().try_for_each(|info| self.end(info))
    }
}

impl UsesPort {
    /// Waits until there are as many connections as required.
    fn await_connections(&self) -> Result<()> {
        while self.output.connections() < self.connections {
            if !self.may_come {
                return Err(Error::Configuration(format!(
                    "{} of {} connections are left, and no program can connect; start them before, and this again, or set \
                     `ior_file` so that they connect",
                    self.output.connections(),
                    self.connections
                )));
            }
            self.stop.sleep(STOP_CHECK)?;
        }
        Ok(())
    }

    /// Sets the description of a stream.
    fn describe(&mut self, info: &Arc<StreamInfo>) -> Result<()> {
        match self.open.iter().position(|open| open.id == info.id) {
            Some(place) if self.open[place] == *info => {
                let open = self.open.remove(place);
                self.open.push(open);
                return Ok(());
            }
            Some(place) => drop(self.open.remove(place)),
            None if self.open.len() >= OPEN_MAX => {
                let oldest = self.open.remove(0);
                self.end(&oldest)?;
            }
            None => {}
        }
        self.output.set_stream(&BulkioSri::of(info, self.is_complex))?;
        self.open.push(Arc::clone(info));
        Ok(())
    }

    fn end(&self, info: &StreamInfo) -> Result<()> {
        self.output.push(&info.id, &[], BulkioTime::of(None), true).map(drop)
    }
}

/// Checks the properties without an ORB. Returns the place where other programs reach this process,
/// and the hosts that this process may reach.
fn access(properties: &Properties) -> Result<OpenAccess> {
    let (text, leaves_host) = (properties.text("listen"), properties.boolean("insecure"));
    let tls = tls_files(properties)?;
    let address = |prefix| text.strip_prefix(prefix).and_then(|address| address.parse().ok());
    let listen = match (address("tcp/"), address("tls/")) {
        (Some(address), _) => Ok(OpenAddress::Tcp(address)),
        (None, Some(_)) if tls.is_none() => Err(format!("`{text}` takes certificates")),
        (None, Some(address)) => Ok(OpenAddress::Tls(address)),
        (None, None) if text == "unix" => Ok(OpenAddress::Unix),
        (None, None) => Err(format!("`{text}` is neither unix nor an address as tcp/127.0.0.1:0")),
    };
    let listen = listen.map_err(|problem| refusal("listen", problem, LISTEN))?;
    let ip = listen.tcp().map(|address| address.ip());
    if ip.is_some_and(|ip| ip.is_unspecified()) {
        return Err(refusal("listen", format!("`{text}` means all addresses of this host"), LISTEN));
    }
    if matches!(listen, OpenAddress::Tcp(_)) && !leaves_host && !ip.is_some_and(|ip| ip.is_loopback()) {
        let problem = format!("`{text}` leaves this host, and tcp has no security");
        return Err(refusal("listen", problem, "use unix, 127.0.0.1 or tls/, or set `insecure` to true"));
    }
    let name = properties.text("name");
    let is_name =
        name.starts_with("corbaname:") && name.split_once('#').is_some_and(|(_, name)| !name.is_empty());
    if !name.is_empty() && (!is_name || name.contains('%')) {
        let problem = format!("`{name}` is not a name in a naming service");
        return Err(refusal("name", problem, "write it as corbaname::127.0.0.1#radio/iq"));
    }
    Ok(OpenAccess { listen, leaves_host, tls })
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
                Err(refusal(name, problem, "set `ca`, `certificate` and `private_key`"))
            }
            _ => Ok(None),
        };
    };
    if !has_tls() {
        let problem = "TLS is asked for, and this program was built without the TLS of omniORB";
        return Err(refusal(
            "ca",
            problem,
            "build it where omniORB has omnisslTP4 (Debian: libomniorb4-dev)",
        ));
    }
    let files = [ca, certificate, private_key].map(PathBuf::from);
    let [ca, certificate, private_key] = files;
    Ok(Some(TlsFiles { ca, certificate, private_key }))
}

/// Checks that other programs can find the port, or that it connects to another port.
fn check_ways(properties: &Properties) -> Result<()> {
    if is_findable(properties)? || references(properties).next().is_some() {
        return Ok(());
    }
    let remedy = "set `ior_file`, `name` or `connect`, or a port in `listen`";
    Err(refusal("ior_file", "no other program can find the port", remedy))
}

/// Returns whether other programs can find the port.
fn is_findable(properties: &Properties) -> Result<bool> {
    let is_published = ["ior_file", "name"].iter().any(|one| !properties.text(one).is_empty());
    // A fixed port is the same after each start.
    Ok(is_published || access(properties)?.listen.tcp().is_some_and(|address| address.port() != 0))
}

/// Returns the references of `connect`.
fn references(properties: &Properties) -> impl Iterator<Item = &str> {
    properties.text("connect").split_whitespace()
}

/// Returns a unique name for a connection.
fn connection_name(ports: &Ports) -> Result<String> {
    Ok(format!("{}-{}", ports.component(), unique_suffix()?))
}

/// Returns the elements of BulkIO for a type of samples, and whether the samples are complex.
fn elements_of(samples: &str) -> Result<(BulkioType, bool)> {
    let found =
        Scalar::parse(samples).and_then(|scalar| Some((BulkioType::of(scalar)?, scalar.is_complex())));
    found.ok_or_else(|| Error::Configuration(format!("BulkIO has no data port for {samples}")))
}

#[cfg(test)]
mod tests {
    use stripline::payload::{SampleType, TypeName};

    use super::*;
    use crate::components::ends::refusal_of;

    fn refusal(given: &[(&str, &str)]) -> String {
        let check = |properties: &Properties| access(properties).and_then(|_| check_ways(properties));
        refusal_of::<DataPorts>(given, check)
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
        assert!(refusals[0].is_empty() || !has_tls(), "{}", refusals[0]);
        assert!(refusals[1].contains("all addresses") || !has_tls(), "{}", refusals[1]);
        assert!(refusals[2].contains("tcp has no security") || !has_tls(), "{}", refusals[2]);
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
            assert!(refusal(&[("name", name)]).contains("not a name in a naming service"), "{name}");
        }
    }

    #[test]
    fn every_type_has_elements() {
        for name in TYPES {
            let (kind, is_complex) = elements_of(name).unwrap();
            let count = if is_complex { 2 } else { 1 };
            assert_eq!(SampleType::parse(name).unwrap().size(), count * kind.element_bytes(), "{name}");
            assert!(TypeName::parse(name).is_ok(), "{name}");
        }
        assert!(elements_of("s64").is_err());
    }
}
