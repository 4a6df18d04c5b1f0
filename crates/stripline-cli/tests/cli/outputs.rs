//! Files that sinks write. Existing files stay, restarts continue a file, and missing data is
//! counted.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::waveform::File;
use crate::common::{Run, run, send, stripline, wait_until};

/// Writes a waveform with a tone with these properties, and a sink.
fn tone(properties: &str, sink: &str) -> File {
    File::new(&format!(
        "[component.tone]\ntype = \"signal-generator\"\nproperties = {{ packet = 1000, {properties} }}\n\
         [component.sink]\n{sink}\n\
         [[connection]]\nfrom = \"tone.out\"\nto = \"sink.in\"\n"
    ))
}

/// Runs the waveform. Returns the run and the JSON report.
fn report(file: &File) -> (Run, Value) {
    let result = file.path("result.json");
    let path = file.path("file.toml");
    let done = run(&["run", path.to_str().unwrap(), "-q", "--output", result.to_str().unwrap()]);
    let report = std::fs::read(result).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    (done, report)
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

const SECOND: &str = "output = \"cf32\", sample_rate = 1e4, duration_s = 0.1";

#[test]
fn a_file_that_exists_is_kept_unless_the_waveform_allows_more() {
    for (existing, code, kept, second) in
        [("refuse", 2, 3, 0), ("number", 0, 3, 8000), ("append", 0, 8000, 0), ("replace", 0, 8000, 0)]
    {
        let sink =
            format!("type = \"file-sink\"\nproperties = {{ path = \"a.cf32\", existing = \"{existing}\" }}");
        let file = tone(SECOND, &sink);
        std::fs::write(file.path("a.cf32"), "old").unwrap();
        let path = file.path("file.toml");
        let checked = run(&["check", path.to_str().unwrap()]);
        let done = run(&["run", path.to_str().unwrap(), "-q"]);
        let expected: &[&str] =
            if code == 0 { &[] } else { &["a.cf32: the file exists already", "existing"] };
        checked.says(code, expected);
        done.says(code, expected);
        assert_eq!((size(&file.path("a.cf32")), size(&file.path("a.2.cf32"))), (kept, second), "{existing}");
    }
}

#[test]
fn a_sink_that_is_started_again_keeps_what_it_has_written() {
    for (name, second, bytes, sink) in [
        ("a.cf32", "a.2.cf32", 8 << 20, "type = \"file-sink\"\nproperties = { path = \"a.cf32\" }"),
        (
            "a.sigmf-data",
            "a.2.sigmf-data",
            8 << 20,
            "type = \"file-sink\"\nproperties = { path = \"a.sigmf-meta\", existing = \"replace\" }",
        ),
        ("a.txt", "a.2.txt", 1 << 17, "type = \"print-sink\"\nproperties = { path = \"a.txt\" }"),
    ] {
        let endless = "output = \"cf32\", sample_rate = 1e6, rate = 1e6";
        let file = tone(endless, &format!("restart = \"on-failure\"\n{sink}"));
        let result = file.path("result.json");
        let running = file.start(&["--output", result.to_str().unwrap()], 2);
        let (first, second) = (file.path(name), file.path(second));
        running.wait_until("it has written", || size(&first) > bytes);
        send(running.component("sink"), Signal::KILL);
        running.wait_until("it writes again", || size(&second) > bytes / 8);
        assert!(size(&first) > bytes);
        file.ask("stop", &[]).says(0, &[]);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
        let report: Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
        let files = report["components"][1]["files"].as_array().unwrap();
        let finished: Vec<_> = files.iter().map(|file| file["finished"].as_bool()).collect();
        assert_eq!(finished, [Some(false), Some(true)], "{report}");
        let counts = "the process was killed or failed; the file may have more or fewer samples";
        assert!(files[0]["problem"].as_str().unwrap().starts_with(counts), "{report}");
        assert!(files[1]["problem"].is_null() && text.contains(counts), "{report} {text}");
        assert!(
            text.contains("sink did not complete ") && text.contains(name.split('.').next().unwrap()),
            "{text}"
        );
    }
}

#[test]
fn what_was_written_is_in_the_file_also_when_nothing_more_comes() {
    for (kind, name, more) in [
        ("file-sink", "a.f32", ""),
        ("file-sink", "a.sigmf-data", ", sync = \"second\""),
        ("wav-sink", "a.wav", ", encoding = \"float32\""),
    ] {
        let file = File::new(&format!(
            "[component.source]\ntype = \"file-source\"\nproperties = {{ path = \"pipe\", format = \"f32\", \
             output = \"f32\", sample_rate = 48e3, packet = 1000 }}\n\
             [component.sink]\ntype = \"{kind}\"\nproperties = {{ path = \"{name}\"{more} }}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n"
        ));
        let pipe = file.path("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let running = file.start(&[], 2);
        let mut writer = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
        for packets in 1..3 {
            writer.write_all(&[0; 4000]).unwrap();
            running.wait_until("the samples are in the file", || size(&file.path(name)) >= 4000 * packets);
        }
        file.ask("stop", &[]).says(0, &[]);
        let (code, text) = running.end();
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn no_file_has_two_writers_or_is_read_while_it_is_written() {
    let file = File::new(
        r#"
        [component.source]
        type = "file-source"
        properties = { path = "own.cf32", sample_rate = 1e6 }
        [component.sink]
        type = "file-sink"
        properties = { path = "link.cf32", existing = "replace" }
        [[connection]]
        from = "source.out"
        to = "sink.in"
        "#,
    );
    std::fs::write(file.path("own.cf32"), [0; 800]).unwrap();
    std::os::unix::fs::symlink("own.cf32", file.path("link.cf32")).unwrap();
    for command in ["check", "run"] {
        let done = run(&[command, file.path("file.toml").to_str().unwrap()]);
        done.says(2, &["`sink` writes the file that `source` reads", "another file"]);
    }
    assert_eq!(size(&file.path("own.cf32")), 800);

    let two = |one: &str, other: &str| {
        let text: String = [("a", one), ("b", other)]
            .map(|(name, properties)| {
                format!(
                    "[component.{name}]\ntype = \"signal-generator\"\nproperties = {{ output = \"f32\", \
                 sample_rate = 48e3, duration_s = 0.1 }}\n[component.w{name}]\n{properties}\n\
                 [[connection]]\nfrom = \"{name}.out\"\nto = \"w{name}.in\"\n"
                )
            })
            .concat();
        let file = File::new(&text);
        run(&["check", file.path("file.toml").to_str().unwrap()])
    };
    let wav = "type = \"wav-sink\"";
    two(wav, wav).says(2, &["`wb` writes the file that `wa` writes", "audio.wav"]);
    let number = "type = \"wav-sink\"\nproperties = { path = \"x.wav\", existing = \"number\" }";
    two(number, number).says(2, &["x.wav"]);
    two(wav, number).says(0, &[]);
    let print = "type = \"print-sink\"";
    two(print, print).says(0, &[]);

    // Samples on standard output tolerate no other output there.
    let samples = "type = \"file-sink\"\nproperties = { path = \"-\" }";
    for other in [samples, print] {
        for (one, other) in [(samples, other), (other, samples)] {
            two(one, other).says(2, &["`wa`", "`wb`", "write to standard output", "to a file"]);
        }
    }
    two(samples, "type = \"print-sink\"\nproperties = { path = \"lines\" }").says(0, &[]);
    two(samples, "type = \"wav-sink\"\nproperties = { path = \"-\" }")
        .says(2, &["a pipe cannot have the header"]);
    let file = File::new(
        r#"
        [component.source]
        type = "adsb-source"
        properties = { aircraft = 1, duration_s = 0.1, rate = 0.0 }
        [component.demodulator]
        type = "adsb-demodulator"
        [component.decoder]
        type = "adsb-decoder"
        [component.sink]
        type = "adsb-sink"
        [component.samples]
        type = "file-sink"
        properties = { path = "-" }
        [[connection]]
        from = "source.out"
        to = "demodulator.in"
        [[connection]]
        from = "source.out"
        to = "samples.in"
        [[connection]]
        from = "demodulator.out"
        to = "decoder.in"
        [[connection]]
        from = "decoder.out"
        to = "sink.in"
        "#,
    );
    for command in ["check", "run"] {
        let done = run(&[command, file.path("file.toml").to_str().unwrap()]);
        done.says(2, &["`samples` and `sink` write to standard output"]);
    }
    let path = file.path("file.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let silent = text.replace("type = \"adsb-sink\"", "type = \"adsb-sink\"\nproperties = { table = false }");
    std::fs::write(&path, silent).unwrap();
    run(&["check", path.to_str().unwrap()]).says(0, &[]);
}

#[test]
fn a_file_that_another_program_writes_is_found_before_anything_is_emptied() {
    for (existing, code) in [("append", 2), ("replace", 2), ("number", 0)] {
        let sink = |path: &str, existing: &str| {
            format!("type = \"file-sink\"\nproperties = {{ path = \"{path}\", existing = \"{existing}\" }}")
        };
        let other = "[[connection]]\nfrom = \"tone.out\"\nto = \"other.in\"";
        let two =
            format!("{}\n[component.other]\n{}\n{other}", sink("a.f32", "replace"), sink("b.f32", existing));
        let file = tone("output = \"f32\", sample_rate = 1e4, duration_s = 0.1", &two);
        std::fs::write(file.path("a.f32"), "old").unwrap();
        let writer = std::fs::File::create(file.path("b.f32")).unwrap();
        flock(&writer, FlockOperation::LockExclusive).unwrap();
        let busy: &[&str] = &["b.f32: the file is being written", "name another one", "file.toml:11:"];
        let expected = if code == 0 { &[] } else { busy };
        for command in ["check", "run"] {
            run(&[command, file.path("file.toml").to_str().unwrap()]).says(code, expected);
        }
        assert_eq!(size(&file.path("a.f32")), if code == 0 { 4000 } else { 3 }, "{existing}");
    }
}

#[test]
fn clipped_and_missing_samples_are_counted_per_file() {
    let loud = "output = \"f32\", sample_rate = 48e3, frequency = 440.0, duration_s = 1.0, amplitude = 5.0";
    let file = tone(loud, "type = \"wav-sink\"\nproperties = { path = \"loud.wav\" }");
    let (done, loud) = report(&file);
    done.says(0, &[" of 48,000 samples clipped"]);
    let written = &loud["components"][1]["files"][0];
    assert_eq!(written["samples"], 48_000, "{loud}");
    assert!(written["clipped"].as_u64() > Some(40_000), "{loud}");

    let file = File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { output = "cf32", sample_rate = 1e6, rate = 1e6, duration_s = 0.3, packet = 1000 }
        [component.slow]
        type = "throttle"
        properties = { rate = 3e5 }
        [component.sink]
        type = "file-sink"
        properties = { path = "holes.cf32" }
        [[connection]]
        from = "tone.out"
        to = "slow.in"
        overflow = "drop-oldest"
        depth = 4
        [[connection]]
        from = "slow.out"
        to = "sink.in"
        "#,
    );
    let (done, holes) = report(&file);
    done.says(0, &["holes.cf32: ", " samples missing in ", " places"]);
    let written = &holes["components"][2]["files"][0];
    let count = |key: &str| written[key].as_u64().unwrap();
    assert_eq!(count("samples") * 8, size(&file.path("holes.cf32")));
    // Packets dropped after the last packet in the file are not counted as missing.
    assert!(count("samples") + count("missing") <= 300_000 && count("places") > 1, "{holes}");
    let keys = written["not_kept"].to_string();
    assert!(keys.contains("sample_rate_hz"), "{holes}");
}

#[test]
fn what_standard_output_lacks_is_reported() {
    let loud = "output = \"cf32\", sample_rate = 48e3, frequency = 440.0, duration_s = 1.0, amplitude = 5.0";
    let file = tone(loud, "type = \"file-sink\"\nproperties = { path = \"-\", format = \"cs8\" }");
    let (done, loud) = report(&file);
    assert!(done.stderr.contains("standard output: ") && done.stderr.contains(" of 48,000 samples clipped"));
    let written = &loud["components"][1]["files"][0];
    assert_eq!(
        (&written["path"], &written["samples"], !done.stdout.is_empty()),
        (&"-".into(), &48_000.into(), true)
    );

    // A prefix of each line would alter the samples.
    let path = file.path("file.toml");
    let lines = run(&["run", path.to_str().unwrap(), "--stdout", "lines"]);
    lines.says(2, &["`sink` writes samples to standard output", "leave `--stdout lines` out"]);
    assert_eq!(lines.stdout, "");

    for path in ["/dev/stdout", "/proc/self/fd/1"] {
        let set = format!("sink.path={path}");
        let refused = run(&["run", file.path("file.toml").to_str().unwrap(), "--set", &set]);
        refused.says(2, &["file-shared", &format!("the launcher prints on: {path}"), "set `path` to -"]);
        assert_eq!(refused.stdout, "");
    }

    let mut to_nowhere = std::process::Command::new(env!("CARGO_BIN_EXE_stripline"));
    let done = to_nowhere.args(["run", path.to_str().unwrap()]).stdout(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stderr);
    assert!(printed.contains("sink found that standard output is /dev/null"), "{printed}");
}

#[test]
fn a_stop_waits_for_packets_in_transit_as_long_as_receivers_take_them() {
    let at_rate = |rate: f64| {
        File::new(&format!(
            "[component]\nsource = {{ type = 'null-source', properties = {{ packet = 8, output = 'u8' }} }}\n\
             slow = {{ type = 'throttle', properties = {{ rate = {rate:?} }} }}\n\
             sink = {{ type = 'file-sink', properties = {{ path = 'a.raw' }} }}\n\
             [[connection]]\nfrom = 'source'\nto = 'slow'\ndepth = 64\n\
             [[connection]]\nfrom = 'slow'\nto = 'sink'\n"
        ))
    };
    // Runs it until the queue is full, and stops it.
    let stopped = |file: &File, options: &[&str]| {
        let mut command = stripline();
        command.args(["run", file.path("file.toml").to_str().unwrap(), "-q"]).args(options);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the queue is full", || {
            let links: Value = serde_json::from_str(&run(&["links", "--json"]).stdout).unwrap();
            let list = |key: &str| links[key].as_array().unwrap().iter();
            let is_own =
                |pid: &Value| list("processes").any(|it| it["pid"] == *pid && it["parent"] == child.id());
            list("waits").any(|wait| wait["port"] == "source.out" && is_own(&wait["pid"]))
        });
        send(child.id(), Signal::INT);
        Run::of(child.wait_with_output().unwrap())
    };
    // The packets in the queue take longer than a stop waits for a receiver that takes no packets.
    let file = at_rate(64.0);
    let result = file.path("result.json");
    stopped(&file, &["--output", result.to_str().unwrap()]).says(0, &[]);
    let report: Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
    let sent = report["connections"][0]["sent"].as_u64().unwrap();
    let counts = ["packets", "sent", "unaccounted"].map(|name| report["connections"][1][name].as_u64());
    assert!(sent >= 64, "{report}");
    assert_eq!((counts, size(&file.path("a.raw"))), ([Some(sent), Some(sent), Some(0)], 8 * sent));

    // Here the receiver takes no packet for that time.
    let lost = ["warning: source.out -> slow.in: ", "sent are not accounted for (the receiver ended before"];
    stopped(&at_rate(1.0), &[]).says(0, &lost);
}

#[test]
fn results_and_logs_are_no_files_of_the_waveform() {
    let file = tone(SECOND, "type = \"file-sink\"\nproperties = { path = \"a.cf32\" }");
    let path = file.path("file.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let sink = file.path("a.cf32");
    for option in ["--output", "--log-file", "--trace"] {
        let itself = run(&["run", path.to_str().unwrap(), option, path.to_str().unwrap()]);
        itself
            .says(2, &[&format!("`{option}` writes the file that the launcher reads"), "name another file"]);
        let shared = run(&["run", path.to_str().unwrap(), option, sink.to_str().unwrap()]);
        shared.says(2, &[&format!("`{option}` writes the file that `sink` writes")]);
        assert!(!sink.exists());
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    // No other file that is not an earlier result is replaced either.
    let notes = file.path("notes");
    std::fs::write(&notes, "mine").unwrap();
    let refused = run(&["run", path.to_str().unwrap(), "--output", notes.to_str().unwrap()]);
    refused.says(2, &["notes exists, and is not an earlier result: name another file, or remove it"]);
    assert_eq!(std::fs::read(&notes).unwrap(), b"mine");
    for _ in 0..2 {
        report(&tone(SECOND, "type = \"null-sink\"")).0.says(0, &[]);
    }
}

#[test]
fn a_standard_stream_may_be_a_file_of_a_component() {
    let copy = |source: &str| {
        let file = File::new(&format!(
            "[component.source]\n{source}\n[component.sink]\ntype = \"file-sink\"\n\
             properties = {{ path = \"a.cf32\", existing = \"replace\" }}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n"
        ));
        std::fs::write(file.path("a.cf32"), [7; 80]).unwrap();
        file
    };
    let run_with = |file: &File, options: &[&str], redirect: &dyn Fn(&mut std::process::Command)| {
        let mut command = stripline();
        command.args(["run", file.path("file.toml").to_str().unwrap(), "-q"]).args(options);
        redirect(&mut command);
        Run::of(command.output().unwrap())
    };
    let stdin = copy("type = \"file-source\"\nproperties = { path = \"-\", format = \"cf32\" }");
    let read = |command: &mut std::process::Command| {
        command.stdin(std::fs::File::open(stdin.path("a.cf32")).unwrap());
    };
    for existing in ["replace", "append"] {
        let refused = run_with(&stdin, &["--set", &format!("sink.existing={existing}")], &read);
        refused.says(2, &["file-shared", "`sink` writes the file that `source` reads", "a.cf32"]);
    }
    let path = stdin.path("a.cf32");
    let other = format!("sink.path={}", stdin.path("b.cf32").display());
    let log = ["--log-file", path.to_str().unwrap(), "--set", &other];
    run_with(&stdin, &log, &read).says(2, &["`--log-file` writes the file that `source` reads"]);
    assert_eq!(std::fs::read(stdin.path("a.cf32")).unwrap(), [7; 80]);
    run_with(&stdin, &["--set", &other], &read).says(0, &[]);
    assert_eq!(std::fs::read(stdin.path("b.cf32")).unwrap(), [7; 80]);

    let tone = copy("type = \"signal-generator\"\nproperties = { duration_s = 0.01 }");
    let append = || std::fs::File::options().append(true).open(tone.path("a.cf32")).unwrap();
    let printed = run_with(&tone, &[], &|command| _ = command.stdout(append()));
    printed.says(2, &["`sink` writes the file that the launcher writes", "redirect standard output"]);
    // A component that is alone on standard output may write to a file there, but not together with
    // lines of others.
    let dash = ["--set", "sink.path=-"];
    run_with(&tone, &dash, &|command| _ = command.stdout(append())).says(0, &[]);
    assert!(size(&tone.path("a.cf32")) > 80);
    let before = size(&tone.path("a.cf32"));
    run_with(&tone, &dash, &|command| _ = command.stdout(append()).stderr(append()));
    let text = std::fs::read(tone.path("a.cf32")).unwrap();
    assert!(String::from_utf8_lossy(&text[before as usize..]).contains("redirect standard error"));
}

#[test]
fn one_mistake_has_one_error_and_a_remedy_that_helps() {
    let check = |source: &str, filter: &str, sink: &str| {
        let file = File::new(&format!(
            "[component.source]\ntype = \"file-source\"\nproperties = {{ {source} }}\n\
             [component.filter]\ntype = \"fir-filter\"\nproperties = {{ high = 100.0{filter} }}\n\
             [component.sink]\n{sink}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"filter.in\"\n\
             [[connection]]\nfrom = \"filter.out\"\nto = \"sink.in\"\n"
        ));
        std::fs::write(file.path("in.cf32"), [0; 800]).unwrap();
        std::fs::write(file.path("odd.cs16"), [0; 13]).unwrap();
        let done = run(&["check", file.path("file.toml").to_str().unwrap()]);
        (file, done)
    };
    let (null, rate) = ("type = \"null-sink\"", "path = \"in.cf32\", sample_rate = 1e4");
    for (source, sink, said, unsaid) in [
        ("path = \"none.cf32\"", null, "there is no such file", "no-rate"),
        (
            rate,
            "type = \"file-sink\"\nproperties = { path = \"in.cf32\" }",
            "`sink` writes the file",
            "existing",
        ),
        (
            "path = \"in.cf32\", sample_rate = 1e4, output = \"cu8\"",
            null,
            "set the property `output` to \"cf32\"",
            "or to \"cf32\"",
        ),
        (
            "path = \"odd.cs16\", sample_rate = 1e4, channels = 3, output = \"cf32\"",
            null,
            "check its type and `channels`",
            "sample format",
        ),
    ] {
        let (_file, done) = check(source, "", sink);
        done.says(2, &[said, "1 error;"]);
        assert!(!done.stderr.contains(unsaid), "{}", done.stderr);
    }
    // A sample rate that only the filter has reaches the file.
    let sigmf = "type = \"file-sink\"\nproperties = { path = \"out.sigmf-meta\" }";
    let (file, _) = check("path = \"in.cf32\"", ", sample_rate = 1e4", sigmf);
    report(&file).0.says(0, &[]);
    let meta = std::fs::read_to_string(file.path("out.sigmf-meta")).unwrap();
    assert!(meta.contains("\"core:sample_rate\": 10000"), "{meta}");
}

#[test]
fn the_name_of_a_file_does_not_promise_another_type() {
    for (path, format, problem, remedy) in [
        (
            "a.cs16",
            "",
            "the name of the file is of cs16 samples, and `sink` receives cf32",
            "set `format` to cs16",
        ),
        ("a.f32", "", "the name of the file is of f32 samples, and `sink` receives cf32", "as .cf32"),
        ("a.CU8", ", format = \"cs16\"", "of cu8 samples, and `format` is cs16", "set `format` to cu8"),
        ("a.wav", "", "a .wav file has a header", "use a `wav-sink`"),
        ("a.npy", "", "a .npy file has a header", "another ending"),
    ] {
        let sink = format!("type = \"file-sink\"\nproperties = {{ path = \"{path}\"{format} }}");
        let file = tone(SECOND, &sink);
        let waveform = file.path("file.toml");
        for command in ["check", "run"] {
            run(&[command, waveform.to_str().unwrap()]).says(2, &[problem, remedy]);
        }
        assert!(!file.path(path).exists());
    }
    for (path, format) in [("a.cs16", ", format = \"cs16\""), ("a.cf32", ""), ("a.raw", ""), ("a", "")] {
        let sink = format!("type = \"file-sink\"\nproperties = {{ path = \"{path}\"{format} }}");
        let file = tone(SECOND, &sink);
        run(&["run", file.path("file.toml").to_str().unwrap(), "-q"]).says(0, &[]);
    }
}

#[test]
fn several_channels_are_written_and_read_back() {
    for (sink, name, samples, stored) in [
        ("wav-sink", "two.wav", "f32", "s16"),
        ("file-sink", "two.sigmf-meta", "f32", "f32"),
        ("file-sink", "iq.sigmf-meta", "cf32", "cf32"),
    ] {
        let tones: String = ["a", "b"]
            .map(|tone| {
                format!(
                    "[component.{tone}]\ntype = \"signal-generator\"\nproperties = {{ output = \"{samples}\", \
                     sample_rate = 48e3, duration_s = 0.01, packet = 7 }}\n"
                )
            })
            .concat();
        let file = File::new(&format!(
            "{tones}[component.both]\ntype = \"multiplexer\"\nproperties = {{ mode = \"interleave\", block = 1 }}\n\
             [component.sink]\ntype = \"{sink}\"\nproperties = {{ path = \"{name}\" }}\n\
             [[connection]]\nfrom = \"a.out\"\nto = \"both.in1\"\n[[connection]]\nfrom = \"b.out\"\nto = \"both.in2\"\n\
             [[connection]]\nfrom = \"both.out\"\nto = \"sink.in\"\n"
        ));
        let (done, written) = report(&file);
        done.says(0, &[]);
        let file_report = &written["components"][3]["files"][0];
        assert_eq!((&file_report["samples"], &file_report["missing"]), (&960.into(), &0.into()), "{written}");
        let play = File::new(&format!(
            "[component.source]\ntype = \"file-source\"\nproperties = {{ path = \"{}\", output = \"{stored}\" }}\n\
             [component.print]\ntype = \"print-sink\"\nproperties = {{ format = \"json\" }}\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"print.in\"\n",
            file.path(name).display()
        ));
        let played = run(&["run", play.path("file.toml").to_str().unwrap(), "-q"]);
        played.says(0, &[]);
        for what in ["\"channels\":[\"1\",\"2\"]", "\"sample_rate_hz\":96000.0"] {
            assert!(played.stdout.contains(what), "{name}: {what}: {}", played.stdout);
        }
    }
}
