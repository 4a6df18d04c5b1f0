//! The component `vita49-sink`.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use stripline::component::kit::{Pace, sample_rate, sample_rate_property};
use stripline::component::{
    Component, ComponentSpec, FileReport, OrderRule, PortTypes, Ports, Properties, PropertySpec, RateRule,
    StopSignal,
};
use stripline::payload::{Dynamic, Scalar, TypeName};
use stripline::{Error, Received, Result, StreamInfo};

use super::address::{self, Address};
use super::format::PayloadFormat;
use super::packet::{ClassId, PS_PER_S, WORD};
use super::packing::{ContextFields, Prefix, context, version};
use crate::host_clock::host_ns;

/// The longest time between two contexts. DIFI asks for one a second.
const CONTEXT_TIME: Duration = Duration::from_millis(500);
/// The most bytes of a datagram that a jumbo frame of 9000 bytes carries over IPv4.
const DATAGRAM_BYTES_MAX: i64 = 8972;
/// The default: a frame of 1500 bytes carries the datagram, also over IPv6.
const DATAGRAM_BYTES: i64 = 1452;
/// The formats of payloads; `input`: the type of the samples, or cs16 for floats.
const FORMATS: [&str; 4] = ["input", "cs8", "cs16", "cf32"];
/// The types of samples that are taken.
const INPUTS: [&str; 3] = ["cs16", "cs8", "cf32"];

/// Errors of a send that lose the datagram alone: the network may recover.
const LOSSES: [Errno; 5] =
    [Errno::NOBUFS, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::PERM];

/// The component `vita49-sink`.
pub struct Vita49Sink {
    properties: Properties,
    address: Address,
}

impl Component for Vita49Sink {
    fn describe() -> ComponentSpec {
        let types = INPUTS.iter().filter_map(|name| TypeName::parse(name).ok()).collect();
        let summary = "Sends samples as signal data of DIFI 1.1 or VITA 49.2 over UDP, with contexts.";
        let integer =
            |name, default, min, max, summary| PropertySpec::integer(name, default, min, max, summary);
        let format =
            "format of payloads; input: the type of the samples, and cs16 for cf32; cf32 is not DIFI";
        let spec = ComponentSpec::new("vita49-sink", summary)
            .input("in", PortTypes::OneOf(types), "samples to send")
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed())
            .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() });
        address::properties("where receivers are, also a multicast group")
            .into_iter()
            .fold(spec, ComponentSpec::property)
            .property(integer("stream", 1, 0, i64::from(u32::MAX), "stream id"))
            .property(PropertySpec::choice("format", &FORMATS, FORMATS[0], format))
            .property(
                PropertySpec::float("full_scale", 1.0, "amplitude of floats that is the largest integer")
                    .range(1e-6, 1e9),
            )
            .property(
                integer("datagram", DATAGRAM_BYTES, 64, DATAGRAM_BYTES_MAX, "bytes of a datagram").unit("B"),
            )
            .property(integer("hops", 1, 0, 255, "networks that datagrams to a group may cross"))
            .property(PropertySpec::boolean(
                "pace",
                false,
                "whether to send at the sample rate, and no faster",
            ))
            .property(sample_rate_property())
            .validated(|properties| Address::new(properties).map(drop))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { properties: properties.clone(), address: Address::new(properties)? })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties, address } = self;
        let socket = address.sender(u32::try_from(properties.integer("hops")).unwrap_or(1))?;
        let input_type = ports.payload("in").and_then(|name| Scalar::parse(name.as_str()));
        let Some(input_type) = input_type else { return Ok(()) };
        let stop = ports.stop_signal();
        let files = ports.files();
        let mut sender = Feed::new(&properties, &address, socket, input_type, stop)?;
        let mut input = ports.input::<Dynamic>("in")?;
        let received = loop {
            let sent = match input.receive_timeout(CONTEXT_TIME) {
                Ok(Received::Packet(packet)) => {
                    let place = Place {
                        stream: packet.stream(),
                        index: packet.sample_index(),
                        time_ns: packet.time_ns(),
                        is_behind_gap: packet.gap().is_some(),
                    };
                    sender.samples(&place, &packet)
                }
                Ok(Received::Empty) => sender.contexts(false),
                Ok(Received::Ended) => break sender.flush(),
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                break Err(error);
            }
        };
        if let Some(gap) = input.gap_at_end() {
            (sender.gaps, sender.missing) = (sender.gaps + 1, sender.missing.saturating_add(gap.samples));
        }
        files.report(sender.report(received.is_ok()));
        received
    }
}

