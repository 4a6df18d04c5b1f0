//! VITA 49.2 and DIFI: signal data and its description in datagrams.

mod address;
mod batch;
mod context;
mod description;
mod format;
mod intake;
mod loss;
mod packet;
mod packing;
mod sink;
mod source;

pub use packet::{BadPacket, ClassId, Fraction, Indicators, Packet, PacketKind, Seconds, Stamp};
pub use sink::Vita49Sink;
pub use source::Vita49Source;

use stripline::component::Registry;

/// Adds the components of this module.
pub(crate) fn add(registry: Registry) -> Registry {
    registry.with::<Vita49Source>().with::<Vita49Sink>()
}

/// Takes datagrams as the source does, and counts the samples that are sent or missing. Fuzzing
/// calls this function.
///
/// ```
/// stripline_radio::vita49::check_datagrams(&[&[0x10, 0, 0, 3, 0, 0, 0, 5, 0, 1, 0, 2], &[1]]);
/// ```
#[doc(hidden)]
pub fn check_datagrams(datagrams: &[&[u8]]) {
    let mut loss = loss::LossCounter::default();
    let (mut described, mut format) = (context::Context::default(), None);
    for datagram in datagrams {
        let Ok(packet) = Packet::parse(datagram) else { continue };
        match packet.kind {
            PacketKind::Context => {
                let Ok(found) = context::Context::parse(packet.payload) else { continue };
                described.update(&found);
                loss.set_rate(described.sample_rate_hz.filter(|rate_hz| *rate_hz > 0.0));
                format = described.format.and_then(Result::ok).or(format);
                let facts = description::Facts {
                    id: "stream",
                    stream: packet.stream,
                    class: packet.class,
                    context: &described,
                    indicators: packet.trailer.or(described.indicators).unwrap_or_default(),
                    stamp: packet.stamp,
                };
                assert_eq!(facts.describe().check(), Ok(()));
            }
            PacketKind::Signal => {
                let Some((format, output)) = format.and_then(|format| Some((format, format.natural()?)))
                else {
                    continue;
                };
                let samples =
                    format.samples(packet.payload.len(), packet.pad_bits).filter(|count| *count > 0);
                let Some(samples) = samples else { continue };
                loss.step(packet.count, packet.stamp, samples as u64);
                let mut out = vec![0; samples * output.size()];
                format.convert(packet.payload, output, &mut out);
            }
            _ => {}
        }
    }
}
