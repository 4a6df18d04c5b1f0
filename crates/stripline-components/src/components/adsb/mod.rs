//! ADS-B: a recording or a simulated sky, and the steps from samples to aircraft.
//!
//! | file | content |
//! | --- | --- |
//! | `source.rs` | `adsb-source`: a recording, or a simulated sky |
//! | `demodulator.rs` | `adsb-demodulator`: samples to candidates |
//! | `decoder.rs` | `adsb-decoder`: candidates to frames |
//! | `sink.rs` | `adsb-sink`: frames to a file and to a table of aircraft |
//! | `record.rs` | the records sent between the components |

mod decoder;
mod demodulator;
mod record;
mod sink;
mod source;

pub use decoder::AdsbDecoder;
pub use demodulator::AdsbDemodulator;
pub use record::FrameRecord;
pub use sink::AdsbSink;
pub use source::AdsbSource;
