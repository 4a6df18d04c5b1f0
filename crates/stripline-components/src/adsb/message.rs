//! The messages in frames: the fields that an aircraft table shows.
//!
//! The parser is our own code of about two hundred lines. Of the published decoders, `adsb_deku`
//! 0.7 loses the eighth character of a callsign and altitudes below zero, and version 0.8 does not
//! build with current releases of its dependencies. `rs1090` 0.7 depends on more than 150 packages.

use std::fmt;

use super::cpr::{Parity, Report};
use super::frame::Frame;

/// The characters of a callsign by their six-bit codes. `#` marks a code without a character.
const CHARACTERS: &[u8; 64] = b"#ABCDEFGHIJKLMNOPQRSTUVWXYZ##### ###############0123456789######";
/// Number of characters in a callsign.
const CALLSIGN_CHARS: usize = 8;

/// The content of a frame (ICAO Doc 9871, appendix A; Annex 10 volume IV, 3.1.2.6).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// Extended squitter, type 1 to 4.
    Identification {
        /// The flight or the registration.
        callsign: Callsign,
    },
    /// Extended squitter, type 9 to 18 (barometric altitude) and 20 to 22 (height above the
    /// ellipsoid).
    AirbornePosition {
        /// Altitude in feet, −1200 to 126 700.
        altitude_ft: Option<i32>,
        /// The position within a cell.
        report: Report,
    },
    /// Extended squitter, type 19.
    Velocity(Velocity),
    /// Surveillance and air-to-air replies with altitude: downlink formats 0, 4, 16 and 20.
    Altitude {
        /// Barometric altitude in feet, −1200 to 126 700.
        altitude_ft: Option<i32>,
    },
    /// Surveillance replies with identity: downlink formats 5 and 21.
    Identity {
        /// The transponder code: four octal digits, in four bits each.
        squawk: u16,
    },
    /// Any other message.
    Other,
}

/// The velocity of an aircraft.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Velocity {
    /// Speed over ground or through the air, in knots, 0 to 5784.
    pub speed_kt: Option<f32>,
    /// Track over ground or heading, in degrees clockwise from north, 0 to 360 (exclusive).
    pub track_deg: Option<f32>,
    /// Climb in feet per minute, −32 640 to 32 640.
    pub vertical_rate_fpm: Option<i32>,
}

/// A callsign: eight capital letters, digits and spaces.
///
/// A received callsign may have `#` for codes without a character.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Callsign([u8; CALLSIGN_CHARS]);

impl Callsign {
    /// Returns the callsign without its trailing spaces.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII is stored, so the conversion never fails.
        std::str::from_utf8(&self.0).unwrap_or_default().trim_ascii_end()
    }

    /// Creates a callsign from at most eight capital letters, digits or spaces.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut characters = [b' '; CALLSIGN_CHARS];
        characters.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        characters.iter().all(|&c| c != b'#' && CHARACTERS.contains(&c)).then_some(Self(characters))
    }

    /// Creates a callsign from six bits per character. Codes without a character become `#`.
    fn from_bits(bits: u64) -> Self {
        Self(std::array::from_fn(|n| CHARACTERS[(bits >> (42 - 6 * n)) as usize & 0x3f]))
    }

    fn to_bits(self) -> u64 {
        self.0.iter().fold(0, |bits, &character| {
            let code = CHARACTERS.iter().position(|&c| c == character).unwrap_or_default();
            bits << 6 | code as u64
        })
    }
}

impl Default for Callsign {
    /// Returns a callsign of spaces only.
    fn default() -> Self {
        Self([b' '; CALLSIGN_CHARS])
    }
}

impl fmt::Display for Callsign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Callsign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callsign({:?})", self.as_str())
    }
}

