//! Receives the packets of `publisher` in another terminal, and prints losses. `docs/guide.md`
//! explains both programs.
//!
//! ```text
//! cargo run -p stripline --example subscriber         waits for room: nothing is lost
//! cargo run -p stripline --example subscriber -- 50   takes 50 ms over each packet, and drops packets without room
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stripline::Complex;
use stripline::node::{Node, Subscriber, Topics};
use stripline::{Error, Gap};

/// Packets between two lines of output.
const EVERY: u64 = 100;

/// Joins the domain named by the environment. The receiver chooses the policy for packets that
/// arrive faster than it takes them. By default the publisher waits.
fn join(is_slow: bool) -> stripline::Result<Node> {
    if !is_slow {
        return Node::new();
    }
    let domain = std::env::var("STRIPLINE_DOMAIN").unwrap_or_else(|_| "default".into());
    Node::join(&domain, Topics::parse("[topic.iq]\noverflow = 'drop-oldest'\ndepth = 8")?)
}

/// Stops the node on Ctrl-C: calls that block in it or start later return `Error::Stopped`.
fn stop_on_ctrl_c(node: &Arc<Node>) -> stripline::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::failed)?;
    let node = Arc::clone(node);
    std::thread::spawn(move || signals.forever().take(1).for_each(|_| node.stop()));
    Ok(())
}

fn tell_loss(gap: &Gap) {
    let Gap { first, packets, samples, reason } = gap;
    match packets {
        0 => println!("the publisher before this one died; its unsent packets are unknown"),
        _ => println!("lost {packets} packets from {first} on ({reason:?}): {samples} samples"),
    }
}

/// Takes packets until the end of the stream, or until the node is stopped.
fn take(subscriber: &mut Subscriber<Complex<f32>>, pause: Duration) -> stripline::Result<()> {
    // The packet stays in the publisher's memory until it is dropped.
    while let Some(packet) = subscriber.receive()? {
        // A loss is reported in its place: with the next packet.
        packet.gap().into_iter().for_each(tell_loss);
        if packet.sequence().is_multiple_of(EVERY) {
            let power = packet.iter().map(Complex::norm_sqr).sum::<f32>() / packet.len() as f32;
            let (number, stream) = (packet.sequence(), &packet.stream().id);
            println!("packet {number} of `{stream}`: {} samples, power {power:.3}", packet.len());
        }
        std::thread::sleep(pause);
    }
    subscriber.gap_at_end().iter().for_each(tell_loss);
    println!("end of the stream");
    Ok(())
}

fn run() -> stripline::Result<()> {
    let pause_ms = std::env::args().nth(1).map(|word| word.parse::<u64>());
    let pause_ms = pause_ms.transpose().map_err(|error| Error::failed(format!("milliseconds: {error}")))?;
    let node = Arc::new(join(pause_ms.is_some())?);
    stop_on_ctrl_c(&node)?;
    let mut subscriber = node.subscriber::<Complex<f32>>("iq")?;
    println!("waiting for `iq`; Ctrl-C ends it");
    match take(&mut subscriber, Duration::from_millis(pause_ms.unwrap_or(0))) {
        Ok(()) | Err(Error::Stopped) => {}
        Err(error) => return Err(error),
    }
    for connection in node.connections() {
        println!("took {} packets, lost {}", connection.packets, connection.lost);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
