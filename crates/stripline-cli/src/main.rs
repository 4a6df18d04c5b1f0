//! The `stripline` command: checks and runs waveforms of radio components, and measures links.

/// Writes a line to standard error. Ignores errors of the write: a full or closed log should not
/// end a receiver.
macro_rules! report {
    ($($word:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($word)*)));
    }};
}

mod arguments;
mod bench;
mod builtin;
mod calibrate;
mod call;
mod check;
mod control;
mod data;
mod devices;
mod failure;
mod format;
mod generate;
mod line_file;
mod links;
mod log;
mod new;
mod poll;
mod result_file;
mod run;
mod running;
mod services;
mod show;
mod standard_streams;
mod table;
mod terminal;
mod top;
mod trace;
mod web;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, BenchArguments, BenchCommand, Command};
use failure::Failure;

pub(crate) use failure::Exit;

fn main() -> ExitCode {
    stripline::internal::log_to_stderr();
    stripline_middleware::register();
    if let Err(error) = stripline::internal::process::prepare_for_limits() {
        report!("error: {error}");
        return Exit::Failure.into();
    }
    // A benchmark starts this same executable for each side of a link.
    if let Some(code) = stripline_bench::child_if_launched() {
        return code;
    }
    let registry = stripline_components::registry();
    // The launcher starts this same executable for the stock components.
    if let Some(code) = stripline_waveform::host_if_launched(&registry) {
        return code;
    }
    let arguments = Arguments::parse();
    terminal::set_colour(arguments.color);
    let outcome = match arguments.command {
        Command::Run(arguments) => run::run(&arguments, &registry),
        Command::Check(arguments) => Ok(check::check(&arguments, &registry)),
        Command::Bench(BenchArguments { command: Some(BenchCommand::Ladder(arguments)), .. }) => {
            Ok(bench::ladder(&arguments))
        }
        Command::Bench(BenchArguments { command: Some(BenchCommand::Instructions(arguments)), .. }) => {
            Ok(bench::instructions(&arguments))
        }
        Command::Bench(BenchArguments { command: Some(BenchCommand::Bindings(arguments)), .. }) => {
            Ok(bench::bindings(&arguments))
        }
        Command::Bench(BenchArguments { command: Some(BenchCommand::Compare(arguments)), .. }) => {
            Ok(bench::compare(&arguments))
        }
        Command::Bench(BenchArguments { experiment: arguments, .. }) => Ok(bench::experiment(&arguments)),
        Command::Calibrate(arguments) => Ok(calibrate::calibrate(&arguments)),
        Command::New(arguments) => new::new(&arguments),
        Command::Components(arguments) => show::components(&arguments, &registry),
        Command::Transports(arguments) => Ok(show::transports(&arguments)),
        Command::Devices(arguments) => devices::devices(&arguments),
        Command::Links(arguments) => links::print_links(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Call(arguments) => call::call(&arguments),
        Command::Services(arguments) => services::services(&arguments),
        Command::Waveforms(arguments) => control::waveforms(&arguments),
        Command::Get(arguments) => control::get(&arguments),
        Command::Set(arguments) => control::set(&arguments),
        Command::Test(arguments) => control::test(&arguments),
        Command::Stop(arguments) => control::stop(&arguments),
        Command::Echo(arguments) => data::echo(&arguments),
        Command::Hz(arguments) => data::hz(&arguments),
        Command::Record(arguments) => data::record(&arguments),
        Command::Replay(arguments) => data::replay(&arguments),
        Command::Web(arguments) => web::web(&arguments),
        Command::Schema(arguments) => Ok(generate::schema(&arguments)),
        Command::Completions(arguments) => Ok(generate::completions(&arguments)),
        Command::Man(arguments) => generate::man(&arguments),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report()).into()
}
