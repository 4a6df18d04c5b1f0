//! The watermarks at which a sender stops and resumes, and the kinds of flow control.

use serde::{Deserialize, Serialize};

/// The mechanism that stalls a sender, under overflow `block`, when the receiver's queue is full.
///
/// Memory rings always count packets exactly: with them, all three kinds use the same cursors. Over
/// sockets, `transport` relies on the kernel's buffers, which count bytes. With the other two kinds
/// the link counts packets, and a thread of the receiving process moves them to the port's queue.
///
/// ```
/// use stripline::terms::Flow;
///
/// assert_eq!("credit".parse(), Ok(Flow::Credit));
/// assert_eq!(Flow::ALL.map(Flow::as_str), ["transport", "credit", "stop-resume"]);
/// assert_eq!(Flow::default(), Flow::Transport);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// The flow control of the transport itself.
    #[default]
    Transport,
    /// The receiver grants credits: the number of packets in transit or queued never exceeds the
    /// high watermark.
    Credit,
    /// The receiver sends a stop at the high watermark and a resume at the low watermark. Packets
    /// in transit at the stop still arrive.
    StopResume,
}

impl Flow {
    /// All kinds, in the order documented.
    pub const ALL: [Self; 3] = [Self::Transport, Self::Credit, Self::StopResume];

    /// Returns the word used in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Credit => "credit",
            Self::StopResume => "stop-resume",
        }
    }
}

/// The number of packets at which a sender stops, and the smaller number at which it resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct Watermarks {
    high: u32,
    low: u32,
}

impl Watermarks {
    /// Returns the watermarks of a queue of `depth` packets; `None` selects the default. The error
    /// texts use the keys of a waveform file.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    pub fn new(depth: u32, high: Option<u32>, low: Option<u32>) -> Result<Self, String> {
        let high = match high {
            Some(high) if high == 0 || high > depth => {
                return Err(format!(
                    "high-watermark is {high}; it must be from 1 to the depth, which is {depth}"
                ));
            }
            high => high.unwrap_or(depth).max(1),
        };
        match low {
            Some(low) if low >= high => Err(format!(
                "low-watermark is {low}; it must be less than the high watermark (or the depth), which is {high}"
            )),
            Some(low) => Ok(Self { high, low }),
            None => Ok(Self::of_depth(high)),
        }
    }

    /// Returns the whole depth and three quarters of it. Resuming at each freed place would cost
    /// both sides more than it gains.
    pub fn of_depth(depth: u32) -> Self {
        let high = depth.max(1);
        Self { high, low: high - high.div_ceil(4) }
    }

    /// Returns the number of packets at which a sender stops, at least 1.
    pub fn high(self) -> u32 {
        self.high
    }

    /// Returns the number of packets at which a sender resumes.
    pub fn low(self) -> u32 {
        self.low
    }
}

impl TryFrom<[u32; 2]> for Watermarks {
    type Error = String;

    fn try_from([high, low]: [u32; 2]) -> Result<Self, String> {
        Self::new(crate::terms::LinkOptions::DEPTH_MAX, Some(high), Some(low))
    }
}

impl From<Watermarks> for [u32; 2] {
    fn from(marks: Watermarks) -> Self {
        [marks.high, marks.low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_left_free_unless_said_otherwise() {
        let marks = |depth, high, low| Watermarks::new(depth, high, low).map(<[u32; 2]>::from);
        assert_eq!(marks(64, None, None), Ok([64, 48]));
        assert_eq!(marks(1, None, None), Ok([1, 0]));
        assert_eq!(marks(3, None, None), Ok([3, 2]));
        assert_eq!(marks(64, Some(16), None), Ok([16, 12]));
        assert_eq!(marks(64, Some(16), Some(0)), Ok([16, 0]));
        assert_eq!(marks(64, None, Some(63)), Ok([64, 63]));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (high, low, says) in [
            (Some(0), None, "high-watermark is 0; it must be from 1 to the depth, which is 8"),
            (Some(9), None, "high-watermark is 9"),
            (
                Some(4),
                Some(4),
                "low-watermark is 4; it must be less than the high watermark (or the depth), which is 4",
            ),
            (None, Some(8), "low-watermark is 8"),
            (None, Some(u32::MAX), "low-watermark is 4294967295"),
        ] {
            let error = Watermarks::new(8, high, low).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(serde_json::from_str::<Watermarks>("[4,4]").is_err());
        assert!(serde_json::from_str::<Watermarks>("[70000,4]").is_err());
        assert_eq!(serde_json::from_str::<Watermarks>("[4,3]").unwrap(), Watermarks::of_depth(4));
    }
}
