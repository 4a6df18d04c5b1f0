//! The specification of a component before any instance exists: its ports and properties. The
//! specification is used to check a waveform and for `stripline components`, and is read by
//! designers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::units::number;
use super::validate::{FactFinder, PropertyFacts, Validation};
use super::{Access, OrderRule, Properties, RateRule, StreamShape, Value, units};
use crate::error::InvalidProperties;
use crate::error::Result;
use crate::packet::payload::{Content, SampleType, TypeName};

/// A component type: name, ports, properties.
///
/// ```
/// use stripline::Complex;
/// use stripline::component::{ComponentSpec, PortTypes, PropertySpec};
///
/// let spec = ComponentSpec::new("gain", "Multiplies every sample by a factor.")
///     .input("in", PortTypes::of::<Complex<f32>>(), "samples")
///     .output("out", PortTypes::of::<Complex<f32>>(), "samples times the factor")
///     .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6));
/// assert_eq!(spec.ports.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentSpec {
    /// The name of the type, as used in a waveform file.
    pub name: String,
    /// A sentence for users.
    pub summary: String,
    /// Inputs and outputs, in the order declared.
    pub ports: Vec<PortSpec>,
    /// Properties, in the order declared.
    pub properties: Vec<PropertySpec>,
    /// Whether the waveform's `dispatch` selects the threads. A component with its own loop has a
    /// separate thread.
    #[serde(default)]
    pub any_dispatch: bool,
    /// Self-tests, in the order declared, which run while the component runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestSpec>,
    /// The rule for the component's sample rate; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateRule>,
    /// The rule for channels, and for rows that the component makes.
    #[serde(default, skip_serializing_if = "OrderRule::is_default")]
    pub order: OrderRule,
    /// Whether the component checks the properties as a set ([`ComponentSpec::validated`]). An
    /// executable does this with `--check`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub validates: bool,
    #[serde(skip)]
    validation: Validation,
    #[serde(skip)]
    facts: FactFinder,
}

impl ComponentSpec {
    /// Creates a component without ports and properties.
    pub fn new(name: &str, summary: &str) -> Self {
        let (name, summary) = (name.into(), summary.into());
        Self {
            name,
            summary,
            ports: Vec::new(),
            properties: Vec::new(),
            any_dispatch: false,
            tests: Vec::new(),
            rate: None,
            order: OrderRule::default(),
            validates: false,
            validation: Validation::default(),
            facts: FactFinder::default(),
        }
    }

    /// Declares that the component runs code as
    /// [`Subscriber::dispatch`](crate::node::Subscriber::dispatch) specifies.
    #[must_use]
    pub fn any_dispatch(mut self) -> Self {
        self.any_dispatch = true;
        self
    }

    /// Adds a mandatory input with one writer.
    #[must_use]
    pub fn input(self, name: &str, types: PortTypes, summary: &str) -> Self {
        self.port(PortSpec::new(name, Direction::Input, types, summary))
    }

    /// Adds a mandatory output.
    #[must_use]
    pub fn output(self, name: &str, types: PortTypes, summary: &str) -> Self {
        self.port(PortSpec::new(name, Direction::Output, types, summary))
    }

    /// Adds a port with other rules.
    #[must_use]
    pub fn port(mut self, port: PortSpec) -> Self {
        self.ports.push(port);
        self
    }

    /// Adds a property.
    #[must_use]
    pub fn property(mut self, property: PropertySpec) -> Self {
        self.properties.push(property);
        self
    }

    /// Adds a self-test, which [`ControlRequests::request`](super::ControlRequests::request) returns to the component on
    /// a user's request.
    ///
    /// ```
    /// use stripline::component::ComponentSpec;
    ///
    /// let spec = ComponentSpec::new("gain", "Multiplies.").test("unity", "a one becomes the factor");
    /// assert!(spec.find_test("unity").is_some());
    /// ```
    #[must_use]
    pub fn test(mut self, name: &str, summary: &str) -> Self {
        self.tests.push(TestSpec { name: name.into(), summary: summary.into() });
        self
    }

