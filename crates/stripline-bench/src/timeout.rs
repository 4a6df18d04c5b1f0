//! The wait of one side of a link for the other.

use std::time::{Duration, Instant};

/// The longest wait of a side for the others.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between two checks.
const GLANCE: Duration = Duration::from_micros(100);

/// Waits until the condition holds. If it does not hold in time, returns the problem.
pub(crate) fn wait_until<E: for<'p> From<&'p str>>(
    problem: &str,
    mut holds: impl FnMut() -> Result<bool, E>,
) -> Result<(), E> {
    let end = Instant::now() + TIMEOUT;
    while !holds()? {
        if Instant::now() > end {
            return Err(problem.into());
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}
