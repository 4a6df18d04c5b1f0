//! A tracer of a child process and all of the child's threads, which counts their system calls
//! (`ptrace(2)`).
//!
//! The child marks the parts of the work by a system call without effect. The tracer can hold a
//! thread at such a mark until another thread sleeps, and can remove the time limit from a
//! receiver's wait. So the counts do not depend on timing.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// A part of a thread's work, which begins at a mark, or a condition that the thread waits for
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The calls of the thread are the calls of the sender, which sends a packet next.
    Sender,
    /// The calls of the thread are the calls of the receiver, which takes the next packet.
    Receiver,
    /// The calls of the thread do not count.
    Nothing,
    /// Waits until the receiver has taken all packets, and sleeps.
    ReceiverSleeps,
    /// Waits until all threads of the library sleep. The thread that repairs is held from now on,
    /// because it works by time.
    Settled,
    /// Counting begins.
    Begin,
    /// The thread that sends queued packets is held once it wakes.
    HoldQueue,
    /// The held thread continues.
    ReleaseQueue,
    /// Counting ends, once all threads of the library sleep.
    End,
}

const MARKS: [Mark; 9] = [
    Mark::Sender,
    Mark::Receiver,
    Mark::Nothing,
    Mark::ReceiverSleeps,
    Mark::Settled,
    Mark::Begin,
    Mark::HoldQueue,
    Mark::ReleaseQueue,
    Mark::End,
];
/// The first argument of a mark, which distinguishes it from any other call.
const MAGIC: u64 = 0x5374_7269_706c_696e;
const MARK_CALL: libc::c_long = libc::SYS_getppid;

/// The time limit of a child. Only a hang reaches this limit.
const SECONDS_MAX: u32 = 240;

/// Passes a mark to the tracer.
pub fn mark(mark: Mark) {
    let index = MARKS.iter().position(|other| *other == mark).unwrap();
    // SAFETY: the call ignores the arguments and only returns a number.
    unsafe { libc::syscall(MARK_CALL, MAGIC, index) };
}

/// Stops this thread for the tracer, which is the parent, and has it trace all later threads.
pub fn be_traced() {
    // SAFETY: the arguments are plain numbers, and the last call stops only this thread.
    unsafe {
        libc::alarm(SECONDS_MAX);
        assert_eq!(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), 0);
        let traced = libc::ptrace(libc::PTRACE_TRACEME);
        assert_eq!(traced, 0, "it cannot be traced: {}", std::io::Error::last_os_error());
        libc::raise(libc::SIGSTOP);
    }
}

/// The number of system calls by name.
pub type Calls = BTreeMap<String, usize>;

/// The system calls of a child while it counts, by thread.
#[derive(Debug, Default)]
pub struct Counts {
    pub sender: Calls,
    pub receiver: Calls,
    /// The calls of the library's own threads.
    pub others: Calls,
    /// The names of these threads.
    pub threads: Vec<String>,
}

/// Runs a child and counts. With `counts_polls`, calls of the receiver that found nothing are
/// counted too; a receiver that spins makes any number of such calls. With `has_foreign_threads`, a
/// middleware has its own threads. These threads also work by time, so nothing waits until they
/// sleep.
pub fn trace(command: &mut Command, counts_polls: bool, has_foreign_threads: bool) -> Counts {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut tracer = Tracer {
        process: child.id() as i32,
        child,
        counts_polls,
        has_foreign_threads,
        threads: BTreeMap::new(),
        is_counting: false,
        sent: 0,
        awaited: 0,
        sleeps: false,
        holds_repair: false,
        holds_queue: false,
        counts: Counts::default(),
    };
    while tracer.step() {}
    std::mem::take(&mut tracer.counts)
}

