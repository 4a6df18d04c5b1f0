//! Results that a component derives from properties before it runs: problems, and facts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::Properties;
use crate::error::{InvalidProperties, Result, catch_panic};
use crate::packet::payload::TypeName;

/// A function that checks a set of properties.
type Check = Arc<dyn Fn(&Properties) -> Result<()> + Send + Sync>;

/// The function that checks a set of properties. The function stays in the program: `--describe`
/// reports only that it exists.
#[derive(Clone, Default)]
pub(super) struct Validation(pub Option<Check>);

impl Validation {
    pub(super) fn of(&self, properties: &Properties) -> Result<(), InvalidProperties> {
        self.0.as_ref().map_or(Ok(()), |check| Ok(catch_panic(|| check(properties))?))
    }
}

/// Facts about a component's outputs that follow from the properties, for example from the header
/// of a file that a property names.
///
/// ```
/// use stripline::component::PropertyFacts;
///
/// let recording = PropertyFacts { sample_rate_hz: Some(2e6), ..PropertyFacts::default() };
/// assert_eq!(recording.payload, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PropertyFacts {
    /// The sample rate, if no property gives it.
    pub sample_rate_hz: Option<f64>,
    /// The number of channels.
    pub channels: Option<usize>,
    /// The payload type of ports that take their type from a property, if that property is empty.
    pub payload: Option<TypeName>,
    /// The files that the component writes, with the files beside them that belong to them. A path
    /// in a property that is not listed here is a file that the component reads.
    pub writes: Vec<PathBuf>,
    /// The files that the component reads, beside the paths in its properties.
    pub reads: Vec<PathBuf>,
    /// The payload type of the samples in the file that the component writes, if the file's name
    /// states a type. The type must equal the type that the component receives.
    pub named_payload: Option<TypeName>,
    /// Whether the component prints lines on standard output, beside other components. A component
    /// that needs standard output for itself lists the path `-` among these files.
    pub prints: bool,
}

/// The function that finds the facts, and stays in the program like [`Validation`].
#[derive(Clone, Copy, Default)]
pub(super) struct FactFinder(pub Option<fn(&Properties) -> PropertyFacts>);

impl FactFinder {
    pub(super) fn of(self, properties: &Properties) -> PropertyFacts {
        // Problems with the properties are reported by the check, not here.
        self.0.and_then(|find| catch_panic(|| Ok(find(properties))).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for FactFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "FactFinder" } else { "None" })
    }
}

impl PartialEq for FactFinder {
    /// Compares specifications without the functions in them.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Validation" } else { "None" })
    }
}

impl PartialEq for Validation {
    /// Compares specifications without the functions in them.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
