//! The command that starts a component's program: an executable, or an interpreter with a script.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::text::quoted;

/// A program of the user, with the arguments that stand before the launcher's arguments.
///
/// ```
/// use stripline_waveform::ProgramCommand;
///
/// let gain = ProgramCommand::from("target/release/gain");
/// assert_eq!((gain.to_string(), gain.arguments.len()), ("gain".into(), 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramCommand {
    /// The file to start. A name without a folder stands for a program that was not found in
    /// `PATH`.
    pub program: PathBuf,
    /// The first arguments, for example the path of a script.
    pub arguments: Vec<PathBuf>,
}

/// The command of a program without arguments.
impl<P: Into<PathBuf>> From<P> for ProgramCommand {
    fn from(program: P) -> Self {
        Self { program: program.into(), arguments: Vec::new() }
    }
}

/// Prints for users: names are printed without their folders.
impl fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        f.write_str(&name(&self.program))?;
        // Only a file that was found has an absolute path here. An option may contain slashes too.
        self.arguments.iter().try_for_each(|argument| match argument.is_absolute() {
            true => write!(f, " {}", name(argument)),
            false => write!(f, " {}", argument.display()),
        })
    }
}

impl ProgramCommand {
    /// Resolves a list of the form that `exec` has. A first text without `/` is a program in a
    /// folder of `PATH`. An argument that is a file in `folder`, the folder of the waveform file,
    /// is replaced by the absolute path.
    pub(super) fn find(program: &str, arguments: &[String], folder: &Path) -> Self {
        let found = if program.contains('/') {
            folder.join(program)
        } else {
            in_path(program, std::env::var_os("PATH").as_deref()).unwrap_or_else(|| program.into())
        };
        let argument = |text: &String| match folder.join(text) {
            path if !text.starts_with('-') && path.is_file() => std::path::absolute(&path).unwrap_or(path),
            _ => text.into(),
        };
        Self { program: found, arguments: arguments.iter().map(argument).collect() }
    }

    /// Returns whether the program was not found in any folder of `PATH`.
    pub(super) fn is_not_in_path(&self) -> bool {
        !self.program.as_os_str().is_empty() && self.program.parent() == Some(Path::new(""))
    }

    /// Returns whether an interpreter runs the program.
    pub(super) fn is_list(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Returns whether the program is a script in Python, by the names.
    pub(super) fn is_python(&self) -> bool {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let is_script = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "py");
        name.starts_with("python") || is_script(&self.program) || self.arguments.iter().any(is_script)
    }

    /// Returns a command that starts the program, with the first arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    /// Returns the program with all paths, as in a shell.
    pub(super) fn line(&self) -> String {
        let arguments = self.arguments.iter().map(|argument| format!(" {}", argument.display()));
        format!("{}{}", self.program.display(), arguments.collect::<String>())
    }

    /// Returns the program in quotes, for messages.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.to_string())
    }
}

/// Returns the path of a program: the first executable file of this name in the folders of `PATH`.
fn in_path(name: &str, folders: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    std::env::split_paths(folders?).map(|folder| absolute(folder.join(name))).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_found_as_a_shell_does_and_a_script_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gain.py"), "").unwrap();
        std::fs::write(folder.path().join("-u"), "").unwrap();
        let texts = ["-u", "gain.py", "missing.py"].map(String::from);
        let command = ProgramCommand::find("sh", &texts, folder.path());
        assert!(command.program.is_absolute() && command.program.ends_with("sh"), "{command:?}");
        let script = folder.path().join("gain.py");
        assert_eq!(command.arguments, [Path::new("-u"), &script, Path::new("missing.py")]);
        assert_eq!(command.to_string(), "sh -u gain.py missing.py");
        assert!(command.is_python() && !ProgramCommand::from("/bin/gain").is_python());

        let missing = ProgramCommand::find("no-such-interpreter", &texts, folder.path());
        assert!(missing.is_not_in_path() && !command.is_not_in_path());
        let beside = ProgramCommand::find("./gain.py", &[], folder.path());
        assert_eq!(beside.program, folder.path().join("./gain.py"));
        assert!(!beside.is_not_in_path() && !beside.is_list());
    }

    #[test]
    fn a_file_that_is_no_program_is_passed_over_in_the_path() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::write(first.path().join("tool"), "").unwrap();
        std::fs::create_dir(second.path().join("tool")).unwrap();
        let folders = std::env::join_paths([first.path(), second.path()]).unwrap();
        assert_eq!(in_path("tool", Some(&folders)), None);
        assert_eq!(in_path("sh", None), None);
    }
}
