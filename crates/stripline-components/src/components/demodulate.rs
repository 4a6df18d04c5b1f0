//! `am-demodulator` and `fm-demodulator`.

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker, sample_rate, sample_rate_property};
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::{Result, StreamInfo};

use super::property_errors::{can_be_made, setting};
use super::stream_order::{channels, signal_input};
use crate::dsp::{self, DeEmphasis, PerChannel};

/// The component `am-demodulator`.
pub struct AmDemodulatorComponent {
    dc_cutoff: f64,
    normalised: bool,
    sample_rate: f64,
}

impl Component for AmDemodulatorComponent {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("am-demodulator", "Demodulates AM: the envelope without the carrier.")
            .port(signal_input(PortTypes::of::<Complex<f32>>(), "a signal around 0 Hz"))
            .output("out", PortTypes::of::<f32>(), "audio, at the same sample rate")
            .property(
                PropertySpec::float("dc_cutoff", 20.0, "content slower than this counts as the carrier")
                    .range(1e-3, 1e9)
                    .unit("Hz")
                    .changeable(),
            )
            .property(PropertySpec::boolean(
                "normalised",
                true,
                "whether to divide by the carrier, so that 1 is full modulation however strong the signal",
            )
            .changeable())
            .property(sample_rate_property())
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed())
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let demodulator = Self {
            dc_cutoff: properties.float("dc_cutoff"),
            normalised: properties.boolean("normalised"),
            sample_rate: properties.float("sample_rate"),
        };
        if demodulator.sample_rate > 0.0 {
            demodulator.at(demodulator.sample_rate)?;
        }
        Ok(demodulator)
    }

    fn run(self, ports: Ports) -> Result<()> {
        run(ports, self)
    }
}

impl Settings for AmDemodulatorComponent {
    type Demodulator = dsp::AmDemodulator;

    fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    fn at(&self, rate: f64) -> Result<dsp::AmDemodulator> {
        let demodulator = dsp::AmDemodulator::new(rate, self.dc_cutoff).map_err(setting)?;
        Ok(demodulator.normalised(self.normalised))
    }
}

/// The component `fm-demodulator`.
pub struct FmDemodulatorComponent {
    deviation: f64,
    deemphasis_us: f64,
    sample_rate: f64,
}

impl Component for FmDemodulatorComponent {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("fm-demodulator", "Demodulates FM, and undoes the pre-emphasis of broadcasts.")
            .port(signal_input(PortTypes::of::<Complex<f32>>(), "a signal around 0 Hz"))
            .output("out", PortTypes::of::<f32>(), "audio, at the same sample rate; 1 at the full deviation")
            .property(
                PropertySpec::float("deviation", 75e3, "peak deviation; 75000 for broadcasts")
                    .range(1e-3, 1e12)
                    .unit("Hz")
                    .changeable(),
            )
            .property(
                PropertySpec::float(
                    "deemphasis",
                    dsp::DEEMPHASIS_EUROPE_US,
                    "de-emphasis: 50 in Europe, 75 in the Americas; 0: none",
                )
                .range(0.0, 1e6)
                .unit("us")
                .changeable(),
            )
            .property(sample_rate_property())
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed())
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let demodulator = Self {
            deviation: properties.float("deviation"),
            deemphasis_us: properties.float("deemphasis"),
            sample_rate: properties.float("sample_rate"),
        };
        // Check the time constant, too, even if the rate is unknown.
        demodulator.at(if demodulator.sample_rate > 0.0 {
            demodulator.sample_rate
        } else {
            2.0 * demodulator.deviation
        })?;
        Ok(demodulator)
    }

    fn run(self, ports: Ports) -> Result<()> {
        run(ports, self)
    }
}

impl Settings for FmDemodulatorComponent {
    type Demodulator = Fm;

    fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    fn at(&self, rate: f64) -> Result<Fm> {
        let discriminator = dsp::FmDemodulator::new(rate, self.deviation).map_err(setting)?;
        let deemphasis = (self.deemphasis_us > 0.0).then(|| DeEmphasis::new(rate, self.deemphasis_us));
        Ok(Fm { discriminator, deemphasis: deemphasis.transpose().map_err(setting)? })
    }
}

