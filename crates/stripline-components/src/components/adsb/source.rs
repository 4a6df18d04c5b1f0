//! `adsb-source`: a recording at 1090 MHz, or a simulated sky.

use num_complex::Complex;
use stripline::component::kit::PacedSource;
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec,
};
use stripline::{Error, Result, Sample, StreamInfo};

use crate::adsb::demodulate::SAMPLE_RATE_HZ;
use crate::adsb::{Simulation, SimulationConfig};
use crate::components::file_source::{play, truncate_partial_property};
use crate::components::property_errors::{self, can_play};
use crate::formats::{FileReader, IqFileReader, IqReaderOptions, RawSample, SampleFormat, is_sigmf};

/// The frequency at which Mode S transponders transmit.
const FREQUENCY_HZ: f64 = 1090e6;
/// The number of samples simulated at a time before conversion.
const BLOCK: usize = 2048;

/// The component `adsb-source`.
pub struct AdsbSource {
    signal: Signal,
    format: SampleFormat,
    sample_rate: f64,
    rate: f64,
    properties: Properties,
}

enum Signal {
    Recording(Box<FileReader>),
    Simulation(Box<Simulation>),
}

impl Component for AdsbSource {
    fn describe() -> ComponentSpec {
        let formats = SampleFormat::ALL.map(SampleFormat::name);
        ComponentSpec::new(
            "adsb-source",
            "Plays a recording made at 1090 MHz, or simulates a sky full of aircraft when no file is given.",
        )
        .output("out", PortTypes::Property("format".into()), "samples, as they are in the file")
        .property(PropertySpec::path("path", "recording to play, raw or SigMF; none: simulate"))
        .property(PropertySpec::choice(
            "format",
            &formats,
            SampleFormat::Cu8.name(),
            "format of the samples, in the file and at the output",
        ))
        .property(
            PropertySpec::float("sample_rate", 0.0, "sample rate; 0: from the file, else 2e6")
                .range(0.0, 1e9)
                .unit("Hz"),
        )
        .property(truncate_partial_property())
        .property(PropertySpec::integer("repeat", 1, 0, i64::MAX, "times to play the file; 0: for ever"))
        .property(
            PropertySpec::float(
                "rate",
                -1.0,
                "pace; 0: as fast as possible; -1: real time when simulating, else as fast as possible",
            )
            .range(-1.0, 1e12)
            .unit("samples/s"),
        )
        .property(PacedSource::duration_property(10.0, "length of the simulation; 0: for ever"))
        .property(PropertySpec::integer("aircraft", 8, 0, 65_536, "simulated aircraft"))
        .property(
            PropertySpec::float("noise", -40.0, "power of the simulated noise relative to full scale")
                .range(-200.0, 0.0)
                .unit("dB"),
        )
        .property(PropertySpec::integer("seed", 1, 0, i64::MAX, "start of the simulation's randomness"))
        .property(PacedSource::packet_property(64 << 10))
        .validated(can_play::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let format: SampleFormat = properties.text("format").parse().map_err(Error::failed)?;
        let mut sample_rate = f64::from(SAMPLE_RATE_HZ);
        let asked_rate = properties.float("sample_rate");
        if asked_rate > 0.0 {
            sample_rate = asked_rate;
        }
        let signal = if let Some(path) = properties.path("path") {
            let options = IqReaderOptions {
                format: (!is_sigmf(&path)).then_some(format),
                repeat: properties.count("repeat"),
                truncate_partial: properties.boolean("truncate_partial"),
            };
            let reader = IqFileReader::open(&path, &options).map_err(property_errors::file)?;
            if reader.format() != format {
                let (path, found) = (path.display(), reader.format());
                let invalid = InvalidProperties::new(format!("{path}: holds {found} samples, not {format}"));
                let remedy = format!("set the property `format` to \"{found}\"");
                return Err(invalid.property("format").remedy(remedy).into());
            }
            sample_rate = reader.sample_rate_hz().filter(|_| asked_rate == 0.0).unwrap_or(sample_rate);
            Signal::Recording(Box::new(reader.into_reader()))
        } else {
            let config = SimulationConfig {
                seed: properties.count("seed"),
                aircraft: usize::try_from(properties.count("aircraft")).unwrap_or(usize::MAX),
                noise_dbfs: properties.float("noise") as f32,
                sample_rate_hz: sample_rate,
                ..Default::default()
            };
            let simulation = Simulation::new(config);
            // The simulation has clamped a value out of range.
            if simulation.config().sample_rate_hz != sample_rate {
                let message =
                    format!("`sample_rate` is {sample_rate} Hz; a simulation has from 1e6 to 1e8 Hz");
                return Err(InvalidProperties::new(message).property("sample_rate").into());
            }
            Signal::Simulation(Box::new(simulation))
        };
        let rate = match (properties.float("rate"), &signal) {
            (rate, _) if rate >= 0.0 => rate,
            (-1.0, Signal::Recording(_)) => 0.0,
            (-1.0, Signal::Simulation(_)) => sample_rate,
            (rate, _) => {
                let invalid = InvalidProperties::new(format!(
                    "`rate` is {rate} samples/s; it must be -1, or 0 or more"
                ));
                return Err(invalid.property("rate").into());
            }
        };
        Ok(Self { signal, format, sample_rate, rate, properties: properties.clone() })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match self.format {
            SampleFormat::Cu8 => {
                self.run_as(ports, |simulation, samples: &mut [Complex<u8>]| simulation.fill_cu8(samples))
            }
            SampleFormat::Cs8 => self.run_as(ports, fill_converted::<Complex<i8>>),
            SampleFormat::Cs16 => self.run_as(ports, fill_converted::<Complex<i16>>),
            SampleFormat::Cf32 => {
                self.run_as(ports, |simulation, samples: &mut [Complex<f32>]| simulation.fill(samples))
            }
        }
    }
}

impl AdsbSource {
    fn run_as<T: Sample + RawSample>(
        self,
        mut ports: Ports,
        simulate: impl Fn(&mut Simulation, &mut [T]),
    ) -> Result<()> {
        let (name, sample_rate) = (ports.component().to_owned(), self.sample_rate);
        let described = |in_file: Option<f64>| {
            let stream = StreamInfo::new(&name).sample_rate_hz(sample_rate);
            stream.center_frequency_hz(in_file.unwrap_or(FREQUENCY_HZ))
        };
        match self.signal {
            Signal::Recording(mut reader) => {
                let scalar = reader.scalar();
                play(ports, &self.properties, self.rate, &mut reader, scalar, described)
            }
            Signal::Simulation(mut simulation) => {
                let source = PacedSource::new(&ports, &self.properties, self.rate);
                let mut output = ports.output::<T>("out")?;
                output.set_stream(described(None));
                source.limited(self.properties.float("duration_s"), sample_rate).run(output, |samples| {
                    simulate(&mut simulation, samples);
                    // The list of transmitted frames is not used, and would grow without bound.
                    drop(simulation.take_sent());
                    Ok(samples.len())
                })
            }
        }
    }
}

/// Simulates samples in a format that the simulation does not produce itself.
fn fill_converted<T: RawSample>(simulation: &mut Simulation, samples: &mut [T]) {
    let mut block = [Complex::new(0.0, 0.0); BLOCK];
    for samples in samples.chunks_mut(BLOCK) {
        let block = &mut block[..samples.len()];
        simulation.fill(block);
        T::FORMAT.encode(block, bytemuck::cast_slice_mut(samples));
        T::swap_from_little_endian(samples);
    }
}
