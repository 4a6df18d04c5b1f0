//! The messages of flow control, byte by byte. Little-endian:
//!
//! ```text
//! offset bytes
//! 0      8     number, see below
//! 8      1     16: grant, 17: stop, 18: resume, 19: ask, 20: over
//! 9      1     zero
//! 10     2     16: the bytes behind the first 16
//! 12     4     in an ask: packets addressed to this receiver, at most 2^32 - 1; else zero
//! 16     8     the sender's incarnation
//! 24     8     the receiver's incarnation; 0 if the sender has seen none
//! ```
//!
//! | message | sent by | number |
//! | --- | --- | --- |
//! | grant | receiver | packets that may be sent in all |
//! | stop, resume | receiver | number of the stop, from 1; a resume repeats it, or has 0 before |
//! | ask | sender | packets sent in all; the receiver repeats its position |
//! | over | receiver | packets arrived in all; the stream has ended, and no message follows |
//!
//! The first 16 bytes have the layout of an acknowledgement (`transport/signalling/acks.rs`). Both
//! travel on the same socket.

/// The size of a message in bytes.
pub(crate) const MESSAGE_BYTES: usize = 32;

/// The limit of packets per connection. The limit keeps every sum of two numbers from overflowing.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

const GRANT: u8 = 16;
const STOP: u8 = 17;
const RESUME: u8 = 18;
const PROBE: u8 = 19;
const OVER: u8 = 20;

/// The incarnation of a sender or receiver: a later one is greater. Zero: not yet received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Incarnation(pub u64);

impl Incarnation {
    /// The only incarnation, on a transport where connections end with either side.
    pub(crate) const ONLY: Self = Self(1);
}

/// A message of flow control, with the incarnations of the sender and the receiver of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowMessage {
    pub sender: Incarnation,
    pub receiver: Incarnation,
    pub body: Body,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Body {
    /// Permission to send this many packets in total.
    Grant { until: u64 },
    /// The permission is withdrawn until the next resume.
    Stop { epoch: u64 },
    /// The stop of that number has ended.
    Resume { epoch: u64 },
    /// The sender asks for the receiver's position. The sender has sent `sent` packets in total,
    /// the last `yours` of them to this incarnation of the receiver; `u32::MAX`: that many or more.
    Probe { sent: u64, yours: u32 },
    /// The stream has ended after this many packets. No message follows.
    Over { arrived: u64 },
}

impl Body {
    /// Returns the rank of a message. Of two messages of one receiver, the later has the greater
    /// rank.
    pub(crate) fn rank(self) -> u128 {
        match self {
            Self::Grant { until: number } | Self::Probe { sent: number, .. } => u128::from(number),
            Self::Stop { epoch } => 2 * u128::from(epoch),
            Self::Resume { epoch } => 2 * u128::from(epoch) + 1,
            Self::Over { .. } => u128::MAX,
        }
    }
}

impl FlowMessage {
    /// Encodes the message.
    pub(crate) fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (kind, number, yours) = match self.body {
            Body::Grant { until } => (GRANT, until, 0),
            Body::Stop { epoch } => (STOP, epoch, 0),
            Body::Resume { epoch } => (RESUME, epoch, 0),
            Body::Probe { sent, yours } => (PROBE, sent, yours),
            Body::Over { arrived } => (OVER, arrived, 0),
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        (bytes[8], bytes[10]) = (kind, 16);
        bytes[12..16].copy_from_slice(&yours.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sender.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.receiver.0.to_le_bytes());
        bytes
    }

    /// Returns whether a message of flow control starts with these 16 bytes.
    pub(crate) fn is_one(head: &[u8; 16]) -> bool {
        (GRANT..=OVER).contains(&head[8])
    }

    /// Parses a message.
    ///
    /// # Errors
    /// A description of the fault in the bytes.
    pub(crate) fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Result<Self, String> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let number = word(0);
        if number > NUMBER_MAX {
            return Err(format!("sent flow control with the number {number}"));
        }
        let yours = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let body = match bytes[8] {
            GRANT => Body::Grant { until: number },
            STOP if number == 0 => return Err("sent a stop without its number".into()),
            STOP => Body::Stop { epoch: number },
            RESUME => Body::Resume { epoch: number },
            PROBE if u64::from(yours) > number => {
                return Err("asked about more packets than it has sent".into());
            }
            PROBE => Body::Probe { sent: number, yours },
            OVER => Body::Over { arrived: number },
            kind => return Err(format!("sent flow control of kind {kind}")),
        };
        if bytes[9..12] != [0, 16, 0] || yours != 0 && !matches!(body, Body::Probe { .. }) {
            return Err("sent flow control with bytes that mean nothing".into());
        }
        let (sender, receiver) = (Incarnation(word(16)), Incarnation(word(24)));
        if sender == Incarnation::default() {
            return Err("sent flow control for no sender".into());
        }
        if receiver == Incarnation::default() && !matches!(body, Body::Probe { .. }) {
            return Err("sent flow control of no receiver".into());
        }
        Ok(Self { sender, receiver, body })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = FlowMessage> {
        (0..5, 1..=NUMBER_MAX, 1..u64::MAX, 1..u64::MAX).prop_map(|(kind, number, sender, receiver)| {
            let body = match kind {
                0 => Body::Grant { until: number },
                1 => Body::Stop { epoch: number },
                2 => Body::Resume { epoch: number },
                3 => Body::Probe { sent: number, yours: sender.min(number) as u32 / 2 },
                _ => Body::Over { arrived: number },
            };
            FlowMessage { sender: Incarnation(sender), receiver: Incarnation(receiver), body }
        })
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(message in message()) {
            let bytes = message.encode();
            let head: [u8; 16] = bytes[..16].try_into().unwrap();
            prop_assert!(FlowMessage::is_one(&head));
            prop_assert_eq!(FlowMessage::parse(&bytes), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_say_what_they_are(mut bytes: [u8; MESSAGE_BYTES], kind in 14..24_u8, plain in 0..3) {
            bytes[8] = kind;
            if plain > 0 {
                bytes[9..12].copy_from_slice(&[0, 16, 0]);
            }
            if plain > 1 {
                bytes[12..16].fill(0);
            }
            if let Ok(message) = FlowMessage::parse(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let sound =
            FlowMessage { sender: Incarnation(1), receiver: Incarnation(2), body: Body::Stop { epoch: 3 } };
        let with = |at: usize, byte: u8| {
            let mut bytes = sound.encode();
            bytes[at] = byte;
            FlowMessage::parse(&bytes)
        };
        for (at, byte, says) in [
            (7, 0x80, "the number 9223372036854775811"),
            (8, 15, "kind 15"),
            (8, 21, "kind 21"),
            (0, 0, "without its number"),
            (9, 1, "mean nothing"),
            (10, 17, "mean nothing"),
            (15, 1, "mean nothing"),
            (16, 0, "no sender"),
            (24, 0, "no receiver"),
        ] {
            let error = with(at, byte).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(with(0, 3), Ok(sound));
    }
}
