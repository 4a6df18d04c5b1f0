//! Frames from a byte stream cut at any byte, compared with a parser of the whole stream.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::{Seen, StreamFrames, welcome};
use stripline::fuzzing::{HEADER_BYTES, Header};
use stripline_fuzz::{Choices, pieces};

const BUFFER: u32 = 4096;

/// Returns the frames, and whether the remaining bytes are invalid.
fn model(mut bytes: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut frames = Vec::new();
    while let Some(header) = Header::read(bytes) {
        let frame = HEADER_BYTES + header.length as usize;
        if frame > stripline_ring::max_frame(BUFFER as usize) {
            return (frames, true);
        }
        let padded = frame.next_multiple_of(16);
        if padded > bytes.len() {
            break;
        }
        frames.push(&bytes[..frame]);
        bytes = &bytes[padded..];
    }
    (frames, false)
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let pattern_length = usize::from(choices.byte() % 8);
    let pattern = choices.bytes(pattern_length);
    let bytes = choices.rest();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&welcome(BUFFER, None)).unwrap();
    let mut frames = StreamFrames::connect(theirs).unwrap();
    let (expected, wrong) = model(bytes);
    let mut expected = expected.into_iter();
    let mut cuts = pieces(bytes, pattern);
    loop {
        match frames.take() {
            Ok(Seen::Frame(frame)) => assert_eq!(Some(&frame[..]), expected.next()),
            Ok(Seen::Empty) => match cuts.next() {
                Some(piece) => ours.write_all(piece).unwrap(),
                None => ours.shutdown(Shutdown::Write).unwrap(),
            },
            Ok(Seen::Gone) => {
                assert!(!wrong && cuts.next().is_none());
                break;
            }
            Err(error) => {
                assert!(wrong && error.to_string().contains("announced"), "{error}");
                break;
            }
        }
    }
    assert_eq!(expected.next(), None);
});
