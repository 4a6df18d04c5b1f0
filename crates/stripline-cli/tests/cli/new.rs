//! `stripline new`: the new crates are built, tested and run, as users do it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{c_library, repository, run, stripline};

/// Returns the build folder, which the tests share with the workspace.
fn target() -> PathBuf {
    let debug = Path::new(env!("CARGO_BIN_EXE_stripline")).parent().unwrap();
    debug.parent().unwrap().into()
}

/// Tests and builds a new crate without a network. Returns the path of the executable.
fn tested(folder: &Path, name: &str) -> PathBuf {
    // The versions in the workspace's lock file are available offline.
    std::fs::copy(repository("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    for command in ["test", "build"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([command, "--offline", "--quiet"]).current_dir(folder);
        let output = cargo.env("CARGO_TARGET_DIR", target()).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "cargo {command}:\n{stdout}\n{stderr}");
        assert!(!stderr.contains("warning"), "{stderr}");
        assert!(command == "build" || stdout.contains("test result: ok"), "{stdout}");
    }
    target().join("debug").join(name)
}

/// Writes the path of the executable into the waveform file. Returns the path of the waveform file.
fn placed(folder: &Path, name: &str, executable: &Path) -> String {
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = format!("\"target/debug/{name}\"");
    assert!(text.contains(&expected), "{text}");
    let text = text.replace(&expected, &format!("\"{}\"", executable.display()));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn new_components_and_a_new_waveform_are_built_tested_and_run() {
    let parent = tempfile::tempdir().unwrap();
    for kind in ["filter", "mixer", "source", "windowed", "detector"] {
        let name = format!("new-{kind}");
        let folder = parent.path().join(&name);
        let made =
            stripline().args(["new", "component", &name, "--kind", kind]).current_dir(&parent).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let steps = String::from_utf8(made.stdout).unwrap();
        let first = format!("made {name} in Rust (`--lang python`, `cpp` or `c` for others); next:\n");
        assert!(steps.starts_with(&first) && steps.contains(&format!("cd {name}\n")), "{steps}");
        assert!(steps.contains(&format!("stripline run {name}.toml\n")), "{steps}");
        let executable = tested(&folder, &name);
        let waveform = placed(&folder, &name, &executable);
        run(&["check", &waveform]).says(0, &[]);
        run(&["run", &waveform, "--quiet"]).says(0, &[]);
        let described = run(&["components", executable.to_str().unwrap()]);
        described.says(0, &[]);
        assert!(described.stdout.contains(&name), "{}", described.stdout);
    }
    let folder = parent.path().join("a waveform");
    let path = folder.to_str().unwrap();
    let made = run(&["new", "waveform", "new-pulses", "--path", path]);
    made.says(0, &[]);
    assert!(made.stdout.contains(&format!("cd '{path}'\n")), "{}", made.stdout);
    let executable = tested(&folder, "new-pulses");
    let waveform = placed(&folder, "new-pulses", &executable);
    run(&["check", &waveform]).says(0, &[]);
    let done = run(&["run", &waveform, "--quiet"]);
    done.says(0, &[]);
    // At 48,000 samples/s there is a pulse every 1000 samples. A window has 100 samples.
    let expected: String = (0..48).map(|pulse| format!("sample {}: level 0.1\n", pulse * 10)).collect();
    assert_eq!(done.stdout, expected);
}

/// Runs a command of a new project in a shell. Returns all output.
fn step(command: &str, folder: &Path) -> String {
    let mut process = Command::new("sh");
    process.args(["-c", command]).current_dir(folder);
    let output = process.env_remove("CMAKE_PREFIX_PATH").env_remove("PKG_CONFIG_PATH").output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(output.status.success(), "{command}:\n{text}");
    assert!(!text.contains("warning"), "{text}");
    text
}

#[test]
fn new_projects_in_c_and_cpp_are_built_tested_and_run() {
    for tool in ["cmake", "make", "pkg-config", "cc", "c++"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("NOT RUN: {tool} is missing (Debian: cmake make pkgconf gcc g++)");
            return;
        }
    }
    let parent = tempfile::tempdir().unwrap();
    let (installed, (archive, features)) = (parent.path().join("installed"), c_library());
    let mut install = Command::new(repository("packaging/cpp-install"));
    install.arg("--archive").arg(archive).args(["--features", &features]).arg(&installed);
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The installed command prints steps that find the library beside it, without variables.
    let command = installed.join("bin/stripline");
    std::fs::create_dir(installed.join("bin")).unwrap();
    let built = env!("CARGO_BIN_EXE_stripline");
    std::fs::hard_link(built, &command).or_else(|_| std::fs::copy(built, &command).map(drop)).unwrap();
    let [filter, source, detector] =
        ["filter", "source", "detector"].map(|kind| ["component", "--kind", kind]);
    for (lang, test) in [("cpp", "100% tests passed"), ("c", "build/source_test")] {
        for kind in [&filter[..], &source, &detector, &["waveform"]] {
            if lang == "c" && kind.contains(&"detector") {
                continue;
            }
            let name = format!("new-{lang}-{}", kind.last().unwrap());
            let mut new = Command::new(&command);
            let made = new.arg("new").args(kind).args([&name, "--lang", lang]).current_dir(&parent).output();
            let made = made.unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let printed = String::from_utf8(made.stdout).unwrap();
            let steps: Vec<&str> = printed.lines().skip(2).map(|line| line.trim()).collect();
            let [build @ .., check, last] = &steps[..] else { panic!("{printed}") };
            assert_eq!(*check, format!("stripline check {name}.toml"));
            assert_eq!(*last, format!("stripline run {name}.toml"));
            let folder = parent.path().join(&name);
            let commands = build.iter().map(|line| line.trim_end_matches("its tests").trim_end());
            let texts: Vec<String> = commands.map(|command| step(command, &folder)).collect();
            let tested = texts.last().unwrap();
            assert!(tested.contains(test) || kind.contains(&"filter"), "{tested}");
            let waveform = folder.join(format!("{name}.toml"));
            run(&["check", waveform.to_str().unwrap()]).says(0, &[]);
            let report = folder.join("report.json");
            let output = ["--quiet", "--output", report.to_str().unwrap()];
            let done = run(&[&["run", waveform.to_str().unwrap()], &output[..]].concat());
            done.says(0, &[]);
            if lang == "cpp" && kind == ["waveform"] {
                // A pulse every 1000 samples, of 48,000. A window has 100 samples.
                for pulse in 0..48 {
                    let line = format!("packet {pulse}: {{\"level\":2.0,\"sample\":{}}}\n", pulse * 1000);
                    assert!(done.stdout.contains(&line), "{}", done.stdout);
                }
            }
            if kind == source || kind == ["waveform"] {
                let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
                assert_eq!(report["components"][0]["pace"]["rate"], 48e3, "{report}");
            }
            let described = run(&["components", folder.join("build/components").to_str().unwrap()]);
            let expected = if kind == ["waveform"] { "source" } else { &name };
            assert!(described.stdout.contains(expected), "{}", described.stdout);
        }
    }
    let mut make = Command::new("make");
    make.current_dir(parent.path().join("new-c-waveform")).env("PKG_CONFIG_LIBDIR", &installed);
    let text = String::from_utf8(make.env_remove("PKG_CONFIG_PATH").output().unwrap().stderr).unwrap();
    assert!(text.contains("packaging/c-install ~/.local"), "{text}");
    // Without an installed library, CMake takes the source tree, and prints this.
    let folder = parent.path().join("new-cpp-filter");
    let text = step("cmake -B other", &folder);
    assert!(text.contains("No installed Stripline is found, so Cargo builds /"), "{text}");
}

