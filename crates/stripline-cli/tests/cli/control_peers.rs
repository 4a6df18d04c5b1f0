//! Access to a running waveform by several clients, by hostile clients, and by another user.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::common::waveform::{File, connect, prefix, sockets_of};
use crate::common::{run, stripline, wait_until};
use serde_json::{Value, json};
use stripline::call::{CallError, ClientOptions, ServiceClient};
use stripline::node::{Node, Topics};

/// A user id that no other process of the test has.
const ANOTHER_USER: u32 = 65_534;
/// The environment variable that makes a test process act as a process of another user.
const PLAY: &str = "STRIPLINE_TEST_ASK_AS_ANOTHER_USER";

/// Joins the launcher's domain. Returns the node and a client of the launcher's service.
fn service_of(pid: u32) -> (Node, ServiceClient) {
    let name = sockets_of(pid).pop().unwrap();
    let user = format!("stripline-{}-", rustix::process::geteuid().as_raw());
    let node = Node::join(name.strip_prefix(&user).unwrap(), Topics::default()).unwrap();
    let client = node.service_client("waveform-control", ClientOptions::default()).unwrap();
    (node, client)
}

#[test]
fn of_several_with_one_name_one_is_chosen_by_its_process() {
    let file = File::radio();
    let (one, other) = (file.start(&[], 3), file.start(&[], 3));
    let pids = [one.pid().to_string(), other.pid().to_string()];
    for (command, arguments) in
        [("get", &[][..]), ("set", &["tone.amplitude=2"]), ("stop", &[]), ("test", &["filter"])]
    {
        file.ask(command, arguments).says(2, &["2 waveforms", &pids[0], &pids[1], "--pid"]);
    }
    let waiting = file.ask("get", &["--wait=60"]);
    waiting.says(2, &["2 waveforms", "--pid"]);
    assert!(!waiting.stderr.contains("has not started"), "{}", waiting.stderr);
    // Each of the two waveforms has a heading, and can be selected alone.
    let listed = run(&["waveforms", &file.name]).stdout;
    for pid in &pids {
        assert!(listed.contains(&format!("\n{} in process {pid}\n", file.name)), "{listed}");
    }
    let listed = run(&["waveforms", "--pid", &pids[0]]).stdout;
    assert!(listed.contains(&pids[0]) && !listed.contains(&pids[1]), "{listed}");
    assert!(listed.contains("fir-filter"), "{listed}");
    run(&["waveforms", "--pid", "1"]).says(2, &["no waveform of this user runs in process 1"]);
    // The ports of each waveform can be selected, too.
    //
    // A process that is late with its figures is left out of a list.
    let ports = |filter: &str| run(&["links", filter]).stdout.matches("tone.out").count();
    wait_until("both are shown", || ports(&file.name) >= 2);
    wait_until("one is shown", || (1..ports(&file.name)).contains(&ports(&pids[0])));
    file.ask("set", &["--pid", &pids[0], "tone.amplitude=2"]).says(0, &[]);
    file.ask("get", &["--pid", &pids[0], "tone.amplitude"]).prints("2\n");
    file.ask("get", &["--pid", &pids[1], "tone.amplitude"]).prints("1\n");
    file.ask("get", &["--pid", "1"]).says(2, &["no waveform", "in process 1", &pids[0]]);
    file.ask("stop", &["--pid", &pids[0]]).says(0, &[]);
    // Only one waveform is left, so the name alone is unambiguous again.
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!((one.end().0, other.end().0), (Some(0), Some(0)));
}

#[test]
fn many_may_ask_at_once() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (1..=12)
            .map(|n| {
                let file = &file;
                scope.spawn(move || file.ask("set", &[&format!("tone.amplitude=0.{n}"), "filter.high=5e3"]))
            })
            .collect();
        for ask in asking {
            ask.join().unwrap().says(0, &[]);
        }
    });
    file.ask("get", &["filter.high"]).prints("5000\n");
}

