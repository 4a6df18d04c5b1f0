//! What a node remembers of its subscribers' connections, however many there were.

use std::sync::Arc;

use crate::link::{ConnectionReport, ConnectionStats};

/// Counters of the connections there are, of the last that have ended, and the sums of all others.
#[derive(Default)]
pub(super) struct Books {
    /// In the order in which they were made.
    listed: Vec<(String, Arc<ConnectionStats>)>,
    unlisted: u64,
    sums: ConnectionReport,
}

impl Books {
    /// The most that are listed of connections that have ended.
    pub const ENDED_MAX: usize = 256;

    /// A new connection.
    pub(super) fn open(&mut self, name: &str, stats: &Arc<ConnectionStats>) {
        self.listed.push((name.into(), Arc::clone(stats)));
        // Nobody else can count there any more, nor begin to.
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
        let mut books = Books::default();
        let living = Arc::<ConnectionStats>::default();
        books.open("living", &living);
        for index in 0..Books::ENDED_MAX + 10 {
            let stats = Arc::<ConnectionStats>::default();
            books.open(&index.to_string(), &stats);
            stats.packet(index);
        }
        living.packet(5);
        books.open("last", &Arc::default());
        // Of those that ended, the eleven first are not listed; the last one lives while it is opened.
        let listed = books.listed();
        assert_eq!(listed.len(), 1 + Books::ENDED_MAX + 1);
        assert_eq!((&*listed[0].connection, listed[0].bytes, &*listed[1].connection), ("living", 5, "10"));
        let (count, sums) = books.unlisted();
        assert_eq!((count, sums.packets, sums.bytes), (10, 10, (0..10).sum()));
    }
}
