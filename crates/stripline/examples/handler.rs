//! A user's component that is a handler. The waveform selects the threads that run it
//! (`dispatch = "pool(4)"`). For the connection behind it, the waveform selects whether packets are
//! put in order (`resequence`). Some packets take longer here, so that others overtake them.
//!
//! ```text
//! cargo build --release -p stripline --example handler
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stripline::Complex;
use stripline::Result;
use stripline::component::{ComponentSpec, Handler, HandlerComponent, PortTypes, Properties, PropertySpec};
use stripline::node::PacketView;

/// A handler that computes the power of every sample.
struct Power {
    /// Milliseconds, as the bits of a float. All threads of a pool read them, and one of them
    /// changes them.
    pause: AtomicU64,
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
                    .unit("ms")
                    .changeable(),
            )
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { pause: AtomicU64::new(properties.float("pause").to_bits()) })
    }

    fn handle(&self, packet: PacketView<'_, Complex<f32>>, made: &mut Vec<f32>) -> Result<()> {
        if packet.sequence().is_multiple_of(3) {
            let pause = f64::from_bits(self.pause.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_secs_f64(pause / 1e3));
        }
        made.extend(packet.iter().map(Complex::norm_sqr));
        Ok(())
    }

    fn configure(&self, properties: &Properties) -> Result<()> {
        self.pause.store(properties.float("pause").to_bits(), Ordering::Relaxed);
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    stripline::component::main::<HandlerComponent<Power>>()
}
