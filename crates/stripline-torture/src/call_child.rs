//! The clients and servers of calls that are killed. Each is this program, started again.

use std::process::Child;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use stripline::call::{CallError, Client, ClientOptions, ServerOptions, Service};
use stripline::node::{Dispatch, Node};
use stripline::{Error, fail_point};

use crate::bystander::Bystander;
use crate::child::{begin, join};
use crate::notes::{Note, Notes, now_ns};
use crate::payload::mix;
use crate::plan::transports;
use crate::worker::TIMEOUT;

/// The environment variable that holds the role of a child.
const ROLE: &str = "STRIPLINE_TORTURE_CALLS";
/// The name of the server that is killed.
pub const VICTIM: &str = "victim";
/// Outstanding calls of a client, so that some of them wait.
pub const OUTSTANDING: u64 = 4;
/// Calls of a client that is not killed.
const CALLS: u64 = 200;

/// The role of a child.
#[derive(Clone, Debug)]
pub struct CallRole {
    /// Whether the child is a server.
    pub serves: bool,
    /// The domain that the child joins.
    pub domain: String,
    /// The transport of the service. The transport is a part of the service's name, because a
    /// client uses the transport of the servers.
    pub transport: &'static str,
    /// The number of the child in requests and replies.
    pub incarnation: u64,
    /// Threads of a server that run handlers.
    pub threads: usize,
}

/// A request as it is sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The incarnation of the client.
    pub caller: u64,
    /// The number of the call among the calls of this client.
    pub number: u64,
    /// The checksum of both numbers.
    pub sum: u64,
}

/// The reply to a call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The incarnation of the server.
    pub server: u64,
    /// The checksum of the request and the server.
    pub sum: u64,
}

/// The typed client of the operation.
pub type Check = Client<Request, Reply, String>;

/// Returns the checksum of two numbers.
fn sum(first: u64, second: u64) -> u64 {
    mix(first.rotate_left(32) ^ mix(second))
}

/// Returns a request of a client.
pub fn request(caller: u64, number: u64) -> Request {
    Request { caller, number, sum: sum(caller, number) }
}

/// Answers a call.
///
/// # Errors
/// When the request is damaged.
pub fn answer(server: u64, request: &Request) -> Result<Reply, String> {
    if request.sum != sum(request.caller, request.number) {
        return Err(format!("{request:?} is damaged"));
    }
    Ok(Reply { server, sum: sum(request.sum, server) })
}

/// Returns the server that sent the reply.
///
/// # Errors
/// When the reply belongs to another request, or is damaged.
pub fn check(request: &Request, reply: &Reply) -> Result<u64, String> {
    if reply.sum == sum(request.sum, reply.server) {
        return Ok(reply.server);
    }
    Err(format!("{reply:?} is not an answer to {request:?}"))
}

/// Returns the name of the service over a transport.
pub fn service(transport: &str) -> String {
    format!("check-{transport}")
}

/// Returns the options of a server over this transport.
pub fn options(transport: &str) -> ServerOptions {
    ServerOptions { transport: Some(transport.into()), buffer: 1 << 15, ..ServerOptions::default() }
}

/// Opens a client of the service over a transport. A call that reaches the deadline counts as a
/// hang.
///
/// # Errors
/// Errors of the library.
pub fn client(node: &Node, transport: &str) -> stripline::Result<(stripline::call::ServiceClient, Check)> {
    let options = ClientOptions { deadline: TIMEOUT, buffer: 1 << 15, ..ClientOptions::default() };
    let client = node.service_client(&service(transport), options)?;
    let check = client.operation("check")?;
    Ok((client, check))
}

/// Returns whether the call of this number is cancelled after it was sent.
pub fn is_cancelled(number: u64) -> bool {
    number % 8 == 7
}

impl CallRole {
    /// Starts a child. With a fail point, the child is killed at that point.
    ///
    /// # Errors
    /// When the system cannot start it.
    pub fn start(
        &self,
        notes: &Notes,
        fail_point: Option<(&str, u64)>,
    ) -> Result<(Child, Bystander), String> {
        let Self { serves, domain, transport, incarnation, threads } = self;
        let words = format!("{serves} {} {domain} {transport} {incarnation} {threads}", notes.address());
        begin(ROLE, &words, fail_point)
    }

    fn parse(words: &str) -> Option<(Self, Notes)> {
        let mut words = words.split(' ');
        let serves = words.next()?.parse().ok()?;
        let notes = Notes::open(words.next()?).ok()?;
        let domain = words.next()?.to_string();
        let asked = words.next()?;
        let transport = transports().find(|known| *known == asked)?;
        let (incarnation, threads) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((Self { serves, domain, transport, incarnation, threads }, notes))
    }
}

static NOTES: OnceLock<Notes> = OnceLock::new();

/// Runs the role in the environment, if there is one, and returns the exit code.
pub fn play_if_asked() -> Option<u8> {
    let words = std::env::var(ROLE).ok()?;
    // Children must not outlive the parent.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let (role, notes) = CallRole::parse(&words)?;
    let notes = NOTES.get_or_init(|| notes);
    fail_point::in_last_moment(|| {
        if let Some(notes) = NOTES.get() {
            notes.set(Note::KilledNs, now_ns());
        }
    });
    let played = join(&role.domain, "").and_then(|node| match role.serves {
        true => serve(&role, &node, notes).map_err(|e| e.to_string()),
        false => call(&role, &node, notes),
    });
    match played {
        Ok(()) => Some(0),
        Err(problem) => {
            eprintln!("torture: a child in calls: {problem}");
            Some(3)
        }
    }
}

/// Serves until this process is killed.
fn serve(role: &CallRole, node: &Node, notes: &Notes) -> stripline::Result<()> {
    let begun = Mutex::new(0u64);
    let handler = |request: Request| {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun += 1;
        notes.set(Note::Begun, *begun);
        drop(begun);
        answer(role.incarnation, &request)
    };
    let service = Service::new(&service(role.transport))?.operation("check", handler)?;
    let options = ServerOptions { name: Some(VICTIM.into()), ..options(role.transport) };
    let mut server = node.service_server(service, options)?;
    server.serve(if role.threads > 1 { Dispatch::pool(role.threads)? } else { Dispatch::Queue })
}

/// Calls the survivor and cancels every eighth call.
fn call(role: &CallRole, node: &Node, notes: &Notes) -> Result<(), String> {
    let (_client, check_it) = client(node, role.transport).map_err(|e| e.to_string())?;
    let text = |error: CallError<String>| error.to_string();
    for first in (0..CALLS).step_by(OUTSTANDING as usize) {
        let mut pending = Vec::new();
        for number in first..first + OUTSTANDING {
            let request = request(role.incarnation, number);
            notes.set(Note::Begun, number + 1);
            let call = check_it.start(&request).map_err(text)?;
            notes.set(Note::Sent, number + 1);
            match is_cancelled(number) {
                true => call.cancel(),
                false => pending.push((request, call)),
            }
        }
        for (request, call) in pending {
            check(&request, &call.wait().map_err(text)?)?;
            notes.set(Note::Taken, request.number + 1);
        }
    }
    notes.set(Note::Departs, 1);
    Ok::<_, Error>(()).map_err(|e| e.to_string())
}
