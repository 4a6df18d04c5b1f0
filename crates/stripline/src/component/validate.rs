//! The check of a set of properties that are valid one by one.

use std::fmt;

use super::Properties;
use crate::error::{InvalidProperties, Result, catch_panic};

/// The function that checks a set of properties. It stays in its program: `--describe` only reports
/// that it exists.
#[derive(Clone, Copy, Default)]
pub(super) struct Validation(pub Option<fn(&Properties) -> Result<()>>);

impl Validation {
    pub(super) fn of(self, properties: &Properties) -> Result<(), InvalidProperties> {
        self.0.map_or(Ok(()), |check| Ok(catch_panic(|| check(properties))?))
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
