//! Section 2: the end of a scope's wait when a receiver does not acknowledge, because it leaves,
//! dies or is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use stripline::Error;
use stripline::node::wait_any;
use stripline::terms::Scope;

use crate::puppet::{Puppet, SAMPLES, beside_another};
use crate::scope_answered::{TARGET, send_as};
use crate::support::{DEADLINE, await_asleep, await_receivers, node, pair, take_number};

pub fn a_receiver_that_leaves_ends_the_wait(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, mut subscriber) = pair::<u64>(&node, "deserted");
    let (tell, sender) = channel();
    let waiting = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let outcome = publisher.send(&[0]);
        // No receiver is left, so the send does not wait.
        publisher.send(&[1]).unwrap();
        outcome.unwrap_err()
    });
    // A sender may also sleep before the packet has left, in a lock of the transport's library.
    assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
    await_asleep(std::process::id(), sender.recv().unwrap());
    drop(subscriber);
    match waiting.join().unwrap() {
        Error::ReceiverGone { connection, scope: Scope::Target } => {
            assert!(connection.ends_with("-> deserted"))
        }
        error => panic!("{error}"),
    }
}

pub fn a_killed_receiver_ends_the_wait_and_the_others_count(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "scope target across processes", TARGET) else {
        return;
    };
    let (mut publisher, mut survivor) = pair::<u64>(&node, "deserted");
    let mut victim = Puppet::start(&domain, transport, TARGET);
    victim.order("subscribe deserted");
    await_receivers(&mut publisher, 2);
    let finished = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (tell, sender) = channel();
        let finished = &finished;
        let waiting = scope.spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let outcome = publisher.send(&[0; SAMPLES]).unwrap_err();
            assert_eq!(finished.load(Ordering::SeqCst), 1);
            (publisher, outcome)
        });
        let sender = sender.recv().unwrap();
        victim.order("await-packet");
        await_asleep(std::process::id(), sender);
        victim.kill();
        // The sender still waits for the survivor.
        await_asleep(std::process::id(), sender);
        let packet = survivor.receive().unwrap().unwrap();
        finished.store(1, Ordering::SeqCst);
        drop(packet);
        let (mut publisher, error) = waiting.join().unwrap();
        match error {
            Error::ReceiverGone { connection, scope: Scope::Target } => {
                assert!(connection.ends_with("-> deserted"))
            }
            error => panic!("{error}"),
        }
        let component = scope.spawn(move || take_number(&mut survivor, 1).samples[0]);
        publisher.send(&[1; SAMPLES]).unwrap();
        assert_eq!(component.join().unwrap(), 1);
    });
}

pub fn a_stopped_receiver_is_past_its_deadline_not_dead(transport: &'static str) {
    let rules = "scope = \"target\"\ndeadline-ms = 20";
    let Some((domain, node)) = beside_another(transport, "scope target across processes", rules) else {
        return;
    };
    let mut publisher = node.publisher::<u64>("stopped").unwrap();
    let mut puppet = Puppet::start(&domain, transport, rules);
    puppet.order("subscribe stopped");
    await_receivers(&mut publisher, 1);
    puppet.freeze();
    let error = publisher.send(&[0; SAMPLES]).unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    assert_eq!(publisher.receivers(), 1);
    puppet.thaw();
    assert_eq!(puppet.take(1), (0, None));
    puppet.begin("take 1");
    send_as(&mut publisher, &[1; SAMPLES], Scope::Target, DEADLINE.as_millis() as u64).unwrap();
    assert_eq!(puppet.answer(), "1 -");
}

pub fn stop_ends_the_wait(transport: &'static str) {
    let node = node(transport, TARGET);
    let (mut publisher, subscriber) = pair::<u64>(&node, "stopped");
    let (tell, sender) = channel();
    let waiting = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let error = publisher.send(&[0]).unwrap_err();
        (publisher, error)
    });
    await_asleep(std::process::id(), sender.recv().unwrap());
    node.stop();
    let (publisher, error) = waiting.join().unwrap();
    assert!(matches!(error, Error::Stopped), "{error}");
    // The receiver is dropped first: over `tcp` the end of the stream waits for its final
    // acknowledgement.
    drop(subscriber);
    drop(publisher);
}
