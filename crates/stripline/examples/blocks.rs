//! Three small component types in one executable. With `placement = "thread"` in the waveform, the
//! components share a process.
//!
//! ```text
//! cargo build --release -p stripline --example blocks
//! cargo run --release -- run waveforms/blocks.toml
//! ```

use stripline::Result;
use stripline::component::{
    Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, Registry, main_of,
};

/// A source of the numbers 1, 2, 3, ...
struct Count {
    packets: u64,
}

impl Component for Count {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("count", "Sends the numbers from 1 on, one in a packet.")
            .output("out", PortTypes::of::<f32>(), "the numbers")
            .property(PropertySpec::integer("packets", 100, 1, 1 << 20, "how many"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { packets: properties.count("packets") })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut output = ports.output::<f32>("out")?;
        for number in 1..=self.packets {
            let mut packet = output.loan(1)?;
            packet[0] = number as f32;
            packet.send()?;
        }
        Ok(())
    }
}

/// A block that adds a number to every sample.
struct Add {
    number: f32,
}

impl Component for Add {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("add", "Adds a number to every sample.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .output("out", PortTypes::of::<f32>(), "samples plus the number")
            .property(PropertySpec::float("number", 1.0, "the added number").range(-1e6, 1e6))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { number: properties.float("number") as f32 })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.input::<f32>("in")?;
        let mut output = ports.output::<f32>("out")?;
        while let Some(packet) = input.receive()? {
            let mut out = output.loan(packet.len())?;
            out.iter_mut().zip(&*packet).for_each(|(y, x)| *y = x + self.number);
            out.send_like(&packet)?;
        }
        Ok(())
    }
}

/// A sink that prints the sum of all samples at the end.
struct Sum;

impl Component for Sum {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("sum", "Prints the sum of all samples at the end.").input(
            "in",
            PortTypes::of::<f32>(),
            "samples",
        )
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.input::<f32>("in")?;
        let mut sum = 0.0;
        while let Some(packet) = input.receive()? {
            sum += packet.iter().map(|x| f64::from(*x)).sum::<f64>();
        }
        println!("the sum is {sum}");
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    main_of(&Registry::new().with::<Count>().with::<Add>().with::<Sum>())
}
