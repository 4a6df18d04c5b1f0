//! `udp-sink` and `udp-source`.

use std::collections::BTreeSet;
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
use stripline_radio::internal::QueueMemory;

use super::datagrams::{DATAGRAM_BYTES_MAX, count_drops, receive};
use super::{
    Conversion, address_property, check, check_source, insecure_property, not_opened, resolve, sample_bytes,
    says_listens, source, stream,
};
use crate::components::file_sink::place;
use crate::formats::StepTracker;

/// The most bytes of a datagram that a network of Ethernet carries whole.
const WHOLE_BYTES: usize = 1472;
/// The most bytes of a datagram of UDP over IPv4.
const PAYLOAD_BYTES_MAX: usize = 65_507;
/// The wanted size of the kernel's queue in bytes. The system may allow less.
const QUEUE_BYTES: usize = 8 << 20;
/// The most senders that are counted.
const SENDERS_MAX: usize = 1000;
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
pub struct UdpSource {
    properties: Properties,
    socket: UdpSocket,
}

impl Component for UdpSource {
    fn describe() -> ComponentSpec {
        let summary =
            "Receives raw samples over UDP, a packet from each datagram; losses on the way cannot be seen.";
        let count = |name, summary| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        source("udp-source", summary, "where this side receives, from any program")
            .property(insecure_property())
            .property(count("refused", "datagrams left out: empty, or not whole samples"))
            .property(count("dropped", "datagrams that this system dropped, because the component was late"))
            .property(count("senders", "programs that have sent so far; 1000: or more"))
            .validated(check_source)
    }

    fn new(properties: &Properties) -> Result<Self> {
        check_source(properties)?;
        let address = properties.text("address");
        let socket = bound(address).map_err(|error| not_opened("receive at", address, error))?;
        says_listens("udp", address);
        Ok(Self { properties: properties.clone(), socket })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties, socket } = self;
        let conversion = Conversion::new(&properties)?;
        let address = properties.text("address");
        let (refused, dropped) = (ports.status::<u64>("refused")?, ports.status::<u64>("dropped")?);
        let (senders, stop) = (ports.status::<u64>("senders")?, ports.stop_signal());
        let mut output = ports.output::<Dynamic>("out")?;
        output.set_stream(stream(&ports, &properties));
        let mut arrivals = Arrivals::new(address, conversion);
        let received = loop {
            if stop.is_stopped() {
                break Error::Stopped;
            }
            match arrivals.take(&socket, &mut output) {
                Ok(true) => {}
                Ok(false) => {
                    if let Err(error) = stop.wait_readable(&socket) {
                        break error;
                    }
                }
                Err(error) => break error,
            }
            refused.set(arrivals.refused);
            dropped.set(arrivals.dropped);
            senders.set(arrivals.senders.len() as u64);
        };
        if matches!(received, Error::Stopped) {
            arrivals.take_rest(&socket, &mut output);
        }
        // No datagram came behind the last dropped ones.
        if let Ok(memory) = QueueMemory::of(&socket) {
            arrivals.count_drops(memory.dropped, 0);
        }
        refused.set(arrivals.refused);
        dropped.set(arrivals.dropped);
        ports.files().report(arrivals.report());
        Err(received)
    }
}

/// The counts of a source.
struct Arrivals<'a> {
    address: &'a str,
    conversion: Conversion,
    bytes: Vec<u8>,
    /// The index of the next sample.
    index: u64,
    /// The number of samples that were sent.
    sent: u64,
    /// The number of gaps, and whether the next packet has one before it.
    places: u64,
    is_behind_gap: bool,
    /// The number of samples in the previous datagram.
    before: u64,
    /// The kernel's count of dropped datagrams, which wraps.
    seen: u32,
    dropped: u64,
    refused: u64,
    /// Datagrams that were received, but could not be sent, because the run ended.
    unsent: u64,
    senders: BTreeSet<SocketAddr>,
    sender: Option<SocketAddr>,
}

