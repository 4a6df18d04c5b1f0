//! The receiving side of a session.

use std::collections::BTreeMap;

use super::Span;
use super::record::COUNT_MAX;
use super::session_sender::cost;

/// The most numbers that a sender may be ahead, so that what waits for a repair is bounded.
const AHEAD_MAX: u64 = 1 << 16;

/// The place of a datagram that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramArrival {
    /// It is the next: deliver it.
    Next,
    /// It came too soon: [keep](SessionReceiver::keep) it.
    Early,
    /// It was here before, or comes too late.
    Old,
}

/// A step that is due about missing datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Ask for these: first numbers and counts.
    Ask(Vec<(u64, u32)>),
    /// Nothing more will come: what is missing is lost, and [take](SessionReceiver::take) has the
    /// next.
    Lost,
}

/// A result of [`SessionReceiver::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The next datagram.
    Datagram(Span, Vec<u8>),
    /// It is lost. The frame that it belongs to is, too.
    Lost,
}

/// A datagram that came too soon; without bytes, one that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    datagram: Option<(Span, Vec<u8>)>,
    at_ns: u64,
}

/// The receiving side.
#[derive(Clone, Debug)]
pub(crate) struct SessionReceiver {
    is_repaired: bool,
    /// How long a datagram may be late before it is missing.
    late_ns: u64,
    /// The number of the next datagram to deliver.
    next: u64,
    kept: BTreeMap<u64, Kept>,
    /// The number after the highest that was named, and when the sender named it.
    named: Option<(u64, u64)>,
    /// Numbers below this one were asked for.
    asked: u64,
    /// Data records received, and those that the sender of the newest datagram had sent.
    records: u32,
    records_sent: u32,
    /// Whether the rest of a frame is skipped.
    skips: bool,
    /// What was taken since the last acknowledgement, by cost, and what the sender may send.
    unacknowledged: u64,
    buffer: u64,
    /// Datagrams that are lost.
    lost: u64,
}

impl SessionReceiver {
    /// Returns a session in which a datagram is missing after that time. The receive buffer has so
    /// many bytes by the kernel's count.
    pub(crate) fn new(is_repaired: bool, late_ns: u64, buffer: u64) -> Self {
        Self {
            is_repaired,
            late_ns,
            next: 0,
            kept: BTreeMap::new(),
            named: None,
            asked: 0,
            records: 0,
            records_sent: 0,
            skips: false,
            unacknowledged: 0,
            buffer,
            lost: 0,
        }
    }

