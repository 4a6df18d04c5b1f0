//! `stripline bench FILE.toml`.

use stripline_bench::OTHERS_SHARE_MAX;
use stripline_bench::experiment::{
    self, CaseReport, Experiment, ExperimentReport, ExperimentRun, ExperimentSettings, Status, VerdictOutcome,
};

use crate::Exit;
use crate::arguments::ExperimentArguments;
use crate::bench::{BenchScreen, Results, judge, new, require};
use crate::format::{grouped, time};
use crate::run::worse;
use crate::table::Table;
use crate::terminal;

/// The longest reason in a table. The JSON has the whole reason.
const REASON_MAX: usize = 100;

pub(crate) fn experiment(arguments: &ExperimentArguments) -> Exit {
    // The parser requires the file, unless there is a further command.
    let Some(file) = &arguments.file else { return Exit::Usage };
    let mut experiment = match Experiment::load(file) {
        Ok(experiment) => experiment,
        Err(problems) => {
            complain!("{}", problems.render(terminal::is_stderr_coloured()).trim_end());
            return Exit::Usage;
        }
    };
    if !arguments.only.is_empty() {
        experiment = match experiment.only(&arguments.only) {
            Ok(experiment) => experiment,
            Err(problem) => {
                complain!("error: --only: {problem}; nothing was started");
                return Exit::Usage;
            }
        };
    }
    if arguments.require_targets
        && !experiment.cases.iter().any(|case| experiment.targets.contains_key(&case.name))
    {
        complain!("error: --require-targets: none of the cases has a `target`; nothing was started");
        return Exit::Usage;
    }
    let settings = ExperimentSettings { quick: arguments.quick, repeats: arguments.runs, program: None };
    let results = Results { json: arguments.json.destination(), drawing: arguments.html.as_deref() };
    let run = |screen: &mut BenchScreen| {
        experiment::run(&experiment, &settings, &mut |progress| screen.show(progress))
    };
    let (report, mut exit) = match results.of(run, tables, experiment::html) {
        Ok(results) => results,
        Err(exit) => return exit,
    };
    for case in report.cases.iter().filter(|case| case.status == Status::Failed) {
        complain!("error: {}: {}", case.case, case.reason.as_deref().unwrap_or_default());
        exit = Exit::Failure;
    }
    let exit = judge(exit, report.interrupted);
    if !arguments.require_targets {
        return exit;
    }
    let targets = report.verdicts.iter().map(|verdict| match verdict.outcome {
        VerdictOutcome::Met => Ok(()),
        other => {
            let reason = verdict.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let (case, figure, target) = (&verdict.case, verdict.figure(), &verdict.target);
            Err(format!("{case}: {figure}, target {target}: {}{reason}", other.as_str()))
        }
    });
    worse(exit, require(targets))
}

fn tables(report: &ExperimentReport) -> String {
    let title = if report.title.is_empty() { &report.name } else { &report.title };
    let quick = if report.quick { ", fewer packets than in the file (--quick)" } else { "" };
    let mut text = format!("\n{title}\n{}\nRuns of each case: {}{quick}\n", report.machine, report.repeats);
    let others = report.others_share_max();
    if others > OTHERS_SHARE_MAX {
        let share = others * 100.0;
        text += &format!(
            "warning: other programs used up to {share:.0} % of the processors during a run (OTHERS)\n"
        );
    }
    text += "\nLAST PACKET: when it left each component, ms since the first send began; the median of the runs. IDEAL: for \
             links that\ncost nothing, from the measured times of work. OVERSHOOT: how much longer than requested a component \
             worked on a packet.\nOTHERS: the largest share of the processors that other programs used meanwhile.\n";
    text += &times(report);
    text += "\nREORDERED: packets that left a component after one with a higher number; the most of all runs; after an arrow: \
             once\nresequenced. SENDS of the producer.\n";
    text += &sends(report);
    if report.cases.iter().any(|case| case.published.is_some()) {
        text += &format!("\nPUBLISHED beside measured. {}\n", report.source);
        text += &published(report);
    }
    if !report.verdicts.is_empty() {
        text += "\nTARGETS: ratios are medians over the runs, counts hold in each of them\n";
        text += &verdicts(report);
    }
    text
}

fn times(report: &ExperimentReport) -> String {
    let mut table = new(
        &[
            "CASE",
            "",
            "PACKETS",
            "LAST PACKET",
            "IDEAL",
            "OVER IDEAL",
            "INTERVAL",
            "OVERSHOOT",
            "CPU s",
            "OTHERS",
        ],
        2,
    )
    .droppable(&["OVERSHOOT", "CPU s", "OTHERS", "INTERVAL", "PACKETS", "IDEAL"]);
    for case in &report.cases {
        if is_absent(case, &mut table) {
            continue;
        }
        let interval = match (case.over_ideal_low, case.over_ideal_high) {
            (Some(low), Some(high)) => format!("{low:.4} - {high:.4}"),
            _ => String::new(),
        };
        table.add([
            case.case.name.clone(),
            case.case.variant.clone(),
            grouped(u64::from(case.case.packets)),
            slashed(last_ms(case).iter().map(|ms| format!("{ms:.0}"))),
            fixed(case.median(|run| Some(run.ideal_ms)), 0),
            fixed(case.over_ideal, 4),
            interval,
            fixed(case.overshoot_ms, 3),
            fixed(case.median(|run| Some(run.cpu_s)), 2),
            percent(case.runs.iter().filter_map(|run| run.others_share).reduce(f64::max)),
        ]);
    }
    table.render()
}

