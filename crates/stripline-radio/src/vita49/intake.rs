//! The stream that a source takes from its datagrams: gaps, descriptions and times.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use stripline::component::FileReport;
use stripline::payload::{Dynamic, Scalar};
use stripline::{Error, Output, Result, StreamInfo};

use super::batch::{Batch, Peer, Split};
use super::context::Context;
use super::description::Facts;
use super::format::PayloadFormat;
use super::loss::{LossCounter, Step, samples_between, time_ns};
use super::packet::{BadPacket, ClassId, Indicators, Packet, PacketKind, Prologue, Seconds, Stamp, WORD};

/// The most stream ids that are counted.
pub(super) const STREAMS_MAX: usize = 1024;
/// The most contexts that wait for their sample.
const CONTEXTS_MAX: usize = 16;
/// A context that is further ahead of the signal data holds at once, because its clock is wrong.
const AHEAD_S: f64 = 2.0;
/// The silence of a sender after which another one may continue its stream.
const SILENCE: Duration = Duration::from_secs(1);

/// The settings of a source.
pub(super) struct IntakeSettings {
    pub id: String,
    pub address: String,
    pub output: Scalar,
    /// The format until a context has one.
    pub format: Option<PayloadFormat>,
    /// The stream id to take; `None`: the first.
    pub stream: Option<u32>,
    /// The leap seconds between GPS and UTC.
    pub leap_seconds: i64,
    /// The sample rate and the centre frequency until a context has them.
    pub sample_rate_hz: Option<f64>,
    pub frequency_hz: Option<f64>,
}

/// The counts of a source.
#[derive(Default)]
pub(super) struct Counts {
    pub samples: u64,
    pub missing: u64,
    pub places: u64,
    /// Datagrams that are no packets, by reason, and payloads that cannot be carried.
    refused: [u64; BadPacket::REASONS],
    pub not_carried: u64,
    /// Signal data before its format was given.
    pub waiting: u64,
    pub late: u64,
    /// Packets of other streams, senders and kinds.
    pub others: u64,
    pub inexact: u64,
    pub restarts: u64,
    pub over_range: u64,
    pub detected: u64,
}

impl Counts {
    /// Returns the number of datagrams that are no packets, or cannot be carried.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum::<u64>() + self.not_carried
    }
}

/// A context that waits for its sample.
struct Pending {
    context: Context,
    /// The stamp at which the context holds; `None`: the next packet.
    stamp: Option<Stamp>,
}

/// The state of the taken stream.
pub(super) struct Intake {
    settings: IntakeSettings,
    pub counts: Counts,
    /// The packets of each stream id, of at most [`STREAMS_MAX`].
    pub ids: BTreeMap<Option<u32>, u64>,
    /// The id of the taken stream, once it is decided.
    taken: Option<Option<u32>>,
    sender: Option<Peer>,
    heard: Instant,
    context: Context,
    pending: Vec<Pending>,
    format: Option<PayloadFormat>,
    /// The expected layout of datagrams that need no conversion.
    split: Option<Split>,
    loss: LossCounter,
    indicators: Indicators,
    class: Option<ClassId>,
    /// The description that was sent; `None`: none yet.
    described: Option<StreamInfo>,
    /// The index of the next sample.
    index: u64,
    /// Whether an unknown number of samples is missing before the next packet.
    is_anew: bool,
    /// Memory for datagrams that are handled one by one, and for converted payloads.
    rest: Vec<u8>,
    lengths: Vec<(usize, Peer)>,
    converted: Vec<u8>,
    has_warned: [bool; 4],
}

/// The kinds of warnings. Each is logged once.
#[derive(Clone, Copy)]
enum Warning {
    NotCarried,
    Waiting,
    Sender,
    Restart,
}

impl Intake {
    pub fn new(settings: IntakeSettings) -> Self {
        let taken = settings.stream.map(Some);
        let context = Context {
            sample_rate_hz: settings.sample_rate_hz,
            rf_frequency_hz: settings.frequency_hz,
            ..Context::default()
        };
        let mut loss = LossCounter::default();
        loss.set_rate(settings.sample_rate_hz);
        Self {
            format: settings.format,
            settings,
            counts: Counts::default(),
            ids: BTreeMap::new(),
            taken,
            sender: None,
            heard: Instant::now(),
            context,
            pending: Vec::new(),
            split: None,
            loss,
            indicators: Indicators::default(),
            class: None,
            described: None,
            index: 0,
            is_anew: false,
            rest: Vec::new(),
            lengths: Vec::new(),
            converted: Vec::new(),
            has_warned: [false; 4],
        }
    }

