//! Kills clients and servers of calls around clients and servers that survive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stripline::call::{CallError, ServerOptions, Service, ServiceClient};
use stripline::node::Node;

use crate::call_child::{self, CallRole, Check, OUTSTANDING, Request, VICTIM};
use crate::child::join;
use crate::notes::{Note, now_ns};
use crate::payload::Rng;
use crate::plan::{Death, Link, MIXTURE, PLAIN, death_in_calls, transports};
use crate::worker::{End, TIMEOUT, Tally, Victim, Worker, wait_for_host};

/// The number of a survivor in requests and replies.
const SURVIVOR: u64 = 0;

/// Kills the clients and servers of a worker.
///
/// # Errors
/// The first failure.
pub fn run(worker: &Worker) -> Result<Tally, String> {
    let host = join(&worker.domain, "")?;
    wait_for_host(&worker.domain)?;
    let over = Arc::new(AtomicBool::new(false));
    let mut survivors = Vec::new();
    for transport in
        transports().filter(|name| worker.transport.map_or(MIXTURE.contains(name), |only| only == *name))
    {
        survivors.push(CallSurvivor::begin(&host, &worker.domain, transport, &over)?);
    }
    let count = survivors.len() as u64;
    let mut tally = Tally::default();
    let mut rng = Rng::new(worker.seed);
    let mut index = worker.first_death;
    let mut incarnation = SURVIVOR;
    while tally.kills() < worker.kills {
        let (death, of_server) = death_in_calls(index, &mut rng);
        (index, incarnation) = (index + 1, incarnation + 1);
        let role = if of_server { "server" } else { "client" };
        worker.heartbeat.beat(format!("{role} {incarnation}: {death:?}"));
        let survivor = &mut survivors[rng.below(count) as usize];
        kill_one(worker, death, of_server, incarnation, &mut rng, survivor, &mut tally).map_err(|p| {
            format!("{}: {role} {incarnation} over {}, {death:?}: {p}", worker.domain, survivor.transport)
        })?;
    }
    worker.heartbeat.beat("the calls' end".into());
    over.store(true, Ordering::Release);
    for survivor in survivors {
        survivor.server.join().map_err(|_| "a server that survives panicked")??;
    }
    Ok(tally)
}

/// A server that survives, and a client that calls this server and the servers that are killed.
struct CallSurvivor {
    transport: &'static str,
    server: JoinHandle<Result<(), String>>,
    seen: Arc<ServedCalls>,
    client: ServiceClient,
    check: Check,
    number: u64,
}

/// The calls of a server that survives.
#[derive(Default)]
struct ServedCalls {
    /// The numbers of the calls that were carried out, by caller.
    calls: Mutex<BTreeMap<u64, BTreeSet<u64>>>,
    /// The first problem.
    problem: Mutex<Option<String>>,
    clients: AtomicU64,
}

impl ServedCalls {
    fn enter(&self, request: Request) -> Result<call_child::Reply, String> {
        let reply = call_child::answer(SURVIVOR, &request);
        let is_new = request.caller == SURVIVOR || {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.entry(request.caller).or_default().insert(request.number)
        };
        let problem = reply.as_ref().err().cloned();
        let problem = problem.or_else(|| (!is_new).then(|| format!("{request:?} came twice")));
        if let Some(problem) = problem {
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        }
        reply
    }

    fn of(&self, caller: u64) -> BTreeSet<u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(&caller).cloned().unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        problem.map_or(Ok(()), |problem| Err(format!("the server that survives: {problem}")))
    }
}

impl CallSurvivor {
    fn begin(
        host: &Node,
        domain: &str,
        transport: &'static str,
        over: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let seen: Arc<ServedCalls> = Arc::default();
        let node = join(domain, "")?;
        let (recorded, over) = (Arc::clone(&seen), Arc::clone(over));
        let server = std::thread::spawn(move || serve(&node, transport, &recorded, &over));
        let (client, check) = call_child::client(host, transport).map_err(|e| e.to_string())?;
        if !client.wait_for_servers(1, TIMEOUT).map_err(|e| e.to_string())? {
            return Err("the server that survives is missing".into());
        }
        Ok(Self { transport, server, seen, client, check, number: 0 })
    }

