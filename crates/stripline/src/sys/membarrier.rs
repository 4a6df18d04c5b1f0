//! A memory barrier on all processors at once (Linux `membarrier`, 4.16 or later). The side that
//! goes to sleep runs the barrier, so that the sending side needs no fence per packet.

use stripline_ring::Fence;

use crate::terms::WaitStrategy;

use super::fork::PerProcess;

/// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, from `linux/membarrier.h`.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
/// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED`.
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Returns whether this process is registered: it can run barriers, and barriers of other processes
/// work on its threads.
pub fn is_supported() -> bool {
    // The kernel keeps the registration with the memory of a process, so a child registers again.
    static SUPPORTED: PerProcess<bool> =
        PerProcess::new(|| membarrier(REGISTER_GLOBAL_EXPEDITED) && membarrier(GLOBAL_EXPEDITED));
    *SUPPORTED.get()
}

/// Returns whether a port with this wait strategy runs the barrier. A port that sleeps at every
/// wait does not: its barriers, which interrupt the other processors, would cost more than the
/// fences that they save.
pub fn is_used_with(wait: WaitStrategy) -> bool {
    wait != WaitStrategy::Block && is_supported()
}

/// Runs the barrier before a sleep: a full fence here. If `runs_it` is set, it also acts on every
/// processor that runs a registered process.
pub fn fence_before_sleep(runs_it: bool) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if runs_it {
        // The call cannot fail if it has worked before. If it did, the next packet would wake the
        // peer, late.
        membarrier(GLOBAL_EXPEDITED);
    }
}

/// Returns the fence that one side still needs, given whether the other runs the barrier.
pub fn publish_fence(peer_takes_part: bool) -> Fence {
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
        assert_eq!(publish_fence(false), Fence::Full);
        assert_eq!(publish_fence(true) == Fence::Compiler, is_supported());
        fence_before_sleep(is_supported());
        assert!(!is_used_with(WaitStrategy::Block));
    }
}
