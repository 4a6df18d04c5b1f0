use proptest::prelude::*;

use super::*;
use crate::formats::{SampleFormat, is_sigmf};

const NAME: &str = "test.sigmf-meta";

fn parse(json: &str) -> Result<SigMfMeta, FormatError> {
    SigMfMeta::parse(json.as_bytes(), Path::new(NAME))
}

fn refused(json: &str, words: &[&str]) {
    let message = parse(json).unwrap_err().to_string();
    // The path, the problem and the remedy are separated by colons.
    assert!(message.matches(": ").count() >= 2, "{message}");
    for word in words.iter().chain([&NAME]) {
        assert!(message.contains(word), "`{word}` in {message}");
    }
}

fn notes(json: &str) -> Vec<String> {
    json::parse(json.as_bytes(), Path::new(NAME)).unwrap().notes
}

fn with_global(extra: &str) -> String {
    format!(
        r#"{{"global": {{"core:datatype": "cu8", "core:version": "1.0.0"{extra}}}, "captures": [], "annotations": []}}"#
    )
}

fn with_captures(captures: &str) -> String {
    format!(r#"{{"global": {{"core:datatype": "cu8", "core:version": "1.0.0"}}, "captures": [{captures}]}}"#)
}

#[test]
fn unknown_keys_are_ignored_and_known_ones_kept() {
    let meta = parse(
        r#"{"global": {"core:datatype": "cf32_le", "core:version": "1.2.3", "core:sample_rate": 250000,
            "core:author": "A", "core:hw": "H", "core:description": "D", "core:extensions": [{"name": "x"}],
            "antenna:gain": 3},
            "captures": [{"core:sample_start": 0, "core:datetime": "2020-01-01T00:00:00Z", "x:y": [1]},
            {"core:sample_start": 12, "core:frequency": 1e8}],
            "annotations": [{"core:sample_start": 3, "core:label": "L"}], "more": null}"#,
    )
    .unwrap();
    assert_eq!(meta.format, SampleFormat::Cf32.scalar());
    assert_eq!(meta.sample_rate_hz, Some(250e3));
    assert_eq!(
        (meta.author.as_deref(), meta.hardware.as_deref(), meta.description.as_deref()),
        (Some("A"), Some("H"), Some("D"))
    );
    assert_eq!(meta.captures[0].datetime.as_deref(), Some("2020-01-01T00:00:00Z"));
    assert_eq!((meta.captures[1].sample_start, meta.captures[1].frequency_hz), (12, Some(1e8)));
    let json = meta.to_json(Path::new(NAME)).unwrap();
    assert_eq!(parse(&json).unwrap(), meta);
}

