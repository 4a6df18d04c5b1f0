//! The report as a self-contained page.

use std::fmt::Write;

use super::case::PublishedFigure;
use super::plot;
use super::report::{CaseReport, ExperimentReport};
use super::verdict::VerdictOutcome;

const STYLE: &str = "body{font:15px/1.45 Helvetica,Arial,sans-serif;max-width:1050px;margin:2em auto;padding:0 1em;\
    color:#222}table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .7em;text-align:right;\
    border-bottom:1px solid #ddd;vertical-align:top}th{text-align:right;font-weight:600}\
    td:first-child,th:first-child,.text{text-align:left}.met{color:#137333}.missed{color:#b3261e;font-weight:600}\
    .absent{color:#777}svg{max-width:100%;height:auto}h2{margin-top:2em}small{color:#666}";

/// Renders the report as a self-contained HTML page with plots.
///
/// # Errors
/// If a plot cannot be drawn.
///
/// ```no_run
/// # use stripline_bench::experiment::{Experiment, ExperimentSettings, html, run};
/// # let experiment = Experiment::load("experiments/e1-messaging.toml".as_ref())?;
/// let report = run(&experiment, &ExperimentSettings::default(), &mut |_| ())?;
/// std::fs::write("e1.html", html(&report)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn html(report: &ExperimentReport) -> Result<String, String> {
    let mut page = String::new();
    write_page(&mut page, report).map_err(|error| format!("the page: {error}"))?;
    Ok(page)
}

