//! Calls of the end in Rust: requests, replies and errors are whole numbers.

use std::time::Duration;

use stripline::Result;
use stripline::call::{ClientOptions, Operation, Server, ServerOptions, Service, ServiceClient};
use stripline::node::Node;

use super::{Answer, Failure};
use crate::test_process::MARK;

pub fn client(node: &Node, service: &str, deadline: Duration) -> Result<ServiceClient> {
    node.service_client(service, ClientOptions { deadline, ..ClientOptions::default() })
}

/// Makes a call with a whole number, or with a text.
pub fn call(client: &ServiceClient, operation: &str, argument: u64, is_text: bool) -> Answer {
    let outcome = if is_text {
        client.operation::<String, u64, u64>(operation)?.call(&argument.to_string())
    } else {
        client.operation::<u64, u64, u64>(operation)?.call(&argument)
    };
    match outcome {
        Ok(reply) => Ok(format!("ok {reply}")),
        Err(stripline::call::CallError::User(value)) => Ok(format!("error user-error {value}")),
        Err(error) => Err(Failure::new(error.code(), &error)),
    }
}

pub fn server(node: &Node, service: &str) -> Result<Server<'static>> {
    let refuse = Operation::of::<u64, u64, u64>("refuse")?;
    let service = Service::new(service)?
        .operation("double", |number: u64| Ok::<u64, u64>(2 * number))?
        .operation("fail", Err::<u64, u64>)?
        .operation_of(refuse, |_, responder| responder.refuse("the antenna is not plugged in"))?
        .operation("throw", |_: u64| -> Result<u64, u64> { panic!("the antenna has fallen over") })?
        .operation("typed", |number: u64| Ok::<u64, u64>(2 * number))?
        .operation("stick", |_: u64| -> Result<u64, u64> {
            println!("{MARK} stuck");
            loop {
                std::thread::park();
            }
        })?;
    node.service_server(service, ServerOptions::default())
}
