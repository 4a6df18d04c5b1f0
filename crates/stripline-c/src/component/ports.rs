//! The ports of a running component.

use std::cell::{RefCell, UnsafeCell};
use std::sync::Arc;
use std::time::Duration;

use stripline::Received;
use stripline::component::{Ports as RustPorts, StopSignal, StreamShape};
use stripline::node::PortName;
use stripline::payload::{Dynamic, TypeName};
use stripline_bindings::{self as bindings, Pace, PortType, Requests};

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::packet::Packet;
use crate::publisher::Publisher;
use crate::sample_type::SampleType;
use crate::serve;
use crate::status::Status;
use crate::subscriber::{Source, Subscriber, SubscriberOptions, WindowUnit};
use crate::text::Text;

use super::instance::Instance;
use super::{Readout, TakenPorts};

/// The ports of a component, already connected, and other facts about the waveform. The ports are
/// valid until the component's function returns.
///
/// Publishers, subscribers and readouts taken from the ports end then as well, and so do an open
/// loan and a received packet. The program may free publishers and subscribers earlier.
pub struct Ports {
    ports: UnsafeCell<RustPorts>,
    instance: Arc<Instance>,
    /// `None` for a component without a function for requests.
    requests: Option<Arc<Requests<Instance>>>,
    stop: StopSignal,
    /// `None` before it is started, and during a wait.
    pace: RefCell<Option<Pace<Instance>>>,
    taken: Arc<TakenPorts>,
    // Boxed, so that a readout does not move when another is added.
    #[allow(clippy::vec_box, reason = "the program has their addresses")]
    readouts: UnsafeCell<Vec<Box<Readout>>>,
}

impl Ports {
    pub(super) fn new(
        ports: RustPorts,
        instance: Arc<Instance>,
        requests: Option<Arc<Requests<Instance>>>,
    ) -> Self {
        Self {
            stop: ports.stop_signal(),
            ports: UnsafeCell::new(ports),
            instance,
            requests,
            pace: RefCell::new(None),
            taken: TakenPorts::new(),
            readouts: UnsafeCell::new(Vec::new()),
        }
    }

    /// Ends everything that was taken from the ports, and returns the ports.
    ///
    /// # Safety
    /// The program must not use anything from the ports again.
    pub(super) unsafe fn end(self) -> RustPorts {
        // SAFETY: the caller makes the same promise.
        unsafe { self.taken.end() };
        self.ports.into_inner()
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

    /// Returns the type of a port that the waveform or the component gives it.
    fn type_of(&self, port: &str) -> Result<PortType, Failure> {
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let of = PortType::of_port(&self.instance.class.spec, unsafe { self.link() }, port);
        of.map_err(|failure| failure.within("`type` is NULL"))
    }

    /// Returns the type with which a port of messages is opened: the given one, or the type that
    /// the waveform or the component gives the port. A port without either takes any message.
    fn message_type_of(&self, port: &str, given: &Str) -> Result<PortType, Failure> {
        if given.bytes().is_some() {
            return given.message_type();
        }
        match self.type_of(port) {
            Ok(PortType::Messages(described)) => Ok(PortType::Messages(described)),
            _ => given.message_type(),
        }
    }

    fn serve_requests(&self) {
        self.requests.iter().for_each(|requests| requests.serve());
    }
}

impl Handle<Ports> {
    /// Takes the named input with the type that `of` returns.
    fn take_input(
        &self,
        port: Str,
        options: &Ref<SubscriberOptions>,
        subscriber: &Out<*mut Subscriber>,
        of: impl FnOnce(&Ports, &str) -> Result<PortType, Failure>,
    ) -> Result<Status, Failure> {
        let found = self.get("ports")?;
        let counts_samples = options.read()?.windowed == WindowUnit::Samples as u32;
        let of = |port: &str| {
            let shape = found.instance.class.spec.find_port(port).and_then(|port| port.shape);
            match shape {
                Some(shape) if counts_samples && shape != StreamShape::Signal => {
                    Err(Failure::argument(format!(
                        "a window of `{port}` counts samples, but the input takes {}; set the unit to rows or frames",
                        shape.word()
                    )))
                }
                _ => of(found, port),
            }
        };
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let make = |port: PortName<'_, Dynamic>| Ok(unsafe { found.link() }.input(port)?);
        subscriber.open((port, "port"), of, options, Some(&found.taken), make)
    }

    /// Takes the named output with the type that `of` returns.
    fn take_output(
        &self,
        port: Str,
        publisher: &Out<*mut Publisher>,
        of: impl FnOnce(&Ports, &str) -> Result<PortType, Failure>,
    ) -> Result<Status, Failure> {
        let found = self.get("ports")?;
        let of = |port: &str| of(found, port);
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let make = |port: PortName<'_, Dynamic>| Ok(unsafe { found.link() }.output(port)?);
        publisher.open((port, "port"), of, Some(&found.taken), make)
    }

