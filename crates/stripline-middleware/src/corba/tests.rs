//! Tests of the path without a link.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use stripline::carrier::packet::Kind;
use stripline::carrier::test_path::{ReadBytes, WriteBytes, frame_of};
use stripline::carrier::{Endpoint, Opening, PollSet, violation_in};

use super::credit::CreditPlace;
use super::*;

/// A limit that only ends a hang.
const LONGEST: Duration = Duration::from_secs(20);

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

fn ends(packets_max: Option<u32>) -> (Source, Sink) {
    let (source, ticket) = source(&request(packets_max)).unwrap();
    (source, sink(ticket).unwrap())
}

/// Reads `wanted` bytes, and waits for them.
fn read(source: &mut Source, wanted: usize) -> Vec<u8> {
    let mut bytes = vec![0; wanted];
    let mut read = 0;
    while read < wanted {
        match source.end.read_bytes(&mut bytes[read..]) {
            Ok(count) => read += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                let mut poll_set = PollSet::default();
                if source.end.poll_bytes(&mut poll_set) {
                    let until = Instant::now() + LONGEST;
                    assert!(poll_set.wait(Some(until)).unwrap(), "nothing comes");
                }
            }
        }
    }
    bytes
}

/// Writes all bytes, and waits for room. A ring of the doorbell may have an earlier cause.
fn write_all(sink: &Sink, bytes: &[u8]) {
    let mut written = 0;
    while written < bytes.len() {
        match sink.end.write_bytes(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                let mut poll_set = PollSet::default();
                sink.end.poll_room(&mut poll_set);
                assert!(poll_set.wait(Some(Instant::now() + LONGEST)).unwrap(), "there is no room");
            }
        }
    }
}

#[test]
fn a_ticket_from_a_peer_is_checked() {
    let good = CorbaTicket {
        object: format!("{PREFIX}12-0af"),
        key: 7,
        frames: 64,
        bytes: BYTES_MAX,
        unit: None,
        address: None,
    };
    let parse = |ticket: &CorbaTicket| CorbaTicket::parse(&serde_json::to_string(ticket).unwrap());
    assert_eq!(parse(&good), Ok(good.clone()));
    for (bad, expected) in [
        (CorbaTicket { object: "stripline-path-../x".into(), ..good.clone() }, "names no object"),
        (CorbaTicket { object: "NameService".into(), ..good.clone() }, "names no object"),
        (CorbaTicket { object: format!("{PREFIX}{}", "0".repeat(41)), ..good.clone() }, "names no object"),
        (CorbaTicket { frames: 0, ..good.clone() }, "0 frames"),
        (CorbaTicket { frames: u64::MAX, ..good.clone() }, "18446744073709551615 frames"),
        (CorbaTicket { address: "127.0.0.1:0".parse().ok(), ..good.clone() }, "not an address"),
        (CorbaTicket { address: "[::]:7".parse().ok(), ..good.clone() }, "not an address"),
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
        let (_source, mut ticket) = source(&request(Some(4))).unwrap();
        change(&mut ticket.fds);
        sink(ticket).err().unwrap().to_string()
    };
    assert!(sink(|fds| fds.truncate(2)).contains("three descriptors"));
    assert!(sink(|fds| fds.swap(0, 1)).contains("not shared memory"));
    // This descriptor is not a socket to connect to.
    let error = sink(|fds| {
        fds[2] = std::fs::File::open("/dev/null").unwrap().into();
    });
    assert!(error.contains("TRANSIENT"), "{error}");
}

#[test]
fn bytes_arrive_in_order_and_a_full_path_takes_no_more() {
    let (source, sink) = ends(Some(3));
    carry_in_order(source, sink);
}

