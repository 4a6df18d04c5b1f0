//! What a component finds out from its properties before it runs: problems, and facts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::Properties;
use crate::error::{InvalidProperties, Result, catch_panic};
use crate::packet::payload::TypeName;

/// A function that checks a set of properties.
type Check = Arc<dyn Fn(&Properties) -> Result<()> + Send + Sync>;

/// The function that checks a set of properties. It stays in its program: `--describe` only reports
/// that it exists.
#[derive(Clone, Default)]
pub(super) struct Validation(pub Option<Check>);

impl Validation {
    pub(super) fn of(&self, properties: &Properties) -> Result<(), InvalidProperties> {
        self.0.as_ref().map_or(Ok(()), |check| Ok(catch_panic(|| check(properties))?))
    }
}

/// Facts about a component's outputs that follow from its properties, as from the header of a file
/// that one of them names.
///
/// ```
/// use stripline::component::PropertyFacts;
///
/// let recording = PropertyFacts { sample_rate_hz: Some(2e6), ..PropertyFacts::default() };
/// assert_eq!(recording.payload, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PropertyFacts {
    /// The sample rate, where no property has it.
    pub sample_rate_hz: Option<f64>,
    /// The number of channels.
    pub channels: Option<usize>,
    /// The payload type of ports with the type that a property names, where that one is empty.
    pub payload: Option<TypeName>,
    /// The files that it writes, and those beside them that belong to them. A path that it has from
    /// a property is a file that it reads, unless it is here.
    pub writes: Vec<PathBuf>,
    /// The payload type of the samples in the file that it writes, where the name of the file
    /// states one. It must be the type that the component receives.
    pub named_payload: Option<TypeName>,
    /// Whether it prints lines on standard output, beside other components. A component that needs
    /// standard output for itself has the path `-` among its files.
    pub prints: bool,
}

/// The function that finds the facts. It stays in its program, as [`Validation`] does.
#[derive(Clone, Copy, Default)]
pub(super) struct FactFinder(pub Option<fn(&Properties) -> PropertyFacts>);

impl FactFinder {
    pub(super) fn of(self, properties: &Properties) -> PropertyFacts {
        // What is wrong with the properties is the check's affair.
        self.0.and_then(|find| catch_panic(|| Ok(find(properties))).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for FactFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "FactFinder" } else { "None" })
    }
}

impl PartialEq for FactFinder {
    /// Compares specifications, not the code behind them.
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
    /// Compares specifications, not the code behind them.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
