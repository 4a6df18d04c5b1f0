//! The live ports of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::service::Service;
use super::types::{Process, ReceivingPort, SendingPort};
use crate::sys::fork::PerProcess;

/// A sending port that can be looked at from another thread.
pub(crate) trait Sending: Send + Sync {
    /// What it does now. Must neither wait nor panic.
    fn look(&self) -> SendingPort;
}

/// A receiving port that can be looked at from another thread.
pub(crate) trait Receiving: Send + Sync {
    /// What it does now. Must neither wait nor panic.
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
    /// There as long as there are ports.
    service: Option<Service>,
    /// Whether it could not be started, which is said once.
    failed: bool,
    waveform: Option<String>,
}

/// Part of every port that is shown. With the last of them the service ends: no thread and no socket is left behind.
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

/// Shows a sending port, which has a [`Shown`], for as long as somebody else holds it.
pub(crate) fn show_sending<P: Sending + 'static>(port: &Arc<P>) {
    let port: Weak<P> = Arc::downgrade(port);
    show(Entry::Sending(port));
}

/// Shows a receiving port, which has a [`Shown`], for as long as somebody else holds it.
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
            // A process without one works as well, but unseen.
            Err(error) => {
                state.failed = true;
                crate::sys::complain!("stripline: `stripline ps` will not show this process: {error}");
            }
        }
    }
}

impl State {
    fn tidy(&mut self) {
        // A port that is being dropped, as by `Shown`, does not count any more.
        self.ports.retain(|entry| match entry {
            Entry::Sending(port) => port.strong_count() > 0,
            Entry::Receiving(port) => port.strong_count() > 0,
        });
    }
}

/// Says that this process has components of that waveform.
pub(crate) fn belong_to(waveform: &str) {
    // A process never has those of two.
    state().waveform.get_or_insert_with(|| waveform.into());
}

/// All of them now.
pub(super) fn look() -> Process {
    // Looked at without the lock: ports come and go meanwhile.
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
    // Entries are whole whatever happened to the last holder.
    STATE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
