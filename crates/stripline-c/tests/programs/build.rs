//! Installs the library into a folder of this test, and builds C programs against it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The way in which a program is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With warnings as errors, and no other option.
    Plain,
    /// With AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
    /// With the static library.
    Static,
}

pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    package().ancestors().nth(2).unwrap().to_path_buf()
}

/// Returns the static library of this build.
pub fn archive() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libstripline_c.a")
}

/// Returns the features of this build for other middleware. Another package of the same build may
/// have enabled them.
pub fn features() -> String {
    stripline_middleware::register();
    let middleware = stripline::transport::all().filter(|transport| transport.library.is_some());
    middleware.map(|transport| transport.name).collect::<Vec<_>>().join(",")
}

/// Returns the linker options for the native libraries that the static library needs.
fn native_libraries() -> Vec<String> {
    let script = repository().join("packaging/native-libraries");
    run(Command::new(script).arg(features())).split_whitespace().map(String::from).collect()
}

/// Runs a command that must succeed, and returns the output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Returns the folder with the installed library. The folder is made once, for all tests.
pub fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-install");
        let _ = std::fs::remove_dir_all(&prefix);
        let script = repository().join("packaging/c-install");
        run(Command::new(script)
            .arg("--archive")
            .arg(archive())
            .args(["--features", &features()])
            .arg(&prefix));
        prefix
    })
}

/// Builds a program of a folder of this package, and returns the executable.
#[track_caller]
pub fn program(source: &str, kind: Kind) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-programs");
    std::fs::create_dir_all(&folder).unwrap();
    let suffix = match kind {
        Kind::Plain => "",
        Kind::Sanitized => "-sanitized",
        Kind::Static => "-static",
    };
    let name = format!("{}{suffix}", Path::new(source).file_stem().unwrap().to_str().unwrap());
    // Tests run at the same time, so each has an executable of its own.
    let path = folder.join(format!("{name}-{:?}", std::thread::current().id()).replace(['(', ')'], ""));
    let lib = installed().join("lib");
    let is_cpp = source.ends_with(".cpp");
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"]);
    // POSIX functions in addition to C11.
    compiler.args(if is_cpp {
        ["-std=c++17"].as_slice()
    } else {
        &["-std=c11", "-D_POSIX_C_SOURCE=200809L"]
    });
    if kind == Kind::Sanitized {
        compiler.args(SANITIZERS);
    }
    compiler.arg("-I").arg(installed().join("include")).arg(package().join(source)).arg("-o").arg(&path);
    if kind == Kind::Static {
        compiler.arg(lib.join("libstripline.a")).args(native_libraries());
    } else {
        compiler.arg("-L").arg(&lib).arg("-lstripline").arg(format!("-Wl,-rpath,{}", lib.display()));
    }
    run(compiler.arg("-lm"));
    path
}

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Returns whether the compiler has the sanitizers. Prints a message if not.
pub fn has_sanitizers() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(SANITIZERS).arg(&source).arg("-o").arg(folder.path().join("program"));
    let has = compiler.output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("NOT RUN: with sanitizers, which the C compiler does not have (Debian: libasan8)");
    }
    has
}
