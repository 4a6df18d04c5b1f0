//! Figures with an aim: the median over runs, with an interval, a null comparison and a decision.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Disturbance;
use crate::machine::allowed_cpus;
use crate::report::{Grid, ns};
use crate::statistics::{MedianInterval, median, median_interval};
use crate::usage::RunTime;

/// The minimum number of runs for a decision on an aim.
const RUNS_MIN: usize = 3;
/// Nothing takes less than this share of the time of the bare transport, without any library.
const BARE_MIN: f64 = 0.5;

/// A comparison of two subjects, with an aim. In JSON, the aim has the key `target` on a ladder.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// assert!(report.ratios.iter().all(|ratio| ratio.value.is_some() != ratio.missing.is_some()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// The name, which states the compared subject and the reference.
    pub name: String,
    /// The unit of the value: `ratio`, or `ns` for a difference.
    pub unit: String,
    /// The median over runs of the median over the rounds of a run.
    pub value: Option<f64>,
    /// The lower end of the interval of the value.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
    /// The probability that the interval contains the true median over runs: 0.75 for three runs,
    /// 0.95 from six on. The interval of the null comparison has the same coverage.
    pub coverage: Option<f64>,
    /// The median over rounds in which the processors were near each other; `None` if there were
    /// too few.
    pub near: Option<f64>,
    /// The median over rounds in which the processors were far apart; `None` if there were too few.
    pub far: Option<f64>,
    /// The value of each run, in the order of the runs.
    pub per_run: Vec<f64>,
    /// The reference compared with itself, in blocks of the same runs.
    pub null: Option<Null>,
    /// The smallest difference that these runs could show: in the unit of the value, or for a ratio
    /// as a share, such as 0.02.
    pub smallest: Option<f64>,
    /// The times of a packet or a round trip, in nanoseconds, for the compared subject and the
    /// reference. For orientation only.
    pub times_ns: Option<[f64; 2]>,
    /// The aim in words.
    #[serde(skip)]
    pub aim: String,
    /// Whether the aim is met, as far as these runs can decide it.
    pub decision: Option<Decision>,
    /// The shares of the runs of this figure that did not belong to the measured programs.
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// Number of disturbed runs. If there is one, nothing is decided.
    pub disturbed_runs: usize,
    /// The reason why there is no value, and what to install.
    pub missing: Option<String>,
    /// The reason why a run failed, if other runs did not fail. The value is then from the other
    /// runs.
    pub failed_run: Option<String>,
}

/// A comparison of a reference with itself. Apart from noise, a ratio is 1, and a difference 0.
///
/// ```no_run
/// # use stripline_bench::ladder::{Settings, run};
/// let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// for ratio in &report.ratios {
///     println!("{}: {:?}", ratio.name, ratio.null);
/// }
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Null {
    /// The median.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The outcome for an aim or a target.
///
/// ```
/// assert_eq!(stripline_bench::Decision::NotDecided.as_str(), "not decided");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The target is met.
    Met,
    /// The target is missed.
    Missed,
    /// The figure is nearer to the target than its null comparison is wide, the interval contains
    /// the target, or there were fewer than three runs.
    NotDecided,
    /// A run was disturbed, or the value cannot be: half of the time of the bare transport.
    NotJudged,
    /// The library refuses this case, or the case for the comparison.
    NotAvailable,
    /// The case should have worked, but failed.
    Failed,
    /// The benchmark ended before this case.
    NotRun,
}

impl Decision {
    /// Returns the decision as text for the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::NotDecided => "not decided",
            Self::NotJudged => "not judged: disturbed",
            Self::NotAvailable => "not available",
            Self::Failed => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Aim {
    by: By,
    limit: f64,
    is_at_most: bool,
    /// The value below which a measurement cannot be right.
    possible: f64,
}

/// The comparison of the times of two subjects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// The ratio of the times.
    Time,
    /// The ratio of the rates, which are the inverse of the times.
    Rate,
    /// The difference of the times.
    Difference,
}

impl Aim {
    /// Returns an aim for the ratio of the times, which may be at most `limit`.
    pub(crate) const fn at_most(limit: f64) -> Self {
        Self { by: By::Time, limit, is_at_most: true, possible: 0.0 }
    }

