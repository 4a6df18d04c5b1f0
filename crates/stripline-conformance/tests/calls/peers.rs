//! Several servers and several clients. Some of their processes are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stripline::call::{CallError, CallOptions, Service};
use stripline::node::{Dispatch, Node, Topics};

use crate::puppet::Puppet;
use crate::support::{Gate, LONG, await_that, domain, named, operation, over, patient, serving};

/// Returns the names of the servers that answer `calls` calls, with the number that each answered.
fn answered(call: impl Fn(u64) -> Result<String, CallError<String>>, calls: u64) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    (0..calls).for_each(|key| *names.entry(call(key).unwrap()).or_default() += 1);
    names
}

pub fn calls_are_distributed_in_turn_or_by_key(transport: &str) {
    let node = Node::isolated().unwrap();
    let names = ["x", "y", "z"];
    let client = node.service_client("name", patient()).unwrap();
    let name = operation::<(), String>(&client, "call");
    let mut servers: Vec<_> = names
        .map(|name| {
            let say = move |()| Ok::<String, String>(name.into());
            node.server("name", say, named(transport, name)).unwrap()
        })
        .into();
    assert!(client.wait_for_servers(3, LONG).unwrap());
    std::thread::scope(|scope| {
        let stop = crate::support::Stop(&node);
        let last = servers.pop().unwrap();
        for server in &mut servers {
            scope.spawn(|| server.serve(Dispatch::Queue).unwrap());
        }
        let by_key = |keys: u64| -> Vec<String> {
            (0..keys).map(|key| name.with(CallOptions::key(key)).call(&()).unwrap()).collect()
        };
        let before = std::thread::scope(|inner| {
            let (finish, finished) = std::sync::mpsc::channel::<()>();
            let mut last = last;
            inner.spawn(move || {
                while finished.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    last.serve_one(std::time::Duration::from_millis(1)).unwrap();
                }
            });
            let turns = answered(|_| name.call(&()), 30);
            assert_eq!(turns, names.map(|name| (name.to_string(), 10)).into());
            let before = by_key(200);
            assert_eq!(before, by_key(200), "a key stays where it is");
            assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
            drop(finish);
            before
        });
        // The third server has left, and only its keys move.
        await_that("the third is gone", || {
            let key = before.iter().position(|name| name == "z").unwrap() as u64;
            name.with(CallOptions::key(key)).call(&()).is_ok_and(|n| n != "z")
        });
        for (key, (before, after)) in before.iter().zip(by_key(200)).enumerate() {
            assert!(*before == after || before == "z", "key {key} went from {before} to {after}");
            assert_ne!(after, "z");
        }
        drop(stop);
    });
}

pub fn a_killed_server_fails_its_calls_and_no_others(transport: &str) {
    let domain = domain();
    let node = Node::join(&domain, Topics::default()).unwrap();
    let client = node.service_client("puppet", patient()).unwrap();
    let (victim, other) =
        (Puppet::server(&domain, transport, "doomed"), Puppet::server(&domain, transport, "other"));
    assert!(client.wait_for_servers(2, LONG).unwrap());
    let (hold, name) = (operation::<(), ()>(&client, "hold"), operation::<(), String>(&client, "name"));
    let [to_doomed, to_other] = ["doomed", "other"].map(|wanted| {
        let mut keys = (0..).map(CallOptions::key);
        keys.find(|options| name.with(*options).call(&()).unwrap() == wanted).unwrap()
    });
    let lost: Vec<_> = (0..3).map(|_| hold.with(to_doomed).start(&()).unwrap()).collect();
    victim.hear("holding");
    let kept = hold.with(to_other).start(&()).unwrap();
    other.hear("holding");
    victim.kill();
    for call in lost {
        let error = call.wait().unwrap_err();
        assert!(matches!(&error, CallError::ServerGone { .. }), "{error}");
        assert!(error.to_string().contains("`puppet.hold` at `doomed`"), "{error}");
    }
    drop(kept);
    drop(other);
    // A new server has the same name, so the keys of that name move back to it.
    let other = Puppet::server(&domain, transport, "other");
    let victim = Puppet::server(&domain, transport, "doomed");
    await_that("both are back", || {
        client.servers().iter().filter(|server| server.connected).count() == 2
            && answered(|_| name.call(&()), 2).len() == 2
    });
    assert_eq!(name.with(to_doomed).call(&()).unwrap(), "doomed");
    assert_eq!(name.with(to_other).call(&()).unwrap(), "other");
    drop((victim, other));
}

