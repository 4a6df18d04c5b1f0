//! The comparison of two results of a ladder, or of an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::printable;
use crate::report::{Grid, Measured, Section};
use crate::statistics::{COVERAGE, median, shift_interval};
use crate::{Disturbance, Machine, RESULT_FORMAT};

/// The maximum size of a result in bytes.
pub const RESULT_BYTES_MAX: usize = 256 << 20;
/// The maximum number of figures of a result, and of runs of a figure.
const FIGURES_MAX: usize = 4096;
const RUNS_MAX: usize = 1000;
/// The range of a figure.
const VALUES: std::ops::RangeInclusive<f64> = 1e-12..=1e15;

/// A result that was read from JSON.
///
/// ```
/// use stripline_bench::compare::BenchResult;
///
/// let problem = BenchResult::parse(b"{}").unwrap_err();
/// assert!(problem.contains("not a result"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BenchResult {
    /// The name of the benchmark: `ladder`, or the experiment with its name.
    benchmark: String,
    machine: Machine,
    figures: BTreeMap<String, FigureRuns>,
}

/// A figure of a result.
#[derive(Clone, Debug, PartialEq)]
struct FigureRuns {
    /// The value of each run.
    values: Vec<f64>,
    /// The width of the null comparison, on a logarithmic scale; `None` without one.
    null: Option<f64>,
    is_better_lower: bool,
    is_disturbed: bool,
    parameters: Option<Parameters>,
}

/// The keys that all results have.
#[derive(Deserialize)]
struct ResultHead {
    format: u32,
}

#[derive(Deserialize)]
struct LadderResult {
    machine: Machine,
    ratios: BTreeMap<String, RatioResult>,
}

#[derive(Deserialize)]
struct RatioResult {
    target: String,
    per_run: Vec<f64>,
    null: Option<NullResult>,
    disturbed_runs: usize,
}

#[derive(Deserialize)]
struct NullResult {
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct ExperimentResult {
    name: String,
    machine: Machine,
    cases: Vec<CaseResult>,
}

#[derive(Deserialize)]
struct CaseResult {
    name: String,
    variant: String,
    #[serde(flatten)]
    parameters: Parameters,
    runs: Vec<RunResult>,
}

/// The keys of a case that change its time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Parameters {
    stages: u32,
    packets: u32,
    size: usize,
    #[serde(rename = "type")]
    element: String,
    work: String,
    work_ms: f64,
    pace_ms: f64,
    scope: Value,
    dispatch: Value,
    order: String,
    transport: String,
    placement: String,
}

#[derive(Deserialize)]
struct RunResult {
    over_ideal: f64,
    last_ms: f64,
    #[serde(flatten)]
    disturbance: Disturbance,
}

impl BenchResult {
    /// Reads a result of a ladder or an experiment.
    ///
    /// # Errors
    /// A sentence that states why this is no such result.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > RESULT_BYTES_MAX {
            return Err(format!("it has more than {RESULT_BYTES_MAX} bytes"));
        }
        let problem = |error: serde_json::Error| printable(&error.to_string());
        let whole: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not JSON, or not all of it: {}", problem(error)))?;
        let has = |key: &str| whole.get(key).is_some();
        let (is_ladder, is_experiment) = (has("ratios"), has("cases"));
        if !has("stripline") || !(is_ladder || is_experiment) {
            return Err(
                "it is not a result of `stripline bench ladder` or `stripline bench FILE.toml`".into()
            );
        }
        let remedy = "measure again with one version of `stripline`";
        match ResultHead::deserialize(&whole) {
            Ok(ResultHead { format: RESULT_FORMAT }) => {}
            Ok(ResultHead { format }) => {
                return Err(format!("it has format {format}, not {RESULT_FORMAT}: {remedy}"));
            }
            Err(_) => return Err(format!("it has no format, where {RESULT_FORMAT} is read: {remedy}")),
        }
        let damaged = |error| format!("it is damaged: {}", problem(error));
        let own = if is_ladder {
            LadderResult::deserialize(whole).map_err(damaged)?.parsed()
        } else {
            ExperimentResult::deserialize(whole).map_err(damaged)?.parsed()?
        };
        own.check().map(|()| own)
    }

    fn check(&self) -> Result<(), String> {
        self.machine.check()?;
        if self.figures.len() > FIGURES_MAX {
            return Err(format!("it has {} figures, and may have {FIGURES_MAX}", self.figures.len()));
        }
        if printable(&self.benchmark) != self.benchmark {
            return Err("its name is not printable, or too long".into());
        }
        for (name, own) in &self.figures {
            if printable(name) != *name {
                return Err(format!("the name of `{}` is not printable, or too long", printable(name)));
            }
            if own.values.len() > RUNS_MAX {
                return Err(format!("`{name}` has {} runs, and may have {RUNS_MAX}", own.values.len()));
            }
            if let Some(value) = own.values.iter().find(|value| !VALUES.contains(*value)) {
                return Err(format!("`{name}` is {value} in one run, which cannot be"));
            }
            if own.null.is_some_and(|width| !width.is_finite()) {
                return Err(format!("the null comparison of `{name}` is not above 0"));
            }
        }
        Ok(())
    }
}

