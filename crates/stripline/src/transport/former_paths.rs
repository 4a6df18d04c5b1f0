//! The paths that a port has left by moves, and the positions at which receivers have stopped on
//! them. A receiver dies on all its paths at once. The successor connects to the present path. The
//! successor's gap begins where the dead receiver had stopped on the oldest path with unread
//! packets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::PortPosition;
use crate::sys::mutex::lock;

/// The most connections with positions that are kept after their receivers left.
pub(super) const DEPARTED_MAX: usize = 1024;

/// The place where a receiver has stopped on one path, as far as the sender can determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    /// The first packet that the receiver has not taken.
    pub at: PortPosition,
    /// The position at which a successor continues, if the receiver has taken nothing on this path
    /// and so has reported no gap.
    pub start: Option<PortPosition>,
}

/// The receivers of a path that are gone without a goodbye. Any thread may ask for them.
pub(crate) trait Departures: Send + Sync {
    /// Takes the receivers that are gone, or the receiver of one connection.
    fn take(&self, connection: Option<&str>) -> Vec<(String, Departed)>;
}

/// The paths that a port has left, for the threads that accept receivers on the present path.
///
/// The lock of the list comes before the locks of outlets and of the records of receivers.
#[derive(Default)]
pub struct FormerPaths(Mutex<FormerState>);

#[derive(Default)]
struct FormerState {
    /// The paths, the oldest first.
    paths: Vec<KnownPath>,
    last_token: u64,
    /// For each connection, the position at which the receiver has stopped on closed paths.
    stopped: HashMap<String, Stopped>,
}

struct KnownPath {
    token: u64,
    departures: Arc<dyn Departures>,
    /// The number of the first packet over the next path.
    end: u64,
}

/// The place where a dead receiver has stopped on the paths that its port has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    position: PortPosition,
    /// Whether packets of this path are missing.
    is_behind: bool,
}

impl Stopped {
    /// Returns the position at which a successor continues. `own`: the predecessor on the path that
    /// the successor connects to.
    pub(super) fn or_on(left: Option<Self>, own: Option<Departed>) -> Option<PortPosition> {
        match (left, own) {
            (Some(Self { position, is_behind: true }), _) => Some(position),
            (_, Some(Departed { at, start: None })) => Some(at),
            (Some(Self { position, .. }), _) => Some(position),
            (None, Some(Departed { start, .. })) => start,
            (None, None) => None,
        }
    }
}

impl FormerPaths {
    /// Adds a path, and returns the token that closes the path. `end`: the number of the first
    /// packet over the next path.
    pub(super) fn add(&self, departures: Option<Arc<dyn Departures>>, end: u64) -> u64 {
        let mut state = lock(&self.0);
        state.last_token += 1;
        let token = state.last_token;
        if let Some(departures) = departures {
            state.paths.push(KnownPath { token, departures, end });
        }
        token
    }

    /// Takes the position at which the predecessor of a receiver of `connection` has stopped. The
    /// method is called when the receiver is accepted, so that a further path of the receiver gets
    /// no position.
    pub(super) fn take(&self, connection: &str) -> Option<Stopped> {
        let mut state = lock(&self.0);
        let FormerState { paths, stopped, .. } = &mut *state;
        let mut found = stopped.remove(connection);
        for path in paths {
            path.departures.take(Some(connection)).iter().for_each(|(_, on)| path.add(&mut found, on));
        }
        found
    }

    /// Closes a path, and keeps the positions at which the path's receivers have stopped.
    pub(super) fn close(&self, token: u64) {
        let mut state = lock(&self.0);
        let Some(index) = state.paths.iter().position(|path| path.token == token) else { return };
        let path = state.paths.remove(index);
        for (connection, departed) in path.departures.take(None) {
            let mut found = state.stopped.get(&connection).copied();
            path.add(&mut found, &departed);
            if let Some(found) = found
                && (state.stopped.len() < DEPARTED_MAX || state.stopped.contains_key(&connection))
            {
                state.stopped.insert(connection, found);
            }
        }
    }
}

impl KnownPath {
    /// Adds a receiver's place on this path to the places on older paths.
    fn add(&self, found: &mut Option<Stopped>, departed: &Departed) {
        if found.is_some_and(|older| older.is_behind) {
            return;
        }
        let Departed { at, start } = *departed;
        let position = start.map_or(at, |start| found.map_or(start, |older| older.position));
        *found = Some(Stopped { position, is_behind: at.sequence < self.end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known(Mutex<Vec<(String, Departed)>>);

    impl Departures for Known {
        fn take(&self, connection: Option<&str>) -> Vec<(String, Departed)> {
            let mut known = lock(&self.0);
            let is_wanted = |of: &String| connection.is_none_or(|wanted| wanted == of);
            known.extract_if(.., |(of, _)| is_wanted(of)).collect()
        }
    }

    fn at(sequence: u64) -> PortPosition {
        PortPosition { sequence, sample: None }
    }

    /// Returns a receiver that has taken the packets before `sequence`.
    fn taken(sequence: u64) -> Departed {
        Departed { at: at(sequence), start: None }
    }

    /// Returns a receiver that has taken nothing.
    fn nothing(sequence: u64, start: u64) -> Departed {
        Departed { at: at(sequence), start: Some(at(start)) }
    }

    /// Returns paths with these ends, and with the positions at which receivers have stopped on
    /// each.
    fn left(paths: &[(u64, &[(&str, Departed)])]) -> FormerPaths {
        let left = FormerPaths::default();
        for (token, (end, stopped)) in (1..).zip(paths) {
            let stopped = stopped.iter().map(|(of, departed)| ((*of).into(), *departed)).collect();
            let departures = Arc::new(Known(Mutex::new(stopped)));
            lock(&left.0).paths.push(KnownPath { token, departures, end: *end });
        }
        left
    }

    #[test]
    fn the_oldest_path_that_was_not_finished_counts() {
        let paths: [(u64, &[(&str, Departed)]); 2] = [
            (10, &[("a", taken(4)), ("b", taken(10)), ("c", nothing(10, 3))]),
            (20, &[("a", nothing(10, 10)), ("b", taken(12)), ("c", nothing(10, 10))]),
        ];
        for closed in 0..=2 {
            let left = left(&paths);
            (1..=closed).for_each(|token| left.close(token));
            let resume = |connection, own| Stopped::or_on(left.take(connection), own);
            assert_eq!(resume("a", Some(nothing(20, 20))), Some(at(4)), "{closed}");
            assert_eq!(resume("b", None), Some(at(12)), "{closed}");
            assert_eq!(resume("c", None), Some(at(3)), "{closed}: the gap was not reported");
            assert_eq!(resume("a", Some(taken(25))), Some(at(25)), "{closed}: it was taken");
            assert_eq!(resume("d", None), None);
        }
    }

    #[test]
    fn a_path_that_was_finished_counts_where_nothing_was_taken_later() {
        for (finished, position) in [(taken(10), 10), (nothing(10, 3), 3)] {
            let resume = |own| Stopped::or_on(left(&[(10, &[("a", finished)])]).take("a"), own);
            assert_eq!(resume(None), Some(at(position)));
            assert_eq!(resume(Some(nothing(10, 10))), Some(at(position)));
            assert_eq!(resume(Some(taken(11))), Some(at(11)));
        }
    }
}
