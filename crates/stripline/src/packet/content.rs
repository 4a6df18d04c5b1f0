//! The content of a port: samples of a Rust type, samples of a type that is defined at run time, or
//! messages.

use std::marker::PhantomData;
use std::ops::Deref;

use bytemuck::Pod;
use serde::Serialize;

use super::payload::{MessageCheck, MessageSchema, Sample, SampleType, TypeName};
use super::sample_size::SampleSize;
use crate::terms::LinkOptions;

/// The content of a port's packets: samples of a Rust type, which is a [`Sample`], samples of a
/// type that is defined at run time ([`Dynamic`]), or messages ([`Cbor`]).
///
/// The content is the type parameter of publishers, subscribers, packets, windows and handlers. A
/// packet's content is a slice of [`Content::Item`]: the samples themselves, or bytes. Counts
/// refer to whole samples, or to bytes of messages; a message advances the index by one.
/// ```
/// use stripline::node::Subscriber;
/// use stripline::payload::Content;
///
/// /// Returns the samples of the next packet, and its bytes, for ports of all types.
/// fn next<C: Content>(input: &mut Subscriber<C>) -> stripline::Result<Option<(usize, usize)>> {
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
    message = "a port cannot have `{Self}` as its content",
    note = "derive `stripline::Sample` for a structure of samples, use `Cbor` for messages, or `Dynamic` for a \
            type defined at run time"
)]
pub trait Content: sealed::Content {
    /// The item of a packet's slice: the sample itself, or a byte.
    type Item: Pod + Send + Sync;
}

/// Content that a publisher sends from a value: a slice of samples, or a message.
///
/// ```
/// use stripline::node::Publisher;
/// use stripline::payload::Sendable;
///
/// fn send_twice<C: Sendable>(publisher: &mut Publisher<C>, value: &C::Value) -> stripline::Result<()> {
///     publisher.send(value)?;
///     publisher.send(value)
/// }
/// # let node = stripline::node::Node::isolated()?;
/// # send_twice(&mut node.publisher::<f32>("levels")?, &[1.0, 2.0])?;
/// # Ok::<(), stripline::Error>(())
/// ```
pub trait Sendable: Content {
    /// The value: a slice of samples, bytes of [`Dynamic`] samples, or a message.
    type Value: ?Sized;
    #[doc(hidden)]
    type Items<'a>: Deref<Target = [Self::Item]>;
    #[doc(hidden)]
    fn items(value: &Self::Value) -> Result<Self::Items<'_>, String>;
}

impl<T: Sample> Content for T {
    type Item = T;
}

impl<T: Sample> Sendable for T {
    type Value = [T];
    type Items<'a> = &'a [T];

    #[inline(always)]
    fn items(samples: &[T]) -> Result<&[T], String> {
        Ok(samples)
    }
}

/// Samples of a type that is defined at run time. A node's port gets the type together with its
/// name, as a [`SampleType`] or a [`TypeName`]. A component's port has the type that the waveform
/// gives it. Slices of such samples are bytes, but counts and indexes refer to whole samples. In
/// messages, and in a component's samples without a layout, each byte counts as a sample. A message
/// of a type with a schema is checked when it is sent: [`Loan::send`](crate::node::Loan::send).
///
/// The type is for bindings to other languages, and for programs that take the type from a file or
/// a peer. A port of a Rust type accepts or refuses such a port as if the type were the same Rust
/// type.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::Node;
/// use stripline::payload::{Dynamic, SampleType};
///
/// let node = Node::isolated()?;
/// let cf32 = SampleType::parse("cf32")?;
/// let mut publisher = node.publisher::<Dynamic>(("iq", &cf32))?;
/// let mut subscriber = node.subscriber::<Dynamic>(("iq", &cf32))?;
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

impl Content for Dynamic {
    type Item = u8;
}

impl Sendable for Dynamic {
    type Value = [u8];
    type Items<'a> = &'a [u8];

    #[inline(always)]
    fn items(bytes: &[u8]) -> Result<&[u8], String> {
        Ok(bytes)
    }
}

/// Messages of one serde type as CBOR (RFC 8949), which other languages can read: commands, status,
/// detections. A packet has one message.
///
/// Both ends compare the [schema](crate::payload::Schema) of `M`. If the schemas differ, the
/// connection is refused. `Cbor<M, NoSchema>` is for a type without a schema. Such a port connects
/// to messages with any schema, and to `message/cbor`. A message that does not decode is an error
/// only when it is decoded.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use stripline::payload::Cbor;
///
/// #[derive(Serialize, Deserialize, stripline::Message, PartialEq, Debug)]
/// struct Tune { frequency_hz: f64 }
///
/// let node = stripline::node::Node::isolated()?;
/// let mut commands = node.publisher::<Cbor<Tune>>("tune")?;
/// let mut receiver = node.subscriber::<Cbor<Tune>>("tune")?;
/// commands.wait_for_receivers(1, Duration::from_secs(5))?;
/// commands.send(&Tune { frequency_hz: 1090e6 })?;
/// let packet = receiver.receive()?.expect("a message");
/// assert_eq!(packet.sequence(), 0);
/// assert_eq!(packet.decode()?, Tune { frequency_hz: 1090e6 });
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Cbor<M, S = WithSchema>(PhantomData<fn() -> (M, S)>);

