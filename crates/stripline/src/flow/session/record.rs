//! The header of a datagram, and the records of the control socket. Every field is validated.

use crate::flow::message::NUMBER_MAX;

/// Bytes before the payload of a datagram.
pub(crate) const DATAGRAM_HEADER: usize = 24;
/// The size of a record in bytes, without the data that follows it.
const RECORD_BYTES: usize = 16;

/// The most datagrams that one record names.
pub(super) const COUNT_MAX: u32 = 1 << 24;

const BEGINS: u16 = 1;
const ENDS: u16 = 2;
const PROBE: u16 = 4;

const DATA: u8 = 1;
const SENT: u8 = 2;
const LOST: u8 = 3;
const ASK: u8 = 4;
const START: u8 = 5;
/// Bytes that follow a start record.
const TOKEN_BYTES: u32 = 8;

/// The part of the frames that a datagram holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    /// Whether the first byte of the datagram is the first byte of a frame.
    pub begins: bool,
    /// Whether the last byte of the datagram is the last byte of a frame.
    pub ends: bool,
}

impl Span {
    /// The span of whole frames.
    #[cfg(test)]
    pub(crate) const WHOLE: Self = Self { begins: true, ends: true };

    fn flags(self) -> u16 {
        (u16::from(self.begins) * BEGINS) | (u16::from(self.ends) * ENDS)
    }

    fn of_flags(flags: u16) -> Self {
        Self { begins: flags & BEGINS != 0, ends: flags & ENDS != 0 }
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramHeader {
    /// The token of the session. Only the two ends of the session have it.
    pub token: u64,
    pub number: u64,
    /// The data records that the sender had sent before this datagram.
    pub records: u32,
    pub span: Span,
}

impl DatagramHeader {
    /// Returns the header of the datagram that follows this one after `datagrams` numbers.
    pub(crate) fn plus(self, datagrams: u64, span: Span) -> Self {
        Self { number: self.number + datagrams, span, ..self }
    }

    /// Encodes the header.
    #[inline]
    pub(crate) fn encode(&self) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = [0; DATAGRAM_HEADER];
        bytes[..8].copy_from_slice(&self.token.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.span.flags().to_le_bytes());
        bytes
    }

    /// Parses a header; `None`: the datagram belongs to no session of this version.
    #[inline]
    pub(crate) fn parse(bytes: &[u8; DATAGRAM_HEADER]) -> Option<Self> {
        let [token @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *bytes;
        let [_, _, _, _, _, _, _, _, number @ .., r0, r1, r2, r3, f0, f1, z0, z1] = *bytes;
        let flags = u16::from_le_bytes([f0, f1]);
        let number = u64::from_le_bytes(number);
        if flags & !(BEGINS | ENDS) != 0 || [z0, z1] != [0; 2] || number > NUMBER_MAX {
            return None;
        }
        Some(Self {
            token: u64::from_le_bytes(token),
            number,
            records: u32::from_le_bytes([r0, r1, r2, r3]),
            span: Span::of_flags(flags),
        })
    }
}

/// A probe: a datagram without payload, which shows that the path leads to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionProbe {
    pub token: u64,
    /// 1 for the first probe.
    pub number: u64,
}

impl SessionProbe {
    /// The bit that marks the acknowledgement of a probe.
    const ACKNOWLEDGED: u64 = 1 << 63;
    /// The number of bits of the charge and of the probe's number.
    const CHARGE_BITS: u32 = 31;
    const NUMBER_BITS: u32 = 32;

    /// Encodes the probe.
    pub(crate) fn encode(self) -> [u8; DATAGRAM_HEADER] {
        let span = Span { begins: false, ends: false };
        let mut bytes = DatagramHeader { token: self.token, number: self.number, records: 0, span }.encode();
        bytes[20..22].copy_from_slice(&PROBE.to_le_bytes());
        bytes
    }

    /// Parses a datagram that has no [header](DatagramHeader); `None`: it belongs to no session of
    /// this version.
    pub(crate) fn parse(bytes: &[u8; DATAGRAM_HEADER]) -> Option<Self> {
        let mut header = *bytes;
        header[20..22].fill(0);
        let DatagramHeader { token, number, records: 0, .. } = DatagramHeader::parse(&header)? else {
            return None;
        };
        let is_probe = bytes[20..22] == PROBE.to_le_bytes();
        (is_probe && number & Self::ACKNOWLEDGED == 0).then_some(Self { token, number })
    }

    /// Returns the acknowledgement of the probe. `charge`: the bytes that the probe takes of the
    /// receive buffer; 0: not measured.
    pub(crate) fn acknowledgement(self, charge: u64) -> [u8; 8] {
        let charge = charge.min((1 << Self::CHARGE_BITS) - 1) << Self::NUMBER_BITS;
        let number = self.number & ((1 << Self::NUMBER_BITS) - 1);
        (number | charge | Self::ACKNOWLEDGED).to_le_bytes()
    }
}

/// A record of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionRecord {
    /// A datagram, from the sender.
    Data { number: u64, span: Span, bytes: Vec<u8> },
    /// From the sender: all numbers below this one have been used.
    Sent { number: u64 },
    /// From the sender: `count` datagrams from `number` on cannot be repaired.
    Lost { number: u64, count: u32 },
    /// From the sender of a group, as the first record: the token, and the number at which this
    /// member begins.
    Start { number: u64, token: u64 },
    /// From the receiver: `count` datagrams from `number` on are missing.
    Ask { number: u64, count: u32 },
}

