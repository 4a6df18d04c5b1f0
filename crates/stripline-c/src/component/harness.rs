//! One component in this process, with ports that a test feeds and reads.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::time::Duration;

use stripline::component::harness::{Harness as RustHarness, HarnessRun};
use stripline::component::{ComponentSpec, Registry, TestResult, Value};
use stripline::node::Topics;
use stripline::payload::{Dynamic, TypeName};

use crate::error::{Error, Failure};
use crate::handle::{Head, drop_quietly, guard};
use crate::message_type;
use crate::publisher::Publisher;
use crate::sample_type::{self, SampleType};
use crate::sized;
use crate::status::Status;
use crate::subscriber::{Subscriber, SubscriberOptions};
use crate::text::{self, Text};
use crate::time::timeout;

use super::Component;

/// A harness. It runs one component in this process, for a test that feeds the inputs, reads the
/// outputs, and changes the properties. The connections use `inproc`. Only one thread at a time may
/// use it.
pub struct Harness {
    head: Head,
    inside: UnsafeCell<Inside>,
}

struct Inside {
    state: State,
    spec: ComponentSpec,
    /// The texts that the last calls returned.
    value: String,
    remark: String,
}

enum State {
    /// Boxed, because the other variant is smaller.
    Prepared(Box<RustHarness>),
    Running(Box<HarnessRun>),
    /// Contains the values of the read-only properties.
    Ended(BTreeMap<String, Value>),
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

impl Harness {
    /// Runs a call.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    unsafe fn call(
        harness: *mut Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut Inside) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller makes the same promise.
        let Some(found) = (unsafe { harness.as_ref() }) else {
            // SAFETY: the caller makes the same promise.
            return unsafe { Failure::null("harness").report(error) };
        };
        // SAFETY: this call has entered the head, so no other call has a reference.
        let inside = || call(unsafe { &mut *found.inside.get() });
        // SAFETY: the caller makes the same promise.
        unsafe { found.head.enter(error, inside) }
    }
}

impl Inside {
    fn prepare(&mut self, change: impl FnOnce(RustHarness) -> RustHarness) -> Result<Status, Failure> {
        let State::Prepared(harness) = &mut self.state else {
            return Err(Failure::new(Status::Port, "the component was started before; make another harness"));
        };
        let unused = RustHarness::of_type(&Registry::new(), "");
        **harness = change(std::mem::replace(harness, unused));
        Ok(Status::Ok)
    }

    fn run(&mut self) -> Result<&mut HarnessRun, Failure> {
        let problem = match &mut self.state {
            State::Running(run) => return Ok(run),
            State::Prepared(_) => "the component was not started: call `stripline_harness_start`",
            State::Ended(_) => "the component has ended",
        };
        Err(Failure::new(Status::Port, problem))
    }

    /// Parses the text of a value.
    fn parse(&self, property: &str, value: &str) -> Result<Value, Failure> {
        let component = &self.spec.name;
        let missing =
            || Failure::argument(format!("component type `{component}` has no property `{property}`"));
        let known = self.spec.find_property(property).ok_or_else(missing)?;
        known.parse(value).map_err(Failure::argument)
    }
}

/// Makes a harness of a component type.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` if the type declares an item without a function.
///
/// - Ownership: the caller frees the harness, before or after the component.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_new(
    component: *const Component,
    harness: *mut *mut Harness,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(harness, "harness")?;
        // SAFETY: the program follows the header's rule for handles.
        let component = unsafe { component.as_ref() }.ok_or_else(|| Failure::null("component"))?;
        let registry = component.add_to(Registry::new())?;
        let spec = registry.specs().values().next().cloned();
        let spec = spec.ok_or_else(|| Failure::new(Status::Failed, "there is no component type"))?;
        let state = State::Prepared(Box::new(RustHarness::of_type(&registry, &spec.name)));
        let inside = Inside { state, spec, value: String::new(), remark: String::new() };
        let made = Box::new(Harness { head: Head::new(), inside: UnsafeCell::new(inside) });
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(harness, "harness", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Sets a property to the value in a text, in the format of `stripline set`. Before the start, this
/// sets the initial value; properties that are not set have their defaults. Later it changes the
/// property of the running component.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that does not exist, and for an invalid
/// value. Fails with `STRIPLINE_FAILED` if the component refuses the value: the message contains
/// the reason.
///
/// - Ownership: nothing is kept.
/// - Blocking: until the component has taken or refused the value, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_set(
    harness: *mut Harness,
    property: *const c_char,
    value: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let set = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rule for texts.
        let (property, value) =
            unsafe { (text::required(property, "property")?, text::required(value, "value")?) };
        let value = inside.parse(property, value)?;
        if matches!(inside.state, State::Prepared(_)) {
            return inside.prepare(|harness| harness.property(property, value));
        }
        inside.run()?.set(property, value)?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, set) }
}