#[test]
fn each_language_names_what_it_has() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("gain");
    let new = |arguments: &[&str]| {
        run(&[&["new", "component", "gain", "--path", path.to_str().unwrap()], arguments].concat())
    };
    new(&["--lang", "java"]).says(2, &["'java'", "rust, python, cpp, c"]);
    for (lang, title) in [("cpp", "C++"), ("c", "C")] {
        let expected = format!("there is no template `mixer` in {title}: choose `filter`, `source`");
        new(&["--lang", lang, "--kind", "mixer"]).says(2, &[&expected]);
    }
    let tree = repository("");
    for (lang, install) in [("python", "pip install"), ("c", "packaging/c-install")] {
        new(&["--lang", lang, "--stripline", tree.to_str().unwrap()])
            .says(2, &["takes the installed", "not `--stripline DIR`", install]);
    }
    new(&["--lang", "cpp", "--stripline", parent.path().to_str().unwrap()])
        .says(2, &["is not a source tree of Stripline"]);
    assert!(!path.exists());
    // The named source tree has precedence over an installed library.
    new(&["--lang", "cpp", "--stripline", tree.to_str().unwrap()]).says(0, &[]);
    let lists = std::fs::read_to_string(path.join("CMakeLists.txt")).unwrap();
    let folder = tree.canonicalize().unwrap().join("bindings/cpp");
    assert!(lists.contains(&format!("[==[{}]==]", folder.display())), "{lists}");
    assert!(!lists.contains("find_package"), "{lists}");
    new(&["--lang", "python"]).says(2, &["has files in it"]);
    let help = run(&["new", "component", "--help"]);
    for lang in ["python", "cpp", "c"] {
        assert!(help.stdout.contains(&format!("--lang {lang}")), "{}", help.stdout);
    }
}

