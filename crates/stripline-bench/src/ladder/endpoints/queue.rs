//! Bare POSIX message queues. A packet that is larger than the largest message takes several
//! messages.

use std::ffi::CString;
use std::io::Error;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::super::case::{Case, Wait};
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;

/// Returns the size of the case's messages: the size of a packet, if the system allows such
/// messages.
fn message_bytes(case: &Case) -> usize {
    case.size.min(limit("msgsize_max").unwrap_or(8192))
}

fn limit(name: &str) -> Option<usize> {
    std::fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}")).ok()?.trim().parse().ok()
}

/// Opens a new queue and removes the name at once, so that only processes that inherit the
/// descriptor can use the queue.
pub(crate) fn open(name: &str, case: &Case) -> Result<OwnedFd, Problem> {
    let text = CString::new(format!("/{name}")).map_err(|e| e.to_string())?;
    // SAFETY: all zeros are a valid `mq_attr`.
    let mut attributes: libc::mq_attr = unsafe { zeroed() };
    attributes.mq_maxmsg = limit("msg_max").unwrap_or(10) as _;
    attributes.mq_msgsize = message_bytes(case) as _;
    let flags = libc::O_RDWR
        | libc::O_CREAT
        | libc::O_EXCL
        | libc::O_CLOEXEC
        | if case.wait == Wait::Spin { libc::O_NONBLOCK } else { 0 };
    // SAFETY: the name is NUL-terminated, and the attributes outlive the call.
    let queue = unsafe { libc::mq_open(text.as_ptr(), flags, 0o600 as libc::c_uint, &raw mut attributes) };
    if queue < 0 {
        return Err(format!("POSIX queue: {}", Error::last_os_error()));
    }
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::mq_unlink(text.as_ptr()) };
    // SAFETY: the queue was just opened. On Linux a queue is an ordinary descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(queue) })
}

/// Connects one side, which sends to one queue and receives from the other. The queues stay open
/// until the process ends.
pub(crate) fn connect(case: &Case, place: u32, queues: [BorrowedFd<'_>; 2]) -> Box<dyn Side> {
    let end = |queue: BorrowedFd<'_>| QueueEnd {
        queue: queue.as_raw_fd(),
        // The size is rounded up, so that there is room for a full message at the end.
        bytes: vec![0; case.size.next_multiple_of(message_bytes(case))],
        size: case.size,
        message_bytes: message_bytes(case),
    };
    measure::side(case, place, end(queues[place as usize]), end(queues[1 - place as usize]))
}

struct QueueEnd {
    queue: libc::mqd_t,
    bytes: Vec<u8>,
    size: usize,
    message_bytes: usize,
}

/// Checks the error of a call. The call is repeated while the queue is full or empty.
fn again() -> Result<(), Problem> {
    let error = Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(()),
        _ => Err(format!("POSIX queue: {error}")),
    }
}

impl Sender for QueueEnd {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes[..self.size], word);
        for message in self.bytes[..self.size].chunks(self.message_bytes) {
            // SAFETY: the queue is open, and the pointer is valid for `message.len()` bytes.
            while unsafe { libc::mq_send(self.queue, message.as_ptr().cast(), message.len(), 0) } < 0 {
                again()?;
            }
        }
        Ok(())
    }
}

impl Receiver for QueueEnd {
    fn receive(&mut self) -> Result<u64, Problem> {
        let mut filled = 0;
        while filled < self.size {
            let place = &mut self.bytes[filled..];
            let (bytes, len) = (place.as_mut_ptr(), place.len());
            // SAFETY: the queue is open, and there is room for `len` bytes.
            let received = unsafe { libc::mq_receive(self.queue, bytes.cast(), len, std::ptr::null_mut()) };
            match usize::try_from(received) {
                Ok(received) => filled += received,
                Err(_) => again()?,
            }
        }
        measure::read(&self.bytes[..self.size])
    }
}