/// Sets the type of a port that takes several. `type` has the format of an item of
/// `stripline_port.types`. Only before the start.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_set_type(
    harness: *mut Harness,
    port: *const c_char,
    r#type: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let set = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rule for texts.
        let (port, name) = unsafe { (text::required(port, "port")?, text::required(r#type, "type")?) };
        let name = TypeName::parse(name).map_err(|error| Failure::argument(format!("`type`: {error}")))?;
        inside.prepare(|harness| harness.payload(port, &name))
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, set) }
}

/// Leaves an optional port unconnected. All other ports are connected. Only before the start.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_leave_unconnected(
    harness: *mut Harness,
    port: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let leave = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rule for texts.
        let port = unsafe { text::required(port, "port") }?;
        inside.prepare(|harness| harness.unconnected(port))
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, leave) }
}

/// Sets the options of all connections, and the threads of a handler. The text is a topics file
/// with the table `[default]`: `depth = 2`, `dispatch = "pool(4)"` (`docs/waveform-file.md`).
/// Only before the start.
///
/// Fails with `STRIPLINE_FAILED` for an invalid text.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_set_options(
    harness: *mut Harness,
    topics: *const c_char,
    error: *mut *mut Error,
) -> Status {
    let set = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rule for texts.
        let topics = Topics::parse(unsafe { text::required(topics, "topics") }?)?;
        // The empty name matches no topic, so this returns the defaults.
        let options = topics.of("");
        inside.prepare(|harness| harness.options(options.link).dispatch(options.dispatch))
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, set) }
}

