//! One component in this process, with ports that a test feeds and reads.

use std::cell::UnsafeCell;
use std::time::Duration;

use stripline::component::{Access, ComponentSpec, Registry, Value};
use stripline::internal::unknown_property;
use stripline::node::PortName;
use stripline::payload::{Dynamic, TypeName};
use stripline_bindings::{self as bindings, measured};

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::handle::{Head, Headed, drop_quietly};
use crate::publisher::Publisher;
use crate::sample_type::SampleType;
use crate::sized;
use crate::status::Status;
use crate::subscriber::{Subscriber, SubscriberOptions};
use crate::text::Text;
use crate::time::timeout;

use super::Component;

/// A harness, which runs one component in this process, for a test that feeds the inputs, reads the
/// outputs, and changes the properties. The connections use `inproc`. Only one thread at a time may
/// use it.
pub struct Harness {
    head: Head,
    inside: UnsafeCell<Inside>,
}

struct Inside {
    harness: bindings::Harness,
    /// The texts that the last calls returned.
    value: String,
    remark: String,
}

/// The result of a self-test.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TestOutcome {
    /// `sizeof(stripline_test_outcome)`, set by the caller.
    pub size: usize,
    /// 1 if the test passed, and otherwise 0.
    pub passed: u32,
    /// 1 if the test has measured `value`.
    pub has_value: u32,
    /// The measured value.
    pub value: f64,
    /// A line for users, valid until the next test and until the harness is freed.
    pub text: Text,
}

sized::sized!(
    TestOutcome, "stripline_test_outcome",
    size: usize, passed: u32, has_value: u32, value: f64, text: Text,
);

impl Headed for Harness {
    const NAME: &'static str = "harness";

    fn head(&self) -> &Head {
        &self.head
    }
}

impl Handle<Harness> {
    /// Runs a call.
    fn call(&self, call: impl FnOnce(&mut Inside) -> Result<Status, Failure>) -> Result<Status, Failure> {
        // SAFETY: this call has entered the head, so no other call has a reference.
        self.enter(|found| call(unsafe { &mut *found.inside.get() }))
    }

    /// Runs a call that returns nothing.
    fn change(
        &self,
        error: ErrorOut,
        change: impl FnOnce(&mut bindings::Harness) -> Result<(), Failure>,
    ) -> Status {
        error.finish(self.call(|inside| change(&mut inside.harness).map(|()| Status::Ok)))
    }
}

/// Parses the text of a value.
fn parse(spec: &ComponentSpec, property: &str, value: &str) -> Result<Value, Failure> {
    let missing = || Failure::argument(unknown_property(spec, property));
    spec.find_property(property).ok_or_else(missing)?.parse(value).map_err(Failure::argument)
}

/// Makes a harness of a component type.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` if the type declares an item without a function.
///
/// - Ownership: the caller frees the harness, before or after the component.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_new(
    component: Ref<Component>,
    harness: Out<*mut Harness>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        harness.check("harness")?;
        let component = component.get("component")?;
        let registry = component.add_to(Registry::new())?;
        let spec = registry.specs().values().next().cloned();
        let spec = spec.ok_or_else(|| Failure::argument("there is no component type"))?;
        let inside = Inside {
            harness: bindings::Harness::new(&registry, spec),
            value: String::new(),
            remark: String::new(),
        };
        harness.give("harness", Harness { head: Head::new(), inside: UnsafeCell::new(inside) })
    })
}