/// The place of a packet in its stream.
struct Place<'a> {
    stream: &'a StreamInfo,
    index: u64,
    time_ns: i64,
    is_behind_gap: bool,
}

/// A time in picoseconds since 1970 at a sample.
#[derive(Clone, Copy)]
struct Anchor {
    index: u64,
    time_ps: i128,
}

/// The datagrams of a stream.
struct Feed {
    properties: Properties,
    address: String,
    socket: UdpSocket,
    stop: StopSignal,
    id: u32,
    input: Scalar,
    format: PayloadFormat,
    /// The amplitude of a float that is the largest integer.
    full_scale: f32,
    /// The size of a sample in a payload, in bytes.
    sample_bytes: usize,
    /// The samples of a datagram.
    samples_max: usize,
    pace: Option<Pace>,
    /// The samples of the pace so far.
    paced: u64,
    rate_hz: f64,
    described: Option<StreamInfo>,
    anchor: Option<Anchor>,
    /// The index of the next sample of the input.
    index: u64,
    /// The waiting samples, as in a payload, and the index of the first.
    payload: Vec<u8>,
    first: u64,
    counts: [u8; 3],
    context_at: Option<Instant>,
    datagram: Vec<u8>,
    clipped: u64,
    sent: u64,
    /// The samples of datagrams that the network refused, and their number.
    refused: u64,
    refusals: u64,
    /// The samples of the previous datagram.
    before: u64,
    /// The places in the input where samples are missing, and their number.
    gaps: u64,
    missing: u64,
}

impl Feed {
    fn new(
        properties: &Properties,
        address: &Address,
        socket: UdpSocket,
        input: Scalar,
        stop: StopSignal,
    ) -> Result<Self> {
        let name = match properties.text("format") {
            "input" if input.to_string() == "cf32" => "cs16".to_owned(),
            "input" => input.to_string(),
            name => name.to_owned(),
        };
        let from_float = input.to_string() == "cf32";
        let format = PayloadFormat::named(&name).filter(|_| from_float || name == input.to_string());
        let Some(format) = format else {
            return Err(Error::Configuration(format!(
                "samples of {input} cannot be sent as {name}: set `format` to \"input\""
            )));
        };
        let sample_bytes = format.sample_bits() / 8;
        let class = !format.is_float();
        let before = Prefix::bytes(class);
        let room = usize::try_from(properties.integer("datagram")).unwrap_or_default() - before;
        // Whole words: two samples of 8 bits are a word.
        let samples_max = room / WORD * WORD / sample_bytes;
        let pace = properties.boolean("pace").then(|| Pace::new(stop.clone(), 0.0));
        Ok(Self {
            properties: properties.clone(),
            address: address.to_string(),
            socket,
            stop,
            id: u32::try_from(properties.integer("stream")).unwrap_or_default(),
            input,
            format,
            full_scale: properties.float("full_scale") as f32,
            sample_bytes,
            samples_max,
            pace,
            paced: 0,
            rate_hz: 0.0,
            described: None,
            anchor: None,
            index: 0,
            payload: Vec::new(),
            first: 0,
            counts: [0; 3],
            context_at: None,
            datagram: Vec::new(),
            clipped: 0,
            sent: 0,
            refused: 0,
            refusals: 0,
            before: 0,
            gaps: 0,
            missing: 0,
        })
    }

