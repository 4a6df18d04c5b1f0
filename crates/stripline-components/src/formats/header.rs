//! The headers of WAV files and of numpy files.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use stripline::StreamInfo;

use super::encoding::Encoding;
use super::error::FormatError;
use super::utc::seconds_of;

/// The maximum number of chunks of a WAV file before the samples.
const CHUNKS_MAX: u32 = 1000;
/// The longest chunk that is read whole, in bytes; longer chunks are skipped.
const CHUNK_BYTES_MAX: u64 = 64 << 10;
/// The longest header of a numpy file, in bytes.
const NUMPY_BYTES_MAX: usize = 64 << 10;
/// The description of the samples that follow a header.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) encoding: Encoding,
    /// The number of channels, 1 or more.
    pub(super) channels: usize,
    /// The number of samples of each channel per second.
    pub(super) sample_rate_hz: Option<f64>,
    pub(super) frequency_hz: Option<f64>,
    /// The time of the first sample, in nanoseconds since the Unix epoch.
    pub(super) time_ns: Option<i64>,
    /// The size of the header in bytes.
    pub(super) start: u64,
    /// The number of sample bytes; `None`: all that follow, because the header has no length.
    pub(super) bytes: Option<u64>,
}

/// A reader that counts the bytes read.
struct Counted<R> {
    input: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(out)?;
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: Read> Counted<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes).map(|()| bytes)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

/// Reads the header of a WAV file (RIFF, RF64 or BW64) up to the samples. `path` is for messages.
///
/// # Errors
/// The header ends early, the samples are compressed, or a value is impossible.
pub(super) fn wav(input: impl Read, path: &Path) -> Result<Header, FormatError> {
    let mut input = Counted { input, count: 0 };
    read_wav(&mut input).map_err(|error| refuse(path, "WAV", error))
}

fn read_wav<R: Read>(input: &mut Counted<R>) -> io::Result<Header> {
    let container: [u8; 12] = input.array()?;
    let (mut format, mut long, mut frequency_hz, mut time_ns) = (None, (0, u64::MAX), None, None);
    for _ in 0..CHUNKS_MAX {
        let head: [u8; 8] = input.array()?;
        let (name, length) = (&head[..4], u32_at(&head, 4));
        if name == b"data" {
            let Some((encoding, channels, rate)) = format else {
                return Err(wrong("the samples come before their format (`fmt `)"));
            };
            let [all, bytes] =
                [(u32_at(&container, 4), long.0), (length, long.1)].map(|lengths| match lengths {
                    (u32::MAX, long) => long,
                    (short, _) => u64::from(short),
                });
            // In a finished file, the length of the container extends beyond the start of the
            // samples.
            let is_finished = all.saturating_add(8) > input.count && all < u64::MAX;
            let is_unknown = bytes == u64::MAX || bytes == 0 && !is_finished;
            let bytes = Some(bytes).filter(|_| !is_unknown);
            return Ok(Header {
                encoding,
                channels,
                sample_rate_hz: Some(f64::from(rate)).filter(|rate| *rate > 0.0),
                frequency_hz,
                time_ns,
                start: input.count,
                bytes,
            });
        }
        let padded = u64::from(length) + u64::from(length % 2);
        if padded > CHUNK_BYTES_MAX {
            input.skip(padded)?;
            continue;
        }
        let mut body = vec![0; padded as usize];
        input.read_exact(&mut body)?;
        match name {
            b"fmt " => format = Some(wav_format(&body)?),
            // The numbers of bytes in the container and in the samples.
            b"ds64" if body.len() >= 16 => long = (u64_at(&body, 0), u64_at(&body, 8)),
            b"auxi" => (frequency_hz, time_ns) = auxi(&body),
            _ => {}
        }
    }
    Err(wrong("there are no samples (`data`) among its first chunks"))
}

