//! Windows of samples in lengths that the receiver chooses, independent of packet boundaries.

mod lent;
mod unit;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::link::{ConnectionStats, FrameRef, Incoming};
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::packet::{Gap, Header, StreamInfo};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::clock::now_ns;
use crate::terms::LinkOptions;
use crate::transport::Wait;

use super::{ReadyDescriptor, Received, Subscriber};

pub use lent::Window;
pub use unit::WindowUnit;

/// A [`Subscriber`] that returns its samples in windows of any length, which may overlap, as
/// filters and transforms of a fixed size need.
///
/// A window within one packet is used in place. A window across the boundary of two packets cannot
/// be: every packet begins with a header, so the samples of two packets are never adjacent in
/// memory. The samples of such a window are each copied once (and moved at most once more while
/// windows overlap). Windows behind the boundary are in place again.
///
/// A window never crosses a gap, a jump of the sample index, or a change of stream or connection.
/// There it is shorter than requested, [`Window::is_whole`] is false, and the next window starts
/// behind the boundary.
/// Windows suit ports with one sender at a time: packets of several senders alternate, and every
/// change ends a window.
///
/// ```
/// # use std::time::Duration;
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<f32>("levels")?;
/// # let subscriber = node.subscriber::<f32>("levels")?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// # for part in [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] { publisher.send(&part)?; }
/// # publisher.finish()?;
/// // 1 2 3 and 4 5 6 have been sent. The mean of each four samples, two apart:
/// let (mut levels, mut means) = (subscriber.windowed(), Vec::new());
/// while let Some(window) = levels.window(4)? {
///     if window.is_whole() {
///         means.push(window.iter().sum::<f32>() / 4.0);
///     }
///     window.consume(2);
/// }
/// assert_eq!(means, [2.5, 4.5]);
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Windowed<T: Content> {
    source: WindowSource<T>,
    unit: WindowUnit,
    carried: CopiedSamples<T>,
    /// The gap before the next window.
    gap: Option<Gap>,
    /// Whether there is a boundary behind the copied samples. `gap_behind` is the gap there.
    at_border: bool,
    gap_behind: Option<Gap>,
    /// Whether the end of stream was found behind the copied samples.
    ended: bool,
}

/// A subscriber and the packet that it has lent.
struct WindowSource<T: Content> {
    subscriber: Subscriber<T>,
    held: bool,
    /// The number of samples of the packet that were consumed or copied.
    used: usize,
    /// The time when the last window was lent, and the statistics that the next window ends it for.
    /// `None`: the packets of the window are not measured, or measured by themselves.
    lent: Option<(Arc<ConnectionStats>, u64)>,
}

/// Copied samples of one stream of one connection, and the packets that they come from.
struct CopiedSamples<T: Content> {
    buffer: AlignedBuffer,
    /// In samples.
    start: usize,
    end: usize,
    parts: VecDeque<Part>,
    stream: Arc<StreamInfo>,
    connection: String,
    form: T::Form,
}

/// Samples of one packet.
#[derive(Clone, Copy)]
struct Part {
    header: Header,
    /// The number of samples of the packet that precede these samples.
    before: usize,
    samples: usize,
}

impl Part {
    /// Returns the index of the sample behind these samples.
    fn index_behind(&self) -> u64 {
        self.header.sample_index.wrapping_add((self.before + self.samples) as u64)
    }
}

/// The samples that are available for a window.
enum Available {
    Samples { count: usize, is_whole: bool },
    Nothing,
    End,
}

