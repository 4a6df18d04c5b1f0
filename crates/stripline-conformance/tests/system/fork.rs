//! Forks: a child that ends in any way, or continues, takes nothing from its parent's links and
//! adds nothing to them. Each test forks in a separate process, which has only the threads that
//! belong to the test.

use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stripline::call::{ClientOptions, ServerOptions};
use stripline::node::{Dispatch, Node, Received, Topics, Waitable, wait_any};

use crate::child::{Actor, Cast, DEADLINE, await_that, say};

/// The transports of these tests, as far as this build has them.
const TRANSPORTS: [&str; 10] =
    ["inproc", "shm", "uds", "tcp", "udp", "zeromq", "iceoryx2", "zenoh", "dds", "corba"];

fn transports() -> impl Iterator<Item = &'static str> {
    TRANSPORTS.into_iter().filter(|name| stripline::transport::all().any(|transport| transport.name == *name))
}

/// The number of forks while another thread sends.
const FORKS: usize = 60;

/// The way in which a child ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Runs the exit handlers of the C library, after everything in the child was dropped.
    Drop,
    /// Exits at once.
    Exit,
    /// Executes another program.
    Exec,
    /// Ends as with `Drop`, after using objects of the parent and links that the child made.
    GoOn,
}

const ENDS: [End; 4] = [End::Drop, End::Exit, End::Exec, End::GoOn];

/// Forks, and waits until the child has succeeded. The child runs `drops` or `uses`, depending on
/// `end`.
fn fork(end: End, what: &str, drops: impl Fn(), uses: impl Fn()) {
    // SAFETY: the child uses only functions that this library allows there, and the allocator,
    // which the C library keeps usable.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let act = std::panic::AssertUnwindSafe(|| match end {
            End::Drop => drops(),
            End::GoOn => {
                uses();
                drops();
            }
            End::Exit | End::Exec => {}
        });
        let code = i32::from(std::panic::catch_unwind(act).is_err());
        // SAFETY: all of these calls end the child. The strings are NUL-terminated, and the list
        // ends with a null.
        unsafe {
            match end {
                End::Exec => {
                    libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), std::ptr::null::<libc::c_char>());
                    libc::_exit(2)
                }
                End::Exit => libc::_exit(code),
                End::Drop | End::GoOn => libc::exit(code),
            }
        }
    }
    let mut status = 0;
    let deadline = Instant::now() + DEADLINE;
    // SAFETY: `status` lives across the call.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() >= deadline {
            let _ = kill_process(Pid::from_raw(child).unwrap(), Signal::KILL);
            panic!("{what}: the child hangs");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(status, 0, "{what}: the child failed");
}