/// Reads the `left` bytes after the samples of a WAV file, and adds their frequency and time to the
/// header. Returns a note if some of the bytes may be samples: they are not a whole chunk, or are
/// in a chunk `data`.
/// `data`.
///
/// # Errors
/// Reading fails.
pub(super) fn wav_behind(
    mut input: impl Read + Seek,
    left: u64,
    header: &mut Header,
) -> io::Result<Option<String>> {
    let (start, mut at) = (input.stream_position()?, 0);
    for _ in 0..CHUNKS_MAX {
        let rest = left.saturating_sub(at);
        input.seek(SeekFrom::Start(start + at))?;
        let mut head = Vec::new();
        input.by_ref().take(rest.min(8)).read_to_end(&mut head)?;
        if head.len() < 8 && head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let is_named = head.len() == 8 && head[..4].iter().all(|byte| (0x20..0x7f).contains(byte));
        let length = if is_named { u64::from(u32_at(&head, 4)) } else { u64::MAX };
        let problem = match head.get(..4) {
            Some(b"data") => "another chunk `data`",
            _ if length > rest - head.len() as u64 => "no whole chunk",
            name => {
                if name == Some(b"auxi") && (header.frequency_hz, header.time_ns) == (None, None) {
                    let mut body = Vec::new();
                    input.by_ref().take(length.min(CHUNK_BYTES_MAX)).read_to_end(&mut body)?;
                    (header.frequency_hz, header.time_ns) = auxi(&body);
                }
                at += 8 + length + length % 2;
                continue;
            }
        };
        return Ok(Some(format!("{rest} bytes behind its samples are not played: {problem}")));
    }
    Ok(None)
}

/// Returns the layout of the samples, the number of channels, and the sample rate.
fn wav_format(body: &[u8]) -> io::Result<(Encoding, usize, u32)> {
    if body.len() < 16 {
        return Err(wrong("its format (`fmt `) is too short"));
    }
    let (mut tag, channels, rate) = (u16_at(body, 0), usize::from(u16_at(body, 2)), u32_at(body, 4));
    let (frame_bytes, bits) = (u16_at(body, 12), u16_at(body, 14));
    // The extensible format has the actual tag in its extension.
    if tag == 0xfffe && body.len() >= 26 {
        tag = u16_at(body, 24);
    }
    let Some(encoding) = Encoding::of_wav(tag, bits) else {
        return Err(wrong(&format!("its samples have the encoding {tag} with {bits} bits")));
    };
    if channels > StreamInfo::CHANNELS_MAX {
        let most = StreamInfo::CHANNELS_MAX;
        return Err(wrong(&format!("it has {channels} channels, and at most {most} are read")));
    }
    if channels == 0 || channels * encoding.stored_bytes() != usize::from(frame_bytes) {
        return Err(wrong(&format!("{channels} channels of {bits} bits do not have {frame_bytes} bytes")));
    }
    Ok((encoding, channels, rate))
}

/// Returns frequency and time from the chunk `auxi` of radio programs: numbers (SpectraVue, HDSDR,
/// SDRuno), or XML in UTF-16 (SDR Console).
fn auxi(body: &[u8]) -> (Option<f64>, Option<i64>) {
    if body.starts_with(b"<\0") || body.starts_with(b"\xff\xfe<\0") {
        let units: Vec<u16> = body.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        let text = String::from_utf16_lossy(&units);
        let value = |key: &str| text.split_once(key)?.1.split_once('"')?.0.parse::<f64>().ok();
        let frequency = value("RadioCenterFreq=\"").filter(|hz| *hz > 0.0 && hz.is_finite());
        let seconds = value("UTCStartSeconds=\"").filter(|seconds| (1.0..9e9).contains(seconds));
        return (frequency, seconds.map(|seconds| (seconds * 1e9) as i64));
    }
    if body.len() < 36 {
        return (None, None);
    }
    // Windows' SYSTEMTIME: year, month, day of the week, day, hour, minute, second, millisecond.
    let [year, month, _, day, hour, minute, second, millis] =
        std::array::from_fn(|at| i64::from(u16_at(body, 2 * at)));
    let seconds = seconds_of([year, month, day, hour, minute, second]);
    let time = seconds.and_then(|s| s.checked_mul(1_000_000_000)?.checked_add(millis * 1_000_000));
    (Some(u32_at(body, 32)).filter(|hz| *hz > 0).map(f64::from), time)
}

