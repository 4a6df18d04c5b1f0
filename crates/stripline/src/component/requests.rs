//! Requests to a running component: new values for properties, and self-tests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::control::{Ask, RequestAnswer};
use super::status::Statuses;
use super::{ComponentSpec, Properties, Value};
use crate::error::Result;
use crate::sys::fork::LocalMutex;

/// The most requests that may wait for a component that does not poll.
const WAITING_MAX: usize = 64;
/// The longest text of an answer, in bytes.
const REPLY_BYTES_MAX: usize = 4096;

/// The requests to a running component, which it polls between packets. Without a request, a poll
/// costs one relaxed load.
///
/// Obtained from [`Ports::requests`](super::Ports::requests). Copies share the requests and each
/// request is returned once, so all threads of a pool may poll. Polling never blocks.
///
/// A component that polls only between packets reacts late when no packets arrive.
/// [`Input::receive_with`](crate::node::Subscriber::receive_with) takes requests at once.
///
/// ```no_run
/// use stripline::Result;
/// use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, Request};
///
/// struct Gain { factor: f32 }
///
/// impl Component for Gain {
///     fn describe() -> ComponentSpec {
///         ComponentSpec::new("gain", "Multiplies every sample by a factor.")
///             .input("in", PortTypes::of::<f32>(), "samples")
///             .output("out", PortTypes::of::<f32>(), "samples times the factor")
///             .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6).changeable())
///             .property(PropertySpec::integer("clipped", 0, 0, i64::MAX, "samples beyond 1").read_only())
///             .test("unity", "a one becomes the factor")
///     }
///
///     fn new(properties: &Properties) -> Result<Self> {
///         Ok(Self { factor: properties.float("factor") as f32 })
///     }
///
///     fn run(mut self, mut ports: Ports) -> Result<()> {
///         let requests = ports.requests();
///         let clipped = ports.status::<u64>("clipped")?;
///         let mut input = ports.input::<f32>("in")?;
///         let mut output = ports.output::<f32>("out")?;
///         while let Some(packet) = input.receive_with(|| {
///             while let Some(request) = requests.request() {
///                 match request {
///                     // The values have been checked: one by one, and by `ComponentSpec::validated`.
///                     Request::Change(change) => {
///                         self.factor = change.properties().float("factor") as f32;
///                         change.accept();
///                     }
///                     Request::Test(test) if 1.0 * self.factor == self.factor => test.pass("as it should be"),
///                     Request::Test(test) => test.fail("the arithmetic is broken"),
///                 }
///             }
///         })? {
///             let mut out = output.loan(packet.len())?;
///             for (y, x) in out.iter_mut().zip(&*packet) {
///                 *y = x * self.factor;
///             }
///             clipped.add(out.iter().filter(|y| y.abs() > 1.0).count() as u64);
///             out.send_like(&packet)?;
///         }
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone)]
pub struct ControlRequests(Arc<PendingRequests>);

impl ControlRequests {
    /// Returns the next request, if there is one.
    pub fn request(&self) -> Option<Request> {
        // Relaxed: this is only a hint. The lock orders access to the requests.
        if self.0.any.load(Ordering::Relaxed) { PendingRequests::take(&self.0) } else { None }
    }

    /// Passes every requested change to `apply`, with the values of all properties. If `apply`
    /// returns an error, the change is refused with the error's text and the old values stay in
    /// effect. For components without self-tests, and for handlers:
    ///
    /// ```no_run
    /// # use stripline::component::Ports;
    /// # use stripline::node::Dispatch;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// fn run(mut ports: Ports) -> stripline::Result<()> {
    ///     let requests = ports.requests();
    ///     let threshold = AtomicU64::new(1f64.to_bits());
    ///     let mut input = ports.input::<f32>("in")?;
    ///     input.serve(Dispatch::pool(4)?, move |packet| {
    ///         // One of the four threads takes it; all of them see it.
    ///         requests.apply_changes(|new| Ok(threshold.store(new.float("threshold").to_bits(), Ordering::Relaxed)));
    ///         let limit = f64::from_bits(threshold.load(Ordering::Relaxed));
    ///         println!("{} samples beyond it", packet.iter().filter(|x| f64::from(**x) > limit).count());
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn apply_changes(&self, mut apply: impl FnMut(&Properties) -> Result<()>) {
        while let Some(request) = self.request() {
            match request {
                Request::Change(change) => change.apply(&mut apply),
                Request::Test(test) => {
                    test.fail("the component answers no self-tests: it has to take them by `ControlRequests::request`");
                }
            }
        }
    }
}

