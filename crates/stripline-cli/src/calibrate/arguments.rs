//! The arguments of `stripline calibrate`.

use clap::Args;

use crate::arguments::seconds;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline calibrate                                all transports, in two minutes\n  \
    stripline calibrate --quick                        in a quarter of a minute, with more noise\n  \
    stripline calibrate --json | jq '.transports[]'    the figures for a script\n  \
    stripline check --explain waveforms/adsb.toml      shows them beside each connection's candidates\n\n\
    Packets of 64 B, 1 KiB and 32 KiB are sent over each transport: to a receiver that sleeps, to one that spins, and at \
    full rate. The sizes and transports take turns, as in `stripline bench ladder`. The figures explain a choice: `auto` \
    goes by its rule and takes no cost into account.\n\n\
    The result is kept in $XDG_DATA_HOME/stripline/calibration.json (~/.local/share if unset), or in the file that \
    STRIPLINE_CALIBRATION names. The result holds for this machine, kernel and version only. Ctrl-C, a failure or a \
    busy machine leave the present one as it is.\n\n\
    Exit codes: 0 measured and written, 1 failure, a busy machine, or Ctrl-C, 2 wrong usage, or the file cannot be \
    written.")]
pub(crate) struct CalibrateArguments {
    /// Measure for a shorter time: a quarter of a minute
    #[arg(long)]
    pub quick: bool,

    /// Number of runs behind each figure, 1 to 1000; 6 by default, or 3 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Keep the result also if other programs use the processors meanwhile
    #[arg(long)]
    pub allow_busy: bool,

    /// Print the result as JSON instead of the table
    #[arg(long)]
    pub json: bool,

    /// Seconds that each run measures, for tests
    #[arg(long, value_name = "SECONDS", value_parser = seconds, hide = true)]
    pub seconds_per_run: Option<f64>,
}
