//! The aircraft table, with the latest data received from each aircraft.

use std::collections::BTreeMap;
use std::fmt;

use super::cpr::{Parity, Position, Report};
use super::decode::Accepted;
use super::message::{Callsign, Message, Velocity};

/// The longest time between two reports that give a position together, in seconds (RTCA DO-260B,
/// A.1.7.7).
const PAIR_S: u64 = 10;

/// The settings of a [`Tracker`]'s table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackerConfig {
    /// The sample rate by which the times of frames count, at least 1. Default: 2 000 000.
    pub sample_rate_hz: u32,
    /// How long an aircraft stays in the table after the last frame, in seconds. Default: 300.
    pub lifetime_s: u32,
    /// The maximum number of aircraft in the table, at least 1. A new aircraft replaces the
    /// aircraft that was received the longest ago. Default: 4096.
    pub aircraft_max: usize,
}

impl Default for TrackerConfig {
    fn default() -> Self {
        Self { sample_rate_hz: 2_000_000, lifetime_s: 300, aircraft_max: 4096 }
    }
}

/// The data of one aircraft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aircraft {
    /// The address, 24 bits.
    pub address: u32,
    /// The flight or registration.
    pub callsign: Option<Callsign>,
    /// The transponder code: four octal digits, in four bits each.
    pub squawk: Option<u16>,
    /// The altitude in feet.
    pub altitude_ft: Option<i32>,
    /// The velocity.
    pub velocity: Velocity,
    /// The last reported position.
    pub position: Option<Position>,
    /// The number of frames received from the aircraft.
    pub messages: u64,
    /// The time at which the last frame was received, in samples.
    pub last_seen: u64,
    /// The last report in each grid, and the time at which it was received, in samples.
    even: Option<(Report, u64)>,
    odd: Option<(Report, u64)>,
}

/// The table of received aircraft, by address.
///
/// ```
/// use stripline_components::adsb::decode::Accepted;
/// use stripline_components::adsb::track::{Tracker, TrackerConfig};
///
/// let mut tracker = Tracker::new(TrackerConfig::default());
/// for (sample, line) in
///     [(0, "*8d40621d58c382d690c8ac2863a7;"), (1_000_000, "*8d40621d58c386435cc412692ad6;")]
/// {
///     let frame = line.parse()?;
///     tracker.update(&Accepted::whole(frame, sample));
/// }
/// let aircraft = tracker.aircraft(0x40621d).unwrap();
/// assert_eq!(aircraft.altitude_ft, Some(38_000));
/// assert!(aircraft.position.is_some());
/// println!("{tracker}");
/// # Ok::<(), stripline_components::adsb::frame::FrameError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tracker {
    config: TrackerConfig,
    aircraft: BTreeMap<u32, Aircraft>,
    /// The time at which the latest frame was received, in samples.
    now: u64,
}

impl Tracker {
    /// Creates an empty table.
    #[must_use]
    pub fn new(config: TrackerConfig) -> Self {
        Self { config, aircraft: BTreeMap::new(), now: 0 }
    }

    /// Enters a frame, and returns the updated data of the aircraft.
    pub fn update(&mut self, accepted: &Accepted) -> &Aircraft {
        self.now = self.now.max(accepted.sample);
        let pair_samples = PAIR_S * u64::from(self.config.sample_rate_hz);
        if !self.aircraft.contains_key(&accepted.address) {
            self.make_room();
        }
        let aircraft =
            self.aircraft.entry(accepted.address).or_insert_with(|| Aircraft::new(accepted.address));
        aircraft.messages += 1;
        aircraft.last_seen = accepted.sample;
        aircraft.read(Message::of(&accepted.frame), accepted.sample, pair_samples);
        aircraft
    }

    /// Returns the aircraft with an address, if it is in the table.
    #[must_use]
    pub fn aircraft(&self, address: u32) -> Option<&Aircraft> {
        self.aircraft.get(&address)
    }