/// A request to a component.
///
/// ```no_run
/// # fn example(requests: stripline::component::ControlRequests) {
/// use stripline::component::Request;
///
/// if let Some(Request::Test(test)) = requests.request() {
///     test.pass("no fault found");
/// }
/// # }
/// ```
#[derive(Debug)]
pub enum Request {
    /// A request to set new values of the component's properties.
    Change(Change),
    /// A request to run a self-test.
    Test(Test),
}

/// A change of some properties, to be taken as a whole or refused. The values fit their
/// specifications and [`ComponentSpec::validated`], and all these properties are [`Access::Changeable`](super::Access::Changeable).
/// A change that is dropped without an answer is refused.
///
/// ```no_run
/// # fn example(requests: stripline::component::ControlRequests) {
/// use stripline::component::Request;
///
/// if let Some(Request::Change(change)) = requests.request() {
///     let (low, high) = (change.properties().float("low"), change.properties().float("high"));
///     if low < high {
///         println!("{:?} are other than before", change.names().collect::<Vec<_>>());
///         change.accept();
///     } else {
///         change.refuse(format!("`high` is {high} Hz; it must be above `low`, {low} Hz"));
///     }
/// }
/// # }
/// ```
pub struct Change {
    properties: Properties,
    names: Vec<String>,
    reply: ReplyHandle,
}

impl Change {
    /// Returns all properties, with the new values of the changed ones.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the names of the properties that were set, including those set to their old value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Reports that the values are in effect.
    pub fn accept(mut self) {
        if let Some(mut state) = self.reply.asked.state.lock() {
            state.properties = self.properties.clone();
        }
        self.reply.answer = RequestAnswer::Configured(Ok(()));
    }

    /// Reports that the component keeps the old values, and the reason.
    pub fn refuse(mut self, reason: impl fmt::Display) {
        self.reply.answer = RequestAnswer::Configured(Err(cut(reason)));
    }