impl LadderResult {
    fn parsed(self) -> BenchResult {
        let figures = self.ratios.into_iter().map(|(name, own)| {
            // A null comparison on one side of 1 counts as if it reached 1.
            let width = |null: NullResult| null.high.ln().max(0.0) - null.low.ln().min(0.0);
            let runs = FigureRuns {
                values: own.per_run,
                null: own.null.map(width),
                is_better_lower: own.target.starts_with("<="),
                is_disturbed: own.disturbed_runs > 0,
                parameters: None,
            };
            (name, runs)
        });
        BenchResult { benchmark: "the ladder".into(), machine: self.machine, figures: figures.collect() }
    }
}

impl ExperimentResult {
    fn parsed(self) -> Result<BenchResult, String> {
        let mut figures = BTreeMap::new();
        for CaseResult { name, variant, parameters, runs } in self.cases {
            // A pipeline without work and pace has no ideal, but a time.
            let has_ideal = !runs.is_empty() && runs.iter().all(|run| run.over_ideal > 0.0);
            let value = |run: &RunResult| if has_ideal { run.over_ideal } else { run.last_ms };
            let own = FigureRuns {
                values: runs.iter().map(value).collect(),
                null: None,
                is_better_lower: true,
                is_disturbed: runs.iter().any(|run| run.disturbance.is_disturbed()),
                parameters: Some(parameters),
            };
            let name = format!("{name}, {variant}");
            if figures.contains_key(&name) {
                return Err(format!("it has the case `{}` twice", printable(&name)));
            }
            figures.insert(name, own);
        }
        let benchmark = format!("the experiment `{}`", self.name);
        Ok(BenchResult { benchmark, machine: self.machine, figures })
    }
}

/// The differences of two results.
///
/// ```no_run
/// use stripline_bench::compare::{BenchResult, compare};
///
/// let [old, new] = ["old.json", "new.json"].map(|path| std::fs::read(path).expect("a result"));
/// let found = compare(&BenchResult::parse(&old)?, &BenchResult::parse(&new)?, 5.0)?;
/// assert!(found.regressions().is_empty());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct BenchComparison {
    /// The name of the benchmark.
    pub benchmark: String,
    /// By how many percent a figure may be slower.
    pub limit_percent: f64,
    /// The figures of both results.
    pub figures: Vec<FigureChange>,
    /// The figures that only the old result has.
    pub only_old: Vec<String>,
    /// The figures that only the new result has.
    pub only_new: Vec<String>,
    /// The differences of the machines, in words.
    pub machines: Vec<String>,
}

/// The difference of a figure.
///
/// ```no_run
/// # fn example(found: &stripline_bench::compare::BenchComparison) {
/// for own in found.figures.iter().filter(|own| own.is_regression) {
///     println!("{}: {:.3} ({:.3} to {:.3})", own.name, own.ratio, own.low, own.high);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// The name.
    pub name: String,
    /// The median over the runs of the old result.
    pub old: f64,
    /// The median over the runs of the new result.
    pub new: f64,
    /// The ratio of the new value to the old value.
    pub ratio: f64,
    /// The lower end of the interval of the ratio.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The probability that the interval contains the true ratio.
    pub coverage: f64,
    /// The width of the wider one of both null comparisons in percent; `None` without one.
    pub null_percent: Option<f64>,
    /// The smallest difference that these runs could show, in percent.
    pub smallest_percent: f64,
    /// The outcome.
    pub change: Change,
    /// Whether the figure is slower by more than the limit.
    pub is_regression: bool,
}

