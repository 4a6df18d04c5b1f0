//! Signal processing, free of ports.
//!
//! Every block is streaming state with one method that takes what has arrived and produces what follows from it. The
//! result never depends, to the last bit, on how the samples were cut into packets, so a block behaves alike behind
//! every transport and packet size.
//!
//! | file | what |
//! | --- | --- |
//! | `taps.rs` | filter design: windows, low-pass, band-pass |
//! | `fir.rs` | streaming and decimating FIR filters |
//! | `am.rs`, `fm.rs` | demodulators, de-emphasis |
//! | `generate.rs`, `noise.rs`, `station.rs` | sources: waveforms, Gaussian noise, a simulated FM broadcast |
//! | `phase.rs` | the exact phase accumulator below them |
//! | `sample.rs`, `error.rs` | the two sample types; the one error type |

mod am;
mod error;
mod fir;
mod fm;
mod generate;
mod noise;
mod phase;
mod sample;
mod station;
mod taps;

pub use am::AmDemodulator;
pub use error::DspError;
pub use fir::{DECIMATION_MAX, DecimatingFir, FirFilter};
pub use fm::{DEEMPHASIS_AMERICAS_US, DEEMPHASIS_EUROPE_US, DeEmphasis, FmDemodulator};
pub use generate::{Generator, GeneratorSettings, Waveform};
pub use noise::Awgn;
pub use phase::Phase;
pub use sample::Sample;
pub use station::{FmStation, FmStationSettings, STATION_DEVIATION_HZ, STATION_PILOT_HZ};
pub use taps::{FirLength, TAPS_MAX, Taps, Window};
