//! The dispatch of packets to a component's handler.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, catch_panic};
use crate::link::FrameRef;
use crate::packet::payload::Content;
use crate::transport::Wait;

use super::{PacketView, Received, Subscriber, direct_dispatch, pool};

/// The threads that run a handler ([`Subscriber::serve`]).
///
/// ```
/// use stripline::node::{Completion, Dispatch};
///
/// assert_eq!("pool(4)".parse(), Ok(Dispatch::Pool { threads: 4, order: Completion::Any }));
/// assert_eq!("pool(4, resequence)".parse(), Ok(Dispatch::pool(4)?.in_order()));
/// assert_eq!(Dispatch::default().to_string(), "queue");
/// let error = "pool(0)".parse::<Dispatch>().unwrap_err();
/// assert_eq!(error, "a pool of 0 threads; it must have from 1 to 256");
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Dispatch {
    /// The component's own thread takes packets from the port's queue.
    #[default]
    Queue,
    /// The thread that receives: the component's own thread, or a middleware's thread that calls
    /// back. The handler never runs twice at once.
    Direct,
    /// Several threads at once.
    Pool {
        /// The number of threads: 1 to [`Dispatch::THREADS_MAX`].
        threads: usize,
        /// The order in which the results are passed on.
        order: Completion,
    },
}

/// The order in which a pool passes on results.
///
/// ```
/// use stripline::node::{Completion, Dispatch};
///
/// let pool = Dispatch::pool(2)?.in_order();
/// assert!(matches!(pool, Dispatch::Pool { order: Completion::Resequence, .. }));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// In the order in which the handlers finish.
    #[default]
    Any,
    /// In the order of the packets. A thread that finishes early waits for those before it.
    Resequence,
}

impl Dispatch {
    /// The most threads of a pool.
    pub const THREADS_MAX: usize = 256;

    /// Returns a pool that passes on results as they are finished.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::node::Dispatch;
    ///
    /// assert_eq!(Dispatch::pool(8)?.to_string(), "pool(8)");
    /// assert!(Dispatch::pool(Dispatch::THREADS_MAX + 1).is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn pool(threads: usize) -> Result<Self> {
        let pool = Self::Pool { threads, order: Completion::Any };
        pool.check().map(|()| pool).map_err(Error::failed)
    }

    /// Returns the same pool, but passing results on in the order of the packets. Other kinds of
    /// dispatch are unchanged.
    #[must_use]
    pub fn in_order(self) -> Self {
        match self {
            Self::Pool { threads, .. } => Self::Pool { threads, order: Completion::Resequence },
            Self::Queue | Self::Direct => self,
        }
    }

    /// Checks the number of threads.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::node::{Completion, Dispatch};
    ///
    /// assert!(Dispatch::Pool { threads: 0, order: Completion::Any }.check().is_err());
    /// ```
    pub fn check(self) -> Result<(), String> {
        match self {
            Self::Pool { threads, .. } if !(1..=Self::THREADS_MAX).contains(&threads) => {
                Err(format!("a pool of {threads} threads; it must have from 1 to {}", Self::THREADS_MAX))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("queue"),
            Self::Direct => f.write_str("direct"),
            Self::Pool { threads, order: Completion::Any } => write!(f, "pool({threads})"),
            Self::Pool { threads, order: Completion::Resequence } => write!(f, "pool({threads}, resequence)"),
        }
    }
}

impl FromStr for Dispatch {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "queue" => return Ok(Self::Queue),
            "direct" => return Ok(Self::Direct),
            _ => {}
        }
        let unknown = || {
            let text: String = text.chars().take(40).collect();
            format!("`{text}` is no dispatch; use one of queue, direct, pool(N), pool(N, resequence)")
        };
        let inside =
            text.strip_prefix("pool(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(unknown)?;
        let (threads, order) = match inside.split_once(',') {
            None => (inside, Completion::Any),
            Some((threads, order)) if order.trim() == "resequence" => (threads, Completion::Resequence),
            Some(_) => return Err(unknown()),
        };
        let pool = Self::Pool { threads: threads.trim().parse().map_err(|_| unknown())?, order };
        pool.check().map(|()| pool)
    }
}

impl TryFrom<String> for Dispatch {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Dispatch> for String {
    fn from(dispatch: Dispatch) -> Self {
        dispatch.to_string()
    }
}

impl<T: Content> Subscriber<T> {
    /// Runs a handler for every packet until the end of stream. Returns when the last handler has
    /// returned. A handler should return quickly. It sends results itself or passes them on: see
    /// [`Subscriber::serve_then`].
    ///
    /// With [`Dispatch::Queue`], the handler runs on this thread, packet by packet and in place.
    /// [`Dispatch::Direct`] does the same, except that a middleware that calls back runs the
    /// handler on the calling thread.
    ///
    /// With a pool, the handler runs on several threads at once. Each thread copies its packet into
    /// reused memory. A busy pool takes no packets beyond these copies, so the port's queue fills
    /// up and its policy applies. An idle pool sleeps, regardless of the port's wait strategy. A
    /// packet that is sent like a packet of a pool carries the order of that packet, for a
    /// [`Subscriber::resequenced`] downstream.
    ///
    /// # Errors
    /// [`Error::Handler`] when a handler fails or panics; it names the first handler that failed.
    /// Handlers on other threads finish, and no further packet is taken. [`Error::Stopped`] when
    /// the component is stopped, or when a handler returns it. [`Error::Failed`] for a pool out of
    /// range; otherwise the same as `receive`. Packets that were not taken are kept: the port can
    /// be served again.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::time::Duration;
    /// use stripline::node::{Dispatch, Node};
    ///
    /// let node = Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let mut subscriber = node.subscriber::<f32>("levels")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// (0..10).try_for_each(|packet| publisher.send(&[packet as f32; 100]))?;
    /// publisher.finish()?;
    ///
    /// let samples = AtomicUsize::new(0);
    /// subscriber.serve(Dispatch::pool(4)?, |packet| {
    ///     samples.fetch_add(packet.len(), Ordering::Relaxed);
    ///     Ok(())
    /// })?;
    /// assert_eq!(samples.into_inner(), 1000);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn serve(
        &mut self,
        dispatch: Dispatch,
        handler: impl Fn(PacketView<'_, T>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.serve_then(dispatch, handler, |_, ()| Ok(()))
    }

