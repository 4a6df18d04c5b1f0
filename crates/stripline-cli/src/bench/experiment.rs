//! `stripline bench FILE.toml`.

use stripline_bench::experiment::{self, Experiment, ExperimentSettings};

use super::Outputs;
use crate::Exit;
use crate::arguments::ExperimentArguments;
use crate::terminal;

pub(crate) fn experiment(arguments: &ExperimentArguments) -> Exit {
    // The parser requires the file, unless there is a further command.
    let Some(file) = &arguments.file else { return Exit::Usage };
    let mut experiment = match Experiment::load(file) {
        Ok(experiment) => experiment,
        Err(problems) => {
            report!("{}", problems.render(terminal::is_stderr_coloured()).trim_end());
            return Exit::Usage;
        }
    };
    if !arguments.only.is_empty() {
        experiment = match experiment.only(&arguments.only) {
            Ok(experiment) => experiment,
            Err(problem) => {
                report!("error: --only: {problem}; nothing was started");
                return Exit::Usage;
            }
        };
    }
    if arguments.require_targets
        && !experiment.cases.iter().any(|case| experiment.targets.contains_key(&case.name))
    {
        report!("error: --require-targets: none of the cases has a `target`; nothing was started");
        return Exit::Usage;
    }
    let settings = ExperimentSettings { quick: arguments.quick, repeats: arguments.runs, program: None };
    let (json, drawing) = (arguments.json.destination(), arguments.html.as_deref());
    let outputs = Outputs { json, drawing, requires_targets: arguments.require_targets };
    outputs.of(|observer| experiment::run(&experiment, &settings, observer))
}
