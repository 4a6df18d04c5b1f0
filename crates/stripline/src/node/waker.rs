//! Wakers, with which another thread ends a wait of a port.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::link::{Incoming, Outgoing};
use crate::packet::payload::Content;
use crate::transport::{Attention, Interrupt};

use super::{Holding, Publisher, Subscriber, Windowed};

/// A handle with which any thread ends a wait of a port, a client or a server.
///
/// [`Waker::wake`] makes one call that may wait return
/// [`Error::Interrupted`](crate::Error::Interrupted): the call that waits now, or else the next
/// one, even if it would not have to wait. So a thread that always finds a packet or room is woken
/// as well. Several wakes before that call count as one. Calls that never wait (`try_receive`,
/// `try_send`, `try_loan`) leave the wake to the next call that may wait.
///
/// Nothing is lost: packets stay in their queue, a send is either made or not made
/// ([`Error::Interrupted`](crate::Error::Interrupted) states which), and the call can be repeated.
/// The rules for each call are in the [guide].
///
/// A waker outlives its port, and then does nothing. A waker also does nothing in the child of a
/// fork.
///
/// # Signal handlers
/// [`Waker::wake`] is async-signal-safe: it consists of atomic operations and a `write` to an
/// eventfd or a `futex` wake. The call waits for no lock, does not allocate, and does not change
/// `errno`. Cloning and dropping a waker is not async-signal-safe: keep a waker in a static for the
/// handler.
///
/// ```
/// use stripline::Error;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut subscriber = node.subscriber::<f32>("levels")?;
/// let waker = subscriber.waker()?;
/// let other = std::thread::spawn(move || waker.wake());
/// assert!(matches!(subscriber.receive(), Err(Error::Interrupted { sent: false, .. })));
/// # other.join().expect("no panic");
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// [guide]: https://docs.rs/crate/stripline/latest/source/docs/guide.md
#[derive(Clone)]
pub struct Waker {
    interrupt: Arc<Interrupt>,
    /// Makes the port leave the fast path.
    attention: Arc<dyn Attention>,
}

impl Waker {
    /// Returns the waker of a port that does not wait.
    pub(crate) fn new((interrupt, attention): (Arc<Interrupt>, Arc<dyn Attention>)) -> Result<Self> {
        interrupt.enable()?;
        Ok(Self { interrupt, attention })
    }

    fn of_incoming(incoming: &Incoming) -> Result<Self> {
        incoming.check_own()?;
        Self::new(incoming.interrupt())
    }

    fn of_outgoing(outgoing: &Outgoing) -> Result<Self> {
        outgoing.check_own()?;
        Self::new(outgoing.interrupt())
    }

    /// Ends one wait of the port: the current wait, or else the next. Does not block.
    ///
    /// ```
    /// use stripline::Error;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let waker = publisher.waker()?;
    /// waker.wake();
    /// waker.wake();
    /// assert!(matches!(publisher.send(&[0.5]), Err(Error::Interrupted { sent: false, .. })));
    /// publisher.send(&[0.5])?;
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn wake(&self) {
        self.interrupt.request(|| self.attention.request_attention());
    }
}

/// A port that reads the interrupt before each wait.
pub(crate) struct NoAttention;

impl Attention for NoAttention {
    fn request_attention(&self) {}
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("is_pending", &self.interrupt.is_pending()).finish_non_exhaustive()
    }
}

impl<T: Content> Publisher<T> {
    /// Returns a handle with which other threads end a wait of this publisher: in a send or loan,
    /// including the wait for acknowledgements, in [`Publisher::wait_for_receivers`] and in
    /// [`Publisher::end`].
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) when the process has no descriptor left, which only
    /// the first waker needs. [`Error::Forked`](crate::Error::Forked).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let waker = publisher.waker()?;
    /// std::thread::spawn(move || waker.wake());
    /// assert!(publisher.wait_for_receivers(1, Duration::MAX).is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&mut self) -> Result<Waker> {
        Waker::of_outgoing(self.link())
    }

    /// Ends the stream as [`Publisher::finish_within`] does, but keeps the publisher, for a
    /// publisher with a waker. After [`Error::Interrupted`](crate::Error::Interrupted), the end is
    /// continued by another call, or when the publisher is dropped. Blocks no longer than
    /// `timeout`.
    ///
    /// # Errors
    /// Same as [`Publisher::finish_within`]. After the end, sends fail with
    /// [`Error::Port`](crate::Error::Port).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u8>("bytes")?;
    /// # let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// while let Err(error) = publisher.end(Duration::from_secs(1)) {
    ///     assert!(matches!(error, stripline::Error::Interrupted { .. }), "{error}");
    /// }
    /// assert!(subscriber.receive()?.is_none());
    /// assert!(publisher.send(b"more").is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn end(&mut self, timeout: Duration) -> Result<()> {
        self.link().finish(super::publisher::finish_wait(timeout))
    }
}

impl<T: Content> Subscriber<T> {
    /// Returns a handle with which other threads end a wait of this subscriber, in all calls and in
    /// [`wait_any`](super::wait_any).
    ///
    /// # Errors
    /// Same as [`Publisher::waker`].
    pub fn waker(&mut self) -> Result<Waker> {
        Waker::of_incoming(&self.incoming)
    }
}

impl<T: Content> Holding<T> {
    /// Returns a handle with which other threads end a wait of this subscriber.
    ///
    /// # Errors
    /// Same as [`Publisher::waker`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?.holding(2)?;
    /// levels.waker()?.wake();
    /// assert!(levels.receive().is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&mut self) -> Result<Waker> {
        Waker::of_incoming(&self.for_wait().incoming)
    }
}

impl<T: Content> Windowed<T> {
    /// Returns a handle with which other threads end a wait for a window, even if the samples of
    /// the next window have arrived. These samples stay.
    ///
    /// # Errors
    /// Same as [`Publisher::waker`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?.windowed();
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.send(&[1.0, 2.0])?;
    /// assert_eq!(*levels.window(1)?.expect("a sample"), [1.0]);
    /// levels.waker()?.wake();
    /// assert!(levels.window(1).is_err());
    /// assert_eq!(*levels.window(1)?.expect("a sample"), [2.0]);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&mut self) -> Result<Waker> {
        Waker::of_incoming(self.incoming())
    }
}
