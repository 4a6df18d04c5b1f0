//! Section 3: order behind a stage that forwards packets as it finishes them.

use std::sync::Mutex;
use std::time::Duration;

use stripline::node::{Dispatch, Node, PacketView, Publisher, SingleThread, Subscriber};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Gap, GapReason, Received, Result, StreamInfo};

use crate::dispatch::Gate;
use crate::puppet::{Puppet, beside_another};
use crate::refusals::Refusal;
use crate::support::{
    DEADLINE, Dice, await_all_asleep, await_receivers, await_senders, await_that, node, pair, refuses_repair,
};

/// A time longer than any rule takes, so that no packet is skipped because of it.
pub const NEVER: Duration = Duration::from_secs(3600);

/// A source, a stage's input and output, and `N` receivers of the forwarded packets.
pub struct Pipeline<const N: usize> {
    pub source: Publisher<u64>,
    pub input: Subscriber<u64>,
    pub output: Publisher<u64>,
    pub sinks: [Subscriber<u64>; N],
}

pub fn pipeline<const N: usize>(node: &Node) -> Pipeline<N> {
    let (source, input) = pair(node, "first");
    let mut output = node.publisher("second").unwrap();
    let sinks = std::array::from_fn(|_| node.subscriber("second").unwrap());
    await_receivers(&mut output, N);
    Pipeline { source, input, output, sinks }
}

pub fn forward(output: &mut Publisher<u64>, packet: PacketView<'_, u64>) -> Result<()> {
    let mut loan = output.loan(packet.len())?;
    loan.copy_from_slice(&packet);
    loan.send_like(&packet)
}

/// Takes `count` packets that the source has sent. Forwards them in the order of `turns`, which is
/// a permutation of their numbers, as the threads of a pool would forward them.
pub fn shuffle(input: &mut Subscriber<u64>, output: &mut Publisher<u64>, turns: &[u64]) {
    let gate = Gate::default();
    let output = Mutex::new(output);
    let place = |number: u64| turns.iter().position(|turn| *turn == number);
    let pool = Dispatch::pool(turns.len()).unwrap();
    let outcome = input.serve(pool, |packet| {
        let Some(place) = place(packet.sequence()) else { return Ok(()) };
        if place > 0 {
            gate.wait_for(turns[place - 1]);
        }
        let mut output = output.lock().unwrap();
        forward(&mut output, packet)?;
        gate.reach(packet.sequence());
        Ok(())
    });
    outcome.unwrap();
}

pub fn send(source: &mut Publisher<u64>, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| source.send(&[number; 3]).unwrap());
}

/// Returns the numbers of the next packets and the gap before each packet.
pub fn numbers(packets: &mut Subscriber<u64>, count: usize) -> Vec<(u64, Option<Gap>)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match packets.receive_timeout(DEADLINE).unwrap() {
            Received::Packet(packet) => {
                assert_eq!((packet.len(), packet[0]), (3, packet.order().number()));
                seen.push((packet[0], packet.gap().copied()));
            }
            other => panic!("{other:?} instead of a packet, behind {seen:?}"),
        }
    }
    seen
}

pub fn whole(numbers: std::ops::Range<u64>) -> Vec<(u64, Option<Gap>)> {
    numbers.map(|number| (number, None)).collect()
}

pub fn expect_end(packets: &mut Subscriber<u64>) {
    assert!(matches!(packets.receive_timeout(DEADLINE).unwrap(), Received::Ended));
}

pub fn a_pool_forwards_out_of_order_and_says_so(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [mut sink] } = pipeline(&node);
    send(&mut source, 0..4);
    source.finish().unwrap();
    shuffle(&mut input, &mut output, &[2, 0, 3, 1]);
    output.finish().unwrap();
    let mut seen = Vec::new();
    while let Received::Packet(packet) = sink.receive_timeout(DEADLINE).unwrap() {
        // The stage numbers the packet in the order of sending. The packet's order has another
        // number.
        assert_eq!((packet.sequence(), packet.gap()), (seen.len() as u64, None));
        assert_eq!(packet.sample_index(), 3 * packet[0]);
        assert_eq!((packet.order().number(), packet.intended_ns()), (packet[0], None));
        seen.push(packet[0]);
    }
    assert_eq!(seen, [2, 0, 3, 1]);
    let report = node.connections().into_iter().find(|report| report.connection.ends_with("second")).unwrap();
    assert_eq!((report.packets, report.reordered, report.lost), (4, 2, 0));
}

