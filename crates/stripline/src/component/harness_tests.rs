//! Tests of a component in a harness.

use std::time::{Duration, Instant};

use super::harness::Harness;
use super::{
    ComponentSpec, Direction, InvalidProperties, PortSpec, PortTypes, Ports, Properties, PropertySpec,
    Registry, Request,
};
use crate::error::{Error, Result};
use crate::node::Received;
use crate::packet::payload::{Cbor, Dynamic, NoSchema, TypeName};
use crate::terms::LinkOptions;

/// A time that only ends a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the registry of a component by value with all kinds of ports and requests.
fn registry() -> Registry {
    let spec = ComponentSpec::new("mixed", "Has everything.")
        .input("in", PortTypes::Any, "samples")
        .output("out", PortTypes::SameAs("in".into()), "the same")
        .port(PortSpec::new("words", Direction::Output, PortTypes::message("word"), "words").optional())
        .property(PropertySpec::float("factor", 1.0, "gain").range(0.0, 10.0).changeable())
        .property(PropertySpec::text("mode", "forward", "the behaviour"))
        .property(PropertySpec::integer("packets", 0, 0, i64::MAX, "packets so far").read_only())
        .test("self", "whether it answers")
        .validated(|properties| match (properties.text("mode"), properties.float("factor")) {
            ("invalid", _) => Err(Error::failed("`mode` is invalid")),
            ("forward", 9.0) => Err(InvalidProperties::new("9 is too much").remedy("take less").into()),
            (_, 8.0) => panic!("the check is broken"),
            _ => Ok(()),
        });
    Registry::new().with_value(spec, |properties: &Properties| {
        let mode = properties.text("mode").to_string();
        if mode == "unable" {
            return Err(Error::failed("it is unable to begin"));
        }
        Ok(run)
    })
}

fn run(mut ports: Ports) -> Result<()> {
    let (requests, packets) = (ports.requests(), ports.status::<u64>("packets")?);
    let mut words = ports.output::<Cbor<String, NoSchema>>("words")?;
    let (mut input, mut output) = (ports.input::<Dynamic>("in")?, ports.output::<Dynamic>("out")?);
    let on_request = || {
        while let Some(request) = requests.request() {
            match request {
                Request::Change(change) if change.properties().float("factor") == 7.0 => {
                    change.refuse("not seven");
                }
                Request::Change(change) => change.accept(),
                Request::Test(test) => test.pass("it does"),
            }
        }
    };
    while let Some(packet) = input.receive_with(on_request)? {
        packets.add(1);
        let mut out = output.loan(packet.samples())?;
        out.copy_from_slice(&packet);
        out.send_like(&packet)?;
        words.send(&format!("{} samples", packet.samples()))?;
    }
    Ok(())
}

fn harness() -> Harness {
    Harness::of_type(&registry(), "mixed").payload("in", &TypeName::of::<u32>())
}

