//! Commands and status: any serde type, as CBOR (RFC 8949), which other languages can read.

use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::packet::payload::from_cbor;

use super::{
    Dispatch, Loan, Packet, PacketView, Publisher, Received, Stamped, Subscriber, Waitable, wait::sealed,
};

/// A publisher of messages of one type.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize, PartialEq, Debug)]
/// struct Tune { frequency_hz: f64 }
///
/// let node = stripline::node::Node::isolated()?;
/// let mut commands = node.message_publisher::<Tune>("tune")?;
/// let mut receiver = node.message_subscriber::<Tune>("tune")?;
/// commands.wait_for_receivers(1, Duration::from_secs(5))?;
/// commands.send(&Tune { frequency_hz: 1090e6 })?;
/// assert_eq!(receiver.receive()?.map(|m| m.value), Some(Tune { frequency_hz: 1090e6 }));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct MessagePublisher<M> {
    pub(super) publisher: Publisher<u8>,
    of: PhantomData<fn(M)>,
}

/// A subscriber to messages of one type.
///
/// ```
/// use std::time::Duration;
/// use stripline::Received;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.message_publisher::<(String, u32)>("status")?;
/// let mut subscriber = node.message_subscriber::<(String, u32)>("status")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// assert!(matches!(subscriber.try_receive()?, Received::Empty));
/// publisher.try_send(&("locked".into(), 3))?;
/// let message = subscriber.receive_timeout(Duration::from_secs(5))?.packet().expect("it was sent");
/// assert_eq!((message.value.1, message.sequence), (3, 0));
/// publisher.finish()?;
/// assert!(subscriber.receive()?.is_none());
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct MessageSubscriber<M> {
    pub(super) subscriber: Subscriber<u8>,
    of: PhantomData<fn() -> M>,
}

/// A message and its header fields.
///
/// ```
/// let message = stripline::node::Message { value: "locked", sequence: 4, gap: None };
/// assert_eq!(message.value, "locked");
/// ```
#[derive(Clone, Debug)]
pub struct Message<M> {
    /// The message.
    pub value: M,
    /// Its number among those of its sender, from 0.
    pub sequence: u64,
    /// The gap just before it.
    pub gap: Option<crate::Gap>,
}

impl<M: Serialize> MessagePublisher<M> {
    pub(crate) fn new(publisher: Publisher<u8>) -> Self {
        Self { publisher, of: PhantomData }
    }

    /// Sends a message; blocks as [`Publisher::send`].
    ///
    /// # Errors
    /// As [`Publisher::send`]; [`Error::Failed`] when the type does not serialise.
    pub fn send(&mut self, message: &M) -> Result<()> {
        let bytes = self.encode(message)?;
        self.publisher.send(&bytes)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// As [`Publisher::try_send`]; [`Error::Failed`] when the type does not serialise.
    pub fn try_send(&mut self, message: &M) -> Result<()> {
        let bytes = self.encode(message)?;
        self.publisher.try_send(&bytes)
    }

    /// Sends a message as [`Loan::send_like`](super::Loan::send_like) sends a packet. Like a packet
    /// of a pool's handler, it carries its order.
    ///
    /// # Errors
    /// As [`MessagePublisher::send`].
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use std::time::Duration;
    /// use stripline::node::Dispatch;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut source = node.message_publisher::<String>("words")?;
    /// let mut words = node.message_subscriber::<String>("words")?;
    /// let mut output = node.message_publisher::<usize>("lengths")?;
    /// let mut lengths = node.message_subscriber::<usize>("lengths")?.resequenced(64, Duration::from_secs(5))?;
    /// source.wait_for_receivers(1, Duration::from_secs(5))?;
    /// output.wait_for_receivers(1, Duration::from_secs(5))?;
    /// for word in ["a", "carrier", "sinks"] {
    ///     source.send(&word.into())?;
    /// }
    /// source.finish()?;
    /// let exit = Mutex::new(output);
    /// words.serve(Dispatch::pool(2)?, |word, packet| {
    ///     exit.lock().expect("not poisoned").send_like(&word.value.len(), &packet)
    /// })?;
    /// for length in [1, 7, 5] {
    ///     assert_eq!(lengths.receive()?.map(|message| message.value), Some(length));
    /// }
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn send_like<P: Stamped + ?Sized>(&mut self, message: &M, packet: &P) -> Result<()> {
        self.prepare(message)?.send_like(packet)
    }

    /// Prepares a message as a packet, to be sent with a scope, a deadline or stamps of its own.
    /// Blocks as [`Publisher::loan`]. Dropping it sends nothing.
    ///
    /// # Errors
    /// As [`Publisher::loan`]; [`Error::Failed`] when the type does not serialise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::terms::Scope;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut commands = node.message_publisher::<String>("commands")?;
    /// let mut receiver = node.message_subscriber::<String>("commands")?;
    /// commands.wait_for_receivers(1, Duration::from_secs(5))?;
    /// let component = std::thread::spawn(move || receiver.receive().map(|message| message.map(|m| m.value)));
    /// // Returns when the component has the command.
    /// commands.prepare(&"start".into())?.scope(Scope::Target).deadline(Duration::from_secs(5)).send()?;
    /// assert_eq!(component.join().expect("no panic")?, Some("start".into()));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn prepare(&mut self, message: &M) -> Result<Loan<'_, u8>> {
        let bytes = self.encode(message)?;
        let mut loan = self.publisher.loan(bytes.len())?;
        loan.copy_from_slice(&bytes);
        Ok(loan)
    }