pub fn resequencing_gives_back_the_order(transport: &'static str) {
    const PACKETS: u64 = 400;
    let node = node(transport, "buffer = 65536\ndepth = 16");
    let Pipeline { mut source, mut input, output, sinks: [sink] } = pipeline(&node);
    let samples = |number: u64| match number % 50 {
        // This packet is sent in fragments.
        7 => 12_000,
        8 => 0,
        _ => number as usize % 100 + 1,
    };
    let sender = std::thread::spawn(move || {
        for number in 0..PACKETS {
            if number.is_multiple_of(100) {
                source.set_stream(StreamInfo::new(&format!("s{}", number / 100)).sample_rate_hz(1e6));
            }
            let mut loan = source.loan(samples(number)).unwrap();
            loan.fill(number);
            loan.at_time_ns(number as i64 + 1).send().unwrap();
        }
        source.finish().unwrap();
    });
    let stage = std::thread::spawn(move || {
        let (gate, output) = (Gate::default(), Mutex::new(output));
        input
            .serve(Dispatch::pool(4).unwrap(), |packet| {
                let number = packet.sequence();
                if number.is_multiple_of(4) {
                    gate.wait_for(number + 3);
                }
                // No packet is overtaken by more than the window.
                gate.wait_for_all_below(number.saturating_sub(32));
                forward(&mut output.lock().unwrap(), packet)?;
                gate.reach(packet.sequence());
                Ok(())
            })
            .unwrap();
        output.into_inner().unwrap().finish().unwrap();
    });
    let mut packets = sink.resequenced(64, NEVER).unwrap();
    for number in 0..PACKETS {
        let Received::Packet(packet) = packets.receive_timeout(DEADLINE).unwrap() else { panic!("{number}") };
        assert_eq!((packet.order().number(), packet.gap()), (number, None));
        assert!(packet.iter().all(|sample| *sample == number) && packet.len() == samples(number));
        assert_eq!(packet.time_ns(), number as i64 + 1);
        assert_eq!(packet.stream().id, format!("s{}", number / 100));
        assert!(packet.connection().ends_with("-> second"));
    }
    expect_end(&mut packets);
    assert_eq!(packets.gap_at_end(), None);
    sender.join().unwrap();
    stage.join().unwrap();
    let reports = node.connections();
    assert!(reports.iter().all(|report| (report.lost, report.gaps) == (0, 0)));
    assert!(reports.iter().any(|report| report.reordered >= PACKETS / 4));
}

pub fn resequencing_in_order_changes_nothing(transport: &'static str) {
    // Packets forwarded by one thread have no order stamp and need none: gaps are the link's gaps,
    // and no packet is held back.
    let node = node(transport, "overflow = \"drop-newest\"\ndepth = 4");
    let (mut publisher, subscriber) = pair::<u64>(&node, "plain");
    let mut packets = subscriber.resequenced(2, NEVER).unwrap();
    let (mut next, mut lost) = (0, 0);
    send(&mut publisher, 0..200);
    publisher.finish().unwrap();
    while let Received::Packet(packet) = packets.receive_timeout(DEADLINE).unwrap() {
        let missing = packet.gap().map_or(0, |gap| gap.packets);
        assert_eq!(packet.sequence(), next + missing);
        next = packet.sequence() + 1;
        lost += missing;
    }
    lost += packets.gap_at_end().map_or(0, |gap| gap.packets);
    let report = &node.connections()[0];
    assert_eq!((report.packets + lost, report.lost), (200, lost));
}