    /// Accepts or refuses the change, depending on the result of `apply`.
    pub fn apply(self, apply: impl FnOnce(&Properties) -> Result<()>) {
        match apply(&self.properties) {
            Ok(()) => self.accept(),
            Err(error) => self.refuse(error),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A request to run a self-test now. A test that is dropped without an answer counts as failed.
///
/// ```no_run
/// # fn example(test: stripline::component::Test) {
/// use stripline::component::TestResult;
///
/// match test.name() {
///     "noise" => test.answer(TestResult::pass("quiet").value(-98.5)),
///     _ => test.fail("the component has no such test"),
/// }
/// # }
/// ```
pub struct Test {
    name: String,
    reply: ReplyHandle,
}

impl Test {
    /// Returns the name of the test, which is in the specification.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports that the test passed, with a remark.
    pub fn pass(self, text: impl fmt::Display) {
        self.answer(TestResult::pass(text));
    }

    /// Reports that the test failed, with the reason.
    pub fn fail(self, text: impl fmt::Display) {
        self.answer(TestResult::fail(text));
    }

    /// Reports the result of the test.
    pub fn answer(mut self, result: TestResult) {
        self.reply.answer = RequestAnswer::Tested(result);
    }
}

impl fmt::Debug for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Test").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The result of a self-test.
///
/// ```
/// use stripline::component::{TestResult, Value};
///
/// let result = TestResult::pass("61.2 dB down").value(-61.2);
/// assert!(result.passed && result.value == Some(Value::Float(-61.2)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Whether the test passed.
    pub passed: bool,
    /// The measured value, if any.
    pub value: Option<Value>,
    /// A line for users.
    pub text: String,
}

impl TestResult {
    /// Returns a passed result with this text.
    pub fn pass(text: impl fmt::Display) -> Self {
        Self { passed: true, value: None, text: cut(text) }
    }

    /// Returns a failed result with this text.
    pub fn fail(text: impl fmt::Display) -> Self {
        Self { passed: false, value: None, text: cut(text) }
    }

    /// Adds the measured value. A value that is not finite is left out.
    #[must_use]
    pub fn value(mut self, value: f64) -> Self {
        self.value = value.is_finite().then_some(Value::Float(value));
        self
    }
}

/// The state shared by the control thread and the threads of a component: the waiting requests, and
/// the values of the read-only properties.
pub(super) struct PendingRequests {
    any: AtomicBool,
    state: LocalMutex<RequestState>,
    pub spec: ComponentSpec,
    pub statuses: Statuses,
    reply: Box<dyn Fn(u64, RequestAnswer) + Send + Sync>,
}

struct RequestState {
    /// The values in effect.
    properties: Properties,
    waiting: VecDeque<(u64, Ask)>,
    /// Whether the component has taken the [`ControlRequests`].
    polls: bool,
    ended: bool,
}

impl PendingRequests {
    pub(super) fn new(
        spec: ComponentSpec,
        properties: Properties,
        answer: impl Fn(u64, RequestAnswer) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = RequestState { properties, waiting: VecDeque::new(), polls: false, ended: false };
        Arc::new(Self {
            any: AtomicBool::new(false),
            state: LocalMutex::new(state),
            statuses: Statuses::new(&spec),
            spec,
            reply: Box::new(answer),
        })
    }

    pub(super) fn requests(pending: &Arc<Self>) -> ControlRequests {
        if let Some(mut state) = pending.state.lock() {
            state.polls = true;
        }
        ControlRequests(Arc::clone(pending))
    }

    /// Queues a request for the component, and reports that it waits.
    pub(super) fn push(&self, number: u64, ask: Ask) {
        let Some(mut state) = self.state.lock() else { return };
        let answer = if state.ended {
            RequestAnswer::Ended
        } else if state.waiting.len() >= WAITING_MAX {
            RequestAnswer::NotTaken(format!("{WAITING_MAX} requests wait for it already"))
        } else {
            state.waiting.push_back((number, ask));
            self.any.store(true, Ordering::Relaxed);
            RequestAnswer::Waiting { looks: state.polls }
        };
        drop(state);
        (self.reply)(number, answer);
    }

    /// Cancels a request that is still queued.
    pub(super) fn withdraw(&self, number: u64) {
        let Some(mut state) = self.state.lock() else { return };
        state.waiting.retain(|(other, _)| *other != number);
        self.any.store(!state.waiting.is_empty(), Ordering::Relaxed);
    }

    /// Marks the component as ended: no more requests are taken.
    pub(super) fn end(&self) {
        let waiting = {
            let Some(mut state) = self.state.lock() else { return };
            state.ended = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|(number, _)| (self.reply)(number, RequestAnswer::Ended));
    }

    #[cold]
    fn take(pending: &Arc<Self>) -> Option<Request> {
        loop {
            // A forked child leaves the requests to the parent.
            let mut state = pending.state.lock()?;
            let next = state.waiting.pop_front();
            pending.any.store(!state.waiting.is_empty(), Ordering::Relaxed);
            let (number, ask) = next?;
            let reply = |answer| ReplyHandle { asked: Arc::clone(pending), number, answer };
            match ask {
                // The process answers these requests.
                Ask::Tap(_) | Ask::PrepareMove(_) | Ask::Move(_) | Ask::CancelMove(_) => {}
                Ask::Test(name) => {
                    let unsaid = RequestAnswer::Tested(TestResult::fail("the component reported no result"));
                    return Some(Request::Test(Test { name, reply: reply(unsaid) }));
                }
                Ask::Configure(values) => {
                    let changed = state.properties.changed(&pending.spec, &values);
                    // The component's own check may take time.
                    drop(state);
                    // The launcher has checked the values, but has another specification if the
                    // executable was rebuilt in the meantime.
                    let checked = changed.map_err(|errors| errors.join("; ")).and_then(|properties| {
                        let outcome = pending.spec.validate(&properties);
                        outcome.map(|()| properties).map_err(|invalid| invalid.to_string())
                    });
                    match checked {
                        Ok(properties) => {
                            let unsaid =
                                RequestAnswer::Configured(Err("the component did not take them".into()));
                            let (names, reply) = (values.into_keys().collect(), reply(unsaid));
                            return Some(Request::Change(Change { properties, names, reply }));
                        }
                        Err(reason) => (pending.reply)(number, RequestAnswer::Configured(Err(cut(reason)))),
                    }
                }
            }
        }
    }
}

/// The reply channel of a request, which sends the answer when dropped.
struct ReplyHandle {
    asked: Arc<PendingRequests>,
    number: u64,
    /// Initially the answer for a component that gives none.
    answer: RequestAnswer,
}

impl Drop for ReplyHandle {
    fn drop(&mut self) {
        (self.asked.reply)(self.number, self.answer.clone());
    }
}

/// Shortens a text to the limit of an answer.
fn cut(words: impl fmt::Display) -> String {
    let mut words = words.to_string();
    if words.len() > REPLY_BYTES_MAX {
        let end = (0..=REPLY_BYTES_MAX).rev().find(|at| words.is_char_boundary(*at)).unwrap_or(0);
        words.truncate(end);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::super::PropertySpec;
    use super::*;
    use crate::error::Error;

    /// Builds the queue of a component with two properties, the component's handle, and the
    /// receiver of the answers.
    fn asked() -> (Arc<PendingRequests>, ControlRequests, Receiver<(u64, RequestAnswer)>) {
        let spec = ComponentSpec::new("band", "")
            .property(PropertySpec::float("low", 1.0, "").range(0.0, 10.0).changeable())
            .property(PropertySpec::float("high", 2.0, "").range(0.0, 10.0).changeable())
            .property(PropertySpec::float("rate", 5.0, ""))
            .test("level", "");
        let properties = Properties::defaults(&spec).unwrap();
        let (sender, answers) = channel();
        let pending = PendingRequests::new(spec, properties, move |number, answer| {
            let _ = sender.send((number, answer));
        });
        let requests = PendingRequests::requests(&pending);
        (pending, requests, answers)
    }

    fn values(values: &[(&str, f64)]) -> Ask {
        Ask::Configure(values.iter().map(|(name, x)| ((*name).into(), Value::Float(*x))).collect())
    }

    fn said(answers: &Receiver<(u64, RequestAnswer)>) -> Vec<(u64, RequestAnswer)> {
        answers
            .try_iter()
            .filter(|(_, answer)| !matches!(answer, RequestAnswer::Waiting { looks: true }))
            .collect()
    }

    #[test]
    fn a_change_builds_upon_the_accepted_ones() {
        let (pending, requests, answers) = asked();
        assert!(requests.request().is_none());
        pending.push(1, values(&[("low", 3.0)]));
        pending.push(2, values(&[("high", 4.0)]));
        pending.push(3, values(&[("low", 2.0), ("high", 5.0)]));
        let mut seen = Vec::new();
        requests.apply_changes(|new| {
            let (low, high) = (new.float("low"), new.float("high"));
            seen.push((low, high, new.float("rate")));
            if low < high { Ok(()) } else { Err(Error::failed("upside down")) }
        });
        // The first change was refused, so the second change does not contain these values.
        assert_eq!(seen, [(3.0, 2.0, 5.0), (1.0, 4.0, 5.0), (2.0, 5.0, 5.0)]);
        let refused = RequestAnswer::Configured(Err("upside down".into()));
        let accepted = || RequestAnswer::Configured(Ok(()));
        assert_eq!(said(&answers), [(1, refused), (2, accepted()), (3, accepted())]);
        assert!(requests.request().is_none());
    }

    #[test]
    fn new_values_are_checked_together_before_the_component_gets_them() {
        let spec = ComponentSpec::new("band", "")
            .property(PropertySpec::float("low", 1.0, "").changeable())
            .property(PropertySpec::float("high", 2.0, "").changeable())
            .validated(|new| match new.float("low") < new.float("high") {
                true => Ok(()),
                false => Err(Error::failed("upside down")),
            });
        let (sender, answers) = channel();
        let properties = Properties::defaults(&spec).unwrap();
        let pending = PendingRequests::new(spec, properties, move |number, answer| {
            let _ = sender.send((number, answer));
        });
        let requests = PendingRequests::requests(&pending);
        pending.push(1, values(&[("low", 3.0)]));
        pending.push(2, values(&[("low", 3.0), ("high", 4.0)]));
        pending.push(3, values(&[("high", 2.5)]));
        let mut seen = Vec::new();
        requests.apply_changes(|new| {
            seen.push((new.float("low"), new.float("high")));
            Ok(())
        });
        assert_eq!(seen, [(3.0, 4.0)]);
        let refused = || RequestAnswer::Configured(Err("upside down".into()));
        let accepted = RequestAnswer::Configured(Ok(()));
        assert_eq!(said(&answers), [(1, refused()), (2, accepted), (3, refused())]);
    }

    #[test]
    fn every_request_gets_exactly_one_answer() {
        let (pending, requests, answers) = asked();
        pending.push(1, values(&[("low", 0.5)]));
        drop(requests.request());
        pending.push(2, Ask::Test("level".into()));
        drop(requests.clone().request());
        pending.push(3, values(&[("low", 11.0)]));
        pending.push(4, values(&[("rate", 1.0)]));
        // The values do not fit, so the component never gets the request.
        assert!(requests.request().is_none());
        pending.push(5, Ask::Test("level".into()));
        pending.withdraw(5);
        assert!(requests.request().is_none());
        pending.push(6, values(&[("low", 0.5)]));
        pending.end();
        pending.push(7, values(&[("low", 0.5)]));
        pending.end();
        let said = said(&answers);
        let numbers: Vec<u64> = said.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 6, 7]);
        assert!(
            matches!(&said[0].1, RequestAnswer::Configured(Err(reason)) if reason.contains("did not take"))
        );
        assert!(matches!(&said[1].1, RequestAnswer::Tested(result) if !result.passed));
        assert!(
            matches!(&said[2].1, RequestAnswer::Configured(Err(reason)) if reason.contains("from 0 to 10"))
        );
        assert!(
            matches!(&said[3].1, RequestAnswer::Configured(Err(reason)) if reason.contains("cannot be changed"))
        );
        assert_eq!(said[4..], [(6, RequestAnswer::Ended), (7, RequestAnswer::Ended)]);
    }

    #[test]
    fn the_request_queue_is_bounded_and_a_component_that_never_polls_is_reported() {
        let (pending, requests, answers) = asked();
        for number in 0..=WAITING_MAX as u64 {
            pending.push(number, Ask::Test("level".into()));
        }
        let last = said(&answers).pop().unwrap();
        assert!(matches!(last, (64, RequestAnswer::NotTaken(reason)) if reason.contains("64 requests")));
        // Each request is returned once, no matter how many copies poll.
        let both = [requests.clone(), requests];
        let taken = std::thread::scope(|scope| {
            let looking = both
                .each_ref()
                .map(|requests| scope.spawn(|| std::iter::from_fn(|| requests.request()).count()));
            looking.map(|thread| thread.join().unwrap()).iter().sum::<usize>()
        });
        assert_eq!(taken, WAITING_MAX);
        let spec = ComponentSpec::new("deaf", "");
        let (sender, answers) = channel();
        let pending =
            PendingRequests::new(spec, Properties::default(), move |_, answer| drop(sender.send(answer)));
        pending.push(1, Ask::Test("level".into()));
        assert_eq!(answers.try_recv(), Ok(RequestAnswer::Waiting { looks: false }));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("ä".repeat(REPLY_BYTES_MAX)).len(), REPLY_BYTES_MAX);
        assert_eq!(TestResult::pass("x").value(f64::NAN).value, None);
    }
}
