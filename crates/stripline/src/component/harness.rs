//! A harness that runs one component in this process. A test feeds and reads the ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::control::{Ask, RequestAnswer};
use super::file_log::FileLog;
use super::host::finish;
use super::pace_log::PaceLog;
use super::ports::unknown_port;
use super::requests::PendingRequests;
use super::{Component, ComponentSpec, Direction, PortTypes, Ports, Properties, Registry, TestResult, Value};
use crate::error::names::{did_you_mean, quoted};
use crate::error::{Error, InvalidProperties, Result, catch_panic};
use crate::link::{
    CaughtUp, ConnectionOptions, Incoming, Outgoing, PortBuilder, PortEvent, PortEvents, Progress, Sampling,
    policy,
};
use crate::node::{Dispatch, PortName, Publisher, Subscriber};
use crate::packet::payload::{Content, TypeName};
use crate::sys::fork::{Local, OwnerProcess};
use crate::terms::{LinkOptions, SenderOptions};
use crate::transport::{ConnectRequest, StopToken};

/// The name of the component under test.
const COMPONENT: &str = "component";
/// The name of the other end of the component's ports.
const TEST: &str = "test";
/// The longest wait for the end of a component.
const END_TIME: Duration = Duration::from_secs(60);
/// The longest wait for the component's answer to a request.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// The interval at which a wait for an answer asks the program whether to continue.
const PAUSE_TIME: Duration = Duration::from_millis(20);

/// A harness runs one component without a launcher. A test feeds the inputs, reads the outputs, and
/// changes the properties.
///
/// ```
/// use stripline::component::harness::Harness;
/// # use stripline::Result;
/// # use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};
/// # struct Gain(f32);
/// # impl Component for Gain {
/// #     fn describe() -> ComponentSpec {
/// #         ComponentSpec::new("gain", "Multiplies every sample by a factor.")
/// #             .input("in", PortTypes::of::<f32>(), "samples")
/// #             .output("out", PortTypes::of::<f32>(), "samples times the factor")
/// #             .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6))
/// #     }
/// #     fn new(properties: &Properties) -> Result<Self> {
/// #         Ok(Self(properties.float("factor") as f32))
/// #     }
/// #     fn run(self, mut ports: Ports) -> Result<()> {
/// #         let (mut input, mut output) = (ports.input::<f32>("in")?, ports.output::<f32>("out")?);
/// #         while let Some(packet) = input.receive()? {
/// #             let mut out = output.loan(packet.len())?;
/// #             out.iter_mut().zip(&*packet).for_each(|(y, x)| *y = x * self.0);
/// #             out.send_like(&packet)?;
/// #         }
/// #         Ok(())
/// #     }
/// # }
///
/// let mut gain = Harness::of::<Gain>().property("factor", 2.0).start()?;
/// let (mut input, mut output) = (gain.input::<f32>("in")?, gain.output::<f32>("out")?);
/// input.send(&[1.0, 2.0])?;
/// input.finish()?;
/// assert_eq!(*output.receive()?.expect("a packet"), [2.0, 4.0]);
/// assert!(output.receive()?.is_none());
/// gain.finish()?;
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Harness {
    registry: Registry,
    type_name: String,
    values: BTreeMap<String, Value>,
    types: BTreeMap<String, TypeName>,
    unconnected: BTreeSet<String>,
    options: LinkOptions,
    dispatch: Dispatch,
}

impl Harness {
    /// Prepares a run of the component type `C`.
    pub fn of<C: Component>() -> Self {
        Self::of_type(&Registry::new().with::<C>(), &C::describe().name)
    }

    /// Prepares a run of a type in a registry, for example a type by value.
    ///
    /// ```
    /// use stripline::component::Registry;
    /// use stripline::component::harness::Harness;
    ///
    /// let missing = Harness::of_type(&Registry::new(), "gain").start().map(drop).unwrap_err();
    /// assert!(missing.to_string().contains("no component type `gain`"));
    /// ```
    pub fn of_type(registry: &Registry, type_name: &str) -> Self {
        Self {
            registry: registry.clone(),
            type_name: type_name.into(),
            values: BTreeMap::new(),
            types: BTreeMap::new(),
            unconnected: BTreeSet::new(),
            options: LinkOptions::default(),
            dispatch: Dispatch::Queue,
        }
    }

