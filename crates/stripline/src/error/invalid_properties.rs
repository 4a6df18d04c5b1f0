//! The error of a set of properties that are valid only one by one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Error;

/// The reason why a component rejects a set of properties, for example a band that ends before it
/// begins, or a missing file.
///
/// ```
/// use stripline::Error;
/// use stripline::component::{ComponentSpec, Properties, PropertySpec, InvalidProperties};
///
/// fn check(properties: &Properties) -> stripline::Result<()> {
///     let (low, high) = (properties.float("low"), properties.float("high"));
///     if low < high {
///         return Ok(());
///     }
///     let unfit = InvalidProperties::new(format!("`high` is {high} Hz; it must be above `low`, {low} Hz"));
///     Err(unfit.property("high").remedy("raise `high` or lower `low`").into())
/// }
///
/// let spec = ComponentSpec::new("filter", "Passes a band.")
///     .property(PropertySpec::float("low", 1e3, "lower edge"))
///     .property(PropertySpec::float("high", 0.0, "upper edge"))
///     .validated(check);
/// let unfit = spec.validate(&Properties::defaults(&spec).expect("each fits")).unwrap_err();
/// assert_eq!(unfit.property.as_deref(), Some("high"));
/// assert!(unfit.to_string().ends_with("it must be above `low`, 1000 Hz: raise `high` or lower `low`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidProperties {
    /// The property to change, if the problem concerns one.
    pub property: Option<String>,
    /// The problem.
    pub message: String,
    /// The remedy; empty if the message suffices.
    pub remedy: String,
}

impl InvalidProperties {
    /// Creates an error with the problem in one sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { property: None, message: message.into(), remedy: String::new() }
    }

    /// Adds the name of the property to change.
    #[must_use]
    pub fn property(mut self, name: &str) -> Self {
        self.property = Some(name.into());
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for InvalidProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, ": {}", self.remedy) }
    }
}

impl From<InvalidProperties> for Error {
    fn from(invalid: InvalidProperties) -> Self {
        Self::InvalidProperties(Box::new(invalid))
    }
}

impl From<Error> for InvalidProperties {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidProperties(invalid) => *invalid,
            other => Self::new(other.to_string()),
        }
    }
}
