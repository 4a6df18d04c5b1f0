//! Wakers of clients and servers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use stripline::Error;
use stripline::call::{CallError, Service};
use stripline::node::{Dispatch, Node, Waker};

use crate::support::{Gate, LONG, await_that, operation, over, patient, serving};

/// Runs a call that waits, and wakes it once it sleeps or has ended without sleeping.
fn wake_asleep<R: Send>(waker: &Waker, wait: impl FnOnce() -> R + Send) -> R {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            wait()
        });
        let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        let mut looks = 0;
        await_that("the thread sleeps", || {
            let is_asleep = std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") S "));
            looks = if is_asleep { looks + 1 } else { 0 };
            looks >= 3 || waits.is_finished()
        });
        waker.wake();
        waits.join().unwrap()
    })
}

/// Returns whether an interrupted call was sent. Any other outcome is a failure.
fn interrupted<T>(outcome: Result<T, CallError<String>>) -> bool {
    match outcome.map(drop) {
        Err(CallError::Link(Error::Interrupted { sent, .. })) => sent,
        other => panic!("not interrupted: {other:?}"),
    }
}

fn doubling<'h>() -> Service<'h> {
    Service::new("double").unwrap().operation("double", |x: u32| Ok::<_, String>(2 * x)).unwrap()
}

pub fn a_wake_ends_the_wait_of_a_server(transport: &str) {
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let waker = server.waker().unwrap();
    let client = node.service_client("double", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    let double = operation::<u32, u32>(&client, "double");
    for dispatch in [Dispatch::Queue, Dispatch::pool(3).unwrap(), Dispatch::Direct] {
        let error = wake_asleep(&waker, || server.serve(dispatch)).unwrap_err();
        assert!(matches!(&error, Error::Interrupted { port, sent: false } if port == "double"), "{error}");
        let pending = double.start(&4).unwrap();
        assert!(server.serve_one(LONG).unwrap());
        assert_eq!(pending.wait().unwrap(), 8);
    }
    assert!(wake_asleep(&waker, || server.serve_one(LONG)).is_err());
    assert!(!server.serve_one(Duration::from_millis(1)).unwrap());
    serving(&node, &mut server, Dispatch::pool(2).unwrap(), || assert_eq!(double.call(&5).unwrap(), 10));
}

pub fn a_wake_ends_a_busy_server(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(2).unwrap()] {
        let node = Node::isolated().unwrap();
        let begun = AtomicU32::new(0);
        let (wakers, waker) = mpsc::channel::<Waker>();
        let waker = std::sync::Mutex::new(waker);
        let service = Service::new("busy").unwrap().operation("wake", |()| {
            // By now, the other threads wait.
            if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                waker.lock().unwrap().recv().unwrap().wake();
            }
            Ok::<_, String>(())
        });
        let mut server = node.service_server(service.unwrap(), over(transport)).unwrap();
        wakers.send(server.waker().unwrap()).unwrap();
        let client = node.service_client("busy", patient()).unwrap();
        assert!(client.wait_for_servers(1, LONG).unwrap());
        let wake = operation::<(), ()>(&client, "wake");
        let pending: Vec<_> = (0..10).map(|_| wake.start(&()).unwrap()).collect();
        assert!(matches!(server.serve(dispatch), Err(Error::Interrupted { .. })));
        assert!(begun.load(Ordering::SeqCst) < 10, "it has ended before the last");
        serving(&node, &mut server, dispatch, || pending.into_iter().for_each(|call| call.wait().unwrap()));
        assert_eq!(server.counts().calls, 10);
    }
}

pub fn a_wake_ends_one_wait_of_a_client(transport: &str) {
    let node = Node::isolated().unwrap();
    let client = node.service_client("double", patient()).unwrap();
    let double = operation::<u32, u32>(&client, "double");
    let waker = double.waker().unwrap();
    assert!(wake_asleep(&waker, || client.wait_for_servers(1, LONG)).is_err());
    assert!(!interrupted(wake_asleep(&waker, || double.start(&1).map(drop))), "there is no server");
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    // The server does not serve yet.
    assert!(interrupted(wake_asleep(&waker, || double.call(&2))), "it was made");
    waker.wake();
    client.waker().unwrap().wake();
    assert!(interrupted(double.call(&3)), "several wakes are one");
    serving(&node, &mut server, Dispatch::Queue, || {
        for number in 0..100 {
            assert_eq!(double.call(&number).unwrap(), 2 * number);
        }
        await_that("the abandoned calls are over", || client.servers()[0].outstanding == 0);
    });
}

pub fn a_wake_keeps_a_pending_call(transport: &str) {
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let client = node.service_client("double", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    let double = operation::<u32, u32>(&client, "double");
    let waker = client.waker().unwrap();
    let mut pending: Vec<_> = (0..3).map(|number| double.start(&number).unwrap()).collect();
    for call in &mut pending {
        assert!(interrupted(wake_asleep(&waker, || call.wait_timeout(LONG).expect("an outcome"))));
    }
    waker.wake();
    // A call that does not wait leaves the wake.
    assert!(pending[0].try_take().is_none());
    assert!(interrupted(pending[0].wait_timeout(LONG).expect("an outcome")));
    serving(&node, &mut server, Dispatch::Queue, || {
        for (number, mut call) in (0..).zip(pending) {
            assert_eq!(call.wait_timeout(LONG).expect("an outcome").unwrap(), 2 * number);
        }
    });
    assert_eq!(server.counts().calls, 3);
}

pub fn each_wake_ends_the_wait_of_one_thread(transport: &str) {
    let gate = Gate::default();
    let service = Service::new("slow").unwrap().operation("wait", |()| {
        gate.pass();
        Ok::<_, String>(())
    });
    let (here, there) = crate::support::two_nodes();
    let mut server = there.service_server(service.unwrap(), over(transport)).unwrap();
    let client = here.service_client("slow", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    serving(&there, &mut server, Dispatch::Queue, || {
        let wait = operation::<(), ()>(&client, "wait");
        std::thread::scope(|scope| {
            let mut waiting = Vec::from([(); 3].map(|()| scope.spawn(|| wait.call(&()))));
            await_that("all wait", || client.servers()[0].outstanding == 3);
            // The waker is made while the threads wait.
            let waker = client.waker().unwrap();
            while !waiting.is_empty() {
                waker.wake();
                let before = waiting.len();
                await_that("one is woken", || waiting.iter().any(|thread| thread.is_finished()));
                let (ended, others) = waiting.into_iter().partition(|thread| thread.is_finished());
                waiting = others;
                assert_eq!(waiting.len(), before - 1);
                let ended: Vec<_> = ended;
                ended.into_iter().for_each(|thread| assert!(interrupted(thread.join().unwrap())));
            }
        });
        gate.open();
    });
}
