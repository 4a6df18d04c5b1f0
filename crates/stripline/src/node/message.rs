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
    /// Makes the publisher count messages, and check them against the schema of their type, if it
    /// has one.
    #[must_use]
    pub(crate) fn checked(mut self, payload: &TypeName) -> Self {
        (self.check, self.is_message) = (T::check(payload), payload.is_message());
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
        T::MAY_BE_MESSAGES && self.check.is_some()
    }

    /// Returns the number by which the sample index of the next packet is higher.
    #[inline(always)]
    pub(super) fn counted(&self, samples: usize) -> u64 {
        if T::MAY_BE_MESSAGES && self.is_message { 1 } else { samples as u64 }
    }
}

impl<T: Content> Loan<'_, T> {
    /// Checks a message with a schema.
    #[inline(always)]
    pub(super) fn check(&self) -> Result<()> {
        match &self.publisher.check {
            Some(check) if T::MAY_BE_MESSAGES => {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::{KeptStamps, Node, Subscriber};
    use crate::packet::StreamInfo;
    use crate::packet::payload::Dynamic;

    /// Makes both ends of a topic of messages, and a message that fits.
    fn ends(node: &Node) -> (Publisher<Dynamic>, Subscriber<Dynamic>, Vec<u8>) {
        let messages = TypeName::parse("message/blob{data:bytes,n:u8}").unwrap();
        let mut publisher = node.publisher::<Dynamic>(("blobs", &messages)).unwrap();
        let subscriber = node.subscriber::<Dynamic>(("blobs", &messages)).unwrap();
        assert!(publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
        (publisher, subscriber, b"\xa2\x64data\x41x\x61n\x05".to_vec())
    }

    fn refused(outcome: Result<()>) {
        let Err(Error::InvalidArgument(problem)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(problem, "blobs: `blob.n`: a whole number from 0 to 255 must be here, not null");
    }

    #[test]
    fn a_wrong_message_is_refused_by_each_way_to_send_and_the_next_goes_on() {
        let node = Node::isolated().unwrap();
        let (mut publisher, mut subscriber, right) = ends(&node);
        let wrong = b"\xa2\x64data\x41x\x61n\xf6";
        for round in 0..100 {
            refused(publisher.send(wrong));
            refused(publisher.try_send(wrong));
            let mut loan = publisher.loan(wrong.len()).unwrap();
            loan.copy_from_slice(wrong);
            refused(loan.at_sample(7).send());
            refused(publisher.send_many(3, wrong.len(), |_, place| place.copy_from_slice(wrong)));
            publisher.send(&right).unwrap();
            publisher.send_many(2, right.len(), |_, place| place.copy_from_slice(&right)).unwrap();
            for number in 0..3 {
                let packet = subscriber.receive().unwrap().unwrap();
                assert_eq!((&*packet, packet.sequence()), (&right[..], round * 3 + number));
                // No stamp of a refused message is left over.
                assert_eq!(packet.sample_index(), packet.sequence());
            }
        }
        publisher.finish().unwrap();
        assert!(subscriber.receive().unwrap().is_none());
    }

    #[test]
    fn a_refused_message_sends_no_description() {
        let node = Node::isolated().unwrap();
        let (mut publisher, mut subscriber, right) = ends(&node);
        let mut source = node.publisher::<f32>("levels").unwrap();
        let mut levels = node.subscriber::<f32>("levels").unwrap();
        assert!(source.wait_for_receivers(1, Duration::from_secs(60)).unwrap());
        source.set_stream(StreamInfo::new("radar"));
        source.send(&[1.0]).unwrap();
        let stamps = KeptStamps::of(&levels.receive().unwrap().unwrap());
        let wrong = b"\xa2\x64data\x41x\x61n\xf6";
        refused(publisher.loan_copy_of(wrong).unwrap().send_like(&stamps));
        publisher.send(&right).unwrap();
        assert_eq!(&*subscriber.receive().unwrap().unwrap().stream().id, "blobs");
        publisher.loan_copy_of(&right).unwrap().send_like(&stamps).unwrap();
        assert_eq!(&*subscriber.receive().unwrap().unwrap().stream().id, "radar");
    }

    #[test]
    fn a_large_message_is_checked_before_its_first_fragment() {
        let node = Node::isolated().unwrap();
        let (mut publisher, mut subscriber, _) = ends(&node);
        let large = |last: &[u8]| {
            let length = 3_000_000u32;
            let head = [&b"\xa2\x64data\x5a"[..], &length.to_be_bytes()].concat();
            [&head, &vec![7; length as usize][..], b"\x61n", last].concat()
        };
        let reader = std::thread::spawn(move || {
            let packet = subscriber.receive().unwrap().unwrap();
            (packet.sequence(), packet.gap().is_none(), packet.len())
        });
        refused(publisher.send(&large(b"\xf6")));
        let right = large(b"\x05");
        publisher.send(&right).unwrap();
        assert_eq!(reader.join().unwrap(), (0, true, right.len()));
    }
}
