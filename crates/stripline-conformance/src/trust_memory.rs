//! Section 6, for shared memory: forged descriptors, receivers that write invalid values, and
//! thousands of silent peers.

use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde_json::json;
use stripline::node::{Node, Subscriber};

use crate::puppet::{Puppet, SAMPLES};
use crate::refusals::Refusal;
use crate::support::{
    Dice, abstract_names, await_receivers, await_senders, await_that, domain, endpoint_of, join,
    meeting_point, take, take_number,
};
use crate::trust::{connect, offered_endpoint};
use crate::trust_network::{Fake, Scene, last_words, message, welcome};

const PAGE: usize = 4096;
const RING: usize = 1 << 21;

/// Reports, for a transport without memory shared between processes, that the rule does not apply.
fn shares_no_memory(transport: &str, rule: &str) -> bool {
    Refusal::SharedMemory.excludes(transport, rule, "no other process shares memory with it")
}

/// Sends a message with descriptors.
pub fn send_with(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    // A peer that has closed the connection needs nothing more.
    let _ = rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

fn memory(bytes: usize, sealed: bool) -> OwnedFd {
    let fd = rustix::fs::memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, bytes as u64).unwrap();
    if sealed {
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    }
    fd
}

/// Seals the memory as a ring's memory must be: no process can map it for writing any more.
fn seal_for_good(fd: &OwnedFd) {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(fd, seals).unwrap();
}

/// Creates the notify end and the wait end of a doorbell.
fn bells() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

fn bell() -> OwnedFd {
    bells().1
}

pub fn forged_descriptors_from_a_sender_are_named(transport: &'static str) {
    if shares_no_memory(transport, "forged descriptors") {
        return;
    }
    let mut scene = Scene::set(transport).unwrap();
    let cursor = || memory(PAGE, true);
    let of_size = |bytes| {
        let fd = memory(bytes, false);
        seal_for_good(&fd);
        fd
    };
    let ring = || of_size(PAGE + RING);
    let path = || rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let lies = [
        (vec![ring()], "1 descriptors"),
        (vec![ring(), cursor(), cursor(), bell(), bell(), bell()], "6 descriptors"),
        ((0..12).map(|_| bell()).collect(), "more descriptors"),
        (vec![bell(), cursor(), cursor(), bell(), bell()], "not shared memory"),
        (vec![memory(PAGE + RING, false), cursor(), cursor(), bell(), bell()], "not sealed"),
        (vec![of_size(PAGE + RING / 2), cursor(), cursor(), bell(), bell()], "bytes of shared memory"),
        (vec![ring(), memory(PAGE, false), cursor(), bell(), bell()], "not sealed"),
        (vec![ring(), cursor(), memory(PAGE, false), bell(), bell()], "not sealed"),
        (vec![ring(), memory(2 * PAGE, true), cursor(), bell(), bell()], "8192 bytes of shared memory"),
        (vec![ring(), cursor(), memory(2 * PAGE, true), bell(), bell()], "8192 bytes of shared memory"),
        (vec![ring(), cursor(), cursor(), path(), bell()], "doorbell"),
        (vec![ring(), cursor(), cursor(), bell(), eventfd(0, EventfdFlags::CLOEXEC).unwrap()], "doorbell"),
        // All descriptors are valid, but the memory holds no ring.
        (vec![ring(), cursor(), cursor(), bell(), bell()], "holds no ring"),
    ];
    for (number, (fds, words)) in lies.into_iter().enumerate() {
        // Each case has a separate victim, so that every error has separate output.
        let mut victim = Puppet::start(&scene.domain, transport, "");
        victim.order("subscribe numbers");
        await_receivers(&mut scene.publisher, 2);
        let fake = Fake::open(transport);
        let _offer = fake.offer(&scene.domain, transport);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        // The test's own node is a receiver too: both connect, in any order.
        for _ in 0..2 {
            let Fake::Unix(listener, _) = &fake else { unreachable!() };
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 1024]).unwrap();
            send_with(&stream, &welcome(RING as u64, 22), &fds);
            // The victim closes that connection.
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        }
        victim.await_error(words);
        // The victim continues with the other connections.
        let sequence = number as u64 + 1;
        scene.publisher.send(&[sequence; SAMPLES]).unwrap();
        take_number(&mut scene.subscriber, sequence);
        assert_eq!(victim.take(1).0, sequence);
        victim.kill();
        await_that("the victim is gone", || scene.publisher.receivers() == 1);
    }
}