/// Sets a property to the value in a text, in the format of `stripline set`. Before the start, this
/// sets the initial value; properties that are not set have their defaults. Later it changes the
/// property of the running component: packets that were sent to its inputs before this call are
/// handled with the old value, and later ones with the new value.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that does not exist, and for an invalid
/// value. Fails with `STRIPLINE_INVALID_PROPERTIES` if the component refuses the value: the
/// message contains the reason.
///
/// - Ownership: nothing is kept.
/// - Blocking: until the component has taken or refused the value, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_set(
    harness: Handle<Harness>,
    property: Str,
    value: Str,
    error: ErrorOut,
) -> Status {
    harness.change(error, |harness| {
        let (property, value) = (property.required("property")?, value.required("value")?);
        let value = parse(harness.spec(), property, value)?;
        if harness.is_prepared() {
            return harness.prepare(|harness| harness.property(property, value));
        }
        Ok(harness.run()?.set(property, value)?)
    })
}

/// Sets the type of a port that takes several. `type` has the format of an item of
/// `stripline_port.types`. Only before the start.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_set_type(
    harness: Handle<Harness>,
    port: Str,
    r#type: Str,
    error: ErrorOut,
) -> Status {
    harness.change(error, |harness| {
        let (port, name) = (port.required("port")?, r#type.required("type")?);
        let name = TypeName::parse(name).map_err(|error| Failure::argument(format!("`type`: {error}")))?;
        harness.prepare(|harness| harness.payload(port, &name))
    })
}

/// Leaves an optional port unconnected. All other ports are connected. Only before the start.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_leave_unconnected(
    harness: Handle<Harness>,
    port: Str,
    error: ErrorOut,
) -> Status {
    harness.change(error, |harness| {
        let port = port.required("port")?;
        harness.prepare(|harness| harness.unconnected(port))
    })
}

/// Sets the options of all connections, and the threads of a handler. The text is a topics file
/// with the table `[default]`: `depth = 2`, `dispatch = "pool(4)"` (`docs/waveform-file.md`).
/// Only before the start.
///
/// Fails with `STRIPLINE_CONFIGURATION` for an invalid text.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_set_options(
    harness: Handle<Harness>,
    topics: Str,
    error: ErrorOut,
) -> Status {
    harness.change(error, |harness| harness.set_options(topics.required("topics")?))
}

/// Creates the component, connects the ports, and runs it on another thread. If the component fails
/// later, calls of the harness's publishers and subscribers fail with `STRIPLINE_FAILED` and the
/// reason. Packets that the component sent before the failure are received first.
///
/// Fails with `STRIPLINE_INVALID_PROPERTIES` if the specification refuses the properties, and with
/// `STRIPLINE_FAILED` if the component does.
/// Fails with `STRIPLINE_PORT` for a port without a type, and for an unconnected port that is not
/// optional.
///
/// - Ownership: the caller keeps the harness.
/// - Blocking: until the component is created.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_start(harness: Handle<Harness>, error: ErrorOut) -> Status {
    harness.change(error, bindings::Harness::start)
}

/// Takes the sending end of an input, once. `type` is the type of the samples.
///
/// Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if it has
/// another type.
///
/// - Ownership: the caller frees the publisher, which ends the input's stream, before it calls
///   `stripline_harness_finish`. `type` is not kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_input(
    harness: Handle<Harness>,
    port: Str,
    r#type: Ref<SampleType>,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        let make = |port: PortName<'_, Dynamic>| Ok(inside.harness.run()?.input(port)?);
        publisher.open((port, "port"), |_| r#type.port_type(), None, make)
    }))
}

/// Takes the receiving end of an output, once, as `stripline_harness_input` takes the sending end
/// of an input. If an output is not taken, the packets wait, and may block the component.
///
/// - Ownership: the caller frees the subscriber. `type` and `options` are not kept; `options` may
///   be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_output(
    harness: Handle<Harness>,
    port: Str,
    r#type: Ref<SampleType>,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        let make = |port: PortName<'_, Dynamic>| Ok(inside.harness.run()?.output(port)?);
        subscriber.open((port, "port"), |_| r#type.port_type(), &options, None, make)
    }))
}

