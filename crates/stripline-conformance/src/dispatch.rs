//! Section 3: the threads that run the component's code. Gates bring the threads into the order
//! that a rule needs. No rule depends on elapsed time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

use stripline::node::{Dispatch, PacketView, SingleThread, Subscriber};
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Result};

use crate::support::{DEADLINE, await_asleep, await_that, expect_end, fill, node, pair};

/// A set of numbers that have been reached. Threads wait for some numbers.
#[derive(Default)]
pub struct Gate {
    reached: Mutex<BTreeSet<u64>>,
    changed: Condvar,
}

impl Gate {
    pub fn reach(&self, number: u64) {
        self.reached.lock().unwrap().insert(number);
        self.changed.notify_all();
    }

    pub fn wait_for(&self, number: u64) {
        let reached = self.reached.lock().unwrap();
        let outcome = self.changed.wait_timeout_while(reached, DEADLINE, |all| !all.contains(&number));
        assert!(!outcome.unwrap().1.timed_out(), "{number} not reached within {DEADLINE:?}");
    }

    pub fn wait_for_all_below(&self, number: u64) {
        let reached = self.reached.lock().unwrap();
        let are_missing = |all: &mut BTreeSet<u64>| all.range(..number).count() as u64 != number;
        let outcome = self.changed.wait_timeout_while(reached, DEADLINE, are_missing);
        assert!(!outcome.unwrap().1.timed_out(), "not all below {number} within {DEADLINE:?}");
    }

    pub fn count(&self) -> usize {
        self.reached.lock().unwrap().len()
    }
}

/// Sends `count` packets that contain their number, and then ends the stream.
pub fn send_numbers(mut publisher: stripline::node::Publisher<u64>, count: u64) {
    (0..count).for_each(|number| publisher.send(&[number; 10]).unwrap());
    publisher.finish().unwrap();
}

fn nothing(_: PacketView<'_, u64>) -> Result<()> {
    Ok(())
}

pub fn queue_and_direct_run_on_the_receiving_thread_in_order(transport: &'static str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct] {
        let node = node(transport, "depth = 4");
        let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let sender = std::thread::spawn(move || send_numbers(publisher, 100));
        let (this, mut seen) = (std::thread::current().id(), Vec::new());
        let work = |packet: PacketView<'_, u64>| Ok((std::thread::current().id(), packet[9]));
        let is_called_back = ["callback", "corba"].contains(&transport) && dispatch == Dispatch::Direct;
        subscriber
            .serve_then(dispatch, work, |packet, (thread, number)| {
                let hand_on = std::thread::current().id();
                assert_eq!((thread, packet.sequence()), (hand_on, number));
                assert!(hand_on == this || is_called_back);
                seen.push(number);
                Ok(())
            })
            .unwrap();
        assert!(seen.into_iter().eq(0..100));
        sender.join().unwrap();
    }
}

pub fn a_pool_hands_on_as_it_finishes_and_loses_nothing(transport: &'static str) {
    let node = node(transport, "depth = 4");
    let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || send_numbers(publisher, 100));
    let (gate, mut seen) = (Gate::default(), Vec::new());
    let work = |packet: PacketView<'_, u64>| {
        // Of four handlers at once, the first is the last to finish.
        if packet[0].is_multiple_of(4) {
            gate.wait_for(packet[0] + 3);
        }
        Ok(packet[9])
    };
    subscriber
        .serve_then(Dispatch::pool(4).unwrap(), work, |packet, number| {
            assert_eq!((packet.sequence(), packet.sample_index()), (number, 10 * number));
            seen.push(number);
            gate.reach(number);
            Ok(())
        })
        .unwrap();
    let place = |number: u64| seen.iter().position(|seen| *seen == number).unwrap();
    assert!((0..100).step_by(4).all(|number| place(number) > place(number + 3)), "{seen:?}");
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
    sender.join().unwrap();
}

pub fn a_pool_in_order_hands_on_in_order(transport: &'static str) {
    let node = node(transport, "");
    let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || send_numbers(publisher, 100));
    let (gate, mut seen) = (Gate::default(), Vec::new());
    let work = |packet: PacketView<'_, u64>| {
        if packet[0].is_multiple_of(4) {
            (1..4).for_each(|behind| gate.wait_for(packet[0] + behind));
        }
        gate.reach(packet[0]);
        Ok(packet[9])
    };
    let pool = Dispatch::pool(4).unwrap().in_order();
    subscriber
        .serve_then(pool, work, |_, number| {
            seen.push(number);
            Ok(())
        })
        .unwrap();
    assert!(seen.iter().copied().eq(0..100), "{seen:?}");
    sender.join().unwrap();
}

