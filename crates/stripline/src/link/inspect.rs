//! The inspection view of a receiving port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::{ConnectionOptions, PortEvents};
use crate::inspect::{self, Connection, InspectPort, PortSnapshot, ReceivingPort, RegistryGuard};
use crate::sys::mutex::lock;
use crate::sys::wait_clock::WaitClock;
use crate::transport::QueueProbe;

/// The view of a port for inspection.
pub(super) struct ReceivePortView {
    port: String,
    sleep: WaitClock,
    serves: AtomicBool,
    connections: Mutex<Vec<ConnectionView>>,
    events: Weak<PortEvents>,
    _registered: RegistryGuard,
}

/// A connection of the port, for inspection.
pub(super) struct ConnectionView {
    pub name: String,
    pub options: ConnectionOptions,
    pub open: Arc<AtomicBool>,
    pub queue_probe: Option<Weak<dyn QueueProbe>>,
}

impl ReceivePortView {
    pub(super) fn register(port: &str, events: &Arc<PortEvents>) -> Arc<Self> {
        let view = Arc::new(Self {
            port: port.into(),
            sleep: WaitClock::default(),
            serves: AtomicBool::new(false),
            connections: Mutex::default(),
            events: Arc::downgrade(events),
            _registered: RegistryGuard,
        });
        inspect::register(&view);
        view
    }

    /// Replaces the list of connections.
    pub(super) fn set_connections(&self, connections: Vec<ConnectionView>) {
        *lock(&self.connections) = connections;
    }

    /// Marks the port as a server of calls.
    pub(super) fn set_serving(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    /// Records whether the port sleeps. Called before and after each sleep.
    pub(super) fn set_sleeping(&self, sleeping: bool) {
        self.sleep.set(sleeping);
    }
}

impl InspectPort for ReceivePortView {
    fn snapshot(&self) -> PortSnapshot {
        let lines = lock(&self.connections);
        let connections = lines.iter().map(ConnectionView::snapshot).collect();
        let (sleeps, slept_ns) = (self.sleep.is_running(), self.sleep.total_ns());
        let serves = self.serves.load(Ordering::Relaxed);
        let refused = self.events.upgrade().map_or(Vec::new(), |events| events.refused());
        let name = self.port.clone();
        PortSnapshot::Receiving(ReceivingPort { name, sleeps, slept_ns, serves, connections, refused })
    }
}

impl ConnectionView {
    fn snapshot(&self) -> Connection {
        let counters = self.options.stats.counters(&self.name);
        let [(latency_samples, latency_sum_ns), (_, queued_sum_ns), (service_samples, service_sum_ns)] =
            self.options.stats.totals();
        Connection {
            connection: counters.connection,
            overflow: self.options.overflow.to_string(),
            depth: self.options.depth,
            wait: self.options.wait.to_string(),
            open: self.open.load(Ordering::Relaxed),
            packets: counters.packets,
            bytes: counters.bytes,
            lost: counters.lost,
            gaps: counters.gaps,
            reordered: counters.reordered,
            peer_deaths: counters.peer_deaths,
            latency_samples,
            latency_sum_ns,
            queued_sum_ns,
            service_samples,
            service_sum_ns,
            queued: self
                .queue_probe
                .as_ref()
                .and_then(Weak::upgrade)
                .map(|queue_probe| queue_probe.packets() as u64),
            latency: self.options.stats.coarse_latency(),
            age: counters.age,
            other_clock: self.options.stats.is_other_clock(),
        }
    }
}
