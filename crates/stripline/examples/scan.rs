//! A component that makes calls: before each packet it tunes the radio that `tuner` serves. The
//! packets carry the frequency reached.
//!
//! ```text
//! cargo build --release -p stripline --examples
//! target/release/examples/tuner serve                in one terminal
//! cargo run --release -- run waveforms/scan.toml     in another
//! ```

use std::time::Duration;

use stripline::call::{CallOptions, ClientOptions};
use stripline::prelude::*;

const PACKET_SAMPLES: usize = 1000;

/// The operation of `tuner` that this component calls. A client needs no other operations, and the
/// text of an error suffices.
#[stripline::service]
pub trait Tuner {
    /// Tunes, and returns the frequency reached.
    fn tune(&self, frequency_hz: f64) -> std::result::Result<f64, serde_json::Value>;
}

/// A source that sends one packet from each of several channels.
struct Scan {
    first_hz: f64,
    channels: i64,
}

impl Component for Scan {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("scan", "One packet from each of some channels, 25 kHz apart.")
            .output("out", PortTypes::of::<Complex<f32>>(), "samples, with their center frequency")
            .property(PropertySpec::float("first", 433e6, "the first channel").range(1e6, 6e9).unit("Hz"))
            .property(PropertySpec::integer("channels", 3, 1, 1000, "how many"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { first_hz: properties.float("first"), channels: properties.integer("channels") })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut output = ports.output::<Complex<f32>>("out")?;
        // A separate node, in the domain named by the environment: ports are only for packets.
        let node = Node::new()?;
        let tuner = TunerClient::connect(&node, TunerService::NAME, ClientOptions::default())?;
        // The radio may be started after this component. A stop does not end a call, but the call's
        // deadline does.
        let tuner = tuner.with(CallOptions::deadline(Duration::from_secs(20)));
        for channel in 0..self.channels {
            let frequency_hz = self.first_hz + 25e3 * channel as f64;
            // An error ends the component, and the launcher reports the text.
            let reached_hz = tuner.tune(frequency_hz).map_err(Error::failed)?;
            output.set_stream(StreamInfo::new("scan").center_frequency_hz(reached_hz));
            let mut packet = output.loan(PACKET_SAMPLES)?;
            // A receiver would write samples here.
            packet.fill(Complex::ZERO);
            packet.send()?;
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    stripline::component::main::<Scan>()
}