#[test]
fn impossible_and_unsupported_values_are_refused_by_name() {
    for rate in ["0", "-2.4e6", "1e13"] {
        refused(&with_global(&format!(r#", "core:sample_rate": {rate}"#)), &["core:sample_rate", "above 0"]);
    }
    for rate in ["1e999", "NaN"] {
        refused(&with_global(&format!(r#", "core:sample_rate": {rate}"#)), &["line 1 column"]);
    }
    for rate in ["\"fast\"", "[]", "true", "\"NaN\""] {
        refused(&with_global(&format!(r#", "core:sample_rate": {rate}"#)), &["core:sample_rate", "a number"]);
    }
    for datatype in ["rf16_le", "ci12_le", "", "CU8", "ci16_xe"] {
        let json = with_global("").replace("cu8", datatype);
        refused(&json, &["core:datatype", datatype, "as `ci16_le`"]);
    }
    for channels in ["0", "257", "1e30"] {
        refused(&with_global(&format!(r#", "core:num_channels": {channels}"#)), &["core:num_channels"]);
    }
    refused(&with_global(r#", "core:trailing_bytes": 4"#), &["core:trailing_bytes", "(NCD)"]);
    refused(&with_global(r#", "core:header_bytes": 4"#), &["`core:header_bytes`", "(NCD)"]);
    for name in ["../secret", "/etc/passwd", "..", "", "a/b", "a\\\\b"] {
        refused(&with_global(&format!(r#", "core:dataset": "{name}""#)), &["core:dataset", "same folder"]);
    }
    refused(&with_captures(r#"{"core:sample_start": -1}"#), &["-1"]);
    let second = r#"{"core:sample_start": 0}, {"core:frequency": 1}"#;
    refused(&with_captures(second), &["captures[1].core:sample_start", "missing"]);
    let late = with_global(r#", "core:offset": 5"#).replace("[]", "[{}]");
    refused(&late, &["captures[0].core:sample_start", "missing"]);
    let rates =
        r#"{"core:sample_start": 0, "core:sample_rate": 5}, {"core:sample_start": 1, "core:sample_rate": 6}"#;
    refused(&with_captures(rates), &["captures[1].core:sample_rate", "is 6", "split the recording"]);
    let rates = rates.replace("core:sample_rate", "sdrangel:sample_rate");
    refused(&with_captures(&rates), &["captures[1].sdrangel:sample_rate", "is 6"]);
    refused(&with_captures(r#"{"core:sample_start": 0, "core:frequency": 2e12}"#), &["captures[0]"]);
    refused(&with_captures(r#"{"core:sample_start": 5}, {"core:sample_start": 4}"#), &["captures[1]", "4"]);
    let headed = r#"{"core:sample_start": 0, "core:header_bytes": 16}"#;
    refused(&with_captures(headed), &["captures[0].core:header_bytes", "(NCD)"]);
    for start in ["0.5", "\"x\"", "1e20"] {
        let capture = format!(r#"{{"core:sample_start": {start}}}"#);
        refused(&with_captures(&capture), &["captures[0].core:sample_start"]);
    }
    refused(&with_captures("7"), &["`captures[0]` is 7", "an object"]);
    let early = with_global(r#", "core:offset": 5"#).replace("[]", r#"[{"core:sample_start": 0}]"#);
    refused(&early, &["core:sample_start", "core:offset"]);
}

#[test]
fn what_is_clear_is_read() {
    let odd = "\u{feff}".to_owned()
        + r#"{"global": {"core:datatype": "ri32_be", "core:sample_rate": "1000000", "core:num_channels": 2.0},
            "captures": [{"core:sample_start": 0.0, "core:global_index": "9223372036854775807"}]}"#;
    let meta = parse(&odd).unwrap();
    assert_eq!((meta.sample_rate_hz, meta.channels, meta.is_big_endian), (Some(1e6), 2, true));
    assert_eq!(
        (meta.format.to_string(), meta.captures[0].global_index),
        ("s32".to_owned(), Some(u64::MAX / 2))
    );
    assert_eq!(parse(&meta.to_json(Path::new(NAME)).unwrap()).unwrap(), meta);
    assert_eq!(parse(r#"{"global": {"core:datatype": "cu8"}}"#).unwrap().captures, []);
    // Version 0.0.1 has the rate in the captures, and SDRangel leaves out a start of zero.
    let json = r#"{"global": {"core:datatype": "ci8", "core:frequency": 2e9, "core:datetime": "2024-02-29T12:34:56Z"},
        "captures": [{"core:sample_start": 0}, {"core:sample_start": 2, "core:frequency": 3e9}, {"core:sample_start": 4}]}"#;
    let captures = parse(json).unwrap().captures;
    let found: Vec<_> = captures.iter().map(|one| (one.frequency_hz, one.datetime.as_deref())).collect();
    assert_eq!(found, [(Some(2e9), Some("2024-02-29T12:34:56Z")), (Some(3e9), None), (Some(2e9), None)]);
    let old = parse(&with_captures(r#"{"core:sample_rate": 1e7, "core:frequency": 9e8}"#)).unwrap();
    assert_eq!((old.sample_rate_hz, old.captures[0].sample_start), (Some(1e7), 0));
}

#[test]
fn keys_that_sigmf_does_not_have_are_noted_by_name() {
    let json = r#"{"core:top": 1, "global": {"core:datatype": "cu8", "core:gain": [[3]], "core:sha512": "00", "x:y": 1},
        "captures": [{"core:sample_start": 0, "core:geolocation": {}}, {"core:sample_start": 2, "core:gain": 1},
        {"core:sample_start": 3, "core:gain": 1}], "annotations": [{"core:label": "L"}]}"#;
    let words =
        "keys that SigMF does not have are left out: `core:top`, `core:gain`, `captures[1].core:gain`";
    assert_eq!(notes(json), [words]);
    assert_eq!(
        notes(&with_captures(r#"{"core:sample_rate": 5, "core:time": "1970-01-01T00:00:01Z"}"#)),
        [""; 0]
    );
}

#[test]
fn a_frequency_for_no_capture_is_noted() {
    let global = with_global(r#", "core:frequency": 1e8, "core:datetime": "1970-01-01T00:00:01Z""#);
    assert!(notes(&global)[0].ends_with("left out: `core:frequency`, `core:datetime`"));
    assert_eq!(notes(&global.replace("[]", "[{}]")), [""; 0]);
}

#[test]
fn the_keys_of_early_versions_are_read() {
    let json = with_captures(r#"{"core:time": "1970-01-01T00:00:01Z"}, {"core:sample_start": 2}"#);
    let json = json.replace("captures", "capture");
    let captures = parse(&json).unwrap().captures;
    let found: Vec<_> = captures.iter().map(|one| (one.sample_start, one.datetime.as_deref())).collect();
    assert_eq!(found, [(0, Some("1970-01-01T00:00:01Z")), (2, None)]);
    assert_eq!(notes(&json), [""; 0]);
    let both =
        with_captures(r#"{"core:time": "1970-01-01T00:00:01Z", "core:datetime": "1971-01-01T00:00:00Z"}"#);
    let both = both.replace("\"captures\"", "\"capture\": [{}], \"captures\"");
    assert_eq!(parse(&both).unwrap().captures[0].datetime.as_deref(), Some("1971-01-01T00:00:00Z"));
    assert!(notes(&both)[0].ends_with("left out: `capture`, `captures[0].core:time`"));
    refused(&json.replace("2", "-2"), &["`capture[1].core:sample_start` is -2"]);
    refused(&with_captures("").replace("\"captures\": []", "\"capture\": 1"), &["`capture` is 1"]);
}

#[test]
fn a_value_that_is_no_time_is_noted() {
    for (value, shown) in [("5", "5"), ("[1]", "a list"), ("\"soon\"", "\"soon\""), ("true", "true")] {
        for key in ["core:datetime", "core:time"] {
            let capture = format!(r#"{{"core:sample_start": 0, "{key}": {value}}}"#);
            let note = format!("`captures[1].{key}` is {shown}, not a time: it is left out, and 1 more");
            assert_eq!(notes(&with_captures(&format!("{{}}, {capture}, {capture}"))), [note]);
        }
        let global = format!(r#", "core:datetime": {value}"#);
        let note = format!("`core:datetime` is {shown}, not a time: it is left out");
        assert_eq!(notes(&with_global(&global).replace("[]", "[{}]")), [note]);
    }
    let unix = with_captures(r#"{"core:datetime": "1970-01-01T00:00:00Z"}"#);
    assert!(notes(&unix)[0].contains("not a time"));
}

#[test]
fn a_required_extension_is_refused_unless_it_only_describes_the_signal() {
    let with = |list: &str| with_global(&format!(r#", "core:extensions": {list}"#));
    let unknown = with(r#"[{"name": "x", "optional": true}, {"name": "y", "optional": false}]"#);
    refused(&unknown, &["`core:extensions[1].optional` is false for \"y\"", "set the key to true"]);
    refused(&with(r#"[{"optional": false}]"#), &["`core:extensions[0].optional` is false for missing"]);
    assert_eq!(
        notes(&with(r#"[{"name": "x", "version": "1.0.0", "optional": true}, {"name": "z"}]"#)),
        [""; 0]
    );
    let signal = r#"{"name": "signal", "optional": false}"#;
    let known = with(&format!(r#"[{signal}, {{"name": "antenna", "optional": false}}, {signal}]"#));
    let words = "required extensions, which describe the signal, are left out: `antenna`, `signal`";
    assert_eq!(notes(&known), [words]);
    let early = with(r#"{"x": "required"}"#);
    assert_eq!(notes(&early), ["`core:extensions` is an object, no list: it is left out"]);
}

#[test]
fn metadata_in_another_encoding_are_refused_with_its_name() {
    let refused = |bytes: &[u8]| SigMfMeta::parse(bytes, Path::new(NAME)).unwrap_err().to_string();
    let text = with_global(r#", "core:author": "Jürgen""#);
    let units = |mark: &'static str| format!("{mark}{text}").encode_utf16().collect::<Vec<_>>();
    for mark in ["", "\u{feff}"] {
        let little: Vec<u8> = units(mark).into_iter().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units(mark).into_iter().flat_map(u16::to_be_bytes).collect();
        for bytes in [little, big] {
            let message = refused(&bytes);
            assert!(message.ends_with("UTF-16: convert it, as with `iconv -f UTF-16 -t UTF-8`"), "{message}");
        }
    }
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let message = refused(&latin);
    assert!(message.contains("in Latin-1 or another encoding, not UTF-8: convert it"), "{message}");
    // Texts that are not read may have any encoding.
    let ignored = with_global(r#", "x:author": "Jürgen""#);
    let latin: Vec<u8> = ignored.chars().map(|c| c as u8).collect();
    SigMfMeta::parse(&latin, Path::new(NAME)).unwrap();
}

#[test]
fn broken_json_is_refused_with_its_place() {
    refused("", &["the file is empty"]);
    refused("{", &["line 1"]);
    refused("[]", &["the key `global` is missing", "an object"]);
    refused(r#"{"global": {}, "captures": []}"#, &["core:datatype"]);
    refused(
        r#"{"global": {"core:datatype": "cu8"}, "captures": {}}"#,
        &["`captures` is an object, but it must be a list"],
    );
    refused(r#"{"global": ["cu8"], "captures": []}"#, &["`global` is a list, but it must be an object"]);
    refused(r#"{"captures": []}"#, &["global"]);
    refused(&"[".repeat(1_000_000), &["line 1"]);
    let deep = format!(r#", "x": {}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&with_global(&deep)).is_ok(), "ignored keys may be nested to any depth");
    assert!(parse(&with_global(&deep.replace('x', "core:author"))).is_ok());
    refused(&with_global(&deep.replace('x', "core:sample_rate")), &["is a list, but"]);
    let long = "x".repeat(100_000);
    let message = parse(&with_global("").replace("cu8", &long)).unwrap_err().to_string();
    assert!(message.len() < 300, "a long value is shortened");
    let long = vec![b' '; SIGMF_META_BYTES_MAX as usize + 1];
    let message = SigMfMeta::parse(&long, Path::new(NAME)).unwrap_err().to_string();
    assert!(message.contains("16777216"), "{message}");
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut meta = SigMfMeta::new(SampleFormat::Cs8);
    assert!(meta.to_json(Path::new(NAME)).unwrap().contains("\"annotations\": []"));
    meta.sample_rate_hz = Some(f64::NAN);
    assert!(meta.to_json(Path::new(NAME)).unwrap_err().to_string().contains("core:sample_rate"));
}

#[test]
fn a_recording_is_found_by_either_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let meta_path = dir.path().join("a.b.sigmf-meta");
    let data_path = dir.path().join("a.b.sigmf-data");
    let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
    assert!(message.contains("no such file") && message.contains("a.b.sigmf-meta"), "{message}");
    std::fs::write(&meta_path, with_global("")).unwrap();
    let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
    assert!(message.contains("a.b.sigmf-data is missing"), "{message}");
    std::fs::write(&data_path, [1, 2]).unwrap();
    for path in [&meta_path, &data_path] {
        assert!(is_sigmf(path));
        assert_eq!(SigMfRecording::open(path).unwrap().data_path, data_path);
    }
    std::fs::write(&meta_path, with_global(r#", "core:dataset": "other.bin""#)).unwrap();
    let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
    let words = "`core:dataset` is \"other.bin\", but there is no such file: correct it, or remove it";
    assert!(message.contains(words), "{message}");
    std::fs::write(dir.path().join("other.bin"), [1, 2]).unwrap();
    assert_eq!(SigMfRecording::open(&meta_path).unwrap().data_path, dir.path().join("other.bin"));
    for dataset in ["", r#", "core:dataset": "other.bin""#] {
        let only = with_global(&format!(r#", "core:metadata_only": true{dataset}"#));
        std::fs::write(&meta_path, &only).unwrap();
        let found = SigMfRecording::open(&meta_path).unwrap();
        assert_eq!(found.notes, ["`core:metadata_only` is left out, as there is a data file"]);
        std::fs::write(&meta_path, only.replace("other", "none")).unwrap();
        std::fs::rename(&data_path, dir.path().join("moved")).unwrap();
        let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
        let words = "`core:metadata_only` is true, but there are no samples: give a recording";
        assert!(message.contains(words), "{message}");
        std::fs::rename(dir.path().join("moved"), &data_path).unwrap();
    }
    std::fs::write(dir.path().join("a.sigmf"), "tar").unwrap();
    let message = SigMfRecording::open(&dir.path().join("a.sigmf")).unwrap_err().to_string();
    assert!(message.contains("tar"), "{message}");
    std::fs::create_dir(dir.path().join("d.sigmf-meta")).unwrap();
    let message = SigMfRecording::open(&dir.path().join("d.sigmf-meta")).unwrap_err().to_string();
    assert!(message.contains("directory"), "{message}");
}

#[test]
fn the_other_file_is_found_in_any_way_of_writing() {
    let dir = tempfile::tempdir().unwrap();
    for (meta, data) in [
        ("a.SIGMF-META", "a.SIGMF-DATA"),
        ("b.Sigmf-meta", "b.Sigmf-data"),
        ("c.sigmf-meta", "c.SigMF-Data"),
        ("d.SIGMF-META", "d.sigmf-data"),
    ] {
        let (meta, data) = (dir.path().join(meta), dir.path().join(data));
        std::fs::write(&meta, with_global("")).unwrap();
        std::fs::write(&data, [1, 2]).unwrap();
        for path in [&meta, &data] {
            let found = SigMfRecording::open(path).unwrap();
            assert_eq!((&found.meta_path, &found.data_path), (&meta, &data));
        }
    }
}

#[test]
fn of_two_recordings_with_one_name_each_has_its_own_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let names = ["q.sigmf-meta", "q.sigmf-data", "q.SIGMF-META", "q.SIGMF-DATA"].map(path);
    for path in &names {
        std::fs::write(path, with_global("")).unwrap();
    }
    for pair in names.chunks(2) {
        for path in pair {
            let found = SigMfRecording::open(path).unwrap();
            assert_eq!((&found.meta_path, &found.data_path), (&pair[0], &pair[1]));
        }
    }
}

#[test]
fn an_index_over_all_channels_is_below_2_to_the_64() {
    let meta = |key: &str, index: u64| {
        let global = r#"{"core:datatype": "ru8", "core:num_channels": 2}"#;
        let captures =
            format!(r#"[{{"core:sample_start": 0}}, {{"core:sample_start": 1, "{key}": {index}}}]"#);
        format!(r#"{{"global": {global}, "captures": {captures}}}"#)
    };
    parse(&meta("core:global_index", (1 << 63) - 1)).unwrap();
    refused(&meta("core:global_index", 1 << 63), &["captures[1].core:global_index", "below 2^64"]);
    let start = meta("core:global_index", 0)
        .replace("\"core:sample_start\": 1,", "\"core:sample_start\": 9223372036854775808,");
    parse(&start).unwrap();
    refused(
        &start.replace(", \"core:global_index\": 0", ""),
        &["captures[1].core:sample_start", "below 2^64"],
    );
}

#[test]
fn a_collection_names_its_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.Sigmf-Collection");
    let message = |json: &str| {
        std::fs::write(&path, json).unwrap();
        SigMfRecording::open(&path).unwrap_err().to_string()
    };
    let of = |streams: &str| format!(r#"{{"collection": {{"core:streams": [{streams}]}}}}"#);
    let found = message(&of(r#"{"name": "a"}, ["b", "hash"], {"name": "c\u001b.sigmf-meta", "hash": "x"}"#));
    let words =
        "this is a SigMF collection: play one of `a.sigmf-meta`, `b.sigmf-meta`, `c\\u{1b}.sigmf-meta`";
    assert!(found.ends_with(words), "{found}");
    let many = message(&of(&vec![r#"{"name": "a"}"#; 20].join(",")));
    assert!(many.ends_with("`a.sigmf-meta`, and 4 more"), "{many}");
    for json in [&of(""), "{}", "[]", r#"{"collection": {"core:streams": {"name": 1}}}"#] {
        let found = message(json);
        assert!(found.ends_with("collection: give the .sigmf-meta file of a recording"), "{found}");
    }
    assert!(message("{").contains("not SigMF metadata"));
    let missing = SigMfRecording::open(&dir.path().join("none.sigmf-collection")).unwrap_err();
    assert!(missing.to_string().contains("there is no such file"), "{missing}");
}

/// Returns JSON with the relevant keys and arbitrary values.
fn hostile() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        prop::sample::select(vec!["cu8", "ci16_le", "rf64_be", "1.0.0", "12", "", "../x"])
            .prop_map(Into::into),
        "\\PC{0,8}".prop_map(Into::into),
    ];
    let key = prop::sample::select(vec![
        "global",
        "captures",
        "annotations",
        "core:datatype",
        "core:version",
        "core:sample_rate",
        "core:sample_start",
        "core:frequency",
        "core:dataset",
        "core:datetime",
        "core:num_channels",
        "core:offset",
        "core:global_index",
    ]);
    leaf.prop_recursive(3, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hostile_metadata_is_refused_or_valid(global in hostile(), captures in hostile(), valid_type: bool) {
        let mut global = global;
        if let (true, Some(map)) = (valid_type, global.as_object_mut()) {
            map.insert("core:datatype".into(), "cu8".into());
            map.insert("core:version".into(), "1.0.0".into());
        }
        let json = serde_json::json!({"global": global, "captures": captures}).to_string();
        if let Ok(meta) = parse(&json) {
            prop_assert!(meta.sample_rate_hz.is_none_or(|rate| rate > 0.0 && rate <= HZ_MAX));
            prop_assert!(meta.captures.is_sorted_by_key(|capture| capture.sample_start));
            prop_assert_eq!(parse(&meta.to_json(Path::new(NAME)).unwrap()).unwrap(), meta);
        }
    }

    #[test]
    fn bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(SigMfMeta::parse(&bytes, Path::new(NAME)).is_err());
    }
}