    /// Returns all aircraft, sorted by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Aircraft> {
        self.aircraft.values()
    }

    /// Returns the number of aircraft.
    #[must_use]
    pub fn len(&self) -> usize {
        self.aircraft.len()
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.aircraft.is_empty()
    }

    /// Makes room for one more aircraft: removes the aircraft past their lifetime, or else the
    /// aircraft that was received the longest ago.
    fn make_room(&mut self) {
        let lifetime = u64::from(self.config.lifetime_s) * u64::from(self.config.sample_rate_hz.max(1));
        let now = self.now;
        self.aircraft.retain(|_, aircraft| now - aircraft.last_seen.min(now) <= lifetime);
        if self.aircraft.len() >= self.config.aircraft_max.max(1) {
            let oldest = self.aircraft.values().min_by_key(|aircraft| aircraft.last_seen);
            if let Some(address) = oldest.map(|aircraft| aircraft.address) {
                self.aircraft.remove(&address);
            }
        }
    }
}

impl Aircraft {
    fn new(address: u32) -> Self {
        Self {
            address,
            callsign: None,
            squawk: None,
            altitude_ft: None,
            velocity: Velocity::default(),
            position: None,
            messages: 0,
            last_seen: 0,
            even: None,
            odd: None,
        }
    }

    fn read(&mut self, message: Message, sample: u64, pair_samples: u64) {
        match message {
            Message::Identification { callsign } => self.callsign = Some(callsign),
            Message::Identity { squawk } => self.squawk = Some(squawk),
            Message::Velocity(velocity) => self.velocity = velocity,
            Message::Altitude { altitude_ft } => self.altitude_ft = altitude_ft.or(self.altitude_ft),
            Message::AirbornePosition { altitude_ft, report } => {
                self.altitude_ft = altitude_ft.or(self.altitude_ft);
                let (same, other) = match report.parity {
                    Parity::Even => (&mut self.even, self.odd),
                    Parity::Odd => (&mut self.odd, self.even),
                };
                *same = Some((report, sample));
                let older = other.filter(|&(_, then)| sample.abs_diff(then) <= pair_samples);
                let position = older.and_then(|(older, _)| report.with_older(&older));
                self.position = position.or(self.position);
            }
            _ => {}
        }
    }
}

/// The title, the unit and the width of each column of the table.
const COLUMNS: [(&str, &str, usize); 11] = [
    ("ICAO", "", 6),
    ("callsign", "", 8),
    ("squawk", "", 6),
    ("altitude", "ft", 8),
    ("speed", "kt", 8),
    ("track", "deg", 9),
    ("climb", "ft/min", 10),
    ("latitude", "deg", 9),
    ("longitude", "deg", 10),
    ("messages", "", 8),
    ("age", "s", 6),
];

/// The columns that may be left out in a narrow terminal, in the order of removal.
const DROPPABLE: [&str; 7] = ["climb", "track", "squawk", "messages", "speed", "age", "callsign"];

impl Tracker {
    /// Formats a table with a line for each aircraft, sorted by address. A dash stands for a
    /// missing value. A table for a narrow terminal lists the columns that were left out.
    pub(crate) fn table(&self, width: Option<usize>) -> String {
        let mut shown = Vec::from(COLUMNS);
        let mut left_out = Vec::new();
        for title in DROPPABLE {
            let needed: usize = shown.iter().map(|(_, _, width)| width + 2).sum();
            if width.is_none_or(|width| needed <= width + 2) {
                break;
            }
            shown.retain(|(known, _, _)| *known != title);
            left_out.push(title);
        }
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = COLUMNS.iter().enumerate().filter(|(_, column)| shown.contains(column));
            let padded = cells.map(|(index, (_, _, width))| match index {
                0 | 1 => format!("{:<width$}", cell(index)),
                _ => format!("{:>width$}", cell(index)),
            });
            padded.collect::<Vec<_>>().join("  ") + "\n"
        };
        let mut text = line(&|index| COLUMNS[index].0.into()) + &line(&|index| COLUMNS[index].1.into());
        for aircraft in self.iter() {
            let cells = self.cells(aircraft);
            text += &line(&|index| cells[index].clone());
        }
        if !left_out.is_empty() {
            text += &format!("Not shown: {}.\n", left_out.join(", "));
        }
        text
    }

    /// Returns the values of one aircraft, in the order of the columns.
    fn cells(&self, aircraft: &Aircraft) -> [String; 11] {
        let text = |known: Option<String>| known.unwrap_or_else(|| "-".to_owned());
        let position = aircraft.position;
        let age =
            (self.now - aircraft.last_seen.min(self.now)) / u64::from(self.config.sample_rate_hz.max(1));
        [
            format!("{:06x}", aircraft.address),
            text(aircraft.callsign.map(|callsign| callsign.to_string())),
            text(aircraft.squawk.map(|squawk| format!("{squawk:04x}"))),
            text(aircraft.altitude_ft.map(|feet| feet.to_string())),
            text(aircraft.velocity.speed_kt.map(|knots| format!("{knots:.0}"))),
            text(aircraft.velocity.track_deg.map(|degrees| format!("{degrees:.1}"))),
            text(aircraft.velocity.vertical_rate_fpm.map(|rate| rate.to_string())),
            text(position.map(|position| format!("{:.4}", position.latitude_deg))),
            text(position.map(|position| format!("{:.4}", position.longitude_deg))),
            aircraft.messages.to_string(),
            age.to_string(),
        ]
    }
}

