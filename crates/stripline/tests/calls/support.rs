//! What the rules have in common.

use std::time::Duration;

use stripline::call::{Client, ClientOptions, Payload, Server, ServerOptions, Service, ServiceClient};
use stripline::node::{Dispatch, Node};

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

pub fn over(transport: &str) -> ServerOptions {
    ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() }
}

pub fn patient() -> ClientOptions {
    ClientOptions { deadline: LONG, ..ClientOptions::default() }
}

/// Runs `test` with a client while a server serves in a thread of its own.
pub fn with_server(
    transport: &str,
    service: Service<'_>,
    dispatch: Dispatch,
    test: impl FnOnce(&Node, ServiceClient),
) {
    let node = Node::isolated().unwrap();
    let name = service.name().to_string();
    let mut server = node.service(service, over(transport)).unwrap();
    let client = node.service_client(&name, patient()).unwrap();
    serving(&node, &mut server, dispatch, || test(&node, client));
}

/// Runs `test` while the server serves in a thread of its own; stops the node then.
pub fn serving(node: &Node, server: &mut Server<'_>, dispatch: Dispatch, test: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(dispatch).unwrap());
        let stop = Stop(node);
        test();
        drop(stop);
    });
}

/// Stops a node also when a test fails, lest its server serve for ever.
pub struct Stop<'a>(pub &'a Node);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub fn operation<Req: Payload, Rep: Payload>(client: &ServiceClient, name: &str) -> Client<Req, Rep, String> {
    client.operation(name).unwrap()
}