fn sends(report: &ExperimentReport) -> String {
    let mut table = new(&["CASE", "", "REORDERED", "MEAN SEND", "p50", "LONGEST", "1 ms OR LONGER"], 2)
        .droppable(&["p50", "1 ms OR LONGER", "MEAN SEND"]);
    for case in report.cases.iter().filter(|case| !case.runs.is_empty()) {
        table.add([
            case.case.name.clone(),
            case.case.variant.clone(),
            reordered(case),
            ms(case.median(|run| Some(run.sends.mean_ms))),
            ms(case.median(|run| run.sends.p50_ms)),
            ms(case.runs.iter().map(|run| run.sends.max_ms).reduce(f64::max)),
            fixed(case.median(|run| Some(run.sends.over_1_ms as f64)), 0),
        ]);
    }
    table.render()
}

fn published(report: &ExperimentReport) -> String {
    let mut table = new(&["CASE", "", "LAST PACKET", "REORDERED", "SENDS"], 4);
    let mut printed = None;
    for case in &report.cases {
        let Some(published) = &case.published else { continue };
        // The published values are the same for all variants, and are printed once.
        if printed.replace(&case.case.name) != Some(&case.case.name) {
            table.add([
                case.case.name.clone(),
                "published".into(),
                slashed(published.last_ms.iter()),
                slashed(published.reordered.iter()),
                published.sends.clone(),
            ]);
        }
        let measured = !case.runs.is_empty();
        table.add([
            String::new(),
            case.case.variant.clone(),
            if measured { slashed(last_ms(case).iter().map(|ms| format!("{ms:.0}"))) } else { told(case) },
            reordered(case),
            if measured {
                let mean = ms(case.median(|run| Some(run.sends.mean_ms)));
                let longest = ms(case.runs.iter().map(|run| run.sends.max_ms).reduce(f64::max));
                format!("mean {mean}, up to {longest}")
            } else {
                String::new()
            },
        ]);
    }
    table.render()
}

fn verdicts(report: &ExperimentReport) -> String {
    let mut table = new(&["CASE", "TARGET", "MEASURED", ""], 4);
    for verdict in &report.verdicts {
        let reason = verdict.reason.as_ref().map(|reason| format!(": {}", short(reason))).unwrap_or_default();
        table.add([
            verdict.case.clone(),
            verdict.target.clone(),
            verdict.figure(),
            format!("{}{reason}", verdict.outcome.as_str()),
        ]);
    }
    table.render()
}

/// Adds a row with the reason if the case has no figures. Returns whether the case has no figures.
fn is_absent(case: &CaseReport, table: &mut Table) -> bool {
    if case.runs.is_empty() {
        let packets = grouped(u64::from(case.case.packets));
        table.add([case.case.name.clone(), case.case.variant.clone(), packets, told(case)]);
    }
    case.runs.is_empty()
}

fn told(case: &CaseReport) -> String {
    match case.status {
        Status::NotAvailable => "not available".into(),
        Status::Failed => "FAILED".into(),
        Status::NotRun | Status::Measured => "not run".into(),
    }
}

fn short(reason: &str) -> String {
    let mut registered: String = reason.chars().take(REASON_MAX).collect();
    if reason.chars().nth(REASON_MAX).is_some() {
        registered.push('…');
    }
    registered
}

fn last_ms(case: &CaseReport) -> Vec<f64> {
    let of =
        |stage: usize| case.median(|run: &ExperimentRun| run.stages.get(stage).map(|stage| stage.last_ms));
    (0..case.case.stages as usize).filter_map(of).collect()
}

/// Formats the count of each component. A figure after an arrow is the count of the observer, if
/// there is one.
fn reordered(case: &CaseReport) -> String {
    let most = |of: &dyn Fn(&ExperimentRun) -> Option<u64>| case.runs.iter().filter_map(of).max();
    let stages: Vec<u64> = (0..case.case.stages as usize)
        .filter_map(|stage| most(&|run| run.stages.get(stage).map(|stage| stage.reordered)))
        .collect();
    let observed = most(&|run| run.observer.as_ref().map(|observer| observer.reordered));
    let behind = observed.map(|count| format!(" → {count}")).unwrap_or_default();
    slashed(stages.iter()) + &behind
}

/// Formats values as `4463 / 4508 / 4514`. Of more than three values, only the last three are
/// shown.
fn slashed(values: impl ExactSizeIterator<Item = impl ToString>) -> String {
    const SHOWN_MAX: usize = 3;
    let left_out = values.len().saturating_sub(SHOWN_MAX);
    let values: Vec<String> = values.skip(left_out).map(|value| value.to_string()).collect();
    match (values.is_empty(), left_out) {
        (true, _) => "-".into(),
        (false, 0) => values.join(" / "),
        (false, _) => format!("… / {}", values.join(" / ")),
    }
}

/// Formats milliseconds.
fn ms(value: Option<f64>) -> String {
    time(value.map(|ms| (ms * 1e6).round() as u64))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
}

fn fixed(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}
