//! `adsb-decoder`: candidates to frames, verified by their parity.

use stripline::Result;
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};

use super::record::FrameRecord;
use crate::adsb::demodulate::SAMPLE_RATE_HZ;
use crate::adsb::{Candidate, Decoder, DecoderConfig};

/// The component `adsb-decoder`.
pub struct AdsbDecoder {
    config: DecoderConfig,
}

impl Component for AdsbDecoder {
    fn describe() -> ComponentSpec {
        let defaults = DecoderConfig::default();
        ComponentSpec::new("adsb-decoder", "Passes on the Mode S frames with correct parity.")
            .input("in", PortTypes::of::<Candidate>(), "candidates")
            .output("out", PortTypes::of::<FrameRecord>(), "frames")
            .property(
                PropertySpec::integer(
                    "correct_bits",
                    defaults.correct_bits_max.into(),
                    0,
                    24,
                    "longest run of wrong bits that is corrected",
                )
                .changeable(),
            )
            .property(
                PropertySpec::boolean(
                    "correct_unknown",
                    defaults.correct_unknown,
                    "whether a corrected frame may be the first one of an aircraft",
                )
                .changeable(),
            )
            .property(
                PropertySpec::float("address_lifetime_s", 60.0, "how long an address stays confirmed")
                    .range(0.0, 1e6)
                    .unit("s")
                    .changeable(),
            )
            .property(PropertySpec::integer("frames", 0, 0, i64::MAX, "frames so far").read_only())
            .property(PropertySpec::integer("aircraft", 0, 0, i64::MAX, "addresses stored now").read_only())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { config: config(properties) })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.input::<Candidate>("in")?;
        let mut output = ports.output::<FrameRecord>("out")?;
        let live = ports.requests();
        let (count, aircraft) = (ports.status::<u64>("frames")?, ports.status::<u64>("aircraft")?);
        let mut decoder = Decoder::new(self.config);
        let mut frames: Vec<FrameRecord> = Vec::new();
        while let Some(packet) = input.receive_with(|| {
            live.apply_changes(|new| {
                decoder.set_config(config(new));
                Ok(())
            });
        })? {
            frames.clear();
            let accepted = packet.iter().filter_map(|candidate| decoder.decode(candidate));
            frames.extend(accepted.map(|accepted| FrameRecord::from(&accepted)));
            count.add(frames.len() as u64);
            aircraft.set(decoder.known_addresses() as u64);
            if frames.is_empty() {
                continue;
            }
            // A new stream has another source or another centre frequency.
            output.set_stream((**packet.stream()).clone());
            // A frame is smaller than a candidate, so the frames of one packet fit one packet.
            let mut place = output.loan(frames.len())?;
            place.copy_from_slice(&frames);
            place.at_time_ns(packet.time_ns()).send()?;
        }
        Ok(())
    }
}

fn config(properties: &Properties) -> DecoderConfig {
    let lifetime_s = properties.float("address_lifetime_s");
    DecoderConfig {
        address_lifetime_samples: (lifetime_s * f64::from(SAMPLE_RATE_HZ)) as u64,
        correct_bits_max: properties.count("correct_bits") as u8,
        correct_unknown: properties.boolean("correct_unknown"),
        ..Default::default()
    }
}
