//! What the launcher knows of one connection.

use crate::link::{ConnectionReport, ReportWithTimes};

/// One connection's state.
pub(super) struct Link {
    /// Packets that all incarnations of the sender have sent; `None`: one died without saying.
    pub sent: Option<u64>,
    /// The receiver was told to connect.
    pub ordered: bool,
    pub connected: bool,
    /// Failures in a row to connect.
    pub attempts: u32,
    /// What earlier incarnations of the receiver measured.
    before: ReportWithTimes,
    /// What the present one has counted so far.
    pub counters: ConnectionReport,
    /// What it measured, once it has ended.
    pub last: Option<ReportWithTimes>,
    /// Figures of a receiver that died are missing.
    pub partial: bool,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            sent: Some(0),
            ordered: false,
            connected: false,
            attempts: 0,
            before: ReportWithTimes::default(),
            counters: ConnectionReport::default(),
            last: None,
            partial: false,
        }
    }

    /// Everything that all incarnations of the receiver have counted.
    pub(super) fn total(&self) -> ReportWithTimes {
        let mut total = self.before.clone();
        match &self.last {
            Some(last) => total.add(last),
            None => total.add(&ReportWithTimes { counters: self.counters.clone(), ..Default::default() }),
        }
        total
    }

    /// The receiver's incarnation is over.
    pub(super) fn settle(&mut self) {
        self.partial |= self.last.is_none();
        self.before = self.total();
        self.counters = ConnectionReport::default();
        self.last = None;
    }
}