pub fn a_busy_pool_leaves_the_rest_in_the_queue(transport: &'static str) {
    let node = node(transport, "depth = 4\nbuffer = 65536");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let (started, gate, done) = (Gate::default(), Gate::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let outcome = subscriber.serve(Dispatch::pool(2).unwrap(), |packet| {
                started.reach(packet.sequence());
                gate.wait_for(0);
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            outcome.unwrap();
        });
        publisher.send(&[0; 1000]).unwrap();
        publisher.send(&[1; 1000]).unwrap();
        started.wait_for(0);
        started.wait_for(1);
        // Both threads are busy, so further packets stay in the queue until it is full.
        let (more, _) = fill(&mut publisher, &[2; 1000]);
        assert!(more > 0);
        assert_eq!(started.count(), 2);
        gate.reach(0);
        publisher.send(&[3; 1000]).unwrap();
        let sent = publisher.sequence() as usize;
        publisher.finish().unwrap();
        await_that("all are handled", || done.load(Ordering::Relaxed) == sent);
    });
    expect_end(&mut subscriber);
}

pub fn packets_of_a_pool_stay_valid_when_the_sender_goes_on(transport: &'static str) {
    let node = node(transport, "depth = 2\nbuffer = 16384");
    let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || send_numbers(publisher, 1000));
    let gate = Gate::default();
    let work = |packet: PacketView<'_, u64>| {
        // The ring has been overwritten many times before the first handler reads again.
        if packet[0] == 0 {
            gate.wait_for(900);
        }
        gate.reach(packet.sequence());
        assert!(packet.iter().all(|number| *number == packet.sequence()));
        assert_eq!(packet.len(), 10);
        Ok(())
    };
    subscriber.serve(Dispatch::pool(2).unwrap(), work).unwrap();
    assert_eq!(gate.count(), 1000);
    sender.join().unwrap();
}

pub fn the_end_comes_after_the_last_handler(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let (started, gate, done) = (Gate::default(), Gate::default(), Gate::default());
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let outcome = subscriber.serve(Dispatch::pool(4).unwrap(), |packet| {
                started.reach(packet[0]);
                gate.wait_for(packet[0]);
                done.reach(packet[0]);
                Ok(())
            });
            outcome.unwrap();
            done.count()
        });
        (0..3).for_each(|number| publisher.send(&[number]).unwrap());
        (0..3).for_each(|number| started.wait_for(number));
        // The fourth thread finds the end while the other three are running handlers.
        publisher.finish().unwrap();
        for number in 0..3 {
            assert!(!server.is_finished());
            gate.reach(number);
        }
        assert_eq!(server.join().unwrap(), 3);
    });
    // The end of stream persists.
    for dispatch in [Dispatch::pool(4).unwrap(), Dispatch::Queue] {
        subscriber.serve(dispatch, |_| panic!("nothing is to come")).unwrap();
    }
}

pub fn a_panicking_handler_is_named_and_the_others_finish(transport: &'static str) {
    let node = node(transport, "");
    let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let sender = std::thread::spawn(move || send_numbers(publisher, 100));
    let (started, done) = (Gate::default(), Gate::default());
    let work = |packet: PacketView<'_, u64>| {
        let number = packet[0];
        started.reach(number);
        match number {
            10 => {
                started.wait_for(11);
                started.wait_for(12);
                panic!("a resonance at {number}");
            }
            // These handlers are running when the other handler panics.
            11 | 12 => started.wait_for(10),
            _ => {}
        }
        Ok(())
    };
    let outcome = subscriber.serve_then(Dispatch::pool(3).unwrap(), work, |packet, ()| {
        done.reach(packet[0]);
        Ok(())
    });
    let error = outcome.unwrap_err();
    let text = error.to_string();
    let Error::Handler { port, connection, packet, .. } = error else { panic!("{text}") };
    assert_eq!((&*port, packet), ("numbers", 10));
    assert!(connection.ends_with("-> numbers") && text.contains("panicked: a resonance at 10"), "{text}");
    (11..13).for_each(|number| done.wait_for(number));
    // Only the packet of the panicked handler is lost. The other packets still arrive.
    subscriber
        .serve(Dispatch::Queue, |packet| {
            done.reach(packet[0]);
            Ok(())
        })
        .unwrap();
    assert_eq!(done.count(), 99);
    sender.join().unwrap();
}

