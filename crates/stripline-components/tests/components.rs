//! The stock components in running waveforms, over real links.
//!
//! The launcher starts this program again for the components, so it has its own `main`. A word on
//! the command line selects the tests with that word in their names.

#![allow(clippy::unwrap_used)]

mod waveforms;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = stripline_waveform::host_if_launched(&waveforms::registry()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        waveforms::TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted = |name: &str| {
        let mut words = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
        words.peek().is_none() || words.any(|word| name.contains(word.as_str()))
    };
    let mut failed = Vec::new();
    for (name, test) in waveforms::TESTS.iter().filter(|(name, _)| wanted(name)) {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
