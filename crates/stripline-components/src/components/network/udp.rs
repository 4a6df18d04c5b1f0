//! `udp-sink` and `udp-source`.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertySpec, StopSignal,
};
use stripline::payload::Dynamic;
use stripline::{Error, Output, Result};

use super::datagrams::{DATAGRAM_BYTES_MAX, count_drops, drops, receive};
use super::{
    address_property, check, insecure_property, not_opened, resolve, sample_bytes, scalar, source, stream,
};
use crate::components::file_sink::place;
use crate::formats::StepTracker;
use crate::text::counted;

/// The most bytes of a datagram that a network of Ethernet carries whole.
const WHOLE_BYTES: usize = 1472;
/// The most bytes of a datagram of UDP over IPv4.
const PAYLOAD_BYTES_MAX: usize = 65_507;
/// The wanted size of the kernel's queue in bytes. The system may allow less.
const QUEUE_BYTES: usize = 8 << 20;
/// The interval at which the counts of a sink are reported.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Errors of a send that lose the datagram alone: the network may recover.
const LOSSES: [Errno; 5] =
    [Errno::NOBUFS, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::PERM];

/// The component `udp-sink`.
pub struct UdpSink(Properties);

impl Component for UdpSink {
    fn describe() -> ComponentSpec {
        let packet = "samples in a datagram; 0: as many as fit in 1472 bytes, which Ethernet carries whole";
        ComponentSpec::new("udp-sink", "Sends raw samples over UDP, which loses datagrams without a report.")
            .input("in", PortTypes::Any, "samples to send, also structures; no messages")
            .property(address_property("where the other program receives"))
            .property(PropertySpec::integer("packet", 0, 0, PAYLOAD_BYTES_MAX as i64, packet).unit("samples"))
            .property(insecure_property())
            .validated(check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        check(properties)?;
        Ok(Self(properties.clone()))
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let address = self.0.text("address");
        let size = sample_bytes(&ports)?;
        let bytes = match usize::try_from(self.0.count("packet")).unwrap_or(usize::MAX) {
            0 => (WHOLE_BYTES / size).max(1).saturating_mul(size),
            samples => samples.saturating_mul(size),
        };
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Error::failed(format!(
                "a datagram of {bytes} bytes is longer than {PAYLOAD_BYTES_MAX} bytes: set `packet` to {} or less",
                PAYLOAD_BYTES_MAX / size
            )));
        }
        let socket = connected(address).map_err(|error| not_opened("send to", address, error))?;
        let mut input = ports.input::<Dynamic>("in")?;
        let (files, stop) = (ports.files(), ports.stop_signal());
        let mut counts = Counts { size, ..Counts::default() };
        let mut steps = StepTracker::default();
        let report = |counts: &Counts, steps: &StepTracker, finished| {
            files.report(FileReport {
                samples: counts.samples,
                missing: steps.missing().saturating_add(counts.missing),
                places: steps.places() + counts.places,
                finished,
                ..FileReport::new(format!("udp://{address}"))
            });
        };
        let mut reported: Option<Instant> = None;
        let received = loop {
            let packet = match input.receive() {
                Ok(Some(packet)) => packet,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            steps.packet(packet.stream(), place(&packet, (packet.len() / size) as u64), packet.gap());
            if let Err(error) = packet.chunks(bytes).try_for_each(|part| counts.send(&socket, &stop, part)) {
                break Err(error);
            }
            if reported.is_none_or(|at| at.elapsed() >= REPORT_TIME) {
                report(&counts, &steps, false);
                reported = Some(Instant::now());
            }
        };
        if received.is_ok() {
            input.gap_at_end().iter().for_each(|gap| steps.gap_at_end(gap));
        }
        // The refusal of the last datagram comes with the next call.
        if socket.take_error().ok().flatten().is_some() {
            counts.refused();
        }
        report(&counts, &steps, received.is_ok());
        received
    }
}

