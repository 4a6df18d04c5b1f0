//! The receiver decodes the transmitted frames, and no other frames, from noisy samples.

use num_complex::Complex;
use stripline_components::adsb::simulate::Sent;
use stripline_components::adsb::{
    Accepted, Decoder, DecoderConfig, Demodulator, DemodulatorConfig, IqSample, Simulation, SimulationConfig,
    Tracker, TrackerConfig,
};

/// The number of samples in four seconds.
const SAMPLES: usize = 8_000_000;

/// Returns the settings of a simulation with a hundred aircraft. The transmissions do not overlap,
/// and the carrier of each aircraft is off by up to 50 kHz.
fn sky(snr_db: f32, aperture: f64) -> SimulationConfig {
    SimulationConfig {
        seed: 1090,
        aircraft: 100,
        level_min_dbfs: -20.0,
        level_max_dbfs: -20.0,
        noise_dbfs: -20.0 - snr_db,
        carrier_offset_max_hz: 50e3,
        aperture,
        overlaps: false,
        ..SimulationConfig::default()
    }
}

fn receive<T: IqSample>(samples: &[Complex<T>]) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    let mut decoder = Decoder::new(DecoderConfig::default());
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    demodulator.push(samples, |candidate| accepted.extend(decoder.decode(&candidate)));
    demodulator.finish(|candidate| accepted.extend(decoder.decode(&candidate)));
    accepted
}

/// Returns the share of the transmitted frames that were received, and the received frames that
/// were never transmitted.
fn compare(sent: &[Sent], received: &[Accepted]) -> (f64, Vec<Accepted>) {
    let mut left = received.to_vec();
    let mut right = 0;
    for sent in sent {
        let found = left.iter().position(|received| {
            let start = received.sample as f64 + f64::from(received.fraction);
            received.frame == sent.frame
                && received.address == sent.address
                && (start - sent.start_samples).abs() < 1.0
        });
        if let Some(found) = found {
            left.remove(found);
            right += 1;
        }
    }
    let share = right as f64 / sent.len() as f64;
    println!("{right} of {} frames: {:.1} %, {} false", sent.len(), 100.0 * share, left.len());
    (share, left)
}

fn assert_received(config: SimulationConfig, share_min: f64) {
    let mut simulation = Simulation::new(config);
    let mut samples = vec![Complex::new(0u8, 0); SAMPLES];
    simulation.fill_cu8(&mut samples);
    let sent = simulation.take_sent();
    assert!(sent.len() > 1000);
    let (share, wrong) = compare(&sent, &receive(&samples));
    assert!(share >= share_min, "only {share}");
    assert_eq!(wrong, []);
}

#[test]
fn a_wide_receiver_needs_14_db() {
    assert_received(sky(14.0, 0.1), 0.95);
}

#[test]
fn a_narrow_receiver_needs_17_db() {
    // With this aperture, a pulse that starts half a sample late is split evenly over two samples,
    // and the bits are 6 dB harder to distinguish.
    assert_received(sky(17.0, 1.0), 0.95);
    assert_received(sky(15.0, 1.0), 0.80);
}

#[test]
fn frames_that_overlap_are_never_false() {
    let config = SimulationConfig {
        aircraft: 600,
        level_min_dbfs: -32.0,
        level_max_dbfs: -6.0,
        overlaps: true,
        ..sky(20.0, 1.0)
    };
    assert_received(config, 0.4);
}

#[test]
fn noise_alone_gives_no_frame() {
    let config = SimulationConfig { aircraft: 0, noise_dbfs: -20.0, ..SimulationConfig::default() };
    let mut samples = vec![Complex::new(0u8, 0); SAMPLES];
    Simulation::new(config).fill_cu8(&mut samples);
    let mut candidates = 0;
    Demodulator::new(DemodulatorConfig::default()).push(&samples, |_| candidates += 1);
    println!("{candidates} candidates in {SAMPLES} samples of noise");
    assert!(candidates < SAMPLES / 1000);
    assert_eq!(receive(&samples), []);
}

#[test]
fn every_sample_format_gives_the_same_frames() {
    let mut simulation = Simulation::new(SimulationConfig { aircraft: 60, ..sky(22.0, 1.0) });
    let mut floats = vec![Complex::new(0.0f32, 0.0); SAMPLES / 4];
    simulation.fill(&mut floats);
    let sent = simulation.take_sent();
    let words: Vec<Complex<i16>> =
        floats.iter().map(|s| Complex::new((32768.0 * s.re) as i16, (32768.0 * s.im) as i16)).collect();
    let bytes: Vec<Complex<i8>> = floats
        .iter()
        .map(|s| Complex::new((128.0 * s.re).round() as i8, (128.0 * s.im).round() as i8))
        .collect();
    for received in [receive(&floats), receive(&words), receive(&bytes)] {
        let (share, wrong) = compare(&sent, &received);
        assert!(share > 0.93 && wrong.is_empty());
        assert!(received.iter().all(|accepted| (accepted.level_dbfs + 20.0).abs() < 2.0));
    }
}

#[test]
fn the_table_shows_the_simulated_aircraft() {
    let config = SimulationConfig { aircraft: 20, ..sky(20.0, 1.0) };
    let mut simulation = Simulation::new(config);
    let mut samples = vec![Complex::new(0u8, 0); 3 * SAMPLES / 2];
    simulation.fill_cu8(&mut samples);
    let mut tracker = Tracker::new(TrackerConfig::default());
    for accepted in receive(&samples) {
        tracker.update(&accepted);
    }
    println!("{tracker}");
    assert_eq!(tracker.len(), 20);
    for aircraft in tracker.iter() {
        assert!(aircraft.callsign.is_some() && aircraft.altitude_ft.is_some() && aircraft.squawk.is_some());
        let position = aircraft.position.unwrap();
        assert!(
            (49.0..55.0).contains(&position.latitude_deg) && (1.0..9.0).contains(&position.longitude_deg)
        );
        assert!((140.0..530.0).contains(&aircraft.velocity.speed_kt.unwrap()));
    }
}