    /// Returns an aim for the ratio of the times, which must be at least `limit`.
    pub(crate) const fn at_least(limit: f64) -> Self {
        Self { by: By::Time, limit, is_at_most: false, possible: 0.0 }
    }

    /// Returns an aim for the ratio of the rates, which must be at least `limit`.
    pub(crate) const fn rate_at_least(limit: f64) -> Self {
        Self { by: By::Rate, limit, is_at_most: false, possible: 0.0 }
    }

    /// Returns an aim for the difference of the times: at most `limit` nanoseconds more.
    pub(crate) const fn more_at_most(limit: f64) -> Self {
        Self { by: By::Difference, limit, is_at_most: true, possible: f64::NEG_INFINITY }
    }

    /// Returns the aim for the ratio of the time to the time of the bare transport.
    pub(crate) const fn over_bare(self) -> Self {
        Self { possible: BARE_MIN, ..self }
    }

    /// Compares the times of each round.
    pub(crate) fn compare(self, over: &[f64], under: &[f64]) -> Vec<f64> {
        let rounds = over.iter().zip(under);
        match self.by {
            By::Time => rounds.map(|(over, under)| over / under).collect(),
            By::Rate => rounds.map(|(over, under)| under / over).collect(),
            By::Difference => rounds.map(|(over, under)| over - under).collect(),
        }
    }

    /// Returns the worse one of two values: further from the aim, or less far beyond it.
    pub(crate) fn worse(self, value: Option<f64>, other: Option<f64>) -> Option<f64> {
        let (Some(value), Some(other)) = (value, other) else { return value.or(other) };
        Some(if self.is_at_most { value.max(other) } else { value.min(other) })
    }

    /// Returns a value on the scale of distances. Ratios are compared as ratios: 0.5 is as far from
    /// 1 as 2 is. On this scale, a null comparison without noise is at 0.
    fn scaled(self, value: f64) -> f64 {
        if self.by == By::Difference { value } else { value.ln() }
    }

    fn null_width(self, null: Null) -> f64 {
        // A null comparison on one side of 0 counts as if it reached 0.
        self.scaled(null.high).max(0.0) - self.scaled(null.low).min(0.0)
    }

    /// Returns the smallest difference that the runs could show.
    fn smallest(self, found: MedianInterval, null: Null) -> f64 {
        let [value, low, high] = [found.value, found.low, found.high].map(|value| self.scaled(value));
        let width = self.null_width(null).max(value - low).max(high - value);
        if self.by == By::Difference { width } else { width.exp_m1() }
    }

    /// Returns whether the aim is met. A figure decides nothing in three cases: if it is nearer to
    /// the aim than its null comparison is wide, if the aim is inside its interval, or if there are
    /// too few runs. A value that cannot be is not judged.
    fn decide(self, found: MedianInterval, null: Null, runs: usize) -> Decision {
        let scaled = |value| self.scaled(value);
        let [value, low, high, limit] = [found.value, found.low, found.high, self.limit].map(scaled);
        let is_met = if self.is_at_most { value <= limit } else { value >= limit };
        let null_width = self.null_width(null);
        let holds_aim = low < limit && limit < high;
        match is_met {
            _ if runs < RUNS_MIN => Decision::NotDecided,
            _ if found.value < self.possible => Decision::NotJudged,
            _ if holds_aim || null_width > (value - limit).abs() => Decision::NotDecided,
            true => Decision::Met,
            false => Decision::Missed,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_at_most { "<=" } else { ">=" };
        let unit = if self.by == By::Difference { " ns" } else { "" };
        write!(f, "{sign} {}{unit}", (self.limit * 100.0).round() / 100.0)
    }
}

/// The values of the runs. The value of a run is the median over the rounds of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    pub values: Vec<f64>,
    pub nulls: Vec<f64>,
    pub over_ns: Vec<f64>,
    pub under_ns: Vec<f64>,
    /// The times of each run, as far as the system provides them.
    pub runs: Vec<RunTime>,
}

