//! Publishers and subscribers of a type that is defined at run time.

use crate::error::{Error, Result};
use crate::packet::element::DynamicForm;
use crate::packet::payload::{Dynamic, SampleType, TypeName};

use super::{Node, Publisher, Subscriber};

impl Node {
    /// Creates a publisher of samples of that type on a topic. It is [`Node::publisher`] for a type
    /// by value: its slices are bytes, its counts and indexes those of samples.
    ///
    /// # Errors
    /// As [`Node::publisher`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::SampleType;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher_of(&SampleType::parse("s16")?, "audio")?;
    /// let mut subscriber = node.subscriber::<i16>("audio")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&[1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat())?;
    /// assert_eq!(*subscriber.receive()?.expect("a packet"), [1, 2]);
    /// let error = publisher.send(&[0; 3]).unwrap_err().to_string();
    /// assert!(error.contains("cannot send 3 bytes: its samples have 2 bytes each"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publisher_of(&self, samples: &SampleType, topic: &str) -> Result<Publisher<Dynamic>> {
        Ok(Publisher::of(self.outgoing(topic, samples.name().clone())?, None, samples.form()))
    }

    /// Creates a subscriber to samples of that type on a topic. It is [`Node::subscriber`] for a
    /// type by value. The bytes of a packet are aligned for the type.
    ///
    /// # Errors
    /// As [`Node::publisher`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::SampleType;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<i16>("audio")?;
    /// let mut windows = node.subscriber_of(&SampleType::parse("s16")?, "audio")?.windowed();
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&[1, 2, 3])?;
    /// let window = windows.window(2)?.expect("two samples");
    /// assert_eq!((window.samples(), window.len(), window.sample_index()), (2, 4, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscriber_of(&self, samples: &SampleType, topic: &str) -> Result<Subscriber<Dynamic>> {
        let incoming = self.incoming(topic, samples.name().clone(), Some(samples.size()))?;
        let subscriber = Subscriber::of(incoming, samples.form());
        Ok(subscriber.with_dispatch(self.topics().of(topic).dispatch))
    }

    /// Creates a publisher of messages of that type. It is [`Node::typed_message_publisher`] for
    /// programs that encode CBOR themselves: each packet is one message, its samples are bytes.
    /// They are not checked. `message/cbor` is the type without a schema.
    ///
    /// # Errors
    /// As [`Node::publisher`]. [`Error::Port`] for a type that is not of messages.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::TypeName;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.message_publisher_of(&TypeName::parse("message/cbor(u32)")?, "count")?;
    /// let mut subscriber = node.typed_message_subscriber::<u32>("count")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&[0x18, 0x2a])?;
    /// assert_eq!(subscriber.receive()?.map(|message| message.value), Some(42));
    /// assert!(node.message_publisher_of(&TypeName::parse("f32")?, "count").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message_publisher_of(&self, messages: &TypeName, topic: &str) -> Result<Publisher<Dynamic>> {
        check_messages(messages, topic)?;
        Ok(Publisher::of(self.outgoing(topic, messages.clone())?, None, DynamicForm::bytes()))
    }

    /// Creates a subscriber to messages of that type, as bytes of CBOR that the program decodes. A
    /// publisher of another schema is refused; one without a schema is connected.
    ///
    /// # Errors
    /// As [`Node::message_publisher_of`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::TypeName;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.typed_message_publisher::<u32>("count")?;
    /// let mut subscriber = node.message_subscriber_of(&TypeName::parse("message/cbor")?, "count")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&42)?;
    /// assert_eq!(*subscriber.receive()?.expect("a message"), [0x18, 0x2a]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message_subscriber_of(&self, messages: &TypeName, topic: &str) -> Result<Subscriber<Dynamic>> {
        check_messages(messages, topic)?;
        let subscriber = Subscriber::of(self.incoming(topic, messages.clone(), None)?, DynamicForm::bytes());
        Ok(subscriber.with_dispatch(self.topics().of(topic).dispatch))
    }
}

/// Checks that a type is one of messages.
pub(crate) fn check_messages(messages: &TypeName, topic: &str) -> Result<()> {
    if messages.is_message() {
        return Ok(());
    }
    let problem =
        format!("`{messages}` is no type of messages; use one as `message/cbor` or `message/tune{{hz:f64}}`");
    Err(Error::port(topic, problem))
}