    /// Serves like [`Subscriber::serve`], with a handler in two parts. `work` may run on several
    /// threads at once. `hand_on` gets the result and runs for one packet at a time, so it can own
    /// the output. It runs in the order of the packets with a pool of [`Completion::Resequence`],
    /// and otherwise in the order in which `work` finishes.
    ///
    /// # Errors
    /// Same as [`Subscriber::serve`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::node::{Dispatch, Node, PacketView};
    ///
    /// let node = Node::isolated()?;
    /// let mut publisher = node.publisher::<u32>("numbers")?;
    /// let mut subscriber = node.subscriber::<u32>("numbers")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// (0..10).try_for_each(|number| publisher.send(&[number]))?;
    /// publisher.finish()?;
    ///
    /// let mut squares = Vec::new();
    /// let square = |packet: PacketView<'_, u32>| Ok(packet[0] * packet[0]);
    /// subscriber.serve_then(Dispatch::pool(4)?.in_order(), square, |_, square| {
    ///     squares.push(square);
    ///     Ok(())
    /// })?;
    /// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn serve_then<R>(
        &mut self,
        dispatch: Dispatch,
        work: impl Fn(PacketView<'_, T>) -> Result<R> + Sync,
        mut hand_on: impl FnMut(PacketView<'_, T>, R) -> Result<()> + Send,
    ) -> Result<()> {
        dispatch.check().map_err(Error::failed)?;
        match dispatch {
            Dispatch::Queue | Dispatch::Direct => {
                let mut handler = |packet: PacketView<'_, T>| hand_on(packet, work(packet)?);
                while !(dispatch == Dispatch::Direct && self.incoming.is_called_back()) {
                    if serve_one(self, Wait::FOREVER, &mut handler)?.packet().is_none() {
                        return Ok(());
                    }
                }
                direct_dispatch::run(self, handler)
            }
            Dispatch::Pool { threads, order } => pool::run(self, threads, order, &work, hand_on),
        }
    }
}

/// Runs a handler for the next packet, in place.
pub(super) fn serve_one<T: Content>(
    subscriber: &mut Subscriber<T>,
    wait: Wait,
    handler: &mut impl FnMut(PacketView<'_, T>) -> Result<()>,
) -> Result<Received<FrameRef>> {
    let found = subscriber.take(|| wait)?;
    if let Received::Packet(_) = found {
        let packet = subscriber.view();
        let outcome = catch_panic(|| handler(packet));
        let failed = outcome.as_ref().err().filter(|error| !matches!(error, Error::Stopped));
        let told = failed.map(ToString::to_string);
        let outcome = outcome.map_err(|error| failure(subscriber.name(), packet, error));
        told.into_iter().for_each(|reason| subscriber.incoming.refuse(|| reason));
        subscriber.incoming.release();
        outcome?;
    }
    Ok(found)
}

/// Wraps an error of a handler. [`Error::Stopped`] is passed through: the handler did not fail.
pub(super) fn failure<T: Content>(port: &str, packet: PacketView<'_, T>, error: Error) -> Error {
    match error {
        Error::Stopped => Error::Stopped,
        error => Error::Handler {
            port: port.into(),
            connection: packet.connection().into(),
            packet: packet.sequence(),
            source: Box::new(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dispatch_is_read_back_and_nothing_else() {
        let pool = |threads, order| Dispatch::Pool { threads, order };
        for (text, dispatch) in [
            ("queue", Dispatch::Queue),
            ("direct", Dispatch::Direct),
            ("pool(1)", pool(1, Completion::Any)),
            ("pool(256, resequence)", pool(256, Completion::Resequence)),
        ] {
            assert_eq!(text.parse(), Ok(dispatch));
            assert_eq!(dispatch.to_string(), text);
            let json = serde_json::to_string(&dispatch).unwrap();
            assert_eq!(serde_json::from_str::<Dispatch>(&json).unwrap(), dispatch);
        }
        assert_eq!("pool( 3 ,resequence )".parse(), Ok(pool(3, Completion::Resequence)));
        for (text, says) in [
            ("pool(0)", "a pool of 0 threads; it must have from 1 to 256"),
            ("pool(257)", "a pool of 257 threads"),
            ("pool", "`pool` is no dispatch; use one of queue, direct, pool(N), pool(N, resequence)"),
            ("pool()", "is no dispatch"),
            ("pool(-1)", "is no dispatch"),
            ("pool(99999999999999999999)", "is no dispatch"),
            ("pool(2, sorted)", "is no dispatch"),
            ("Queue", "is no dispatch"),
            ("", "`` is no dispatch"),
        ] {
            let error = text.parse::<Dispatch>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!("x".repeat(1000).parse::<Dispatch>().unwrap_err().len() < 200);
    }
}
