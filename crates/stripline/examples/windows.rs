//! Samples in windows with a length that the receiver chooses, independent of the packets. A thread
//! sends packets of 1000 samples. The program takes 1024 samples at a time, and each window starts
//! 512 samples after the previous one.
//!
//! ```text
//! cargo run -p stripline --example windows
//! ```

use std::time::Duration;

use stripline::Result;
use stripline::node::{Node, Publisher};

const PACKET_SAMPLES: usize = 1000;
const PACKETS: usize = 10;
const WINDOW: usize = 1024;
const STEP: usize = 512;

/// Sends a ramp, in which the value of each sample is its number.
fn send(mut publisher: Publisher<f32>) -> Result<()> {
    publisher.wait_for_receivers(1, Duration::from_secs(60))?;
    for packet in 0..PACKETS {
        let mut loan = publisher.loan(PACKET_SAMPLES)?;
        for (index, sample) in loan.iter_mut().enumerate() {
            *sample = (packet * PACKET_SAMPLES + index) as f32;
        }
        loan.send()?;
    }
    publisher.finish()
}

fn main() -> Result<()> {
    let node = Node::isolated()?;
    let (publisher, subscriber) = (node.publisher::<f32>("ramp")?, node.subscriber::<f32>("ramp")?);
    let sender = std::thread::spawn(|| send(publisher));

    let mut windows = subscriber.windowed();
    while let Some(window) = windows.window(WINDOW)? {
        if let Some(gap) = window.gap() {
            println!("{} samples are missing here", gap.samples);
        }
        // A window is short before a gap, a new stream, or the end. The short window is then
        // consumed completely.
        if !window.is_whole() {
            println!("{} samples are left from {}", window.len(), window.sample_index());
            continue;
        }
        println!("window from {}: mean {}", window.sample_index(), mean(&window));
        // The other half is also part of the next window.
        window.consume(STEP);
    }
    sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn mean(samples: &[f32]) -> f64 {
    samples.iter().map(|sample| f64::from(*sample)).sum::<f64>() / samples.len() as f64
}
