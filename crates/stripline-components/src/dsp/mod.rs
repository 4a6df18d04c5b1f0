//! Signal processing, independent of ports.
//!
//! Every block holds the state of a stream and has one method that takes new samples and produces
//! the output for them. The result is bit-exact for any division into packets. So a block gives the
//! same output with every transport and packet size.
//!
//! | file | content |
//! | --- | --- |
//! | `taps.rs` | filter design: windows, low-pass, band-pass |
//! | `fir.rs` | streaming and decimating FIR filters |
//! | `resample.rs` | rational resampler |
//! | `spectrum.rs` | windows, transforms, mean power |
//! | `channels.rs` | interleaved channels, each with its own processor |
//! | `align.rs` | streams aligned by their sample indexes |
//! | `am.rs`, `fm.rs` | demodulators, de-emphasis |
//! | `generate.rs`, `noise.rs`, `station.rs` | sources: waveforms, noise, a simulated FM station |
//! | `phase.rs` | the exact phase accumulator of the sources |
//! | `sample.rs`, `error.rs` | the two sample types; the error type |

mod align;
mod am;
mod channels;
mod error;
mod fir;
mod fm;
mod generate;
mod noise;
mod phase;
mod resample;
mod sample;
mod spectrum;
mod station;
mod taps;

pub use align::Aligner;
pub use am::AmDemodulator;
pub use channels::{Frames, PerChannel};
pub use error::DspError;
pub use fir::{DECIMATION_MAX, DecimatingFir, FirFilter};
pub use fm::{DEEMPHASIS_AMERICAS_US, DEEMPHASIS_EUROPE_US, DeEmphasis, FmDemodulator};
pub use generate::{Generator, GeneratorSettings, Waveform};
pub use noise::Awgn;
pub use phase::Phase;
pub use resample::{RESAMPLING_MAX, Resampler, ResamplerSettings};
pub use sample::Sample;
pub(crate) use sample::add;
pub use spectrum::{FFT_AVERAGE_MAX, FFT_SIZE_MAX, MeanPower, Spectra, SpectrumWindow};
pub use station::{FmStation, FmStationSettings, STATION_DEVIATION_HZ, STATION_PILOT_HZ};
pub use taps::{FirLength, TAPS_MAX, Taps, Window};
