//! `stripline check --explain` and `stripline calibrate`. Speed is not tested here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::pty::on_terminal;
use crate::common::{Run, repository, stripline};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stripline_bench::Machine;
use stripline_bench::calibration::program_version;
use tempfile::TempDir;

/// The transports in the calibration of the tests.
const MEASURED: [&str; 5] = ["inproc", "shm", "uds", "tcp", "mqueue"];

/// Returns all transports of the program.
fn transports() -> Vec<&'static str> {
    stripline_middleware::register();
    stripline::transport::all().map(|transport| transport.name).collect()
}

/// A folder with the calibration of one test.
struct Calibrated(TempDir);

impl Calibrated {
    /// Makes a folder without a calibration.
    fn absent() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(contents: impl AsRef<[u8]>) -> Self {
        let own = Self::absent();
        std::fs::write(own.path(), contents).unwrap();
        own
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("calibration.json")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stripline();
        command.args(arguments).env("STRIPLINE_CALIBRATION", self.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into(),
            stderr: String::from_utf8_lossy(&output.stderr).into(),
        }
    }

    /// Returns the only file of `check --explain --json`.
    fn explained(&self, arguments: &[&str]) -> Value {
        let found = self.run(&[&["check", "--explain", "--json"], arguments].concat());
        assert_eq!(found.code, Some(0), "{}", found.stdout);
        serde_json::from_str::<Value>(&found.stdout).unwrap()[0].take()
    }
}

/// Returns a calibration of this machine and version, two days old. `shm` takes 1000 to 3000 ns to
/// a receiver that sleeps, and a tenth of that to a receiver that spins. `udp` was not measured.
fn calibration() -> Value {
    let cost = |bytes: u32, ns: f64| json!({"bytes": bytes, "asleep_ns": ns, "spinning_ns": ns / 10.0, "per_packet_ns": 50.0});
    let costs = |base: f64| json!([cost(64, base), cost(1024, 2.0 * base), cost(32_768, 3.0 * base)]);
    let transports: Vec<Value> = MEASURED
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"transport": name, "costs": costs(index.max(1) as f64 * 1000.0)}))
        .collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({
        "format": 1,
        "program": program_version(),
        "measured_s": now - 2 * 86_400 - 60,
        "machine": Machine::here(),
        "runs": 6,
        "others_share": 0.01,
        "transports": transports,
    })
}

fn adsb() -> String {
    repository("waveforms/adsb.toml").to_str().unwrap().into()
}

/// Returns the text as one line, because the notes below tables are wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn without_a_calibration_each_candidate_has_its_rule_and_no_cost() {
    let calibrated = Calibrated::absent();
    let found = calibrated.run(&["check", "--explain", &adsb()]);
    found.says(0, &[]);
    let text = words(&found.stdout);
    let head = "source.out -> demodulator.in: shm, taken by auto, as the first that no rule strikes out";
    let rule =
        "inproc not measured `source` and `demodulator` are processes of their own * shm not measured taken";
    for words in
        [head, rule, "uds not measured `allow` does not name it", "is absent", "`stripline calibrate`"]
    {
        assert!(text.contains(words), "`{words}` is not in:\n{}", found.stdout);
    }
    let file = calibrated.explained(&[&adsb()]);
    assert_eq!((&file["ok"], &file["calibration"]["state"]), (&true.into(), &"absent".into()));
    let first = &file["explained"][0];
    assert_eq!((&first["transport"], &first["chosen_by"]), (&"shm".into(), &"auto".into()));
    let candidates = first["candidates"].as_array().unwrap();
    assert_eq!(candidates.iter().map(|c| c["transport"].as_str().unwrap()).collect::<Vec<_>>(), transports());
    assert!(candidates.iter().all(|c| c["costs"].is_null()), "{first}");
    for candidate in candidates {
        let is_taken = candidate["transport"] == "shm";
        assert_eq!((&candidate["taken"], candidate["struck_out"].is_null()), (&is_taken.into(), is_taken));
    }
    // Without the option, both fields are absent.
    let plain: Value = serde_json::from_str(&calibrated.run(&["check", "--json", &adsb()]).stdout).unwrap();
    assert!(plain[0].get("explained").is_none() && plain[0].get("calibration").is_none());
}

