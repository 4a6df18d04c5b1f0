//! The chain of nested calls that the code of this thread runs in: which servers wait for it, and until when.

use std::cell::RefCell;
use std::time::Instant;

use super::wire::{ChainBytes, ChainLink, LINK_BYTES};

#[derive(Default)]
struct Here {
    /// Links as they are sent; those of the call being handled begin at `start`.
    links: Vec<u8>,
    start: usize,
    until: Option<Instant>,
}

thread_local! {
    static HERE: RefCell<Here> = RefCell::default();
}

/// While it is there, calls made by this thread are nested in one that is being handled.
pub(super) struct Entered {
    links: usize,
    start: usize,
    until: Option<Instant>,
}

/// Begins to handle a call.
pub(super) fn enter(chain: ChainBytes<'_>, own: ChainLink, until: Option<Instant>) -> Entered {
    HERE.with_borrow_mut(|here| {
        let before = Entered { links: here.links.len(), start: here.start, until: here.until };
        here.start = before.links;
        here.until = until;
        here.links.extend_from_slice(chain.0);
        here.links.extend_from_slice(&own.to_bytes());
        before
    })
}

impl Drop for Entered {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|here| {
            here.links.truncate(self.links);
            (here.start, here.until) = (self.start, self.until);
        });
    }
}

/// What a call made now is nested in.
pub(super) fn with<R>(look: impl FnOnce(ChainBytes<'_>) -> R) -> R {
    HERE.with_borrow(|here| look(ChainBytes(&here.links[here.start..])))
}

/// Until when what a call made now is nested in is waited for, if that is known.
pub(super) fn until() -> Option<Instant> {
    HERE.with_borrow(|here| here.until)
}

/// How many links a chain has.
pub(super) fn length(chain: ChainBytes<'_>) -> usize {
    chain.0.len() / LINK_BYTES
}

/// Whether a server would never answer a call from this chain: all that it can work on at once waits in it.
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
        assert_eq!(with(|chain| length(chain)), 0);
        let outer = enter(ChainBytes(&link(7).to_bytes()), link(8), None);
        assert!(with(|chain| chain.links().eq([link(7), link(8)])));
        {
            let _inner = enter(ChainBytes(&[]), link(9), None);
            assert!(with(|chain| chain.links().eq([link(9)])));
        }
        assert_eq!(with(|chain| length(chain)), 2);
        drop(outer);
        assert_eq!(with(|chain| length(chain)), 0);
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
