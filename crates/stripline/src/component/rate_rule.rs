//! The rule by which a component's sample rate follows from its properties and its input.

use serde::{Deserialize, Serialize};

/// The rule for a component's sample rate. With it, the check of a waveform finds properties that
/// do not fit the rate of the samples that arrive.
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
    /// The property with the rate, in samples/s; 0 there: that of the input.
    pub property: Option<String>,
    /// The input with that rate.
    pub input: Option<String>,
    /// The property by which the rate of the outputs is lower.
    pub divisor: Option<String>,
    /// The property by which the rate of the outputs is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<String>,
    /// Whether the rate is that of all connected inputs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inputs: bool,
    /// A property, and the text there with which the output has the samples of all inputs in turn.
    /// With another text, the inputs may have different rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaves: Option<(String, String)>,
    /// Whether the component cannot work without a rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needed: bool,
    /// The one rate that it takes, in samples/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<u64>,
    /// Whether the streams have no rate where neither the property nor the
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

    /// Takes the rate from all connected inputs, which must have the same.
    ///
    /// ```
    /// use stripline::component::RateRule;
    ///
    /// assert!(RateRule::inputs().inputs);
    /// ```
    pub fn inputs() -> Self {
        Self { inputs: true, ..Self::default() }
    }

    /// Takes the rate from an input where the property is 0.
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

    /// Adds the rates of all inputs where a property has this text. With another text, the inputs
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

    /// Makes the component one that cannot work without a rate.
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

    /// Makes the component one that takes one rate only, in samples/s.
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

    /// Makes the streams have no rate where neither the property nor the
    /// [facts](super::PropertyFacts) have one. Without this, a rate may be found while it runs.
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
