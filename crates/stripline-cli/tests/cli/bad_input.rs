//! Wrong files, wrong arguments and wrong programs. Each has an exit code and a message with a
//! remedy.

use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{repository, run};

fn adsb(more: &[&str]) -> common::Run {
    let waveform = repository("waveforms/adsb.toml");
    run(&[&["run", waveform.to_str().unwrap(), "--quiet"], more].concat())
}

fn waveform(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("waveform.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn captures_that_are_missing_empty_or_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        format!("source.path={}", path.display())
    };
    let missing = format!("source.path={}", folder.path().join("missing.bin").display());
    adsb(&["--set", &missing]).says(2, &["source", "missing.bin", "there is no such file"]);
    adsb(&["--set", &file("empty.bin", &[])]).says(2, &["source", "empty.bin", "empty"]);
    adsb(&["--set", &file("odd.bin", &[127; 1001])]).says(2, &["source", "odd.bin", "1 of its 1001 bytes"]);
    let directory = format!("source.path={}", folder.path().display());
    adsb(&["--set", &directory]).says(2, &["source", "directory", "nothing was started"]);
    // The file is shorter than one frame, but has whole samples. Nothing is decoded, and there is
    // no error.
    adsb(&["--set", &file("short.bin", &[127; 100])]).says(0, &[]);
}

#[test]
fn words_that_do_not_exist() {
    adsb(&["--transport", "pigeon"]).says(2, &["pigeon", "inproc", "shm", "uds", "tcp"]);
    adsb(&["--set", "sauce.path=x"]).says(2, &["sauce", "source"]);
    adsb(&["--set", "source.pth=x"]).says(2, &["pth", "path"]);
    adsb(&["--set", "nonsense"]).says(2, &["nonsense"]);
    adsb(&["--transport", "inproc", "--placement", "processes"]).says(2, &["inproc", "--placement threads"]);
    adsb(&["--placement", "clouds"]).says(2, &["clouds", "threads", "processes"]);
    adsb(&["--duration", "never"]).says(2, &["never"]);
    run(&["run", "no-such-file.toml"]).says(2, &["no-such-file.toml"]);
    run(&["walk"]).says(2, &["walk", "Usage"]);
    run(&["components", "no-such-component"]).says(2, &["no-such-component"]);
    run(&["components", "fir-fliter"]).says(2, &["did you mean `fir-filter`?"]);
    adsb(&["--set", "source.sample_rate=2 Mhz"]).says(2, &["write the number alone, in Hz: 2000000"]);
    adsb(&["--duration", "10s"]).says(2, &["without a unit"]);
}

#[test]
fn what_a_component_would_refuse_is_found_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository("waveforms/radio.toml")).unwrap();
    let path = waveform(folder.path(), &text);
    let path = path.to_str().unwrap();
    for command in ["check", "run"] {
        let printed = |setting: &str| run(&[command, path, "--set", setting]);
        printed("filter.high=0")
            .says(2, &["`high` is 0 Hz; it must be above `low`, 0 Hz", "high = 4e3", "^"]);
        printed("tone.frequency=1e6").says(2, &["`frequency` is 1000000", "half its sample rate", "^"]);
    }
    let with = |source: &str| {
        let text = format!(
            "[component.source]\n{source}\n[component.sink]\ntype = \"null-sink\"\n\
             [[connection]]\nfrom = \"source\"\nto = \"sink\"\n"
        );
        run(&["check", waveform(folder.path(), &text).to_str().unwrap()])
    };
    let missing = "type = \"file-source\"\nproperties = { path = \"missing.cf32\" }";
    with(missing).says(2, &["missing.cf32: there is no such file", "relative to the waveform file"]);
    // The check does not open a pipe: a process at the other end waits for the run.
    let pipe = folder.path().join("pipe.cf32");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    with("type = \"file-source\"\nproperties = { path = \"pipe.cf32\" }").says(0, &[]);
    // A pipe in place of the waveform file is not waited for either. A pipe with a writer is read.
    run(&["check", pipe.to_str().unwrap()]).says(2, &["pipe.cf32` is not a file, and has no content"]);
    let script = format!("cat waveforms/adsb.toml | {} check /dev/stdin", env!("CARGO_BIN_EXE_stripline"));
    let mut piped = std::process::Command::new("sh");
    let piped = piped.args(["-c", &script]).current_dir(repository("")).output().unwrap();
    assert_eq!(piped.status.code(), Some(0), "{}", String::from_utf8_lossy(&piped.stderr));
}

