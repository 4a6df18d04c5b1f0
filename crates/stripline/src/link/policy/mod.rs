//! The queues that keep a connection's policies, around the ends of any transport. At the receiver
//! they keep overflow and the scopes `server` and `target`, at the sender scope `none`.
//!
//! Connections are made here and nowhere else, so that no transport can leave a policy out.

mod pump;
mod receive_queue;
mod send_queue;

use crate::error::Result;
use crate::transport::{self, AnyInlet, AnyOutlet, BindRequest, ConnectRequest, Endpoint};

/// Opens the sending side of a port over a transport. Receivers may connect from now on.
pub(crate) fn bind(transport: &str, request: BindRequest) -> Result<AnyOutlet> {
    send_queue::with_scope(transport::find(transport)?, request)
}

/// Connects a receiving port; blocks for a few seconds at most.
pub(crate) fn connect(endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
    with_policy(transport::find(&endpoint.transport)?.connect(endpoint, request)?, request)
}

pub(crate) use receive_queue::with_policy;
