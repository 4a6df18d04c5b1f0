//! Parses an experiment file into cases.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use stripline::node::Dispatch;
use stripline::payload;
use stripline::terms::Resequence;
use stripline::terms::Scope;
use stripline::transport::{self, Reach};
use stripline_waveform::internal::{did_you_mean_key, nearest, suggestion};

use super::case::{ExperimentCase, ExperimentTarget, Order, Placement, PublishedFigure, Work};
use super::problems::Problems;
use super::schema::schema;
use super::tables::{self, At, File, Keys, Many};

/// The maximum size of an experiment file in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of cases of a file, after all matrices are expanded.
const CASES_MAX: usize = 1024;
const LINE_BYTES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 500;
pub(super) const STAGES_MAX: i64 = 64;
pub(super) const PACKETS_MAX: i64 = 1_000_000;
/// A packet must have room for its number.
pub(super) const SIZE_MIN: i64 = 8;
pub(super) const SIZE_MAX: i64 = 1 << 26;
pub(super) const MS_MAX: f64 = 60_000.0;
pub(super) const WINDOW_MAX: i64 = Resequence::WINDOW_MAX as i64;
pub(super) const SKIP_AFTER_MS_MAX: f64 = Resequence::SKIP_AFTER_MS_MAX as f64;
pub(super) const REPEATS_MAX: i64 = 1000;
pub(super) const COUNT_MAX: i64 = 1_000_000_000;
pub(super) const RATIO_MAX: f64 = 1e6;
pub(super) const PUBLISHED_MS_MAX: f64 = 1e9;

/// A parsed experiment file.
///
/// ```
/// use stripline_bench::experiment::Experiment;
///
/// let experiment = Experiment::parse(r#"
///     [experiment]
///     name = "hops"
///
///     [[case]]
///     name = "empty"
///     stages = [1, 2, 4]
///     transport = ["shm", "uds"]
/// "#, "hops.toml").expect("it is sound");
/// assert_eq!(experiment.cases.len(), 6);
/// assert_eq!(experiment.cases[5].to_string(), "empty, 4 stages, uds");
/// ```
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name of the experiment.
    pub name: String,
    /// A short description; empty if the file has none.
    pub title: String,
    /// The source of the published figures.
    pub source: String,
    /// Number of runs of each case.
    pub repeats: u32,
    /// The maximum number of packets in a quick run, and the number of runs of each case. `None`
    /// stands for a tenth of the packets, and for one run.
    pub quick: (Option<u32>, Option<u32>),
    /// All cases, with matrices expanded, in the order of the file.
    pub cases: Vec<ExperimentCase>,
    /// The targets, by case name.
    pub targets: BTreeMap<String, ExperimentTarget>,
    /// The published figures, by case name.
    pub published: BTreeMap<String, PublishedFigure>,
}

