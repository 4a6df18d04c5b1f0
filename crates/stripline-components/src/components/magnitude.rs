//! `magnitude`: the magnitude of complex samples.

use num_complex::Complex;
use stripline::Result;
use stripline::component::{ComponentSpec, Handler, PortTypes, Properties, PropertySpec, RateRule};
use stripline::node::PacketView;

/// The component `magnitude`. Samples are independent, so a waveform may run it on several threads.
pub struct Magnitude {
    squared: bool,
}

impl Handler for Magnitude {
    type In = Complex<f32>;
    type Out = f32;

    fn describe() -> ComponentSpec {
        ComponentSpec::new(
            "magnitude",
            "The magnitude of complex samples: the envelope of a signal, or its power.",
        )
        .input("in", PortTypes::of::<Complex<f32>>(), "samples")
        .output("out", PortTypes::of::<f32>(), "their magnitudes, at the same sample rate")
        .sample_rate(RateRule::input("in"))
        .property(PropertySpec::boolean(
            "squared",
            false,
            "whether to give the square, which is the power",
        ))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { squared: properties.boolean("squared") })
    }

    fn handle(&self, packet: PacketView<'_, Complex<f32>>, made: &mut Vec<f32>) -> Result<()> {
        if self.squared {
            made.extend(packet.iter().map(Complex::norm_sqr));
        } else {
            made.extend(packet.iter().map(|sample| sample.norm_sqr().sqrt()));
        }
        Ok(())
    }
}