/// Reads the header of a numpy file. `path` is for messages.
///
/// # Errors
/// The header ends early, the type is not a sample type, or the array has more than two dimensions.
pub(super) fn numpy(input: impl Read, path: &Path) -> Result<Header, FormatError> {
    let mut input = Counted { input, count: 0 };
    read_numpy(&mut input).map_err(|error| refuse(path, "numpy", error))
}

fn read_numpy<R: Read>(input: &mut Counted<R>) -> io::Result<Header> {
    let prefix: [u8; 8] = input.array()?;
    let length = match prefix[6] {
        1 => usize::from(u16::from_le_bytes(input.array()?)),
        2 | 3 => u32::from_le_bytes(input.array()?) as usize,
        version => return Err(wrong(&format!("its version is {version}"))),
    };
    if length > NUMPY_BYTES_MAX {
        return Err(wrong(&format!("its description has {length} bytes")));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let value = |key: &str| text.split_once(key)?.1.split_once(':').map(|(_, value)| value.trim_start());
    let descr = value("'descr'").and_then(|value| value.strip_prefix('\'')?.split_once('\''));
    let descr = descr.map_or("a structure", |(descr, _)| descr);
    let Some(encoding) = Encoding::of_numpy(descr) else {
        return Err(wrong(&format!("its values are {descr:.20}, which is not a type of samples")));
    };
    let shape = value("'shape'").and_then(|value| value.strip_prefix('(')?.split_once(')'));
    let sizes: Option<Vec<u64>> = shape.and_then(|(shape, _)| {
        shape
            .split(',')
            .map(str::trim)
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().ok())
            .collect()
    });
    let (samples, channels) = match sizes.as_deref() {
        Some([samples]) => (*samples, 1),
        // In Fortran order, all samples of a channel follow each other.
        Some([_, channels])
            if *channels > 1 && value("'fortran_order'").is_some_and(|v| v.starts_with("True")) =>
        {
            return Err(wrong("its channels do not take turns: save `np.ascontiguousarray(...)`"));
        }
        Some([samples, channels @ 1..=256]) => (*samples, *channels),
        _ => return Err(wrong("its shape is not (samples,) or (samples, channels) of up to 256 channels")),
    };
    let bytes = samples.checked_mul(channels * encoding.stored_bytes() as u64);
    let bytes = bytes.ok_or_else(|| wrong("its shape has more samples than a file"))?;
    Ok(Header {
        encoding,
        channels: channels as usize,
        sample_rate_hz: None,
        frequency_hz: None,
        time_ns: None,
        start: input.count,
        bytes: Some(bytes),
    })
}