    /// Declares how the component's sample rate follows from properties and inputs.
    #[must_use]
    pub fn sample_rate(mut self, rule: RateRule) -> Self {
        self.rate = Some(rule);
        self
    }

    /// Declares which streams of channels the component takes, and which streams it sends.
    ///
    /// ```
    /// use stripline::component::{ComponentSpec, OrderRule};
    ///
    /// let rule = OrderRule { takes_channels: false, ..OrderRule::default() };
    /// let delay = ComponentSpec::new("delay", "Delays a signal.").sample_order(rule);
    /// assert!(!delay.order.takes_channels);
    /// ```
    #[must_use]
    pub fn sample_order(mut self, rule: OrderRule) -> Self {
        self.order = rule;
        self
    }

    /// Adds a check for properties that are valid one by one but may not fit together. The check
    /// returns [`InvalidProperties`] with a remedy. A waveform runs the check before any part
    /// starts. A running component runs the check before it gets a change, on the thread that polls
    /// for requests. The check may read files but must change nothing. If [`Component::new`] has no
    /// side effects, it can serve as the check:
    /// `.validated(|properties| Self::new(properties).map(drop))`.
    ///
    /// [`Component::new`]: super::Component::new
    #[must_use]
    pub fn validated(mut self, check: impl Fn(&Properties) -> Result<()> + Send + Sync + 'static) -> Self {
        (self.validates, self.validation) = (true, Validation(Some(Arc::new(check))));
        self
    }

    /// Adds a function that derives facts about the outputs from the properties, for the check of a
    /// waveform. The function may read files but must change nothing, and returns no facts if the
    /// properties are wrong. A specification printed by an executable has no facts.
    ///
    /// ```
    /// use stripline::component::{ComponentSpec, Properties, PropertyFacts};
    ///
    /// let spec = ComponentSpec::new("tape", "Plays a tape.")
    ///     .facts(|_| PropertyFacts { sample_rate_hz: Some(48e3), ..PropertyFacts::default() });
    /// let properties = Properties::defaults(&spec).expect("it has none");
    /// assert_eq!(spec.facts_of(&properties).sample_rate_hz, Some(48e3));
    /// ```
    #[must_use]
    pub fn facts(mut self, find: fn(&Properties) -> PropertyFacts) -> Self {
        self.facts = FactFinder(Some(find));
        self
    }

    /// Returns the facts that the component finds in these properties.
    pub fn facts_of(&self, properties: &Properties) -> PropertyFacts {
        self.facts.of(properties)
    }

    /// Returns whether the component searches the properties for facts.
    pub fn has_facts(&self) -> bool {
        self.facts.0.is_some()
    }

    /// Checks that the component takes these properties together. A specification from an
    /// executable accepts all properties.
    ///
    /// # Errors
    /// The problem with the properties; see [`InvalidProperties`] for an example.
    pub fn validate(&self, properties: &Properties) -> Result<(), InvalidProperties> {
        self.validation.of(properties)
    }

    /// Returns the self-test of that name.
    pub fn find_test(&self, name: &str) -> Option<&TestSpec> {
        self.tests.iter().find(|test| test.name == name)
    }

    /// Returns the port of that name.
    pub fn find_port(&self, name: &str) -> Option<&PortSpec> {
        self.ports.iter().find(|p| p.name == name)
    }

    /// Returns the property of that name.
    ///
    /// ```
    /// # use stripline::component::{ComponentSpec, PortTypes, PropertySpec};
    /// let spec = ComponentSpec::new("tee", "Copies.").input("in", PortTypes::Any, "what to copy");
    /// assert!(spec.find_port("in").is_some_and(|port| port.mandatory));
    /// assert!(spec.find_property("factor").is_none());
    /// ```
    pub fn find_property(&self, name: &str) -> Option<&PropertySpec> {
        self.properties.iter().find(|p| p.name == name)
    }
}