pub fn a_missing_packet_is_skipped_and_reported(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(64, Duration::from_millis(20)).unwrap();
    send(&mut source, 0..8);
    source.finish().unwrap();
    // The stage keeps packets 3 and 4 for itself. The packets behind them are in sequence. So none
    // of these is late as well if the receiver is delayed for longer than it waits.
    shuffle(&mut input, &mut output, &[0, 1, 2, 5, 6, 7]);
    // The stream continues, so only the time limit ends the wait for them.
    let mut expected = whole(0..3);
    let gap = Gap { first: 3, packets: 2, samples: 6, reason: GapReason::Late };
    expected.extend([(5, Some(gap)), (6, None), (7, None)]);
    assert_eq!(numbers(&mut packets, 6), expected);
    assert!(matches!(packets.try_receive().unwrap(), Received::Empty));
    let report = node.connections().into_iter().find(|report| report.connection.ends_with("second")).unwrap();
    assert_eq!((report.packets, report.lost, report.lost_samples, report.gaps), (6, 2, 6, 1));
    output.finish().unwrap();
    expect_end(&mut packets);
}

pub fn what_has_arrived_is_not_given_up(transport: &'static str) {
    let rule = "packets in time while a repair is due";
    if Refusal::Repair.excludes(transport, rule, "those behind it wait") {
        return;
    }
    // There is no pump, which would take packets from the transport at its own pace. All packets
    // fit in ten messages.
    let node = node(transport, "flow = \"transport\"");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(4, Duration::ZERO).unwrap();
    send(&mut source, 0..6);
    source.finish().unwrap();
    // All packets have arrived before the receiver takes the first one: the middleware threads that
    // carry packets are asleep.
    shuffle(&mut input, &mut output, &[0, 2, 1, 5, 4, 3]);
    output.finish().unwrap();
    await_all_asleep(std::process::id());
    assert_eq!(numbers(&mut packets, 6), whole(0..6));
    expect_end(&mut packets);
    assert!(node.connections().iter().all(|report| (report.lost, report.gaps) == (0, 0)));
}

pub fn a_full_window_is_no_error_after_the_time(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(2, Duration::ZERO).unwrap();
    send(&mut source, 0..8);
    source.finish().unwrap();
    // The stage keeps packets 1 and 2 for itself. More than a window of other packets has arrived
    // behind them.
    shuffle(&mut input, &mut output, &[0, 3, 4, 5, 6, 7]);
    output.finish().unwrap();
    let gap = Gap { first: 1, packets: 2, samples: 6, reason: GapReason::Late };
    let mut expected = vec![(0, None), (3, Some(gap))];
    expected.extend(whole(4..8));
    assert_eq!(numbers(&mut packets, 6), expected);
    expect_end(&mut packets);
}

pub fn a_window_that_overflows_is_named(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(4, NEVER).unwrap();
    send(&mut source, 0..10);
    source.finish().unwrap();
    // Packet 2 arrives after more than a window of other packets.
    shuffle(&mut input, &mut output, &[0, 1, 3, 4, 5, 6, 7, 2, 8, 9]);
    output.finish().unwrap();
    assert_eq!(numbers(&mut packets, 2), whole(0..2));
    let error = packets.receive_timeout(DEADLINE).map(drop).unwrap_err();
    let text = error.to_string();
    let Error::WindowOverflow { connection, first: 2, window: 4 } = error else { panic!("{text}") };
    assert!(connection.ends_with("-> second") && text.contains("raise the resequencing's window"), "{text}");
    let gap = Gap { first: 2, packets: 1, samples: 3, reason: GapReason::Late };
    let mut expected = vec![(3, Some(gap))];
    expected.extend(whole(4..10));
    assert_eq!(numbers(&mut packets, 7), expected);
    expect_end(&mut packets);
    let report = node.connections().into_iter().find(|report| report.connection.ends_with("second")).unwrap();
    assert_eq!((report.packets, report.lost), (10, 1), "it came, and was given up");
}