struct Tracer {
    process: i32,
    child: Child,
    counts_polls: bool,
    has_foreign_threads: bool,
    threads: BTreeMap<i32, Thread>,
    is_counting: bool,
    /// The packets of the sender's marks, and the packets that the receiver has waited for.
    sent: usize,
    awaited: usize,
    /// Whether the receiver has gone to sleep since the last mark.
    sleeps: bool,
    holds_repair: bool,
    holds_queue: bool,
    counts: Counts,
}

/// A thread of the child.
#[derive(Default)]
struct Thread {
    /// The name of the thread, once it is a thread of the library.
    name: String,
    /// `Sender`, `Receiver` or another mark.
    role: Option<Mark>,
    /// The call that the thread is in.
    call: Option<Call>,
    /// The mark at which the thread is stopped.
    mark: Option<Mark>,
    /// Whether the thread is stopped, but not at a mark.
    is_held: bool,
}

#[derive(Clone, Copy)]
struct Call {
    number: i64,
    /// Whether only another thread ends the call.
    sleeps: bool,
    /// Whether the call waits in `poll`, perhaps for a limited time.
    polls: bool,
}

impl Tracer {
    /// Handles the next event of the child. Returns false if the child has ended.
    fn step(&mut self) -> bool {
        let mut status = 0;
        // Waits only for children of this thread, because other tests have their own children.
        // SAFETY: the status is written during the call.
        let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(thread > 0, "no event of the child: {}", std::io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            self.threads.remove(&thread);
            if thread == self.process {
                let is_well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                assert!(is_well, "the child failed, with status {status:#x}");
                return false;
            }
            self.settle();
            return true;
        }
        let signal = libc::WSTOPSIG(status);
        self.threads.entry(thread).or_default();
        const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;
        match signal {
            SYSTEM_CALL => self.at_call(thread),
            // The child, or a new thread, stops for the first time.
            libc::SIGSTOP => {
                let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACESYSGOOD;
                request(libc::PTRACE_SETOPTIONS, thread, options as usize);
                resume(thread, 0);
            }
            libc::SIGTRAP => resume(thread, 0),
            _ => resume(thread, signal),
        }
        self.settle();
        true
    }

    /// Handles the beginning or the end of a system call.
    fn at_call(&mut self, number: i32) {
        let Some(info) = call_info(number) else { return resume(number, 0) };
        let process = self.process;
        let thread = self.threads.get_mut(&number).unwrap();
        if thread.role.is_none() {
            // A new thread begins with the name of the thread that has started it.
            let name = std::fs::read_to_string(format!("/proc/{process}/task/{number}/comm"));
            thread.name = whole_name(name.unwrap_or_default().trim());
        }
        let is_repair = self.holds_repair && thread.name == "stripline-repair";
        match info {
            CallInfo::Entry { number: call, arguments } => {
                if call == MARK_CALL && arguments[0] == MAGIC {
                    thread.mark = Some(MARKS[arguments[1] as usize]);
                    return;
                }
                let call = Call::new(call, &arguments);
                let is_receiver = thread.role == Some(Mark::Receiver);
                self.sleeps |= is_receiver && call.sleeps;
                if is_receiver && self.counts_polls && call.number == libc::SYS_futex && call.sleeps {
                    wait_without_limit(number);
                }
                thread.call = Some(call);
            }
            CallInfo::Exit { value } => {
                let Some(call) = thread.call.take() else { return resume(number, 0) };
                if self.is_counting && is_of_packets(call.number) {
                    let found_nothing =
                        call.polls && value == 0 || matches!(-value as i32, libc::EAGAIN | libc::ETIMEDOUT);
                    let calls = match thread.role {
                        Some(Mark::Sender) => Some(&mut self.counts.sender),
                        Some(Mark::Receiver) if self.counts_polls || !found_nothing => {
                            Some(&mut self.counts.receiver)
                        }
                        None if !thread.name.is_empty() => Some(&mut self.counts.others),
                        _ => None,
                    };
                    if let Some(calls) = calls {
                        *calls.entry(name_of(call.number)).or_default() += 1;
                    }
                }
                if self.holds_queue && thread.name == "stripline-queue" && call.sleeps
                    || is_repair && call.polls
                {
                    thread.is_held = true;
                    return;
                }
            }
        }
        resume(number, 0);
    }

