//! The ports of a running component.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use stripline::Received;
use stripline::component::{ControlRequests, Ports as RustPorts, StopSignal};
use stripline::payload::TypeName;

use crate::error::{Error, Failure};
use crate::handle::{AtEnd, guard, panicked};
use crate::message_type;
use crate::packet::Packet;
use crate::publisher::Publisher;
use crate::sample_type::{self, SampleType};
use crate::status::Status;
use crate::subscriber::{Source, Subscriber, SubscriberOptions};
use crate::text::{self, Text};

use super::instance::Instance;
use super::open;
use super::{Given, Readout};

/// The ports of a component, already connected, and other facts about the waveform. They are valid
/// until the component's function returns.
///
/// Publishers, subscribers and readouts taken from the ports end then as well, and so do an open
/// loan and a received packet. The program may free publishers and subscribers earlier.
pub struct Ports {
    ports: UnsafeCell<RustPorts>,
    instance: Arc<Instance>,
    /// `None` for a component without a function for requests.
    requests: Option<ControlRequests>,
    stop: StopSignal,
    given: Arc<Given>,
    // Boxed, so that a readout does not move when another is added.
    #[allow(clippy::vec_box, reason = "the program has their addresses")]
    readouts: UnsafeCell<Vec<Box<Readout>>>,
}

impl Ports {
    pub(super) fn new(ports: RustPorts, instance: Arc<Instance>) -> Self {
        let requests = instance.takes_requests().then(|| ports.requests());
        Self {
            stop: ports.stop_signal(),
            ports: UnsafeCell::new(ports),
            instance,
            requests,
            given: Given::new(),
            readouts: UnsafeCell::new(Vec::new()),
        }
    }

    /// Ends everything that was taken from the ports, and returns the ports.
    ///
    /// # Safety
    /// The program must not use anything from the ports again.
    pub(super) unsafe fn end(self) -> RustPorts {
        // SAFETY: the caller makes the same promise.
        unsafe { self.given.end() };
        self.ports.into_inner()
    }

    /// Returns the ports behind a handle.
    ///
    /// # Safety
    /// `ports` must be NULL, or valid for `'a`.
    unsafe fn get<'a>(ports: *const Self) -> Result<&'a Self, Failure> {
        // SAFETY: the caller makes the same promise.
        unsafe { ports.as_ref() }.ok_or_else(|| Failure::null("ports"))
    }

    /// Returns the ports of the library.
    ///
    /// # Safety
    /// The caller must be on the thread of the ports, and hold no other reference.
    #[allow(clippy::mut_from_ref, reason = "one thread uses them, and no call of it calls another")]
    unsafe fn link(&self) -> &mut RustPorts {
        // SAFETY: the caller makes the same promise.
        unsafe { &mut *self.ports.get() }
    }

    fn serve_requests(&self) {
        if let Some(requests) = &self.requests {
            self.instance.serve(requests);
        }
    }

    /// Takes the named input.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles, texts, structures, results and
    /// `error`.
    unsafe fn take_input(
        ports: *mut Self,
        port: *const c_char,
        options: *const SubscriberOptions,
        subscriber: *mut *mut Subscriber,
        error: *mut *mut Error,
        of: impl FnOnce() -> Result<Option<open::PortType>, Failure>,
    ) -> Status {
        let take = || {
            // SAFETY: the caller makes the same promise.
            let (found, port, of) = unsafe { (Self::get(ports)?, text::required(port, "port")?, of()?) };
            // SAFETY: the program calls on the thread of the ports, as the header requires.
            let link = unsafe { found.link() };
            let of = open::resolved(&found.instance.spec, link, port, of)?;
            // SAFETY: the caller makes the same promise.
            unsafe {
                of.check_options(options)?;
                Subscriber::give(subscriber, options, Some(&found.given), || of.input(link, port))
            }
        };
        // SAFETY: the caller makes the same promise.
        unsafe { guard(error, take) }
    }

    /// Takes the named output.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles, texts, results and `error`.
    unsafe fn take_output(
        ports: *mut Self,
        port: *const c_char,
        publisher: *mut *mut Publisher,
        error: *mut *mut Error,
        of: impl FnOnce() -> Result<Option<open::PortType>, Failure>,
    ) -> Status {
        let take = || {
            text::check_place(publisher, "publisher")?;
            // SAFETY: the caller makes the same promise.
            let (found, port, of) = unsafe { (Self::get(ports)?, text::required(port, "port")?, of()?) };
            // SAFETY: the program calls on the thread of the ports, as the header requires.
            let link = unsafe { found.link() };
            let of = open::resolved(&found.instance.spec, link, port, of)?;
            let made = Publisher::given(of.output(link, port)?, Some(&found.given));
            // SAFETY: the caller makes the same promise.
            unsafe { text::put(publisher, "publisher", made) }?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { guard(error, take) }
    }

    /// Runs a call of a subscriber in which functions for requests may run.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    unsafe fn receive(
        ports: *mut Self,
        subscriber: *mut Subscriber,
        error: *mut *mut Error,
        receive: impl FnOnce(&Self, &Subscriber) -> Result<Status, Failure>,
    ) -> Status {
        let begin = || {
            // SAFETY: the caller makes the same promise.
            let (ports, found) = unsafe { (Self::get(ports)?, Subscriber::get(subscriber)?) };
            found.head().begin()?;
            Ok((ports, found))
        };
        let (ports, found) = match begin() {
            Ok(both) => both,
            // SAFETY: the caller makes the same promise.
            Err(failure) => return unsafe { Failure::report(failure, error) },
        };
        let inside = || if found.is_lent() { Err(found.still_lent()) } else { receive(ports, found) };
        let outcome = catch_unwind(AssertUnwindSafe(inside));
        if found.head().end(outcome.is_err()) == AtEnd::Free {
            // SAFETY: a function for requests has freed the subscriber, and the program does not
            // use it again.
            unsafe { Subscriber::free_after_call(subscriber) };
        }
        let outcome = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
        // SAFETY: the caller makes the same promise.
        outcome.unwrap_or_else(|failure| unsafe { failure.report(error) })
    }
}

