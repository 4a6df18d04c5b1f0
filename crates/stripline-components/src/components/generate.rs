//! `signal-generator` and `fm-station`: sources that need no file.

use num_complex::Complex;
use stripline::component::kit::PacedSource;
use stripline::component::{
    Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::{Error, Result, StreamInfo};

use super::property_errors::{can_be_made, setting};
use crate::dsp::{self, FmStationSettings, Generator, GeneratorSettings, Waveform};

/// The component `signal-generator`.
pub struct SignalGenerator {
    generator: Generator,
    properties: Properties,
}

impl Component for SignalGenerator {
    fn describe() -> ComponentSpec {
        let waveforms = Waveform::ALL.map(Waveform::name);
        ComponentSpec::new("signal-generator", "Generates a sine, another periodic signal, or noise.")
            .output("out", PortTypes::Property("output".into()), "the signal")
            .property(PropertySpec::choice("output", &["cf32", "f32"], "cf32", "complex or real samples"))
            .property(
                PropertySpec::choice("waveform", &waveforms, waveforms[0], "shape of the signal")
                    .changeable(),
            )
            .property(
                PropertySpec::float("frequency", 1e3, "frequency, within half the sample rate")
                    .range(-1e12, 1e12)
                    .unit("Hz")
                    .changeable(),
            )
            .property(
                PropertySpec::float("amplitude", 1.0, "peak; of noise, the root mean square").changeable(),
            )
            .property(PropertySpec::float("offset", 0.0, "added to every sample").changeable())
            .property(
                PropertySpec::float("phase", 0.0, "phase of the first sample").range(-1e6, 1e6).unit("deg"),
            )
            .property(sample_rate_property(48e3))
            .sample_rate(RateRule::property("sample_rate"))
            .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
            .property(PropertySpec::integer("seed", 0, 0, i64::MAX, "start of the noise"))
            .property(PacedSource::duration_property(0.0, "length of the signal; 0: for ever"))
            .property(PacedSource::rate_property())
            .property(PacedSource::packet_property(4096))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let generator = Generator::new(&settings(properties)?).map_err(setting)?;
        Ok(Self { generator, properties: properties.clone() })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let source = paced_source(&ports, &self.properties);
        let live = ports.requests();
        let heed = |generator: &mut Generator| {
            live.apply_changes(|new| generator.change(&settings(new)?).map_err(setting));
        };
        let stream = StreamInfo::new(ports.component()).sample_rate_hz(self.properties.float("sample_rate"));
        if self.properties.text("output") == "f32" {
            let mut output = ports.output::<f32>("out")?;
            output.set_stream(stream);
            return source.run(output, |samples| {
                heed(&mut self.generator);
                self.generator.fill_real(samples);
                Ok(samples.len())
            });
        }
        let mut output = ports.output::<Complex<f32>>("out")?;
        output.set_stream(stream);
        source.run(output, |samples| {
            heed(&mut self.generator);
            self.generator.fill(samples);
            Ok(samples.len())
        })
    }
}

fn settings(properties: &Properties) -> Result<GeneratorSettings> {
    Ok(GeneratorSettings {
        sample_rate_hz: properties.float("sample_rate"),
        waveform: properties.text("waveform").parse().map_err(Error::failed)?,
        frequency_hz: properties.float("frequency"),
        amplitude: properties.float("amplitude"),
        offset: Complex::new(properties.float("offset"), 0.0),
        phase_deg: properties.float("phase"),
        seed: properties.count("seed"),
    })
}

/// The component `fm-station`.
pub struct FmStationComponent {
    station: dsp::FmStation,
    properties: Properties,
}

impl Component for FmStationComponent {
    fn describe() -> ComponentSpec {
        let defaults = FmStationSettings::default();
        ComponentSpec::new("fm-station", "Simulates a broadcast FM station that plays a short tune for ever.")
            .output("out", PortTypes::of::<Complex<f32>>(), "samples of a receiver tuned to the station")
            .property(sample_rate_property(defaults.sample_rate_hz))
            .sample_rate(RateRule::property("sample_rate"))
            .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
            .property(
                PropertySpec::float("frequency", 100e6, "centre frequency in the stream's description")
                    .range(0.0, 1e12)
                    .unit("Hz"),
            )
            .property(
                PropertySpec::float("offset", 0.0, "carrier, from the centre").range(-1e9, 1e9).unit("Hz"),
            )
            .property(PropertySpec::float("amplitude", 1.0, "magnitude of the carrier").range(0.0, 1e6))
            .property(
                PropertySpec::float("snr", 30.0, "carrier relative to the noise in the whole band")
                    .range(-300.0, 300.0)
                    .unit("dB"),
            )
            .property(PropertySpec::boolean("stereo", defaults.stereo, "whether to transmit in stereo"))
            .property(
                PropertySpec::float(
                    "preemphasis",
                    defaults.preemphasis_us,
                    "50 in Europe, 75 in the Americas",
                )
                .range(0.0, 75.0)
                .unit("us"),
            )
            .property(PropertySpec::integer("seed", 0, 0, i64::MAX, "start of the noise"))
            .property(PacedSource::duration_property(0.0, "length of the transmission; 0: for ever"))
            .property(PacedSource::rate_property())
            .property(PacedSource::packet_property(16 << 10))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let settings = FmStationSettings {
            sample_rate_hz: properties.float("sample_rate"),
            offset_hz: properties.float("offset"),
            amplitude: properties.float("amplitude"),
            snr_db: Some(properties.float("snr")),
            seed: properties.count("seed"),
            stereo: properties.boolean("stereo"),
            preemphasis_us: properties.float("preemphasis"),
        };
        let station = dsp::FmStation::new(&settings).map_err(setting)?;
        Ok(Self { station, properties: properties.clone() })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let source = paced_source(&ports, &self.properties);
        let mut output = ports.output::<Complex<f32>>("out")?;
        output.set_stream(
            StreamInfo::new(ports.component())
                .sample_rate_hz(self.properties.float("sample_rate"))
                .center_frequency_hz(self.properties.float("frequency")),
        );
        source.run(output, |samples| {
            self.station.fill(samples);
            Ok(samples.len())
        })
    }
}

fn sample_rate_property(default: f64) -> PropertySpec {
    PropertySpec::float("sample_rate", default, "sample rate").range(1e-3, 1e12).unit("Hz")
}

fn paced_source(ports: &Ports, properties: &Properties) -> PacedSource {
    PacedSource::new(ports, properties, properties.float("rate"))
        .limited(properties.float("duration_s"), properties.float("sample_rate"))
}
