//! `stripline new`: the new crates are built, tested and run, as users do it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{repository, run, stripline};

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
        assert!(steps.contains(&format!("cd {name}\n")), "{steps}");
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

#[test]
fn bad_names_and_used_places_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let new = |name: &str, path: &Path| run(&["new", "component", name, "--path", path.to_str().unwrap()]);
    let free = parent.path().join("free");
    new("Gain", &free).says(2, &["`Gain` is not a valid crate name", "1 to 64 lower-case letters"]);
    new("../gain", &free).says(2, &["`../gain` is not a valid crate name"]);
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
    let shown: Vec<&str> = guide
        .split("```rust\n")
        .skip(1)
        .map(|block| block.split_once("```").expect("a block has an end").0)
        .collect();
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
    assert_eq!(shown, made.iter().map(code).collect::<Vec<_>>());
    let steps = run(&["new", "component", "gain", "--path", folder.path().join("steps").to_str().unwrap()]);
    let (_, next) = steps.stdout.split_once("    cargo test").unwrap();
    assert!(guide.contains(next.trim_end()), "{next}");
}