/// The outcome for a figure of two results.
///
/// ```
/// assert_eq!(stripline_bench::compare::Change::NotSeen.as_str(), "no difference seen");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The new result is slower.
    Slower,
    /// The new result is faster.
    Faster,
    /// A difference is smaller than these runs could show.
    NotSeen,
    /// A run was disturbed.
    Disturbed,
    /// There are too few runs for an interval of 95 %: fewer than four on each side.
    TooFewRuns,
    /// The case has other parameters.
    OtherCase,
}

impl Change {
    /// Returns the outcome as text for the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::NotSeen => "no difference seen",
            Self::Disturbed => "not decided: disturbed",
            Self::TooFewRuns => "not decided: too few runs",
            Self::OtherCase => "not decided: the case has changed",
        }
    }
}

/// Compares two results. A figure that is slower by more than the limit is a regression.
///
/// # Errors
/// If the results are of different benchmarks.
///
/// ```no_run
/// # use stripline_bench::compare::{BenchResult, compare};
/// let old = BenchResult::parse(&std::fs::read("old.json").expect("a result"))?;
/// assert!(compare(&old, &old, 0.0)?.regressions().is_empty());
/// # Ok::<(), String>(())
/// ```
pub fn compare(old: &BenchResult, new: &BenchResult, limit_percent: f64) -> Result<BenchComparison, String> {
    if old.benchmark != new.benchmark {
        let (old, new) = (&old.benchmark, &new.benchmark);
        return Err(format!(
            "the old result is of {old}, and the new one of {new}: name two of one benchmark"
        ));
    }
    let change =
        |(name, then): (&String, &FigureRuns)| then.change(name, new.figures.get(name)?, limit_percent);
    let figures: Vec<FigureChange> = old.figures.iter().filter_map(change).collect();
    let only = |own: &BenchResult, other: &BenchResult| {
        let is_measured = |own: &BenchResult, name: &String| {
            own.figures.get(name).is_some_and(|figure| !figure.values.is_empty())
        };
        let only = own.figures.keys().filter(|name| is_measured(own, name) && !is_measured(other, name));
        only.cloned().collect()
    };
    Ok(BenchComparison {
        benchmark: old.benchmark.clone(),
        limit_percent,
        figures,
        only_old: only(old, new),
        only_new: only(new, old),
        machines: new.machine.differences(&old.machine),
    })
}

impl FigureRuns {
    /// Returns the difference to the new runs of the figure; `None` if there are no runs.
    fn change(&self, name: &str, new: &Self, limit_percent: f64) -> Option<FigureChange> {
        // Ratios are compared as ratios: 0.5 is as far from 1 as 2 is.
        let scaled = |own: &Self| own.values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let shift = shift_interval(&scaled(self), &scaled(new))?;
        let percent = |width: f64| 100.0 * width.exp_m1();
        let null = self.null.into_iter().chain(new.null).reduce(f64::max);
        let smallest = (shift.value - shift.low).max(shift.high - shift.value).max(null.unwrap_or(0.0));
        let is_beyond_null = shift.value.abs() > null.unwrap_or(0.0);
        let slowdown = if self.is_better_lower { shift.value } else { -shift.value };
        let change = if self.parameters != new.parameters || self.is_better_lower != new.is_better_lower {
            Change::OtherCase
        } else if self.is_disturbed || new.is_disturbed {
            Change::Disturbed
        } else if shift.coverage < COVERAGE {
            Change::TooFewRuns
        } else if (shift.low <= 0.0 && shift.high >= 0.0) || !is_beyond_null {
            Change::NotSeen
        } else if slowdown > 0.0 {
            Change::Slower
        } else {
            Change::Faster
        };
        Some(FigureChange {
            name: name.into(),
            old: median(&self.values)?,
            new: median(&new.values)?,
            ratio: shift.value.exp(),
            low: shift.low.exp(),
            high: shift.high.exp(),
            coverage: shift.coverage,
            null_percent: null.map(percent),
            smallest_percent: percent(smallest),
            change,
            is_regression: change == Change::Slower && percent(slowdown) > limit_percent,
        })
    }
}