impl SessionRecord {
    /// Returns a record that reports the datagrams of a range as lost. The range must not be empty.
    /// If it is very long, the record names only the first part.
    pub(crate) fn lost(from: u64, to: u64) -> Self {
        let count = u32::try_from(to - from).unwrap_or(COUNT_MAX).min(COUNT_MAX);
        Self::Lost { number: from, count }
    }

    /// Appends the encoded record. The `bytes` of a datagram are at most `u32::MAX`.
    pub(crate) fn encode_to(&self, out: &mut Vec<u8>) {
        let token_bytes;
        let (number, kind, flags, length, bytes): (_, _, _, _, &[u8]) = match self {
            Self::Data { number, span, bytes } => {
                (number, DATA, span.flags() as u8, bytes.len() as u32, bytes)
            }
            Self::Sent { number } => (number, SENT, 0, 0, &[]),
            Self::Start { number, token } => {
                token_bytes = token.to_le_bytes();
                (number, START, 0, TOKEN_BYTES, &token_bytes)
            }
            Self::Ask { number, count } => (number, ASK, 0, *count, &[]),
            Self::Lost { number, count } => (number, LOST, 0, *count, &[]),
        };
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&[kind, flags, 0, 0]);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// A parser of the records that one side sends, as they arrive.
#[derive(Debug)]
pub(crate) struct RecordReader {
    bytes: Vec<u8>,
    /// The most bytes of a datagram.
    data_max: usize,
    /// Whether the other side is the sender of the session.
    of_sender: bool,
}

impl RecordReader {
    /// Returns a parser of the records of a session's sender, or of its receiver.
    pub(crate) fn new(of_sender: bool, data_max: usize) -> Self {
        Self { bytes: Vec::new(), data_max, of_sender }
    }

    /// Appends bytes that have arrived.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next record; `None`: the record is incomplete.
    ///
    /// # Errors
    /// A description of the other side's violation.
    pub(crate) fn next(&mut self) -> Result<Option<SessionRecord>, String> {
        let Some((record, behind)) = self.bytes.split_first_chunk::<RECORD_BYTES>() else { return Ok(None) };
        let [number @ .., kind, flags, z0, z1, l0, l1, l2, l3] = *record;
        let number = u64::from_le_bytes(number);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let is_of_sender = matches!(kind, DATA | SENT | LOST | START);
        if !(DATA..=START).contains(&kind) || is_of_sender != self.of_sender {
            return Err(format!("sent a control record of kind {kind}"));
        }
        if [z0, z1] != [0; 2] || flags != 0 && kind != DATA || flags > 3 {
            return Err("sent a control record with bytes that mean nothing".into());
        }
        if number > NUMBER_MAX {
            return Err(format!("sent a control record with the number {number}"));
        }
        let (record, used) = match kind {
            DATA if length as usize > self.data_max => {
                return Err(format!("announced a repair of {length} bytes"));
            }
            DATA => {
                let Some(bytes) = behind.get(..length as usize) else { return Ok(None) };
                let span = Span::of_flags(u16::from(flags));
                (SessionRecord::Data { number, span, bytes: bytes.to_vec() }, length as usize)
            }
            START if length != TOKEN_BYTES => {
                return Err(format!("sent a token of {length} bytes"));
            }
            START => {
                let Some(token) = behind.first_chunk() else { return Ok(None) };
                (SessionRecord::Start { number, token: u64::from_le_bytes(*token) }, TOKEN_BYTES as usize)
            }
            ASK | LOST if length == 0 || length > COUNT_MAX => {
                return Err(format!("sent a control record about {length} datagrams"));
            }
            ASK => (SessionRecord::Ask { number, count: length }, 0),
            LOST => (SessionRecord::Lost { number, count: length }, 0),
            _ if length != 0 => return Err("sent a control record with bytes that mean nothing".into()),
            _ => (SessionRecord::Sent { number }, 0),
        };
        self.bytes.drain(..RECORD_BYTES + used);
        Ok(Some(record))
    }
}

/// A parser of acknowledgements, as they arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionAcks {
    /// The first bytes of a number.
    bytes: Vec<u8>,
    /// The number of the last acknowledged probe, and the charge.
    probe: Option<(u64, u64)>,
}

impl SessionAcks {
    /// Returns the last whole number in the bytes that have arrived. That number supersedes the
    /// earlier numbers.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<u64> {
        self.bytes.extend_from_slice(bytes);
        let whole = self.bytes.len() / 8 * 8;
        let mut last = None;
        for bytes in self.bytes[..whole].as_chunks().0 {
            match u64::from_le_bytes(*bytes) {
                probe if probe & SessionProbe::ACKNOWLEDGED != 0 => {
                    let number = probe & ((1 << SessionProbe::NUMBER_BITS) - 1);
                    let charge = (probe & !SessionProbe::ACKNOWLEDGED) >> SessionProbe::NUMBER_BITS;
                    self.probe = Some((number, charge));
                }
                number => last = Some(number),
            }
        }
        self.bytes.drain(..whole);
        last
    }

    /// Returns the number of the last acknowledged probe, and the bytes that it took of the receive
    /// buffer; 0: not measured.
    pub(crate) fn probe(&self) -> Option<(u64, u64)> {
        self.probe
    }
}