impl Experiment {
    /// Reads a file of at most 1 MiB.
    ///
    /// # Errors
    /// Every problem, with the place.
    ///
    /// ```
    /// let problems = stripline_bench::experiment::Experiment::load("no/such.toml".as_ref()).unwrap_err();
    /// assert!(problems.to_string().contains("no/such.toml"));
    /// ```
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        if let Err(error) = read {
            let message = format!("cannot read the experiment file: {error}");
            let remedy = match nearest(path).filter(|_| error.kind() == std::io::ErrorKind::NotFound) {
                Some(meant) => format!("did you mean `{}`?", meant.display()),
                None => "name a file such as experiments/e1-messaging.toml".into(),
            };
            return Err(Problems::whole(&name, message, &remedy));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(&text, &name),
            Err(_) => Err(Problems::whole(&name, "this is not UTF-8 text", "is this the right file?")),
        }
    }

    /// Parses the text of a file. `name` is used in messages.
    ///
    /// # Errors
    /// Every problem, with the place.
    pub fn parse(text: &str, name: &str) -> Result<Self, Problems> {
        if text.len() > FILE_BYTES_MAX {
            let message = "the file is larger than an experiment file can be";
            return Err(Problems::whole(name, message, "the limit is 1 MiB; is this the right file?"));
        }
        if text.lines().any(|line| line.len() > LINE_BYTES_MAX) {
            let message = "the file has a line that is too long";
            return Err(Problems::whole(
                name,
                message,
                "the limit is 64 KiB a line; is this the right file?",
            ));
        }
        let mut checker = Checker { problems: Problems::new(name, text) };
        match toml::from_str::<File>(text) {
            Ok(file) => {
                let experiment = checker.experiment(file);
                checker.problems.or(experiment)
            }
            Err(error) => {
                let message = error.message().lines().collect::<Vec<_>>().join("; ");
                let span = error.span().unwrap_or(0..0);
                let (message, remedy) = unknown_key(&message)
                    .unwrap_or_else(|| (message, "docs/experiment-file.md has every key".into()));
                checker.problems.push(span, message, remedy);
                Err(checker.problems)
            }
        }
    }

    /// Keeps only the cases with these names.
    ///
    /// # Errors
    /// The names that do not exist, and the names that exist.
    ///
    /// ```
    /// use stripline_bench::experiment::Experiment;
    ///
    /// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\n[[case]]\nname = 'b'\nstages = [1, 2]";
    /// let experiment = Experiment::parse(text, "x.toml").expect("it is sound");
    /// assert_eq!(experiment.clone().only(&["c"]).unwrap_err(), "there is no case `c` in the file; it has a, b");
    /// assert_eq!(experiment.only(&["b"])?.cases.len(), 2);
    /// # Ok::<(), String>(())
    /// ```
    pub fn only(mut self, names: &[impl AsRef<str>]) -> Result<Self, String> {
        let is_named = |case: &ExperimentCase| names.iter().any(|name| name.as_ref() == case.name);
        let mut known: Vec<&str> = self.cases.iter().map(|case| case.name.as_str()).collect();
        known.dedup();
        if let Some(unknown) = names.iter().map(AsRef::as_ref).find(|name| !known.contains(name)) {
            let meant = suggestion(unknown, known.iter().copied());
            let remedy = meant.map_or_else(
                || format!("it has {}", known.join(", ")),
                |meant| format!("did you mean `{meant}`?"),
            );
            return Err(format!("there is no case `{unknown}` in the file; {remedy}"));
        }
        self.cases.retain(is_named);
        Ok(self)
    }

    /// Reduces the numbers of packets and runs to the values of a quick experiment.
    pub(super) fn quickened(mut self) -> Self {
        let (packets, repeats) = self.quick;
        for case in &mut self.cases {
            case.packets = packets.unwrap_or(case.packets.div_ceil(10)).clamp(1, case.packets);
        }
        self.repeats = repeats.unwrap_or(1);
        self
    }
}

/// Returns the message and the remedy for the parser's message about an unknown key. The parser's
/// message lists all keys.
fn unknown_key(message: &str) -> Option<(String, String)> {
    let (key, expected) = message.strip_prefix("unknown field `")?.split_once("`, expected ")?;
    let keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let is_root = keys.contains(&"experiment");
    let remedy = match key {
        "name" | "title" | "source" | "repeats" if is_root => "move it into the table [experiment]".into(),
        _ if is_root && schema()["properties"]["case"]["items"]["properties"].get(key).is_some() => {
            "move it into the [[case]] that it is for, or into [default] for all cases".into()
        }
        _ => did_you_mean_key(key, keys.iter().copied(), "the keys here are"),
    };
    Some((format!("unknown key `{key}`"), remedy))
}

struct Checker {
    problems: Problems,
}

impl Checker {
    fn experiment(&mut self, file: File) -> Experiment {
        let head = file.experiment;
        let quick = file.quick.map(|quick| {
            let packets = quick.packets.map(|at| self.whole(&at.into(), "packets", 1, PACKETS_MAX));
            let repeats = quick.repeats.map(|at| self.whole(&at.into(), "repeats", 1, REPEATS_MAX));
            (packets.map(|n| n as u32), repeats.map(|n| n as u32))
        });
        let mut experiment = Experiment {
            name: self.name(head.name.into()),
            title: self.text(head.title, "title"),
            source: self.text(head.source, "source"),
            repeats: head.repeats.map_or(3, |at| self.whole(&at.into(), "repeats", 1, REPEATS_MAX) as u32),
            quick: quick.unwrap_or_default(),
            cases: Vec::new(),
            targets: BTreeMap::new(),
            published: BTreeMap::new(),
        };
        let default = file.default.unwrap_or_default();
        self.check_default(&default);
        if file.case.is_empty() {
            let remedy = "add a table [[case]] with a `name`";
            self.problems.push(0..0, "the experiment has no case", remedy);
        }
        let mut references = Vec::new();
        for case in file.case {
            let at = At::from(case);
            if experiment.cases.len() > CASES_MAX {
                break;
            }
            self.case(at, &default, &mut experiment, &mut references);
        }
        for (case, over) in references {
            self.check_reference(&case, &over, &experiment);
        }
        experiment
    }

