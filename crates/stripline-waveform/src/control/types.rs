//! The descriptions of a running waveform, and the requests to it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use serde::{Deserialize, Serialize};
use stripline::component::{Access, TestResult, Value};
use stripline::internal::Endpoint;
use stripline::payload::TypeName;

use crate::text::quoted;
use crate::{Placement, RunReport};

/// A running waveform, as its launcher describes it.
///
/// ```
/// for running in stripline_waveform::control::running()?.waveforms {
///     println!("{} ({}): {}", running.name, running.pid, running.phase);
/// }
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningWaveform {
    /// The name of the waveform.
    pub name: String,
    /// The process of the launcher.
    pub pid: u32,
    /// The absolute path of the waveform file.
    pub file: String,
    /// The phase of the run.
    pub phase: RunPhase,
    /// Seconds since all components have been running.
    pub elapsed_s: f64,
    /// The components, in the order of the file.
    pub components: Vec<RunningComponent>,
    /// Packets carried by all connections.
    pub packets: u64,
    /// Packets lost by all connections.
    pub lost: u64,
}

impl RunningWaveform {
    /// Describes how far a starting waveform is.
    ///
    /// ```
    /// use stripline_waveform::control::RunningWaveform;
    ///
    /// let waveform: RunningWaveform = serde_json::from_str(
    ///     r#"{ "name": "radar", "pid": 9, "file": "/radar.toml", "phase": "starting", "elapsed_s": 0,
    ///         "packets": 0, "lost": 0, "components": [
    ///             { "name": "a", "type": "t", "placement": "process", "pid": 10, "state": "ready",
    ///               "restarts": 0, "tests": [] },
    ///             { "name": "b", "type": "t", "placement": "process", "pid": 11, "state": "starting",
    ///               "restarts": 0, "tests": [] }] }"#,
    /// )?;
    /// assert_eq!(waveform.starting(), "`radar` is starting (1 of 2 components is ready)");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn starting(&self) -> String {
        if self.components.is_empty() {
            return format!("{} is starting (its components are being checked)", quoted(&self.name));
        }
        let ready = self.components.iter().filter(|component| component.state != "starting").count();
        let verb = if ready == 1 { "is" } else { "are" };
        let (name, all) = (quoted(&self.name), self.components.len());
        format!("{name} is starting ({ready} of {all} components {verb} ready)")
    }
}

/// The phase of a run.
///
/// ```
/// assert_eq!(stripline_waveform::control::RunPhase::Running.to_string(), "running");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// The components are being created and connected.
    Starting,
    /// All components have been started.
    Running,
    /// The sources were ordered to stop while the other components finish, or all components were
    /// ordered to stop.
    Stopping,
}

impl std::fmt::Display for RunPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        })
    }
}

/// A component of a running waveform.
///
/// ```
/// use stripline_waveform::control::RunningComponent;
///
/// fn line(component: &RunningComponent) -> String {
///     format!("{} ({}): {}", component.name, component.type_name, component.state)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningComponent {
    /// The name in the waveform.
    pub name: String,
    /// The component type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The placement.
    pub placement: Placement,
    /// The process; `None` while the component has no process.
    pub pid: Option<u32>,
    /// `starting`, `ready`, `running`, `suspended` (SIGSTOP, or by a debugger), `ended` or
    /// `failed`.
    pub state: String,
    /// The seconds by which a running source is behind its pace; `None` if it is not behind.
    #[serde(default)]
    pub behind_s: Option<f64>,
    /// Number of restarts.
    pub restarts: u32,
    /// Milliseconds until the component is restarted; `None` if no restart is pending.
    #[serde(default)]
    pub next_restart_ms: Option<u64>,
    /// The reason for the last restart, or for the failure if the waveform goes on without the
    /// component.
    #[serde(default)]
    pub problem: Option<String>,
    /// The names of the self-tests.
    pub tests: Vec<String>,
}

