//! `resampler`: changes the sample rate.

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::payload::TypeName;
use stripline::{Error, Result, Sample};

use super::property_errors::{can_be_made, setting};
use super::stream_order::{at_ratio, between, channels, signal_input};
use super::timing::time_after;
use crate::dsp::{self, DspError, Frames, PerChannel, RESAMPLING_MAX, Resampler, ResamplerSettings};

/// The maximum number of samples of a sent packet, unless a single input sample gives more.
const PACKET_MAX: usize = 1 << 16;

/// The component `resampler`.
pub struct ResamplerComponent {
    settings: ResamplerSettings,
}

impl Component for ResamplerComponent {
    fn describe() -> ComponentSpec {
        let default = ResamplerSettings::default();
        let max = RESAMPLING_MAX as i64;
        let types = vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()];
        let summary = "Changes the sample rate by a ratio, with a filter against aliases and images.";
        ComponentSpec::new("resampler", summary)
            .port(signal_input(PortTypes::OneOf(types), "samples"))
            .output("out", PortTypes::SameAs("in".into()), "samples at `up / down` of the rate")
            .property(PropertySpec::integer("up", 1, 1, max, "the rate is multiplied by this"))
            .property(PropertySpec::integer("down", 1, 1, max, "the rate is divided by this"))
            .property(
                PropertySpec::float(
                    "bandwidth",
                    default.bandwidth,
                    "part of the lower rate's band that passes unchanged; more takes a longer filter",
                )
                .range(0.01, 0.99),
            )
            .property(
                PropertySpec::float(
                    "attenuation",
                    default.attenuation_db,
                    "how far down aliases and images are",
                )
                .range(21.0, 150.0)
                .unit("dB"),
            )
            .sample_rate(RateRule::input("in").multiplied_by("up").divided_by("down"))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let number = |name| usize::try_from(properties.count(name)).unwrap_or(usize::MAX);
        let settings = ResamplerSettings {
            up: number("up"),
            down: number("down"),
            attenuation_db: properties.float("attenuation"),
            bandwidth: properties.float("bandwidth"),
        };
        Resampler::<f32>::new(&settings).map_err(too_long)?;
        Ok(Self { settings })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

/// Adds the property that shortens the filter to an error about the length of the filter.
fn too_long(error: DspError) -> Error {
    let DspError::OutOfRange { parameter: "taps", value, valid, .. } = &error else {
        return setting(error);
    };
    InvalidProperties::new(format!("its filter has {value} taps, but must have {valid}"))
        .property("bandwidth")
        .remedy("lower `bandwidth` or `attenuation`, use a simpler ratio, or a `decimator` first")
        .into()
}

impl ResamplerComponent {
    fn run_as<T: Sample + dsp::Sample>(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.input::<T>("in")?;
        let mut output = ports.output::<T>("out")?;
        let silent = Resampler::<T>::new(&self.settings).map_err(too_long)?;
        let (up, down) = silent.ratio();
        let mut resamplers = PerChannel::<_, T>::new(1, silent.clone());
        let mut frames = Frames::new(1);
        let mut tracker = StreamTracker::default();
        // The index of the next frame to send.
        let mut next = 0;
        while let Some(packet) = input.receive()? {
            let arrival = tracker.packet(&packet);
            if arrival == Continuity::NewStream {
                resamplers = PerChannel::new(channels(packet.stream()), silent.clone());
                frames = Frames::new(resamplers.channels());
                output.set_stream(at_ratio(packet.stream(), up, down));
            }
            let channels = frames.channels();
            if arrival != Continuity::Next {
                frames.restart();
                let first = packet.sample_index().div_ceil(channels as u64);
                resamplers.processors().iter_mut().for_each(|resampler| next = resampler.restart(first));
            }
            let part = (PACKET_MAX / channels * down / up).max(1) * channels;
            for samples in frames.push(packet.sample_index(), &packet).1.chunks(part) {
                let count = resamplers.first().outputs_for(samples.len() / channels);
                if count == 0 {
                    // There is no output, but the filters need the samples.
                    resamplers.run(0, samples, &mut [], Resampler::resample);
                    continue;
                }
                let mut out = output.loan(count * channels)?;
                resamplers.run(0, samples, &mut out, Resampler::resample);
                let index = next.saturating_mul(channels as u64);
                // Positions are in parts of an input sample, which has `up` parts.
                let place = u128::from(index) * down as u128;
                let after = between(packet.sample_index(), place, up);
                let delay = silent.delay_samples() * channels as f64;
                let time_ns = time_after(packet.time_ns(), after - delay, packet.stream());
                out.at_sample(index).at_time_ns(time_ns).send()?;
                next = next.saturating_add(count as u64);
            }
        }
        Ok(())
    }
}