impl Message {
    /// Parses the message of `frame`.
    ///
    /// ```
    /// use stripline_components::adsb::message::Message;
    ///
    /// let frame = "*8d4840d6202cc371c32ce0576098;".parse()?;
    /// let Message::Identification { callsign } = Message::of(&frame) else { unreachable!() };
    /// assert_eq!(callsign.as_str(), "KLM1023");
    /// # Ok::<(), stripline_components::adsb::frame::FrameError>(())
    /// ```
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        let bytes = frame.as_bytes();
        // The code is in bits 20 to 32 of every surveillance reply.
        let code = u16::from_be_bytes([bytes[2], bytes[3]]) & 0x1fff;
        match (frame.downlink_format(), frame.extended_message()) {
            (_, Some([a, b, c, d, e, f, g])) => {
                Self::of_extended(Bits(u64::from_be_bytes([0, a, b, c, d, e, f, g])))
            }
            (0 | 4 | 16 | 20, _) => Self::Altitude { altitude_ft: altitude_ft(code) },
            (5 | 21, _) => Self::Identity { squawk: squawk(code) },
            _ => Self::Other,
        }
    }

    fn of_extended(message: Bits) -> Self {
        match message.field(1, 5) {
            1..=4 => Self::Identification { callsign: Callsign::from_bits(message.field(9, 48)) },
            9..=18 | 20..=22 => {
                let code = message.field(9, 12) as u16;
                Self::AirbornePosition {
                    // The code is the same as in a reply, but without the bit for metres.
                    altitude_ft: altitude_ft((code & 0xfc0) << 1 | code & 0x3f),
                    report: Report {
                        parity: if message.field(22, 1) == 0 { Parity::Even } else { Parity::Odd },
                        latitude: message.field(23, 17) as u32,
                        longitude: message.field(40, 17) as u32,
                    },
                }
            }
            19 => Self::Velocity(Velocity::of(message)),
            _ => Self::Other,
        }
    }
}

impl Velocity {
    fn of(message: Bits) -> Self {
        let subtype = message.field(6, 3);
        // In all three fields, zero means "not available", and one means zero.
        let value = |first, length| message.field(first, length).checked_sub(1).map(|value| value as i32);
        let signed = |sign, value: i32| if message.field(sign, 1) == 0 { value } else { -value };
        let vertical_rate_fpm = value(38, 9).map(|value| signed(37, 64 * value));
        let unit_kt = if matches!(subtype, 2 | 4) { 4.0 } else { 1.0 };
        let (speed_kt, track_deg) = match subtype {
            1 | 2 => match (value(15, 10), value(26, 10)) {
                (Some(east), Some(north)) => {
                    let (east, north) = (signed(14, east) as f32, signed(25, north) as f32);
                    let degrees = east.atan2(north).to_degrees();
                    (
                        Some(unit_kt * east.hypot(north)),
                        Some(if degrees < 0.0 { degrees + 360.0 } else { degrees }),
                    )
                }
                _ => (None, None),
            },
            3 | 4 => {
                let heading =
                    (message.field(14, 1) == 1).then(|| message.field(15, 10) as f32 * 360.0 / 1024.0);
                (value(26, 10).map(|value| unit_kt * value as f32), heading)
            }
            _ => return Self::default(),
        };
        // Adding a full turn may round to 360.
        Self { speed_kt, track_deg: track_deg.map(|deg| deg.min(359.999_97)), vertical_rate_fpm }
    }
}

/// Seven bytes with bits counted from 1, as in the standard.
#[derive(Debug, Clone, Copy, Default)]
struct Bits(u64);

impl Bits {
    fn field(self, first: u32, length: u32) -> u64 {
        self.0 >> (57 - first - length) & ((1 << length) - 1)
    }

    fn with(self, first: u32, length: u32, value: u64) -> Self {
        Self(self.0 | (value & ((1 << length) - 1)) << (57 - first - length))
    }
}

/// Returns the altitude from 13 bits: C1 A1 C2 A2 C4 A4 M B1 Q B2 D2 B4 D4 when Q is 0.
fn altitude_ft(code: u16) -> Option<i32> {
    const METRES: u16 = 1 << 6;
    const STEPS_OF_25: u16 = 1 << 4;
    if code == 0 || code & METRES != 0 {
        return None;
    }
    if code & STEPS_OF_25 != 0 {
        let steps = (code & 0x1f80) >> 2 | (code & 0x20) >> 1 | code & 0xf;
        return Some(25 * i32::from(steps) - 1000);
    }
    let bit = |place: u16| code >> place & 1;
    // Both parts are Gray codes; D1 would be Q and is zero.
    let five_hundreds = from_gray([2, 0, 11, 9, 7, 5, 3, 1].iter().fold(0, |n, &place| n << 1 | bit(place)));
    let hundreds = match from_gray(bit(12) << 2 | bit(10) << 1 | bit(8)) {
        hundreds @ 1..=4 => hundreds,
        7 => 5,
        _ => return None,
    };
    let hundreds = if five_hundreds % 2 == 1 { 6 - hundreds } else { hundreds };
    Some(500 * i32::from(five_hundreds) + 100 * i32::from(hundreds) - 1300)
}

/// Returns the number for a Gray code of up to eight bits.
fn from_gray(code: u16) -> u16 {
    let code = code ^ code >> 1;
    let code = code ^ code >> 2;
    code ^ code >> 4
}

/// Returns the code for an altitude in steps of 25 ft, −1000 to 50 175 ft.
fn altitude_code(altitude_ft: i32) -> u16 {
    let steps = ((altitude_ft + 1000 + 12).div_euclid(25)).clamp(0, 0x7ff) as u16;
    (steps & 0x7e0) << 2 | (steps & 0x10) << 1 | 1 << 4 | steps & 0xf
}

