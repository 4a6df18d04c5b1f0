//! Section 5: peers that die or stop, as real processes.

use stripline::node::{Publisher, Subscriber, wait_any};
use stripline::{Error, Received};

use crate::puppet::{Puppet, SAMPLES, beside_another, refuses_other_processes};
use crate::support::{
    DEADLINE, abstract_names, await_asleep, await_receivers, await_senders, await_that, bind, domain,
    endpoint_of, expect_end, expect_nothing, fill, join, meeting_point, refuses_repair, take, take_number,
};

pub fn a_killed_sender_loses_nothing_that_was_sent(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    sender.order("receivers 1");
    // Ten packets fit on every transport, even if the receiver reads none.
    assert_eq!(sender.order("send 10"), "10");
    sender.kill();
    for sequence in 0..10 {
        assert_eq!(take_number(&mut subscriber, sequence).samples, [sequence; SAMPLES]);
    }
    await_that("the death is noticed", || {
        expect_nothing(&mut subscriber);
        subscriber.senders() == 0
    });
    assert_eq!(node.connections()[0].peer_deaths, 1);
    assert_eq!(node.connections()[0].packets, 10);
}

pub fn a_killed_sender_is_detected_by_a_waiting_receiver(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut victim = Puppet::start(&domain, transport, "");
    victim.order("publish numbers");
    victim.order("receivers 1");
    let mut survivor = node.publisher::<u64>("numbers").unwrap();
    await_receivers(&mut survivor, 1);
    await_senders(&mut subscriber, 2);
    let (tell, thread) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        // A death is neither a packet nor the end: only the survivor's packet ends the wait.
        assert_eq!(wait_any(&mut [&mut subscriber], Some(DEADLINE)).unwrap(), [0]);
        assert_eq!(take(&mut subscriber).samples, [7]);
        subscriber
    });
    let thread = thread.recv().unwrap();
    await_asleep(std::process::id(), thread);
    victim.kill();
    // The death is detected during the wait, without another packet and without a timer.
    await_that("the death is counted", || node.connections().iter().any(|report| report.peer_deaths == 1));
    await_asleep(std::process::id(), thread);
    survivor.send(&[7]).unwrap();
    let mut subscriber = waiter.join().unwrap();
    assert_eq!(subscriber.senders(), 1);
}

pub fn a_killed_receiver_frees_a_blocked_sender(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "a receiver in another process", "depth = 8") else {
        return;
    };
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut receiver = Puppet::start(&domain, transport, "depth = 8");
    receiver.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    fill(&mut publisher, &[0; SAMPLES]);
    let (tell, thread) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        for _ in 0..100 {
            publisher.send(&[0; SAMPLES]).unwrap();
        }
        assert_eq!(publisher.receivers(), 0);
        publisher.finish_within(DEADLINE).unwrap();
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    receiver.kill();
    sender.join().unwrap();
}

pub fn a_stopped_receiver_is_late_not_dead(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "a receiver in another process", "depth = 8") else {
        return;
    };
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut receiver = Puppet::start(&domain, transport, "depth = 8");
    receiver.order("subscribe numbers");
    await_receivers(&mut publisher, 1);
    receiver.freeze();
    let mut sent = 0;
    loop {
        match publisher.try_send(&[sent; SAMPLES]) {
            Ok(()) => sent += 1,
            Err(Error::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let (tell, thread) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        for i in sent..sent + 50 {
            publisher.send(&[i; SAMPLES]).unwrap();
        }
        publisher.finish_within(DEADLINE).unwrap();
    });
    await_asleep(std::process::id(), thread.recv().unwrap());
    receiver.thaw();
    assert_eq!(receiver.take(sent as usize + 50), (0, None));
    receiver.order("end");
    sender.join().unwrap();
}

pub fn a_stopped_sender_is_late_not_dead(transport: &'static str) {
    if refuses_repair(transport) {
        return;
    }
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    sender.order("receivers 1");
    sender.order("send 2");
    sender.freeze();
    (0..2).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
    expect_nothing(&mut subscriber);
    assert_eq!((subscriber.senders(), node.connections()[0].peer_deaths), (1, 0));
    sender.thaw();
    sender.order("send 2");
    (2..4).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
}

pub fn a_stopped_lossy_receiver_does_not_slow_its_sibling(transport: &'static str) {
    if refuses_other_processes(transport, "a receiver in another process") {
        return;
    }
    const PACKETS: u64 = 2000;
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut sibling = node.subscriber::<u64>("numbers").unwrap();
    let mut lossy = Puppet::start(&domain, transport, "overflow = \"drop-oldest\"\ndepth = 4");
    lossy.order("subscribe numbers");
    await_receivers(&mut publisher, 2);
    lossy.freeze();
    // The packets are more than the buffers between the two ends hold.
    for sequence in 0..PACKETS {
        if sequence % 500 == 0 {
            publisher.set_stream(stripline::StreamInfo::new(&format!("part-{sequence}")));
        }
        publisher.send(&[sequence; SAMPLES]).unwrap();
        take_number(&mut sibling, sequence);
    }
    lossy.thaw();
    // The receiver resumes with the packets that the policy left. Then comes the end of the stream.
    let finish = std::thread::spawn(move || publisher.finish_within(DEADLINE).unwrap());
    expect_end(&mut sibling);
    finish.join().unwrap();
    assert_eq!(lossy.order("drain"), PACKETS.to_string());
}