    /// Waits as [`Publisher::wait_for_receivers`].
    ///
    /// # Errors
    /// As for [`Publisher::wait_for_receivers`].
    pub fn wait_for_receivers(&mut self, count: usize, timeout: Duration) -> Result<bool> {
        self.publisher.wait_for_receivers(count, timeout)
    }

    /// Ends the stream as [`Publisher::finish`].
    ///
    /// # Errors
    /// As for [`Publisher::finish`].
    pub fn finish(self) -> Result<()> {
        self.publisher.finish()
    }

    /// Ends the stream as [`Publisher::finish_within`].
    ///
    /// # Errors
    /// As for [`Publisher::finish_within`].
    pub fn finish_within(self, timeout: Duration) -> Result<()> {
        self.publisher.finish_within(timeout)
    }

    /// Leaves without an end of stream as [`Publisher::abandon`].
    pub fn abandon(self) {
        self.publisher.abandon();
    }

    fn encode(&self, message: &M) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        ciborium::into_writer(message, &mut bytes).map_err(|e| {
            Error::failed(format!("{}: a message does not encode: {e}", self.publisher.name()))
        })?;
        Ok(bytes)
    }
}

impl<M: DeserializeOwned> MessageSubscriber<M> {
    pub(crate) fn new(subscriber: Subscriber<u8>) -> Self {
        Self { subscriber, of: PhantomData }
    }

