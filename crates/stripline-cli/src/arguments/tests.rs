//! Tests of the arguments and help texts.

use super::*;
use clap::CommandFactory;

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}

/// Returns a command and all commands within it, at any depth.
fn with_all_within(command: &clap::Command) -> Vec<&clap::Command> {
    let within = command.get_subcommands().flat_map(with_all_within);
    std::iter::once(command).chain(within).collect()
}

#[test]
fn every_command_has_examples_and_exit_codes() {
    for command in with_all_within(&Arguments::command()) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for words in ["Examples:", "Exit codes:"] {
            assert!(help.contains(words), "{words} of {}", command.get_name());
        }
    }
}

/// Checks that each example and each paragraph is one line. The terminal breaks long lines.
#[test]
fn a_help_text_has_no_line_break_within_a_paragraph() {
    for command in with_all_within(&Arguments::command()) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for paragraph in help.split("\n\n") {
            let is_list = paragraph.starts_with("Examples:");
            for (number, line) in paragraph.split('\n').enumerate() {
                let indent = line.len() - line.trim_start().len();
                let expected = if is_list && number > 0 { 2 } else { 0 };
                let is_sound = indent == expected && line == line.trim_end() && (is_list || number == 0);
                assert!(is_sound, "{}: `{line}`", command.get_name());
            }
        }
    }
}

#[test]
fn json_is_a_switch_and_its_file_is_an_option() {
    let destination = |words: &str| {
        let arguments = Arguments::try_parse_from(words.split(' ')).expect("it is right");
        let Command::Run(run) = arguments.command else { panic!("another command") };
        assert_eq!(run.file, Path::new("x.toml"), "{words}");
        run.json.destination().map_or(String::new(), |path| path.display().to_string())
    };
    assert_eq!(destination("stripline run x.toml"), "");
    for words in ["stripline run x.toml --json", "stripline run --json x.toml"] {
        assert_eq!(destination(words), "-", "{words}");
        assert_eq!(destination(&format!("{words} --output r.json")), "r.json", "{words}");
    }
    assert_eq!(destination("stripline run x.toml --output r.json"), "r.json");
    for words in ["stripline run --json", "stripline run x.toml --json r.json", "stripline bench --json"] {
        assert!(Arguments::try_parse_from(words.split(' ')).is_err(), "{words}");
    }
}

#[test]
fn times_out_of_range_are_refused() {
    for bad in ["0", "-1", "nan", "inf", "soon", "1e10"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
    assert_eq!(seconds("0.5"), Ok(0.5));
}
