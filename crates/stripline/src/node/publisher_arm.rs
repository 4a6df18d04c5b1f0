//! Publishers in a program's own event loop.

use super::{Publisher, ReadyDescriptor};
use crate::error::Result;
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;

impl<T: Content> Publisher<T> {
    /// Returns a descriptor for `poll`, epoll or a toolkit, the same one each time. After
    /// [`Publisher::arm`] or [`Publisher::arm_for_receivers`] has returned true, it becomes
    /// readable when the publisher must be called again.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) when the process has too few descriptors left: it
    /// takes four. [`Error::Forked`](crate::Error::Forked).
    pub fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        self.link().ready_set().map(ReadyDescriptor::new)
    }

    /// Makes the descriptor readable once there may be room for a packet of `samples` samples, or
    /// an error. False: there is room or an error already, so call [`Publisher::try_loan`] or
    /// [`Publisher::try_send`] first. When the last call of either returned
    /// [`Error::Full`](crate::Error::Full), call this each time before the loop waits.
    ///
    /// This function does not block. The descriptor stays readable until the next call of this
    /// function. Any other call of the publisher may undo the preparation. A receiver that was full
    /// has room again at its low watermark.
    ///
    /// # Errors
    /// The errors that end a wait: [`Error::Stopped`](crate::Error::Stopped) when the component is
    /// stopped, and [`Error::Interrupted`](crate::Error::Interrupted) by a [`Waker`](super::Waker).
    /// A wake and a stop make the descriptor readable. [`Error::TooLarge`](crate::Error::TooLarge)
    /// above [`Publisher::in_place_samples_max`], and [`Error::Port`](crate::Error::Port) after the
    /// end of stream. Otherwise the same as [`Publisher::ready_descriptor`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::Error;
    /// use stripline::node::Node;
    ///
    /// let node = Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let mut subscriber = node.subscriber::<f32>("levels")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// let descriptor = publisher.ready_descriptor()?;
    /// let receiver = std::thread::spawn(move || {
    ///     while subscriber.receive()?.is_some() {}
    ///     Ok::<(), stripline::Error>(())
    /// });
    /// let mut sent = 0;
    /// while sent < 1000 {
    ///     match publisher.try_send(&[0.5; 100]) {
    ///         Ok(()) => sent += 1,
    ///         Err(Error::Full { .. }) => {
    ///             if publisher.arm(100)? {
    ///                 // Beside the other descriptors of the loop.
    ///                 poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it waits");
    ///             }
    ///         }
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// publisher.finish()?;
    /// receiver.join().expect("no panic")?;
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn arm(&mut self, samples: usize) -> Result<bool> {
        let bytes = samples.saturating_mul(self.form().size());
        self.link().arm_for_room(bytes)
    }

    /// Makes the descriptor readable once at least `count` receivers may be connected. False: they
    /// are connected. The call is [`Publisher::wait_for_receivers`] for your own event loop, and
    /// replaces the preparation by [`Publisher::arm`]. The call does not block.
    ///
    /// # Errors
    /// Same as [`Publisher::arm`], except for the errors about a packet.
    ///
    /// ```
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::node::Node;
    ///
    /// let node = Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let descriptor = publisher.ready_descriptor()?;
    /// let _subscriber = node.subscriber::<f32>("levels")?;
    /// while publisher.arm_for_receivers(1)? {
    ///     // Beside the other descriptors of the loop.
    ///     poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it waits");
    /// }
    /// assert_eq!(publisher.receivers(), 1);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn arm_for_receivers(&mut self, count: usize) -> Result<bool> {
        self.link().arm_for_receivers(count)
    }
}
