//! Compact position reporting: 17 bits for a latitude and for a longitude, in one of two grids.
//!
//! One report gives the position within a cell of about 670 km. An even and an odd report together
//! also give the cell (RTCA DO-260B, appendix A.1.7).

use std::f64::consts::PI;

/// The number of latitude zones from the equator to a pole, in the even grid.
const ZONES: f64 = 15.0;
/// The number of steps within a zone.
const STEPS: f64 = 131_072.0;

/// A point on Earth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// Degrees north, −90 to 90.
    pub latitude_deg: f64,
    /// Degrees east, −180 to 180 (exclusive).
    pub longitude_deg: f64,
}

/// The grid of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parity {
    /// 60 latitude zones around the globe.
    Even,
    /// 59 latitude zones around the globe.
    Odd,
}

/// An airborne position as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The grid.
    pub parity: Parity,
    /// The position within the latitude zone, 17 bits.
    pub latitude: u32,
    /// The position within the longitude zone, 17 bits.
    pub longitude: u32,
}

impl Report {
    /// Encodes the report of an aircraft at `position`.
    ///
    /// ```
    /// use stripline_components::adsb::cpr::{Parity, Position, Report};
    ///
    /// let there = Position { latitude_deg: 52.2572, longitude_deg: 3.91937 };
    /// let even = Report::of(there, Parity::Even);
    /// assert_eq!((even.latitude, even.longitude), (93000, 51372));
    /// let found = even.with_older(&Report::of(there, Parity::Odd)).unwrap();
    /// assert!((found.latitude_deg - 52.2572).abs() < 1e-4);
    /// ```
    #[must_use]
    pub fn of(position: Position, parity: Parity) -> Self {
        let zone_deg = latitude_zone_deg(parity);
        let latitude = quantize(position.latitude_deg, zone_deg);
        // The longitude zones depend on the latitude that the receiver will decode.
        let zone = (position.latitude_deg / zone_deg).floor();
        let decoded = zone_deg * (zone + f64::from(latitude) / STEPS);
        let longitude = quantize(position.longitude_deg, 360.0 / longitude_zones(decoded, parity));
        Self { parity, latitude: latitude & 0x1_ffff, longitude: longitude & 0x1_ffff }
    }

    /// Returns the position at the time of this report, computed with an older report in the other
    /// grid.
    ///
    /// Returns `None` if both use the same grid, if no place on Earth fits both, or if the aircraft
    /// moved into another zone in between.
    #[must_use]
    pub fn with_older(&self, older: &Self) -> Option<Position> {
        let (even, odd) = match (self.parity, older.parity) {
            (Parity::Even, Parity::Odd) => (self, older),
            (Parity::Odd, Parity::Even) => (older, self),
            _ => return None,
        };
        let share = |bits: u32| f64::from(bits & 0x1_ffff) / STEPS;
        let index = (59.0 * share(even.latitude) - 60.0 * share(odd.latitude) + 0.5).floor();
        let latitude_in = |report: &Self| {
            let zones = 360.0 / latitude_zone_deg(report.parity);
            let degrees = 360.0 / zones * (index.rem_euclid(zones) + share(report.latitude));
            if degrees >= 270.0 { degrees - 360.0 } else { degrees }
        };
        let (latitude_even, latitude_odd) = (latitude_in(even), latitude_in(odd));
        if latitude_even.abs() > 90.0
            || latitude_odd.abs() > 90.0
            || zones_at(latitude_even) != zones_at(latitude_odd)
        {
            return None;
        }
        let latitude_deg = latitude_in(self);
        let zones = zones_at(latitude_deg);
        let index = (share(even.longitude) * (zones - 1.0) - share(odd.longitude) * zones + 0.5).floor();
        let zones_here = longitude_zones(latitude_deg, self.parity);
        let degrees = 360.0 / zones_here * (index.rem_euclid(zones_here) + share(self.longitude));
        let longitude_deg = if degrees >= 180.0 { degrees - 360.0 } else { degrees };
        Some(Position { latitude_deg, longitude_deg })
    }
}

