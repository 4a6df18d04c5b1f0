//! A component of one's own that is a handler: the waveform says what runs it (`dispatch = "pool(4)"`), and on the
//! connection behind it whether the order of packets matters (`resequence`). Some packets take longer here, so that they are
//! overtaken.
//!
//! ```text
//! cargo build --release -p stripline --example handler
//! ```

use std::time::Duration;

use num_complex::Complex;
use stripline::Result;
use stripline::component::{ComponentSpec, Handled, Handler, PortTypes, Properties, PropertySpec};
use stripline::node::PacketView;

/// The power of every sample.
struct Power {
    pause: Duration,
}

impl Handler for Power {
    type In = Complex<f32>;
    type Out = f32;

    fn describe() -> ComponentSpec {
        ComponentSpec::new("power", "The power of every sample, some of them after a pause.")
            .input("in", PortTypes::of::<Complex<f32>>(), "samples")
            .output("out", PortTypes::of::<f32>(), "their power")
            .property(
                PropertySpec::float("pause", 0.0, "what every third packet takes longer")
                    .range(0.0, 1e3)
                    .unit("ms"),
            )
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { pause: Duration::from_secs_f64(properties.float("pause") / 1e3) })
    }

    fn handle(&self, packet: PacketView<'_, Complex<f32>>, made: &mut Vec<f32>) -> Result<()> {
        if packet.sequence().is_multiple_of(3) {
            std::thread::sleep(self.pause);
        }
        made.extend(packet.iter().map(Complex::norm_sqr));
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    stripline::component::main::<Handled<Power>>()
}