fn write_page(page: &mut String, report: &ExperimentReport) -> Result<(), Box<dyn std::error::Error>> {
    let title = escaped(if report.title.is_empty() { &report.name } else { &report.title });
    write!(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>")?;
    write!(page, "<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n")?;
    if !report.source.is_empty() {
        writeln!(page, "<p>Published: {}</p>", escaped(&report.source))?;
    }
    let quick = if report.quick { ", quick: fewer packets than in the file" } else { "" };
    writeln!(
        page,
        "<p>Measured: {}; runs of each case: {}{quick}</p>",
        escaped(&report.machine.to_string()),
        report.repeats
    )?;
    writeln!(
        page,
        "<p>Other programs used up to {:.0} % of the processors during a run.</p>",
        report.others_share_max() * 100.0
    )?;
    if report.interrupted {
        writeln!(page, "<p class=\"missed\">Ended early: the figures are incomplete.</p>")?;
    }
    if !report.verdicts.is_empty() {
        page.push_str("<h2>Targets</h2>\n");
        verdicts(page, report)?;
    }
    page.push_str("<h2>Published and measured</h2>\n");
    figures(page, report)?;
    page.push_str(
        "<p><small>Last packet: when it left each component, milliseconds since the first send began, median of the runs. \
         Ideal: the same for links that cost nothing, from the measured times of work. Over: the last packet over its \
         ideal, with its interval over runs (it covers the median with 75 % for three runs, 97 % for six). Reordered: packets that came out after one with a higher number, the \
         most of all runs; after an arrow: once resequenced. Overshoot: how much longer than requested a component worked on a packet.</small></p>\n",
    );
    if let Some(svg) = plot::last_packets(report)? {
        page.push_str(&svg);
    }
    page.push_str(
        "<h2>Each send of the producer</h2>\n<p>How long it took, packet by packet, in the first run.</p>\n",
    );
    let mut names: Vec<&str> = report.cases.iter().map(|case| case.case.name.as_str()).collect();
    names.dedup();
    for name in names {
        sends(page, name, report)?;
    }
    page.push_str("</body></html>\n");
    Ok(())
}

fn verdicts(page: &mut String, report: &ExperimentReport) -> std::fmt::Result {
    page.push_str("<table><tr><th>case</th><th class=\"text\">target</th><th>measured</th><th class=\"text\"></th></tr>\n");
    for verdict in &report.verdicts {
        let class = match verdict.outcome {
            VerdictOutcome::Met => "met",
            VerdictOutcome::Missed | VerdictOutcome::Failed => "missed",
            VerdictOutcome::NotAvailable | VerdictOutcome::NotRun => "absent",
        };
        let reason = verdict.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        writeln!(
            page,
            "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td class=\"text {class}\">{}{}</td></tr>",
            escaped(&verdict.case),
            escaped(&verdict.target),
            verdict.figure(),
            verdict.outcome.as_str(),
            escaped(&reason),
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn figures(page: &mut String, report: &ExperimentReport) -> std::fmt::Result {
    page.push_str(
        "<table><tr><th rowspan=\"2\">case</th><th colspan=\"2\">last packet, ms</th><th rowspan=\"2\">ideal, ms</th>\
         <th rowspan=\"2\">over</th><th colspan=\"2\">reordered</th><th rowspan=\"2\">overshoot, ms</th>\
         <th rowspan=\"2\">processor, s</th></tr><tr><th>published</th><th>measured</th><th>published</th>\
         <th>measured</th></tr>\n",
    );
    for case in &report.cases {
        let published = case.published.clone().unwrap_or_default();
        let PublishedFigure { last_ms, reordered, .. } = &published;
        write!(page, "<tr><td>{}</td><td>{}</td>", escaped(&case.case.to_string()), slashed(last_ms.iter()))?;
        if let Some(reason) = &case.reason {
            writeln!(
                page,
                "<td colspan=\"7\" class=\"text absent\">{}</td></tr>",
                escaped(&told(case, reason))
            )?;
            continue;
        }
        let last = per_stage(case, |run, stage| run.stages.get(stage).map(|stage| stage.last_ms));
        let fixed =
            |value: Option<f64>, digits| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let interval = match (case.over_ideal_low, case.over_ideal_high) {
            (Some(low), Some(high)) => format!("<br><small>{low:.4} - {high:.4}</small>"),
            _ => String::new(),
        };
        writeln!(
            page,
            "<td>{}</td><td>{}</td><td>{}{interval}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            slashed(last.iter().map(|ms| format!("{ms:.0}"))),
            fixed(case.median(|run| Some(run.ideal_ms)), 0),
            fixed(case.over_ideal, 4),
            slashed(reordered.iter()),
            reordered_max(case),
            fixed(case.overshoot_ms, 3),
            fixed(case.median(|run| Some(run.cpu_s)), 2),
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn sends(page: &mut String, name: &str, report: &ExperimentReport) -> Result<(), Box<dyn std::error::Error>> {
    let Some(svg) = plot::sends(name, report)? else { return Ok(()) };
    let of = || report.cases.iter().filter(|case| case.case.name == name && !case.runs.is_empty());
    let title = of().next().map_or("", |case| &case.case.title);
    let separator = if title.is_empty() { "" } else { ": " };
    writeln!(page, "<h3>{}{separator}{}</h3>", escaped(name), escaped(title))?;
    if let Some(published) =
        of().next().and_then(|case| case.published.as_ref()).filter(|p| !p.sends.is_empty())
    {
        writeln!(page, "<p>Published: {}</p>", escaped(&published.sends))?;
    }
    page.push_str("<table><tr><th>variant</th><th>mean</th><th>median</th><th>longest</th><th>1 ms or longer</th></tr>\n");
    for case in of() {
        let show = |ms: Option<f64>| match ms {
            None => "-".into(),
            Some(ms) if ms < 1.0 => format!("{:.1} µs", ms * 1e3),
            Some(ms) => format!("{ms:.1} ms"),
        };
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&case.case.variant),
            show(case.median(|run| Some(run.sends.mean_ms))),
            show(case.median(|run| run.sends.p50_ms)),
            show(case.runs.iter().map(|run| run.sends.max_ms).reduce(f64::max)),
            case.median(|run| Some(run.sends.over_1_ms as f64)).map_or("-".into(), |n| format!("{n:.0}")),
        )?;
    }
    page.push_str("</table>\n");
    page.push_str(&svg);
    Ok(())
}

fn told(case: &CaseReport, reason: &str) -> String {
    use super::report::Status;
    match case.status {
        Status::NotAvailable => format!("not available: {reason}"),
        Status::Failed => format!("FAILED: {reason}"),
        Status::NotRun | Status::Measured => format!("not run: {reason}"),
    }
}

fn per_stage(
    case: &CaseReport,
    of: impl Fn(&super::report::ExperimentRun, usize) -> Option<f64>,
) -> Vec<f64> {
    (0..case.case.stages as usize).filter_map(|stage| case.median(|run| of(run, stage))).collect()
}

/// Returns the largest number of packets out of order at each component in any run. A figure after
/// an arrow is the number after resequencing.
fn reordered_max(case: &CaseReport) -> String {
    let of =
        |stage: usize| case.runs.iter().filter_map(move |run| run.stages.get(stage)).map(|s| s.reordered);
    let stages = slashed((0..case.case.stages as usize).filter_map(|stage| of(stage).max()));
    let observed = case.runs.iter().filter_map(|run| run.observer.as_ref()).map(|o| o.reordered).max();
    stages + &observed.map(|count| format!(" → {count}")).unwrap_or_default()
}

fn slashed(values: impl Iterator<Item = impl ToString>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    if values.is_empty() { "-".into() } else { values.join(" / ") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::report::{self, ExperimentRun, StageReport};
    use super::super::stage::Trouble;
    use super::*;
    use crate::experiment::Experiment;
    use crate::ladder::Machine;

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
        let results = vec![Ok(vec![run]), Err(Trouble::Refused("it printed <no>".into()))];
        let report = report::report(&experiment, 1, false, Machine::here(), results, false);
        let page = html(&report).unwrap();
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
