//! The hot path makes no allocation and enters no system call. The test counts the allocations and
//! forbids the system calls.
//!
//! Two threads play ping-pong over `shm`, spinning. After a warm-up, each thread installs a filter
//! under which any system call traps, and every allocation in the thread is counted. A contended
//! lock would be a system call, too.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stripline::call::{Client, ClientOptions, Plain, ServerOptions};
use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::terms::WaitStrategy;

/// The variable set in the measured process: the deliberate violation, or `no`.
const VIOLATION: &str = "STRIPLINE_HOT_PATH_VIOLATION";
/// Packets in each direction before and during the count: more than two laps of each ring. There
/// are no more, because both threads spin: without a processor for each thread, every hand-over
/// takes a time slice.
const WARM_UP: u64 = 1_200;
const MEASURED: u64 = 1_200;
/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of samples in a packet.
const SAMPLES: usize = 512;
const TOPICS: &str = "[default]\ntransport = 'shm'\nwait = 'spin'";

/// An allocator that counts the allocations of measured threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_MEASURED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if IS_MEASURED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller must keep the contract of `GlobalAlloc`, which `System` requires too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller must keep the contract of `GlobalAlloc`, which `System` requires too.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller must keep the contract of `GlobalAlloc`, which `System` requires too.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn packets_make_no_allocation_and_no_system_call() {
    assert_eq!(verdict("no"), "allocations: 0\n");
}

#[test]
fn calls_make_no_allocation_and_no_system_call() {
    assert_eq!(verdict("calls"), "allocations: 0\n");
}

#[test]
fn the_instruments_detect_violations() {
    assert_eq!(verdict("allocation"), "allocations: 2\n");
    assert_eq!(verdict("system-call"), format!("system call {:06}\n", libc::SYS_getppid));
}

/// Returns the output of the measured process.
fn verdict(violation: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "play", "--nocapture", "--test-threads=1"])
        .env(VIOLATION, violation)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.is_empty(), "{output:?}");
    said
}

/// Does nothing unless it is started as the measured process.
#[test]
fn play() {
    let Ok(violation) = std::env::var(VIOLATION) else { return };
    let node =
        Node::join(&format!("hot-path-{}", std::process::id()), Topics::parse(TOPICS).unwrap()).unwrap();
    if violation == "calls" {
        return play_calls(&node);
    }
    let mut ping = node.publisher::<u64>("ping").unwrap();
    let mut pong = node.publisher::<u64>("pong").unwrap();
    let mut ping_in = node.subscriber::<u64>("ping").unwrap();
    let mut pong_in = node.subscriber::<u64>("pong").unwrap();
    assert!(ping.wait_for_receivers(1, TIMEOUT).unwrap() && pong.wait_for_receivers(1, TIMEOUT).unwrap());
    game(
        &violation,
        |number| {
            send(&mut ping, number);
            take(&mut pong_in, number);
        },
        |number| {
            take(&mut ping_in, number);
            send(&mut pong, number);
        },
    );
}

/// Plays the same game with two-way calls.
fn play_calls(node: &Node) {
    let options = ServerOptions { wait: WaitStrategy::Spin, ..ServerOptions::default() };
    let mut server = node.server("echo", Ok::<Plain<u64>, String>, options).unwrap();
    let options = ClientOptions { wait: WaitStrategy::Spin, ..ClientOptions::default() };
    let service = node.service_client("echo", options).unwrap();
    let client: Client<Plain<u64>, Plain<u64>> = service.operation("call").unwrap();
    assert!(service.wait_for_servers(1, TIMEOUT).unwrap());
    game(
        "no",
        |number| assert_eq!(*client.call(&Plain(number)).unwrap(), number),
        |_| assert!(server.serve_one(TIMEOUT).unwrap()),
    );
}

/// Runs two threads that take turns until the process ends.
fn game(violation: &str, mut serve: impl FnMut(u64) + Send, mut answer: impl FnMut(u64) + Send) {
    let (ready, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let meet = |at: &AtomicUsize| {
        at.fetch_add(1, Ordering::AcqRel);
        while at.load(Ordering::Acquire) < 2 {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..WARM_UP).for_each(&mut serve);
            measure(|| {
                meet(&ready);
                (WARM_UP..WARM_UP + MEASURED).for_each(&mut serve);
                violate(violation);
                done.fetch_add(1, Ordering::AcqRel);
            });
        });
        scope.spawn(|| {
            (0..WARM_UP).for_each(&mut answer);
            measure(|| {
                meet(&ready);
                (WARM_UP..WARM_UP + MEASURED).for_each(&mut answer);
                done.fetch_add(1, Ordering::AcqRel);
            });
        });
        let started = Instant::now();
        while done.load(Ordering::Acquire) < 2 {
            assert!(started.elapsed() < 4 * TIMEOUT, "the game does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        eprintln!("allocations: {}", ALLOCATIONS.load(Ordering::Relaxed));
        // The threads cannot exit, because that would be a system call, too.
        std::process::exit(0);
    });
}

fn send(publisher: &mut Publisher<u64>, number: u64) {
    let mut loan = publisher.loan(SAMPLES).unwrap();
    loan.fill(number);
    loan.send().unwrap();
}

fn take(subscriber: &mut Subscriber<u64>, number: u64) {
    let packet = subscriber.receive().unwrap().unwrap();
    assert_eq!(*packet, [number; SAMPLES]);
}

fn violate(how: &str) {
    match how {
        "allocation" => drop(std::hint::black_box(Box::new([1u64; 3]))),
        // SAFETY: the call takes no argument and only returns a number.
        "system-call" => drop(unsafe { libc::getppid() }),
        _ => {}
    }
}

/// Runs a thread's measured part, in which system calls and allocations are forbidden.
fn measure(act: impl FnOnce()) -> ! {
    forbid_system_calls();
    IS_MEASURED.set(true);
    act();
    IS_MEASURED.set(false);
    loop {
        std::hint::spin_loop();
    }
}

/// Makes any later system call of this thread end the process, which then prints the call's number.
fn forbid_system_calls() {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The trap handler itself needs these calls to print and to end the process.
    let own = [libc::SYS_write, libc::SYS_exit_group];
    let allowed: Vec<u32> = own.iter().map(|number| *number as u32).collect();
    let mut filter = vec![step(LOAD_NUMBER, 0, 0, 0)];
    for (index, number) in allowed.iter().enumerate() {
        filter.push(step(JUMP_IF_EQUAL, (allowed.len() - index) as u8, 0, *number));
    }
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_TRAP));
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a zeroed action is a valid one. The handler makes only calls that a signal handler
    // may make. The program and the memory that it points to live across the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, 0, &program), 0, "no seccomp here");
    }
}

/// The offset of the system call's number in the data for a SIGSYS handler on 64-bit machines.
const NUMBER_OFFSET: usize = 24;

extern "C" fn trapped(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete `siginfo_t`, which is larger.
    let mut number = unsafe { info.cast::<u8>().add(NUMBER_OFFSET).cast::<libc::c_int>().read() };
    let mut text = *b"system call 000000\n";
    for digit in text[12..18].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    // SAFETY: the bytes live across the call; both calls are allowed in a handler.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(1);
    }
}
