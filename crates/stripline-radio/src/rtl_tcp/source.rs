//! `rtl-tcp-source`: receives the samples of a server of `rtl_tcp`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use stripline::component::kit::PacedSource;
use stripline::component::{
    Change, Component, ComponentSpec, ControlRequests, FileReport, PortTypes, Ports, Properties,
    PropertySpec, RateRule, Request, Status, StopSignal,
};
use stripline::{ClockReference, Complex, Error, Output, Result, StreamClock, StreamInfo};

use super::protocol::Header;
use super::server_link::{Arrival, ServerLink, ServerSettings, ServerTuner};
use crate::address;
use crate::host_clock::{HostClock, length_ns};
use crate::tuner::OfferedTuner;

/// The longest time for one attempt to connect, and the interval between two attempts.
const CONNECT_TIME: Duration = Duration::from_secs(1);
const RETRY_TIME: Duration = Duration::from_millis(100);

/// The interval at which a wait for samples checks for changes and for the end of the run.
const POLL_TIME: Duration = Duration::from_millis(20);

/// The choices of the property `server_gone`.
const SERVER_GONE: [&str; 2] = ["wait", "end"];

/// The largest number that a command can have.
const NUMBER_MAX: f64 = u32::MAX as f64;

/// The component `rtl-tcp-source`.
pub struct RtlTcpSource {
    properties: Properties,
}

impl Component for RtlTcpSource {
    fn describe() -> ComponentSpec {
        let hertz = |name, default, min: f64, summary| {
            PropertySpec::float(name, default, summary).range(min, NUMBER_MAX).unit("Hz").changeable()
        };
        let gone = "effect of a server that ends: wait for the next one; or the stream ends";
        ComponentSpec::new("rtl-tcp-source", "Receives samples from a server of the rtl_tcp protocol.")
            .sample_rate(RateRule::property("sample_rate"))
            .output("out", PortTypes::of::<Complex<u8>>(), "samples as the dongle makes them")
            .property(address::property("where the server listens", "127.0.0.1:1234"))
            .property(hertz("sample_rate", 2e6, 1.0, "sample rate"))
            .property(hertz("frequency", 1090e6, 0.0, "centre frequency"))
            .property(
                PropertySpec::float("gain", 40.0, "gain of the tuner; without effect with `agc`")
                    .range(-100.0, 200.0)
                    .unit("dB")
                    .changeable(),
            )
            .property(
                PropertySpec::boolean("agc", true, "whether tuner and converter set their gain").changeable(),
            )
            .property(
                PropertySpec::integer("correction", 0, -1000, 1000, "correction of the crystal")
                    .unit("ppm")
                    .changeable(),
            )
            .property(
                PropertySpec::boolean("bias_tee", false, "whether the antenna port has a supply voltage")
                    .changeable(),
            )
            .property(
                PropertySpec::float("timeout_s", 5.0, "longest silence of a server that is there")
                    .range(0.01, 3600.0)
                    .unit("s"),
            )
            .property(PropertySpec::choice("server_gone", &SERVER_GONE, SERVER_GONE[0], gone))
            .property(PacedSource::packet_property(16 << 10))
            .property(OfferedTuner::property())
            .property(address::insecure_property())
            .property(PropertySpec::text("device", "", "the tuner that the server names").read_only())
            .property(PropertySpec::integer("connections", 0, 0, i64::MAX, "connections so far").read_only())
            .property(
                PropertySpec::float("tuned", 0.0, "centre frequency of the latest sample, of any command")
                    .range(0.0, NUMBER_MAX)
                    .unit("Hz")
                    .read_only(),
            )
            .validated(address::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        address::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties } = self;
        let address = properties.text("address");
        let link = ServerLink::new(address, settings(&properties));
        let tuner = ServerTuner(Arc::clone(&link));
        let _offered =
            OfferedTuner::of_properties(&properties, ports.component(), tuner).map_err(|error| {
                let name = properties.text(OfferedTuner::PROPERTY);
                Error::failed(format!(
                    "the service `{name}` cannot be offered: {error}; to run without it, set `tuner` to nothing"
                ))
            })?;
        let mut counts = FileReport::new(format!("tcp://{address}"));
        let mut receiver = Receiver {
            stop: ports.stop_signal(),
            requests: ports.requests(),
            output: ports.output::<Complex<u8>>("out")?,
            device: ports.status("device")?,
            connections: ports.status("connections")?,
            tuned: ports.status("tuned")?,
            id: ports.component().to_owned(),
            packet: usize::try_from(properties.count("packet")).unwrap_or(usize::MAX),
            rate_hz: properties.float("sample_rate"),
            clock: HostClock::default(),
            timeout: Duration::from_secs_f64(properties.float("timeout_s")),
            link: &link,
            address,
        };
        let ends = properties.text("server_gone") == SERVER_GONE[1];
        let received = receiver.run(ends, &mut counts);
        link.end();
        ports.files().report(FileReport { finished: true, ..counts });
        received
    }
}