/// Returns the address and the key of a publishing puppet, as offered by the rendezvous of the
/// domain.
pub fn offered(domain: &str) -> (String, u64) {
    let endpoint = offered_endpoint(domain);
    (endpoint["address"].as_str().unwrap().into(), endpoint["keys"][0].as_u64().unwrap())
}

fn hello(key: u64, name: &str, overflow: &str) -> Vec<u8> {
    message(&json!({"key": key, "connection": name, "payload": "u64", "overflow": overflow, "depth": 4}))
}

pub fn descriptors_from_a_receiver_change_nothing(transport: &'static str) {
    if shares_no_memory(transport, "descriptors in a hello") {
        return;
    }
    let domain = domain();
    let node = join(&domain, transport, "");
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    sender.order("receivers 1");
    let open = || std::fs::read_dir(format!("/proc/{}/fd", sender.id())).unwrap().count();
    let (address, key) = offered(&domain);
    // The count may include a descriptor that is just being closed. Twenty rounds would leave many.
    let before = open();
    for round in 0..20 {
        let stranger = connect(&address);
        let bells: Vec<_> = (0..1 + round % 9).map(|_| bell()).collect();
        let fds: Vec<_> = bells.iter().map(AsFd::as_fd).collect();
        let words = hello(key ^ (round % 2) as u64, "liar -> numbers", "block");
        send_with(&stranger, &words[..words.len() - round % 3], &fds);
        send_with(&stranger, &words[words.len() - round % 3..], &fds);
    }
    await_that("the sender has no more than it had", || open() <= before);
    sender.order("send 3");
    (0..3).for_each(|sequence| drop(take_number(&mut subscriber, sequence)));
}

/// A hand-made receiver that has completed the handshake.
struct Liar {
    socket: UnixStream,
    fds: Vec<OwnedFd>,
}

impl Liar {
    fn enter(domain: &str, overflow: &str) -> Self {
        let (address, key) = offered(domain);
        let socket = connect(&address);
        std::io::Write::write_all(&mut &socket, &hello(key, "liar -> numbers", overflow)).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut answer = [0; 1024];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut answer)], &mut control, flags).unwrap();
        let fds = control.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let violator = Self { fds: fds.flatten().collect(), socket };
        assert_eq!(violator.fds.len(), 5);
        violator
    }
}

/// Maps shared memory as words.
fn map(fd: &OwnedFd, bytes: usize) -> &'static [AtomicU64] {
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice, never unmapped. The words are
    // atomics.
    unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let start = rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0);
        std::slice::from_raw_parts(start.unwrap().cast::<AtomicU64>(), bytes / 8)
    }
}

