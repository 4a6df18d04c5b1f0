//! What a launcher answers whoever asks: one thread that listens, and one for each who has come.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wire;
use super::{Operation, Reply};
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::names;
use crate::sys::socket::{Listener, Socket, Visitor};

/// Launchers' abstract names begin with this.
pub(super) const NAME_PREFIX: &str = "stripline-run-";
/// How long the request may take to come, and the answer to go.
const TALK_TIME: Duration = Duration::from_secs(5);
/// The most who are served at a time.
const VISITORS_MAX: usize = 64;

/// What is behind the service: whatever serves it, and over whatever it is reached.
pub(crate) trait Operations: Send + Sync + 'static {
    /// Does what is asked, and answers within the time that the request gives.
    fn call(&self, operation: Operation) -> Reply;
}

/// The listening thread and its name; nobody is let in any more once this is dropped, and whoever has an answer
/// coming has a moment to take it.
pub(crate) struct Service {
    shutdown: Doorbell,
    visitors: Arc<Visitors>,
}

/// How many are being served.
#[derive(Default)]
struct Visitors {
    count: Mutex<usize>,
    left: Condvar,
}

impl Service {
    pub(crate) fn start(operations: impl Operations) -> Result<Self> {
        let listener = Listener::unix(&names::own(NAME_PREFIX)?, None)?;
        let shutdown = Doorbell::new()?;
        let visitors = Arc::new(Visitors::default());
        let (bell, theirs) = (shutdown.clone(), Arc::clone(&visitors));
        std::thread::Builder::new()
            .name("stripline-ctl".into())
            .spawn(move || listen(&listener, &bell, &Arc::new(operations), &theirs))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Self { shutdown, visitors })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.ring();
        let count = self.visitors.count.lock().unwrap_or_else(PoisonError::into_inner);
        let _left = self.visitors.left.wait_timeout_while(count, Duration::from_secs(1), |count| *count > 0);
    }
}

fn listen(
    listener: &Listener,
    shutdown: &Doorbell,
    operations: &Arc<impl Operations>,
    visitors: &Arc<Visitors>,
) {
    loop {
        let mut sleep = Sleep::default();
        sleep.readable(shutdown.as_fd());
        sleep.readable(listener.as_fd());
        if sleep.until(None).is_err() || sleep.fired(0) {
            return;
        }
        match listener.accept() {
            Some(Visitor::Welcome(Socket::Unix(stream))) => {
                let Some(guest) = Guest::enter(visitors) else { continue };
                let operations = Arc::clone(operations);
                let serve = move || {
                    let _guest = guest;
                    serve(&stream, &*operations);
                };
                // Without a thread it is hung up on, and comes again.
                let _ = std::thread::Builder::new().name("stripline-ctl".into()).spawn(serve);
            }
            // Another user.
            Some(_) => {}
            // Out of descriptors, perhaps: the door may go on ringing, but need not be answered at once.
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Counts as a visitor until dropped.
struct Guest(Arc<Visitors>);

impl Guest {
    fn enter(visitors: &Arc<Visitors>) -> Option<Self> {
        let mut count = visitors.count.lock().unwrap_or_else(PoisonError::into_inner);
        if *count >= VISITORS_MAX {
            return None;
        }
        *count += 1;
        Some(Self(Arc::clone(visitors)))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.left.notify_all();
    }
}

/// One request and its answer.
fn serve(stream: &UnixStream, operations: &impl Operations) {
    let deadline = Instant::now() + TALK_TIME;
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let request = match wire::receive(stream, wire::REQUEST_MAX, Some(deadline)) {
        Ok(text) => wire::parse(&text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(error.to_string()),
        Err(_) => return,
    };
    let reply = match request {
        Ok(operation) => operations.call(operation),
        Err(deed) => Reply::Wrong(vec![format!("your `stripline` {deed}")]),
    };
    if let Ok(bytes) = wire::framed(&reply) {
        // Whoever does not take it has left.
        let _ = wire::send(stream, &bytes, Instant::now() + TALK_TIME);
    }
}
