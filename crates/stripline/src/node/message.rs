//! Messages: the check of a sent one, and the decoding of a received one.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::packet::content::sealed::SchemaOf;
use crate::packet::payload::{Cbor, Content, MessageCheck, TypeName, from_cbor};

use super::{HeldPacket, Loan, Packet, PacketView, Publisher};

impl<M: DeserializeOwned + 'static, S: SchemaOf<M>> Packet<'_, Cbor<M, S>> {
    /// Decodes the message and finishes the packet. Bytes that do not decode are refused as with
    /// [`Packet::refuse`]. Receiving continues after an error.
    ///
    /// # Errors
    /// [`Error::Decode`] for bytes that do not decode as `M`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    /// use stripline::payload::Cbor;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<Cbor<(String, u32)>>("status")?;
    /// let mut subscriber = node.subscriber::<Cbor<(String, u32)>>("status")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// assert!(matches!(subscriber.try_receive()?, Received::Empty));
    /// publisher.try_send(&("locked".into(), 3))?;
    /// let packet = subscriber.receive_timeout(Duration::from_secs(5))?.packet().expect("it was sent");
    /// assert_eq!(packet.decode()?, ("locked".into(), 3));
    /// publisher.finish()?;
    /// assert!(subscriber.receive()?.is_none());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn decode(self) -> Result<M> {
        let message = self.view().decode();
        if let Err(error) = &message {
            self.refuse(error);
        }
        message
    }
}

impl<M: DeserializeOwned + 'static, S: SchemaOf<M>> PacketView<'_, Cbor<M, S>> {
    /// Decodes the message. A handler that returns the error refuses the packet.
    ///
    /// # Errors
    /// Same as [`Packet::decode`].
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    /// use stripline::node::Dispatch;
    /// use stripline::payload::Cbor;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<Cbor<u32>>("numbers")?;
    /// let mut subscriber = node.subscriber::<Cbor<u32>>("numbers")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// (1..=10).try_for_each(|number| publisher.send(&number))?;
    /// publisher.finish()?;
    /// let sum = AtomicU32::new(0);
    /// subscriber.serve(Dispatch::pool(2)?, |packet| {
    ///     sum.fetch_add(packet.decode()?, Ordering::Relaxed);
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum.into_inner(), 55);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn decode(&self) -> Result<M> {
        decoded(self, self.connection())
    }
}

impl<M: DeserializeOwned + 'static, S: SchemaOf<M>> HeldPacket<Cbor<M, S>> {
    /// Decodes the message. The packet stays held and can be refused with [`HeldPacket::refuse`].
    ///
    /// # Errors
    /// Same as [`Packet::decode`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::Cbor;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<Cbor<String>>("words")?;
    /// let mut words = node.subscriber::<Cbor<String>>("words")?.holding(2)?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&"carrier".into())?;
    /// let word = words.receive()?.expect("a message");
    /// assert_eq!((word.decode()?.as_str(), word.len()), ("carrier", 8));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn decode(&self) -> Result<M> {
        decoded(self, self.connection())
    }
}

impl<T: Content> Publisher<T> {
    /// Makes the publisher check messages against the schema of their type, if it has one.
    #[must_use]
    pub(crate) fn checked(mut self, payload: &TypeName) -> Self {
        self.check = T::check(payload);
        self
    }

    /// Takes the check of messages away, for a binding that checks each message itself before it
    /// waits for room.
    #[doc(hidden)]
    pub fn take_check(&mut self) -> Option<Box<MessageCheck>> {
        self.check.take()
    }

    #[cold]
    pub(super) fn not_encoded(&self, problem: &str) -> Error {
        Error::InvalidArgument(format!("{}: {problem}", self.name()))
    }

    #[inline(always)]
    pub(super) fn is_checked(&self) -> bool {
        T::IS_CHECKED && self.check.is_some()
    }
}

impl<T: Content> Loan<'_, T> {
    /// Checks a message with a schema.
    #[inline(always)]
    pub(super) fn check(&self) -> Result<()> {
        match &self.publisher.check {
            Some(check) if T::IS_CHECKED => {
                let checked = check.check(bytemuck::cast_slice(self));
                checked.map_err(|problem| self.publisher.not_encoded(&problem))
            }
            _ => Ok(()),
        }
    }
}

fn decoded<M: DeserializeOwned>(bytes: &[u8], connection: &str) -> Result<M> {
    from_cbor(&mut &*bytes).map_err(|reason| Error::Decode { what: connection.into(), reason })
}
