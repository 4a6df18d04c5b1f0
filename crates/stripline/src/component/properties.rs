//! The values of a component's properties.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ComponentSpec;
use crate::error::names::{did_you_mean, quoted};

/// The access to a property: the side that sets the value, and when.
///
/// ```
/// use stripline::component::Access;
///
/// assert_eq!(serde_json::to_string(&Access::ReadOnly).unwrap(), r#""read-only""#);
/// assert_eq!(Access::default(), Access::Fixed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Set by the waveform before the start.
    #[default]
    Fixed,
    /// Set by the waveform. Users may change it while the component runs.
    Changeable,
    /// Set by the component itself while it runs.
    ReadOnly,
}

impl Access {
    pub(super) fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// A property's value.
///
/// ```
/// use stripline::component::Value;
///
/// let value = Value::Float(0.5);
/// assert_eq!((value.to_string(), value.noun()), ("0.5".into(), "a number"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A real number.
    Float(f64),
    /// A text, choice or path.
    Text(String),
}

impl Value {
    /// Returns the kind of this value as a phrase.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
        }
    }
}

macro_rules! values {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

values! {
    bool => Boolean;
    i32 => Integer;
    i64 => Integer;
    f32 => Float;
    f64 => Float;
    &str => Text;
    String => Text;
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(b) => write!(f, "{b}"),
            Self::Integer(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The checked values of all properties of a component.
///
/// ```
/// use stripline::component::{ComponentSpec, Properties, PropertySpec};
///
/// let spec = ComponentSpec::new("gain", "…").property(PropertySpec::float("factor", 2.0, "gain"));
/// let properties = Properties::defaults(&spec).unwrap();
/// assert_eq!(properties.float("factor"), 2.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Properties(BTreeMap<String, Value>);

impl Properties {
    /// Checks values against a specification and fills in the defaults.
    ///
    /// # Errors
    /// A sentence for each unknown, missing or invalid property.
    ///
    /// ```
    /// # use stripline::component::{ComponentSpec, Properties, PropertySpec, Value};
    /// let spec = ComponentSpec::new("tone", "…")
    ///     .property(PropertySpec::integer("channels", 1, 1, 8, "channels"))
    ///     .property(PropertySpec::path("file", "where to"));
    /// let properties = Properties::new(&spec, [("channels".into(), Value::Integer(2))].into()).unwrap();
    /// assert_eq!((properties.count("channels"), properties.path("file")), (2, None));
    /// let errors = Properties::new(&spec, [("volume".into(), Value::Integer(2))].into()).unwrap_err();
    /// assert_eq!(errors, ["`tone` has no property `volume`; its properties are `channels` and `file`"]);
    /// ```
    pub fn new(spec: &ComponentSpec, mut values: BTreeMap<String, Value>) -> Result<Self, Vec<String>> {
        let mut checked = BTreeMap::new();
        let mut errors = Vec::new();
        for property in &spec.properties {
            let said = values.remove(&property.name);
            if said.is_some() && property.access == Access::ReadOnly {
                errors.push(format!("`{}` is read-only: the component sets it while it runs", property.name));
                continue;
            }
            match said.or_else(|| property.default.clone()) {
                None => errors.push(format!("`{}` must be set: {}", property.name, property.summary)),
                Some(value) => match property.check(&value) {
                    Ok(value) => drop(checked.insert(property.name.clone(), value)),
                    Err(error) => errors.push(error),
                },
            }
        }
        errors.extend(values.keys().map(|name| unknown_property(spec, name)));
        if errors.is_empty() { Ok(Self(checked)) } else { Err(errors) }
    }

    /// Returns the default values of all properties.
    ///
    /// # Errors
    /// Same as [`Properties::new`] when a property has no default.
    pub fn defaults(spec: &ComponentSpec) -> Result<Self, Vec<String>> {
        Self::new(spec, BTreeMap::new())
    }

    /// Returns these values with new values for some of the properties that may be changed at run
    /// time.
    ///
    /// # Errors
    /// A sentence for each property that is unknown, invalid or not [`Access::Changeable`].
    ///
    /// ```
    /// # use stripline::component::{ComponentSpec, Properties, PropertySpec, Value};
    /// let spec = ComponentSpec::new("tone", "…")
    ///     .property(PropertySpec::float("level", 0.5, "level").range(0.0, 1.0).changeable())
    ///     .property(PropertySpec::integer("channels", 1, 1, 8, "channels"));
    /// let properties = Properties::defaults(&spec).unwrap();
    /// let louder = properties.changed(&spec, &[("level".into(), Value::Integer(1))].into()).unwrap();
    /// assert_eq!(louder.float("level"), 1.0);
    /// let errors = louder.changed(&spec, &[("channels".into(), Value::Integer(2))].into()).unwrap_err();
    /// assert_eq!(errors, ["`channels` cannot be changed while the component runs"]);
    /// ```
    pub fn changed(
        &self,
        spec: &ComponentSpec,
        changes: &BTreeMap<String, Value>,
    ) -> Result<Self, Vec<String>> {
        let mut all = self.0.clone();
        let mut errors = Vec::new();
        for (name, value) in changes {
            match spec.find_property(name) {
                None => errors.push(unknown_property(spec, name)),
                Some(property) if property.access != Access::Changeable => {
                    errors.push(format!("`{name}` cannot be changed while the component runs"));
                }
                Some(property) => match property.check(value) {
                    Ok(value) => drop(all.insert(name.clone(), value)),
                    Err(error) => errors.push(error),
                },
            }
        }
        if errors.is_empty() { Ok(Self(all)) } else { Err(errors) }
    }

    /// Returns the value of that name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the value of a float.
    ///
    /// # Panics
    /// When the component declared no float with that name, which is a mistake in the program. The
    /// same applies to the other getters here: the values of a waveform have been checked before.
    #[track_caller]
    pub fn float(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Float(x)) => *x,
            other => undeclared("float", name, other),
        }
    }

    /// Returns the value of a whole number. Panics like [`Properties::float`].
    #[track_caller]
    pub fn integer(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Integer(n)) => *n,
            other => undeclared("integer", name, other),
        }
    }

    /// Returns the value of a whole number if the declared range excludes negative numbers. Panics
    /// like [`Properties::float`], and for a range with negative numbers.
    pub fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Integer(n)) if *n >= 0 => n.unsigned_abs(),
            other => undeclared("count", name, other),
        }
    }

    /// Returns the value of a boolean. Panics like [`Properties::float`].
    #[track_caller]
    pub fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(b)) => *b,
            other => undeclared("boolean", name, other),
        }
    }

    /// Returns the value of a text, choice or path. Panics like [`Properties::float`].
    #[track_caller]
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            other => undeclared("text", name, other),
        }
    }

    /// Returns the value of a path; `None` when it is empty. Panics like [`Properties::float`].
    #[track_caller]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        match self.text(name) {
            "" => None,
            text => Some(PathBuf::from(text)),
        }
    }
}

/// Returns the error for a property that the specification does not have, with the remedy.
pub fn unknown_property(spec: &ComponentSpec, name: &str) -> String {
    let names = spec.properties.iter().map(|property| property.name.as_str());
    let mut remedy = did_you_mean(name, names, "its properties are");
    if remedy.is_empty() {
        remedy = "it has no properties at all".into();
    }
    format!("`{}` has no property {}; {remedy}", spec.name, quoted(name))
}

#[track_caller]
fn undeclared(kind: &str, name: &str, found: Option<&Value>) -> ! {
    match found {
        Some(value) => {
            panic!("the component declared `{name}` as no {kind} property: it is {}", value.noun())
        }
        None => panic!("the component declared no property `{name}`"),
    }
}
