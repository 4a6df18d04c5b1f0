//! The room for a packet that a publisher lends.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::Publisher;
use crate::error::{Error, Result};
use crate::link::FrameStart;
use crate::node::packet_view::{Stamped, sealed::Stamps};
use crate::packet::StreamInfo;
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::terms::Scope;

/// Samples being written to the memory that the transport sends from. A loan that is dropped or
/// forgotten ([`std::mem::forget`]) sends nothing.
///
/// ```
/// # let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher::<i16>("ramp")?;
/// let mut loan = publisher.loan(4)?;
/// for (index, sample) in loan.iter_mut().enumerate() {
///     *sample = index as i16;
/// }
/// loan.send()?;
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Loan<'a, T: Content> {
    /// The rest of the loan's state is kept in the publisher: a loan is moved often, so each word
    /// counts.
    pub(in crate::node) publisher: &'a mut Publisher<T>,
    /// The start of room for at least `samples` samples.
    start: FrameStart,
    samples: usize,
}

impl<'a, T: Content> Loan<'a, T> {
    /// Makes a loan of the room that the publisher's link has reserved.
    #[inline(always)]
    pub(in crate::node) fn of(publisher: &'a mut Publisher<T>, start: FrameStart, samples: usize) -> Self {
        Self { publisher, start, samples }
    }

    /// Sends with [`Outgoing::send_inlined`].
    #[inline(always)]
    pub(in crate::node) fn send_inlined(&mut self) -> bool {
        if self.publisher.is_checked() {
            return false;
        }
        let bytes = self.samples * self.publisher.form.size();
        let counted = self.publisher.counted(self.samples);
        self.publisher.link().send_inlined(bytes, counted)
    }
}

