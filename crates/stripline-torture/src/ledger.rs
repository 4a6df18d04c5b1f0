//! The packets of a receiver, checked one by one.

use std::collections::BTreeMap;

use stripline::node::Packet;
use stripline::{Gap, GapReason};

use crate::payload;
use crate::plan::Link;

/// The account of the packets of every incarnation of a sender.
#[derive(Default)]
pub struct Ledger {
    /// By incarnation: the number of the next packet.
    next: BTreeMap<u64, u64>,
    /// Packets taken in all.
    pub packets: u64,
    /// Packets reported missing in all.
    pub missing: u64,
    lossy: bool,
    /// Whether the gaps of a receiver that drops packets also report what dead senders took along.
    has_tails: bool,
    /// Packets that dead incarnations took with them, at least and at most: the next gap reports
    /// them.
    tail: (u64, u64),
}

impl Ledger {
    /// Makes the ledger of a receiver that may lose packets, or of one that may not.
    pub fn new(lossy: bool) -> Self {
        Self { lossy, ..Self::default() }
    }

    /// Makes the ledger of a receiver that drops packets, on such a link.
    pub fn of_dropping(link: Link) -> Self {
        Self { lossy: true, has_tails: link.reports_tail(), ..Self::default() }
    }

    /// Enters a packet and returns its incarnation and its number.
    ///
    /// # Errors
    /// When it is damaged, a duplicate, out of order, or behind packets that no gap reports.
    pub fn enter(&mut self, packet: &Packet<'_, u64>) -> Result<(u64, u64), String> {
        let (incarnation, sequence) = payload::check(packet)?;
        if packet.sequence() != sequence {
            return Err(format!("packet {sequence} of {incarnation} came as number {}", packet.sequence()));
        }
        let gap = packet.gap().copied();
        let known = self.next.insert(incarnation, sequence + 1);
        self.check(known, sequence, gap).map_err(|wrong| {
            let seen: Vec<_> = self.next.iter().rev().take(3).collect();
            format!("packet {sequence} of {incarnation}, {gap:?}, {known:?} expected: {wrong}; {seen:?}")
        })?;
        self.packets += 1;
        self.missing += gap.map_or(0, |gap| gap.packets);
        Ok((incarnation, sequence))
    }

    /// Enters the death of an incarnation over a transport that reports what is lost with it: so
    /// many packets, at least and at most.
    pub fn lose(&mut self, least: u64, most: u64) {
        self.tail = (self.tail.0 + least, self.tail.1 + most);
    }

    /// Returns the number of packets of an incarnation that were received or reported missing.
    pub fn next(&self, incarnation: u64) -> u64 {
        self.next.get(&incarnation).copied().unwrap_or(0)
    }

    fn check(&mut self, known: Option<u64>, sequence: u64, gap: Option<Gap>) -> Result<(), &'static str> {
        let Some(expected) = known else {
            let (least, most) = std::mem::take(&mut self.tail);
            // The first of an incarnation: each waits for its receivers before it sends.
            return match gap {
                None if sequence == 0 && least == 0 => Ok(()),
                Some(Gap { packets, reason: GapReason::PeerRestart, .. })
                    if sequence == 0 && (least..=most).contains(&packets) =>
                {
                    Ok(())
                }
                Some(Gap { first: 0, packets, .. }) if self.lossy && packets == sequence => Ok(()),
                Some(Gap { packets, reason: GapReason::PeerRestart, .. })
                    if self.has_tails && packets >= sequence =>
                {
                    Ok(())
                }
                _ => Err("lost at the beginning"),
            };
        };
        match gap {
            None if sequence == expected => Ok(()),
            None => Err("lost or repeated in silence"),
            Some(_) if !self.lossy => Err("a receiver that blocks must not lose anything"),
            Some(Gap { first, packets, reason: GapReason::Overflow, .. })
                if first == expected && first + packets == sequence =>
            {
                Ok(())
            }
            Some(_) => Err("the gap's numbers are wrong"),
        }
    }
}
