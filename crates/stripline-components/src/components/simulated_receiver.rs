//! `simulated-receiver`: a receiver with a tuner, and the carriers that it can receive.

use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex;
use stripline::component::kit::{Pace, PacedSource};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, OrderRule, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::{Error, Result, StreamInfo};
use stripline_radio::tuner::{OfferedTuner, Tuner, TunerAbilities, TunerError, TunerRange, TunerSetting};

use super::property_errors::can_be_made;
use crate::dsp::{Awgn, Generator, GeneratorSettings};

/// The most carriers.
const CARRIERS_MAX: usize = 1000;

/// The frequencies of the tuner.
const RANGE: TunerRange = TunerRange { min: 0.0, max: 1e10, step: 1.0 };

/// The component `simulated-receiver`.
pub struct SimulatedReceiver {
    carriers: Vec<SimulatedCarrier>,
    noise: Awgn,
    properties: Properties,
}

impl Component for SimulatedReceiver {
    fn describe() -> ComponentSpec {
        let carriers = "carriers: frequency in Hz, and power in dB relative to full scale";
        ComponentSpec::new(
            "simulated-receiver",
            "Simulates a receiver with a tuner, and carriers on the air.",
        )
        .output("out", PortTypes::of::<Complex<f32>>(), "the band around the centre frequency")
        .property(PropertySpec::text("carriers", "98.2e6:-20, 101.3e6:-30", carriers))
        .property(
            PropertySpec::float("noise", -60.0, "power of the noise in the band")
                .range(-200.0, 0.0)
                .unit("dB"),
        )
        .property(
            PropertySpec::float("frequency", 98e6, "centre frequency")
                .range(RANGE.min, RANGE.max)
                .unit("Hz")
                .changeable(),
        )
        .property(
            PropertySpec::float("sample_rate", 1e6, "sample rate, and width of the band")
                .range(1.0, 1e9)
                .unit("Hz"),
        )
        .sample_rate(RateRule::property("sample_rate"))
        .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
        .property(PropertySpec::integer("seed", 0, 0, i64::MAX, "start of the noise"))
        .property(PacedSource::duration_property(0.0, "length of the signal; 0: for ever"))
        .property(PacedSource::rate_property())
        .property(PacedSource::packet_property(4096))
        .property(OfferedTuner::property())
        .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let noise = Awgn::new(amplitude(properties.float("noise")), properties.count("seed"));
        Ok(Self {
            carriers: carriers(properties.text("carriers"))?,
            noise: noise.map_err(Error::failed)?,
            properties: properties.clone(),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { carriers, mut noise, properties } = self;
        let rate_hz = properties.float("sample_rate");
        let tuner = SimulatedTuner { centre_hz: Mutex::new(properties.float("frequency")), rate_hz };
        let tuner = Arc::new(tuner);
        let _offered =
            OfferedTuner::of_properties(&properties, ports.component(), SharedTuner(Arc::clone(&tuner)))?;
        let requests = ports.requests();
        let mut pace = Pace::new(ports.stop_signal(), properties.float("rate"));
        let mut output = ports.output::<Complex<f32>>("out")?;
        // The cast saturates: a duration that is too long to count never ends.
        let limit = (properties.float("duration_s") * rate_hz).round() as u64;
        let (mut sent, mut tones, mut tuned) = (0, Vec::new(), None);
        let mut tone = vec![Complex::default(); usize::try_from(properties.count("packet")).unwrap_or(1)];
        while limit == 0 || sent < limit {
            requests.apply_changes(|new| {
                tuner.tune(new.float("frequency"));
                Ok(())
            });
            let centre_hz = tuner.centre_hz();
            if tuned != Some(centre_hz) {
                tuned = Some(centre_hz);
                tones = carriers.iter().filter_map(|carrier| carrier.received(centre_hz, rate_hz)).collect();
                let stream = StreamInfo::new(ports.component()).sample_rate_hz(rate_hz);
                output.set_stream(pace.described(stream.center_frequency_hz(centre_hz)));
            }
            let left = if limit == 0 { u64::MAX } else { limit - sent };
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(tone.len());
            let mut packet = output.loan(count)?;
            noise.fill(&mut packet);
            for generator in &mut tones {
                generator.fill(&mut tone[..count]);
                packet.iter_mut().zip(&tone).for_each(|(sum, part)| *sum += part);
            }
            let due_ns = pace.wait_for(sent + count as u64)?;
            packet.at_sample(sent).intended_ns(due_ns).at_time_ns(pace.time_ns(sent)).send()?;
            sent += count as u64;
        }
        Ok(())
    }
}

fn amplitude(power_db: f64) -> f64 {
    10_f64.powf(power_db / 20.0)
}

/// A carrier on the air.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SimulatedCarrier {
    frequency_hz: f64,
    power_db: f64,
}

impl SimulatedCarrier {
    /// Returns the carrier in a band; `None`: the band does not have it.
    fn received(self, centre_hz: f64, rate_hz: f64) -> Option<Generator> {
        let settings = GeneratorSettings {
            sample_rate_hz: rate_hz,
            frequency_hz: self.frequency_hz - centre_hz,
            amplitude: amplitude(self.power_db),
            ..GeneratorSettings::default()
        };
        Generator::new(&settings).ok()
    }
}

/// Returns the carriers in the property `carriers`.
fn carriers(text: &str) -> Result<Vec<SimulatedCarrier>> {
    let carrier = |text: &str| {
        let (frequency, power) = text.split_once(':')?;
        let [frequency_hz, power_db] = [frequency, power].map(|number| number.trim().parse::<f64>().ok());
        Some(SimulatedCarrier {
            frequency_hz: frequency_hz.filter(|hz| (RANGE.min..=RANGE.max).contains(hz))?,
            power_db: power_db.filter(|db| (-300.0..=100.0).contains(db))?,
        })
    };
    let refused = |problem: String| {
        let remedy = "write each as frequency:power, from 0 to 1e10 Hz and -300 to 100 dB, as `98.2e6:-20`";
        Err(InvalidProperties::new(problem).property("carriers").remedy(remedy).into())
    };
    let mut found = Vec::new();
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match carrier(text) {
            Some(_) if found.len() == CARRIERS_MAX => {
                return refused(format!("`carriers` has more than {CARRIERS_MAX}"));
            }
            Some(carrier) => found.push(carrier),
            None => return refused(format!("`carriers` has `{text}`, which is no carrier")),
        }
    }
    Ok(found)
}

