//! The sending side of topics and ports.

mod loan;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::link::Outgoing;
use crate::packet::StreamInfo;
use crate::packet::content::SampleForm;
use crate::packet::payload::{Content, MessageCheck, Sendable};
use crate::sys::fork::Local;
use crate::terms::{LinkOptions, Scope};
use crate::transport::Wait;

use super::Subscriber;

pub use loan::Loan;

/// A component's input port: another name for [`Subscriber`]. A function that takes an `Input` also
/// takes a subscriber of a node.
///
/// ```
/// fn next_sum(input: &mut stripline::Input<f32>) -> stripline::Result<Option<f32>> {
///     Ok(input.receive()?.map(|packet| packet.iter().sum()))
/// }
/// ```
pub type Input<T> = Subscriber<T>;
/// A component's output port: another name for [`Publisher`].
///
/// ```
/// fn silence(output: &mut stripline::Output<f32>) -> stripline::Result<()> {
///     output.send(&[0.0; 256])
/// }
/// ```
pub type Output<T> = Publisher<T>;

/// The longest time for which a publisher waits at the end for receivers to take the remaining
/// packets.
const FINISH_TIME: Duration = Duration::from_secs(10);
/// A time longer than any program waits, and within the range of the clock.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// A publisher sends packets of samples or messages to every receiver of a topic or output port.
///
/// A publisher belongs to one thread at a time. Dropping it sends the end of stream, unless the
/// thread is panicking.
///
/// ```
/// use stripline::node::Node;
/// use stripline::Received;
/// use std::time::Duration;
///
/// let node = Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut subscriber = node.subscriber::<f32>("levels")?;
/// assert!(publisher.wait_for_receivers(1, Duration::from_secs(5))?);
/// publisher.send(&[1.0, 2.0])?;
/// let packet = subscriber.receive()?.expect("one packet");
/// assert_eq!(&*packet, [1.0, 2.0]);
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Publisher<T: Content> {
    /// Present until the publisher is dropped.
    outgoing: Option<Outgoing>,
    /// The channel to the runtime. The runtime takes the link instead of ending the stream, because
    /// it decides how the component ended.
    return_to: Option<Local<Sender<Outgoing>>>,
    form: T::Form,
    /// The check of messages, for a schema that is given at run time.
    pub(super) check: Option<Box<MessageCheck>>,
    /// Whether a packet is a message, which counts as one sample.
    pub(super) is_message: bool,
}

impl<C: Sendable> Publisher<C> {
    /// Sends a copy of the samples, or the message. Returns according to the scope of the
    /// connection. Blocks while a receiver with policy `block` has no room.
    ///
    /// # Errors
    /// Same as [`Publisher::loan_copy_of`] and [`Loan::send`].
    #[inline(always)]
    pub fn send(&mut self, value: &C::Value) -> Result<()> {
        self.loan_copy_of(value)?.send()
    }

