//! The receiving side.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::link::{Incoming, Lent, Outcome, Resequence};
use crate::packet::{Gap, Order, StreamInfo};
use crate::payload::Sample;
use crate::transport::Wait;

use super::view::{About, Stamped, sealed};
use super::{Dispatch, PacketView, Windowed};

/// Receives packets of samples from every sender of a topic or input port.
///
/// A subscriber belongs to one thread at a time; it lends one packet at a time.
///
/// ```
/// # use std::time::Duration;
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<u8>("bytes")?;
/// let mut subscriber = node.subscriber::<u8>("bytes")?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// # publisher.send(b"hello")?;
/// # publisher.finish()?;
/// while let Some(packet) = subscriber.receive()? {
///     println!("{}: {} samples", packet.sequence(), packet.len());
/// }
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Subscriber<T: Sample> {
    pub(super) incoming: Incoming,
    dispatch: Dispatch,
    samples: PhantomData<fn() -> T>,
}

/// What a receive that does not wait for ever found.
///
/// ```
/// use stripline::Received;
///
/// let found: Received<u8> = Received::Empty;
/// assert_eq!(found.packet(), None);
/// assert_eq!(Received::Packet(7).packet(), Some(7));
/// ```
#[derive(Debug)]
pub enum Received<P> {
    /// A packet.
    Packet(P),
    /// Nothing yet.
    Empty,
    /// End of stream: nothing will come.
    Ended,
}

impl<P> Received<P> {
    /// The packet, if it is one.
    pub fn packet(self) -> Option<P> {
        match self {
            Self::Packet(packet) => Some(packet),
            Self::Empty | Self::Ended => None,
        }
    }
}

impl<T: Sample> Subscriber<T> {
    pub(crate) fn new(incoming: Incoming) -> Result<Self> {
        if size_of::<T>() == 0 {
            return Err(Error::port(incoming.port(), "its type has no size"));
        }
        if align_of::<T>() > 16 {
            return Err(Error::port(incoming.port(), "its type needs more than 16-byte alignment"));
        }
        Ok(Self { incoming, dispatch: Dispatch::Queue, samples: PhantomData })
    }

    /// The same, with what its users have said is to run its handler.
    pub(crate) fn run_by(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// The port's or topic's name.
    pub fn name(&self) -> &str {
        self.incoming.port()
    }

    /// Senders connected now.
    pub fn senders(&mut self) -> usize {
        self.incoming.senders()
    }

    /// Blocks until the next packet; `None` is the end of stream: every sender has said so. A sender that
    /// died without saying so is waited for.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the component is asked to stop; [`Error::Ejected`]; [`Error::PeerMisbehaved`], and
    /// then the other connections go on.
    #[inline(always)]
    pub fn receive(&mut self) -> Result<Option<Packet<'_, T>>> {
        match self.receive_within(Wait::FOREVER)? {
            Received::Packet(packet) => Ok(Some(packet)),
            Received::Empty | Received::Ended => Ok(None),
        }
    }

