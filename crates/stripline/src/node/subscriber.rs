//! The receiving side of topics and ports.

use std::ops::Deref;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::link::{FrameRef, Incoming, PacketSource, Polled};
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::packet::{Gap, Header};
use crate::terms::Resequence;
use crate::transport::Wait;

use super::packet_view::{PacketMeta, described};
use super::{Dispatch, PacketView};

/// A subscriber receives packets of samples from every sender of a topic or input port.
///
/// A subscriber belongs to one thread at a time and lends one packet at a time.
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
pub struct Subscriber<T: Content> {
    pub(super) incoming: Incoming,
    dispatch: Dispatch,
    pub(super) form: T::Form,
}

/// The result of a receive that does not wait without limit.
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
    /// No packet yet.
    Empty,
    /// End of stream: no packet follows.
    Ended,
}

impl<P> Received<P> {
    /// Returns the packet, if there is one.
    pub fn packet(self) -> Option<P> {
        match self {
            Self::Packet(packet) => Some(packet),
            Self::Empty | Self::Ended => None,
        }
    }
}

impl<T: Content> Subscriber<T> {
    /// Creates a subscriber to samples of the given form, which fits the transports' memory.
    pub(crate) fn of(incoming: Incoming, form: T::Form) -> Self {
        Self { incoming, dispatch: Dispatch::Queue, form }
    }

    /// Sets the configured dispatch of the subscriber's handler.
    pub(crate) fn with_dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// Returns the port's or topic's name.
    pub fn name(&self) -> &str {
        self.incoming.port()
    }

    /// Returns the size of a sample in bytes.
    pub fn sample_bytes(&self) -> usize {
        self.form.size()
    }

