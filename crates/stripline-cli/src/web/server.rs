//! The server: one thread for each client, and no more clients than a limit.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::access::Admission;
use super::request::{Request, RequestError};
use super::response::Response;
use super::routes::{Site, is_file};

/// Clients at a time.
pub(super) const CLIENTS_MAX: usize = 64;
/// What the kernel keeps for a client that does not read, in bytes.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// How often the server checks for Ctrl-C.
const POLL_TIME: Duration = Duration::from_millis(100);
/// How long a newcomer waits for the place of a client that was closed for it.
const PLACE_TIME: Duration = Duration::from_millis(500);
/// How long the end waits for the threads of its clients.
const END_TIME: Duration = Duration::from_secs(5);
/// The stack of a client's thread: the deepest thing that it does is to write a flat document.
const STACK_BYTES: usize = 1 << 20;

/// The clients that are connected.
#[derive(Default)]
struct ClientTable {
    entries: Mutex<Vec<ClientEntry>>,
    changed: Condvar,
}

struct ClientEntry {
    number: u64,
    /// Closes the connection from another thread.
    stream: TcpStream,
    /// Whether it has shown no token yet.
    is_unknown: bool,
}

/// Serves until `is_over`.
pub(super) fn serve(listener: &TcpListener, site: &Arc<Site>, is_over: impl Fn() -> bool) {
    let table = Arc::new(ClientTable::default());
    for number in 0.. {
        let Some(stream) = accept(listener, &is_over) else { break };
        let place = stream.try_clone().map(|stream| ClientEntry { number, stream, is_unknown: true });
        let Ok(entry) = place else { continue };
        if !table.add(entry) {
            refuse(&stream);
            continue;
        }
        let (site, its) = (Arc::clone(site), Arc::clone(&table));
        let serve = move || {
            // The place is given back also after a panic.
            let place = PlaceGuard { table: its, number };
            serve_one(stream, &site, &place);
        };
        let thread = std::thread::Builder::new().name("stripline-web".into()).stack_size(STACK_BYTES);
        if thread.spawn(serve).is_err() {
            table.remove(number);
        }
    }
    site.stop();
    table.close_all();
}

/// Returns the next client; `None`: the server ends.
fn accept(listener: &TcpListener, is_over: &impl Fn() -> bool) -> Option<TcpStream> {
    while !is_over() {
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        let time = Timespec::try_from(POLL_TIME).ok();
        // An error is a signal, and a signal may be the end.
        if rustix::event::poll(&mut polled, time.as_ref()).is_ok_and(|ready| ready > 0) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if prepare(&stream).is_ok() {
                        return Some(stream);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // No descriptors are left: the client goes on waiting.
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
    None
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    // The listener alone does not block.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER_BYTES)?;
    Ok(())
}

/// Sends a newcomer away, without a wait for it.
fn refuse(mut stream: &TcpStream) {
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n",
    );
    let _ = stream.shutdown(Shutdown::Write);
}

fn serve_one(mut stream: TcpStream, site: &Site, place: &PlaceGuard) {
    let request = match Request::read(&mut stream) {
        Ok(request) => request,
        Err(RequestError::Gone) => return,
        Err(RequestError::Refused(status, why)) => {
            let _ = Response::error(status, why).send(&stream);
            return;
        }
    };
    // A client that does not read the response has gone, or is closed: nothing is left to do.
    let _ = match site.access.check(&request, is_file(&request)) {
        Admission::Refused(why) => Response::error(403, why).send(&stream),
        Admission::File => site.answer(&request, &stream),
        Admission::Served => {
            place.table.know(place.number);
            site.answer(&request, &stream)
        }
    };
}

/// The place of a client in the table, until it is dropped.
struct PlaceGuard {
    table: Arc<ClientTable>,
    number: u64,
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        self.table.remove(self.number);
    }
}

impl ClientTable {
    /// Adds a client. If all places are taken, the oldest one without a token is closed for it.
    /// False: all have shown the token.
    fn add(&self, entry: ClientEntry) -> bool {
        let mut entries = self.lock();
        let deadline = Instant::now() + PLACE_TIME;
        while entries.len() >= CLIENTS_MAX {
            let unknown = entries.iter().find(|entry| entry.is_unknown);
            let rest = deadline.saturating_duration_since(Instant::now());
            let Some(oldest) = unknown.filter(|_| !rest.is_zero()) else { return false };
            // Its thread then ends, and removes it.
            let _ = oldest.stream.shutdown(Shutdown::Both);
            let waited = self.changed.wait_timeout(entries, rest);
            entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        entries.push(entry);
        true
    }

    /// Records that a client has shown the token.
    fn know(&self, number: u64) {
        self.lock().iter_mut().filter(|entry| entry.number == number).for_each(|it| it.is_unknown = false);
    }

    fn remove(&self, number: u64) {
        self.lock().retain(|entry| entry.number != number);
        self.changed.notify_all();
    }

    /// Closes all clients, and waits for their threads.
    fn close_all(&self) {
        let mut entries = self.lock();
        for entry in &*entries {
            let _ = entry.stream.shutdown(Shutdown::Both);
        }
        let deadline = Instant::now() + END_TIME;
        while !entries.is_empty() {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(entries, rest);
            entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClientEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