impl Samples {
    /// Adds a run, given the times of a packet in each round: of the compared subject, of the
    /// reference, and of the reference again.
    pub(crate) fn add_run(&mut self, aim: Aim, over: &[f64], under: &[f64], again: &[f64]) {
        self.values.extend(median(&aim.compare(over, under)));
        self.nulls.extend(median(&aim.compare(again, under)));
        self.over_ns.extend(median(over));
        self.under_ns.extend(median(under));
    }
}

impl Figure {
    /// Creates a figure from its runs.
    pub(crate) fn new(name: &str, aim: Aim, samples: &Samples) -> Self {
        let found = median_interval(&samples.values);
        let null = found.and(median_interval(&samples.nulls));
        let null = null.map(|null| Null { value: null.value, low: null.low, high: null.high });
        let cpus = allowed_cpus().len();
        let is_disturbed = |run: &&RunTime| Disturbance::of([**run], cpus).is_disturbed();
        let disturbed_runs = samples.runs.iter().filter(is_disturbed).count();
        let decide = |(found, null)| match disturbed_runs {
            1.. if samples.values.len() >= RUNS_MIN => Decision::NotJudged,
            _ => aim.decide(found, null, samples.values.len()),
        };
        Self {
            value: found.map(|found| found.value),
            low: found.map(|found| found.low),
            high: found.map(|found| found.high),
            coverage: found.map(|found| found.coverage),
            per_run: samples.values.clone(),
            null,
            smallest: found.zip(null).map(|(found, null)| aim.smallest(found, null)),
            times_ns: median(&samples.over_ns).zip(median(&samples.under_ns)).map(Into::into),
            decision: found.zip(null).map(decide),
            disturbance: Disturbance::of(samples.runs.iter().copied(), cpus),
            disturbed_runs,
            ..Self::missing(name, aim, None)
        }
    }

    /// Creates a figure without a value, for this reason.
    pub(crate) fn missing(name: &str, aim: Aim, reason: Option<String>) -> Self {
        let unit = if aim.by == By::Difference { "ns" } else { "ratio" };
        let (name, unit, aim) = (name.into(), unit.into(), aim.to_string());
        Self { name, unit, aim, missing: reason, ..Self::default() }
    }

    /// Formats a value of this figure; `-` for no value.
    pub(crate) fn show(&self, value: Option<f64>) -> String {
        match value {
            None => "-".into(),
            Some(value) if self.unit == "ns" => format!("{value:.1} ns"),
            Some(value) => format!("{value:.2}"),
        }
    }

    /// Returns whether the aim is met; if not, the error has the figure and the reason. Returns
    /// `None` for a figure that was not measured.
    pub(crate) fn target(&self, word: &str) -> Option<Result<(), String>> {
        let reason = self.decision?.as_str();
        let text = || format!("{}: {}, {word} {}: {reason}", self.name, self.show(self.value), self.aim);
        Some(if self.decision == Some(Decision::Met) { Ok(()) } else { Err(text()) })
    }

    /// Returns the figure for JSON, with the aim under this key.
    fn keyed(&self, key: &str) -> serde_json::Result<serde_json::Value> {
        let mut value = serde_json::to_value(self)?;
        value[key] = self.aim.as_str().into();
        Ok(value)
    }
}

/// Serialises figures as an object with the names as keys.
pub(crate) fn by_name<S: Serializer>(figures: &[Figure], serializer: S) -> Result<S::Ok, S::Error> {
    let entry = |own: &Figure| Ok((own.name.clone(), own.keyed("target")?));
    let all: serde_json::Result<Vec<_>> = figures.iter().map(entry).collect();
    serializer.collect_map(all.map_err(serde::ser::Error::custom)?)
}

/// Serialises figures as a list.
pub(crate) fn in_order<S: Serializer>(figures: &[Figure], serializer: S) -> Result<S::Ok, S::Error> {
    let all: serde_json::Result<Vec<_>> = figures.iter().map(|own| own.keyed("aim")).collect();
    serializer.collect_seq(all.map_err(serde::ser::Error::custom)?)
}