/// Returns the component's name in the waveform. It is empty for NULL.
///
/// - Ownership: the text is valid as long as the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_component(ports: *const Ports) -> Text {
    // SAFETY: the program follows the header's rule for handles, on the thread of the ports.
    unsafe { ports.as_ref().map_or(Text::of(""), |found| Text::of(found.link().component())) }
}

/// Returns 1 if the user wants only warnings and errors (`stripline run --quiet`), and otherwise 0.
/// In this case, a component prints nothing on the terminal.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_is_quiet(ports: *const Ports) -> i32 {
    // SAFETY: the program follows the header's rule for handles, on the thread of the ports.
    unsafe { ports.as_ref().is_some_and(|found| found.link().is_quiet()).into() }
}

/// Gets the type of a port in this waveform, with the layout or schema. It is empty for a port that
/// is not connected or does not exist.
///
/// - Ownership: the text is valid as long as the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_type(
    ports: *const Ports,
    port: *const c_char,
    r#type: *mut Text,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, texts and results, on the thread
    // of the ports.
    let give = || unsafe {
        let (found, port) = (Ports::get(ports)?, text::required(port, "port")?);
        let name = found.link().payload(port).map_or("", TypeName::full_text);
        text::put(r#type, "type", Text::of(name))?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, give) }
}

/// Takes an input. `type` is the type of the samples. NULL selects the type that the waveform gives
/// the input, or else the type that the component declares. This may also be a message type. An
/// input that is not connected is at its end of stream.
///
/// Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if the
/// waveform gives it another type. Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type or
/// option. If an option is invalid, the input still counts as taken.
///
/// - Ownership: the subscriber belongs to the ports. `type` and `options` may be NULL and are not
///   kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_input(
    ports: *mut Ports,
    port: *const c_char,
    r#type: *const SampleType,
    options: *const SubscriberOptions,
    subscriber: *mut *mut Subscriber,
    error: *mut *mut Error,
) -> Status {
    let of = || {
        // SAFETY: the program follows the header's rules for structures and texts.
        let given = (!r#type.is_null()).then(|| unsafe { sample_type::read(r#type) });
        Ok(given.transpose()?.map(open::PortType::Samples))
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Ports::take_input(ports, port, options, subscriber, error, of) }
}

/// Takes an output, as `stripline_ports_input` takes an input. Packets sent to an output that is
/// not connected are discarded.
///
/// When the component's function returns 0, the stream ends. After a failure it does not, because
/// the component may be started again.
///
/// - Ownership: the publisher belongs to the ports. `type` may be NULL and is not kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_output(
    ports: *mut Ports,
    port: *const c_char,
    r#type: *const SampleType,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let of = || {
        // SAFETY: the program follows the header's rules for structures and texts.
        let given = (!r#type.is_null()).then(|| unsafe { sample_type::read(r#type) });
        Ok(given.transpose()?.map(open::PortType::Samples))
    };
    // SAFETY: the program follows the header's rules.
    unsafe { Ports::take_output(ports, port, publisher, error, of) }
}

