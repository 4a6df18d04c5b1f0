//! Figures from the times of blocks: ratios and differences, with their aims.

use super::BindingFigure;
use crate::ladder::Null;
use crate::ladder::ratios::{Evidence, decide};
use crate::ladder::statistics::{median, median_interval};

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    /// The ratio may be at most this value.
    AtMost(f64),
    /// The ratio must be at least this value.
    AtLeast(f64),
    /// A packet may take at most this many nanoseconds more.
    MoreAtMost(f64),
}

impl Aim {
    fn compare(self, over: f64, under: f64) -> f64 {
        match self {
            Self::AtMost(_) | Self::AtLeast(_) => over / under,
            Self::MoreAtMost(_) => over - under,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::AtMost(_) | Self::AtLeast(_) => "ratio",
            Self::MoreAtMost(_) => "ns",
        }
    }

    /// Returns the limit, and whether it is an upper limit.
    fn limit(self) -> (f64, bool) {
        match self {
            Self::AtMost(most) | Self::MoreAtMost(most) => (most, true),
            Self::AtLeast(least) => (least, false),
        }
    }

    /// Returns the value on a scale on which equal steps have equal distances: ratios are compared
    /// as ratios. The null is at 0.
    fn scaled(self, value: f64) -> f64 {
        match self {
            Self::AtMost(_) | Self::AtLeast(_) => value.ln(),
            Self::MoreAtMost(_) => value,
        }
    }
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::MoreAtMost(most) => write!(f, "<= {most} ns"),
        }
    }
}

/// The values of the runs. The value of a run is the median over the rounds of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    values: Vec<f64>,
    nulls: Vec<f64>,
    over_ns: Vec<f64>,
    under_ns: Vec<f64>,
}

impl Samples {
    /// Adds a run, given the times of a packet in each round.
    pub(super) fn add_run(&mut self, aim: Aim, over: &[f64], under: &[f64], again: &[f64]) {
        let compared = |over: &[f64]| -> Vec<f64> {
            over.iter().zip(under).map(|(over, under)| aim.compare(*over, *under)).collect()
        };
        self.values.extend(median(&compared(over)));
        self.nulls.extend(median(&compared(again)));
        self.over_ns.extend(median(over));
        self.under_ns.extend(median(under));
    }

    /// Creates samples from the values of runs that another program has compared.
    pub(super) fn compared(values: Vec<f64>, nulls: Vec<f64>) -> Self {
        Self { values, nulls, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl BindingFigure {
    /// Creates a figure from its runs, or from the reason why there are none.
    pub(super) fn new(
        name: &str,
        aim: Aim,
        samples: &Samples,
        others_share: Option<f64>,
        missing: Option<String>,
    ) -> Self {
        let found = if missing.is_some() { None } else { median_interval(&samples.values) };
        let null = found.and_then(|_| median_interval(&samples.nulls));
        let (limit, is_at_most) = aim.limit();
        let decision = found.zip(null).map(|(found, null)| {
            decide(&Evidence {
                value: aim.scaled(found.value),
                low: aim.scaled(found.low),
                high: aim.scaled(found.high),
                null: (aim.scaled(null.low), aim.scaled(null.high)),
                limit: aim.scaled(limit),
                is_at_most,
                runs: samples.values.len(),
                others_share,
            })
        });
        let times = median(&samples.over_ns).zip(median(&samples.under_ns));
        Self {
            name: name.into(),
            unit: aim.unit().into(),
            value: found.map(|found| found.value),
            low: found.map(|found| found.low),
            high: found.map(|found| found.high),
            coverage: found.map(|found| found.coverage),
            null: null.map(|null| Null { value: null.value, low: null.low, high: null.high }),
            times_ns: found.and(times).map(|(over, under)| [over, under]),
            aim: aim.to_string(),
            decision,
            others_share: found.and(others_share),
            missing,
            failed_run: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Decision;

    fn figure(aim: Aim, runs: &[(f64, f64, f64)]) -> BindingFigure {
        let mut samples = Samples::default();
        for (over, under, again) in runs {
            samples.add_run(aim, &[*over], &[*under], &[*again]);
        }
        BindingFigure::new("it", aim, &samples, Some(0.0), None)
    }

    #[test]
    fn a_difference_has_an_aim_of_its_own() {
        let runs = |over: f64| [(over, 50.0, 50.5), (over + 0.5, 50.0, 49.5), (over - 0.5, 50.0, 50.0)];
        let met = figure(Aim::MoreAtMost(7.0), &runs(54.0));
        assert_eq!((met.value, met.unit.as_str(), met.decision), (Some(4.0), "ns", Some(Decision::Met)));
        assert_eq!((met.null.map(|null| null.value), met.times_ns), (Some(0.0), Some([54.0, 50.0])));
        assert_eq!(figure(Aim::MoreAtMost(7.0), &runs(60.0)).decision, Some(Decision::Missed));
        assert_eq!(figure(Aim::MoreAtMost(7.0), &runs(57.2)).decision, Some(Decision::NotDecided));
    }

    #[test]
    fn a_ratio_is_of_one_round() {
        let mut samples = Samples::default();
        // The second round was slow for both subjects.
        samples.add_run(
            Aim::AtMost(1.5),
            &[100.0, 400.0, 100.0],
            &[100.0, 400.0, 100.0],
            &[101.0, 400.0, 99.0],
        );
        assert_eq!((samples.values, samples.nulls), (vec![1.0], vec![1.0]));
    }

    #[test]
    fn what_was_not_measured_has_its_reason() {
        let missing = Some("install it".into());
        let found = BindingFigure::new("it", Aim::AtLeast(3.0), &Samples::default(), Some(0.5), missing);
        assert_eq!((found.value, found.decision, found.others_share), (None, None, None));
        assert_eq!(found.aim, ">= 3");
    }
}
