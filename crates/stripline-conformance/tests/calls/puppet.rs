//! Child processes of a test: this test binary, started again, as a server or a client.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use stripline::call::{ServerOptions, Service};
use stripline::node::{Dispatch, Node, Topics};

use crate::support::{LONG, operation, over, patient};
use stripline_conformance::test_process::{MARK, TestProcess};

const DOMAIN: &str = "STRIPLINE_CALLS_DOMAIN";

/// A child process with a role. A drop kills the process, and waits for its end.
pub struct Puppet(TestProcess);

impl Puppet {
    /// Starts a server of `puppet` under a name: see [`serve`].
    pub fn server(domain: &str, transport: &str, name: &str) -> Self {
        Self::start(domain, &format!("server {transport} {name}"))
    }

    /// Starts a client of `master` that starts `calls` calls of `hold` and does not wait for them.
    pub fn client(domain: &str, calls: usize) -> Self {
        Self::start(domain, &format!("client {calls}"))
    }

    fn start(domain: &str, part: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let (mut process, _) = TestProcess::start(command.env(DOMAIN, domain));
        process.order(part);
        let puppet = Self(process);
        puppet.hear("ready");
        puppet
    }

    /// Waits until the puppet has printed this word.
    pub fn hear(&self, word: &str) {
        assert_eq!(self.0.answer(LONG).unwrap(), word);
    }

    /// Kills the puppet without warning, and waits for its exit.
    pub fn kill(mut self) {
        self.0.kill();
    }

    /// Stops the puppet, and waits until it is stopped.
    pub fn freeze(&self) {
        self.0.freeze();
    }

    /// Continues the puppet.
    pub fn thaw(&self) {
        self.0.thaw();
    }
}

fn say(word: &str) {
    println!("\n{MARK}{word}");
}

/// Runs the role of a child process and does not return; returns in any other process.
pub fn play_if_asked() {
    let Some(domain) = std::env::var_os(DOMAIN) else { return };
    stripline::internal::log_to_stderr();
    let node = Node::join(domain.to_str().unwrap(), Topics::default()).unwrap();
    let mut lines = std::io::stdin().lines();
    let part = lines.next().unwrap().unwrap();
    let words: Vec<&str> = part.split(' ').collect();
    match *words {
        ["server", transport, name] => serve(&node, transport, name),
        ["client", calls] => call(&node, calls.parse().unwrap()),
        _ => panic!("{part}"),
    }
    std::process::exit(0);
}

/// Runs a server with these operations: `name` returns the server's name, `names` the number of
/// calls of `name`. During `die` the server is killed, and `hold` never returns.
fn serve(node: &Node, transport: &str, name: &str) {
    let hold = |()| -> Result<(), String> {
        say("holding");
        loop {
            std::thread::park();
        }
    };
    let die = |()| -> Result<(), String> {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, Signal::KILL).unwrap();
        loop {
            std::thread::park();
        }
    };
    let names = AtomicU32::new(0);
    let service = Service::new("puppet")
        .unwrap()
        .operation("name", |()| {
            names.fetch_add(1, Ordering::Relaxed);
            Ok::<String, String>(name.into())
        })
        .unwrap()
        .operation("names", |()| Ok::<u32, String>(names.load(Ordering::Relaxed)))
        .unwrap()
        .operation("hold", hold)
        .unwrap()
        .operation("die", die)
        .unwrap();
    let options = ServerOptions { name: Some(name.into()), ..over(transport) };
    let mut server = node.service_server(service, options).unwrap();
    say("ready");
    server.serve(Dispatch::Queue).unwrap();
}

fn call(node: &Node, calls: usize) {
    let client = node.service_client("master", patient()).unwrap();
    let hold = operation::<u32, u32>(&client, "hold");
    let pending: Vec<_> = (0..calls).map(|call| hold.start(&(call as u32)).unwrap()).collect();
    say("ready");
    loop {
        std::thread::park();
        assert_eq!(pending.len(), calls);
    }
}
