//! The stock components, by the `type` names of waveform files.
//!
//! They use only Stripline's public interface, so each one is also an example component. Signal
//! processing and file formats are elsewhere ([`dsp`](crate::dsp), [`formats`](crate::formats),
//! [`adsb`](crate::adsb)). Here are ports, properties and loops.
//!
//! | file | components |
//! | --- | --- |
//! | `adsb/` | `adsb-source`, `adsb-demodulator`, `adsb-decoder`, `adsb-sink` |
//! | `file_source.rs`, `file_sink.rs` | `file-source`, `file-sink`: I/Q recordings |
//! | `generate.rs` | `signal-generator`, `fm-station` |
//! | `noise.rs` | `awgn` |
//! | `filter.rs` | `fir-filter`, `decimator` |
//! | `demodulate.rs` | `am-demodulator`, `fm-demodulator` |
//! | `magnitude.rs` | `magnitude` |
//! | `wav_sink.rs` | `wav-sink` |
//! | `null.rs` | `null-source`, `null-sink` |
//! | `throttle_tee.rs` | `throttle`, `tee` |
//! | `pacing.rs`, `continuity.rs`, `output_file.rs`, `property_errors.rs` | helpers of the components above |

pub mod adsb;
mod continuity;
mod demodulate;
mod file_sink;
mod file_source;
mod filter;
mod generate;
mod magnitude;
mod noise;
mod null;
mod output_file;
mod pacing;
mod property_errors;
mod throttle_tee;
mod wav_sink;

pub use demodulate::{AmDemodulatorComponent, FmDemodulatorComponent};
pub use file_sink::FileSink;
pub use file_source::FileSource;
pub use filter::{Decimator, FirFilterComponent};
pub use generate::{FmStationComponent, SignalGenerator};
pub use magnitude::Magnitude;
pub use noise::AwgnComponent;
pub use null::{NullSink, NullSource};
pub use throttle_tee::{Tee, Throttle};
pub use wav_sink::WavSink;
