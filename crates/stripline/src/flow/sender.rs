//! The sending side of flow control, which may be stalled.

use super::{Body, FlowMessage, Incarnation};
use crate::terms::{Flow, Watermarks};

/// The interval at which a stalled sender asks for its receiver's position, in nanoseconds, over a
/// lossy channel.
pub(crate) const PROBE_EVERY_NS: u64 = 100_000_000;

/// The faults that messages in transit may have on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChannelKind {
    /// Each message arrives once, in order, and the connection ends with either side.
    Ordered,
    /// Messages may be lost, repeated or late; either side may restart.
    #[cfg_attr(not(test), allow(dead_code, reason = "for transports of datagrams; walked by the model"))]
    Lossy,
}

/// The state that a sender keeps of one receiver. Every message is validated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sender {
    high: u64,
    channel: ChannelKind,
    own: Incarnation,
    /// The receiver seen last. Packets are addressed to it.
    pub(super) receiver: Incarnation,
    /// The packets sent in total, which is also the number of the next packet.
    pub(super) sent: u64,
    /// The packets that were for earlier receivers.
    others: u64,
    permission: Permission,
    /// The time at which the sender first noticed that it is stalled, in nanoseconds.
    stalled_ns: Option<u64>,
    probed_ns: Option<u64>,
    is_over: bool,
}

/// The permission to send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Permission {
    /// May send while fewer packets than this have been sent.
    Granted(u64),
    /// May send unless stopped; `epoch` is the number of the stop received last.
    Running { epoch: u64, is_stopped: bool },
}

impl Sender {
    /// Returns a sender to a receiver with these watermarks. `receiver` is the incarnation learned
    /// in the handshake; it implies the first credits. Without it there are no credits until a
    /// receiver sends a message.
    ///
    /// `None`: the link keeps no flow control.
    pub(crate) fn new(
        flow: Flow,
        marks: Watermarks,
        channel: ChannelKind,
        own: Incarnation,
        receiver: Option<Incarnation>,
    ) -> Option<Self> {
        let high = u64::from(marks.high());
        let permission = match flow {
            Flow::Transport => return None,
            Flow::Credit => Permission::Granted(if receiver.is_some() { high } else { 0 }),
            Flow::StopResume => Permission::Running { epoch: 0, is_stopped: false },
        };
        let receiver = receiver.unwrap_or_default();
        Some(Self {
            high,
            channel,
            own,
            receiver,
            sent: 0,
            others: 0,
            permission,
            stalled_ns: None,
            probed_ns: None,
            is_over: false,
        })
    }

    /// Returns the kind of flow control.
    pub(crate) fn flow(&self) -> Flow {
        match self.permission {
            Permission::Granted(_) => Flow::Credit,
            Permission::Running { .. } => Flow::StopResume,
        }
    }

    /// Returns whether the next packet may be sent.
    pub(crate) fn may_send(&self) -> bool {
        match self.permission {
            Permission::Granted(until) => self.sent < until,
            Permission::Running { is_stopped, .. } => !is_stopped,
        }
    }

    /// Returns whether the next packet may be sent without polling for messages of the receiver
    /// first.
    pub(crate) fn may_send_without_poll(&self) -> bool {
        matches!(self.permission, Permission::Granted(until) if self.sent < until)
    }

    /// Records that a packet is sent.
    pub(crate) fn send(&mut self) {
        self.sent += 1;
        self.stalled_ns = None;
    }

    /// Returns whether the receiver has sent its last message.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Records a stall at the given time, if the sender may not send.
    pub(crate) fn note_stall(&mut self, now_ns: u64) {
        if !self.may_send() {
            self.stalled_ns.get_or_insert(now_ns);
        }
    }

    /// Returns the time since which the sender is stalled, in nanoseconds.
    pub(crate) fn stalled_since(&self) -> Option<u64> {
        self.stalled_ns.filter(|_| !self.may_send())
    }