    /// Runs a call of a subscriber in which functions for requests may run.
    fn receive(
        &self,
        subscriber: &Handle<Subscriber>,
        receive: impl FnOnce(&Ports, &Subscriber, &mut Source) -> Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        let (ports, place) = (self.get("ports")?, subscriber.pointer());
        serve::during(std::iter::once(place), || {
            // SAFETY: the call has begun, so the subscriber is valid, and no other call uses it.
            let subscriber = unsafe { &*place };
            // SAFETY: as above.
            receive(ports, subscriber, unsafe { subscriber.source() })
        })
    }
}

/// Returns the component's name in the waveform, and an empty text for NULL.
///
/// - Ownership: the text is valid as long as the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_component(ports: Ref<Ports>) -> Text {
    // SAFETY: the program calls on the thread of the ports, as the header requires.
    ports.as_ref().map_or(Text::of(""), |found| Text::of(unsafe { found.link() }.component()))
}

/// Returns 1 if the user wants only warnings and errors (`stripline run --quiet`), and otherwise 0.
/// In this case, a component prints nothing on the terminal.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_is_quiet(ports: Ref<Ports>) -> i32 {
    // SAFETY: the program calls on the thread of the ports, as the header requires.
    ports.as_ref().is_some_and(|found| unsafe { found.link() }.is_quiet()).into()
}

/// Gets the type of a port in this waveform, with the layout or schema. The text is empty for a
/// port that is not connected or does not exist.
///
/// - Ownership: the text is valid as long as the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_type(
    ports: Ref<Ports>,
    port: Str,
    r#type: Out<Text>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let (found, port) = (ports.get("ports")?, port.required("port")?);
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let name = unsafe { found.link() }.payload(port).map_or("", TypeName::full_text);
        r#type.put("type", Text::of(name))
    })
}

/// Takes an input. `type` is the type of the samples. NULL selects the type that the waveform gives
/// the input, or else the type that the component declares. `type` may also be a message type. An
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
pub extern "C" fn stripline_ports_input(
    ports: Handle<Ports>,
    port: Str,
    r#type: Ref<SampleType>,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    let of = |found: &Ports, port: &str| r#type.given_type().unwrap_or_else(|| found.type_of(port));
    error.guard(|| ports.take_input(port, &options, &subscriber, of))
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
pub extern "C" fn stripline_ports_output(
    ports: Handle<Ports>,
    port: Str,
    r#type: Ref<SampleType>,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    let of = |found: &Ports, port: &str| r#type.given_type().unwrap_or_else(|| found.type_of(port));
    error.guard(|| ports.take_output(port, &publisher, of))
}

/// Takes an input of messages, as bytes of CBOR. `type` is the same as for
/// `stripline_message_subscriber_new`, but NULL selects the type that the waveform gives the input,
/// or else the type that the component declares: the schema is written once, in the declaration.
///
/// Fails like `stripline_ports_input`, and for the option `windowed`.
///
/// - Ownership: the subscriber belongs to the ports. `type` and `options` may be NULL and are not
///   kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_message_input(
    ports: Handle<Ports>,
    port: Str,
    r#type: Str,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    let of = |found: &Ports, port: &str| found.message_type_of(port, &r#type);
    error.guard(|| ports.take_input(port, &options, &subscriber, of))
}

/// Takes an output of messages, as bytes of CBOR. `type` is the same as for
/// `stripline_message_publisher_new`, but NULL selects the type as `stripline_ports_message_input`
/// does. Fails like `stripline_ports_output`.
///
/// - Ownership: the publisher belongs to the ports. `type` may be NULL and is not kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_message_output(
    ports: Handle<Ports>,
    port: Str,
    r#type: Str,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    let of = |found: &Ports, port: &str| found.message_type_of(port, &r#type);
    error.guard(|| ports.take_output(port, &publisher, of))
}

/// Gets a read-only property of the component, to set the value. Two readouts of the same property
/// set the same value.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not declared read-only.
///
/// - Ownership: the readout belongs to the ports.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_readout(
    ports: Handle<Ports>,
    property: Str,
    readout: Out<*const Readout>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let (found, property) = (ports.get("ports")?, property.required("property")?);
        readout.check("readout")?;
        // SAFETY: the program calls on the thread of the ports, as the header requires.
        let (link, readouts) = unsafe { (found.link(), &mut *found.readouts.get()) };
        let made = Box::new(Readout(bindings::Readout::new(link, property)?));
        readout.put("readout", std::ptr::from_ref(&*made))?;
        readouts.push(made);
        Ok(Status::Ok)
    })
}