#[test]
fn a_calibration_gives_the_costs_by_the_way_of_waiting() {
    let calibrated = Calibrated::with(calibration().to_string());
    let component = |name: &str, kind: &str| format!("[component.{name}]\ntype = \"{kind}\"\n");
    let link = |to: &str, keys: &str| format!("[[connection]]\nfrom = \"source\"\nto = \"{to}\"\n{keys}\n");
    let text = component("source", "null-source")
        + "properties = { output = \"f32\" }\nplacement = \"thread\"\n"
        + &component("one", "null-sink")
        + "placement = \"thread\"\n"
        + &component("two", "null-sink")
        + &component("three", "null-sink")
        + &link("one", "wait = \"spin\"")
        + &link("two", "allow = [\"uds\"]\nlocked = true")
        + &link("three", "transport = \"tcp\"");
    let file = calibrated.file("file.toml", &text);
    let found = calibrated.run(&["check", "--explain", &file]);
    found.says(0, &[]);
    let text = words(&found.stdout);
    for words in [
        "source.out -> one.in: inproc, taken by auto",
        // The receiver of this connection spins.
        "* inproc 100 ns 200 ns 300 ns taken shm 100 ns 200 ns 300 ns fits, and comes after inproc",
        "* shm 1.00 µs 2.00 µs 3.00 µs taken uds 2.00 µs 4.00 µs 6.00 µs it cannot keep locked",
        "source.out -> three.in: tcp, named in the file",
        "* tcp 3.00 µs 6.00 µs 9.00 µs taken inproc 1.00 µs 2.00 µs 3.00 µs `three` is a process of its own",
        "uds 2.00 µs 4.00 µs 6.00 µs the file names `tcp`",
        "udp not measured not measured not measured",
        "shm 32 KiB 3.00 µs 300 ns 50.0 ns 655 GB/s",
        "Measured 2 days ago (",
        "in 6 runs by version",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{}", found.stdout);
    }
    assert!(!text.contains("Other programs"), "{}", found.stdout);
    let json = calibrated.explained(&[&file, "--transport", "shm"]);
    assert_eq!(json["calibration"]["state"], "used");
    assert_eq!(json["calibration"]["machine"]["cpus"], Machine::here().cpus);
    let second = &json["explained"][1];
    assert_eq!((&second["name"], &second["wait"]), (&"source.out -> two.in".into(), &"adaptive".into()));
    assert_eq!(second["reason"], "named in --transport");
    assert_eq!(second["candidates"][0]["costs"][0]["asleep_ns"], 1000.0);
}

#[test]
fn a_file_that_does_not_fit_is_ignored_with_the_reason() {
    let whole = calibration().to_string();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file = calibration();
        change(&mut file);
        file.to_string()
    };
    for (contents, reason) in [
        (String::new(), "it is not a calibration"),
        ("{".into(), "it is not a calibration"),
        ("[topic.iq]\ndepth = 4".into(), "it is not a calibration"),
        (whole[..whole.len() / 2].into(), "it is not a calibration"),
        (" ".repeat(1 << 20), "it has more than 65536 bytes"),
        (changed(&|file| file["format"] = 2.into()), "it has format 2, and this program reads format 1"),
        (changed(&|file| file["\u{1b}[2J"] = 1.into()), "it is damaged"),
        (changed(&|file| file["transports"][0]["costs"][0]["bytes"] = 0.into()), "0 bytes"),
        (changed(&|file| file["program"] = "0.0.1".into()), "it was measured by version 0.0.1, and this is"),
        (
            changed(&|file| file["machine"]["kernel"] = "Linux 2.6.32".into()),
            "it is of another machine: its kernel was Linux 2.6.32, and here it is Linux ",
        ),
    ] {
        let calibrated = Calibrated::with(&contents);
        let found = calibrated.run(&["check", "--explain", &adsb()]);
        found.says(0, &[]);
        let text = words(&found.stdout);
        for words in ["* shm not measured taken", "is ignored, as", reason, "`stripline calibrate` measures"]
        {
            assert!(text.contains(words), "`{words}` is not in:\n{}", found.stdout);
        }
        assert!(!found.stdout.contains('\u{1b}'), "{}", found.stdout);
        let state = calibrated.explained(&[&adsb()])["calibration"].take();
        assert_eq!(state["state"], "ignored");
        assert!(state["reason"].as_str().unwrap().contains(reason), "{state}");
        // A calibration that cannot be used is not changed.
        assert_eq!(std::fs::read_to_string(calibrated.path()).unwrap(), contents);
    }
    let folder = Calibrated::absent();
    std::fs::create_dir(folder.path()).unwrap();
    let found = folder.run(&["check", "--explain", &adsb()]);
    assert!(words(&found.stdout).contains("it is not a regular file"), "{}", found.stdout);
    let mut homeless = folder.command(&["check", "--explain", &adsb()]);
    for variable in ["STRIPLINE_CALIBRATION", "XDG_DATA_HOME", "HOME"] {
        homeless.env_remove(variable);
    }
    let output = homeless.output().unwrap();
    let text = words(&String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success() && text.contains("set STRIPLINE_CALIBRATION to a file"), "{text}");
}

#[test]
fn figures_of_a_busy_machine_have_a_remark() {
    let mut file = calibration();
    file["others_share"] = 0.5.into();
    let found = Calibrated::with(file.to_string()).run(&["check", "--explain", &adsb()]);
    assert!(words(&found.stdout).contains("Other programs used 50 % of the processors"), "{}", found.stdout);
}

