//! Section 1: order and loss.

use num_complex::Complex;
use serde::{Deserialize, Serialize};
use stripline::node::{Publisher, Subscriber};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Axis, Error, Received, Sample, StreamInfo};

use crate::support::{
    DEADLINE, Dice, await_asleep, await_receivers, expect_end, fill, node, pair, take_number,
};

pub fn order_is_kept(transport: &'static str) {
    const PACKETS: u64 = 2000;
    let node = node(transport, "buffer = 65536");
    let (mut publisher, mut subscriber) = pair::<u32>(&node, "numbers");
    let max = publisher.in_place_samples_max();
    // The sizes of packets by number: no sample, one, the most, and values in between.
    let size = move |sequence: u64| match sequence % 50 {
        0 => 0,
        1 => 1,
        2 => max,
        _ => Dice::new(sequence * 7919).below(max / 8),
    };
    let sender = std::thread::spawn(move || {
        for sequence in 0..PACKETS {
            let samples: Vec<u32> = (0..size(sequence) as u32).map(|i| i ^ sequence as u32).collect();
            publisher.send(&samples).unwrap();
        }
        publisher.finish().unwrap();
    });
    for sequence in 0..PACKETS {
        let parcel = take_number(&mut subscriber, sequence);
        assert_eq!(parcel.samples.len(), size(sequence));
        assert!(parcel.samples.iter().zip(0..).all(|(sample, i)| *sample == i ^ sequence as u32));
    }
    expect_end(&mut subscriber);
    sender.join().unwrap();
}

/// A structure of 12 bytes, which is not a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Sample)]
#[repr(C)]
pub struct Detection {
    pub range_bin: u32,
    pub doppler_bin: i32,
    pub level_db: f32,
}

/// A program's own type without a layout.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PlainDetection {
    pub range_bin: u32,
    pub level_db: f32,
}

impl Sample for PlainDetection {
    const TYPE: &'static str = "bare";
}

pub fn every_sample_type_travels(transport: &'static str) {
    travels(transport, |i| i as u8);
    travels(transport, |i| i as i16);
    travels(transport, |i| i as f64 / 3.0);
    travels(transport, |i| Complex::new(i as f32, -(i as f32)));
    travels(transport, |i| Complex::new(i as f64, 0.5));
    travels(transport, |i| PlainDetection { range_bin: i as u32, level_db: 0.25 });
    travels(transport, |i| Detection { range_bin: i as u32, doppler_bin: -(i as i32), level_db: 0.25 });
}

fn travels<T: Sample + PartialEq + std::fmt::Debug>(transport: &'static str, sample: fn(usize) -> T) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<T>(&node, "typed");
    let mut rng = Dice::new(42);
    for sequence in 0..20 {
        let samples: Vec<T> = (0..rng.below(200)).map(sample).collect();
        publisher.send(&samples).unwrap();
        assert_eq!(take_number(&mut subscriber, sequence).samples, samples);
    }
}

pub fn a_stream_has_the_order_of_its_samples(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<f32>(&node, "spectra");
    let spectra = StreamInfo::new("spectra")
        .rows(4, Axis::new(88e6, 50e3, "Hz"), Axis::new(0.0, 0.1, "s"))
        .channels(["left", "right"]);
    publisher.set_stream(spectra.clone());
    publisher.send(&[0.0; 8]).unwrap();
    let packet = subscriber.receive().unwrap().expect("a packet");
    assert_eq!(**packet.stream(), spectra);
    drop(packet);
    // A description that receivers would refuse is not sent, but later packets are.
    publisher.set_stream(StreamInfo::new("spectra").axis(Axis::new(0.0, f64::NAN, "Hz")));
    let error = publisher.send(&[0.0; 8]).unwrap_err().to_string();
    assert!(error.contains("stream `spectra`: the axis in `Hz` has the step NaN"), "{error}");
    publisher.set_stream(spectra.clone().channels(["one"]));
    publisher.send(&[1.0; 8]).unwrap();
    assert_eq!(subscriber.receive().unwrap().expect("a packet").stream().channels, ["one"]);
}

