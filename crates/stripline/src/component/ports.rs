//! The ports of a component, already connected.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::file_log::FileLog;
use super::pace_log::PaceLog;
use super::requests::PendingRequests;
use super::{ComponentSpec, ControlRequests, Direction, PortSpec, PortTypes, Status, StatusValue};
use crate::error::names::did_you_mean;
use crate::error::{Error, Result};
use crate::link::{Incoming, Outgoing};
use crate::node::{Dispatch, Input, Output, Publisher, Subscriber};
use crate::packet::content::{PortName, PortType, StaticForm};
use crate::packet::payload::{Content, TypeName};
use crate::sys::doorbell::PollSet;
use crate::sys::fork::{Local, OwnerProcess};
use crate::transport::StopToken;

/// The ports of one component. Each port is taken once, with a type.
///
/// ```no_run
/// use stripline::component::Ports;
///
/// /// What a component's `run` does: forwards the first hundred packets.
/// fn run(mut ports: Ports) -> stripline::Result<()> {
///     let mut input = ports.input::<f32>("in")?;
///     let mut output = ports.output::<f32>("out")?;
///     for _ in 0..100 {
///         let Some(packet) = input.receive()? else { break };
///         let mut loan = output.loan(packet.len())?;
///         loan.copy_from_slice(&packet);
///         loan.send_like(&packet)?;
///     }
///     Ok(())
/// }
/// ```
pub struct Ports {
    pub(super) component: String,
    pub(super) process: OwnerProcess,
    pub(super) types: BTreeMap<String, TypeName>,
    pub(super) inputs: BTreeMap<String, Incoming>,
    pub(super) outputs: BTreeMap<String, Outgoing>,
    /// The channel for outputs that the component has finished with. `None`: their streams end
    /// then.
    pub(super) finished: Option<Local<Sender<Outgoing>>>,
    pub(super) stop: StopToken,
    pub(super) pace: PaceLog,
    pub(super) files: FileLog,
    /// The number of times that the component was started before in this run.
    pub(super) restarts: u32,
    /// The dispatch of the component's handlers.
    pub(super) dispatch: Dispatch,
    pub(super) quiet: bool,
    pub(super) pending: Arc<PendingRequests>,
}

impl Ports {
    /// Returns the component's name in the waveform.
    pub fn component(&self) -> &str {
        &self.component
    }

    /// Returns whether the user wants only warnings and errors (`stripline run --quiet`). In that
    /// case a component does not print to the terminal. The component still writes the files that
    /// it was configured to write, including `-`.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns how many times the component was started before in this run. A component with state
    /// outside its process, for example in a file, continues from that state after a restart.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns the log in which the component reports the files that it writes.
    pub fn files(&self) -> FileLog {
        self.files.clone()
    }

