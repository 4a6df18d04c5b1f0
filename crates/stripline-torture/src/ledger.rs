//! Checks the packets of a receiver one by one.

use std::collections::BTreeMap;

use stripline::node::Packet;
use stripline::{Gap, GapReason};

use crate::payload;
use crate::plan::Link;

/// A ledger of the packets from every incarnation of a sender.
#[derive(Default)]
pub struct Ledger {
    /// The number of the next packet, by incarnation.
    next: BTreeMap<u64, u64>,
    /// The total number of packets taken.
    pub packets: u64,
    /// The total number of packets reported missing.
    pub missing: u64,
    lossy: bool,
    /// Whether the gaps of a receiver that drops packets also include packets that were lost with
    /// dead senders.
    has_tails: bool,
    /// The minimum and maximum number of packets that were lost with dead incarnations. The next
    /// gap must report them.
    tail: (u64, u64),
}

impl Ledger {
    /// Creates the ledger of a receiver. `lossy` is set if the receiver may lose packets.
    pub fn new(lossy: bool) -> Self {
        Self { lossy, ..Self::default() }
    }

    /// Creates the ledger of a receiver that drops packets, on this link.
    pub fn of_dropping(link: Link) -> Self {
        Self { lossy: true, has_tails: link.reports_tail(), ..Self::default() }
    }

    /// Enters a packet. Returns the incarnation and the number of the packet.
    ///
    /// # Errors
    /// When the packet is damaged, a duplicate or out of order, or follows packets that are missing
    /// without a gap.
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

    /// Enters the death of an incarnation over a transport that reports packets lost by the death:
    /// at least `least` and at most `most` packets.
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
            // The packet is the first of an incarnation. Each incarnation waits for the receivers
            // before it sends.
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
