//! Windows of samples in the length that the receiver wants, independent of packet boundaries.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::packet::payload::Sample;
use crate::packet::{Gap, Header, StreamInfo};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::terms::LinkOptions;
use crate::transport::Wait;

use super::{Received, Subscriber};

/// A [`Subscriber`] that gives its samples in windows of any length, which may overlap, as filters
/// and transforms of a fixed size need.
///
/// A window within one packet is used in place. One that crosses the boundary of two packets cannot
/// be: every packet has its header in front, so their samples are never adjacent in memory. Its
/// samples are then copied once each (and moved at most once more while windows overlap). Windows
/// behind the boundary are in place again.
///
/// A window never crosses a gap, or a change of stream or connection. There it is shorter than
/// requested, [`Window::is_whole`] is false, and the next one starts behind the boundary. Windows
/// suit ports with one sender at a time: packets of several senders alternate, and every change
/// ends a window.
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
pub struct Windowed<T: Sample> {
    source: WindowSource<T>,
    carried: Carried<T>,
    /// The gap before the next window.
    gap: Option<Gap>,
    /// Whether there is a boundary behind the copied samples, and the gap there.
    at_border: bool,
    gap_behind: Option<Gap>,
    /// Whether the end of stream was found behind it.
    ended: bool,
}

/// A subscriber, and the packet that it has lent.
struct WindowSource<T: Sample> {
    subscriber: Subscriber<T>,
    held: bool,
    /// How many samples of the packet are consumed or copied.
    used: usize,
}

/// Copied samples of one stream of one connection, and the packets they come from.
struct Carried<T> {
    buffer: AlignedBuffer,
    /// In samples.
    start: usize,
    end: usize,
    parts: VecDeque<Part>,
    stream: Arc<StreamInfo>,
    connection: String,
    of: PhantomData<fn() -> T>,
}

/// Samples of one packet.
#[derive(Clone, Copy)]
struct Part {
    header: Header,
    /// How many samples of the packet come before them.
    before: usize,
    samples: usize,
}

/// The samples that are available for a window.
enum Found {
    Samples { count: usize, is_whole: bool },
    Nothing,
    End,
}

impl<T: Sample> Windowed<T> {
    pub(super) fn new(subscriber: Subscriber<T>) -> Self {
        let source = WindowSource { subscriber, held: false, used: 0 };
        Self { source, carried: Carried::new(), gap: None, at_border: false, gap_behind: None, ended: false }
    }

    /// Returns the port's or topic's name.
    pub fn name(&self) -> &str {
        self.source.subscriber.name()
    }