    /// Prepares a packet as [`Publisher::loan`] does, filled with these samples or this message.
    /// The packet can be sent with its own scope, deadline or stamps. Dropping it sends nothing.
    ///
    /// # Errors
    /// Same as [`Publisher::loan`]. [`Error::Port`] if the bytes of
    /// [`Dynamic`](crate::payload::Dynamic) are not whole samples. [`Error::InvalidArgument`] for a
    /// message that does not serialise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::payload::Cbor;
    /// use stripline::terms::Scope;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut commands = node.publisher::<Cbor<String>>("commands")?;
    /// let mut receiver = node.subscriber::<Cbor<String>>("commands")?;
    /// commands.wait_for_receivers(1, Duration::from_secs(5))?;
    /// let component = std::thread::spawn(move || receiver.receive()?.map(|command| command.decode()).transpose());
    /// // Returns when the component has the command.
    /// commands.loan_copy_of(&"start".into())?.scope(Scope::Target).deadline(Duration::from_secs(5)).send()?;
    /// assert_eq!(component.join().expect("no panic")?, Some("start".into()));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// A component that forwards packets:
    ///
    /// ```no_run
    /// # fn example(
    /// #     mut input: stripline::Input<f32>,
    /// #     mut output: stripline::Output<f32>,
    /// # ) -> stripline::Result<()> {
    /// while let Some(packet) = input.receive()? {
    ///     output.loan_copy_of(&packet)?.send_like(&packet)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn loan_copy_of(&mut self, value: &C::Value) -> Result<Loan<'_, C>> {
        self.loan_with(value, true)
    }

    /// Sends like [`Publisher::send`], without waiting for room: either all receivers get the
    /// packet, or none does. Under the scopes `server` and `target` it still waits for the
    /// receivers after it has sent. A packet that a socket or a message queue does not take at once
    /// is passed on by a thread of this process.
    ///
    /// # Errors
    /// Same as [`Publisher::try_loan`] and [`Loan::send`]; [`Error::InvalidArgument`] for a
    /// message that does not serialise.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # let mut subscriber = node.subscriber::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// // The receiver takes no packets: after some, its queue is full.
    /// let error = loop {
    ///     if let Err(error) = publisher.try_send(&[0.5; 1000]) {
    ///         break error;
    ///     }
    /// };
    /// assert!(matches!(error, stripline::Error::Full { .. }));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn try_send(&mut self, value: &C::Value) -> Result<()> {
        self.loan_with(value, false)?.send()
    }

    #[inline(always)]
    fn loan_with(&mut self, value: &C::Value, waits: bool) -> Result<Loan<'_, C>> {
        let items = C::items(value).map_err(|problem| self.not_encoded(&problem))?;
        let count = self.whole(items.len())?;
        let mut loan = self.loan_as(count, waits)?;
        loan.copy_from_slice(&items);
        Ok(loan)
    }
}

impl<T: Content> Publisher<T> {
    /// Creates a publisher of samples of the given form, which fits the transports' memory.
    pub(crate) fn of(outgoing: Outgoing, return_to: Option<Sender<Outgoing>>, form: T::Form) -> Self {
        Self {
            outgoing: Some(outgoing),
            return_to: return_to.map(Local::new),
            form,
            check: None,
            is_message: false,
        }
    }

    /// Returns the port's or topic's name.
    pub fn name(&self) -> &str {
        self.outgoing.as_ref().map_or("", Outgoing::port)
    }

    /// Returns the sequence number of the next packet.
    pub fn sequence(&self) -> u64 {
        self.outgoing.as_ref().map_or(0, Outgoing::sequence)
    }

