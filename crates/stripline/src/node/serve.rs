//! Serves packets: runs a component's handler for each, on the threads of a dispatch.

use crate::error::{Error, Result, catch_panic};
use crate::link::FrameRef;
use crate::packet::payload::Content;
use crate::transport::Wait;

use super::{Dispatch, PacketView, Received, Subscriber, direct_dispatch, pool};

impl<T: Content> Subscriber<T> {
    /// Runs a handler for every packet until the end of stream. Returns when the last handler has
    /// returned. A handler should return quickly. The handler sends results itself or passes them
    /// on: see [`Subscriber::serve_then`].
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
    /// the component is stopped, or when a handler returns it. [`Error::InvalidArgument`] for a
    /// pool out of range; otherwise the same as `receive`. Packets that were not taken are kept:
    /// the port can be served again.
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
    /// the output. `hand_on` runs in the order of the packets with a pool of
    /// [`Completion::Resequence`](super::Completion::Resequence), and otherwise in the order in which
    /// `work` finishes.
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
        dispatch.check().map_err(Error::InvalidArgument)?;
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
