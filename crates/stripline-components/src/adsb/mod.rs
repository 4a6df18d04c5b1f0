//! ADS-B and Mode S: the transmissions of aircraft at 1090 MHz.
//!
//! This module is signal processing only, without links or files. Each step takes and returns
//! values, so it can be tested and timed alone, and run in a process of its own.
//!
//! ```text
//!  samples       power         marks         candidates      frames        table
//!  ───────▶ sample ───▶ preamble ───▶ slice ──────────▶ decode ───▶ track ──────▶
//!  2 Msample/s  every sample  every sample  some positions   parity     message, cpr
//!          └──────── demodulate::Demodulator ────────┘
//! ```
//!
//! [`demodulate`] turns I/Q samples into [`candidate`]s of 40 bytes, a few hundred per second.
//! [`decode`] accepts the candidates with correct parity. [`track`] keeps a table of all aircraft
//! from the [`message`]s. [`simulate`] is a simulated sky for tests without an antenna.
//!
//! # A Mode S frame
//!
//! A pulse takes 0.5 µs. The preamble has four pulses, and each bit of 1 µs has one. A pulse in the
//! first half of a bit means 1, a pulse in the second half means 0 (ICAO Annex 10, volume IV,
//! 3.1.2.2).
//!
//! ```text
//!  µs  0   1   2   3   4   5   6   7   8   9   10
//!      ┌┐  ┌┐         ┌┐  ┌┐               ┌┐    ┌┐┌┐
//!     ─┘└──┘└─────────┘└──┘└───────────────┘└────┘└┘└── …
//!      preamble                            1   0   1      56 or 112 bits
//! ```
//!
//! The first five bits are the downlink format (DF). The format determines the length of the frame
//! and the meaning of the last 24 bits: a parity field, overlaid with zero or an interrogator's
//! code (11, 17, 18), or with the aircraft's address (all others).
//!
//! ```text
//!  bit   1    5    8                  32                    88               112
//!        +----+----+------------------+------ … ------------+------------------+
//!  long  | DF | CA | address          | message, 56 bits    | parity           |  DF 17, 18
//!        +----+----+------------------+------ … ------------+------------------+
//!        | DF | flags and altitude    | message, 56 bits    | parity ^ address |  DF 16, 20, 21, 24
//!        +----+----+------------------+------ … ------------+------------------+
//!  short | DF | CA | address          | parity ^ code    |                        DF 11
//!        +----+----+------------------+------------------+
//!        | DF | flags and altitude    | parity ^ address |                        DF 0, 4, 5
//!        +----+----+------------------+------------------+
//!  bit   1    5    8                  32                56
//! ```

pub mod candidate;
pub mod cpr;
pub mod decode;
pub mod demodulate;
mod flight;
pub mod frame;
pub mod message;
mod preamble;
pub mod sample;
pub mod simulate;
mod slice;
pub mod track;

pub use candidate::Candidate;
pub use decode::{Accepted, Decoder, DecoderConfig};
pub use demodulate::{Demodulator, DemodulatorConfig};
pub use frame::Frame;
pub use sample::IqSample;
pub use simulate::{Simulation, SimulationConfig};
pub use track::{Tracker, TrackerConfig};
