//! The table of the figures.

use super::BindingReport;
use crate::OTHERS_SHARE_MAX;
use crate::figure;
use crate::report::{Measured, Section};

impl Measured for BindingReport {
    fn head(&self) -> Vec<String> {
        let meaning = "VALUE: the median over runs, with an interval; NULL: the same of the reference over itself; \
                       SMALLEST: the smallest difference that these runs could show. A \
                       figure is the first name over the second; TIMES are of a packet or a round trip of both.";
        let runs = format!("{} runs of {} rounds. {meaning}", self.runs, self.rounds);
        vec![self.machine.to_string(), runs]
    }

    fn sections(&self) -> Vec<Section> {
        let titles = ["FIGURE", "VALUE", "INTERVAL", "NULL", "SMALLEST", "TIMES", "AIM", ""];
        let grid = figure::grid(&titles, &["TIMES", "NULL", "INTERVAL", "SMALLEST"], &self.figures);
        let mut section = Section { grid, ..Section::default() };
        for figure in &self.figures {
            let missing = figure.missing.iter().map(|reason| format!("not measured: {reason}"));
            let failed = figure.failed_run.iter().map(|problem| format!("a run failed: {problem}"));
            section.lines.extend(missing.chain(failed).map(|text| format!("{}: {text}", figure.name)));
        }
        vec![section]
    }

    fn notes(&self) -> Vec<String> {
        let busy =
            self.figures.iter().filter_map(|figure| figure.disturbance.others_share).fold(0.0, f64::max);
        let note = || format!("note: other programs used up to {:.0} % of the processors", busy * 100.0);
        (busy > OTHERS_SHARE_MAX).then(note).into_iter().collect()
    }

    fn targets(&self) -> Vec<Result<(), String>> {
        self.figures.iter().filter_map(|figure| figure.target("aim")).collect()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }
}