/// The direction of packets through a port.
///
/// ```
/// # use stripline::component::Direction;
/// assert_eq!(serde_json::to_string(&Direction::Input).unwrap(), r#""input""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The component receives.
    Input,
    /// The component sends.
    Output,
}

/// A port of a component type.
///
/// ```
/// use stripline::component::{Direction, PortSpec, PortTypes};
///
/// let port = PortSpec::new("in", Direction::Input, PortTypes::Any, "samples").optional().many_writers();
/// assert!(port.many_writers && !port.mandatory);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortSpec {
    /// The name of the port, unique within the component.
    pub name: String,
    /// The direction of packets through the port.
    pub direction: Direction,
    /// The payload types that the port accepts.
    pub types: PortTypes,
    /// Whether a waveform must connect the port.
    pub mandatory: bool,
    /// Whether an input takes packets from more than one writer.
    pub many_writers: bool,
    /// The shape of the streams that an input takes; `None`: any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<StreamShape>,
    /// A line for users.
    pub summary: String,
}

impl PortSpec {
    /// Creates a mandatory port for one writer.
    pub fn new(name: &str, direction: Direction, types: PortTypes, summary: &str) -> Self {
        Self {
            name: name.into(),
            direction,
            types,
            mandatory: true,
            many_writers: false,
            shape: None,
            summary: summary.into(),
        }
    }

    /// Makes the port optional: it may stay unconnected.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.mandatory = false;
        self
    }

    /// Lets the input take only streams of this shape.
    #[must_use]
    pub fn shape(mut self, shape: StreamShape) -> Self {
        self.shape = Some(shape);
        self
    }

    /// Lets the input take packets from any number of writers.
    #[must_use]
    pub fn many_writers(mut self) -> Self {
        self.many_writers = true;
        self
    }
}

/// The payload types of a port.
///
/// ```
/// use stripline::component::PortTypes;
///
/// assert_eq!(PortTypes::of::<f32>().to_string(), "f32");
/// assert_eq!(PortTypes::message("tune").to_string(), "message/tune");
/// assert_eq!(PortTypes::SameAs("in".into()).to_string(), "as `in`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortTypes {
    /// A type from this list. An output with a single entry sends that type.
    OneOf(Vec<TypeName>),
    /// The type of the other end (null sink, tee, throttle).
    Any,
    /// The type that arrives at the named input of the same component.
    SameAs(String),
    /// The type given by the named property, which is a choice or text.
    Property(String),
}

impl PortTypes {
    /// Accepts exactly one content: samples of a type, or messages with their schema. With
    /// [`Dynamic`](crate::payload::Dynamic), it accepts any type.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use stripline::component::PortTypes;
    /// use stripline::payload::{Cbor, Dynamic};
    ///
    /// #[derive(Serialize, Deserialize, stripline::Message)]
    /// struct Tune { frequency_hz: f64 }
    ///
    /// assert_eq!(PortTypes::of::<f32>().to_string(), "f32");
    /// assert_eq!(PortTypes::of::<Cbor<Tune>>().to_string(), "message/tune");
    /// assert_eq!(PortTypes::of::<Dynamic>(), PortTypes::Any);
    /// ```
    pub fn of<C: Content>() -> Self {
        C::payload().map_or(Self::Any, |payload| Self::OneOf(vec![payload]))
    }

    /// Accepts exactly that sample type, given by value.
    ///
    /// ```
    /// use stripline::component::PortTypes;
    /// use stripline::payload::SampleType;
    ///
    /// assert_eq!(PortTypes::of_type(&SampleType::parse("f32")?), PortTypes::of::<f32>());
    /// # Ok::<(), stripline::payload::BadSampleType>(())
    /// ```
    pub fn of_type(samples: &SampleType) -> Self {
        Self::OneOf(vec![samples.name().clone()])
    }