impl<T: Content> Subscriber<T> {
    /// Returns the same samples in windows of any size, across packet boundaries.
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
        self.windowed_in(WindowUnit::Samples)
    }

    /// Returns the same samples in windows with lengths in this unit: samples, rows or frames.
    ///
    /// A window begins with a row or frame. Where samples are missing at the beginning, the rest of
    /// the row or frame is a window that is not whole.
    ///
    /// ```
    /// use stripline::node::WindowUnit;
    /// use stripline::{Axis, StreamInfo};
    ///
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<f32>("spectra")?;
    /// let mut spectra = node.subscriber::<f32>("spectra")?.windowed_in(WindowUnit::Rows);
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// let (hz, s) = (Axis::new(0.0, 1e3, "Hz"), Axis::new(0.0, 0.1, "s"));
    /// publisher.set_stream(StreamInfo::new("spectra").rows(4, hz, s));
    /// (0..6).try_for_each(|part| publisher.send(&[part as f32; 2]))?;
    /// // Two rows of four samples, from four packets.
    /// let window = spectra.window(2)?.expect("two rows");
    /// assert_eq!(*window, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[must_use]
    pub fn windowed_in(self, unit: WindowUnit) -> Windowed<T> {
        let carried = CopiedSamples::new(self.form);
        let source = WindowSource { subscriber: self, held: false, used: 0, lent: None };
        Windowed { source, unit, carried, gap: None, at_border: false, gap_behind: None, ended: false }
    }
}

impl<T: Content> Windowed<T> {
    /// Returns the port's or topic's name.
    pub fn name(&self) -> &str {
        self.source.subscriber.name()
    }

    /// Returns the size of a sample in bytes.
    pub fn sample_bytes(&self) -> usize {
        self.carried.form.size()
    }

    /// Blocks until the next sample has arrived, and returns the description of that sample's
    /// stream; `None` is the end of stream. Nothing is consumed: a program can choose the length of
    /// windows by the stream.
    ///
    /// ```
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<f32>("audio")?;
    /// let mut audio = node.subscriber::<f32>("audio")?.windowed();
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// publisher.set_stream(stripline::StreamInfo::new("left").sample_rate_hz(100.0));
    /// publisher.send(&[0.5; 60])?;
    /// let stream = audio.stream()?.expect("a stream");
    /// // Half a second.
    /// let length = stream.sample_rate_hz.expect("a rate") as usize / 2;
    /// assert_eq!(audio.window(length)?.expect("samples").len(), 50);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Subscriber::receive`].
    pub fn stream(&mut self) -> Result<Option<Arc<StreamInfo>>> {
        let unit = std::mem::take(&mut self.unit);
        let found = self.find(1, |subscriber| subscriber.take(|| Wait::FOREVER));
        self.unit = unit;
        Ok(match found? {
            Available::Samples { .. } => Some(Arc::clone(self.stream_of_next())),
            Available::Nothing | Available::End => None,
        })
    }

