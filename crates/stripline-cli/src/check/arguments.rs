//! The arguments of `stripline check`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::OverrideArguments;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline check waveforms/fm.toml\n  \
    stripline check waveforms/*.toml experiments/*.toml topics.toml       several files of any kind\n  \
    stripline check waveforms/adsb.toml --set source.path=capture.bin     and the other options of `run`\n  \
    stripline check waveforms/adsb.toml --transport inproc --placement threads\n  \
    stripline check --explain waveforms/adsb.toml                         why each connection has its transport\n  \
    stripline check --json - < radio.toml                                 for an editor, from standard input\n\n\
    Every error and warning comes with its line and the remedy. Executables that a waveform names are run with \
    --describe, and files that properties name are checked; nothing is started. The tables of a file determine its \
    kind: a waveform, the topics of STRIPLINE_TOPICS, or an experiment. Paths in a waveform on standard input are \
    relative to the current folder.\n\n\
    With --explain, each connection or topic has a table of all transports: the one that is taken, the rules that \
    strike the others out, and the cost of a packet over each, as `stripline calibrate` has measured it on this machine.\
    \n\n\
    With --json: an array of {file, kind, ok, components, connections, topics, cases, findings: [{level, code, message, \
    remedy, source, line, column, start, end}]}. `start` and `end` are bytes of the source; places are null where they \
    are unknown. --explain adds {explained: [{name, transport, chosen_by, reason, wait, candidates: [{transport, taken, \
    struck_out, costs: [{bytes, asleep_ns, spinning_ns, per_packet_ns}]}]}], calibration: {file, state, reason, \
    measured, program, runs, others_share, machine}}; `costs` is null where nothing was measured.\n\n\
    Exit codes: 0 all can be used (there may be warnings), 2 one cannot.")]
pub(crate) struct CheckArguments {
    /// The files (TOML); `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub overrides: OverrideArguments,

    /// List the transports that each connection could have, with the rules and costs of each
    #[arg(long)]
    pub explain: bool,

    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}