    fn check_default(&mut self, keys: &Keys) {
        let own = [("name", &keys.name), ("title", &keys.title)];
        let found = own.into_iter().find_map(|(key, value)| value.as_ref().map(|value| (key, value.span())));
        if let Some((key, span)) = found {
            self.problems.push(span, format!("`{key}` is not for all cases"), "move it to a [[case]]");
        }
        if keys.target.is_some() || keys.published.is_some() {
            let message = "`target` and `published` are not for all cases";
            self.problems.push(0..0, message, "move them from [default] to a [[case]]");
        }
    }

    fn case(
        &mut self,
        at: At<Keys>,
        default: &Keys,
        experiment: &mut Experiment,
        references: &mut Vec<(String, At<String>)>,
    ) {
        let At { value: own, span } = at;
        let Some(name) = own.name.clone() else {
            self.problems.push(span, "this case has no `name`", "add a line such as name = \"one-way\"");
            return;
        };
        let name_span = name.span();
        let name = self.name(name.into());
        if experiment.cases.iter().any(|case| case.name == name) {
            self.problems.push(name_span, format!("there is a case `{name}` already"), "name each once");
            return;
        }
        let title = self.text(own.title.clone(), "title");
        let spread = self.spread(&name, &title, &span, &own, default, CASES_MAX - experiment.cases.len());
        experiment.cases.extend(spread);
        if let Some(target) = own.target {
            if let Some(over) = &target.over_case {
                references.push((name.clone(), over.case.clone().into()));
            }
            let target = self.target(target);
            experiment.targets.insert(name.clone(), target);
        }
        if let Some(published) = own.published {
            let published = self.published(published);
            experiment.published.insert(name, published);
        }
    }

    /// Returns one case for every combination of the values of the keys.
    fn spread(
        &mut self,
        name: &str,
        title: &str,
        span: &std::ops::Range<usize>,
        own: &Keys,
        default: &Keys,
        room: usize,
    ) -> Vec<ExperimentCase> {
        let found_before = self.problems.len();
        let base = ExperimentCase {
            name: name.into(),
            title: title.into(),
            variant: String::new(),
            stages: 3,
            packets: 1000,
            size: 8192,
            element: "f64".into(),
            work: Work::None,
            work_ms: 0.0,
            pace_ms: 0.0,
            scope: Scope::Transport,
            dispatch: Dispatch::Queue,
            order: Order::AsCompleted,
            window: 1024,
            skip_after_ms: 1000.0,
            transport: "shm".into(),
            placement: Placement::ProcessPerStage,
        };
        let mut spread = Spread { cases: vec![base], room, is_full: false };
        macro_rules! key {
            ($field:ident) => {
                own.$field.as_ref().or(default.$field.as_ref())
            };
        }
        let stages = self.wholes(key!(stages), "stages", 1, STAGES_MAX);
        spread.over(stages, |n| format!("{n} stages"), |case, n| case.stages = n as u32);
        let packets = self.wholes(key!(packets), "packets", 1, PACKETS_MAX);
        spread.over(packets, |n| format!("{n} packets"), |case, n| case.packets = n as u32);
        let sizes = self.wholes(key!(size), "size", SIZE_MIN, SIZE_MAX);
        spread.over(sizes, |n| format!("{n} B"), |case, n| case.size = n as usize);
        let elements = self.words(key!(element), |word| match super::stage::is_element(word) {
            true => Ok(word.to_string()),
            false => Err(format!(
                "`{word}` is not an element type; use one of {}",
                super::stage::ELEMENTS.join(", ")
            )),
        });
        spread.over(elements, String::clone, |case, word| case.element = word);
        let work = self.words(key!(work), Work::from_str);
        spread.over(work, |work| format!("work {work}"), |case, work| case.work = work);
        let work_ms = self.reals(key!(work_ms), "work-ms", 0.0, MS_MAX);
        spread.over(work_ms, |ms| format!("{ms} ms"), |case, ms| case.work_ms = ms);
        let pace_ms = self.reals(key!(pace_ms), "pace-ms", 0.0, MS_MAX);
        spread.over(pace_ms, |ms| format!("every {ms} ms"), |case, ms| case.pace_ms = ms);
        let scopes = self.words(key!(scope), Scope::from_str);
        spread.over(scopes, Scope::to_string, |case, scope| case.scope = scope);
        let dispatch = self.words(key!(dispatch), Dispatch::from_str);
        spread.over(dispatch, Dispatch::to_string, |case, dispatch| case.dispatch = dispatch);
        let orders = self.words(key!(order), Order::from_str);
        spread.over(orders, Order::to_string, |case, order| case.order = order);
        let windows = self.wholes(key!(window), "window", 1, WINDOW_MAX);
        spread.over(windows, |n| format!("window {n}"), |case, n| case.window = n as u32);
        let skip_after_ms = self.reals(key!(skip_after_ms), "skip-after-ms", 0.0, SKIP_AFTER_MS_MAX);
        let say = |ms: &f64| format!("skip after {ms} ms");
        spread.over(skip_after_ms, say, |case, ms| case.skip_after_ms = ms);
        let names: Vec<&str> = transport::all().map(|transport| transport.name).collect();
        let transports = self.words(key!(transport), |word| match names.contains(&word) {
            true => Ok(word.to_string()),
            false => Err(format!("there is no transport `{word}`; use one of {}", names.join(", "))),
        });
        spread.over(transports, String::clone, |case, word| case.transport = word);
        let placements = self.words(key!(placement), Placement::from_str);
        let placed = !placements.is_empty();
        spread.over(placements, Placement::to_string, |case, placement| case.placement = placement);
        if spread.is_full {
            let message = format!("the experiment has more than {CASES_MAX} cases");
            self.problems.push(span.clone(), message, "give this case fewer values, or make two files");
            return spread.cases;
        }
        let mut cases = spread.cases;
        for case in &mut cases {
            if !placed && reach(&case.transport) == Some(Reach::Process) {
                case.placement = Placement::OneProcess;
            }
            if case.variant.is_empty() {
                case.variant.clone_from(&case.transport);
            }
        }
        // Invalid values have been reported and replaced by defaults.
        if self.problems.len() == found_before {
            self.check_fit(&cases, own, default, span);
        }
        cases
    }