impl fmt::Display for Tracker {
    /// Writes a table with a line for each aircraft, sorted by address; a dash stands for a missing
    /// value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(None))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::adsb::frame::Frame;
    use crate::adsb::message::encode;

    const ADDRESS: u32 = 0x0040_621d;
    const THERE: Position = Position { latitude_deg: -33.95, longitude_deg: 151.18 };

    fn position(parity: Parity, sample: u64) -> Accepted {
        Accepted::whole(encode::position(ADDRESS, 10_000, Report::of(THERE, parity)), sample)
    }

    #[test]
    fn a_pair_of_reports_gives_a_position_if_both_are_fresh() {
        let mut tracker = Tracker::new(TrackerConfig::default());
        assert_eq!(tracker.update(&position(Parity::Even, 0)).position, None);
        assert_eq!(tracker.update(&position(Parity::Odd, 21_000_000)).position, None);
        let found = tracker.update(&position(Parity::Even, 22_000_000)).position.unwrap();
        assert!((found.latitude_deg - THERE.latitude_deg).abs() < 1e-4);
        assert!((found.longitude_deg - THERE.longitude_deg).abs() < 1e-4);
    }

    #[test]
    fn the_table_is_sorted_and_aligned() {
        let mut tracker = Tracker::new(TrackerConfig::default());
        tracker.update(&Accepted::whole(encode::velocity(ADDRESS, -300, 400, -640), 0));
        tracker.update(&Accepted::whole(
            encode::identification(1, Callsign::new("ABC12345").unwrap()),
            5_000_000,
        ));
        tracker.update(&Accepted::whole(encode::identity_reply(1, 0x7700, None), 5_000_000));
        let table = tracker.to_string();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[2].starts_with("000001  ABC12345    7700 "), "{table}");
        assert!(
            lines[3].starts_with("40621d  -              -         -       500      323.1        -640"),
            "{table}"
        );
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()));
    }

    #[test]
    fn memory_is_bounded() {
        let config = TrackerConfig { aircraft_max: 3, lifetime_s: 10, ..TrackerConfig::default() };
        let mut tracker = Tracker::new(config);
        for address in 1..=10 {
            tracker.update(&Accepted::whole(encode::acquisition(address), address.into()));
        }
        assert_eq!(tracker.iter().map(|aircraft| aircraft.address).collect::<Vec<_>>(), [8, 9, 10]);
        tracker.update(&Accepted::whole(encode::acquisition(5), 30_000_000));
        assert_eq!(tracker.len(), 1);
    }

    proptest! {
        #[test]
        fn no_frame_panics(all in prop::collection::vec((any::<[u8; 14]>(), any::<u64>()), 0..50)) {
            let mut tracker = Tracker::new(TrackerConfig { aircraft_max: 4, ..TrackerConfig::default() });
            for (bytes, sample) in all {
                tracker.update(&Accepted::whole(Frame::from_start_of(&bytes), sample));
            }
            prop_assert!(tracker.len() <= 4);
            prop_assert!(!tracker.to_string().is_empty());
        }
    }
}