pub fn a_failing_handler_is_named_and_the_rest_stays(transport: &'static str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(1).unwrap().in_order()] {
        let node = node(transport, "");
        let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let sender = std::thread::spawn(move || send_numbers(publisher, 10));
        let mut seen = Vec::new();
        for failing in [3, 7] {
            let outcome = subscriber.serve_then(dispatch, nothing, |packet, ()| {
                seen.push(packet[0]);
                if packet[0] == failing { Err(Error::failed("out of tune")) } else { Ok(()) }
            });
            let error = outcome.unwrap_err();
            assert!(matches!(&error, Error::Handler { packet, .. } if *packet == failing), "{error}");
            assert!(error.to_string().contains("port `numbers`: the handler of packet"), "{error}");
            assert!(error.to_string().contains("out of tune"), "{error}");
        }
        subscriber
            .serve_then(dispatch, nothing, |packet, ()| {
                seen.push(packet[0]);
                Ok(())
            })
            .unwrap();
        assert!(seen.into_iter().eq(0..10));
        sender.join().unwrap();
    }
}

pub fn a_failure_wakes_a_pool_that_waits_for_packets(transport: &'static str) {
    let node = node(transport, "");
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
    let (gate, started) = (Gate::default(), Gate::default());
    let server = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            subscriber.serve(Dispatch::pool(2).unwrap(), |_| {
                started.reach(0);
                gate.wait_for(0);
                Err(Error::failed("detuned"))
            })
        });
        publisher.send(&[0]).unwrap();
        started.wait_for(0);
        // No packet follows, so the other thread would wait for ever if it were not woken.
        gate.reach(0);
        server.join().unwrap()
    });
    assert!(matches!(server, Err(Error::Handler { packet: 0, .. })), "{server:?}");
    drop(publisher);
}

pub fn stop_ends_every_dispatch(transport: &'static str) {
    let node = node(transport, "");
    type Serve = fn(Subscriber<u64>) -> Result<()>;
    let idle: [Serve; 6] = [
        |mut port| port.serve(Dispatch::Queue, nothing),
        |mut port| port.serve(Dispatch::Direct, nothing),
        |mut port| port.serve(Dispatch::pool(3)?, nothing),
        |mut port| port.serve(Dispatch::pool(3)?.in_order(), nothing),
        |mut port| SingleThread::new().packets(&mut port, nothing).run(),
        |port| port.resequenced(8, Duration::from_secs(3600))?.serve(Dispatch::pool(2)?, nothing),
    ];
    let (tell, threads) = mpsc::channel();
    let waiting = idle.map(|serve| {
        let (tell, port) = (tell.clone(), node.subscriber::<u64>("silent").unwrap());
        std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            serve(port)
        })
    });
    threads.iter().take(waiting.len()).for_each(|thread| await_asleep(std::process::id(), thread));
    // A port has a running handler, which finishes, and queued packets, which are no longer taken.
    let (mut publisher, mut busy) = pair::<u64>(&node, "busy");
    let (started, gate, done) = (Gate::default(), Gate::default(), AtomicUsize::new(0));
    let outcome = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            busy.serve(Dispatch::pool(1).unwrap(), |_| {
                started.reach(0);
                gate.wait_for(0);
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        });
        (0..3).for_each(|number| publisher.send(&[number]).unwrap());
        started.wait_for(0);
        node.stop();
        gate.reach(0);
        server.join().unwrap()
    });
    assert!(matches!(outcome, Err(Error::Stopped)), "{outcome:?}");
    assert_eq!(done.into_inner(), 1);
    for thread in waiting {
        let outcome = thread.join().unwrap();
        assert!(matches!(outcome, Err(Error::Stopped)), "{outcome:?}");
    }
}

