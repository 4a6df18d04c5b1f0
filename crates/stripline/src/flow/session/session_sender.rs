//! The sending side of a session.

use std::collections::VecDeque;

use super::{DatagramCharges, DatagramHeader, Span};

/// The most bytes that the kernel counts for a datagram in addition to the datagram's own bytes.
const RECORD_COST: u64 = 1024;

/// Returns the most bytes of a datagram's payload, over a path with datagrams of at most
/// `datagram_max` bytes. Four datagrams fit the receiver's buffer. The result is a multiple of 16,
/// as the size of each frame is.
pub(crate) fn payload_max(datagram_max: usize, buffer: u64) -> usize {
    let fitting = usize::try_from((buffer / 4).saturating_sub(RECORD_COST) / 2).unwrap_or(usize::MAX);
    datagram_max.saturating_sub(super::DATAGRAM_HEADER).min(fitting).max(16) / 16 * 16
}

/// A datagram that is in transit.
#[derive(Debug)]
struct Sent {
    cost: u64,
    bytes: usize,
    /// The copy of the datagram; `None`: it is not repaired.
    copy: Option<(Span, KeptCopy)>,
}

/// The sending side of a session.
#[derive(Debug)]
pub(crate) struct SessionSender {
    token: u64,
    charges: DatagramCharges,
    /// The number of the next datagram.
    next: u64,
    /// The datagrams from here to `next` are in transit.
    first: u64,
    in_transit: VecDeque<Sent>,
    cost: u64,
    /// The greatest cost of the datagrams in transit.
    window: u64,
    keeps_copies: bool,
    /// The cost in transit from which on acknowledgements are to be read.
    look_at: u64,
    /// The number of data records sent.
    records: u32,
    /// The number that the last announcement named.
    announced: u64,
    /// Copies to use again.
    spare: Vec<KeptCopy>,
}

impl SessionSender {
    /// Returns a session with the given token, for a receive buffer of `buffer` bytes by the
    /// kernel's count. A repaired session keeps copies of the datagrams.
    pub(crate) fn new(token: u64, buffer: u64, is_repaired: bool) -> Self {
        Self {
            token,
            charges: DatagramCharges::default(),
            next: 0,
            first: 0,
            in_transit: VecDeque::new(),
            cost: 0,
            // The kernel may still count a quarter of the buffer after it was read
            // (`udp_rmem_release`).
            window: buffer / 4 * 3,
            keeps_copies: is_repaired,
            look_at: buffer / 4,
            records: 0,
            announced: 0,
            spare: Vec::new(),
        }
    }

    /// Counts datagrams by these charges, from the next datagram on.
    pub(crate) fn count_by(&mut self, charges: DatagramCharges) {
        self.charges = charges;
    }

    /// Stores the bytes that the first probe took of the receive buffer; 0: not measured.
    pub(crate) fn note_probe(&mut self, charge: u64) {
        self.charges.set_least(charge);
    }

