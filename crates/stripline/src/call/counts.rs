//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The counters that all threads of a server share.
#[derive(Default)]
pub(super) struct Counts {
    pub calls: AtomicU64,
    pub refused: AtomicU64,
    pub panicked: AtomicU64,
    pub cancelled: AtomicU64,
    pub evicted: AtomicU64,
    pub replies_dropped: AtomicU64,
}

impl Counts {
    /// Returns the values of the counters, beside the number of clients connected now.
    pub(super) fn read(&self, clients: u64) -> ServerCounts {
        // Relaxed throughout: each counter is exact by itself.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerCounts {
            calls: read(&self.calls),
            refused: read(&self.refused),
            panicked: read(&self.panicked),
            cancelled: read(&self.cancelled),
            evicted: read(&self.evicted),
            replies_dropped: read(&self.replies_dropped),
            clients,
        }
    }
}

/// The counters of a server.
///
/// ```
/// use stripline::call::{ServerCounts, ServerOptions};
///
/// let node = stripline::node::Node::isolated()?;
/// let server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// assert_eq!(server.counts(), ServerCounts::default());
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Calls for which a handler was run.
    pub calls: u64,
    /// Calls that were answered without running a handler.
    pub refused: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Calls that clients cancelled, in time or not.
    pub cancelled: u64,
    /// Clients that were disconnected because of a protocol violation.
    pub evicted: u64,
    /// Replies that the client did not take in time, or that had no client left.
    pub replies_dropped: u64,
    /// The clients connected now.
    pub clients: u64,
}