/// Returns the settings in the properties.
fn settings(properties: &Properties) -> ServerSettings {
    ServerSettings {
        frequency_hz: properties.float("frequency").round() as u32,
        rate_hz: properties.float("sample_rate").round() as u32,
        gain: (properties.float("gain") * 10.0).round() as i32,
        agc: properties.boolean("agc"),
        correction: properties.integer("correction") as i32,
        bias_tee: properties.boolean("bias_tee"),
    }
}

/// Applies a change of properties. A setting that the change does not name may come from a client
/// of the tuner, and stays.
fn apply(link: &ServerLink, change: Change) {
    let names: Vec<String> = change.names().map(str::to_owned).collect();
    change.apply(|properties| {
        let new = settings(properties);
        let changed = link.change(|own| {
            for name in &names {
                match name.as_str() {
                    "frequency" => own.frequency_hz = new.frequency_hz,
                    "sample_rate" => own.rate_hz = new.rate_hz,
                    "gain" => own.gain = new.gain,
                    "agc" => own.agc = new.agc,
                    "correction" => own.correction = new.correction,
                    "bias_tee" => own.bias_tee = new.bias_tee,
                    _ => {}
                }
            }
        });
        changed.map(drop).map_err(Error::failed)
    });
}

/// The loop of the component.
struct Receiver<'a> {
    stop: StopSignal,
    requests: ControlRequests,
    output: Output<Complex<u8>>,
    device: Status<String>,
    connections: Status<u64>,
    tuned: Status<f64>,
    /// The name of the stream.
    id: String,
    /// The most samples in a packet.
    packet: usize,
    rate_hz: f64,
    clock: HostClock,
    timeout: Duration,
    link: &'a ServerLink,
    address: &'a str,
}

