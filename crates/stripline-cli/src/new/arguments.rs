//! The arguments of `stripline new`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new component gain                        a crate with one component and its tests\n  \
    stripline new component level --kind windowed       a component that takes windows of its own length\n  \
    stripline new waveform pulses                       a crate with four components and their waveform\n\n\
    docs/write-components.md describes the result, step by step.\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewArguments {
    #[command(subcommand)]
    pub command: NewCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewCommand {
    /// Make a crate with one component, its tests, and a waveform that runs it
    Component(NewComponentArguments),
    /// Make a crate with a source, a windowed component, a detector and a sink, and their waveform
    Waveform(NewWaveformArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new component gain\n  \
    stripline new component pulses --kind source --path radio/pulses\n  \
    stripline new component gain --stripline ../stripline       with this source tree of Stripline\n\n\
    Then: cd gain, cargo test, cargo build, stripline run gain.toml\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewComponentArguments {
    #[command(flatten)]
    pub place: PlaceArguments,

    /// The kind of component
    #[arg(long, value_enum, default_value = "filter")]
    pub kind: ComponentKind,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new waveform pulses\n  \
    stripline new waveform pulses --path radio/pulses\n\n\
    Then: cd pulses, cargo test, cargo build, stripline run pulses.toml\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewWaveformArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// The name and the places of a new crate.
#[derive(Args, Debug)]
pub(crate) struct PlaceArguments {
    /// The name: 1 to 64 lower-case letters, digits, `-` and `_`, with a letter first
    pub name: String,

    /// The folder to make; default: the name, in the current folder
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// A source tree of Stripline to depend on; default: the tree that built this command, or
    /// without it this release in the registry
    #[arg(long, value_name = "DIR")]
    pub stripline: Option<PathBuf>,
}

/// The beginnings of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComponentKind {
    /// Makes one packet of each received packet
    Filter,
    /// Shifts complex samples in frequency
    Mixer,
    /// Sends a signal at a steady rate
    Source,
    /// Takes windows of its own length
    Windowed,
    /// Sends a message for each event in the signal
    Detector,
}
