//! The assembly of a sending port, which turns options into outlets, and outlets into a port.

use std::sync::Arc;

use super::{Outgoing, Sampling, policy};
use crate::error::Result;
use crate::packet::payload::TypeName;
use crate::terms::SenderOptions;
use crate::transport::{AnyOutlet, BindRequest, Endpoint, FormerPaths, StopToken};

/// A sending port under construction.
pub(crate) struct PortBuilder {
    port: String,
    /// The strongest options of all connections of the port, as a send waits for all receivers
    /// alike.
    strongest: SenderOptions,
    stop: StopToken,
    outlets: Vec<AnyOutlet>,
    former_paths: Arc<FormerPaths>,
}

impl PortBuilder {
    /// Begins a port with the strongest options of all connections.
    pub(crate) fn new(port: &str, strongest: SenderOptions, stop: &StopToken) -> Self {
        let (port, stop, outlets) = (port.into(), stop.for_port(port), Vec::new());
        Self { port, strongest, stop, outlets, former_paths: Arc::default() }
    }

    /// Opens the port over a transport. Receivers may connect to the endpoint from now on.
    ///
    /// # Errors
    /// The transport does not exist, or the system lacks memory, descriptors or threads.
    pub(crate) fn bind(
        &mut self,
        transport: &str,
        payload: &TypeName,
        options: SenderOptions,
    ) -> Result<Endpoint> {
        let outlet = policy::bind(
            transport,
            BindRequest {
                port: self.port.clone(),
                payload: payload.clone(),
                options: options.within_port(&self.strongest),
                stop: self.stop.clone(),
                former_paths: Arc::clone(&self.former_paths),
            },
        )?;
        let endpoint = outlet.traits().endpoint;
        self.outlets.push(outlet);
        Ok(endpoint)
    }

    /// Returns the port.
    pub(crate) fn build(self, sampling: Sampling) -> Outgoing {
        let mut outgoing = Outgoing::new(self.port, self.outlets, sampling, self.stop);
        outgoing.set_rules(&self.strongest);
        outgoing.set_former_paths(self.former_paths);
        outgoing
    }
}
