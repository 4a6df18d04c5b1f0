//! Generates the header and the linker's version script from the source of this crate, and compares
//! them with the committed files. `STRIPLINE_BLESS=1` writes the files instead.

#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

mod abi;
mod emit;
mod layouts;
mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = "include/stripline.h";
const SCRIPT: &str = "include/stripline.map";
const ABI: &str = "tests/abi.txt";
/// A function of iceoryx2's logger, which Rust exports from Cargo's library. The version script
/// hides it in the installed library (`tests/programs`).
const ICEORYX2_LOGGER: &str = "__internal_default_logger";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a file with the new text, or writes it.
fn check(path: &str, text: &str) {
    let file = package().join(path);
    if std::env::var_os("STRIPLINE_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        committed == text,
        "{path} differs from the source (first at line {:?}); run this test with STRIPLINE_BLESS=1",
        differs.map(|line| line + 1)
    );
}

#[test]
fn the_header_is_that_of_the_source() {
    check(HEADER, &emit::header(&source::read(package())));
}

#[test]
fn the_version_script_has_all_functions() {
    check(SCRIPT, &emit::version_script(&source::read(package())));
}

/// Checks that every function documents ownership, blocking and threads.
#[test]
fn every_function_documents_ownership_blocking_and_threads() {
    for function in source::read(package()).modules.iter().flat_map(|module| &module.functions) {
        for rule in ["- Ownership: ", "- Blocking: ", "- Threads: "] {
            let has = function.docs.iter().any(|line| line.starts_with(rule));
            assert!(has, "`{}` has no line `{rule}`", function.name);
        }
    }
}

/// Returns the shared library of this build.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf();
    folder.join("deps/libstripline_c.so")
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let output = match Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("NOT RUN: the symbols of the library: nm: {error} (Debian: binutils)");
            return;
        }
    };
    assert!(output.status.success(), "nm failed: {}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let mut exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).map(String::from).collect();
    stripline_middleware::register();
    if stripline::transport::all().any(|transport| transport.name == "iceoryx2") {
        exported.remove(ICEORYX2_LOGGER);
    }
    let source = source::read(package());
    let declared: BTreeSet<String> =
        source.modules.iter().flat_map(|module| &module.functions).map(|it| it.name.clone()).collect();
    assert_eq!(exported, declared, "left: exported by the library; right: declared in the header");
}

fn compile(compiler: &str, arguments: &[&str], file: &str, text: &str) -> bool {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("NOT RUN: the header with {compiler}, which is missing");
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
    let output = command.arg(package().join("include")).args(arguments).arg(&path).output().unwrap();
    assert!(output.status.success(), "{compiler} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    let text = "#include <stripline.h>\nint main(void) { return STRIPLINE_OK; }\n";
    assert!(compile("cc", &["-std=c11"], "program.c", text), "a C compiler is part of every build");
    compile("cc", &["-std=c17"], "program.c", text);
    for standard in ["-std=c++17", "-std=c++20"] {
        compile("c++", &[standard], "program.cpp", text);
    }
}

/// Compares the sizes and offsets in the library with the numbers of a C compiler.
#[test]
fn structures_have_the_same_layout_on_both_sides() {
    let mut text = String::from("#include <stddef.h>\n#include <stripline.h>\n");
    for layout in layouts::all() {
        let name = format!("stripline_{}", source::snake(layout.name));
        text += &format!("_Static_assert(sizeof({name}) == {}, \"size\");\n", layout.size);
        for (member, offset) in layout.members {
            text += &format!("_Static_assert(offsetof({name}, {member}) == {offset}, \"{member}\");\n");
        }
    }
    text += "int main(void) { return 0; }\n";
    assert!(compile("cc", &["-std=c11"], "layouts.c", &text));
    let source = source::read(package());
    let declared: BTreeSet<&str> =
        source.modules.iter().flat_map(|module| &module.structures).map(|it| it.name.as_str()).collect();
    assert_eq!(layouts::all().iter().map(|it| it.name).collect::<BTreeSet<_>>(), declared);
}

/// Compares the statuses with the committed table. No test writes the table: a new status adds a
/// line, and existing lines never change.
#[test]
fn statuses_keep_their_numbers() {
    let table = std::fs::read_to_string(package().join("tests/statuses.txt")).unwrap();
    let header = std::fs::read_to_string(package().join(HEADER)).unwrap();
    let (_, statuses) = header.split_once("enum stripline_status_number {").unwrap();
    let (statuses, _) = statuses.split_once("};").unwrap();
    let declared: Vec<String> = statuses
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
        .map(|(name, number)| format!("{name} {number}"))
        .collect();
    assert_eq!(declared, table.lines().collect::<Vec<_>>(), "left: the header; right: tests/statuses.txt");
}

/// Compares the binary interface with the interface of the last release. `packaging/abi-baseline`
/// sets the variable to write it.
#[test]
fn what_programs_rely_on_stays() {
    let now = abi::text(&source::read(package()), &layouts::all());
    let file = package().join(ABI);
    if std::env::var_os("STRIPLINE_ABI_BASELINE").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let broken = abi::broken(&std::fs::read_to_string(&file).unwrap(), &now);
    assert!(
        broken.is_empty(),
        "programs built against the last release would fail:\n  {}\nTake the change back. If it must be: raise \
         the library's number (docs/c.md, Versions), and write a new baseline (packaging/abi-baseline)",
        broken.join("\n  ")
    );
}

/// Compares the numbers up to 999 with the numbers in `docs/errors.md`.
#[test]
fn errors_have_the_numbers_of_the_page() {
    let page = std::fs::read_to_string(package().join("../../docs/errors.md")).unwrap();
    let table = std::fs::read_to_string(package().join("tests/statuses.txt")).unwrap();
    for line in table.lines() {
        let (name, number) = line.split_once(' ').unwrap();
        let number: i32 = number.parse().unwrap();
        if (1..1000).contains(&number) {
            let word = name.trim_start_matches("STRIPLINE_").to_lowercase().replace('_', "-");
            let item = format!("\n- {number} `{word}` (");
            assert!(page.contains(&item), "docs/errors.md has no item with {number} and `{word}`");
        }
    }
}
