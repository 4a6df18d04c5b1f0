//! Bounded waits, and names that no other test uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine: it only ends a hang.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Returns a domain of its own.
pub fn domain() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers need only differ.
    format!("languages-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Polls until a condition holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        // The interval between polls of a condition without a wake-up; no result depends on its
        // length.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the names and states of a process's threads.
pub fn threads(process: u32) -> Vec<(String, char)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    // The name in parentheses may contain any character; the state follows the last one.
    let parts = stats.filter_map(|stat| {
        let (before, after) = stat.rsplit_once(") ")?;
        Some((before.split_once('(')?.1.to_string(), after.chars().next()?))
    });
    parts.collect()
}

/// Waits until a process's first thread sleeps.
pub fn await_asleep(process: u32) {
    let path = format!("/proc/{process}/stat");
    let mut looks = 0;
    await_that("the process sleeps", || {
        let stat = std::fs::read_to_string(&path).unwrap();
        let is_asleep = stat.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('S'));
        looks = if is_asleep { looks + 1 } else { 0 };
        looks >= 5
    });
}