/// Returns the transponder code from 13 bits: C1 A1 C2 A2 C4 A4 - B1 D1 B2 D2 B4 D4.
fn squawk(code: u16) -> u16 {
    let digit = |places: [u16; 3]| places.iter().fold(0, |digit, &place| digit << 1 | code >> place & 1);
    digit([7, 9, 11]) << 12 | digit([1, 3, 5]) << 8 | digit([8, 10, 12]) << 4 | digit([0, 2, 4])
}

fn squawk_code(squawk: u16) -> u16 {
    const PLACES: [u16; 16] = [4, 2, 0, 13, 12, 10, 8, 13, 5, 3, 1, 13, 11, 9, 7, 13];
    (0..16).filter(|&bit| squawk >> bit & 1 == 1).fold(0, |code, bit| code | 1 << PLACES[bit]) & 0x1fff
}

/// Encoding of frames, for the simulation.
pub(super) mod encode {
    use super::{Bits, Callsign, Report, altitude_code, squawk_code};
    use crate::adsb::cpr::Parity;
    use crate::adsb::frame::{Frame, LONG_BYTES};

    /// The capability of an airborne level 2 transponder.
    const CAPABILITY: u8 = 5;

    /// Encodes an all-call reply, which is sent once per second without an interrogation (11).
    pub(in crate::adsb) fn acquisition(address: u32) -> Frame {
        with_address(11, address, Bits::default()).with_remainder(0)
    }

    /// Encodes an extended squitter with a callsign (17, type 4).
    pub(in crate::adsb) fn identification(address: u32, callsign: Callsign) -> Frame {
        let message = Bits::default().with(1, 5, 4).with(6, 3, 3).with(9, 48, callsign.to_bits());
        with_address(17, address, message).with_remainder(0)
    }

    /// Encodes an extended squitter with an airborne position (17, type 11).
    pub(in crate::adsb) fn position(address: u32, altitude_ft: i32, report: Report) -> Frame {
        let code = altitude_code(altitude_ft);
        let message = Bits::default()
            .with(1, 5, 11)
            .with(9, 12, u64::from(code >> 1 & 0xfc0 | code & 0x3f))
            .with(22, 1, u64::from(report.parity == Parity::Odd))
            .with(23, 17, report.latitude.into())
            .with(40, 17, report.longitude.into());
        with_address(17, address, message).with_remainder(0)
    }

    /// Encodes an extended squitter with the velocity over ground (17, type 19, subtype 1). Units:
    /// knots to the east and north, −1022 to 1022; climb in feet per minute.
    pub(in crate::adsb) fn velocity(address: u32, east_kt: i32, north_kt: i32, climb_fpm: i32) -> Frame {
        let sign = |value: i32| u64::from(value < 0);
        let size = |value: i32, largest: u32| u64::from(value.unsigned_abs().min(largest) + 1);
        let message = Bits::default()
            .with(1, 5, 19)
            .with(6, 3, 1)
            .with(14, 1, sign(east_kt))
            .with(15, 10, size(east_kt, 1022))
            .with(25, 1, sign(north_kt))
            .with(26, 10, size(north_kt, 1022))
            .with(36, 1, 1)
            .with(37, 1, sign(climb_fpm))
            .with(38, 9, size(climb_fpm / 64, 510));
        with_address(17, address, message).with_remainder(0)
    }

    /// Encodes a reply with an altitude: format 4, or 20 with a message.
    pub(in crate::adsb) fn altitude_reply(address: u32, altitude_ft: i32, message: Option<[u8; 7]>) -> Frame {
        reply(if message.is_some() { 20 } else { 4 }, altitude_code(altitude_ft), message)
            .with_remainder(address)
    }

    /// Encodes a reply with a transponder code: format 5, or 21 with a message.
    pub(in crate::adsb) fn identity_reply(address: u32, squawk: u16, message: Option<[u8; 7]>) -> Frame {
        reply(if message.is_some() { 21 } else { 5 }, squawk_code(squawk), message).with_remainder(address)
    }

    /// Encodes register 2,0: the callsign in a long reply.
    pub(in crate::adsb) fn callsign_register(callsign: Callsign) -> [u8; 7] {
        let [_, message @ ..] =
            Bits::default().with(1, 8, 0x20).with(9, 48, callsign.to_bits()).0.to_be_bytes();
        message
    }

