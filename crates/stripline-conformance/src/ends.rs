//! Two other ends of a stream: it is abandoned, or the wait for the end is limited.

use std::time::Duration;

use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, GapReason};

use crate::support::{
    DEADLINE, await_receivers, await_that, expect_end, expect_nothing, fill, is_stream, node, pair,
    refuses_repair, take, take_number,
};

pub fn an_abandoned_stream_is_a_death(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let node = node(transport, "");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    for life in 0..2 {
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        await_receivers(&mut publisher, 1);
        (0..5).for_each(|number| publisher.send(&[number; 3]).unwrap());
        publisher.abandon();
        // Everything that was sent arrives.
        let first = take(&mut subscriber);
        let gap = first.gap.map(|gap| (gap.first, gap.packets, gap.reason));
        assert_eq!((first.sequence, gap), (0, (life > 0).then_some((5, 0, GapReason::PeerRestart))));
        (1..5).for_each(|number| assert_eq!(take_number(&mut subscriber, number).samples, [number; 3]));
        await_that("the death is detected", || {
            expect_nothing(&mut subscriber);
            subscriber.senders() == 0
        });
    }
    let mut publisher = node.publisher::<Cbor<u64, NoSchema>>("others").unwrap();
    let mut others = node.subscriber::<Cbor<u64, NoSchema>>("others").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    publisher.abandon();
    assert!(others.try_receive().unwrap().packet().is_none());
    let reports = node.connections();
    let deaths = reports.iter().filter(|report| report.connection.contains("numbers"));
    assert_eq!(deaths.map(|report| report.peer_deaths).sum::<u64>(), 2);
    // The next sender comes after these two, and ends the stream.
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 1);
    publisher.finish_within(DEADLINE).unwrap();
    expect_end(&mut subscriber);
}

pub fn an_end_is_waited_for_no_longer_than_it_may_take(transport: &'static str) {
    let node = node(transport, "depth = 4\nbuffer = 16384");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let (sent, full) = fill(&mut publisher, &[7; 100]);
    match publisher.finish_within(Duration::from_millis(1)) {
        Err(Error::Full { connection }) => assert_eq!(connection, full),
        Err(error) => panic!("{error}"),
        // The kernel still has room for the end, though it has no room for a packet.
        Ok(()) => assert!(is_stream(transport)),
    }
    // Packets that have left this process arrive. Over memory, these are all packets.
    if !is_stream(transport) {
        (0..sent).for_each(|number| drop(take_number(&mut subscriber, number)));
    }
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "others");
    publisher.send(&[1]).unwrap();
    publisher.finish_within(Duration::MAX).unwrap();
    take_number(&mut subscriber, 0);
    expect_end(&mut subscriber);
}