    /// Receives and sends the datagrams that have arrived. Unless the source is ending, waits a
    /// short time for the first one. Returns false if none has arrived.
    ///
    /// # Errors
    /// The socket fails; [`Error::Stopped`]: the samples are counted as missing.
    pub fn turn(
        &mut self,
        socket: &UdpSocket,
        batch: &mut Batch,
        output: &mut Output<Dynamic>,
        is_ending: bool,
    ) -> Result<bool> {
        let size = self.settings.output.size();
        let split =
            self.split.filter(|split| !is_ending && split.payload / size <= output.in_place_samples_max());
        let Some(split) = split else {
            let received = match batch.receive(socket, !is_ending, Split { before: 0, payload: 0 }, &mut []) {
                Ok(received) => received,
                Err(error) => return self.nothing(&error),
            };
            let mut stopped = Ok(());
            for index in 0..received {
                let sent = self.datagram(batch.datagram(index), batch.sender(index), None, output);
                stopped = stopped.and(sent);
            }
            return stopped.map(|()| true);
        };
        let each = split.payload / size;
        let count = (output.in_place_samples_max() / each).clamp(1, batch.room());
        let mut loan = output.loan(each * count)?;
        let received = match batch.receive(socket, true, split, &mut loan) {
            Ok(received) => received,
            Err(error) => return self.nothing(&error),
        };
        let (mut kept, mut step, mut first) = (0, None, None);
        while kept < received {
            match self.continues(batch, kept, split) {
                Ok(stamp) => first = first.or(Some(stamp)),
                Err(found) => {
                    step = found;
                    break;
                }
            }
            kept += 1;
        }
        // The other datagrams are handled one by one, with loans of their own.
        self.rest.clear();
        self.lengths.clear();
        for index in kept..received {
            batch.append_to(index, &loan[index * split.payload..][..split.payload], &mut self.rest);
            self.lengths.push((batch.length(index), batch.sender(index)));
        }
        let mut stopped = Ok(());
        if let (Some(stamp), Some(format)) = (first, self.format) {
            let samples = kept * each;
            format.swap(&mut loan[..kept * split.payload]);
            loan.truncate(samples);
            let loan = loan.at_sample(self.index);
            stopped = match self.time_ns(stamp) {
                Some(time_ns) => loan.at_time_ns(time_ns).send(),
                None => loan.send(),
            };
            self.count_sent(samples as u64, stopped.is_ok());
        } else {
            drop(loan);
        }
        let (rest, lengths) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.lengths));
        let mut left = rest.as_slice();
        for (length, sender) in &lengths {
            let (datagram, behind) = left.split_at(*length);
            left = behind;
            stopped = stopped.and(self.datagram(datagram, *sender, step.take(), output));
        }
        (self.rest, self.lengths) = (rest, lengths);
        stopped.map(|()| true)
    }

    /// Returns false if the error is an empty queue.
    fn nothing(&self, error: &std::io::Error) -> Result<bool> {
        match error.kind() {
            std::io::ErrorKind::WouldBlock => Ok(false),
            std::io::ErrorKind::Interrupted => Ok(true),
            _ => Err(Error::failed(format!("cannot receive at {}: {error}", self.settings.address))),
        }
    }

    /// Checks whether a datagram continues the stream in place. Otherwise returns the step, if the
    /// datagram was counted.
    #[inline]
    fn continues(
        &mut self,
        batch: &Batch,
        index: usize,
        split: Split,
    ) -> std::result::Result<Stamp, Option<Step>> {
        let before = batch.before(index);
        let header = before.first_chunk::<WORD>().ok_or(None)?;
        let head = Prologue::of_header(u32::from_be_bytes(*header)).map_err(|_| None)?;
        let trailer = WORD * usize::from(head.has_trailer());
        let is_expected = head.bytes == split.before
            && head.stated == batch.length(index)
            && head.stated == split.before + split.payload + trailer
            && self.pending.is_empty()
            && self.sender == Some(batch.sender(index));
        if !is_expected {
            return Err(None);
        }
        let packet = head.join(before, &[], batch.word_behind(index)).map_err(|_| None)?;
        let packet = plain_clock(packet);
        let indicators = packet.trailer.unwrap_or_default().or(self.context.indicators.unwrap_or_default());
        if packet.kind != PacketKind::Signal
            || Some(packet.stream) != self.taken
            || packet.class != self.class
            || indicators != self.indicators
            || self.is_anew
        {
            return Err(None);
        }
        let each = (split.payload / self.settings.output.size()) as u64;
        match self.loss.step(packet.count, packet.stamp, each) {
            Step::Next => {
                self.count_packet(packet.stream, indicators);
                Ok(packet.stamp)
            }
            step => Err(Some(step)),
        }
    }

    /// Handles a whole datagram. `step` is the step of a packet that was counted before.
    fn datagram(
        &mut self,
        bytes: &[u8],
        sender: Peer,
        step: Option<Step>,
        output: &mut Output<Dynamic>,
    ) -> Result<()> {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => plain_clock(packet),
            Err(error) => {
                self.refuse(error);
                return Ok(());
            }
        };
        if !matches!(packet.kind, PacketKind::Signal | PacketKind::Context) {
            self.counts.others += 1;
            return Ok(());
        }
        if *self.taken.get_or_insert(packet.stream) != packet.stream {
            self.note_id(packet.stream);
            self.counts.others += 1;
            return Ok(());
        }
        if !self.is_from(sender) {
            self.counts.others += 1;
            return Ok(());
        }
        if packet.kind == PacketKind::Signal {
            return self.signal(&packet, bytes.len(), step, output);
        }
        self.note_id(packet.stream);
        match Context::parse(packet.payload) {
            Ok(context) => {
                let stamp = Some(packet.stamp).filter(|_| !packet.is_coarse);
                self.pending.push(Pending { context, stamp });
                if self.pending.len() > CONTEXTS_MAX {
                    let first = self.pending.remove(0);
                    self.apply(&first.context);
                }
            }
            Err(error) => self.refuse(error),
        }
        Ok(())
    }

    /// Sends the samples of a packet of the taken stream.
    fn signal(
        &mut self,
        packet: &Packet<'_>,
        bytes: usize,
        step: Option<Step>,
        output: &mut Output<Dynamic>,
    ) -> Result<()> {
        let rate_hz = self.rate_hz();
        self.hold_from(packet.stamp, rate_hz, 0);
        let samples = match self.format {
            None => {
                self.counts.waiting += 1;
                let problem = "signal data waits for a context with its format";
                self.warn(Warning::Waiting, problem, "set `samples` to the format");
                None
            }
            Some(format) if !format.can_become(self.settings.output) => {
                let problem = format!("payloads of {format} cannot be sent as {}", self.settings.output);
                self.not_carried(
                    &problem,
                    &format
                        .natural()
                        .map_or(String::new(), |natural| format!("set `output` to \"{natural}\"")),
                );
                None
            }
            Some(format) => {
                let samples =
                    format.samples(packet.payload.len(), packet.pad_bits).filter(|count| *count > 0);
                if samples.is_none() {
                    let problem = format!("{} bytes are not whole samples of {format}", packet.payload.len());
                    self.not_carried(&problem, "set `samples` to the sender's format");
                }
                samples.map(|samples| (format, samples))
            }
        };
        let Some((format, samples)) = samples else {
            self.count_packet(packet.stream, Indicators::default());
            self.loss.restart();
            self.split = None;
            self.is_anew |= self.described.is_some();
            return Ok(());
        };
        let step = step.unwrap_or_else(|| self.loss.step(packet.count, packet.stamp, samples as u64));
        self.loss.set_rate(self.rate_hz());
        match step {
            Step::Next => {}
            Step::Missing { samples, is_exact } => {
                self.counts.inexact += u64::from(!is_exact);
                self.step_over(samples);
            }
            Step::Late => {
                self.counts.late += 1;
                return Ok(());
            }
            Step::Restarted => {
                self.warn(Warning::Restart, "the stamps have gone back", "the index of samples begins anew");
                self.is_anew = true;
            }
        }
        if std::mem::take(&mut self.is_anew) {
            (self.index, self.counts.restarts) = (0, self.counts.restarts + 1);
            self.counts.places += 1;
        }
        self.class = packet.class;
        let payload = packet.payload;
        let is_in_place = format.is_in_place(self.settings.output) && packet.pad_bits == 0;
        let trailer = WORD * usize::from(packet.trailer.is_some());
        let before = bytes - payload.len() - trailer;
        self.split = is_in_place.then_some(Split { before, payload: payload.len() });
        let size = self.settings.output.size();
        let mut converted = std::mem::take(&mut self.converted);
        converted.resize(samples * size, 0);
        format.convert(payload, self.settings.output, &mut converted);
        let (mut from, mut sent) = (0, Ok(()));
        while from < samples {
            self.hold_from(packet.stamp, self.rate_hz(), from as i64);
            self.loss.set_rate_within(self.rate_hz());
            let to = self.next_hold(packet.stamp, samples);
            self.describe(packet, output);
            sent = sent.and(self.send(&converted[from * size..to * size], packet.stamp, from, output));
            from = to;
        }
        self.converted = converted;
        self.count_packet(packet.stream, self.indicators);
        sent
    }

    /// Sends samples of a packet. `from` is the number of samples of the packet before them.
    fn send(&mut self, bytes: &[u8], stamp: Stamp, from: usize, output: &mut Output<Dynamic>) -> Result<()> {
        let samples = bytes.len() / self.settings.output.size();
        let ahead_ns = self.rate_hz().map_or(0, |rate_hz| (from as f64 / rate_hz * 1e9) as i64);
        let time_ns = self.time_ns(stamp).map(|time_ns| time_ns.saturating_add(ahead_ns));
        let sent = output.loan(samples).and_then(|mut loan| {
            loan.copy_from_slice(bytes);
            let loan = loan.at_sample(self.index);
            match time_ns {
                Some(time_ns) => loan.at_time_ns(time_ns).send(),
                None => loan.send(),
            }
        });
        self.count_sent(samples as u64, sent.is_ok());
        sent
    }

    /// Applies the contexts that hold from a sample of a packet on.
    fn hold_from(&mut self, stamp: Stamp, rate_hz: Option<f64>, sample: i64) {
        while let Some(first) = self.pending.first() {
            let at = first.stamp.and_then(|at| samples_between(stamp, at, rate_hz)).unwrap_or(0);
            let is_ahead = rate_hz.is_some_and(|rate_hz| at as f64 > rate_hz * AHEAD_S);
            if at > sample && !is_ahead {
                return;
            }
            let first = self.pending.remove(0);
            self.apply(&first.context);
        }
    }

    fn apply(&mut self, context: &Context) {
        self.context.update(context);
        match context.format {
            Some(Ok(format)) => self.format = Some(format),
            Some(Err(error)) => {
                self.format = None;
                self.not_carried(&format!("payloads with {error} cannot be carried"), "change the sender");
            }
            None => {}
        }
    }

    /// Returns the sample of a packet at which the next context holds; at most `samples`.
    fn next_hold(&self, stamp: Stamp, samples: usize) -> usize {
        let at = self.pending.first().and_then(|first| first.stamp);
        let at = at.and_then(|at| samples_between(stamp, at, self.rate_hz()));
        at.and_then(|at| usize::try_from(at).ok()).map_or(samples, |at| at.min(samples))
    }

    /// Sets the description of the samples that follow, if it has changed.
    fn describe(&mut self, packet: &Packet<'_>, output: &mut Output<Dynamic>) {
        self.indicators = packet.trailer.unwrap_or_default().or(self.context.indicators.unwrap_or_default());
        let stream = Facts {
            id: &self.settings.id,
            stream: packet.stream,
            class: packet.class,
            context: &self.context,
            indicators: self.indicators,
            stamp: packet.stamp,
        }
        .describe();
        if self.described.as_ref() != Some(&stream) {
            output.set_stream(stream.clone());
            self.described = Some(stream);
        }
    }

    fn rate_hz(&self) -> Option<f64> {
        self.context.sample_rate_hz.filter(|rate_hz| *rate_hz > 0.0)
    }

    fn time_ns(&self, stamp: Stamp) -> Option<i64> {
        time_ns(stamp, self.settings.leap_seconds, self.rate_hz())
    }

    /// Returns whether the sender is the one of the taken stream.
    fn is_from(&mut self, sender: Peer) -> bool {
        let now = Instant::now();
        if let Some(own) = self.sender.filter(|own| *own != sender) {
            if now.duration_since(self.heard) < SILENCE {
                let address = |sender: Peer| sender.address().map_or("?".into(), |at| at.to_string());
                let problem = format!("{} sends the stream of {}, too", address(sender), address(own));
                self.warn(Warning::Sender, &problem, "give each sender another stream id");
                return false;
            }
            self.loss.restart();
            self.is_anew |= self.described.is_some();
        }
        (self.sender, self.heard) = (Some(sender), now);
        true
    }

    /// Notes that the sender is there, once in a turn.
    pub fn note_time(&mut self, samples_before: u64) {
        if self.counts.samples != samples_before {
            self.heard = Instant::now();
        }
    }

    /// Returns the smallest ids so far, at most `max`.
    pub fn list_of_ids(&self, max: usize) -> String {
        let name = |id: &Option<u32>| id.map_or("none".into(), |id| format!("0x{id:08x}"));
        self.ids.keys().take(max).map(name).collect::<Vec<String>>().join(" ")
    }

    fn note_id(&mut self, id: Option<u32>) {
        if let Some(count) = self.ids.get_mut(&id) {
            *count += 1;
        } else if self.ids.len() < STREAMS_MAX {
            self.ids.insert(id, 1);
        }
    }

    fn count_packet(&mut self, id: Option<u32>, indicators: Indicators) {
        self.note_id(id);
        self.counts.over_range += u64::from(indicators.over_range == Some(true));
        self.counts.detected += u64::from(indicators.detected_signal == Some(true));
    }

    /// Advances the index over samples that were sent, or could not be, because the run ended.
    fn count_sent(&mut self, samples: u64, is_sent: bool) {
        if is_sent {
            (self.index, self.counts.samples) = (self.index + samples, self.counts.samples + samples);
        } else {
            self.step_over(samples);
        }
    }

    /// Counts missing samples before the next packet.
    fn step_over(&mut self, samples: u64) {
        self.index = self.index.saturating_add(samples);
        self.counts.missing = self.counts.missing.saturating_add(samples);
        self.counts.places += 1;
    }

    fn refuse(&mut self, error: BadPacket) {
        let count = &mut self.counts.refused[error.reason()];
        *count += 1;
        if *count == 1 {
            log::warn!(
                target: "stripline::vita49-source",
                "{}: a datagram is left out: {error}; further ones are counted",
                self.settings.address
            );
        }
    }

    fn not_carried(&mut self, problem: &str, remedy: &str) {
        self.counts.not_carried += 1;
        self.warn(Warning::NotCarried, problem, remedy);
    }

    fn warn(&mut self, kind: Warning, problem: &str, remedy: &str) {
        if !std::mem::replace(&mut self.has_warned[kind as usize], true) {
            log::warn!(target: "stripline::vita49-source", "{}: {problem}; {remedy}", self.settings.address);
        }
    }

    pub fn report(&self) -> FileReport {
        FileReport {
            samples: self.counts.samples,
            missing: self.counts.missing,
            places: self.counts.places,
            datagrams_missing: self.counts.refused() + self.counts.waiting,
            finished: true,
            ..FileReport::new(self.settings.address.clone())
        }
    }
}

/// Reads the seconds of DIFI's third clock, which are seconds since 1970.
fn plain_clock(mut packet: Packet<'_>) -> Packet<'_> {
    if let Seconds::Other(seconds) = packet.stamp.seconds
        && packet.class.is_some_and(ClassId::is_difi)
    {
        packet.stamp.seconds = Seconds::Utc(seconds);
    }
    packet
}
