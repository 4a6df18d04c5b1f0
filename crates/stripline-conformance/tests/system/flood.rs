//! Connections that send nothing, or one byte per second, at every socket on which a process
//! listens.
//!
//! A client that follows the protocol is served as if these connections were absent, and
//! established links are not affected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use serde_json::Value;
use stripline::Received;
use stripline::call::{ClientOptions, ServerOptions, Service};
use stripline::node::{Dispatch, Node, Topics};

use crate::child::{Actor, Cast, DEADLINE, await_go_on, await_that, is_root, say};

/// The number of connections to each address. If 64 connections were served at a time for a
/// second each, the last connection would wait longer than [`DEADLINE`].
const CONNECTIONS: usize = 4000;
/// The most descriptors that a process may spend on them.
const DESCRIPTORS_MAX: usize = 256;
const NO_CALL: u32 = 65_534;

fn join(domain: &str, transport: &str) -> Node {
    let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'")).unwrap();
    Node::join(domain, topics).unwrap()
}

/// Runs a process with a publisher and a server. Each byte of input publishes a number.
pub fn serve(words: &[&str]) {
    let [domain, transport] = words else { panic!("{words:?}") };
    let node = join(domain, transport);
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let service =
        Service::new("adder").unwrap().operation("add", |(a, b): (i64, i64)| Ok::<i64, String>(a + b));
    let mut server = node.service_server(service.unwrap(), ServerOptions::default()).unwrap();
    let mut first = node.subscriber::<u64>("numbers").unwrap();
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(Dispatch::Queue));
        say(std::process::id());
        let mut expected = 0;
        // The loop runs until the test closes the input.
        while std::io::stdin().read(&mut [0]).unwrap() > 0 {
            publisher.send(&[expected]).unwrap();
            // The link that existed before the flood is intact.
            let Received::Packet(packet) = first.receive_timeout(DEADLINE).unwrap() else {
                panic!("no packet")
            };
            assert_eq!(*packet, [expected]);
            expected += 1;
            say("sent");
        }
        node.stop();
    });
}

/// Runs a process that opens connections to the given addresses in turn and keeps them.
pub fn flood(words: &[&str]) {
    let [kind, count, addresses @ ..] = words else { panic!("{words:?}") };
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let wanted = count.parse::<usize>().unwrap() * addresses.len();
    let possible = maximum.map_or(wanted, |maximum| wanted.min(maximum as usize - 100));
    let connections: Vec<Box<dyn Connection>> =
        addresses.iter().cycle().take(possible).map(|address| connect(address)).collect();
    say(format!("{possible} of {wanted} are open"));
    match *kind {
        "silent" => await_go_on(),
        // The beginnings of a hello and of a message to the rendezvous.
        "dribbling" => std::thread::scope(|scope| {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                for byte in b"SLNK\x05\0\0\0\x10\0\0\0{\"key\"".iter().cycle() {
                    // Connections that were closed cannot be written to.
                    connections.iter().for_each(|connection| drop(connection.send(*byte)));
                    if ended.recv_timeout(Duration::from_secs(1))
                        != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                    {
                        return;
                    }
                }
            });
            await_go_on();
            drop(end);
        }),
        _ => panic!("{words:?}"),
    }
}

/// An open connection.
trait Connection: Send {
    fn send(&self, byte: u8) -> std::io::Result<usize>;
}

impl Connection for UnixStream {
    fn send(&self, byte: u8) -> std::io::Result<usize> {
        (&mut &*self).write(&[byte])
    }
}

impl Connection for TcpStream {
    fn send(&self, byte: u8) -> std::io::Result<usize> {
        (&mut &*self).write(&[byte])
    }
}

fn connect(address: &str) -> Box<dyn Connection> {
    match address.parse::<std::net::SocketAddr>() {
        Ok(address) => Box::new(TcpStream::connect(address).unwrap()),
        Err(_) => Box::new(unix(address)),
    }
}

fn unix(name: &str) -> UnixStream {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let mut stream = None;
    await_that("a process listens", || {
        stream = UnixStream::connect_addr(&address).ok();
        stream.is_some()
    });
    stream.unwrap()
}

fn rendezvous(domain: &str) -> String {
    format!("stripline-{}-{domain}", geteuid().as_raw())
}

/// Returns the addresses of the first `count` offers in a domain.
fn offered(domain: &str, count: usize) -> Vec<String> {
    let mut host = unix(&rendezvous(domain));
    let join = br#"{"Join":{"version":1}}"#;
    host.write_all(&[&(join.len() as u32).to_le_bytes(), &join[..]].concat()).unwrap();
    let read = |_| {
        let mut length = [0; 4];
        host.read_exact(&mut length).unwrap();
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        host.read_exact(&mut text).unwrap();
        let message: Value = serde_json::from_slice(&text).unwrap();
        message["Offer"]["endpoint"]["address"].as_str().unwrap().to_string()
    };
    (0..count).map(read).collect()
}

