//! C programs against the installed library, as processes.

#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

mod build;
mod links;
mod page;

use std::process::Command;

use build::{Kind, has_sanitizers, installed, package, program, repository, run};

/// Returns a domain for this test alone.
fn domain(of: &str) -> String {
    format!("c-{of}-{}", std::process::id())
}

/// Builds and runs a program that checks the results itself.
#[track_caller]
fn check(name: &str, kind: Kind) {
    let path = program(&format!("tests/c/{name}.c"), kind);
    assert_eq!(run(Command::new(path).arg(domain(name))), format!("{name}: done\n"));
}

#[test]
fn the_functions_do_what_the_header_has() {
    check("api", Kind::Plain);
}

#[test]
fn the_static_library_does_the_same() {
    check("api", Kind::Static);
}

#[test]
fn bad_input_is_a_status_and_a_message() {
    check("bad_input", Kind::Plain);
}

#[test]
fn packets_and_loans_outlive_what_they_came_from() {
    check("lifetimes", Kind::Plain);
}

#[test]
fn a_waker_ends_each_wait_and_loses_nothing() {
    check("wakers", Kind::Plain);
}

#[test]
fn a_wait_set_waits_for_handles_and_descriptors() {
    check("wait_sets", Kind::Plain);
}

#[test]
fn messages_travel_as_bytes_and_types_are_compared() {
    check("messages", Kind::Plain);
}

#[test]
fn calls_have_their_outcomes_in_any_order_of_frees() {
    check("calls", Kind::Plain);
}

#[test]
fn components_run_in_a_harness_with_changes_and_self_tests() {
    check("components", Kind::Plain);
}

#[test]
fn bad_components_are_named() {
    check("bad_components", Kind::Plain);
}

/// Runs the programs with the instrumented `malloc`, which the library also uses. The `malloc`
/// detects use after free, double free and leaks.
#[test]
fn programs_run_under_sanitizers() {
    if has_sanitizers() {
        ["api", "bad_input", "lifetimes", "wakers", "wait_sets", "messages", "components", "bad_components"]
            .iter()
            .for_each(|name| check(name, Kind::Sanitized));
    }
}

/// Runs random calls against a model: loans, sends, ends, packets, windows and frees. A failure
/// prints the command, with the seed.
#[test]
fn random_calls_return_what_the_model_has() {
    let kind = if has_sanitizers() { Kind::Sanitized } else { Kind::Plain };
    let path = program("tests/c/sequences.c", kind);
    for (transport, seed) in [("inproc", "16"), ("shm", "68"), ("inproc", "1000003"), ("shm", "424242")] {
        let domain = domain(&format!("sequences-{transport}-{seed}"));
        let output = run(Command::new(&path).args([&domain, transport, seed, "100"]));
        assert_eq!(output, "sequences: done\n");
    }
}

/// Runs the same test with handles that stay for a thousand sequences, so that many sequences run
/// in a second. For a long run, `STRIPLINE_C_SEQUENCES` sets the number of sequences over each
/// transport.
#[test]
fn many_random_calls_return_what_the_model_has() {
    let kind = if has_sanitizers() { Kind::Sanitized } else { Kind::Plain };
    let path = program("tests/c/sequences.c", kind);
    let count = std::env::var("STRIPLINE_C_SEQUENCES").unwrap_or_else(|_| "3000".into());
    let runs = [("inproc", "20261125"), ("shm", "104729")].map(|(transport, seed)| {
        let domain = domain(&format!("many-{transport}"));
        let mut command = Command::new(&path);
        command.args([&domain, transport, seed, &count, "1000"]);
        std::thread::spawn(move || run(&mut command))
    });
    for output in runs {
        assert_eq!(output.join().unwrap(), "sequences: done\n");
    }
}

/// Runs random calls of components, calls and messages against a model, like the test above.
#[test]
fn random_calls_of_components_and_calls_return_what_the_model_has() {
    let kind = if has_sanitizers() { Kind::Sanitized } else { Kind::Plain };
    let path = program("tests/c/more_sequences.c", kind);
    for seed in ["16", "68", "1000003"] {
        assert_eq!(run(Command::new(&path).args([seed, "60"])), "more_sequences: done\n");
    }
}

