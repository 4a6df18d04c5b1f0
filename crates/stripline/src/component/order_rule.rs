//! The rule for the order of samples in a stream: interleaved channels, and rows.

use serde::{Deserialize, Serialize};

/// The rule for channels and rows at a component. The rule lets the check of a waveform find
/// streams that the component cannot take.
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
    /// Whether the component takes streams of several channels.
    pub takes_channels: bool,
    /// Whether the component takes streams of rows.
    pub takes_rows: bool,
    /// Whether it takes streams of rows only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_rows: bool,
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
    /// Returns the rule of a component that takes a signal in time, without rows.
    pub fn in_time() -> Self {
        Self { takes_rows: false, ..Self::default() }
    }

    /// Returns whether this is the rule of most components.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
