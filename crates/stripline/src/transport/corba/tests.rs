//! Tests of the path without a link.

use std::time::Duration;

use super::*;
use crate::packet::Kind;
use crate::sys::doorbell::PollSet;
use crate::transport::test_path::frame_of;

fn request(packets_max: Option<u32>) -> PathRequest<'static> {
    PathRequest {
        connection: "a -> b",
        packets_max,
        is_complete: true,
        is_of_calls: false,
        options: Default::default(),
        endpoint: None,
        buffer: 1 << 21,
        runs_barrier: false,
    }
}

fn ends(packets_max: Option<u32>) -> (Box<dyn PathSource>, Arc<dyn PathSink>) {
    let (source, ticket) = CorbaObjects.source(&request(packets_max)).unwrap();
    (source, CorbaObjects.sink(ticket).unwrap())
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
                if source.poll_bytes(&mut poll_set) {
                    let until = std::time::Instant::now() + Duration::from_secs(20);
                    assert!(poll_set.wait(Some(until)).unwrap(), "nothing comes");
                }
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
    let frames: Vec<_> = (0..3).map(|number| frame_of(number, 100, Kind::Data)).collect();
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
    let large = frame_of(0, 3 * BYTES_MAX as usize + 5, Kind::Data);
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
    // Each has a connection of its own, because a call that is dropped may end it.
    let stranger = || {
        let socket = ticket.fds[2].try_clone().unwrap();
        crate::sys::corba::CallClient::new(&parsed.object, socket).unwrap()
    };
    stranger().call(parsed.key ^ 1, 0, 1, &frame_of(9, 16, Kind::Data)).unwrap();
    stranger().call(parsed.key, 0, 1, &vec![0; BYTES_MAX as usize + 1]).unwrap();
    let sink = CorbaObjects.sink(ticket).unwrap();
    let sent = frame_of(1, 16, Kind::Data);
    assert_eq!(sink.write(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}

/// Returns a request of GIOP 1.2 for that object, with that key and that many bytes announced.
fn request_of(object: &str, key: u64, announced: u32) -> Vec<u8> {
    let mut body = Vec::new();
    let pad = |body: &mut Vec<u8>, to: usize| body.resize(body.len().next_multiple_of(to), 0);
    body.extend(1u32.to_le_bytes());
    // No reply; the object key is the target.
    body.extend([0, 0, 0, 0, 0, 0, 0, 0]);
    body.extend((object.len() as u32).to_le_bytes());
    body.extend(object.as_bytes());
    pad(&mut body, 4);
    body.extend(7u32.to_le_bytes());
    body.extend(b"packet\0");
    pad(&mut body, 4);
    body.extend(0u32.to_le_bytes());
    // The arguments begin at a multiple of 8 behind the 12 bytes of the header.
    while (body.len() + 12) % 8 != 0 {
        body.push(0);
    }
    for number in [key, 0, 1] {
        body.extend(number.to_le_bytes());
    }
    body.extend(announced.to_le_bytes());
    let mut message = b"GIOP\x01\x02\x01\x00".to_vec();
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(body);
    message
}

#[test]
fn garbage_and_lengths_of_4_gib_on_the_socket_harm_nothing() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    let (mut source, ticket) = CorbaObjects.source(&request(Some(4))).unwrap();
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    let place = format!("/proc/self/fd/{}", ticket.fds[2].as_raw_fd());
    let mut messages = vec![
        vec![0; 4096],
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff".to_vec(),
        b"GIOP\x09\x09\x01\x00\x10\x00\x00\x00".to_vec(),
        b"GIOP\x01\x02\x01\x63\x10\x00\x00\x00".to_vec(),
        request_of(&parsed.object, parsed.key, u32::MAX),
        request_of(&parsed.object, parsed.key, i32::MAX as u32),
        request_of(&parsed.object, parsed.key ^ 1, 0),
        request_of("stripline-path-0", parsed.key, 0),
        request_of("", 0, 0),
    ];
    // A request that ends anywhere.
    let whole = request_of(&parsed.object, parsed.key, 16);
    messages.extend((1..whole.len()).map(|length| whole[..length].to_vec()));
    for message in messages {
        let mut stranger = UnixStream::connect(&place).unwrap();
        // It may be closed before all is written.
        let _ = stranger.write_all(&message);
    }
    let sink = CorbaObjects.sink(ticket).unwrap();
    let sent = frame_of(1, 16, Kind::Data);
    assert_eq!(sink.write(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}

#[test]
fn a_receiver_that_counts_what_it_has_not_read_loses_its_sender() {
    // A socket that is listened at, and never read.
    let name = crate::sys::corba::NAMES.make().unwrap();
    let path = crate::sys::corba::NAMES.path(&name);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let socket = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (page, page_fd) = TransitPage::new().unwrap();
    let [_, sleeping] = Doorbell::between().unwrap();
    let ticket = CorbaTicket {
        object: format!("{PREFIX}0"),
        key: 7,
        frames: FRAMES_MAX,
        bytes: BYTES_MAX,
        unit: None,
    };
    let fds = vec![page_fd, sleeping.as_fd().try_clone_to_owned().unwrap(), socket];
    let address = serde_json::to_string(&ticket).unwrap();
    let sink = CorbaObjects.sink(Ticket { address, fds, ..Ticket::default() }).unwrap();
    let frame = frame_of(0, 32 * 1024, Kind::Data);
    let mut sent = 0;
    let error = loop {
        // All that was sent counts as read and taken.
        sent += 1;
        page.set_taken(sent, sent, 0);
        page.set_received(u64::MAX / 2, u64::MAX);
        match sink.write(&frame) {
            Ok(_) => assert!(sent < 10_000, "a call would wait"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("has not read"), "{error}");
    drop((sink, listener));
}