/// Checks that the installed library has each symbol of the last release, with the version.
#[test]
fn the_symbols_of_the_last_release_are_there() {
    let library = installed().join("lib/libstripline.so.0");
    let output = match Command::new("nm")
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(&library)
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            eprintln!("NOT RUN: the symbols of the library: nm: {error} (Debian: binutils)");
            return;
        }
    };
    assert!(output.status.success(), "nm failed: {}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let baseline = std::fs::read_to_string(package().join("tests/abi.txt")).unwrap();
    let functions = baseline.lines().filter_map(|line| line.strip_prefix("function "));
    let mut count = 0;
    for function in functions {
        let [name, version] = [0, 1].map(|at| function.split(' ').nth(at).unwrap());
        assert!(
            exported.contains(&format!("{name}@@{version}").as_str()),
            "{name} of {version} is not exported"
        );
        count += 1;
    }
    assert!(count > 50, "the baseline has {count} functions");
}

#[test]
fn a_program_in_cpp_links_and_runs() {
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("NOT RUN: a program in C++: c++ is missing (Debian: g++)");
        return;
    }
    let path = program("tests/c/loopback.cpp", Kind::Plain);
    assert_eq!(run(&mut Command::new(path)), "loopback: done\n");
}

/// Checks that a program calls every function of the header.
#[test]
fn every_function_is_called_by_a_test() {
    let folder = package().join("tests/c");
    let sources: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text: String = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let script = std::fs::read_to_string(package().join("include/stripline.map")).unwrap();
    let functions = script.lines().filter_map(|line| line.trim().strip_suffix(';'));
    for function in functions.filter(|name| name.starts_with("stripline_")) {
        assert!(text.contains(&format!("{function}(")), "no program calls `{function}`");
    }
}

#[test]
fn the_installed_library_has_a_soname_and_versioned_symbols() {
    let library = installed().join("lib/libstripline.so.0");
    if Command::new("readelf").arg("--version").output().is_err() {
        eprintln!("NOT RUN: names in the library: readelf is missing (Debian: binutils)");
        return;
    }
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libstripline.so.0]"), "{dynamic}");
    let symbols =
        run(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&library));
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let script = std::fs::read_to_string(package().join("include/stripline.map")).unwrap();
    let mut expected: Vec<String> = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("stripline_"))
        .map(|name| format!("{name}@@STRIPLINE_0"))
        .collect();
    expected.push("STRIPLINE_0".into());
    expected.sort();
    let mut exported: Vec<String> = exported.iter().map(|name| name.to_string()).collect();
    exported.sort();
    assert_eq!(exported, expected);
}

#[test]
fn the_install_script_refuses_what_it_cannot_use() {
    let script = repository().join("packaging/c-install");
    let failure = |arguments: &[&str]| {
        let output = Command::new(&script).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(failure(&[]).contains("usage"));
    assert!(failure(&["--help"]).contains("usage"));
    assert!(failure(&["a", "b"]).contains("usage"));
    assert!(failure(&["--archive", "/no/such/folder/file.a", "x"]).contains("no archive"));
    assert!(failure(&["--features", "zeromq"]).contains("usage"));
    assert!(failure(&["--features", "zeromq,smoke", "x"]).contains("no feature `smoke`: there are zeromq"));
}

#[test]
fn pkg_config_finds_the_installed_library() {
    let mut query = Command::new("pkg-config");
    query.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")).args(["--cflags", "--libs", "stripline"]);
    if Command::new("pkg-config").arg("--version").output().is_err() {
        eprintln!("NOT RUN: pkg-config is missing (Debian: pkgconf)");
        return;
    }
    let flags = run(&mut query);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let source = package().join("tests/c/lifetimes.c");
    let mut compiler = Command::new("cc");
    compiler.arg(source).arg("-o").arg(&path).args(flags.split_whitespace());
    run(&mut compiler);
    run(Command::new(path).env("LD_LIBRARY_PATH", installed().join("lib")));
}
