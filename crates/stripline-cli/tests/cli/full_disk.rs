//! Files that cannot be written or named. All data written before stays, and is counted.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stripline_components::formats::SigMfRecording;

use crate::common::waveform::File;
use crate::common::{Run, run};

/// Writes a waveform with a tone of this sample type, and sinks with these keys.
fn tone(samples: &str, sinks: &[&str]) -> File {
    let sinks: String = (0..)
        .zip(sinks)
        .map(|(number, keys)| {
            format!(
                "[component.sink{number}]\n{keys}\n[[connection]]\nfrom = \"tone.out\"\nto = \"sink{number}.in\"\n"
            )
        })
        .collect();
    File::new(&format!(
        "[component.tone]\ntype = \"signal-generator\"\nproperties = {{ output = \"{samples}\", sample_rate = 1e6, \
         duration_s = 2.0, packet = 1000 }}\n{sinks}"
    ))
}

/// Runs a waveform with a limit on the size of files, in blocks of 512 bytes. Returns the report of
/// the run.
fn limited(file: &File, blocks: u32) -> (Run, Value) {
    let result = file.path("result.json");
    // A write beyond the limit fails, as on a full disk. The signal that would kill the process is
    // ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec {} run {} -q --placement threads --output {}",
        env!("CARGO_BIN_EXE_stripline"),
        file.path("file.toml").display(),
        result.display()
    );
    let done = Command::new("sh").args(["-c", &script]).output().unwrap();
    (Run::of(done), serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap())
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn sink(kind: &str, path: &str, more: &str) -> String {
    format!("type = \"{kind}\"\nproperties = {{ path = \"{path}\"{more} }}")
}

const LIMIT_BYTES: u64 = 8192 * 512;

#[test]
fn a_file_without_room_has_whole_samples_and_their_count() {
    for (kind, samples, path, data, sample_bytes, head) in [
        ("file-sink", "cf32", "a.cf32", "a.cf32", 8, 0),
        ("file-sink", "cf32", "a.sigmf-meta", "a.sigmf-data", 8, 0),
        ("wav-sink", "f32", "a.wav", "a.wav", 4, 94),
    ] {
        let more = if kind == "wav-sink" { ", encoding = \"float32\"" } else { "" };
        let file = tone(samples, &[&sink(kind, path, more)]);
        let (done, report) = limited(&file, 8192);
        done.says(1, &[path.split('.').next().unwrap(), "File too large"]);
        let written = &report["components"][1]["files"][0];
        let bytes = size(&file.path(data));
        assert!(bytes <= LIMIT_BYTES && bytes > LIMIT_BYTES - 16, "{bytes}");
        assert_eq!(written["samples"].as_u64(), Some((bytes - head) / sample_bytes), "{report}");
        assert_eq!((bytes - head) % sample_bytes, 0);
        assert_eq!(written["finished"], false);
        if path.ends_with("meta") {
            assert_eq!(SigMfRecording::open(&file.path(path)).unwrap().meta.captures.len(), 1);
        }
    }
}

#[test]
fn a_full_disk_ends_the_run_or_the_sink_alone() {
    for (kind, samples, more) in [
        ("file-sink", "cf32", ""),
        ("wav-sink", "f32", ", encoding = \"float32\""),
        ("print-sink", "f32", ", samples = 100000"),
    ] {
        for (word, code) in [("fail", 1), ("end", 0)] {
            let full = sink(kind, "a.out", &format!("{more}, disk_full = \"{word}\""));
            let file = tone(samples, &[&full, "type = \"null-sink\""]);
            let (done, report) = limited(&file, 8192);
            done.says(code, &["a.out", "File too large"]);
            let written = &report["components"][1]["files"][0];
            let problem = written["problem"].as_str().unwrap_or_default();
            assert_eq!(problem.contains("File too large"), word == "end", "{report}");
            let uncounted = "; any later packets are missing, too, and not counted";
            assert_eq!(problem.ends_with(uncounted), word == "end", "{report}");
            assert_eq!(done.stderr.contains(uncounted), word == "end", "{}", done.stderr);
            assert_eq!(written["finished"], false);
            if kind != "print-sink" {
                let count = |name: &str| written[name].as_u64().unwrap();
                let received = 1000 * report["connections"][0]["packets"].as_u64().unwrap();
                assert_eq!(count("samples") + count("missing"), received, "{report}");
            }
            if word == "end" {
                assert_eq!(report["connections"][1]["packets"], 2000, "{report}");
            }
        }
    }
}

