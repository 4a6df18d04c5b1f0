//! The headers of requests and replies: 16 bytes each, little-endian. `docs/calls.md` describes
//! them byte by byte.

use std::sync::atomic::{Ordering, compiler_fence};

use super::Refusal;

/// The number of bytes before a request's chain, and before a reply's payload.
pub(super) const HEAD_BYTES: usize = 16;
/// The number of bytes of one link of a chain.
pub(super) const LINK_BYTES: usize = 16;
/// The longest chain of nested calls.
pub(super) const CHAIN_MAX: usize = 32;

const CALL: u8 = 1;
const CANCEL: u8 = 2;

/// A request in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireRequest<'a> {
    Call { head: CallHead, chain: ChainBytes<'a>, payload: &'a [u8] },
    Cancel { number: u64 },
}

/// The numbers at the head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallHead {
    pub number: u64,
    pub operation: u16,
    /// The time for which the client waits for the reply, in microseconds.
    pub deadline_us: u32,
}

/// The servers that a chain of nested calls has passed, in wire form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChainBytes<'a>(pub &'a [u8]);

/// A server in a chain of nested calls, which waits for the next server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainLink {
    pub server: u64,
    /// The number of calls that the server can work on at once.
    pub threads: u32,
}

impl ChainLink {
    pub(super) fn to_bytes(self) -> [u8; LINK_BYTES] {
        let mut bytes = [0; LINK_BYTES];
        bytes[..8].copy_from_slice(&self.server.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.threads.to_le_bytes());
        bytes
    }
}

impl ChainBytes<'_> {
    pub(super) fn links(&self) -> impl Iterator<Item = ChainLink> {
        self.0.chunks_exact(LINK_BYTES).map(|bytes| {
            let (server, rest) = bytes.split_at(8);
            ChainLink {
                server: u64::from_le_bytes(server.try_into().unwrap_or_default()),
                threads: u32::from_le_bytes(rest[..4].try_into().unwrap_or_default()),
            }
        })
    }
}

/// Writes the first two words of a message in place. If they were built elsewhere and copied, they
/// would be read in chunks that differ from the chunks in which they were written, which stalls the
/// processor.
#[inline(always)]
pub(super) fn put_head(place: &mut [u8], words: [u64; 2]) {
    for (place, word) in place[..HEAD_BYTES].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// The number of bytes of a message on the first cache line of the frame in a ring, behind a short
/// header.
const ON_FIRST_CACHE_LINE: usize = 32;

/// Writes a message in place, the first cache line last. The waiting reader polls that line, and
/// would otherwise take it from the writer's core between two writes.
#[inline(always)]
pub(super) fn put_message(place: &mut [u8], words: [u64; 2], payload: &[u8]) {
    let on_first_line = payload.len().min(ON_FIRST_CACHE_LINE - HEAD_BYTES);
    let (near, far) = payload.split_at(on_first_line);
    place[ON_FIRST_CACHE_LINE.min(HEAD_BYTES + on_first_line)..].copy_from_slice(far);
    // The fence serves only speed: x86 processors store in program order, others may not. The
    // commit word of the frame publishes the message.
    compiler_fence(Ordering::Release);
    place[HEAD_BYTES..][..on_first_line].copy_from_slice(near);
    put_head(place, words);
}

/// Returns the first two words of a call, in front of the chain and the payload.
#[inline(always)]
pub(super) fn call_words(number: u64, operation: u16, links: u8, deadline_us: u32) -> [u64; 2] {
    let second =
        u64::from(operation) | u64::from(CALL) << 16 | u64::from(links) << 24 | u64::from(deadline_us) << 32;
    [number, second]
}

/// Returns the words of [`call_words`] as bytes.
#[cfg(test)]
pub(super) fn call_head(number: u64, operation: u16, links: u8, deadline_us: u32) -> [u8; HEAD_BYTES] {
    let [first, second] = call_words(number, operation, links, deadline_us);
    words(first, second)
}

/// Returns a complete message that cancels a call.
pub(super) fn cancel(number: u64) -> [u8; HEAD_BYTES] {
    words(number, u64::from(CANCEL) << 16)
}

#[inline]
fn words(first: u64, second: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

#[inline(always)]
fn split(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second), rest))
}