pub fn the_largest_packet_in_one_piece_fits(transport: &'static str) {
    let node = node(transport, "buffer = 16384");
    let (mut bytes, mut byte_receiver) = pair::<u8>(&node, "bytes");
    largest(&mut bytes);
    let (mut doubles, mut double_receiver) = pair::<f64>(&node, "doubles");
    largest(&mut doubles);
    for sequence in 0..2 {
        take_number(&mut byte_receiver, sequence);
        take_number(&mut double_receiver, sequence);
    }
}

/// Sends the largest unfragmented packet without waiting, checks that a larger one is refused, and
/// sends a small one.
fn largest<T: Sample>(publisher: &mut Publisher<T>) {
    let (max, each) = (publisher.in_place_samples_max(), size_of::<T>());
    publisher.try_send(&vec![T::zeroed(); max]).unwrap();
    for error in [
        publisher.try_send(&vec![T::zeroed(); max + 1]).unwrap_err(),
        publisher.try_loan(max + 1).map(drop).unwrap_err(),
    ] {
        let Error::TooLarge { bytes, bytes_max } = error else { panic!("{error}") };
        assert_eq!(bytes, (max + 1) * each);
        assert_eq!(bytes_max / each, max);
        let text = error.to_string();
        assert!(text.contains(&bytes.to_string()) && text.contains(&bytes_max.to_string()), "{text}");
    }
    publisher.send(&[T::zeroed()]).unwrap();
}

pub fn end_of_stream_comes_last_once_and_stays(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<i16>(&node, "ends");
    for _ in 0..10 {
        publisher.send(&[1, 2, 3]).unwrap();
    }
    publisher.finish().unwrap();
    for sequence in 0..10 {
        take_number(&mut subscriber, sequence);
    }
    for _ in 0..3 {
        assert!(subscriber.receive().unwrap().is_none());
        assert!(matches!(subscriber.try_receive().unwrap(), Received::Ended));
    }
    assert_eq!(subscriber.gap_at_end(), None);
    assert_eq!(node.connections()[0].peer_deaths, 0);
}

pub fn end_of_stream_comes_without_packets(transport: &'static str) {
    let node = node(transport, "");
    let (publisher, mut subscriber) = pair::<i16>(&node, "empty");
    publisher.finish().unwrap();
    expect_end(&mut subscriber);
    expect_end(&mut subscriber);
}

pub fn end_of_stream_comes_from_a_dropped_publisher(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<i16>(&node, "dropped");
    publisher.send(&[7]).unwrap();
    drop(publisher);
    take_number(&mut subscriber, 0);
    expect_end(&mut subscriber);
}

pub fn an_unsent_loan_takes_no_number(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u16>(&node, "loans");
    publisher.loan(100).unwrap().fill(9);
    let mut loan = publisher.loan(50).unwrap();
    loan.fill(5);
    loan.truncate(3);
    loan.send().unwrap();
    publisher.send(&[6]).unwrap();
    assert_eq!(take_number(&mut subscriber, 0).samples, [5, 5, 5]);
    assert_eq!(take_number(&mut subscriber, 1).samples, [6]);
}

pub fn stamps_travel(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "stamped");
    publisher.send(&[0; 10]).unwrap();
    publisher.loan(4).unwrap().at_sample(1_000).at_time_ns(-5).intended_ns(77).send().unwrap();
    publisher.send(&[0; 1]).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let packet = subscriber.receive().unwrap().unwrap();
        seen.push((packet.sample_index(), packet.time_ns(), packet.intended_ns(), packet.len()));
        assert_eq!(packet.gap(), None);
    }
    // Values that were not set continue from the previous packet.
    assert_eq!(seen, [(0, 0, None, 10), (1_000, -5, Some(77), 4), (1_004, 0, None, 1)]);
}

