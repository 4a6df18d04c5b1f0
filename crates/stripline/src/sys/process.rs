//! Processes and threads: death with the parent, real-time priority, processor affinity.

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

use crate::error::{Error, Result};

/// Makes the kernel kill this process when the parent dies, as the backstop for a launcher that is
/// killed. A process that is an orphan already gets the error below.
///
/// # Errors
/// The parent is not `parent` any more.
pub(crate) fn die_with_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Error::system("cannot ask to die with the launcher", e))?;
    // The parent may have died before the line above took effect.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) { Ok(()) } else { Err(Error::failed("the launcher is gone")) }
}

/// Removes variables from the environment of this process. They stay if the program has started
/// threads before, which might read the environment at the same time.
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

/// Sets the calling thread's policy and priority. By the system call: musl's function of the same
/// name only fails, and its structure has more fields than the kernel's.
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

/// Removes a real-time priority that the calling thread inherited from its parent. A failure is
/// ignored: keeping the priority is harmless.
pub fn clear_priority() {
    let _ = schedule(libc::SCHED_OTHER, 0);
}

/// Restricts the calling thread (and those it starts) to these processors.
pub(crate) fn set_affinity(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(Error::failed(format!("there is no processor {cpu}")));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None::<Pid>, &set)
        .map_err(|e| Error::system(format!("cannot run on processor(s) {cpus:?}"), e))
}

/// Returns the process's state, as one letter, and its parent.
pub fn state_and_parent(pid: u32) -> (Option<char>, Option<u32>) {
    let stat = stat_behind_command(pid);
    let mut words = stat.split_ascii_whitespace();
    (words.next().and_then(|word| word.chars().next()), words.next().and_then(|word| word.parse().ok()))
}

/// Returns when the process was started, in the kernel's ticks; `None`: it has ended.
#[cfg(any(feature = "iceoryx2", feature = "corba"))]
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    // The 22nd field of `proc_pid_stat(5)`. One that has ended and was not waited for is dead.
    let stat = stat_behind_command(pid);
    let mut words = stat.split_ascii_whitespace();
    let state = words.next()?;
    (state != "Z").then(|| words.nth(18))??.parse().ok()
}

/// Returns the fields of the process's `stat` from its state on.
fn stat_behind_command(pid: u32) -> String {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    // The command before it may have any characters, brackets too.
    stat.rsplit(')').next().unwrap_or_default().into()
}