pub fn two_packets_of_a_number_are_named(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(4, NEVER).unwrap();
    send(&mut source, 0..4);
    source.finish().unwrap();
    let twice = |packet: PacketView<'_, u64>, ()| {
        forward(&mut output, packet)?;
        if packet[0] == 1 { forward(&mut output, packet) } else { Ok(()) }
    };
    input.serve_then(Dispatch::pool(2).unwrap().in_order(), |_| Ok(()), twice).unwrap();
    output.finish().unwrap();
    assert_eq!(numbers(&mut packets, 2), whole(0..2));
    let error = packets.receive_timeout(DEADLINE).map(drop).unwrap_err();
    assert!(
        matches!(&error, Error::DuplicatePacket { connection, number: 1 } if connection.ends_with("-> second")),
        "{error}"
    );
    assert_eq!(numbers(&mut packets, 2), whole(2..4));
    expect_end(&mut packets);
}

pub fn the_end_of_stream_waits_for_nothing(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(64, NEVER).unwrap();
    send(&mut source, 0..6);
    source.finish().unwrap();
    shuffle(&mut input, &mut output, &[0, 4, 2]);
    output.finish().unwrap();
    let gap = |first, packets| Some(Gap { first, packets, samples: 3 * packets, reason: GapReason::Late });
    assert_eq!(numbers(&mut packets, 3), [(0, None), (2, gap(1, 1)), (4, gap(3, 1))]);
    expect_end(&mut packets);
    expect_end(&mut packets);
}

pub fn a_late_joiner_begins_where_it_came(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [mut early] } = pipeline(&node);
    send(&mut source, 0..8);
    source.finish().unwrap();
    let (gate, late) = (Gate::default(), Mutex::new(None));
    let outcome = input.serve_then(
        Dispatch::pool(4).unwrap(),
        |_| Ok(()),
        |packet, ()| {
            if packet.sequence() == 3 {
                *late.lock().unwrap() = Some(node.subscriber::<u64>("second").unwrap());
                await_receivers(&mut output, 2);
            }
            forward(&mut output, packet)?;
            gate.reach(packet.sequence());
            Ok(())
        },
    );
    outcome.unwrap();
    output.finish().unwrap();
    let mut sent = Vec::new();
    while let Received::Packet(packet) = early.receive_timeout(DEADLINE).unwrap() {
        sent.push(packet[0]);
    }
    let joined = sent.iter().position(|number| *number == 3).unwrap();
    let mut rest = sent.split_off(joined);
    rest.sort_unstable();
    let mut packets = late.into_inner().unwrap().unwrap().resequenced(64, NEVER).unwrap();
    let seen: Vec<u64> = numbers(&mut packets, rest.len()).into_iter().map(|(number, _)| number).collect();
    assert_eq!(seen, rest);
    expect_end(&mut packets);
}

pub fn a_new_sender_counts_anew(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
    let mut packets = sink.resequenced(64, NEVER).unwrap();
    send(&mut source, 0..6);
    source.finish().unwrap();
    // The stage gets a new source with numbers from 0. Packets 2 and 3 of the old source never
    // arrive.
    shuffle(&mut input, &mut output, &[1, 0, 5, 4]);
    let mut second = node.publisher::<u64>("first").unwrap();
    await_receivers(&mut second, 1);
    send(&mut second, 0..4);
    second.finish().unwrap();
    shuffle(&mut input, &mut output, &[3, 2, 1, 0]);
    assert_eq!(numbers(&mut packets, 6), [whole(0..2), whole(0..4)].concat());
    // The stage is replaced as well. The end of the old stream is read first. Otherwise the sink
    // could have two senders at a time, because a child of another test may hold the stage's socket
    // for a moment.
    output.finish().unwrap();
    let gap = Gap { first: 2, packets: 2, samples: 6, reason: GapReason::Late };
    assert_eq!(numbers(&mut packets, 2), [(4, Some(gap)), (5, None)]);
    let mut third = node.publisher::<u64>("first").unwrap();
    let mut output = node.publisher::<u64>("second").unwrap();
    await_receivers(&mut third, 1);
    await_receivers(&mut output, 1);
    send(&mut third, 0..3);
    third.finish().unwrap();
    shuffle(&mut input, &mut output, &[2, 1, 0]);
    output.finish().unwrap();
    assert_eq!(numbers(&mut packets, 3), whole(0..3));
    expect_end(&mut packets);
}