    /// Makes several calls at the same time. Returns how many calls the victim replied to, and how
    /// many calls ended with the victim's death.
    fn call(&mut self, victim: u64) -> Result<(u64, u64), String> {
        let failed = |error: CallError<String>| format!("a call of the survivor: {error}");
        let mut pending = Vec::new();
        for _ in 0..OUTSTANDING {
            self.number += 1;
            let request = call_child::request(SURVIVOR, self.number);
            pending.push((request, self.check.start(&request).map_err(failed)?));
        }
        let at_victim = format!("at `{VICTIM}`");
        let (mut answered, mut deserted) = (0, 0);
        for (request, call) in pending {
            match call.wait() {
                Ok(reply) => match call_child::check(&request, &reply)? {
                    SURVIVOR => {}
                    server if server == victim => answered += 1,
                    server => return Err(format!("server {server} replied after its death")),
                },
                // Only calls at the victim may get this error.
                Err(CallError::ServerGone { call }) if call.ends_with(&at_victim) => deserted += 1,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok((answered, deserted))
    }

    /// Returns whether the client is connected to a victim.
    fn has_seen_victim(&self) -> bool {
        self.client.servers().iter().any(|server| server.connected && server.server == VICTIM)
    }
}

/// Runs a server that survives.
fn serve(node: &Node, transport: &str, seen: &ServedCalls, over: &AtomicBool) -> Result<(), String> {
    let service = Service::new(&call_child::service(transport))
        .and_then(|service| service.operation("check", |request: Request| seen.enter(request)));
    let options = ServerOptions { name: Some("survivor".into()), ..call_child::options(transport) };
    let mut server =
        service.and_then(|service| node.service_server(service, options)).map_err(|e| e.to_string())?;
    while !over.load(Ordering::Acquire) {
        server.serve_one(Duration::from_millis(1)).map_err(|e| e.to_string())?;
        seen.clients.store(server.counts().clients, Ordering::Release);
    }
    let counts = server.counts();
    if counts.evicted + counts.panicked > 0 {
        return Err(format!("the server that survives: {counts:?}"));
    }
    Ok(())
}

fn kill_one(
    worker: &Worker,
    death: Death,
    serves: bool,
    incarnation: u64,
    rng: &mut Rng,
    survivor: &mut CallSurvivor,
    tally: &mut Tally,
) -> Result<(), String> {
    let notes = &worker.notes;
    notes.clear();
    let role = CallRole {
        serves,
        domain: worker.domain.clone(),
        transport: survivor.transport,
        incarnation,
        threads: if rng.below(3) == 0 { 3 } else { 1 },
    };
    // Only a server with one thread releases a request itself.
    let role = if death.name() == "call-released" { CallRole { threads: 1, ..role } } else { role };
    let (child, bystander) = role.start(notes, death.fail_point())?;
    let mut child = Victim::new(child);
    let (mut joined, mut gone_ns, mut killed_ns) = (false, None, 0);
    let (mut answered, mut deserted) = (0, 0);
    let mut dead: Option<Instant> = None;
    let status = loop {
        let (by_victim, ended) = survivor.call(incarnation)?;
        (answered, deserted) = (answered + by_victim, deserted + ended);
        tally.calls += OUTSTANDING - ended;
        survivor.seen.check()?;
        let is_there = match serves {
            true => survivor.has_seen_victim(),
            // The other client belongs to this worker.
            false => survivor.seen.clients.load(Ordering::Acquire) > 1,
        };
        match is_there {
            true => joined = true,
            false if joined && gone_ns.is_none() => gone_ns = Some(now_ns()),
            false => {}
        }
        if let Some(status) = child.poll()? {
            let since = *dead.get_or_insert_with(Instant::now);
            if !is_there && (gone_ns.is_some() || !joined) {
                break status;
            }
            if since.elapsed() > TIMEOUT {
                return Err("its death is not noticed".into());
            }
        }
        if let Death::Time(microseconds) = death
            && killed_ns == 0
            && child.has_lived(microseconds)
        {
            killed_ns = now_ns();
            child.kill();
        }
        std::thread::sleep(Duration::from_micros(50));
    };
    tally.calls_deserted += deserted;
    let begun = notes.get(Note::Begun);
    if serves && answered > begun {
        return Err(format!("{answered} calls were answered of {begun} that were begun"));
    }
    let since = Instant::now();
    loop {
        let (more, ended) = survivor.call(incarnation)?;
        if more > 0 {
            return Err(format!("it answered {more} calls after its death"));
        }
        tally.calls_deserted += ended;
        if ended == 0 {
            break;
        }
        // A client that was still connecting at the time of the death detects the death after this
        // check.
        if joined || since.elapsed() > TIMEOUT {
            return Err(format!("after its death was noticed, it got {ended} calls"));
        }
    }
    if !serves {
        check_calls_of_the_dead(survivor, incarnation, notes.get(Note::Sent), begun, tally)?;
    }
    let over = format!("{} calls", survivor.transport);
    tally.enter(End { status, death, over, gone_ns, killed_ns, notes, bystander })
}

/// Checks the calls of a dead client. Every call that it sent must have run once, except for calls
/// that it cancelled. A call that it had not begun must not have run.
fn check_calls_of_the_dead(
    survivor: &CallSurvivor,
    incarnation: u64,
    sent: u64,
    begun: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    // If a TCP socket is closed with unread replies, the kernel may discard requests as well.
    let is_kept = survivor.transport != "tcp";
    // The last requests may have been in the memory of the dead client.
    let takes_tail = Link { transport: survivor.transport, ..PLAIN }.reports_tail();
    let since = Instant::now();
    loop {
        let carried_out = survivor.seen.of(incarnation);
        let missing = (0..sent).find(|n| !call_child::is_cancelled(*n) && !carried_out.contains(n));
        if let Some(number) = carried_out.last().filter(|number| **number >= begun) {
            return Err(format!("call {number} was carried out, and only {begun} were begun"));
        }
        let missing = missing.filter(|n| !takes_tail || carried_out.last().is_some_and(|last| n < last));
        match missing {
            Some(number) if is_kept && since.elapsed() > TIMEOUT => {
                return Err(format!("call {number} of {sent} that it had sent was not carried out"));
            }
            Some(_) if is_kept => std::thread::sleep(Duration::from_micros(200)),
            _ => {
                tally.calls_of_the_dead += carried_out.len() as u64;
                return Ok(());
            }
        }
    }
}
