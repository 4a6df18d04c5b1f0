//! A user's own executable beside stock components.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common;
use crate::common::{Running, example, gain_example, repository, run};
use rustix::process::Signal;

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
fn a_script_behind_an_interpreter_runs_beside_stock_components() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("script.toml"), folder.path().join("out.cf32"));
    let script = format!("exec {} \"$@\"\n", gain_example().display());
    std::fs::write(folder.path().join("gain.sh"), script).unwrap();
    let text = format!(
        "[component.source]\ntype = \"signal-generator\"\n\
         properties = {{ waveform = \"constant\", amplitude = 1.0, duration_s = 0.01, sample_rate = 1e6 }}\n\
         [component.gain]\nexec = [\"sh\", \"gain.sh\"]\nproperties = {{ factor = 3.0 }}\n\
         [component.file]\ntype = \"file-sink\"\nproperties = {{ path = \"{}\", format = \"cf32\" }}\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
         [[connection]]\nfrom = \"gain.out\"\nto = \"file.in\"\n",
        out.display(),
    );
    std::fs::write(&path, text).unwrap();
    // The command runs in another folder. The script is found beside the waveform file.
    run(&["run", path.to_str().unwrap(), "--quiet"]).says(0, &[]);
    let bytes = std::fs::read(out).unwrap();
    let is_three = |sample: &[u8]| f32::from_le_bytes(sample[..4].try_into().unwrap()) == 3.0;
    assert!(bytes.len() == 80_000 && bytes.chunks_exact(8).all(is_three));

    // An executable that prints before its description is refused, and nothing starts.
    std::fs::write(folder.path().join("gain.sh"), "echo loading\n").unwrap();
    run(&["run", path.to_str().unwrap()])
        .says(2, &["`sh gain.sh` --describe", "printed `loading`", "standard error"]);
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
    set.prints("gain.factor = 3 (was 1)\n");
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
fn thirty_blocks_of_one_executable_share_a_process() {
    let text = std::fs::read_to_string(repository("waveforms/blocks.toml")).unwrap();
    let name = format!("blocks-{}", std::process::id());
    let program = example("blocks");
    let text = text
        .replace("../target/release/examples/blocks", program.to_str().unwrap())
        .replace("name = \"blocks\"", &format!("name = \"{name}\""));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks.toml");
    std::fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    run(&["check", path]).says(0, &[]);
    // The sum of 1 to 100 is 5050, and 28 is added to each of the hundred numbers.
    let expected = "the sum is 7850\n";
    let json = folder.path().join("report.json");
    let done = run(&["run", path, "--quiet", "--output", json.to_str().unwrap()]);
    done.says(0, &[]);
    assert_eq!(done.stdout, expected);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let links = report["connections"].as_array().unwrap();
    assert!(links.len() == 29 && links.iter().all(|link| link["transport"] == "inproc"), "{report}");
    // Without a pace, the run is over at once. With a large count, the processes can be counted.
    let endless =
        text.replacen("[component.count]", "[component.count]\nproperties = { packets = 1048576 }", 1);
    std::fs::write(path, endless.replace("placement = \"thread\"\n", "")).unwrap();
    let running = Running::start(&["run", path, "--placement", "threads"], 1);
    running.signal(Signal::INT);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn an_executable_with_several_types_explains_itself() {
    let blocks = |arguments: &[&str], input: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, input.unwrap_or_default()).unwrap();
        let mut command = std::process::Command::new(example("blocks"));
        let output = command.args(arguments).stdin(std::fs::File::open(path).unwrap()).output().unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), texts.concat())
    };
    let (code, text) = blocks(&["--describe"], None);
    let types: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> = types.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!((code, &names[..]), (Some(0), &["add", "count", "sum"][..]));
    assert_eq!(blocks(&["--check", "add"], Some("{\"number\": 2}")), (Some(0), "null\n".into()));
    assert!(blocks(&["--check", "add"], Some("{\"number\": 1e9}")).1.contains("must be from"));
    for arguments in [&["--check"][..], &["--check", "subtract"], &["--check", ""]] {
        let (code, text) = blocks(arguments, Some("{}"));
        assert!(code == Some(2) && text.contains("add, count, sum"), "{text}");
    }
    let (code, text) = blocks(&[], None);
    assert!(code == Some(2) && text.contains("count: Sends the numbers"), "{text}");
}

#[test]
fn an_executable_may_be_in_a_folder_with_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(OsStr::from_bytes(b"\xff\xfe"));
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("gain");
    std::os::unix::fs::symlink(gain_example(), &program).unwrap();
    let output = std::process::Command::new(&program).arg("--describe").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The program has no options that are not valid text.
    let mut odd = std::process::Command::new(program);
    assert_eq!(odd.arg(OsStr::from_bytes(b"\xff")).output().unwrap().status.code(), Some(2));
}

#[test]
fn an_executable_stays_a_process_where_it_cannot_be_a_thread() {
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
    let path = path.to_str().unwrap();
    let words = ["warning[placement-unfit]: `gain` stays a process", "main_of"];
    run(&["check", path, "--placement", "threads"]).says(0, &words);
    let words = ["choose another transport, as stock types share no process"];
    run(&["check", path, "--placement", "threads", "--transport", "inproc"]).says(2, &words);
}

/// Writes an executable that describes itself with one port. Returns the path of the executable.
fn describing(folder: &std::path::Path, name: &str, direction: &str, fields: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    let port = if direction == "input" { "in" } else { "out" };
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --describe ] || exit 2\ncat <<'END'\n{{\"name\":\"{name}\",\"summary\":\"One port.\",\
         \"ports\":[{{\"name\":\"{port}\",\"direction\":\"{direction}\",\"types\":{{\"one-of\":[\"det{{{fields}}}\"]}},\
         \"mandatory\":true,\"many_writers\":false,\"summary\":\"detections\"}}],\"properties\":[]}}\nEND\n"
    );
    common::write_script(&path, &text);
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
    check(old).says(2, &[&both, "give both components the same fields of `det`"]);
    check("range_bin:u32,level_db:f33")
        .says(2, &["`det{range_bin:u32,level_db:f33}` is not a layout: at byte 27"]);
}
