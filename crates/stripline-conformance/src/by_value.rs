//! Sample types by value: their ports behave like ports of the Rust type, and connect to them.

use std::cell::RefCell;
use std::sync::Mutex;

use stripline::node::{Dispatch, Node, Publisher, SingleThread, Subscriber};
use stripline::payload::{Content, Dynamic, SampleType};
use stripline::{Error, Received, Sample, StreamInfo};

use crate::order::Detection;
use crate::support::{DEADLINE, Dice, await_receivers, await_that, expect_end, node};
use crate::trust::versions;

/// All properties of a packet, with the samples as bytes.
#[derive(Debug, PartialEq)]
struct PacketProperties {
    sequence: u64,
    sample_index: u64,
    samples: usize,
    time_ns: i64,
    bytes: Vec<u8>,
    stream: StreamInfo,
    gap: Option<stripline::Gap>,
}

fn find<T: Content>(subscriber: &mut Subscriber<T>) -> PacketProperties {
    let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
        panic!("no packet in time")
    };
    PacketProperties {
        sequence: packet.sequence(),
        sample_index: packet.sample_index(),
        samples: packet.samples(),
        time_ns: packet.time_ns(),
        bytes: bytemuck::cast_slice(&packet).to_vec(),
        stream: (**packet.stream()).clone(),
        gap: packet.gap().copied(),
    }
}

fn detections(first: u32, count: usize) -> Vec<Detection> {
    let detection = |i: u32| Detection { range_bin: i, doppler_bin: -(i as i32), level_db: 0.25 };
    (first..).take(count).map(detection).collect()
}

fn pair_of(node: &Node, topic: &str) -> (Publisher<Dynamic>, Subscriber<Dynamic>) {
    let kind = SampleType::of::<Detection>();
    let mut publisher = node.publisher::<Dynamic>((topic, &kind)).unwrap();
    let subscriber = node.subscriber::<Dynamic>((topic, &kind)).unwrap();
    await_receivers(&mut publisher, 1);
    (publisher, subscriber)
}

pub fn a_type_by_value_meets_the_rust_type(transport: &'static str) {
    meet(transport, |i| i as u8);
    meet(transport, |i| i as f64 / 3.0);
    meet(transport, |i| stripline::Complex::new(i as i16, -1));
    meet(transport, |i| detections(i as u32, 1)[0]);
}

/// Sends the same packets from a port of the Rust type and from a port by value, each to a receiver
/// of either kind.
fn meet<T: Sample>(transport: &'static str, sample: fn(usize) -> T) {
    let node = node(transport, "");
    let kind = SampleType::of::<T>();
    let mut typed = node.publisher::<T>("typed").unwrap();
    let mut by_value = node.publisher::<Dynamic>(("by-value", &kind)).unwrap();
    let mut at_typed = [node.subscriber::<T>("typed").unwrap(), node.subscriber("by-value").unwrap()];
    let mut at_value = ["typed", "by-value"].map(|topic| node.subscriber::<Dynamic>((topic, &kind)).unwrap());
    await_receivers(&mut typed, 2);
    await_receivers(&mut by_value, 2);
    assert_eq!((by_value.sample_bytes(), typed.samples_max()), (size_of::<T>(), by_value.samples_max()));
    assert_eq!(typed.in_place_samples_max(), by_value.in_place_samples_max());
    let mut rng = Dice::new(16);
    for number in 0..30 {
        let count = rng.below(200);
        let samples: Vec<T> = (0..count).map(sample).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&samples);
        if number % 10 == 0 {
            let stream = StreamInfo::new(&format!("part-{number}")).sample_rate_hz(1e6);
            typed.set_stream(stream.clone());
            by_value.set_stream(stream);
        }
        if number % 3 == 0 {
            let mut loan = typed.loan(count + 1).unwrap();
            loan[..count].copy_from_slice(&samples);
            loan.truncate(count);
            loan.at_sample(number * 1000).at_time_ns(number as i64).send().unwrap();
            let mut loan = by_value.loan(count + 1).unwrap();
            assert_eq!((loan.samples(), loan.len()), (count + 1, (count + 1) * size_of::<T>()));
            loan[..bytes.len()].copy_from_slice(bytes);
            loan.truncate(count);
            assert_eq!(loan.len(), bytes.len());
            loan.at_sample(number * 1000).at_time_ns(number as i64).send().unwrap();
        } else {
            typed.send(&samples).unwrap();
            by_value.send(bytes).unwrap();
        }
        let expected = find(&mut at_typed[0]);
        assert_eq!((&expected.bytes[..], expected.samples, expected.sequence), (bytes, count, number));
        assert_eq!(find(&mut at_typed[1]), expected);
        at_value.iter_mut().for_each(|subscriber| assert_eq!(find(subscriber), expected));
    }
    typed.finish().unwrap();
    drop(by_value);
    at_typed.iter_mut().for_each(expect_end);
    at_value.iter_mut().for_each(expect_end);
    assert_eq!(node.connections().iter().map(|report| report.lost).sum::<u64>(), 0);
}