#[test]
fn bad_names_and_used_places_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let new = |name: &str, path: &Path| run(&["new", "component", name, "--path", path.to_str().unwrap()]);
    let free = parent.path().join("free");
    new("Gain", &free).says(2, &["`Gain` is not a valid name", "1 to 64 lower-case letters"]);
    new("../gain", &free).says(2, &["`../gain` is not a valid name"]);
    new("fn", &free).says(2, &["as in `my-fn`"]);
    assert!(!free.exists());
    new("gain", parent.path()).says(2, &["has files in it", "choose another name or `--path`"]);
    new("gain", &file).says(2, &["is not a folder"]);
    new("gain", &file.join("below")).says(2, &["is below a file"]);
    let wrong = parent.path().to_str().unwrap();
    run(&["new", "waveform", "gain", "--path", free.to_str().unwrap(), "--stripline", wrong])
        .says(2, &["is not a source tree of Stripline", "`crates/stripline`"]);
    assert!(!free.exists());
    // The kernel does not allow a folder there, even for root.
    new("gain", Path::new("/proc/gain")).says(1, &["cannot make the folder /proc/gain"]);
    let left: Vec<_> = std::fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left, std::fs::read_to_string(&file).unwrap()), (vec!["file".into()], "kept".into()));
    // The folder exists and is empty, and the source tree is named.
    std::fs::create_dir(&free).unwrap();
    let tree = repository("").canonicalize().unwrap();
    let arguments = ["new", "component", "gain", "--path", free.to_str().unwrap(), "--stripline"];
    run(&[&arguments[..], &[tree.to_str().unwrap()]].concat()).says(0, &[]);
    let manifest = std::fs::read_to_string(free.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let library = tree.join("crates/stripline");
    assert_eq!(manifest["dependencies"]["stripline"]["path"].as_str(), library.to_str());
}

#[test]
fn the_guide_shows_what_is_made() {
    let guide = std::fs::read_to_string(repository("docs/write-components.md")).unwrap();
    let shown = |language: &str| -> Vec<&str> {
        let blocks = guide.split(language).skip(1);
        blocks.map(|block| block.split_once("```").expect("a block has an end").0).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let made = |kind: &str, name: &str, path: &str| {
        let place = folder.path().join(name);
        let place = place.to_str().unwrap();
        match kind {
            "waveform" => run(&["new", kind, name, "--path", place]).says(0, &[]),
            _ => run(&["new", "component", name, "--kind", kind, "--path", place]).says(0, &[]),
        }
        std::fs::read_to_string(Path::new(place).join(path)).unwrap()
    };
    let filter = made("filter", "gain", "src/filter.rs").replace("new(\"gain\"", "new(\"filter\"");
    let source = made("waveform", "pulses", "src/source.rs");
    let rest = ["power", "detector"].map(|module| {
        std::fs::read_to_string(folder.path().join("pulses/src").join(module).with_extension("rs")).unwrap()
    });
    // The page shows the files without the tests.
    let made = [&[filter, source][..], &rest].concat();
    let code = |text: &String| text.split_once("\n#[cfg(test)]\n").expect("a file has tests").0.to_string();
    assert_eq!(shown("```rust\n"), made.iter().map(code).collect::<Vec<_>>());
    // `bindings/python/tests/test_new.py` runs these files.
    let place = |name: &str| folder.path().join(format!("{name}-python"));
    let new = |arguments: &[&str], name: &str| {
        let place = place(name);
        run(&[&["new"], arguments, &[name, "--lang", "python", "--path", place.to_str().unwrap()]].concat())
    };
    let steps = new(&["component"], "gain");
    let (_, next) = steps.stdout.split_once("    python3").unwrap();
    assert!(guide.contains(next.trim_end()), "{next}");
    new(&["waveform"], "pulses").says(0, &[]);
    let read = |project: &str, file: &str| std::fs::read_to_string(place(project).join(file)).unwrap();
    let made = [
        read("gain", "filter.py").replacen("\"gain\"", "\"filter\"", 1),
        read("pulses", "source.py"),
        read("pulses", "power.py"),
        read("pulses", "detector.py"),
        read("gain", "test_filter.py"),
    ];
    assert_eq!(shown("```python\n"), made);
    let steps = run(&["new", "component", "gain", "--path", folder.path().join("steps").to_str().unwrap()]);
    let (_, next) = steps.stdout.split_once("    cargo test").unwrap();
    assert!(guide.contains(next.trim_end()), "{next}");
}