    /// Blocks until there are `length` contiguous samples, rows or frames, or fewer before a
    /// boundary; `None` is the end of stream.
    ///
    /// # Errors
    /// Same as [`Subscriber::receive`]; samples that have arrived are kept. [`Error::Port`] for a
    /// window of no samples, and for a window in rows or frames of a stream that has none;
    /// [`Error::TooLarge`] for a window of more than [`LinkOptions::PACKET_MAX`] bytes.
    pub fn window(&mut self, length: usize) -> Result<Option<Window<'_, T>>> {
        Ok(self.window_within(length, Wait::FOREVER)?.packet())
    }

    /// Waits like [`Windowed::window`], for a component that also handles requests. `on_request`
    /// returns the length of the window. The function is called first, after each packet, and
    /// immediately when a request arrives while no packet is available. So a new length or another
    /// property takes effect without waiting for samples.
    ///
    /// # Errors
    /// Same as [`Windowed::window`].
    ///
    /// ```no_run
    /// # fn example(mut ports: stripline::component::Ports, mut length: usize) -> stripline::Result<()> {
    /// let requests = ports.requests();
    /// let mut input = ports.input::<f32>("in")?.windowed();
    /// let mut output = ports.output::<f32>("out")?;
    /// while let Some(window) = input.window_with(|| {
    ///     requests.apply_changes(|new| Ok(length = new.count("length") as usize));
    ///     length
    /// })? {
    ///     let mut loan = output.loan(window.len())?;
    ///     loan.iter_mut().zip(window.iter().rev()).for_each(|(y, x)| *y = *x);
    ///     loan.send_like(&window)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn window_with(&mut self, mut on_request: impl FnMut() -> usize) -> Result<Option<Window<'_, T>>> {
        let mut length = on_request();
        loop {
            self.check_length(length)?;
            // A packet ends the wait too: `on_request` must run before the next wait begins.
            let mut waited = false;
            let found = self.find(length, |subscriber| {
                if std::mem::replace(&mut waited, true) {
                    return Ok(Received::Empty);
                }
                subscriber.take_or_request()
            })?;
            match found {
                Available::Nothing => length = on_request(),
                Available::End => return Ok(None),
                Available::Samples { count, is_whole } => return Ok(Some(self.lend(count, is_whole))),
            }
        }
    }

    /// Returns the next window if all samples have arrived, or some samples and a boundary.
    ///
    /// # Errors
    /// Same as [`Windowed::window`].
    pub fn try_window(&mut self, length: usize) -> Result<Received<Window<'_, T>>> {
        self.window_within(length, Wait::Never)
    }

    /// Waits like [`Windowed::window`], but not longer than `timeout`. Samples that have arrived
    /// are kept for the next call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut publisher = node.publisher::<u8>("bytes")?;
    /// let mut bytes = node.subscriber::<u8>("bytes")?.windowed();
    /// assert_eq!(bytes.name(), "bytes");
    /// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(b"abc")?;
    /// assert!(matches!(bytes.window_timeout(4, Duration::from_millis(10))?, Received::Empty));
    /// assert_eq!(bytes.try_window(3)?.packet().as_deref(), Some(&b"abc"[..]));
    /// publisher.finish()?;
    /// assert!(bytes.window(4)?.is_none());
    /// assert_eq!(bytes.gap_at_end(), None);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Windowed::window`].
    pub fn window_timeout(&mut self, length: usize, timeout: Duration) -> Result<Received<Window<'_, T>>> {
        self.window_within(length, Wait::within(timeout))
    }

    /// Returns a descriptor for `poll`, epoll or a toolkit, as
    /// [`Waitable::ready_descriptor`](super::Waitable::ready_descriptor) does.
    ///
    /// # Errors
    /// Same as [`Waitable::ready_descriptor`](super::Waitable::ready_descriptor).
    pub fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        self.source.subscriber.incoming.ready_set().map(ReadyDescriptor::new)
    }

    /// Makes the descriptor readable once a packet has arrived that may complete a window of
    /// this length, or the end of stream, or an error. False: such a window is available
    /// already, and [`Windowed::try_window`] returns it. Call this each time before the loop waits.
    /// The call does not block.
    ///
    /// ```
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::node::{Node, Received};
    ///
    /// let node = Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?.windowed();
    /// let descriptor = levels.ready_descriptor()?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
    /// # (0..6).try_for_each(|level| publisher.send(&[level as f32]))?;
    /// # publisher.finish()?;
    /// let mut windows = 0;
    /// loop {
    ///     if levels.arm(2)? {
    ///         // Beside the other descriptors of the loop.
    ///         poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it waits");
    ///     }
    ///     match levels.try_window(2)? {
    ///         Received::Packet(_) => windows += 1,
    ///         Received::Empty => {}
    ///         Received::Ended => break,
    ///     }
    /// }
    /// assert_eq!(windows, 3);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Waitable::arm`](super::Waitable::arm) and [`Windowed::window`].
    pub fn arm(&mut self, length: usize) -> Result<bool> {
        self.check_length(length)?;
        loop {
            match self.find(length, |subscriber| subscriber.take(|| Wait::Never))? {
                Available::Samples { .. } => return Ok(false),
                Available::End => {
                    self.ended = true;
                    return Ok(false);
                }
                // No packet is held in this case, so the link may be called.
                Available::Nothing => {
                    let incoming = &mut self.source.subscriber.incoming;
                    let set = incoming.ready_set()?;
                    if incoming.arm(&set)? {
                        return Ok(true);
                    }
                    // A packet has arrived, which may be too short for a window.
                }
            }
        }
    }

    /// Returns the gap at the end, as [`Subscriber::gap_at_end`] does.
    pub fn gap_at_end(&mut self) -> Option<Gap> {
        // A gap kept for samples that never came is earlier than the link's gap.
        self.gap.take().or_else(|| self.source.subscriber.gap_at_end())
    }

    fn window_within(&mut self, length: usize, wait: Wait) -> Result<Received<Window<'_, T>>> {
        self.check_length(length)?;
        if wait.is_interruptible() {
            // A packet may hold the samples of many windows, so check for a wake here.
            self.incoming().stop().interrupt().take(false)?;
        }
        Ok(match self.find(length, |subscriber| subscriber.take(|| wait))? {
            Available::Nothing => Received::Empty,
            Available::End => Received::Ended,
            Available::Samples { count, is_whole } => Received::Packet(self.lend(count, is_whole)),
        })
    }

    pub(super) fn incoming(&self) -> &Incoming {
        &self.source.subscriber.incoming
    }

    fn check_length(&self, samples: usize) -> Result<()> {
        if samples == 0 {
            return Err(Error::port(self.name(), "a window has at least one sample"));
        }
        let bytes = samples.saturating_mul(self.carried.form.size());
        if bytes > LinkOptions::PACKET_MAX {
            return Err(Error::TooLarge { bytes, bytes_max: LinkOptions::PACKET_MAX });
        }
        Ok(())
    }

    /// Lends the samples that were found.
    fn lend(&mut self, samples: usize, is_whole: bool) -> Window<'_, T> {
        let gap = self.gap.take();
        // A window in one packet counts with the packet.
        if self.carried.parts.front().is_some_and(|part| part.header.sent_ns != 0) {
            self.source.lent = Some((Arc::clone(self.source.subscriber.incoming.stats()), now_ns()));
        }
        Window { of: self, samples, done: samples, is_whole, gap }
    }

    /// Returns the description of the stream that the next sample belongs to.
    fn stream_of_next(&self) -> &Arc<StreamInfo> {
        self.source.stream().filter(|_| self.carried.len() == 0).unwrap_or(&self.carried.stream)
    }

    /// Returns the length in samples of the window that begins with the next sample, and whether it
    /// would be whole.
    fn samples_of(&self, length: usize) -> Result<(usize, bool)> {
        if self.unit == WindowUnit::Samples {
            return Ok((length, true));
        }
        let Some(part) = self.part() else { return Ok((length, true)) };
        let index = part.header.sample_index.wrapping_add(part.before as u64);
        let found = self.unit.window_at(index, length, self.stream_of_next());
        let (samples, is_whole) = found.map_err(|problem| Error::port(self.name(), problem))?;
        self.check_length(samples)?;
        Ok((samples, is_whole))
    }

    /// Makes the samples of the next window contiguous, or fewer samples up to a boundary.
    fn find(
        &mut self,
        length: usize,
        mut take: impl FnMut(&mut Subscriber<T>) -> Result<Received<FrameRef>>,
    ) -> Result<Available> {
        self.source.subscriber.incoming.check_own()?;
        if let Some((stats, lent_ns)) = self.source.lent.take() {
            stats.finished(now_ns().saturating_sub(lent_ns));
        }
        loop {
            let carried = self.carried.len();
            let (samples, is_whole) = self.samples_of(length)?;
            if carried >= samples {
                return Ok(Available::Samples { count: samples, is_whole });
            }
            if carried > 0 && (self.at_border || self.ended) {
                return Ok(Available::Samples { count: carried, is_whole: false });
            }
            if std::mem::take(&mut self.at_border) {
                // The samples before the boundary are consumed, and with them the gap in front of
                // them.
                self.gap = self.gap_behind.take();
            }
            if std::mem::take(&mut self.ended) {
                return Ok(Available::End);
            }
            if !self.source.held {
                match take(&mut self.source.subscriber)? {
                    Received::Empty => return Ok(Available::Nothing),
                    Received::Ended => self.ended = true,
                    Received::Packet(_) => self.hold(),
                }
                continue;
            }
            let rest = self.source.rest_samples();
            if carried == 0 && rest >= samples {
                return Ok(Available::Samples { count: samples, is_whole });
            }
            let count = rest.min(samples - carried);
            self.carried.append(&self.source, count);
            self.source.skip(count, true);
        }
    }

    /// Takes in a received packet.
    fn hold(&mut self) {
        if let Some(gap) = self.source.subscriber.incoming.taken().gap {
            self.at_border = self.carried.len() > 0;
            let place = if self.at_border { &mut self.gap_behind } else { &mut self.gap };
            // Several gaps without samples in between are merged.
            *place = Some(place.map_or(gap, |before| before.and(gap)));
        }
        self.source.hold();
        if self.source.rest().is_empty() {
            self.source.skip(0, false);
        } else if !self.carried.is_continued_by(&self.source) {
            self.at_border = true;
        }
    }

    fn consume(&mut self, samples: usize) {
        if self.carried.len() == 0 {
            self.source.skip(samples, false);
            return;
        }
        self.carried.skip(samples);
        // If all copied samples belong to the held packet, the window is in place again. Part of a
        // packet is copied only behind samples of other packets, so the copied part starts at the
        // beginning of the packet.
        if self.source.held && self.carried.len() <= self.source.used {
            self.source.used -= self.carried.len();
            self.carried.clear();
        }
    }

    fn samples(&self) -> &[T::Item] {
        if self.carried.len() > 0 { self.carried.samples() } else { self.source.rest() }
    }

    /// Returns the origin of the first sample.
    fn part(&self) -> Option<Part> {
        self.carried.parts.front().copied().or_else(|| self.source.part(0))
    }
}