    /// Sets a property. The other properties have their defaults.
    #[must_use]
    pub fn property(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Sets the payload type of a port. Needed for a port that accepts several types.
    #[must_use]
    pub fn payload(mut self, port: &str, name: &TypeName) -> Self {
        self.types.insert(port.into(), name.clone());
        self
    }

    /// Leaves an optional port unconnected. All other ports are connected.
    #[must_use]
    pub fn unconnected(mut self, port: &str) -> Self {
        self.unconnected.insert(port.into());
        self
    }

    /// Sets the options of all connections, for example their depth and policy. The connections are
    /// over `inproc`.
    #[must_use]
    pub fn options(mut self, options: LinkOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the threads of the component's handler, as `dispatch` in a waveform does.
    #[must_use]
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// Creates the component, connects the ports, and runs the component on a separate thread.
    ///
    /// # Errors
    /// An unknown component type. Properties that the specification or the component refuses. A
    /// port that does not exist, that is mandatory and left unconnected, or that has no payload
    /// type.
    pub fn start(self) -> Result<HarnessRun> {
        let spec = self.registry.specs().get(&self.type_name).cloned();
        let missing = || Error::InvalidArgument(format!("there is no component type `{}`", self.type_name));
        let spec = spec.ok_or_else(missing)?;
        let properties = Properties::new(&spec, self.values.clone());
        let properties = properties.map_err(|errors| InvalidProperties::new(errors.join("; ")))?;
        spec.validate(&properties)?;
        let types = self.port_types(&spec, &properties)?;
        let run = catch_panic(|| self.registry.make(&self.type_name, &properties).ok_or_else(missing)?)?;

        let (answer, answers) = mpsc::channel();
        let pending = PendingRequests::new(spec.clone(), properties, move |number, reply| {
            let _ = answer.send((number, reply));
        });
        // A failure stops the sends of the test, and not the receives.
        let (stop, test_stop, sends) = (StopToken::new()?, StopToken::new()?, StopToken::new()?);
        let (finished, of_component) = mpsc::channel();
        let ports = |finished, pending: &Arc<PendingRequests>, stop: &StopToken| Ports {
            component: COMPONENT.into(),
            process: OwnerProcess::current(),
            types: types.clone(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            finished,
            stop: stop.clone(),
            pace: PaceLog::default(),
            files: FileLog::default(),
            restarts: 0,
            dispatch: self.dispatch,
            quiet: true,
            pending: Arc::clone(pending),
        };
        let mut own = ports(Some(Local::new(finished)), &pending, &stop);
        let mirrored = PendingRequests::new(mirrored(&spec), Properties::default(), |_, _| ());
        let mut of_test = ports(None, &mirrored, &test_stop);
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let (moved, moves) = mpsc::sync_channel(1);
        for port in &spec.ports {
            let (payload, name) = (types.get(&port.name), |end: &str| format!("{end}.{}", port.name));
            let names = [name(TEST), name(COMPONENT)];
            match port.direction {
                Direction::Input => {
                    let mut link = self.link(names, payload, [&sends, &stop])?;
                    let progress = payload.map(|_| link.incoming.track_progress(moved.clone()));
                    of_test.outputs.insert(port.name.clone(), link.outgoing);
                    own.inputs.insert(port.name.clone(), link.incoming);
                    inputs.push(TestedInput { port: port.name.clone(), events: link.events, progress });
                }
                Direction::Output => {
                    let [test, component] = names;
                    let link = self.link([component, test], payload, [&stop, &test_stop])?;
                    own.outputs.insert(port.name.clone(), link.outgoing);
                    of_test.inputs.insert(port.name.clone(), link.incoming);
                    outputs.push(link.events);
                }
            }
        }
        let (end, ended) = mpsc::channel();
        let (of_run, failed) = (Arc::clone(&pending), sends.clone());
        let thread = std::thread::Builder::new().name(self.type_name.chars().take(15).collect());
        let work = move || {
            // The test must not wait for a component that has failed: sends fail at once, and
            // receives behind the last packet.
            let report = |error: &Error| {
                let failure = format!("the component ended with an error: {error}");
                failed.fail(failure.clone());
                outputs.iter().for_each(|port| port.push(PortEvent::Failed(failure.clone())));
            };
            own.stop_signal().enter();
            let outcome = match catch_panic(|| run(own)) {
                Err(Error::Stopped) => Ok(()),
                outcome => outcome.inspect_err(report),
            };
            // Requests fail with the failure, so the end comes behind the report.
            of_run.end();
            let mut outputs: Vec<Outgoing> = of_component.try_iter().collect();
            // After an error the streams get no end of stream, as in a waveform.
            let _ = end.send(outcome.and_then(|()| finish(&mut outputs, false).inspect_err(report)));
        };
        thread.spawn(work).map_err(|e| Error::not_started("cannot start the component's thread", e))?;
        Ok(HarnessRun { of_test, pending, answers, inputs, moves, stop, sends, ended, last: 0 })
    }

    /// Makes one connection. For a port without a payload type, both ends have no type.
    fn link(&self, names: [String; 2], payload: Option<&TypeName>, stops: [&StopToken; 2]) -> Result<Link> {
        let ([sender, receiver], [sender_stop, receiver_stop]) = (names, stops);
        let rules = SenderOptions::from(&self.options);
        let mut builder = PortBuilder::new(&sender, rules, sender_stop);
        let endpoint = payload.map(|payload| builder.bind("inproc", payload, rules)).transpose()?;
        let outgoing = builder.build(Sampling::default());
        let events = Arc::new(PortEvents::new()?);
        if let (Some(endpoint), Some(payload)) = (endpoint, payload) {
            let connection = format!("{sender} -> {receiver}");
            let options = self.options;
            let request = ConnectRequest::new(connection.clone(), payload.clone(), options);
            events.push(PortEvent::Connected(connection, policy::connect(&endpoint, &request)?));
        }
        let options = self.options;
        let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&options));
        let stop = receiver_stop.clone();
        let mut incoming = Incoming::new(receiver, Arc::clone(&events), options_for, stop, false, None);
        if options.resequence.is_some() {
            incoming.resequence(None);
        }
        // Neither end is started again, so the other end must not wait for it. The port takes the
        // connection now, because dropping the port ends only connections that it has taken.
        incoming.always_say_goodbye();
        incoming.senders();
        Ok(Link { outgoing, incoming, events })
    }

    /// Returns the payload type of each connected port.
    fn port_types(
        &self,
        spec: &ComponentSpec,
        properties: &Properties,
    ) -> Result<BTreeMap<String, TypeName>> {
        for port in self.types.keys().chain(&self.unconnected) {
            if spec.find_port(port).is_none() {
                return Err(unknown_port(spec, port, None));
            }
        }
        let mut types = BTreeMap::new();
        for port in &spec.ports {
            match (self.unconnected.contains(&port.name), port.mandatory) {
                (true, true) => return Err(Error::port(&port.name, "must be connected")),
                (true, false) => continue,
                (false, _) => {}
            }
            let name = match (self.types.get(&port.name), &port.types) {
                (Some(given), PortTypes::OneOf(types)) if !types.iter().any(|name| name.fits(given)) => {
                    return Err(Error::port(&port.name, format!("takes {}, not {given}", port.types)));
                }
                (Some(given), _) => Some(given.clone()),
                (None, PortTypes::OneOf(types)) if types.len() == 1 => types.first().cloned(),
                (None, PortTypes::SameAs(input)) => {
                    self.types.get(input).or_else(|| types.get(input)).cloned()
                }
                (None, PortTypes::Property(property)) => TypeName::parse(properties.text(property)).ok(),
                (None, _) => None,
            };
            let unclear = || Error::port(&port.name, format!("takes {}: name one by `payload`", port.types));
            types.insert(port.name.clone(), name.ok_or_else(unclear)?);
        }
        Ok(types)
    }
}

/// The two ends of a connection.
struct Link {
    outgoing: Outgoing,
    incoming: Incoming,
    events: Arc<PortEvents>,
}

/// Returns a specification with the opposite direction of each port.
fn mirrored(spec: &ComponentSpec) -> ComponentSpec {
    let mut spec = spec.clone();
    for port in &mut spec.ports {
        port.direction = match port.direction {
            Direction::Input => Direction::Output,
            Direction::Output => Direction::Input,
        };
    }
    spec
}

/// A component that runs in a [`Harness`], and the other ends of the component's ports. Each end
/// can be taken once. An end that is not taken ends with [`HarnessRun::finish`]. Until then, the
/// packets of an output that is not taken wait, and may block the component. Dropping the run stops
/// the component, and drops its error: end a test with [`HarnessRun::finish`].
///
/// After a failure or panic of the component, the test gets the packets that the component has
/// sent. Behind them, each receive returns an [`Error::Failed`] with the component's error, and so
/// does each later send or request. A component that returns without an error ends the streams of
/// its outputs, and packets that are sent to it are dropped.
///
/// ```
/// use stripline::component::harness::Harness;
/// use stripline::component::{ComponentSpec, PortTypes, Ports, Properties, PropertySpec, Registry};
/// use stripline::payload::{Dynamic, SampleType};
///
/// // A component by value, of a sample type by value.
/// let samples = SampleType::parse("s16")?;
/// let spec = ComponentSpec::new("count", "Counts samples.")
///     .input("in", PortTypes::of_type(&samples), "samples")
///     .property(PropertySpec::integer("counted", 0, 0, i64::MAX, "samples so far").read_only())
///     .property(PropertySpec::integer("step", 1, 1, 100, "weight").changeable());
/// let registry = Registry::new().with_value(spec, move |properties: &Properties| {
///     let (mut step, samples) = (properties.count("step"), samples.clone());
///     Ok(move |mut ports: Ports| {
///         let (requests, counted) = (ports.requests(), ports.status::<u64>("counted")?);
///         let mut input = ports.input::<Dynamic>(("in", &samples))?;
///         while let Some(packet) =
///             input.receive_with(|| requests.apply_changes(|new| Ok(step = new.count("step"))))?
///         {
///             counted.add(packet.samples() as u64 * step);
///         }
///         Ok(())
///     })
/// });
/// let mut count = Harness::of_type(&registry, "count").start()?;
/// count.set("step", 10)?;
/// let mut input = count.input::<i16>("in")?;
/// input.send(&[1, 2, 3])?;
/// input.finish()?;
/// let values = count.finish()?;
/// assert_eq!(values["counted"], 30.into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HarnessRun {
    /// The other ends of the ports.
    of_test: Ports,
    pending: Arc<PendingRequests>,
    answers: Receiver<(u64, RequestAnswer)>,
    inputs: Vec<TestedInput>,
    /// Receives a value when an input has made progress.
    moves: Receiver<()>,
    stop: StopToken,
    /// Stops the sends of the test, with the failure of the component.
    sends: StopToken,
    ended: Receiver<Result<()>>,
    /// The number of the last request.
    last: u64,
}

