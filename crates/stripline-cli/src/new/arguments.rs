//! The arguments of `stripline new`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new component gain                        in Rust: a crate with one component and its tests\n  \
    stripline new component level --kind windowed       a component that takes windows of any length\n  \
    stripline new component gain --lang python          the same in Python: a script and its tests\n  \
    stripline new component gain --lang cpp             in C++, with CMake\n  \
    stripline new component gain --lang c               in C, with make\n  \
    stripline new waveform pulses                       in Rust: a crate with the components of a waveform\n  \
    stripline new waveform pulses --lang python         a script for each of four components\n\n\
    docs/write-components.md describes the result, step by step.\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewArguments {
    #[command(subcommand)]
    pub command: NewCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewCommand {
    /// Make a project with one component, its tests, and a waveform that runs it
    Component(NewComponentArguments),
    /// Make a project with a source, further components, their tests, and their waveform
    Waveform(NewWaveformArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new component gain                                in Rust\n  \
    stripline new component pulses --kind source --path radio/pulses\n  \
    stripline new component gain --lang python\n  \
    stripline new component pulses --lang cpp --kind detector\n  \
    stripline new component gain --lang c\n  \
    stripline new component gain --stripline ../stripline       with this source tree of Stripline\n\n\
    The command prints the steps that come next.\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewComponentArguments {
    #[command(flatten)]
    pub place: PlaceArguments,

    /// The kind of component; in C `filter` and `source`, in C++ also `detector`
    #[arg(long, value_enum, default_value = "filter")]
    pub kind: ComponentKind,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline new waveform pulses                       in Rust\n  \
    stripline new waveform pulses --path radio/pulses\n  \
    stripline new waveform pulses --lang python         or `cpp`, or `c`\n\n\
    The command prints the steps that come next.\n\n\
    Exit codes: 0 made, 1 a file cannot be written, 2 wrong usage: a name, or a folder with files in it.")]
pub(crate) struct NewWaveformArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// The name, the language and the places of a new project.
#[derive(Args, Debug)]
pub(crate) struct PlaceArguments {
    /// The name: 1 to 64 lower-case letters, digits, `-` and `_`, with a letter first
    pub name: String,

    /// The folder to make; default: the name, in the current folder
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// The language: Rust, unless this option names another
    #[arg(long, value_enum, default_value = "rust", value_name = "LANGUAGE")]
    pub lang: Language,

    /// A source tree of Stripline to depend on, for Rust and C++; default: the tree that built this
    /// command, or without it this release in the registry (C++: the installed library)
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

/// The languages of new projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Rust: a crate for Cargo
    Rust,
    /// Python: scripts, with tests for `unittest`
    Python,
    /// C++, with CMake
    Cpp,
    /// C, with make and pkg-config
    C,
}

/// Returns the word of a value on the command line.
pub(super) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}
