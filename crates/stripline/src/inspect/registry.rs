//! The live ports of this process.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::service::InspectService;
use super::topic_rules::TopicRules;
use super::types::{Process, ReceivingPort, SendingPort};
use crate::sys::fork::PerProcess;
use crate::sys::mutex::lock;

/// A port that another thread can inspect.
pub(crate) trait InspectPort: Send + Sync {
    /// Returns a snapshot of the port. Must neither wait nor panic.
    fn snapshot(&self) -> PortSnapshot;
}

/// The state of a port at one moment.
pub(crate) enum PortSnapshot {
    Sending(SendingPort),
    Receiving(ReceivingPort),
}

static STATE: PerProcess<Mutex<RegistryState>> = PerProcess::new(Mutex::default);

#[derive(Default)]
struct RegistryState {
    ports: Vec<Weak<dyn InspectPort>>,
    /// The inspection service, present while there are ports.
    service: Option<InspectService>,
    /// Whether the service could not be started, which is reported once.
    failed: bool,
    waveform: Option<String>,
    rules: Vec<Weak<TopicRules>>,
}

/// A guard that is part of every registered port. When the last guard is dropped, the service ends,
/// so that no thread and no socket stays behind.
pub(crate) struct RegistryGuard;

impl Drop for RegistryGuard {
    fn drop(&mut self) {
        let mut state = state();
        state.tidy();
        if state.ports.is_empty() {
            state.service = None;
        }
    }
}

/// Registers a port for as long as the owner keeps it. The port must have a [`RegistryGuard`].
pub(crate) fn register<P: InspectPort + 'static>(port: &Arc<P>) {
    let port: Weak<P> = Arc::downgrade(port);
    let mut state = state();
    state.tidy();
    state.ports.push(port);
    if state.service.is_none() && !state.failed {
        match InspectService::start() {
            Ok(service) => state.service = Some(service),
            // A process without the service works as well, but `stripline links` does not list it.
            Err(error) => {
                state.failed = true;
                log::error!(target: "stripline::inspect", "`stripline links` will not show this process: {error}");
            }
        }
    }
}

impl RegistryState {
    fn tidy(&mut self) {
        // A port that is being dropped, for example by `RegistryGuard`, does not count.
        self.ports.retain(|port| port.strong_count() > 0);
    }
}

/// Records that this process runs components of the given waveform.
pub(crate) fn set_waveform(waveform: &str) {
    // A process never has components of two waveforms.
    state().waveform.get_or_insert_with(|| waveform.into());
}

/// Shows the rules of a topics file for as long as they are used.
pub(crate) fn register_rules(rules: &Arc<TopicRules>) {
    let mut state = state();
    state.rules.retain(|known| known.strong_count() > 0);
    if !state.rules.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(rules))) {
        state.rules.push(Arc::downgrade(rules));
    }
}

/// Takes a snapshot of all ports.
pub(crate) fn snapshot() -> Process {
    // All three are cloned and used without the lock, because ports open and close in the meantime.
    let (ports, waveform, rules) = {
        let state = state();
        (state.ports.clone(), state.waveform.clone(), state.rules.clone())
    };
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    for port in ports.iter().filter_map(Weak::upgrade) {
        match port.snapshot() {
            PortSnapshot::Sending(port) => sending.push(port),
            PortSnapshot::Receiving(port) => receiving.push(port),
        }
    }
    let topics_files = rules.iter().filter_map(|rules| rules.upgrade()?.view()).collect();
    let version = super::client::VERSION;
    Process { version, waveform, sending, receiving, topics_files, ..Process::default() }
}

fn state() -> MutexGuard<'static, RegistryState> {
    lock(STATE.get())
}