impl BenchComparison {
    /// Returns the figures that are slower by more than the limit.
    pub fn regressions(&self) -> Vec<&FigureChange> {
        self.figures.iter().filter(|own| own.is_regression).collect()
    }
}

impl Measured for BenchComparison {
    fn head(&self) -> Vec<String> {
        vec![format!("Two results of {}: new over old", self.benchmark)]
    }

    fn sections(&self) -> Vec<Section> {
        let coverage = self.figures.iter().map(|own| own.coverage).fold(1.0, f64::min);
        let text = format!(
            "RATIO of the new value to the old one, with an interval that covers it with {:.0} % or more. NULL: the \
             width of the\nreference over itself. SMALLEST: the smallest difference that these runs could show.",
            100.0 * coverage
        );
        let titles = ["FIGURE", "OLD", "NEW", "RATIO", "INTERVAL", "NULL", "SMALLEST", ""];
        let mut grid = Grid::new(&titles, 1, &["NULL", "OLD", "NEW", "INTERVAL"]);
        let percent = |value: f64| format!("{value:.1} %");
        grid.rows.extend(self.figures.iter().map(|own| {
            vec![
                own.name.clone(),
                format!("{:.3}", own.old),
                format!("{:.3}", own.new),
                format!("{:.3}", own.ratio),
                format!("{:.3} - {:.3}", own.low, own.high),
                own.null_percent.map_or_else(|| "-".into(), percent),
                percent(own.smallest_percent),
                own.change.as_str().into(),
            ]
        }));
        let only = |names: &[String], which: &str| {
            (!names.is_empty()).then(|| format!("only in the {which} result: {}", names.join("; ")))
        };
        let lines = [only(&self.only_old, "old"), only(&self.only_new, "new")];
        let lines = lines.into_iter().flatten().collect();
        vec![Section { lines, ..Section::new("FIGURES", text, grid) }]
    }

    fn notes(&self) -> Vec<String> {
        let other = |difference: &String| format!("note: the machine of the old result: {difference}");
        let mut notes: Vec<String> = self.machines.iter().map(other).collect();
        if self.figures.is_empty() {
            notes.push("note: no figure is in both results".into());
        }
        let is_undecided = |own: &&FigureChange| {
            matches!(own.change, Change::Disturbed | Change::TooFewRuns | Change::OtherCase)
        };
        let undecided = self.figures.iter().filter(is_undecided).count();
        if undecided > 0 {
            notes.push(format!("note: {undecided} of {} figures are not decided", self.figures.len()));
        }
        notes
    }

    fn failures(&self) -> Vec<String> {
        let text = |own: &FigureChange| {
            let FigureChange { name, ratio, low, high, .. } = own;
            let limit = self.limit_percent;
            format!("{name} is slower by more than {limit} %: new over old {ratio:.3} ({low:.3} - {high:.3})")
        };
        self.regressions().into_iter().map(text).collect()
    }

    fn targets(&self) -> Vec<Result<(), String>> {
        Vec::new()
    }

    fn is_interrupted(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a ladder's result with one ratio.
    fn ladder(target: &str, per_run: &[f64], disturbed_runs: usize) -> Value {
        let itself = json!({ "value": 1.0, "low": 0.99, "high": 1.01 });
        let ratio =
            json!({ "target": target, "per_run": per_run, "null": itself, "disturbed_runs": disturbed_runs });
        json!({ "stripline": "0", "format": 1, "machine": Machine::here(), "ratios": { "it": ratio } })
    }

    fn parse(value: &Value) -> Result<BenchResult, String> {
        BenchResult::parse(value.to_string().as_bytes())
    }

    fn change(old: &Value, new: &Value, limit: f64) -> FigureChange {
        compare(&parse(old).unwrap(), &parse(new).unwrap(), limit).unwrap().figures.remove(0)
    }

    const OLD: [f64; 6] = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0];

