//! The launcher's state of one connection.

use crate::link::{ConnectionReport, ReportWithTimes};

/// One connection's state.
pub(super) struct Link {
    /// Packets sent by all incarnations of the sender; `None`: one died without a report.
    pub sent: Option<u64>,
    /// The receiver was commanded to connect.
    pub ordered: bool,
    pub connected: bool,
    /// Failures in a row to connect.
    pub attempts: u32,
    /// The measurements of earlier incarnations of the receiver.
    before: ReportWithTimes,
    /// The counters of the present one so far.
    pub counters: ConnectionReport,
    /// Its measurements, once it has ended.
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

    /// Returns the sum over all incarnations of the receiver.
    pub(super) fn total(&self) -> ReportWithTimes {
        let mut total = self.before.clone();
        match &self.last {
            Some(last) => total.add(last),
            None => total.add(&ReportWithTimes { counters: self.counters.clone(), ..Default::default() }),
        }
        total
    }

    /// Adds the figures of the receiver's incarnation, which is over, to the earlier ones.
    pub(super) fn settle(&mut self) {
        self.partial |= self.last.is_none();
        self.before = self.total();
        self.counters = ConnectionReport::default();
        self.last = None;
    }
}