pub fn large_packets_of_a_type_by_value_travel_whole(transport: &'static str) {
    let node = node(transport, "buffer = 16384");
    let (mut publisher, mut by_value) = pair_of(&node, "by-value");
    let mut typed = node.publisher::<Detection>("typed").unwrap();
    let mut at_value = node.subscriber::<Dynamic>(("typed", &SampleType::of::<Detection>())).unwrap();
    await_receivers(&mut typed, 1);
    let samples = detections(0, 5 * publisher.in_place_samples_max() + 7);
    let bytes: &[u8] = bytemuck::cast_slice(&samples);
    assert!(matches!(publisher.try_send(bytes), Err(Error::TooLarge { .. })));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                publisher.send(bytes).unwrap();
                typed.send(&samples).unwrap();
            }
        });
        for number in 0..3 {
            for found in [find(&mut by_value), find(&mut at_value)] {
                let index = number * samples.len() as u64;
                assert_eq!((found.sequence, found.sample_index, found.gap), (number, index, None));
                assert!(found.bytes == bytes && found.samples == samples.len());
            }
        }
    });
}

pub fn gaps_of_a_type_by_value_count_its_samples(transport: &'static str) {
    let node = node(transport, "overflow = \"drop-oldest\"\ndepth = 3");
    let kind = SampleType::of::<Detection>();
    let mut publisher = node.publisher::<Dynamic>(("detections", &kind)).unwrap();
    let mut typed = node.subscriber::<Detection>("detections").unwrap();
    let mut by_value = node.subscriber::<Dynamic>(("detections", &kind)).unwrap();
    await_receivers(&mut publisher, 2);
    let (mut rng, mut sent) = (Dice::new(3), 0);
    for _ in 0..200 {
        let count = rng.below(100);
        publisher.send(bytemuck::cast_slice(&detections(sent as u32, count))).unwrap();
        sent += count as u64;
    }
    let ends = std::thread::spawn(move || publisher.finish().unwrap());
    assert_eq!(account(&mut typed), sent);
    assert_eq!(account(&mut by_value), sent);
    ends.join().unwrap();
    let lost: u64 = node.connections().iter().map(|report| report.lost).sum();
    assert!(lost > 0, "nothing was lost");
}

/// Returns how many samples arrived or are missing, and checks each packet's index against the
/// count.
fn account<T: Content>(subscriber: &mut Subscriber<T>) -> u64 {
    let mut samples = 0;
    while let Some(packet) = subscriber.receive().unwrap() {
        samples += packet.gap().map_or(0, |gap| gap.samples);
        assert_eq!(packet.sample_index(), samples);
        let bytes: &[u8] = bytemuck::cast_slice(&packet);
        if let Some(first) = bytes.first_chunk() {
            assert_eq!(u64::from(u32::from_ne_bytes(*first)), samples, "another sample than its index says");
        }
        samples += packet.samples() as u64;
    }
    samples + subscriber.gap_at_end().map_or(0, |gap| gap.samples)
}