pub fn a_scribbling_receiver_is_cut_off_and_named(transport: &'static str) {
    if shares_no_memory(transport, "a receiver that writes over its page") {
        return;
    }
    const PACKETS: u64 = 3000;
    let domain = domain();
    let node = join(&domain, transport, "depth = 8");
    let mut sender = Puppet::start(&domain, transport, "");
    sender.order("publish numbers");
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    sender.order("receivers 1");
    let mut sent = 0;
    for (seed, overflow) in ["block", "drop-oldest", "block", "eject"].into_iter().enumerate() {
        let violator = Liar::enter(&domain, overflow);
        // The page of sleepers is left out: it is shared with the honest receiver, which is in the
        // same process here.
        let page = map(&violator.fds[1], PAGE);
        sender.order("receivers 2");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Dice::new(seed as u64 + 77);
                while !over.load(Ordering::Relaxed) {
                    let number = (rng.below(usize::MAX) as u64) >> rng.below(64);
                    let lie = [number, number & !63, u64::MAX, 0][rng.below(4)];
                    page[rng.below(page.len())].store(lie, Ordering::Relaxed);
                }
            });
            // The other receiver gets every packet, no matter which values are written.
            sender.begin(&format!("send {PACKETS}"));
            for sequence in sent..sent + PACKETS {
                assert_eq!(take_number(&mut subscriber, sequence).samples, [sequence; SAMPLES]);
            }
            sent += PACKETS;
            assert_eq!(sender.answer(), sent.to_string());
            if overflow == "block" {
                // The sender ignores the state of a receiver that chose to lose packets.
                let said = sender.await_error("its connection was closed");
                assert!(said.contains("liar -> numbers"), "{said}");
                assert_eq!(violator.socket.peer_addr().map(drop).map_err(drop), Ok(()));
                // The connection is closed: there is no end of stream and no message, only the end
                // of the socket.
                assert_eq!((&violator.socket).read(&mut [0]).unwrap_or(0), 0);
            }
            over.store(true, Ordering::Relaxed);
        });
        drop(violator);
        sender.order("send 1");
        take_number(&mut subscriber, sent);
        sent += 1;
    }
    // Later receivers are accepted normally.
    let mut late = node.subscriber::<u64>("numbers").unwrap();
    await_senders(&mut late, 1);
    sender.order("receivers 2");
    sender.order("send 1");
    take_number(&mut late, sent);
    assert_eq!(endpoint_of(&take(&mut subscriber).connection), offered(&domain).0);
}

pub fn forged_acks_in_the_page_are_named(transport: &'static str) {
    if shares_no_memory(transport, "forged answers in a page") {
        return;
    }
    // The words for accepted, finished and refused packets, behind the sender's words.
    const ANSWERS: usize = (PAGE / 2 + 64) / 8;
    for (word, lie) in [(1, u64::MAX), (2, 7), (1, 2)] {
        let domain = domain();
        let node = join(&domain, transport, "scope = \"target\"\ndeadline-ms = 3600000");
        await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
        await_receivers(&mut publisher, 1);
        let violator = Liar::enter(&domain, "block");
        await_receivers(&mut publisher, 2);
        map(&violator.fds[1], PAGE)[ANSWERS + word].store(lie, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let component =
                scope.spawn(|| [0, 1].map(|number| take_number(&mut subscriber, number).samples[0]));
            let error = publisher.send(&[0]).unwrap_err().to_string();
            assert!(error.contains("liar -> numbers: the other end acknowledged packet"), "{error}");
            // The violator is disconnected, and the other receiver continues.
            assert_eq!(publisher.receivers(), 1);
            publisher.send(&[1]).unwrap();
            assert_eq!(component.join().unwrap(), [0, 1]);
        });
        assert_eq!((&violator.socket).read(&mut [0]).unwrap_or(0), 0);
    }
}

pub fn silent_peers_by_the_thousand_disturb_no_connection(transport: &'static str) {
    let how = "the same threads accept them as on `uds`, or none can come";
    if Refusal::OwnListener.excludes(transport, "10,000 silent peers", how) {
        return;
    }
    const STRANGERS: u64 = 10_000;
    let mut scene = Scene::set(transport).unwrap();
    let patient = scene.stranger();
    let mut silent = std::collections::VecDeque::new();
    for number in 1..=STRANGERS {
        silent.push_back(scene.stranger());
        // The number is lower than the listener reads at once, because others would have to wait
        // otherwise.
        if silent.len() > 50 {
            silent.pop_front();
        }
        if number % 10 == 0 {
            scene.publisher.send(&[number]).unwrap();
            assert_eq!(take_number(&mut scene.subscriber, number / 10).samples, [number]);
        }
    }
    let words = last_words(patient);
    assert!(words.contains("sent no hello in time"), "{words}");
    let mut late = scene.node.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut scene.publisher, 2);
    scene.publisher.send(&[0]).unwrap();
    take_number(&mut scene.subscriber, STRANGERS / 10 + 1);
    take_number(&mut late, STRANGERS / 10 + 1);
}