impl<T: Content> WindowSource<T> {
    /// Returns the samples of the held packet that have not been consumed.
    fn rest(&self) -> &[T::Item] {
        if !self.held {
            return &[];
        }
        let used = self.subscriber.form.items(self.used);
        // SAFETY: a packet is taken only while no other is held, and the link is not called while a
        // packet is held. Size and alignment were checked when the packet was taken.
        unsafe { &self.subscriber.incoming.taken().payload.get::<T::Item>()[used..] }
    }

    fn rest_samples(&self) -> usize {
        self.subscriber.form.samples(self.rest().len())
    }

    fn hold(&mut self) {
        debug_assert!(!self.held, "one packet at a time");
        (self.held, self.used) = (true, 0);
    }

    /// Consumes the next `samples` samples, or counts them as copied. Releases the packet when no
    /// samples are left.
    fn skip(&mut self, samples: usize, is_copied: bool) {
        self.used += samples;
        if self.held && self.rest().is_empty() {
            self.held = false;
            match is_copied {
                // The window with the copy is in use for longer than the packet.
                true => drop(self.subscriber.incoming.release_copied()),
                false => self.subscriber.incoming.release(),
            }
        }
    }

    fn part(&self, samples: usize) -> Option<Part> {
        self.held.then(|| {
            let header = self.subscriber.incoming.taken().header;
            Part { header, before: self.used, samples }
        })
    }