pub fn stream_metadata_comes_with_its_packet(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u8>(&node, "streams");
    let info = |i: u64| StreamInfo::new(&format!("scan-{}", i / 3)).sample_rate_hz((1 + i / 3) as f64);
    for i in 0..12 {
        if i % 3 == 0 {
            publisher.set_stream(info(i).keyword("antenna", "north"));
        }
        publisher.send(&[i as u8; 5]).unwrap();
    }
    for i in 0..12 {
        let packet = subscriber.receive().unwrap().unwrap();
        assert_eq!(**packet.stream(), info(i).keyword("antenna", "north"));
        // Every stream counts its own samples.
        assert_eq!((packet.sequence(), packet.sample_index()), (i, i % 3 * 5));
    }
}

/// Checks that the shorter header of small packets without metadata on a ring has no visible
/// effect.
pub fn metadata_of_small_packets_arrives(transport: &'static str) {
    const PACKETS: u64 = 2000;
    for sampling in ["off", "auto", "all"] {
        let node = node(transport, &format!("depth = 8\nsampling = \"{sampling}\""));
        let (mut publisher, mut subscriber) = pair::<u8>(&node, "small");
        let mut late: Option<Subscriber<u8>> = None;
        let (mut rng, mut next, mut stream) = (Dice::new(7), 0, 0);
        for sequence in 0..PACKETS {
            if rng.below(50) == 0 {
                // A stream with a new name starts at 0 again.
                (stream, next) = (stream + 1, 0);
                publisher.set_stream(StreamInfo::new(&stream.to_string()));
            }
            if sequence == PACKETS / 2 {
                late = Some(node.subscriber("small").unwrap());
                await_receivers(&mut publisher, 2);
            }
            let length = rng.below(70);
            let mut loan = publisher.loan(length + rng.below(3)).unwrap();
            loan.truncate(length);
            loan.fill(sequence as u8);
            let (mut time, mut intended) = (0, None);
            if rng.below(5) == 0 {
                next = rng.below(1_000_000) as u64;
                loan = loan.at_sample(next);
            }
            if rng.below(5) == 0 {
                time = sequence as i64;
                loan = loan.at_time_ns(time);
            }
            if rng.below(5) == 0 {
                intended = Some(sequence + 1);
                loan = loan.intended_ns(sequence + 1);
            }
            loan.send().unwrap();
            for subscriber in [Some(&mut subscriber), late.as_mut()].into_iter().flatten() {
                let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                    panic!("nothing")
                };
                assert_eq!(*packet, vec![sequence as u8; length]);
                assert_eq!((packet.sequence(), packet.sample_index(), packet.gap()), (sequence, next, None));
                assert_eq!((packet.time_ns(), packet.intended_ns()), (time, intended));
                assert_eq!(packet.stream().id, if stream == 0 { "small".into() } else { stream.to_string() });
                assert!(sampling != "all" || packet.sent_ns().is_some());
                assert!(sampling != "off" || packet.sent_ns().is_none());
            }
            next += length as u64;
        }
    }
}

pub fn a_late_joiner_gets_the_current_stream(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut early) = pair::<u8>(&node, "joined");
    publisher.set_stream(StreamInfo::new("before"));
    publisher.send(&[0]).unwrap();
    publisher.set_stream(StreamInfo::new("now"));
    publisher.send(&[1]).unwrap();
    let mut late = node.subscriber::<u8>("joined").unwrap();
    await_receivers(&mut publisher, 2);
    publisher.send(&[2]).unwrap();
    let parcel = take_number(&mut late, 2);
    assert_eq!(parcel.stream, "now");
    let streams = [0, 1, 2].map(|sequence| take_number(&mut early, sequence).stream);
    assert_eq!(streams, ["before", "now", "now"]);
}