pub fn every_way_to_receive_takes_a_type_by_value(transport: &'static str) {
    let node = node(transport, "");
    let all = bytemuck::cast_slice::<_, u8>(&detections(0, 60)).to_vec();
    // Five packets of twelve samples on each topic.
    let fill = |publisher: &mut Publisher<Dynamic>| {
        let write = |index: usize, place: &mut [u8]| place.copy_from_slice(&all[index * 144..][..144]);
        publisher.send_many(5, 12, write).unwrap();
        assert_eq!(publisher.sequence(), 5);
    };

    let (mut publisher, subscriber) = pair_of(&node, "windows");
    fill(&mut publisher);
    publisher.finish().unwrap();
    let (mut windows, mut bytes) = (subscriber.windowed(), Vec::new());
    while let Received::Packet(window) = windows.window_timeout(7, DEADLINE).unwrap() {
        assert_eq!((window.len(), window.sample_index()), (window.samples() * 12, bytes.len() as u64 / 12));
        bytes.extend_from_slice(&window);
    }
    assert!(bytes == all, "windows");

    let (mut publisher, mut subscriber) = pair_of(&node, "drain");
    fill(&mut publisher);
    publisher.finish().unwrap();
    let mut bytes = Vec::new();
    while subscriber
        .drain(3, |packet| {
            assert_eq!(packet.samples(), 12);
            bytes.extend_from_slice(&packet);
        })
        .unwrap()
        > 0
    {}
    assert!(bytes == all, "drain");

    let (mut publisher, subscriber) = pair_of(&node, "hold");
    let mut holding = subscriber.holding(5).unwrap();
    fill(&mut publisher);
    let held: Vec<_> = (0..5).map(|_| holding.receive().unwrap().expect("a packet")).collect();
    drop((publisher, holding));
    let bytes: Vec<u8> = held.iter().flat_map(|packet| packet.to_vec()).collect();
    assert!(bytes == all && held[4].samples() == 12 && held[4].sample_index() == 48, "held packets");

    for dispatch in [Dispatch::Queue, Dispatch::pool(3).unwrap().in_order()] {
        let (mut publisher, mut subscriber) = pair_of(&node, "handler");
        fill(&mut publisher);
        publisher.finish().unwrap();
        let seen = Mutex::new(Vec::new());
        subscriber
            .serve_then(
                dispatch,
                |packet| Ok((packet.samples(), packet.to_vec())),
                |packet, (samples, copy)| {
                    assert_eq!((samples, &*packet), (12, &copy[..]));
                    seen.lock().unwrap().extend(copy);
                    Ok(())
                },
            )
            .unwrap();
        assert!(seen.into_inner().unwrap() == all, "{dispatch}");
    }

    let (mut publisher, mut subscriber) = pair_of(&node, "single");
    fill(&mut publisher);
    publisher.finish().unwrap();
    let bytes = RefCell::new(Vec::new());
    let handler = |packet: stripline::node::PacketView<'_, Dynamic>| {
        bytes.borrow_mut().extend_from_slice(&packet);
        Ok(())
    };
    SingleThread::new().packets(&mut subscriber, handler).run().unwrap();
    assert!(bytes.into_inner() == all, "a single thread");
}

pub fn a_packet_by_value_is_forwarded_as_it_came(transport: &'static str) {
    let node = node(transport, "");
    let (mut source, mut input) = pair_of(&node, "in");
    let (mut output, mut result) = pair_of(&node, "out");
    let rate = |hz| StreamInfo::new("antenna").sample_rate_hz(hz);
    source.set_stream(rate(1e6));
    source.loan(10).unwrap().at_sample(500).at_time_ns(77).send().unwrap();
    let packet = input.receive().unwrap().expect("a packet");
    let mut loan = output.loan(packet.samples()).unwrap();
    loan.copy_from_slice(&packet);
    loan.send_like(&packet).unwrap();
    // Sends every second sample, at half the rate.
    output.loan(5).unwrap().send_like_at_rate(&packet, 1, 2).unwrap();
    drop(packet);
    let first = find(&mut result);
    assert_eq!((first.samples, first.sample_index, first.time_ns, first.stream), (10, 500, 77, rate(1e6)));
    let second = find(&mut result);
    assert_eq!((second.samples, second.sample_index, second.stream), (5, 250, rate(5e5)));
}