#[test]
fn properties_that_do_not_fit_the_rate_that_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let components = [
        ("tone", "signal-generator", ""),
        ("noise", "awgn", ""),
        ("half", "decimator", ""),
        ("filter", "fir-filter", "properties = { high = 13e3 }"),
        ("sink", "null-sink", ""),
    ];
    let mut text = String::new();
    for (name, kind, more) in components {
        text += &format!("[component.{name}]\ntype = \"{kind}\"\n{more}\n");
    }
    for two in components.windows(2) {
        text += &format!("[[connection]]\nfrom = \"{}.out\"\nto = \"{}.in\"\n", two[0].0, two[1].0);
    }
    let path = waveform(folder.path(), &text);
    let path = path.to_str().unwrap();
    // The default rate of the generator is used: half of the 48,000 samples/s arrive.
    for command in ["check", "run"] {
        let refused = run(&[command, path]);
        refused.says(2, &["`filter`: `high` is 13000 Hz", "12000 Hz", "24000 samples/s arrive", "^"]);
    }
    run(&["check", path, "--set", "tone.sample_rate=96e3"]).says(0, &[]);
    run(&["check", path, "--set", "half.factor=1"]).says(0, &[]);
    // The component's own rate takes precedence over the rate of the samples that arrive.
    run(&["check", path, "--set", "filter.sample_rate=48e3"]).says(0, &[]);
    let cutoff = run(&["check", path, "--set", "filter.high=4e3", "--set", "half.cutoff=15e3"]);
    cutoff.says(2, &["`half`: `cutoff` is 15000 Hz", "12000 Hz", "48000 samples/s arrive"]);
}

/// Writes a generator of 48,000 samples/s, a component of this kind, and a filter after the
/// component.
fn behind(folder: &Path, kind: &str, properties: &str, high: &str) -> String {
    let inputs: &[&str] = if kind == "resampler" { &["in"] } else { &["in1", "in2", "in3"] };
    let mut text = format!(
        "[component.between]\ntype = \"{kind}\"\nproperties = {{ {properties} }}\n\
         [component.filter]\ntype = \"fir-filter\"\nproperties = {{ high = {high} }}\n\
         [component.sink]\ntype = \"null-sink\"\n\
         [[connection]]\nfrom = \"between.out\"\nto = \"filter.in\"\n\
         [[connection]]\nfrom = \"filter.out\"\nto = \"sink.in\"\n"
    );
    for input in inputs {
        text += &format!(
            "[component.{input}]\ntype = \"signal-generator\"\n\
             [[connection]]\nfrom = \"{input}.out\"\nto = \"between.{input}\"\n"
        );
    }
    waveform(folder, &text).to_str().unwrap().into()
}

#[test]
fn rates_are_carried_through_components_that_change_or_join_streams() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, properties, rate, good, bad) in [
        ("resampler", "up = 1, down = 4", "12000", "5e3", "7e3"),
        ("resampler", "up = 3, down = 2", "72000", "30e3", "40e3"),
        ("adder", "", "48000", "20e3", "30e3"),
        ("multiplexer", "", "48000", "20e3", "30e3"),
        // Each channel has the rate of the corresponding input.
        ("multiplexer", "mode = \"interleave\"", "48000", "20e3", "30e3"),
    ] {
        let file = behind(folder.path(), kind, properties, good);
        run(&["check", &file]).says(0, &[]);
        let file = behind(folder.path(), kind, properties, bad);
        run(&["check", &file]).says(2, &["`filter`: `high` is", &format!("{rate} samples/s")]);
    }
    let mixed = ["--set", "in3.sample_rate=44.1e3"];
    let words = ["rate-mismatch", "`between` takes streams of one rate, but 48000 and 44100", "resampler"];
    for (kind, properties, code) in
        [("adder", "", 2), ("multiplexer", "mode = \"interleave\"", 2), ("multiplexer", "", 0)]
    {
        // Merged packets keep their own rates, so the rate that arrives is not certain.
        let file = behind(folder.path(), kind, properties, if code == 0 { "30e3" } else { "4e3" });
        run(&[&["check", &file], &mixed[..]].concat()).says(code, if code == 0 { &[] } else { &words });
    }
}