    /// Accepts messages of the given name. Schemas are not compared, so another structure causes an
    /// error at the first message.
    ///
    /// # Panics
    /// When the name is not a [`TypeName`]: a mistake in the program.
    pub fn message(name: &str) -> Self {
        match TypeName::message(name) {
            Ok(name) => Self::OneOf(vec![name]),
            Err(error) => panic!("{error}"),
        }
    }
}

impl fmt::Display for PortTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(types) => {
                let names: Vec<&str> = types.iter().map(TypeName::as_str).collect();
                f.write_str(&names.join(" | "))
            }
            Self::Any => f.write_str("any"),
            Self::SameAs(port) => write!(f, "as `{port}`"),
            Self::Property(property) => write!(f, "as property `{property}`"),
        }
    }
}

/// A property of a component type: kind, default, range, unit.
///
/// ```
/// use stripline::component::{PropertySpec, Value};
///
/// let rate = PropertySpec::float("rate", 48e3, "sample rate").range(1.0, 1e9).unit("Hz");
/// assert_eq!(rate.check(&Value::Integer(8000)), Ok(Value::Float(8000.0)));
/// assert_eq!(rate.parse("2_000_000"), Ok(Value::Float(2e6)));
/// assert_eq!(rate.parse("0").unwrap_err(), "`rate` is 0; it must be from 1 to 1e9");
/// let error = rate.parse("2 Mhz").unwrap_err();
/// assert_eq!(error, "`rate` takes a number, not `2 Mhz`; write the number alone, in Hz: 2000000");
///
/// let format = PropertySpec::choice("format", &["cu8", "cs16"], "cu8", "sample format").required();
/// assert_eq!(format.default, None);
/// assert!(format.parse("mp3").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PropertySpec {
    /// The name of the property, unique within the component.
    pub name: String,
    /// The kind of the values.
    pub kind: PropertyKind,
    /// The value if the waveform sets none. `None`: the waveform must set the property.
    pub default: Option<Value>,
    /// The unit for users, for example `Hz`; empty if the property has no unit.
    pub unit: String,
    /// A line for users.
    pub summary: String,
    /// The access to the property: the side that sets the value, and when.
    #[serde(default, skip_serializing_if = "Access::is_fixed")]
    pub access: Access,
    /// A value for examples if there is no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
}

impl PropertySpec {
    /// Creates a real number. Any finite value is allowed until [`PropertySpec::range`] limits it.
    pub fn float(name: &str, default: f64, summary: &str) -> Self {
        let kind = PropertyKind::Float { min: f64::MIN, max: f64::MAX };
        Self::with(name, kind, Some(Value::Float(default)), summary)
    }

    /// Creates a whole number from `min` to `max`.
    pub fn integer(name: &str, default: i64, min: i64, max: i64, summary: &str) -> Self {
        Self::with(name, PropertyKind::Integer { min, max }, Some(Value::Integer(default)), summary)
    }

    /// Creates a boolean.
    pub fn boolean(name: &str, default: bool, summary: &str) -> Self {
        Self::with(name, PropertyKind::Boolean, Some(Value::Boolean(default)), summary)
    }

    /// Creates a text.
    pub fn text(name: &str, default: &str, summary: &str) -> Self {
        Self::with(name, PropertyKind::Text, Some(Value::Text(default.into())), summary)
    }

    /// Creates a choice of several words.
    pub fn choice(name: &str, choices: &[&str], default: &str, summary: &str) -> Self {
        let choices = choices.iter().map(|c| (*c).into()).collect();
        Self::with(name, PropertyKind::Choice { choices }, Some(Value::Text(default.into())), summary)
    }