impl<T: Content> Loan<'_, T> {
    /// Returns the number of samples: the slice's length, unless they are
    /// [`Dynamic`](crate::payload::Dynamic).
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Keeps only the first `samples` samples; a larger number changes nothing.
    pub fn truncate(&mut self, samples: usize) {
        self.samples = self.samples.min(samples);
    }

    /// Sets the sample index of the packet's first sample. By default the index continues from the
    /// previous packet.
    #[must_use]
    pub fn at_sample(self, index: u64) -> Self {
        self.publisher.link().stamp().sample_index = index;
        self
    }

    /// Sets the time at which the first sample was taken, in nanoseconds since the Unix epoch.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # let mut subscriber = node.subscriber::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// let mut loan = publisher.loan(100)?;
    /// loan.fill(0.5);
    /// loan.truncate(2);
    /// loan.at_sample(48_000).at_time_ns(1_700_000_000_000_000_000).send()?;
    /// let packet = subscriber.receive()?.expect("a packet");
    /// assert_eq!((packet.len(), packet.sample_index()), (2, 48_000));
    /// assert_eq!(packet.time_ns(), 1_700_000_000_000_000_000);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[must_use]
    pub fn at_time_ns(self, time_ns: i64) -> Self {
        self.publisher.link().stamp().time_ns = time_ns;
        self
    }

    /// Sets the time at which the packet should have been sent, in monotonic nanoseconds of the
    /// host: at a fixed rate, latency counts from this time. A packet sent like a packet with an
    /// [`Order`](crate::packet::Order) carries that order instead.
    #[must_use]
    pub fn intended_ns(self, intended_ns: u64) -> Self {
        self.publisher.link().stamp().intended_ns = intended_ns;
        self
    }

    /// Sets a scope for this packet instead of the connection's scope: a weaker scope, or a
    /// stronger one if the transport supports it. A scope weaker than the transport always provides
    /// changes nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::terms::Scope;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let mut subscriber = node.subscriber::<f32>("levels")?;
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// let component = std::thread::spawn(move || {
    ///     let packet = subscriber.receive()?.expect("a packet");
    ///     packet.refuse("too loud");
    ///     Ok::<(), stripline::Error>(())
    /// });
    /// let mut loan = publisher.loan(1)?;
    /// loan[0] = 1e6;
    /// let error = loan.scope(Scope::Target).deadline(Duration::from_secs(5)).send().unwrap_err();
    /// assert!(error.to_string().contains("too loud"));
    /// # component.join().expect("no panic")?;
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        self.publisher.link().set_own_scope(scope);
        self
    }

    /// Sets the deadline of this packet's scope: how long to wait after the send if the scope is
    /// `server` or `target`. The deadline replaces the connection's `deadline-ms`, and is at most
    /// [`LinkOptions::DEADLINE_MS_MAX`](crate::terms::LinkOptions::DEADLINE_MS_MAX).
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.publisher.link().set_own_deadline(deadline);
        self
    }

    /// Sends the packet. If the loan may block, this blocks while a blocking receiver over another
    /// transport has no room. A packet in fragments also waits for room over the first transport.
    /// With [`Scope::Server`] and [`Scope::Target`] it then blocks until the scope is reached, or
    /// until the deadline.
    ///
    /// # Errors
    /// Same as the loan: [`Publisher::loan`] or [`Publisher::try_loan`]. [`Error::InvalidArgument`]
    /// for a message of [`Dynamic`](crate::payload::Dynamic) bytes that does not fit the schema of
    /// the port; the text names the place, and nothing was sent. [`Error::Unsupported`] for
    /// a scope that a transport of this connection cannot keep; nothing was sent.
    ///
    /// [`Error::Unanswered`], [`Error::ReceiverGone`] or [`Error::PacketRefused`] when the scope
    /// was not reached, and [`Error::Stopped`] when the wait was stopped. After these errors the
    /// packet stays sent.
    ///
    /// If a packet in fragments fails after the first fragment, the packet's number is used up.
    /// Receivers drop the fragments and report the packet as lost
    /// ([`GapReason::Transport`](crate::GapReason::Transport)) with the next packet.
    #[inline(always)]
    pub fn send(self) -> Result<()> {
        self.check()?;
        self.send_checked()
    }

    #[inline(always)]
    fn send_checked(self) -> Result<()> {
        // A sent packet must not be cancelled.
        let mut loan = ManuallyDrop::new(self);
        let samples = loan.samples;
        let bytes = samples * loan.publisher.form.size();
        let counted = loan.publisher.counted(samples);
        loan.publisher.link().send(bytes, counted)
    }

    /// Sends the packet with the stream, sample index and time of a received packet or a
    /// [`Window`](crate::node::Window). If the received packet carries an
    /// [`Order`](crate::packet::Order), as in a pool's handler, the order is carried over.
    ///
    /// # Errors
    /// Same as [`Publisher::loan`].
    ///
    /// ```no_run
    /// # fn example(
    /// #     mut input: stripline::Input<i16>,
    /// #     mut output: stripline::Output<f32>,
    /// # ) -> stripline::Result<()> {
    /// while let Some(packet) = input.receive()? {
    ///     let mut loan = output.loan(packet.len())?;
    ///     loan.iter_mut().zip(&*packet).for_each(|(y, x)| *y = f32::from(*x) / 32_768.0);
    ///     loan.send_like(&packet)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_like<P: Stamped + ?Sized>(self, packet: &P) -> Result<()> {
        self.send_stamped(packet.stamps())
    }

    /// Sends the packet as [`Loan::send_like`] does, at `up` / `down` of the received sample rate.
    /// The sample index is scaled by the same ratio and rounded down. A stream without a rate stays
    /// without a rate.
    ///
    /// Indices stay exact if `up` samples are sent for each `down` samples received, starting at an
    /// index that is a multiple of `down`.
    ///
    /// # Errors
    /// [`Error::Port`] for a ratio with 0; otherwise the same as [`Publisher::loan`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut source = node.publisher::<f32>("levels")?;
    /// # let mut levels = node.subscriber::<f32>("levels")?.windowed();
    /// # let mut output = node.publisher::<f32>("means")?;
    /// # let mut means = node.subscriber::<f32>("means")?;
    /// # source.wait_for_receivers(1, Duration::from_secs(5))?;
    /// # output.wait_for_receivers(1, Duration::from_secs(5))?;
    /// source.set_stream(stripline::StreamInfo::new("levels").sample_rate_hz(8e3));
    /// source.send(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])?;
    /// # source.finish()?;
    /// // The mean of each four samples: a quarter of the rate.
    /// while let Some(window) = levels.window(4)? {
    ///     let mut loan = output.loan(1)?;
    ///     loan[0] = window.iter().sum::<f32>() / 4.0;
    ///     loan.send_like_at_rate(&window, 1, 4)?;
    /// }
    /// assert_eq!(means.receive()?.expect("a mean").sample_index(), 0);
    /// let second = means.receive()?.expect("a mean");
    /// assert_eq!((second[0], second.sample_index()), (6.5, 1));
    /// assert_eq!(second.stream().sample_rate_hz, Some(2e3));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn send_like_at_rate<P: Stamped + ?Sized>(self, packet: &P, up: u32, down: u32) -> Result<()> {
        if up == 0 || down == 0 {
            let problem = format!("cannot send at {up}/{down} of a rate: both numbers must be at least 1");
            return Err(Error::port(self.publisher.link().port(), problem));
        }
        let Stamps { sample_index, time_ns, order, stream } = packet.stamps();
        let scaled = u128::from(sample_index) * u128::from(up) / u128::from(down);
        let sample_index = u64::try_from(scaled).unwrap_or(u64::MAX);
        let rate = stream.sample_rate_hz.map(|rate| rate * f64::from(up) / f64::from(down));
        let current = self.publisher.link().stream();
        let is_current = current.sample_rate_hz == rate
            && current.id == stream.id
            && current.center_frequency_hz == stream.center_frequency_hz
            && current.clock == stream.clock
            && current.keywords == stream.keywords;
        let stream = if is_current {
            Arc::clone(current)
        } else {
            Arc::new(StreamInfo { sample_rate_hz: rate, ..(**stream).clone() })
        };
        self.send_stamped(Stamps { sample_index, time_ns, order, stream: &stream })
    }

    fn send_stamped(self, stamps: Stamps<'_>) -> Result<()> {
        self.check()?;
        let Stamps { sample_index, time_ns, order, stream } = stamps;
        let link = self.publisher.link();
        let stamp = link.stamp();
        (stamp.sample_index, stamp.time_ns) = (sample_index, time_ns);
        if let Some(order) = order {
            stamp.set_order(order);
        }
        if link.holds_large() {
            // No part of the packet is in a transport yet, so the description can be sent before
            // it.
            link.set_stream(stream);
        } else if !link.follows(stream) {
            // The description must precede the packet, but this loan holds the memory that it
            // needs.
            let (overrides, waits) = (link.overrides(), link.waits());
            let payload: Vec<u8> = bytemuck::cast_slice(&self[..]).to_vec();
            let link = self.publisher.link();
            link.cancel();
            link.set_stream(stream);
            let place = link.reserve(payload.len(), waits)?;
            link.set_overrides(overrides);
            // SAFETY: `place` was just lent, and the link has not been called since.
            unsafe { place.get_mut::<u8>() }.copy_from_slice(&payload);
        }
        self.send_checked()
    }
}

impl<T: Content> Deref for Loan<'_, T> {
    type Target = [T::Item];
    fn deref(&self) -> &[T::Item] {
        // SAFETY: the loan holds the link exclusively and does not call it until it sends or
        // cancels. The room is for at least `samples` samples.
        unsafe { self.start.get(self.publisher.form.items(self.samples)) }
    }
}

impl<T: Content> DerefMut for Loan<'_, T> {
    fn deref_mut(&mut self) -> &mut [T::Item] {
        // SAFETY: the same as in `deref`; `&mut self` makes this the only reference.
        unsafe { self.start.get_mut(self.publisher.form.items(self.samples)) }
    }
}

impl<T: Content> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        self.publisher.link().cancel();
    }
}
