//! The connection to one client. A request, a response and an event each have one time limit for
//! all of their bytes, so that a client cannot gain time with one byte at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::request::{Request, RequestError};
use crate::poll::{PollFlags, wait};

/// The most bytes that the kernel keeps for a client that does not read.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// The time limit for a complete request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The time limit for a client to take a response or an event.
const SEND_TIME: Duration = Duration::from_secs(10);
/// The most bytes that are read and dropped after a request.
const REST_BYTES_MAX: usize = 4 << 20;

/// A client's connection, which any thread can close.
pub(super) struct ClientStream {
    stream: TcpStream,
    /// The time since which the server waits for this client without any byte moved. `None`: the
    /// server does not wait for the client.
    waits_since: Mutex<Option<Instant>>,
}

impl ClientStream {
    /// Takes over a connection. From then on, the server waits for the request.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?;
        Ok(Self { stream, waits_since: Mutex::new(Some(Instant::now())) })
    }

    /// Returns the order in which clients lose their places. The client for which the server has
    /// waited longest comes first, and clients for which the server does not wait come last.
    pub(super) fn eviction_order(&self) -> (bool, Option<Instant>) {
        let since = *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner);
        (since.is_none(), since)
    }

    /// Receives the request.
    pub(super) fn receive_request(&self) -> Result<Request, RequestError> {
        self.receive_request_until(Instant::now() + REQUEST_TIME)
    }

    /// Sends all bytes.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.or_reset(self.send_until(bytes, Instant::now() + SEND_TIME))
    }

    /// Sends all bytes, and ends the stream. Waits until the client closes the connection: if the
    /// server closed it while bytes are unread, the response would be lost.
    pub(super) fn send_last(&self, bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + SEND_TIME;
        let sent = self.send_until(bytes, deadline).and_then(|()| self.skip_rest(deadline));
        self.or_reset(sent)
    }

    /// Sends as many bytes as the kernel takes at once, and ends the stream.
    pub(super) fn send_without_wait(&self, bytes: &[u8]) {
        let _ = (&self.stream).write_all(bytes);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes the connection. A thread that waits for this client returns.
    pub(super) fn close(&self) {
        self.reset();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn receive_request_until(&self, deadline: Instant) -> Result<Request, RequestError> {
        let mut bytes = Vec::new();
        loop {
            if let Some(request) = Request::parse(&bytes)? {
                return Ok(request);
            }
            let mut piece = [0; 4096];
            match self.receive(&mut piece, deadline) {
                Ok(0) => return Err(RequestError::Gone),
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    return Err(RequestError::Refused(408, "the request is not complete in time"));
                }
                Err(_) => return Err(RequestError::Gone),
            }
        }
    }

    fn send_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.transfer(PollFlags::OUT, deadline, || (&self.stream).write(rest))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => rest = &rest[count..],
            }
        }
        Ok(())
    }

    /// Reads the remaining bytes from the client, within limits.
    fn skip_rest(&self, deadline: Instant) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let (mut piece, mut count) = ([0; 4096], 0);
        while count < REST_BYTES_MAX {
            match self.receive(&mut piece, deadline)? {
                0 => break,
                read => count += read,
            }
        }
        Ok(())
    }

    /// Receives at least one byte. Returns 0 if no bytes follow.
    fn receive(&self, piece: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.transfer(PollFlags::IN, deadline, || (&self.stream).read(piece))
    }

    /// Repeats a step until it moves bytes, or fails.
    ///
    /// # Errors
    /// `TimedOut` after the deadline.
    fn transfer(
        &self,
        ready: PollFlags,
        deadline: Instant,
        mut step: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match step() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => {
                    *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return done;
                }
            }
            let now = Instant::now();
            self.waits_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
            let remaining = deadline.saturating_duration_since(now);
            if remaining.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            // The next turn reports the outcome of the step.
            let _ = wait(&self.stream, ready, Some(remaining));
        }
    }

    fn or_reset(&self, sent: io::Result<()>) -> io::Result<()> {
        sent.inspect_err(|_| self.reset())
    }

    /// Makes the kernel drop the client's unsent bytes when the connection is closed. Otherwise the
    /// kernel would keep the bytes of each such client for minutes.
    fn reset(&self) {
        let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

#[cfg(test)]
impl ClientStream {
    /// Returns a connection and the client's end of it.
    pub(super) fn pair() -> (Self, TcpStream) {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Self::new(listener.accept().unwrap().0).unwrap(), client)
    }

    /// Sends until the server has to wait for the client.
    pub(super) fn fill(&self) {
        let error = self.send_until(&vec![0; 64 << 20], Instant::now()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_limit_for_all_of_its_bytes() {
        let (stream, mut client) = ClientStream::pair();
        // The next byte always arrives in time, so a limit for each read would never be reached.
        let sending = std::thread::spawn(move || {
            let _ = client.write_all(b"GET / HTTP/1.1\r\nA: ");
            while client.write_all(b"a").is_ok() {}
        });
        let outcome = stream.receive_request_until(Instant::now());
        // If the server never has to wait, the limit of the head is reached.
        assert!(matches!(outcome, Err(RequestError::Refused(408 | 431, _))), "{outcome:?}");
        drop(stream);
        sending.join().unwrap();
    }

    #[test]
    fn a_response_has_one_limit_for_all_of_its_bytes() {
        let (stream, mut client) = ClientStream::pair();
        let reading = std::thread::spawn(move || while client.read(&mut [0]).is_ok_and(|read| read > 0) {});
        let deadline = Instant::now() + Duration::from_millis(100);
        let sent = stream.send_until(&vec![0; 256 << 20], deadline);
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(stream);
        reading.join().unwrap();
    }

    #[test]
    fn a_client_is_waited_for_from_the_last_byte_that_moved() {
        let waits_since = |stream: &ClientStream| stream.eviction_order().1;
        let (stream, mut client) = ClientStream::pair();
        assert!(waits_since(&stream).is_some());
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.receive_request().unwrap();
        assert_eq!(waits_since(&stream), None);
        stream.send(b"event").unwrap();
        assert_eq!(waits_since(&stream), None);
        stream.fill();
        let full = waits_since(&stream).unwrap();
        stream.fill();
        assert_eq!(waits_since(&stream), Some(full));
        while waits_since(&stream) == Some(full) {
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            stream.fill();
        }
        assert!(waits_since(&stream) > Some(full));
    }
}