#[test]
fn topics_are_explained_and_other_files_have_no_choice() {
    let calibrated = Calibrated::with(calibration().to_string());
    let topics = "[default]\noverflow = \"drop-oldest\"\n[topic.iq]\ntransport = \"uds\"\nwait = \"spin\"\n";
    let topics = calibrated.file("topics.toml", topics);
    let text = words(&calibrated.run(&["check", "--explain", &topics]).stdout);
    for words in [
        "every other topic: shm, taken by auto, as the transport between processes of one host",
        "the peers of a topic may be in other processes * shm 1.00 µs 2.00 µs 3.00 µs taken",
        "topic iq: uds, named in the file",
        "* uds 200 ns 400 ns 600 ns taken",
        "tcp 300 ns 600 ns 900 ns the file names `uds`",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    let experiment = repository("experiments/e1-messaging.toml");
    let found = calibrated.run(&["check", "--explain", experiment.to_str().unwrap()]);
    found.says(0, &[]);
    assert_eq!(found.stdout.lines().count(), 1, "{}", found.stdout);
    // A file with an error has findings, but no choice.
    let wrong = calibrated.file("wrong.toml", "[component.a]\ntype = \"nul-sink\"\n");
    let found = calibrated.run(&["check", "--explain", &wrong, &adsb()]);
    found.says(2, &["did you mean `null-sink`?"]);
    assert!(found.stdout.contains("source.out -> demodulator.in: shm"), "{}", found.stdout);
}

#[test]
fn tables_fit_the_terminal_and_mark_what_is_taken() {
    for contents in [calibration().to_string(), "{}".into()] {
        let calibrated = Calibrated::with(contents);
        for width in [60, 80, 200] {
            let mut command = calibrated.command(&["check", "--explain", "adsb"]);
            command.env("TERM", "xterm").env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
            let (code, text) = on_terminal(width, command);
            assert_eq!(code, Some(0), "{text}");
            for line in text.lines() {
                let is_word = line.split_whitespace().count() == 1;
                assert!(line.chars().count() <= width.into() || is_word, "{width}: {line}");
            }
            assert!(text.contains("* shm"), "{text}");
        }
    }
    let calibrated = Calibrated::absent();
    let coloured = calibrated.run(&["check", "--explain", "--color", "always", &adsb()]).stdout;
    assert!(coloured.contains("\u{1b}[32m* shm\u{1b}[0m"), "{coloured}");
}

#[test]
fn a_quick_calibration_is_kept_and_used() {
    let calibrated = Calibrated::absent();
    let tiny =
        ["calibrate", "--quick", "--runs", "1", "--seconds-per-run", "0.001", "--allow-busy", "--json"];
    let found = calibrated.run(&tiny);
    found.says(0, &[&format!("run 1 of {}", 3 * transports().len())]);
    let printed: Value = serde_json::from_str(&found.stdout).unwrap();
    let kept: Value = serde_json::from_slice(&std::fs::read(calibrated.path()).unwrap()).unwrap();
    assert_eq!(printed, kept);
    for (name, own) in transports().iter().zip(kept["transports"].as_array().unwrap()) {
        assert_eq!(own["transport"], *name);
        let costs = own["costs"].as_array().unwrap();
        assert_eq!(
            costs.iter().map(|c| c["bytes"].as_u64().unwrap()).collect::<Vec<_>>(),
            [64, 1024, 32_768]
        );
        for time in ["asleep_ns", "spinning_ns", "per_packet_ns"] {
            assert!(costs.iter().all(|cost| cost[time].as_f64().unwrap() > 0.0), "{own}");
        }
    }
    assert_eq!(names(calibrated.0.path()), ["calibration.json"]);
    let json = calibrated.explained(&[&adsb()]);
    assert_eq!(json["calibration"]["state"], "used", "{}", json["calibration"]);
    assert_eq!(json["explained"][0]["candidates"][1]["costs"], kept["transports"][1]["costs"]);
}

#[test]
fn an_interrupted_calibration_leaves_the_present_one() {
    let calibrated = Calibrated::with("the present one");
    let mut command = calibrated.command(&["calibrate", "--runs", "1000", "--allow-busy"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(errors).map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("run 1 of ")), "it never began");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("interrupted") && line.contains("nothing was written")));
    assert_eq!(std::fs::read_to_string(calibrated.path()).unwrap(), "the present one");
    assert_eq!(names(calibrated.0.path()), ["calibration.json"]);
}

#[test]
fn a_busy_machine_and_a_place_without_room_are_refused_before_the_measurement() {
    let calibrated = Calibrated::absent();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            // Relaxed: the threads share no other data.
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let found = calibrated.run(&["calibrate"]);
        is_done.store(true, Ordering::Relaxed);
        found.says(1, &["other programs use ", "--allow-busy", "nothing was measured"]);
    });
    assert!(names(calibrated.0.path()).is_empty());
    let file = calibrated.file("file", "");
    let mut below = calibrated.command(&["calibrate"]);
    let output = below.env("STRIPLINE_CALIBRATION", format!("{file}/c.json")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot write") && errors.contains("nothing was measured"), "{errors}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
