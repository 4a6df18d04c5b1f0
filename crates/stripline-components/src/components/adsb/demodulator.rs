//! `adsb-demodulator`: samples to candidates.

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::payload::TypeName;
use stripline::{Error, Output, Packet, Result, Sample, StreamInfo};

use super::super::stream_order::signal_input;
use crate::adsb::demodulate::SAMPLE_RATE_HZ;
use crate::adsb::{Candidate, Demodulator, DemodulatorConfig, IqSample};

/// The component `adsb-demodulator`.
pub struct AdsbDemodulator {
    config: DemodulatorConfig,
}

impl Component for AdsbDemodulator {
    fn describe() -> ComponentSpec {
        let defaults = DemodulatorConfig::default();
        let formats = vec![
            TypeName::of::<Complex<u8>>(),
            TypeName::of::<Complex<i8>>(),
            TypeName::of::<Complex<i16>>(),
            TypeName::of::<Complex<f32>>(),
        ];
        ComponentSpec::new("adsb-demodulator", "Finds possible Mode S frames in samples at 2 Msample/s.")
            .port(signal_input(PortTypes::OneOf(formats), "samples at 2 Msample/s around 1090 MHz"))
            .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
            .sample_rate(RateRule::input("in").only(SAMPLE_RATE_HZ.into()))
            .output("out", PortTypes::of::<Candidate>(), "candidates: a preamble and the bits after it")
            .property(
                PropertySpec::float(
                    "snr_min",
                    defaults.snr_min_db.into(),
                    "weakest signal relative to noise",
                )
                .range(-20.0, 60.0)
                .unit("dB")
                .changeable(),
            )
            .property(
                PropertySpec::float("level_min", -200.0, "weakest signal relative to full scale")
                    .range(-200.0, 0.0)
                    .unit("dB")
                    .changeable(),
            )
            .property(
                PropertySpec::float("error_max", 0.12, "how far samples may be from ideal pulses; 1: any")
                    .range(0.0, 1.0)
                    .changeable(),
            )
            .property(
                PropertySpec::integer("candidates", 0, 0, i64::MAX, "possible frames so far").read_only(),
            )
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { config: config(properties) })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cu8", TypeName::as_str) {
            "cu8" => self.run_as::<u8>(ports),
            "cs8" => self.run_as::<i8>(ports),
            "cs16" => self.run_as::<i16>(ports),
            _ => self.run_as::<f32>(ports),
        }
    }
}

fn config(properties: &Properties) -> DemodulatorConfig {
    DemodulatorConfig {
        level_min_dbfs: properties.float("level_min") as f32,
        snr_min_db: properties.float("snr_min") as f32,
        error_max: properties.float("error_max") as f32,
    }
}

impl AdsbDemodulator {
    fn run_as<T: IqSample>(self, mut ports: Ports) -> Result<()>
    where
        Complex<T>: Sample,
    {
        let (live, candidates) = (ports.requests(), ports.status::<u64>("candidates")?);
        let mut input = ports.input::<Complex<T>>("in")?;
        let mut output = ports.output::<Candidate>("out")?;
        let mut demodulator = Demodulator::<T>::new(self.config);
        let mut tracker = StreamTracker::default();
        let mut clock = Clock::default();
        let mut found = Vec::new();
        while let Some(packet) = input.receive_with(|| {
            live.apply_changes(|new| {
                demodulator.set_config(config(new));
                Ok(())
            });
        })? {
            let arrival = tracker.packet(&packet);
            if arrival != Continuity::Next {
                // A frame that began before a gap does not continue after it.
                demodulator.finish(|candidate| found.push(clock.dated(candidate)));
                send(&mut output, &mut found, 0)?;
                clock.restart(packet.sample_index());
            }
            if arrival == Continuity::NewStream {
                output.set_stream(stream_of(&packet)?);
            }
            demodulator.push(&packet, |candidate| found.push(clock.dated(candidate)));
            clock.samples += packet.len() as u64;
            candidates.add(found.len() as u64);
            send(&mut output, &mut found, packet.time_ns())?;
        }
        demodulator.finish(|candidate| found.push(clock.dated(candidate)));
        send(&mut output, &mut found, 0)
    }
}

/// Returns the description of the stream of candidates: the source of the samples, without a rate.
fn stream_of<T: Sample>(packet: &Packet<'_, T>) -> Result<StreamInfo> {
    let stream = packet.stream();
    if stream.channels.len() > 1 {
        let message = format!(
            "the stream `{}` has the channels {} (`channels`), and frames are found in one: connect the source of one \
             channel",
            stream.id,
            stream.channels.join(", ")
        );
        return Err(Error::failed(message));
    }
    if let Some(rate) = stream.sample_rate_hz.filter(|rate| *rate != f64::from(SAMPLE_RATE_HZ)) {
        let message = format!(
            "the stream `{}` has {rate} samples/s, but frames are found at {SAMPLE_RATE_HZ} samples/s only: record \
             at that rate, or set the source's sample rate if it is wrong",
            stream.id
        );
        return Err(Error::failed(message));
    }
    Ok(StreamInfo { sample_rate_hz: None, ..StreamInfo::clone(stream).without_order() })
}

/// Sends the found candidates, if any, and clears the list.
fn send(output: &mut Output<Candidate>, found: &mut Vec<Candidate>, time_ns: i64) -> Result<()> {
    for packet in found.chunks(output.samples_max().max(1)) {
        let mut place = output.loan(packet.len())?;
        place.copy_from_slice(packet);
        place.at_time_ns(time_ns).send()?;
    }
    found.clear();
    Ok(())
}

/// A clock that converts the demodulator's sample numbers to sample indexes of the stream.
#[derive(Default)]
struct Clock {
    /// The stream index of the demodulator's first sample.
    start: u64,
    /// The number of samples that the demodulator has received.
    samples: u64,
}

impl Clock {
    fn dated(&self, candidate: Candidate) -> Candidate {
        Candidate { sample: self.start.saturating_add(candidate.sample), ..candidate }
    }

    /// Restarts the demodulator at this sample of the stream. Time does not go back: if a source
    /// was started again, the decoder would otherwise take new frames for old ones.
    fn restart(&mut self, sample: u64) {
        self.start = sample.max(self.start.saturating_add(self.samples));
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_over_a_gap_but_never_back() {
        let mut clock = Clock::default();
        clock.restart(1000);
        clock.samples = 500;
        let at = |clock: &Clock, sample| {
            let candidate = Candidate { sample, ..bytemuck::Zeroable::zeroed() };
            clock.dated(candidate).sample
        };
        assert_eq!(at(&clock, 7), 1007);
        clock.restart(9000);
        assert_eq!(at(&clock, 0), 9000);
        clock.samples = 100;
        clock.restart(0);
        assert_eq!(at(&clock, 3), 9103);
    }
}
