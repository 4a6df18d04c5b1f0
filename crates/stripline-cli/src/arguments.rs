//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Low-loss links between radio components.
#[derive(Debug, Parser)]
#[command(
    name = "stripline",
    version,
    about,
    after_help = "Examples:\n  \
        stripline run waveforms/adsb.toml                     hear simulated aircraft\n  \
        stripline run waveforms/adsb.toml --transport tcp     the same over TCP\n  \
        stripline check waveforms/fm.toml                     find every mistake before anything starts\n  \
        stripline components adsb-source                      its ports and properties\n  \
        stripline ps                                          what runs now, and who waits for whom\n\n\
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
    Check(FileArguments),
    /// List the stock components, or show one with its ports and properties
    Components {
        /// The component type to show
        name: Option<String>,
    },
    /// List the transports and what each of them gives
    Transports,
    /// List this user's live ports, who reads them, how far behind, and who waits for whom
    Ps(PsArguments),
}

/// A waveform and what is changed in it.
#[derive(Args, Debug)]
pub(crate) struct FileArguments {
    /// The waveform file (TOML)
    pub file: PathBuf,

    /// Set a component's property; may be given many times
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
    rtl_sdr -f 1090M -s 2000000 - | stripline run waveforms/adsb.toml --set source.path=-\n\n\
    Ctrl-C stops the sources first, so that everything on its way still arrives (exit code 0); a second Ctrl-C \
    ends everything at once (exit code 1).")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub waveform: FileArguments,

    /// Stop in order after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<f64>,

    /// Write the result as JSON to this file (`-`: standard output, after whatever the components print there)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Neither progress nor table; warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline ps                         every connection of every process of this user\n  \
    stripline ps demodulator --watch     those of one component, every second\n  \
    stripline ps --json | jq .waits      who waits for whom, for a script\n\n\
    LAG is packets sent that wait for the receiver; on sockets the kernel does not say. A process that is stopped \
    is named as one that does not answer; the rest is listed.\n\n\
    Exit codes: 0 listed (also when there is nothing), 1 the kernel's list of sockets cannot be read.")]
pub(crate) struct PsArguments {
    /// Only ports and connections with this in their names, or the process with this number or command
    pub name: Option<String>,

    /// Print everything that is known as JSON; with `--watch` one line each time
    #[arg(long)]
    pub json: bool,

    /// List again and again, every second or so many seconds, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    pub watch: Option<f64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlacementArgument {
    Threads,
    Processes,
}

/// A time from a millisecond to about thirty years.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e9).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("it must be from 0.001 to 1e9 seconds".into()),
        Err(_) => Err("it must be a number of seconds".into()),
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
    fn times_out_of_range_are_refused() {
        for bad in ["0", "-1", "nan", "inf", "soon", "1e10"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(0.5));
    }
}
