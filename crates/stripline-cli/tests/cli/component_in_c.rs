//! Components in C and in C++ beside stock components: `crates/stripline-c/examples/gain.c` and
//! `bindings/cpp/examples/gain.cpp`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common;
use crate::common::waveform::File;
use crate::common::{repository, run, wait_until};
use rustix::process::Signal;

/// The component of each language: source, compiler and compiler options.
const LANGUAGES: [(&str, &str, &[&str]); 2] = [
    ("crates/stripline-c/examples/gain.c", "cc", &["-std=c11"]),
    ("bindings/cpp/examples/gain.cpp", "c++", &["-std=c++17"]),
];

/// Returns the examples, built with the static library of this build. Both tests share them.
fn gains() -> &'static [PathBuf] {
    static GAINS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    GAINS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (archive, features) = common::c_library();
        let native = Command::new(repository("packaging/native-libraries")).arg(features).output().unwrap();
        let native = String::from_utf8(native.stdout).unwrap();
        let build = |&(source, compiler, options): &(&str, &str, &[&str])| {
            if Command::new(compiler).arg("--version").output().is_err() {
                eprintln!("NOT RUN: {source}: {compiler} is missing (Debian: gcc g++)");
                return None;
            }
            let program = folder.join(format!("gain-{compiler}"));
            let mut command = Command::new(compiler);
            command.args(options).args(["-Wall", "-Wextra", "-Werror", "-O2"]);
            for include in ["crates/stripline-c/include", "bindings/cpp/include"] {
                command.arg("-I").arg(repository(include));
            }
            command.arg(repository(source)).arg(&archive).arg("-o").arg(&program);
            let output = command.args(native.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        };
        let programs: Vec<PathBuf> = LANGUAGES.iter().filter_map(build).collect();
        assert!(!programs.is_empty(), "a C compiler is part of every build");
        programs
    })
}

#[test]
fn components_in_c_and_cpp_give_the_samples_of_the_one_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let samples = |exec: &Path, name: &str| {
        let (path, out) = (folder.path().join(name), folder.path().join(format!("{name}.cf32")));
        let text = format!(
            "[component.source]\ntype = \"signal-generator\"\n\
             properties = {{ waveform = \"sine\", frequency = 1e3, duration_s = 0.02, sample_rate = 1e6 }}\n\
             [component.gain]\nexec = \"{}\"\nproperties = {{ factor = 3.0 }}\n\
             [component.file]\ntype = \"file-sink\"\nproperties = {{ path = \"{}\", format = \"cf32\" }}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
             [[connection]]\nfrom = \"gain.out\"\nto = \"file.in\"\ntransport = \"uds\"\n",
            exec.display(),
            out.display(),
        );
        std::fs::write(&path, text).unwrap();
        run(&["check", path.to_str().unwrap()]).says(0, &[]);
        run(&["run", path.to_str().unwrap(), "--quiet"]).says(0, &[]);
        std::fs::read(out).unwrap()
    };
    let expected = samples(&common::gain_example(), "rust.toml");
    assert_eq!(expected.len(), 8 * 20_000);
    for (number, program) in gains().iter().enumerate() {
        assert!(
            samples(program, &format!("other-{number}.toml")) == expected,
            "{} gives other samples",
            program.display()
        );
    }
}

#[test]
fn components_in_c_and_cpp_are_read_changed_tested_and_killed_while_they_run() {
    gains().iter().for_each(|program| is_controlled(program));
}

fn is_controlled(program: &Path) {
    let file = File::new(&format!(
        r#"
        [component.source]
        type = "signal-generator"
        properties = {{ rate = 48e3, packet = 480 }}
        [component.gain]
        exec = "{}"
        restart = "on-failure"
        [component.end]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "gain.in"
        [[connection]]
        from = "gain.out"
        to = "end.in"
        "#,
        program.display()
    ));
    let running = file.start(&[], 3);
    assert!(run(&["waveforms", &file.name]).stdout.contains("gain"));
    file.ask("set", &["gain.factor=3"]).prints("gain.factor = 3 (was 1)\n");
    file.ask("get", &["gain.factor"]).prints("3\n");
    file.ask("set", &["gain.factor=-1"]).says(2, &["`factor` is -1; it must be from 0 to 1000000"]);
    let refused = file.ask("set", &["gain.factor=0"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("a factor of 0 would hide the signal"), "{}", refused.stderr);
    file.ask("get", &["gain.factor"]).prints("3\n");
    wait_until("packets are counted", || file.property("gain.packets")["value"].as_i64() > Some(3));
    let tested = file.ask("test", &["gain"]);
    tested.says(0, &[]);
    assert!(tested.stdout.contains("a one becomes the factor"), "{}", tested.stdout);

    let before = running.component("gain");
    common::send(before, Signal::KILL);
    wait_until("it is started again", || {
        running.components().iter().any(|(name, pid)| name == "gain" && *pid != before)
    });
    wait_until("packets are counted", || file.property("gain.packets")["value"].as_i64() > Some(3));
    file.ask("stop", &[]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}
