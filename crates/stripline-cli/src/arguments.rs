//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use stripline_waveform::control::Setting;

/// Low-loss links between radio components.
#[derive(Debug, Parser)]
#[command(
    name = "stripline",
    version,
    about,
    after_help = "Examples:\n  \
        stripline run waveforms/adsb.toml                     receive simulated aircraft\n  \
        stripline run waveforms/adsb.toml --transport tcp     the same over TCP\n  \
        stripline check waveforms/fm.toml                     find every mistake before anything starts\n  \
        stripline components adsb-source                      its ports and properties\n  \
        stripline bench ladder --quick                        the speed of links on this machine\n  \
        stripline bench experiments/e1-messaging.toml         pipelines compared with ideal and published figures\n  \
        stripline ps                                          live ports, and which waits for which\n  \
        stripline services                                    servers of calls, and their operations\n  \
        stripline set fm demodulator.deviation=5e3            change a property of a running waveform\n\n\
        Exit codes: 0 clean end, 1 failure while running, 2 wrong usage or waveform file."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a waveform until its end, Ctrl-C or a failure
    Run(RunArguments),
    /// Check a waveform completely without starting anything
    #[command(after_help = CHECK_HELP)]
    Check(FileArguments),
    /// Run an experiment from a file, or measure links
    Bench(BenchArguments),
    /// List the stock components, or show one with its ports and properties
    Components(ComponentsArguments),
    /// List the transports and their properties
    #[command(after_help = TRANSPORTS_HELP)]
    Transports,
    /// List this user's live ports with their readers, how far these are behind, and the chains of
    /// waiting ports
    Ps(PsArguments),
    /// List the servers of calls in a domain, with their operations
    Services(ServicesArguments),
    /// List the running waveforms of this user, or show one with its components
    Ls(LsArguments),
    /// Show the current properties of a running waveform
    Get(GetArguments),
    /// Change properties of a running waveform
    Set(SetArguments),
    /// Run the self-tests of a component of a running waveform
    Test(TestArguments),
    /// Stop a running waveform, or one component of it, in order
    Stop(StopArguments),
}

const CHECK_HELP: &str = "Examples:\n  \
    stripline check waveforms/fm.toml\n  \
    stripline check waveforms/adsb.toml --set source.path=capture.bin     and the other options of `run`\n  \
    stripline check waveforms/adsb.toml --transport inproc --placement threads\n\n\
    Every error and warning comes with its line and the remedy. Executables that the file names are run with \
    --describe, and files that properties name are checked; nothing is started.\n\n\
    Exit codes: 0 it can be run (there may be warnings), 2 it cannot.";

const TRANSPORTS_HELP: &str = "Examples:\n  \
    stripline transports\n  \
    stripline run waveforms/adsb.toml --transport uds     all connections over one of them\n\n\
    A connection of a waveform file names one by `transport`.\n\n\
    Exit codes: 0 listed.";

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline components                  all of them, with their ports\n  \
    stripline components fir-filter       its ports and properties, and an example to copy\n\n\
    A component of one's own prints the same as JSON with --describe.\n\n\
    Exit codes: 0 shown, 2 no component of that name.")]
pub(crate) struct ComponentsArguments {
    /// The component type to show
    pub name: Option<String>,
}

/// A waveform file, and the changes to it.
#[derive(Args, Debug)]
pub(crate) struct FileArguments {
    /// The waveform file (TOML)
    pub file: PathBuf,

    /// Set a component's property; repeatable
    #[arg(long, value_name = "COMPONENT.PROPERTY=VALUE")]
    pub set: Vec<String>,

    /// Use this transport for all connections
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,

