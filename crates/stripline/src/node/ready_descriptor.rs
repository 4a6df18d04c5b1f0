//! A descriptor with which a program waits for a port in its own loop: by `poll`, epoll or a
//! toolkit.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use crate::sys::ready_set::ReadySet;

/// A descriptor that becomes readable when the program must call the receiver again
/// ([`Waitable::arm`](super::Waitable::arm)). The descriptor is level-triggered, and stays the same
/// when the connections of the receiver change. The program never reads from it.
///
/// Any number of loops on any threads may wait for the descriptor. The descriptor may outlive the
/// receiver, but has no meaning then. In the child of a fork it is an empty file.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use stripline::node::{Node, Waitable};
///
/// let node = Node::isolated()?;
/// let mut levels = node.subscriber::<f32>("levels")?;
/// let descriptor = levels.ready_descriptor()?;
/// assert_eq!(descriptor.as_raw_fd(), levels.ready_descriptor()?.as_raw_fd());
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadyDescriptor(Arc<ReadySet>);

impl ReadyDescriptor {
    pub(crate) fn new(set: Arc<ReadySet>) -> Self {
        Self(set)
    }
}

impl AsFd for ReadyDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for ReadyDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