impl RunningComponent {
    /// The state of a component while a signal or a debugger has halted the process.
    pub const SUSPENDED: &str = "suspended";
}

/// A property of a running component.
///
/// ```
/// use stripline_waveform::control::PropertyReading;
///
/// fn line(reading: &PropertyReading) -> String {
///     let value = reading.value.as_ref().map_or("unknown".into(), |value| value.to_string());
///     format!("{}.{} = {value} {}", reading.component, reading.property, reading.unit)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PropertyReading {
    /// The name of the component in the waveform.
    pub component: String,
    /// The name of the property.
    pub property: String,
    /// The value; `None` if it is unknown, and `problem` gives the reason.
    pub value: Option<Value>,
    /// The value that was set and that the component has not accepted yet.
    pub waiting: Option<Value>,
    /// Whether the value was changed since the start.
    pub changed: bool,
    /// Where the value comes from, and when it can be set.
    pub access: Access,
    /// The unit for users; may be empty.
    pub unit: String,
    /// The allowed values as a phrase; empty if any value of the property's kind is allowed.
    pub allowed: String,
    /// A summary in one line for users.
    pub summary: String,
    /// The reason why the value is unknown.
    pub problem: Option<String>,
}

/// The result of setting properties of one component: all of them or none.
///
/// ```
/// use stripline_waveform::control::{ComponentChange, ChangeState};
///
/// fn all_taken(changes: &[ComponentChange]) -> bool {
///     changes.iter().all(|change| change.taken == ChangeState::Applied)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentChange {
    /// The name of the component in the waveform.
    pub component: String,
    /// The properties, by name.
    pub values: BTreeMap<String, NewValue>,
    /// Whether the values are in effect.
    pub taken: ChangeState,
    /// The reason if the values are not in effect; otherwise empty.
    pub reason: String,
}

/// A new value and the previous value.
///
/// ```
/// use stripline::component::Value;
/// use stripline_waveform::control::NewValue;
///
/// let louder = NewValue { value: Value::Float(2.0), before: Value::Float(1.0), unit: "dB".into() };
/// assert_ne!(louder.value, louder.before);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewValue {
    /// The new value.
    pub value: Value,
    /// The previous value.
    pub before: Value,
    /// The unit for users; may be empty.
    pub unit: String,
}

/// The state of a change in a component.
///
/// ```
/// let word = serde_json::to_string(&stripline_waveform::control::ChangeState::NotYet).unwrap();
/// assert_eq!(word, r#""not-yet""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeState {
    /// The values are in effect.
    Applied,
    /// The component has not polled for requests. The values are queued, and take effect when it
    /// polls.
    NotYet,
    /// The component keeps the old values.
    Refused,
    /// The component has ended or is being restarted. The values have no effect.
    Ended,
}

/// A self-test and the result.
///
/// ```
/// use stripline_waveform::control::TestRun;
///
/// fn passed(runs: &[TestRun]) -> bool {
///     runs.iter().all(|run| run.result.as_ref().is_some_and(|result| result.passed))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRun {
    /// The name of the component in the waveform.
    pub component: String,
    /// The name of the test.
    pub test: String,
    /// The subject of the test.
    pub summary: String,
    /// The result; `None` if the test was not run, and `problem` gives the reason.
    pub result: Option<TestResult>,
    /// The reason why the test was not run.
    pub problem: Option<String>,
}

/// The result of `stop`.
///
/// ```
/// use stripline_waveform::control::Stopped;
///
/// fn is_clean(stopped: &Stopped) -> bool {
///     match stopped {
///         Stopped::Waveform(report) => report.failure.is_none(),
///         Stopped::Component { state, .. } => state == "ended",
///     }
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// The waveform has ended. The variant holds the report of the run.
    Waveform(Box<RunReport>),
    /// A component has ended. The waveform goes on as far as it can without this component.
    Component {
        /// The name in the waveform.
        component: String,
        /// `ended` or `failed`.
        state: String,
    },
}