    /// Sends the samples of a packet. The last ones wait for more, until a datagram is full.
    fn samples(&mut self, place: &Place<'_>, bytes: &[u8]) -> Result<()> {
        let is_new = self.described.as_ref() != Some(place.stream);
        let is_next = self.described.is_none() || place.index == self.index && !place.is_behind_gap;
        if is_new || !is_next {
            self.flush()?;
        }
        if !is_next {
            (self.gaps, self.missing) =
                (self.gaps + 1, self.missing + place.index.saturating_sub(self.index));
        }
        if is_new {
            check_one_channel(place.stream)?;
            // The earlier samples have the earlier rate.
            self.anchor = self
                .anchor
                .map(|anchor| Anchor { index: self.index, time_ps: self.time_ps(anchor, self.index) });
            self.rate_hz = sample_rate(self.properties.float("sample_rate"), place.stream)?;
            self.described = Some(place.stream.clone());
            if self.pace.is_some() {
                self.pace = Some(Pace::new(self.stop.clone(), self.rate_hz));
                self.paced = 0;
            }
        }
        self.set_anchor(place);
        if is_new {
            self.first = place.index;
            self.contexts(true)?;
        }
        self.index = place.index;
        if self.payload.is_empty() {
            self.first = place.index;
        }
        let size = self.input.size();
        let mut left = bytes;
        while !left.is_empty() {
            let room = self.samples_max - self.payload.len() / self.sample_bytes;
            let (part, behind) = left.split_at(left.len().min(room * size));
            left = behind;
            self.index += (part.len() / size) as u64;
            self.clipped += self.format.pack(part, self.input, self.full_scale, &mut self.payload);
            if self.payload.len() / self.sample_bytes == self.samples_max {
                self.flush()?;
                self.first = self.index;
            }
        }
        Ok(())
    }

    /// Sets the time of a sample. Times that continue the earlier ones to a sample do not set it
    /// anew, so that rounding does not move stamps.
    fn set_anchor(&mut self, place: &Place<'_>) {
        let given = (place.time_ns != 0).then(|| i128::from(place.time_ns) * 1000);
        let due = self.anchor.map(|anchor| self.time_ps(anchor, place.index));
        let sample_ps = (PS_PER_S as f64 / self.rate_hz) as i128;
        let time_ps = match (given, due) {
            (Some(given), Some(due)) if (given - due).abs() <= sample_ps.max(1000) / 2 => return,
            (Some(given), _) => given,
            (None, Some(due)) if place.index >= self.index => due,
            // The stream has no times: the clock of the host gives the first.
            (None, _) => i128::from(host_ns()) * 1000,
        };
        if !self.payload.is_empty() && self.flush().is_err() {
            return;
        }
        self.anchor = Some(Anchor { index: place.index, time_ps });
    }

    fn time_ps(&self, anchor: Anchor, index: u64) -> i128 {
        let samples = i128::from(index) - i128::from(anchor.index);
        // Seconds apart, so that a float has room for the picoseconds.
        let rate = self.rate_hz;
        let seconds = (samples as f64 / rate).floor();
        let rest = samples as f64 - seconds * rate;
        anchor.time_ps
            + seconds as i128 * i128::from(PS_PER_S)
            + (rest / rate * PS_PER_S as f64).round() as i128
    }

    fn prefix(&mut self, header: u32, kind: usize, classes: [u16; 2]) -> Prefix {
        let time_ps = self.anchor.map_or(0, |anchor| self.time_ps(anchor, self.first)).max(0).cast_unsigned();
        let count = self.counts[kind];
        self.counts[kind] = (count + 1) & 15;
        let seconds = (time_ps / u128::from(PS_PER_S)) as u32;
        let fraction = (time_ps % u128::from(PS_PER_S)) as u64;
        let class = ClassId { oui: ClassId::DIFI, information: classes[0], packet: classes[1] };
        let class = (!self.format.is_float()).then_some(class);
        Prefix { header, count, stream: self.id, class, pad_bits: 0, seconds, fraction }
    }

