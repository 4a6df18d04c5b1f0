//! The aircraft of the simulation: their positions and transmissions.

use std::f64::consts::{FRAC_PI_2, TAU};

use rand_xoshiro::Xoshiro256PlusPlus;

use super::cpr::{Parity, Position, Report};
use super::frame::Frame;
use super::message::{Callsign, encode};
use super::simulate::{SimulationConfig, below, uniform};

/// The centre of the simulated sky.
const MIDDLE: Position = Position { latitude_deg: 52.0, longitude_deg: 5.0 };
const METRES_PER_DEGREE: f64 = 111_320.0;
const METRES_PER_SECOND_PER_KNOT: f64 = 1852.0 / 3600.0;
/// The number of addresses, without zero and all ones.
const ADDRESSES: u64 = 0x00ff_fffe;

/// The kind of a transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transmission {
    Acquisition,
    Position,
    Velocity,
    Identification,
    Reply,
}

impl Transmission {
    pub(super) const ALL: [Self; 5] =
        [Self::Acquisition, Self::Position, Self::Velocity, Self::Identification, Self::Reply];

    /// Returns the time until the next transmission: random, as the standard requires (RTCA
    /// DO-260B, 2.2.3.3). The rate of replies depends on the interrogators in range.
    pub(super) fn interval_ns(self, random: &mut Xoshiro256PlusPlus) -> u64 {
        let (least_s, most_s) = match self {
            Self::Acquisition => (0.8, 1.2),
            Self::Position | Self::Velocity => (0.4, 0.6),
            Self::Identification => (4.8, 5.2),
            Self::Reply => (0.1, 1.1),
        };
        (1e9 * uniform(random, least_s, most_s)) as u64
    }
}

/// An aircraft that flies in a circle, up and down between two altitudes.
#[derive(Debug, Clone)]
pub(super) struct SimulatedAircraft {
    pub(super) address: u32,
    callsign: Callsign,
    squawk: u16,
    /// The centre and radius of the circle, and the initial bearing of the aircraft on the circle,
    /// clockwise from north.
    centre: Position,
    radius_m: f64,
    bearing_rad: f64,
    /// Positive for right turns.
    speed_kt: f64,
    altitude_low_ft: f64,
    altitude_high_ft: f64,
    climb_fpm: f64,
    /// Feet climbed and descended before the start.
    climbed_ft: f64,
    parity: Parity,
    pub(super) level_dbfs: f32,
    pub(super) carrier_offset_hz: f64,
}

impl SimulatedAircraft {
    pub(super) fn new(index: usize, config: &SimulationConfig, random: &mut Xoshiro256PlusPlus) -> Self {
        let address = 1 + (config.seed % ADDRESSES + index as u64 * 10_368_889) % ADDRESSES;
        let letter = |random: &mut _| char::from(b'A' + below(random, 26) as u8);
        let letters = [letter(random), letter(random), letter(random)];
        let name = format!("{}{}", String::from_iter(letters), 1 + below(random, 99_999));
        let squawk = below(random, 0o10000) as u16;
        let altitude_low_ft = 25.0 * below(random, 1200) as f64;
        let spread = |random: &mut _, half: f64| uniform(random, -half, half);
        let turn = if below(random, 2) == 0 { 1.0 } else { -1.0 };
        Self {
            address: address as u32,
            // Always valid: at most eight capital letters and digits.
            callsign: Callsign::new(&name).unwrap_or_default(),
            squawk: squawk & 7 | (squawk & 0o70) << 1 | (squawk & 0o700) << 2 | (squawk & 0o7000) << 3,
            centre: Position {
                latitude_deg: MIDDLE.latitude_deg + spread(random, 1.5),
                longitude_deg: MIDDLE.longitude_deg + spread(random, 2.5),
            },
            radius_m: uniform(random, 15e3, 60e3),
            bearing_rad: uniform(random, 0.0, TAU),
            speed_kt: turn * uniform(random, 150.0, 520.0),
            altitude_low_ft,
            altitude_high_ft: altitude_low_ft + 100.0 * (1 + below(random, 100)) as f64,
            climb_fpm: 64.0 * below(random, 40) as f64,
            climbed_ft: uniform(random, 0.0, 20e3),
            parity: Parity::Even,
            level_dbfs: uniform(random, config.level_min_dbfs.into(), config.level_max_dbfs.into()) as f32,
            carrier_offset_hz: spread(random, config.carrier_offset_max_hz),
        }
    }

