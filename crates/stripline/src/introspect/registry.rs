//! The live ports of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::service::Service;
use super::types::{Process, ReceivingPort, SendingPort};
use crate::sys::fork::PerProcess;

/// A sending port that another thread can inspect.
pub(crate) trait Sending: Send + Sync {
    /// Returns a snapshot of the port. Must neither wait nor panic.
    fn look(&self) -> SendingPort;
}

/// A receiving port that another thread can inspect.
pub(crate) trait Receiving: Send + Sync {
    /// Returns a snapshot of the port. Must neither wait nor panic.
    fn look(&self) -> ReceivingPort;
}

#[derive(Clone)]
enum Entry {
    Sending(Weak<dyn Sending>),
    Receiving(Weak<dyn Receiving>),
}

static STATE: PerProcess<Mutex<State>> = PerProcess::new(Mutex::default);

#[derive(Default)]
struct State {
    ports: Vec<Entry>,
    /// The inspection service; present while there are ports.
    service: Option<Service>,
    /// Whether the service could not be started, which is reported once.
    failed: bool,
    waveform: Option<String>,
}

/// A registry guard, part of every registered port. When the last one is dropped the service ends,
/// so that no thread and no socket stays behind.
pub(crate) struct Shown;

impl Drop for Shown {
    fn drop(&mut self) {
        let mut state = state();
        state.tidy();
        if state.ports.is_empty() {
            state.service = None;
        }
    }
}

/// Registers a sending port, which has a [`Shown`], for as long as its owner keeps it.
pub(crate) fn show_sending<P: Sending + 'static>(port: &Arc<P>) {
    let port: Weak<P> = Arc::downgrade(port);
    show(Entry::Sending(port));
}

/// Registers a receiving port, which has a [`Shown`], for as long as its owner keeps it.
pub(crate) fn show_receiving<P: Receiving + 'static>(port: &Arc<P>) {
    let port: Weak<P> = Arc::downgrade(port);
    show(Entry::Receiving(port));
}

fn show(entry: Entry) {
    let mut state = state();
    state.tidy();
    state.ports.push(entry);
    if state.service.is_none() && !state.failed {
        match Service::start() {
            Ok(service) => state.service = Some(service),
            // A process without the service works as well, but `stripline ps` does not list it.
            Err(error) => {
                state.failed = true;
                crate::sys::complain!("stripline: `stripline ps` will not show this process: {error}");
            }
        }
    }
}

impl State {
    fn tidy(&mut self) {
        // A port that is being dropped, as by `Shown`, does not count.
        self.ports.retain(|entry| match entry {
            Entry::Sending(port) => port.strong_count() > 0,
            Entry::Receiving(port) => port.strong_count() > 0,
        });
    }
}

/// Records that this process runs components of that waveform.
pub(crate) fn belong_to(waveform: &str) {
    // A process never has components of two waveforms.
    state().waveform.get_or_insert_with(|| waveform.into());
}

/// Takes a snapshot of all ports.
pub(super) fn look() -> Process {
    // Copied, and used without the lock: ports open and close meanwhile.
    let (entries, waveform) = {
        let state = state();
        (state.ports.clone(), state.waveform.clone())
    };
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Sending(port) => sending.extend(port.upgrade().map(|port| port.look())),
            Entry::Receiving(port) => receiving.extend(port.upgrade().map(|port| port.look())),
        }
    }
    Process { version: super::client::VERSION, waveform, sending, receiving, ..Process::default() }
}

fn state() -> MutexGuard<'static, State> {
    // Entries are consistent even if the last holder panicked.
    STATE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