pub fn a_joiner_gets_the_stream_while_the_sender_is_blocked(transport: &'static str) {
    let node = node(transport, "buffer = 65536\ndepth = 4");
    let (mut publisher, mut early) = pair::<u8>(&node, "busy");
    publisher.set_stream(StreamInfo::new("described"));
    let (sent, _) = fill(&mut publisher, &[0; 16_000]);
    let (tell, thread) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        publisher.send(&[1; 16_000]).unwrap();
        publisher.finish().unwrap();
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    let mut late = node.subscriber::<u8>("busy").unwrap();
    for sequence in 0..=sent {
        take_number(&mut early, sequence);
    }
    // The receiver may have joined before or after the waiting packet, but it always has the
    // description of a packet's stream.
    while let Received::Packet(packet) = late.receive_timeout(DEADLINE).unwrap() {
        assert_eq!((packet.stream().id.as_str(), packet.gap()), ("described", None));
    }
    sender.join().unwrap();
}

pub fn forwarded_packets_keep_stream_and_stamps(transport: &'static str) {
    let node = node(transport, "");
    let (mut source, mut middle_in) = pair::<u8>(&node, "first");
    let (mut middle_out, mut sink) = pair::<u8>(&node, "second");
    for i in 0..4_u64 {
        source.set_stream(StreamInfo::new(&format!("s{}", i / 2)));
        source.loan(3).unwrap().at_sample(100 * i).at_time_ns(i as i64 + 1).send().unwrap();
        let packet = middle_in.receive().unwrap().unwrap();
        let mut out = middle_out.loan(packet.len()).unwrap();
        out.copy_from_slice(&packet);
        out.send_like(&packet).unwrap();
        drop(packet);
        let packet = sink.receive().unwrap().unwrap();
        assert_eq!((packet.sample_index(), packet.time_ns()), (100 * i, i as i64 + 1));
        assert_eq!(packet.stream().id, format!("s{}", i / 2));
    }
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
enum Command {
    Tune { frequency_hz: f64, note: Option<String> },
    Scan(Vec<u32>),
    Stop,
}

pub fn messages_round_trip(transport: &'static str) {
    let node = node(transport, "");
    let mut commands = node.publisher::<Cbor<Command, NoSchema>>("commands").unwrap();
    let mut receiver = node.subscriber::<Cbor<Command, NoSchema>>("commands").unwrap();
    assert!(commands.wait_for_receivers(1, DEADLINE).unwrap());
    let all = [
        Command::Tune { frequency_hz: 1090e6, note: Some("Mode S".into()) },
        Command::Scan((0..1000).collect()),
        Command::Stop,
    ];
    all.iter().for_each(|command| commands.send(command).unwrap());
    commands.finish().unwrap();
    for (sequence, command) in all.iter().enumerate() {
        let packet = receiver.receive().unwrap().unwrap();
        assert_eq!((packet.sequence(), packet.gap()), (sequence as u64, None));
        assert_eq!(packet.decode().unwrap(), *command);
    }
    assert!(receiver.receive().unwrap().is_none());
}

pub fn a_message_of_another_type_is_a_decode_error(transport: &'static str) {
    let node = node(transport, "");
    let mut texts = node.publisher::<Cbor<String, NoSchema>>("commands").unwrap();
    let mut receiver = node.subscriber::<Cbor<u32, NoSchema>>("commands").unwrap();
    let mut numbers = node.publisher::<Cbor<u32, NoSchema>>("commands").unwrap();
    assert!(texts.wait_for_receivers(1, DEADLINE).unwrap());
    assert!(numbers.wait_for_receivers(1, DEADLINE).unwrap());
    texts.send(&"not a number".into()).unwrap();
    let error = receiver.receive().unwrap().unwrap().decode().unwrap_err();
    assert!(matches!(&error, Error::Decode { what, .. } if what.contains("commands")), "{error}");
    numbers.send(&17).unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().decode().unwrap(), 17);
    texts.send(&"again".into()).unwrap();
    assert!(matches!(receiver.receive().unwrap().unwrap().decode(), Err(Error::Decode { .. })));
}