/// Forks within `act`, when `act` calls the argument. The child returns from there, and then has to
/// succeed by `is_right`.
fn fork_inside<T>(act: impl FnOnce(&dyn Fn()) -> T, is_right: impl FnOnce(&T) -> bool) -> T {
    let parent = std::process::id();
    // SAFETY: the same as in `fork`.
    let result = act(&|| _ = unsafe { libc::fork() });
    if std::process::id() != parent {
        // SAFETY: the call ends the child.
        unsafe { libc::_exit(if is_right(&result) { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` lives across the call.
    assert!(unsafe { libc::wait(&mut status) } > 0);
    assert_eq!(status, 0);
    result
}

#[track_caller]
fn assert_forked(what: &str, error: impl std::fmt::Display) {
    let error = error.to_string();
    assert!(error.contains("was forked from"), "{what}: {error}");
}

/// Returns a node in a new domain over that transport.
fn node(transport: &str) -> Node {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'")).unwrap();
    Node::join(&format!("fork-{}-{number}", std::process::id()), topics).unwrap()
}

/// Uses packets, calls and the list of ports, all made in this process.
fn links_of_its_own(transport: &str) {
    // Cyclone DDS cannot be used in a child of a process that has used it.
    let transport = if transport == "dds" { "uds" } else { transport };
    // A process has one ORB, and a forked child cannot have another.
    if transport == "corba" {
        assert_forked("own", node(transport).publisher::<u64>("own").map(drop).unwrap_err());
        return links_of_its_own("uds");
    }
    let node = node(transport);
    if transport == "zenoh" {
        // The threads of zenoh belong to the parent, and the child makes no others.
        return assert_forked("a port", node.publisher::<u64>("own").map(drop).unwrap_err());
    }
    let mut publisher = node.publisher::<u64>("own").unwrap();
    let mut subscriber = node.subscriber::<u64>("own").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    for number in 0..10 {
        publisher.send(&[number]).unwrap();
        assert_eq!(*subscriber.receive().unwrap().unwrap(), [number]);
    }
    // On a busy machine the inspection thread may reply too late. The thread is asked again.
    await_that("it is shown", || {
        let shown = stripline::inspect::processes().unwrap().processes;
        shown.iter().any(|process| process.pid == std::process::id())
    });
    publisher.finish().unwrap();
    assert!(subscriber.receive().unwrap().is_none());
    let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
    let mut server = node.server("own", |x: u32| Ok::<u32, String>(x + 1), options).unwrap();
    let client = node.client::<u32, u32, String>("own", ClientOptions::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while !server.serve_one(DEADLINE).unwrap() {});
        assert_eq!(client.call(&1).unwrap(), 2);
    });
}

/// Plays a role: packets, with forks at every moment of a link.
pub fn packets(transport: &str) {
    for end in ENDS {
        let what = format!("{transport}, {end:?}");
        let node = Cell::new(Some(node(transport)));
        let held = node.take().unwrap();
        let publisher = Cell::new(Some(held.publisher::<u64>("x").unwrap()));
        let subscriber = Cell::new(Some(held.subscriber::<u64>("x").unwrap()));
        node.set(Some(held));
        let drops = || drop((publisher.take(), subscriber.take(), node.take()));
        let uses = || {
            let (mut tx, mut rx, own) =
                (publisher.take().unwrap(), subscriber.take().unwrap(), node.take().unwrap());
            assert_forked("send", tx.send(&[7]).unwrap_err());
            assert_forked("try_send", tx.try_send(&[7]).unwrap_err());
            assert_forked("loan", tx.loan(1).map(drop).unwrap_err());
            assert_forked("wait", tx.wait_for_receivers(1, DEADLINE).unwrap_err());
            assert_eq!((tx.receivers(), rx.senders()), (0, 0));
            assert_forked("send_many", tx.send_many(2, 1, |_, _| ()).unwrap_err());
            assert_forked("drain", rx.drain(2, |_| ()).unwrap_err());
            assert_forked("receive", rx.receive().map(drop).unwrap_err());
            assert_forked("try_receive", rx.try_receive().map(drop).unwrap_err());
            assert_forked("timeout", rx.receive_timeout(DEADLINE).map(drop).unwrap_err());
            assert_forked("serve", rx.serve(Dispatch::Queue, |_| Ok(())).unwrap_err());
            let mut any: [&mut dyn Waitable; 1] = [&mut rx];
            assert_forked("wait_any", wait_any(&mut any, None).unwrap_err());
            assert_forked("publisher", own.publisher::<u64>("y").map(drop).unwrap_err());
            assert_forked("subscriber", own.subscriber::<u64>("y").map(drop).unwrap_err());
            let client = own.client::<u32, u32, String>("y", ClientOptions::default());
            assert_forked("client", client.map(drop).unwrap_err());
            own.stop();
            assert_forked("windows", rx.windowed().window(1).map(drop).unwrap_err());
            assert_forked("finish", tx.finish().unwrap_err());
            drop(own);
            links_of_its_own(transport);
        };
        let with = |act: &mut dyn FnMut(
            &mut stripline::node::Publisher<u64>,
            &mut stripline::node::Subscriber<u64>,
        )| {
            let (mut tx, mut rx) = (publisher.take().unwrap(), subscriber.take().unwrap());
            act(&mut tx, &mut rx);
            publisher.set(Some(tx));
            subscriber.set(Some(rx));
        };
        // Forks before a connection may have been made, before the first packet, and after it.
        fork(end, &what, drops, uses);
        with(&mut |tx, _| assert!(tx.wait_for_receivers(1, DEADLINE).unwrap()));
        fork(end, &what, drops, uses);
        for number in 0..5 {
            with(&mut |tx, rx| {
                tx.send(&[number]).unwrap();
                assert_eq!(*rx.receive().unwrap().unwrap(), [number], "{what}");
            });
            fork(end, &what, drops, uses);
        }
        // Forks with packets in transit. The reader has received one packet.
        with(&mut |tx, rx| {
            (5..10).for_each(|number| tx.send(&[number]).unwrap());
            assert_eq!(*rx.receive().unwrap().unwrap(), [5], "{what}");
        });
        fork(end, &what, drops, uses);
        with(&mut |_, rx| {
            for number in 6..10 {
                assert_eq!(*rx.receive().unwrap().unwrap(), [number], "{what}");
            }
        });
        // Forks within a loan, and within a packet that is held.
        with(&mut |tx, rx| {
            let mut loan = tx.loan(1).unwrap();
            loan[0] = 10;
            let loan = Cell::new(Some(loan));
            fork(
                end,
                &what,
                || drop(loan.take()),
                || {
                    let mut loan = loan.take().unwrap();
                    loan[0] = 77;
                    assert_forked("a loan", loan.send().unwrap_err());
                },
            );
            loan.take().unwrap().send().unwrap();
            drop(loan);
            let packet = Cell::new(Some(rx.receive().unwrap().unwrap()));
            fork(end, &what, || drop(packet.take()), || drop(packet.take()));
            assert_eq!(*packet.take().unwrap(), [10], "{what}");
            drop(packet);
            tx.send(&[11]).unwrap();
            assert_eq!(*rx.receive().unwrap().unwrap(), [11], "{what}");
            assert!(matches!(rx.try_receive().unwrap(), Received::Empty), "{what}");
        });
        // Forks within the functions for many packets at a time, from which the child returns.
        with(&mut |tx, rx| {
            let send = |forks: &dyn Fn()| {
                tx.send_many(5, 1, |index, place| {
                    place[0] = 12 + index as u64;
                    if index == 2 {
                        forks();
                    }
                })
            };
            let is_forked =
                |error: Option<&stripline::Error>| matches!(error, Some(stripline::Error::Forked { .. }));
            fork_inside(send, |sent| is_forked(sent.as_ref().err())).unwrap();
            let mut next = 12;
            let drain = |forks: &dyn Fn()| {
                while next < 17 {
                    rx.drain(5, |packet| {
                        assert_eq!(*packet, [next], "{what}");
                        next += 1;
                        if next == 15 {
                            forks();
                        }
                    })?;
                }
                Ok::<_, stripline::Error>(())
            };
            fork_inside(drain, |drained| is_forked(drained.as_ref().err())).unwrap();
            assert_eq!(next, 17, "{what}");
            tx.send(&[17]).unwrap();
            assert_eq!(*rx.receive().unwrap().unwrap(), [17], "{what}");
        });
        publisher.take().unwrap().finish().unwrap();
        let mut rx = subscriber.take().unwrap();
        assert!(rx.receive().unwrap().is_none(), "{what}");
        assert!(rx.gap_at_end().is_none(), "{what}");
    }
    say("done");
}

/// Plays a role: one thread sends, one receives, and one forks repeatedly.
pub fn traffic(transport: &str) {
    let node = node(transport);
    let mut publisher = node.publisher::<u64>("x").unwrap();
    let mut subscriber = node.subscriber::<u64>("x").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    let is_over = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                publisher.send(&[number]).unwrap();
                number += 1;
            }
            publisher.finish().unwrap();
            number
        });
        let receiver = scope.spawn(|| {
            let mut expected = 0;
            while let Some(packet) = subscriber.receive().unwrap() {
                assert_eq!((&*packet, packet.gap().is_none()), (&[expected][..], true));
                expected += 1;
            }
            expected
        });
        // A fork that fails also ends the threads, so that the test fails instead of hanging.
        let forks = std::panic::AssertUnwindSafe(|| {
            for turn in 0..FORKS {
                let end = ENDS[turn % ENDS.len()];
                fork(end, transport, || node.stop(), || links_of_its_own(transport));
            }
        });
        let forked = std::panic::catch_unwind(forks);
        is_over.store(true, Ordering::Relaxed);
        forked.unwrap();
        (sender.join().unwrap(), receiver.join().unwrap())
    });
    assert_eq!(sent, received);
    say("done");
}

/// Plays a role: calls, with forks before, between and within them, by the client and by the
/// handler.
pub fn calls(transport: &str) {
    for (end, is_pool) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let what = format!("{transport}, {end:?}, pool: {is_pool}");
        let node = node(transport);
        let forks = AtomicBool::new(false);
        let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
        let handler = |x: u32| {
            if forks.swap(false, Ordering::Relaxed) {
                fork(end, &what, || {}, || links_of_its_own(transport));
            }
            Ok::<u32, String>(x + 1)
        };
        let server = Cell::new(Some(node.server("x", handler, options).unwrap()));
        let patient = ClientOptions { deadline: DEADLINE, ..ClientOptions::default() };
        let client = node.client::<u32, u32, String>("x", patient).unwrap();
        let client = Cell::new(Some(client));
        let drops = || drop((client.take(), server.take()));
        let uses = || {
            let client = client.take().unwrap();
            assert_forked("call", client.call(&1).unwrap_err());
            assert_forked("start", client.start(&1).map(drop).unwrap_err());
            if let Some(mut server) = server.take() {
                assert_forked("serve", server.serve(Dispatch::Queue).unwrap_err());
                assert_forked("serve_one", server.serve_one(DEADLINE).unwrap_err());
                assert_forked("a pool", server.serve(Dispatch::pool(2).unwrap()).unwrap_err());
                assert_eq!(server.counts().clients, 0);
            }
            links_of_its_own(transport);
        };
        fork(end, &what, drops, uses);
        let mut server = server.take().unwrap();
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&node);
            scope.spawn(|| {
                let dispatch = if is_pool { Dispatch::pool(2).unwrap() } else { Dispatch::Queue };
                server.serve(dispatch).unwrap();
            });
            fork(end, &what, drops, uses);
            for number in 0..5 {
                let held = client.take().unwrap();
                assert_eq!(held.call(&number).unwrap(), number + 1, "{what}");
                client.set(Some(held));
                fork(end, &what, drops, uses);
            }
            let held = client.take().unwrap();
            let pending = Cell::new(Some(held.start(&7).unwrap()));
            fork(
                end,
                &what,
                || drop(pending.take()),
                || {
                    let mut pending = pending.take().unwrap();
                    assert_forked("a call", pending.try_take().unwrap().unwrap_err());
                    drop(pending);
                },
            );
            assert_eq!(pending.take().unwrap().wait().unwrap(), 8, "{what}");
            // The child is forked while this thread waits for the reply.
            forks.store(true, Ordering::Relaxed);
            assert_eq!(held.call(&8).unwrap(), 9, "{what}");
            assert!(!forks.load(Ordering::Relaxed));
            assert_eq!(held.call(&9).unwrap(), 10, "{what}");
        });
        assert_eq!((server.counts().calls, server.counts().cancelled), (8, 0), "{what}");
    }
    say("done");
}

/// A guard that stops a node even if the test fails. Otherwise the server would never end.
struct StopAtEnd<'a>(&'a Node);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Plays a role: a handler that forks and lets the child return from it.
///
/// A server that forks for each request does this.
pub fn back(transport: &str) {
    let node = node(transport);
    let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
    let parent = std::process::id();
    let handler = |x: u32| {
        // SAFETY: the same as in `fork`.
        unsafe { libc::fork() };
        Ok::<u32, String>(x + 1)
    };
    let mut server = node.server("x", handler, options).unwrap();
    let client = node.client::<u32, u32, String>("x", ClientOptions::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let served = server.serve(Dispatch::Queue);
            if std::process::id() != parent {
                let is_forked = served.is_err_and(|error| error.to_string().contains("was forked from"));
                // SAFETY: the call ends the child.
                unsafe { libc::_exit(if is_forked { 0 } else { 1 }) };
            }
            served.unwrap();
        });
        for number in 0..20 {
            assert_eq!(client.call(&number).unwrap(), number + 1);
            let mut status = 0;
            // SAFETY: `status` lives across the call.
            assert!(unsafe { libc::wait(&mut status) } > 0);
            assert_eq!(status, 0);
        }
        node.stop();
    });
    say("done");
}

/// Plays a role: a publisher with a child that continues without it.
pub fn survivor(domain: &str, transport: &str) {
    let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'")).unwrap();
    let node = Node::join(domain, topics).unwrap();
    let mut publisher = node.publisher::<u64>("x").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    publisher.send(&[1]).unwrap();
    // SAFETY: the child only reads and exits.
    if unsafe { libc::fork() } == 0 {
        // Blocks until the test closes the other end.
        crate::child::await_go_on();
        // SAFETY: the call ends the child.
        unsafe { libc::_exit(0) };
    }
    publisher.send(&[2]).unwrap();
    say("forked");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_child_neither_ends_nor_disturbs_a_stream() {
    play("fork-packets");
}

#[test]
fn forks_while_packets_flow_lose_none() {
    play("fork-traffic");
}

#[test]
fn a_child_neither_ends_nor_takes_a_call() {
    play("fork-calls");
}

#[test]
fn a_child_that_comes_back_from_a_handler_is_told() {
    play("fork-back");
}

#[test]
fn a_c_program_forks_as_any_other() {
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", "stripline-conformance", "--example", "fork_library"]);
    build.args(folder.ends_with("release").then_some("--release"));
    build.args(transports().find(|name| *name == "zeromq").map(|_| "--features=stripline-middleware/zeromq"));
    assert!(build.status().unwrap().success(), "the library does not build");
    let examples = folder.join("examples");
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("forks");
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Werror", "-o"]).arg(&program);
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/fork.c"));
    compile.arg(examples.join("libfork_library.so"));
    compile.arg(format!("-Wl,-rpath,{}", examples.display()));
    assert!(compile.status().unwrap().success(), "the program does not build");
    // The library has no other middleware.
    for transport in
        transports().filter(|transport| !["iceoryx2", "zenoh", "dds", "corba"].contains(transport))
    {
        let output = Command::new(&program).arg(transport).output().unwrap();
        assert!(output.status.success(), "{transport}: {output:?}");
    }
}

fn play(role: &str) {
    let start = |transport| Actor::start(role, &Cast { words: &[transport], ..Cast::default() });
    let mut actors: Vec<_> = transports().map(start).collect();
    for actor in &mut actors {
        assert_eq!(actor.hear(), "done");
    }
    actors.into_iter().for_each(Actor::end);
}

#[test]
fn the_death_of_a_parent_is_seen_although_its_child_lives() {
    for transport in transports().filter(|name| *name != "inproc") {
        let domain = format!("survivor-{transport}-{}", std::process::id());
        let mut actor =
            Actor::start("fork-survivor", &Cast { words: &[&domain, transport], ..Cast::default() });
        let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'")).unwrap();
        let node = Node::join(&domain, topics).unwrap();
        let mut subscriber = node.subscriber::<u64>("x").unwrap();
        assert_eq!(*subscriber.receive().unwrap().unwrap(), [1]);
        assert_eq!(*subscriber.receive().unwrap().unwrap(), [2]);
        assert_eq!(actor.hear(), "forked");
        actor.kill();
        await_that("its connection is closed", || {
            assert!(subscriber.try_receive().unwrap().packet().is_none());
            subscriber.senders() == 0
        });
        // The name of the domain is free as well, so other nodes still discover each other in it.
        let mut publisher = node.publisher::<u64>("x").unwrap();
        assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
        publisher.send(&[3]).unwrap();
        assert_eq!(*subscriber.receive().unwrap().unwrap(), [3]);
    }
}