    /// Returns the payload type of a port in this waveform; `None` when it is not connected.
    ///
    /// ```no_run
    /// # fn example(ports: &mut stripline::component::Ports) -> stripline::Result<()> {
    /// // A port that takes several types checks which of them it has here.
    /// match ports.payload("in").map(|payload| payload.as_str()) {
    ///     Some("cf32") => println!("{}: complex samples", ports.component()),
    ///     Some(other) => println!("{}: {other}", ports.component()),
    ///     None => assert!(!ports.is_connected("in")),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn payload(&self, port: &str) -> Option<&TypeName> {
        self.types.get(port)
    }

    /// Returns whether the waveform connects a port.
    pub fn is_connected(&self, port: &str) -> bool {
        self.types.contains_key(port)
    }

    /// Returns the stop signal, for a component that does not always block in a port.
    pub fn stop_signal(&self) -> StopSignal {
        StopSignal { stop: self.stop.clone(), pace: self.pace.clone(), process: self.process }
    }

    /// Returns the requests to the running component: new values for properties, and self-tests. A
    /// component that declares either must take this handle and poll it between packets.
    pub fn requests(&self) -> ControlRequests {
        PendingRequests::requests(&self.pending)
    }

    /// Returns a property that the component declared as
    /// [read-only](super::PropertySpec::read_only). The component sets the value.
    ///
    /// # Errors
    /// The component declared no property with that name and type; [`Error::Forked`].
    pub fn status<T: StatusValue>(&self, property: &str) -> Result<Status<T>> {
        self.check_own()?;
        let spec = &self.pending.spec;
        self.pending.statuses.take(spec, property).map_err(|problem| {
            Error::InvalidArgument(format!(
                "property `{property}` of component type `{}` {problem}",
                spec.name
            ))
        })
    }

    /// Takes an input of samples of a Rust type, of messages ([`Cbor`](crate::payload::Cbor)), or
    /// of any type ([`Dynamic`](crate::payload::Dynamic)). An unconnected input is at the end of
    /// stream.
    ///
    /// Messages have the schema that the specification got from [`PortTypes::of`]. A
    /// [`Dynamic`](crate::payload::Dynamic) input has the type that the waveform gives it. A type
    /// passed together with the name must match the waveform's type.
    ///
    /// # Errors
    /// [`Error::Port`] when there is no such input, when it was taken before, or when the waveform
    /// gave it another type. Also when samples have no size or are aligned to more than 16 bytes.
    /// Messages without a schema ([`NoSchema`](crate::payload::NoSchema)) are refused if the
    /// specification states a schema. [`Error::Forked`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// use stripline::payload::Dynamic;
    ///
    /// // Forwards each second packet, of any type.
    /// let mut input = ports.input::<Dynamic>("in")?;
    /// let mut output = ports.output::<Dynamic>("out")?;
    /// while let Some(packet) = input.receive()? {
    ///     if packet.sequence() % 2 == 0 {
    ///         output.loan_copy_of(&packet)?.send_like(&packet)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn input<'a, C: Content>(&mut self, port: impl Into<PortName<'a, C>>) -> Result<Input<C>> {
        let port = port.into();
        let name = port.name;
        let PortType { sample_bytes, form, .. } = self.port_type(port)?;
        let incoming = self.take_input(name, sample_bytes)?;
        Ok(Subscriber::of(incoming, form).with_dispatch(self.dispatch))
    }

    /// Takes an output, with the same choice of content as [`Ports::input`]. Packets sent to an
    /// unconnected output are discarded.
    ///
    /// # Errors
    /// Same as [`Ports::input`].
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// use stripline::payload::Cbor;
    ///
    /// #[derive(Serialize, Deserialize, stripline::Message)]
    /// struct Tune { frequency_hz: f64 }
    ///
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let mut commands = ports.input::<Cbor<Tune>>("commands")?;
    /// let mut status = ports.output::<Cbor<String>>("status")?;
    /// while let Some(command) = commands.receive()? {
    ///     status.send(&format!("tuned to {} Hz", command.decode()?.frequency_hz))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn output<'a, C: Content>(&mut self, port: impl Into<PortName<'a, C>>) -> Result<Output<C>> {
        let port = port.into();
        let name = port.name;
        let PortType { form, payload, .. } = self.port_type(port)?;
        let publisher = Publisher::of(self.take_output(name)?, self.return_to(), form);
        Ok(match payload {
            Some(payload) => publisher.checked(&payload),
            None => publisher,
        })
    }

    /// Returns the type of a port, after checking that it fits the waveform's type.
    fn port_type<C: Content>(&self, port: PortName<'_, C>) -> Result<PortType<C::Form>> {
        let in_waveform = self.types.get(port.name);
        let given = port.given.unwrap_or_else(|| PortType::of(in_waveform));
        let found = C::port_type(Some(given)).map_err(|problem| Error::port(port.name, problem))?;
        if C::IS_WITHOUT_SCHEMA {
            self.check_no_schema(port.name)?;
        }
        let fits = |given: &TypeName, taken: &TypeName| {
            given.fits(taken) || (C::IS_WITHOUT_SCHEMA && given.is_message())
        };
        match (in_waveform, &found.payload) {
            (Some(given), Some(taken)) if !fits(given, taken) => {
                let described = self.described(port.name);
                let is_described = described.is_empty() || described.iter().any(|named| fits(named, taken));
                Err(Error::port(port.name, self.unfit(described, is_described, given, taken)))
            }
            _ => Ok(found),
        }
    }

    /// Returns the types that the specification states for a port; none if the waveform or a
    /// property decides.
    fn described(&self, port: &str) -> &[TypeName] {
        match self.pending.spec.find_port(port).map(|spec| &spec.types) {
            Some(PortTypes::OneOf(types)) => types,
            _ => &[],
        }
    }

    /// Checks that the specification states no schema, because a port without a schema would not
    /// compare schemas.
    fn check_no_schema(&self, port: &str) -> Result<()> {
        match self.described(port).iter().find(|name| name.schema().is_some()) {
            Some(name) => {
                let name = name.full_text();
                Err(Error::port(port, format!("is specified as {name}: take it as `Cbor<M>`, with a schema")))
            }
            None => Ok(()),
        }
    }

    fn check_own(&self) -> Result<()> {
        self.process.check(|| format!("component `{}`", self.component))
    }

    fn take_input(&mut self, port: &str, sample_bytes: Option<usize>) -> Result<Incoming> {
        self.check_own()?;
        match self.inputs.remove(port) {
            Some(mut incoming) => {
                let shape = self.pending.spec.find_port(port).and_then(|port| port.shape);
                incoming.set_samples(sample_bytes, shape);
                Ok(incoming)
            }
            None => Err(self.missing(port, Direction::Input)),
        }
    }

    /// Returns the problem of a port that the component opens as `taken`, while the waveform gives
    /// it the type `given`. `is_described`: the specification states both types.
    fn unfit(
        &self,
        described: &[TypeName],
        is_described: bool,
        given: &TypeName,
        taken: &TypeName,
    ) -> String {
        let schemas = given.schema().zip(taken.schema());
        let difference = schemas.and_then(|(given, taken)| given.difference(&taken));
        let difference =
            difference.map_or_else(String::new, |words| format!("; the first difference: {words}"));
        let (given, taken) = (given.full_text(), taken.full_text());
        if is_described {
            return format!("carries {given} in this waveform, not {taken}{difference}");
        }
        let stated: Vec<&str> = described.iter().map(TypeName::full_text).collect();
        let stated = stated.join(" | ");
        match self.finished {
            Some(_) => format!(
                "is described as {stated}, but the component opens it as {taken}{difference}; correct the \
                 description (`describe`), or the type with which the component opens the port"
            ),
            None => format!("is described as {stated}, but the test opens it as {taken}{difference}"),
        }
    }

    fn return_to(&self) -> Option<Sender<Outgoing>> {
        self.finished.as_ref().map(|finished| Sender::clone(finished))
    }

    /// Ends the streams of the outputs that were not taken.
    pub(super) fn end_untaken(&mut self) {
        for (_, outgoing) in std::mem::take(&mut self.outputs) {
            match &self.finished {
                Some(finished) => drop(finished.send(outgoing)),
                None => drop(Publisher::<u8>::of(outgoing, None, StaticForm::new())),
            }
        }
    }

    fn take_output(&mut self, port: &str) -> Result<Outgoing> {
        self.check_own()?;
        self.outputs.remove(port).ok_or_else(|| self.missing(port, Direction::Output))
    }

    fn missing(&self, port: &str, wanted: Direction) -> Error {
        let spec = &self.pending.spec;
        match spec.find_port(port) {
            None => unknown_port(spec, port, Some(wanted)),
            Some(spec) if spec.direction != wanted => Error::port(port, "has the other direction"),
            Some(_) => Error::port(port, "was taken before"),
        }
    }
}

