//! A window lent by a port.

use std::ops::Deref;
use std::sync::Arc;

use super::Windowed;
use crate::node::packet_view::{Stamped, sealed};
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;
use crate::packet::{Gap, StreamInfo};

/// Contiguous samples, consumed when the window is dropped. A window that is forgotten
/// ([`std::mem::forget`]) consumes nothing: the next window begins with the same samples.
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
pub struct Window<'a, T: Content> {
    pub(super) of: &'a mut Windowed<T>,
    pub(super) samples: usize,
    pub(super) done: usize,
    pub(super) is_whole: bool,
    pub(super) gap: Option<Gap>,
}

impl<T: Content> Window<'_, T> {
    /// Returns the number of samples: the slice's length, unless they are
    /// [`Dynamic`](crate::payload::Dynamic).
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns whether the window has all requested samples. If not, a boundary or the end of
    /// stream follows, and the next window starts behind it.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Consumes only the first `length` samples, rows or frames, and at most all of them. The next
    /// window starts behind them. With 0, the next window starts at the same sample again.
    ///
    /// A window that is not whole ([`Window::is_whole`]) is consumed completely for any `length`.
    /// Such a window cannot become longer, because a boundary follows. To overlap windows up to the
    /// boundary, use the samples before this call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let node = stripline::node::Node::isolated()?;
    /// # let mut publisher = node.publisher::<u8>("bytes")?;
    /// # let mut bytes = node.subscriber::<u8>("bytes")?.windowed();
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(b"abcdef")?;
    /// publisher.finish()?;
    /// let mut windows = Vec::new();
    /// while let Some(window) = bytes.window(4)? {
    ///     windows.push(window.to_vec());
    ///     window.consume(1);
    /// }
    /// // `def` is shorter than requested: it is the last window, with all its samples.
    /// assert_eq!(windows, [&b"abcd"[..], b"bcde", b"cdef", b"def"]);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn consume(mut self, length: usize) {
        if self.is_whole {
            let unit = self.of.unit.samples(self.stream()).unwrap_or(1) as usize;
            self.done = length.saturating_mul(unit).min(self.samples);
        }
    }

    /// Returns the sequence number of the packet with the first sample.
    pub fn sequence(&self) -> u64 {
        self.of.part().map_or(0, |part| part.header.sequence)
    }

    /// Returns the number of the first sample within the stream, counted from the sample index of
    /// the packet.
    pub fn sample_index(&self) -> u64 {
        self.of.part().map_or(0, |part| part.header.sample_index.wrapping_add(part.before as u64))
    }

    /// Returns the time at which the first sample was taken, in nanoseconds since the Unix epoch;
    /// 0: unknown. Without a sample rate in the stream's description, this is the time of the
    /// packet's first sample.
    pub fn time_ns(&self) -> i64 {
        let Some(part) = self.of.part().filter(|part| part.header.time_ns != 0) else { return 0 };
        let rate = self.stream().sample_rate_hz;
        // Casts saturate: a sender may claim any time and any rate.
        let later = rate.map_or(0, |rate| (part.before as f64 * 1e9 / rate).round() as i64);
        part.header.time_ns.saturating_add(later)
    }

    /// Returns the gap just before the first sample.
    pub fn gap(&self) -> Option<&Gap> {
        self.gap.as_ref()
    }

    /// Returns the stream to which all samples belong.
    pub fn stream(&self) -> &Arc<StreamInfo> {
        self.of.stream_of_next()
    }

    /// Returns the connection on which all samples arrived, as `from -> to`.
    pub fn connection(&self) -> &str {
        let Windowed { carried, source, .. } = &*self.of;
        if carried.len() > 0 { &carried.connection } else { source.connection() }
    }
}

impl<T: Content> Stamped for Window<'_, T> {}

impl<T: Content> sealed::Sealed for Window<'_, T> {
    fn stamps(&self) -> sealed::Stamps<'_> {
        // An order counts packets, so a window has no order.
        let (sample_index, time_ns) = (self.sample_index(), self.time_ns());
        sealed::Stamps { sample_index, time_ns, order: None, stream: self.stream() }
    }
}

impl<T: Content> Deref for Window<'_, T> {
    type Target = [T::Item];
    fn deref(&self) -> &[T::Item] {
        &self.of.samples()[..self.of.carried.form.items(self.samples)]
    }
}

impl<T: Content> Drop for Window<'_, T> {
    fn drop(&mut self) {
        self.of.consume(self.done);
    }
}

impl<T: Content<Item: std::fmt::Debug>> std::fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("is_whole", &self.is_whole).field("samples", &&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::node::{Node, Topics};
    use crate::sys::clock::now_ns;

    /// Counts the work on a window of several packets as service, and not only the copying.
    #[test]
    fn a_window_is_in_use_until_the_next_one() {
        const WORK_NS: u64 = 3_000_000;
        let domain = format!("lent-{}", std::process::id());
        let node = Node::join(&domain, Topics::parse("[default]\nsampling = 'all'").unwrap()).unwrap();
        let mut publisher = node.publisher::<f32>("levels").unwrap();
        let mut windows = node.subscriber::<f32>("levels").unwrap().windowed();
        publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap();
        (0..4).for_each(|_| publisher.send(&[0.0; 6]).unwrap());
        publisher.finish().unwrap();
        while let Some(window) = windows.window(12).unwrap() {
            drop(window);
            let until_ns = now_ns() + WORK_NS;
            while now_ns() < until_ns {}
        }
        let report = windows.source.subscriber.incoming.stats().report("");
        let service = report.service.percentiles();
        assert_eq!((service.samples, report.latency.percentiles().samples), (2, 4));
        assert!(service.mean.unwrap() >= WORK_NS / 16 * 15, "{service:?}");
    }
}