/// The maximum number of properties that one request may set.
pub(crate) const SET_MAX: usize = 256;
/// The longest value in a request, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// A request for properties: of all components, of one component, or a single one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GetRequest {
    pub component: Option<String>,
    pub property: Option<String>,
}

/// A request to set properties. A relative path is resolved against the folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetRequest {
    pub folder: Option<String>,
    pub settings: Vec<Setting>,
    pub timeout_ms: u64,
}

/// A request to run the named self-tests of a component, or all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestRequest {
    pub component: String,
    pub tests: Vec<String>,
    pub timeout_ms: u64,
}

/// A request to stop. The reply is sent when the waveform or the component has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StopRequest {
    pub component: Option<String>,
    pub now: bool,
}

/// A request for a tap at a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TapRequest {
    pub component: String,
    pub port: String,
}

/// The result of a request for a tap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TapReply {
    /// The tap is open.
    Open {
        /// The sending port, as `component.port`.
        port: String,
        payload: TypeName,
        endpoint: Endpoint,
    },
    /// The port has ended the stream, or the component has ended.
    Ended { port: String },
    /// The component is not present now. Later it will be present or will have ended.
    NotYet(String),
    /// The process of the component opens no tap, or does not answer.
    Refused(String),
    /// There is no answer yet.
    Late,
}

/// The channel for the reply to one request.
pub(crate) type ReplySender<T> = Sender<Result<T, RequestFault>>;

/// A request to a launcher.
pub(crate) enum WaveformRequest {
    Show(ReplySender<RunningWaveform>),
    Get(GetRequest, ReplySender<Vec<PropertyReading>>),
    Set(SetRequest, ReplySender<Vec<ComponentChange>>),
    Test(TestRequest, ReplySender<Vec<TestRun>>),
    Tap(TapRequest, ReplySender<TapReply>),
    Stop(StopRequest, ReplySender<Stopped>),
}

/// A value for one property, as text.
///
/// ```
/// use stripline_waveform::control::Setting;
///
/// let setting: Setting = "filter.high=6e3".parse().unwrap();
/// assert_eq!((setting.component.as_str(), setting.value.as_str()), ("filter", "6e3"));
/// assert!("filter=6e3".parse::<Setting>().unwrap_err().contains("COMPONENT.PROPERTY=VALUE"));
/// let port_missing = "filter:transport=uds".parse::<Setting>().unwrap_err();
/// assert!(port_missing.contains("COMPONENT.PORT:transport=NAME"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The name of the component in the waveform.
    pub component: String,
    /// The name of the property.
    pub property: String,
    /// The value, in the notation of the property's type.
    pub value: String,
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(place, value)| Some((place.split_once('.')?, value)));
        let ((component, property), value) = parts
            .filter(|((component, property), _)| !component.is_empty() && !property.is_empty())
            .ok_or_else(|| expected(text))?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value has at most {VALUE_BYTES_MAX} bytes"));
        }
        Ok(Self { component: component.into(), property: property.into(), value: value.into() })
    }
}

/// Returns the form of a setting, or the form for a transport if the text seems to mean one.
fn expected(text: &str) -> &'static str {
    let before_value = text.split('=').next().unwrap_or_default();
    match before_value.contains(":transport") {
        true => "write it as COMPONENT.PORT:transport=NAME, as in filter.out:transport=uds",
        false => "write it as COMPONENT.PROPERTY=VALUE, as in filter.high=6e3",
    }
}

/// The reason why a launcher refuses a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RequestFault {
    /// The request is wrong and had no effect. There is a sentence for each fault.
    Wrong(Vec<String>),
    /// The request is valid but cannot be served now.
    Cannot(String),
}

impl From<String> for RequestFault {
    fn from(fault: String) -> Self {
        Self::Wrong(vec![fault])
    }
}

impl std::fmt::Display for RequestFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(faults) => f.write_str(&faults.join("\n")),
            Self::Cannot(why) => f.write_str(why),
        }
    }
}