    /// Blocks until there are `samples` contiguous samples, or fewer in front of a boundary; `None`
    /// is the end of stream.
    ///
    /// # Errors
    /// As [`Subscriber::receive`], after which the samples so far are kept. [`Error::Port`] for a
    /// window of no samples, [`Error::TooLarge`] for one of more than [`LinkOptions::PACKET_MAX`]
    /// bytes.
    pub fn window(&mut self, samples: usize) -> Result<Option<Window<'_, T>>> {
        Ok(self.window_within(samples, Wait::FOREVER)?.packet())
    }

    /// Returns the next window if all its samples have arrived, or a boundary behind some.
    ///
    /// # Errors
    /// As [`Windowed::window`].
    pub fn try_window(&mut self, samples: usize) -> Result<Received<Window<'_, T>>> {
        self.window_within(samples, Wait::Never)
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
    /// As [`Windowed::window`].
    pub fn window_timeout(&mut self, samples: usize, timeout: Duration) -> Result<Received<Window<'_, T>>> {
        self.window_within(samples, Wait::within(timeout))
    }

    /// Returns the gap at the end, as [`Subscriber::gap_at_end`].
    pub fn gap_at_end(&mut self) -> Option<Gap> {
        // A gap that was kept for samples that never came is earlier than the one of the link.
        self.gap.take().or_else(|| self.source.subscriber.gap_at_end())
    }

    fn window_within(&mut self, samples: usize, wait: Wait) -> Result<Received<Window<'_, T>>> {
        if samples == 0 {
            return Err(Error::port(self.name(), "a window has at least one sample"));
        }
        let bytes = samples.saturating_mul(size_of::<T>());
        if bytes > LinkOptions::PACKET_MAX {
            return Err(Error::TooLarge { bytes, bytes_max: LinkOptions::PACKET_MAX });
        }
        Ok(match self.find(samples, wait)? {
            Found::Nothing => Received::Empty,
            Found::End => Received::Ended,
            Found::Samples { count, is_whole } => {
                let gap = self.gap.take();
                Received::Packet(Window { of: self, samples: count, done: count, is_whole, gap })
            }
        })
    }

    /// Makes the next `samples` samples contiguous, or those up to a boundary.
    fn find(&mut self, samples: usize, wait: Wait) -> Result<Found> {
        self.source.subscriber.incoming.check_own()?;
        loop {
            let carried = self.carried.len();
            if carried >= samples {
                return Ok(Found::Samples { count: samples, is_whole: true });
            }
            if carried > 0 && (self.at_border || self.ended) {
                return Ok(Found::Samples { count: carried, is_whole: false });
            }
            if std::mem::take(&mut self.at_border) {
                // The samples before the boundary are consumed, and with them the gap before them.
                self.gap = self.gap_behind.take();
            }
            if std::mem::take(&mut self.ended) {
                return Ok(Found::End);
            }
            if !self.source.held {
                match self.source.subscriber.take(wait)? {
                    Received::Empty => return Ok(Found::Nothing),
                    Received::Ended => self.ended = true,
                    Received::Packet(_) => self.hold(),
                }
                continue;
            }
            let rest = self.source.rest().len();
            if carried == 0 && rest >= samples {
                return Ok(Found::Samples { count: samples, is_whole: true });
            }
            let count = rest.min(samples - carried);
            self.carried.append(&self.source, count);
            self.source.skip(count);
        }
    }

    /// Takes in a packet that was received.
    fn hold(&mut self) {
        if let Some(gap) = self.source.subscriber.incoming.taken().gap {
            self.at_border = self.carried.len() > 0;
            let place = if self.at_border { &mut self.gap_behind } else { &mut self.gap };
            // Several gaps without a sample in between are added up.
            *place = Some(place.map_or(gap, |before| before.and(gap)));
        }
        self.source.hold();
        if self.source.rest().is_empty() {
            self.source.skip(0);
        } else if !self.carried.is_continued_by(&self.source) {
            self.at_border = true;
        }
    }

    fn consume(&mut self, samples: usize) {
        if self.carried.len() == 0 {
            self.source.skip(samples);
            return;
        }
        self.carried.skip(samples);
        // If the copied samples now all belong to the held packet, the window is back in place. A
        // packet is copied in part only behind others, so the copy starts at the packet's
        // beginning.
        if self.source.held && self.carried.len() <= self.source.used {
            self.source.used -= self.carried.len();
            self.carried.clear();
        }
    }

    fn samples(&self) -> &[T] {
        if self.carried.len() > 0 { self.carried.samples() } else { self.source.rest() }
    }

    /// Returns where the first sample comes from.
    fn part(&self) -> Option<Part> {
        self.carried.parts.front().copied().or_else(|| self.source.part(0))
    }
}

impl<T: Sample> WindowSource<T> {
    /// Returns the samples of the held packet that are not consumed.
    fn rest(&self) -> &[T] {
        if !self.held {
            return &[];
        }
        // SAFETY: a packet is taken only while none is held, and the link is not called otherwise
        // while one is. Size and alignment were checked when it was taken.
        unsafe { &self.subscriber.incoming.taken().payload.get::<T>()[self.used..] }
    }

    fn hold(&mut self) {
        debug_assert!(!self.held, "one packet at a time");
        (self.held, self.used) = (true, 0);
    }