pub fn turns_pass_through_further_stages(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks: [mut second] } = pipeline(&node);
    let (mut second_out, mut third) = pair(&node, "third");
    let (mut third_out, sink) = pair(&node, "fourth");
    send(&mut source, 0..6);
    source.finish().unwrap();
    shuffle(&mut input, &mut output, &[4, 2, 5, 0, 3, 1]);
    output.finish().unwrap();
    // A stage that forwards as it receives, and another pool, which gets the packets in that order.
    while let Received::Packet(packet) = second.receive_timeout(DEADLINE).unwrap() {
        let mut loan = second_out.loan(packet.len()).unwrap();
        loan.copy_from_slice(&packet);
        loan.intended_ns(77).send_like(&packet).unwrap();
    }
    second_out.finish().unwrap();
    shuffle(&mut third, &mut third_out, &[5, 3, 4, 1, 2, 0]);
    third_out.finish().unwrap();
    let mut packets = sink.resequenced(6, NEVER).unwrap();
    assert_eq!(numbers(&mut packets, 6), whole(0..6));
    expect_end(&mut packets);
}

pub fn several_senders_are_put_in_sequence_each(transport: &'static str) {
    const PACKETS: u64 = 50;
    let node = node(transport, "depth = 4");
    let Pipeline { source, mut input, output, sinks: [sink] } = pipeline(&node);
    let mut second = node.publisher::<u64>("first").unwrap();
    await_receivers(&mut second, 1);
    await_senders(&mut input, 2);
    let senders = [(0, source), (1, second)].map(|(id, mut publisher)| {
        std::thread::spawn(move || {
            (0..PACKETS).for_each(|number| publisher.send(&[id, number]).unwrap());
            publisher.finish().unwrap();
        })
    });
    let stage = std::thread::spawn(move || {
        let output = Mutex::new(output);
        let handler = |packet: PacketView<'_, u64>| forward(&mut output.lock().unwrap(), packet);
        input.serve(Dispatch::pool(4).unwrap(), handler).unwrap();
        output.into_inner().unwrap().finish().unwrap();
    });
    // The window is larger than the number of packets: any number of packets may overtake a thread.
    let mut packets = sink.resequenced(200, NEVER).unwrap();
    let mut next = [0, 0];
    while let Received::Packet(packet) = packets.receive_timeout(DEADLINE).unwrap() {
        let [id, number] = packet[..] else { panic!("{packet:?}") };
        assert_eq!((number, packet.gap()), (next[id as usize], None));
        next[id as usize] += 1;
    }
    assert_eq!(next, [PACKETS; 2]);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    stage.join().unwrap();
}

pub fn messages_are_put_in_sequence(transport: &'static str) {
    let node = node(transport, "");
    let mut source = node.publisher::<Cbor<String, NoSchema>>("words").unwrap();
    let mut input = node.subscriber::<Cbor<String, NoSchema>>("words").unwrap();
    let mut output = node.publisher::<Cbor<usize, NoSchema>>("lengths").unwrap();
    let sink = node.subscriber::<Cbor<usize, NoSchema>>("lengths").unwrap();
    assert!(source.wait_for_receivers(1, DEADLINE).unwrap());
    assert!(output.wait_for_receivers(1, DEADLINE).unwrap());
    let mut lengths = sink.resequenced(64, NEVER).unwrap();
    (0..20).for_each(|length| source.send(&"x".repeat(length)).unwrap());
    source.finish().unwrap();
    let (gate, exit) = (Gate::default(), Mutex::new(&mut output));
    let outcome = input.serve(Dispatch::pool(4).unwrap(), |packet| {
        if packet.sequence().is_multiple_of(4) {
            gate.wait_for(packet.sequence() + 3);
        }
        exit.lock().unwrap().loan_copy_of(&packet.decode()?.len())?.send_like(&packet)?;
        gate.reach(packet.sequence());
        Ok(())
    });
    outcome.unwrap();
    for length in 0..20 {
        let packet = lengths.receive_timeout(DEADLINE).unwrap().packet().unwrap();
        assert_eq!(packet.gap(), None);
        assert_eq!(packet.decode().unwrap(), length);
    }
    assert!(matches!(lengths.try_receive().unwrap(), Received::Empty));
    output.finish().unwrap();
    assert!(lengths.receive().unwrap().is_none());
}

