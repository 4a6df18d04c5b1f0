//! Helpers of the rules.

use std::time::Duration;

use stripline::call::{Client, ClientOptions, Payload, Server, ServerOptions, Service, ServiceClient};
use stripline::node::{Dispatch, Node};

/// A time longer than any step here takes.
pub const LONG: Duration = Duration::from_secs(120);

pub fn over(transport: &str) -> ServerOptions {
    ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() }
}

pub fn patient() -> ClientOptions {
    ClientOptions { deadline: LONG, ..ClientOptions::default() }
}

/// Runs `test` with a client while a server serves on a separate thread.
pub fn with_server(
    transport: &str,
    service: Service<'_>,
    dispatch: Dispatch,
    test: impl FnOnce(&Node, ServiceClient),
) {
    let node = Node::isolated().unwrap();
    let name = service.name().to_string();
    let mut server = node.service_server(service, over(transport)).unwrap();
    let client = node.service_client(&name, patient()).unwrap();
    serving(&node, &mut server, dispatch, || test(&node, client));
}

/// Runs `test` while the server serves on a separate thread, and then stops the node.
pub fn serving(node: &Node, server: &mut Server<'_>, dispatch: Dispatch, test: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(dispatch).unwrap());
        let stop = Stop(node);
        test();
        drop(stop);
    });
}

/// A guard that stops a node even if the test fails, so that the server ends.
pub struct Stop<'a>(pub &'a Node);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub fn operation<Req: Payload, Rep: Payload>(client: &ServiceClient, name: &str) -> Client<Req, Rep, String> {
    client.operation(name).unwrap()
}

/// A gate at which handlers wait until the gate is opened. Once opened, the gate stays open.
#[derive(Default)]
pub struct Gate {
    is_open: std::sync::Mutex<bool>,
    opened: std::sync::Condvar,
}

impl Gate {
    pub fn pass(&self) {
        let open = self.is_open.lock().unwrap();
        // The wait is bounded, because a failing test must end.
        drop(self.opened.wait_timeout_while(open, LONG, |open| !*open).unwrap());
    }

    pub fn is_open(&self) -> bool {
        *self.is_open.lock().unwrap()
    }

    pub fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Waits for a condition that must become true.
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + LONG;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}: it did not come");
        std::thread::yield_now();
    }
}

/// Returns a domain that no other test uses.
pub fn domain() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static DOMAINS: AtomicU32 = AtomicU32::new(0);
    format!("calls-{}-{}", std::process::id(), DOMAINS.fetch_add(1, Ordering::Relaxed))
}

/// Creates two nodes of one domain in this process.
pub fn two_nodes() -> (Node, Node) {
    let domain = domain();
    let join = || Node::join(&domain, stripline::node::Topics::default()).unwrap();
    (join(), join())
}

pub fn named(transport: &str, name: &str) -> ServerOptions {
    ServerOptions { name: Some(name.into()), ..over(transport) }
}
