//! The rule that derives a component's sample rate from properties and inputs.

use serde::{Deserialize, Serialize};

/// The rule for a component's sample rate. The rule lets the check of a waveform find properties
/// that do not match the rate of the received samples.
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes, PropertySpec, RateRule};
///
/// let rate = PropertySpec::float("sample_rate", 0.0, "sample rate; 0: that of the stream");
/// let half = ComponentSpec::new("half", "Drops every second sample.")
///     .input("in", PortTypes::of::<f32>(), "samples")
///     .output("out", PortTypes::of::<f32>(), "half of them")
///     .property(rate)
///     .property(PropertySpec::integer("factor", 2, 1, 16, "samples for one"))
///     .sample_rate(RateRule::property("sample_rate").or_input("in").divided_by("factor"));
/// assert!(half.rate.is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateRule {
    /// The property with the rate in samples/s. If it is 0, the rate is taken from the input.
    pub property: Option<String>,
    /// The input that provides the rate.
    pub input: Option<String>,
    /// The property that divides the rate of the outputs.
    pub divisor: Option<String>,
    /// The property that multiplies the rate of the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<String>,
    /// Whether all connected inputs must have the same rate, which is then used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inputs: bool,
    /// A property, and the text with which the output has the samples of all inputs in turn. With
    /// any other text, the inputs may have different rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaves: Option<(String, String)>,
    /// Whether the component cannot work without a rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needed: bool,
    /// The only rate that the component takes, in samples/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<u64>,
    /// Whether the streams have no rate if neither the property nor the
    /// [facts](super::PropertyFacts) have one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub or_none: bool,
}

impl RateRule {
    /// Takes the rate from a property.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert_eq!(RateRule::property("sample_rate").input, None);
    /// ```
    pub fn property(name: &str) -> Self {
        Self { property: Some(name.into()), ..Self::default() }
    }

    /// Takes the rate from an input.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert_eq!(RateRule::input("in").property, None);
    /// ```
    pub fn input(name: &str) -> Self {
        Self { input: Some(name.into()), ..Self::default() }
    }

    /// Takes the rate from all connected inputs, which must have the same rate.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert!(RateRule::inputs().inputs);
    /// ```
    pub fn inputs() -> Self {
        Self { inputs: true, ..Self::default() }
    }

    /// Takes the rate from an input if the property is 0.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// let rule = RateRule::property("sample_rate").or_input("in");
    /// assert_eq!(rule.input.as_deref(), Some("in"));
    /// ```
    #[must_use]
    pub fn or_input(mut self, name: &str) -> Self {
        self.input = Some(name.into());
        self
    }

    /// Divides the rate of the outputs by an integer property.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert_eq!(RateRule::input("in").divided_by("factor").divisor.as_deref(), Some("factor"));
    /// ```
    #[must_use]
    pub fn divided_by(mut self, name: &str) -> Self {
        self.divisor = Some(name.into());
        self
    }

    /// Multiplies the rate of the outputs by an integer property.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// let rule = RateRule::input("in").multiplied_by("up").divided_by("down");
    /// assert_eq!(rule.multiplier.as_deref(), Some("up"));
    /// ```
    #[must_use]
    pub fn multiplied_by(mut self, name: &str) -> Self {
        self.multiplier = Some(name.into());
        self
    }

    /// Adds up the rates of all inputs if a property has this text. With any other text, the inputs
    /// may have different rates.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// let rule = RateRule::inputs().interleaved_if("mode", "interleave");
    /// assert_eq!(rule.interleaves, Some(("mode".into(), "interleave".into())));
    /// ```
    #[must_use]
    pub fn interleaved_if(mut self, property: &str, text: &str) -> Self {
        self.interleaves = Some((property.into(), text.into()));
        self
    }

    /// Declares that the component cannot work without a rate.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert!(RateRule::property("sample_rate").or_input("in").needed().needed);
    /// ```
    #[must_use]
    pub fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    /// Declares that the component takes only one rate, in samples/s.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert_eq!(RateRule::input("in").only(2_000_000).only, Some(2_000_000));
    /// ```
    #[must_use]
    pub fn only(mut self, rate: u64) -> Self {
        self.only = Some(rate);
        self
    }

    /// Declares that the streams have no rate if neither the property nor the
    /// [facts](super::PropertyFacts) have one. Without this, a rate may be found at run time.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert!(RateRule::property("sample_rate").or_none().or_none);
    /// ```
    #[must_use]
    pub fn or_none(mut self) -> Self {
        self.or_none = true;
        self
    }
}
