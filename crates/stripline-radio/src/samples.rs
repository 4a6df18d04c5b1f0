//! The samples that components take: numbers of full scale 1, of one channel.

use stripline::component::PortTypes;
use stripline::payload::TypeName;
use stripline::{Complex, Error, Result, StreamInfo};

/// Returns the types of complex samples.
pub(crate) fn complex_types() -> PortTypes {
    PortTypes::OneOf(vec![
        TypeName::of::<Complex<u8>>(),
        TypeName::of::<Complex<i8>>(),
        TypeName::of::<Complex<i16>>(),
        TypeName::of::<Complex<f32>>(),
    ])
}

/// A part of a complex sample.
pub(crate) trait Number: Copy + Send + Sync + 'static {
    /// Returns the number, of full scale 1.
    fn to_f32(self) -> f32;
}

impl Number for u8 {
    fn to_f32(self) -> f32 {
        (f32::from(self) - 127.5) / 127.5
    }
}

impl Number for i8 {
    fn to_f32(self) -> f32 {
        f32::from(self) / 128.0
    }
}

impl Number for i16 {
    fn to_f32(self) -> f32 {
        f32::from(self) / 32768.0
    }
}

impl Number for f32 {
    fn to_f32(self) -> f32 {
        self
    }
}

/// Checks that a stream has one channel, for a component that takes no more.
///
/// # Errors
/// The stream has several channels.
pub(crate) fn check_one_channel(stream: &StreamInfo, taker: &str) -> Result<()> {
    let (id, count) = (&stream.id, stream.channels.len());
    if count < 2 {
        return Ok(());
    }
    Err(Error::failed(format!(
        "the stream `{id}` has {count} channels (`channels`), and {taker} has one: put a `channel-select` before it"
    )))
}