    /// Resumes threads at marks that have nothing left to wait for.
    fn settle(&mut self) {
        while let Some((&number, mark)) = self
            .threads
            .iter()
            .find_map(|(number, thread)| Some((number, thread.mark?)).filter(|(_, mark)| self.is_due(*mark)))
        {
            let thread = self.threads.get_mut(&number).unwrap();
            thread.mark = None;
            match mark {
                Mark::Sender | Mark::Receiver | Mark::Nothing => {
                    thread.role = Some(mark);
                    self.sent += usize::from(mark == Mark::Sender);
                    if mark == Mark::Receiver {
                        self.awaited += 1;
                        self.sleeps = false;
                    }
                }
                Mark::ReceiverSleeps => {}
                Mark::Settled => self.holds_repair = true,
                Mark::Begin => self.is_counting = true,
                Mark::HoldQueue => self.holds_queue = true,
                Mark::ReleaseQueue => {
                    self.holds_queue = false;
                    self.release("stripline-queue");
                }
                Mark::End => {
                    self.is_counting = false;
                    self.holds_repair = false;
                    let names = self.threads.values().map(|thread| thread.name.clone());
                    self.counts.threads = names.filter(|name| !name.is_empty()).collect();
                    self.counts.threads.sort();
                    self.release("stripline-repair");
                }
            }
            resume(number, 0);
        }
    }

    fn release(&mut self, name: &str) {
        for (number, thread) in &mut self.threads {
            if thread.is_held && thread.name == name {
                thread.is_held = false;
                resume(*number, 0);
            }
        }
    }