    /// Creates the path of a file. A relative path in a waveform file is relative to that file. The
    /// default is the empty path, which means no file.
    pub fn path(name: &str, summary: &str) -> Self {
        Self::with(name, PropertyKind::Path, Some(Value::Text(String::new())), summary)
    }

    /// Limits the real number to `min` to `max` inclusive.
    ///
    /// # Panics
    /// On a property that is not a float: a mistake in the program.
    #[must_use]
    pub fn range(mut self, min: f64, max: f64) -> Self {
        assert!(matches!(self.kind, PropertyKind::Float { .. }), "`{}` is not a float", self.name);
        self.kind = PropertyKind::Float { min, max };
        self
    }

    /// Sets the unit.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = unit.into();
        self
    }

    /// Removes the default: the waveform must set the property.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.default = None;
        self
    }

    /// Sets a value for examples if there is no default.
    ///
    /// ```
    /// use stripline::component::{PropertySpec, Value};
    ///
    /// let high = PropertySpec::float("high", 0.0, "upper edge").required().example(Value::Float(4e3));
    /// assert_eq!((high.default, high.example), (None, Some(Value::Float(4e3))));
    /// ```
    #[must_use]
    pub fn example(mut self, value: Value) -> Self {
        self.example = Some(value);
        self
    }

    /// Lets the property change while the component runs: see [`ControlRequests`](super::ControlRequests).
    ///
    /// ```
    /// use stripline::component::{Access, PropertySpec};
    ///
    /// let gain = PropertySpec::float("gain", 0.0, "gain").range(-60.0, 60.0).unit("dB").changeable();
    /// assert_eq!(gain.access, Access::Changeable);
    /// ```
    #[must_use]
    pub fn changeable(mut self) -> Self {
        self.access = Access::Changeable;
        self
    }

    /// Makes the property read-only: only the component sets it, while it runs
    /// ([`Status`](super::Status)). Until then, the property has the default value.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.access = Access::ReadOnly;
        self
    }

    /// Checks a value. A whole number is accepted for a float.
    ///
    /// # Errors
    /// A sentence with the problem and the allowed values.
    pub fn check(&self, value: &Value) -> Result<Value, String> {
        let name = &self.name;
        match (&self.kind, value) {
            (PropertyKind::Boolean, Value::Boolean(_)) | (PropertyKind::Text, Value::Text(_)) => {}
            (PropertyKind::Path, Value::Text(text)) if !text.contains('\0') => {}
            (PropertyKind::Integer { min, max }, Value::Integer(n)) if (min..=max).contains(&n) => {}
            (PropertyKind::Integer { min, max }, Value::Integer(n)) => {
                return Err(format!("`{name}` is {n}; it must be from {min} to {max}"));
            }
            (PropertyKind::Float { .. }, Value::Integer(n)) => return self.check(&Value::Float(*n as f64)),
            (PropertyKind::Float { min, max }, Value::Float(x))
                if x.is_finite() && (min..=max).contains(&x) => {}
            (PropertyKind::Float { .. }, Value::Float(x)) => {
                return Err(format!("`{name}` is {}; it must be {}", number(*x), self.kind.range_text()));
            }
            (PropertyKind::Choice { choices }, Value::Text(text)) if choices.contains(text) => {}
            (PropertyKind::Choice { choices }, Value::Text(text)) => {
                return Err(format!("`{name}` is `{text}`; it must be one of {}", choices.join(", ")));
            }
            (PropertyKind::Path, Value::Text(_)) => {
                return Err(format!("`{name}` has a zero character, which no path has; remove it"));
            }
            (kind, value) => return Err(format!("`{name}` takes {}, not {}", kind.noun(), value.noun())),
        }
        Ok(value.clone())
    }

    /// Parses the text of a `--set` option as a value of this property's kind, then checks it.
    ///
    /// # Errors
    /// A sentence with the problem and the allowed values.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let wrong = || {
            let cure = self.remedy(text).map_or(String::new(), |cure| format!("; {cure}"));
            format!("`{}` takes {}, not `{text}`{cure}", self.name, self.kind.noun())
        };
        let value = match self.kind {
            PropertyKind::Boolean => Value::Boolean(text.parse().map_err(|_| wrong())?),
            PropertyKind::Integer { .. } => {
                Value::Integer(text.replace('_', "").parse().map_err(|_| wrong())?)
            }
            PropertyKind::Float { .. } => Value::Float(text.replace('_', "").parse().map_err(|_| wrong())?),
            PropertyKind::Text | PropertyKind::Choice { .. } | PropertyKind::Path => Value::Text(text.into()),
        };
        self.check(&value)
    }

    /// Returns a suggested replacement for a text that should have been a number, if it can be
    /// derived.
    pub(crate) fn remedy(&self, text: &str) -> Option<String> {
        match self.kind {
            PropertyKind::Integer { .. } => units::fix(text, &self.unit, true),
            PropertyKind::Float { .. } => units::fix(text, &self.unit, false),
            _ => None,
        }
    }

    fn with(name: &str, kind: PropertyKind, default: Option<Value>, summary: &str) -> Self {
        Self {
            name: name.into(),
            kind,
            default,
            unit: String::new(),
            summary: summary.into(),
            access: Access::Fixed,
            example: None,
        }
    }
}

