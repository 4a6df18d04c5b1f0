//! Clients and servers in a program's own event loop.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stripline::Error;
use stripline::call::{CallError, OwnedPending, Server, Service, ServiceClient};
use stripline::node::{Dispatch, Node, ReadyDescriptor};

use crate::support::{LONG, await_that, operation, over, patient, serving, two_nodes};

type Call = OwnedPending<u32, u32, String>;

fn doubling<'h>() -> Service<'h> {
    Service::new("double").unwrap().operation("double", |x: u32| Ok::<_, String>(2 * x)).unwrap()
}

/// Waits for one of the descriptors. Returns false if no descriptor is ready.
fn wait(descriptors: &[&ReadyDescriptor], timeout: Duration) -> bool {
    let mut fds: Vec<_> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: 0 };
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

fn reply(client: &ServiceClient, call: &mut Call) -> Result<u32, CallError<String>> {
    let descriptor = client.ready_descriptor().unwrap();
    loop {
        if let Some(reply) = call.try_take() {
            return reply;
        }
        if client.arm().unwrap() {
            assert!(wait(&[&descriptor], LONG), "the reply did not come");
        }
    }
}

fn serve_all(server: &mut Server<'_>) -> u32 {
    let mut served = 0;
    while server.serve_one(Duration::ZERO).unwrap() {
        served += 1;
    }
    served
}

pub fn one_thread_serves_and_calls(transport: &str) {
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let client = node.service_client("double", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    let double = operation::<u32, u32>(&client, "double");
    let of_client = client.ready_descriptor().unwrap();
    let of_server = server.ready_descriptor().unwrap();
    for number in 0..100 {
        let mut calls: Vec<Call> =
            (0..3).map(|more| double.try_start(&(number + more)).unwrap().into_owned()).collect();
        let (mut replies, mut served) = (Vec::new(), 0);
        while replies.len() < 3 {
            served += serve_all(&mut server);
            replies.extend(calls.iter_mut().filter_map(Call::try_take).map(Result::unwrap));
            if replies.len() < 3 && server.arm().unwrap() && client.arm().unwrap() {
                assert!(wait(&[&of_client, &of_server], LONG), "{number}: {served} served");
            }
        }
        replies.sort_unstable();
        assert_eq!(replies, [2 * number, 2 * number + 2, 2 * number + 4]);
    }
    // The descriptors do not ring without cause, but may ring once more for results that have
    // arrived.
    assert_eq!(serve_all(&mut server), 0);
    await_that("both are quiet", || {
        let are_armed = server.arm().unwrap() && client.arm().unwrap();
        are_armed && !wait(&[&of_server], Duration::ZERO) && !wait(&[&of_client], Duration::ZERO)
    });
}

/// Checks a loop that polls the calls in turn: the last one receives for calls polled before.
pub fn outcomes_received_by_another_call_are_noticed(transport: &str) {
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let client = node.service_client("double", patient()).unwrap();
    // The longest possible timeout.
    assert!(client.wait_for_servers(1, Duration::MAX).unwrap());
    let double = operation::<u32, u32>(&client, "double");
    let descriptor = client.ready_descriptor().unwrap();
    let start =
        || -> Vec<Call> { (0..3).map(|number| double.try_start(&number).unwrap().into_owned()).collect() };
    let settle = |calls: &mut [Call]| {
        let last = reply(&client, &mut calls[2]);
        let is_armed = client.arm().unwrap();
        assert!(!is_armed || wait(&[&descriptor], Duration::ZERO), "two outcomes are there");
        await_that("it is quiet", || client.arm().unwrap() && !wait(&[&descriptor], Duration::ZERO));
        last
    };
    let mut calls = start();
    let mut served = 0;
    await_that("all are served", || {
        served += serve_all(&mut server);
        served == 3
    });
    assert_eq!(settle(&mut calls).unwrap(), 4);
    assert_eq!(calls[0].try_take().unwrap().unwrap(), 0);
    assert_eq!(calls[1].try_take().unwrap().unwrap(), 2);
    let mut calls = start();
    drop(server);
    assert!(settle(&mut calls).is_err());
    assert!(calls[0].try_take().unwrap().is_err() && calls[1].try_take().unwrap().is_err());
}

pub fn servers_that_come_and_go_are_noticed(transport: &str) {
    let (here, there) = two_nodes();
    let client = here.service_client("double", patient()).unwrap();
    let double = operation::<u32, u32>(&client, "double");
    let descriptor = client.ready_descriptor().unwrap();
    let none = double.try_start(&1).err().unwrap();
    assert!(matches!(none, CallError::NoServer { waited: Duration::ZERO, .. }), "{none}");
    assert!(client.arm().unwrap());
    let server = there.service_server(doubling(), over(transport)).unwrap();
    assert!(wait(&[&descriptor], LONG));
    let mut call = loop {
        match double.try_start(&1) {
            Ok(call) => break call.into_owned(),
            // The descriptor rings for other changes, too.
            Err(CallError::NoServer { .. }) if client.arm().unwrap() => assert!(wait(&[&descriptor], LONG)),
            Err(CallError::NoServer { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    drop(server);
    let gone = reply(&client, &mut call).unwrap_err();
    assert!(matches!(gone, CallError::ServerGone { .. }), "{gone}");
    // Without any call, the loop comes to rest as well.
    await_that("it is quiet", || client.arm().unwrap() && !wait(&[&descriptor], Duration::ZERO));
    let waker = client.waker().unwrap();
    waker.wake();
    assert!(matches!(client.arm(), Err(Error::Interrupted { .. })));
    assert!(client.arm().unwrap());
    here.stop();
    assert!(wait(&[&descriptor], LONG));
    assert!(matches!(client.arm(), Err(Error::Stopped)));
}

pub fn threads_call_beside_a_loop(transport: &str) {
    const CALLS: u32 = 300;
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let client = node.service_client("double", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    serving(&node, &mut server, Dispatch::Queue, || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let double = operation::<u32, u32>(&client, "double");
                    (0..CALLS).for_each(|number| assert_eq!(double.call(&number).unwrap(), 2 * number));
                });
            }
            let double = operation::<u32, u32>(&client, "double");
            for number in 0..CALLS {
                let mut call = double.try_start(&number).unwrap().into_owned();
                assert_eq!(reply(&client, &mut call).unwrap(), 2 * number);
            }
        });
    });
}