fn latitude_zone_deg(parity: Parity) -> f64 {
    360.0 / (4.0 * ZONES - if parity == Parity::Odd { 1.0 } else { 0.0 })
}

fn longitude_zones(latitude_deg: f64, parity: Parity) -> f64 {
    (zones_at(latitude_deg) - if parity == Parity::Odd { 1.0 } else { 0.0 }).max(1.0)
}

/// Returns the number of longitude zones of the even grid at this latitude, 1 to 59 ("NL").
fn zones_at(latitude_deg: f64) -> f64 {
    let latitude = latitude_deg.abs();
    if latitude >= 87.0 {
        return if latitude > 87.0 { 1.0 } else { 2.0 };
    }
    let cosine = (latitude * PI / 180.0).cos();
    let inner = 1.0 - (1.0 - (PI / (2.0 * ZONES)).cos()) / (cosine * cosine);
    // At the equator, the quotient is 60, apart from rounding.
    (2.0 * PI / inner.acos()).floor().clamp(1.0, 59.0)
}

/// Returns the steps from the start of the zone, rounded to the nearest; up to 2^17 inclusive.
fn quantize(degrees: f64, zone_deg: f64) -> u32 {
    (STEPS * degrees.rem_euclid(zone_deg) / zone_deg + 0.5).floor() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zones_change_where_the_standard_says() {
        // From the table in RTCA DO-260B, A.1.7.2.
        for (latitude, below, above) in [
            (10.470_471_30, 59.0, 58.0),
            (52.0, 36.0, 36.0),
            (53.095_161_53, 36.0, 35.0),
            (86.535_369_98, 3.0, 2.0),
        ] {
            assert_eq!(zones_at(latitude - 1e-6), below);
            assert_eq!(zones_at(latitude + 1e-6), above);
        }
        assert_eq!(zones_at(0.0), 59.0);
        assert_eq!(zones_at(-89.0), 1.0);
    }

    #[test]
    fn a_published_pair_gives_its_position() {
        // "The 1090 Megahertz Riddle", 5.3: 8d40621d58c382d690c8ac2863a7 and
        // 8d40621d58c386435cc412692ad6.
        let even = Report { parity: Parity::Even, latitude: 93_000, longitude: 51_372 };
        let odd = Report { parity: Parity::Odd, latitude: 74_158, longitude: 50_194 };
        let position = even.with_older(&odd).unwrap();
        assert!((position.latitude_deg - 52.257_20).abs() < 1e-5);
        assert!((position.longitude_deg - 3.919_37).abs() < 1e-5);
        assert_eq!(even.with_older(&even), None);
    }

    proptest! {
        #[test]
        fn positions_survive(latitude_deg in -86.0..86.0, longitude_deg in -180.0..180.0) {
            let there = Position { latitude_deg, longitude_deg };
            let [even, odd] = [Parity::Even, Parity::Odd].map(|parity| Report::of(there, parity));
            // `None`: rounding puts the two reports into different zones.
            for found in [even.with_older(&odd), odd.with_older(&even)].into_iter().flatten() {
                prop_assert!((found.latitude_deg - latitude_deg).abs() < 1e-4);
                let east = (found.longitude_deg - longitude_deg + 180.0).rem_euclid(360.0) - 180.0;
                prop_assert!(east.abs() < 3e-3);
            }
        }

        #[test]
        fn no_report_panics(parts: [u32; 4]) {
            let [latitude, longitude, other_latitude, other_longitude] = parts;
            let even = Report { parity: Parity::Even, latitude, longitude };
            let odd = Report { parity: Parity::Odd, latitude: other_latitude, longitude: other_longitude };
            if let Some(position) = even.with_older(&odd) {
                prop_assert!(position.latitude_deg.abs() <= 90.0);
                prop_assert!((-180.0..180.0).contains(&position.longitude_deg));
            }
        }
    }
}
