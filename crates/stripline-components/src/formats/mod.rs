//! File formats, independent of ports.
//!
//! | file | content |
//! | --- | --- |
//! | `sample_format.rs` | the layout of a complex sample in a file, and its conversion |
//! | `encoding.rs` | the types of samples in files of all formats |
//! | `sigmf.rs`, `sigmf/json.rs` | the metadata of SigMF recordings; `utc.rs`: their times |
//! | `sigmf/archive.rs` | the recording in a SigMF archive |
//! | `sigmf/sidecar.rs` | the metadata while a recording is written |
//! | `file_reader.rs` | the samples of files of all formats |
//! | `file_kind.rs`, `header.rs` | the kind of a file from its first bytes; the headers of WAV and
//! numpy |
//! | `gzip.rs` | the content of files that are compressed with gzip |
//! | `file_input.rs`, `segments.rs` | the bytes of samples; the indexes, times and frequencies of
//! samples |
//! | `iq_reader.rs`, `iq_writer.rs` | I/Q files, raw or SigMF |
//! | `output.rs` | opening files for writing, for all writers; `output_check.rs`: the checks before |
//! | `whole_file.rs` | files that are complete as soon as they have their name |
//! | `durability.rs` | the time at which written data is on the disk |
//! | `steps.rs` | the steps of a stream, and the samples missing between packets |
//! | `stream_writer.rs` | the samples of a stream to a raw file or SigMF |
//! | `recording.rs` | recordings of ports of any type |
//! | `packet_values.rs` | the samples of packets of any type as values |
//! | `wav.rs` | WAV files of audio |
//! | `waterfall.rs` | spectra over time as PNG files; `canvas.rs` and `colour_map.rs` draw them |
//! | `error.rs` | the error type |

mod canvas;
mod colour_map;
mod durability;
pub(crate) mod encoding;
mod error;
mod file_input;
mod file_kind;
mod file_reader;
mod gzip;
mod header;
mod iq_reader;
mod iq_writer;
mod output;
mod output_check;
pub(crate) mod packet_values;
mod recording;
mod sample_format;
mod segments;
mod sigmf;
mod steps;
mod stream_writer;
mod utc;
mod waterfall;
mod wav;
mod whole_file;

pub(crate) use colour_map::colour;
pub use durability::Durability;
pub(crate) use durability::PassTimer;
pub(crate) use encoding::of_ending;
pub use error::FormatError;
pub(crate) use error::shown;
pub(crate) use file_kind::header_ending;
pub use file_kind::is_sigmf;
pub use file_reader::{FileReader, FileReaderOptions};
pub use iq_reader::{IqFileReader, IqReaderOptions};
pub use iq_writer::IqFileWriter;
pub use output::{Existing, write_whole};
pub(crate) use output::{OutputFile, is_special};
pub use output_check::check_output;
pub use recording::{
    RECORDING_EXTENSION, RecordedPacket, RecordingCounts, RecordingEntry, RecordingInfo, RecordingReader,
    RecordingWriter,
};
pub use sample_format::{RawSample, SampleFormat};
pub use segments::FilePlace;
pub use sigmf::{SIGMF_META_BYTES_MAX, SigMfCapture, SigMfMeta, SigMfRecording, check_sigmf_output};
pub(crate) use steps::{FramePart, FrameSteps};
pub use steps::{SamplePlace, StepTracker};
pub use stream_writer::StreamFileWriter;
pub(crate) use stream_writer::{Kept, check_turns, not_kept};
pub use utc::{utc_datetime, utc_ns};
pub use waterfall::{WATERFALL_SIZE_MAX, Waterfall};
pub(crate) use waterfall::{chosen_range, columns, part, with_unit};
pub use wav::{WavEncoding, WavFileWriter, WavSettings};