    /// Checks combinations of values that are valid separately.
    fn check_fit(
        &mut self,
        cases: &[ExperimentCase],
        own: &Keys,
        default: &Keys,
        span: &std::ops::Range<usize>,
    ) {
        let place = |list: &Option<Many<_>>, else_span: &std::ops::Range<usize>| match list {
            Some(Many(values)) => values.first().map_or(else_span.clone(), |at: &At<String>| at.span.clone()),
            None => else_span.clone(),
        };
        let placement = own.placement.clone().or_else(|| default.placement.clone());
        let element = own.element.clone().or_else(|| default.element.clone());
        let apart = cases.iter().find(|case| {
            case.placement == Placement::ProcessPerStage && reach(&case.transport) == Some(Reach::Process)
        });
        if let Some(case) = apart {
            let message = format!("`{}` joins threads of one process only", case.transport);
            let remedy = "leave `placement` out, or make it one-process";
            self.problems.push(place(&placement, span), message, remedy);
        }
        let torn = cases.iter().find_map(|case| {
            let (bytes, _) = payload::builtin(&case.element)?;
            (!case.size.is_multiple_of(bytes)).then_some((case, bytes))
        });
        if let Some((case, bytes)) = torn {
            let message = format!("{} bytes are not a whole number of `{}`", case.size, case.element);
            self.problems.push(
                place(&element, span),
                message,
                format!("make `size` a multiple of {bytes}, or choose another `type`"),
            );
        }
    }

    /// Checks that every member of the case has a case for the comparison.
    fn check_reference(&mut self, name: &str, over: &At<String>, experiment: &Experiment) {
        let own = experiment.cases.iter().filter(|case| case.name == name);
        if let Some(case) = own.into_iter().find(|case| counterpart(case, &over.value, experiment).is_none())
        {
            let message = format!("there is no case `{}` with {}", over.value, case.variant);
            let remedy = "name a case of this file with the same transports and placements";
            self.problems.push(over.span.clone(), message, remedy);
        }
    }

    fn target(&mut self, target: tables::TargetTable) -> ExperimentTarget {
        let mut ratio =
            |at: Option<toml::Spanned<f64>>, key, max| at.map(|at| self.real(&at.into(), key, 0.0, max));
        let over_ideal = ratio(target.over_ideal, "over-ideal", RATIO_MAX);
        let reordered_share_min = ratio(target.reordered_share_min, "reordered-share-min", 1.0);
        let over_case = target
            .over_case
            .map(|over| (over.case.into_inner(), self.real(&over.ratio.into(), "ratio", 0.0, RATIO_MAX)));
        let reordered = target.reordered.map(|at| self.whole(&at.into(), "reordered", 0, COUNT_MAX) as u32);
        ExperimentTarget { over_ideal, reordered, reordered_share_min, over_case }
    }