    fn stream(&self) -> Option<&Arc<StreamInfo>> {
        self.held.then(|| self.subscriber.incoming.stream())
    }

    fn connection(&self) -> &str {
        if self.held { self.subscriber.incoming.connection() } else { "" }
    }
}

impl<T: Content> CopiedSamples<T> {
    fn new(form: T::Form) -> Self {
        Self {
            form,
            buffer: AlignedBuffer::default(),
            start: 0,
            end: 0,
            parts: VecDeque::new(),
            stream: Arc::default(),
            connection: String::new(),
        }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn samples(&self) -> &[T::Item] {
        let size = self.form.size();
        let bytes = self.start * size..self.end * size;
        bytemuck::cast_slice(&self.buffer.bytes()[bytes])
    }

    /// Returns whether the held packet continues the copied samples. Repeating the description of
    /// the same stream is not a change.
    fn is_continued_by(&self, source: &WindowSource<T>) -> bool {
        let same = |stream: &Arc<StreamInfo>| Arc::ptr_eq(stream, &self.stream) || **stream == *self.stream;
        let is_next = || {
            let (last, next) = (self.parts.back(), source.part(0));
            last.zip(next).is_none_or(|(last, next)| last.index_behind() == next.header.sample_index)
        };
        self.len() == 0
            || (source.connection() == self.connection && source.stream().is_some_and(same) && is_next())
    }

    /// Copies samples from the held packet.
    fn append(&mut self, source: &WindowSource<T>, samples: usize) {
        if self.len() == 0 {
            self.clear();
            self.stream = source.stream().cloned().unwrap_or_default();
            self.connection.clear();
            self.connection.push_str(source.connection());
        }
        self.make_space(samples);
        let size = self.form.size();
        let place = &mut self.buffer.bytes_mut()[self.end * size..][..samples * size];
        place.copy_from_slice(bytemuck::cast_slice(&source.rest()[..self.form.items(samples)]));
        self.end += samples;
        self.parts.extend(source.part(samples));
    }

    /// Makes room for `samples` more samples at the end.
    fn make_space(&mut self, samples: usize) {
        let size = self.form.size();
        if (self.end + samples) * size > self.buffer.len() && self.start > 0 && self.start >= self.len() {
            // At least as many samples were consumed since the last move as are moved now.
            self.buffer.bytes_mut().copy_within(self.start * size..self.end * size, 0);
            (self.start, self.end) = (0, self.len());
        }
        self.buffer.grow((self.end + samples) * size);
    }

    fn skip(&mut self, mut samples: usize) {
        self.start += samples;
        while samples > 0
            && let Some(part) = self.parts.front_mut()
        {
            let of_part = samples.min(part.samples);
            part.before += of_part;
            part.samples -= of_part;
            samples -= of_part;
            if part.samples == 0 {
                self.parts.pop_front();
            }
        }
    }

    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.parts.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use crate::node::{Node, Publisher};

    use super::*;

    /// A time longer than any step takes on a busy machine: it only ends a hang.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn pair(node: &Node, topic: &str) -> (Publisher<u32>, Subscriber<u32>) {
        let mut publisher = node.publisher(topic).unwrap();
        let subscriber = node.subscriber(topic).unwrap();
        publisher.wait_for_receivers(1, DEADLINE).unwrap();
        (publisher, subscriber)
    }

