//! Publishers and subscribers in a program that needs no launcher, no waveform and no environment
//! variables: the program itself names the domain. One thread publishes levels. The main loop does
//! other work, and in each turn takes the levels that have arrived since the previous turn.
//!
//! ```text
//! cargo run -p stripline --example embedded            in the domain `embedded`
//! cargo run -p stripline --example embedded -- bench   in this one
//! ```
//!
//! Other programs use the name of the domain to join it. `STRIPLINE_DOMAIN=embedded stripline
//! links` shows the links.

use std::time::Duration;

use stripline::node::Topics;
use stripline::prelude::*;

/// The settings of the topics, with the keys of a topics file.
const TOPICS: &str = "
[default]
transport = 'shm'      # other processes can subscribe, too

[topic.levels]
overflow = 'drop-oldest'
depth = 16             # a main loop that is late gets the newest levels
";

/// Publishes levels until the node is stopped. The main loop sets the gain.
fn measure(node: &Node) -> Result<()> {
    let mut levels = node.publisher::<f32>("levels")?;
    let mut gains = node.subscriber::<Cbor<f32>>("gain")?;
    let mut gain = 1.0;
    loop {
        if let Some(packet) = gains.try_receive()?.packet() {
            gain = packet.decode()?;
        }
        levels.send(&[gain; 64])?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the program's main loop, which never waits for a packet, until the level is 2.
fn main_loop(node: &Node) -> Result<()> {
    let mut levels = node.subscriber::<f32>("levels")?;
    let mut gain = node.publisher::<Cbor<f32>>("gain")?;
    let mut shown = 0.0;
    loop {
        while let Received::Packet(packet) = levels.try_receive()? {
            if packet[0] == shown {
                continue;
            }
            shown = packet[0];
            println!("the level is {shown}");
            if shown == 2.0 {
                return Ok(());
            }
            gain.wait_for_receivers(1, Duration::from_secs(60))?;
            gain.send(&2.0)?;
        }
        // The program does other work here, such as a display that is redrawn 50 times a second.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn main() -> Result<()> {
    let domain = std::env::args().nth(1).unwrap_or_else(|| "embedded".into());
    let node = Node::join(&domain, Topics::parse(TOPICS)?)?;
    println!("joined the domain `{domain}`");
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| measure(&node));
        let outcome = main_loop(&node);
        // From now on, every blocking call of the node returns `Error::Stopped`.
        node.stop();
        match measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Err(Error::Stopped) => println!("the measurement is stopped"),
            other => return other,
        }
        outcome
    })
}
