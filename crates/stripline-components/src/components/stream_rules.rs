//! The rules for the descriptions of streams: what each stock component does with each key.

use StreamRule::{ByFormat, Changed, LeftOut, PassedOn, Refused, Used, UsedAndChanged, UsedAndPassedOn};

/// The treatment of one key of the streams that a component receives.
///
/// ```
/// use stripline_components::components::{StreamRule, stream_rule};
///
/// assert_eq!(stream_rule("fft", "row_length"), Some(StreamRule::Refused));
/// assert_eq!(StreamRule::UsedAndChanged.text(), "used, changed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamRule {
    /// What it sends has the same.
    PassedOn,
    /// What it sends has another one, which fits its samples.
    Changed,
    /// What it sends, or prints, is without it.
    LeftOut,
    /// A stream with it ends the component by an error with its name.
    Refused,
    /// Its work depends on it. What it sends is without it.
    Used,
    /// Its work depends on it, and what it sends has the same.
    UsedAndPassedOn,
    /// Its work depends on it, and what it sends has another one.
    UsedAndChanged,
    /// The format of the file decides.
    ByFormat,
}

impl StreamRule {
    /// Returns whether the component's work depends on the key.
    pub const fn is_used(self) -> bool {
        matches!(self, Used | UsedAndPassedOn | UsedAndChanged)
    }

    /// Returns the words of the documents.
    pub const fn text(self) -> &'static str {
        match self {
            PassedOn => "passed on",
            Changed => "changed",
            LeftOut => "left out",
            Refused => "refused",
            Used => "used",
            UsedAndPassedOn => "used, passed on",
            UsedAndChanged => "used, changed",
            ByFormat => "by format",
        }
    }
}

/// The keys of a stream's description, and the keys of each packet, in the order of the rules.
///
/// ```
/// assert_eq!(stripline_components::components::STREAM_KEYS.len(), 8);
/// ```
pub const STREAM_KEYS: [&str; 8] = [
    "sample_rate_hz",
    "center_frequency_hz",
    "row_length",
    "axes",
    "channels",
    "keywords",
    "sample_index",
    "time_ns",
];

/// The component types with inputs, and their rules for [`STREAM_KEYS`]. Behind the name of a type
/// stands the mode for which they hold.
///
/// ```
/// use stripline_components::components::{STREAM_KEYS, STREAM_RULES};
///
/// let (name, rules) = STREAM_RULES[0];
/// assert_eq!((name, rules.len()), ("adder", STREAM_KEYS.len()));
/// ```
#[rustfmt::skip]
pub const STREAM_RULES: &[(&str, [StreamRule; 8])] = &[
    ("adder", [UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("adsb-decoder", [PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, LeftOut, PassedOn]),
    ("adsb-demodulator", [Used, PassedOn, Refused, LeftOut, Refused, PassedOn, Used, PassedOn]),
    ("adsb-sink", [LeftOut; 8]),
    ("am-demodulator", [UsedAndPassedOn, LeftOut, Refused, PassedOn, UsedAndPassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("awgn", [PassedOn; 8]),
    ("bulkio-sink", [Used, Used, Used, Used, Refused, Used, LeftOut, Used]),
    ("dds-sink", [Used, Used, LeftOut, LeftOut, Refused, LeftOut, Used, Used]),
    ("decimator", [UsedAndChanged, PassedOn, Refused, Changed, UsedAndPassedOn, PassedOn, UsedAndChanged, Changed]),
    ("demultiplexer", [UsedAndChanged, PassedOn, UsedAndPassedOn, Changed, Used, PassedOn, UsedAndChanged, Changed]),
    ("fft", [UsedAndChanged, PassedOn, Refused, UsedAndChanged, UsedAndPassedOn, Changed, UsedAndChanged, Changed]),
    ("file-sink", [ByFormat; 8]),
    ("fir-filter", [UsedAndPassedOn, PassedOn, Refused, PassedOn, UsedAndPassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("fm-demodulator", [UsedAndPassedOn, LeftOut, Refused, PassedOn, UsedAndPassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("gr-zeromq-sink", [Used, Used, Used, LeftOut, Used, Used, Used, Used]),
    ("magnitude", [PassedOn; 8]),
    ("multiplexer, interleave", [UsedAndChanged, UsedAndPassedOn, UsedAndPassedOn, UsedAndChanged, UsedAndChanged, PassedOn, UsedAndChanged, PassedOn]),
    ("multiplexer, merge", [PassedOn; 8]),
    ("null-sink", [LeftOut; 8]),
    ("print-sink", [Used; 8]),
    ("resampler", [UsedAndChanged, PassedOn, Refused, Changed, UsedAndPassedOn, PassedOn, UsedAndChanged, Changed]),
    ("tee", [PassedOn; 8]),
    ("throttle", [PassedOn; 8]),
    ("waterfall-sink", [LeftOut, Used, Used, Used, Used, LeftOut, Used, LeftOut]),
    ("wav-sink", [ByFormat; 8]),
    ("zenoh-sink", [LeftOut, LeftOut, LeftOut, LeftOut, Refused, LeftOut, LeftOut, LeftOut]),
];

/// Returns the rule of a component, as it stands in [`STREAM_RULES`], for one of [`STREAM_KEYS`].
pub fn stream_rule(component: &str, key: &str) -> Option<StreamRule> {
    let place = STREAM_KEYS.iter().position(|name| *name == key)?;
    STREAM_RULES.iter().find(|(name, _)| *name == component).map(|(_, rules)| rules[place])
}