pub fn a_receiver_that_drains_the_doorbell_blocks_no_other(transport: &'static str) {
    if shares_no_memory(transport, "a receiver that takes rings that are not for it") {
        return;
    }
    const PACKETS: u64 = 200;
    let mut company = Company::with_a_liar(transport, "");
    let doorbell = company.liar.fds[4].try_clone().unwrap();
    company.pass(0..PACKETS, || {
        let _ = rustix::io::read(&doorbell, &mut [0u8; 8]);
    });
    // A receiver that breaks the shared doorbell does not block the sender either.
    rustix::net::shutdown(&doorbell, rustix::net::Shutdown::Both).unwrap();
    company.pass(PACKETS..2 * PACKETS, std::thread::yield_now);
}

pub fn a_receiver_that_fills_the_doorbells_blocks_no_other(transport: &'static str) {
    if shares_no_memory(transport, "a receiver that fills the bells up and makes them wait for room") {
        return;
    }
    const PACKETS: u64 = 2000;
    let mut company = Company::with_a_liar(transport, "wait = \"block\"");
    let violator = &company.liar;
    for fd in &violator.fds[3..] {
        while rustix::io::write(fd, &[1; 8]).is_ok() {}
        // From now on, a writer to these descriptors blocks when they are full.
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        assert!(flags.contains(OFlags::NONBLOCK), "or there was nothing to take back");
        rustix::fs::fcntl_setfl(fd, flags - OFlags::NONBLOCK).unwrap();
    }
    let (cursor, sleepers) = (map(&violator.fds[1], PAGE), map(&violator.fds[2], PAGE));
    company.pass(0..PACKETS, || {
        // The receiver marks itself asleep at every packet, and never wakes. The receiver's own
        // doorbell fills up, too.
        cursor[128 / 8].store(1, Ordering::Relaxed);
        sleepers[0].store(1, Ordering::Relaxed);
    });
}

/// A sender in another process, a receiver that blocks, and a misbehaving receiver for which the
/// sender's policy does not wait.
struct Company {
    sender: Puppet,
    subscriber: Subscriber<u64>,
    liar: Liar,
    _node: Node,
}

impl Company {
    fn with_a_liar(transport: &'static str, options: &str) -> Self {
        let domain = domain();
        let node = join(&domain, transport, &format!("depth = 8\n{options}"));
        let mut sender = Puppet::start(&domain, transport, options);
        sender.order("publish numbers");
        let subscriber = node.subscriber::<u64>("numbers").unwrap();
        sender.order("receivers 1");
        let violator = Liar::enter(&domain, "drop-oldest");
        sender.order("receivers 2");
        Self { sender, subscriber, liar: violator, _node: node }
    }

    /// Sends and receives the packets with these numbers while another thread repeats an action.
    fn pass(&mut self, packets: Range<u64>, violation: impl Fn() + Sync) {
        let Self { sender, subscriber, .. } = self;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    violation();
                }
            });
            sender.begin(&format!("send {}", packets.end - packets.start));
            packets.clone().for_each(|sequence| drop(take_number(subscriber, sequence)));
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(sender.answer(), packets.end.to_string());
    }
}

/// Writes a ring into a sender's memory, in the state before the first frame, and attaches a
/// receiver.
fn forge_ring(ring: &[AtomicU64], cursor: &[AtomicU64]) {
    ring.iter().chain(cursor).for_each(|word| word.store(0, Ordering::Relaxed));
    for (index, word) in [u64::from_le_bytes(*b"STRPRING"), RING as u64, 5].into_iter().enumerate() {
        ring[index].store(word, Ordering::Relaxed);
    }
    // The receiver is attached with the policy `block`.
    cursor[256 / 8 + 2].store(1 << 32 | 1, Ordering::Release);
}

