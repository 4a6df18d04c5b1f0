//! `inproc`: threads of one process share a ring; a table in the process leads to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::handshake::Hello;
use super::ring::{Bells, CursorPage, Lobby, Pages, RingInlet, RingMemory, RingOutlet, SleepersPage, Tie};
use super::{Bind, Capabilities, Connect, Endpoint, Inlet, Outlet, Reach, Transport, pump};
use crate::error::{Error, Result};
use crate::link::{Flow, Overflow, Scope};
use crate::payload::TypeName;
use crate::sys::doorbell::Doorbell;

/// The transport.
pub(super) struct Inproc;

/// The sending ports of this process, by address.
static DOORS: Mutex<Option<HashMap<String, Door>>> = Mutex::new(None);

#[derive(Clone)]
struct Door {
    lobby: Arc<Lobby>,
    payload: TypeName,
    keys: [u64; 2],
}

impl Transport for Inproc {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "inproc",
            summary: "a memory ring between threads",
            reach: Reach::Process,
            copies: "none",
            depth: "packets in the ring",
            flows: &Flow::ALL,
            scopes: &Scope::ALL,
            overflows: &Overflow::ALL,
            ring: true,
            // Nobody else gets in anyway.
            groups: true,
            trust: "the process",
        }
    }

    fn bind(&self, request: Bind) -> Result<Box<dyn Outlet>> {
        let endpoint = Endpoint::new("inproc", format!("{:016x}", super::random()?))?;
        let (keys, payload, address) = (endpoint.keys, request.payload.clone(), endpoint.address.clone());
        let outlet = RingOutlet::new(request, endpoint, Doorbell::within, |lobby| {
            doors().get_or_insert_default().insert(address.clone(), Door { lobby, payload, keys });
            Ok(Entry(address))
        })?;
        Ok(Box::new(outlet))
    }

    fn connect(&self, endpoint: &Endpoint, request: &Connect) -> Result<Box<dyn Inlet>> {
        let door = doors().as_ref().and_then(|doors| doors.get(&endpoint.address)).cloned();
        let door = door.ok_or_else(|| Error::Refused {
            peer: request.connection.clone(),
            reason: format!("{endpoint} is not in this process; `inproc` joins threads of one process only"),
        })?;
        let hello = Hello::new(endpoint, request);
        hello
            .check(door.keys[0], &door.payload)
            .map_err(|reason| Error::Refused { peer: request.connection.clone(), reason })?;
        let (ticket, arrival) = door.lobby.prepare(&hello, Some(std::process::id()))?;
        let locked = door.lobby.locked || request.options.locked;
        let pages = Pages {
            memory: Arc::new(RingMemory::map(&door.lobby.memory, door.lobby.capacity, false, locked)?),
            cursor: Arc::new(CursorPage::map(&ticket.cursor, locked)?),
            sleepers: SleepersPage(Arc::new(ticket.sleepers.map()?)),
        };
        let bells = Bells { data: ticket.bell, space: door.lobby.space_rope.clone() };
        let tie = Tie::Local(Box::new(Presence { lobby: Arc::clone(&door.lobby), token: ticket.token }));
        let inlet = RingInlet::new(pages, bells, tie, door.lobby.barriers, request)?;
        door.lobby.enter(arrival, || Ok::<(), Error>(()))?;
        pump::for_policy(Box::new(inlet), request)
    }
}

fn doors() -> MutexGuard<'static, Option<HashMap<String, Door>>> {
    // Entries are whole whatever happened to the last holder.
    DOORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the table, taken out when dropped.
struct Entry(String);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(doors) = doors().as_mut() {
            doors.remove(&self.0);
        }
    }
}

/// A reader's presence in a lobby of the same process.
struct Presence {
    lobby: Arc<Lobby>,
    token: u64,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.lobby.leave(self.token);
    }
}