/// Takes an input of messages, as bytes of CBOR. `type` is the same as for
/// `stripline_message_subscriber_new`.
///
/// Fails like `stripline_ports_input`, and for the option `windowed`.
///
/// - Ownership: the subscriber belongs to the ports. `type` and `options` may be NULL and are not
///   kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_message_input(
    ports: *mut Ports,
    port: *const c_char,
    r#type: *const c_char,
    options: *const SubscriberOptions,
    subscriber: *mut *mut Subscriber,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for texts.
    let of = || Ok(Some(open::PortType::Messages(unsafe { message_type::read(r#type) }?)));
    // SAFETY: the program follows the header's rules.
    unsafe { Ports::take_input(ports, port, options, subscriber, error, of) }
}

/// Takes an output of messages, as bytes of CBOR. `type` is the same as for
/// `stripline_message_publisher_new`. Fails like `stripline_ports_output`.
///
/// - Ownership: the publisher belongs to the ports. `type` may be NULL and is not kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_message_output(
    ports: *mut Ports,
    port: *const c_char,
    r#type: *const c_char,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rule for texts.
    let of = || Ok(Some(open::PortType::Messages(unsafe { message_type::read(r#type) }?)));
    // SAFETY: the program follows the header's rules.
    unsafe { Ports::take_output(ports, port, publisher, error, of) }
}

/// Gets a read-only property of the component, to set the value. Two readouts of the same property
/// set the same value.
///
/// Fails with `STRIPLINE_FAILED` for a property that is not declared read-only.
///
/// - Ownership: the readout belongs to the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_readout(
    ports: *mut Ports,
    property: *const c_char,
    readout: *mut *const Readout,
    error: *mut *mut Error,
) -> Status {
    let give = || {
        // SAFETY: the program follows the header's rules for handles and texts.
        let (found, property) = unsafe { (Ports::get(ports)?, text::required(property, "property")?) };
        text::check_place(readout, "readout")?;
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let (link, readouts) = unsafe { (found.link(), &mut *found.readouts.get()) };
        let made = Box::new(Readout::new(link, &found.instance.spec, property)?);
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(readout, "readout", std::ptr::from_ref(&*made)) }?;
        readouts.push(made);
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, give) }
}

/// Receives the next packet of an input, as `stripline_subscriber_receive` does without a timeout.
/// It also runs the component's functions for changes and self-tests: before it takes a packet, and
/// at once if a request arrives while it waits.
///
/// - Ownership: the caller releases the packet.
/// - Blocking: until a packet or the end of the stream.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_receive(
    ports: *mut Ports,
    subscriber: *mut Subscriber,
    packet: *mut *mut Packet,
    error: *mut *mut Error,
) -> Status {
    let receive = |ports: &Ports, subscriber: &Subscriber| {
        text::check_place(packet, "packet")?;
        // SAFETY: this call has entered the head, and no packet is lent.
        match unsafe { subscriber.source() } {
            Source::One(source) => {
                let found = source.receive_with(|| ports.serve_requests())?;
                // SAFETY: as above; the program follows the header's rule for results.
                unsafe { subscriber.lend_packet(found.map_or(Received::Ended, Received::Packet), packet) }
            }
            Source::Holding(source) => {
                let found = source.receive_with(|| ports.serve_requests())?;
                // SAFETY: as above.
                unsafe { subscriber.lend_held(found.map_or(Received::Ended, Received::Packet), packet) }
            }
            Source::Windowed(_) => Err(Subscriber::is_windowed()),
        }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Ports::receive(ports, subscriber, error, receive) }
}

/// Receives the next window of a windowed input, as `stripline_subscriber_window` does without a
/// timeout, and handles requests like `stripline_ports_receive`.
///
/// - Ownership: the caller releases the packet, or consumes a part of it.
/// - Blocking: until the samples, a gap or the end of the stream.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_window(
    ports: *mut Ports,
    subscriber: *mut Subscriber,
    samples: usize,
    window: *mut *mut Packet,
    error: *mut *mut Error,
) -> Status {
    let receive = |ports: &Ports, subscriber: &Subscriber| {
        text::check_place(window, "window")?;
        // SAFETY: this call has entered the head, and no packet is lent.
        let Source::Windowed(source) = (unsafe { subscriber.source() }) else {
            return Err(Subscriber::is_not_windowed());
        };
        let found = source.window_with(|| {
            ports.serve_requests();
            samples
        })?;
        // SAFETY: as above; the program follows the header's rule for results.
        unsafe { subscriber.lend_window(found.map_or(Received::Ended, Received::Packet), window) }
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Ports::receive(ports, subscriber, error, receive) }
}

/// Runs the component's functions for the requests that wait. Components that do not wait in
/// `stripline_ports_receive` call it between packets.
///
/// Fails with `STRIPLINE_STOPPED` when the component must stop.
///
/// - Ownership: nothing is kept.
/// - Blocking: until the functions return.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_poll(ports: *mut Ports, error: *mut *mut Error) -> Status {
    let poll = || {
        // SAFETY: the program follows the header's rule for handles.
        let found = unsafe { Ports::get(ports) }?;
        found.serve_requests();
        if found.stop.is_stopped() { Err(stripline::Error::Stopped.into()) } else { Ok(Status::Ok) }
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, poll) }
}

/// Sleeps. Fails at once with `STRIPLINE_STOPPED` when the component must stop. Requests wait until
/// the next `stripline_ports_poll`.
///
/// - Ownership: nothing is kept.
/// - Blocking: for `time_ns`; `STRIPLINE_FOREVER` (or any negative number) sleeps without end.
/// - Threads: any, until the component's function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_ports_sleep(
    ports: *const Ports,
    time_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let sleep = || {
        // SAFETY: the program follows the header's rule for handles.
        let found = unsafe { Ports::get(ports) }?;
        found.stop.sleep(crate::time::timeout(time_ns).unwrap_or(Duration::MAX))?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, sleep) }
}
