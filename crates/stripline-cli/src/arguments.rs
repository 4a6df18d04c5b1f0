//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use stripline_waveform::control::Setting;

use crate::bench::arguments::{BindingsArguments, CompareArguments};
use crate::calibrate::arguments::CalibrateArguments;
use crate::check::arguments::CheckArguments;
use crate::data::arguments::{EchoArguments, HzArguments, RecordArguments, ReplayArguments};
use crate::new::arguments::NewArguments;
use crate::web::arguments::WebArguments;

/// Low-loss links between radio components.
#[derive(Debug, Parser)]
#[command(
    name = "stripline",
    version,
    about,
    // Examples with their comments are lines of up to 117 columns.
    max_term_width = 120,
    after_help = "Examples:\n  \
        stripline run waveforms/adsb.toml                     receive simulated aircraft\n  \
        stripline run waveforms/adsb.toml --transport tcp     the same over TCP\n  \
        stripline check waveforms/fm.toml                     find every mistake before anything starts\n  \
        stripline components adsb-source                      its ports and properties\n  \
        stripline new component gain                          a component in Rust to begin with, from a template\n  \
        stripline new component gain --lang python            the same in Python; `cpp`: C++; `c`: C\n  \
        stripline bench ladder --quick                        the speed of links on this machine\n  \
        stripline calibrate                                   the cost of a packet here, for `check --explain`\n  \
        stripline bench experiments/e1-messaging.toml         pipelines compared with ideal and published figures\n  \
        stripline devices                                     receivers that are connected to this machine\n  \
        stripline links                                       live ports, and which waits for which\n  \
        stripline top                                         a live view of a running waveform\n  \
        stripline services                                    servers of calls, and their operations\n  \
        stripline set fm demodulator.deviation=5e3            change a property of a running waveform\n  \
        stripline echo fm demodulator.out                     print the packets of a port\n  \
        stripline web fm                                      see it in the browser: graph, latency, spectrum\n\n\
        Programs in other containers are found through a folder: STRIPLINE_RUNTIME_DIR=/run/radio stripline links. It \
        must be set to the same folder for all programs.\n\n\
        Exit codes: 0 clean end, 1 failure while running, 2 wrong usage or waveform file, 3 a target of a benchmark \
        is not met (--require-targets)."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// Colour findings and states: `auto` does so on a terminal, unless NO_COLOR is set;
    /// CLICOLOR_FORCE=1 is `always`
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", global = true)]
    pub color: ColorArgument,
}

/// The choice when output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArgument {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a waveform until its end, Ctrl-C or a failure
    Run(RunArguments),
    /// Check files completely without starting anything: waveforms, topics files, experiments
    Check(CheckArguments),
    /// Run an experiment from a file, or measure links
    Bench(BenchArguments),
    /// Measure the cost of a packet over each transport on this machine, for `check --explain`
    Calibrate(CalibrateArguments),
    /// Create a component or waveform from a template
    New(NewArguments),
    /// List the stock components, or show one with its ports and properties
    Components(ComponentsArguments),
    /// List the transports and their properties
    Transports(TransportsArguments),
    /// List the receivers and transmitters of this machine, each with its name for a waveform file
    Devices(DevicesArguments),
    /// List this user's live ports with their readers, how far these are behind, and the chains of
    /// waiting ports
    Links(LinksArguments),
    /// Show a running waveform live in the terminal, and change its properties
    Top(TopArguments),
    /// List the servers of calls in a domain, with their operations
    Services(ServicesArguments),
    /// Call an operation of a service, with JSON
    Call(CallArguments),
    /// List the running waveforms of this user, or show one with its components
    Waveforms(WaveformsArguments),
    /// Show the current properties of a running waveform
    Get(GetArguments),
    /// Change properties of a running waveform
    Set(SetArguments),
    /// Run the self-tests of a component of a running waveform
    Test(TestArguments),
    /// Stop a running waveform, or one component of it, in order
    Stop(StopArguments),
    /// Print the packets of a port of a running waveform, or of a topic
    Echo(EchoArguments),
    /// Measure the rate of a port of a running waveform, or of a topic
    Hz(HzArguments),
    /// Record ports of a running waveform, or topics, to files
    Record(RecordArguments),
    /// Publish recordings on topics again
    Replay(ReplayArguments),
    /// Show running waveforms on a page in the browser, and serve metrics
    Web(WebArguments),
    /// Print the JSON schema of a kind of file, for editors
    Schema(SchemaArguments),
    /// Print the completions of a shell
    Completions(CompletionsArguments),
    /// Write a manual page for each command
    Man(ManArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline transports\n  \
    stripline transports --json | jq -r '.transports[] | select(.in_program).name'\n  \
    stripline run waveforms/adsb.toml --transport uds     all connections over one of them\n\n\
    A connection of a waveform file names one by `transport`; without it, one is chosen (`auto`).\n\n\
    KEEPS is about the options of a connection: every scope, overflow policy, dispatch and flow control, and \
    memory options; an option that is left out is refused by name. --json lists them one by one, and the limit \
    that `depth` sets. IN THIS PROGRAM is \"yes\", or the part that adds the transport. Each has a page, \
    docs/transports/NAME.md: the purpose, and the copies, threads and system calls that a packet costs.\n\n\
    A FORMAT is the wire of another program. A stock component receives it, and another one sends it. LACKS has the \
    facts that the wire cannot carry.\n\n\
    Exit codes: 0 listed.")]
