//! Packets owned by the receiver: several at once, on any thread, released in any order.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::link::{FrameRef, GivenPacket, HeldSlots, OwnedPacket, PacketSource, Polled, SlotInUse};
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::packet::{Gap, Header};
use crate::terms::WaitStrategy;
use crate::transport::Wait;

use super::packet_view::described;
use super::{Received, Subscriber};

/// A [`Subscriber`] that gives its packets away. Several can be in use at once, up to the number
/// given to [`Subscriber::holding`].
pub struct Holding<T: Content> {
    subscriber: Subscriber<T>,
    slots: HeldSlots,
}

impl<T: Content> Subscriber<T> {
    /// Gives packets away instead of lending them. Up to `packets` can be in use at once. The
    /// packets can move to other threads and be dropped in any order, even after the subscriber.
    ///
    /// Over `inproc` and `shm`, a packet stays where the sender wrote it. The packet is copied if
    /// `packets` packets of this size would take more than half of the connection's `buffer`. The
    /// packet is also copied if `packets` is above the connection's low watermark, which is three
    /// quarters of `depth` by default. Packets that the sender may overwrite are always copied:
    /// under policies that drop packets, and from senders of another user. So are packets from a
    /// ring that is locked or uses huge pages, and packets that arrived in fragments. Over all
    /// other transports, a packet is copied once.
    ///
    /// Holding never stalls a sender. The room in a ring is released from the oldest packet on.
    /// Once half of the ring has been filled behind a held packet, or as many packets as the low
    /// watermark have followed it, the pages of the held packet become private. The change copies
    /// the pages once, and costs some system calls.
    ///
    /// A packet is finished when it is dropped, and at the latest when the next one is requested. A
    /// sender that waits for it ([`Scope::Target`](crate::terms::Scope::Target)) then gets the
    /// acknowledgement, although the memory of the packet stays in use.
    ///
    /// # Errors
    /// [`Error::Port`] for a number of packets outside 1 to 4096.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// let mut levels = node.subscriber::<f32>("levels")?.holding(2)?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// # for level in [1.0, 2.0, 3.0] { publisher.send(&[level])?; }
    /// # publisher.finish()?;
    /// let first = levels.receive()?.expect("a packet");
    /// let second = levels.receive()?.expect("a packet");
    /// // A third would be one too many. The error names the two, and nothing is lost.
    /// let error = levels.receive().unwrap_err();
    /// assert!(error.to_string().contains("packet 0 of"), "{error}");
    /// std::thread::spawn(move || assert_eq!(first[0], 1.0)).join().expect("it does not panic");
    /// assert_eq!(levels.receive()?.expect("a packet")[0], 3.0);
    /// drop(levels);
    /// assert_eq!(second[0], 2.0);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn holding(self, packets: usize) -> Result<Holding<T>> {
        if !(1..=HeldSlots::MAX).contains(&packets) {
            let problem =
                format!("cannot hold {packets} packets: the number must be from 1 to {}", HeldSlots::MAX);
            return Err(Error::port(self.name(), problem));
        }
        Ok(Holding { subscriber: self, slots: HeldSlots::new(packets) })
    }
}

impl<T: Content> Holding<T> {
    /// Returns the port's or topic's name.
    pub fn name(&self) -> &str {
        self.subscriber.name()
    }

    /// Returns the size of a sample in bytes.
    pub fn sample_bytes(&self) -> usize {
        self.subscriber.sample_bytes()
    }

