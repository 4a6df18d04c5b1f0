//! The rule for the order of samples: channels in turn, and rows.

use serde::{Deserialize, Serialize};

/// The rule for channels and rows at a component. With it, the check of a waveform finds streams
/// that the component cannot take.
///
/// ```
/// use stripline::component::{ComponentSpec, OrderRule, PortTypes};
///
/// let half = ComponentSpec::new("half", "Drops every second sample.")
///     .input("in", PortTypes::of::<f32>(), "samples")
///     .output("out", PortTypes::of::<f32>(), "half of them")
///     .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() });
/// assert!(half.order.takes_rows);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrderRule {
    /// Whether it takes streams of several channels.
    pub takes_channels: bool,
    /// Whether it takes streams of rows.
    pub takes_rows: bool,
    /// Whether it takes streams of rows only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_rows: bool,
    /// A text property with the name of the channel that it uses. Where the text is empty, it takes
    /// streams of one channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// An integer property: it takes channels and rows if so many samples are whole frames of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// An integer property: above 1, what it sends has rows, and the channels of its inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Whether each output has one channel, with any number of them at the input. The rate of an
    /// output is then the rate of the input, divided by the number of channels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_channel: bool,
}

impl Default for OrderRule {
    /// Returns the rule of a component that takes all, and sends what arrives.
    fn default() -> Self {
        Self {
            takes_channels: true,
            takes_rows: true,
            needs_rows: false,
            channel: None,
            items: None,
            rows: None,
            one_channel: false,
        }
    }
}

impl OrderRule {
    /// Returns the rule of a component that takes a signal in time: no rows.
    pub fn in_time() -> Self {
        Self { takes_rows: false, ..Self::default() }
    }

    /// Returns whether it is the rule of most components.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
