//! `shm`: processes of one host share a ring; its descriptors travel over an abstract Unix socket, which then
//! stays open so that each side learns of the other's death.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::handshake::{self, Answer, Hello, Welcome};
use super::reception::{Greeter, Reception};
use super::ring::{Bells, CursorPage, Lobby, Pages, RingInlet, RingMemory, RingOutlet, SleepersPage, Tie};
use super::watch::Watched;
use super::{Bind, Capabilities, Connect, Endpoint, Inlet, Outlet, Reach, Transport, pump};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{Flow, LinkOptions, Overflow, Scope};
use crate::payload::TypeName;
use crate::sys::doorbell::Doorbell;
use crate::sys::memory::{PAGE, SharedMemory};
use crate::sys::socket::{self, Listener, Socket};

/// The transport.
pub(super) struct Shm;

impl Transport for Shm {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "shm",
            summary: "a memory ring between processes",
            reach: Reach::Host,
            copies: "none",
            depth: "packets in the ring",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: true,
            groups: true,
            trust: "same user or a named group (kernel credentials), key",
        }
    }

    fn bind(&self, request: Bind) -> Result<Box<dyn Outlet>> {
        let endpoint = Endpoint::new("shm", format!("stripline-{:016x}", super::random()?))?;
        let listener = Listener::unix(&endpoint.address, request.group)?;
        let (keys, payload) = (endpoint.keys, request.payload.clone());
        let outlet = RingOutlet::new(request, endpoint, Doorbell::between, |lobby| {
            Reception::open(listener, ShmGreeter { lobby, payload, keys })
        })?;
        Ok(Box::new(outlet))
    }

    fn connect(&self, endpoint: &Endpoint, request: &Connect) -> Result<Box<dyn Inlet>> {
        let peer = &request.connection;
        let socket = Socket::Unix(socket::connect_unix(&endpoint.address, request.options.group)?);
        fail_point!("connect");
        let (welcome, fds) = handshake::introduce(&socket, endpoint, request)?;
        fail_point!("connect-welcome");
        let capacity = welcome.buffer;
        let sound = (LinkOptions::BUFFER_MIN..=LinkOptions::BUFFER_MAX).contains(&capacity)
            && capacity.is_power_of_two();
        if !sound {
            return Err(Error::misbehaved(peer, format!("announced a ring of {capacity} bytes")));
        }
        let capacity = capacity as usize;
        let fds: [OwnedFd; 5] = fds.try_into().map_err(|fds: Vec<_>| {
            Error::misbehaved(peer, format!("sent {} descriptors, not 5", fds.len()))
        })?;
        let [ring, cursor, sleepers, data, space] = fds;
        let ring = SharedMemory::ring_from_peer(peer, ring, welcome.page as usize, capacity)?;
        let locked = welcome.locked || request.options.locked;
        let pages = Pages {
            memory: Arc::new(RingMemory::map(&ring, capacity, false, locked)?),
            cursor: Arc::new(CursorPage::map(&SharedMemory::from_peer(peer, cursor, PAGE)?, locked)?),
            sleepers: SleepersPage(Arc::new(SharedMemory::from_peer(peer, sleepers, PAGE)?.map()?)),
        };
        let bells =
            Bells { data: Doorbell::from_peer(peer, data)?, space: Doorbell::from_peer(peer, space)? };
        fail_point!("connect-mapped");
        let tie = Tie::Socket(Watched::new(socket, bells.data.clone(), Arc::clone(&pages.cursor))?);
        let inlet = RingInlet::new(pages, bells, tie, welcome.barriers, request)?;
        fail_point!("connect-attached");
        pump::for_policy(Box::new(inlet), request)
    }
}

struct ShmGreeter {
    lobby: Arc<Lobby>,
    payload: TypeName,
    keys: [u64; 2],
}

impl Greeter for ShmGreeter {
    fn greet(&mut self, hello: Hello, socket: &Socket) -> Result<Option<u64>, String> {
        let Socket::Unix(stream) = socket else { return Err("shared memory needs a Unix socket".into()) };
        hello.check(self.keys[0], &self.payload)?;
        fail_point!("greet");
        let pid = socket::peer_process(stream);
        let (ticket, mut arrival) = self.lobby.prepare(&hello, pid).map_err(|e| e.to_string())?;
        arrival.tie = Some(socket.try_clone().map_err(|e| e.to_string())?);
        let welcome = Welcome {
            page: self.lobby.memory.page() as u32,
            locked: self.lobby.locked,
            barriers: self.lobby.barriers,
            ..Welcome::new(self.keys[1], None, self.lobby.capacity as u32)
        };
        let memory = [self.lobby.memory.as_fd(), ticket.cursor.as_fd(), ticket.sleepers.as_fd()];
        let [ring, cursor, sleepers] = memory;
        let fds = [ring, cursor, sleepers, ticket.bell.as_fd(), self.lobby.space_rope.as_fd()];
        let bytes = handshake::encode(&Answer::Welcome(welcome)).map_err(|e| e.to_string())?;
        self.lobby.enter(arrival, || {
            let sent = socket::send_with_fds(stream, &bytes, &fds).map_err(|e| e.to_string());
            fail_point!("greet-welcomed");
            sent
        })?;
        fail_point!("greet-entered");
        Ok(Some(ticket.token))
    }

    fn gone(&mut self, token: u64) {
        self.lobby.leave(token);
    }
}
