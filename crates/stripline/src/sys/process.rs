//! Processes and threads: death with the parent, real-time priority, processor affinity.

use std::fs::File;
use std::io::Read;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::CpuSet;

use crate::error::{Error, Result};

/// Makes the kernel kill this process when the parent dies, as the backstop for a launcher that is
/// killed. In a process that is already an orphan, it fails.
///
/// # Errors
/// The parent is no longer `parent`.
pub(crate) fn die_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Error::system("cannot ask to die with the launcher", e))?;
    // The parent may have died before the line above took effect.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) { Ok(()) } else { Err(Error::of_system("the launcher is gone")) }
}

/// Removes variables from the environment of this process. The variables stay if the program has
/// already started threads, which might read the environment at the same time.
pub(crate) fn remove_variables(names: &[&str]) {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        // SAFETY: the calling thread is the only one, so no other reads the environment.
        names.iter().for_each(|name| unsafe { std::env::remove_var(name) });
    }
}

/// Sets the calling thread's real-time priority (`SCHED_FIFO`).
pub(crate) fn set_priority(priority: u8) -> Result<()> {
    schedule(libc::SCHED_FIFO, i32::from(priority))
        .map_err(|e| Error::system(format!("cannot set real-time priority {priority}"), e))
}

/// Sets the calling thread's policy and priority by the system call: musl's function of the same
/// name only fails, and musl's structure has more fields than the kernel's.
fn schedule(policy: i32, priority: i32) -> std::io::Result<()> {
    /// The kernel's `struct sched_param`.
    #[repr(C)]
    struct Parameters {
        sched_priority: i32,
    }
    let parameters = Parameters { sched_priority: priority };
    // SAFETY: a valid structure that lives across the call; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Removes a real-time priority that the calling thread has inherited from the parent. A failure is
/// ignored: keeping the priority is harmless.
pub fn clear_priority() {
    let _ = schedule(libc::SCHED_OTHER, 0);
}

/// Restricts the calling thread, and the threads it starts, to these processors.
pub(crate) fn set_affinity(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(Error::of_system(format!("there is no processor {cpu}")));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None::<Pid>, &set)
        .map_err(|e| Error::system(format!("cannot run on processor(s) {cpus:?}"), e))
}

/// Prepares a process of the command or of components for the limits of the system. The soft limit
/// of open files is raised to the hard one, as the low default is meant for programs that use
/// `select`. Other limits stay: a lower soft limit is deliberate.
///
/// A write to a file at the size limit fails with an error. Without this setting, `SIGXFSZ` would
/// end the process. Started programs inherit the setting.
///
/// # Errors
/// The address space has less room than 64 MiB. Without this check, an allocation would fail later
/// and abort.
pub fn prepare_for_limits() -> Result<()> {
    /// Room for the stacks and allocations of a launcher's threads.
    const ROOM_BYTES: usize = 64 << 20;
    /// The limit that systemd sets. Some programs close all descriptors up to their limit.
    const DESCRIPTORS_MAX: u64 = 1 << 19;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    if current.is_some_and(|current| current < wanted) {
        // On a failure, the limit stays, and the call that reaches it returns an error.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    // SAFETY: `SIG_IGN` is not a function, so no handler can run inside another function.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // Otherwise each thread would reserve 64 MiB for a separate heap, which would leave no room for
    // stacks.
    #[cfg(target_env = "gnu")]
    if getrlimit(Resource::As).current.is_some() {
        // SAFETY: the call sets a number, and takes no pointer.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
    let reserved = Vec::<u8>::new().try_reserve_exact(ROOM_BYTES);
    reserved.map_err(|_| {
        Error::system("cannot start without room for 64 MiB of memory", rustix::io::Errno::NOMEM)
    })
}

/// Returns the given signals, except those ignored by this process. A program that is started with
/// a signal ignored, as by `nohup` or in the background of a shell, should keep ignoring it.
pub fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored_signals(&status);
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Returns the set of ignored signals in a `status` file: bit 0 stands for signal 1. Without such a
/// line, the set is empty.
fn ignored_signals(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the state of a process, as one letter, and the parent.
pub fn state_and_parent(pid: u32) -> (Option<char>, Option<u32>) {
    let stat = stat_behind_command(pid);
    let mut words = stat.split_ascii_whitespace();
    (words.next().and_then(|word| word.chars().next()), words.next().and_then(|word| word.parse().ok()))
}

/// Returns the time at which the process was started, in the kernel's ticks; `None`: it has ended.
pub fn start_time(pid: u32) -> Option<u64> {
    // The 22nd field of `proc_pid_stat(5)`. A process that has ended but was not waited for counts
    // as ended.
    let stat = stat_behind_command(pid);
    let mut words = stat.split_ascii_whitespace();
    let state = words.next()?;
    (state != "Z").then(|| words.nth(18))??.parse().ok()
}

/// Returns the fields of the process's `stat` file, beginning with the state.
fn stat_behind_command(pid: u32) -> String {
    // A single read returns the whole file. `std::fs::read` needs six, as the file has no length.
    let mut stat = [0; 1024];
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut stat));
    let stat = String::from_utf8_lossy(&stat[..read.unwrap_or(0)]);
    // The command before the state may contain any characters, including brackets.
    stat.rsplit(')').next().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_found() {
        let status = "SigBlk:\tffff\nSigIgn:\t0000000000001001\nSigCgt:\tffff\n";
        assert_eq!(ignored_signals(status), 1 | 1 << 12);
        assert_eq!(ignored_signals(""), 0);
        // The runtime ignores SIGPIPE, and no program SIGSEGV.
        assert_eq!(not_ignored(&[libc::SIGPIPE, libc::SIGSEGV]), [libc::SIGSEGV]);
    }
}