    /// Returns the description of the stream, as the next packet carries it, and the index of the
    /// next packet's first sample, unless the loan sets another one.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// publisher.set_stream(stripline::StreamInfo::new("left"));
    /// publisher.send(&[1.0, 2.0])?;
    /// let (stream, next) = publisher.place();
    /// assert_eq!((&*stream.id, next), ("left", 2));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn place(&self) -> (&Arc<StreamInfo>, u64) {
        self.outgoing.as_ref().expect("a publisher has its link until it is dropped").place()
    }

    /// Returns the size of a sample in bytes.
    pub fn sample_bytes(&self) -> usize {
        self.form.size()
    }

    /// Returns the scope of this publisher's sends: the strongest scope of the connections.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let publisher = node.publisher::<f32>("levels")?;
    /// assert_eq!(publisher.scope(), stripline::terms::Scope::Transport);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn scope(&self) -> Scope {
        self.outgoing.as_ref().map_or(Scope::Transport, Outgoing::scope)
    }

    /// Returns the number of receivers connected now.
    pub fn receivers(&mut self) -> usize {
        let link = self.link();
        link.admit();
        link.receivers()
    }

    /// Blocks until at least `count` receivers are connected. Returns false if `timeout` passes
    /// first.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Stopped`], [`Error::Forked`].
    pub fn wait_for_receivers(&mut self, count: usize, timeout: Duration) -> Result<bool> {
        self.link().wait_for_receivers(count, Instant::now().checked_add(timeout))
    }

    /// Returns the largest number of samples in a packet: [`LinkOptions::PACKET_MAX`] bytes of
    /// samples.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// assert_eq!(publisher.receivers(), 0);
    /// assert_eq!((publisher.name(), publisher.sequence()), ("levels", 0));
    /// let too_many = publisher.samples_max() + 1;
    /// assert!(matches!(publisher.loan(too_many), Err(stripline::Error::TooLarge { .. })));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn samples_max(&self) -> usize {
        LinkOptions::PACKET_MAX / self.form.size()
    }

    /// Returns the largest number of samples in a packet that fits into one frame. Such a packet is
    /// written in place, and [`Publisher::try_loan`] and [`Publisher::try_send`] accept it. The
    /// limit is a little less than half of the smallest `buffer` among the port's transports. A
    /// larger packet is written to memory of the port and copied once more.
    ///
    /// ```
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<f32>("levels")?;
    /// let many = vec![0.0; publisher.in_place_samples_max() + 1];
    /// let refusal = publisher.try_send(&many).unwrap_err();
    /// assert!(refusal.to_string().contains("`send`"));
    /// publisher.send(&many)?;
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn in_place_samples_max(&self) -> usize {
        self.outgoing.as_ref().map_or(0, Outgoing::frame_payload_max) / self.form.size()
    }

    /// Sets the description of the samples that follow. The description is sent once, and again for
    /// later receivers; receivers get it with every packet. The JSON of the description must not
    /// exceed [`StreamInfo::ENCODED_MAX`] and must fit into one frame. Otherwise the next send
    /// fails with [`Error::TooLarge`]. The next send also fails, with the reason, if
    /// [`StreamInfo::check`] does.
    ///
    /// With another `id`, the sample index begins at 0. With other frames
    /// ([`StreamInfo::frame_samples`]) of the same `id`, the index goes on at the next multiple of
    /// their length.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<i16>("audio")?;
    /// # let mut subscriber = node.subscriber::<i16>("audio")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.set_stream(stripline::StreamInfo::new("left").sample_rate_hz(48e3));
    /// publisher.send(&[1, 2, 3])?;
    /// let packet = subscriber.receive()?.expect("a packet");
    /// assert_eq!((&*packet.stream().id, packet.stream().sample_rate_hz), ("left", Some(48e3)));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn set_stream(&mut self, stream: StreamInfo) {
        self.link().set_stream(&Arc::new(stream));
    }

    /// Lends room for `samples` samples in the transport's memory. On shared memory, samples are
    /// written in place and not copied again. Blocks while a receiver with policy `block` has no
    /// room. The initial content is unspecified.
    ///
    /// More than [`Publisher::in_place_samples_max`] samples are written to memory that the port
    /// keeps for such packets. Such packets are sent in fragments, and [`Loan::send`] does all the
    /// waiting. So a packet larger than a ring or a socket's buffer gets through while the
    /// receivers take it. Receivers see one packet. A receiver that drops packets, and is overtaken
    /// in the middle of this one, loses all of it. For such a receiver over `inproc` and `shm`, set
    /// a `buffer` of four such packets; otherwise the receiver may get no such packet.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`Publisher::samples_max`]; [`Error::Stopped`] when the component
    /// is stopped; errors of the transport.
    #[inline(always)]
    pub fn loan(&mut self, samples: usize) -> Result<Loan<'_, T>> {
        self.loan_as(samples, true)
    }

    /// Lends like [`Publisher::loan`], without waiting.
    ///
    /// # Errors
    /// [`Error::Full`] when a receiver with policy `block` has no room. [`Error::TooLarge`] above
    /// [`Publisher::in_place_samples_max`], because room for several fragments cannot be checked in
    /// advance. Otherwise the same as [`Publisher::loan`].
    #[inline(always)]
    pub fn try_loan(&mut self, samples: usize) -> Result<Loan<'_, T>> {
        self.loan_as(samples, false)
    }

    /// Sends `packets` packets of `samples` samples each. `write` gets the index of each packet,
    /// from 0, and writes the samples in place as with [`Publisher::loan`]. Blocks for each packet
    /// as [`Publisher::send`] does.
    ///
    /// The result is the same as a loan and a send in a loop, at a lower cost per packet. Over
    /// `inproc` and `shm`, a receiver that polls gets each packet at once. A sleeping receiver is
    /// woken once: before this function waits for room, or at the end. Over `uds` and `tcp`,
    /// packets are gathered and leave with one system call once they fill 64 KiB, or with the last
    /// packet. Packets are sent one by one with several transports, with a lossy receiver or
    /// credits, and in scopes that wait for receivers.
    ///
    /// # Errors
    /// Same as [`Publisher::loan`] and [`Loan::send`]. Packets before the error stay sent, also
    /// when `write` panics. The increase of [`Publisher::sequence`] is the number of these packets.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<i16>("ramps")?;
    /// # let mut subscriber = node.subscriber::<i16>("ramps")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.send_many(3, 4, |index, place| place.fill(index as i16))?;
    /// assert_eq!(publisher.sequence(), 3);
    /// for index in 0..3 {
    ///     assert_eq!(*subscriber.receive()?.expect("a packet"), [index; 4]);
    /// }
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn send_many(
        &mut self,
        packets: usize,
        samples: usize,
        mut write: impl FnMut(usize, &mut [T::Item]),
    ) -> Result<()> {
        let form = self.form;
        let bytes = samples.saturating_mul(form.size());
        self.link().gather(true)?;
        let gather = Gather(self);
        let mut index = 0;
        while index < packets {
            let (is_checked, counted) = (gather.0.is_checked(), gather.0.counted(samples));
            let link = gather.0.link();
            let steady_end = if is_checked { index } else { packets };
            index = link.send_steady_run(index, steady_end, bytes, counted, |index, place| {
                // SAFETY: `place` was just lent, and the port is not called before `write` returns.
                write(index, unsafe { place.of(form).get_mut() });
            });
            // Either there was no room, or the packet is not one of a steady stream and needs the
            // full path.
            if index < packets {
                let mut loan = gather.0.loan(samples)?;
                write(index, &mut loan);
                loan.send()?;
                index += 1;
            }
        }
        gather.0.link().gather(false)
    }

    /// Ends the stream and blocks until the remaining packets have left this process, for at most
    /// ten seconds. Dropping a publisher does the same, but only prints an error.
    ///
    /// # Errors
    /// [`Error::Full`] when a receiver does not take the remaining packets in time.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u8>("bytes")?;
    /// # let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.finish()?;
    /// assert!(subscriber.receive()?.is_none());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn finish(self) -> Result<()> {
        self.finish_within(FINISH_TIME)
    }

    /// Ends the stream as [`Publisher::finish`] does, but blocks no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::Full`] when a receiver does not take the remaining packets in time. The receiver
    /// then sees the same end as after [`Publisher::abandon`]. The same applies after
    /// [`Error::Interrupted`]: use [`Publisher::end`] where a waker may end the wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u8>("bytes")?;
    /// # let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.finish_within(Duration::from_millis(100))?;
    /// assert!(subscriber.receive()?.is_none());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn finish_within(mut self, timeout: Duration) -> Result<()> {
        self.outgoing.take().map_or(Ok(()), |mut outgoing| outgoing.finish(finish_wait(timeout)))
    }

    /// Leaves without an end of stream. Receivers get all packets that were sent, and then behave
    /// as if the sender had died: they wait for another sender, which they report with a gap
    /// ([`GapReason::PeerRestart`](crate::GapReason::PeerRestart)).
    ///
    /// Use this for a stream that is incomplete, for example after an error: an end of stream would
    /// mark it as complete. A publisher that is dropped while its thread panics does the same. The
    /// report of a run then has no count of packets sent by the component's port.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use stripline::Received;
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u8>("bytes")?;
    /// # let mut subscriber = node.subscriber::<u8>("bytes")?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(b"half of it")?;
    /// publisher.abandon();
    /// assert_eq!(subscriber.receive()?.expect("a packet").len(), 10);
    /// assert!(matches!(subscriber.try_receive()?, Received::Empty));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn abandon(mut self) {
        drop(self.outgoing.take());
    }

    /// Waits until the transport has taken all packets that [`Publisher::try_send`] left to a
    /// thread of this process, but not longer than the send timeout. For languages that try to send
    /// before they wait without their lock.
    ///
    /// # Errors
    /// Unless it `waits`: [`Error::Full`] if the transport has not taken all of them. Events that
    /// end a wait; the packets stay sent.
    #[doc(hidden)]
    pub fn settle(&mut self, waits: bool) -> Result<()> {
        self.link().settle(if waits { Wait::FOREVER } else { Wait::Never })
    }

    #[inline(always)]
    fn loan_as(&mut self, samples: usize, waits: bool) -> Result<Loan<'_, T>> {
        let Some(bytes) = samples.checked_mul(self.form.size()) else {
            return Err(Error::TooLarge { bytes: usize::MAX, bytes_max: LinkOptions::PACKET_MAX });
        };
        let form = self.form;
        let start = self.link().reserve(bytes, waits)?.of(form).start();
        Ok(Loan::of(self, start, samples))
    }

    /// Returns the number of samples in `items` items.
    #[inline(always)]
    fn whole(&self, items: usize) -> Result<usize> {
        self.form.whole(items).ok_or_else(|| self.not_whole(items))
    }

    #[cold]
    fn not_whole(&self, bytes: usize) -> Error {
        let size = self.form.size();
        let problem =
            format!("cannot send {bytes} bytes: its samples have {size} bytes each; send whole ones");
        Error::port(self.name(), problem)
    }

    #[inline(always)]
    pub(super) fn form(&self) -> T::Form {
        self.form
    }

    #[inline(always)]
    pub(super) fn link(&mut self) -> &mut Outgoing {
        // Only `finish` and `drop` take the link, and both consume the publisher.
        self.outgoing.as_mut().expect("a publisher has its link until it is dropped")
    }
}

