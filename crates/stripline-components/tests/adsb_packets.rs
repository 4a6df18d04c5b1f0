//! The demodulator accepts any samples, and the result does not depend on packet boundaries.

use std::sync::LazyLock;

use num_complex::Complex;
use proptest::prelude::*;
use stripline_components::adsb::{
    Candidate, Decoder, DecoderConfig, Demodulator, DemodulatorConfig, IqSample, Simulation, SimulationConfig,
};

/// A fifth of a second with overlapping frames. One frame is cut off at the end.
static RECORDING: LazyLock<Vec<Complex<u8>>> = LazyLock::new(|| {
    let config = SimulationConfig { aircraft: 300, ..SimulationConfig::default() };
    let mut simulation = Simulation::new(config);
    let mut samples = vec![Complex::new(0u8, 0); 400_000];
    simulation.fill_cu8(&mut samples);
    let last = simulation.take_sent().last().map_or(0, |sent| sent.start_samples as usize);
    samples.truncate((last + 130).min(400_000));
    samples
});

fn candidates<T: IqSample>(packets: impl Iterator<Item = impl AsRef<[Complex<T>]>>) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    packets.for_each(|packet| demodulator.push(packet.as_ref(), |candidate| all.push(candidate)));
    demodulator.finish(|candidate| all.push(candidate));
    all
}

#[test]
fn one_sample_at_a_time_is_enough() {
    let samples = &RECORDING[..50_000];
    let whole = candidates(std::iter::once(samples));
    assert!(!whole.is_empty());
    assert_eq!(candidates(samples.chunks(1)), whole);
}

#[test]
fn a_stream_may_follow_another() {
    let samples = &RECORDING[..50_000];
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    let mut runs = [Vec::new(), Vec::new()];
    for run in &mut runs {
        demodulator.push(samples, |candidate| run.push(candidate));
        demodulator.finish(|candidate| run.push(candidate));
    }
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn candidates_come_in_order_and_without_delay() {
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    let mut pushed = 0;
    let mut last = 0;
    for packet in RECORDING.chunks(100) {
        pushed += packet.len() as u64;
        demodulator.push(packet, |candidate| {
            assert!(candidate.sample >= last);
            assert!(candidate.sample + 240 + 100 >= pushed);
            last = candidate.sample;
        });
    }
    assert!(last > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn packets_make_no_difference(lengths in prop::collection::vec(0usize..20_000, 1..40)) {
        static WHOLE: LazyLock<Vec<Candidate>> = LazyLock::new(|| candidates(std::iter::once(&RECORDING[..])));
        let mut rest = &RECORDING[..];
        let cut = lengths.iter().cycle().chain(&[1]).map_while(|&length| {
            // Allow empty packets, but not only empty packets: the loop would not end.
            let (now, later) = rest.split_at_checked(length.max(usize::from(lengths.iter().all(|&l| l == 0))))
                .unwrap_or((rest, &[]));
            rest = later;
            (!now.is_empty() || !rest.is_empty()).then_some(now)
        });
        prop_assert_eq!(&candidates(cut), &*WHOLE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_samples_panic(
        bytes in prop::collection::vec(any::<[u8; 2]>(), 0..2000),
        words in prop::collection::vec(any::<[i16; 2]>(), 0..1000),
        floats in prop::collection::vec(prop::array::uniform2(prop::num::f32::ANY), 0..1000),
    ) {
        let mut decoder = Decoder::new(DecoderConfig::default());
        let unsigned = bytes.iter().map(|&[i, q]| [Complex::new(i, q)]);
        let signed = bytes.iter().map(|&[i, q]| [Complex::new(i as i8, q as i8)]);
        let words = words.iter().map(|&[i, q]| [Complex::new(i, q)]);
        let floats = floats.iter().map(|&[i, q]| [Complex::new(i, q)]);
        let all = [candidates(unsigned), candidates(signed), candidates(words), candidates(floats)];
        for candidate in all.iter().flatten() {
            prop_assert!(candidate.frame().is_some());
            prop_assert!(candidate.level_dbfs.is_finite() && (0.0..=1.0).contains(&candidate.fraction));
            prop_assert_eq!(decoder.decode(candidate), None);
        }
    }
}
