//! `uds`: a Unix stream socket with an abstract name.

use super::stream::{StreamInlet, StreamOutlet};
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint, Inlet, Outlet, Reach, Transport, duplex};
use crate::error::Result;
use crate::sys::socket::{self, Listener, Socket};
use crate::terms::{Flow, Overflow, Scope};

/// The transport.
pub(super) struct Uds;

impl Transport for Uds {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "uds",
            summary: "a Unix stream socket",
            reach: Reach::Host,
            copies: "two",
            depth: "the kernel's socket buffers; with flow credit or stop-resume, packets",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: false,
            groups: true,
            trust: "same user or a named group (kernel credentials), key",
        }
    }

    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>> {
        let endpoint = Endpoint::new("uds", format!("stripline-{:016x}", super::random()?))?;
        let listener = Listener::unix(&endpoint.address, request.options.group)?;
        Ok(Box::new(StreamOutlet::new(request, endpoint, listener)?))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>> {
        let socket = Socket::Unix(socket::connect_unix(&endpoint.address, request.options.group)?);
        Ok(Box::new(StreamInlet::connect(socket, endpoint, request)?))
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener> {
        let endpoint = Endpoint::new("uds", format!("stripline-{:016x}", super::random()?))?;
        let listener = Listener::unix(&endpoint.address, request.options.group)?;
        duplex::listen_stream(request, endpoint, listener, acceptor)
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<duplex::CallConnection> {
        let socket = Socket::Unix(socket::connect_unix(&endpoint.address, request.options.group)?);
        duplex::connect_stream(socket, endpoint, request, bind)
    }
}