/// A marker for messages that have the schema of their type: the default of [`Cbor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WithSchema {}

/// A marker for messages without a schema: see [`Cbor`].
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use stripline::payload::{Cbor, NoSchema};
///
/// #[derive(Serialize, Deserialize)]
/// struct Tune { frequency_hz: f64 }
///
/// let node = stripline::node::Node::isolated()?;
/// let mut commands = node.publisher::<Cbor<Tune, NoSchema>>("tune")?;
/// commands.send(&Tune { frequency_hz: 1090e6 })?;
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSchema {}

impl<M: 'static, S: sealed::SchemaOf<M>> Content for Cbor<M, S> {
    type Item = u8;
}

impl<M: Serialize + 'static, S: sealed::SchemaOf<M>> Sendable for Cbor<M, S> {
    type Value = M;
    type Items<'a> = Vec<u8>;

    fn items(message: &M) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        match ciborium::into_writer(message, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(format!("a message does not encode: {error}")),
        }
    }
}

/// The name of a topic or port, and the type of the content if the content is [`Dynamic`].
///
/// The value is made from a name, or from a name and a type.
///
/// ```
/// use stripline::node::{Node, PortName};
/// use stripline::payload::{Dynamic, SampleType, TypeName};
///
/// let node = Node::isolated()?;
/// let s16 = SampleType::parse("s16")?;
/// let _levels = node.publisher::<f32>("levels")?;
/// let _audio = node.publisher::<Dynamic>(("audio", &s16))?;
/// let name = PortName::<Dynamic>::from("iq");
/// let refusal = node.publisher(name).map(drop).unwrap_err().to_string();
/// assert!(refusal.contains("give its type with its name"), "{refusal}");
/// let bare = TypeName::new("detection")?;
/// let refusal = node.publisher::<Dynamic>(("detections", &bare)).map(drop).unwrap_err().to_string();
/// assert!(refusal.contains("give its size"), "{refusal}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PortName<'a, C> {
    pub(crate) name: &'a str,
    pub(crate) given: Option<PortType<DynamicForm>>,
    of: PhantomData<fn() -> C>,
}

impl<'a, C, N: AsRef<str> + ?Sized> From<&'a N> for PortName<'a, C> {
    fn from(name: &'a N) -> Self {
        Self { name: name.as_ref(), given: None, of: PhantomData }
    }
}

impl<'a, N: AsRef<str> + ?Sized> From<(&'a N, &'a SampleType)> for PortName<'a, Dynamic> {
    fn from((name, samples): (&'a N, &'a SampleType)) -> Self {
        let (payload, sample_bytes) = (Some(samples.name().clone()), Some(samples.size()));
        Self { given: Some(PortType { payload, sample_bytes, form: samples.form() }), ..Self::from(name) }
    }
}

impl<'a, N: AsRef<str> + ?Sized> From<(&'a N, &'a TypeName)> for PortName<'a, Dynamic> {
    fn from((name, payload): (&'a N, &'a TypeName)) -> Self {
        Self { given: Some(PortType::of(Some(payload))), ..Self::from(name) }
    }
}

/// The type of a port.
pub struct PortType<F> {
    /// The payload type that both ends compare; `None`: a `Dynamic` port for which no type was
    /// given.
    pub payload: Option<TypeName>,
    /// The size of a sample in bytes; `None`: packets do not consist of samples.
    pub sample_bytes: Option<usize>,
    pub form: F,
}

impl PortType<DynamicForm> {
    /// Returns the type of a port with samples of the given type, or with messages. Without a
    /// payload type, each byte counts as a sample.
    pub(crate) fn of(payload: Option<&TypeName>) -> Self {
        let sample_bytes = payload.and_then(TypeName::sample_bytes);
        Self { payload: payload.cloned(), sample_bytes, form: DynamicForm::of(payload) }
    }
}

pub(crate) mod sealed {
    use super::{
        Cbor, Dynamic, DynamicForm, MessageCheck, MessageSchema, NoSchema, PortType, Sample, SampleForm,
        StaticForm, TypeName, WithSchema,
    };

    pub trait Content: 'static {
        #[doc(hidden)]
        type Form: SampleForm;

