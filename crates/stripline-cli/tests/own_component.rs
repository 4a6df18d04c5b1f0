//! A user's own executable beside stock components.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use common::{Running, gain_example, run};

#[test]
fn an_executable_that_links_the_library_runs_beside_stock_components() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("own.toml"), folder.path().join("out.cf32"));
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\n\
         properties = {{ waveform = \"constant\", amplitude = 1.0, duration_s = 0.01, sample_rate = 1e6 }}\n\
         [component.gain]\nexec = \"{}\"\nproperties = {{ factor = 3.0 }}\n\
         [component.file]\ntype = \"file-sink\"\nproperties = {{ path = \"{}\", format = \"cf32\" }}\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"file.in\"\ntransport = \"uds\"\n",
        gain_example().display(),
        out.display(),
    );
    std::fs::write(&path, text).unwrap();
    run(&["check", path.to_str().unwrap()]).says(0, &[]);
    run(&["run", path.to_str().unwrap(), "--quiet"]).says(0, &[]);
    let bytes = std::fs::read(out).unwrap();
    let samples: Vec<f32> =
        bytes.chunks_exact(8).map(|s| f32::from_le_bytes(s[..4].try_into().unwrap())).collect();
    assert_eq!(samples.len(), 10_000);
    assert!(samples.iter().all(|s| *s == 3.0), "{:?}", &samples[..4]);
}

#[test]
fn an_executable_is_changed_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.toml");
    let name = format!("own-{}", std::process::id());
    let text = format!(
        "[waveform]\nname = \"{name}\"\n[component.source]\ntype = \"signal-generator\"\n\
         properties = {{ rate = 48e3, packet = 480 }}\n[component.gain]\nexec = \"{}\"\n\
         [component.end]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n",
        gain_example().display(),
    );
    std::fs::write(&path, text).unwrap();
    let running = Running::start(&["run", path.to_str().unwrap()], 3);
    let set = run(&["set", &name, "gain.factor=3"]);
    set.says(0, &[]);
    assert_eq!(set.stdout, "gain.factor = 3 (was 1)\n");
    run(&["set", &name, "gain.factor=-1"]).says(2, &["`factor` is -1; it must be from 0 to 1000000"]);
    run(&["stop", &name]).says(0, &[]);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn an_executable_looks_at_its_properties_when_asked() {
    let check = |properties: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("properties.json");
        std::fs::write(&path, properties).unwrap();
        let mut command = std::process::Command::new(gain_example());
        command.arg("--check").stdin(std::fs::File::open(path).unwrap());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(check("{\"factor\": 2}"), "null\n");
    assert!(check("{\"factor\": -2}").contains("must be from 0 to"), "{}", check("{\"factor\": -2}"));
}

#[test]
fn an_executable_cannot_be_a_thread_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.toml");
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\n[component.gain]\nexec = \"{}\"\n\
         [component.end]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n",
        gain_example().display(),
    );
    std::fs::write(&path, text).unwrap();
    run(&["run", path.to_str().unwrap(), "--placement", "threads"])
        .says(2, &["gain", "an executable cannot be a thread"]);
}

/// Writes an executable that describes itself with one port, and returns its path.
fn describing(folder: &std::path::Path, name: &str, direction: &str, fields: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let path = folder.join(name);
    let port = if direction == "input" { "in" } else { "out" };
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --describe ] || exit 2\ncat <<'END'\n{{\"name\":\"{name}\",\"summary\":\"One port.\",\
         \"ports\":[{{\"name\":\"{port}\",\"direction\":\"{direction}\",\"types\":{{\"one-of\":[\"det{{{fields}}}\"]}},\
         \"mandatory\":true,\"many_writers\":false,\"summary\":\"detections\"}}],\"properties\":[]}}\nEND\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn executables_with_two_layouts_of_one_name_do_not_pass_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let (new, old) =
        ("range_bin:u32,doppler_bin:s32,level_db:f32", "level_db:f32,range_bin:u32,doppler_bin:s32");
    let detector = describing(folder.path(), "detector", "output", new);
    let check = |fields: &str| {
        let tracker = describing(folder.path(), "tracker", "input", fields);
        let path = folder.path().join("radar.toml");
        let text = format!(
            "[component.radar]\nexec = \"{}\"\n[component.plots]\nexec = \"{}\"\n\
             [[connection]]\nfrom = \"radar.out\"\nto = \"plots.in\"\n",
            detector.display(),
            tracker.display(),
        );
        std::fs::write(&path, text).unwrap();
        run(&["check", path.to_str().unwrap()])
    };
    check(new).says(0, &[]);
    let both = format!("`radar.out` sends det{{{new}}}, but `plots.in` takes det{{{old}}}");
    check(old).says(2, &[&both, "build both programs with the same fields of `det`"]);
    check("range_bin:u32,level_db:f33")
        .says(2, &["`det{range_bin:u32,level_db:f33}` is no layout: at byte 27"]);
}