impl<'a> WireRequest<'a> {
    /// Parses a message from a client.
    ///
    /// # Errors
    /// A description of the client's violation.
    // Always inlined: a value returned in memory is read in chunks that differ from the chunks in
    // which it was written, which stalls the processor.
    #[inline(always)]
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let Some((number, second, rest)) = split(bytes) else {
            return Err(format!("sent a request of {} bytes", bytes.len()));
        };
        let links = usize::from((second >> 24) as u8);
        match (second >> 16) as u8 {
            CALL if links <= CHAIN_MAX => {
                let Some((chain, payload)) = rest.split_at_checked(links * LINK_BYTES) else {
                    return Err(format!("announced a chain of {links} calls and sent {} bytes", rest.len()));
                };
                let (operation, deadline_us) = (second as u16, (second >> 32) as u32);
                let head = CallHead { number, operation, deadline_us };
                Ok(Self::Call { head, chain: ChainBytes(chain), payload })
            }
            CALL => Err(format!("sent a chain of {links} calls (at most {CHAIN_MAX} are allowed)")),
            CANCEL if second == u64::from(CANCEL) << 16 && rest.is_empty() => Ok(Self::Cancel { number }),
            CANCEL => Err("sent a cancellation with extra bytes".into()),
            kind => Err(format!("sent a request of unknown kind {kind}")),
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyStatus {
    /// The payload is the reply.
    Done,
    /// The payload is the operation's own error.
    UserError,
    /// The payload is a text for display.
    Refused(Refusal),
}

impl ReplyStatus {
    /// The number of the first refusal. The other refusals follow in their order.
    const FIRST_REFUSAL: u64 = 2;

    #[inline(always)]
    fn number(self) -> u64 {
        match self {
            Self::Done => 0,
            Self::UserError => 1,
            Self::Refused(refusal) => Self::FIRST_REFUSAL + refusal as u64,
        }
    }

    #[inline(always)]
    fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Done),
            1 => Some(Self::UserError),
            _ => {
                let index = usize::try_from(number - Self::FIRST_REFUSAL).ok()?;
                Refusal::ALL.get(index).copied().map(Self::Refused)
            }
        }
    }
}

/// Returns the first two words of a reply, in front of the payload.
#[inline(always)]
pub(super) fn reply_words(number: u64, status: ReplyStatus) -> [u64; 2] {
    [number, status.number()]
}

/// Returns the words of [`reply_words`] as bytes.
pub(super) fn reply_head(number: u64, status: ReplyStatus) -> [u8; HEAD_BYTES] {
    let [first, second] = reply_words(number, status);
    words(first, second)
}

/// A reply in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireReply<'a> {
    pub number: u64,
    pub status: ReplyStatus,
    pub payload: &'a [u8],
}

impl<'a> WireReply<'a> {
    /// Parses a message from a server.
    ///
    /// # Errors
    /// A description of the server's violation.
    // Always inlined: see `WireRequest::parse`.
    #[inline(always)]
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let Some((number, second, payload)) = split(bytes) else {
            return Err(format!("sent a reply of {} bytes", bytes.len()));
        };
        match ReplyStatus::from_number(second) {
            Some(status) => Ok(Self { number, status, payload }),
            None => Err(format!("sent a reply of unknown status {second:#x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes of the `nth` example in `docs/calls.md`: a line of hexadecimal numbers.
    fn example(nth: usize) -> Vec<u8> {
        let document = include_str!("../../../../docs/calls.md");
        let is_example = |connection: &&str| {
            let connection = connection.trim();
            connection.len() > 20
                && connection.split_whitespace().all(|w| w.len() == 2 && u8::from_str_radix(w, 16).is_ok())
        };
        let connection = document.lines().filter(is_example).nth(nth).unwrap();
        connection.split_whitespace().map(|word| u8::from_str_radix(word, 16).unwrap()).collect()
    }

    #[test]
    fn docs_match_the_code() {
        let cbor = |value: f64| {
            let mut bytes = Vec::new();
            ciborium::into_writer(&value, &mut bytes).unwrap();
            bytes
        };
        let call = [&call_head(0x10002, 1, 0, 5_000_000)[..], &cbor(2.0)].concat();
        assert_eq!(call, example(0));
        let parsed = WireRequest::parse(&call).unwrap();
        let (chain, payload) = (ChainBytes(&[]), &cbor(2.0)[..]);
        let head = CallHead { number: 0x10002, operation: 1, deadline_us: 5_000_000 };
        assert_eq!(parsed, WireRequest::Call { head, chain, payload });
        let reply = [&reply_head(0x10002, ReplyStatus::Done)[..], &cbor(4.0)].concat();
        assert_eq!(reply, example(1));
        let parsed = WireReply { number: 0x10002, status: ReplyStatus::Done, payload: &cbor(4.0) };
        assert_eq!(WireReply::parse(&reply), Ok(parsed));
        assert_eq!(ChainLink { server: 42, threads: 1 }.to_bytes().to_vec(), example(2));
    }

    #[test]
    fn every_status_is_read_back() {
        let refused = Refusal::ALL.map(ReplyStatus::Refused);
        for (number, status) in
            [ReplyStatus::Done, ReplyStatus::UserError].into_iter().chain(refused).enumerate()
        {
            assert_eq!(status.number(), number as u64);
            assert_eq!(WireReply::parse(&reply_head(7, status)).unwrap().status, status);
        }
        assert_eq!(WireRequest::parse(&cancel(9)), Ok(WireRequest::Cancel { number: 9 }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_calls_are_read_back(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            number: u64, operation: u16, deadline_us: u32, links in 0u8..4,
        ) {
            let _ = (WireRequest::parse(&bytes), WireReply::parse(&bytes));
            let chain: Vec<u8> = (0..links * 16).collect();
            let call = [&call_head(number, operation, links, deadline_us)[..], &chain, &bytes].concat();
            let head = CallHead { number, operation, deadline_us };
            let expected = WireRequest::Call { head, chain: ChainBytes(&chain), payload: &bytes };
            prop_assert_eq!(WireRequest::parse(&call), Ok(expected));
        }
    }
}
