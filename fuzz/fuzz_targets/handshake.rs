//! The first messages of a connection, on both sides of it.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::{StreamFrames, body_length, collect, part, shake};
use stripline_fuzz::{Choices, pieces};

const PREFIX: usize = 12;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    let pattern_length = usize::from(way >> 4);
    let pattern = choices.bytes(pattern_length);
    let bytes = choices.rest();
    match way & 3 {
        0 => listening(bytes, pattern),
        1 => connecting(bytes),
        2 => check_part(bytes),
        _ => check_body(bytes),
    }
});

/// Runs the sending side, which collects the receiving side's first message.
fn listening(bytes: &[u8], pattern: &[u8]) {
    // The length that the whole bytes announce. The result must agree with it, however the bytes
    // are cut.
    let announced = bytes.first_chunk::<PREFIX>().map(body_length);
    match (collect(pieces(bytes, pattern)), announced) {
        (Ok(None), None) => assert!(bytes.len() < PREFIX),
        (Ok(None), Some(Ok(length))) => assert!(bytes.len() < PREFIX + length),
        (Ok(Some((body, _))), Some(Ok(length))) => {
            assert_eq!(body, &bytes[PREFIX..PREFIX + length]);
            check_body(&body);
        }
        (Err(_), Some(Err(_))) => {}
        other => panic!("cut and whole differ: {other:?}"),
    }
    // No byte of the following data is taken.
    if let Ok(Some((body, rest))) = collect(std::iter::once(bytes)) {
        assert_eq!(rest, &bytes[PREFIX + body.len()..]);
    }
}

/// Runs the receiving side, which reads the reply.
fn connecting(bytes: &[u8]) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(bytes).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    match StreamFrames::connect(theirs) {
        Ok(mut frames) => while matches!(frames.take(), Ok(stripline::fuzzing::Seen::Frame(_))) {},
        Err(error) => drop(error.to_string()),
    }
}

/// Checks the first message of a part of a session.
fn check_part(bytes: &[u8]) {
    if let Some(said) = part(bytes) {
        assert_eq!(part(&said).as_deref(), Some(&said[..]), "a part changes");
    }
}

fn check_body(body: &[u8]) {
    let (hello, answer, _) = shake(body);
    for said in [hello, answer].into_iter().flatten() {
        let (again, rest) = collect(std::iter::once(&said[..])).unwrap().unwrap();
        assert!(rest.is_empty());
        let (hello, answer, _) = shake(&again);
        assert!(hello.as_deref() == Some(&said) || answer.as_deref() == Some(&said), "a message changes");
    }
}