    /// Returns the senders of the topic that this subscriber cannot connect to, for example because
    /// they have another payload type. A sender is listed for as long as it is offered.
    /// `stripline links` shows the same senders. With `refusal-is-error = true` for the topic
    /// ([`Topics`](super::Topics)), the next receive returns the refusal as an [`Error::Refused`].
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let _publisher = node.publisher::<f32>("levels")?;
    /// let subscriber = node.subscriber::<i16>("levels")?;
    /// let [refused] = &subscriber.refusals()[..] else { panic!("one is refused") };
    /// assert_eq!((refused.sends.as_str(), refused.takes.as_str()), ("f32", "s16"));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn refusals(&self) -> Vec<RefusedSender> {
        self.incoming.refused()
    }

    /// Returns the number of senders connected now.
    pub fn senders(&mut self) -> usize {
        self.incoming.senders()
    }

    /// Blocks until the next packet. `None` is the end of stream, after every sender has ended its
    /// stream. If a sender died without an end of stream, this waits for another one.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the component is stopped; [`Error::Ejected`];
    /// [`Error::PeerMisbehaved`], after which the other connections continue.
    #[inline(always)]
    pub fn receive(&mut self) -> Result<Option<Packet<'_, T>>> {
        match self.receive_within(|| Wait::FOREVER)? {
            Received::Packet(packet) => Ok(Some(packet)),
            Received::Empty | Received::Ended => Ok(None),
        }
    }

    /// Receives like [`Subscriber::receive`], for a component that also handles requests.
    /// `on_request` is called before each packet, and immediately when a request arrives while no
    /// packet is available.
    ///
    /// # Errors
    /// Same as [`Subscriber::receive`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let requests = ports.requests();
    /// let mut input = ports.input::<f32>("in")?;
    /// let mut limit = 1.0;
    /// // A new limit need not wait for a packet.
    /// while let Some(packet) = input.receive_with(|| requests.apply_changes(|new| Ok(limit = new.float("limit"))))? {
    ///     println!("{} samples beyond {limit}", packet.iter().filter(|x| f64::from(**x) > limit).count());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn receive_with(&mut self, mut on_request: impl FnMut()) -> Result<Option<Packet<'_, T>>> {
        loop {
            on_request();
            let found = self.incoming.receive_or_request()?;
            match self.fitting(found)? {
                Received::Empty => {}
                Received::Ended => return Ok(None),
                Received::Packet(payload) => {
                    return Ok(Some(Packet { subscriber: self, payload }));
                }
            }
        }
    }

    /// Sets a function that the thread waiting for packets calls when a request to the component
    /// arrives. The function is meant for handlers, which run in [`Subscriber::serve`]. In a loop,
    /// use [`Subscriber::receive_with`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports) -> stripline::Result<()> {
    /// let requests = ports.requests();
    /// let mut input = ports.input::<f32>("in")?;
    /// let also_waiting = requests.clone();
    /// input.on_request(move || also_waiting.apply_changes(|_| Ok(())));
    /// input.serve(input.dispatch(), move |_| Ok(requests.apply_changes(|_| Ok(()))))
    /// # }
    /// ```
    pub fn on_request(&mut self, hook: impl FnMut() + Send + 'static) {
        self.incoming.on_request(Box::new(hook));
    }

    /// Returns the next packet, if one has arrived.
    ///
    /// # Errors
    /// Same as [`Subscriber::receive`].
    #[inline(always)]
    pub fn try_receive(&mut self) -> Result<Received<Packet<'_, T>>> {
        self.receive_within(|| Wait::Never)
    }

    /// Blocks until the next packet, but not longer than `timeout`.
    ///
    /// # Errors
    /// Same as [`Subscriber::receive`].
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
        self.receive_within(|| Wait::within(timeout))
    }

    /// Blocks until a packet has arrived, as [`Subscriber::receive`] does. Passes it and the
    /// packets that already wait behind it to `each`, up to `limit` packets. Returns the number of
    /// packets; 0 is the end of stream.
    ///
    /// The call works like [`Subscriber::receive`] in a loop that does not wait for a second
    /// packet. A packet is finished when `each` returns: a sender that waits for it
    /// ([`Scope::Target`](crate::terms::Scope::Target)) then gets the acknowledgement. If `each`
    /// panics, the current packet is finished and the later packets stay.
    ///
    /// Over `inproc` and `shm`, the room of finished packets is given back together: after each
    /// quarter of the ring or of the depth, and at the end. A sender that has no room waits longer
    /// by at most that time. If the receiver is killed in between, the successor's gap also counts
    /// the packets of that quarter. Over `uds` and `tcp`, one read of the socket brings many
    /// packets, as it does for [`Subscriber::receive`].
    ///
    /// # Errors
    /// [`Error::Port`] for a limit of 0; otherwise the same as [`Subscriber::receive`]. An error
    /// behind the first packet is kept for the next call that receives.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u32>("numbers")?;
    /// let mut numbers = node.subscriber::<u32>("numbers")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.send_many(10, 1, |index, place| place[0] = index as u32)?;
    /// # publisher.finish()?;
    /// let mut sum = 0;
    /// assert_eq!(numbers.drain(4, |packet| sum += packet[0])?, 4);
    /// assert_eq!(numbers.drain(100, |packet| sum += packet[0])?, 6);
    /// assert_eq!((numbers.drain(100, |_| ())?, sum), (0, 45));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn drain(&mut self, limit: usize, mut each: impl FnMut(PacketView<'_, T>)) -> Result<usize> {
        if limit == 0 {
            return Err(Error::port(
                self.name(),
                "cannot drain up to 0 packets: the limit must be at least 1",
            ));
        }
        let form = self.form;
        let drain = Drain(self);
        let mut packets = 0;
        loop {
            let steady = |header: &Header, payload: FrameRef, source: PacketSource<'_>| {
                // SAFETY: the payload was just lent. `drain_steady` has checked it and releases it
                // after this call.
                let samples = unsafe { payload.get() };
                each(PacketView::new(samples, form, PacketMeta { header, gap: None, source, receipt: None }));
            };
            let (more, is_empty) =
                drain.0.incoming.drain_steady(limit - packets, |payload| payload.fits(form), steady);
            packets += more;
            if packets == limit || packets > 0 && (is_empty || !drain.0.take_another()) {
                return Ok(packets);
            }
            if packets == 0 && !matches!(drain.0.take(|| Wait::FOREVER)?, Received::Packet(_)) {
                return Ok(0);
            }
            each(drain.0.view());
            drain.0.incoming.release_later();
            packets += 1;
        }
    }

    /// Takes another packet of a drain, if one has arrived.
    #[inline(always)]
    fn take_another(&mut self) -> bool {
        if self.incoming.receive_next() && self.incoming.taken().payload.fits(self.form) {
            return true;
        }
        self.take_another_slow()
    }

    #[cold]
    fn take_another_slow(&mut self) -> bool {
        self.incoming.finish_releases();
        let found =
            if self.incoming.is_lent() { self.fitting(Polled::Packet) } else { self.take(|| Wait::Never) };
        match found {
            Ok(found) => found.packet().is_some(),
            Err(problem) => {
                self.incoming.defer(problem);
                false
            }
        }
    }

    /// Returns the packets missing between the last received packet and the end of the stream, if
    /// any. Call it after the end of stream.
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

    /// Restores the sequence of packets by their [`Order`](crate::packet::Order), downstream of a
    /// stage that runs a handler on several threads. A waveform or topics file sets this with
    /// `resequence`. All ways to receive (one by one, in windows, with handlers) then get packets
    /// in sequence.
    ///
    /// A packet that is due stays in the transport's memory. An early packet is copied, and the
    /// sender sees it as finished. A missing packet is waited for until `window` packets are held,
    /// or until one of them has been held for `skip_after`. Packets that have arrived by then are
    /// taken first, up to the window. Then the missing packets are reported with the next packet
    /// ([`GapReason::Late`](crate::GapReason::Late)) and counted as lost.
    ///
    /// Packets without an order were not forwarded by several threads. Such packets arrive in
    /// sequence and are passed on at once. A packet lost by the connection itself is also missing
    /// in the sequence, and is counted once. The packet is counted twice if it is given up before
    /// the connection reports it with the next packet that arrives.
    ///
    /// The stage in between must forward one packet for each packet that it gets, an empty one if
    /// need be. Otherwise this port would wait for the missing packet. Unless its number is 0, the
    /// first packet that arrives may not be the first of the sequence. That packet is then held
    /// like any other early packet. A packet that belongs before it and arrives later is reported
    /// as lost.
    ///
    /// From now on, receiving also returns [`Error::DuplicatePacket`] for a second packet with the
    /// same number, and [`Error::WindowOverflow`] when too many packets wait behind a missing one.
    /// Receiving continues after both.
    ///
    /// # Errors
    /// [`Error::Port`] for a number out of range: `window` must be from 1 to
    /// [`Resequence::WINDOW_MAX`], and `skip_after` at most [`Resequence::SKIP_AFTER_MS_MAX`].
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
    /// // Four threads square; each result is sent when it is ready.
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
        self.incoming.resequence(Some(how));
        Ok(self)
    }

    /// Returns the handler dispatch set by the waveform or topics file, for [`Subscriber::serve`].
    /// The dispatch does not affect a thread that receives packets one by one.
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
    fn receive_within(&mut self, wait: impl FnOnce() -> Wait) -> Result<Received<Packet<'_, T>>> {
        Ok(match self.take(wait)? {
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
            Received::Packet(payload) => Received::Packet(Packet { subscriber: self, payload }),
        })
    }

    /// Returns the packet that was taken, and that counted as `samples` samples.
    #[inline(always)]
    pub(super) fn lent(&mut self, samples: u64) -> Result<Packet<'_, T>> {
        let mut payload = self.incoming.taken().payload;
        // For messages, packets are counted, not bytes.
        if !payload.is_of(self.form, samples) && !payload.fits(self.form) {
            payload = self.refit()?;
        }
        Ok(Packet { subscriber: self, payload })
    }

    /// Returns a view of the packet that was taken and not released.
    #[inline(always)]
    pub(super) fn view(&self) -> PacketView<'_, T> {
        // SAFETY: this is called after taking a packet, which checks size and alignment, and before
        // the release. The transport is not called while the subscriber is borrowed.
        let samples = unsafe { self.incoming.taken().payload.get() };
        PacketView::new(samples, self.form, PacketMeta::lent(&self.incoming))
    }

    /// Takes the payload of the next packet. The size and alignment of the payload fit `T`. The
    /// caller must release it through `incoming`.
    #[inline(always)]
    pub(super) fn take(&mut self, wait: impl FnOnce() -> Wait) -> Result<Received<FrameRef>> {
        let found = self.incoming.receive(wait)?;
        self.fitting(found)
    }

    /// Takes as [`Subscriber::take`] does, but returns [`Received::Empty`] as soon as a request
    /// arrives.
    pub(super) fn take_or_request(&mut self) -> Result<Received<FrameRef>> {
        let found = self.incoming.receive_or_request()?;
        self.fitting(found)
    }

    /// Converts the payload that was received to samples.
    #[inline(always)]
    pub(super) fn fitting(&mut self, found: Polled) -> Result<Received<FrameRef>> {
        match found {
            Polled::Empty => Ok(Received::Empty),
            Polled::Ended => Ok(Received::Ended),
            Polled::Packet => {
                let payload = self.incoming.taken().payload;
                if payload.fits(self.form) {
                    Ok(Received::Packet(payload))
                } else {
                    self.refit().map(Received::Packet)
                }
            }
        }
    }

    /// Handles a payload that does not fit `T` without conversion.
    #[cold]
    fn refit(&mut self) -> Result<FrameRef> {
        let bytes = self.incoming.taken().payload.bytes();
        let size = self.form.size();
        if bytes.is_multiple_of(size) {
            return Ok(self.incoming.realign());
        }
        let connection = self.incoming.connection().to_string();
        self.incoming.reject();
        let violation = format!("sent {bytes} bytes as samples of {size} bytes");
        Err(Error::misbehaved(connection, violation))
    }
}

