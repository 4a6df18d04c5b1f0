//! Publishes a tone, for `subscriber` in another terminal. `docs/guide.md` explains both.
//!
//! ```text
//! cargo run -p stripline --example publisher          over the transport that the topics' rules name: `shm`
//! cargo run -p stripline --example publisher -- tcp   over this one
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stripline::Complex;
use stripline::node::{Node, Publisher, Topics};
use stripline::{Error, StreamInfo};

const SAMPLE_RATE_HZ: f64 = 100e3;
const TONE_HZ: f64 = 1e3;
/// Samples of a packet: a hundredth of a second.
const PACKET_SAMPLES: usize = 1000;

/// Joins the domain named by the environment. The file named by `STRIPLINE_TOPICS` sets the
/// transport of each topic; this example also takes it from the command line.
fn join(transport: Option<String>) -> stripline::Result<Node> {
    let Some(transport) = transport else { return Node::new() };
    let domain = std::env::var("STRIPLINE_DOMAIN").unwrap_or_else(|_| "default".into());
    Node::join(&domain, Topics::parse(&format!("[topic.iq]\ntransport = '{transport}'"))?)
}

/// Stops the node on Ctrl-C: calls that block in it or start later return `Error::Stopped`.
fn stop_on_ctrl_c(node: &Arc<Node>) -> stripline::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::failed)?;
    let node = Arc::clone(node);
    std::thread::spawn(move || signals.forever().take(1).for_each(|_| node.stop()));
    Ok(())
}

/// Publishes at the pace of the samples until the node is stopped.
fn publish(publisher: &mut Publisher<Complex<f32>>) -> stripline::Result<()> {
    let turn = std::f64::consts::TAU * TONE_HZ / SAMPLE_RATE_HZ;
    for first in (0..).step_by(PACKET_SAMPLES) {
        // The samples are written in the place where the subscribers will read them. The send also
        // works without any subscriber.
        let mut packet = publisher.loan(PACKET_SAMPLES)?;
        for (index, sample) in packet.iter_mut().enumerate() {
            *sample = Complex::cis((turn * (first + index) as f64) as f32);
        }
        packet.send()?;
        std::thread::sleep(Duration::from_secs_f64(PACKET_SAMPLES as f64 / SAMPLE_RATE_HZ));
    }
    Ok(())
}

fn run() -> stripline::Result<()> {
    let node = Arc::new(join(std::env::args().nth(1))?);
    stop_on_ctrl_c(&node)?;
    let mut publisher = node.publisher::<Complex<f32>>("iq")?;
    publisher.set_stream(StreamInfo::new("tone").sample_rate_hz(SAMPLE_RATE_HZ));
    println!("publishing `iq`; Ctrl-C ends it");
    match publish(&mut publisher) {
        Err(Error::Stopped) => {}
        outcome => return outcome,
    }
    println!("published {} packets", publisher.sequence());
    // Sends the end of the stream after the last packet, so that a subscriber can distinguish the
    // end from a crash.
    publisher.finish()
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