#[test]
fn a_text_without_room_has_whole_lines() {
    let file = tone("f32", &[&sink("print-sink", "a.txt", ", samples = 1000")]);
    let (done, report) = limited(&file, 8192);
    done.says(1, &["a.txt: cannot write after ", "File too large"]);
    let text = std::fs::read_to_string(file.path("a.txt")).unwrap();
    assert!(text.len() as u64 <= LIMIT_BYTES && text.ends_with('\n'), "{}", text.len());
    let written = &report["components"][1]["files"][0];
    assert_eq!(written["lines_missing"], 1, "{report}");
    assert!(written["problem"].is_null() && !written["finished"].as_bool().unwrap(), "{report}");
}

#[test]
fn a_picture_without_room_leaves_the_earlier_one() {
    let picture = sink("waterfall-sink", "a.png", ", existing = \"replace\", terminal = false");
    let file = File::new(&format!(
        "[component.source]\ntype = \"signal-generator\"\nproperties = {{ waveform = \"noise\", duration_s = 5 }}\n\
         [component.fft]\ntype = \"fft\"\n[component.sink]\n{picture}\n\
         [[connection]]\nfrom = \"source.out\"\nto = \"fft.in\"\nbuffer = \"16KiB\"\n\
         [[connection]]\nfrom = \"fft.out\"\nto = \"sink.in\"\nbuffer = \"16KiB\"\n"
    ));
    std::fs::write(file.path("a.png"), "earlier").unwrap();
    // The limit leaves room for the rings.
    let (done, _) = limited(&file, 50);
    done.says(1, &["a.png: cannot write", "File too large"]);
    assert_eq!(std::fs::read(file.path("a.png")).unwrap(), b"earlier");
    let names = std::fs::read_dir(file.path("a.png").parent().unwrap()).unwrap().flatten();
    let parts = names.filter(|name| name.file_name().to_string_lossy().contains(".part"));
    assert_eq!(parts.count(), 0);
    run(&["run", file.path("file.toml").to_str().unwrap(), "-q"]).says(0, &["wrote the waterfall to"]);
    assert!(std::fs::read(file.path("a.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn a_device_without_room_is_an_error_of_its_path() {
    for (kind, samples) in [("file-sink", "cf32"), ("wav-sink", "f32"), ("print-sink", "f32")] {
        let file = tone(samples, &[&sink(kind, "/dev/full", "")]);
        let done = run(&["run", file.path("file.toml").to_str().unwrap(), "-q"]);
        done.says(1, &["/dev/full: cannot write after 0 bytes: No space left"]);
    }
}

#[test]
fn a_name_may_have_255_bytes() {
    for (kind, samples, ending) in
        [("file-sink", "cf32", "sigmf-meta"), ("file-sink", "cf32", "cf32"), ("wav-sink", "f32", "wav")]
    {
        let name = |bytes: usize| format!("{}.{ending}", "n".repeat(bytes - ending.len() - 1));
        let at = |name: &str| tone(samples, &[&sink(kind, name, "")]);
        let (file, path) = (at(&name(255)), name(255));
        run(&["run", file.path("file.toml").to_str().unwrap(), "-q"]).says(0, &[]);
        assert!(size(&file.path(&path)) > 0);
        // The number would make the name too long.
        let numbered = "sink0.existing=number";
        let again = run(&["check", file.path("file.toml").to_str().unwrap(), "--set", numbered]);
        again.says(2, &[".2.", "the name is too long"]);
        let long = at(&name(256));
        for command in ["check", "run"] {
            run(&[command, long.path("file.toml").to_str().unwrap()])
                .says(2, &["the name is too long", "at most 255 bytes"]);
        }
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_is_an_error_at_the_end() {
    for (kind, samples, name) in [
        ("file-sink", "cf32", "a.cf32"),
        ("file-sink", "cf32", "a.sigmf-data"),
        ("wav-sink", "f32", "a.wav"),
        ("print-sink", "f32", "a.txt"),
    ] {
        for replaced in [false, true] {
            let file = tone(samples, &[&sink(kind, name, "")]);
            let text = std::fs::read_to_string(file.path("file.toml")).unwrap();
            let endless = text.replace("duration_s = 2.0", "rate = 1e5");
            std::fs::write(file.path("file.toml"), endless).unwrap();
            let running = file.start(&[], 2);
            let path = file.path(name);
            running.wait_until("it has written", || size(&path) > 0);
            std::fs::remove_file(&path).unwrap();
            if replaced {
                std::fs::write(&path, "other").unwrap();
            }
            file.ask("stop", &[]);
            let (code, text) = running.end();
            assert!(code == Some(1) && text.contains("removed or replaced meanwhile"), "{text}");
            assert_eq!(path.exists(), replaced);
            assert!(!replaced || std::fs::read(&path).unwrap() == b"other");
        }
    }
}
