//! The arguments of `stripline bench bindings` and `stripline bench compare`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::JsonArguments;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench bindings --quick                             everything that can be measured here, in about a minute\n  \
    stripline bench bindings --only c_ --prefix ~/.local         C, against the library below a folder\n  \
    stripline bench bindings --only python --python v/bin/python with the packages of an environment\n  \
    stripline bench bindings --output figures.json               all, and a file for a script\n  \
    stripline bench bindings --only c_ --require-targets         exit code 3 unless the aims for C are met\n\n\
    Requirements: for C and C++, a compiler and `packaging/cpp-install DIR`; for Python, an environment with the \
    wheel of bindings/python and `pip install iceoryx2 pyzmq`; for GNU Radio, its package and \
    `packaging/gnuradio-install DIR`. A figure without its language, package or peer is listed with the part to \
    install. Build everything as it is released: ratios of unoptimised code mean nothing.\n\n\
    The compared programs take turns in blocks of a few milliseconds on the same two processors. Each figure \
    stands beside its null comparison, the reference over itself, and is met, missed or not decided. How the \
    one-packet path was before held packets cannot be measured here: two versions are compared by `bench \
    instructions`.\n\n\
    Exit codes: 0 measured (whether or not the aims are met), 1 failure or Ctrl-C (the results up to then are \
    reported), 2 wrong usage, 3 with --require-targets: an aim is not met.")]
pub(crate) struct BindingsArguments {
    /// Measure only the figures that begin with this; repeatable
    #[arg(long, value_name = "PART")]
    pub only: Vec<String>,

    /// Run fewer rounds, fewer times: about a minute
    #[arg(long)]
    pub quick: bool,

    /// Number of runs of each figure, 1 to 1000; 6 by default, or 3 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Exit with 3 unless every aim is met; figures that are not measured do not count
    #[arg(long)]
    pub require_targets: bool,

    /// The folder that `packaging/cpp-install` was given; by default, from pkg-config
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,

    /// The Python that has `stripline` and its peers; by default, `python3`
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,

    /// The Python that has GNU Radio; by default, `/usr/bin/python3`
    #[arg(long, value_name = "FILE")]
    pub gnuradio_python: Option<PathBuf>,

    #[command(flatten)]
    pub json: JsonArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline bench ladder --output old.json                    before a change\n  \
    stripline bench compare old.json new.json                   which differences are real?\n  \
    stripline bench compare old.json new.json --limit 10        exit code 1 beyond 10 %\n  \
    stripline bench compare old.json new.json --json            for a script\n\n\
    The results are two of the ladder, or two of one experiment. A difference is real if the interval of the ratio \
    (Mann-Whitney, 95 %) does not contain 1, and the ratio is further from 1 than the null comparisons are wide. Else \
    the table has the smallest difference that these runs could show. Fewer than 4 runs in each result, or disturbed \
    runs, decide nothing. An experiment has no null comparison, so the spread of its runs decides alone.\n\n\
    Exit codes: 0 nothing is slower beyond the limit, 1 something is, 2 a file is not such a result.")]
pub(crate) struct CompareArguments {
    /// The result before (JSON)
    pub old: PathBuf,

    /// The result after
    pub new: PathBuf,

    /// By how many percent a figure may be slower, 0 to 1000
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    pub limit: f64,

    #[command(flatten)]
    pub json: JsonArguments,
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse().map_err(|_| "it is not a number".to_string())?;
    if (0.0..=1000.0).contains(&value) { Ok(value) } else { Err("it must be from 0 to 1000".into()) }
}
