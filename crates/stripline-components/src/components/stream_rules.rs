//! The rules for descriptions of streams: the treatment of each key by each stock component.

use StreamRule::{ByFormat, Changed, LeftOut, PassedOn, Refused, Used, UsedAndChanged, UsedAndPassedOn};

/// The treatment of one key of the streams that a component receives.
///
/// ```
/// use stripline_components::components::{StreamRule, stream_rule};
///
/// assert_eq!(stream_rule("fft", "row_length"), Some(StreamRule::Refused));
/// assert_eq!(StreamRule::UsedAndChanged.text(), "used/changed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamRule {
    /// The output has the same value.
    PassedOn,
    /// The output has another value, which fits the output samples.
    Changed,
    /// The output, or the printed text, lacks the key.
    LeftOut,
    /// A stream with the key ends the component with an error that names the key.
    Refused,
    /// The component uses the key, and the output lacks the key.
    Used,
    /// The component uses the key, and the output has the same value.
    UsedAndPassedOn,
    /// The component uses the key, and the output has another value.
    UsedAndChanged,
    /// The treatment depends on the format of the file.
    ByFormat,
}

impl StreamRule {
    /// Returns whether the component uses the key.
    pub const fn is_used(self) -> bool {
        matches!(self, Used | UsedAndPassedOn | UsedAndChanged)
    }

    /// Returns the word for the documents.
    pub const fn text(self) -> &'static str {
        match self {
            PassedOn => "kept",
            Changed => "changed",
            LeftOut => "absent",
            Refused => "refused",
            Used => "used",
            UsedAndPassedOn => "used/kept",
            UsedAndChanged => "used/changed",
            ByFormat => "format",
        }
    }
}

/// The keys of a stream's description, and the keys of each packet, in the order of the rules.
///
/// ```
/// assert_eq!(stripline_components::components::STREAM_KEYS.len(), 10);
/// ```
pub const STREAM_KEYS: [&str; 10] = [
    "sample_rate_hz",
    "center_frequency_hz",
    "row_length",
    "frame_rows",
    "axes",
    "channels",
    "clock",
    "keywords",
    "sample_index",
    "time_ns",
];

/// The component types with inputs, and their rules for [`STREAM_KEYS`]. If the rules hold for a
/// mode of a component, the mode follows the name of the type.
///
/// ```
/// use stripline_components::components::{STREAM_KEYS, STREAM_RULES};
///
/// let (name, rules) = STREAM_RULES[0];
/// assert_eq!((name, rules.len()), ("adder", STREAM_KEYS.len()));
/// ```
#[rustfmt::skip]
pub const STREAM_RULES: &[(&str, [StreamRule; 10])] = &[
    ("adder", [UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, PassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("adsb-decoder", [PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, PassedOn, LeftOut, PassedOn]),
    ("adsb-demodulator", [Used, PassedOn, Refused, Refused, LeftOut, Refused, PassedOn, PassedOn, Used, PassedOn]),
    ("adsb-sink", [LeftOut; 10]),
    ("am-demodulator", [UsedAndPassedOn, LeftOut, Refused, Refused, PassedOn, UsedAndPassedOn, PassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("awgn", [PassedOn; 10]),
    ("beamformer", [UsedAndChanged, PassedOn, UsedAndPassedOn, UsedAndPassedOn, Changed, Used, PassedOn, PassedOn, UsedAndChanged, Changed]),
    ("bulkio-sink", [Used, Used, Used, Used, Used, Refused, LeftOut, Used, LeftOut, Used]),
    ("channel-select", [UsedAndChanged, PassedOn, UsedAndPassedOn, UsedAndPassedOn, Changed, Used, PassedOn, PassedOn, UsedAndChanged, Changed]),
    ("dds-sink", [Used, Used, LeftOut, LeftOut, LeftOut, Refused, LeftOut, LeftOut, Used, Used]),
    ("decimator", [UsedAndChanged, PassedOn, Refused, Refused, Changed, UsedAndPassedOn, PassedOn, PassedOn, UsedAndChanged, Changed]),
    ("demultiplexer", [UsedAndChanged, PassedOn, UsedAndPassedOn, UsedAndPassedOn, Changed, Used, PassedOn, PassedOn, UsedAndChanged, Changed]),
    ("fft", [UsedAndChanged, PassedOn, Refused, Refused, UsedAndChanged, UsedAndPassedOn, PassedOn, Changed, UsedAndChanged, Changed]),
    ("file-sink", [ByFormat; 10]),
    ("fir-filter", [UsedAndPassedOn, PassedOn, Refused, Refused, PassedOn, UsedAndPassedOn, PassedOn, PassedOn, UsedAndPassedOn, Changed]),
    ("fm-demodulator", [UsedAndPassedOn, LeftOut, Refused, Refused, PassedOn, UsedAndPassedOn, PassedOn, PassedOn, UsedAndPassedOn, PassedOn]),
    ("gr-zeromq-sink", [Used, Used, Used, Used, LeftOut, Used, LeftOut, Used, Used, Used]),
    ("magnitude", [PassedOn; 10]),
    ("multiplexer, interleave", [UsedAndChanged, UsedAndPassedOn, UsedAndPassedOn, UsedAndPassedOn, UsedAndChanged, UsedAndChanged, PassedOn, PassedOn, UsedAndChanged, PassedOn]),
    ("multiplexer, merge", [PassedOn; 10]),
    ("null-sink", [LeftOut; 10]),
    ("print-sink", [Used; 10]),
    ("resampler", [UsedAndChanged, PassedOn, Refused, Refused, Changed, UsedAndPassedOn, PassedOn, PassedOn, UsedAndChanged, Changed]),
    ("rtl-tcp-sink", [LeftOut, LeftOut, LeftOut, LeftOut, LeftOut, Refused, LeftOut, LeftOut, LeftOut, LeftOut]),
    ("scanner", [Used, Used, LeftOut, LeftOut, LeftOut, Refused, PassedOn, LeftOut, LeftOut, Changed]),
    ("soapy-sink", [Used, LeftOut, LeftOut, LeftOut, LeftOut, Used, LeftOut, LeftOut, Used, Used]),
    ("tcp-sink", [LeftOut; 10]),
    ("tee", [PassedOn; 10]),
    ("throttle", [PassedOn; 10]),
    ("udp-sink", [LeftOut; 10]),
    ("vita49-sink", [Used, Used, LeftOut, LeftOut, LeftOut, Refused, LeftOut, Used, Used, Used]),
    ("waterfall-sink", [LeftOut, Used, Used, Used, Used, Used, LeftOut, LeftOut, Used, LeftOut]),
    ("wav-sink", [ByFormat; 10]),
    ("zenoh-sink", [LeftOut, LeftOut, LeftOut, LeftOut, LeftOut, Refused, LeftOut, LeftOut, LeftOut, LeftOut]),
];

/// Returns the rule of a component, named as in [`STREAM_RULES`], for one of [`STREAM_KEYS`].
pub fn stream_rule(component: &str, key: &str) -> Option<StreamRule> {
    let place = STREAM_KEYS.iter().position(|name| *name == key)?;
    STREAM_RULES.iter().find(|(name, _)| *name == component).map(|(_, rules)| rules[place])
}