#[test]
fn channels_and_rows_that_a_component_cannot_take_are_found_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let check = |properties: &str, last: &str, code, words: &[&str]| {
        let text = format!(
            "[component]\na = {{ type = 'signal-generator', properties = {{ sample_rate = 2e6 }} }}\n\
             b = {{ type = 'signal-generator', properties = {{ sample_rate = 2e6 }} }}\n\
             join = {{ type = 'multiplexer', properties = {{ {properties} }} }}\n\
             last = {{ type = '{last}' }}\nend = {{ type = 'null-sink' }}\n\
             [[connection]]\nfrom = 'a.out'\nto = 'join.in1'\n[[connection]]\nfrom = 'b.out'\nto = 'join.in2'\n\
             [[connection]]\nfrom = 'join.out'\nto = 'last.in'\n[[connection]]\nfrom = 'last.out'\nto = 'end.in'\n"
        );
        let file = waveform(folder.path(), &text);
        run(&["check", file.to_str().unwrap()]).says(code, words);
    };
    check("", "adsb-demodulator", 0, &[]);
    let channels =
        ["order-mismatch", "`last` takes one channel, and 2 arrive (`channels`)", "`demultiplexer`"];
    check("mode = 'interleave'", "adsb-demodulator", 2, &channels);
    check("mode = 'interleave'", "fft", 0, &[]);
    let rows = ["order-mismatch", "`last` takes a signal in time", "(`row_length`)", "block = 1"];
    check("mode = 'interleave', block = 4", "fft", 2, &rows);

    // A waterfall draws rows of one channel.
    let draw = |properties: &str, before: &str, channel: &str| {
        let text = format!(
            "[component]\na = {{ type = 'signal-generator', properties = {{ output = 'f32' }} }}\n             b = {{ type = 'signal-generator', properties = {{ output = 'f32' }} }}\n             join = {{ type = 'multiplexer', properties = {{ {properties} }} }}\n             before = {{ type = '{before}' }}\n             sink = {{ type = 'waterfall-sink', properties = {{ channel = '{channel}' }} }}\n             [[connection]]\nfrom = 'a.out'\nto = 'join.in1'\n[[connection]]\nfrom = 'b.out'\nto = 'join.in2'\n             [[connection]]\nfrom = 'join.out'\nto = 'before.in'\n             [[connection]]\nfrom = 'before.out'\nto = 'sink.in'\n"
        );
        run(&["check", waveform(folder.path(), &text).to_str().unwrap()])
    };
    draw("", "throttle", "").says(2, &["`sink` takes rows of samples", "put an `fft` before it"]);
    draw("", "fft", "").says(0, &[]);
    let one = ["`sink` takes one channel, and 2 arrive", "set `channel` to the name of one of them"];
    draw("mode = 'interleave'", "fft", "").says(2, &one);
    draw("mode = 'interleave'", "fft", "a").says(0, &[]);

    // A stream of one channel meets a stream of two. The message has the remedy.
    let sum = |second: &str| {
        let text = format!(
            "[component]\na = {{ type = 'signal-generator', properties = {{ sample_rate = 1e6 }} }}\n\
             b = {{ type = 'signal-generator', properties = {{ sample_rate = 1e6 }} }}\n\
             join = {{ type = 'multiplexer', properties = {{ mode = 'interleave' }} }}\n\
             mono = {{ type = 'signal-generator', properties = {{ sample_rate = 1e6 }} }}\n\
             sum = {{ type = 'adder' }}\nend = {{ type = 'null-sink' }}\n\
             [[connection]]\nfrom = 'a.out'\nto = 'join.in1'\n[[connection]]\nfrom = 'b.out'\nto = 'join.in2'\n\
             [[connection]]\nfrom = 'mono.out'\nto = 'sum.in1'\n[[connection]]\nfrom = 'sum.out'\nto = 'end.in'\n\
             {second}"
        );
        run(&["check", waveform(folder.path(), &text).to_str().unwrap()])
    };
    let direct = "[[connection]]\nfrom = 'join.out'\nto = 'sum.in2'\n";
    let differing = "`sum` takes streams of one order, but 1 channel and 2 channels arrive";
    sum(direct).says(2, &["order-mismatch", differing, "put a `demultiplexer` behind"]);
    let remedy = "[[connection]]\nfrom = 'join.out'\nto = 'apart.in'\n[[connection]]\nfrom = 'apart.out2'\n\
                  to = 'sum.in2'\n[component.apart]\ntype = 'demultiplexer'\n";
    sum(remedy).says(0, &[]);
}

