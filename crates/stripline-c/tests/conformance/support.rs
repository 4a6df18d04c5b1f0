//! Bounded waits, and names that no other test uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine, so it only ends a hang.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Returns a domain that no other test uses.
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
        // The interval between polls of a condition without a wake-up; no result depends on the
        // length.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread of a process, as read from `/proc`.
pub struct Thread {
    pub id: u32,
    /// The name, which the kernel cuts.
    pub name: String,
    state: char,
}

impl Thread {
    fn read(process: u32, id: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/task/{id}/stat")).ok()?;
        // The name in parentheses may contain any character; the state follows the last one.
        let (before, after) = stat.rsplit_once(") ")?;
        let name = before.split_once('(')?.1.to_string();
        Some(Self { id, name, state: after.chars().next()? })
    }
}

/// Returns a process's threads. A thread may be missing while another one ends.
pub fn threads(process: u32) -> Vec<Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Thread::read(process, id)).collect()
}

/// Waits until all threads of a process sleep. A thread may still have to pass a command to the
/// thread that executes it.
pub fn await_asleep(process: u32) {
    await_lasting("the process sleeps", || threads(process).iter().all(|thread| thread.state == 'S'));
}

/// Waits until a thread sleeps, or has ended.
pub fn await_thread_asleep(process: u32, id: u32) {
    await_lasting("the thread sleeps", || Thread::read(process, id).is_none_or(|thread| thread.state == 'S'));
}

/// Waits until a thread has ended.
pub fn await_thread_end(process: u32, id: u32) {
    await_that("the end of the thread", || Thread::read(process, id).is_none());
}

/// Polls until a condition has held several times in a row.
fn await_lasting(what: &str, mut holds: impl FnMut() -> bool) {
    let mut times = 0;
    await_that(what, || {
        times = if holds() { times + 1 } else { 0 };
        times >= 5
    });
}
