//! The chain of nested calls that the code on this thread runs in: the waiting servers and the
//! deadline.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::sys::clock::now_ns;
use crate::sys::fork::OwnerProcess;

use super::wire::{ChainBytes, ChainLink, LINK_BYTES};

/// The call that this thread handles.
#[derive(Clone, Copy)]
struct HandledCall {
    own: ChainLink,
    until_ns: Option<u64>,
    /// The start in `CHAINS` of the chain that the call arrived with.
    start: usize,
    /// A child that the handler forks handles no call.
    process: OwnerProcess,
}

thread_local! {
    // The handled call is separate from `CHAINS`: most calls have no chain and make no calls, so a
    // check of the handled call costs almost nothing.
    static HANDLED: Cell<Option<HandledCall>> = const { Cell::new(None) };
    /// The chains of the calls being handled, in wire form.
    static CHAINS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A guard. While it exists, calls made by this thread are nested in the call being handled.
pub(super) struct HandledCallGuard {
    outer: Option<HandledCall>,
    /// The number of bytes of `CHAINS` to keep; `None` if none were added.
    before: Option<usize>,
}

/// Marks the start of handling a call.
#[inline]
pub(super) fn enter(chain: ChainBytes<'_>, own: ChainLink, until_ns: Option<u64>) -> HandledCallGuard {
    let outer = HANDLED.get();
    let mut start = 0;
    let before = (outer.is_some() || !chain.0.is_empty()).then(|| {
        CHAINS.with_borrow_mut(|links| {
            start = links.len();
            links.extend_from_slice(chain.0);
            start
        })
    });
    HANDLED.set(Some(HandledCall { own, until_ns, start, process: OwnerProcess::current() }));
    HandledCallGuard { outer, before }
}

impl Drop for HandledCallGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            CHAINS.with_borrow_mut(|links| links.truncate(before));
        }
        HANDLED.set(self.outer);
    }
}

/// Returns the call that this thread handles in this process.
#[inline]
fn handled() -> Option<HandledCall> {
    HANDLED.get().filter(|handled| handled.process.is_current())
}

/// Passes the chain of calls that a call made now would be nested in.
#[inline]
pub(super) fn with<R>(look: impl FnOnce(ChainBytes<'_>) -> R) -> R {
    let Some(handled) = handled() else { return look(ChainBytes(&[])) };
    let mut links = CHAINS.with_borrow(|links| links[handled.start..].to_vec());
    links.extend_from_slice(&handled.own.to_bytes());
    look(ChainBytes(&links))
}

/// Returns the deadline of the enclosing call for a call made now, if there is one.
#[inline]
pub(super) fn until() -> Option<Instant> {
    let until_ns = handled()?.until_ns?;
    // Only a thread that waits reads both clocks.
    Instant::now().checked_add(Duration::from_nanos(until_ns.saturating_sub(now_ns())))
}

/// Returns the number of links in a chain.
pub(super) fn length(chain: ChainBytes<'_>) -> usize {
    chain.0.len() / LINK_BYTES
}

/// Returns whether a server could never answer a call from this chain, because all its threads wait
/// in the chain.
#[inline]
pub(super) fn is_exhausted(chain: ChainBytes<'_>, server: u64) -> bool {
    let mut waiting = chain.links().filter(|link| link.server == server);
    let Some(threads) = waiting.next().map(|link| link.threads as usize) else { return false };
    1 + waiting.count() >= threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_there_while_it_is_handled_and_nests() {
        let link = |server| ChainLink { server, threads: 1 };
        let here = || with(|chain| chain.links().map(|link| link.server).collect::<Vec<_>>());
        assert_eq!(here(), [0u64; 0]);
        let outer = enter(ChainBytes(&link(7).to_bytes()), link(8), None);
        assert_eq!(here(), [7, 8]);
        {
            let _inner = enter(ChainBytes(&[]), link(9), None);
            assert_eq!(here(), [9]);
            let _innermost = enter(ChainBytes(&link(1).to_bytes()), link(2), None);
            assert_eq!(here(), [1, 2]);
        }
        assert_eq!(here(), [7, 8]);
        drop(outer);
        assert_eq!(here(), [0u64; 0]);
    }

    #[test]
    fn a_server_is_exhausted_when_all_its_threads_wait() {
        let link = |server, threads| ChainLink { server, threads }.to_bytes();
        let chain = [link(1, 1), link(2, 2), link(3, 1)].concat();
        let chain = ChainBytes(&chain);
        assert!(is_exhausted(chain, 1) && is_exhausted(chain, 3));
        assert!(!is_exhausted(chain, 2) && !is_exhausted(chain, 4));
        let twice = [link(2, 2), link(2, 2)].concat();
        assert!(is_exhausted(ChainBytes(&twice), 2));
    }
}
