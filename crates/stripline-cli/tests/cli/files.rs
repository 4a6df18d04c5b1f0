//! Files that users bring. Their types are detected, and their descriptions are used.

use std::io::Write;

use serde_json::Value;
use stripline_components::formats::{WavFileWriter, WavSettings};

use crate::common::waveform::File;
use crate::common::{Run, run, stripline};

/// Writes a file into the folder of the waveform, and returns the path.
fn write(file: &File, name: &str, bytes: &[u8]) -> String {
    let path = file.path(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns a waveform that prints the packets of a source.
fn printed(source: &str) -> File {
    File::new(&format!(
        r#"
        [component.source]
        {source}
        [component.sink]
        type = "print-sink"
        properties = {{ format = "json", samples = 1 }}
        [[connection]]
        from = "source.out"
        to = "sink.in"
        "#
    ))
}

fn play(file: &File, settings: &[&str]) -> Run {
    let path = file.path("file.toml");
    let sets = settings.iter().flat_map(|setting| ["--set", *setting]);
    run(&["run", path.to_str().unwrap(), "--quiet"].into_iter().chain(sets).collect::<Vec<_>>())
}

/// Returns the index, time, frequency and first value of each packet.
fn packets(run: &Run) -> Vec<(u64, i64, Option<f64>, Value)> {
    let (mut frequency, mut packets) = (None, Vec::new());
    for line in run.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str() {
            Some("stream") => frequency = event["stream"]["center_frequency_hz"].as_f64(),
            Some("packet") => {
                let (index, time) = (&event["sample_index"], &event["time_ns"]);
                let first = event["values"][0].clone();
                packets.push((index.as_u64().unwrap(), time.as_i64().unwrap_or(0), frequency, first));
            }
            _ => {}
        }
    }
    packets
}

#[test]
fn numbers_beyond_the_range_of_f32_are_counted() {
    let file = printed(FILE_SOURCE);
    let numbers = [1e300, 0.5, -1e39, f64::INFINITY, f64::NAN, 1.0].map(f64::to_le_bytes);
    let path = format!("source.path={}", write(&file, "a.f64", numbers.as_flattened()));
    let text = "a.f64: 2 samples beyond the range of f32, sent as infinite";
    play(&file, &[&path, "source.output=f32"]).says(0, &["source: ", text]);
    let same = play(&file, &[&path, "source.output=f64"]);
    same.says(0, &[]);
    assert!(!same.stderr.contains("infinite"), "{}", same.stderr);
}

const FILE_SOURCE: &str = "type = \"file-source\"\nproperties = { packet = 4, path = \"in\" }";

#[test]
fn captures_of_sigmf_change_index_time_and_frequency_of_the_stream() {
    let file = printed(FILE_SOURCE);
    let meta = r#"{"global": {"core:datatype": "ci8", "core:sample_rate": 1000},
        "captures": [{"core:sample_start": 2, "core:frequency": 1e8, "core:datetime": "1970-01-01T00:00:01Z"},
        {"core:sample_start": 5, "core:global_index": 60, "core:frequency": 4e8}, {"core:sample_start": 99}]}"#;
    let path = format!("source.path={}", write(&file, "a.sigmf-meta", meta.as_bytes()));
    write(&file, "a.sigmf-data", &[64; 20]);
    let run = play(&file, &[&path]);
    run.says(
        0,
        &["`captures[2].core:sample_start` is 99, but there are 10 samples: the capture is left out"],
    );
    let value = serde_json::json!([0.5, 0.5]);
    let second = 1_000_000_000;
    assert_eq!(
        packets(&run),
        [
            (0, 0, None, value.clone()),
            (2, second, Some(1e8), value.clone()),
            (60, 0, Some(4e8), value.clone()),
            (64, 0, Some(4e8), value),
        ]
    );
    let tuned = packets(&play(&file, &[&path, "source.frequency=5e8"]));
    assert!(tuned.iter().all(|(_, _, frequency, _)| *frequency == Some(5e8)), "{tuned:?}");

    let aircraft = "type = \"adsb-source\"\nproperties = { packet = 4, path = \"in\", format = \"cs8\" }";
    let run = play(&printed(aircraft), &[&path]);
    let value = serde_json::json!([64, 64]);
    let segments = [(0, 0, 1090e6), (2, second, 1e8), (60, 0, 4e8), (64, 0, 4e8)];
    let segments = segments.map(|(index, time, frequency)| (index, time, Some(frequency), value.clone()));
    assert_eq!(packets(&run), segments);
}