    /// Returns whether a datagram of `bytes` bytes fits the window. A datagram always fits if
    /// nothing else is in transit.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.has_room_behind(0, bytes)
    }

    /// Returns whether a datagram fits the window after others with the cost `pending`, which are
    /// to be sent first.
    #[inline]
    pub(crate) fn has_room_behind(&self, pending: u64, bytes: usize) -> bool {
        let is_only = pending == 0 && self.in_transit.is_empty();
        is_only || self.cost + pending + self.charges.of(bytes) <= self.window
    }

    /// Returns the cost of a datagram of `bytes` bytes.
    pub(crate) fn cost_of(&self, bytes: usize) -> u64 {
        self.charges.of(bytes)
    }

    /// Returns whether acknowledgements are to be read now. If so, the next time is an eighth of
    /// the buffer later. So the acknowledgements never fill their socket, and reading them takes
    /// few system calls.
    pub(crate) fn is_time_to_look(&mut self) -> bool {
        let is_time = self.cost >= self.look_at;
        if is_time {
            self.look_at = self.cost + self.window / 6;
        }
        is_time
    }

    /// Returns the header of the next datagram.
    #[inline]
    pub(crate) fn header(&self, span: Span) -> DatagramHeader {
        DatagramHeader { token: self.token, number: self.next, records: self.records, span }
    }

    /// Counts the next datagram as sent.
    pub(crate) fn sent(&mut self, span: Span, payload: &[u8]) {
        let copy = self.keeps_copies.then(|| {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.fill(payload);
            (span, copy)
        });
        self.push(Sent { cost: self.charges.of(payload.len()), bytes: payload.len(), copy });
    }

    /// Counts the next datagram as sent, and returns the number. The caller must keep a copy.
    pub(crate) fn sent_and_kept(&mut self, bytes: usize) -> u64 {
        self.push(Sent { cost: self.charges.of(bytes), bytes, copy: None });
        self.next - 1
    }

    /// Counts a datagram that is sent over the control socket, and returns the number.
    pub(crate) fn send_record(&mut self) -> u64 {
        self.push(Sent { cost: 0, bytes: 0, copy: None });
        self.records = self.records.wrapping_add(1);
        self.next - 1
    }

    fn push(&mut self, sent: Sent) {
        self.next += 1;
        self.cost += sent.cost;
        self.in_transit.push_back(sent);
    }

    /// Takes an acknowledgement: all datagrams before `number` have been taken.
    ///
    /// # Errors
    /// A description of the receiver's violation.
    pub(crate) fn acknowledge(&mut self, number: u64) -> Result<(), String> {
        if number > self.next {
            return Err(format!("acknowledged datagram {number}, which was not sent"));
        }
        while self.first < number
            && let Some(sent) = self.in_transit.pop_front()
        {
            self.first += 1;
            self.cost -= sent.cost;
            self.spare.extend(sent.copy.map(|(_, copy)| copy));
        }
        self.look_at = self.look_at.min((self.cost + self.window / 6).max(self.window / 3));
        Ok(())
    }

    /// Returns the copy of a datagram that is in transit.
    pub(crate) fn copy(&self, number: u64) -> Option<(Span, &[u8])> {
        let sent = self.in_transit.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        sent.copy.as_ref().map(|(span, copy)| (*span, copy.bytes()))
    }

    /// Counts a repair, which is a data record.
    pub(crate) fn count_repair(&mut self) {
        self.records = self.records.wrapping_add(1);
    }

    /// Returns whether a number in transit belongs to a datagram sent as a record.
    pub(crate) fn is_record(&self, number: u64) -> bool {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.in_transit.get(index)).is_some_and(|sent| sent.cost == 0)
    }

    /// Returns the numbers in transit.
    pub(crate) fn in_transit(&self) -> std::ops::Range<u64> {
        self.first..self.next
    }

    /// Returns whether datagrams are in transit that have not been announced, and counts them as
    /// announced.
    pub(crate) fn announce(&mut self) -> bool {
        let is_news = self.announced < self.next && self.first < self.next;
        self.announced = self.next;
        is_news
    }

    /// Returns the bytes in transit, without datagrams sent as records. `acknowledged` is an
    /// acknowledgement that the session has not taken yet.
    pub(crate) fn bytes_in_transit(&self, acknowledged: Option<u64>) -> u64 {
        let taken = acknowledged.unwrap_or(0).saturating_sub(self.first);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        self.in_transit.iter().skip(taken).map(|sent| sent.bytes as u64).sum()
    }

    /// Returns the greatest cost of the datagrams in transit.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }
}

/// The payload size from which on a copy may use `rep movsb`.
const LONG: usize = 2048;

/// A copy of a payload.
#[derive(Debug, Default)]
pub(super) struct KeptCopy {
    buffer: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl KeptCopy {
    /// Copies a payload. A long payload is copied to an address half a page away from it, modulo a
    /// page. `rep movsb` takes several times as long if the destination is a few bytes after the
    /// source, modulo a page. Short payloads are copied without `rep movsb`, and packed, so that a
    /// window of them stays in a cache.
    pub(super) fn fill(&mut self, payload: &[u8]) {
        const PAGE: usize = 4096;
        let apart = if payload.len() < LONG { 0 } else { PAGE };
        if self.buffer.len() < payload.len() + apart {
            self.buffer.resize(payload.len() + apart, 0);
        }
        self.from = 0;
        if apart > 0 {
            let wanted = payload.as_ptr().addr().wrapping_add(PAGE / 2);
            self.from = wanted.wrapping_sub(self.buffer.as_ptr().addr()) % PAGE;
        }
        self.bytes = payload.len();
        self.buffer[self.from..][..payload.len()].copy_from_slice(payload);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..][..self.bytes]
    }
}
