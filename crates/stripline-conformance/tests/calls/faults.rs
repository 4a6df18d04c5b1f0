//! Failures of calls, each with its own error: deadlines, wrong types, cycles, too many calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use stripline::call::{
    CallError, CallOptions, Client, ClientOptions, Context, Refusal, Samples, ServerOptions, Service,
};
use stripline::node::{Dispatch, Node};

use crate::support::{Gate, LONG, await_that, operation, over, patient, serving, with_server};

const SHORT: Duration = Duration::from_millis(20);

pub fn a_deadline_that_passes_is_named_and_the_late_reply_counted(transport: &str) {
    // On a busy machine the call may reach the server after the deadline, which is another rule.
    let mut deadline = SHORT;
    while !passes_while_served(transport, deadline) {
        deadline *= 4;
    }
}

/// Returns whether the call had begun before the deadline.
fn passes_while_served(transport: &str, deadline: Duration) -> bool {
    let (gate, mut is_begun) = (Gate::default(), false);
    let service = Service::new("slow")
        .unwrap()
        .operation("wait", |number: u32| {
            gate.pass();
            Ok::<_, String>(number)
        })
        .unwrap()
        .operation("quick", Ok::<u32, String>)
        .unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        let (wait, quick) = (operation::<u32, u32>(&client, "wait"), operation::<u32, u32>(&client, "quick"));
        let error = wait.with(CallOptions::deadline(deadline)).call(&1).unwrap_err();
        is_begun = !matches!(&error, CallError::Refused { refusal: Refusal::DeadlinePassed, .. });
        if !is_begun {
            return;
        }
        assert!(matches!(&error, CallError::Unanswered { deadline: set, .. } if *set == deadline), "{error}");
        assert!(error.to_string().contains("`slow.wait` at `"), "{error}");
        // The server's refusal of a call that has not begun may come after the deadline.
        is_begun = client.servers()[0].late == 0;
        if !is_begun {
            return;
        }
        gate.open();
        // The reply to the next call arrives after the late reply.
        assert_eq!(quick.call(&2).unwrap(), 2);
        assert_eq!((client.servers()[0].late, client.servers()[0].outstanding), (1, 0));
        assert_eq!(client.counts(), (2, 1));
    });
    is_begun
}

pub fn a_call_whose_deadline_has_passed_is_not_begun(transport: &str) {
    let (gate, begun) = (Gate::default(), AtomicU32::new(0));
    let service = Service::new("slow")
        .unwrap()
        .operation("wait", |()| {
            begun.fetch_add(1, Ordering::Relaxed);
            gate.pass();
            Ok::<_, String>(())
        })
        .unwrap()
        .operation("quick", Ok::<u32, String>)
        .unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        let (wait, quick) = (operation::<(), ()>(&client, "wait"), operation::<u32, u32>(&client, "quick"));
        let first = wait.start(&()).unwrap();
        await_that("the first call is begun", || begun.load(Ordering::Relaxed) == 1);
        for _ in 0..3 {
            let error = wait.with(CallOptions::deadline(SHORT)).call(&()).unwrap_err();
            assert!(matches!(error, CallError::Unanswered { .. }), "{error}");
        }
        gate.open();
        first.wait().unwrap();
        assert_eq!(quick.call(&1).unwrap(), 1);
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        // The cancelled calls were answered nevertheless, and these replies were late.
        assert_eq!(client.servers()[0].late, 3);
    });
}