pub(crate) struct TransportsArguments {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline components                  all of them, with their ports\n  \
    stripline components fir-filter       its ports and properties, and an example to copy\n  \
    stripline components ./my-component   the same of your own executable\n  \
    stripline components fm.toml          all components that a waveform file uses\n  \
    stripline components --json           for a script\n\n\
    Your own executable is run with --describe. A name with a `/` or the ending .toml is a path.\n\n\
    Exit codes: 0 shown, 2 no component of that name, or no description.")]
pub(crate) struct ComponentsArguments {
    /// The component to show: a type, an executable, or a waveform file with several
    #[arg(value_name = "NAME|PATH")]
    pub name: Option<String>,

    /// Print everything as JSON, in the form of --describe
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline devices                     all of them\n  \
    stripline devices driver=rtlsdr       the devices of a driver\n  \
    stripline devices --json | jq -r '.devices[].device'\n  \
    stripline run adsb --set source.type=soapy-source --set source.device=driver=rtlsdr,serial=00000001\n\n\
    DEVICE is the value of the property `device` of soapy-source and soapy-sink. SoapySDR finds the devices, and needs \
    a driver for each kind, for example the Debian package soapysdr-module-rtlsdr. A device that another program \
    uses may be missing.\n\n\
    Exit codes: 0 listed, also without a device; 1 a driver failed, or SoapySDR is not in this program.")]
pub(crate) struct DevicesArguments {
    /// Only devices that fit these arguments of SoapySDR
    #[arg(value_name = "KEY=VALUE,...", default_value = "")]
    pub filter: String,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// The changes to a waveform file.
#[derive(Args, Debug)]
pub(crate) struct OverrideArguments {
    /// Set a component's property, or its `type`; repeatable
    #[arg(long, value_name = "COMPONENT.PROPERTY=VALUE")]
    pub set: Vec<String>,

    /// Use this transport for all connections; `auto` leaves the choice to the rule
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,

    /// Run all components as threads of one process, or each in a separate process
    #[arg(long)]
    pub placement: Option<PlacementArgument>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline run adsb                                               a waveform that is built in\n  \
    stripline run waveforms/adsb.toml\n  \
    stripline run waveforms/adsb.toml --set source.path=capture.bin --set sink.path=frames.avr\n  \
    stripline run waveforms/adsb.toml --transport inproc --placement threads\n  \
    stripline run waveforms/adsb.toml --output result.json           the result as JSON, beside the table\n  \
    rtl_sdr -f 1090M -s 2000000 - | stripline run waveforms/adsb.toml --set source.path=-\n  \
    stripline run waveforms/adsb.toml --log-file run.log --log-format json\n  \
    stripline run waveforms/adsb.toml --trace run.json                      open it with ui.perfetto.dev\n  \
    STRIPLINE_LOG=warn,stripline::node=debug stripline run waveforms/adsb.toml -v\n\n\
    A component's lines on standard error begin with its name in brackets. docs/observing.md describes the log.\n\n\
    REORDERED counts packets that arrived after a later one, for example from a pool. A connection with `resequence` \
    still delivers them in sequence.\n\n\
    QUEUED is the median time from the arrival of a packet until the component takes it; SERVICE is the median \
    time from there to the release. A connection is slow where QUEUED is long, and the component behind it where \
    SERVICE is near the time between two packets. docs/arrives-late.md goes on from there.\n\n\
    Exit codes: 0 it ended, or was stopped in order, 1 it failed, 2 wrong usage or waveform file.\n\n\
    Ctrl-C stops the sources first. The run ends when packets in transit have arrived, when no receiver has taken \
    one for 5 s, or after a minute (exit code 0); a warning names the missing packets. A second Ctrl-C ends \
    everything at once (exit code 1), whereas further SIGTERM and SIGHUP change nothing.")]
pub(crate) struct RunArguments {
    /// The waveform file (TOML), or a waveform that is built in: adsb, fm, radio, scan, spectrum,
    /// vita49, vita49-send
    pub file: PathBuf,