    /// Returns the number of packets in use now.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?.holding(4)?;
    /// assert_eq!((levels.senders(), levels.held(), levels.name()), (0, 0, "levels"));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn held(&self) -> usize {
        self.slots.held()
    }

    /// Returns the wait strategy of the connections. With several connections, it is the strategy
    /// that spins most; without any, it is [`WaitStrategy::Block`]. For a program that polls before
    /// it waits.
    ///
    /// ```
    /// use stripline::terms::WaitStrategy;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let levels = node.subscriber::<f32>("levels")?.holding(4)?;
    /// assert_eq!(levels.wait_strategy(), WaitStrategy::Block);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn wait_strategy(&self) -> WaitStrategy {
        self.subscriber.incoming.wait_strategy()
    }

    /// Returns the number of senders connected now.
    pub fn senders(&mut self) -> usize {
        self.slots.finish_last(&mut self.subscriber.incoming);
        self.subscriber.senders()
    }

    /// Returns the senders of the topic that this subscriber cannot connect to: see
    /// [`Subscriber::refusals`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let _publisher = node.publisher::<i16>("levels")?;
    /// let levels = node.subscriber::<f32>("levels")?.holding(4)?;
    /// assert_eq!(levels.refusals()[0].sends, "s16");
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refusals(&self) -> Vec<RefusedSender> {
        self.subscriber.refusals()
    }

    /// Blocks until the next packet, as [`Subscriber::receive`] does; `None` is the end of stream.
    ///
    /// # Errors
    /// [`Error::TooManyHeld`], which lists the packets in use; [`Error::System`] if the pages of
    /// packets held for long cannot be copied. Receiving continues after both. Otherwise the same
    /// as [`Subscriber::receive`].
    pub fn receive(&mut self) -> Result<Option<HeldPacket<T>>> {
        Ok(self.receive_within(|| Wait::FOREVER)?.packet())
    }

    /// Returns the next packet, if one has arrived.
    ///
    /// # Errors
    /// Same as [`Holding::receive`].
    pub fn try_receive(&mut self) -> Result<Received<HeldPacket<T>>> {
        self.receive_within(|| Wait::Never)
    }

    /// Blocks until the next packet, but not longer than `timeout`.
    ///
    /// # Errors
    /// Same as [`Holding::receive`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?.holding(4)?;
    /// assert!(matches!(levels.try_receive()?, Received::Empty));
    /// assert!(matches!(levels.receive_timeout(Duration::from_millis(1))?, Received::Empty));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn receive_timeout(&mut self, timeout: Duration) -> Result<Received<HeldPacket<T>>> {
        self.receive_within(|| Wait::within(timeout))
    }

    /// Receives like [`Holding::receive`], for a component that also handles requests, as
    /// [`Subscriber::receive_with`] does.
    ///
    /// # Errors
    /// Same as [`Holding::receive`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let requests = ports.requests();
    /// let mut input = ports.input::<f32>("in")?.holding(4)?;
    /// let mut limit = 1.0;
    /// while let Some(packet) = input.receive_with(|| requests.apply_changes(|new| Ok(limit = new.float("limit"))))? {
    ///     std::thread::spawn(move || packet.iter().sum::<f32>());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn receive_with(&mut self, mut on_request: impl FnMut()) -> Result<Option<HeldPacket<T>>> {
        loop {
            on_request();
            self.prepare()?;
            let found = self.subscriber.incoming.receive_or_request()?;
            match self.give(found)? {
                Received::Empty => {}
                found => return Ok(found.packet()),
            }
        }
    }

    /// Returns the packets missing between the last received packet and the end of the stream, if
    /// any. Call it after the end of stream.
    pub fn gap_at_end(&mut self) -> Option<Gap> {
        self.subscriber.gap_at_end()
    }

    /// Returns the subscriber for a wait. The previous packet is finished and released memory is
    /// given back first.
    pub(super) fn for_wait(&mut self) -> &mut Subscriber<T> {
        self.slots.finish_last(&mut self.subscriber.incoming);
        // After an error everything is unchanged, and the next receive reports it.
        let _ = self.slots.settle(&mut self.subscriber.incoming);
        &mut self.subscriber
    }

    #[inline]
    fn receive_within(&mut self, wait: impl FnOnce() -> Wait) -> Result<Received<HeldPacket<T>>> {
        let Self { subscriber, slots } = self;
        let steady = if slots.begin_steady(&mut subscriber.incoming) {
            subscriber.incoming.receive_inlined(false)
        } else {
            None
        };
        let form = self.subscriber.form;
        let fits = match steady {
            Some(samples) => self.subscriber.incoming.taken().payload.is_of(form, samples),
            None => match self.wait_for(wait)? {
                Polled::Empty => return Ok(Received::Empty),
                Polled::Ended => return Ok(Received::Ended),
                Polled::Packet => self.subscriber.incoming.taken().payload.fits(form),
            },
        };
        // The code is inlined here because the result of a separate function would be copied.
        if fits && let Some(given) = self.slots.give_plain(&self.subscriber.incoming) {
            let GivenPacket { slot, payload } = given;
            return Ok(Received::Packet(HeldPacket { slot, payload, form }));
        }
        self.give(Polled::Packet)
    }

    /// Finishes the previous packet and waits for the next.
    #[inline(never)]
    fn wait_for(&mut self, wait: impl FnOnce() -> Wait) -> Result<Polled> {
        self.prepare()?;
        self.subscriber.incoming.receive(wait)
    }

    /// Finishes the previous packet and finds a slot for the next.
    #[inline]
    fn prepare(&mut self) -> Result<()> {
        let Self { subscriber, slots } = self;
        subscriber.incoming.check_own()?;
        slots.finish_last(&mut subscriber.incoming);
        slots.settle(&mut subscriber.incoming)?;
        slots.find_free(subscriber.name())
    }

    /// Gives away the received packet.
    #[inline(never)]
    fn give(&mut self, found: Polled) -> Result<Received<HeldPacket<T>>> {
        Ok(match self.subscriber.fitting(found)? {
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
            Received::Packet(_) => {
                let GivenPacket { slot, payload } = self.slots.give(&mut self.subscriber.incoming);
                Received::Packet(HeldPacket { slot, payload, form: self.subscriber.form })
            }
        })
    }
}

