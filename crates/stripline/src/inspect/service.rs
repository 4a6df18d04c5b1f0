//! The thread that sends a description of this process's ports to every process that connects.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::{LINES_MAX, REPLY_MAX, lines, prefix};
use super::registry;
use super::types::Process;
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::Local;
use crate::sys::pending::oldest_of_most;
use crate::sys::runtime_folder::SocketFile;
use crate::sys::socket::{self, Accepted, Listener, Socket};
use crate::sys::{process, socket_names};

/// The time after which a client that has not read the whole view is closed.
const SEND_TIME: Duration = Duration::from_millis(200);
/// The most clients that may read slowly at the same time.
const CLIENTS_MAX: usize = 16;
/// The number of connections accepted between two views.
const BATCH: usize = 64;

/// The thread and the socket, ended when this is dropped. The thread is not joined, because it may
/// be the thread that drops the last port.
pub(super) struct InspectService {
    shutdown: Doorbell,
    /// The file is kept here and not in the thread, so that it is removed even if the process ends
    /// at once.
    file: Option<Local<SocketFile>>,
}

impl InspectService {
    pub(super) fn start() -> Result<Self> {
        let name = format!("{}{}", prefix(), socket_names::unique_suffix()?);
        let mut listener = Listener::unix(&name, None)?;
        let file = listener.take_file();
        let shutdown = Doorbell::new()?;
        let doorbell = shutdown.clone();
        std::thread::Builder::new()
            .name("stripline-links".into())
            // The deepest call in the thread writes a flat JSON document.
            .stack_size(256 * 1024)
            .spawn(move || serve(&listener, &doorbell))
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok(Self { shutdown, file })
    }
}

impl Drop for InspectService {
    fn drop(&mut self) {
        self.file = None;
        self.shutdown.notify();
    }
}

/// A client that has not read the whole view yet.
struct Inspector {
    socket: Socket,
    process: Option<u32>,
    view: Arc<str>,
    sent: usize,
    deadline: Instant,
}

fn serve(listener: &Listener, shutdown: &Doorbell) {
    // The thread that opened the first port may have set a priority. Inspection needs no priority.
    process::clear_priority();
    let mut clients: VecDeque<Inspector> = VecDeque::new();
    loop {
        let mut poll_set = PollSet::default();
        poll_set.readable(shutdown.as_fd());
        poll_set.readable(listener.as_fd());
        clients.iter().for_each(|client| poll_set.writable(client.socket.as_fd()));
        let deadline = clients.front().map(|client| client.deadline);
        if poll_set.wait(deadline).is_err() || poll_set.is_ready(0) {
            return;
        }
        let accept = poll_set.is_ready(1);
        let now = Instant::now();
        clients.retain_mut(|client| now < client.deadline && client.send_more());
        if accept {
            accept_all(listener, now, &mut clients);
        }
    }
}

/// Sends the same view to all clients that have connected.
fn accept_all(listener: &Listener, now: Instant, clients: &mut VecDeque<Inspector>) {
    let mut view = None;
    for _ in 0..BATCH {
        match listener.accept() {
            Ok(Some(Accepted::Peer(socket, process))) => {
                let view = Arc::clone(view.get_or_insert_with(|| text(registry::snapshot()).into()));
                let mut client = Inspector { socket, process, view, sent: 0, deadline: now + SEND_TIME };
                if client.send_more() {
                    clients.push_back(client);
                }
                if clients.len() > CLIENTS_MAX
                    && let Some(index) = oldest_of_most(clients.iter().map(|client| client.process))
                {
                    clients.remove(index);
                }
            }
            // The client belongs to another user.
            Ok(Some(Accepted::Rejected(..))) => {}
            Ok(None) => return,
            // No descriptors are left, so the connection keeps waiting.
            Err(_) => return std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

impl Inspector {
    /// Sends as much as the socket takes. Returns false if everything is sent or the client has
    /// hung up.
    fn send_more(&mut self) -> bool {
        while self.sent < self.view.len() {
            match socket::send(&self.socket, &self.view.as_bytes()[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// Returns the document, with as many ports as the limit allows.
fn text(mut process: Process) -> String {
    loop {
        // Plain text and numbers always serialise.
        let text = serde_json::to_string(&process).unwrap_or_default();
        let ports = process.sending.len() + process.receiving.len();
        if (text.len() <= REPLY_MAX && lines(&process) <= LINES_MAX) || ports == 0 {
            return text;
        }
        process.sending.truncate(process.sending.len() / 2);
        process.receiving.truncate(process.receiving.len() / 2);
        process.omitted += (ports - process.sending.len() - process.receiving.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::SendingPort;
    use super::*;

    #[test]
    fn a_view_of_very_many_ports_counts_those_left_out() {
        let port = SendingPort { name: "x".repeat(1000), ..SendingPort::default() };
        let process = Process { sending: vec![port; 10_000], ..Process::default() };
        let text = text(process);
        assert!(text.len() <= REPLY_MAX);
        let back: Process = serde_json::from_str(&text).unwrap();
        assert_eq!(back.sending.len() as u64 + back.omitted, 10_000);
        assert!(!back.sending.is_empty());
    }
}