    fn stream(rate_hz: f64) -> StreamInfo {
        StreamInfo::new("antenna").sample_rate_hz(rate_hz).center_frequency_hz(1090e6).keyword("gain", 3)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

        // The model counts: `up` samples are sent for each `down` samples received, from sample 0
        // on.
        #[test]
        fn windows_sent_on_at_any_rate_are_numbered_by_counting(
            packets in proptest::collection::vec(0..40_usize, 1..30),
            up in 1..6_u32,
            down in 1..6_u32,
            per_window in 1..4_usize,
        ) {
            let node = Node::isolated().unwrap();
            let (mut source, input) = pair(&node, "in");
            let (mut output, mut results) = pair(&node, "out");
            let mut input = input.windowed();
            source.set_stream(stream(1e6));
            let (consumed, produced) = (per_window * down as usize, per_window * up as usize);
            let (mut received, mut sent, mut next) = (0_u64, 0_u64, 0_u32);
            for samples in packets {
                let values: Vec<u32> = (next..).take(samples).collect();
                let mut loan = source.loan(samples).unwrap();
                loan.copy_from_slice(&values);
                loan.at_time_ns(1_000 * (i64::from(next) + 1)).send().unwrap();
                next += samples as u32;
                while let Received::Packet(window) = input.try_window(consumed).unwrap() {
                    let mut loan = output.loan(produced).unwrap();
                    loan.fill(window[0]);
                    loan.send_like_at_rate(&window, up, down).unwrap();
                    drop(window);
                    let Received::Packet(result) = results.receive_timeout(DEADLINE).unwrap() else {
                        panic!("no packet in time");
                    };
                    prop_assert_eq!((result.len(), u64::from(result[0])), (produced, received));
                    prop_assert_eq!((result.sample_index(), result.gap()), (sent, None));
                    prop_assert_eq!(result.time_ns(), 1_000 * (received as i64 + 1));
                    prop_assert_eq!(&**result.stream(), &stream(1e6 * f64::from(up) / f64::from(down)));
                    received += consumed as u64;
                    sent += produced as u64;
                }
                prop_assert!(u64::from(next) - received < consumed as u64, "a window was left");
            }
        }
    }