pub fn a_stopped_receiver_of_three_is_waited_for_until_its_death(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "receivers in other processes", "depth = 8") else {
        return;
    };
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut sibling = node.subscriber::<u64>("numbers").unwrap();
    let mut stopped = Puppet::start(&domain, transport, "depth = 8");
    stopped.order("subscribe numbers");
    let mut lossy = Puppet::start(&domain, transport, "overflow = \"drop-oldest\"\ndepth = 4");
    lossy.order("subscribe numbers");
    await_receivers(&mut publisher, 3);
    let mut sent = 0;
    // Sends until the stopped receiver blocks the sender. Returns a thread that sends 50 more
    // packets.
    let mut hold = |mut publisher: Publisher<u64>, sibling: &mut Subscriber<u64>| {
        loop {
            if sent % 500 == 0 {
                publisher.set_stream(stripline::StreamInfo::new(&format!("part-{sent}")));
            }
            match publisher.try_send(&[sent; SAMPLES]) {
                Ok(()) => drop(take_number(sibling, sent)),
                Err(Error::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            sent += 1;
        }
        expect_nothing(sibling);
        let (tell, thread) = std::sync::mpsc::channel();
        let first = sent;
        sent += 50;
        let sender = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            for number in first..first + 50 {
                if number % 500 == 0 {
                    publisher.set_stream(stripline::StreamInfo::new(&format!("part-{number}")));
                }
                publisher.send(&[number; SAMPLES]).unwrap();
            }
            publisher
        });
        await_asleep(std::process::id(), thread.recv().unwrap());
        (first, sender)
    };
    stopped.freeze();
    let (first, sender) = hold(publisher, &mut sibling);
    stopped.thaw();
    stopped.begin(&format!("take {}", first + 50));
    (first..first + 50).for_each(|number| drop(take_number(&mut sibling, number)));
    assert_eq!(stopped.answer(), "0 -");
    let publisher = sender.join().unwrap();
    stopped.freeze();
    let (first, sender) = hold(publisher, &mut sibling);
    stopped.kill();
    (first..first + 50).for_each(|number| drop(take_number(&mut sibling, number)));
    let publisher = sender.join().unwrap();
    let finish = std::thread::spawn(move || publisher.finish_within(DEADLINE).unwrap());
    expect_end(&mut sibling);
    // The third receiver has received or reported every packet.
    assert_eq!(lossy.order("drain"), (first + 50).to_string());
    finish.join().unwrap();
}

pub fn links_outlive_the_host_of_the_rendezvous(transport: &'static str) {
    if refuses_other_processes(transport, "nodes in other processes") {
        return;
    }
    let domain = domain();
    let mut host = Puppet::start(&domain, transport, "");
    await_that("the first node is the host", || abstract_names().contains(&meeting_point(&domain)));
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    let node = join(&domain, transport, "");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    sender.order("receivers 1");
    host.order("publish numbers");
    host.order("receivers 1");
    sender.order("send 3");
    (0..3).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
    host.kill();
    // Existing connections are not affected.
    sender.order("send 3");
    (3..6).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
    // New nodes and existing nodes discover each other.
    let mut newcomer = Puppet::start(&domain, transport, "");
    newcomer.order("subscribe numbers");
    sender.order("receivers 2");
    newcomer.order("publish numbers");
    newcomer.order("receivers 2");
    newcomer.order("senders 2");
    sender.order("send 1");
    take_number(&mut subscriber, 6);
    assert_eq!(newcomer.take(1), (6, None));
}

pub fn nothing_is_left_behind(transport: &'static str) {
    if refuses_other_processes(transport, "nodes in other processes") {
        return;
    }
    let domain = domain();
    let mut sender = Puppet::start(&domain, transport, "");
    let mut receiver = Puppet::start(&domain, transport, "depth = 8");
    sender.order("publish numbers");
    receiver.order("subscribe numbers");
    sender.order("receivers 1");
    sender.order("send 2");
    receiver.take(2);
    let endpoint = endpoint_of(&receiver.order("connection"));
    let names = [endpoint.clone(), meeting_point(&domain)];
    let known = abstract_names();
    assert!(known.contains(&names[1]), "the nodes meet at @{}", names[1]);
    let has_name = transport != "tcp" && bind().is_none();
    assert!(!has_name || known.contains(&endpoint), "the publisher listens at @{endpoint}");
    let owners = [&sender, &receiver].map(|puppet| format!("-{}-", puppet.id()));
    sender.begin("send 1000");
    sender.kill();
    receiver.kill();
    await_that("the names are gone", || !abstract_names().iter().any(|name| names.contains(name)));
    if let Ok(address) = endpoint.parse::<std::net::SocketAddr>() {
        let gone = std::net::TcpStream::connect(address).is_err();
        assert!(gone, "an endpoint is open at {address}");
    }
    for folder in ["/dev/shm", "/dev/mqueue"] {
        // Some hosts have no message queues. Names of other processes may be there: the names of a
        // connection over iceoryx2 for some milliseconds, and the name of a queue for a moment. All
        // queues of a user have the same name.
        let is_of_these = |name: &str| owners.iter().any(|owner| name.contains(owner));
        let ours =
            |name: &str| name.contains("stripline") && (!name.contains("iceoryx2") || is_of_these(name));
        await_that(&format!("no name is left in {folder}"), || {
            let files = std::fs::read_dir(folder).into_iter().flatten();
            files.flatten().all(|file| !ours(&file.file_name().to_string_lossy()))
        });
    }
    // A domain can be joined normally after all nodes have died.
    let node = join(&domain, transport, "");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 1);
    publisher.send(&[1]).unwrap();
    assert!(matches!(subscriber.receive_timeout(DEADLINE).unwrap(), Received::Packet(_)));
}
