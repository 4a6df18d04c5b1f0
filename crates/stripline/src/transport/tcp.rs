//! `tcp`: a TCP connection over the loopback interface.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::stream::{StreamInlet, StreamOutlet};
use super::{BindRequest, Capabilities, ConnectRequest, Endpoint, Inlet, Outlet, Reach, Transport, duplex};
use crate::error::{Error, Result};
use crate::sys::socket::{Listener, Socket};
use crate::terms::{Flow, Overflow, Scope};

/// The transport.
pub(super) struct Tcp;

const CONNECT_TIME: Duration = Duration::from_secs(5);

impl Transport for Tcp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "tcp",
            summary: "TCP over the loopback interface",
            reach: Reach::Host,
            copies: "two",
            depth: "the kernel's socket buffers; with flow credit or stop-resume, packets",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: false,
            groups: false,
            trust: "loopback only, key on both sides",
        }
    }

    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>> {
        let (listener, address) = Listener::tcp_loopback()?;
        let endpoint = Endpoint::new("tcp", address.to_string())?;
        Ok(Box::new(StreamOutlet::new(request, endpoint, listener)?))
    }

    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>> {
        Ok(Box::new(StreamInlet::connect(connected(endpoint)?, endpoint, request)?))
    }

    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener> {
        let (listener, address) = Listener::tcp_loopback()?;
        let endpoint = Endpoint::new("tcp", address.to_string())?;
        duplex::listen_stream(request, endpoint, listener, acceptor)
    }

    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<duplex::CallConnection> {
        duplex::connect_stream(connected(endpoint)?, endpoint, request, bind)
    }
}

fn connected(endpoint: &Endpoint) -> Result<Socket> {
    let failed = |e| Error::system(format!("cannot connect to {endpoint}"), e);
    let address: SocketAddr = endpoint
        .address
        .parse()
        .map_err(|_| Error::failed(format!("`{}` is no TCP address", endpoint.address)))?;
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIME).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(Socket::from(stream))
}
