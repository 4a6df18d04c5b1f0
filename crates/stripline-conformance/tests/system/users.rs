//! Links between users: open to a group if one is named, and to no other user.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use stripline::Received;
use stripline::node::{Node, Topics};
use stripline::terms::Group;

use crate::child::{Actor, Cast, DEADLINE, await_go_on, await_that, is_root, say};

const TOPICS: [&str; 3] = ["ring", "lossy", "socket"];
const PACKETS: u64 = 300;
/// A user other than root. No account needs to have this number.
pub const NO_CALL: u32 = 65_534;

fn topics(group: &str) -> Topics {
    let text = format!(
        "[domain]\ngroup = '{group}'\n[topic.lossy]\noverflow = 'drop-newest'\ndepth = 1000\n\
         [topic.socket]\ntransport = 'uds'"
    );
    Topics::parse(&text).unwrap()
}

/// Returns the name of a group that has the wanted property.
pub fn a_group(wanted: impl Fn(u32) -> bool) -> Option<(String, u32)> {
    let text = std::fs::read_to_string("/etc/group").ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.split(':');
        let (name, gid) = (parts.next()?, parts.nth(1)?.parse().ok()?);
        (wanted(gid) && Group::named(name).is_ok_and(|group| group.gid() == gid)).then(|| (name.into(), gid))
    })
}

#[test]
fn a_domain_with_a_group_is_open_to_its_members_only() {
    let domain = format!("users-{}", std::process::id());
    if !is_root() {
        return same_user_only(&domain);
    }
    let (group, gid) = a_group(|gid| gid != 0 && gid != NO_CALL).expect("some group");
    let words = [&*domain, &*group];
    let member =
        |user| Cast { words: &words, user: Some((user, std::slice::from_ref(&gid))), ..Cast::default() };
    let mut publisher = Actor::start("publish", &member(0));
    assert_eq!(publisher.hear(), "ready");

    // A member of the group gets every packet, and copies packets that a sender could change.
    let mut subscriber = Actor::start("subscribe", &member(NO_CALL));
    assert_eq!(subscriber.hear(), "ready");
    publisher.go_on();
    let said = subscriber.hear();
    assert_eq!(said, "took all; in the ring itself: none");
    // The same user reads packets in place.
    let mut own = Actor::start("subscribe", &member(0));
    assert_eq!(own.hear(), "ready");
    publisher.go_on();
    assert_eq!(own.hear(), "took all; in the ring itself: ring");
    own.end();
    let endpoints = subscriber.hear();

    // A user outside the group cannot even connect.
    let mut words = words.to_vec();
    let name = format!("stripline-g{gid}-{domain}");
    words.push(&name);
    words.extend(endpoints.split_whitespace());
    let mut stranger =
        Actor::start("stranger", &Cast { words: &words, user: Some((NO_CALL, &[])), ..Cast::default() });
    assert_eq!(stranger.hear(), "kept out");
    stranger.end();
    subscriber.end();
    publisher.end();
    println!("tested with processes of users 0 and {NO_CALL}, in and out of group {group} ({gid})");
}

#[test]
fn a_name_that_another_user_has_taken_is_reported() {
    if !is_root() {
        println!("NOT RUN: only root can start a process of another user");
        return;
    }
    let domain = format!("taken-{}", std::process::id());
    let name = format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw());
    let mut stranger =
        Actor::start("take-name", &Cast { words: &[&name], user: Some((NO_CALL, &[])), ..Cast::default() });
    assert_eq!(stranger.hear(), "taken");
    let error = Node::join(&domain, Topics::default()).err().expect("it is taken").to_string();
    for part in ["another user has taken the name", "STRIPLINE_RUNTIME_DIR"] {
        assert!(error.contains(part), "{error}");
    }
    stranger.end();
    Node::join(&domain, Topics::default()).unwrap();
}

/// Listens under the name until the test closes the input.
pub fn take_name(name: &str) {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    say("taken");
    await_go_on();
}

