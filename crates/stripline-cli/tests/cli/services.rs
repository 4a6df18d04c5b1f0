//! `stripline services` and the servers that it lists.

use std::cell::RefCell;
use std::process::{Command, Stdio};

use crate::common;
use crate::common::waveform::{File, sockets_of};
use crate::common::{Run, repository, run, send, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use stripline::call::{NoError, ServerOptions};
use stripline::node::{Node, Topics};

/// The environment variable that makes a test process act as a server. The value is the domain.
const PLAY: &str = "STRIPLINE_TEST_PLAY_A_SERVER";

/// The service under test.
#[stripline::service]
pub trait Mixer {
    /// Mixes.
    ///
    /// Twice.
    fn mix(&self, level: f64) -> Result<f64, String>;
    /// Returns the level.
    fn level(&self) -> f64;
}

struct Desk;

impl Mixer for Desk {
    fn mix(&self, level: f64) -> Result<f64, String> {
        Ok(level)
    }

    fn level(&self) -> f64 {
        1.0
    }
}

fn domain(test: &str) -> String {
    format!("services-{test}-{}", std::process::id())
}

fn join(domain: &str) -> Node {
    Node::join(domain, Topics::default()).unwrap()
}

fn named(transport: &str, name: &str) -> ServerOptions {
    ServerOptions { transport: Some(transport.into()), name: Some(name.into()), ..ServerOptions::default() }
}

/// Runs the command until the output satisfies the condition. The discovery order of the nodes
/// varies.
#[track_caller]
fn services_until(arguments: &[&str], is_so: impl Fn(&Run) -> bool) -> Run {
    let last = RefCell::new(None);
    wait_until("the servers are listed", || {
        let services = run(&[&["services"], arguments].concat());
        services.says(0, &[]);
        let done = is_so(&services);
        last.replace(Some(services));
        done
    });
    last.into_inner().unwrap()
}

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn servers_are_listed_with_what_they_can_be_asked() {
    let domain = domain("listed");
    let nodes = [join(&domain), join(&domain)];
    let desk = |node: &Node, options| node.service_server(MixerService::of(Desk).unwrap(), options).unwrap();
    let first = desk(&nodes[0], named("shm", "first"));
    let second = desk(&nodes[1], named("uds", "second"));
    let negate = |x: f64| Ok::<f64, NoError>(-x);
    let other = nodes[1].server("negate", negate, named("tcp", "third")).unwrap();
    let hidden = nodes[0].server("negate", negate, named("inproc", "fourth")).unwrap();

    let all = |listed: &Run| {
        [first.address(), second.address(), other.address(), hidden.address()]
            .iter()
            .all(|address| listed.stdout.contains(address.as_str()))
    };
    let text = services_until(&[&domain], all);
    let cbor = "message/cbor";
    let mut mixers =
        [format!("  first at {}\n", first.address()), format!("  second at {}\n", second.address())];
    mixers.sort_by_key(|line| line.split_once(" at ").unwrap().1.to_string());
    let mixer = format!(
        "mixer\n{}    mix: {cbor} -> {cbor} (error: {cbor})\n      Mixes.\n\n      Twice.\n    level: {cbor} -> {cbor} \
         (error: {})\n      Returns the level.\n\n",
        mixers.concat(),
        MixerService::of(Desk).unwrap().operations()[1].error,
    );
    assert!(text.stdout.starts_with(&mixer), "{}\nand not\n{mixer}", text.stdout);
    for line in [
        format!("negate\n  third at {}\n    call: {cbor} -> {cbor}", other.address()),
        format!("  ? at {}: it cannot be queried: ", hidden.address()),
        "`inproc` joins threads of one process only".into(),
    ] {
        assert!(text.stdout.contains(&line), "`{line}` is not in:\n{}", text.stdout);
    }
    assert_eq!(text.stderr, "");

    let listed = parsed(&services_until(&[&domain, "--json"], all));
    let mut names: Vec<&str> =
        listed[0]["servers"].as_array().unwrap().iter().map(|s| s["server"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!((&listed[0]["service"], names), (&json!("mixer"), vec!["first", "second"]));
    assert_eq!(
        listed[0]["servers"][0]["operations"][0],
        json!({"name": "mix", "request": cbor, "reply": cbor, "error": cbor, "doc": "Mixes.\n\nTwice."})
    );
    assert_eq!(listed[0]["servers"][0]["problem"], Value::Null);
    let hidden_one = listed[1]["servers"].as_array().unwrap().iter().find(|s| s["server"].is_null()).unwrap();
    assert_eq!((&hidden_one["address"], &hidden_one["operations"]), (&json!(hidden.address()), &Value::Null));
}

#[test]
fn a_suspended_server_hides_no_other() {
    let domain = domain("suspended");
    // This server starts first, so that discovery passes through this process and not the suspended
    // one.
    let node = join(&domain);
    let server = node.service_server(MixerService::of(Desk).unwrap(), named("uds", "awake")).unwrap();
    services_until(&[&domain], |listed| listed.stdout.contains(&server.address()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "services::child_entry", "--nocapture"])
        .env(PLAY, &domain)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    services_until(&[&domain], |listed| listed.stdout.contains("  asleep at "));
    send(child.id(), Signal::STOP);
    let listed = services_until(&[&domain], |listed| listed.stdout.contains("  ? at ")).stdout;
    send(child.id(), Signal::CONT);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(listed.contains("  awake at ") && listed.contains(": it cannot be queried: "), "{listed}");
}

/// Acts as the suspended server if the test started this process for it. Otherwise does nothing.
#[test]
fn child_entry() {
    if let Some(domain) = std::env::var_os(PLAY) {
        let node = join(domain.to_str().unwrap());
        let _server = node.service_server(MixerService::of(Desk).unwrap(), named("uds", "asleep")).unwrap();
        let _ = std::io::read_to_string(std::io::stdin());
    }
}

#[test]
fn the_launcher_of_a_waveform_is_a_server_in_its_own_domain() {
    let file = File::radio();
    let running = file.start(&[], 3);
    let socket = sockets_of(running.pid()).remove(0);
    let user = format!("stripline-{}-", rustix::process::geteuid().as_raw());
    let domain = socket.strip_prefix(&user).unwrap();
    let listed = services_until(&[domain], |listed| listed.stdout.contains("waveform-control"));
    assert!(listed.stdout.contains("    show: "), "{}", listed.stdout);
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn the_domain_is_that_of_the_environment_unless_it_is_named() {
    let domain = domain("environment");
    let node = join(&domain);
    let server = node.service_server(MixerService::of(Desk).unwrap(), ServerOptions::default()).unwrap();
    wait_until("the server is listed", || {
        let output = common::stripline().arg("services").env("STRIPLINE_DOMAIN", &domain).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains(&server.address())
    });
    let mut elsewhere = common::stripline();
    elsewhere.args(["services", &format!("{domain}-2")]).env("STRIPLINE_DOMAIN", &domain);
    let output = elsewhere.output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains(&server.address()));
}

#[test]
fn the_guide_shows_what_is_printed() {
    let domain = domain("guide");
    let mut tuner = Command::new(common::example("tuner"))
        .arg("serve")
        .env("STRIPLINE_DOMAIN", &domain)
        .env_remove("STRIPLINE_TOPICS")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let listed = services_until(&[&domain], |listed| listed.stdout.contains("  tune: "));
    tuner.kill().unwrap();
    tuner.wait().unwrap();
    // Names and addresses differ in each run.
    let lasting = |text: &str| -> String {
        text.lines()
            .filter(|line| !line.contains(" at shm:stripline-"))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let guide = std::fs::read_to_string(repository("docs/guide.md")).unwrap();
    let registered = lasting(&listed.stdout);
    assert!(registered.starts_with("tuner\n    tune: "), "{registered}");
    assert!(
        lasting(&guide).contains(&format!("$ stripline services\n{registered}```")),
        "the guide does not show:\n{registered}"
    );
}

#[test]
fn a_domain_without_servers_says_what_to_do() {
    let domain = domain("empty");
    let services = run(&["services", &domain]);
    services.says(0, &[]);
    let words = format!("There is no server in domain `{domain}`. Start one, or name its domain");
    assert!(services.stdout.contains(&words), "{}", services.stdout);
    let services = run(&["services", &domain, "--json"]);
    services.says(0, &[]);
    assert_eq!(parsed(&services), json!([]));
}

#[test]
fn a_domain_that_is_none_is_refused() {
    run(&["services", "no spaces"])
        .says(2, &["error: `no spaces` is not a valid domain: use letters, digits, `-` and `_`"]);
    let mut command = common::stripline();
    command.args(["services", "x"]).env("STRIPLINE_TOPICS", "/no/such/topics.toml");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("topics.toml") && printed.contains("STRIPLINE_TOPICS"), "{printed}");
}

#[test]
fn what_is_wrong_in_the_environment_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let topics = folder.path().join("topics.toml");
    std::fs::write(&topics, "[topic.iq]\ndepht = 4\n\n[topic.levels]\noverflow = 'explode'\n").unwrap();
    let topics = topics.to_str().unwrap();
    let findings =
        ["topics.toml:2:1", "topics.toml:5:12", "did you mean `depth`?", "STRIPLINE_TOPICS names this"];
    let domain = ["STRIPLINE_DOMAIN: `` is not a valid domain", "or unset STRIPLINE_DOMAIN"];
    for arguments in [&["services"][..], &["call", "a", "b"], &["echo", "--topic", "iq"]] {
        for (variable, value, words) in
            [("STRIPLINE_TOPICS", topics, &findings[..]), ("STRIPLINE_DOMAIN", "", &domain)]
        {
            let output = common::stripline().args(arguments).env(variable, value).output().unwrap();
            let printed = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
            for word in words {
                assert!(printed.contains(word), "{arguments:?}: no `{word}` in\n{printed}");
            }
        }
    }
}
