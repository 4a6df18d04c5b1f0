//! Frames decoded from a real recording, compared with the output of an established decoder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use num_complex::Complex;
use stripline_components::adsb::{
    Decoder, DecoderConfig, Demodulator, DemodulatorConfig, Tracker, TrackerConfig,
};

/// Returns the recording, and the lines of the reference. If one of the files cannot be read,
/// prints a note and returns `None`.
fn capture() -> Option<(Vec<Complex<u8>>, Vec<String>)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/adsb/modes1.bin");
    let path =
        std::env::var_os("STRIPLINE_ADSB_CAPTURE").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let (Ok(bytes), Ok(lines)) = (std::fs::read(&path), std::fs::read_to_string(path.with_extension("avr")))
    else {
        println!(
            "SKIPPED: no ADS-B capture. Set STRIPLINE_ADSB_CAPTURE to modes1.bin, with modes1.avr beside it; {} or \
             its reference cannot be read.",
            path.display()
        );
        return None;
    };
    Some((bytemuck::cast_slice(&bytes).to_vec(), lines.lines().map(str::to_owned).collect()))
}

#[test]
fn every_frame_of_the_reference_is_found() {
    let Some((samples, reference)) = capture() else { return };
    let mut decoder = Decoder::new(DecoderConfig::default());
    let mut tracker = Tracker::new(TrackerConfig::default());
    let mut candidates = 0;
    let mut accepted = Vec::new();
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    let mut out = |candidate| {
        candidates += 1;
        accepted.extend(decoder.decode(&candidate));
    };
    demodulator.push(&samples, &mut out);
    demodulator.finish(&mut out);

    let mut left = BTreeMap::<_, usize>::new();
    for accepted in &accepted {
        *left.entry(accepted.frame.to_string()).or_default() += 1;
        tracker.update(accepted);
    }
    let missing: Vec<_> = reference
        .iter()
        .filter(|line| match left.get_mut(*line) {
            Some(count @ 1..) => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect();
    println!(
        "{candidates} candidates, {} frames, {} of the reference missing",
        accepted.len(),
        missing.len()
    );
    println!("{tracker}");
    assert_eq!(missing, [""; 0]);

    // The recording has only one aircraft, which sent all frames.
    for accepted in &accepted {
        assert_eq!(accepted.address, 0x004d_2023, "{accepted:?}");
        let remainder = accepted.frame.remainder();
        match accepted.frame.downlink_format() {
            17 | 18 => assert_eq!(remainder, 0),
            11 => assert!(remainder < 80),
            _ => assert_eq!(remainder, accepted.address),
        }
    }
    let aircraft = tracker.aircraft(0x004d_2023).unwrap();
    assert!(tracker.len() == 1 && aircraft.position.is_some() && aircraft.velocity.speed_kt.is_some());
    assert!(candidates < samples.len() / 500);
}
