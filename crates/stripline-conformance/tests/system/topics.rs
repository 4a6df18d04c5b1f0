//! Many topics between few processes.

use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use stripline::internal::tap;
use stripline::node::{Node, Publisher, Subscriber, Topics};

use crate::child::{Actor, Cast, DEADLINE, await_go_on, await_that, say};

/// The size of a longer run, `PROCESSES TOPICS`: the processes, and the topics that each publishes.
const SIZE: &str = "STRIPLINE_SYSTEM_TOPICS";

/// Runs processes that each publish some topics and subscribe to the same number of topics of
/// another process.
#[test]
fn a_thousand_topics_are_found_by_two_processes() {
    let size = std::env::var(SIZE).unwrap_or_else(|_| "2 500".into());
    let (processes, topics) = size.split_once(' ').expect("PROCESSES TOPICS");
    let domain = format!("topics-{}", std::process::id());
    let mut actors: Vec<Actor> = (0..processes.parse().unwrap())
        .map(|own: u32| {
            let words = [&domain, &own.to_string(), processes, topics];
            Actor::start("topics", &Cast { words: &words, ..Cast::default() })
        })
        .collect();
    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "joined"));
    let start = Instant::now();
    actors.iter_mut().for_each(Actor::go_on);
    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "connected"));
    println!("{processes} processes with {topics} topics each: {:.2} s", start.elapsed().as_secs_f64());
    actors.into_iter().for_each(Actor::end);
}

pub fn all(words: &[&str]) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let [own, processes, topics] = [1, 2, 3].map(|at| words[at].parse::<u32>().unwrap());
    let node = Node::join(words[0], Topics::parse("[default]\ntransport = 'uds'").unwrap()).unwrap();
    say("joined");
    await_go_on();
    let name = |process: u32, topic: u32| format!("topic-{process}-{topic}");
    let mut publishers: Vec<Publisher<u8>> =
        (0..topics).map(|topic| node.publisher(&name(own, topic)).unwrap()).collect();
    let next = (own + 1) % processes;
    let _subscribers: Vec<Subscriber<u8>> =
        (0..topics).map(|topic| node.subscriber(&name(next, topic)).unwrap()).collect();
    for publisher in &mut publishers {
        assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    }
    say("connected");
    await_go_on();
}

/// Prints the time that a new subscriber takes with and without a stopped publisher.
#[test]
fn a_new_subscriber_does_not_wait_for_a_publisher_that_is_stopped() {
    let domain = format!("stopped-{}", std::process::id());
    let node = Node::join(&domain, Topics::default()).unwrap();
    let mut healthy = node.publisher::<u8>("topic").unwrap();
    let start = |role, marker| Actor::start(role, &Cast { words: &[&domain, marker], ..Cast::default() });
    let mut stopped = start("publish-one", "");
    assert_eq!(stopped.hear(), "published");
    // The first subscriber announces itself to the rendezvous after the publishers.
    let mut first = start("subscribe-one", "topic");
    let without = first.hear();
    let pid = Pid::from_raw(stopped.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    await_that("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", stopped.pid())).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    });
    let mut late = start("subscribe-one", "behind");
    println!("without {without}, beside a stopped publisher {}", late.hear());
    assert!(healthy.wait_for_receivers(2, DEADLINE).unwrap());
    kill_process(pid, Signal::CONT).unwrap();
    // The stopped process gets the second subscriber once it continues.
    stopped.go_on();
    assert_eq!(stopped.hear(), "has two");
    for actor in [stopped, first, late] {
        actor.end();
    }
}

pub fn publish_one(domain: &str) {
    let node = Node::join(domain, Topics::default()).unwrap();
    let mut publisher = node.publisher::<u8>("topic").unwrap();
    say("published");
    await_go_on();
    assert!(publisher.wait_for_receivers(2, DEADLINE).unwrap());
    say("has two");
    await_go_on();
}

pub fn subscribe_one(domain: &str, marker: &str) {
    let node = Node::join(domain, Topics::default()).unwrap();
    await_that("the marker is found", || tap::topics(&node).iter().any(|topic| topic == marker));
    let start = Instant::now();
    let _subscriber = node.subscriber::<u8>("topic").unwrap();
    let _behind = node.publisher::<u8>("behind").unwrap();
    say(format!("{:?}", start.elapsed()));
    await_go_on();
}
