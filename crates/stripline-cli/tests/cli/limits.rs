//! Runs under limits of the system (`ulimit`).

use std::process::{Command, Stdio};

use crate::common::Run;
use crate::common::waveform::File;

/// Runs the waveform briefly in a shell with these limits.
fn run_with(limits: &str, file: &File) -> Run {
    let script = format!("ulimit {limits} && exec \"$0\" run \"$1\" --duration 0.2 -q");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_stripline")]).arg(file.path("file.toml"));
    Run::of(shell.stdin(Stdio::null()).env("RUST_BACKTRACE", "0").output().unwrap())
}

#[test]
fn a_limit_that_ends_a_run_has_its_name_its_value_and_the_remedy() {
    let file = File::radio();
    // The limit is in blocks of 512 bytes.
    run_with("-f 100", &file).says(1, &["RLIMIT_FSIZE", "51200 bytes", "`ulimit -f`"]);
    // The launcher itself needs more descriptors than that.
    run_with("-n 14", &file).says(1, &["RLIMIT_NOFILE", "is 14", "`ulimit -n`"]);
}

#[test]
fn a_small_address_space_is_an_error_that_names_the_limit() {
    let file = File::radio();
    let executable = std::fs::metadata(env!("CARGO_BIN_EXE_stripline")).unwrap().len() >> 10;
    let mut refused = 0;
    // The limits are in KiB. The smallest limits are too low for the system's loader, the next ones
    // for the launcher, and the largest ones for the components.
    for limit in (executable / 2..executable + 120_000).step_by(3000) {
        let run = run_with(&format!("-v {limit}"), &file);
        // The loader failed with an error, or crashed.
        if run.code == Some(127) || run.code == Some(139) || run.code.is_none() {
            assert_eq!(refused, 0, "{limit}: {}", run.stderr);
            continue;
        }
        if run.code == Some(0) {
            break;
        }
        refused += 1;
        run.says(1, &["RLIMIT_AS", "`ulimit -v`"]);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
    assert!(refused > 0);
}

#[test]
fn the_soft_limit_of_open_files_is_raised_and_others_are_kept() {
    let file = File::radio();
    run_with("-S -n 14", &file).says(0, &[]);
    run_with("-S -f 100", &file).says(1, &["RLIMIT_FSIZE", "51200 bytes"]);
}

#[test]
fn limits_are_findings_with_their_line() {
    let file = File::radio();
    let check = |limits: &str| {
        let script = format!("ulimit {limits} && exec \"$0\" check \"$1\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_stripline")]).arg(file.path("file.toml"));
        let output = shell.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let found = check("-f 100");
    assert!(found.contains("warning[limit]") && found.contains("(RLIMIT_FSIZE)"), "{found}");
    assert!(found.contains("file.toml:"), "{found}");
    assert!(check("-n 14").contains("(RLIMIT_NOFILE)"));
    // With a higher limit, as the remedy requires, there is no finding.
    assert!(!check("-n 200").contains("warning[limit]"));
}
