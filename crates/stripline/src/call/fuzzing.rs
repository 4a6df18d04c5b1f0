//! The parsers of a peer's messages, for the fuzz targets.

use super::pending::{PendingCalls, ReplyOutcome};
use super::wire::{WireReply, WireRequest};

/// Returns the payload of a valid request, or a description of the violation.
pub(crate) fn request(bytes: &[u8]) -> Result<&[u8], String> {
    match WireRequest::parse(bytes)? {
        WireRequest::Call { payload, chain, .. } => {
            // Checks that every link can be read.
            let _ = chain.links().count();
            Ok(payload)
        }
        WireRequest::Cancel { .. } => Ok(&[]),
    }
}

/// Returns whether a client with `outstanding` calls takes these bytes for a reply to one of them.
/// The error describes the violation.
pub(crate) fn reply(bytes: &[u8], outstanding: u32) -> Result<bool, String> {
    let table = PendingCalls::new(outstanding);
    let mut hint = 0;
    let numbers: Vec<u64> = std::iter::from_fn(|| table.allocate(&mut hint)).collect();
    let reply = WireReply::parse(bytes)?;
    let is_delivered = table.deliver(&reply) == ReplyOutcome::Stored;
    if is_delivered != numbers.contains(&reply.number) {
        return Err("was taken for a reply to another call".into());
    }
    let mut is_same = None;
    let _ = table.take(reply.number, &mut |taken| is_same = Some(taken.payload == reply.payload));
    match is_same {
        Some(is_same) if is_delivered => is_same.then_some(true).ok_or("was changed".into()),
        _ if is_delivered => Err("was lost".into()),
        _ => Ok(false),
    }
}