#[test]
fn a_sigmf_archive_is_played_in_place_or_names_its_recordings() {
    let file = printed(FILE_SOURCE);
    let meta = r#"{"global": {"core:datatype": "ci8", "core:sample_rate": 1000},
        "captures": [{"core:sample_start": 0, "core:global_index": 7, "core:frequency": 1e8}]}"#;
    for name in ["a", "b"] {
        write(&file, &format!("{name}.sigmf-meta"), meta.as_bytes());
        write(&file, &format!("{name}.sigmf-data"), &[64; 10]);
    }
    let folder = file.path("a.sigmf-meta").parent().unwrap().to_owned();
    let archive = |name: &str, files: &[&str]| {
        let made =
            std::process::Command::new("tar").arg("-cf").arg(name).args(files).current_dir(&folder).status();
        assert!(made.unwrap().success());
        format!("source.path={}", folder.join(name).display())
    };
    let one = archive("one.sigmf", &["a.sigmf-data", "a.sigmf-meta"]);
    let value = serde_json::json!([0.5, 0.5]);
    assert_eq!(packets(&play(&file, &[&one])), [(7, 0, Some(1e8), value.clone()), (11, 0, Some(1e8), value)]);
    let both = archive("both.sigmf", &["a.sigmf-data", "a.sigmf-meta", "b.sigmf-data", "b.sigmf-meta"]);
    let words = ["of several recordings", "help: unpack it with `tar`, and play one of `a.sigmf-meta`, `b"];
    play(&file, &[&both]).says(2, &words);
    let streams = br#"{"collection": {"core:streams": [{"name": "a"}, {"name": "b"}]}}"#;
    let all = format!("source.path={}", write(&file, "all.sigmf-collection", streams));
    play(&file, &[&all]).says(2, &["a SigMF collection", "help: play one of `a.sigmf-meta`, `b"]);
    play(&file, &["source.path=none.sigmf"]).says(2, &["none.sigmf: there is no such file"]);
}

#[test]
fn a_wav_file_is_played_with_the_rate_and_frequency_of_its_header() {
    let file = printed(FILE_SOURCE);
    let auxi = [&[0; 32][..], &98_000_000u32.to_le_bytes(), &[0; 4]].concat();
    let format = [1, 0, 2, 0, 0x80, 0x84, 0x1e, 0, 0, 0x12, 0x7a, 0, 4, 0, 16, 0];
    let chunk = |name: &[u8], body: &[u8]| [name, &(body.len() as u32).to_le_bytes(), body].concat();
    let body = [chunk(b"fmt ", &format), chunk(b"auxi", &auxi), chunk(b"data", &[0, 64, 0, 128])].concat();
    let wav = [&b"RIFF\0\0\0\0WAVE"[..], &body].concat();
    let path = format!("source.path={}", write(&file, "iq.wav", &wav));
    let run = play(&file, &[&path]);
    assert_eq!(packets(&run), [(0, 0, Some(98e6), serde_json::json!([0.5, -1.0]))]);
    assert!(run.stdout.contains("\"sample_rate_hz\":2000000"), "{}", run.stdout);
    // The same file is sent as two real channels.
    let run = play(&file, &[&path, "source.output=f32"]);
    assert_eq!(packets(&run), [(0, 0, Some(98e6), serde_json::json!(0.5))]);
    assert!(run.stdout.contains("\"channels\":[\"1\",\"2\"]"), "{}", run.stdout);
    let message = "it holds s16 (2 channels) samples, not u8";
    play(&file, &[&path, "source.output=u8"]).says(2, &[message, "to \"s16\", or to \"f32\" to convert"]);
    play(&file, &[&path, "source.output=s16"]).says(0, &[]);
}

