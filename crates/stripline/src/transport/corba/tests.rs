//! Tests of the path without a link.

use std::time::Duration;

use super::*;
use crate::packet::{Header, Kind};
use crate::sys::doorbell::PollSet;
use crate::transport::stream::padded;

fn request(packets_max: Option<u32>) -> PathRequest<'static> {
    PathRequest {
        connection: "a -> b",
        packets_max,
        is_complete: true,
        is_of_calls: false,
        options: Default::default(),
        endpoint: None,
        buffer: 1 << 21,
    }
}

fn ends(packets_max: Option<u32>) -> (Box<dyn PathSource>, Arc<dyn PathSink>) {
    let (source, ticket) = CorbaObjects.source(&request(packets_max)).unwrap();
    (source, CorbaObjects.sink(ticket).unwrap())
}

fn frame(sequence: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![sequence as u8; padded(length)];
    Header {
        sequence,
        length: length as u32,
        stream: 0,
        kind: Kind::Data as u8,
        flags: 0,
        sample_index: 0,
        time_ns: 0,
        intended_ns: 0,
        sent_ns: 0,
    }
    .write(&mut bytes);
    bytes
}

/// Reads so many bytes, and waits for them.
fn read(source: &mut Box<dyn PathSource>, wanted: usize) -> Vec<u8> {
    let mut bytes = vec![0; wanted];
    let mut read = 0;
    while read < wanted {
        match source.read(&mut bytes[read..]) {
            Ok(count) => read += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                let mut poll_set = PollSet::default();
                source.poll_bytes(&mut poll_set);
                let until = std::time::Instant::now() + Duration::from_secs(20);
                assert!(poll_set.wait(Some(until)).unwrap(), "nothing comes");
            }
        }
    }
    bytes
}

#[test]
fn a_ticket_from_a_peer_is_checked() {
    let good =
        CorbaTicket { object: format!("{PREFIX}12-0af"), key: 7, frames: 64, bytes: BYTES_MAX, unit: None };
    let parse = |ticket: &CorbaTicket| CorbaTicket::parse(&serde_json::to_string(ticket).unwrap());
    assert_eq!(parse(&good), Ok(good.clone()));
    for (bad, expected) in [
        (CorbaTicket { object: "stripline-path-../x".into(), ..good.clone() }, "names no object"),
        (CorbaTicket { object: "NameService".into(), ..good.clone() }, "names no object"),
        (CorbaTicket { object: format!("{PREFIX}{}", "0".repeat(41)), ..good.clone() }, "names no object"),
        (CorbaTicket { frames: 0, ..good.clone() }, "0 frames"),
        (CorbaTicket { frames: u64::MAX, ..good.clone() }, "18446744073709551615 frames"),
        (CorbaTicket { bytes: 0, ..good.clone() }, "0 bytes"),
        (CorbaTicket { bytes: u32::MAX, ..good.clone() }, "4294967295 bytes"),
    ] {
        let text = parse(&bad).unwrap_err();
        assert!(text.contains(expected), "{text}");
    }
    for bad in ["", "{}", "[]", r#"{"object":1,"key":2,"frames":3,"bytes":4,"unit":null}"#] {
        assert!(CorbaTicket::parse(bad).unwrap_err().contains("does not parse"), "{bad}");
    }
}

#[test]
fn descriptors_of_a_peer_that_are_something_else_are_refused() {
    let sink = |change: fn(&mut Vec<OwnedFd>)| {
        let (_source, mut ticket) = CorbaObjects.source(&request(Some(4))).unwrap();
        change(&mut ticket.fds);
        CorbaObjects.sink(ticket).err().unwrap()
    };
    assert!(sink(|fds| fds.truncate(2)).contains("three descriptors"));
    assert!(sink(|fds| fds.swap(0, 1)).contains("not shared memory"));
    // No socket to connect to.
    let error = sink(|fds| {
        fds[2] = std::fs::File::open("/dev/null").unwrap().into();
    });
    assert!(error.contains("TRANSIENT"), "{error}");
}

#[test]
fn bytes_arrive_in_order_and_a_full_path_takes_no_more() {
    let (mut source, sink) = ends(Some(3));
    let frames: Vec<_> = (0..3).map(|number| frame(number, 100)).collect();
    for frame in &frames {
        assert_eq!(sink.write(frame).unwrap(), frame.len());
    }
    assert_eq!(sink.write(&frames[0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(read(&mut source, frames[0].len()), frames[0]);
    let mut poll_set = PollSet::default();
    sink.poll_room(&mut poll_set);
    assert!(poll_set.wait(Some(std::time::Instant::now() + Duration::from_secs(20))).unwrap());
    assert_eq!(sink.write(&frames[0]).unwrap(), frames[0].len());
    for expected in [&frames[1], &frames[2], &frames[0]] {
        assert_eq!(&read(&mut source, expected.len()), expected);
    }
    drop(sink);
    assert!(source.await_end());
}

#[test]
fn a_frame_that_is_larger_than_a_call_comes_whole() {
    let (mut source, sink) = ends(Some(2));
    let large = frame(0, 3 * BYTES_MAX as usize + 5);
    let reader = std::thread::spawn({
        let wanted = large.len();
        move || read(&mut source, wanted)
    });
    let mut sent = 0;
    while sent < large.len() {
        match sink.write(&large[sent..]) {
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                let mut poll_set = PollSet::default();
                sink.poll_room(&mut poll_set);
                poll_set.wait(None).unwrap();
            }
        }
    }
    assert!(reader.join().unwrap() == large);
}

#[test]
fn calls_with_another_key_or_too_many_bytes_are_dropped() {
    let (source, ticket) = CorbaObjects.source(&request(Some(4))).unwrap();
    let mut source: Box<dyn PathSource> = source;
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    let socket = ticket.fds[2].try_clone().unwrap();
    let mut stranger = crate::sys::corba::CallClient::new(&parsed.object, socket).unwrap();
    stranger.call(parsed.key ^ 1, 0, 1, &frame(9, 16)).unwrap();
    stranger.call(parsed.key, 0, 1, &vec![0; BYTES_MAX as usize + 1]).unwrap();
    let sink = CorbaObjects.sink(ticket).unwrap();
    let sent = frame(1, 16);
    assert_eq!(sink.write(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}
