//! The rule for the order of samples in a stream: interleaved channels, and the rows that are made.

use serde::{Deserialize, Serialize};

/// The rule for channels at a component, and for the rows that it makes. The rule lets the check of
/// a waveform find streams that the component cannot take. An input declares rows by its
/// [`shape`](super::PortSpec::shape).
///
/// ```
/// use stripline::component::{ComponentSpec, OrderRule, PortTypes};
///
/// let half = ComponentSpec::new("half", "Drops every second sample.")
///     .input("in", PortTypes::of::<f32>(), "samples")
///     .output("out", PortTypes::of::<f32>(), "half of them")
///     .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() });
/// assert!(!half.order.takes_channels);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrderRule {
    /// Whether the component takes streams of several channels.
    pub takes_channels: bool,
    /// A text property with the name of the channel that it uses. Where the text is empty, it takes
    /// streams of one channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// An integer property with a number of samples. The component takes channels and rows if this
    /// number is a whole number of frames of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// An integer property. Above 1, the component sends rows, and keeps the channels of the
    /// inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Whether each output has one channel, for any number of channels at the input. The rate of an
    /// output is then the rate of the input divided by the number of channels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_channel: bool,
}

impl Default for OrderRule {
    /// Returns the rule of a component that takes every order and sends samples in the order
    /// received.
    fn default() -> Self {
        Self { takes_channels: true, channel: None, items: None, rows: None, one_channel: false }
    }
}

impl OrderRule {
    /// Returns whether this is the rule of most components.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