/// An input of the component, to wake the component and to follow its progress.
struct TestedInput {
    port: String,
    events: Arc<PortEvents>,
    /// `None`: the input is not connected.
    progress: Option<Arc<Progress>>,
}

impl HarnessRun {
    /// Takes the sending end of an input.
    ///
    /// # Errors
    /// Same as [`Ports::input`].
    pub fn input<'a, C: Content>(&mut self, port: impl Into<PortName<'a, C>>) -> Result<Publisher<C>> {
        self.of_test.output(port)
    }

    /// Takes the receiving end of an output.
    ///
    /// # Errors
    /// Same as [`Ports::output`].
    pub fn output<'a, C: Content>(&mut self, port: impl Into<PortName<'a, C>>) -> Result<Subscriber<C>> {
        self.of_test.input(port)
    }

    /// Sets a property while the component runs. Blocks until the component has taken or refused
    /// the value, for at most ten seconds.
    ///
    /// The change comes behind the packets that were sent before: the component handles them with
    /// the old value, on any number of threads, and later ones with the new value. A component
    /// that waits at one input leaves the packets of other inputs for the new value. Connections
    /// that drop packets have no such order.
    ///
    /// # Errors
    /// The reason for a refusal; the error of a component that has failed; a component that has
    /// ended, takes no requests, or does not take the packets before the change.
    pub fn set(&mut self, property: &str, value: impl Into<Value>) -> Result<()> {
        self.set_while(property, value, ANSWER_TIME, || true)
    }

    /// Sets a property as [`HarnessRun::set`] does, within `timeout`. Calls `goes_on` at least
    /// every 20 ms, and gives up the request once it returns false. For a program that checks for
    /// signals.
    ///
    /// # Errors
    /// Same as [`HarnessRun::set`]. [`Error::Interrupted`] for a request that was given up.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use stripline::Error;
    /// # use stripline::component::harness::Harness;
    /// # use stripline::component::{ComponentSpec, Ports, Properties, PropertySpec, Registry};
    /// let spec = ComponentSpec::new("deaf", "Takes no requests.")
    ///     .property(PropertySpec::float("gain", 1.0, "linear gain").changeable());
    /// let registry = Registry::new().with_value(spec, |_: &Properties| {
    ///     Ok(|ports: Ports| ports.stop_signal().sleep(Duration::from_secs(60)))
    /// });
    /// let mut run = Harness::of_type(&registry, "deaf").start()?;
    /// let outcome = run.set_while("gain", 2.0, Duration::MAX, || false);
    /// assert!(matches!(outcome, Err(Error::Interrupted { .. })));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn set_while(
        &mut self,
        property: &str,
        value: impl Into<Value>,
        timeout: Duration,
        goes_on: impl FnMut() -> bool,
    ) -> Result<()> {
        let values = BTreeMap::from([(property.to_string(), value.into())]);
        match self.ask(Ask::Configure(values), timeout, goes_on)? {
            RequestAnswer::Configured(outcome) => {
                outcome.map_err(|reason| InvalidProperties::new(reason).into())
            }
            other => Err(self.refused(&other)),
        }
    }

    /// Runs a self-test. Blocks as [`HarnessRun::set`] does.
    ///
    /// # Errors
    /// An unknown test; otherwise the same as [`HarnessRun::set`]. A test that fails is not an
    /// error.
    pub fn test(&mut self, name: &str) -> Result<TestResult> {
        self.test_while(name, ANSWER_TIME, || true)
    }

    /// Runs a self-test as [`HarnessRun::test`] does, and waits as [`HarnessRun::set_while`] does.
    ///
    /// # Errors
    /// Same as these two functions.
    pub fn test_while(
        &mut self,
        name: &str,
        timeout: Duration,
        goes_on: impl FnMut() -> bool,
    ) -> Result<TestResult> {
        let spec = &self.pending.spec;
        if spec.find_test(name).is_none() {
            let mut remedy = did_you_mean(name, spec.tests.iter().map(|test| test.name.as_str()), "it has");
            if remedy.is_empty() {
                remedy = "it has none at all".into();
            }
            let (component, test) = (&spec.name, quoted(name));
            return Err(Error::InvalidArgument(format!(
                "component type `{component}` has no self-test {test}; {remedy}"
            )));
        }
        match self.ask(Ask::Test(name.into()), timeout, goes_on)? {
            RequestAnswer::Tested(result) => Ok(result),
            other => Err(self.refused(&other)),
        }
    }

    /// Waits until the component has handled the packets that were sent before, as
    /// [`HarnessRun::set_while`] does, without a request. A component that has ended has.
    ///
    /// # Errors
    /// A component that does not ask for the next packet in time. [`Error::Interrupted`] for a wait
    /// that was given up.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use stripline::component::harness::Harness;
    /// # use stripline::component::{ComponentSpec, Ports, Properties, Registry};
    /// # let idle = ComponentSpec::new("idle", "Does nothing.");
    /// # let registry = Registry::new().with_value(idle, |_: &Properties| Ok(|_: Ports| Ok(())));
    /// let mut run = Harness::of_type(&registry, "idle").start()?;
    /// run.catch_up_while(Duration::from_secs(60), || true)?;
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn catch_up_while(&mut self, timeout: Duration, mut goes_on: impl FnMut() -> bool) -> Result<()> {
        self.last += 1;
        self.catch_up(timeout, time_until(timeout), &mut goes_on)
    }

    /// Returns the values of the read-only properties that the component has set.
    pub fn values(&self) -> BTreeMap<String, Value> {
        let values = self.pending.statuses.values(&self.pending.spec);
        values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Stops the component: its ports return [`Error::Stopped`] from now on.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Ends the ports that were not taken, and blocks until the component has ended, for at most a
    /// minute. Returns the values of the read-only properties.
    ///
    /// # Errors
    /// The error of the component. Also a component that has not ended in time, for example because
    /// an input that was taken has not ended yet. The component is then stopped.
    pub fn finish(self) -> Result<BTreeMap<String, Value>> {
        self.finish_within(END_TIME)
    }

    /// Waits as [`HarnessRun::finish`] does, but no longer than `timeout`.
    ///
    /// # Errors
    /// Same as [`HarnessRun::finish`].
    pub fn finish_within(mut self, timeout: Duration) -> Result<BTreeMap<String, Value>> {
        let values = self.wait_for_end(timeout)?;
        values.ok_or_else(|| {
            let seconds = timeout.as_secs_f64();
            Error::failed(format!(
                "`{}` has not ended within {seconds} s: end its inputs, and take the packets of its outputs; \
                 otherwise, it hangs",
                self.pending.spec.name
            ))
        })
    }

    /// Waits as [`HarnessRun::finish_within`] does, but keeps the run. `None`: the component has
    /// not ended yet, and another call continues the wait. For a program that does other work
    /// in the meantime.
    ///
    /// # Errors
    /// The error of the component, which is returned once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::component::harness::Harness;
    /// use stripline::component::{ComponentSpec, Ports, Properties, Registry};
    ///
    /// let idle = ComponentSpec::new("idle", "Does nothing.");
    /// let registry = Registry::new().with_value(idle, |_: &Properties| Ok(|_: Ports| Ok(())));
    /// let mut run = Harness::of_type(&registry, "idle").start()?;
    /// assert!(run.wait_for_end(Duration::from_secs(60))?.is_some());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn wait_for_end(&mut self, timeout: Duration) -> Result<Option<BTreeMap<String, Value>>> {
        self.of_test.end_untaken();
        self.of_test.inputs.clear();
        match self.ended.recv_timeout(timeout) {
            Ok(outcome) => outcome.map(|()| Some(self.values())),
            Err(_) => Ok(None),
        }
    }

    fn ask(
        &mut self,
        ask: Ask,
        timeout: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<RequestAnswer> {
        self.last += 1;
        let time_left = time_until(timeout);
        self.catch_up(timeout, &time_left, &mut goes_on)?;
        self.pending.push(self.last, ask);
        self.inputs.iter().for_each(|input| input.events.notify_request());
        loop {
            let remaining = time_left();
            match self.answers.recv_timeout(remaining.min(PAUSE_TIME)) {
                Ok((number, answer)) if number == self.last => match answer {
                    RequestAnswer::Waiting { .. } => {}
                    answer => return Ok(answer),
                },
                // The late answer to a request that was given up.
                Ok(_) => {}
                Err(_) if remaining.is_zero() => {
                    self.pending.withdraw(self.last);
                    let seconds = timeout.as_secs_f64();
                    return Err(Error::failed(format!(
                        "the component has taken no request within {seconds} s: it must poll `Ports::requests`"
                    )));
                }
                Err(_) => {}
            }
            if !goes_on() {
                self.pending.withdraw(self.last);
                return Err(Error::Interrupted { port: COMPONENT.into(), sent: false });
            }
        }
    }

    /// Returns the error for a request that was not served.
    fn refused(&self, answer: &RequestAnswer) -> Error {
        match (answer, self.sends.failure()) {
            (RequestAnswer::NotTaken(reason), _) => Error::failed(reason),
            (_, Some(failure)) => failure,
            _ => Error::failed("the component has ended"),
        }
    }

    /// Waits until the component has handled the packets that were sent before this call.
    fn catch_up(
        &self,
        timeout: Duration,
        time_left: impl Fn() -> Duration,
        goes_on: &mut impl FnMut() -> bool,
    ) -> Result<()> {
        let connected = || self.inputs.iter().filter_map(|input| Some((input, input.progress.as_ref()?)));
        for (input, progress) in connected() {
            progress.ask(self.last);
            input.events.renew_wait();
        }
        // To an input that the test has not taken, nothing was sent.
        let is_untaken = |input: &TestedInput| self.of_test.outputs.contains_key(&input.port);
        loop {
            let answers: Vec<_> = connected()
                .map(|(input, progress)| (input, progress.answer(self.last)))
                .filter(|(input, answer)| *answer != CaughtUp::No || !is_untaken(input))
                .collect();
            let behind = answers.iter().find(|(_, answer)| *answer == CaughtUp::No);
            // A component that waits at one input takes nothing of the others before a packet.
            let waits = answers.iter().any(|(_, answer)| *answer == CaughtUp::Waits);
            let Some((input, _)) = behind.filter(|_| !waits) else { return Ok(()) };
            if time_left().is_zero() {
                let (port, seconds) = (&input.port, timeout.as_secs_f64());
                return Err(Error::failed(format!(
                    "the component has not asked for the next packet of `{port}` within {seconds} s: it has not \
                     handled all packets that were sent before"
                )));
            }
            let _ = self.moves.recv_timeout(time_left().min(PAUSE_TIME));
            if !goes_on() {
                return Err(Error::Interrupted { port: COMPONENT.into(), sent: false });
            }
        }
    }
}

/// Returns a function of the time that is left of a timeout. A timeout beyond the clock's range
/// means no limit.
fn time_until(timeout: Duration) -> impl Fn() -> Duration {
    let until = Instant::now().checked_add(timeout);
    move || until.map_or(PAUSE_TIME, |until| until.saturating_duration_since(Instant::now()))
}

impl Drop for HarnessRun {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