    /// Consumes the next `samples` samples, and releases the packet if there are no more.
    fn skip(&mut self, samples: usize) {
        self.used += samples;
        if self.held && self.rest().is_empty() {
            self.held = false;
            self.subscriber.incoming.release();
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

impl<T: Sample> Carried<T> {
    fn new() -> Self {
        Self {
            buffer: AlignedBuffer::default(),
            start: 0,
            end: 0,
            parts: VecDeque::new(),
            stream: Arc::default(),
            connection: String::new(),
            of: PhantomData,
        }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn samples(&self) -> &[T] {
        let bytes = self.start * size_of::<T>()..self.end * size_of::<T>();
        bytemuck::cast_slice(&self.buffer.bytes()[bytes])
    }

    /// Returns whether the held packet continues the copied samples. A repeated description of the
    /// same stream is no change.
    fn is_continued_by(&self, source: &WindowSource<T>) -> bool {
        let same = |stream: &Arc<StreamInfo>| Arc::ptr_eq(stream, &self.stream) || **stream == *self.stream;
        self.len() == 0 || (source.connection() == self.connection && source.stream().is_some_and(same))
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
        let size = size_of::<T>();
        let place = &mut self.buffer.bytes_mut()[self.end * size..][..samples * size];
        place.copy_from_slice(bytemuck::cast_slice(&source.rest()[..samples]));
        self.end += samples;
        self.parts.extend(source.part(samples));
    }

    /// Makes room for that many samples at the end.
    fn make_space(&mut self, samples: usize) {
        let size = size_of::<T>();
        if (self.end + samples) * size > self.buffer.len() && self.start > 0 && self.start >= self.len() {
            // At least as many were consumed since the last time as are moved now.
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

/// Contiguous samples, consumed when dropped.
///
/// ```
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<i16>("audio")?;
/// # let mut audio = node.subscriber::<i16>("audio")?.windowed();
/// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
/// publisher.set_stream(stripline::StreamInfo::new("left").sample_rate_hz(48e3));
/// let mut loan = publisher.loan(100)?;
/// loan.fill(7);
/// loan.at_sample(500).at_time_ns(1_000_000_000).send()?;
/// publisher.finish()?;
///
/// audio.window(48)?.expect("some samples").consume(24);
/// let window = audio.window(48)?.expect("some samples");
/// assert_eq!((window.len(), window.is_whole(), window[47]), (48, true, 7));
/// assert_eq!((window.sequence(), window.sample_index(), window.time_ns()), (0, 524, 1_000_500_000));
/// assert_eq!((&*window.stream().id, window.gap()), ("left", None));
/// assert!(window.connection().ends_with("-> audio"));
/// drop(window);
///
/// let rest = audio.window(48)?.expect("some samples");
/// assert_eq!((rest.len(), rest.is_whole()), (28, false));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Window<'a, T: Sample> {
    of: &'a mut Windowed<T>,
    samples: usize,
    done: usize,
    is_whole: bool,
    gap: Option<Gap>,
}

impl<T: Sample> Window<'_, T> {
    /// Returns whether it has all the samples that were requested. If not, a boundary or the end of
    /// stream follows, and the next window starts behind it.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Consumes only the first `samples` samples: the next window starts behind them. A window that
    /// is not whole is consumed in any case, because it cannot become longer.
    pub fn consume(mut self, samples: usize) {
        if self.is_whole {
            self.done = samples.min(self.samples);
        }
    }

    /// Returns the number of the packet that the first sample came with.
    pub fn sequence(&self) -> u64 {
        self.of.part().map_or(0, |part| part.header.sequence)
    }

    /// Returns the number of the first sample within its stream, counted on from its packet's first
    /// sample.
    pub fn sample_index(&self) -> u64 {
        self.of.part().map_or(0, |part| part.header.sample_index.wrapping_add(part.before as u64))
    }

    /// Returns when the first sample was taken, in nanoseconds since the Unix epoch; 0: unknown. If
    /// the stream's description has no sample rate, this is the time of its packet's first sample.
    pub fn time_ns(&self) -> i64 {
        let Some(part) = self.of.part().filter(|part| part.header.time_ns != 0) else { return 0 };
        let rate = self.stream().sample_rate_hz.filter(|rate| *rate > 0.0);
        // Casts saturate: a sender may claim any time and any rate.
        let later = rate.map_or(0, |rate| (part.before as f64 * 1e9 / rate).round() as i64);
        part.header.time_ns.saturating_add(later)
    }

    /// Returns the gap just before the first sample.
    pub fn gap(&self) -> Option<&Gap> {
        self.gap.as_ref()
    }

    /// Returns the stream that all its samples belong to.
    pub fn stream(&self) -> &Arc<StreamInfo> {
        let carried = &self.of.carried;
        self.of.source.stream().filter(|_| carried.len() == 0).unwrap_or(&carried.stream)
    }

    /// Returns the connection that all its samples arrived on, as `from -> to`.
    pub fn connection(&self) -> &str {
        let Windowed { carried, source, .. } = &*self.of;
        if carried.len() > 0 { &carried.connection } else { source.connection() }
    }
}

impl<T: Sample> Deref for Window<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.of.samples()[..self.samples]
    }
}

impl<T: Sample> Drop for Window<'_, T> {
    fn drop(&mut self) {
        self.of.consume(self.done);
    }
}

impl<T: Sample + std::fmt::Debug> std::fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("is_whole", &self.is_whole).field("samples", &&**self).finish()
    }
}
