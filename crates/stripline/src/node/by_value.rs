//! Publishers and subscribers of a sample type that is defined at run time.

use crate::error::Result;
use crate::packet::payload::{Dynamic, SampleType};

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
}