    /// Run all components as threads of one process, or each in a process of its own
    #[arg(long)]
    pub placement: Option<PlacementArgument>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline run waveforms/adsb.toml\n  \
    stripline run waveforms/adsb.toml --set source.path=capture.bin --set sink.path=frames.avr\n  \
    stripline run waveforms/adsb.toml --transport inproc --placement threads --json result.json\n  \
    rtl_sdr -f 1090M -s 2000000 - | stripline run waveforms/adsb.toml --set source.path=-\n  \
    stripline run waveforms/adsb.toml --log-file run.log --log-format json\n  \
    stripline run waveforms/adsb.toml --trace run.json                      open it with ui.perfetto.dev\n  \
    STRIPLINE_LOG=warn,stripline::node=debug stripline run waveforms/adsb.toml -v\n\n\
    A component's lines on standard error begin with its name in brackets. docs/observing.md describes the log.\n\n\
    REORDERED counts packets that arrived after a later one, for example from a pool. A connection with `resequence` \
    still delivers them in sequence.\n\n\
    Exit codes: 0 it ended, or was stopped in order, 1 it failed, 2 wrong usage or waveform file.\n\n\
    Ctrl-C stops the sources first, so that packets in transit still arrive (exit code 0). A second Ctrl-C \
    ends everything at once (exit code 1).")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub waveform: FileArguments,

    /// Stop in order after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<f64>,

    /// Write the result as JSON to this file (`-`: standard output, after the components' own
    /// output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Print neither progress nor table; only warnings and errors
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,

    #[command(flatten)]
    pub log: LogArguments,
}

/// The log of a run.
#[derive(Args, Debug)]
pub(crate) struct LogArguments {
    /// Print the steps of each component, with times; twice: debug records, too
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Append the log to this file: from level info on, or as STRIPLINE_LOG and -v select
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,

    /// The form of the log file
    #[arg(long, value_enum, default_value_t = LogFormat::Text, requires = "log_file")]
    pub log_format: LogFormat,

    /// Write a trace of the run, which https://ui.perfetto.dev opens
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// The form of the components' standard output
    #[arg(long, value_enum, default_value_t = OutputForm::Raw)]
    pub stdout: OutputForm,
}

/// The form of a log file.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, target, component, message
    Text,
    /// One object a line, with the same as keys
    Json,
}

/// The form of the components' standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// As it is, byte by byte: right for samples
    Raw,
    /// Lines with the name of the component, also in the log file
    Lines,
}

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    stripline bench experiments/e1-messaging.toml --quick                 within a minute\n  \
    stripline bench experiments/e1-messaging.toml --html e1.html          all cases, with plots\n  \
    stripline bench experiments/e1-messaging.toml --only busy             one of its cases\n  \
    stripline bench mine.toml --runs 10 --json mine.json                  your own file, for a script\n  \
    stripline bench ladder --quick                                        links from the machine's limits up\n  \
    stripline bench instructions                                          what a packet costs on any machine\n\n\
    An experiment is a matrix of pipelines: a producer and components that work on each packet. Each case is run \
    several times by new processes, in turn with all others, and compared with its ideal and with published figures. \
    A case that the library refuses is listed with the reason. docs/experiment-file.md describes the file and the \
    JSON.\n\n\
    Exit codes: 0 measured (whether or not the targets are met), 1 a case failed, or Ctrl-C (the results up to \
    then are reported), 2 wrong usage or experiment file."
)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,

    #[command(flatten)]
    pub experiment: Option<ExperimentArguments>,
}

#[derive(Args, Debug)]
pub(crate) struct ExperimentArguments {
    /// The experiment file (TOML)
    pub file: PathBuf,

    /// Use fewer packets and runs: as many as the file sets for quick runs, or a tenth, once
    #[arg(long)]
    pub quick: bool,

    /// Number of runs of each case, 1 to 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Run only the case of this name; repeatable, to run several
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,

    /// Write all results as JSON to this file (`-`: standard output, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page with tables and plots to this file (`-`: standard output, instead of the
    /// tables)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure Stripline's links from the machine's limits up, and compare bare sockets and other
    /// libraries
    Ladder(LadderArguments),