pub fn packets_of_a_killed_stage_come_before_its_successors(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a stage in another process", "") else { return };
    let mut source = node.publisher::<u64>("first").unwrap();
    let mut packets = node.subscriber::<u64>("second").unwrap().resequenced(64, NEVER).unwrap();
    let start = |source: &mut Publisher<u64>| {
        let mut stage = Puppet::start(&domain, transport, "");
        stage.order("publish second");
        stage.order("receivers 1");
        stage.order("subscribe first");
        await_receivers(source, 1);
        stage
    };
    let mut stage = start(&mut source);
    send(&mut source, 0..8);
    stage.order("forward 3,2,1,0,7,6");
    assert_eq!(numbers(&mut packets, 4), whole(0..4));
    // Packets 6 and 7 have arrived, and wait for 4 and 5, which die with the stage.
    stage.kill();
    await_that("the death is noticed", || {
        assert!(matches!(packets.try_receive().unwrap(), Received::Empty));
        source.receivers() == 0 && packets.senders() == 0
    });
    let mut stage = start(&mut source);
    send(&mut source, 8..12);
    stage.order("forward 10,8,11,9");
    stage.order("finish");
    let lost = Gap { first: 4, packets: 2, samples: 6, reason: GapReason::Late };
    let restart = Gap { first: 6, packets: 0, samples: 0, reason: GapReason::PeerRestart };
    let rest = [(6, Some(lost)), (7, None), (8, Some(restart))];
    assert_eq!(numbers(&mut packets, 6), [&rest[..], &whole(9..12)].concat());
    expect_end(&mut packets);
    stage.end();
}

pub fn losses_of_the_link_are_counted_once(transport: &'static str) {
    let (sent, received, lost) = lossy(transport, 1000, NEVER);
    assert_eq!(received + lost, sent);
}

pub fn losses_at_the_end_are_counted_once(transport: &'static str) {
    let calm = node(transport, "");
    let (mut source, mut input) = pair::<u64>(&calm, "first");
    let node = node(transport, "overflow = \"drop-newest\"\ndepth = 3\nbuffer = 16384");
    let (mut output, sink) = pair::<u64>(&node, "second");
    send(&mut source, 0..8);
    source.finish().unwrap();
    // The first packets fill the queue, so that the link loses the others and reports the loss at
    // the end. Some of them belong between the first packets, and so are also missing there.
    shuffle(&mut input, &mut output, &[0, 3, 7, 5, 1, 2, 4, 6]);
    output.finish().unwrap();
    let mut packets = sink.resequenced(8, NEVER).unwrap();
    let (mut received, mut lost) = (0, 0);
    while let Received::Packet(packet) = packets.receive_timeout(DEADLINE).unwrap() {
        received += 1;
        lost += packet.gap().map_or(0, |gap| gap.packets);
    }
    lost += packets.gap_at_end().map_or(0, |gap| gap.packets);
    assert_eq!((received + lost, node.connections()[0].lost), (8, lost), "{received} received");
}

pub fn no_loss_is_silent(transport: &'static str) {
    // Here a packet may be given up before the link has reported the loss. Both then report it.
    let (sent, received, lost) = lossy(transport, 8, Duration::from_micros(50));
    assert!(received + lost >= sent, "{received} received, {lost} reported lost of {sent}");
}