/// Tests within one user if this process cannot become another. A unit test covers the decision
/// about credentials.
fn same_user_only(domain: &str) {
    let own = rustix::process::getegid().as_raw();
    match a_group(|gid| gid == own) {
        Some((group, _)) => {
            let node = Node::join(domain, topics(&group)).unwrap();
            let mut publisher = node.publisher::<u64>("ring").unwrap();
            let mut subscriber = node.subscriber::<u64>("ring").unwrap();
            assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
            publisher.send(&[1]).unwrap();
            assert!(
                matches!(subscriber.receive_timeout(DEADLINE).unwrap(), Received::Packet(p) if p[0] == 1)
            );
        }
        None => println!("this process's group has no name here"),
    }
    let mine: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
    if let Some((group, gid)) = a_group(|gid| gid != own && !mine.contains(&gid)) {
        let error = Node::join(domain, topics(&group)).err().unwrap().to_string();
        assert!(error.contains(&format!("not in its group (number {gid})")), "{error}");
    }
    println!("not root: tested within one user; between users by the unit test of the decision");
}

/// Sends to the present receivers, twice.
pub fn publish(words: &[&str]) {
    let node = Node::join(words[0], topics(words[1])).unwrap();
    let mut publishers = TOPICS.map(|topic| node.publisher::<u64>(topic).unwrap());
    say("ready");
    for _ in 0..2 {
        await_go_on();
        for publisher in &mut publishers {
            assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
        }
        for number in 0..PACKETS {
            for publisher in &mut publishers {
                publisher.send(&[number; 1000]).unwrap();
            }
        }
    }
    await_go_on();
}

/// Receives the packets of one round. Prints the topics with packets that were read in the ring.
pub fn subscribe(words: &[&str]) {
    let node = Node::join(words[0], topics(words[1])).unwrap();
    let mut subscribers = TOPICS.map(|topic| node.subscriber::<u64>(topic).unwrap());
    for subscriber in &mut subscribers {
        await_that("a sender", || subscriber.senders() == 1);
    }
    say("ready");
    let (mut in_place, mut endpoints) = (Vec::new(), Vec::new());
    for number in 0..PACKETS {
        for (topic, subscriber) in TOPICS.into_iter().zip(&mut subscribers) {
            let Received::Packet(packet) = subscriber.receive_timeout(DEADLINE).unwrap() else {
                panic!("packet {number} of {topic} is missing");
            };
            assert!(
                packet.len() == 1000 && packet.iter().all(|&n| n == number),
                "packet {number} of {topic}"
            );
            if number == 0 {
                let (_, rest) = packet.connection().split_once('@').unwrap();
                endpoints.push(rest.split_once(" -> ").unwrap().0.to_string());
                if lies_in_a_ring(packet.as_ptr().addr()) {
                    in_place.push(topic);
                }
            }
        }
    }
    let in_place = if in_place.is_empty() { "none".into() } else { in_place.join(", ") };
    say(format!("took all; in the ring itself: {in_place}"));
    // The next round is for other receivers.
    drop(subscribers);
    say(endpoints.join(" "));
    await_go_on();
}

fn lies_in_a_ring(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("stripline-ring")).any(|line| {
        let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap());
        (from..to).contains(&address)
    })
}

/// Tries every way in: as a node, at the rendezvous, and at the endpoints named by the test.
pub fn stranger(words: &[&str]) {
    let [domain, group, meeting_point, endpoints @ ..] = words else { panic!("{words:?}") };
    let error = Node::join(domain, topics(group)).err().unwrap().to_string();
    assert!(error.contains("not in its group"), "{error}");
    let last_words = |name: &str| {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let _ = stream.write_all(b"anything");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).into_owned()
    };
    assert_eq!(last_words(meeting_point), "", "a peer outside the group gets no data");
    assert_eq!(endpoints.len(), TOPICS.len());
    for endpoint in endpoints {
        let said = last_words(endpoint);
        assert!(said.contains("Refused") || said.contains("refused"), "{said}");
        assert!(said.contains(&format!("user {NO_CALL} is neither user 0 nor in group")), "{said}");
    }
    say("kept out");
}
