//! A component in C beside stock components: `crates/stripline-c/examples/gain.c`.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::waveform::File;
use common::{repository, run, wait_until};
use rustix::process::Signal;

/// Builds the example with the static library of this build.
fn gain(folder: &Path) -> PathBuf {
    let archive = std::env::current_exe().unwrap().with_file_name("libstripline_c.a");
    let program = folder.join("gain");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]);
    compiler.arg(repository("crates/stripline-c/include"));
    compiler.arg(repository("crates/stripline-c/examples/gain.c")).arg(archive).arg("-o").arg(&program);
    let output = compiler.args(["-lpthread", "-lm", "-ldl"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn a_component_in_c_gives_the_samples_of_the_one_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let program = gain(folder.path());
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
    let (of_c, of_rust) = (samples(&program, "c.toml"), samples(&common::gain_example(), "rust.toml"));
    assert_eq!(of_c.len(), 8 * 20_000);
    assert!(of_c == of_rust, "the samples differ");
}

#[test]
fn a_component_in_c_is_read_changed_tested_and_killed_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
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
        gain(folder.path()).display()
    ));
    let running = file.start(&[], 3);
    assert!(run(&["ls", &file.name]).stdout.contains("gain"));
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