    /// Takes the number of a datagram; it arrived with that many data records sent before.
    ///
    /// # Errors
    /// A description of the sender's violation.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u64, records: u32) -> Result<DatagramArrival, String> {
        if records.wrapping_sub(self.records_sent) < u32::MAX / 2 {
            self.records_sent = records;
        }
        self.place(number)
    }

    /// Takes the number of a data record.
    ///
    /// # Errors
    /// As [`SessionReceiver::arrive`].
    pub(crate) fn arrive_record(&mut self, number: u64) -> Result<DatagramArrival, String> {
        self.records = self.records.wrapping_add(1);
        self.place(number)
    }

    #[inline]
    fn place(&mut self, number: u64) -> Result<DatagramArrival, String> {
        if number == self.next {
            self.next += 1;
            return Ok(DatagramArrival::Next);
        }
        if number < self.next || self.kept.contains_key(&number) {
            return Ok(DatagramArrival::Old);
        }
        if number - self.next > AHEAD_MAX {
            return Err(format!("sent datagram {number}, and {} is the next", self.next));
        }
        Ok(DatagramArrival::Early)
    }

    /// Keeps a datagram that came too soon.
    pub(crate) fn keep(&mut self, number: u64, span: Span, bytes: &[u8], now_ns: u64) {
        self.kept.insert(number, Kept { datagram: Some((span, bytes.to_vec())), at_ns: now_ns });
    }

    /// Counts these as lost, as the sender cannot repair them.
    ///
    /// # Errors
    /// A description of the sender's violation.
    pub(crate) fn lose(&mut self, number: u64, count: u32, now_ns: u64) -> Result<(), String> {
        let end = number.saturating_add(u64::from(count));
        if end > self.asked {
            return Err(format!("lost datagram {number}, which was not missing"));
        }
        for number in number.max(self.next)..end {
            self.kept.entry(number).or_insert(Kept { datagram: None, at_ns: now_ns });
        }
        Ok(())
    }

    /// Returns whether the datagram delivered now continues what was delivered before. Otherwise
    /// it is the rest of a frame with a part that is lost, and must be dropped.
    #[inline]
    pub(crate) fn continues(&mut self, span: Span) -> bool {
        if span.begins {
            self.skips = false;
        }
        !self.skips
    }

    /// Takes the next datagram, if it is kept or lost.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        let kept = self.kept.remove(&self.next)?;
        self.next += 1;
        Some(match kept.datagram {
            Some((span, bytes)) => Taken::Datagram(span, bytes),
            None => {
                (self.lost, self.skips) = (self.lost + 1, true);
                Taken::Lost
            }
        })
    }

    /// Takes an announcement: all numbers below this one have been used.
    ///
    /// # Errors
    /// As [`SessionReceiver::arrive`].
    pub(crate) fn announced(&mut self, number: u64, now_ns: u64) -> Result<(), String> {
        if number.saturating_sub(self.next) > AHEAD_MAX {
            return Err(format!("named datagram {number}, and {} is the next", self.next));
        }
        if number > self.next && self.named.is_none_or(|(named, _)| number > named) {
            self.named = Some((number, now_ns));
        }
        Ok(())
    }

    /// Counts a datagram as taken. Returns whether it is time to acknowledge: long before the
    /// sender runs out of room.
    #[inline]
    pub(crate) fn counts_ack(&mut self, bytes: usize) -> bool {
        self.unacknowledged += cost(bytes);
        let is_time = self.unacknowledged > self.buffer / 8;
        if is_time {
            self.unacknowledged = 0;
        }
        is_time
    }

    /// Returns the number of the next datagram.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether data records are on their way that were sent before the newest datagram.
    #[inline]
    pub(crate) fn awaits_records(&self) -> bool {
        self.records != self.records_sent && self.records_sent.wrapping_sub(self.records) < u32::MAX / 2
    }

    /// Returns when something will be [due](SessionReceiver::due).
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        if self.kept.is_empty() && self.named.is_none() {
            return None;
        }
        self.missing().map(|(_, since_ns)| since_ns + self.late_ns)
    }

    /// Returns the first missing number that was not asked for, and since when it shows.
    fn missing(&self) -> Option<(u64, u64)> {
        let mut first = self.next.max(self.asked);
        for (number, kept) in self.kept.range(first..) {
            if *number != first {
                return Some((first, kept.at_ns));
            }
            first += 1;
        }
        self.named.filter(|(named, _)| *named > first).map(|(_, at_ns)| (first, at_ns))
    }

    /// Returns what is to be done now. `is_over`: nothing more will arrive.
    pub(crate) fn due(&mut self, now_ns: u64, is_over: bool) -> Due {
        let is_due = |since_ns: u64| is_over || now_ns >= since_ns.saturating_add(self.late_ns);
        if self.missing().is_none_or(|(_, since_ns)| !is_due(since_ns)) {
            return Due::Nothing;
        }
        if !is_over {
            // What is on its way on the control socket need not be asked for.
            return if self.awaits_records() { Due::Nothing } else { Due::Ask(self.ask()) };
        }
        if self.is_repaired {
            // The sender died, and nothing may be missing in the middle.
            return Due::Nothing;
        }
        for (number, count) in self.ask() {
            for number in number..number + u64::from(count) {
                self.kept.entry(number).or_insert(Kept { datagram: None, at_ns: now_ns });
            }
        }
        Due::Lost
    }

    /// Returns all numbers that are missing and were not asked for.
    fn ask(&mut self) -> Vec<(u64, u32)> {
        let mut ranges = Vec::new();
        let mut first = self.next.max(self.asked);
        let mut missing_to = |from: u64, to: u64| {
            let mut from = from;
            while from < to {
                let count = (to - from).min(u64::from(COUNT_MAX));
                ranges.push((from, count as u32));
                from += count;
            }
        };
        for number in self.kept.range(first..).map(|(number, _)| *number) {
            missing_to(first, number);
            first = number + 1;
        }
        if let Some((named, _)) = self.named.filter(|(named, _)| *named > first) {
            missing_to(first, named);
            first = named;
        }
        self.asked = first;
        ranges
    }

    /// Returns the datagrams given up.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}
