//! Arbitrary samples through the ADS-B demodulator. The result must not depend on the block size.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use bytemuck::{Pod, Zeroable};
use libfuzzer_sys::fuzz_target;
use num_complex::Complex;
use stripline_components::adsb::{Candidate, Demodulator, DemodulatorConfig, IqSample};
use stripline_fuzz::Choices;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    match choices.byte() & 3 {
        0 => demodulate::<u8>(choices),
        1 => demodulate::<i8>(choices),
        2 => demodulate::<i16>(choices),
        _ => demodulate::<f32>(choices),
    }
});

fn demodulate<T: IqSample>(mut choices: Choices)
where
    Complex<T>: Pod,
{
    let way = choices.byte();
    let config = DemodulatorConfig {
        snr_min_db: if way & 1 == 0 { 6.0 } else { -20.0 },
        error_max: if way & 2 == 0 { 0.12 } else { 1.0 },
        ..DemodulatorConfig::default()
    };
    let cut = usize::from(choices.byte()) + 1;
    // The input has a length and a value for each run of equal samples, so that few bytes make many
    // samples.
    let mut samples: Vec<Complex<T>> = Vec::new();
    while !choices.is_empty() && samples.len() < 20_000 {
        let run = usize::from(choices.byte() & 15) + 1;
        let mut sample = Complex::<T>::zeroed();
        let given = choices.bytes(size_of::<Complex<T>>());
        bytemuck::bytes_of_mut(&mut sample)[..given.len()].copy_from_slice(given);
        samples.extend(std::iter::repeat_n(sample, run));
    }
    let play = |cut: usize| {
        let mut demodulator = Demodulator::<T>::new(config);
        let mut found: Vec<Candidate> = Vec::new();
        for piece in samples.chunks(cut) {
            demodulator.push(piece, |candidate| found.push(candidate));
        }
        demodulator.finish(|candidate| found.push(candidate));
        found
    };
    let found = play(cut);
    let whole = play(usize::MAX);
    assert_eq!(bytemuck::cast_slice::<_, u8>(&found), bytemuck::cast_slice::<_, u8>(&whole));
    for candidate in &found {
        assert!(candidate.frame().is_some(), "{candidate:?}");
        assert!(candidate.sample < samples.len() as u64);
    }
}
