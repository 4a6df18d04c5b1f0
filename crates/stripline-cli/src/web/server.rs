//! The server. Each client has a thread, and the number of clients is limited.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use super::access::Admission;
use super::clients::{Client, ClientKind, ClientTable};
use super::request::RequestError;
use super::response::Response;
use super::routes::{Site, is_file};
use super::stream::ClientStream;
use crate::poll::{PollFlags, wait};

/// The interval between two checks for Ctrl-C.
const POLL_TIME: Duration = Duration::from_millis(100);
/// The stack of a client's thread. The deepest calls write a document without nesting.
const STACK_BYTES: usize = 1 << 20;
/// The response to a newcomer that gets no thread.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// Serves until `is_over` returns true.
pub(super) fn serve(listener: &TcpListener, site: &Arc<Site>, is_over: impl Fn() -> bool) {
    let table = Arc::new(ClientTable::default());
    for number in 0.. {
        let Some(stream) = accept(listener, &is_over).map(Arc::new) else { break };
        let Some(client) = table.add(number, Arc::clone(&stream)) else {
            stream.send_without_wait(NO_PLACE);
            continue;
        };
        let site = Arc::clone(site);
        // The client frees the place when it is dropped, even after a panic or if no thread starts.
        let serve = move || serve_one(&client, &site);
        let thread = std::thread::Builder::new().name("stripline-web".into()).stack_size(STACK_BYTES);
        let _ = thread.spawn(serve);
    }
    site.stop();
    table.close_all();
}

/// Returns the next client. Returns `None` when the server ends.
fn accept(listener: &TcpListener, is_over: &impl Fn() -> bool) -> Option<ClientStream> {
    while !is_over() {
        // A signal ends the wait, and may end the server.
        if wait(listener, PollFlags::IN, Some(POLL_TIME)).is_ok_and(|found| !found.is_empty()) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(stream) = ClientStream::new(stream) {
                        return Some(stream);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // No descriptors are left. The client keeps waiting.
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
    None
}

fn serve_one(client: &Client, site: &Site) {
    let stream = &client.stream;
    let request = match stream.receive_request() {
        Ok(request) => request,
        Err(RequestError::Gone) => return,
        Err(RequestError::Refused(status, why)) => {
            let _ = Response::error(status, why).send(stream);
            return;
        }
    };
    // A client that does not read the response has gone or is closed. Nothing more can be done.
    let _ = match site.access.check(&request, is_file(&request)) {
        Admission::Refused(why) => Response::error(403, why).send(stream),
        Admission::File => site.answer(&request, client),
        Admission::Served => {
            client.become_one(ClientKind::WithToken).and_then(|()| site.answer(&request, client))
        }
    };
}