pub fn a_cancelled_call_frees_its_place(transport: &str) {
    let (gate, begun) = (Gate::default(), AtomicU32::new(0));
    let service = Service::new("slow")
        .unwrap()
        .operation("wait", |()| {
            begun.fetch_add(1, Ordering::Relaxed);
            gate.pass();
            Ok::<_, String>(())
        })
        .unwrap();
    let node = Node::isolated().unwrap();
    let mut server = node.service_server(service, over(transport)).unwrap();
    let client = node.service_client("slow", ClientOptions { outstanding: 2, ..patient() }).unwrap();
    serving(&node, &mut server, Dispatch::Queue, || {
        let wait = operation::<(), ()>(&client, "wait");
        let (first, second) = (wait.start(&()).unwrap(), wait.start(&()).unwrap());
        let error = wait.start(&()).map(drop).unwrap_err();
        assert!(matches!(error, CallError::TooMany { outstanding_max: 2, .. }), "{error}");
        await_that("the first is begun", || begun.load(Ordering::Relaxed) == 1);
        first.cancel();
        let third = wait.start(&()).unwrap();
        drop(second);
        let fourth = wait.start(&()).unwrap();
        // A call cancelled within 20 µs before the start may still be executed.
        let since = Instant::now();
        await_that("it is not too fresh", || since.elapsed() > Duration::from_micros(200));
        gate.open();
        third.wait().unwrap();
        fourth.wait().unwrap();
        // This call arrives after the cancellations of the others.
        wait.call(&()).unwrap();
        assert_eq!((client.servers()[0].late, client.servers()[0].outstanding), (2, 0));
    });
    // The first call was started; the second was not.
    assert_eq!((server.counts().calls, server.counts().cancelled), (4, 2));
}

/// Builds a service with `wait`, which keeps every thread busy until the gate is opened, and
/// `note`, which records the arguments.
fn busy_service<'h>(gate: &'h Gate, begun: &'h AtomicU32, noted: &'h Mutex<Vec<u32>>) -> Service<'h> {
    let wait = |()| {
        begun.fetch_add(1, Ordering::Relaxed);
        gate.pass();
        Ok::<_, String>(())
    };
    let note = |number: u32| {
        noted.lock().unwrap().push(number);
        Ok::<_, String>(())
    };
    Service::new("busy").unwrap().operation("wait", wait).unwrap().operation("note", note).unwrap()
}

/// Returns every dispatch with the number of handlers that run at once.
fn dispatches() -> [(Dispatch, u32); 4] {
    [
        (Dispatch::Queue, 1),
        (Dispatch::Direct, 1),
        (Dispatch::pool(1).unwrap(), 1),
        (Dispatch::pool(3).unwrap(), 3),
    ]
}

pub fn a_call_cancelled_before_its_start_is_not_executed(transport: &str) {
    for (dispatch, threads) in dispatches() {
        let (gate, begun, noted) = (Gate::default(), AtomicU32::new(0), Mutex::default());
        let node = Node::isolated().unwrap();
        let mut server = node.service_server(busy_service(&gate, &begun, &noted), over(transport)).unwrap();
        let client = node.service_client("busy", patient()).unwrap();
        serving(&node, &mut server, dispatch, || {
            let (wait, note) = (operation::<(), ()>(&client, "wait"), operation::<u32, ()>(&client, "note"));
            let held: Vec<_> = (0..threads).map(|_| wait.start(&()).unwrap()).collect();
            await_that("all threads are busy", || begun.load(Ordering::Relaxed) == threads);
            // Starting this number of calls takes longer than a server's interval between two
            // polls.
            let mut calls: Vec<_> = (0..100).map(|number| note.start(&number).unwrap()).collect();
            // The later calls are cancelled by dropping them, the earlier ones by `cancel`.
            drop(calls.split_off(55));
            calls.drain(..45).for_each(|call| call.cancel());
            gate.open();
            held.into_iter().for_each(|call| call.wait().unwrap());
            calls.into_iter().for_each(|call| call.wait().unwrap());
            // This call comes after all other calls, so the abandoned calls were answered too, and
            // the replies were late.
            note.call(&999).unwrap();
            await_that("all are answered", || client.servers()[0].late == 90);
        });
        let mut noted = noted.lock().unwrap().clone();
        noted.sort_unstable();
        let expected: Vec<u32> = (45..55).chain([999]).collect();
        assert_eq!(noted, expected, "{dispatch:?}");
        let counts = server.counts();
        assert_eq!((counts.cancelled, counts.refused), (90, 90), "{dispatch:?}");
        assert_eq!(counts.calls, u64::from(threads) + 11, "{dispatch:?}");
    }
}

