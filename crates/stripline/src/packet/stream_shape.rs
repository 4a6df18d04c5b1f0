//! The shape of streams that an input takes.

use serde::{Deserialize, Serialize};

use super::StreamInfo;

/// The shape of the streams that an input takes. Another stream is refused with the first
/// packet, and by the check of a waveform where the descriptions of the components show it.
///
/// ```
/// use stripline::component::{ComponentSpec, Direction, PortSpec, PortTypes, StreamShape};
///
/// let maps = PortSpec::new("in", Direction::Input, PortTypes::of::<f32>(), "maps").shape(StreamShape::Frames);
/// let spec = ComponentSpec::new("detector", "Finds peaks in maps.").port(maps);
/// assert_eq!(spec.ports[0].shape, Some(StreamShape::Frames));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamShape {
    /// A signal in time, without rows.
    Signal,
    /// Rows, with or without frames.
    Rows,
    /// Frames of rows.
    Frames,
}

impl StreamShape {
    /// All shapes.
    ///
    /// ```
    /// let words = stripline::component::StreamShape::ALL.map(|shape| shape.word());
    /// assert_eq!(words, ["signal", "rows", "frames"]);
    /// ```
    pub const ALL: [Self; 3] = [Self::Signal, Self::Rows, Self::Frames];

    /// Returns the word for the shape, as in the specification of a component.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Rows => "rows",
            Self::Frames => "frames",
        }
    }

    /// Checks that a stream has this shape.
    ///
    /// # Errors
    /// The shape of the stream, and the remedy.
    ///
    /// ```
    /// use stripline::StreamInfo;
    /// use stripline::component::StreamShape;
    ///
    /// let error = StreamShape::Frames.check(&StreamInfo::new("iq")).unwrap_err();
    /// assert_eq!(
    ///     error,
    ///     "takes frames of rows, and the stream `iq` has no rows (`row_length`): set `row_length` and `frame_rows` of \
    ///      the stream at the sender"
    /// );
    /// ```
    pub fn check(self, stream: &StreamInfo) -> Result<(), String> {
        let (needed, remedy) = match (self, stream.row_length, stream.frame_rows) {
            (Self::Signal, None, _) | (Self::Rows, Some(_), _) | (Self::Frames, _, Some(_)) => return Ok(()),
            (Self::Signal, ..) => (
                "a signal in time",
                "put it before the component that makes the rows, or set block = 1 in a `multiplexer`",
            ),
            (Self::Rows, ..) => {
                ("rows", "put an `fft` before it, or set `row_length` of the stream at the sender")
            }
            (Self::Frames, ..) => {
                ("frames of rows", "set `row_length` and `frame_rows` of the stream at the sender")
            }
        };
        let found = match (stream.row_length, stream.frame_rows) {
            (None, _) => "no rows (`row_length`)".into(),
            (Some(length), None) => format!("rows of {length} samples (`row_length`) without frames"),
            (Some(length), Some(rows)) => {
                format!("rows of {length} samples (`row_length`) in frames of {rows} rows (`frame_rows`)")
            }
        };
        Err(format!("takes {needed}, and the stream `{}` has {found}: {remedy}", stream.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_takes_its_streams() {
        let plain = StreamInfo::new("s").channels(["a", "b"]);
        let rows = StreamInfo { row_length: Some(4), ..plain.clone() };
        let frames = StreamInfo { frame_rows: Some(3), ..rows.clone() };
        let taken = StreamShape::ALL.map(|shape| [&plain, &rows, &frames].map(|of| shape.check(of).is_ok()));
        assert_eq!(taken, [[true, false, false], [false, true, true], [false, false, true]]);
        let error = StreamShape::Signal.check(&frames).unwrap_err();
        assert!(
            error.contains("rows of 4 samples (`row_length`) in frames of 3 rows (`frame_rows`)"),
            "{error}"
        );
        for shape in StreamShape::ALL {
            assert_eq!(serde_json::to_value(shape).unwrap(), shape.word());
        }
    }
}