/// Creates the component, connects the ports, and runs it on another thread.
///
/// Fails with `STRIPLINE_FAILED` if the specification or the component refuses the properties.
/// Fails with `STRIPLINE_PORT` for a port without a type, and for an unconnected port that is not
/// optional.
///
/// - Ownership: the harness stays the caller's.
/// - Blocking: until the component is created.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_start(harness: *mut Harness, error: *mut *mut Error) -> Status {
    let start = |inside: &mut Inside| {
        if !matches!(inside.state, State::Prepared(_)) {
            return inside.prepare(|harness| harness);
        }
        // A component that could not start cannot be started later.
        let State::Prepared(harness) = std::mem::replace(&mut inside.state, State::Ended(BTreeMap::new()))
        else {
            unreachable!("checked above")
        };
        inside.state = State::Running(Box::new(harness.start()?));
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, start) }
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
pub unsafe extern "C" fn stripline_harness_input(
    harness: *mut Harness,
    port: *const c_char,
    r#type: *const SampleType,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let take = |inside: &mut Inside| {
        text::check_place(publisher, "publisher")?;
        // SAFETY: the program follows the header's rules for structures and texts.
        let (port, samples) = unsafe { (text::required(port, "port")?, sample_type::read(r#type)?) };
        let made = Publisher::new(inside.run()?.input::<Dynamic>((port, &samples))?);
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(publisher, "publisher", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, take) }
}

/// Takes the receiving end of an output, once, as `stripline_harness_input` takes the sending end
/// of an input. If an output is not taken, the packets wait, and may block the component.
///
/// - Ownership: the caller frees the subscriber. `type` and `options` are not kept; `options` may
///   be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_output(
    harness: *mut Harness,
    port: *const c_char,
    r#type: *const SampleType,
    options: *const SubscriberOptions,
    subscriber: *mut *mut Subscriber,
    error: *mut *mut Error,
) -> Status {
    let take = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rules for structures and texts.
        let (port, samples) = unsafe { (text::required(port, "port")?, sample_type::read(r#type)?) };
        let run = inside.run()?;
        // SAFETY: as above; the program also follows the header's rule for results.
        unsafe { Subscriber::give(subscriber, options, None, || run.output::<Dynamic>((port, &samples))) }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, take) }
}

/// Takes the sending end of an input of messages, like `stripline_harness_input`. `type` is the
/// same as for `stripline_message_publisher_new`.
///
/// - Ownership: as for `stripline_harness_input`. `type` may be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_message_input(
    harness: *mut Harness,
    port: *const c_char,
    r#type: *const c_char,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let take = |inside: &mut Inside| {
        text::check_place(publisher, "publisher")?;
        // SAFETY: the program follows the header's rule for texts.
        let (port, messages) = unsafe { (text::required(port, "port")?, message_type::read(r#type)?) };
        let made = Publisher::new(inside.run()?.input::<Dynamic>((port, &messages))?);
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(publisher, "publisher", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, take) }
}

/// Takes the receiving end of an output of messages, like `stripline_harness_output`. `type` is the
/// same as for `stripline_message_subscriber_new`.
///
/// - Ownership: the caller frees the subscriber. `type` and `options` may be NULL.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_message_output(
    harness: *mut Harness,
    port: *const c_char,
    r#type: *const c_char,
    options: *const SubscriberOptions,
    subscriber: *mut *mut Subscriber,
    error: *mut *mut Error,
) -> Status {
    let take = |inside: &mut Inside| {
        // SAFETY: the program follows the header's rules for structures and texts.
        let (port, messages) = unsafe {
            SubscriberOptions::check_for_messages(options)?;
            (text::required(port, "port")?, message_type::read(r#type)?)
        };
        let run = inside.run()?;
        // SAFETY: as above; the program also follows the header's rule for results.
        unsafe { Subscriber::give(subscriber, options, None, || run.output::<Dynamic>((port, &messages))) }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, take) }
}

/// Runs a self-test of the component. A failed test is an outcome, not an error.
///
/// Fails with `STRIPLINE_FAILED` for a test that does not exist, and if the component has ended or
/// takes no requests.
///
/// - Ownership: the text of the outcome belongs to the harness.
/// - Blocking: until the test has ended, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_test(
    harness: *mut Harness,
    test: *const c_char,
    outcome: *mut TestOutcome,
    error: *mut *mut Error,
) -> Status {
    let run = |inside: &mut Inside| {
        text::check_place(outcome, "outcome")?;
        // SAFETY: the program follows the header's rule for texts.
        let test = unsafe { text::required(test, "test") }?;
        let TestResult { passed, value, text } = inside.run()?.test(test)?;
        inside.remark = text;
        let value = match value {
            Some(Value::Float(value)) => Some(value),
            _ => None,
        };
        let given = TestOutcome {
            size: 0,
            passed: passed.into(),
            has_value: value.is_some().into(),
            value: value.unwrap_or(0.0),
            text: Text::of(&inside.remark),
        };
        // SAFETY: the program follows the header's rule for structures.
        unsafe { sized::write(outcome, &given) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, run) }
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
pub unsafe extern "C" fn stripline_harness_get(
    harness: *mut Harness,
    property: *const c_char,
    value: *mut Text,
    error: *mut *mut Error,
) -> Status {
    let get = |inside: &mut Inside| {
        text::check_place(value, "value")?;
        // SAFETY: the program follows the header's rule for texts.
        let property = unsafe { text::required(property, "property") }?;
        let known = inside.spec.find_property(property);
        if known.is_none_or(|known| known.access != stripline::component::Access::ReadOnly) {
            let component = &inside.spec.name;
            return Err(Failure::argument(format!(
                "component type `{component}` has no read-only property `{property}`"
            )));
        }
        let values = match &inside.state {
            State::Ended(values) => values.clone(),
            _ => inside.run()?.values(),
        };
        let unknown = || Failure::new(Status::Failed, format!("the value of `{property}` is unknown"));
        inside.value = values.get(property).ok_or_else(unknown)?.to_string();
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(value, "value", Text::of(&inside.value)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, get) }
}

/// Stops the component: from now on the ports return `STRIPLINE_STOPPED`.
///
/// - Ownership: the harness stays the caller's.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_stop(harness: *mut Harness, error: *mut *mut Error) -> Status {
    let stop = |inside: &mut Inside| {
        inside.run()?.stop();
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, stop) }
}

/// Ends the ports that were not taken, and waits for the end of the component. The program must
/// first end the inputs that it has taken.
///
/// Fails with the failure of the component. Fails with `STRIPLINE_FAILED` if the component does not
/// end in time; it is then stopped.
///
/// - Ownership: the harness stays the caller's.
/// - Blocking: up to `timeout_ns`; 0 (or any negative number) waits up to a minute.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_finish(
    harness: *mut Harness,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let finish = |inside: &mut Inside| {
        inside.run()?;
        let State::Running(run) = std::mem::replace(&mut inside.state, State::Ended(BTreeMap::new())) else {
            unreachable!("checked above")
        };
        let values = match timeout(timeout_ns).filter(|time| *time > Duration::ZERO) {
            Some(time) => run.finish_within(time)?,
            None => run.finish()?,
        };
        inside.state = State::Ended(values);
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Harness::call(harness, error, finish) }
}

/// Frees a harness; NULL is allowed. A running component is stopped, and ends later.
///
/// - Ownership: ends here. A second call with the same harness is undefined.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_harness_free(harness: *mut Harness) {
    // SAFETY: the program follows the header's rule for handles.
    let Some(found) = (unsafe { harness.as_ref() }) else { return };
    if found.head.begin_free() {
        // SAFETY: made by `stripline_harness_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(harness) });
    }
}
