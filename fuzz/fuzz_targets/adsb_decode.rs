//! Arbitrary candidates through the ADS-B decoder and tracker.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_components::adsb::message::Message;
use stripline_components::adsb::{Candidate, Decoder, DecoderConfig, Frame, Tracker, TrackerConfig};
use stripline_fuzz::Choices;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    let mut decoder = Decoder::new(DecoderConfig {
        address_lifetime_samples: if way & 1 == 0 { choices.number() } else { 120_000_000 },
        addresses_max: usize::from(way >> 1 & 7) + 1,
        correct_bits_max: choices.byte() % 25,
        correct_unknown: way & 0x80 != 0,
    });
    let addresses_max = usize::from(way >> 1 & 7) + 1;
    let mut tracker = Tracker::new(TrackerConfig::default());
    while !choices.is_empty() {
        let action = choices.byte();
        let candidate = if action & 1 == 0 {
            let mut bytes = [0; size_of::<Candidate>()];
            let given = choices.bytes(bytes.len());
            bytes[..given.len()].copy_from_slice(given);
            bytemuck::pod_read_unaligned(&bytes)
        } else {
            // The parity is correct except for a flipped bit, so that the decoder parses messages.
            let mut bytes = [0; 14];
            let given = choices.bytes(14);
            bytes[..given.len()].copy_from_slice(given);
            let mut frame = Frame::from_start_of(&bytes).with_remainder(0);
            if action & 2 != 0 {
                let bit = usize::from(choices.byte()) % frame.bits();
                frame = frame.with_bit_flipped(bit).unwrap_or(frame);
            }
            let mut bytes = [0; 14];
            bytes[..frame.as_bytes().len()].copy_from_slice(frame.as_bytes());
            Candidate {
                sample: choices.number(),
                fraction: 0.0,
                level_dbfs: -3.0,
                snr_db: 20.0,
                error: 0.01,
                bytes,
                length: frame.as_bytes().len() as u8,
                reserved: 0,
            }
        };
        if let Some(accepted) = decoder.decode(&candidate) {
            let _ = format!("{:?} {:?}", Message::of(&accepted.frame), tracker.update(&accepted));
        }
        assert!(decoder.known_addresses() <= addresses_max);
    }
    for aircraft in tracker.iter() {
        let _ = format!("{aircraft:?}");
    }
});