impl Receiver<'_> {
    /// Receives until the end.
    fn run(&mut self, ends: bool, counts: &mut FileReport) -> Result<()> {
        loop {
            let mut socket = self.connect()?;
            let header = self.header(&mut socket)?;
            let polled = socket.try_clone().map_err(Error::failed)?;
            self.device.set(header.name().into());
            self.connections.add(1);
            // The samples between two connections are missing, and are not counted: the
            // index starts anew.
            let problem = match self.link.begin(socket, header) {
                Ok(settings) => {
                    self.describe(settings);
                    self.samples(&polled, counts)?
                }
                Err(error) => Some(error.to_string()),
            };
            self.link.end();
            let described = |problem: &str| format!("{}: {problem}", self.address);
            let problem = match (problem, ends) {
                (None, true) => return Ok(()),
                (Some(problem), true) => return Err(Error::failed(described(&problem))),
                (problem, false) => described(problem.as_deref().unwrap_or("the server has ended")),
            };
            counts.places += 1;
            log::warn!(target: "stripline::rtl-tcp-source", "{problem}; waiting for the next one");
        }
    }

    /// Connects, as often as it takes.
    fn connect(&self) -> Result<TcpStream> {
        let mut is_reported = false;
        loop {
            self.check()?;
            let connected = address::resolve(self.address)
                .and_then(|address| TcpStream::connect_timeout(&address, CONNECT_TIME));
            match connected {
                // An attempt at an unused port may connect a socket to itself.
                Ok(socket) if socket.local_addr().ok() != socket.peer_addr().ok() => {
                    socket.set_nodelay(true).map_err(Error::failed)?;
                    socket.set_nonblocking(true).map_err(Error::failed)?;
                    return Ok(socket);
                }
                Ok(_) => {}
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        // The message is only for the user.
                        let _ = writeln!(io::stderr(), "waiting for rtl_tcp at {}: {error}", self.address);
                    }
                }
            }
            self.stop.sleep(RETRY_TIME)?;
        }
    }

    /// Reads the header.
    fn header(&self, socket: &mut TcpStream) -> Result<Header> {
        let mut bytes = [0; Header::BYTES];
        let mut filled = 0;
        let until = Instant::now() + self.timeout;
        let failed = |filled: usize, problem: &str| {
            Err(Error::failed(format!(
                "{}: {problem}, behind {filled} of the {} bytes of its header; is this a server of rtl_tcp?",
                self.address,
                Header::BYTES
            )))
        };
        while filled < bytes.len() {
            if !self.wait(socket)? {
                if Instant::now() >= until {
                    let seconds = self.timeout.as_secs_f64();
                    return failed(filled, &format!("the server has sent nothing for {seconds} s"));
                }
                continue;
            }
            match socket.read(&mut bytes[filled..]) {
                Ok(0) => return failed(filled, "the server has ended"),
                Ok(count) => filled += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return failed(filled, &error.to_string()),
            }
        }
        Header::decode(bytes).ok_or_else(|| {
            let start = bytes[..4].escape_ascii();
            Error::failed(format!(
                "{}: the server begins with `{start}` instead of `RTL0`: this is no server of rtl_tcp",
                self.address
            ))
        })
    }

    /// Sends the samples of a connection until it ends. Returns the problem; `None`: the server has
    /// closed the connection.
    fn samples(&mut self, socket: &TcpStream, counts: &mut FileReport) -> Result<Option<String>> {
        let mut index = 0;
        self.clock = HostClock::default();
        let mut latest = Instant::now();
        loop {
            if !self.wait(socket)? {
                if latest.elapsed() >= self.timeout {
                    let seconds = self.timeout.as_secs_f64();
                    return Ok(Some(format!("the server has sent nothing for {seconds} s")));
                }
                continue;
            }
            let mut loan = self.output.loan(self.packet)?;
            match self.link.read(bytemuck::cast_slice_mut(&mut loan)) {
                Ok(Arrival::Samples(bytes)) => {
                    let samples = bytes / 2;
                    loan.truncate(samples);
                    let queued = ioctl_fionread(socket).map_err(io::Error::from).map_err(Error::failed)?;
                    let arrived = samples as u64 + queued / 2;
                    let time_ns =
                        self.clock.time_ns(length_ns(index, self.rate_hz), length_ns(arrived, self.rate_hz));
                    loan.at_sample(index).at_time_ns(time_ns).send()?;
                    (index, counts.samples) = (index + samples as u64, counts.samples + samples as u64);
                    latest = Instant::now();
                }
                Ok(Arrival::Settings(settings)) => {
                    drop(loan);
                    self.describe(settings);
                }
                Ok(Arrival::Nothing) => {}
                Ok(Arrival::End(0)) => return Ok(None),
                Ok(Arrival::End(_)) => return Ok(Some("the server has ended within a sample".into())),
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
    }

    /// Describes the next samples.
    fn describe(&mut self, settings: ServerSettings) {
        let (rate, frequency) = (f64::from(settings.rate_hz), f64::from(settings.frequency_hz));
        self.tuned.set(frequency);
        if self.rate_hz != rate {
            (self.rate_hz, self.clock) = (rate, HostClock::default());
        }
        let clock = StreamClock::new(ClockReference::Host);
        let stream = StreamInfo::new(&self.id).sample_rate_hz(rate).center_frequency_hz(frequency);
        self.output.set_stream(stream.clock(clock));
    }

    /// Takes changes, and waits a moment for bytes. Returns whether there are some, or an end.
    fn wait(&self, socket: &TcpStream) -> Result<bool> {
        self.check()?;
        let time = Timespec { tv_sec: 0, tv_nsec: POLL_TIME.subsec_nanos().into() };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Error::failed(io::Error::from(error))),
        }
    }

    /// Takes changes.
    ///
    /// # Errors
    /// The component must stop.
    fn check(&self) -> Result<()> {
        while let Some(request) = self.requests.request() {
            match request {
                Request::Change(change) => apply(self.link, change),
                Request::Test(test) => test.fail("the component has no tests"),
            }
        }
        if self.stop.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }
}
