//! Tests of the order of packets and requests in a harness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::harness::{Harness, HarnessRun};
use super::{ComponentSpec, Handler, HandlerComponent, PortTypes, Ports, Properties, PropertySpec, Registry};
use crate::error::Result;
use crate::node::{Dispatch, PacketView, Publisher, Subscriber};

/// A property is set this many times, behind one to four packets.
const CHANGES: u32 = 300;

/// Describes a component that multiplies samples by a changeable factor.
fn spec() -> ComponentSpec {
    ComponentSpec::new("gain", "Multiplies samples by a factor.")
        .input("in", PortTypes::of::<u32>(), "samples")
        .output("out", PortTypes::of::<u32>(), "samples times the factor")
        .property(PropertySpec::integer("factor", 1, 1, i64::from(CHANGES) + 1, "gain").changeable())
}

/// Returns a registry with the component as a loop.
fn registry(spec: ComponentSpec, run: fn(Ports, u32) -> Result<()>) -> Registry {
    Registry::new().with_value(spec, move |properties: &Properties| {
        let factor = properties.count("factor") as u32;
        Ok(move |ports: Ports| run(ports, factor))
    })
}

/// Sends packets and sets the factor by turns. Each packet must have the factor before it.
fn check_order(run: &mut HarnessRun) {
    let (mut input, mut output) = (run.input::<u32>("in").unwrap(), run.output::<u32>("out").unwrap());
    for factor in 1..=CHANGES {
        let packets = 1 + factor % 4;
        (0..packets).for_each(|number| input.send(&[number + 1]).unwrap());
        run.set("factor", i64::from(factor) + 1).unwrap();
        for number in 0..packets {
            assert_eq!(*output.receive().unwrap().unwrap(), [(number + 1) * factor], "change {factor}");
        }
    }
    input.finish().unwrap();
}

#[test]
fn a_change_is_behind_the_packets_of_a_loop() {
    let registry = registry(spec(), |mut ports, mut factor| {
        let requests = ports.requests();
        let (mut input, mut output) = (ports.input::<u32>("in")?, ports.output::<u32>("out")?);
        let change = |factor: &mut u32| {
            requests.apply_changes(|new| {
                *factor = new.count("factor") as u32;
                Ok(())
            });
        };
        while let Some(packet) = input.receive_with(|| change(&mut factor))? {
            // A loop may also take requests between the receive and the work.
            change(&mut factor);
            output.loan_copy_of(&[packet[0] * factor])?.send_like(&packet)?;
        }
        Ok(())
    });
    let mut run = Harness::of_type(&registry, "gain").start().unwrap();
    check_order(&mut run);
    run.finish().unwrap();
}

#[test]
fn a_change_is_behind_the_packets_of_a_loop_that_polls() {
    let registry = registry(spec(), |mut ports, mut factor| {
        let requests = ports.requests();
        let (mut input, mut output) = (ports.input::<u32>("in")?, ports.output::<u32>("out")?);
        loop {
            requests.apply_changes(|new| {
                factor = new.count("factor") as u32;
                Ok(())
            });
            match input.try_receive()? {
                crate::Received::Packet(packet) => {
                    output.loan_copy_of(&[packet[0] * factor])?.send_like(&packet)?;
                }
                crate::Received::Empty => std::thread::yield_now(),
                crate::Received::Ended => return Ok(()),
            }
        }
    });
    let mut run = Harness::of_type(&registry, "gain").start().unwrap();
    check_order(&mut run);
    run.finish().unwrap();
}

/// A handler that reads its factor late.
struct Gain(AtomicU64);

impl Handler for Gain {
    type In = u32;
    type Out = u32;

    fn describe() -> ComponentSpec {
        spec()
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self(AtomicU64::new(properties.count("factor"))))
    }

    fn handle(&self, packet: PacketView<'_, u32>, made: &mut Vec<u32>) -> Result<()> {
        // Other threads of the pool may run, and a change must not.
        (0..packet[0]).for_each(|_| std::thread::yield_now());
        made.push(packet[0] * self.0.load(Ordering::Relaxed) as u32);
        Ok(())
    }

    fn configure(&self, properties: &Properties) -> Result<()> {
        self.0.store(properties.count("factor"), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_change_is_behind_the_packets_of_a_handler_on_any_number_of_threads() {
    let pool = |threads| Dispatch::pool(threads).unwrap().in_order();
    for dispatch in [Dispatch::Queue, Dispatch::Direct, pool(1), pool(4)] {
        let mut run = Harness::of::<HandlerComponent<Gain>>().dispatch(dispatch).start().unwrap();
        check_order(&mut run);
        run.finish().unwrap();
    }
}

/// Returns a component that waits at the input `a` before it takes a packet of `b`.
fn adder(step: fn(&mut Subscriber<u32>, &mut Publisher<u32>, u32, u32) -> Result<()>) -> Registry {
    let spec = spec().input("other", PortTypes::of::<u32>(), "samples to add");
    Registry::new().with_value(spec, move |properties: &Properties| {
        let mut factor = properties.count("factor") as u32;
        Ok(move |mut ports: Ports| {
            let requests = ports.requests();
            let (mut first, mut other) = (ports.input::<u32>("in")?, ports.input::<u32>("other")?);
            let mut output = ports.output::<u32>("out")?;
            while let Some(packet) = first.receive_with(|| {
                requests.apply_changes(|new| {
                    factor = new.count("factor") as u32;
                    Ok(())
                });
            })? {
                step(&mut other, &mut output, packet[0], factor)?;
            }
            Ok(())
        })
    })
}

#[test]
fn a_component_that_waits_at_one_input_leaves_the_packets_of_another() {
    let registry = adder(|other, output, sample, factor| {
        let sum = other.receive()?.map_or(0, |packet| packet[0]) + sample;
        output.send(&[sum * factor])
    });
    let mut run = Harness::of_type(&registry, "gain").start().unwrap();
    let (mut first, mut other) = (run.input::<u32>("in").unwrap(), run.input::<u32>("other").unwrap());
    let mut output = run.output::<u32>("out").unwrap();
    for factor in 1..=CHANGES {
        // The component cannot take the second packet of `other` yet.
        other.send(&[1]).unwrap();
        if factor == 1 {
            other.send(&[1]).unwrap();
        }
        first.send(&[factor]).unwrap();
        run.set("factor", i64::from(factor) + 1).unwrap();
        assert_eq!(*output.receive().unwrap().unwrap(), [(factor + 1) * factor]);
    }
    first.finish().unwrap();
    run.finish().unwrap();
}

#[test]
fn a_component_that_leaves_packets_is_named_with_the_input() {
    let registry = registry(spec(), |mut ports, _| {
        let _requests = ports.requests();
        let _input = ports.input::<u32>("in")?;
        ports.stop_signal().sleep(Duration::from_secs(60))
    });
    let mut run = Harness::of_type(&registry, "gain").start().unwrap();
    let unasked = |run: &mut HarnessRun| {
        run.set_while("factor", 2, Duration::from_millis(1), || true).unwrap_err().to_string()
    };
    // Nothing can be before this change.
    assert!(unasked(&mut run).contains("has taken no request"));
    run.input::<u32>("in").unwrap().send(&[1]).unwrap();
    let problem = unasked(&mut run);
    assert!(problem.contains("next packet of `in` within 0.001 s"), "{problem}");
    run.stop();
    run.finish().unwrap();
}