    #[test]
    fn a_difference_is_real_beyond_the_interval_and_the_null() {
        let times = |factor: f64| OLD.map(|value| value * factor);
        let found = |factor: f64| {
            let found = change(&ladder("<= 1.1", &OLD, 0), &ladder("<= 1.1", &times(factor), 0), 5.0);
            (found.change, found.is_regression)
        };
        assert_eq!(found(1.0), (Change::NotSeen, false));
        // The null comparisons are 2 % wide.
        assert_eq!(found(1.019), (Change::NotSeen, false));
        assert_eq!(found(1.04), (Change::Slower, false));
        assert_eq!(found(1.06), (Change::Slower, true));
        assert_eq!(found(0.9), (Change::Faster, false));
        let own = change(&ladder(">= 1", &OLD, 0), &ladder(">= 1", &times(0.9), 0), 5.0);
        assert_eq!((own.change, own.is_regression), (Change::Slower, true));
        assert!((own.ratio - 0.9).abs() < 1e-9 && own.low < 0.9 && own.high > 0.9, "{own:?}");
        let same = change(&ladder("<= 1.1", &OLD, 0), &ladder("<= 1.1", &OLD, 0), 5.0);
        assert!((2.0..2.1).contains(&same.smallest_percent), "{same:?}");
    }

    #[test]
    fn disturbed_or_too_few_runs_decide_nothing() {
        let slow = ladder("<= 1.1", &[2.0; 6], 0);
        let changes = [
            change(&ladder("<= 1.1", &OLD, 1), &slow, 5.0),
            change(&ladder("<= 1.1", &OLD[..3], 0), &ladder("<= 1.1", &[2.0; 3], 0), 5.0),
            change(&ladder("<= 1.1", &OLD[..4], 0), &ladder("<= 1.1", &[2.0; 4], 0), 5.0),
        ];
        assert_eq!(changes.map(|own| own.change), [Change::Disturbed, Change::TooFewRuns, Change::Slower]);
    }

    #[test]
    fn a_planted_difference_is_found_and_nothing_else() {
        use rand_distr::{Distribution, LogNormal};
        use rand_xoshiro::Xoshiro256PlusPlus;
        use rand_xoshiro::rand_core::SeedableRng;

        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let noise = LogNormal::new(0.0, 0.02).unwrap();
        let mut runs = |factor: f64| FigureRuns {
            values: [(); 6].map(|()| factor * noise.sample(&mut random)).into(),
            null: Some(0.01),
            is_better_lower: true,
            is_disturbed: false,
            parameters: None,
        };
        let mut slower = |factor: f64| {
            let found = (0..500).filter(|_| {
                let old = runs(1.0);
                old.change("it", &runs(factor), 0.0).unwrap().is_regression
            });
            found.count()
        };
        assert!(slower(1.0) <= 25 && slower(1.08) >= 475);
    }

    #[test]
    fn what_is_no_result_has_the_reason() {
        let good = ladder("<= 1.1", &OLD, 0);
        let text = good.to_string();
        for cut in (0..text.len()).step_by(7) {
            assert!(BenchResult::parse(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
        let with = |key: &str, value: Value| {
            let mut changed = good.clone();
            changed[key] = value;
            parse(&changed).unwrap_err()
        };
        let runs = |values: &[f64]| json!({ "\u{1b}": ladder("<= 1", values, 0)["ratios"]["it"] });
        for (problem, words) in [
            (with("format", json!(2)), "it has format 2, not 1"),
            (with("format", Value::Null), "it has no format"),
            (with("ratios", json!({ "it": {} })), "it is damaged: missing field"),
            (with("ratios", runs(&[1.0])), "not printable"),
            (with("ratios", ladder("<= 1", &[1.0; 1001], 0)["ratios"].clone()), "1001 runs"),
            (with("ratios", ladder("<= 1", &[0.0], 0)["ratios"].clone()), "cannot be"),
        ] {
            assert!(problem.contains(words), "{words}: {problem}");
        }
        assert!(parse(&json!({ "figures": [], "stripline": "0" })).unwrap_err().contains("not a result"));
    }
}