    fn reply(format: u8, code: u16, message: Option<[u8; 7]>) -> Frame {
        let mut bytes = [0; LONG_BYTES];
        bytes[0] = format << 3;
        bytes[2..4].copy_from_slice(&code.to_be_bytes());
        bytes[4..11].copy_from_slice(&message.unwrap_or_default());
        Frame::from_start_of(&bytes)
    }

    fn with_address(format: u8, address: u32, message: Bits) -> Frame {
        let mut bytes = [0; LONG_BYTES];
        bytes[..4].copy_from_slice(&address.to_be_bytes());
        bytes[0] = format << 3 | CAPABILITY;
        bytes[4..11].copy_from_slice(&message.0.to_be_bytes()[1..]);
        Frame::from_start_of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(line: &str) -> Message {
        Message::of(&line.parse().unwrap())
    }

    #[test]
    fn published_messages_are_read() {
        // "The 1090 Megahertz Riddle", chapters 4, 5 and 7.
        let Message::AirbornePosition { altitude_ft, report } = message("*8d40621d58c382d690c8ac2863a7;")
        else {
            panic!()
        };
        assert_eq!((altitude_ft, report.latitude, report.longitude), (Some(38_000), 93_000, 51_372));
        let Message::Velocity(velocity) = message("*8d485020994409940838175b284f;") else { panic!() };
        assert_eq!(velocity.vertical_rate_fpm, Some(-832));
        assert!((velocity.speed_kt.unwrap() - 159.20).abs() < 0.01);
        assert!((velocity.track_deg.unwrap() - 182.88).abs() < 0.01);
        let Message::Velocity(velocity) = message("*8da05f219b06b6af189400cbc33f;") else { panic!() };
        assert_eq!((velocity.speed_kt, velocity.vertical_rate_fpm), (Some(375.0), Some(-2304)));
        assert!((velocity.track_deg.unwrap() - 243.98).abs() < 0.01);
    }

    #[test]
    fn gillham_altitudes_are_read() {
        // Annex 10 volume IV, appendix to chapter 3: the lowest steps.
        const C1: u16 = 1 << 12;
        const C2: u16 = 1 << 10;
        const C4: u16 = 1 << 8;
        const B4: u16 = 1 << 1;
        for (code, feet) in [
            (0, None),
            (C4, Some(-1200)),
            (C2 | C4, Some(-1100)),
            (C2, Some(-1000)),
            (C1 | C2, Some(-900)),
            (C1, Some(-800)),
            (C1 | B4, Some(-700)),
            (C4 | B4, Some(-300)),
            (C1 | C4, None),
            (C1 | C2 | C4, None),
        ] {
            assert_eq!(altitude_ft(code), feet, "{code:013b}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(
            address in 0u32..1 << 24,
            altitude in -40..2007,
            east in -1022..=1022,
            north in -1022..=1022,
            climb in -510..=510,
            squawk in 0u16..4096,
            name in "[A-Z0-9]{1,8}",
        ) {
            let frame = encode::altitude_reply(address, 25 * altitude, None);
            prop_assert_eq!(Message::of(&frame), Message::Altitude { altitude_ft: Some(25 * altitude) });
            prop_assert_eq!(frame.address(), address);

            let octal = squawk & 7 | (squawk & 0o70) << 1 | (squawk & 0o700) << 2 | (squawk & 0o7000) << 3;
            let frame = encode::identity_reply(address, octal, Some([1; 7]));
            prop_assert_eq!(Message::of(&frame), Message::Identity { squawk: octal });
            prop_assert_eq!(frame.address(), address);

            let callsign = Callsign::new(&name).unwrap();
            let frame = encode::identification(address, callsign);
            prop_assert_eq!((frame.remainder(), frame.address()), (0, address));
            prop_assert_eq!(Message::of(&frame), Message::Identification { callsign });
            prop_assert_eq!(callsign.as_str(), name);

            let Message::Velocity(read) = Message::of(&encode::velocity(address, east, north, 64 * climb)) else {
                panic!()
            };
            prop_assert_eq!(read.vertical_rate_fpm, Some(64 * climb));
            prop_assert!((read.speed_kt.unwrap() - (east as f32).hypot(north as f32)).abs() < 0.01);

            let report = Report { parity: Parity::Odd, latitude: address & 0x1_ffff, longitude: address >> 7 };
            prop_assert_eq!(
                Message::of(&encode::position(address, 25 * altitude, report)),
                Message::AirbornePosition { altitude_ft: Some(25 * altitude), report }
            );
        }

        #[test]
        fn no_frame_panics(bytes: [u8; 14]) {
            if let Message::Velocity(velocity) = Message::of(&Frame::from_start_of(&bytes)) {
                prop_assert!(velocity.track_deg.is_none_or(|deg| (0.0..360.0).contains(&deg)));
            }
        }
    }
}