pub fn an_overloaded_server_refuses_calls(transport: &str) {
    for (dispatch, threads) in dispatches() {
        let (gate, begun, noted) = (Gate::default(), AtomicU32::new(0), Mutex::default());
        let node = Node::isolated().unwrap();
        let options = ServerOptions { waiting: Some(3), ..over(transport) };
        let mut server = node.service_server(busy_service(&gate, &begun, &noted), options).unwrap();
        let client = node.service_client("busy", patient()).unwrap();
        serving(&node, &mut server, dispatch, || {
            let (wait, note) = (operation::<(), ()>(&client, "wait"), operation::<u32, ()>(&client, "note"));
            let held: Vec<_> = (0..threads).map(|_| wait.start(&()).unwrap()).collect();
            await_that("all threads are busy", || begun.load(Ordering::Relaxed) == threads);
            let calls: Vec<_> = (0..10).map(|number| note.start(&number).unwrap()).collect();
            gate.open();
            held.into_iter().for_each(|call| call.wait().unwrap());
            let outcomes: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
            let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
            // A call is started next, and a limited number may wait behind it.
            assert!((4..10).contains(&done.len()), "{dispatch:?}: {done:?}");
            for refusal in refused {
                let error = refusal.unwrap_err();
                assert!(
                    matches!(&error, CallError::Refused { refusal: Refusal::Overloaded, .. })
                        && error.to_string().contains("it has too much to do: 3 calls wait"),
                    "{error}"
                );
            }
            // The server has capacity again.
            note.call(&99).unwrap();
        });
    }
}

pub fn abandoned_calls_never_exhaust_a_client(transport: &str) {
    let calls = AtomicU32::new(0);
    let service = Service::new("sink")
        .unwrap()
        .operation("take", |_: Samples<u8>| {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok::<_, String>(Samples(vec![7u8; 500]))
        })
        .unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        let take = operation::<Samples<u8>, Samples<u8>>(&client, "take");
        for _ in 0..5000 {
            drop(take.start(&Samples(vec![0; 500])).unwrap());
        }
        assert_eq!(take.call(&Samples(vec![])).unwrap().len(), 500);
        assert_eq!(client.servers()[0].outstanding, 0);
    });
}

pub fn an_operation_that_the_server_lacks_is_named(transport: &str) {
    let service = Service::new("tuner").unwrap().operation("tune", |hz: f64| Ok::<f64, String>(hz)).unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        let error = operation::<f64, f64>(&client, "tnue").call(&1.0).unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { refusal: Refusal::UnknownOperation, .. })
                && error.to_string().contains("it has tune"),
            "{error}"
        );
        let error = operation::<Samples<i16>, f64>(&client, "tune").call(&Samples(vec![1])).unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { refusal: Refusal::WrongType, .. })
                && error.to_string().contains("its request is message/cbor, and not s16"),
            "{error}"
        );
        assert_eq!(operation::<f64, f64>(&client, "tune").call(&1.0).unwrap(), 1.0);
    });
}

pub fn an_undecodable_payload_is_named_on_either_side(transport: &str) {
    let service = Service::new("tuner").unwrap().operation("tune", |hz: f64| Ok::<f64, String>(hz)).unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        // Both types have the same name, because both are messages.
        let error = operation::<String, f64>(&client, "tune").call(&"1".into()).unwrap_err();
        assert!(matches!(&error, CallError::Refused { refusal: Refusal::WrongType, .. }), "{error}");
        let error = operation::<f64, Vec<String>>(&client, "tune").call(&1.0).unwrap_err();
        assert!(matches!(&error, CallError::Decode { .. }), "{error}");
        assert_eq!(operation::<f64, f64>(&client, "tune").call(&1.0).unwrap(), 1.0);
    });
}

/// Checks that a cycle of two one-thread services is an error and does not hang.
pub fn a_cycle_of_calls_is_an_error_and_no_hang(transport: &str) {
    let node = Node::isolated().unwrap();
    let a: Client<u32, u32> = node.client("a", patient()).unwrap();
    let b: Client<u32, u32> = node.client("b", patient()).unwrap();
    let down = |next: &Client<u32, u32>, depth: u32| match depth {
        0 => Ok(0),
        _ => next.call(&(depth - 1)).map(|depth| depth + 1).map_err(|error| match error {
            CallError::User(words) => words,
            error => error.to_string(),
        }),
    };
    let mut server_a = node.server("a", |depth| down(&b, depth), over(transport)).unwrap();
    let mut server_b = node.server("b", |depth| down(&a, depth), over(transport)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server_b.serve(Dispatch::Queue).unwrap());
        serving(&node, &mut server_a, Dispatch::Queue, || {
            assert_eq!(a.call(&0).unwrap(), 0);
            assert_eq!(a.call(&1).unwrap(), 1);
            let error = a.call(&2).unwrap_err();
            assert!(
                matches!(&error, CallError::User(words) if words.contains("a cycle of calls")),
                "{error}"
            );
            assert_eq!(a.call(&1).unwrap(), 1);
        });
    });
}