impl<T: Content> Drop for Holding<T> {
    fn drop(&mut self) {
        // A forked child leaves the packets to its parent.
        if self.subscriber.incoming.check_own().is_ok() {
            self.slots.finish_last(&mut self.subscriber.incoming);
        }
    }
}

/// Received samples owned by their receiver. Dropping the packet, on any thread, gives the memory
/// back. A packet that is forgotten ([`std::mem::forget`]) stays in use.
///
/// ```
/// # use std::time::Duration;
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<i16>("audio")?;
/// # let mut subscriber = node.subscriber::<i16>("audio")?.holding(4)?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// let packet = subscriber.receive()?.expect("a packet");
/// assert_eq!((packet.len(), packet[2], packet.iter().sum::<i16>()), (3, 3, 6));
/// assert_eq!((packet.sequence(), packet.sample_index(), packet.gap()), (0, 0, None));
/// assert_eq!((packet.time_ns(), packet.intended_ns()), (0, None));
/// assert_eq!((packet.order().number(), &*packet.stream().id), (0, "audio"));
/// assert!(packet.connection().ends_with("-> audio"));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct HeldPacket<T: Content> {
    // No field is smaller than a word. Otherwise a copy would read padding together with bytes that
    // were just written separately, and would stall until those writes complete.
    slot: SlotInUse,
    payload: FrameRef,
    form: T::Form,
}

described!(HeldPacket<T>);

impl<T: Content> HeldPacket<T> {
    /// Refuses the packet with a reason, as [`Packet::refuse`](super::Packet::refuse) does. A
    /// refusal has no effect once the next packet has been requested.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<i16>("audio")?;
    /// # let mut subscriber = node.subscriber::<i16>("audio")?.holding(4)?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// # publisher.send(&[])?;
    /// let packet = subscriber.receive()?.expect("a packet");
    /// if packet.is_empty() {
    ///     packet.refuse("there is nothing to play");
    /// }
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refuse(self, reason: impl fmt::Display) {
        self.slot.refuse(|| reason.to_string());
    }

    fn form(&self) -> T::Form {
        self.form
    }

    fn copy(&self) -> &OwnedPacket {
        // SAFETY: `self` is the packet in this slot.
        unsafe { self.slot.packet() }
    }

    fn header(&self) -> &Header {
        let Some((header, _)) = self.copy().meta() else { unreachable!("the port has filled the slot") };
        header
    }

    fn gap_before(&self) -> Option<&Gap> {
        self.copy().gap.as_ref()
    }

    fn source(&self) -> PacketSource<'_> {
        PacketSource::Copy(self.copy())
    }
}

impl<T: Content> Deref for HeldPacket<T> {
    type Target = [T::Item];
    fn deref(&self) -> &[T::Item] {
        // SAFETY: the slot holds the memory, and the port gives it back only when this packet is
        // dropped. Size and alignment were checked when the packet was taken.
        unsafe { self.payload.get() }
    }
}

impl<T: Content<Item: fmt::Debug>> fmt::Debug for HeldPacket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPacket").field("sequence", &self.sequence()).field("samples", &&**self).finish()
    }
}

/// A packet may move to another thread, and several threads may read it.
const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<HeldPacket<f32>>();
};