#[test]
fn hostile_requests_harm_nobody() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let (_node, service) = service_of(running.pid());
    // Requests have types of another program, or name operations that do not exist.
    for (operation, request) in [
        ("set", json!({"settings": "all of them"})),
        ("set", json!([1, 2, 3])),
        ("stop", json!("now")),
        ("explode", json!(null)),
    ] {
        let operation = service.operation::<Value, Value, Value>(operation).unwrap();
        let error = operation.call(&request).unwrap_err();
        assert!(matches!(error, CallError::Refused { .. }), "{error}");
    }
    let wrong = |operation: &str, request: Value, words: &str| {
        let operation = service.operation::<Value, Value, Value>(operation).unwrap();
        let CallError::User(fault) = operation.call(&request).unwrap_err() else { panic!("{words}") };
        assert!(fault["wrong"][0].as_str().unwrap().contains(words), "{words}: {fault}");
    };
    let set = |settings: Value, timeout_ms: u64| json!({"folder": null, "settings": settings, "timeout_ms": timeout_ms});
    wrong("set", set(json!([]), 0), "from 1 to 256");
    let setting = |component: &str, value: &str| json!({"component": component, "property": "waveform", "value": value});
    wrong("set", set(json!(vec![setting("tone", "sine"); 1000]), 0), "from 1 to 256");
    wrong("set", set(json!([setting(&"x".repeat(1 << 20), "sine")]), u64::MAX), "no component");
    wrong("set", set(json!([setting("tone", &"x".repeat(1 << 20))]), u64::MAX), "must be one of");
    wrong("test", json!({"component": "", "tests": [], "timeout_ms": u64::MAX}), "no component");
    // The launcher waits neither for clients that hang nor for clients that disconnect.
    let name = sockets_of(running.pid()).pop().unwrap();
    let mut hanging: Vec<UnixStream> = (0..8).map(|_| connect(&name)).collect();
    let _ = hanging[0].write_all(&[0xff; 64]);
    drop(connect(&name));
    let operation = service.operation::<Value, Value, Value>("set").unwrap();
    let amplitude = json!([{"component": "tone", "property": "amplitude", "value": "0.5"}]);
    // If the request were cancelled earlier, the launcher might rightly not start it.
    let unheard = operation.start(&set(amplitude, 1000)).unwrap();
    wait_until("it is set", || file.ask("get", &["tone.amplitude"]).stdout == "0.5\n");
    unheard.cancel();
    // No request occupies a slot permanently.
    for _ in 0..150 {
        file.ask("get", &["tone.amplitude"]).says(0, &[]);
    }
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn forged_launchers_are_told_apart() {
    let file = File::radio();
    let _running = file.start(&[], 3);
    let me = std::process::id();
    let forge = |number: u32, say: fn(UnixStream)| {
        let name = format!("{}{:016x}-{me}-{number:016x}", prefix(), 0);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| say(stream.unwrap())));
    };
    forge(1, |mut stream| drop(stream.write_all(b"\x1b[2J{\"version\": 1")));
    forge(2, |mut stream| drop(stream.write_all(&u32::MAX.to_le_bytes())));
    // A socket that neither sends nor closes, kept until the end of the test.
    forge(3, std::mem::forget);
    // A launcher of another version has another name.
    let other = format!("stripline-{}-run-3-{:016x}-{me}-{:016x}", rustix::process::geteuid().as_raw(), 0, 4);
    let _other = UnixListener::bind_addr(&SocketAddr::from_abstract_name(other).unwrap()).unwrap();
    let listed = run(&["waveforms"]);
    listed.says(0, &[&format!("process {me}) does not answer"), "uses version 3 of this protocol, not 2"]);
    assert!(!listed.stderr.contains('\u{1b}'), "{:?}", listed.stderr);
    assert!(listed.stdout.contains(&file.name));
    file.ask("get", &["tone.amplitude"]).says(0, &[]);
    run(&["get", "no-such-waveform"]).says(2, &["no waveform", &format!("process {me} does not answer")]);
}

/// Uses names with full queues that accept no connection. Another connection would wait.
#[test]
fn forged_names_with_full_queues_hold_nobody_up() {
    const NAMES: u32 = 600;
    let file = File::radio();
    let _running = file.start(&[], 3);
    let me = std::process::id();
    let list = || {
        let start = Instant::now();
        (run(&["waveforms"]), start.elapsed())
    };
    let (_, without) = list();
    let forged: Vec<_> = (0..NAMES)
        .map(|number| {
            let name = format!("{}{:016x}-{me}-{number:016x}", prefix(), 1);
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
            let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
            rustix::net::bind(&socket, &address).unwrap();
            rustix::net::listen(&socket, 0).unwrap();
            // The connection stays in the queue although this end closes.
            drop(connect(&name));
            socket
        })
        .collect();
    // A wait for each name would take longer than the time limit of a test.
    let (listed, beside) = list();
    println!("{without:?} without false names, {beside:?} beside {NAMES}");
    assert!(listed.stdout.contains(&file.name), "{}", listed.stdout);
    let full = listed.stderr.matches("its queue is full").count();
    assert_eq!(full, forged.len(), "{}", listed.stderr);
}

#[test]
fn another_user_is_not_answered() {
    if let Ok(name) = std::env::var(PLAY) {
        return ask_as_another_user(&name);
    }
    if !rustix::process::geteuid().is_root() {
        println!("NOT RUN: only root can start a process of another user");
        return;
    }
    let file = File::radio();
    let running = file.start(&[], 3);
    let mut command = stripline();
    command.args(["set", &file.name, "tone.amplitude=0.5"]).uid(ANOTHER_USER).gid(ANOTHER_USER);
    let Ok(output) = command.output() else {
        println!("NOT TESTED: another user cannot start the command where it was built");
        return;
    };
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("of this user is running"));
    let mut play = Command::new(std::env::current_exe().unwrap());
    play.args(["--exact", "control_peers::another_user_is_not_answered", "--nocapture"]);
    play.env(PLAY, sockets_of(running.pid()).pop().unwrap()).stdin(Stdio::null());
    let output = play.uid(ANOTHER_USER).gid(ANOTHER_USER).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file.ask("get", &["tone.amplitude"]).prints("1\n");
}

/// Sends requests from a process of another user that has the socket's name.
fn ask_as_another_user(name: &str) {
    let mut stream = connect(name);
    let mut answer = Vec::new();
    // The launcher closes the connection before it sends any offer.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "another user received {} bytes", answer.len());
}

#[test]
fn a_waveform_is_not_waited_for_when_it_is_not_there() {
    let printed = run(&["get", "no-such-waveform-anywhere"]);
    printed.says(2, &["no waveform `no-such-waveform-anywhere` of this user is running"]);
    let file = File::radio();
    let _running = file.start(&[], 3);
    let near = format!("{}x", file.name);
    run(&["stop", &near]).says(2, &["no waveform", &format!("did you mean `{}`?", file.name)]);
    run(&["waveforms", "no-such-waveform-anywhere"]).says(2, &["no waveform"]);
}
