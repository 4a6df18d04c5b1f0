//! The processor time of an idle connection, and the memory of any connection.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use stripline::Received;
use stripline::node::{Node, Topics};

use crate::child::{Actor, Cast, DEADLINE, await_that, number, say};

fn node(transport: &str, rules: &str) -> Node {
    let domain = format!("cost-{}-{transport}", std::process::id());
    let text = format!("[default]\ntransport = '{transport}'\n{rules}");
    Node::join(&domain, Topics::parse(&text).unwrap()).unwrap()
}

/// Returns the time for which a thread of this process has run on a processor, in nanoseconds.
fn time_on_processor(thread: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Checks that an `adaptive` receiver without packets uses less than 1 % of a processor.
///
/// The receiver has polled successfully before. A receiver that spins never has a second with so
/// little processor time. A receiver that sleeps does, unless the kernel charges it for the work of
/// others. So the best of several seconds counts.
#[test]
fn an_idle_adaptive_receiver_leaves_the_processor_alone() {
    const IDLE: Duration = Duration::from_secs(1);
    const SHARE_MAX: f64 = 0.01;
    for transport in ["inproc", "shm", "uds", "tcp", "udp"] {
        let node = node(transport, "wait = 'adaptive'");
        let mut publisher = node.publisher::<u8>("numbers").unwrap();
        let mut subscriber = node.subscriber::<u8>("numbers").unwrap();
        assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send((rustix::thread::gettid().as_raw_nonzero().get(), 0)).unwrap();
            while let Some(packet) = subscriber.receive().unwrap() {
                tell.send((0, packet.sequence())).unwrap();
            }
        });
        let (thread_id, _) = told.recv().unwrap();
        for sequence in 0..1000 {
            publisher.send(&[0; 100]).unwrap();
            assert_eq!(told.recv().unwrap().1, sequence);
        }
        await_that("the idle receiver leaves the processor alone", || {
            let (start, before) = (Instant::now(), time_on_processor(thread_id));
            std::thread::sleep(IDLE);
            let used = time_on_processor(thread_id) - before;
            let share = used as f64 / start.elapsed().as_nanos() as f64;
            println!("{transport}: {:.4} % of a processor", 100.0 * share);
            share < SHARE_MAX
        });
        publisher.finish().unwrap();
        thread.join().unwrap();
    }
}

/// Whether this process counts allocations. Each count costs a system call, and other tests measure
/// time.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// The number of bytes that this process has allocated and not freed. Allocations of the inspection
/// thread are left out, because they depend on the requests of other programs.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

/// Adds to the count, and subtracts from it.
fn count(more: usize, less: usize) {
    // Relaxed: this is set before the process has another thread.
    if !COUNTING.load(Ordering::Relaxed) {
        return;
    }
    let mut name = [0u8; 16];
    // SAFETY: the call writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if !name.starts_with(b"stripline-links\0") {
        // Relaxed: the count is read while no other thread allocates.
        ALLOCATED.fetch_add(more as u64, Ordering::Relaxed);
        ALLOCATED.fetch_sub(less as u64, Ordering::Relaxed);
    }
}

/// An allocator that counts bytes. Counting pages would depend on earlier allocations.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller must keep the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller must keep the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller must keep the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller must keep the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Returns the number of bytes of memory that this process holds.
///
/// The number is the sum of its allocations and of the memfds that it maps, each counted once. No
/// other process changes either.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    // Maps the inode of each memfd to the memfd's end. A memfd here is mapped to its end and has no
    // holes.
    let mut shared = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, _, offset, _, inode, name, ..] = words[..] else { continue };
        if name.starts_with("/memfd:") {
            let hex = |digits| u64::from_str_radix(digits, 16).unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let end = hex(offset) + hex(to) - hex(from);
            let known: &mut u64 = shared.entry(inode.to_string()).or_default();
            *known = end.max(*known);
        }
    }
    let mapped: u64 = shared.values().sum();
    drop((text, shared));
    ALLOCATED.load(Ordering::Relaxed) + mapped
}

/// Returns the number of threads of this process.
fn threads() -> u64 {
    number("/proc/self/status", "Threads").unwrap()
}

const CONNECTIONS: usize = 100;

/// Prints the growth from a port with many receivers to a port with twice as many.
///
/// All receivers have received packets. Memory that a process allocates once is already allocated
/// for the first receivers.
pub fn hoard(transport: &str) {
    COUNTING.store(true, Ordering::Relaxed);
    let node = node(transport, "buffer = 65536\ndepth = 16");
    let mut publisher = node.publisher::<u8>("numbers").unwrap();
    let mut subscribers = Vec::new();
    let mut before = (0, 0);
    for count in [CONNECTIONS, 2 * CONNECTIONS] {
        subscribers.resize_with(count, || node.subscriber::<u8>("numbers").unwrap());
        assert!(publisher.wait_for_receivers(count, DEADLINE).unwrap());
        // Send more packets than the ring holds, so that all memory of the ring is present.
        for _ in 0..2000 {
            publisher.send(&[7; 100]).unwrap();
            for subscriber in &mut subscribers {
                let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                    panic!("a packet is missing")
                };
                assert_eq!(packet[99], 7);
            }
        }
        if count == CONNECTIONS {
            before = (memory(), threads());
        }
    }
    assert_eq!(threads(), before.1, "a connection has no thread of its own");
    say(memory().saturating_sub(before.0) / CONNECTIONS as u64);
}

#[test]
fn a_connection_takes_the_ring_and_at_most_16_kib() {
    for transport in ["inproc", "shm"] {
        let mut actor = Actor::start("hoard", &Cast { words: &[transport], ..Cast::default() });
        let bytes: u64 = actor.hear().parse().unwrap();
        println!("{transport}: {bytes} bytes");
        assert!(bytes <= 16 << 10, "{transport}: {bytes} bytes a connection");
        actor.end();
    }
}