/// Runs a pool in front of a connection that drops packets. Returns the numbers of packets sent,
/// received, and reported lost.
fn lossy(transport: &'static str, window: usize, skip_after: Duration) -> (u64, u64, u64) {
    const PACKETS: u64 = 600;
    let node = node(transport, "overflow = \"drop-oldest\"\ndepth = 3\nbuffer = 16384");
    let (mut output, sink) = pair::<u64>(&node, "second");
    // The stage takes all packets, in a domain without losses.
    let calm = crate::support::node(transport, "");
    let (mut source, mut input) = pair::<u64>(&calm, "first");
    let sender = std::thread::spawn(move || {
        send(&mut source, 0..PACKETS);
        source.finish().unwrap();
    });
    let stage = std::thread::spawn(move || {
        let (mut rng, mut pending) = (Dice::new(3), Vec::new());
        let pool = Dispatch::pool(4).unwrap();
        input
            .serve_then(
                pool,
                |_| Ok(()),
                |packet, ()| {
                    pending.push(packet.sequence());
                    (0..rng.below(2000)).for_each(|_| std::hint::spin_loop());
                    forward(&mut output, packet)
                },
            )
            .unwrap();
        output.finish().unwrap();
        pending.len() as u64
    });
    let mut packets = sink.resequenced(window, skip_after).unwrap();
    let (mut received, mut lost, mut last) = (0, 0, None);
    loop {
        match packets.receive_timeout(DEADLINE) {
            Ok(Received::Packet(packet)) => {
                assert!(last < Some(packet[0]), "{last:?} before {}", packet[0]);
                last = Some(packet[0]);
                received += 1;
                lost += packet.gap().map_or(0, |gap| gap.packets);
            }
            Ok(Received::Ended) => break,
            Ok(Received::Empty) => panic!("nothing in time"),
            Err(Error::WindowOverflow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    lost += packets.gap_at_end().map_or(0, |gap| gap.packets);
    sender.join().unwrap();
    assert_eq!(stage.join().unwrap(), PACKETS);
    assert_eq!(node.connections()[0].lost, lost);
    (PACKETS, received, lost)
}

pub fn resequenced_packets_are_served(transport: &'static str) {
    let node = node(transport, "");
    let Pipeline { mut source, mut input, mut output, sinks } = pipeline::<3>(&node);
    send(&mut source, 0..4);
    source.finish().unwrap();
    shuffle(&mut input, &mut output, &[3, 1, 2, 0]);
    output.finish().unwrap();
    let [mut queue, mut pool, mut single] = sinks.map(|sink| sink.resequenced(64, NEVER).unwrap());
    let mut seen = Vec::new();
    let mut note = |packet: PacketView<'_, u64>| {
        seen.push(packet[0]);
        Ok(())
    };
    queue.serve_then(Dispatch::Queue, |_| Ok(()), |packet, ()| note(packet)).unwrap();
    let in_order = Dispatch::pool(3).unwrap().in_order();
    pool.serve_then(in_order, |_| Ok(()), |packet, ()| note(packet)).unwrap();
    SingleThread::new().packets(&mut single, note).run().unwrap();
    assert_eq!(seen, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
}

pub fn serving_wakes_to_skip(transport: &'static str) {
    type Serve = fn(&mut Subscriber<u64>, &Gate) -> Result<()>;
    let ways: [Serve; 3] = [
        |packets, seen| packets.serve(Dispatch::Queue, |packet| note_of(packet, seen)),
        |packets, seen| packets.serve(Dispatch::pool(2)?, |packet| note_of(packet, seen)),
        |packets, seen| SingleThread::new().packets(packets, |packet| note_of(packet, seen)).run(),
    ];
    for serve in ways {
        let node = node(transport, "");
        let Pipeline { mut source, mut input, mut output, sinks: [sink] } = pipeline(&node);
        let mut packets = sink.resequenced(64, Duration::from_millis(5)).unwrap();
        let seen = Gate::default();
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&mut packets, &seen).unwrap());
            send(&mut source, 0..4);
            source.finish().unwrap();
            // The packets are sent in sequence: packet 2 behind packet 3 would be late if the
            // receiver were delayed between the two.
            shuffle(&mut input, &mut output, &[0, 2, 3]);
            // No later packet could wake a thread.
            [0, 2, 3].into_iter().for_each(|number| seen.wait_for(number));
            output.finish().unwrap();
        });
        assert_eq!(seen.count(), 3);
    }
}

fn note_of(packet: PacketView<'_, u64>, seen: &Gate) -> Result<()> {
    seen.reach(packet[0]);
    Ok(())
}