/// The kind of a property's values.
///
/// ```
/// let kind = stripline::component::PropertySpec::text("title", "", "…").kind;
/// assert_eq!(kind, stripline::component::PropertyKind::Text);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PropertyKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number in the inclusive range.
    Integer {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A finite real number in the inclusive range.
    Float {
        /// The smallest value.
        min: f64,
        /// The largest value.
        max: f64,
    },
    /// Any text.
    Text,
    /// A word from a list.
    Choice {
        /// The allowed words.
        choices: Vec<String>,
    },
    /// The path of a file. The empty path means no file.
    Path,
}

impl PropertyKind {
    /// Returns the kind as a phrase, for example `a number`.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer { .. } => "a whole number",
            Self::Float { .. } => "a number",
            Self::Text => "a text",
            Self::Choice { .. } => "one of its words",
            Self::Path => "a path",
        }
    }

    /// Returns the allowed range as a phrase, for example `from 0 to 10`. The phrase is empty if
    /// every value of the kind is allowed, except that a real number must be finite. For a choice
    /// it lists the words.
    ///
    /// ```
    /// use stripline::component::PropertyKind;
    ///
    /// let kind = PropertyKind::Integer { min: 0, max: i64::MAX };
    /// assert_eq!((kind.noun(), kind.range_text()), ("a whole number", "0 or more".into()));
    /// assert_eq!(PropertyKind::Text.range_text(), "");
    /// ```
    pub fn range_text(&self) -> String {
        match self {
            Self::Integer { min: i64::MIN, max: i64::MAX } => String::new(),
            Self::Integer { min, max: i64::MAX } => format!("{min} or more"),
            Self::Integer { min: i64::MIN, max } => format!("{max} or less"),
            Self::Integer { min, max } => format!("from {min} to {max}"),
            Self::Float { min, max } => match (*min == f64::MIN, *max == f64::MAX) {
                (true, true) => "a finite number".into(),
                (false, true) => format!("{} or more", number(*min)),
                (true, false) => format!("{} or less", number(*max)),
                (false, false) => format!("from {} to {}", number(*min), number(*max)),
            },
            Self::Choice { choices } => choices.join(" | "),
            Self::Boolean | Self::Text | Self::Path => String::new(),
        }
    }
}

/// The description of a self-test.
///
/// ```
/// let test = stripline::component::TestSpec { name: "unity".into(), summary: "a one stays a one".into() };
/// assert_eq!(test.name, "unity");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestSpec {
    /// The name of the test, unique among the component's tests.
    pub name: String,
    /// A line for users that describes the test.
    pub summary: String,
}
