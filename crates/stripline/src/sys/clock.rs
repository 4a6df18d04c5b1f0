//! The single clock for every stamp on a host.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the identity of this clock: a hash of the system's start and of the time namespace.
/// Stamps of clocks with different identities are not comparable. `None`: the system does not show
/// it.
pub(crate) fn identity() -> Option<u64> {
    static IDENTITY: OnceLock<Option<u64>> = OnceLock::new();
    *IDENTITY.get_or_init(|| {
        let start = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        // A kernel without time namespaces has no such link.
        let namespace = std::fs::read_link("/proc/self/ns/time").ok();
        // This hasher has fixed keys, so the hash is the same in every process of one version.
        let mut hasher = DefaultHasher::new();
        (start, namespace).hash(&mut hasher);
        Some(hasher.finish())
    })
}

/// Returns the host's UTC in nanoseconds since the Unix epoch. The system may set this clock.
pub(crate) fn utc_ns() -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec.saturating_mul(1_000_000_000).saturating_add(tv_nsec)
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds: the same for every process of the host. A reading
/// takes about 20 ns.
pub(crate) fn now_ns() -> u64 {
    // The clock starts at boot, so neither part is negative.
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}