pub fn a_server_that_dies_in_the_middle_of_a_call_ends_it(transport: &str) {
    let domain = domain();
    let node = Node::join(&domain, Topics::default()).unwrap();
    let client = node.service_client("puppet", patient()).unwrap();
    let puppet = Puppet::server(&domain, transport, "doomed");
    let error = operation::<(), ()>(&client, "die").call(&()).unwrap_err();
    assert!(matches!(&error, CallError::ServerGone { .. }), "{error}");
    drop(puppet);
    let name = operation::<(), String>(&client, "name");
    let error = name.with(CallOptions::deadline(Duration::from_millis(20))).call(&()).unwrap_err();
    assert!(matches!(&error, CallError::NoServer { .. }), "{error}");
    let _second = Puppet::server(&domain, transport, "second");
    assert_eq!(name.call(&()).unwrap(), "second");
}

pub fn a_stopped_server_is_late_and_not_dead(transport: &str) {
    let domain = domain();
    let node = Node::join(&domain, Topics::default()).unwrap();
    let client = node.service_client("puppet", patient()).unwrap();
    let puppet = Puppet::server(&domain, transport, "sleepy");
    let name = operation::<(), String>(&client, "name");
    assert_eq!(name.call(&()).unwrap(), "sleepy");
    puppet.freeze();
    let error = name.with(CallOptions::deadline(Duration::from_millis(20))).call(&()).unwrap_err();
    assert!(matches!(&error, CallError::Unanswered { .. }), "{error}");
    let pending = name.start(&()).unwrap();
    puppet.thaw();
    assert_eq!(pending.wait().unwrap(), "sleepy");
}

pub fn a_call_given_up_while_its_server_was_stopped_is_not_carried_out(transport: &str) {
    let domain = domain();
    let node = Node::join(&domain, Topics::default()).unwrap();
    let client = node.service_client("puppet", patient()).unwrap();
    let puppet = Puppet::server(&domain, transport, "sleepy");
    let (name, names) = (operation::<(), String>(&client, "name"), operation::<(), u32>(&client, "names"));
    assert_eq!(name.call(&()).unwrap(), "sleepy");
    // No call waits at this server: it is stopped while it is idle.
    puppet.freeze();
    for _ in 0..3 {
        assert!(name.with(CallOptions::deadline(Duration::from_millis(5))).call(&()).is_err());
    }
    puppet.thaw();
    assert_eq!(names.call(&()).unwrap(), 1);
}

pub fn a_killed_client_leaves_the_server_to_others(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(3).unwrap()] {
        let domain = domain();
        let node = Node::join(&domain, Topics::default()).unwrap();
        let (gate, begun) = (Gate::default(), AtomicU32::new(0));
        let hold = |number: u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            gate.pass();
            Ok::<u32, String>(number)
        };
        let service = Service::new("master").unwrap().operation("hold", hold).unwrap();
        let mut server = node.service_server(service, over(transport)).unwrap();
        let client = node.service_client("master", patient()).unwrap();
        let counts = std::sync::Mutex::new(None);
        serving(&node, &mut server, dispatch, || {
            let puppet = Puppet::client(&domain, 5);
            await_that("a call is begun", || begun.load(Ordering::Relaxed) > 0);
            puppet.kill();
            gate.open();
            assert_eq!(operation::<u32, u32>(&client, "hold").call(&7).unwrap(), 7);
            *counts.lock().unwrap() = Some(());
        });
        // The sent requests are executed, and the client's absence is detected with the reply.
        assert!(server.counts().calls >= 2, "{:?}", server.counts());
        assert_eq!(server.counts().evicted, 0);
    }
}
