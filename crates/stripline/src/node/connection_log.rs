//! The connection log of a node's subscribers, of bounded size.

use std::sync::Arc;

use crate::link::{ConnectionReport, ConnectionStats};

/// The counters of the open connections and of the last ended connections, and the sums of all
/// others.
#[derive(Default)]
pub(super) struct ConnectionLog {
    /// In the order in which the connections were opened.
    listed: Vec<(String, Arc<ConnectionStats>)>,
    unlisted: u64,
    sums: ConnectionReport,
}

impl ConnectionLog {
    /// The most ended connections that are listed.
    pub const ENDED_MAX: usize = 256;

    /// Adds a new connection.
    pub(super) fn open(&mut self, name: &str, stats: &Arc<ConnectionStats>) {
        self.listed.push((name.into(), Arc::clone(stats)));
        // A connection has ended when no other owner of the counters is left that could still
        // count.
        let has_ended = |stats: &Arc<ConnectionStats>| Arc::strong_count(stats) == 1;
        let ended = self.listed.iter().filter(|(_, stats)| has_ended(stats)).count();
        let mut surplus = ended.saturating_sub(Self::ENDED_MAX);
        self.listed.retain(|(name, stats)| {
            if surplus == 0 || !has_ended(stats) {
                return true;
            }
            surplus -= 1;
            self.unlisted += 1;
            self.sums.add(&stats.counters(name));
            false
        });
    }

    pub(super) fn listed(&self) -> Vec<ConnectionReport> {
        self.listed.iter().map(|(name, stats)| stats.counters(name)).collect()
    }

    pub(super) fn unlisted(&self) -> (u64, ConnectionReport) {
        (self.unlisted, self.sums.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_have_ended_are_summed_up_and_the_living_stay() {
        let mut log = ConnectionLog::default();
        let living = Arc::<ConnectionStats>::default();
        log.open("living", &living);
        for index in 0..ConnectionLog::ENDED_MAX + 10 {
            let stats = Arc::<ConnectionStats>::default();
            log.open(&index.to_string(), &stats);
            stats.packet(index);
        }
        living.packet(5);
        log.open("last", &Arc::default());
        // The eleven connections that ended first are not listed. The last one is alive while it is
        // opened.
        let listed = log.listed();
        assert_eq!(listed.len(), 1 + ConnectionLog::ENDED_MAX + 1);
        assert_eq!((&*listed[0].connection, listed[0].bytes, &*listed[1].connection), ("living", 5, "10"));
        let (count, sums) = log.unlisted();
        assert_eq!((count, sums.packets, sums.bytes), (10, 10, (0..10).sum()));
    }
}