    #[test]
    fn a_window_sent_on_keeps_stream_index_and_time() {
        let node = Node::isolated().unwrap();
        let (mut source, input) = pair(&node, "in");
        let (mut output, mut results) = pair(&node, "out");
        let mut input = input.windowed();
        source.set_stream(stream(1e6));
        for index in [100, 104] {
            let mut loan = source.loan(4).unwrap();
            loan.fill(7);
            loan.at_sample(index).at_time_ns(index as i64 * 1_000).send().unwrap();
        }
        // In place, across the boundary of the packets, and in place again.
        for index in [100, 103, 106] {
            let window = input.window(2).unwrap().unwrap();
            output.loan(1).unwrap().send_like(&window).unwrap();
            drop(window);
            let result = results.receive().unwrap().unwrap();
            assert_eq!((result.sample_index(), result.time_ns()), (index, index as i64 * 1_000));
            assert_eq!(**result.stream(), stream(1e6));
            drop(result);
            if index < 106 {
                input.window(1).unwrap().unwrap();
            }
        }
    }

    #[test]
    fn a_changed_rate_rounds_down_saturates_and_refuses_zero() {
        let node = Node::isolated().unwrap();
        let (mut source, mut input) = pair(&node, "in");
        let (mut output, mut results) = pair(&node, "out");
        // The description has no rate.
        source.set_stream(StreamInfo::new("unknown"));
        for (index, up, down, expected) in
            [(11, 1, 4, 2), (u64::MAX, 3, 2, u64::MAX), (u64::MAX, 1, 1, u64::MAX), (0, 5, 1, 0)]
        {
            source.loan(0).unwrap().at_sample(index).send().unwrap();
            let packet = input.receive().unwrap().unwrap();
            output.loan(0).unwrap().send_like_at_rate(&packet, up, down).unwrap();
            let result = results.receive().unwrap().unwrap();
            assert_eq!((result.sample_index(), result.stream().sample_rate_hz), (expected, None));
            for (up, down) in [(0, 1), (1, 0)] {
                let error = output.loan(0).unwrap().send_like_at_rate(&packet, up, down).unwrap_err();
                assert!(error.to_string().contains(&format!("at {up}/{down} of a rate")), "{error}");
            }
        }
        output.finish().unwrap();
        assert!(results.receive().unwrap().is_none(), "a refused packet was sent");
    }

    #[test]
    fn a_request_ends_the_wait_for_samples_and_changes_the_length() {
        let node = Node::isolated().unwrap();
        let (mut source, input) = pair(&node, "in");
        let (calls, called) = mpsc::channel();
        let events = input.incoming.port_events();
        let length = Arc::new(std::sync::atomic::AtomicUsize::new(4));
        source.send(&[1, 2]).unwrap();
        let helper = std::thread::spawn({
            let length = Arc::clone(&length);
            move || {
                // The second call follows the packet. From then on, the receiver waits for two more
                // samples.
                (0..2).for_each(|_| called.recv_timeout(DEADLINE).unwrap());
                length.store(2, std::sync::atomic::Ordering::SeqCst);
                events.notify_request();
                // Without a request the receiver would wait for the end of stream.
                let is_interrupted = called.recv_timeout(DEADLINE).is_ok();
                source.finish().unwrap();
                is_interrupted
            }
        });
        let mut windows = input.windowed();
        let mut on_request = || {
            let samples = length.load(std::sync::atomic::Ordering::SeqCst);
            calls.send(()).ok();
            samples
        };
        let window = windows.window_with(&mut on_request).unwrap().unwrap();
        assert_eq!((&*window, window.is_whole()), (&[1, 2][..], true));
        drop(window);
        assert!(helper.join().unwrap(), "the request did not end the wait");
        assert!(windows.window_with(&mut on_request).unwrap().is_none());
        assert!(matches!(windows.window_with(|| 0), Err(Error::Port { .. })));
        assert!(matches!(windows.window_with(|| 1 << 30), Err(Error::TooLarge { .. })));
    }
}