/// Returns the table of the measured figures.
pub(crate) fn grid(titles: &[&'static str], droppable: &'static [&'static str], figures: &[Figure]) -> Grid {
    let mut grid = Grid::new(titles, 1, droppable);
    for figure in figures {
        let (Some(null), Some(decision)) = (figure.null, figure.decision) else { continue };
        let range = |low, high| format!("{} - {}", figure.show(low), figure.show(high));
        let times = figure.times_ns.map(|times| times.map(|time| ns(Some(time))).join(" / "));
        let cell = |title: &&str| match *title {
            "VALUE" => figure.show(figure.value),
            "INTERVAL" => range(figure.low, figure.high),
            "NULL" => range(Some(null.low), Some(null.high)),
            "SMALLEST" => match figure.smallest {
                Some(share) if figure.unit == "ratio" => format!("{:.1} %", 100.0 * share),
                smallest => figure.show(smallest),
            },
            "NEAR" => figure.show(figure.near),
            "FAR" => figure.show(figure.far),
            "TIMES" => times.clone().unwrap_or_default(),
            "TARGET" | "AIM" => figure.aim.clone(),
            "" => decision.as_str().into(),
            _ => figure.name.clone(),
        };
        grid.rows.push(titles.iter().map(cell).collect());
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(aim: Aim, runs: &[(f64, f64, f64)]) -> Figure {
        let mut samples = Samples::default();
        for (over, under, again) in runs {
            samples.add_run(aim, &[*over], &[*under], &[*again]);
        }
        Figure::new("it", aim, &samples)
    }

    #[test]
    fn a_difference_has_an_aim_of_its_own() {
        let runs = |over: f64| [(over, 50.0, 50.5), (over + 0.5, 50.0, 49.5), (over - 0.5, 50.0, 50.0)];
        let met = figure(Aim::more_at_most(7.0), &runs(54.0));
        assert_eq!((met.value, met.unit.as_str(), met.decision), (Some(4.0), "ns", Some(Decision::Met)));
        assert_eq!(met.smallest, Some(1.0));
        assert_eq!((met.null.map(|null| null.value), met.times_ns), (Some(0.0), Some([54.0, 50.0])));
        assert_eq!(figure(Aim::more_at_most(7.0), &runs(60.0)).decision, Some(Decision::Missed));
        assert_eq!(figure(Aim::more_at_most(7.0), &runs(57.2)).decision, Some(Decision::NotDecided));
    }

    #[test]
    fn a_disturbed_run_or_an_impossible_value_decides_nothing_in_either_direction() {
        let aim = Aim::at_most(1.1).over_bare();
        let decision = |over, runs| {
            let mut samples = Samples { runs, ..Samples::default() };
            (0..3).for_each(|_| samples.add_run(aim, &[over], &[100.0], &[100.0]));
            let found = Figure::new("it", aim, &samples);
            (found.decision.unwrap(), found.disturbed_runs)
        };
        let quiet = RunTime { elapsed_s: 1.0, delay_s: Some(0.01), ..RunTime::default() };
        let late = RunTime { delay_s: Some(0.2), ..quiet };
        for (over, told) in [(100.0, Decision::Met), (150.0, Decision::Missed), (7.0, Decision::NotJudged)] {
            assert_eq!(decision(over, vec![quiet; 3]), (told, 0));
            assert_eq!(decision(over, vec![quiet, late, quiet]), (Decision::NotJudged, 1));
        }
    }

    #[test]
    fn a_ratio_is_of_one_round() {
        let mut samples = Samples::default();
        // The second round was slow for both subjects.
        samples.add_run(
            Aim::at_most(1.5),
            &[100.0, 400.0, 100.0],
            &[100.0, 400.0, 100.0],
            &[101.0, 400.0, 99.0],
        );
        assert_eq!((samples.values, samples.nulls), (vec![1.0], vec![1.0]));
    }

    #[test]
    fn what_was_not_measured_has_its_reason() {
        let found = Figure::missing("it", Aim::at_least(3.0), Some("install it".into()));
        assert_eq!((found.value, found.decision, found.disturbance.others_share), (None, None, None));
        assert_eq!((found.aim.as_str(), found.target("aim")), (">= 3", None));
        let aims = [Aim::more_at_most(7.0), Aim::at_most(1.0 / 0.9), Aim::rate_at_least(0.5)];
        assert_eq!(aims.map(|aim| aim.to_string()), ["<= 7 ns", "<= 1.11", ">= 0.5"]);
    }
}
