//! The cost of a send that waits for the receiver, over shared memory and over a socket. The packet
//! has 64 bytes and scope `target`, and the receiver is another thread.
//!
//! ```text
//! cargo run --release -p stripline --example scope_cost
//! cargo run --release -p stripline --example scope_cost 3      three blocks in place of 100
//! ```
//!
//! The transports are measured in turn, in short blocks. The result for each transport is the
//! median send of the fastest block. The ratio of the second `shm` to the first is the error of the
//! measurement.

use std::time::{Duration, Instant};

use stripline::Result;
use stripline::node::{Node, Publisher, Topics};

const TOPICS: &str = "
[default]
scope = 'target'
sampling = 'off'
wait = 'spin'

[topic.first]
transport = 'shm'

[topic.second]
transport = 'shm'

[topic.socket]
transport = 'uds'
";
const BLOCKS: usize = 100;
const SENDS: usize = 200;

fn main() -> Result<()> {
    let blocks = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(BLOCKS);
    let node = Node::join(&format!("scope-cost-{}", std::process::id()), Topics::parse(TOPICS)?)?;
    let names = ["first", "second", "socket"];
    let mut publishers = Vec::new();
    let mut receivers = Vec::new();
    for name in names {
        let mut packets = node.subscriber::<u8>(name)?;
        receivers.push(std::thread::spawn(move || -> Result<()> {
            while let Some(packet) = packets.receive()? {
                drop(packet);
            }
            Ok(())
        }));
        let mut publisher = node.publisher::<u8>(name)?;
        publisher.wait_for_receivers(1, Duration::from_secs(60))?;
        publishers.push(publisher);
    }
    let mut medians = [const { Vec::new() }; 3];
    for _ in 0..blocks {
        for (publisher, medians) in publishers.iter_mut().zip(&mut medians) {
            medians.push(block(publisher)?);
        }
    }
    let [first, second, socket] = medians.map(|blocks| blocks.into_iter().min().unwrap_or(0));
    println!("scope target, 64 B: shm {first} ns, uds {socket} ns, ratio {:.2}", ratio(socket, first));
    println!("the same twice: shm {first} ns, shm {second} ns, ratio {:.2}", ratio(second, first));
    for publisher in publishers {
        publisher.finish()?;
    }
    receivers.into_iter().try_for_each(|receiver| receiver.join().expect("a receiver panicked"))
}

/// Returns the median time of a send in one block, in nanoseconds.
fn block(publisher: &mut Publisher<u8>) -> Result<u64> {
    let mut times = Vec::with_capacity(SENDS);
    for _ in 0..SENDS {
        let start = Instant::now();
        publisher.send(&[7; 64])?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    Ok(median(times))
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(time: u64, reference: u64) -> f64 {
    time as f64 / reference as f64
}