/// A drain in progress. Dropping this guard ends it.
struct Drain<'a, T: Content>(&'a mut Subscriber<T>);

impl<T: Content> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.0.incoming.end_drain();
    }
}

/// Received samples, used in place and released when dropped. A packet that is forgotten
/// ([`std::mem::forget`]) is released when the next packet is requested.
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
pub struct Packet<'a, T: Content> {
    subscriber: &'a mut Subscriber<T>,
    payload: FrameRef,
}

described!(Packet<'_, T>);

impl<T: Content> Packet<'_, T> {
    /// Refuses the packet with a reason of at most 256 bytes. A sender that waits for the packet
    /// ([`Scope::Target`](crate::terms::Scope::Target)) fails with [`Error::PacketRefused`]. The
    /// refusal has no effect in other scopes, or for a packet held to be put in sequence
    /// ([`Subscriber::resequenced`]).
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
        self.subscriber.incoming.refuse(|| reason.to_string());
    }
}

impl<T: Content> Packet<'_, T> {
    /// Releases the packet with [`Incoming::release_inlined`], in place of the drop.
    #[inline(always)]
    pub(super) fn release_inlined(&mut self) {
        self.subscriber.incoming.release_inlined();
    }

    fn form(&self) -> T::Form {
        self.subscriber.form
    }

    fn header(&self) -> &Header {
        &self.subscriber.incoming.taken().header
    }

    fn gap_before(&self) -> Option<&Gap> {
        self.subscriber.incoming.taken().gap.as_ref()
    }

    fn source(&self) -> PacketSource<'_> {
        self.subscriber.incoming.source()
    }

    pub(super) fn view(&self) -> PacketView<'_, T> {
        PacketView::new(self, self.subscriber.form, PacketMeta::lent(&self.subscriber.incoming))
    }
}

impl<T: Content> Deref for Packet<'_, T> {
    type Target = [T::Item];
    fn deref(&self) -> &[T::Item] {
        // SAFETY: the packet holds the link exclusively and does not call the transport until
        // dropped. Size and alignment were checked when the packet was made.
        unsafe { self.payload.get() }
    }
}

impl<T: Content> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        self.subscriber.incoming.release();
    }
}

impl<T: Content<Item: std::fmt::Debug>> std::fmt::Debug for Packet<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet")
            .field("header", &self.subscriber.incoming.taken().header)
            .field("samples", &&**self)
            .finish()
    }
}
