//! The figures of a waveform at one moment, from the launcher, the ports and the kernel.

use std::collections::BTreeMap;
use std::time::Instant;

use stripline::inspect;
use stripline_waveform::control::{
    ControlClient, ControlError, PropertyReading, RunningComponent, RunningWaveform,
};

use crate::running::{Busy, Connection, connections_within};

/// All figures that are read at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub time: Instant,
    pub waveform: RunningWaveform,
    pub connections: Vec<Connection>,
    pub properties: Vec<PropertyReading>,
    /// The processor time so far, by component.
    pub busy: BTreeMap<String, Busy>,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// The launcher does not answer, or the system's lists cannot be read.
    pub fn take(client: &ControlClient) -> Result<Self, ControlError> {
        let waveform = client.show()?;
        let properties = client.get(None, None)?;
        let overview = inspect::processes()?;
        let time = Instant::now();
        let busy = |component: &RunningComponent| {
            Some((component.name.clone(), Busy::of(component, &waveform.components)?))
        };
        let busy = waveform.components.iter().filter_map(busy).collect();
        let mut connections = connections_within(&overview, &[client.pid()]);
        // A connection without a receiver has no figures.
        connections.retain(|connection| connection.has_receiver);
        Ok(Self { time, waveform, connections, properties, busy })
    }
}
