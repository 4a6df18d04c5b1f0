//! The address of a sending port.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The address of a sending port. A process that has the address may connect, subject to the checks
/// of the transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The transport's name.
    pub transport: String,
    /// The address at which the port listens, in the transport's own form.
    pub address: String,
    /// The key that the connecting side must send, and the key that the listening side must return.
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
pub fn random() -> Result<u64> {
    getrandom::u64().map_err(|e| Error::of_system(format!("no random numbers: {e}")))
}