/// The settings of a demodulator component.
trait Settings: Component {
    type Demodulator: Demodulate;

    /// Returns the rate of the property; 0: use the rate of the stream.
    fn sample_rate(&self) -> f64;

    /// Creates the demodulator for a stream at this rate.
    fn at(&self, rate: f64) -> Result<Self::Demodulator>;
}

/// The demodulator of `fm-demodulator`.
#[derive(Clone)]
struct Fm {
    discriminator: dsp::FmDemodulator,
    deemphasis: Option<DeEmphasis>,
}

/// A demodulator that turns a signal into audio, sample by sample.
trait Demodulate: Clone {
    fn demodulate(&mut self, input: &[Complex<f32>], audio: &mut [f32]);

    /// Drops all state of earlier samples.
    fn reset(&mut self);

    /// Continues from the state of a demodulator with other settings.
    fn continuing(self, before: &Self) -> Self;
}

impl Demodulate for dsp::AmDemodulator {
    fn demodulate(&mut self, input: &[Complex<f32>], audio: &mut [f32]) {
        Self::demodulate(self, input, audio);
    }

    fn reset(&mut self) {
        Self::reset(self);
    }

    fn continuing(self, before: &Self) -> Self {
        Self::continuing(self, before)
    }
}

impl Demodulate for Fm {
    fn demodulate(&mut self, input: &[Complex<f32>], audio: &mut [f32]) {
        self.discriminator.demodulate(input, audio);
        if let Some(deemphasis) = &mut self.deemphasis {
            deemphasis.filter(audio);
        }
    }

    fn reset(&mut self) {
        self.discriminator.reset();
        if let Some(deemphasis) = &mut self.deemphasis {
            deemphasis.reset();
        }
    }

    fn continuing(self, before: &Self) -> Self {
        let deemphasis = match (self.deemphasis, &before.deemphasis) {
            (Some(deemphasis), Some(before)) => Some(deemphasis.continuing(before)),
            (deemphasis, _) => deemphasis,
        };
        Self { discriminator: self.discriminator.continuing(&before.discriminator), deemphasis }
    }
}

fn run<S: Settings>(mut ports: Ports, mut settings: S) -> Result<()> {
    let live = ports.requests();
    let mut input = ports.input::<Complex<f32>>("in")?;
    let mut output = ports.output::<f32>("out")?;
    let mut tracker = StreamTracker::default();
    // The first packet starts a stream and creates the demodulators.
    let mut demodulators = None::<(PerChannel<S::Demodulator, Complex<f32>, f32>, f64)>;
    while let Some(packet) = input.receive_with(|| {
        // Without a rate, the values cannot be checked: changes wait for the first packet.
        if demodulators.is_none() && settings.sample_rate() == 0.0 {
            return;
        }
        live.apply_changes(|new| {
            let changed = S::new(new)?;
            if let Some((demodulators, rate)) = &mut demodulators {
                let changed = changed.at(*rate)?;
                let each = demodulators.processors().iter_mut();
                each.for_each(|before| *before = changed.clone().continuing(before));
            }
            settings = changed;
            Ok(())
        });
    })? {
        let arrival = tracker.packet(&packet);
        let (demodulators, _) = match &mut demodulators {
            Some(demodulators) if arrival != Continuity::NewStream => demodulators,
            unset => {
                let channels = channels(packet.stream());
                let rate = sample_rate(settings.sample_rate(), packet.stream())?;
                // Audio has no centre frequency.
                output.set_stream(StreamInfo {
                    sample_rate_hz: Some(rate),
                    center_frequency_hz: None,
                    ..(**packet.stream()).clone()
                });
                let rate = rate / channels as f64;
                unset.insert((PerChannel::new(channels, settings.at(rate)?), rate))
            }
        };
        if arrival == Continuity::AfterGap {
            demodulators.processors().iter_mut().for_each(Demodulate::reset);
        }
        let mut audio = output.loan(packet.len())?;
        let first = demodulators.channel_at(packet.sample_index());
        demodulators.run(first, &packet, &mut audio, Demodulate::demodulate);
        audio.at_sample(packet.sample_index()).at_time_ns(packet.time_ns()).send()?;
    }
    Ok(())
}
