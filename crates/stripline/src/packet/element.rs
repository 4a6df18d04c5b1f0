//! The samples of a port: of a Rust type, or of a type that is defined at run time.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::payload::{Sample, SampleType, TypeName};
use super::sample_size::SampleSize;
use crate::terms::LinkOptions;

/// The samples of a port: those of a Rust type, a [`Sample`], or of a type that is defined at run
/// time, [`Dynamic`].
///
/// Publishers, subscribers, packets, windows and handlers have one as their parameter. Samples are
/// slices of [`Element::Item`]. For a Rust type that is the type itself. For [`Dynamic`] it is a
/// byte, while counts and indexes are those of whole samples.
///
/// ```
/// use stripline::node::Subscriber;
/// use stripline::payload::Element;
///
/// /// Returns the samples of the next packet, and its bytes, for ports of all types.
/// fn next<T: Element>(input: &mut Subscriber<T>) -> stripline::Result<Option<(usize, usize)>> {
///     Ok(input.receive()?.map(|packet| (packet.samples(), size_of_val(&*packet))))
/// }
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<f32>("levels")?;
/// # let mut subscriber = node.subscriber::<f32>("levels")?;
/// # publisher.wait_for_receivers(1, std::time::Duration::from_secs(5))?;
/// # publisher.send(&[1.0, 2.0])?;
/// # assert_eq!(next(&mut subscriber)?, Some((2, 8)));
/// # Ok::<(), stripline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a port cannot have `{Self}` as its samples",
    note = "derive `stripline::Sample` for a structure, or use `Dynamic` for a type defined at run time"
)]
pub trait Element: sealed::Element {
    /// The item of its slices: the sample itself, or a byte.
    type Item: Pod + Send + Sync;
}

impl<T: Sample> Element for T {
    type Item = T;
}

/// Samples of a type that is defined at run time, a [`SampleType`]. It is the parameter of their
/// ports, as in [`Publisher<Dynamic>`](crate::node::Publisher). Slices of them are bytes. Counts and
/// indexes are those of whole samples.
///
/// Bindings of other languages use it, and programs that take the type from a file or from a peer.
/// Such a port connects to those of a Rust type, and is refused by them, as if it had that type.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::Node;
/// use stripline::payload::SampleType;
///
/// let node = Node::isolated()?;
/// let cf32 = SampleType::parse("cf32")?;
/// let mut publisher = node.publisher_of(&cf32, "iq")?;
/// let mut subscriber = node.subscriber_of(&cf32, "iq")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// let mut loan = publisher.loan(100)?;
/// assert_eq!((loan.samples(), loan.len()), (100, 800));
/// loan.fill(0);
/// loan.send()?;
/// publisher.send(&[0; 16])?;
/// assert_eq!(subscriber.receive()?.expect("a packet").samples(), 100);
/// let packet = subscriber.receive()?.expect("a packet");
/// assert_eq!((packet.samples(), packet.len(), packet.sample_index()), (2, 16, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dynamic {}

impl Element for Dynamic {
    type Item = u8;
}

pub(crate) mod sealed {
    use super::{DynamicForm, SampleForm, StaticForm};

    pub trait Element: 'static {
        #[doc(hidden)]
        type Form: SampleForm;
    }

    impl<T: super::Sample> Element for T {
        type Form = StaticForm<T>;
    }

    impl Element for super::Dynamic {
        type Form = DynamicForm;
    }
}

/// The size and alignment of a port's samples. Those of a Rust type are constants, so that a port
/// of one costs nothing for them.
pub trait SampleForm: Copy + Send + Sync + 'static {
    /// Returns the bytes of a sample.
    fn size(self) -> usize;

    /// Returns whether an address is aligned for samples.
    fn is_aligned(self, start: *const u8) -> bool;

    /// Returns whether bytes are whole samples, and aligned for them.
    fn fits(self, start: *const u8, bytes: usize) -> bool;

    /// Returns the samples in that many items; `None` if they are no whole samples.
    fn whole(self, items: usize) -> Option<usize>;

    /// Returns the whole samples in that many items.
    fn samples(self, items: usize) -> usize;

    /// Returns the items of that many samples, which fit a packet.
    fn items(self, samples: usize) -> usize;
}

/// That of a Rust type.
pub struct StaticForm<T>(PhantomData<fn() -> T>);

impl<T> StaticForm<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for StaticForm<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StaticForm<T> {}

impl<T: Sample> SampleForm for StaticForm<T> {
    #[inline(always)]
    fn size(self) -> usize {
        size_of::<T>()
    }

    #[inline(always)]
    fn is_aligned(self, start: *const u8) -> bool {
        start.cast::<T>().is_aligned()
    }

    #[inline(always)]
    fn fits(self, start: *const u8, bytes: usize) -> bool {
        bytes.is_multiple_of(size_of::<T>()) && self.is_aligned(start)
    }

    #[inline(always)]
    fn whole(self, items: usize) -> Option<usize> {
        Some(items)
    }

    #[inline(always)]
    fn samples(self, items: usize) -> usize {
        items
    }

    #[inline(always)]
    fn items(self, samples: usize) -> usize {
        samples
    }
}

/// That of a type that is defined at run time.
#[derive(Clone, Copy)]
pub struct DynamicForm {
    size: usize,
    align: usize,
    count: SampleSize,
}

impl DynamicForm {
    pub(crate) fn new(of: &SampleType) -> Self {
        Self::with(of.size(), of.align())
    }

    fn with(size: usize, align: usize) -> Self {
        Self { size, align, count: SampleSize::new(Some(size)) }
    }

    /// Returns the form of the samples of a port. Of messages, and of a type without a layout,
    /// each byte counts as a sample.
    pub(crate) fn of(payload: Option<&TypeName>) -> Self {
        let layout = payload.and_then(TypeName::layout);
        layout.map_or_else(Self::bytes, |layout| Self::with(layout.size(), layout.align()))
    }

    /// Returns that of messages: their samples are bytes.
    pub(crate) fn bytes() -> Self {
        Self::with(1, 1)
    }
}

impl SampleForm for DynamicForm {
    #[inline(always)]
    fn size(self) -> usize {
        self.size
    }

    #[inline(always)]
    fn is_aligned(self, start: *const u8) -> bool {
        start.addr() & (self.align - 1) == 0
    }

    #[inline(always)]
    fn fits(self, start: *const u8, bytes: usize) -> bool {
        self.whole(bytes).is_some() && self.is_aligned(start)
    }

    #[inline(always)]
    fn whole(self, items: usize) -> Option<usize> {
        let samples = self.samples(items);
        (samples * self.size == items).then_some(samples)
    }

    #[inline(always)]
    fn samples(self, items: usize) -> usize {
        if items <= LinkOptions::PACKET_MAX {
            self.count.samples_in(items) as usize
        } else {
            items / self.size
        }
    }

    #[inline(always)]
    fn items(self, samples: usize) -> usize {
        samples * self.size
    }
}
