//! The tables of an experiment, and the page with the plots.

use stripline::component::kit::grouped;

use super::plot;
use super::report::{CaseReport, ExperimentReport, ExperimentRun, Status};
use crate::report::{Grid, Measured, Section, fixed, ms, page, percent, slashed};
use crate::{Decision, OTHERS_SHARE_MAX};

/// The longest reason in a table. The lines below the tables, and the JSON, have the whole reason.
const REASON_MAX: usize = 100;

impl Measured for ExperimentReport {
    fn head(&self) -> Vec<String> {
        let title = if self.title.is_empty() { &self.name } else { &self.title };
        let quick = if self.quick { ", fewer packets than in the file (--quick)" } else { "" };
        let runs = format!("Runs of each case: {}{quick}", self.repeats);
        let share = self.others_share_max();
        let busy = || {
            let share = percent(Some(share));
            format!("warning: other programs used up to {share} of the processors during a run (OTHERS)")
        };
        let warning = (share > OTHERS_SHARE_MAX).then(busy);
        [title.clone(), self.machine.to_string(), runs].into_iter().chain(warning).collect()
    }

    fn sections(&self) -> Vec<Section> {
        let times = "when it left each component, ms since the first send began; the median of the runs. IDEAL: for links that\n\
                     cost nothing, from the measured times of work. OVERSHOOT: how much longer than requested a component \
                     worked on a packet.\nOTHERS: the largest share of the processors that other programs used meanwhile.";
        let coverages = self.cases.iter().filter_map(|case| case.over_ideal_coverage);
        let times = match coverages.reduce(f64::min) {
            Some(share) => format!(
                "{times}\nINTERVAL: contains the true median of OVER IDEAL with {}.",
                percent(Some(share))
            ),
            None => times.into(),
        };
        let reordered = "packets that left a component after one with a higher number; the most of all runs; after an arrow: \
                         once\nresequenced. SENDS of the producer.";
        let outcomes = "ratios are medians over the runs, counts hold in each of them";
        let absent = self.cases.iter().filter_map(|case| Some((case, case.reason.as_ref()?)));
        let lines = absent.map(|(own, reason)| format!("{}: {}: {reason}", own.case, own.status.as_str()));
        let mut sections = vec![
            Section { lines: lines.collect(), ..Section::new("LAST PACKET", times, self.times()) },
            Section::new("REORDERED", reordered, self.sends()),
            Section::new("PUBLISHED", format!("beside measured. {}", self.source), self.published()),
            Section::new("TARGETS", outcomes, self.outcomes()),
        ];
        sections.retain(|section| !section.grid.rows.is_empty());
        sections
    }

    fn failures(&self) -> Vec<String> {
        let failed = self.cases.iter().filter(|case| case.status == Status::Failed);
        failed.map(|own| format!("{}: {}", own.case, own.reason.as_deref().unwrap_or_default())).collect()
    }

    fn targets(&self) -> Vec<Result<(), String>> {
        let target = |verdict: &super::Verdict| {
            if verdict.outcome == Decision::Met {
                return Ok(());
            }
            let reason = verdict.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let (case, figure, target) = (&verdict.case, verdict.figure(), &verdict.target);
            Err(format!("{case}: {figure}, target {target}: {}{reason}", verdict.outcome.as_str()))
        };
        self.verdicts.iter().map(target).collect()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn drawing(&self) -> Result<String, String> {
        let mut plots = Vec::new();
        let mut add =
            |title: &str, text: &str, svg| plots.push((String::from(title), String::from(text), svg));
        if let Some(svg) = plot::last_packets(self)? {
            add("The last packet", "The time at which it left the last component.", svg);
        }
        let mut cases: Vec<&CaseReport> = self.cases.iter().filter(|case| !case.runs.is_empty()).collect();
        cases.dedup_by_key(|case| &case.case.name);
        for case in cases {
            let separator = if case.case.title.is_empty() { "" } else { ": " };
            let title = format!("{}{separator}{}", case.case.name, case.case.title);
            if let Some(svg) = plot::sends(&case.case.name, self)? {
                add(&title, "The time of each send of the producer, in the first run.", svg);
            }
        }
        Ok(page(self, &plots))
    }
}

impl ExperimentReport {
    fn times(&self) -> Grid {
        let titles = [
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
        ];
        let droppable = &["OVERSHOOT", "CPU s", "OTHERS", "INTERVAL", "PACKETS", "IDEAL"];
        let row = |case: &CaseReport| {
            let packets = grouped(case.case.packets.into());
            let interval = case.over_ideal_low.zip(case.over_ideal_high);
            let mut cells = vec![
                case.case.name.clone(),
                case.case.variant.clone(),
                packets,
                last_ms(case),
                fixed(case.median(|run| Some(run.ideal_ms)), 0),
                fixed(case.over_ideal, 4),
                interval.map(|(low, high)| format!("{low:.4} - {high:.4}")).unwrap_or_default(),
                fixed(case.overshoot_ms, 3),
                fixed(case.median(|run| Some(run.cpu_s)), 2),
                percent(case.runs.iter().filter_map(|run| run.disturbance.others_share).reduce(f64::max)),
            ];
            if case.runs.is_empty() {
                cells[4..].fill(String::new());
            }
            cells
        };
        Grid { rows: self.cases.iter().map(row).collect(), ..Grid::new(&titles, 2, droppable) }
    }