    /// Sends the context and the version: at a change, and when they are due.
    fn contexts(&mut self, has_changed: bool) -> Result<()> {
        let is_due = self.context_at.is_none_or(|at| at.elapsed() >= CONTEXT_TIME);
        let Some(stream) = self.described.clone().filter(|_| has_changed || is_due) else { return Ok(()) };
        self.context_at = Some(Instant::now());
        let fields = ContextFields::of(&stream, self.rate_hz, self.format, has_changed);
        let prefix = self.prefix(4 << 28 | 1 << 24, 1, [0, 1]);
        let bytes = context(&prefix, &fields);
        self.datagram(&bytes, 0)?;
        if !self.format.is_float() {
            let prefix = self.prefix(5 << 28 | 1 << 24, 2, [1, 4]);
            self.datagram(&version(&prefix, has_changed), 0)?;
        }
        Ok(())
    }

    /// Sends the waiting samples.
    fn flush(&mut self) -> Result<()> {
        if self.payload.is_empty() {
            return Ok(());
        }
        self.contexts(false)?;
        let samples = (self.payload.len() / self.sample_bytes) as u64;
        let mut prefix = self.prefix(1 << 28, 0, [0, 0]);
        // Only the last sample of a gap or an end can leave half of a word.
        let padded = self.payload.len().next_multiple_of(WORD);
        prefix.pad_bits = (padded - self.payload.len()) as u8 * 8;
        let mut datagram = std::mem::take(&mut self.datagram);
        datagram.clear();
        prefix.write(padded, &mut datagram);
        datagram.extend_from_slice(&self.payload);
        datagram.resize(datagram.len() + padded - self.payload.len(), 0);
        self.payload.clear();
        if let Some(pace) = &mut self.pace {
            self.paced += samples;
            pace.wait_for(self.paced)?;
        }
        let sent = self.datagram(&datagram, samples);
        self.datagram = datagram;
        sent
    }

    /// Sends a datagram with samples, or with none. A loss that the system reports is counted.
    fn datagram(&mut self, bytes: &[u8], samples: u64) -> Result<()> {
        loop {
            let error = match self.socket.send(bytes) {
                Ok(_) => {
                    (self.sent, self.before) = (self.sent + samples, samples);
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::WouldBlock => self.stop.wait_writable(&self.socket)?,
                ErrorKind::Interrupted => {}
                // The refusal is of an earlier datagram, and nothing was sent now.
                ErrorKind::ConnectionRefused => {
                    let lost = std::mem::take(&mut self.before);
                    self.sent -= lost;
                    (self.refused, self.refusals) =
                        (self.refused + lost, self.refusals + u64::from(lost > 0));
                }
                _ if Errno::from_io_error(&error).is_some_and(|code| LOSSES.contains(&code)) => {
                    (self.refused, self.refusals) = (self.refused + samples, self.refusals + 1);
                    return Ok(());
                }
                _ => {
                    return Err(Error::failed(format!(
                        "cannot send {} bytes to {}: {error}; set `datagram` to the size that the network carries",
                        bytes.len(),
                        self.address
                    )));
                }
            }
        }
    }

    fn report(&self, finished: bool) -> FileReport {
        FileReport {
            samples: self.sent,
            clipped: self.clipped,
            missing: self.missing.saturating_add(self.refused),
            places: self.gaps + self.refusals,
            finished,
            ..FileReport::new(self.address.clone())
        }
    }
}

/// Checks that a stream has one channel.
///
/// # Errors
/// The stream has several channels, for which a packet has no place.
fn check_one_channel(stream: &StreamInfo) -> Result<()> {
    let (id, count) = (&stream.id, stream.channels.len());
    if count < 2 {
        return Ok(());
    }
    Err(Error::Configuration(format!(
        "the stream `{id}` has {count} channels (`channels`), and a packet has samples of one: put a `demultiplexer` \
         before the sink, and give each channel a sink with a `stream` of its own"
    )))
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