    /// As [`Subscriber::receive`] of a component that takes what it is asked meanwhile: `heed` looks for it before each
    /// packet, and at once when something is asked while there is none.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let live = ports.live();
    /// let mut input = ports.input::<f32>("in")?;
    /// let mut limit = 1.0;
    /// // A new limit need not wait for a packet.
    /// while let Some(packet) = input.receive_heeding(|| live.changed(|new| Ok(limit = new.float("limit"))))? {
    ///     println!("{} samples beyond {limit}", packet.iter().filter(|x| f64::from(**x) > limit).count());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn receive_heeding(&mut self, mut heed: impl FnMut()) -> Result<Option<Packet<'_, T>>> {
        loop {
            heed();
            let found = self.incoming.receive_or_asked()?;
            match self.fitting(found)? {
                Received::Empty => {}
                Received::Ended => return Ok(None),
                Received::Packet(payload) => {
                    return Ok(Some(Packet { incoming: &mut self.incoming, payload, of: PhantomData }));
                }
            }
        }
    }

    /// Lets this be called when the component is asked something, by the thread that waits for packets here.
    pub(crate) fn when_asked(&mut self, hook: impl FnMut() + Send + 'static) {
        self.incoming.when_asked(Box::new(hook));
    }

    /// The next packet if there is one.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    #[inline(always)]
    pub fn try_receive(&mut self) -> Result<Received<Packet<'_, T>>> {
        self.receive_within(Wait::Never)
    }

    /// Blocks until the next packet, but not longer than `timeout`.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// assert_eq!(subscriber.senders(), 0);
    /// assert_eq!(subscriber.name(), "bytes");
    /// assert!(matches!(subscriber.try_receive()?, Received::Empty));
    /// assert!(matches!(subscriber.receive_timeout(Duration::from_millis(1))?, Received::Empty));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn receive_timeout(&mut self, timeout: Duration) -> Result<Received<Packet<'_, T>>> {
        self.receive_within(Wait::within(timeout))
    }

    /// After the end of stream: packets that were missing at its very end, if any were.
    ///
    /// ```no_run
    /// # fn example(mut input: stripline::Input<f32>) -> stripline::Result<()> {
    /// while let Some(packet) = input.receive()? {
    ///     if let Some(gap) = packet.gap() {
    ///         eprintln!("{} samples are missing before packet {}", gap.samples, packet.sequence());
    ///     }
    /// }
    /// if let Some(gap) = input.gap_at_end() {
    ///     eprintln!("{} samples are missing at the end", gap.samples);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn gap_at_end(&mut self) -> Option<Gap> {
        self.incoming.gap_at_end()
    }

    /// The same samples in windows of any size, across the borders of packets.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<i16>("audio")?;
    /// let mut audio = node.subscriber::<i16>("audio")?.windowed();
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.send(&[1, 2, 3])?;
    /// publisher.send(&[4, 5, 6])?;
    /// let window = audio.window(4)?.expect("four samples");
    /// assert_eq!(*window, [1, 2, 3, 4]);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[must_use]
    pub fn windowed(self) -> Windowed<T> {
        Windowed::new(self)
    }

    /// The same packets put back in sequence by their [`Order`]: what comes behind a stage that runs its handler on
    /// several threads. A waveform or topics file asks for it with `resequence`; whatever receives the packets (one by
    /// one, in windows, handlers) is not concerned.
    ///
    /// A packet whose turn it is lies in the transport's memory, as ever. One that comes before its turn is copied, and
    /// finished with as far as its sender is concerned. A missing one is waited for until `window` packets are held
    /// or one of them has been for `skip_after`; then what is missing is reported with the next packet
    /// ([`GapReason::Late`](crate::GapReason::Late)) and counted as lost. Packets that say no order were not forwarded
    /// by several threads: they come in sequence, and are handed on at once. What the connection itself loses is
    /// missing in the sequence as well, and counted once; unless it is given up before the connection says so, with
    /// the next packet that arrives: then twice.
    ///
    /// The stage in between forwards one packet for every one that it gets, if need be an empty one: it would be waited
    /// for. Nobody knows whether the first packet that comes is the first there is, unless its number is 0. It is
    /// waited for as for any other; what had its turn before it and comes later still is reported as lost.
    ///
    /// From now on, receiving also tells of [`Error::WindowOverflow`] when more packets wait behind a missing one than
    /// may, and of [`Error::Twice`] for a second one of the same number. It goes on after both.
    ///
    /// # Errors
    /// [`Error::Port`] for a number out of range: `window` from 1 to [`Resequence::WINDOW_MAX`], `skip_after`
    /// [`Resequence::SKIP_AFTER_MS_MAX`] at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::node::{Dispatch, Node, PacketView};
    ///
    /// let node = Node::isolated()?;
    /// let mut source = node.publisher::<u32>("numbers")?;
    /// let mut numbers = node.subscriber::<u32>("numbers")?;
    /// let mut output = node.publisher::<u32>("squares")?;
    /// let mut squares = node.subscriber::<u32>("squares")?.resequenced(64, Duration::from_secs(5))?;
    /// source.wait_for_receivers(1, Duration::from_secs(5))?;
    /// output.wait_for_receivers(1, Duration::from_secs(5))?;
    /// (0..20).try_for_each(|number| source.send(&[number]))?;
    /// source.finish()?;
    ///
    /// // Four threads square, whoever is ready is sent.
    /// let square = |packet: PacketView<'_, u32>| Ok(packet[0] * packet[0]);
    /// numbers.serve_then(Dispatch::pool(4)?, square, |packet, square| {
    ///     let mut loan = output.loan(1)?;
    ///     loan[0] = square;
    ///     loan.send_like(&packet)
    /// })?;
    /// output.finish()?;
    ///
    /// for number in 0..20 {
    ///     assert_eq!(squares.receive()?.expect("a square")[0], number * number);
    /// }
    /// assert!(squares.receive()?.is_none());
    ///
    /// let error = squares.resequenced(0, Duration::from_millis(100)).map(drop).unwrap_err();
    /// assert!(error.to_string().contains("it must be from 1 to 65536"));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn resequenced(mut self, window: usize, skip_after: Duration) -> Result<Self> {
        let how = Resequence::new(window, skip_after).map_err(|e| Error::port(self.name(), e))?;
        self.incoming.put_in_sequence(Some(how));
        Ok(self)
    }

    /// What the waveform or topics file says is to run its handler: for [`Subscriber::serve`]. Whoever receives packets
    /// one by one does so on its own thread, whatever it says.
    ///
    /// ```
    /// use stripline::node::{Dispatch, Node, Topics};
    ///
    /// let domain = format!("dispatch-{}", std::process::id());
    /// let node = Node::join(&domain, Topics::parse("[topic.levels]\ndispatch = 'pool(4)'")?)?;
    /// assert_eq!(node.subscriber::<f32>("levels")?.dispatch(), Dispatch::pool(4)?);
    /// assert_eq!(node.subscriber::<f32>("others")?.dispatch(), Dispatch::Queue);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    #[inline(always)]
    fn receive_within(&mut self, wait: Wait) -> Result<Received<Packet<'_, T>>> {
        Ok(match self.take(wait)? {
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
            Received::Packet(payload) => {
                Received::Packet(Packet { incoming: &mut self.incoming, payload, of: PhantomData })
            }
        })
    }

    /// The payload of the next packet, to be given back by `incoming`. Size and alignment suit `T`.
    #[inline(always)]
    pub(super) fn take(&mut self, wait: Wait) -> Result<Received<Lent>> {
        let found = self.incoming.receive(wait)?;
        self.fitting(found)
    }

    /// The payload of what was found, as samples.
    #[inline(always)]
    fn fitting(&mut self, found: Outcome) -> Result<Received<Lent>> {
        match found {
            Outcome::Nothing => Ok(Received::Empty),
            Outcome::Ended => Ok(Received::Ended),
            Outcome::Packet => {
                let payload = self.incoming.taken().payload;
                if payload.fits::<T>() { Ok(Received::Packet(payload)) } else { self.refit() }
            }
        }
    }

    /// Deals with a payload that does not suit `T` as it is.
    #[cold]
    fn refit(&mut self) -> Result<Received<Lent>> {
        let bytes = self.incoming.taken().payload.bytes();
        if bytes.is_multiple_of(size_of::<T>()) {
            return Ok(Received::Packet(self.incoming.realign()));
        }
        let connection = self.incoming.connection().to_string();
        self.incoming.reject();
        let deed = format!("sent {bytes} bytes as samples of {} bytes", size_of::<T>());
        Err(Error::misbehaved(connection, deed))
    }
}

