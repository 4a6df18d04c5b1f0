//! `stripline links` and the processes that it lists.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common;
use crate::common::waveform::File;
use crate::common::{Running, run, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use stripline::Error;
use stripline::node::{Node, Topics};

/// A user id that no other process of the test has.
const ANOTHER_USER: u32 = 65_533;
/// The environment variable that makes a test process act as a process of another user.
const PLAY: &str = "STRIPLINE_TEST_PLAY_ANOTHER_USER";

fn links(arguments: &[&str]) -> Value {
    let run = run(&[&["links", "--json"], arguments].concat());
    run.says(0, &[]);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Runs the command until the condition holds. A list may lack a process that is not running.
#[track_caller]
fn links_until(what: &str, arguments: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
    let last = RefCell::new(Value::Null);
    wait_until(what, || {
        *last.borrow_mut() = links(arguments);
        is_so(&last.borrow())
    });
    last.into_inner()
}

/// Runs the command until the output has the words.
#[track_caller]
fn printed_until(arguments: &[&str], words: &str) -> String {
    let last = RefCell::new(String::new());
    wait_until(words, || {
        *last.borrow_mut() = run(&[&["links"], arguments].concat()).stdout;
        last.borrow().contains(words)
    });
    last.into_inner()
}

/// Returns a port name that no other process uses.
fn own(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[test]
fn types_that_do_not_fit_are_shown_with_both() {
    let topic = own("unfit");
    let node = Node::join(&own("links-unfit"), Topics::default()).unwrap();
    let mut publisher = node.publisher::<u16>(&topic).unwrap();
    let subscriber = node.subscriber::<f32>(&topic).unwrap();
    let text = printed_until(&[&topic], "refused: sends u16, takes f32");
    let rows = text.lines().filter(|line| line.contains(&topic)).count();
    assert_eq!((rows, text.contains("no reader"), text.contains("no sender")), (1, false, false), "{text}");
    let found = links(&[&topic]);
    let mut ports = list(&found["processes"]).flat_map(|process| list(&process["receiving"]));
    let refused = &ports.find(|port| port["name"] == *topic).unwrap()["refused"][0];
    assert_eq!((&refused["sends"], &refused["takes"]), (&"u16".into(), &"f32".into()));
    assert!(refused["reason"].as_str().unwrap().contains("the sending port has type u16, not f32"));
    assert_eq!(sending(&found, &topic, "shm").unwrap()["payload"], "u16");
    // With a second subscriber of the right type, both connections are listed.
    let fits = node.subscriber::<u16>(&topic).unwrap();
    publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap();
    publisher.send(&[1]).unwrap();
    printed_until(&[&topic], "refused: sends u16, takes f32");
    drop((publisher, fits));
    printed_until(&[&topic], "no sender");
    assert_eq!(subscriber.refusals(), []);
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

/// Returns the sending port with that name, in any process.
fn sending(found: &Value, name: &str, transport: &str) -> Option<Value> {
    let mut ports = list(&found["processes"]).flat_map(|process| list(&process["sending"]));
    ports.find(|port| port["name"] == name && port["transport"] == transport).cloned()
}

fn problem(found: &Value, pid: u32, words: &str) -> bool {
    list(&found["problems"])
        .any(|problem| problem["pid"] == pid && problem["what"].as_str().unwrap().contains(words))
}

/// Returns the names of the sockets on which a process takes requests. The process's end of a
/// connection has the name of the listening socket, so open requests add no names.
fn sockets_of(pid: u32) -> BTreeSet<String> {
    let list = std::fs::read("/proc/net/unix").unwrap();
    let part = format!("@stripline-links-{}-{pid}-", rustix::process::geteuid().as_raw());
    let list = String::from_utf8_lossy(&list);
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with(&part)).map(|name| name[1..].to_string()).collect()
}

#[test]
fn a_sender_that_waits_is_shown_with_whom_it_waits_for() {
    let me = std::process::id();
    for transport in ["inproc", "shm", "uds", "tcp", "udp"] {
        let topic = own(&format!("blocked-{transport}"));
        let rules = format!("[topic.{topic}]\ntransport = '{transport}'\ndepth = 8");
        let node = Node::join(&format!("links-{me}-{transport}"), Topics::parse(&rules).unwrap()).unwrap();
        let mut publisher = node.publisher::<u8>(&topic).unwrap();
        let subscriber = node.subscriber::<u8>(&topic).unwrap();
        assert!(publisher.wait_for_receivers(1, common::TIMEOUT).unwrap());
        let sender = std::thread::spawn(move || {
            loop {
                if let Err(error) = publisher.send(&[7; 1000]) {
                    return error;
                }
            }
        });
        let waits = |found: &Value| {
            list(&found["waits"]).any(|waiting| {
                (&waiting["port"], &waiting["for_port"]) == (&Value::from(&*topic), &Value::from(&*topic))
                    && waiting["why"] == "full"
                    && waiting["pid"] == me
            })
        };
        let found = links_until("the sender waits", &[&topic], waits);
        let port = sending(&found, &topic, transport).unwrap_or_else(|| panic!("{found:#}"));
        let reader = &port["readers"][0];
        assert_eq!((&port["payload"], &reader["depth"]), (&"u8".into(), &8.into()), "{found:#}");
        assert_eq!(reader["waited_for"], true, "{found:#}");
        if matches!(transport, "inproc" | "shm") {
            // The sender has sent eight packets and cannot send a ninth.
            assert_eq!((&port["packets"], &reader["lag_packets"]), (&8.into(), &8.into()), "{found:#}");
            assert_eq!((&reader["pid"], &reader["sleeps"]), (&me.into(), &false.into()), "{found:#}");
            assert!(reader["lag_bytes"].as_u64() > Some(8_000), "{found:#}");
        } else {
            assert_eq!(
                (&reader["lag_packets"], &reader["sleeps"]),
                (&Value::Null, &Value::Null),
                "{found:#}"
            );
            assert!(reader["kernel_bytes"].as_u64().is_some(), "{found:#}");
        }
        printed_until(&[&topic], &format!("{topic} waits for {topic} (full)"));
        node.stop();
        // If the subscriber were kept, the end of stream would wait for it.
        drop(subscriber);
        assert!(matches!(sender.join().unwrap(), Error::Stopped));
    }
}

#[test]
fn links_of_topics_are_joined_on_every_transport() {
    for transport in ["shm", "uds", "tcp", "udp"] {
        let domain = own(&format!("joined-{transport}"));
        let start = |example: &str, arguments: &[&str]| {
            let mut command = Command::new(common::example(example));
            command.args(arguments).env("STRIPLINE_DOMAIN", &domain).env_remove("STRIPLINE_TOPICS");
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut both = [start("publisher", &[transport]), start("subscriber", &[])];
        let pids = [both[0].id().to_string(), both[1].id().to_string()];
        let is_row = |line: &str| pids.iter().all(|pid| line.split_whitespace().any(|word| word == pid));
        wait_until("one row has both ends", || run(&["links", "iq"]).stdout.lines().any(is_row));
        for child in &mut both {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn a_sender_that_waits_for_an_answer_is_shown_with_whom_it_waits_for() {
    let me = std::process::id();
    for transport in ["inproc", "shm", "uds", "tcp", "udp"] {
        let topic = own(&format!("asked-{transport}"));
        let rules =
            format!("[topic.{topic}]\ntransport = '{transport}'\nscope = 'target'\ndeadline-ms = 3600000");
        let node = Node::join(&format!("links-{topic}"), Topics::parse(&rules).unwrap()).unwrap();
        let mut publisher = node.publisher::<u8>(&topic).unwrap();
        let mut quick = node.subscriber::<u8>(&topic).unwrap();
        let slow = node.subscriber::<u8>(&topic).unwrap();
        assert!(publisher.wait_for_receivers(2, common::TIMEOUT).unwrap());
        let sender = std::thread::spawn(move || publisher.send(&[7; 1000]).unwrap_err());
        drop(quick.receive().unwrap().unwrap());
        let awaited = |found: &Value| {
            let port = sending(found, &topic, transport);
            port.map_or(0, |port| {
                list(&port["readers"]).filter(|reader| reader["answer_awaited"] == true).count()
            })
        };
        // Only one of the two subscribers has acknowledged.
        let found = links_until("the sender waits for the other", &[&topic], |found| awaited(found) == 1);
        assert!(list(&found["waits"]).any(|waiting| {
            (&waiting["port"], &waiting["why"], &waiting["pid"])
                == (&Value::from(&*topic), &Value::from("answer"), &Value::from(me))
        }));
        let text = printed_until(&[&topic], &format!("{topic} waits for {topic} (answer)"));
        assert_eq!(text.matches("sender waits (answer)").count(), 1, "{text}");
        node.stop();
        drop(slow);
        assert!(matches!(sender.join().unwrap(), Error::Stopped | Error::ReceiverGone { .. }));
    }
}

#[test]
fn a_receiver_that_waits_is_shown_with_its_losses() {
    let topic = &*own("losing");
    let rules = format!("[topic.{topic}]\ntransport = 'shm'\noverflow = 'drop-oldest'\ndepth = 4");
    let node =
        Node::join(&format!("links-{}-losing", std::process::id()), Topics::parse(&rules).unwrap()).unwrap();
    let mut publisher = node.publisher::<u8>(topic).unwrap();
    let mut subscriber = node.subscriber::<u8>(topic).unwrap();
    assert!(publisher.wait_for_receivers(1, common::TIMEOUT).unwrap());
    for _ in 0..20 {
        publisher.send(&[1; 10]).unwrap();
    }
    // After all twenty packets have arrived, the queue holds the last four.
    let connection = |found: &Value| {
        let mut ports = list(&found["processes"]).flat_map(|process| list(&process["receiving"]));
        ports.find(|port| port["name"] == topic).map(|port| port["connections"][0].clone())
    };
    let receiver = std::thread::spawn(move || while let Ok(Some(_)) = subscriber.receive() {});
    let found = links_until("the receiver waits", &[topic], |found| {
        let all = connection(found).is_some_and(|connection| {
            connection["packets"].as_u64().unwrap_or(0) + connection["lost"].as_u64().unwrap_or(0) == 20
        });
        all && list(&found["waits"]).any(|waiting| waiting["port"] == topic && waiting["why"] == "empty")
    });
    let found = connection(&found).unwrap();
    assert_eq!(
        (&found["overflow"], &found["depth"], &found["queued"]),
        (&"drop-oldest".into(), &4.into(), &0.into())
    );
    node.stop();
    receiver.join().unwrap();
}

#[test]
fn a_stopped_process_is_named_and_the_others_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stop.toml");
    let text = "[component.source]\ntype = \"null-source\"\nproperties = { packet = 100 }\n\
                [component.end]\ntype = \"null-sink\"\n\
                [[connection]]\nfrom = \"source.out\"\nto = \"end.in\"\ndepth = 16\n";
    std::fs::write(&path, text).unwrap();
    let running = Running::start(&["run", path.to_str().unwrap(), "--transport", "shm"], 2);
    let (source, end) = (running.component("source"), running.component("end"));
    wait_until("both are listed", || {
        let found = links(&["source.out"]);
        let pids: Vec<&Value> = list(&found["processes"]).map(|process| &process["pid"]).collect();
        pids.contains(&&source.into()) && pids.contains(&&end.into())
    });
    assert_eq!((sockets_of(source).len(), sockets_of(end).len()), (1, 1));
    let found = links_until("the source is listed", &[&source.to_string()], |found| {
        sending(found, "source.out", "shm").is_some()
    });
    let port = sending(&found, "source.out", "shm").unwrap();
    assert_eq!(port["readers"][0]["connection"], "source.out -> end.in");
    assert_eq!(port["readers"][0]["pid"], end);

    send(end, Signal::STOP);
    wait_until("the sender waits for it", || {
        let found = links(&[&source.to_string()]);
        problem(&found, end, "is stopped")
            && list(&found["waits"]).any(|waiting| {
                (&waiting["port"], &waiting["for_port"]) == (&"source.out".into(), &"end.in".into())
                    && (&waiting["for_pid"], &waiting["why"]) == (&end.into(), &"full".into())
            })
    });
    let printed = run(&["links"]);
    printed.says(0, &[&format!("process {end}"), "kill -CONT"]);
    printed_until(&[], "source.out");

    send(running.pid(), Signal::KILL);
    wait_until("nothing is left of them", || sockets_of(source).is_empty() && sockets_of(end).is_empty());
}

#[test]
fn what_forged_processes_say_is_a_warning() {
    let me = std::process::id();
    let node = Node::isolated().unwrap();
    let honest = &*own("honest");
    let _publisher = node.publisher::<u8>(honest).unwrap();
    let forge = |number: u32, say: fn(UnixStream)| {
        let name = format!("stripline-links-{}-{me}-{number:016x}", rustix::process::geteuid().as_raw());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| say(stream.unwrap())));
    };
    forge(1, |mut stream| drop(stream.write_all(b"\x1b[2J{\"processes\": 7")));
    forge(2, |mut stream| while stream.write_all(&[b' '; 4096]).is_ok() {});
    // A socket that neither sends nor closes, kept until the end of the test.
    forge(3, std::mem::forget);
    wait_until("all of them are named", || {
        let found = links(&[]);
        let endless = problem(&found, me, "sends more than") || problem(&found, me, "the end of its answer");
        problem(&found, me, "does not parse")
            && problem(&found, me, "does not answer")
            && endless
            && sending(&found, honest, "shm").is_some()
    });
}

#[test]
fn who_asks_and_hangs_harms_nobody() {
    let node = Node::isolated().unwrap();
    let patient = &*own("patient");
    let _publisher = node.publisher::<u8>(patient).unwrap();
    let name = sockets_of(std::process::id()).into_iter().find(|name| !name.contains("-00000000")).unwrap();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _hanging: Vec<UnixStream> = (0..8).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    wait_until("it is listed", || sending(&links(&[patient]), patient, "shm").is_some());
}

#[test]
fn nothing_to_show_is_said_kindly() {
    let run = run(&["links", "no-such-port-anywhere"]);
    run.says(0, &[]);
    assert!(run.stdout.contains("No process of this user has a port open"), "{}", run.stdout);
}

#[test]
fn another_users_processes_are_neither_shown_nor_answered() {
    if let Ok(name) = std::env::var(PLAY) {
        return play_another_user(&name);
    }
    if !rustix::process::geteuid().is_root() {
        println!("NOT RUN: only root can start a process of another user");
        return;
    }
    let me = std::process::id();
    let node = Node::isolated().unwrap();
    let _publisher = node.publisher::<u8>("mine").unwrap();
    let mine = sockets_of(me).into_iter().find(|name| !name.contains("-00000000")).unwrap();
    // Another user gets no port of this process.
    let Ok(output) = stripline().args(["links", "--json"]).uid(ANOTHER_USER).gid(ANOTHER_USER).output()
    else {
        println!("NOT TESTED: another user cannot start the command where it was built");
        return;
    };
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(list(&found["processes"]).all(|process| process["pid"] != me), "{found:#}");
    // Requests of another user get no reply, and forged names are rejected.
    let mut play = Command::new(std::env::current_exe().unwrap());
    play.args(["--exact", "links::another_users_processes_are_neither_shown_nor_answered", "--nocapture"]);
    play.env(PLAY, &mine).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut play = play.uid(ANOTHER_USER).gid(ANOTHER_USER).spawn().unwrap();
    let other = play.id();
    wait_until("the other's is refused", || problem(&links(&[]), other, "runs as another user"));
    drop(play.stdin.take());
    let output = play.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Sends requests from a process of another user, and offers sockets under forged names.
fn play_another_user(name: &str) {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = Vec::new();
    // The connection is closed without data, with or without an error.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "another user received {} bytes", answer.len());
    let forged = format!("stripline-links-0-{}-{:016x}", std::process::id(), 4);
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(forged).unwrap()).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_rule_of_a_topics_file_without_a_topic_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topics.toml");
    let [topic, other, service] = ["iqdata", "levels", "tunerx"].map(own);
    let text = format!(
        "[topic.{topic}]\ndepth = 9\n[topic.{topic}x]\ndepth = 8\n[topic.{other}]\n[topic.{service}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let domain = own("rules");
    let node = Node::join(&domain, Topics::load(&path).unwrap()).unwrap();
    let publisher = node.publisher::<u8>(&topic).unwrap();
    let client = node.client::<u8, u8, stripline::call::NoError>(&service, Default::default()).unwrap();
    let unused = |found: &Value| -> Vec<String> {
        let rules = list(&found["unused_rules"]).filter(|rule| rule["file"] == path.to_str().unwrap());
        rules.map(|rule| rule["topic"].as_str().unwrap().to_string()).collect()
    };
    let misspelt = format!("{topic}x");
    let wanted = [misspelt.clone(), other.clone()];
    let found = links_until("the rules are shown", &[&topic], |found| unused(found) == wanted);
    let rule = list(&found["unused_rules"]).find(|rule| rule["topic"] == *misspelt).unwrap();
    assert_eq!(rule["nearest"], topic);
    let words = format!("no topic has used the rule [topic.{misspelt}] so far; did you mean `{topic}`?");
    wait_until("the warning is printed", || run(&["links", &topic]).stderr.contains(&words));
    // Another node with the same topics file uses the other rule.
    let second = Node::join(&domain, Topics::load(&path).unwrap()).unwrap();
    let subscriber = second.subscriber::<u8>(&other).unwrap();
    links_until("one rule is left", &[&topic], |found| unused(found) == [misspelt.clone()]);
    drop((publisher, client, subscriber));
}

#[test]
fn equal_problems_of_a_waveform_share_a_line() {
    let file = File::idle();
    let running = file.start(&[], 3);
    let pids: Vec<u32> = running.components().into_iter().map(|(_, pid)| pid).collect();
    pids.iter().for_each(|pid| send(*pid, Signal::STOP));
    let line = format!("3 components of `{}` (process ", file.name);
    wait_until("they are listed in one line", || run(&["links"]).stderr.contains(&line));
    pids.iter().for_each(|pid| send(*pid, Signal::CONT));
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}