/// Returns the error for a port that the specification does not have, with the remedy. A harness
/// has the opposite direction of each port: its specification is mirrored.
pub(super) fn unknown_port(spec: &ComponentSpec, port: &str, wanted: Option<Direction>) -> Error {
    let fits = |it: &&PortSpec| wanted.is_none_or(|wanted| it.direction == wanted);
    let names = spec.ports.iter().filter(fits).map(|it| it.name.as_str());
    let mut remedy = did_you_mean(port, names, "there are");
    if !remedy.is_empty() {
        remedy.insert_str(0, "; ");
    }
    Error::port(port, format!("component type `{}` has no such port{remedy}", spec.name))
}

impl Drop for Ports {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.end_untaken();
        }
    }
}

/// The time that the reader of an output has to make room at the end of a run.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

thread_local!(static OF_THIS_THREAD: RefCell<Option<StopSignal>> = const { RefCell::new(None) });

/// The stop request to a component.
///
/// ```no_run
/// # fn example(ports: stripline::component::Ports) -> stripline::Result<()> {
/// use std::time::{Duration, Instant};
///
/// let stop = ports.stop_signal();
/// stop.sleep(Duration::from_millis(10))?;
/// let mut next = Instant::now();
/// while !stop.is_stopped() {
///     next += Duration::from_millis(100);
///     stop.sleep_until(next)?; // Ten times a second, without drift.
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StopSignal {
    stop: StopToken,
    pace: PaceLog,
    process: OwnerProcess,
}