pub fn single_thread_serves_every_port(transport: &'static str) {
    let node = node(transport, "depth = 4");
    let (mut flood, mut flooded) = pair::<u64>(&node, "flood");
    let (mut calm, mut calmed) = pair::<i16>(&node, "calm");
    let mut words = node.publisher::<Cbor<String, NoSchema>>("words").unwrap();
    let mut spoken = node.subscriber::<Cbor<String, NoSchema>>("words").unwrap();
    assert!(words.wait_for_receivers(1, DEADLINE).unwrap());
    let is_enough = AtomicBool::new(false);
    // No lock is needed, because the handlers never run concurrently.
    let (log, this) = (std::cell::RefCell::new(Vec::new()), std::thread::current().id());
    let note = |port: &'static str| {
        assert_eq!(std::thread::current().id(), this);
        log.borrow_mut().push(port);
        Ok(())
    };
    std::thread::scope(|scope| {
        // The flood continues until the other ports have had their turn. Without turns, it would
        // never end.
        scope.spawn(|| {
            while !is_enough.load(Ordering::Relaxed) {
                flood.send(&[0; 100]).unwrap();
            }
            flood.finish().unwrap();
        });
        calm.send(&[1, 2, 3]).unwrap();
        calm.finish().unwrap();
        words.send(&"well".into()).unwrap();
        words.send(&"done".into()).unwrap();
        words.finish().unwrap();
        let served = SingleThread::new()
            .packets(&mut flooded, |_| note("flood"))
            .packets(&mut calmed, |packet| {
                assert_eq!(packet[..], [1, 2, 3]);
                note("calm")
            })
            .packets(&mut spoken, |packet| {
                is_enough.store(packet.decode()? == "done", Ordering::Relaxed);
                note("word")
            });
        served.run().unwrap();
    });
    let count = |port| log.borrow().iter().filter(|name| **name == port).count();
    assert_eq!((count("calm"), count("word")), (1, 2));
    expect_end(&mut flooded);
}

pub fn single_thread_ends_with_the_last_port_or_the_first_failure(transport: &'static str) {
    let node = node(transport, "");
    let (mut first, mut left) = pair::<u64>(&node, "left");
    let (mut second, mut right) = pair::<u64>(&node, "right");
    first.send(&[1]).unwrap();
    first.finish().unwrap();
    second.send(&[2]).unwrap();
    let failing = |packet: PacketView<'_, u64>| -> Result<()> { panic!("no {}", packet[0]) };
    let outcome = SingleThread::new().packets(&mut left, nothing).packets(&mut right, failing).run();
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Handler { port, packet: 0, .. } if port == "right"), "{error}");
    assert!(error.to_string().contains("panicked: no 2"), "{error}");
    second.send(&[3]).unwrap();
    second.finish().unwrap();
    let mut seen = Vec::new();
    let notes = |packet: PacketView<'_, u64>| {
        seen.push(packet[0]);
        Ok(())
    };
    SingleThread::new().packets(&mut left, |_| Ok(())).packets(&mut right, notes).run().unwrap();
    assert_eq!(seen, [3]);
}

pub fn messages_are_served(transport: &'static str) {
    let node = node(transport, "");
    let mut numbers = node.publisher::<Cbor<u64, NoSchema>>("messages").unwrap();
    let mut texts = node.publisher::<Cbor<String, NoSchema>>("messages").unwrap();
    let mut served = node.subscriber::<Cbor<u64, NoSchema>>("messages").unwrap();
    assert!(numbers.wait_for_receivers(1, DEADLINE).unwrap());
    assert!(texts.wait_for_receivers(1, DEADLINE).unwrap());
    texts.send(&"no number".into()).unwrap();
    let error = served.serve(Dispatch::pool(2).unwrap(), |packet| packet.decode().map(drop)).unwrap_err();
    let Error::Handler { source, .. } = &error else { panic!("{error}") };
    assert!(matches!(**source, Error::Decode { .. }), "{error}");
    texts.finish().unwrap();
    (0..50).for_each(|number| numbers.send(&number).unwrap());
    numbers.finish().unwrap();
    let seen = Gate::default();
    served
        .serve(Dispatch::pool(2).unwrap(), |packet| {
            let number = packet.decode()?;
            assert_eq!((number, packet.gap()), (packet.sequence(), None));
            seen.reach(number);
            Ok(())
        })
        .unwrap();
    assert_eq!(seen.count(), 50);
}