#[test]
fn audio_of_8_bits_becomes_the_same_audio_of_16_bits() {
    let file = File::new(
        r#"
        [component.source]
        type = "file-source"
        properties = { path = "a.wav", output = "f32" }
        [component.sink]
        type = "wav-sink"
        properties = { path = "b.wav" }
        [[connection]]
        from = "source.out"
        to = "sink.in"
        "#,
    );
    let all: Vec<u8> = (0..=255).collect();
    let format = *b"fmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\x01\0\0";
    write(&file, "a.wav", &[b"RIFF\0\0\0\0WAVE", &format[..], &all].concat());
    play(&file, &[]).says(0, &[]);
    let written = std::fs::read(file.path("b.wav")).unwrap();
    let expected: Vec<u8> = all.iter().flat_map(|x| ((i16::from(*x) - 128) * 256).to_le_bytes()).collect();
    assert_eq!(written[written.len() - 512..], expected);
}

#[test]
fn metadata_that_are_left_out_are_named() {
    let file = printed(FILE_SOURCE);
    let meta = r#"{"global": {"core:datatype": "ci8", "core:metadata_only": true, "core:gain": 3},
        "capture": [{"core:time": 12}]}"#;
    let path = format!("source.path={}", write(&file, "a.sigmf-meta", meta.as_bytes()));
    play(&file, &[&path])
        .says(2, &["`core:metadata_only` is true", "help: give a recording with a data file"]);
    write(&file, "a.sigmf-data", &[64; 8]);
    let notes = [
        "`core:metadata_only` is left out, as there is a data file",
        "keys that SigMF does not have are left out: `core:gain`",
        "`capture[0].core:time` is 12, not a time: it is left out",
    ];
    play(&file, &[&path]).says(0, &notes);
}

#[test]
fn the_channels_of_a_raw_file_take_turns() {
    let file = File::filtered(
        "source",
        "type = \"file-source\"\nproperties = { path = \"in\", output = \"f32\", sample_rate = 4e3 }",
        "properties = { high = 900 }",
    );
    let samples: Vec<u8> = [1f32, -1.0].repeat(2000).iter().flat_map(|x| x.to_le_bytes()).collect();
    let path = format!("source.path={}", write(&file, "a.f32", &samples));
    let waveform = file.path("file.toml");
    let check = |high| {
        let settings = ["--set", &path, "--set", "source.channels=2", "--set", high];
        run(&[&["check", waveform.to_str().unwrap()], &settings[..]].concat())
    };
    check("filter.high=900").says(0, &[]);
    // A channel has half of the sample rate, so the highest frequency is a quarter of that rate.
    check("filter.high=1100").says(2, &["1100"]);
    let printed = printed("type = \"file-source\"\nproperties = { path = \"in\", output = \"f32\" }");
    let run = play(&printed, &[&path, "source.channels=2", "source.packet=4"]);
    assert!(run.stdout.contains("\"channels\":[\"1\",\"2\"]"), "{}", run.stdout);
    assert_eq!(packets(&run)[1], (4, 0, None, serde_json::json!(1.0)));
}