pub fn a_sender_that_scribbles_is_cut_off_and_named(transport: &'static str) {
    if shares_no_memory(transport, "a sender that writes over its ring") {
        return;
    }
    let mut scene = Scene::set(transport).unwrap();
    // Words of the first frame: commit word, length and count, and then the packet's header.
    let first = PAGE / 8;
    let short = 4 << 56;
    let lies: [(&[(usize, u64)], &str); 8] = [
        (&[(1, u64::from(u32::MAX)), (0, 1)], "claims 4294967295 bytes"),
        (&[(1, 7 << 32 | 48), (0, 1)], "is number 7, not 0"),
        (&[(1, 5), (0, 1)], "without a header"),
        (&[(1, 48), (3, 9 << 48), (0, 1)], "kind 9"),
        (&[(1, 48), (3, 1 << 48 | 8), (0, 1)], "announced 8 bytes and sent 0"),
        (&[(1, 16), (3, short | 1 << 48 | 8), (0, 1)], "announced 8 bytes and sent 0"),
        (&[(1, 16), (3, short | 3 << 48), (0, 1)], "kind 3 with a short header"),
        (&[(1, 16), (3, 1 << 48), (0, 1)], "without a header"),
    ];
    let noise = (0..20).map(|_| (&[][..], ""));
    for (number, (words, violation)) in lies.into_iter().chain(noise).enumerate() {
        let (ring, cursor, sleepers) = (memory(PAGE + RING, false), memory(PAGE, true), memory(PAGE, true));
        let ((rope, data), space) = (bells(), bell());
        let (ring_words, cursor_words) = (map(&ring, PAGE + RING), map(&cursor, PAGE));
        seal_for_good(&ring);
        forge_ring(ring_words, cursor_words);
        let fake = Fake::open(transport);
        let offer = fake.offer(&scene.domain, transport);
        let Fake::Unix(listener, _) = &fake else { unreachable!() };
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.read(&mut [0; 1024]).unwrap();
        send_with(
            &stream,
            &welcome(RING as u64, 22),
            &[ring.as_fd(), cursor.as_fd(), sleepers.as_fd(), data.as_fd(), space.as_fd()],
        );
        await_that("the liar is let in", || scene.subscriber.senders() == 2);
        words.iter().for_each(|(index, lie)| ring_words[first + index].store(*lie, Ordering::Release));
        let mut rng = Dice::new(number as u64 + 1);
        let error = loop {
            if words.is_empty() {
                // Any value is written anywhere, but mostly to words that the receiver reads.
                for _ in 0..1000 {
                    let lie = (rng.below(usize::MAX) as u64) >> rng.below(64);
                    ring_words[3 + rng.below(first + 13)].store(lie, Ordering::Relaxed);
                    cursor_words[rng.below(64)].store(lie, Ordering::Relaxed);
                }
            }
            let _ = rustix::net::send(&rope, &[1], SendFlags::DONTWAIT);
            match scene.subscriber.receive_timeout(std::time::Duration::from_millis(1)) {
                Ok(_) => {}
                Err(error) => break Some(error.to_string()),
            }
            // Random values may also mark the ring as closed.
            if words.is_empty() && scene.subscriber.senders() == 1 {
                break None;
            }
        };
        if let Some(said) = error {
            assert!(
                said.contains("fake-") && said.contains(violation) && said.contains("was closed"),
                "{said}"
            );
        }
        // This connection is closed, and the others continue.
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        drop(offer);
        let sequence = number as u64 + 1;
        scene.publisher.send(&[sequence; SAMPLES]).unwrap();
        assert_eq!(take(&mut scene.subscriber).sequence, sequence);
    }
}
