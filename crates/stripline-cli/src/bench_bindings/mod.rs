//! `stripline bench bindings`.

pub(crate) mod arguments;

use stripline_bench::bindings::{self, BindingFigure, BindingReport, BindingSettings};

use crate::Exit;
use crate::bench::{BenchScreen, Results, judge, new, ns, require, target};
use crate::run::worse;

use arguments::BindingsArguments;

pub(crate) fn bindings(arguments: &BindingsArguments) -> Exit {
    let settings = BindingSettings {
        only: arguments.only.clone(),
        quick: arguments.quick,
        runs: arguments.runs,
        prefix: arguments.prefix.clone(),
        python: arguments.python.clone(),
        gnuradio_python: arguments.gnuradio_python.clone(),
        program: None,
    };
    if let Err(problem) = settings.check() {
        complain!("error: {problem}");
        return Exit::Usage;
    }
    let results = Results { json: arguments.json.destination(), drawing: None };
    let run = |screen: &mut BenchScreen| bindings::run(&settings, &mut |progress| screen.show(progress));
    let (report, exit) = match results.of(run, table, |_| Ok(String::new())) {
        Ok(both) => both,
        Err(exit) => return exit,
    };
    let exit = judge(exit, report.interrupted);
    if !arguments.require_targets {
        return exit;
    }
    let decided = report.figures.iter().filter_map(|figure| Some((figure, figure.decision?)));
    worse(
        exit,
        require(decided.map(|(figure, decision)| {
            target(decision, &format!("{}: {}, aim {}", figure.name, value(figure, figure.value), figure.aim))
        })),
    )
}

fn table(report: &BindingReport) -> String {
    let mut text = format!(
        "\n{}\n{} runs of {} rounds. VALUE: the median over runs, with an interval; NULL: that of the reference over \
         itself. A figure is the first name over the second; TIMES are of a packet or a round trip of both.\n\n",
        report.machine, report.runs, report.rounds
    );
    let mut table = new(&["FIGURE", "VALUE", "INTERVAL", "NULL", "TIMES", "AIM", ""], 1)
        .droppable(&["TIMES", "NULL", "INTERVAL"]);
    for figure in &report.figures {
        let (Some(null), Some(decision)) = (figure.null, figure.decision) else { continue };
        let times = figure
            .times_ns
            .map_or_else(|| "-".into(), |[over, under]| format!("{} / {}", ns(Some(over)), ns(Some(under))));
        table.add([
            figure.name.clone(),
            value(figure, figure.value),
            format!("{} - {}", value(figure, figure.low), value(figure, figure.high)),
            format!("{} - {}", value(figure, Some(null.low)), value(figure, Some(null.high))),
            times,
            figure.aim.clone(),
            decision.as_str().into(),
        ]);
    }
    text += &table.render();
    for figure in &report.figures {
        if let Some(missing) = &figure.missing {
            text += &format!("{}: not measured: {missing}\n", figure.name);
        }
        if let Some(problem) = &figure.failed_run {
            text += &format!("{}: a run failed: {problem}\n", figure.name);
        }
    }
    let busy = report.figures.iter().filter_map(|figure| figure.others_share).fold(0.0, f64::max);
    if busy > stripline_bench::OTHERS_SHARE_MAX {
        text += &format!("\nnote: other programs used up to {:.0} % of the processors\n", busy * 100.0);
    }
    text
}

fn value(figure: &BindingFigure, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    if figure.unit == "ns" { format!("{value:.1} ns") } else { format!("{value:.2}") }
}