#[test]
fn a_file_for_another_component_or_program_is_refused_by_name() {
    let file = printed(FILE_SOURCE);
    for (name, bytes, words) in [
        ("port.cf32", &b"SLREC\r\n\x1a\0\0\0\0\0\0\0\0"[..], ["a recording of a port", "component `replay`"]),
        ("a.wav", &[1; 40], ["its name ends in .wav", "the property `format`"]),
        ("a.cu8", b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0", ["a ZIP file", "unpack it"]),
        ("a.cs8", &[], ["the file is empty", "check that the recording was made"]),
    ] {
        play(&file, &[&format!("source.path={}", write(&file, name, bytes))]).says(2, &words);
    }
    for (name, bytes, words) in [
        ("a.sigmf-meta", &b"{}"[..], "a SigMF recording"),
        ("b.wav", b"RIFF\0\0\0\0WAVEfmt ", "a WAV file"),
        ("b.cu8", &[0; 20], "by its name, this is a file of cu8 samples"),
    ] {
        let path = write(&file, name, bytes);
        run(&["replay", &path]).says(2, &[words, "play it with the component `file-source`"]);
    }
    let folder = file.path("a.sigmf-meta").parent().unwrap().to_owned();
    run(&["replay", folder.to_str().unwrap()]).says(2, &["has SigMF recordings", "`file-source`"]);
}

#[test]
fn an_input_without_samples_is_an_error() {
    let file = printed("type = \"file-source\"\nproperties = { path = \"-\", format = \"cu8\" }");
    play(&file, &[]).says(1, &["the input had no samples"]);
    let path = file.path("file.toml");
    let mut child = stripline()
        .args(["run", path.to_str().unwrap(), "--quiet"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"RIFF\0\0\0\0WAVEfmt and more").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("a WAV file in a pipe"), "{text}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("values"));
}

#[test]
fn what_was_sent_before_an_error_arrives() {
    let file = File::new(
        r#"
        [component.source]
        type = "file-source"
        properties = { path = "-", format = "cu8", packet = 100 }
        [component.slow]
        type = "throttle"
        properties = { rate = 2e4 }
        [component.sink]
        type = "print-sink"
        properties = { format = "json", samples = 1 }
        [[connection]]
        from = "source.out"
        to = "slow.in"
        [[connection]]
        from = "slow.out"
        to = "sink.in"
        "#,
    );
    let bytes = file.path("bytes");
    std::fs::write(&bytes, [7; 10_001]).unwrap();
    for placement in ["processes", "threads"] {
        let path = file.path("file.toml");
        let output = stripline()
            .args(["run", path.to_str().unwrap(), "--quiet", "--placement", placement])
            .stdin(std::fs::File::open(&bytes).unwrap())
            .output()
            .unwrap();
        let run = Run::of(output);
        run.says(1, &["component source failed", "1 of its 10001 bytes are left over"]);
        let events = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let sent: u64 = events.filter_map(|event| event["samples"].as_u64()).sum();
        assert_eq!(sent, 5000, "{placement}");
    }
}

#[test]
fn a_wav_file_that_is_cut_is_sent_up_to_its_end_before_the_error() {
    let file = printed("type = \"file-source\"\nproperties = { path = \"a.wav\", output = \"f32\" }");
    let mut writer = WavFileWriter::create(file.path("a.wav"), &WavSettings::default()).unwrap();
    writer.write(&[0.5; 1000]).unwrap();
    writer.finish().unwrap();
    let whole = std::fs::read(file.path("a.wav")).unwrap();
    std::fs::write(file.path("a.wav"), &whole[..whole.len() - 1001]).unwrap();
    let run = play(&file, &[]);
    run.says(1, &["a.wav: it is truncated: its header has 2000 bytes of samples, and the file 999"]);
    let events = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(events.filter_map(|event| event["samples"].as_u64()).sum::<u64>(), 499);
}

#[test]
fn no_remedy_for_a_type_leads_in_a_circle() {
    let file = File::filtered(
        "source",
        "type = \"file-source\"\nproperties = { path = \"in\", sample_rate = 1e6 }",
        "properties = { high = 1e3 }",
    );
    let path = format!("source.path={}", write(&file, "a.cu8", &[0; 20]));
    let waveform = file.path("file.toml");
    let check = |setting: &str| run(&["check", waveform.to_str().unwrap(), "--set", &path, "--set", setting]);
    // The filter takes f32 or cf32, but the file cannot be sent as f32.
    let refused = check("source.output=cu8");
    refused.says(2, &["sends cu8", "set the property `output` of `source` to \"cf32\""]);
    assert!(!refused.stderr.contains("\"f32\""), "{}", refused.stderr);
    check("source.output=cf32").says(0, &[]);
}