/// Receives the next packet of an input, as `stripline_subscriber_receive` does without a timeout.
/// The call also runs the component's functions for changes and self-tests: before it takes a
/// packet, and at once if a request arrives while it waits.
///
/// - Ownership: the caller releases the packet.
/// - Blocking: until a packet or the end of the stream.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_receive(
    ports: Handle<Ports>,
    subscriber: Handle<Subscriber>,
    packet: Out<*mut Packet>,
    error: ErrorOut,
) -> Status {
    error.finish(ports.receive(&subscriber, |ports, subscriber, source| {
        packet.check("packet")?;
        match source {
            Source::One(source) => {
                let found = source.receive_with(|| ports.serve_requests())?;
                // SAFETY: the call has begun, and no packet is lent.
                unsafe { subscriber.lend_packet(found.map_or(Received::Ended, Received::Packet), &packet) }
            }
            Source::Holding(source) => {
                let found = source.receive_with(|| ports.serve_requests())?;
                subscriber.lend_held(found.map_or(Received::Ended, Received::Packet), &packet)
            }
            Source::Windowed(_) => Err(Subscriber::is_windowed()),
        }
    }))
}

/// Receives the next window of a windowed input, as `stripline_subscriber_window` does without a
/// timeout, and handles requests like `stripline_ports_receive`.
///
/// - Ownership: the caller releases the packet, or consumes a part of it.
/// - Blocking: until the samples, a gap or the end of the stream.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_window(
    ports: Handle<Ports>,
    subscriber: Handle<Subscriber>,
    length: usize,
    window: Out<*mut Packet>,
    error: ErrorOut,
) -> Status {
    error.finish(ports.receive(&subscriber, |ports, subscriber, source| {
        window.check("window")?;
        let Source::Windowed(source) = source else { return Err(Subscriber::is_not_windowed()) };
        let found = source.window_with(|| {
            ports.serve_requests();
            length
        })?;
        // SAFETY: the call has begun, and no packet is lent.
        unsafe { subscriber.lend_window(found.map_or(Received::Ended, Received::Packet), &window) }
    }))
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
pub extern "C" fn stripline_ports_poll(ports: Handle<Ports>, error: ErrorOut) -> Status {
    error.guard(|| {
        let found = ports.get("ports")?;
        found.serve_requests();
        if found.stop.is_stopped() { Err(stripline::Error::Stopped.into()) } else { Ok(Status::Ok) }
    })
}

/// Sleeps. Fails at once with `STRIPLINE_STOPPED` when the component must stop. Requests wait until
/// the next `stripline_ports_poll`.
///
/// - Ownership: nothing is kept.
/// - Blocking: for `time_ns`; `STRIPLINE_FOREVER` (or any negative number) sleeps without end.
/// - Threads: any, until the component's function returns.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_sleep(ports: Ref<Ports>, time_ns: i64, error: ErrorOut) -> Status {
    error.guard(|| {
        let found = ports.get("ports")?;
        found.stop.sleep(crate::time::timeout(time_ns).unwrap_or(Duration::MAX))?;
        Ok(Status::Ok)
    })
}

/// Starts a clock of `rate` samples per second, by which a source waits in
/// `stripline_ports_wait_for_pace`; 0: no limit. The clock takes the place of an earlier one, and
/// begins with the first wait. The report of a run shows how far a source was behind the clock.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a rate that is negative or not a number.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the ports.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_start_pace(ports: Handle<Ports>, rate: f64, error: ErrorOut) -> Status {
    error.guard(|| {
        let found = ports.get("ports")?;
        let pace = Pace::new(found.stop.clone(), rate, found.requests.as_ref())?;
        found.pace.replace(Some(pace));
        Ok(Status::Ok)
    })
}

/// Waits until `samples` samples are due since the first wait for the pace. Times are counted from
/// there, so delays do not add up, and a late source catches up. The component's functions for
/// changes and self-tests run before the wait, and at most 100 ms after a request during the wait.
///
/// `due_ns`, which may be NULL, gets the time at which the samples are due, in nanoseconds of the
/// monotonic clock, for `stripline_send_options.intended_ns`; 0 without a limit.
///
/// Fails at once with `STRIPLINE_STOPPED` when the component must stop. Fails with
/// `STRIPLINE_INVALID_ARGUMENT` before `stripline_ports_start_pace`, and for a wait within a wait.
///
/// - Ownership: nothing is kept.
/// - Blocking: until the samples are due.
/// - Threads: the thread of the ports. The functions run on it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_ports_wait_for_pace(
    ports: Handle<Ports>,
    samples: u64,
    due_ns: Out<u64>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let found = ports.get("ports")?;
        let none = || {
            Failure::argument(
                "the component has no pace to wait for: call `stripline_ports_start_pace` before, and \
                 no wait within a wait",
            )
        };
        // A function for a change may start another pace during the wait.
        let mut pace = found.pace.take().ok_or_else(none)?;
        let waited = pace.wait_for(samples);
        found.pace.borrow_mut().get_or_insert(pace);
        let waited = waited?;
        if due_ns.pointer().is_null() { Ok(Status::Ok) } else { due_ns.put("due_ns", waited) }
    })
}