/// Fills a path of three packets, and takes them. The sender ends before most are read.
fn carry_in_order(mut source: Source, sink: Sink) {
    let frames: Vec<_> = (0..3).map(|number| frame_of(number, 100, Kind::Data)).collect();
    for frame in &frames {
        assert_eq!(sink.end.write_bytes(frame).unwrap(), frame.len());
    }
    assert_eq!(sink.end.write_bytes(&frames[0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(read(&mut source, frames[0].len()), frames[0]);
    write_all(&sink, &frames[0]);
    drop(sink);
    for expected in [&frames[1], &frames[2], &frames[0]] {
        assert_eq!(&read(&mut source, expected.len()), expected);
    }
    assert_eq!(source.end.read_rest(&mut [0; 64]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_frame_that_is_larger_than_a_call_comes_whole() {
    let (mut source, sink) = ends(Some(2));
    let large = frame_of(0, 3 * BYTES_MAX as usize + 5, Kind::Data);
    let reader = std::thread::spawn({
        let wanted = large.len();
        move || read(&mut source, wanted)
    });
    write_all(&sink, &large);
    assert!(reader.join().unwrap() == large);
}

/// Connects more sockets at once than the backlog of omniORB has places for.
#[test]
fn many_peers_connect_at_once() {
    let socket = own_socket().unwrap();
    let name = format!("/proc/self/fd/{}", socket.as_raw_fd());
    // A socket that does not block has an error if the backlog is full.
    let connect = || {
        let peer = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let peer = peer.unwrap();
        rustix::net::connect(&peer, &rustix::net::SocketAddrUnix::new(name.as_str()).unwrap()).unwrap();
        peer
    };
    let peers: Vec<_> = (0..64).map(|_| connect()).collect();
    assert_eq!(peers.len(), 64);
}

#[test]
fn calls_with_another_key_or_too_many_bytes_are_dropped() {
    let (source, ticket) = source(&request(Some(4))).unwrap();
    let mut source: Source = source;
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    // Each stranger has a separate connection, because a dropped call may end the connection.
    let stranger = || {
        let socket = ticket.fds[2].try_clone().unwrap();
        CallClient::of_file(&parsed.object, socket).unwrap()
    };
    stranger().call(parsed.key ^ 1, 0, 1, &frame_of(9, 16, Kind::Data)).unwrap();
    stranger().call(parsed.key, 0, 1, &vec![0; BYTES_MAX as usize + 1]).unwrap();
    let sink = sink(ticket).unwrap();
    let sent = frame_of(1, 16, Kind::Data);
    assert_eq!(sink.end.write_bytes(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}

/// Returns a request of GIOP 1.2 for the given object, with the given key and announced number of
/// bytes.
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
    // The arguments begin at a multiple of 8 after the 12 bytes of the header.
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

/// Returns messages that are not calls of a path: noise, lengths of 4 GiB, and requests that end
/// anywhere.
fn hostile_messages(ticket: &CorbaTicket) -> Vec<Vec<u8>> {
    let CorbaTicket { object, key, .. } = ticket;
    let mut messages = vec![
        vec![0; 4096],
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff".to_vec(),
        b"GIOP\x09\x09\x01\x00\x10\x00\x00\x00".to_vec(),
        b"GIOP\x01\x02\x01\x63\x10\x00\x00\x00".to_vec(),
        request_of(object, *key, u32::MAX),
        request_of(object, *key, i32::MAX as u32),
        request_of(object, key ^ 1, 0),
        request_of("stripline-path-0", *key, 0),
        request_of("", 0, 0),
    ];
    let whole = request_of(object, *key, 16);
    messages.extend((1..whole.len()).map(|length| whole[..length].to_vec()));
    messages
}

#[test]
fn garbage_and_lengths_of_4_gib_on_the_socket_harm_nothing() {
    let (mut source, ticket) = source(&request(Some(4))).unwrap();
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    let place = format!("/proc/self/fd/{}", ticket.fds[2].as_raw_fd());
    for message in hostile_messages(&parsed) {
        let mut stranger = UnixStream::connect(&place).unwrap();
        // The connection may be closed before all is written.
        let _ = stranger.write_all(&message);
    }
    let sink = sink(ticket).unwrap();
    let sent = frame_of(1, 16, Kind::Data);
    assert_eq!(sink.end.write_bytes(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}

#[test]
fn a_receiver_that_counts_what_it_has_not_read_loses_its_sender() {
    // A socket that accepts connections and is never read.
    let name = crate::corba::orb::NAMES.make().unwrap();
    let path = crate::corba::orb::NAMES.path(&name);
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
        address: None,
    };
    let fds = vec![page_fd, sleeping.as_fd().try_clone_to_owned().unwrap(), socket];
    let address = serde_json::to_string(&ticket).unwrap();
    let sink = sink(Ticket::new(address, fds)).unwrap();
    let frame = frame_of(0, 32 * 1024, Kind::Data);
    let mut sent = 0;
    let error = loop {
        // The page counts everything sent as read and taken.
        sent += 1;
        page.set_taken(sent, sent, 0);
        page.set_received(u64::MAX / 2, u64::MAX);
        match sink.end.write_bytes(&frame) {
            Ok(_) => assert!(sent < 10_000, "a call would wait"),
            Err(error) => break error,
        }
    };
    assert_eq!(violation_in(&error).unwrap(), "counted calls that it has not read");
    drop((sink, listener));
}

/// Makes the receiving end of a sender that is reached by TCP.
fn remote_source(packets_max: Option<u32>) -> (Source, Ticket) {
    remote_source_of("127.0.0.1:9", packets_max)
}

fn remote_source_of(sender: &str, packets_max: Option<u32>) -> (Source, Ticket) {
    let endpoint = Endpoint { transport: "corba".into(), address: sender.into(), keys: [1, 2] };
    source(&PathRequest { endpoint: Some(&endpoint), ..request(packets_max) }).unwrap()
}

/// Opens the sending end, and waits until it is connected.
fn remote_sink(ticket: Ticket) -> Result<Sink, String> {
    let sink = sink(ticket).map_err(|refusal| refusal.to_string())?;
    let until = Instant::now() + LONGEST;
    while let Opening::Waits { on, .. } = sink.end.open()? {
        assert!(Instant::now() < until, "it does not connect");
        let mut poll_set = PollSet::default();
        poll_set.readable(on);
        poll_set.wait(Some(Instant::now() + Duration::from_millis(10))).unwrap();
    }
    Ok(sink)
}

#[test]
fn over_tcp_bytes_arrive_in_order_and_a_full_path_takes_no_more() {
    let carry = |sender| {
        let (source, ticket) = remote_source_of(sender, Some(3));
        assert!(ticket.fds.is_empty());
        carry_in_order(source, remote_sink(ticket).unwrap());
    };
    carry("127.0.0.1:9");
    match TcpListener::bind("[::1]:0") {
        Ok(_) => carry("[::1]:9"),
        Err(error) => println!("not run over IPv6, which this host does not have: {error}"),
    }
}

#[test]
fn over_tcp_each_path_has_its_own_connection_and_what_does_not_fit_waits() {
    let [(mut source, ticket), (mut other, other_ticket)] = [remote_source(None), remote_source(None)];
    let (sink, other_sink) = (remote_sink(ticket).unwrap(), remote_sink(other_ticket).unwrap());
    // The receiver takes nothing from this path, but the servant reads everything that comes.
    let large = frame_of(0, 3 * BYTES_MAX as usize + 5, Kind::Data);
    write_all(&sink, &large);
    let small = frame_of(0, 16, Kind::Data);
    assert_eq!(other_sink.end.write_bytes(&small).unwrap(), small.len());
    assert_eq!(read(&mut other, small.len()), small);
    assert!(read(&mut source, large.len()) == large);
}

#[test]
fn over_tcp_what_a_sender_that_vanishes_has_sent_arrives() {
    let (mut source, ticket) = remote_source(Some(4));
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    let mut sender = CallClient::of_address(&parsed.object, parsed.address.unwrap()).unwrap();
    // The probe names no place for credits.
    sender.call(parsed.key, PROBE, 0, b"{}").unwrap();
    let frame = frame_of(1, 16, Kind::Data);
    sender.call(parsed.key, 0, 1, &frame).unwrap();
    drop(sender);
    assert_eq!(read(&mut source, frame.len()), frame);
    assert_eq!(source.end.read_rest(&mut [0; 64]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn over_tcp_garbage_and_lengths_of_4_gib_harm_nothing() {
    let (mut source, ticket) = remote_source(Some(4));
    let parsed = CorbaTicket::parse(&ticket.address).unwrap();
    let address = parsed.address.unwrap();
    for message in hostile_messages(&parsed) {
        let _ = TcpStream::connect(address).unwrap().write_all(&message);
    }
    let sink = remote_sink(ticket).unwrap();
    let sent = frame_of(1, 16, Kind::Data);
    assert_eq!(sink.end.write_bytes(&sent).unwrap(), sent.len());
    assert_eq!(read(&mut source, sent.len()), sent);
}

#[test]
fn over_tcp_a_host_that_leaves_this_one_takes_insecure() {
    let endpoint = Endpoint { transport: "corba".into(), address: "192.0.2.1:9".into(), keys: [1, 2] };
    let request = PathRequest { endpoint: Some(&endpoint), ..request(None) };
    let error = source(&request).err().unwrap().to_string();
    assert!(error.contains("insecure = true"), "{error}");
    let (_source, ticket) = remote_source(None);
    let mut parsed = CorbaTicket::parse(&ticket.address).unwrap();
    parsed.address = "192.0.2.1:9".parse().ok();
    let address = serde_json::to_string(&parsed).unwrap();
    let error = sink(Ticket::new(address, vec![])).err().unwrap().to_string();
    assert!(error.contains("`insecure`"), "{error}");
}

#[test]
fn over_tcp_a_receiver_that_does_not_answer_or_counts_what_it_has_not_read_loses_its_sender() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (object, frames) = (format!("{PREFIX}0"), FRAMES_MAX);
    let of = |address| {
        let ticket =
            CorbaTicket { object: object.clone(), key: 7, frames, bytes: BYTES_MAX, unit: None, address };
        Ticket::new(serde_json::to_string(&ticket).unwrap(), vec![])
    };
    let sink = sink(of(Some(address))).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let failure = || match sink.end.open().unwrap() {
        Opening::Waits { lacks, .. } => lacks,
        Opening::Done => panic!("it is open"),
    };
    let until = Instant::now() + LONGEST;
    while failure().contains(&format!("has not accepted a connection to {address}")) {
        assert!(Instant::now() < until, "it does not connect");
        std::thread::yield_now();
    }
    assert!(failure().contains("has not called this process at 127.0.0.1:"));
    // The first probe has the place for credits.
    let mut bytes = vec![0; 4096];
    let read = stream.read(&mut bytes).unwrap();
    let text = &bytes[..read];
    let begins = text.windows(2).position(|two| two == b"{\"").unwrap();
    let ends = text.iter().position(|byte| *byte == b'}').unwrap();
    let place = CreditPlace::parse(&text[begins..=ends], false).unwrap();
    let (object, peer_address, key) = place.parts();
    let mut credits = CallClient::of_address(object, peer_address).unwrap();
    let all = (u64::MAX / 2).to_le_bytes();
    credits.call(key ^ 1, 1, 1, &all).unwrap();
    credits.call(key, u64::MAX / 2, u64::MAX / 2, &all).unwrap();
    let until = Instant::now() + LONGEST;
    while !matches!(sink.end.open().unwrap(), Opening::Done) {
        assert!(Instant::now() < until, "it does not connect");
        std::thread::yield_now();
    }
    let frame = frame_of(0, 32 * 1024, Kind::Data);
    let error = (0..10_000).find_map(|_| sink.end.write_bytes(&frame).err()).expect("a call would wait");
    assert!(error.to_string().contains("has not read"), "{error}");
    // No process listens at this address, which no other test can get while the socket is bound.
    let bound = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let bound = bound.unwrap();
    rustix::net::bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&bound).unwrap()).unwrap();
    let error = remote_sink(of(Some(address))).err().unwrap();
    assert!(error.contains("TRANSIENT"), "{error}");
}
