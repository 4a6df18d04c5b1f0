//! A memory barrier on all processors at once, run by who goes to sleep so that who sends need not run one with
//! every packet (Linux `membarrier`, 4.16 or later).

use stripline_ring::Fence;

use crate::link::WaitStrategy;

use super::fork::PerProcess;

/// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, from `linux/membarrier.h`.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
/// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED`.
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Whether this process takes part: it can run barriers, and those that others run work on its threads.
pub(crate) fn is_supported() -> bool {
    // The kernel keeps this with the memory of a process, so a child says it for itself.
    static SUPPORTED: PerProcess<bool> =
        PerProcess::new(|| membarrier(REGISTER_GLOBAL_EXPEDITED) && membarrier(GLOBAL_EXPEDITED));
    *SUPPORTED.get()
}

/// Whether one who waits like this runs it. Who sleeps at every turn does not: its barriers, which interrupt the
/// other processors, would cost more than the fences that they save.
pub(crate) fn is_run_by(wait: WaitStrategy) -> bool {
    wait != WaitStrategy::Block && is_supported()
}

/// The barrier of one who goes to sleep: a full one here and, if it is one who `runs_it`, on every processor that runs
/// a process that takes part.
pub(crate) fn before_sleep(runs_it: bool) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if runs_it {
        // It cannot fail where it has worked before; if it did, the peer would be woken late, by the next packet.
        membarrier(GLOBAL_EXPEDITED);
    }
}

/// What one side may leave out, given whether the other runs the barrier.
pub(crate) fn fence(peer_takes_part: bool) -> Fence {
    if peer_takes_part && is_supported() { Fence::Compiler } else { Fence::Full }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: a system call with three numbers and no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_peer_the_fence_stays() {
        assert_eq!(fence(false), Fence::Full);
        assert_eq!(fence(true) == Fence::Compiler, is_supported());
        before_sleep(is_supported());
        assert!(!is_run_by(WaitStrategy::Block));
    }
}