    fn sends(&self) -> Grid {
        let titles = ["CASE", "", "REORDERED", "MEAN SEND", "p50", "LONGEST", "1 ms OR LONGER"];
        let row = |case: &CaseReport| {
            let [mean, longest] = sends(case);
            vec![
                case.case.name.clone(),
                case.case.variant.clone(),
                reordered(case),
                mean,
                ms(case.median(|run| run.sends.p50_ms)),
                longest,
                fixed(case.median(|run| Some(run.sends.over_1_ms as f64)), 0),
            ]
        };
        let rows = self.cases.iter().filter(|case| !case.runs.is_empty()).map(row).collect();
        Grid { rows, ..Grid::new(&titles, 2, &["p50", "1 ms OR LONGER", "MEAN SEND"]) }
    }

    fn published(&self) -> Grid {
        let mut grid = Grid::new(&["CASE", "", "LAST PACKET", "REORDERED", "SENDS"], 4, &[]);
        let mut printed = None;
        for case in &self.cases {
            let Some(published) = &case.published else { continue };
            // The published values are the same for all variants, and are printed once.
            if printed.replace(&case.case.name) != Some(&case.case.name) {
                let [last, reordered] = [slashed(&published.last_ms), slashed(&published.reordered)];
                let name = case.case.name.clone();
                grid.rows.push(vec![name, "published".into(), last, reordered, published.sends.clone()]);
            }
            let [mean, longest] = sends(case);
            let sends =
                if case.runs.is_empty() { String::new() } else { format!("mean {mean}, up to {longest}") };
            let variant = case.case.variant.clone();
            grid.rows.push(vec![String::new(), variant, last_ms(case), reordered(case), sends]);
        }
        grid
    }

    fn outcomes(&self) -> Grid {
        let row = |verdict: &super::Verdict| {
            let mut reason = verdict.reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            if let Some((end, _)) = reason.char_indices().nth(REASON_MAX) {
                reason.replace_range(end.., "…");
            }
            let outcome = format!("{}{reason}", verdict.outcome.as_str());
            vec![verdict.case.clone(), verdict.target.clone(), verdict.figure(), outcome]
        };
        let rows = self.verdicts.iter().map(row).collect();
        Grid { rows, ..Grid::new(&["CASE", "TARGET", "MEASURED", ""], 4, &[]) }
    }
}

/// Formats the time at which the last packet left each component; without runs, the reason.
fn last_ms(case: &CaseReport) -> String {
    if case.runs.is_empty() {
        return case.status.as_str().into();
    }
    let of =
        |stage: usize| case.median(|run: &ExperimentRun| run.stages.get(stage).map(|stage| stage.last_ms));
    slashed((0..case.case.stages as usize).filter_map(of).map(|ms| format!("{ms:.0}")))
}

/// Formats the mean and the longest send.
fn sends(case: &CaseReport) -> [String; 2] {
    let longest = case.runs.iter().map(|run| run.sends.max_ms).reduce(f64::max);
    [case.median(|run| Some(run.sends.mean_ms)), longest].map(ms)
}

/// Formats the count of each component. A figure after an arrow is the count of the observer, if
/// there is one.
fn reordered(case: &CaseReport) -> String {
    let most = |of: &dyn Fn(&ExperimentRun) -> Option<u64>| case.runs.iter().filter_map(of).max();
    let stages = (0..case.case.stages as usize)
        .filter_map(|stage| most(&|run: &ExperimentRun| run.stages.get(stage).map(|stage| stage.reordered)));
    let observed = most(&|run: &ExperimentRun| run.observer.as_ref().map(|observer| observer.reordered));
    slashed(stages) + &observed.map(|count| format!(" → {count}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::report::{self, StageReport};
    use super::*;
    use crate::Machine;
    use crate::experiment::Experiment;
    use crate::process::NoResult;

    #[test]
    fn a_page_has_the_published_beside_the_measured_and_escapes_what_is_not_its_own() {
        let text = "[experiment]\nname = 'x'\ntitle = 'a <b> & c'\n[[case]]\nname = 'one'\nstages = 1\n\
                    target = { over-ideal = 2 }\npublished = { last-ms = 4463, reordered = 315, sends = '9 us' }\n\
                    [[case]]\nname = 'two'\n";
        let experiment = Experiment::parse(text, "x.toml").unwrap();
        let stages = vec![StageReport { last_ms: 5011.0, ..StageReport::default() }];
        let run = ExperimentRun {
            last_ms: 5011.0,
            ideal_ms: 5005.0,
            over_ideal: 1.001,
            stages,
            sends_ns: vec![1000, 2_000_000],
            ..ExperimentRun::default()
        };
        let results = vec![Ok(vec![run]), Err(NoResult::Refused("it printed <no>".into()))];
        let report = report::report(&experiment, 1, false, Machine::here(), results, false);
        let page = report.drawing().unwrap();
        for part in [
            "a &lt;b&gt; &amp; c",
            "4463",
            "5011",
            "315",
            "1.0010",
            "not available: it printed &lt;no&gt;",
            "9 us",
        ] {
            assert!(page.contains(part), "{part} is not in the page");
        }
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(!page.contains("<b>"));
    }
}
