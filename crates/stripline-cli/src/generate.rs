//! `stripline schema`, `completions` and `man`: texts generated from the definitions of the files
//! and of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use stripline_bench::experiment;
use stripline_waveform::internal::{topics_schema, waveform_schema};

use crate::Exit;
use crate::arguments::{
    Arguments, CompletionsArguments, ManArguments, SchemaArguments, SchemaKind, ShellArgument,
};
use crate::control::print_json;
use crate::failure::{Failure, Outcome};
use crate::show::print;

pub(crate) fn schema(arguments: &SchemaArguments) -> Exit {
    print_json(&match arguments.kind {
        SchemaKind::Waveform => waveform_schema(),
        SchemaKind::Topics => topics_schema(),
        SchemaKind::Experiment => experiment::schema(),
    })
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Exit {
    let shell = match arguments.shell {
        ShellArgument::Bash => Shell::Bash,
        ShellArgument::Zsh => Shell::Zsh,
        ShellArgument::Fish => Shell::Fish,
    };
    // The generator panics if it cannot write. A write to memory does not fail.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "stripline", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(arguments: &ManArguments) -> Outcome {
    let folder = &arguments.output;
    let fail = |path: &Path, error| Failure::usage(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error: std::io::Error| fail(folder, error))?;
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut commands = vec![command];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
        let path = folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page);
        rendered.and_then(|()| std::fs::write(&path, page)).map_err(|error| fail(&path, error))?;
    }
    Ok(Exit::Clean)
}
