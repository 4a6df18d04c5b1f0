//! A component with several inputs: one thread waits for all of them at once, and takes packets as
//! they arrive. `waveforms/scan.toml` runs it behind two `scan` components.

use stripline::node::{Waitable, wait_any};
use stripline::prelude::*;

/// A printer of the packets of two inputs.
struct Monitor;

impl Component for Monitor {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("monitor", "Prints the packets of two inputs.")
            .input("left", PortTypes::of::<Complex<f32>>(), "samples")
            .input("right", PortTypes::of::<Complex<f32>>(), "others")
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut inputs: Vec<Input<Complex<f32>>> = vec![ports.input("left")?, ports.input("right")?];
        while !inputs.is_empty() {
            // Inputs may have different types, including messages.
            let mut all: Vec<&mut dyn Waitable> = inputs.iter_mut().map(|input| input as _).collect();
            let ready = wait_any(&mut all, None)?;
            // The loop begins with the last, so that removing an input leaves the other indices
            // valid.
            for index in ready.into_iter().rev() {
                if !take(&mut inputs[index])? {
                    let ended = inputs.remove(index);
                    eprintln!("{}: end of the stream", ended.name());
                }
            }
        }
        Ok(())
    }
}

/// Takes one packet, if there is one. Returns false if the stream has ended.
fn take(input: &mut Input<Complex<f32>>) -> Result<bool> {
    let name = input.name().to_string();
    match input.try_receive()? {
        Received::Packet(packet) => {
            let mhz = packet.stream().center_frequency_hz.unwrap_or_default() / 1e6;
            // The launcher prints the standard error of a component.
            eprintln!("{name}: {} samples at {mhz:.4} MHz", packet.len());
        }
        Received::Empty => {}
        Received::Ended => return Ok(false),
    }
    Ok(true)
}

fn main() -> std::process::ExitCode {
    stripline::component::main::<Monitor>()
}
