//! Section 3: ports that put packets in sequence, for every way of receiving.

use std::time::Duration;

use stripline::node::{Dispatch, PacketView, Publisher, Subscriber, wait_any};
use stripline::{Gap, GapReason};

use crate::dispatch::Gate;
use crate::resequence::{NEVER, Pipeline, expect_end, forward, numbers, pipeline, send, shuffle, whole};
use crate::support::{DEADLINE, node, pair, take};

pub fn wait_any_waits_for_the_packet_in_turn(transport: &'static str) {
    let node = node(transport, "");
    let (mut other, mut silent) = pair::<u64>(&node, "other");
    let Pipeline { mut source, input, output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(64, NEVER).unwrap();
    send(&mut source, 0..4);
    source.finish().unwrap();
    let permits = Gate::default();
    std::thread::scope(|scope| {
        scope.spawn(|| forward_as_permitted(input, output, &permits));
        permits.reach(0);
        assert_eq!(wait_any(&mut [&mut silent, &mut packets], Some(DEADLINE)).unwrap(), [1]);
        // The packet that was found stays ready, no matter how often the port is polled.
        assert_eq!(wait_any(&mut [&mut silent, &mut packets], Some(DEADLINE)).unwrap(), [1]);
        assert_eq!(numbers(&mut packets, 1), whole(0..1));
        // Packets 2 and 3 arrive early.
        permits.reach(3);
        permits.reach(2);
        let soon = Some(Duration::from_millis(20));
        assert!(wait_any(&mut [&mut silent, &mut packets], soon).unwrap().is_empty());
        other.send(&[1]).unwrap();
        assert_eq!(wait_any(&mut [&mut silent, &mut packets], Some(DEADLINE)).unwrap(), [0]);
        assert_eq!(take(&mut silent).samples, [1]);
        permits.reach(1);
        assert_eq!(wait_any(&mut [&mut silent, &mut packets], Some(DEADLINE)).unwrap(), [1]);
        assert_eq!(numbers(&mut packets, 3), whole(1..4));
        assert_eq!(wait_any(&mut [&mut silent, &mut packets], Some(DEADLINE)).unwrap(), [1]);
        expect_end(&mut packets);
    });
}

pub fn wait_any_wakes_to_skip(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, input, output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(64, Duration::from_millis(5)).unwrap();
    send(&mut source, 0..4);
    source.finish().unwrap();
    let permits = Gate::default();
    std::thread::scope(|scope| {
        scope.spawn(|| forward_as_permitted(input, output, &permits));
        permits.reach(0);
        permits.reach(2);
        assert_eq!(numbers(&mut packets, 1), whole(0..1));
        // No later packet could wake the receiver.
        assert_eq!(wait_any(&mut [&mut packets], Some(DEADLINE)).unwrap(), [0]);
        let gap = Gap { first: 1, packets: 1, samples: 3, reason: GapReason::Late };
        assert_eq!(numbers(&mut packets, 1), [(2, Some(gap))]);
        permits.reach(1);
        permits.reach(3);
        assert_eq!(numbers(&mut packets, 1), whole(3..4));
        expect_end(&mut packets);
    });
}

/// Runs a stage that forwards every packet as soon as the number is permitted.
fn forward_as_permitted(mut input: Subscriber<u64>, mut output: Publisher<u64>, permits: &Gate) {
    let wait = |packet: PacketView<'_, u64>| {
        permits.wait_for(packet.sequence());
        Ok(())
    };
    let pool = Dispatch::pool(8).unwrap();
    input.serve_then(pool, wait, |packet, ()| forward(&mut output, packet)).unwrap();
    output.finish().unwrap();
}

pub fn windows_are_cut_from_packets_in_sequence(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    send(&mut source, 0..8);
    source.finish().unwrap();
    // Packet 5 never arrives.
    shuffle(&mut input, &mut output, &[3, 0, 2, 1, 7, 4, 6]);
    output.finish().unwrap();
    let mut windows = sink.resequenced(64, NEVER).unwrap().windowed();
    let (mut samples, mut borders) = (Vec::new(), Vec::new());
    while let Some(window) = windows.window(4).unwrap() {
        samples.extend_from_slice(&window);
        borders.push((window.len(), window.gap().map(|gap| (gap.first, gap.samples))));
    }
    let expected: Vec<u64> = [0, 1, 2, 3, 4, 6, 7].into_iter().flat_map(|number| [number; 3]).collect();
    assert_eq!(samples, expected);
    let before = [(4, None), (4, None), (4, None), (3, None)];
    let behind = [(4, Some((5, 3))), (2, None)];
    assert_eq!(borders, [&before[..], &behind[..]].concat());
}

pub fn a_topics_file_enables_resequencing(transport: &'static str) {
    let rules = "[topic.first]\ndispatch = 'pool(3)'\n[topic.second]\nresequence = { window = 8, skip-after-ms = 3600000 }";
    let node = node(transport, rules);
    let Pipeline { mut source, mut input, mut output, sinks: [mut sink] } = pipeline(&node);
    send(&mut source, 0..6);
    source.finish().unwrap();
    let (dispatch, gate) = (input.dispatch(), Gate::default());
    assert_eq!((dispatch, sink.dispatch()), (Dispatch::pool(3).unwrap(), Dispatch::Queue));
    let handler = |packet: PacketView<'_, u64>| {
        if packet.sequence() == 0 {
            gate.wait_for(2);
        }
        gate.reach(packet.sequence());
        Ok(())
    };
    input.serve_then(dispatch, handler, |packet, ()| forward(&mut output, packet)).unwrap();
    output.finish().unwrap();
    assert_eq!(numbers(&mut sink, 6), whole(0..6));
    expect_end(&mut sink);
}