#[test]
fn a_component_by_value_runs_with_fed_inputs() {
    let mut run = harness().property("factor", 2).start().unwrap();
    let (mut input, mut output) = (run.input::<u32>("in").unwrap(), run.output::<u32>("out").unwrap());
    let mut words = run.output::<Cbor<String, NoSchema>>("words").unwrap();
    assert_eq!((input.name(), output.name()), ("test.in", "test.out"));
    let mut loan = input.loan(3).unwrap();
    loan.copy_from_slice(&[1, 2, 3]);
    loan.at_sample(50).send().unwrap();
    let packet = output.receive_timeout(DEADLINE).unwrap().packet().expect("a packet");
    assert_eq!((&*packet, packet.sample_index()), (&[1, 2, 3][..], 50));
    assert_eq!(packet.connection(), "component.out -> test.out");
    drop(packet);
    assert_eq!(words.receive().unwrap().unwrap().decode().unwrap(), "3 samples");
    run.set("factor", 3.5).unwrap();
    assert!(run.set("factor", 7.0).unwrap_err().to_string().contains("not seven"));
    // The check of all properties comes before the component sees the value.
    let refused = run.set("factor", 9.0).unwrap_err();
    assert!(matches!(&refused, Error::InvalidProperties(_)), "{refused:?}");
    assert_eq!(refused.to_string(), "9 is too much: take less");
    assert!(run.set("factor", 8.0).unwrap_err().to_string().contains("the check is broken"));
    assert!(run.set("factor", 11.0).unwrap_err().to_string().contains("from 0 to 10"));
    assert!(run.set("mode", "other").unwrap_err().to_string().contains("cannot be changed"));
    assert!(run.test("self").unwrap().passed);
    assert!(run.test("other").unwrap_err().to_string().contains("no self-test `other`; it has `self`"));
    assert!(run.set("facter", 1.0).unwrap_err().to_string().contains("did you mean `factor`?"));
    assert!(run.input::<u32>("on").map(drop).unwrap_err().to_string().contains("did you mean `in`?"));
    assert!(run.input::<u32>("in").map(drop).unwrap_err().to_string().contains("taken before"));
    assert!(run.output::<u32>("in").map(drop).unwrap_err().to_string().contains("other direction"));
    input.finish().unwrap();
    assert!(output.receive().unwrap().is_none() && words.receive().unwrap().is_none());
    assert_eq!(run.finish().unwrap()["packets"], 1.into());
}

#[test]
fn inputs_that_were_not_taken_end_with_the_run() {
    let run = harness().unconnected("words").start().unwrap();
    assert_eq!(run.finish().unwrap()["packets"], 0.into());
}

#[test]
fn outputs_that_were_not_taken_hold_nothing_up_at_the_end() {
    let options = LinkOptions { depth: 2, ..LinkOptions::default() };
    let mut run = harness().options(options).start().unwrap();
    let mut input = run.input::<u32>("in").unwrap();
    // The component has no room for the result of the third packet. Behind that, there is room
    // for the end of stream.
    (0..3).for_each(|number| input.send(&[number]).unwrap());
    input.finish().unwrap();
    assert_eq!(run.finish().unwrap()["packets"], 3.into());
}

#[test]
fn a_component_that_does_not_end_is_named_and_stopped() {
    let mut run = harness().start().unwrap();
    let mut input = run.input::<u32>("in").unwrap();
    let mut output = run.output::<u32>("out").unwrap();
    let error = run.finish_within(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("not ended within 0.001 s: end its inputs"), "{error}");
    // The component's ports have gone, without an end of stream that would mark a stream as
    // complete.
    let until = Instant::now() + DEADLINE;
    while input.receivers() > 0 {
        assert!(Instant::now() < until, "the component still runs");
        std::thread::yield_now();
    }
    assert!(!matches!(output.receive_timeout(DEADLINE).unwrap(), Received::Packet(_)));
    let run = harness().start().unwrap();
    run.stop();
    run.finish().unwrap();
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let refused = |harness: Harness, why: &str| {
        let error = harness.start().map(drop).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(Harness::of_type(&registry(), "other"), "no component type `other`");
    refused(Harness::of_type(&registry(), "mixed"), "takes any: name one by `payload`");
    refused(harness().payload("inn", &TypeName::of::<u32>()), "has no such port; did you mean `in`?");
    refused(harness().unconnected("in"), "must be connected");
    refused(harness().payload("words", &TypeName::of::<u32>()), "takes message/word, not u32");
    refused(harness().property("factor", 11.0), "from 0 to 10");
    refused(
        harness().property("gain", 1.0),
        "has no property `gain`; its properties are `factor`, `mode` and",
    );
    refused(harness().property("mode", "invalid"), "`mode` is invalid");
    refused(harness().property("mode", "unable"), "it is unable to begin");
    let mut run = harness().start().unwrap();
    assert!(run.input::<i16>("in").map(drop).unwrap_err().to_string().contains("u32"));
}
