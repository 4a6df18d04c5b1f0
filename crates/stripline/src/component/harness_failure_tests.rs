//! Tests of a component that fails in a harness.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::harness::{Harness, HarnessRun};
use super::{ComponentSpec, Handler, HandlerComponent, PortTypes, Ports, Properties, PropertySpec, Registry};
use crate::error::{Error, ErrorCode, Result};
use crate::node::{Dispatch, PacketView, Publisher, Received, Subscriber, wait_any};
use crate::terms::{LinkOptions, Resequence};

/// A time that only ends a hang.
const DEADLINE: Duration = Duration::from_secs(60);
/// The sample with which a component fails.
const BAD: u32 = u32::MAX;

/// Describes a component with one input, two outputs, and requests.
fn spec() -> ComponentSpec {
    ComponentSpec::new("fragile", "Fails when it gets the wrong sample.")
        .input("in", PortTypes::of::<u32>(), "samples")
        .output("out", PortTypes::of::<u32>(), "the same")
        .output("other", PortTypes::of::<u32>(), "the same")
        .property(PropertySpec::text("mode", "fail", "the way in which it ends"))
        .property(PropertySpec::float("factor", 1.0, "gain").range(0.0, 10.0).changeable())
        .test("self", "whether it answers")
}

/// Ends a component in its mode.
fn end(mode: &str) -> Result<()> {
    match mode {
        "panic" => panic!("it panicked"),
        "return" => Ok(()),
        _ => Err(Error::failed("it is broken")),
    }
}

fn forward(mode: &str, mut ports: Ports) -> Result<()> {
    let requests = ports.requests();
    let (mut out, mut other) = (ports.output::<u32>("out")?, ports.output::<u32>("other")?);
    let mut input = ports.input::<u32>("in")?;
    while let Some(packet) = input.receive_with(|| requests.apply_changes(|_| Ok(())))? {
        if *packet == [BAD] {
            return end(mode);
        }
        out.send(&packet)?;
        other.send(&packet)?;
    }
    Ok(())
}

/// Prepares a component that runs as a function of its mode and ports.
fn harness(run: impl Fn(&str, Ports) -> Result<()> + Clone + Send + Sync + 'static) -> Harness {
    let registry = Registry::new().with_value(spec(), move |properties: &Properties| {
        let (mode, run) = (properties.text("mode").to_string(), run.clone());
        Ok(move |ports: Ports| run(&mode, ports))
    });
    Harness::of_type(&registry, "fragile")
}

/// The modes that fail, with the reason of each.
const FAILURES: [(&str, &str); 2] = [("fail", "it is broken"), ("panic", "panicked: it panicked")];

/// Starts the component that forwards packets.
fn start(mode: &str) -> (HarnessRun, Publisher<u32>, Subscriber<u32>, Subscriber<u32>) {
    let mut run = harness(forward).property("mode", mode).start().unwrap();
    let input = run.input("in").unwrap();
    let (out, other) = (run.output("out").unwrap(), run.output("other").unwrap());
    (run, input, out, other)
}

/// Checks an error that a test gets for the failure.
#[track_caller]
fn check(outcome: Result<impl Sized>, why: &str) {
    let Err(error) = outcome else { panic!("there must be an error") };
    assert_eq!(error.to_string(), format!("the component ended with an error: {why}"));
    assert_eq!(error.code(), ErrorCode::Failed);
}

/// Sends until the component has failed, and checks the error.
#[track_caller]
fn send_until_failure(input: &mut Publisher<u32>, why: &str) {
    let error = loop {
        if let Err(error) = input.send(&[1]) {
            break error;
        }
    };
    check(Err::<(), _>(error), why);
}

/// Returns a component that takes nothing and ends in its mode when the sender sends or is dropped.
fn failing_later() -> (Sender<()>, impl Fn(&str, Ports) -> Result<()> + Clone + Send + Sync + 'static) {
    let (fail, failing) = channel::<()>();
    let failing = Arc::new(Mutex::new(failing));
    let wait = move |mode: &str, mut ports: Ports| {
        let _input = ports.input::<u32>("in")?;
        let _ = failing.lock().unwrap().recv();
        end(mode)
    };
    (fail, wait)
}

/// Receives a packet, which must have arrived before the deadline.
#[track_caller]
fn sample(output: &mut Subscriber<u32>) -> u32 {
    output.receive_timeout(DEADLINE).unwrap().packet().expect("a packet")[0]
}