    fn published(&mut self, published: tables::PublishedTable) -> PublishedFigure {
        let last_ms = self.reals(published.last_ms.as_ref(), "last-ms", 0.0, PUBLISHED_MS_MAX);
        let reordered = self.wholes(published.reordered.as_ref(), "reordered", 0, COUNT_MAX);
        let ideal_ms = published.ideal_ms.map(|at| self.real(&at.into(), "ideal-ms", 0.0, PUBLISHED_MS_MAX));
        let sends = self.text(published.sends, "sends");
        PublishedFigure { last_ms, reordered: reordered.iter().map(|n| *n as u32).collect(), ideal_ms, sends }
    }

    fn wholes(&mut self, list: Option<&Many<i64>>, key: &str, min: i64, max: i64) -> Vec<i64> {
        let values = list.map_or(&[][..], |list| &list.0);
        values.iter().map(|at| self.whole(at, key, min, max)).collect()
    }

    fn reals(&mut self, list: Option<&Many<f64>>, key: &str, min: f64, max: f64) -> Vec<f64> {
        let values = list.map_or(&[][..], |list| &list.0);
        values.iter().map(|at| self.real(at, key, min, max)).collect()
    }

    fn words<T>(&mut self, list: Option<&Many<String>>, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let values = list.map_or(&[][..], |list| &list.0);
        let mut words = Vec::new();
        for at in values {
            match parse(&at.value) {
                Ok(word) => words.push(word),
                Err(error) => {
                    let (message, remedy) = error.split_once("; ").unwrap_or((&error, ""));
                    self.problems.push(at.span.clone(), message, remedy);
                }
            }
        }
        words
    }

    /// Returns the number. If it is out of range, reports this and returns the nearest value in
    /// range.
    fn whole(&mut self, at: &At<i64>, key: &str, min: i64, max: i64) -> i64 {
        if !(min..=max).contains(&at.value) {
            let remedy = format!("it must be from {min} to {max}");
            self.problems.push(at.span.clone(), format!("`{key}` is {}", at.value), remedy);
        }
        at.value.clamp(min, max)
    }

    fn real(&mut self, at: &At<f64>, key: &str, min: f64, max: f64) -> f64 {
        // NaN is out of range too.
        if !(min..=max).contains(&at.value) {
            let remedy = format!("it must be from {min} to {max}");
            self.problems.push(at.span.clone(), format!("`{key}` is {}", at.value), remedy);
            return min;
        }
        at.value
    }

    fn name(&mut self, name: At<String>) -> String {
        let text = &name.value;
        let is_name = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !is_name {
            let remedy = format!("use 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`");
            self.problems.push(name.span, "the name is not valid", remedy);
        }
        name.value
    }

    fn text(&mut self, text: Option<toml::Spanned<String>>, key: &str) -> String {
        let Some(text) = text.map(At::from) else { return String::new() };
        // The text is printed on terminals.
        if text.value.len() > TEXT_BYTES_MAX || text.value.chars().any(char::is_control) {
            let remedy = format!("write one line of at most {TEXT_BYTES_MAX} bytes");
            self.problems.push(text.span, format!("`{key}` is not one short line"), remedy);
        }
        text.value
    }
}

/// A matrix during its expansion.
struct Spread {
    cases: Vec<ExperimentCase>,
    room: usize,
    is_full: bool,
}

impl Spread {
    /// Multiplies the cases by the values. Without values, each case keeps its value.
    fn over<T: Clone>(
        &mut self,
        values: Vec<T>,
        say: impl Fn(&T) -> String,
        set: impl Fn(&mut ExperimentCase, T),
    ) {
        if values.is_empty() || self.is_full {
            return;
        }
        if self.cases.len() * values.len() > self.room {
            self.is_full = true;
            return;
        }
        let several = values.len() > 1;
        let cases = std::mem::take(&mut self.cases);
        for case in cases {
            for value in &values {
                let mut case = case.clone();
                if several {
                    let comma = if case.variant.is_empty() { "" } else { ", " };
                    case.variant = format!("{}{comma}{}", case.variant, say(value));
                }
                set(&mut case, value.clone());
                self.cases.push(case);
            }
        }
    }
}

/// Returns the case of this name for a comparison, with the same transport, placement and number of
/// packets.
pub(super) fn counterpart<'e>(
    case: &ExperimentCase,
    name: &str,
    experiment: &'e Experiment,
) -> Option<&'e ExperimentCase> {
    experiment.cases.iter().find(|other| {
        other.name == name
            && (&other.transport, other.placement, other.packets)
                == (&case.transport, case.placement, case.packets)
    })
}

fn reach(transport: &str) -> Option<Reach> {
    transport::all().find(|known| known.name == transport).map(|known| known.reach)
}
