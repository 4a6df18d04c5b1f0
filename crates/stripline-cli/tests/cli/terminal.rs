//! Tables and findings on terminals of several widths, with colours and without.

use std::process::Command;

use crate::common::pty::on_terminal;
use crate::common::waveform::File;
use crate::common::{repository, run, stripline};

const WIDTHS: [u16; 3] = [60, 80, 200];

fn command(arguments: &[&str]) -> Command {
    let mut command = stripline();
    command.args(arguments).env("TERM", "xterm");
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(variable);
    }
    command
}

/// Returns the words of a text. Colours and line ends are not parts of a word.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[track_caller]
fn assert_fits(width: u16, text: &str) {
    // A warning about another process goes to standard error, and is not part of the table.
    for line in text.lines().filter(|line| !line.starts_with("warning: ")) {
        // Progress is cleared and written again within a line. Only the last text of the line
        // stays.
        let line = line.rsplit("\x1b[2K").next().unwrap_or(line);
        let columns = line.chars().count();
        // A single word may be longer than the line.
        assert!(columns <= width.into() || words(line).len() == 1, "{columns} of {width} columns: {line}");
    }
}

#[test]
fn listings_fit_and_break_no_word() {
    for arguments in [&["components"][..], &["components", "fir-filter"], &["transports"]] {
        let whole = run(arguments).stdout;
        for width in WIDTHS {
            let (code, text) = on_terminal(width, command(arguments));
            assert_eq!(code, Some(0), "{text}");
            assert_fits(width, &text);
            // No word is broken or lost.
            for word in words(&whole) {
                assert!(text.contains(word), "{arguments:?}: `{word}` is not in:\n{text}");
            }
        }
    }
}

#[test]
fn columns_overrides_the_terminal_and_bounds_a_pipe() {
    let (_, narrow) = on_terminal(200, {
        let mut narrow = command(&["transports"]);
        narrow.env("COLUMNS", "60");
        narrow
    });
    assert_fits(60, &narrow);
    let piped = command(&["transports"]).env("COLUMNS", "60").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stdout), narrow);
    for nonsense in ["", "0", "wide", "-1"] {
        let output = command(&["transports"]).env("COLUMNS", nonsense).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), run(&["transports"]).stdout, "{nonsense}");
    }
}

#[test]
fn tables_of_a_running_waveform_fit() {
    let waveform = File::radio();
    let _running = waveform.start(&[], 3);
    for width in WIDTHS {
        let tables = [
            (&["waveforms"][..], "NAME"),
            (&["waveforms", &waveform.name], "COMPONENT"),
            (&["get", &waveform.name], "PROPERTY"),
            (&["links", &waveform.name], "FROM"),
        ];
        for (arguments, title) in tables {
            // A colour takes characters, but no column.
            let (code, text) = on_terminal(width, command(&[arguments, &["--color=never"]].concat()));
            assert_eq!(code, Some(0), "{text}");
            // A warning about another process may be printed before the table.
            let table = text.lines().skip_while(|line| !line.contains(title)).collect::<Vec<_>>().join("\n");
            assert!(!table.is_empty(), "{text}");
            assert_fits(width, &table);
        }
        let (_, links) = on_terminal(width, command(&["links", &waveform.name]));
        assert!(links.contains("tone.out") && links.contains("filter.out"), "{links}");
        // All rows have the same transport. If the column is left out, the remark names the
        // transport.
        let is_wide = links.lines().find(|line| line.contains("FROM")).unwrap().contains("TRANSPORT");
        assert!(
            is_wide || words(&links).join(" ").contains("TRANSPORT (shm in all rows)"),
            "{width}: {links}"
        );
    }
}

#[test]
fn the_report_of_a_run_fits() {
    let waveform = File::radio();
    let path = waveform.path("file.toml");
    for width in WIDTHS {
        let (code, text) = on_terminal(width, command(&["run", path.to_str().unwrap(), "--duration", "2"]));
        assert_eq!(code, Some(0), "{text}");
        // The progress is printed before the report.
        let report = text.rsplit_once(") after ").unwrap().1;
        assert_fits(width, report);
        let header = report.lines().find(|line| line.contains("CONNECTION")).unwrap();
        assert!(header.contains("LOST"), "{report}");
        assert_eq!(header.contains("REORDERED"), width == 200, "{report}");
        assert_eq!(report.contains("Not shown: "), width != 200, "{report}");
    }
}

#[test]
fn the_aircraft_table_fits() {
    let waveform = repository("waveforms/adsb.toml");
    for width in WIDTHS {
        let mut command = command(&["run", waveform.to_str().unwrap(), "--duration", "1"]);
        command.args(["--transport", "inproc", "--placement", "threads"]);
        let (code, text) = on_terminal(width, command);
        assert_eq!(code, Some(0), "{text}");
        let table = &text[text.find("ICAO").unwrap()..];
        let table = table.split_once("adsb ").unwrap().0;
        assert_fits(width, table);
        assert!(table.contains("longitude"), "{table}");
        assert_eq!(table.contains("Not shown: climb, track"), width < 100, "{table}");
    }
}

#[test]
fn findings_are_coloured_on_a_terminal_only_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    std::fs::write(&path, "[component.a]\ntype = \"no-such-type\"\n").unwrap();
    let path = path.to_str().unwrap();
    for name in ["check", "run"] {
        let red = "\x1b[1m\x1b[91merror";
        let coloured = |variables: &[(&str, &str)], options: &[&str]| {
            let mut command = command(&[&[name, path], options].concat());
            command.envs(variables.iter().copied());
            let (code, text) = on_terminal(80, command);
            assert_eq!(code, Some(2), "{text}");
            assert!(text.contains("no-such-type"), "{text}");
            assert_eq!(text.contains(red), text.contains('\x1b'), "{text:?}");
            text.contains(red)
        };
        assert!(coloured(&[], &[]));
        assert!(coloured(&[("NO_COLOR", "1")], &["--color=always"]));
        assert!(!coloured(&[("NO_COLOR", "1")], &[]));
        assert!(!coloured(&[], &["--color=never"]));
        assert!(!coloured(&[("TERM", "dumb")], &["--color", "auto"]));
        let piped = |variable: &str, value: &str, options: &[&str]| {
            let arguments = [&[name, path], options].concat();
            let output = command(&arguments).env(variable, value).output().unwrap();
            String::from_utf8_lossy(&output.stderr).contains('\x1b')
        };
        assert!(!piped("TERM", "xterm", &[]));
        assert!(piped("TERM", "xterm", &["--color=always"]));
        assert!(piped("CLICOLOR_FORCE", "1", &[]));
    }
}

#[test]
fn states_are_coloured() {
    let waveform = File::radio();
    let _running = waveform.start(&[], 3);
    let (_, text) = on_terminal(200, command(&["waveforms", &waveform.name]));
    assert!(text.contains("\x1b[32mrunning\x1b[0m"), "{text:?}");
    let (_, text) = on_terminal(200, command(&["waveforms", &waveform.name, "--color=never"]));
    assert!(text.contains("running") && !text.contains('\x1b'), "{text:?}");
}
