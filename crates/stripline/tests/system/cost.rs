//! The cost of an idle connection in processor time, and of any connection in memory.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use stripline::Received;
use stripline::node::{Node, Topics};

use crate::child::{Actor, Cast, DEADLINE, number, say};

fn node(transport: &str, rules: &str) -> Node {
    let domain = format!("cost-{}-{transport}", std::process::id());
    let text = format!("[default]\ntransport = '{transport}'\n{rules}");
    Node::join(&domain, Topics::parse(&text).unwrap()).unwrap()
}

/// Returns the nanoseconds that a thread of this process has run on a processor.
fn time_on_processor(thread: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Checks that an `adaptive` receiver that has learnt to spin, and gets no more packets, uses less
/// than one hundredth of a processor.
#[test]
fn an_idle_adaptive_receiver_leaves_the_processor_alone() {
    const IDLE: Duration = Duration::from_secs(1);
    for transport in ["inproc", "shm", "uds", "tcp"] {
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
        let (start, before) = (Instant::now(), time_on_processor(thread_id));
        std::thread::sleep(IDLE);
        let used = time_on_processor(thread_id) - before;
        let share = used as f64 / start.elapsed().as_nanos() as f64;
        println!("{transport}: {:.4} % of a processor", 100.0 * share);
        assert!(share < 0.01, "{transport}: {:.2} % of a processor", 100.0 * share);
        publisher.finish().unwrap();
        thread.join().unwrap();
    }
}

/// Returns the memory of this process in bytes; pages that it maps several times count once.
fn memory() -> u64 {
    number("/proc/self/smaps_rollup", "Pss").unwrap() * 1024
}

const CONNECTIONS: usize = 100;

/// Creates a port with one receiver, and then with many more that have all taken packets.
pub fn hoard(transport: &str) {
    let node = node(transport, "buffer = 65536\ndepth = 16");
    let mut publisher = node.publisher::<u8>("numbers").unwrap();
    let mut subscribers = Vec::new();
    let mut before = 0;
    for count in [1, 1 + CONNECTIONS] {
        subscribers.resize_with(count, || node.subscriber::<u8>("numbers").unwrap());
        assert!(publisher.wait_for_receivers(count, DEADLINE).unwrap());
        // More than the ring holds, so that all of its memory is present.
        for _ in 0..2000 {
            publisher.send(&[7; 100]).unwrap();
            for subscriber in &mut subscribers {
                let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                    panic!("a packet is missing")
                };
                assert_eq!(packet[99], 7);
            }
        }
        if count == 1 {
            before = memory();
        }
    }
    say(memory().saturating_sub(before) / CONNECTIONS as u64);
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
