//! The address of a sending port.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The address of a sending port. A process that has it may connect, subject to the transport's own
/// checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The transport's name.
    pub transport: String,
    /// Where it listens, in the transport's own form.
    pub address: String,
    /// The key that the connecting side must send, and the one that the listening side must return.
    pub keys: [u64; 2],
}

impl Endpoint {
    pub(crate) fn new(transport: &str, address: String) -> Result<Self> {
        Ok(Self { transport: transport.into(), address, keys: [random()?, random()?] })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// Returns a random number that other users cannot guess.
pub(crate) fn random() -> Result<u64> {
    getrandom::u64().map_err(|e| Error::failed(format!("no random numbers: {e}")))
}