    #[command(flatten)]
    pub overrides: OverrideArguments,

    /// Stop in order after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<f64>,

    #[command(flatten)]
    pub json: JsonArguments,

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

    /// Write a trace of the run, which https://ui.perfetto.dev opens. A file that exists is refused
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
    /// Unchanged, byte by byte: right for samples
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
    stripline bench mine.toml --runs 10 --json                            your own file, for a script\n  \
    stripline bench mine.toml --require-targets                           exit code 3 unless all targets are met\n  \
    stripline bench ladder --quick                                        links from the machine's limits up\n  \
    stripline bench instructions                                          the cost of a packet on any machine\n  \
    stripline bench compare old.json new.json                             is anything slower?\n\n\
    An experiment is a matrix of pipelines: a producer and components that work on each packet. Each case is run \
    several times by new processes, in turn with all others, and compared with its ideal and with published figures. \
    A case that the library refuses is listed with the reason. docs/experiment-file.md describes the file and the \
    JSON.\n\n\
    Exit codes: 0 measured (whether or not the targets are met), 1 a case failed, or Ctrl-C (the results up to \
    then are reported), 2 wrong usage or experiment file, 3 with --require-targets: a target is not met."
)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,

    #[command(flatten)]
    pub experiment: ExperimentArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ExperimentArguments {
    /// The experiment file (TOML)
    #[arg(required = true)]
    pub file: Option<PathBuf>,

    /// Use fewer packets and runs: as many as the file sets for quick runs, or a tenth, once
    #[arg(long)]
    pub quick: bool,

    /// Number of runs of each case, 1 to 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Run only the case of this name; repeatable, to run several
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,

    /// Exit with 3 unless every target is met; a target without a figure is not met
    #[arg(long)]
    pub require_targets: bool,

    #[command(flatten)]
    pub json: JsonArguments,

    /// Write a page with tables and plots to this file (`-`: standard output, instead of the
    /// tables). A file that exists is replaced
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

    /// Measure the cost of a packet in C, C++, Python and GNU Radio
    Bindings(BindingsArguments),

    /// Compare two results: which differences are real?
    Compare(CompareArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench instructions                                     the table of docs/performance.md\n  \
    stripline bench instructions --check docs/performance.md         has a count grown by more than 5 %?\n\n\
    A process is stepped through, one instruction at a time. Its build matters: compare release builds of one \
    compiler.\n\n\
    Exit codes: 0 counted, 1 failure, 2 wrong usage, 3 with --check: a count has grown by more than 5 %.")]
pub(crate) struct InstructionsArguments {
    /// Compare the counts with the table in this file
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench ladder --quick                                   in about a minute\n  \
    stripline bench ladder --output l.json --svg l.svg               all cases: about eight minutes\n  \
    stripline bench ladder --sizes 64,1024 --transports shm,uds      a part of it\n  \
    stripline bench ladder --require-targets                         exit code 3 unless its targets are met\n\n\
    The compared programs take turns in blocks of a millisecond in the same processes, because a virtual machine \
    moves its processors. Each ratio stands beside its null comparison, the reference over itself, and is met, \
    missed or not decided. Compare ratios, not nanoseconds, between machines. The ladder needs two processors for \
    itself.\n\n\
    iceoryx2 and ZeroMQ are measured, too, if built in: cargo build --release --features peers\n\n\
    Exit codes: 0 measured (whether or not the targets are met), 1 failure or Ctrl-C (the results up to then are \
    reported), 2 wrong usage, 3 with --require-targets: a target is not met.")]
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

    /// Exit with 3 unless every target is met; ratios that are not measured do not count
    #[arg(long)]
    pub require_targets: bool,

    #[command(flatten)]
    pub json: JsonArguments,

    /// Draw the plot to this file. A file that exists is replaced
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Seconds that each run measures, for tests
    #[arg(long, value_name = "SECONDS", value_parser = seconds, hide = true)]
    pub seconds_per_run: Option<f64>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline links                       every connection of every process of this user\n  \
    stripline links radio                 the connections of one waveform\n  \
    stripline links --watch demodulator   the connections of one component, every second\n  \
    stripline links --watch=0.2 radio     five times a second\n  \
    stripline links --json | jq .waits    which port waits for which, for a script\n\n\
    LAG is the number of packets sent that wait for the receiver; sockets do not report it. DEPTH is the most that may \
    wait: `48 of 64` if the sender is blocked at 48 (`high-watermark`). STATE is `full` where that many wait at this \
    moment and the sender is busy, or the receiver drops. STATE is `sender waits (low watermark)` where the queue \
    was full, and the sender goes on at `low-watermark`. A suspended process does not reply; it is \
    named in a warning, and the others are listed. A rule of a topics file that no running process with the file has \
    used so far is named in a warning, too; with --json, `unused_rules` has {file, topic, nearest} of each.\n\n\
    Exit codes: 0 listed (also an empty list), 1 the kernel's list of sockets cannot be read.")]
pub(crate) struct LinksArguments {
    /// Show only ports and connections with this in their names, or of this waveform, process,
    /// launcher or command
    pub name: Option<String>,

    /// Print everything as JSON; with `--watch`, one line each time
    #[arg(long)]
    pub json: bool,

    /// Repeat the list every second, or at this interval, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = seconds)]
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

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline call tuner status\n  \
    stripline call tuner tune 433.92e6\n  \
    stripline call mixer route '[\"left\", {\"gain\": 0.5}]'      several arguments are an array\n  \
    echo 433.92e6 | stripline call tuner tune -                the request from standard input\n  \
    stripline call --domain test --timeout 60 tuner calibrate  in another domain, with a minute\n\n\
    The request is JSON, sent as the CBOR that services use; without one it is null, for operations without arguments. A \
    service carries no shape of its requests, so its server checks them: 2.0 is a number with a fraction, and 2 is a \
    whole one. `stripline services` lists the operations.\n\n\
    The reply is printed as JSON. Bytes become an array of numbers.\n\n\
    Exit codes: 0 there is a reply, 1 the operation failed or did not reply, 2 there is no such service or operation, \
    or the request is wrong: nothing was done.")]
pub(crate) struct CallArguments {
    /// The service, as `stripline services` lists it
    pub service: String,

    /// An operation of the service
    pub operation: String,

    /// The request as JSON; `-` is standard input
    #[arg(value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub request: String,

    /// The domain: the value of STRIPLINE_DOMAIN when the server was started
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// How long the call may take, at most an hour
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5", allow_negative_numbers = true)]
    pub timeout: f64,
}

/// The selection of a running waveform.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// The waveform's name, as `stripline waveforms` lists it; with --pid it may be left out
    #[arg(required_unless_present = "pid")]
    pub waveform: Option<String>,

    /// The launcher's process number, in place of the name or to choose among waveforms of one name
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,
}

/// The wait for a waveform that is being started.
#[derive(Args, Debug)]
pub(crate) struct WaitArguments {
    /// Wait for a waveform that is still being started, at most a minute or this long
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60", value_parser = seconds)]
    pub wait: Option<f64>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline top                     the only running waveform\n  \
    stripline top radio               this one of several\n  \
    stripline top radio --every 1     once a second\n\n\
    Keys: up and down select a property; left (or -) and right (or +) change it; Enter begins a value to type, and \
    sets it; Esc discards it; PgUp and PgDn scroll; q or Ctrl-C quits.\n\n\
    CPU is of one processor. LAG has the packets that wait, and the most that may; on sockets, bytes in the kernel. \
    LATENCY is the mean of the last second from send to receive, and LATENCIES its course. docs/observing.md \
    describes all. Without a terminal: `stripline links --watch --json`.\n\n\
    Exit codes: 0 quit, or the waveform has ended, 1 its launcher does not answer, 2 no such waveform, or no terminal.")]
pub(crate) struct TopArguments {
    /// The waveform's name, as `stripline waveforms` lists it; may be left out if only one is
    /// running
    pub waveform: Option<String>,

    /// The launcher's process number, in place of the name or to choose among waveforms of one name
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,

    /// Time between two readings of all figures, 0.1 or more
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "0.25", allow_negative_numbers = true)]
    pub every: f64,
}

/// The destination of a result as JSON.
#[derive(Args, Debug)]
pub(crate) struct JsonArguments {
    /// Print the result as JSON instead of the tables
    #[arg(long)]
    pub json: bool,

    /// Write the JSON to this file, and print the tables as usual, with or without `--json` (`-`:
    /// standard output, instead of the tables). A file that exists is replaced
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl JsonArguments {
    /// Returns the destination of the JSON, if JSON is wanted; `-` is standard output.
    pub(crate) fn destination(&self) -> Option<&Path> {
        self.output.as_deref().or_else(|| self.json.then_some(Path::new("-")))
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline waveforms                 every waveform that this user runs\n  \
    stripline waveforms radio           its components: processes, states, self-tests\n  \
    stripline waveforms --pid 4711      the one of this launcher, if several have the same name\n  \
    stripline waveforms --json          the same for a script\n\n\
    Exit codes: 0 listed (also an empty list), 1 a launcher does not reply, 2 no waveform of that name.")]
pub(crate) struct WaveformsArguments {
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
    stripline get radio filter             all properties of one component\n  \
    stripline get radio filter.high        one value only, for a script\n  \
    stripline get --pid 4711 filter        of the waveform of this launcher\n  \
    stripline get radio filter --wait      as soon as the waveform runs\n\n\
    SET shows when a property can be set: `at start` (in the waveform file), `any time` (`stripline set`), or \
    `read-only` (the component reports it).\n\n\
    Exit codes: 0 shown, 1 a value is unavailable or the waveform does not reply, 2 there is no such name.")]
pub(crate) struct GetArguments {
    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub wait: WaitArguments,

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
    stripline set radio channel.low=1e3 channel.high=8e3     both or neither\n  \
    stripline set radio tone.out:transport=uds               moves the connections of an output\n  \
    stripline set radio filter.high=6e3 --wait=10            as soon as the waveform runs, within 10 s\n\n\
    Values are checked before anything is set. A component applies all its changes at once, between two packets, or \
    refuses them with a reason. Changes not applied in time are applied when it next checks for requests. \
    `stripline get` shows the properties that can be set. A component that is restarted keeps the changes.\n\n\
    Exit codes: 0 all changes are in effect, 1 a component refused some or has not applied them yet, 2 a change or \
    a name is wrong and nothing was set.")]
pub(crate) struct SetArguments {
    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub wait: WaitArguments,

    /// The properties to set
    #[arg(value_name = "COMPONENT.PROPERTY=VALUE", required_unless_present = "pid")]
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
    Self-tests run between two packets, which wait meanwhile.\n\n\
    Exit codes: 0 all passed, 1 one failed or was not run, 2 no waveform, component or self-test of that name.")]
pub(crate) struct TestArguments {
    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub wait: WaitArguments,

    /// The component
    #[arg(required_unless_present = "pid")]
    pub component: Option<String>,

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
    stripline stop radio recorder     one component; the others continue as far as they can\n  \
    stripline stop radio --wait       also if its launcher has only just been called\n\n\
    A waveform that is starting is stopped, too. The command waits for the end and prints the run's summary, as the run itself does.\n\n\
    Exit codes: 0 it has ended (with --now: at once, as requested; the run itself then ends with 1), 1 it failed or does \
    not end, 2 there is no such waveform or component.")]
pub(crate) struct StopArguments {
    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub wait: WaitArguments,

    /// Stop only this component
    pub component: Option<String>,

    /// Do not wait for packets in transit
    #[arg(long, conflicts_with = "component")]
    pub now: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline schema waveform > waveform.schema.json\n  \
    stripline schema topics > topics.schema.json\n\n\
    An editor with TOML support completes and checks keys by it: `#:schema ./waveform.schema.json` as the first line of \
    a file names it. `stripline check` finds more: keys that do not fit together.\n\n\
    Exit codes: 0 printed, 2 no such kind of file.")]
pub(crate) struct SchemaArguments {
    /// The kind of file
    pub kind: SchemaKind,
}

/// The kinds of files with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaKind {
    /// Components and connections: `stripline run`
    Waveform,
    /// Options of topics: STRIPLINE_TOPICS
    Topics,
    /// Pipelines to measure: `stripline bench`
    Experiment,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline completions bash > ~/.local/share/bash-completion/completions/stripline\n  \
    stripline completions zsh > ~/.zfunc/_stripline              with ~/.zfunc in fpath\n  \
    stripline completions fish > ~/.config/fish/completions/stripline.fish\n\n\
    Exit codes: 0 printed, 2 no such shell.")]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub shell: ShellArgument,
}

/// The shells with completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShellArgument {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline man --output ~/.local/share/man/man1     then: man stripline-run\n\n\
    Existing pages of these names are replaced.\n\n\
    Exit codes: 0 written, 2 the folder cannot be written to.")]
pub(crate) struct ManArguments {
    /// The folder for the pages; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlacementArgument {
    Threads,
    Processes,
}

/// Parses a time from a millisecond to about thirty years.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("it must be from 0.001 to 1e9 seconds".into()),
        Err(_) => Err("it must be a number of seconds without a unit, as in 2.5".into()),
    }
}

/// Parses a time between readings. The minimum keeps the readings from disturbing a waveform.
fn interval(text: &str) -> Result<f64, String> {
    match seconds(text) {
        Ok(seconds) if seconds < 0.1 => Err("it must be 0.1 seconds or more".into()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