    /// Returns the senders of its topic that it cannot be connected to: see
    /// [`Subscriber::refusals`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let _publisher = node.publisher::<f32>("status")?;
    /// let subscriber = node.message_subscriber::<String>("status")?;
    /// let [refused] = &subscriber.refusals()[..] else { panic!("one is refused") };
    /// assert_eq!((refused.sends.as_str(), refused.takes.as_str()), ("f32", "message/cbor"));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refusals(&self) -> Vec<RefusedSender> {
        self.subscriber.refusals()
    }

    /// Blocks until the next message; `None` is the end of stream.
    ///
    /// # Errors
    /// As [`Subscriber::receive`]; [`Error::Decode`] for bytes that do not decode as `M`, after
    /// which receiving continues.
    pub fn receive(&mut self) -> Result<Option<Message<M>>> {
        self.subscriber.receive()?.map(|packet| decode(packet)).transpose()
    }

    /// Returns the next message if there is one.
    ///
    /// # Errors
    /// As [`MessageSubscriber::receive`].
    pub fn try_receive(&mut self) -> Result<Received<Message<M>>> {
        received(self.subscriber.try_receive()?)
    }

    /// Blocks until the next message, but not longer than `timeout`.
    ///
    /// # Errors
    /// As [`MessageSubscriber::receive`].
    pub fn receive_timeout(&mut self, timeout: Duration) -> Result<Received<Message<M>>> {
        received(self.subscriber.receive_timeout(timeout)?)
    }

    /// Restores the sequence of messages, after a stage that forwards them as its threads finish
    /// them: as [`Subscriber::resequenced`].
    ///
    /// # Errors
    /// As for [`Subscriber::resequenced`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.message_publisher::<f64>("gain")?;
    /// let mut gains = node.message_subscriber::<f64>("gain")?.resequenced(64, Duration::from_millis(100))?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&0.5)?;
    /// assert_eq!(gains.receive()?.map(|gain| gain.value), Some(0.5));
    /// assert!(matches!(gains.try_receive()?, Received::Empty));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn resequenced(self, window: usize, skip_after: Duration) -> Result<Self> {
        Ok(Self { subscriber: self.subscriber.resequenced(window, skip_after)?, of: PhantomData })
    }

    /// Returns the configured dispatch, as [`Subscriber::dispatch`].
    ///
    /// ```
    /// use stripline::node::{Dispatch, Node};
    ///
    /// let node = Node::isolated()?;
    /// assert_eq!(node.message_subscriber::<u32>("numbers")?.dispatch(), Dispatch::Queue);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn dispatch(&self) -> Dispatch {
        self.subscriber.dispatch()
    }

    /// Runs a handler for every message, as [`Subscriber::serve`] does for packets. The handler
    /// takes the message, and its packet, which it can forward with `send_like`.
    ///
    /// # Errors
    /// As for [`Subscriber::serve`]. Bytes that do not decode as `M` are a failure of the handler
    /// of that packet ([`Error::Decode`] within [`Error::Handler`]). The next call continues after
    /// them.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// use stripline::node::Dispatch;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.message_publisher::<u32>("numbers")?;
    /// let mut subscriber = node.message_subscriber::<u32>("numbers")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// (1..=10).try_for_each(|number| publisher.send(&number))?;
    /// publisher.finish()?;
    /// let sum = AtomicU32::new(0);
    /// subscriber.serve(Dispatch::pool(2)?, |number, _packet| {
    ///     sum.fetch_add(number.value, Ordering::Relaxed);
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum.into_inner(), 55);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn serve(
        &mut self,
        dispatch: Dispatch,
        handler: impl Fn(Message<M>, PacketView<'_, u8>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.subscriber.serve(dispatch, |packet| handler(message_of(packet)?, packet))
    }

    pub(super) fn packets(&mut self) -> &mut Subscriber<u8> {
        &mut self.subscriber
    }
}

impl<M> Waitable for MessageSubscriber<M> {}

impl<M> sealed::Sealed for MessageSubscriber<M> {
    fn incoming(&mut self) -> sealed::IncomingAccess<'_> {
        self.subscriber.incoming()
    }
}

fn received<M: DeserializeOwned>(packet: Received<Packet<'_, u8>>) -> Result<Received<Message<M>>> {
    Ok(match packet {
        Received::Packet(packet) => Received::Packet(decode(packet)?),
        Received::Empty => Received::Empty,
        Received::Ended => Received::Ended,
    })
}

fn decode<M: DeserializeOwned>(packet: Packet<'_, u8>) -> Result<Message<M>> {
    let message = message_of(packet.view());
    if let Err(error) = &message {
        packet.refuse(error);
    }
    message
}

/// Decodes the message in a packet.
pub(super) fn message_of<M: DeserializeOwned>(packet: PacketView<'_, u8>) -> Result<Message<M>> {
    let value = from_cbor(&mut &packet[..])
        .map_err(|reason| Error::Decode { what: packet.connection().into(), reason })?;
    Ok(Message { value, sequence: packet.sequence(), gap: packet.gap().copied() })
}