impl StopSignal {
    /// Returns whether the component must stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Returns the log that records the component's pace.
    pub(super) fn pace_log(&self) -> &PaceLog {
        &self.pace
    }

    /// Sleeps until `deadline`.
    ///
    /// # Errors
    /// [`Error::Stopped`], immediately, when the component must stop; [`Error::Forked`].
    pub fn sleep_until(&self, deadline: Instant) -> Result<()> {
        self.sleep_to(Some(deadline))
    }

    /// Sleeps for `duration`.
    ///
    /// # Errors
    /// Same as [`StopSignal::sleep_until`].
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        // A deadline beyond the clock's range means no deadline.
        self.sleep_to(Instant::now().checked_add(duration))
    }

    /// Waits until a read of the descriptor does not block. Call it before each read of a pipe, a
    /// terminal, a device or a socket: a blocking read would not end with the run.
    ///
    /// ```no_run
    /// # fn example(ports: stripline::component::Ports) -> stripline::Result<()> {
    /// use std::io::Read;
    ///
    /// let stop = ports.stop_signal();
    /// let mut pipe = std::fs::File::open("samples").map_err(stripline::Error::failed)?;
    /// let mut bytes = [0; 4096];
    /// stop.wait_readable(&pipe)?;
    /// let count = pipe.read(&mut bytes).map_err(stripline::Error::failed)?;
    /// # assert!(count <= 4096);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`StopSignal::sleep_until`].
    pub fn wait_readable(&self, descriptor: impl AsFd) -> Result<()> {
        self.process.check(|| "the stop signal of a component".into())?;
        let mut poll_set = PollSet::default();
        poll_set.readable(self.stop.doorbell().as_fd());
        poll_set.readable(descriptor.as_fd());
        poll_set.wait(None)?;
        if self.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Waits until a write to the descriptor does not block, like [`StopSignal::wait_readable`] for
    /// reads. After the run begins to end, the reader has one more second.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the component must stop, or one second after the run began to end;
    /// [`Error::Forked`].
    ///
    /// ```no_run
    /// # fn example(ports: stripline::component::Ports) -> stripline::Result<()> {
    /// use std::io::Write;
    ///
    /// let mut out = std::io::stdout();
    /// ports.stop_signal().wait_writable(&out)?;
    /// out.write_all(b"a line\n").map_err(stripline::Error::failed)
    /// # }
    /// ```
    pub fn wait_writable(&self, descriptor: impl AsFd) -> Result<()> {
        /// The interval at which the wait checks whether the run ends.
        const STEP: Duration = Duration::from_millis(100);
        self.process.check(|| "the stop signal of a component".into())?;
        let mut last = None;
        loop {
            let mut poll_set = PollSet::default();
            poll_set.readable(self.stop.doorbell().as_fd());
            poll_set.writable(descriptor.as_fd());
            let now = Instant::now();
            poll_set.wait(Some(now + STEP))?;
            if self.is_stopped() {
                return Err(Error::Stopped);
            }
            if poll_set.is_ready(1) {
                return Ok(());
            }
            if self.is_ending() && now >= *last.get_or_insert(now + OUTPUT_TIME) {
                return Err(Error::Stopped);
            }
        }
    }

    /// Returns whether the run is ending, or the component must stop. A sink then takes the
    /// remaining packets, and does not wait for the other end of the output.
    ///
    /// ```no_run
    /// # fn example(ports: stripline::component::Ports) {
    /// let stop = ports.stop_signal();
    /// println!("more may come: {}", !stop.is_ending());
    /// # }
    /// ```
    pub fn is_ending(&self) -> bool {
        self.stop.is_ending()
    }

    /// Returns the signal of the component that runs on this thread; `None` elsewhere.
    ///
    /// ```
    /// assert!(stripline::component::StopSignal::of_this_thread().is_none());
    /// ```
    pub fn of_this_thread() -> Option<Self> {
        OF_THIS_THREAD.with_borrow(Clone::clone)
    }

    /// Makes this the signal of the current thread.
    pub(super) fn enter(self) {
        OF_THIS_THREAD.set(Some(self));
    }

    fn sleep_to(&self, deadline: Option<Instant>) -> Result<()> {
        self.process.check(|| "the stop signal of a component".into())?;
        let mut poll_set = PollSet::default();
        poll_set.readable(self.stop.doorbell().as_fd());
        if poll_set.wait(deadline)? { Err(Error::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ComponentSpec, Properties};
    use super::*;
    use crate::packet::payload::{Cbor, Dynamic, NoSchema};

    type Tune = (String, f64);
    type OldTune = (String, f32);

    /// Returns the ports of a component: output `typed` is specified as `Tune`, and `plain` by
    /// name.
    fn ports() -> Ports {
        let spec = ComponentSpec::new("tuner", "").output("typed", PortTypes::of::<Cbor<Tune>>(), "").output(
            "plain",
            PortTypes::message("cbor"),
            "",
        );
        let types = spec.ports.iter().filter_map(|port| match &port.types {
            PortTypes::OneOf(types) => Some((port.name.clone(), types.first()?.clone())),
            _ => None,
        });
        let types = types.collect();
        let properties = Properties::defaults(&spec).unwrap();
        Ports {
            component: "tuner".into(),
            process: OwnerProcess::current(),
            types,
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            finished: Some(Local::new(std::sync::mpsc::channel().0)),
            stop: StopToken::new().unwrap(),
            pace: PaceLog::default(),
            files: FileLog::default(),
            restarts: 0,
            dispatch: Dispatch::Queue,
            quiet: false,
            pending: PendingRequests::new(spec, properties, |_, _| ()),
        }
    }

    #[test]
    fn a_message_port_is_taken_with_the_type_that_its_specification_has() {
        let mut ports = ports();
        let refused = |error: Error, why: &str| {
            let error = error.to_string();
            assert!(error.contains(why), "{error}");
        };
        let other = ports.output::<Cbor<OldTune>>("typed").err().unwrap();
        refused(
            other,
            "is described as message/cbor((text,f64)), but the component opens it as message/cbor((text,f32))",
        );
        let untyped = ports.output::<Cbor<Tune, NoSchema>>("typed").err().unwrap();
        refused(untyped, "is specified as message/cbor((text,f64)): take it as `Cbor<M>`, with a schema");
        // These types are accepted, but the ports have no connection to take.
        for taken in [
            ports.output::<Cbor<Tune>>("typed").err(),
            ports.output::<Cbor<Tune, NoSchema>>("plain").err(),
            ports.output::<Cbor<Tune>>("plain").err(),
            ports.output::<Dynamic>("typed").err(),
            ports.output::<Dynamic>(("typed", &TypeName::any_message())).err(),
        ] {
            refused(taken.unwrap(), "was taken before");
        }
        let by_value = ports.output::<Dynamic>(("typed", &TypeName::of::<f32>())).err().unwrap();
        refused(
            by_value,
            "is described as message/cbor((text,f64)), but the component opens it as f32; correct",
        );
    }
}