#[test]
fn packets_before_a_failure_arrive_and_each_later_receive_fails() {
    for (mode, why) in FAILURES {
        let (run, mut input, mut out, mut other) = start(mode);
        [1, 2, 3, BAD].iter().for_each(|sample| input.send(&[*sample]).unwrap());
        for output in [&mut out, &mut other] {
            assert_eq!([(); 3].map(|()| sample(output)), [1, 2, 3]);
            for _ in 0..2 {
                check(output.receive(), why);
                check(output.receive_timeout(DEADLINE), why);
                check(output.receive_with(|| ()), why);
                check(output.drain(4, |_| panic!("there is no packet")), why);
                check(output.serve(Dispatch::pool(2).unwrap(), |_| Ok(())), why);
                // The failure has been seen, so it is there without a wait as well.
                check(output.try_receive(), why);
            }
        }
        assert_eq!(wait_any(&mut [&mut out, &mut other], Some(DEADLINE)).unwrap(), [0, 1]);
        check(out.windowed().window(1), why);
        check(other.holding(2).unwrap().receive(), why);
        drop(input);
        assert_eq!(run.finish().unwrap_err().to_string(), why);
    }
}

#[test]
fn packets_in_the_queue_come_before_the_failure_in_all_ways_to_receive() {
    let (run, mut input, out, other) = start("fail");
    [1, 2, 3, BAD].iter().for_each(|sample| input.send(&[*sample]).unwrap());
    send_until_failure(&mut input, "it is broken");
    let mut windowed = out.windowed();
    assert_eq!(*windowed.window(2).unwrap().unwrap(), [1, 2]);
    // A window that the component has not completed is not received.
    check(windowed.window(2), "it is broken");
    let mut held = other.resequenced(4, DEADLINE).unwrap().holding(3).unwrap();
    let packets = [(); 3].map(|()| held.receive().unwrap().unwrap());
    assert_eq!(packets.map(|packet| packet[0]), [1, 2, 3]);
    check(held.receive(), "it is broken");
    drop(input);
    run.finish().unwrap_err();
}

#[test]
fn a_failure_before_the_first_packet_ends_each_receive() {
    for (mode, why) in FAILURES {
        let mut run = harness(|mode, _| end(mode)).property("mode", mode).start().unwrap();
        // The ports may be taken before and after the failure.
        let mut out = run.output::<u32>("out").unwrap();
        check(out.receive(), why);
        check(run.output::<u32>("other").unwrap().receive(), why);
        check(run.input::<u32>("in").unwrap().send(&[1]), why);
        assert_eq!(run.finish().unwrap_err().to_string(), why);
        // The failure outlives the run.
        check(out.receive(), why);
    }
}

#[test]
fn a_failure_ends_a_receive_that_waits() {
    for (mode, why) in FAILURES.repeat(20) {
        let (run, mut input, mut out, mut other) = start(mode);
        std::thread::scope(|scope| {
            for output in [&mut out, &mut other] {
                scope.spawn(move || {
                    assert_eq!(sample(output), 1);
                    check(output.receive(), why);
                });
            }
            input.send(&[1]).unwrap();
            std::thread::yield_now();
            input.send(&[BAD]).unwrap();
        });
        drop(input);
        run.finish().unwrap_err();
    }
}

#[test]
fn a_failure_ends_a_send_that_waits_for_room() {
    for (mode, why) in FAILURES {
        let (fail, wait) = failing_later();
        let options = LinkOptions { depth: 2, ..LinkOptions::default() };
        let mut run = harness(wait).property("mode", mode).options(options).start().unwrap();
        let mut input = run.input::<u32>("in").unwrap();
        (0..2).for_each(|_| input.send(&[1]).unwrap());
        assert!(matches!(input.try_send(&[1]), Err(Error::Full { .. })));
        std::thread::scope(|scope| {
            scope.spawn(|| send_until_failure(&mut input, why));
            fail.send(()).unwrap();
        });
        check(input.send(&[1]), why);
        check(input.try_send(&[1]), why);
        check(input.loan(1), why);
        check(input.try_loan(1), why);
        check(input.send_many(2, 1, |_, _| ()), why);
        check(input.wait_for_receivers(1, DEADLINE), why);
        // The end of an input needs no room in the queue of a component that is gone.
        input.finish_within(DEADLINE).unwrap();
        assert_eq!(run.finish().unwrap_err().to_string(), why);
    }
}