impl<'a> Arrivals<'a> {
    fn new(address: &'a str, conversion: Conversion) -> Self {
        let (index, sent, places, is_behind_gap, before) = (0, 0, 0, false, 0);
        let (seen, dropped, refused, unsent) = (0, 0, 0, 0);
        let (bytes, senders, sender) = (vec![0; DATAGRAM_BYTES_MAX], BTreeSet::new(), None);
        Self {
            address,
            conversion,
            bytes,
            index,
            sent,
            places,
            is_behind_gap,
            before,
            seen,
            dropped,
            refused,
            unsent,
            senders,
            sender,
        }
    }

    /// Sends the next datagram as a packet, without a wait for it. Returns false if none has
    /// arrived.
    ///
    /// # Errors
    /// The socket fails; [`Error::Stopped`]: the datagram is counted as missing.
    fn take(&mut self, socket: &UdpSocket, output: &mut Output<Dynamic>) -> Result<bool> {
        let datagram = match receive(socket, &mut self.bytes) {
            Ok(datagram) => datagram,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(not_opened("receive at", self.address, error)),
        };
        self.note_sender(datagram.sender);
        let (count, size) = (datagram.bytes, self.conversion.size());
        self.count_drops(datagram.dropped.unwrap_or(self.seen), (count / size) as u64);
        if count == 0 || count % size != 0 {
            self.refuse(count);
            return Ok(true);
        }
        let samples = (count / size) as u64;
        self.before = samples;
        let sent = output.loan(count / size).and_then(|mut loan| {
            self.conversion.convert(&self.bytes[..count], &mut loan);
            loan.at_sample(self.index).send()
        });
        if let Err(error) = sent {
            self.unsent += 1;
            self.step_over(samples);
            return Err(error);
        }
        self.places += u64::from(std::mem::take(&mut self.is_behind_gap));
        (self.index, self.sent) = (self.index + samples, self.sent + samples);
        Ok(true)
    }

    /// Sends, or counts as missing, at least all datagrams that have arrived so far.
    fn take_rest(&mut self, socket: &UdpSocket, output: &mut Output<Dynamic>) {
        let Ok(QueueMemory { datagrams_max, .. }) = QueueMemory::of(socket) else { return };
        for _ in 0..datagrams_max {
            if !matches!(self.take(socket, output), Ok(true) | Err(Error::Stopped)) {
                break;
            }
        }
    }

    /// Counts missing samples before the next packet.
    fn step_over(&mut self, samples: u64) {
        self.index += samples;
        self.is_behind_gap |= samples > 0;
    }

    fn refuse(&mut self, count: usize) {
        let size = self.conversion.size();
        self.refused += 1;
        self.step_over(count.div_ceil(size) as u64);
        if self.refused == 1 {
            log::warn!(
                target: "stripline::udp-source",
                "{}: a datagram of {count} bytes is left out: it is not a whole number of samples of {size} bytes; \
                 further ones are counted",
                self.address
            );
        }
    }

    fn note_sender(&mut self, sender: Option<SocketAddr>) {
        let Some(new) = sender.filter(|_| sender != self.sender) else { return };
        self.sender = sender;
        if self.senders.len() < SENDERS_MAX && self.senders.insert(new) && self.senders.len() == 2 {
            log::warn!(
                target: "stripline::udp-source",
                "{}: another program sends, from {new}, or the first one was started again; samples of all senders are \
                 one stream",
                self.address
            );
        }
    }

    /// Counts the datagrams that the kernel has dropped since the previous call. Without a datagram
    /// before them, each had as many samples as `next`.
    fn count_drops(&mut self, all: u32, next: u64) {
        let lost = u64::from(all.wrapping_sub(self.seen));
        if lost > 0 && self.dropped == 0 {
            log::warn!(
                target: "stripline::udp-source",
                "{}: this system drops datagrams, because they come faster than the components take them",
                self.address
            );
        }
        (self.seen, self.dropped) = (all, self.dropped + lost);
        // The length of a dropped datagram is unknown, but most senders keep the length.
        self.step_over(lost * if self.before > 0 { self.before } else { next });
    }

    fn report(&self) -> FileReport {
        FileReport {
            samples: self.sent,
            clipped: self.conversion.clipped,
            missing: self.index - self.sent,
            places: self.places + u64::from(self.is_behind_gap),
            datagrams_missing: self.dropped + self.refused + self.unsent,
            finished: true,
            ..FileReport::new(format!("udp://{}", self.address))
        }
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