    /// Count the instructions that a packet takes, the same on every machine
    Instructions(InstructionsArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench instructions                                     the table of docs/performance.md\n  \
    stripline bench instructions --check docs/performance.md         has a count grown by more than 5 %?\n\n\
    A process is stepped through, one instruction at a time. Its build matters: compare release builds of one \
    compiler.\n\n\
    Exit codes: 0 counted, 1 failure, or a count has grown by more than 5 %, 2 wrong usage.")]
pub(crate) struct InstructionsArguments {
    /// Compare the counts with the table in this file
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench ladder --quick                                   in about a minute\n  \
    stripline bench ladder --json ladder.json --svg ladder.svg       all cases: about eight minutes\n  \
    stripline bench ladder --sizes 64,1024 --transports shm,uds      a part of it\n\n\
    What is compared takes turns in blocks of a millisecond in the same processes, because a virtual machine moves its \
    processors. Each ratio stands beside its null comparison, the reference over itself, and is met, missed or not \
    decided. Compare ratios, not nanoseconds, between machines. The ladder needs two processors for itself.\n\n\
    iceoryx2 and ZeroMQ are measured, too, if built in: cargo build --release --features peers\n\n\
    Exit codes: 0 measured (whether or not the targets are met), 1 failure or Ctrl-C (the results up to then are \
    reported), 2 wrong usage.")]
pub(crate) struct LadderArguments {
    /// Bytes per packet, 8 to 1048576, separated by commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    pub sizes: Vec<usize>,

    /// Stripline's transports to measure, separated by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub transports: Vec<String>,

    /// Run fewer cases, fewer times: about a minute
    #[arg(long)]
    pub quick: bool,

    /// Number of runs of each group of cases, 1 to 1000; fewer than 3 decide nothing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Write all results as JSON to this file (`-`: standard output, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draw the plot to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Seconds that each run measures, for tests
    #[arg(long, value_name = "SECONDS", value_parser = seconds, hide = true)]
    pub seconds_per_run: Option<f64>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline ps                         every connection of every process of this user\n  \
    stripline ps radio                   those of one waveform\n  \
    stripline ps demodulator --watch     those of one component, every second\n  \
    stripline ps --json | jq .waits      which port waits for which, for a script\n\n\
    LAG is the number of packets sent that wait for the receiver; sockets do not report it. DEPTH is the most that may \
    wait: `48 of 64` if the sender is blocked at 48 (`high-watermark`). A suspended process does not reply; it is \
    named in a warning, and the others are listed.\n\n\
    Exit codes: 0 listed (also an empty list), 1 the kernel's list of sockets cannot be read.")]
pub(crate) struct PsArguments {
    /// Show only ports and connections with this in their names, or of this waveform, process,
    /// launcher or command
    pub name: Option<String>,

    /// Print everything as JSON; with `--watch`, one line each time
    #[arg(long)]
    pub json: bool,

    /// Repeat the list every second, or every so many seconds, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    pub watch: Option<f64>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline services                   in the domain of STRIPLINE_DOMAIN, or `default`, as programs use by default\n  \
    stripline services test              in the domain `test`\n  \
    stripline services --json | jq -r '.[].service'\n\n\
    Each service is shown with its servers, `NAME at TRANSPORT:ADDRESS`, and their operations, `name: request -> reply \
    (error: type)`, with their documentation. Servers with the same operations share the list. A server that cannot be \
    queried (it is suspended, or an `inproc` one of another process) is listed with the reason. In a domain of a \
    group, STRIPLINE_TOPICS must name the topics file with that group, as for all programs there.\n\n\
    With --json: an array of {service, servers: [{address, server, operations: [{name, request, reply, error, doc}], \
    problem}]}; where there is a `problem`, `server` and `operations` are null. There is no `doc` if the server gives \
    none.\n\n\
    Exit codes: 0 listed (also an empty list), 1 the domain cannot be joined, 2 wrong usage, domain name or topics \
    file.")]
pub(crate) struct ServicesArguments {
    /// The domain: the value of STRIPLINE_DOMAIN when the servers were started
    pub domain: Option<String>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// The selection of a running waveform.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// The waveform's name, as `stripline ls` lists it
    pub waveform: String,

    /// The launcher's process number, to choose among waveforms of the same name
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline ls                 every waveform that this user runs\n  \
    stripline ls radio           its components: processes, states, self-tests\n  \
    stripline ls --pid 4711      the one of this launcher, if several have the same name\n  \
    stripline ls --json          the same for a script\n\n\
    Exit codes: 0 listed (also an empty list), 1 no waveform of that name.")]
pub(crate) struct LsArguments {
    /// Show only the waveform of this name, with its components
    pub waveform: Option<String>,

    /// Show only the waveform with this launcher process number, with its components
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline get radio                    all properties of all components\n  \
    stripline get radio filter             those of one component\n  \
    stripline get radio filter.high        one value only, for a script\n\n\
    SET shows when a property can be set: `at start` (in the waveform file), `any time` (`stripline set`), or \
    `read-only` (the component reports it).\n\n\
    Exit codes: 0 shown, 1 a value is unavailable or the waveform does not reply, 2 there is no such name.")]
pub(crate) struct GetArguments {
    #[command(flatten)]
    pub which: Which,

    /// Show only this component, or this property of it
    #[arg(value_name = "COMPONENT[.PROPERTY]")]
    pub what: Option<String>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline set radio filter.high=6e3\n  \
    stripline set radio channel.low=1e3 channel.high=8e3     both or neither\n\n\
    Values are checked before anything is set. A component applies all its changes at once, between two packets, or \
    refuses them with a reason. Changes not applied in time are applied when it next checks for requests. \
    `stripline get` shows the properties that can be set. A component that is restarted keeps the changes.\n\n\
    Exit codes: 0 all changes are in effect, 1 a component refused some or has not applied them yet, 2 a change \
    is wrong and nothing was set.")]
pub(crate) struct SetArguments {
    #[command(flatten)]
    pub which: Which,

    /// The properties to set
    #[arg(value_name = "COMPONENT.PROPERTY=VALUE", required = true)]
    pub settings: Vec<Setting>,

    /// How long to wait until the components apply the changes
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5", allow_negative_numbers = true)]
    pub timeout: f64,

    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline test radio channel                 all self-tests of one component\n  \
    stripline test radio channel stopband        one of them\n\n\
    They run between two packets, which wait meanwhile.\n\n\
    Exit codes: 0 all passed, 1 one failed or was not run, 2 no component or self-test of that name.")]
pub(crate) struct TestArguments {
    #[command(flatten)]
    pub which: Which,

    /// The component
    pub component: String,

    /// The self-tests to run; default: all
    pub tests: Vec<String>,

    /// How long to wait until the component has run them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30", allow_negative_numbers = true)]
    pub timeout: f64,

    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline stop radio              sources first; packets in transit still arrive\n  \
    stripline stop radio --now        at once; packets in transit are lost\n  \
    stripline stop radio recorder     one component; the others continue as far as they can\n\n\
    It waits for the end and prints the run's summary, as the run itself does.\n\n\
    Exit codes: 0 it has ended (with --now: at once, as requested; the run itself then ends with 1), 1 it failed or does \
    not end, 2 there is no such component.")]
pub(crate) struct StopArguments {
    #[command(flatten)]
    pub which: Which,

    /// Stop only this component
    pub component: Option<String>,

    /// Do not wait for packets in transit
    #[arg(long, conflicts_with = "component")]
    pub now: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlacementArgument {
    Threads,
    Processes,
}

/// Parses a time from a millisecond to about thirty years.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("it must be from 0.001 to 1e9 seconds".into()),
        Err(_) => Err("it must be a number of seconds without a unit, as in 2.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_and_exit_codes() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for words in ["Examples:", "Exit codes:"] {
                assert!(help.contains(words), "{words} of {}", command.get_name());
            }
        }
    }

    #[test]
    fn times_out_of_range_are_refused() {
        for bad in ["0", "-1", "nan", "inf", "soon", "1e10"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(0.5));
    }
}