/// Samples received, used in place and given back when dropped.
///
/// ```
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<i16>("audio")?;
/// # let mut subscriber = node.subscriber::<i16>("audio")?;
/// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// let packet = subscriber.receive()?.expect("a packet");
/// assert_eq!((packet.len(), packet[2], packet.iter().sum::<i16>()), (3, 3, 6));
/// assert_eq!((packet.sequence(), packet.sample_index(), packet.gap()), (0, 0, None));
/// assert_eq!((packet.time_ns(), packet.intended_ns()), (0, None));
/// assert!(packet.connection().ends_with("-> audio"));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Packet<'a, T: Sample> {
    incoming: &'a mut Incoming,
    payload: Lent,
    of: PhantomData<&'a [T]>,
}

impl<T: Sample> Packet<'_, T> {
    /// The packet's number among those of its sender, from 0.
    pub fn sequence(&self) -> u64 {
        self.incoming.taken().header.sequence
    }

    /// Number of the first sample within its stream.
    pub fn sample_index(&self) -> u64 {
        self.incoming.taken().header.sample_index
    }

    /// When the first sample was taken, nanoseconds since the Unix epoch; 0: unknown.
    pub fn time_ns(&self) -> i64 {
        self.incoming.taken().header.time_ns
    }

    /// When it was sent, monotonic nanoseconds of the host; `None`: this packet was not measured.
    pub fn sent_ns(&self) -> Option<u64> {
        Some(self.incoming.taken().header.sent_ns).filter(|ns| *ns != 0)
    }

    /// When it should have been sent, if its sender keeps a schedule.
    pub fn intended_ns(&self) -> Option<u64> {
        self.incoming.taken().header.intended()
    }

    /// Whose turn the packet has: that of its sequence number, unless it was forwarded by one of several threads.
    pub fn order(&self) -> Order {
        self.incoming.order()
    }

    /// What is missing just before this packet.
    pub fn gap(&self) -> Option<&Gap> {
        self.incoming.taken().gap.as_ref()
    }

    /// The stream it belongs to.
    pub fn stream(&self) -> &Arc<StreamInfo> {
        self.incoming.stream()
    }

    /// The connection it came over, as `from -> to`.
    pub fn connection(&self) -> &str {
        self.incoming.connection()
    }

    /// Gives the packet back and tells its sender, if that waits for it ([`Scope::Target`](crate::link::Scope::Target)), why
    /// it was of no use: its send fails with [`Error::PacketRefused`]. Of the reason, 256 bytes are sent at most. Nobody is
    /// told in other scopes, nor of a packet that was held until its turn came ([`Subscriber::resequenced`]).
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<i16>("audio")?;
    /// # let mut subscriber = node.subscriber::<i16>("audio")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// # publisher.send(&[])?;
    /// while let Some(packet) = subscriber.receive()? {
    ///     if packet.is_empty() {
    ///         packet.refuse("there is nothing to play");
    ///     }
    ///     # publisher = { publisher.finish()?; node.publisher("elsewhere")? };
    /// }
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refuse(self, reason: impl std::fmt::Display) {
        self.incoming.refuse(|| reason.to_string());
    }
}

impl<T: Sample> Packet<'_, T> {
    pub(super) fn view(&self) -> PacketView<'_, T> {
        PacketView::new(self, About::lent(self.incoming))
    }
}

impl<T: Sample> Stamped for Packet<'_, T> {}

impl<T: Sample> sealed::Sealed for Packet<'_, T> {
    fn stamps(&self) -> sealed::Stamps<'_> {
        let header = &self.incoming.taken().header;
        let order = header.order().map(|_| self.incoming.order());
        sealed::Stamps { header, order, stream: self.incoming.stream() }
    }
}

impl<T: Sample> Deref for Packet<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the packet holds the link exclusively and asks nothing of its transport until dropped;
        // size and alignment were checked when it was made.
        unsafe { self.payload.get() }
    }
}

impl<T: Sample> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        self.incoming.release();
    }
}

impl<T: Sample + std::fmt::Debug> std::fmt::Debug for Packet<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet")
            .field("header", &self.incoming.taken().header)
            .field("samples", &&**self)
            .finish()
    }
}
