//! Messages of ZeroMQ between a socket of this test and the components for flowgraphs.

use std::time::Duration;

use stripline::component::harness::{Harness, HarnessRun};
use stripline::component::{Registry, Value};
use stripline::payload::{Dynamic, TypeName};
use stripline::{Complex, Result, StreamInfo};

use crate::gnuradio::{Described, TaggedMessage};
use crate::with_components;

/// The longest wait for a message.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a socket of this kind, and the address of the socket.
fn socket(kind: zmq::SocketType) -> (zmq::Socket, String) {
    let socket = zmq::Context::new().socket(kind).unwrap();
    socket.set_rcvtimeo(TIMEOUT.as_millis() as i32).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let address = socket.get_last_endpoint().unwrap().unwrap();
    (socket, address)
}

fn source(address: &str, properties: &[(&str, Value)]) -> HarnessRun {
    let registry = with_components(Registry::new());
    let harness = Harness::of_type(&registry, "gr-zeromq-source");
    let harness = harness.property("address", address).property("samples", "f32");
    let with = |harness: Harness, (name, value): &(&str, Value)| harness.property(name, value.clone());
    properties.iter().fold(harness, with).start().unwrap()
}

/// Returns the first samples that a source sends, or the error that ends it.
fn samples(mut source: HarnessRun, count: usize) -> std::result::Result<Vec<f32>, String> {
    let mut output = source.output::<f32>("out").unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        let received = output.receive_timeout(TIMEOUT).map_err(|error| error.to_string())?;
        found.extend_from_slice(&received.packet().expect("a packet"));
    }
    drop(output);
    source.stop();
    Ok(found)
}

fn bytes(samples: &[f32]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Sends messages to a source with push-pull.
fn pushed(
    properties: &[(&str, Value)],
    messages: &[&[Vec<u8>]],
    count: usize,
) -> std::result::Result<Vec<f32>, String> {
    let (socket, address) = socket(zmq::PUSH);
    let source = source(&address, properties);
    messages.iter().for_each(|parts| socket.send_multipart(*parts, 0).unwrap());
    samples(source, count)
}

/// Publishes messages to a source that has subscribed to a key.
fn published(key: &str, messages: &[&[Vec<u8>]], count: usize) -> std::result::Result<Vec<f32>, String> {
    // An XPUB socket receives the subscription as a message.
    let (socket, address) = socket(zmq::XPUB);
    let source = source(&address, &[("pattern", "pub-sub".into()), ("key", key.into())]);
    assert_eq!(socket.recv_bytes(0).unwrap(), [&[1], key.as_bytes()].concat());
    messages.iter().for_each(|parts| socket.send_multipart(*parts, 0).unwrap());
    samples(source, count)
}

#[test]
fn all_parts_of_a_message_arrive() {
    // The second sample begins in one part and ends in the next.
    let message = bytes(&[1.0, 2.0, 3.0]);
    let parts = [message[..6].to_vec(), message[6..].to_vec()];
    assert_eq!(pushed(&[], &[&parts, &parts], 6), Ok(vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0]));
}

/// A message as another program sends it.
const TUNE: &str = "message/tune{hz:f64}";
/// A `tune` in CBOR, with 1 Hz.
const ONE_HZ: &[u8] = b"\xa1\x62hz\xf9\x3c\x00";

/// Pushes messages to a source with an output of the given type. Returns the packets that arrive.
fn taken(payload: &str, messages: &[&[u8]]) -> std::result::Result<Vec<Vec<u8>>, String> {
    let (socket, address) = socket(zmq::PUSH);
    let mut source = source(&address, &[("samples", payload.into())]);
    messages.iter().for_each(|message| socket.send(*message, 0).unwrap());
    let payload = TypeName::parse(payload).unwrap();
    let mut output = source.output::<Dynamic>(("out", &payload)).unwrap();
    let mut found = Vec::new();
    while found.len() < messages.len() {
        let received = output.receive_timeout(TIMEOUT).map_err(|error| error.to_string())?;
        found.push(received.packet().expect("a packet").to_vec());
    }
    drop(output);
    source.stop();
    Ok(found)
}

