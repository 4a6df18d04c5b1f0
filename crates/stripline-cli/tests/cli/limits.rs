//! Limits of the system (`ulimit`) in runs.

use std::process::{Command, Stdio};

use crate::common::Run;
use crate::common::waveform::File;

/// Runs the waveform for a moment in a shell with these limits.
fn run_with(limits: &str, file: &File) -> Run {
    let script = format!("ulimit {limits} && exec \"$0\" run \"$1\" --duration 0.2 -q");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_stripline")]).arg(file.path("file.toml"));
    Run::of(shell.stdin(Stdio::null()).env("RUST_BACKTRACE", "0").output().unwrap())
}

#[test]
fn a_limit_that_ends_a_run_has_its_name_its_value_and_the_remedy() {
    let file = File::radio();
    // Blocks of 512 bytes.
    run_with("-f 100", &file).says(1, &["RLIMIT_FSIZE", "51200 bytes", "`ulimit -f`"]);
    // A number that the launcher needs for itself.
    run_with("-n 14", &file).says(1, &["RLIMIT_NOFILE", "is 14", "`ulimit -n`"]);
}

#[test]
fn the_soft_limit_of_open_files_is_raised_and_others_are_kept() {
    let file = File::radio();
    run_with("-S -n 14", &file).says(0, &[]);
    run_with("-S -f 100", &file).says(1, &["RLIMIT_FSIZE", "51200 bytes"]);
}
