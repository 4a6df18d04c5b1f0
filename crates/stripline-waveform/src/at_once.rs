//! Runs a function on several items in parallel.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::{Builder, scope};

/// Runs a function on each item in a thread per item, and returns the results in the order of the
/// items. If a thread cannot start, the calling thread does the work of that thread, after the
/// others have started. A panic in a thread is resumed in the caller.
pub fn at_once<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let items: Vec<Mutex<Option<I>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let work_on = |item: &Mutex<Option<I>>| {
        let item = item.lock().ok().and_then(|mut item| item.take());
        item.map(&work)
    };
    scope(|scope| {
        let start = |item| Builder::new().spawn_scoped(scope, move || work_on(item));
        let threads: Vec<_> = items.iter().map(|item| (item, start(item))).collect();
        let mut results = Vec::new();
        for (item, thread) in threads {
            results.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => work_on(item),
            });
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let squares = at_once((0..100u64).collect(), |item| item * item);
        assert_eq!(squares, (0..100).map(|item| item * item).collect::<Vec<_>>());
    }
}
