//! The speed of the ADS-B demodulator, in samples per second on one core.
//!
//! Run it with `cargo bench -p stripline-components --bench adsb_demodulate`. If
//! `STRIPLINE_ADSB_CAPTURE` is set, the benchmark also measures the 8-bit I/Q recording at this
//! path. The benchmark prints the best and the median of several runs.

use std::time::Instant;

use num_complex::Complex;
use stripline_components::adsb::{Demodulator, DemodulatorConfig, IqSample, Simulation, SimulationConfig};

/// Samples per run, about 0.3 seconds of computing.
const RUN_SAMPLES: usize = 71_373_600;
const RUNS: usize = 9;
/// Samples per packet, as over a link.
const PACKET: usize = 16_384;

fn main() {
    if let Some(path) = std::env::var_os("STRIPLINE_ADSB_CAPTURE") {
        match std::fs::read(&path) {
            Ok(bytes) => {
                let samples: Vec<_> =
                    bytes.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect();
                measure("capture, cu8", &samples);
            }
            Err(error) => println!("{}: {error}", path.display()),
        }
    }
    let simulated = |aircraft| Simulation::new(SimulationConfig { aircraft, ..SimulationConfig::default() });
    for (name, aircraft) in [("100 aircraft, cu8", 100), ("noise, cu8", 0)] {
        let mut samples = vec![Complex::new(0u8, 0); 2_000_000];
        simulated(aircraft).fill_cu8(&mut samples);
        measure(name, &samples);
    }
    let mut floats = vec![Complex::new(0.0f32, 0.0); 2_000_000];
    simulated(100).fill(&mut floats);
    measure("100 aircraft, cf32", &floats);
    let words: Vec<_> =
        floats.iter().map(|s| Complex::new((32767.0 * s.re) as i16, (32767.0 * s.im) as i16)).collect();
    measure("100 aircraft, cs16", &words);

    let mut simulation = simulated(100);
    let mut samples = vec![Complex::new(0u8, 0); PACKET];
    report("simulation, cu8", PACKET, || {
        simulation.fill_cu8(&mut samples);
        simulation.take_sent().len()
    });
}

fn measure<T: IqSample>(name: &str, samples: &[Complex<T>]) {
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    report(name, samples.len(), || {
        let mut candidates = 0;
        for packet in samples.chunks(PACKET) {
            demodulator.push(packet, |_| candidates += 1);
        }
        candidates
    });
}

fn report(name: &str, samples: usize, mut work: impl FnMut() -> usize) {
    let repeats = (RUN_SAMPLES / samples.max(1)).max(1);
    let mut found = 0;
    let mut rates: Vec<_> = (0..RUNS)
        .map(|_| {
            found = 0;
            let start = Instant::now();
            for _ in 0..repeats {
                found += std::hint::black_box(work());
            }
            (repeats * samples) as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<20} {:>8.1} Msample/s (median {:.1}), {:.1} found per million samples",
        rates[RUNS - 1],
        rates[RUNS / 2],
        found as f64 / (repeats * samples) as f64 * 1e6
    );
}
