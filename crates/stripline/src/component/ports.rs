//! A component's ports, already connected.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::requests::PendingRequests;
use super::{ControlRequests, Direction, Status, StatusValue};
use crate::error::{Error, Result};
use crate::link::{Incoming, Outgoing};
use crate::node::{Dispatch, Input, MessagePublisher, MessageSubscriber, Output, Publisher, Subscriber};
use crate::packet::payload::{Layout, Sample, TypeName};
use crate::sys::doorbell::PollSet;
use crate::sys::fork::Local;
use crate::transport::StopToken;

/// The ports of one component. Each is taken once, with its type.
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
    pub(super) types: BTreeMap<String, TypeName>,
    pub(super) inputs: BTreeMap<String, Incoming>,
    pub(super) outputs: BTreeMap<String, Outgoing>,
    /// Where outputs go when the component has finished with them.
    pub(super) finished: Local<Sender<Outgoing>>,
    pub(super) stop: StopToken,
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

    /// Returns whether the user wants warnings and errors only (`stripline run --quiet`). Then a
    /// component does not print to the terminal. It still writes the files that it was configured
    /// to write, `-` included.
    pub fn is_quiet(&self) -> bool {
        self.quiet
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

    /// Returns the stop signal, for a component that does not always have a port to block in.
    pub fn stop_signal(&self) -> StopSignal {
        StopSignal(self.stop.clone())
    }

    /// Returns the requests to the component while it runs: other values for its properties,
    /// self-tests. A component that declares either takes this and polls it between packets.
    pub fn requests(&self) -> ControlRequests {
        PendingRequests::requests(&self.pending)
    }

    /// Returns a property that the component declared as
    /// [read-only](super::PropertySpec::read_only), for the component to set.
    ///
    /// # Errors
    /// When the component declared none of that name and type.
    pub fn status<T: StatusValue>(&self, property: &str) -> Result<Status<T>> {
        let spec = &self.pending.spec;
        self.pending.statuses.take(spec, property).map_err(|problem| {
            Error::failed(format!("property `{property}` of component type `{}` {problem}", spec.name))
        })
    }

    /// Takes an input of samples. An input that is not connected is at its end of stream.
    ///
    /// # Errors
    /// [`Error::Port`] when there is no such input or it was taken before. Also when the waveform
    /// gave it another type, or `T` is aligned to more than 16 bytes.
    pub fn input<T: Sample>(&mut self, port: &str) -> Result<Input<T>> {
        self.check_type(port, &TypeName::of::<T>())?;
        Ok(Subscriber::new(self.take_input(port, Some(size_of::<T>()))?)?.with_dispatch(self.dispatch))
    }

    /// Takes an output of samples. Packets sent to an unconnected output are discarded.
    ///
    /// # Errors
    /// As [`Ports::input`].
    pub fn output<T: Sample>(&mut self, port: &str) -> Result<Output<T>> {
        self.check_type(port, &TypeName::of::<T>())?;
        Publisher::new(self.take_output(port)?, Some(Sender::clone(&self.finished)))
    }

    /// Takes an input of any type as bytes.
    ///
    /// # Errors
    /// [`Error::Port`] when there is no such input or it was taken before.
    pub fn raw_input(&mut self, port: &str) -> Result<Input<u8>> {
        let layout = self.types.get(port).and_then(TypeName::layout);
        let sample_bytes = layout.map(Layout::size);
        let incoming = self.take_input(port, sample_bytes)?;
        Ok(Subscriber::new(incoming)?.with_dispatch(self.dispatch))
    }

    /// Takes an output of any type as bytes; packets must be a whole number of samples. Use
    /// [`Loan::send_like`](crate::Loan::send_like) so that the sample index counts samples.
    ///
    /// # Errors
    /// As [`Ports::raw_input`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let mut input = ports.raw_input("in")?;
    /// let mut output = ports.raw_output("out")?;
    /// while let Some(packet) = input.receive()? {
    ///     let mut loan = output.loan(packet.len())?;
    ///     loan.copy_from_slice(&packet);
    ///     loan.send_like(&packet)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw_output(&mut self, port: &str) -> Result<Output<u8>> {
        Publisher::new(self.take_output(port)?, Some(Sender::clone(&self.finished)))
    }

    /// Takes an input of messages that the specification calls
    /// [`PortTypes::message`](super::PortTypes::message).
    ///
    /// # Errors
    /// As [`Ports::raw_input`].
    pub fn message_input<M: DeserializeOwned>(&mut self, port: &str) -> Result<MessageSubscriber<M>> {
        let subscriber = Subscriber::new(self.take_input(port, None)?)?;
        Ok(MessageSubscriber::new(subscriber.with_dispatch(self.dispatch)))
    }

    /// Takes an output of messages.
    ///
    /// # Errors
    /// As [`Ports::raw_input`].
    ///
    /// ```no_run
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Tune { frequency_hz: f64 }
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let mut commands = ports.message_input::<Tune>("commands")?;
    /// let mut status = ports.message_output::<String>("status")?;
    /// while let Some(command) = commands.receive()? {
    ///     status.send(&format!("tuned to {} Hz", command.value.frequency_hz))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn message_output<M: Serialize>(&mut self, port: &str) -> Result<MessagePublisher<M>> {
        Ok(MessagePublisher::new(self.raw_output(port)?))
    }

    fn check_type(&self, port: &str, pending: &TypeName) -> Result<()> {
        match self.types.get(port) {
            Some(given) if !given.fits(pending) => {
                let (given, pending) = (given.full_text(), pending.full_text());
                Err(Error::port(port, format!("carries {given} in this waveform, not {pending}")))
            }
            _ => Ok(()),
        }
    }

    fn take_input(&mut self, port: &str, sample_bytes: Option<usize>) -> Result<Incoming> {
        match self.inputs.remove(port) {
            Some(mut incoming) => {
                incoming.set_sample_bytes(sample_bytes);
                Ok(incoming)
            }
            None => Err(self.missing(port, Direction::Input)),
        }
    }

    fn take_output(&mut self, port: &str) -> Result<Outgoing> {
        self.outputs.remove(port).ok_or_else(|| self.missing(port, Direction::Output))
    }

    fn missing(&self, port: &str, wanted: Direction) -> Error {
        let spec = &self.pending.spec;
        match spec.find_port(port) {
            None => Error::port(port, format!("component type `{}` has none of that name", spec.name)),
            Some(spec) if spec.direction != wanted => Error::port(port, "has the other direction"),
            Some(_) => Error::port(port, "was taken before"),
        }
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        if !self.finished.is_current() {
            return;
        }
        // Outputs that the component never took end their streams here.
        for (_, outgoing) in std::mem::take(&mut self.outputs) {
            let _ = self.finished.send(outgoing);
        }
    }
}

/// The stop request of a component.
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
pub struct StopSignal(StopToken);

impl StopSignal {
    /// Returns whether the component must stop.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Sleeps until `deadline`.
    ///
    /// # Errors
    /// [`Error::Stopped`], at once, when the component must stop.
    pub fn sleep_until(&self, deadline: Instant) -> Result<()> {
        self.sleep_to(Some(deadline))
    }

    /// Sleeps for `duration`.
    ///
    /// # Errors
    /// As [`StopSignal::sleep_until`].
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        // A deadline beyond the clock's range means no deadline.
        self.sleep_to(Instant::now().checked_add(duration))
    }

    fn sleep_to(&self, deadline: Option<Instant>) -> Result<()> {
        let mut poll_set = PollSet::default();
        poll_set.readable(self.0.doorbell().as_fd());
        if poll_set.wait(deadline)? { Err(Error::Stopped) } else { Ok(()) }
    }
}
