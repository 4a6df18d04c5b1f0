//! One component in this process, with ports that a test feeds and reads.

use std::collections::BTreeMap;
use std::time::Duration;

use stripline::ErrorCode;
use stripline::component::harness::{Harness as Preparation, HarnessRun};
use stripline::component::{ComponentSpec, Registry, TestResult, Value};
use stripline::node::Topics;

use crate::Failure;

/// A harness that is prepared, started and finished by one handle of a program.
///
/// ```
/// use stripline::component::{ComponentSpec, Ports, Properties, Registry};
/// use stripline_bindings::{Failure, Harness};
///
/// let idle = ComponentSpec::new("idle", "Does nothing.");
/// let registry = Registry::new().with_value(idle.clone(), |_: &Properties| Ok(|_: Ports| Ok(())));
/// let mut harness = Harness::new(&registry, idle);
/// assert!(harness.run().is_err());
/// harness.start()?;
/// harness.finish(None)?;
/// assert!(harness.start().is_err());
/// # Ok::<(), Failure>(())
/// ```
pub struct Harness {
    spec: ComponentSpec,
    state: State,
}

enum State {
    /// Boxed, because the last variant is smaller.
    Prepared(Box<Preparation>),
    Running(Box<HarnessRun>),
    /// Contains the values of the read-only properties.
    Ended(BTreeMap<String, Value>),
}

impl Harness {
    /// Creates a harness of a component type in a registry.
    pub fn new(registry: &Registry, spec: ComponentSpec) -> Self {
        let state = State::Prepared(Box::new(Preparation::of_type(registry, &spec.name)));
        Self { spec, state }
    }

    /// Returns the specification of the component.
    pub fn spec(&self) -> &ComponentSpec {
        &self.spec
    }

    /// Returns whether the component was not started yet.
    pub fn is_prepared(&self) -> bool {
        matches!(self.state, State::Prepared(_))
    }

    /// Changes the component before the start.
    ///
    /// # Errors
    /// The component was started before.
    pub fn prepare(&mut self, change: impl FnOnce(Preparation) -> Preparation) -> Result<(), Failure> {
        let State::Prepared(harness) = &mut self.state else {
            return Err(self.misused("was started before; make another harness"));
        };
        let unused = Preparation::of_type(&Registry::new(), "");
        **harness = change(std::mem::replace(harness, unused));
        Ok(())
    }

    /// Sets the options of all connections, and the threads of a handler, from the text of a topics
    /// file.
    ///
    /// # Errors
    /// An invalid text; the component was started before.
    pub fn set_options(&mut self, topics: &str) -> Result<(), Failure> {
        let topics = Topics::parse(topics)?;
        // The empty name matches no topic, so this returns the defaults.
        let options = topics.of("");
        self.prepare(|harness| harness.options(options.link).dispatch(options.dispatch))
    }

    /// Creates the component, connects the ports, and runs it on another thread. A component that
    /// could not start cannot be started later.
    ///
    /// # Errors
    /// The component was started before, or the errors of [`Preparation::start`].
    pub fn start(&mut self) -> Result<(), Failure> {
        self.prepare(|harness| harness)?;
        if let State::Prepared(harness) = std::mem::replace(&mut self.state, State::Ended(BTreeMap::new())) {
            self.state = State::Running(Box::new(harness.start()?));
        }
        Ok(())
    }

    /// Returns the running component.
    ///
    /// # Errors
    /// The component was not started, or has ended.
    pub fn run(&mut self) -> Result<&mut HarnessRun, Failure> {
        if let State::Prepared(_) = self.state {
            return Err(self.misused("was not started yet"));
        }
        if let State::Ended(_) = self.state {
            return Err(self.misused(
                "has ended, and its harness is closed: take its ports, and make requests, before `finish`",
            ));
        }
        let State::Running(run) = &mut self.state else { unreachable!("checked above") };
        Ok(run)
    }

    /// Returns the values of the read-only properties: now, or at the end of the component.
    ///
    /// # Errors
    /// The component was not started.
    pub fn values(&mut self) -> Result<BTreeMap<String, Value>, Failure> {
        match &self.state {
            State::Ended(values) => Ok(values.clone()),
            _ => Ok(self.run()?.values()),
        }
    }

    /// Waits for the end of the component, and keeps the values of the read-only properties; `None`
    /// waits up to a minute. A component that does not end in time is stopped.
    ///
    /// # Errors
    /// The failure of the component; it was not started, or did not end in time.
    pub fn finish(&mut self, timeout: Option<Duration>) -> Result<(), Failure> {
        self.run()?;
        if let State::Running(run) = std::mem::replace(&mut self.state, State::Ended(BTreeMap::new())) {
            self.state = State::Ended(match timeout {
                Some(time) => run.finish_within(time)?,
                None => run.finish()?,
            });
        }
        Ok(())
    }

    /// Waits for the end of the component for a part of the time that a test gives it. Returns
    /// `None` if the component still runs.
    ///
    /// # Errors
    /// The failure of the component; it was not started, or has ended.
    pub fn wait_for_end(&mut self, pause: Duration) -> Result<Option<BTreeMap<String, Value>>, Failure> {
        let outcome = self.run()?.wait_for_end(pause);
        if !matches!(outcome, Ok(None)) {
            self.end();
        }
        Ok(outcome?)
    }

    /// Ends the run of a component, which is stopped if it still runs.
    pub fn end(&mut self) {
        self.state = State::Ended(BTreeMap::new());
    }

    fn misused(&self, problem: &str) -> Failure {
        Failure::new(ErrorCode::Port, format!("component `{}` {problem}", self.spec.name))
    }
}

/// Returns the number that a self-test has measured.
///
/// ```
/// use stripline::component::TestResult;
///
/// let result = TestResult::pass("in range").value(0.5);
/// assert_eq!(stripline_bindings::measured(&result), Some(0.5));
/// ```
pub fn measured(result: &TestResult) -> Option<f64> {
    match result.value {
        Some(Value::Float(value)) => Some(value),
        _ => None,
    }
}