/// Takes the sending end of an input of messages, like `stripline_harness_input`. `type` is the
/// same as for `stripline_message_publisher_new`.
///
/// - Ownership: as for `stripline_harness_input`. `type` may be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_message_input(
    harness: Handle<Harness>,
    port: Str,
    r#type: Str,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        let make = |port: PortName<'_, Dynamic>| Ok(inside.harness.run()?.input(port)?);
        publisher.open((port, "port"), |_| r#type.message_type(), None, make)
    }))
}

/// Takes the receiving end of an output of messages, like `stripline_harness_output`. `type` is the
/// same as for `stripline_message_subscriber_new`.
///
/// - Ownership: the caller frees the subscriber. `type` and `options` may be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_message_output(
    harness: Handle<Harness>,
    port: Str,
    r#type: Str,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        let make = |port: PortName<'_, Dynamic>| Ok(inside.harness.run()?.output(port)?);
        subscriber.open((port, "port"), |_| r#type.message_type(), &options, None, make)
    }))
}

/// Runs a self-test of the component. A failed test is an outcome, not an error.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a test that does not exist, and with
/// `STRIPLINE_FAILED` if the component has ended or takes no requests.
///
/// - Ownership: the text of the outcome belongs to the harness.
/// - Blocking: until the test has ended, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_test(
    harness: Handle<Harness>,
    test: Str,
    outcome: Out<TestOutcome>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        outcome.check("outcome")?;
        let result = inside.harness.run()?.test(test.required("test")?)?;
        let value = measured(&result);
        inside.remark = result.text;
        outcome.write(&TestOutcome {
            size: 0,
            passed: result.passed.into(),
            has_value: value.is_some().into(),
            value: value.unwrap_or(0.0),
            text: Text::of(&inside.remark),
        })
    }))
}

/// Gets the current value of a read-only property as a text, in the format of `stripline get`.
/// After the end of the component, this is the last value.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not read-only, and with
/// `STRIPLINE_FAILED` for a value out of the property's range.
///
/// - Ownership: the text is valid until the next call of this function, and until the harness is
///   freed.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_get(
    harness: Handle<Harness>,
    property: Str,
    value: Out<Text>,
    error: ErrorOut,
) -> Status {
    error.finish(harness.call(|inside| {
        value.check("value")?;
        let (property, spec) = (property.required("property")?, inside.harness.spec());
        if spec.find_property(property).is_none_or(|known| known.access != Access::ReadOnly) {
            let component = &spec.name;
            return Err(Failure::argument(format!(
                "component type `{component}` has no read-only property `{property}`"
            )));
        }
        let unknown = || Failure::new(Status::Failed, format!("the value of `{property}` is unknown"));
        inside.value = inside.harness.values()?.get(property).ok_or_else(unknown)?.to_string();
        value.put("value", Text::of(&inside.value))
    }))
}

/// Stops the component: from now on the ports return `STRIPLINE_STOPPED`.
///
/// - Ownership: the caller keeps the harness.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_stop(harness: Handle<Harness>, error: ErrorOut) -> Status {
    harness.change(error, |harness| {
        harness.run()?.stop();
        Ok(())
    })
}

/// Ends the ports that were not taken, and waits for the end of the component. The program must
/// first end the inputs that it has taken.
///
/// Fails with the failure of the component. Fails with `STRIPLINE_FAILED` if the component does not
/// end in time; it is then stopped.
///
/// - Ownership: the caller keeps the harness.
/// - Blocking: up to `timeout_ns`; 0 (or any negative number) waits up to a minute.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_finish(
    harness: Handle<Harness>,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    let limit = timeout(timeout_ns).filter(|time| *time > Duration::ZERO);
    harness.change(error, |harness| harness.finish(limit))
}

/// Frees a harness; NULL is allowed. A running component is stopped, and ends later.
///
/// - Ownership: ends with this call. A second call with the same harness is undefined.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_harness_free(harness: Handle<Harness>) {
    let Some(found) = harness.as_ref() else { return };
    if found.head.begin_free() {
        drop_quietly(harness.into_box());
    }
}