#[test]
fn waveforms_that_do_not_fit_together() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository("waveforms/adsb.toml")).unwrap();
    let broken = |from: &str, to: &str, words: &[&str]| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "`{from}` is not in the file");
        let path = waveform(folder.path(), &changed);
        for command in ["check", "run"] {
            run(&[command, path.to_str().unwrap()]).says(2, words);
        }
    };
    broken("[component.sink]", "[component.sink]\ncolour = 1", &["colour", "waveform.toml", "^"]);
    broken("type = \"adsb-sink\"", "type = \"adsb-sunk\"", &["adsb-sunk", "adsb-sink", "^"]);
    broken("to = \"sink.in\"", "to = \"sink.inn\"", &["inn", "^"]);
    broken("to = \"sink.in\"", "to = \"decoder.in\"", &["decoder.in", "^"]);
    broken("type = \"adsb-decoder\"", "type = \"wav-sink\"", &["^"]);
    broken("[waveform]", "[[waveform", &["waveform.toml:", "^"]);
    adsb(&["--set", "source.seed=-5"]).says(2, &["seed", "-5"]);
}

#[test]
fn an_executable_that_is_missing_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for name in ["first", "second", "third"] {
        text +=
            &format!("[component.{name}]\nexec = \"blocks\"\ntype = \"{name}\"\nplacement = \"thread\"\n");
    }
    let path = waveform(folder.path(), &text);
    for more in [&[][..], &["--placement", "threads"]] {
        let refused = run(&[&["check", path.to_str().unwrap()], more].concat());
        refused.says(
            2,
            &["there is no executable `blocks`", "waveform.toml:2:8", "1 error; nothing was started"],
        );
    }
}

#[test]
fn executables_that_are_no_components() {
    let folder = tempfile::tempdir().unwrap();
    let described = common::run_gain_description();
    let script = |name: &str, body: &str| {
        let path = folder.path().join(name);
        common::write_script(&path, &format!("#!/bin/sh\n{body}\n"));
        name.to_string()
    };
    let with = |exec: &str| {
        let text = format!(
            "[component.source]\ntype = \"signal-generator\"\nproperties = {{ duration_s = 0.1 }}\n\
             [component.gain]\nexec = \"{exec}\"\n[component.end]\ntype = \"null-sink\"\n\
             [[connection]]\nfrom = \"source.out\"\nto = \"gain.in\"\n\
             [[connection]]\nfrom = \"gain.out\"\nto = \"end.in\"\n"
        );
        let path = waveform(folder.path(), &text);
        run(&["run", path.to_str().unwrap(), "--quiet"])
    };
    with("no-such-program").says(2, &["no-such-program", "^"]);
    let describe = format!("if [ \"$1\" = --describe ]; then cat <<'EOF'\n{described}\nEOF\nexit 0; fi");
    with(&script("silent", "exit 0")).says(2, &["--describe", "^"]);
    with(&script("exits", &format!("{describe}\necho sorry >&2; exit 7")))
        .says(1, &["gain", "exited with code 7", "before it registered", "sorry"]);
    with(&script("dies", &format!("{describe}\nkill -9 $$"))).says(1, &["gain", "SIGKILL"]);
    with(&script("mute", &format!("{describe}\nexec sleep 1000"))).says(1, &["gain", "did not register"]);
}