pub fn another_layout_by_value_is_refused_naming_both(transport: &'static str) {
    let node = node(transport, "");
    let parse = |text| SampleType::parse(text).unwrap();
    let new = SampleType::of::<versions::New>();
    let old = parse("det{level_db:f32,range_bin:u32,doppler_bin:s32}");
    let bare = SampleType::new("det", 12, 4).unwrap();
    let sent = "the sending port has type det{range_bin:u32,doppler_bin:s32,level_db:f32}, not ";
    let mut typed = node.publisher::<versions::New>("typed").unwrap();
    let mut by_value = node.publisher::<Dynamic>(("by-value", &new)).unwrap();
    for topic in ["typed", "by-value"] {
        let refused = |subscriber: &Subscriber<Dynamic>, with: &str| {
            let [refused] = &subscriber.refusals()[..] else { panic!("one is refused") };
            assert!(refused.reason.ends_with(&format!("{sent}{with}")), "{}", refused.reason);
        };
        refused(
            &node.subscriber::<Dynamic>((topic, &old)).unwrap(),
            "det{level_db:f32,range_bin:u32,doppler_bin:s32}",
        );
        refused(&node.subscriber::<Dynamic>((topic, &bare)).unwrap(), "det (no layout)");
        refused(&node.subscriber::<Dynamic>((topic, &parse("f32"))).unwrap(), "f32");
    }
    // A port of a Rust type also refuses a port by value.
    assert_eq!(node.subscriber::<versions::Old>("by-value").unwrap().refusals().len(), 1);
    let mut right = node.subscriber::<Dynamic>(("typed", &new)).unwrap();
    await_receivers(&mut typed, 1);
    typed.send(&[versions::New { range_bin: 7, doppler_bin: -3, level_db: 12.5 }]).unwrap();
    assert_eq!(find(&mut right).bytes[..4], 7u32.to_ne_bytes());
    assert_eq!(by_value.receivers(), 0);
}

pub fn bytes_that_are_no_whole_samples_go_nowhere(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair_of(&node, "detections");
    for error in [publisher.send(&[0; 13]).unwrap_err(), publisher.try_send(&[0; 11]).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("detections"), "{text}");
        assert!(text.contains("its samples have 12 bytes each; send whole ones"), "{text}");
    }
    for too_many in [publisher.samples_max() + 1, usize::MAX] {
        assert!(matches!(publisher.loan(too_many), Err(Error::TooLarge { .. })));
    }
    assert!(subscriber.try_receive().unwrap().packet().is_none());
    publisher.send(&[]).unwrap();
    publisher.send(&[1; 24]).unwrap();
    assert_eq!((find(&mut subscriber).samples, find(&mut subscriber).samples), (0, 2));

    // Without a layout only the name is compared, so the receiver finds out that the size differs.
    let plot = |size| SampleType::new("plot", size, 4).unwrap();
    let mut wide = node.publisher::<Dynamic>(("plots", &plot(12))).unwrap();
    let mut narrow = node.subscriber::<Dynamic>(("plots", &plot(8))).unwrap();
    await_receivers(&mut wide, 1);
    wide.send(&[0; 12]).unwrap();
    let error = narrow.receive_timeout(DEADLINE).map(drop).unwrap_err();
    assert!(error.to_string().contains("sent 12 bytes as samples of 8 bytes"), "{error}");
    await_that("the sender is cut off", || wide.receivers() == 0);
}

pub fn samples_of_a_type_by_value_are_aligned(transport: &'static str) {
    let node = node(transport, "");
    let kind = SampleType::new("aligned", 48, 16).unwrap();
    let mut publisher = node.publisher::<Dynamic>(("aligned", &kind)).unwrap();
    let mut subscriber = node.subscriber::<Dynamic>(("aligned", &kind)).unwrap();
    await_receivers(&mut publisher, 1);
    for number in 0..50 {
        let mut loan = publisher.loan(number % 7).unwrap();
        assert_eq!(loan.as_ptr().addr() % 16, 0);
        loan.fill(number as u8);
        loan.send().unwrap();
        let packet = subscriber.receive().unwrap().expect("a packet");
        assert_eq!((packet.as_ptr().addr() % 16, packet.samples()), (0, number % 7));
        assert!(packet.iter().all(|byte| *byte == number as u8));
    }
}