/// Returns a socket that sends to the address.
fn connected(address: &str) -> std::io::Result<UdpSocket> {
    let to = resolve(address)?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The counts of a sink.
#[derive(Default)]
struct Counts {
    /// The number of bytes of a sample.
    size: usize,
    samples: u64,
    missing: u64,
    places: u64,
    /// The number of samples in the previous datagram.
    before: u64,
}

impl Counts {
    /// Sends a datagram. A loss that the system reports is counted.
    ///
    /// # Errors
    /// [`Error::Stopped`]; the socket fails.
    fn send(&mut self, socket: &UdpSocket, stop: &StopSignal, bytes: &[u8]) -> Result<()> {
        let samples = (bytes.len() / self.size) as u64;
        loop {
            let error = match socket.send(bytes) {
                Ok(_) => {
                    (self.samples, self.before) = (self.samples + samples, samples);
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::WouldBlock => stop.wait_writable(socket)?,
                ErrorKind::Interrupted => {}
                // The refusal is of an earlier datagram, and nothing was sent now.
                ErrorKind::ConnectionRefused => self.refused(),
                _ if Errno::from_io_error(&error).is_some_and(|code| LOSSES.contains(&code)) => {
                    (self.missing, self.places) = (self.missing + samples, self.places + 1);
                    return Ok(());
                }
                _ => return Err(Error::failed(format!("cannot send {} bytes: {error}", bytes.len()))),
            }
        }
    }

    /// Counts the previous datagram as missing, because no program receives at the address.
    fn refused(&mut self) {
        let lost = std::mem::take(&mut self.before);
        self.samples -= lost;
        (self.missing, self.places) = (self.missing + lost, self.places + 1);
    }
}

/// The component `udp-source`.
pub struct UdpSource(Properties);

impl Component for UdpSource {
    fn describe() -> ComponentSpec {
        let summary =
            "Receives raw samples over UDP, a packet from each datagram; losses on the way cannot be seen.";
        let count = |name, summary| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        source("udp-source", summary, "the samples", "where this side receives, from any program")
            .property(insecure_property())
            .property(count("refused", "datagrams left out: empty, or not whole samples"))
            .property(count("dropped", "datagrams that this system dropped, because the component was late"))
            .validated(check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        check(properties)?;
        Ok(Self(properties.clone()))
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let properties = self.0;
        let size = scalar(&properties)?.size();
        let address = properties.text("address");
        let (refused, dropped) = (ports.status::<u64>("refused")?, ports.status::<u64>("dropped")?);
        let stop = ports.stop_signal();
        let socket = bound(address).map_err(|error| not_opened("receive at", address, error))?;
        let mut output = ports.output::<Dynamic>("out")?;
        output.set_stream(stream(&ports, &properties));
        let mut arrivals = Arrivals { size, address, ..Arrivals::default() };
        let received = loop {
            if let Err(error) = arrivals.pass_on(&socket, &stop, &mut output) {
                break error;
            }
            refused.set(arrivals.refused);
            dropped.set(arrivals.dropped);
        };
        // No datagram came behind the last dropped ones.
        if let Ok(all) = drops(&socket) {
            arrivals.count_drops(all);
            dropped.set(arrivals.dropped);
        }
        if arrivals.refused + arrivals.dropped > 0 {
            log::warn!(
                target: "stripline::udp-source",
                "{address}: {} left out, {} dropped by this system",
                counted(arrivals.refused, "datagram"),
                arrivals.dropped
            );
        }
        Err(received)
    }
}

/// The counts of a source.
#[derive(Default)]
struct Arrivals<'a> {
    address: &'a str,
    /// The number of bytes of a sample.
    size: usize,
    bytes: Vec<u8>,
    /// The index of the next sample.
    index: u64,
    /// The number of samples in the previous datagram.
    before: u64,
    /// The kernel's count of dropped datagrams, which wraps.
    seen: u32,
    dropped: u64,
    /// The number of datagrams that were dropped since the previous packet.
    missing: u64,
    refused: u64,
}

impl Arrivals<'_> {
    /// Waits for a datagram, and sends it as a packet.
    fn pass_on(&mut self, socket: &UdpSocket, stop: &StopSignal, output: &mut Output<Dynamic>) -> Result<()> {
        self.bytes.resize(DATAGRAM_BYTES_MAX, 0);
        let (count, drops) = match receive(socket, &mut self.bytes) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return stop.wait_readable(socket),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(not_opened("receive at", self.address, error)),
        };
        self.count_drops(drops.unwrap_or(self.seen));
        if count == 0 || count % self.size != 0 {
            self.refused += 1;
            if self.refused == 1 {
                log::warn!(
                    target: "stripline::udp-source",
                    "{}: a datagram of {count} bytes is left out: it is not a whole number of samples of {} bytes; \
                     further ones are counted",
                    self.address,
                    self.size
                );
            }
            return Ok(());
        }
        let samples = (count / self.size) as u64;
        // The length of a dropped datagram is unknown, but most senders keep the length.
        let length = if self.before > 0 { self.before } else { samples };
        self.index += std::mem::take(&mut self.missing) * length;
        let mut loan = output.loan(count / self.size)?;
        loan.copy_from_slice(&self.bytes[..count]);
        loan.at_sample(self.index).send()?;
        (self.index, self.before) = (self.index + samples, samples);
        Ok(())
    }

    /// Counts the datagrams that the kernel has dropped since the previous call.
    fn count_drops(&mut self, all: u32) {
        let lost = u64::from(all.wrapping_sub(self.seen));
        if lost > 0 && self.dropped == 0 {
            log::warn!(
                target: "stripline::udp-source",
                "{}: this system drops datagrams, because they come faster than the components take them",
                self.address
            );
        }
        (self.seen, self.dropped, self.missing) = (all, self.dropped + lost, self.missing + lost);
    }
}

/// Returns a socket that receives at the address, also as a member of a group.
fn bound(address: &str) -> std::io::Result<UdpSocket> {
    let at = resolve(address)?;
    let socket = UdpSocket::bind(at)?;
    match at.ip() {
        IpAddr::V4(ip) if ip.is_multicast() => socket.join_multicast_v4(&ip, &Ipv4Addr::UNSPECIFIED)?,
        IpAddr::V6(ip) if ip.is_multicast() => socket.join_multicast_v6(&ip, 0)?,
        _ => {}
    }
    set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
    count_drops(&socket)?;
    Ok(socket)
}