#[test]
fn requests_during_and_after_a_failure_fail_with_it() {
    for (mode, why) in FAILURES.repeat(20) {
        let (fail, wait) = failing_later();
        let mut run = harness(wait).property("mode", mode).start().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| check(run.set("factor", 2.0), why));
            std::thread::yield_now();
            fail.send(()).unwrap();
        });
        check(run.test("self"), why);
        check(run.set("factor", 3.0), why);
        assert_eq!(run.finish().unwrap_err().to_string(), why);
    }
    // The request is in the queue when the component fails.
    let panics = |_: &str, mut ports: Ports| {
        let mut calls = 0;
        let mut input = ports.input::<u32>("in")?;
        // The first call is before the wait.
        input.receive_with(|| {
            calls += 1;
            assert!(calls == 1, "it panicked");
        })?;
        Ok(())
    };
    check(harness(panics).start().unwrap().set("factor", 2.0), FAILURES[1].1);
    // A component that has ended without a failure.
    let (mut run, mut input, mut out, _) = start("return");
    input.send(&[BAD]).unwrap();
    assert!(out.receive().unwrap().is_none());
    assert!(run.set("factor", 2.0).unwrap_err().to_string().contains("has ended"));
}

#[test]
fn packets_to_a_component_that_has_returned_are_dropped() {
    let options = LinkOptions { depth: 2, ..LinkOptions::default() };
    let mut run = harness(forward).property("mode", "return").options(options).start().unwrap();
    let (mut input, mut out) = (run.input::<u32>("in").unwrap(), run.output::<u32>("out").unwrap());
    input.send(&[BAD]).unwrap();
    assert!(out.receive().unwrap().is_none());
    (0..10).for_each(|_| input.send(&[1]).unwrap());
    assert_eq!(input.receivers(), 0);
    input.finish().unwrap();
    assert!(matches!(out.try_receive().unwrap(), Received::Ended));
    run.finish().unwrap();
}

/// A handler that fails.
struct Fragile;

impl Handler for Fragile {
    type In = u32;
    type Out = u32;

    fn describe() -> ComponentSpec {
        ComponentSpec::new("fragile", "Fails when it gets the wrong sample.")
            .input("in", PortTypes::of::<u32>(), "samples")
            .output("out", PortTypes::of::<u32>(), "the same")
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn handle(&self, packet: PacketView<'_, u32>, made: &mut Vec<u32>) -> Result<()> {
        match packet[0] {
            BAD => Err(Error::failed("it is broken")),
            2 => panic!("it panicked"),
            sample => {
                made.push(sample);
                Ok(())
            }
        }
    }
}

#[test]
fn a_failure_of_a_handler_on_any_number_of_threads_ends_each_receive() {
    let pool = |threads| Dispatch::pool(threads).unwrap();
    let resequence = Some(Resequence::new(16, DEADLINE).unwrap());
    for dispatch in [Dispatch::Queue, Dispatch::Direct, pool(1).in_order(), pool(4), pool(4).in_order()] {
        for (resequence, bad) in [(None, BAD), (None, 2), (resequence, BAD)] {
            let options = LinkOptions { resequence, ..LinkOptions::default() };
            let mut run = Harness::of::<HandlerComponent<Fragile>>()
                .dispatch(dispatch)
                .options(options)
                .start()
                .unwrap();
            let (mut input, mut out) = (run.input::<u32>("in").unwrap(), run.output::<u32>("out").unwrap());
            input.send(&[0]).unwrap();
            // The packet before the failure is finished, whichever thread handles it.
            assert_eq!(sample(&mut out), 0);
            input.send(&[bad]).unwrap();
            let error = out.receive().map(drop).unwrap_err().to_string();
            assert!(
                error.starts_with("the component ended with an error: ") && error.contains("packet 1"),
                "{error}"
            );
            assert!(error.contains(if bad == BAD { "it is broken" } else { "it panicked" }), "{error}");
            assert_eq!(out.receive().map(drop).unwrap_err().to_string(), error);
            drop(input);
            assert!(error.ends_with(&run.finish().unwrap_err().to_string()));
        }
    }
}