/// Returns the abstract names that a process listens on for `stripline links`.
fn inspection(process: &str) -> String {
    let prefix = format!("@stripline-links-{}-{process}-", geteuid().as_raw());
    let list = std::fs::read_to_string("/proc/net/unix").unwrap();
    let name = list.lines().find_map(|line| line.split_whitespace().find(|word| word.starts_with(&prefix)));
    name.expect("the process is inspected").trim_start_matches('@').into()
}

fn descriptors(process: &str) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Checks that a process with a flood at every address serves each kind of client: a subscriber, a
/// client of calls, a node and an inspection.
fn everything_is_served(transport: &str, kind: &str, user: Option<(u32, &[u32])>) {
    let domain = format!("flood-{}-{transport}-{kind}-{}", std::process::id(), user.is_some());
    let mut server = Actor::start("serve", &Cast { words: &[&*domain, transport], ..Cast::default() });
    let process = server.hear();
    let mut words =
        vec![kind.to_string(), CONNECTIONS.to_string(), rendezvous(&domain), inspection(&process)];
    words.extend(offered(&domain, 2));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let before = descriptors(&process);
    let mut flood = Actor::start("flood", &Cast { words: &words, user, ..Cast::default() });
    let open = flood.hear();

    // A new node joins the domain. The node's subscriber and client are served.
    let node = join(&domain, transport);
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let patient = ClientOptions { deadline: DEADLINE, ..ClientOptions::default() };
    let client = node.service_client("adder", patient).unwrap();
    let add = client.operation::<(i64, i64), i64, String>("add").unwrap();
    assert_eq!(add.call(&(40, 2)).unwrap(), 42);
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < DEADLINE, "no packet");
        server.go_on();
        assert_eq!(server.hear(), "sent");
        match subscriber.receive_timeout(Duration::from_millis(10)).unwrap() {
            Received::Packet(_) => break,
            Received::Empty => {}
            Received::Ended => panic!("the stream has ended"),
        }
    }
    await_that("it is in the list of ports", || {
        let overview = stripline::inspect::processes().unwrap();
        overview.processes.iter().any(|one| one.pid.to_string() == process)
    });
    let held = descriptors(&process).saturating_sub(before);
    println!("{transport}, {kind}: {open}; {held} descriptors more than before");
    // The limit also includes the descriptors of the new links.
    assert!(held <= DESCRIPTORS_MAX + 32, "{held} descriptors");
    drop(flood);
    server.end();
}

#[test]
fn silent_connections_delay_no_newcomer() {
    for transport in ["shm", "uds", "tcp", "udp"] {
        everything_is_served(transport, "silent", None);
    }
}

#[test]
fn half_spoken_hellos_delay_no_newcomer() {
    for transport in ["shm", "uds", "tcp", "udp"] {
        everything_is_served(transport, "dribbling", None);
    }
}

#[test]
fn a_flood_of_another_user_delays_no_newcomer() {
    if !is_root() {
        println!("NOT RUN: only root can start a process of another user");
        return;
    }
    for transport in ["shm", "uds", "tcp", "udp"] {
        everything_is_served(transport, "silent", Some((NO_CALL, &[])));
    }
}

/// Connects many valid subscribers at once, beside the silent connections of one process.
#[test]
fn a_hundred_newcomers_at_once_are_all_served() {
    const NEWCOMERS: usize = 100;
    for transport in ["shm", "uds", "tcp", "udp"] {
        let domain = format!("flood-{}-{transport}-honest", std::process::id());
        let node = join(&domain, transport);
        let mut publisher = node.publisher::<u64>("numbers").unwrap();
        // This node's own connections are to the rendezvous and to the publisher.
        let other = join(&domain, transport);
        let addresses = [rendezvous(&domain), offered(&domain, 1).remove(0)];
        let words: Vec<&str> =
            ["silent", "1000"].into_iter().chain(addresses.iter().map(String::as_str)).collect();
        let mut flood = Actor::start("flood", &Cast { words: &words, ..Cast::default() });
        println!("{transport}: {}", flood.hear());
        let others: Vec<_> = std::thread::scope(|scope| {
            let joined = || other.subscriber::<u64>("numbers").unwrap();
            let threads: Vec<_> = (0..NEWCOMERS).map(|_| scope.spawn(joined)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(publisher.wait_for_receivers(NEWCOMERS, DEADLINE).unwrap());
        publisher.send(&[7]).unwrap();
        for mut subscriber in others {
            let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                panic!("no packet")
            };
            assert_eq!(*packet, [7]);
        }
        drop(flood);
    }
}