#[test]
fn bytes_structures_and_messages_arrive_as_they_are() {
    let json: &[u8] = br#"{"hz": 1.0}"#;
    for (payload, messages) in [
        ("u8", [json, b"\0"]),
        ("det{range_bin:u32,level_db:f32}", [&[1; 8], &[2; 16]]),
        (TUNE, [ONE_HZ, ONE_HZ]),
        ("message/cbor", [ONE_HZ, b"\x82\x01\x61a"]),
    ] {
        let found = taken(payload, &messages).unwrap();
        assert_eq!(found, messages.map(<[u8]>::to_vec), "{payload}");
    }
}

#[test]
fn a_message_that_does_not_fit_ends_the_source_by_its_place() {
    for (payload, message, problem) in [
        (TUNE, &b"\xa1\x62hz\x61a"[..], "`tune.hz`: a float must be here, not text"),
        (TUNE, br#"{"hz": 1.0}"#, "sent a message that does not fit"),
        (TUNE, b"", "sent a message that does not fit"),
        ("message/cbor", b"\x82\x01", "sent a message that does not fit"),
        ("det{range_bin:u32,level_db:f32}", &[0; 9], "sent 9 bytes, which are not whole items of 8"),
    ] {
        let error = taken(payload, &[message]).unwrap_err();
        assert!(error.contains(problem), "{payload}: {error}");
    }
}

#[test]
fn a_sink_sends_messages_in_cbor() {
    let (socket, address) = socket(zmq::PULL);
    let registry = with_components(Registry::new());
    let payload = TypeName::parse(TUNE).unwrap();
    let start = |vlen: i64| {
        let sink = Harness::of_type(&registry, "gr-zeromq-sink").payload("in", &payload);
        sink.property("address", address.as_str()).property("bind", false).property("vlen", vlen).start()
    };
    let mut sink = start(1).unwrap();
    let mut input = sink.input::<Dynamic>(("in", &payload)).unwrap();
    for _ in 0..3 {
        input.loan_copy_of(ONE_HZ).unwrap().send().unwrap();
    }
    input.finish().unwrap();
    sink.finish().unwrap();
    for _ in 0..3 {
        assert_eq!(socket.recv_bytes(0).unwrap(), ONE_HZ);
    }
    let error = start(2).unwrap().finish().unwrap_err().to_string();
    assert!(error.contains("messages have no samples, and `vlen` is for samples"), "{error}");
}

#[test]
fn a_key_is_compared_whole() {
    let [a, ab, more] = ["A", "AB", "A"].map(|key| key.as_bytes().to_vec());
    let messages = [
        [ab.clone(), bytes(&[2.0])].to_vec(),
        [a, bytes(&[1.0])].to_vec(),
        [ab, bytes(&[2.0])].to_vec(),
        [more, bytes(&[3.0]), bytes(&[4.0])].to_vec(),
    ];
    let messages = messages.each_ref().map(|parts| &parts[..]);
    assert_eq!(published("A", &messages, 3), Ok(vec![1.0, 3.0, 4.0]));
}

#[test]
fn parts_without_a_clear_meaning_are_refused() {
    let key = b"A".to_vec();
    let error = published("A", &[&[[&key[..], &bytes(&[1.0])].concat()]], 1).unwrap_err();
    assert!(error.contains("a key is a part of its own"), "{error}");
    let error = published("", &[&[key, bytes(&[1.0])]], 1).unwrap_err();
    assert!(error.contains("2 parts") && error.contains("set `key`"), "{error}");
}

#[test]
fn a_header_has_its_samples_in_another_part() {
    let mut head = Vec::new();
    TaggedMessage::write_head(&mut head, 0, &[Described::RateHz(5.0).tag(0)]);
    let tags = [("tags", Value::Boolean(true))];
    assert_eq!(pushed(&tags, &[&[head.clone(), bytes(&[7.0, 8.0])]], 2), Ok(vec![7.0, 8.0]));
    head[2] = 2;
    let error = pushed(&tags, &[&[head, bytes(&[7.0])]], 1).unwrap_err();
    assert!(error.contains("version 2 of their header"), "{error}");
}

#[test]
fn items_have_a_sample_of_each_channel() {
    let (socket, address) = socket(zmq::PULL);
    let mut stream = StreamInfo::new("s").sample_rate_hz(2e6);
    stream.channels = vec!["a".into(), "b".into()];
    // The second packet comes after a gap, and begins within a frame.
    let packets = [(4, &[1.0, -1.0][..]), (9, &[-2.0, 3.0, -3.0])];
    let run = |vlen: i64| -> Result<()> {
        let registry = with_components(Registry::new());
        let sink =
            Harness::of_type(&registry, "gr-zeromq-sink").payload("in", &TypeName::of::<Complex<f32>>());
        let sink = sink.property("address", address.as_str()).property("bind", false).property("tags", true);
        let mut sink = sink.property("vlen", vlen).start()?;
        let mut input = sink.input::<Complex<f32>>("in")?;
        input.set_stream(stream.clone());
        for (index, values) in packets {
            let mut loan = input.loan(values.len())?;
            loan.iter_mut().zip(values).for_each(|(y, x)| *y = Complex::new(*x, 0.0));
            // The error of the component is the cause of an error here.
            let _ = loan.at_sample(index).send();
        }
        let _ = input.finish();
        sink.finish().map(drop)
    };
    let error = run(1).unwrap_err().to_string();
    assert!(error.contains("`channels`") && error.contains("set `vlen` to 2"), "{error}");
    run(2).unwrap();
    for (first_item, values) in [(2, [1.0, 0.0, -1.0, 0.0]), (5, [3.0, 0.0, -3.0, 0.0])] {
        let message = socket.recv_bytes(0).unwrap();
        let message = TaggedMessage::parse(&message).unwrap();
        assert_eq!((message.first_item, message.samples), (first_item, &bytes(&values)[..]));
        if first_item == 2 {
            let described: Vec<_> = message.tags.iter().filter_map(Described::of).collect();
            assert_eq!(described, [Described::RateHz(1e6)]);
        }
    }
}

#[test]
fn a_subscriber_that_joins_late_gets_rate_and_frequency() {
    let registry = with_components(Registry::new());
    let found = |period: f64| {
        let (socket, address) = socket(zmq::SUB);
        let sink = Harness::of_type(&registry, "gr-zeromq-sink").payload("in", &TypeName::of::<f32>());
        let sink = sink.property("address", address.as_str()).property("bind", false);
        let sink = sink.property("pattern", "pub-sub").property("tags", true).property("repeat_s", period);
        let mut sink = sink.start().unwrap();
        let mut input = sink.input::<f32>("in").unwrap();
        input.set_stream(StreamInfo::new("s").sample_rate_hz(2e6).center_frequency_hz(1e8));
        // Nothing is published to a program without a subscription, so the first packets are lost.
        input.loan(1).unwrap().send().unwrap();
        socket.set_rcvtimeo(20).unwrap();
        let mut descriptions = Vec::new();
        let mut is_subscribed = false;
        while descriptions.len() < 10 {
            input.loan(1).unwrap().send().unwrap();
            if let Ok(message) = socket.recv_bytes(0) {
                let message = TaggedMessage::parse(&message).unwrap();
                descriptions.push(message.tags.iter().filter_map(Described::of).collect::<Vec<_>>());
            } else if !is_subscribed {
                socket.set_subscribe(b"").unwrap();
                is_subscribed = true;
            }
        }
        drop(input);
        sink.stop();
        descriptions
    };
    // A period that has always passed, and one that never passes.
    let described = vec![Described::RateHz(2e6), Described::FrequencyHz(1e8)];
    assert_eq!(found(1e-9), vec![described; 10]);
    // The sink may send the first packet only after the subscription.
    assert_eq!(found(0.0)[1..], vec![vec![]; 9]);
}
