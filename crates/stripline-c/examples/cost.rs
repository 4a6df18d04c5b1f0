//! Measures a packet in Rust. `cost.c` measures the same through the C functions.
//!
//! ```text
//! cargo run --profile dist -p stripline-c --example cost -- BYTES PACKETS [by-value]
//! ```
//!
//! With `by-value`, the ports have their type at run time, like ports in C. Prints the nanoseconds
//! of a packet, from loan to release, on one thread over `inproc`. Statistics are off: this is the
//! path of a packet between two samples of the statistics. To count instructions, run it under
//! callgrind with two numbers of packets. The difference is the cost of the additional packets.

use std::time::Instant;

use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::payload::{Content, Dynamic, SampleType};

fn number(place: usize) -> Result<usize, String> {
    let word = std::env::args().nth(place).ok_or("usage: cost BYTES PACKETS")?;
    word.parse().map_err(|error| format!("`{word}`: {error}"))
}

fn measure<T: Content<Item = u8>>(
    publisher: &mut Publisher<T>,
    subscriber: &mut Subscriber<T>,
    (bytes, packets): (usize, usize),
) -> stripline::Result<()> {
    publisher.wait_for_receivers(1, std::time::Duration::MAX)?;
    let source = vec![1_u8; bytes];
    let mut sink = vec![0_u8; bytes];
    let mut pass = || -> stripline::Result<()> {
        let mut loan = publisher.loan(bytes)?;
        loan.copy_from_slice(&source);
        loan.send()?;
        if let Some(packet) = subscriber.receive()? {
            sink.copy_from_slice(&packet);
            std::hint::black_box(&sink);
        }
        Ok(())
    };
    (0..packets / 10).try_for_each(|_| pass())?;
    let start = Instant::now();
    (0..packets).try_for_each(|_| pass())?;
    println!("{:.2}", start.elapsed().as_nanos() as f64 / packets as f64);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size = (number(1)?, number(2)?);
    let topics = Topics::parse("[default]\ntransport = 'inproc'\nsampling = 'off'")?;
    let node = Node::join(&format!("cost-{}", std::process::id()), topics)?;
    if std::env::args().nth(3).as_deref() == Some("by-value") {
        let bytes = SampleType::of::<u8>();
        measure(
            &mut node.publisher::<Dynamic>(("t", &bytes))?,
            &mut node.subscriber::<Dynamic>(("t", &bytes))?,
            size,
        )?;
    } else {
        measure(&mut node.publisher::<u8>("t")?, &mut node.subscriber::<u8>("t")?, size)?;
    }
    Ok(())
}
