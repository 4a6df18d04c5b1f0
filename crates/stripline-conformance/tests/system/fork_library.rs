//! The functions that `fork.c` calls: a publisher and its subscriber, as a C program uses them.

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::{Error, Result};

/// A time longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Both ends of a link, and the number of packets sent.
pub struct Link {
    publisher: Publisher<u64>,
    subscriber: Subscriber<u64>,
    sent: u64,
    _node: Node,
}

impl Link {
    fn open(transport: &str) -> Result<Self> {
        stripline_middleware::register();
        let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'"))?;
        let node = Node::join(&format!("fork-c-{}-{transport}", std::process::id()), topics)?;
        let (mut publisher, subscriber) = (node.publisher("x")?, node.subscriber("x")?);
        publisher.wait_for_receivers(1, TIMEOUT)?;
        Ok(Self { publisher, subscriber, sent: 0, _node: node })
    }

    fn pass(&mut self) -> Result<bool> {
        self.sent += 1;
        self.publisher.send(&[self.sent])?;
        Ok(self.subscriber.receive()?.is_some_and(|packet| *packet == [self.sent]))
    }

    fn close(self) -> Result<bool> {
        let Self { publisher, mut subscriber, .. } = self;
        publisher.finish()?;
        Ok(subscriber.receive()?.is_none() && subscriber.gap_at_end().is_none())
    }
}

fn code(outcome: Result<bool>) -> c_int {
    match outcome {
        Ok(is_right) => c_int::from(!is_right),
        Err(error) => {
            println!("{error}");
            1
        }
    }
}

/// Makes a link. If it cannot be made, returns null and prints a line on standard output.
///
/// # Safety
/// The caller must pass a `transport` that points to a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link_open(transport: *const c_char) -> *mut Link {
    // SAFETY: the caller must pass a NUL-terminated string.
    let transport = unsafe { CStr::from_ptr(transport) }.to_string_lossy();
    match Link::open(&transport) {
        Ok(link) => Box::into_raw(Box::new(link)),
        Err(error) => {
            println!("{error}");
            std::ptr::null_mut()
        }
    }
}

/// Sends a packet and receives it. Returns 0 if the received packet is the right one.
///
/// # Safety
/// The caller must pass a `link` from `link_open` that was not closed or dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link_pass(link: *mut Link) -> c_int {
    // SAFETY: the caller must pass a valid link.
    code(unsafe { &mut *link }.pass())
}

/// Returns 1 if both sending and receiving report that the link belongs to the parent.
///
/// # Safety
/// The caller must pass a `link` from `link_open` that was not closed or dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link_is_forked(link: *mut Link) -> c_int {
    // SAFETY: the caller must pass a valid link.
    let link = unsafe { &mut *link };
    let is_forked = matches!(link.publisher.send(&[0]), Err(Error::Forked { .. }))
        && matches!(link.subscriber.receive(), Err(Error::Forked { .. }));
    c_int::from(is_forked)
}

/// Ends the stream and drops the link. Returns 0 if the end came once, behind the last packet.
///
/// # Safety
/// Same as for `link_pass`. The caller must not use the link again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link_close(link: *mut Link) -> c_int {
    // SAFETY: the caller must pass a valid link and not use it again.
    code(unsafe { Box::from_raw(link) }.close())
}

/// Drops the link.
///
/// # Safety
/// Same as for `link_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link_drop(link: *mut Link) {
    // SAFETY: the caller must pass a valid link and not use it again.
    drop(unsafe { Box::from_raw(link) });
}