/// Checks that a server with two threads may be in a chain twice, but not three times.
pub fn a_pool_may_be_called_by_itself_as_often_as_it_has_threads(transport: &str) {
    let node = Node::isolated().unwrap();
    let own: Client<u32, u32> = node.client("own", patient()).unwrap();
    let down = |depth: u32| match depth {
        0 => Ok(0),
        _ => own.call(&(depth - 1)).map(|depth| depth + 1).map_err(|error| match error {
            CallError::User(words) => words,
            error => error.to_string(),
        }),
    };
    let mut server = node.server("own", down, over(transport)).unwrap();
    serving(&node, &mut server, Dispatch::pool(2).unwrap(), || {
        assert_eq!(own.call(&1).unwrap(), 1);
        let error = own.call(&2).unwrap_err();
        assert!(matches!(&error, CallError::User(words) if words.contains("a cycle of calls")), "{error}");
    });
}

/// Checks that a call from a handler waits no longer than the handler's own client.
pub fn a_nested_call_has_no_longer_deadline(transport: &str) {
    let node = Node::isolated().unwrap();
    let gate = Gate::default();
    let slow: Client<(), ()> = node.client("slow", patient()).unwrap();
    let outer: Client<(), String> = node.client("outer", patient()).unwrap();
    let mut server_slow = node
        .server(
            "slow",
            |()| {
                gate.pass();
                Ok::<_, String>(())
            },
            over(transport),
        )
        .unwrap();
    let ask = |()| match slow.call(&()) {
        Err(CallError::Unanswered { deadline, .. }) if deadline < LONG => {
            gate.open();
            Ok::<String, String>("was not waited for".into())
        }
        // On a slow machine the call is made again.
        Err(CallError::Refused { refusal: Refusal::DeadlinePassed, .. }) => Ok("came too late".into()),
        // The caller has made the call again, after the gate was opened.
        Ok(()) if gate.is_open() => Ok("is over".into()),
        other => Err(format!("{other:?}")),
    };
    let mut server_outer = node.server("outer", ask, over(transport)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server_slow.serve(Dispatch::Queue).unwrap());
        serving(&node, &mut server_outer, Dispatch::Queue, || {
            // Both deadlines pass at about the same time, and either may be first. On a slow
            // machine, the outer deadline may pass before the handler begins. The call is then made
            // again.
            await_that("the inner call is over", || {
                match outer.with(CallOptions::deadline(SHORT)).call(&()) {
                    Ok(_) | Err(CallError::Unanswered { .. }) => {}
                    Err(CallError::Refused {
                        refusal: Refusal::DeadlinePassed | Refusal::Cancelled, ..
                    }) => {}
                    Err(error) => panic!("{error}"),
                }
                gate.is_open()
            });
        });
    });
}

pub fn a_handler_of_a_pool_detects_that_its_call_was_cancelled(transport: &str) {
    let (begun, over) = (Gate::default(), AtomicU32::new(0));
    let hold = |(): (), context: &Context<'_>| {
        begun.open();
        await_that("it is taken back", || context.is_cancelled());
        over.fetch_add(1, Ordering::Relaxed);
        Ok::<_, String>(())
    };
    let service = Service::new("slow")
        .unwrap()
        .operation_with("hold", hold)
        .unwrap()
        .operation("quick", Ok::<u32, String>)
        .unwrap();
    with_server(transport, service, Dispatch::pool(2).unwrap(), |_, client| {
        let held = operation::<(), ()>(&client, "hold").start(&()).map(|pending| {
            begun.pass();
            pending.cancel();
        });
        held.unwrap();
        await_that("the handler is over", || over.load(Ordering::Relaxed) == 1);
        assert_eq!(operation::<u32, u32>(&client, "quick").call(&3).unwrap(), 3);
    });
}

