//! A tracer of a child process and all its threads, which counts their system calls (`ptrace(2)`).
//!
//! The child marks what it does by a system call that has no effect. The tracer can keep a thread
//! at such a mark until another one sleeps, and takes the limit from a receiver's wait. So the
//! counts depend on no timing.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// A part of a thread's work, which begins at its mark, or something to wait for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its calls are those of the sender, which sends a packet next.
    Sender,
    /// Its calls are those of the receiver, which takes the next packet.
    Receiver,
    /// Its calls do not count.
    Nothing,
    /// Waits until the receiver has taken all packets, and sleeps.
    ReceiverSleeps,
    /// Waits until all threads of the library sleep. The thread that repairs is held from now on,
    /// as it works by time.
    Settled,
    /// Counting begins.
    Begin,
    /// The thread that sends what is queued is held once it wakes.
    HoldQueue,
    /// It goes on.
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
/// The first argument of a mark, by which it differs from any other call.
const MAGIC: u64 = 0x5374_7269_706c_696e;
const MARK_CALL: libc::c_long = libc::SYS_getppid;

/// The longest that a child takes. It only ends a hang.
const SECONDS_MAX: u32 = 240;

/// Passes a mark to the tracer.
pub fn mark(mark: Mark) {
    let index = MARKS.iter().position(|other| *other == mark).unwrap();
    // SAFETY: the call ignores its arguments, and only returns a number.
    unsafe { libc::syscall(MARK_CALL, MAGIC, index) };
}

/// Stops this thread for its tracer, which is the parent, and has it trace all later threads.
pub fn be_traced() {
    // SAFETY: plain numbers, and the last call stops this thread only.
    unsafe {
        libc::alarm(SECONDS_MAX);
        assert_eq!(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), 0);
        let traced = libc::ptrace(libc::PTRACE_TRACEME);
        assert_eq!(traced, 0, "it cannot be traced: {}", std::io::Error::last_os_error());
        libc::raise(libc::SIGSTOP);
    }
}

/// System calls by their names.
pub type Calls = BTreeMap<String, usize>;

/// The system calls of a child while it counts, by the thread.
#[derive(Debug, Default)]
pub struct Counts {
    pub sender: Calls,
    pub receiver: Calls,
    /// Those of the library's own threads.
    pub others: Calls,
    /// The names of these threads.
    pub threads: Vec<String>,
}

/// Runs a child, and counts. `counts_polls`: also calls of the receiver that found nothing. One
/// that spins makes any number of them. `has_foreign_threads`: a middleware has threads of its own.
/// They work by time as well, so nothing waits until they sleep.
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
    /// The packets of the sender's marks, and those that the receiver has waited for.
    sent: usize,
    awaited: usize,
    /// Whether the receiver has gone to sleep since its last mark.
    sleeps: bool,
    holds_repair: bool,
    holds_queue: bool,
    counts: Counts,
}

/// A thread of the child.
#[derive(Default)]
struct Thread {
    /// Its name, once it is one of the library's.
    name: String,
    /// `Sender`, `Receiver` or anything else.
    role: Option<Mark>,
    /// The call that it is in.
    call: Option<Call>,
    /// The mark at which it is stopped.
    mark: Option<Mark>,
    /// Whether it is stopped, and not at a mark.
    is_held: bool,
}

#[derive(Clone, Copy)]
struct Call {
    number: i64,
    /// Whether only another thread ends it.
    sleeps: bool,
    /// Whether it waits in `poll`, perhaps for a limited time.
    polls: bool,
}

impl Tracer {
    /// Handles the next event of the child; false: it has ended.
    fn step(&mut self) -> bool {
        let mut status = 0;
        // Children of this thread only: other tests have their own.
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
            // The first stop of the child, or of a new thread.
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
            // A thread begins with the name of the one that has started it.
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

    /// Resumes threads at a mark that has nothing to wait for any more.
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

    /// Returns whether what a mark waits for has come.
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
                // Also one that has just begun and has no name yet.
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

/// Returns the name of a thread of the library; empty: another one. The kernel cuts the last letter
/// of these off.
fn whole_name(name: &str) -> String {
    match name {
        "stripline-accep" => "stripline-accept".into(),
        "stripline-repai" => "stripline-repair".into(),
        // Those of the node and of inspection are not the transport's.
        "stripline-node" | "stripline-ps" => String::new(),
        _ if name.starts_with("stripline-") => name.into(),
        _ => String::new(),
    }
}

/// Returns whether a call is a packet's, and not the allocator's or the clock's. Most machines read
/// the clock without one. On a busy machine, a thread may start late: its first calls are none.
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

/// Returns the name of a system call that a link may use; any other by its number.
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

/// Returns where a stopped thread is in a system call; `None`: in none.
fn call_info(thread: i32) -> Option<CallInfo> {
    /// `struct ptrace_syscall_info` of the kernel, with the largest of its variants.
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
    // SAFETY: the kernel writes at most the size that it is given, to memory that lives across the
    // call.
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

/// Resumes a stopped thread up to its next system call, and delivers the signal unless it is 0.
fn resume(thread: i32, signal: i32) {
    request(libc::PTRACE_SYSCALL, thread, signal as usize);
}

/// Takes the time limit from a thread's wait for a futex. On a busy machine the limit would pass,
/// and the thread would go on in another call.
fn wait_without_limit(thread: i32) {
    // The fourth argument; the registers are the first field of `struct user`.
    let limit = std::mem::offset_of!(libc::user_regs_struct, r10);
    // SAFETY: the request writes a register of the stopped thread, and no memory of this process.
    unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, limit, 0_usize) };
}

#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

fn request(request: Request, thread: i32, data: usize) {
    // SAFETY: requests that read and write no memory of either process. A thread that was killed
    // meanwhile makes them fail, and its end is reported next.
    unsafe { libc::ptrace(request, thread, null_mut::<libc::c_void>(), data) };
}
