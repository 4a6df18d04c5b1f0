//! The inspection view of a receiving port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::ConnectionOptions;
use crate::introspect::{self, Connection, Receiving, ReceivingPort, Shown};
use crate::transport::QueueProbe;

/// The port as inspection shows it.
pub(super) struct Sign {
    port: String,
    sleeping: AtomicBool,
    serves: AtomicBool,
    lines: Mutex<Vec<Line>>,
    _shown: Shown,
}

/// One of its connections.
pub(super) struct Line {
    pub name: String,
    pub terms: ConnectionOptions,
    pub open: Arc<AtomicBool>,
    pub depot: Option<Weak<dyn QueueProbe>>,
}

impl Sign {
    pub(super) fn hang(port: &str) -> Arc<Self> {
        let sign = Arc::new(Self {
            port: port.into(),
            sleeping: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            lines: Mutex::default(),
            _shown: Shown,
        });
        introspect::show_receiving(&sign);
        sign
    }

    /// Replaces the list of connections.
    pub(super) fn list(&self, lines: Vec<Line>) {
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// Marks the port as one that takes calls.
    pub(super) fn set_serving(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    /// Records whether the port sleeps; called before and after each sleep.
    pub(super) fn set_sleeping(&self, sleeping: bool) {
        // Relaxed: information for inspection only, next to a system call.
        self.sleeping.store(sleeping, Ordering::Relaxed);
    }
}

impl Receiving for Sign {
    fn look(&self) -> ReceivingPort {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = lines.iter().map(Line::look).collect();
        let sleeps = self.sleeping.load(Ordering::Relaxed);
        let serves = self.serves.load(Ordering::Relaxed);
        ReceivingPort { name: self.port.clone(), sleeps, serves, connections }
    }
}

impl Line {
    fn look(&self) -> Connection {
        let counters = self.terms.stats.counters(&self.name);
        Connection {
            connection: counters.connection,
            overflow: self.terms.overflow.to_string(),
            depth: self.terms.depth,
            wait: self.terms.wait.to_string(),
            open: self.open.load(Ordering::Relaxed),
            packets: counters.packets,
            bytes: counters.bytes,
            lost: counters.lost,
            gaps: counters.gaps,
            reordered: counters.reordered,
            peer_deaths: counters.peer_deaths,
            queued: self.depot.as_ref().and_then(Weak::upgrade).map(|depot| depot.packets() as u64),
        }
    }
}