pub fn a_start_without_room_does_not_wait(transport: &str) {
    let node = Node::isolated().unwrap();
    let service = Service::new("sum").unwrap();
    let service = service.operation("sum", |values: Vec<u32>| Ok::<u32, String>(values.iter().sum()));
    let mut server = node.service_server(service.unwrap(), over(transport)).unwrap();
    let client = node.service_client("sum", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    let sum = operation::<Vec<u32>, u32>(&client, "sum");
    let values = vec![1; 10_000];
    let mut calls = Vec::new();
    let full = loop {
        match sum.try_start(&values) {
            Ok(call) => calls.push(call),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, CallError::Link(Error::Full { .. })), "{full}");
    assert!(!calls.is_empty());
    serving(&node, &mut server, Dispatch::Queue, || {
        calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), 10_000));
        assert_eq!(sum.call(&values).unwrap(), 10_000);
    });
}

pub fn a_server_waits_for_a_call_and_keeps_it(transport: &str) {
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(doubling(), over(transport)).unwrap();
    let waker = server.waker().unwrap();
    let client = node.service_client("double", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    let double = operation::<u32, u32>(&client, "double");
    assert!(!server.wait_for_call(Duration::from_millis(1)).unwrap());
    let calls: Vec<_> = (0..10).map(|number| double.start(&number).unwrap()).collect();
    assert!(server.wait_for_call(LONG).unwrap() && server.wait_for_call(LONG).unwrap());
    assert!(!server.arm().unwrap(), "it has a call");
    waker.wake();
    assert!(matches!(server.wait_for_call(LONG), Err(Error::Interrupted { .. })));
    for (number, call) in (0..).zip(calls) {
        assert!(server.wait_for_call(LONG).unwrap() && server.serve_one(Duration::ZERO).unwrap());
        assert_eq!(call.wait().unwrap(), 2 * number);
    }
    assert_eq!(server.counts().calls, 10);
    node.stop();
    assert!(matches!(server.wait_for_call(LONG), Err(Error::Stopped)));
}