/// Checks that a cycle through another thread, which cannot be detected, ends at the deadline.
pub fn an_undetectable_cycle_ends_at_the_deadline(transport: &str) {
    let node = Node::isolated().unwrap();
    let own: Client<bool, bool> = node.client("own", patient()).unwrap();
    let again = |goes_on: bool| {
        if !goes_on {
            return Ok(true);
        }
        let soon = own.with(CallOptions::deadline(SHORT));
        let thread = || soon.call(&false).map_err(|error| error.to_string());
        std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
    };
    let mut server = node.server("own", again, over(transport)).unwrap();
    serving(&node, &mut server, Dispatch::Queue, || {
        let error = own.call(&true).unwrap_err();
        assert!(
            matches!(&error, CallError::User(words) if words.contains("did not answer within")),
            "{error}"
        );
        assert!(own.call(&false).unwrap());
    });
}

/// Checks that a client that does not take replies harms only itself.
pub fn a_client_that_takes_no_replies_does_not_hold_up_others(transport: &str) {
    let service = Service::new("source")
        .unwrap()
        .operation("give", |bytes: u32| Ok::<_, String>(Samples(vec![1u8; bytes as usize])))
        .unwrap();
    let node = Node::isolated().unwrap();
    let options = ServerOptions { buffer: 1 << 14, ..over(transport) };
    let mut server = node.service_server(service, options).unwrap();
    let greedy = node.service_client("source", ClientOptions { outstanding: 500, ..patient() }).unwrap();
    let modest = node.service_client("source", patient()).unwrap();
    serving(&node, &mut server, Dispatch::Queue, || {
        let (greedy, modest) =
            (operation::<u32, Samples<u8>>(&greedy, "give"), operation::<u32, Samples<u8>>(&modest, "give"));
        let pending: Vec<_> = (0..500).map(|_| greedy.start(&10_000).unwrap()).collect();
        for _ in 0..100 {
            assert_eq!(modest.call(&10).unwrap().len(), 10);
        }
        // The client gets the replies when it takes them.
        for reply in pending {
            assert_eq!(reply.wait().unwrap().len(), 10_000);
        }
    });
    assert_eq!(server.counts().replies_dropped, 0);
}

pub fn stop_ends_every_wait(transport: &str) {
    let gate = Gate::default();
    let service = Service::new("slow")
        .unwrap()
        .operation("wait", |()| {
            gate.pass();
            Ok::<_, String>(())
        })
        .unwrap();
    let (here, there) = crate::support::two_nodes();
    let mut server = there.service_server(service, over(transport)).unwrap();
    let client = here.service_client("slow", patient()).unwrap();
    assert!(client.wait_for_servers(1, LONG).unwrap());
    serving(&there, &mut server, Dispatch::Queue, || {
        let wait = operation::<(), ()>(&client, "wait");
        std::thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| wait.call(&())));
            await_that("all wait", || client.servers()[0].outstanding == 3);
            here.stop();
            for thread in waiting {
                let error = thread.join().unwrap().unwrap_err();
                assert!(matches!(error, CallError::Link(stripline::Error::Stopped)), "{error}");
            }
        });
        gate.open();
    });
}

pub fn a_call_that_has_begun_is_answered_after_its_server_was_stopped(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(3).unwrap()] {
        let (gate, begun) = (Gate::default(), AtomicU32::new(0));
        let service = Service::new("slow")
            .unwrap()
            .operation("wait", |number: u32| {
                begun.fetch_add(1, Ordering::Relaxed);
                gate.pass();
                Ok::<_, String>(number)
            })
            .unwrap();
        let (here, there) = crate::support::two_nodes();
        let mut server = there.service_server(service, over(transport)).unwrap();
        let client = here.service_client("slow", patient()).unwrap();
        assert!(client.wait_for_servers(1, LONG).unwrap());
        let wait = operation::<u32, u32>(&client, "wait");
        let reply = wait.start(&7).unwrap();
        serving(&there, &mut server, dispatch, || {
            await_that("the call is begun", || begun.load(Ordering::Relaxed) == 1);
            there.stop();
            gate.open();
        });
        assert_eq!(server.counts().replies_dropped, 0);
        drop(server);
        assert_eq!(reply.wait().unwrap(), 7);
    }
}