/// Returns the wait for an end of stream. A time beyond the clock's range means no limit.
pub(super) fn finish_wait(timeout: Duration) -> Wait {
    let now = Instant::now();
    Wait::FinishUnlessWoken(now.checked_add(timeout).unwrap_or(now + FOREVER))
}

/// A publisher that may send several packets together. Dropping this guard sends them, even after
/// an error or when the function that writes them panics.
struct Gather<'a, T: Content>(&'a mut Publisher<T>);

impl<T: Content> Drop for Gather<'_, T> {
    fn drop(&mut self) {
        // An earlier error has already been returned.
        let _ = self.0.link().gather(false);
    }
}

impl<T: Content> Drop for Publisher<T> {
    fn drop(&mut self) {
        // A forked child leaves the end of the stream to the process that sends it.
        let Some(mut outgoing) = self.outgoing.take().filter(Outgoing::is_own) else { return };
        match &self.return_to {
            // At the very end of a process, the runtime that waits for the link may be gone.
            // Dropping the link is then enough.
            Some(return_to) => drop(return_to.send(outgoing)),
            None if std::thread::panicking() => {}
            None => {
                if let Err(error) = outgoing.finish(Wait::Finish(Instant::now() + FINISH_TIME)) {
                    log::warn!(target: "stripline::node", "{}: end of stream: {error}", outgoing.port());
                }
            }
        }
    }
}
