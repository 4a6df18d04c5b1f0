//! The programs of the ends: found on the system, or built from sources that are part of this
//! program.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BindingSettings;
use super::plan::{Language, LinkEnds};
use super::rust_end::EndJob;
use crate::Problem;
use crate::machine::printable;
use crate::process::{self, Job};

/// A program to compile, and the header that must be installed for it.
struct Compiler {
    variable: &'static str,
    name: &'static str,
    package: &'static str,
    header: &'static str,
    file: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
}

// `ends` has links to the sources of the bindings, so that the package of this crate contains them.
const C: Compiler = Compiler {
    variable: "CC",
    name: "cc",
    package: "gcc",
    header: "stripline.h",
    file: "ends.c",
    source: include_str!("ends/ends.c"),
    flags: &[],
};
const CPP: Compiler = Compiler {
    variable: "CXX",
    name: "c++",
    package: "g++",
    header: "stripline.hpp",
    file: "ends.cpp",
    source: include_str!("ends/ends.cpp"),
    flags: &["-std=c++17"],
};
const PYTHON_SOURCE: &str = include_str!("ends/ends.py");
const GNURADIO_SOURCE: &str = include_str!("ends/links.py");

/// The programs of all languages.
pub(super) struct Programs {
    folder: Folder,
    rust: Option<PathBuf>,
    prefix: Result<PathBuf, Problem>,
    python: PathBuf,
    gnuradio_python: PathBuf,
    c: OnceCell<Result<PathBuf, Problem>>,
    cpp: OnceCell<Result<PathBuf, Problem>>,
}

impl Programs {
    pub(super) fn new(settings: &BindingSettings) -> Result<Self, Problem> {
        let path = |given: &Option<PathBuf>, default: &str| given.clone().unwrap_or_else(|| default.into());
        Ok(Self {
            folder: Folder::new()?,
            rust: settings.program.clone(),
            prefix: settings.prefix.clone().map_or_else(installed, Ok),
            python: path(&settings.python, "python3"),
            gnuradio_python: path(&settings.gnuradio_python, "/usr/bin/python3"),
            c: OnceCell::new(),
            cpp: OnceCell::new(),
        })
    }

    /// Returns the command that starts an end.
    pub(super) fn command(
        &self,
        subject: &LinkEnds,
        role: &str,
        size: usize,
        name: &str,
    ) -> Result<Command, Problem> {
        let mut command = match subject.language {
            Language::Rust => {
                let (kind, role, name) = (subject.kind.into(), role.into(), name.into());
                let job = Job::End(EndJob { kind, role, size, name });
                return process::command(self.rust.as_ref(), &job);
            }
            Language::C => Command::new(self.c.get_or_init(|| self.build(&C)).clone()?),
            Language::Cpp => Command::new(self.cpp.get_or_init(|| self.build(&CPP)).clone()?),
            Language::Python => {
                let mut command = self.script(&self.python, "ends.py", PYTHON_SOURCE)?;
                command.arg(subject.kind);
                command
            }
        };
        command.args([role, &size.to_string(), name]);
        Ok(command)
    }

    /// Returns the command that measures GNU Radio, without options.
    pub(super) fn gnuradio(&self) -> Result<Command, Problem> {
        self.script(&self.gnuradio_python, "links.py", GNURADIO_SOURCE)
    }

    fn script(&self, python: &Path, name: &str, source: &str) -> Result<Command, Problem> {
        let mut command = Command::new(python);
        command.arg("-c").arg("");
        let is_there = command.output().is_ok_and(|output| output.status.success());
        if !is_there {
            return Err(format!(
                "Python is missing: `{}` does not run (Debian: python3 python3-venv)",
                python.display()
            ));
        }
        let mut command = Command::new(python);
        command.arg(self.folder.write(name, source)?);
        Ok(command)
    }

    /// Compiles a program as documented, with the shared library.
    fn build(&self, compiler: &Compiler) -> Result<PathBuf, Problem> {
        let prefix = self.prefix.as_ref().map_err(Clone::clone)?;
        let header = prefix.join("include").join(compiler.header);
        if !header.is_file() {
            return Err(format!(
                "there is no {}; install it: packaging/cpp-install {}",
                header.display(),
                prefix.display()
            ));
        }
        let name = std::env::var(compiler.variable).unwrap_or_else(|_| compiler.name.into());
        let program = self.folder.0.join(compiler.file.replace('.', "-"));
        let lib = prefix.join("lib");
        let mut command = Command::new(&name);
        command.args(compiler.flags).arg("-O2").arg("-o").arg(&program);
        command.arg(self.folder.write(compiler.file, compiler.source)?);
        command.arg("-I").arg(prefix.join("include")).arg("-L").arg(&lib).arg("-lstripline");
        command.arg(format!("-Wl,-rpath,{}", lib.display()));
        let output = command.output().map_err(|error| {
            format!("the compiler `{name}` is missing (Debian: {}): {error}", compiler.package)
        })?;
        if output.status.success() {
            return Ok(program);
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("error")).or_else(|| text.lines().next_back());
        Err(format!("`{name}` does not compile {}: {}", compiler.file, printable(line.unwrap_or_default())))
    }
}

/// Returns the folder below which Stripline for C is installed, according to `pkg-config`.
fn installed() -> Result<PathBuf, Problem> {
    let found = Command::new("pkg-config").args(["--variable=prefix", "stripline"]).output();
    let text =
        found.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => {
            Err("libstripline is missing: `packaging/cpp-install DIR` installs it; then use --prefix DIR"
                .into())
        }
        prefix => Ok(prefix.into()),
    }
}

/// A folder of this process, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Problem> {
        let path = std::env::temp_dir().join(format!("stripline-bindings-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Writes a file unless it exists: an interpreter that was just started may still be reading
    /// it.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Problem> {
        let path = self.0.join(name);
        if path.exists() {
            return Ok(path);
        }
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let settings = BindingSettings {
            prefix: Some("/nowhere".into()),
            python: Some("/no/python".into()),
            ..BindingSettings::default()
        };
        let programs = Programs::new(&settings).unwrap();
        let subject = |language| LinkEnds { language, kind: "spin", roles: &["ping"], timed: 0 };
        for (language, words) in [
            (Language::C, ["/nowhere/include/stripline.h", "packaging/cpp-install"]),
            (Language::Cpp, ["/nowhere/include/stripline.hpp", "packaging/cpp-install"]),
            (Language::Python, ["/no/python", "python3-venv"]),
        ] {
            let problem = programs.command(&subject(language), "ping", 64, "x").unwrap_err();
            assert!(words.iter().all(|word| problem.contains(word)), "{problem}");
        }
        let folder = programs.folder.0.clone();
        drop(programs);
        assert!(!folder.exists());
    }
}