    /// Returns the frame sent at a time.
    pub(super) fn frame(
        &mut self,
        kind: Transmission,
        time_ns: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Frame {
        let time_s = time_ns as f64 / 1e9;
        let (altitude_ft, climb_fpm) = self.altitude(time_s);
        let altitude_ft = altitude_ft.round() as i32;
        match kind {
            Transmission::Acquisition => encode::acquisition(self.address),
            Transmission::Identification => encode::identification(self.address, self.callsign),
            Transmission::Position => {
                let report = Report::of(self.position(time_s), self.parity);
                self.parity = match self.parity {
                    Parity::Even => Parity::Odd,
                    Parity::Odd => Parity::Even,
                };
                encode::position(self.address, altitude_ft, report)
            }
            Transmission::Velocity => {
                let (sine, cosine) = self.track_rad(time_s).sin_cos();
                let part = |share: f64| (share * self.speed_kt.abs()).round() as i32;
                encode::velocity(self.address, part(sine), part(cosine), climb_fpm as i32)
            }
            Transmission::Reply => {
                let long = below(random, 2) == 0;
                let message = long.then(|| encode::callsign_register(self.callsign));
                if below(random, 2) == 0 {
                    encode::altitude_reply(self.address, altitude_ft, message)
                } else {
                    encode::identity_reply(self.address, self.squawk, message)
                }
            }
        }
    }

    fn bearing_at(&self, time_s: f64) -> f64 {
        self.bearing_rad + time_s * self.speed_kt * METRES_PER_SECOND_PER_KNOT / self.radius_m
    }

    fn track_rad(&self, time_s: f64) -> f64 {
        self.bearing_at(time_s) + FRAC_PI_2.copysign(self.speed_kt)
    }

    fn position(&self, time_s: f64) -> Position {
        let (east, north) = self.bearing_at(time_s).sin_cos();
        let degrees = self.radius_m / METRES_PER_DEGREE;
        let shrink = self.centre.latitude_deg.to_radians().cos();
        Position {
            latitude_deg: self.centre.latitude_deg + degrees * north,
            longitude_deg: self.centre.longitude_deg + degrees * east / shrink,
        }
    }

    /// Returns altitude in feet, and climb in feet per minute.
    fn altitude(&self, time_s: f64) -> (f64, f64) {
        let height = self.altitude_high_ft - self.altitude_low_ft;
        let way = (self.climbed_ft + self.climb_fpm * time_s / 60.0).rem_euclid(2.0 * height);
        if way < height {
            (self.altitude_low_ft + way, self.climb_fpm)
        } else {
            (self.altitude_high_ft + height - way, -self.climb_fpm)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn every_aircraft_has_its_own_address() {
        let config = SimulationConfig { seed: u64::MAX, ..SimulationConfig::default() };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let addresses: BTreeSet<_> =
            (0..20_000).map(|index| SimulatedAircraft::new(index, &config, &mut random).address).collect();
        assert_eq!(addresses.len(), 20_000);
        assert!(!addresses.contains(&0));
    }

    #[test]
    fn aircraft_move_as_they_say() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        for index in 0..50 {
            let aircraft = SimulatedAircraft::new(index, &SimulationConfig::default(), &mut random);
            let (here, there) = (aircraft.position(100.0), aircraft.position(101.0));
            let north = METRES_PER_DEGREE * (there.latitude_deg - here.latitude_deg);
            let shrink = aircraft.centre.latitude_deg.to_radians().cos();
            let east = METRES_PER_DEGREE * shrink * (there.longitude_deg - here.longitude_deg);
            let speed_kt = north.hypot(east) / METRES_PER_SECOND_PER_KNOT;
            assert!((speed_kt - aircraft.speed_kt.abs()).abs() < 0.1);
            let track = aircraft.track_rad(100.5);
            assert!((track - east.atan2(north)).sin().abs() < 0.01);
            assert!((track - east.atan2(north)).cos() > 0.0);
        }
    }
}