/// The tuner of the component.
struct SimulatedTuner {
    centre_hz: Mutex<f64>,
    rate_hz: f64,
}

impl SimulatedTuner {
    fn centre_hz(&self) -> f64 {
        *self.centre_hz.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tunes to a whole number of Hz from the next packet on, and returns it.
    fn tune(&self, frequency_hz: f64) -> f64 {
        let reached_hz = frequency_hz.round();
        *self.centre_hz.lock().unwrap_or_else(PoisonError::into_inner) = reached_hz;
        reached_hz
    }
}

/// The tuner for its clients.
struct SharedTuner(Arc<SimulatedTuner>);

impl Tuner for SharedTuner {
    fn frequency(&self) -> std::result::Result<f64, TunerError> {
        Ok(self.0.centre_hz())
    }

    fn set_frequency(&self, frequency_hz: f64, at_ns: Option<i64>) -> std::result::Result<f64, TunerError> {
        let abilities = self.abilities()?;
        TunerError::check_untimed(TunerSetting::Frequency, at_ns, &abilities.device)?;
        TunerRange::check(TunerSetting::Frequency, frequency_hz, &abilities.frequency_hz)?;
        Ok(self.0.tune(frequency_hz))
    }

    fn rate(&self) -> std::result::Result<f64, TunerError> {
        Ok(self.0.rate_hz)
    }

    fn set_rate(&self, rate_hz: f64, at_ns: Option<i64>) -> std::result::Result<f64, TunerError> {
        let abilities = self.abilities()?;
        TunerError::check_untimed(TunerSetting::Rate, at_ns, &abilities.device)?;
        TunerRange::check(TunerSetting::Rate, rate_hz, &abilities.rate_hz).map(|()| rate_hz)
    }

    fn abilities(&self) -> std::result::Result<TunerAbilities, TunerError> {
        Ok(TunerAbilities {
            device: "a simulated receiver".into(),
            frequency_hz: vec![RANGE],
            rate_hz: vec![TunerRange::only(self.0.rate_hz)],
            ..TunerAbilities::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stripline::component::harness::Harness;

    use super::*;

    /// Tunes by the property: the power and the description change at the same sample.
    #[test]
    fn a_retune_changes_description_and_samples_at_once() {
        let mut run = Harness::of::<SimulatedReceiver>()
            .property("tuner", "")
            .property("carriers", "100e6:-20, 101e6:-20, 101.2e6:-20")
            .property("frequency", 100e6)
            .start()
            .unwrap();
        let mut output = run.output::<Complex<f32>>("out").unwrap();
        let mut next_hz = || {
            let packet = output.receive().unwrap().unwrap();
            let power: f32 = packet.iter().map(Complex::norm_sqr).sum::<f32>() / packet.len() as f32;
            let found_hz = packet.stream().center_frequency_hz.unwrap();
            let expected = [(100e6, 0.01), (101.1e6, 0.02), (3e9, 1e-6)];
            let (_, expected) = expected.into_iter().find(|(hz, _)| *hz == found_hz).unwrap();
            assert!((power / expected - 1.0).abs() < 0.1, "{found_hz} Hz: {power}");
            assert_eq!((packet.time_ns(), packet.stream().clock), (0, None), "without a pace");
            found_hz
        };
        for hz in [100e6, 101.1e6, 3e9, 100e6] {
            let receive = || next_hz() > 0.0;
            run.set_while("frequency", hz, Duration::MAX, receive).unwrap();
            while next_hz() != hz {}
        }
        run.stop();
        drop(output);
        run.finish().unwrap();
    }

    /// Refuses texts that are no carriers, with the text.
    #[test]
    fn carriers_are_checked() {
        assert_eq!(
            carriers(" 1e6 : -3.5 ,, 2:0").unwrap()[1],
            SimulatedCarrier { frequency_hz: 2.0, power_db: 0.0 }
        );
        for text in ["1e6", "1e6:loud", "-1:0", "nan:0", "1:101", "1:2:3"] {
            let error = carriers(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("98.2e6:-20"), "{error}");
        }
    }
}
