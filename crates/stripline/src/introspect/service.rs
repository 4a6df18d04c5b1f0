//! The thread that answers whoever asks what this process does.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::client::{ANSWER_MAX, LINES_MAX, lines, prefix};
use super::registry;
use super::types::Process;
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::socket::{self, Listener, Socket, Visitor};
use crate::sys::{names, process};

/// Whoever has not taken the answer by then is hung up on. Askers are served one after the other, so this also bounds
/// what one that hangs costs the next.
const ANSWER_TIME: Duration = Duration::from_millis(200);

/// The thread and its socket; asked to end when dropped. It is not waited for: it may be the one that drops the last
/// port.
pub(super) struct Service {
    shutdown: Doorbell,
}

impl Service {
    pub(super) fn start() -> Result<Self> {
        let name = format!("{}{}", prefix(), names::own()?);
        let listener = Listener::unix(&name, None)?;
        let shutdown = Doorbell::new()?;
        let bell = shutdown.clone();
        std::thread::Builder::new()
            .name("stripline-ps".into())
            // The deepest thing it does is to write a flat JSON document.
            .stack_size(256 * 1024)
            .spawn(move || serve(&listener, &bell))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Self { shutdown })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.ring();
    }
}

fn serve(listener: &Listener, shutdown: &Doorbell) {
    // The thread that opened the first port may have a priority of its own; to be looked at deserves none.
    process::clear_priority();
    loop {
        let mut sleep = Sleep::default();
        sleep.readable(shutdown.as_fd());
        sleep.readable(listener.as_fd());
        if sleep.until(None).is_err() || sleep.fired(0) {
            return;
        }
        match listener.accept() {
            Some(Visitor::Welcome(socket)) => answer(&socket),
            // Another user.
            Some(Visitor::Stranger(..)) => {}
            // Out of descriptors, perhaps: the door may go on ringing, but need not be answered at once.
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn answer(socket: &Socket) {
    let text = text(registry::look());
    let deadline = Instant::now() + ANSWER_TIME;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match socket::send(socket, rest) {
            Ok(sent) => rest = &rest[sent..],
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let mut sleep = Sleep::default();
                sleep.writable(socket.as_fd());
                if !sleep.until(Some(deadline)).unwrap_or(false) {
                    return;
                }
            }
            Err(_) => return,
        }
        if Instant::now() >= deadline {
            return;
        }
    }
}

/// The document, with as many ports as the limit allows.
fn text(mut process: Process) -> String {
    loop {
        // Plain text and numbers always serialise.
        let text = serde_json::to_string(&process).unwrap_or_default();
        let ports = process.sending.len() + process.receiving.len();
        if (text.len() <= ANSWER_MAX && lines(&process) <= LINES_MAX) || ports == 0 {
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
    fn a_process_with_very_many_ports_says_how_many_it_left_out() {
        let port = SendingPort { name: "x".repeat(1000), ..SendingPort::default() };
        let process = Process { sending: vec![port; 10_000], ..Process::default() };
        let text = text(process);
        assert!(text.len() <= ANSWER_MAX);
        let back: Process = serde_json::from_str(&text).unwrap();
        assert_eq!(back.sending.len() as u64 + back.omitted, 10_000);
        assert!(!back.sending.is_empty());
    }
}