        /// Whether the content is messages without a schema, under any name.
        #[doc(hidden)]
        const IS_WITHOUT_SCHEMA: bool = false;

        /// Whether the content may be messages.
        #[doc(hidden)]
        const MAY_BE_MESSAGES: bool = false;

        /// Returns the check of messages of a type with a schema that is given at run time.
        #[doc(hidden)]
        fn check(_: &TypeName) -> Option<Box<MessageCheck>> {
            None
        }

        /// Returns the payload type that both ends compare; `None`: it is given for each port.
        #[doc(hidden)]
        fn payload() -> Option<TypeName>;

        /// Returns the type of a port, or the reason why it cannot have one. Only [`Dynamic`]
        /// content has a given type.
        #[doc(hidden)]
        fn port_type(given: Option<PortType<DynamicForm>>) -> Result<PortType<Self::Form>, &'static str>;
    }

    impl<T: Sample> Content for T {
        type Form = StaticForm<T>;

        fn payload() -> Option<TypeName> {
            Some(TypeName::of::<T>())
        }

        fn port_type(_: Option<PortType<DynamicForm>>) -> Result<PortType<StaticForm<T>>, &'static str> {
            if size_of::<T>() == 0 {
                return Err("its type has no size");
            }
            if align_of::<T>() > 16 {
                return Err("its type needs more than 16-byte alignment");
            }
            let (payload, sample_bytes) = (Self::payload(), Some(size_of::<T>()));
            Ok(PortType { payload, sample_bytes, form: StaticForm::new() })
        }
    }

    impl Content for Dynamic {
        type Form = DynamicForm;

        const MAY_BE_MESSAGES: bool = true;

        fn check(payload: &TypeName) -> Option<Box<MessageCheck>> {
            payload.schema().map(|schema| Box::new(MessageCheck::new(&schema)))
        }

        fn payload() -> Option<TypeName> {
            None
        }

        fn port_type(given: Option<PortType<DynamicForm>>) -> Result<PortType<DynamicForm>, &'static str> {
            Ok(given.unwrap_or_else(|| PortType::of(None)))
        }
    }

    impl<M: 'static, S: SchemaOf<M>> Content for Cbor<M, S> {
        type Form = StaticForm<u8>;

        const IS_WITHOUT_SCHEMA: bool = S::IS_WITHOUT_SCHEMA;

        const MAY_BE_MESSAGES: bool = true;

        fn payload() -> Option<TypeName> {
            Some(S::type_name())
        }

        fn port_type(_: Option<PortType<DynamicForm>>) -> Result<PortType<StaticForm<u8>>, &'static str> {
            Ok(PortType { payload: Self::payload(), sample_bytes: None, form: StaticForm::new() })
        }
    }

    /// A way to find the schema of messages of a type.
    #[diagnostic::on_unimplemented(
        message = "messages of `{M}` have no schema",
        note = "derive `stripline::Message` for the type, or use `Cbor<{M}, NoSchema>`"
    )]
    pub trait SchemaOf<M>: 'static {
        const IS_WITHOUT_SCHEMA: bool;
        fn type_name() -> TypeName;
    }

    impl<M: MessageSchema> SchemaOf<M> for WithSchema {
        const IS_WITHOUT_SCHEMA: bool = false;

        fn type_name() -> TypeName {
            TypeName::of_message::<M>()
        }
    }

    impl<M> SchemaOf<M> for NoSchema {
        const IS_WITHOUT_SCHEMA: bool = true;

        fn type_name() -> TypeName {
            TypeName::any_message()
        }
    }
}

/// The size and alignment of a port's samples. For a Rust type both are constants, so the ports
/// store nothing for them.
pub trait SampleForm: Copy + Send + Sync + 'static {
    /// Returns the size of a sample in bytes.
    fn size(self) -> usize;

    /// Returns whether an address is aligned for samples.
    fn is_aligned(self, start: *const u8) -> bool;

    /// Returns whether the bytes are whole samples and aligned for them.
    fn fits(self, start: *const u8, bytes: usize) -> bool;

    /// Returns the number of samples in that many items; `None` if they are not whole samples.
    fn whole(self, items: usize) -> Option<usize>;

    /// Returns the number of whole samples in that many items.
    fn samples(self, items: usize) -> usize;

    /// Returns the number of items in that many samples. The samples fit into a packet.
    fn items(self, samples: usize) -> usize;
}

/// The size and alignment of a Rust type.
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

/// The size and alignment of a type that is defined at run time.
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

    /// Returns the form of a port's samples. In messages, and in samples without a layout, each
    /// byte counts as a sample.
    pub(crate) fn of(payload: Option<&TypeName>) -> Self {
        let layout = payload.and_then(TypeName::layout);
        layout.map_or(Self::with(1, 1), |layout| Self::with(layout.size(), layout.align()))
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