    /// Returns whether the condition that a mark waits for has been met.
    fn is_due(&self, mark: Mark) -> bool {
        let threads = self.threads.values();
        match mark {
            Mark::ReceiverSleeps => self.awaited > self.sent && self.sleeps,
            Mark::Settled | Mark::Begin | Mark::End => {
                let is_quiet = |thread: &Thread| {
                    let works_by_time = thread.name == "stripline-repair";
                    thread.is_held
                        || self.has_foreign_threads && thread.name.is_empty()
                        || thread.call.is_some_and(|call| call.sleeps || works_by_time && call.polls)
                };
                // The threads include a thread that has just begun and has no name yet.
                threads.filter(|thread| thread.role.is_none() && thread.mark.is_none()).all(is_quiet)
            }
            _ => true,
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Neither call has an effect on a child that has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Call {
    fn new(number: i64, arguments: &[u64; 6]) -> Self {
        const POLLS: [i64; 4] =
            [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
        let polls = POLLS.contains(&number);
        let sleeps = match number {
            libc::SYS_poll => arguments[2] as i32 == -1,
            libc::SYS_ppoll => arguments[2] == 0,
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => arguments[3] as i32 == -1,
            libc::SYS_futex => {
                let operation =
                    arguments[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
                matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
            }
            _ => false,
        };
        Self { number, sleeps, polls }
    }
}

/// Returns the name of a thread of the library, or an empty text for another thread. The kernel
/// cuts off the last letter of these names.
fn whole_name(name: &str) -> String {
    match name {
        "stripline-accep" => "stripline-accept".into(),
        "stripline-repai" => "stripline-repair".into(),
        // The threads of the node and of inspection do not belong to the transport.
        "stripline-node" | "stripline-links" => String::new(),
        _ if name.starts_with("stripline-") => name.into(),
        _ => String::new(),
    }
}

/// Returns whether a call belongs to a packet, and not to the allocator or the clock. Most machines
/// read the clock without a call. On a busy machine, a thread may start late, and its first calls
/// do not belong to a packet.
fn is_of_packets(call: i64) -> bool {
    let other = [
        libc::SYS_mprotect,
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_madvise,
        libc::SYS_clock_gettime,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigprocmask,
        libc::SYS_prctl,
        libc::SYS_gettid,
        libc::SYS_sched_getaffinity,
    ];
    !other.contains(&call)
}

/// Returns the name of a system call that a link may use, or the number of any other call.
fn name_of(call: i64) -> String {
    let name = match call {
        libc::SYS_read => "read",
        libc::SYS_write => "write",
        libc::SYS_writev => "writev",
        libc::SYS_sendto => "sendto",
        libc::SYS_recvfrom => "recvfrom",
        libc::SYS_sendmsg => "sendmsg",
        libc::SYS_recvmsg => "recvmsg",
        libc::SYS_sendmmsg => "sendmmsg",
        libc::SYS_recvmmsg => "recvmmsg",
        libc::SYS_mq_timedsend => "mq_timedsend",
        libc::SYS_mq_timedreceive => "mq_timedreceive",
        libc::SYS_poll => "poll",
        libc::SYS_ppoll => "ppoll",
        libc::SYS_epoll_wait => "epoll_wait",
        libc::SYS_epoll_pwait => "epoll_pwait",
        libc::SYS_futex => "futex",
        libc::SYS_membarrier => "membarrier",
        libc::SYS_timerfd_settime => "timerfd_settime",
        libc::SYS_ioctl => "ioctl",
        libc::SYS_getsockopt => "getsockopt",
        libc::SYS_sched_yield => "sched_yield",
        _ => return format!("system call {call}"),
    };
    name.into()
}

/// The beginning or the end of a system call.
enum CallInfo {
    Entry { number: i64, arguments: [u64; 6] },
    Exit { value: i64 },
}

/// Returns the place of a stopped thread in a system call; `None` if it is not in one.
fn call_info(thread: i32) -> Option<CallInfo> {
    /// `struct ptrace_syscall_info` of the kernel, with the largest of the variants.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        operation: u8,
        _padding: [u8; 3],
        _architecture: u32,
        _instruction: u64,
        _stack: u64,
        /// The number and the arguments, or the result.
        data: [u64; 8],
    }
    const GET_SYSCALL_INFO: u32 = 0x420e;
    let mut info = Info::default();
    // SAFETY: the kernel writes at most the given size, to memory that lives across the call.
    let size = unsafe {
        libc::ptrace(GET_SYSCALL_INFO as _, thread, size_of::<Info>(), (&raw mut info).cast::<libc::c_void>())
    };
    assert!(size > 0, "no system call of a thread: {}", std::io::Error::last_os_error());
    match info.operation {
        1 => Some(CallInfo::Entry {
            number: info.data[0] as i64,
            arguments: info.data[1..7].try_into().unwrap(),
        }),
        2 => Some(CallInfo::Exit { value: info.data[0] as i64 }),
        _ => None,
    }
}

/// Resumes a stopped thread until the next system call, and delivers the signal unless it is 0.
fn resume(thread: i32, signal: i32) {
    request(libc::PTRACE_SYSCALL, thread, signal as usize);
}

/// Removes the time limit from a thread's wait for a futex. On a busy machine the limit would pass,
/// and the thread would continue in another call.
fn wait_without_limit(thread: i32) {
    // The limit is the fourth argument. The registers are the first field of `struct user`.
    let limit = std::mem::offset_of!(libc::user_regs_struct, r10);
    // SAFETY: the request writes a register of the stopped thread, and no memory of this process.
    unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, limit, 0_usize) };
}

#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

fn request(request: Request, thread: i32, data: usize) {
    // SAFETY: these requests read and write no memory of either process. If a thread was killed
    // meanwhile they fail, and the end is reported next.
    unsafe { libc::ptrace(request, thread, null_mut::<libc::c_void>(), data) };
}
