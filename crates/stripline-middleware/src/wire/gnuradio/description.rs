//! Rate, frequency and time: tags with a counterpart in the description of a stream or a packet.

use stripline::StreamInfo;

use super::{Pmt, Tag};

const SECOND_NS: u64 = 1_000_000_000;

/// A property of samples that a tag describes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Described {
    /// `rx_rate`: samples per second from the item on.
    RateHz(f64),
    /// `rx_freq`: the centre frequency in Hz from the item on.
    FrequencyHz(f64),
    /// `rx_time`: the time of the item, in nanoseconds since the Unix epoch.
    TimeNs(i64),
}

impl Described {
    /// Returns the property that a tag describes; `None` for another tag, or a wrong value.
    ///
    /// ```
    /// use stripline_middleware::gnuradio::{Described, Pmt, Tag};
    ///
    /// let tag = Described::TimeNs(1_500_000_000).tag(7);
    /// assert_eq!((tag.item, tag.key.symbol()), (7, Some("rx_time")));
    /// assert_eq!(Described::of(&tag), Some(Described::TimeNs(1_500_000_000)));
    /// let burst = Tag { key: Pmt::of_symbol("burst").unwrap(), ..tag };
    /// assert_eq!(Described::of(&burst), None);
    /// ```
    pub fn of(tag: &Tag<'_>) -> Option<Self> {
        match tag.key.symbol()? {
            "rx_rate" => tag.value.number().filter(|rate| *rate > 0.0).map(Self::RateHz),
            "rx_freq" => tag.value.number().map(Self::FrequencyHz),
            "rx_time" => {
                let parts = tag.value.parts()?;
                let (seconds, fraction) = (parts.first()?.count()?, parts.get(1)?.number()?);
                // The year 2262 is the last year that fits in nanoseconds.
                if seconds >= i64::MAX as u64 / SECOND_NS || !(0.0..1.0).contains(&fraction) {
                    return None;
                }
                let fraction_ns = (fraction * SECOND_NS as f64).round() as i64;
                Some(Self::TimeNs((seconds * SECOND_NS) as i64 + fraction_ns))
            }
            _ => None,
        }
    }

    /// Returns the tag at an item. GNU Radio has no times before 1970: they become 1970.
    pub fn tag(self, item: u64) -> Tag<'static> {
        let (key, value) = match self {
            Self::RateHz(rate) => ("rx_rate", Pmt::of_number(rate)),
            Self::FrequencyHz(frequency) => ("rx_freq", Pmt::of_number(frequency)),
            Self::TimeNs(time_ns) => {
                let time_ns = u64::try_from(time_ns).unwrap_or(0);
                let fraction = (time_ns % SECOND_NS) as f64 / SECOND_NS as f64;
                ("rx_time", Pmt::of_tuple(&[Pmt::of_count(time_ns / SECOND_NS), Pmt::of_number(fraction)]))
            }
        };
        let key = Pmt::of_symbol(key).unwrap_or_else(Pmt::of_false);
        Tag { item, key, value, source: Pmt::of_false() }
    }

    /// Sets the rate or frequency in a description. Returns the time, which belongs to the packet.
    pub fn put(self, stream: &mut StreamInfo) -> Option<i64> {
        match self {
            Self::RateHz(rate) => stream.sample_rate_hz = Some(rate),
            Self::FrequencyHz(frequency) => stream.center_frequency_hz = Some(frequency),
            Self::TimeNs(time_ns) => return Some(time_ns),
        }
        None
    }
}