fn wrong(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

fn refuse(path: &Path, format: &'static str, error: io::Error) -> FormatError {
    let problem = match error.kind() {
        ErrorKind::UnexpectedEof => "it ends within its header".to_owned(),
        ErrorKind::InvalidData => error.to_string(),
        _ => return FormatError::open(path, "open", error),
    };
    FormatError::Header { path: path.into(), format, problem }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use stripline::payload::Scalar;

    use super::*;

    pub fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let fill = if body.len() % 2 == 1 { &[0][..] } else { &[] };
        [&name[..], &(body.len() as u32).to_le_bytes(), body, fill].concat()
    }

    /// Returns the chunk `fmt `.
    pub fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
        let frame = channels * (bits / 8);
        let body = [
            &tag.to_le_bytes()[..],
            &channels.to_le_bytes(),
            &rate.to_le_bytes(),
            &(rate * u32::from(frame)).to_le_bytes(),
            &frame.to_le_bytes(),
            &bits.to_le_bytes(),
        ];
        chunk(b"fmt ", &body.concat())
    }

    /// Returns a WAV file with these chunks.
    pub fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
        let body = [b"WAVE".to_vec(), chunks.concat()].concat();
        [&b"RIFF"[..], &(body.len() as u32).to_le_bytes(), &body].concat()
    }

    /// Returns a numpy file with this description.
    pub fn npy(text: &str, samples: &[u8]) -> Vec<u8> {
        [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), samples].concat()
    }

    fn of_wav(bytes: &[u8]) -> Result<Header, String> {
        wav(bytes, Path::new("x.wav")).map_err(|error| error.to_string())
    }

    fn of_numpy(text: &str) -> Result<Header, String> {
        numpy(&*npy(text, &[]), Path::new("x.npy")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_wav_file_gives_its_frequency_and_time() {
        let moment: Vec<u8> =
            [2024u16, 3, 5, 1, 12, 0, 0, 250].iter().flat_map(|x| x.to_le_bytes()).collect();
        let numbers: Vec<u8> = [98_000_000u32, 2_000_000].iter().flat_map(|x| x.to_le_bytes()).collect();
        let chunks = [
            chunk(b"junk", &[1, 2, 3]),
            format(1, 2, 2_000_000, 16),
            chunk(b"auxi", &[&moment[..], &moment, &numbers].concat()),
            chunk(b"data", &[0; 8]),
        ];
        let header = of_wav(&riff(&chunks)).unwrap();
        assert_eq!((header.channels, header.encoding.scalar), (2, Scalar::parse("s16").unwrap()));
        assert_eq!((header.sample_rate_hz, header.frequency_hz), (Some(2e6), Some(98e6)));
        assert_eq!((header.time_ns, header.bytes), (Some(1_709_294_400_250_000_000), Some(8)));
        let text = "<x RadioCenterFreq=\"433920000\" SampleRate=\"1\" UTCStartSeconds=\"1709294400\"/>";
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(auxi(&units), (Some(433.92e6), Some(1_709_294_400_000_000_000)));
    }

    #[test]
    fn what_follows_the_samples_of_a_wav_file_is_read() {
        let plain = of_wav(&riff(&[format(1, 1, 8000, 16), chunk(b"data", &[0; 3])])).unwrap();
        let numbers = chunk(b"auxi", &[&[0; 32][..], &98_000_000u32.to_le_bytes()].concat());
        let data = chunk(b"data", &[1; 100]);
        for (behind, note, frequency) in [
            (vec![], None, None),
            (vec![0; 7], None, None),
            ([chunk(b"LIST", &[1; 70_001]), numbers.clone()].concat(), None, Some(98e6)),
            (
                [numbers, data.clone()].concat(),
                Some("108 bytes behind its samples are not played: another"),
                Some(98e6),
            ),
            (data[..20].to_vec(), Some("20 bytes behind its samples"), None),
            (vec![1; 500], Some("500 bytes behind its samples are not played: no whole chunk"), None),
            (chunk(b"LIST", &[1; 50])[..40].to_vec(), Some("40 bytes"), None),
        ] {
            let mut header = plain.clone();
            let left = behind.len() as u64;
            let found = wav_behind(io::Cursor::new(behind), left, &mut header).unwrap();
            assert_eq!(found.is_some(), note.is_some(), "{found:?}");
            assert!(found.iter().all(|found| found.starts_with(note.unwrap())), "{found:?}");
            assert_eq!(header.frequency_hz, frequency);
        }
    }

    #[test]
    fn long_and_unfinished_wav_files_are_read() {
        let sizes: Vec<u8> = [100u64, 5 << 30, 7].iter().flat_map(|x| x.to_le_bytes()).collect();
        let with = |magic: &[u8], chunks: &[Vec<u8>], length: u32| {
            let data = [&b"data"[..], &length.to_le_bytes()].concat();
            [magic, b"\0\0\0\0WAVE", &chunks.concat(), &data].concat()
        };
        let long = with(b"RF64", &[chunk(b"ds64", &sizes), format(3, 1, 48_000, 32)], u32::MAX);
        assert_eq!(of_wav(&long).unwrap().bytes, Some(5 << 30));
        for length in [0, u32::MAX] {
            assert_eq!(of_wav(&with(b"RIFF", &[format(1, 1, 8000, 24)], length)).unwrap().bytes, None);
        }
        // A killed writer of RF64 may not have written the lengths.
        for (all, audio) in [(0u64, 0u64), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
            let sizes = chunk(b"ds64", &[all, audio, 0].map(u64::to_le_bytes).concat());
            let mut long = with(b"RF64", &[sizes, format(3, 1, 48_000, 32)], u32::MAX);
            long[4..8].fill(0xff);
            assert_eq!(of_wav(&long).unwrap().bytes, None);
        }
        // A program that writes to a pipe states the largest lengths.
        let mut piped = with(b"RIFF", &[format(1, 1, 8000, 24)], u32::MAX);
        piped[4..8].copy_from_slice(&0x7fff_f024u32.to_le_bytes());
        assert_eq!(of_wav(&piped).unwrap().bytes, None);
        let mut unfinished = with(b"RIFF", &[format(1, 1, 8000, 24)], 0);
        unfinished[4..8].fill(0xff);
        assert_eq!(of_wav(&unfinished).unwrap().bytes, None);
        let extensible =
            [&0xfffeu16.to_le_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 4, 0, 0, 4, 0, 32, 0, 22, 0, 32, 0]];
        let extensible = chunk(b"fmt ", &[&extensible.concat()[..], &[0; 4], &[3, 0], &[0; 14]].concat());
        let header = of_wav(&riff(&[extensible, chunk(b"data", &[0; 4])])).unwrap();
        assert_eq!(header.encoding.scalar, Scalar::parse("f32").unwrap());
    }

    #[test]
    fn wrong_wav_files_are_refused_with_the_reason() {
        let data = chunk(b"data", &[0; 4]);
        for (bytes, words) in [
            (riff(&[format(6, 1, 8000, 8), data.clone()]), "the encoding 6 with 8 bits"),
            (riff(std::slice::from_ref(&data)), "come before their format"),
            (riff(&[format(1, 0, 8000, 16), data.clone()]), "0 channels of 16 bits"),
            (
                riff(&[format(1, 257, 8000, 16), data.clone()]),
                "it has 257 channels, and at most 256 are read",
            ),
            (riff(&[chunk(b"fmt ", &[1, 0]), data]), "too short"),
            (riff(&[format(1, 1, 8000, 16)]), "ends within its header"),
            (riff(&vec![chunk(b"junk", &[]); 1001]), "no samples"),
        ] {
            let message = of_wav(&bytes).unwrap_err();
            assert!(message.contains(words) && message.starts_with("x.wav: "), "{message}");
        }
    }

    #[test]
    fn a_file_of_numpy_gives_its_type_and_shape() {
        let header = of_numpy("{'descr': '<c8', 'fortran_order': False, 'shape': (1000,), }").unwrap();
        assert_eq!((header.encoding.scalar, header.channels), (Scalar::parse("cf32").unwrap(), 1));
        assert_eq!((header.bytes, header.sample_rate_hz), (Some(8000), None));
        let header = of_numpy("{'descr': '>i2', 'fortran_order': False, 'shape': (10, 2), }").unwrap();
        assert_eq!((header.channels, header.bytes, header.encoding.is_big_endian), (2, Some(40), true));
        for (text, words) in [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "not a type of samples"),
            ("{'descr': [('a', '<f4')], 'shape': (1,), }", "a structure"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", "ascontiguousarray"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }", "its shape"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 100000), }", "its shape"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615,), }", "more samples"),
            ("", "a structure"),
        ] {
            let message = of_numpy(text).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn hostile_headers_are_refused_or_have_samples(
            chunks in prop::collection::vec((prop::sample::select(vec![*b"fmt ", *b"ds64", *b"auxi", *b"data", *b"junk"]),
                prop::collection::vec(any::<u8>(), 0..40)), 0..6),
            cut in 0usize..200,
            text in "\\{('descr': '[<>|][fiuc][0-9]{1,20}', )?('shape': \\([0-9]{0,20}, ?[0-9]{0,20}\\))?\\PC{0,9}\\}",
        ) {
            let chunks: Vec<_> = chunks.iter().map(|(name, body)| chunk(name, body)).collect();
            let mut bytes = riff(&chunks);
            bytes.truncate(bytes.len().saturating_sub(cut));
            for header in [of_wav(&bytes), of_numpy(&text)].into_iter().flatten() {
                prop_assert!(header.channels > 0 && header.encoding.stored_bytes() > 0);
            }
        }
    }
}