    /// Returns the message to send at the given time, if any. A stalled sender asks again and
    /// again, because the message that ends the stall may have been lost.
    #[cfg_attr(not(test), allow(dead_code, reason = "for transports of datagrams; walked by the model"))]
    pub(crate) fn next_probe(&mut self, now_ns: u64) -> Option<FlowMessage> {
        let is_due = self.probed_ns.is_none_or(|probed| now_ns.saturating_sub(probed) >= PROBE_EVERY_NS);
        if self.channel == ChannelKind::Ordered || self.may_send() || !is_due {
            return None;
        }
        self.probed_ns = Some(now_ns);
        let yours = u32::try_from(self.sent - self.others).unwrap_or(u32::MAX);
        Some(FlowMessage {
            sender: self.own,
            receiver: self.receiver,
            body: Body::Probe { sent: self.sent, yours },
        })
    }

    /// Handles a message of the receiver. An outdated message is ignored if the channel can deliver
    /// one.
    ///
    /// # Errors
    /// A description of the receiver's violation. No later message of this receiver may be used.
    pub(crate) fn receive(&mut self, message: &FlowMessage) -> Result<(), String> {
        let is_lossy = self.channel == ChannelKind::Lossy;
        if message.sender != self.own {
            return if is_lossy { Ok(()) } else { Err("sent flow control for another sender".into()) };
        }
        if message.receiver != self.receiver {
            match (self.receiver, is_lossy) {
                (Incarnation(0), _) => {}
                (_, false) => return Err("sent flow control of another receiver".into()),
                (known, true) if message.receiver < known => return Ok(()),
                // The receiver has restarted, and the announcements of the predecessor are void.
                (_, true) => {
                    self.others = self.sent;
                    self.permission = match self.permission {
                        Permission::Granted(_) => Permission::Granted(0),
                        Permission::Running { .. } => Permission::Running { epoch: 0, is_stopped: false },
                    };
                }
            }
            self.receiver = message.receiver;
        }
        let sent = self.sent;
        match (message.body, &mut self.permission) {
            (Body::Grant { until }, Permission::Granted(granted)) => {
                let window = sent.saturating_add(self.high);
                if until > window {
                    return Err(format!(
                        "granted packets up to {until}, where {sent} were sent and {} may wait",
                        self.high
                    ));
                }
                if until < *granted && !is_lossy {
                    return Err(format!("granted packets up to {until} after {granted}"));
                }
                *granted = until.max(*granted);
            }
            (
                Body::Stop { epoch: number } | Body::Resume { epoch: number },
                Permission::Running { epoch, is_stopped },
            ) => {
                // Every further stop needs at least one packet in between.
                if number > sent {
                    return Err(format!("sent stop {number}, where {sent} packets were sent"));
                }
                let before =
                    if *is_stopped { Body::Stop { epoch: *epoch } } else { Body::Resume { epoch: *epoch } };
                if message.body.rank() > before.rank() {
                    (*epoch, *is_stopped) = (number, matches!(message.body, Body::Stop { .. }));
                }
            }
            (Body::Over { arrived }, _) => {
                if arrived > sent {
                    return Err(format!("has got {arrived} packets, where {sent} were sent"));
                }
                self.is_over = true;
            }
            (Body::Probe { .. }, _) => return Err("sent an ask, which only a sender sends".into()),
            (_, Permission::Granted(_)) => {
                return Err("sent stop or resume where credits were agreed on".into());
            }
            (_, Permission::Running { .. }) => {
                return Err("granted credits where stop and resume were agreed on".into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Incarnation = Incarnation(7);
    const THEM: Incarnation = Incarnation(3);

    fn sender(flow: Flow, channel: ChannelKind) -> Sender {
        let marks = Watermarks::new(4, None, Some(1)).unwrap();
        Sender::new(flow, marks, channel, ME, Some(THEM)).unwrap()
    }

    fn says(body: Body) -> FlowMessage {
        FlowMessage { sender: ME, receiver: THEM, body }
    }

    #[test]
    fn credits_are_totals() {
        for channel in [ChannelKind::Ordered, ChannelKind::Lossy] {
            let mut sender = sender(Flow::Credit, channel);
            (0..4).for_each(|_| sender.send());
            assert!(!sender.may_send());
            let grant = says(Body::Grant { until: 7 });
            // A repeated grant counts once.
            assert_eq!((sender.receive(&grant), sender.receive(&grant)), (Ok(()), Ok(())));
            (0..3).for_each(|_| sender.send());
            assert!(!sender.may_send());
            assert_eq!(sender.receive(&grant), Ok(()));
            assert!(!sender.may_send());
        }
    }

    #[test]
    fn a_late_stop_stops_nobody() {
        let mut sender = sender(Flow::StopResume, ChannelKind::Lossy);
        (0..4).for_each(|_| sender.send());
        sender.receive(&says(Body::Stop { epoch: 1 })).unwrap();
        assert!(!sender.may_send());
        sender.receive(&says(Body::Resume { epoch: 1 })).unwrap();
        sender.receive(&says(Body::Stop { epoch: 1 })).unwrap();
        assert!(sender.may_send());
        sender.receive(&says(Body::Stop { epoch: 2 })).unwrap();
        sender.receive(&says(Body::Resume { epoch: 1 })).unwrap();
        assert!(!sender.may_send());
    }

    #[test]
    fn it_asks_only_while_it_may_not_send() {
        let mut sender = sender(Flow::Credit, ChannelKind::Lossy);
        assert_eq!(sender.next_probe(0), None);
        (0..4).for_each(|_| sender.send());
        let ask = says(Body::Probe { sent: 4, yours: 4 });
        assert_eq!(sender.next_probe(5), Some(ask));
        assert_eq!(sender.next_probe(6), None);
        assert_eq!(sender.next_probe(5 + PROBE_EVERY_NS), Some(ask));
        sender.note_stall(9);
        sender.note_stall(10);
        assert_eq!(sender.stalled_since(), Some(9));
        sender.receive(&says(Body::Grant { until: 5 })).unwrap();
        assert_eq!((sender.stalled_since(), sender.next_probe(u64::MAX)), (None, None));
    }

    #[test]
    fn a_receiver_that_restarts_begins_anew() {
        let mut sender = sender(Flow::Credit, ChannelKind::Lossy);
        (0..3).for_each(|_| sender.send());
        let next = |body| FlowMessage { receiver: Incarnation(9), ..says(body) };
        sender.receive(&next(Body::Grant { until: 3 })).unwrap();
        assert_eq!(sender.next_probe(0).unwrap().body, Body::Probe { sent: 3, yours: 0 });
        assert!(!sender.may_send(), "the credit of its predecessor is void");
        sender.receive(&says(Body::Grant { until: 7 })).unwrap();
        assert!(!sender.may_send(), "messages of the predecessor are ignored");
        sender.receive(&next(Body::Grant { until: 7 })).unwrap();
        assert!(sender.may_send());
        // This grant was for the predecessor of this sender.
        sender.receive(&FlowMessage { sender: Incarnation(6), ..says(Body::Grant { until: 999 }) }).unwrap();
    }

    #[test]
    fn lies_are_named() {
        use ChannelKind::{Lossy, Ordered};
        use Flow::{Credit, StopResume};
        for (flow, channel, message, violation) in [
            (
                Credit,
                Lossy,
                says(Body::Grant { until: 6 }),
                "granted packets up to 6, where 1 were sent and 4 may wait",
            ),
            (
                Credit,
                Ordered,
                says(Body::Grant { until: u64::MAX }),
                "granted packets up to 18446744073709551615",
            ),
            (Credit, Ordered, says(Body::Grant { until: 3 }), "granted packets up to 3 after 4"),
            (
                Credit,
                Ordered,
                says(Body::Stop { epoch: 1 }),
                "sent stop or resume where credits were agreed on",
            ),
            (
                Credit,
                Ordered,
                says(Body::Probe { sent: 1, yours: 1 }),
                "sent an ask, which only a sender sends",
            ),
            (Credit, Ordered, says(Body::Over { arrived: 2 }), "has got 2 packets, where 1 were sent"),
            (StopResume, Lossy, says(Body::Stop { epoch: 2 }), "sent stop 2, where 1 packets were sent"),
            (StopResume, Lossy, says(Body::Resume { epoch: 2 }), "sent stop 2"),
            (StopResume, Ordered, says(Body::Grant { until: 1 }), "granted credits where stop and resume"),
            (
                Credit,
                Ordered,
                FlowMessage { sender: THEM, ..says(Body::Grant { until: 4 }) },
                "for another sender",
            ),
            (
                Credit,
                Ordered,
                FlowMessage { receiver: ME, ..says(Body::Grant { until: 4 }) },
                "of another receiver",
            ),
        ] {
            let mut sender = sender(flow, channel);
            sender.send();
            let error = sender.receive(&message).unwrap_err();
            assert!(error.contains(violation), "{error}");
        }
    }
}
