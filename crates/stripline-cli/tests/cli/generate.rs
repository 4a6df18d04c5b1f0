//! Schemas, completions and manual pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{repository, run};
use serde_json::Value;

fn schema(kind: &str) -> Value {
    let printed = run(&["schema", kind]);
    printed.says(0, &[]);
    serde_json::from_str(&printed.stdout).unwrap()
}

/// Checks a value against the JSON schema keywords that are used here. Returns the places that do
/// not fit. An unknown keyword fails the test.
fn misfits(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut require = |is_so: bool, what: &str| {
        if !is_so {
            found.push(format!("{place}: {what}"));
        }
    };
    let fits = |schema: &Value| misfits(schema, value, place).is_empty();
    let mut inside = Vec::new();
    for (word, wanted) in schema.as_object().unwrap() {
        let list = wanted.as_array();
        match word.as_str() {
            "$schema" | "title" => {}
            "type" => {
                let types = list.map_or(std::slice::from_ref(wanted), Vec::as_slice);
                let is = |kind: &Value| match kind.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64(),
                    "number" => value.is_number(),
                    other => panic!("unknown type {other}"),
                };
                require(types.iter().any(is), "type");
            }
            "enum" => require(list.unwrap().contains(value), "enum"),
            "minimum" => {
                require(value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()), "minimum");
            }
            "maximum" => {
                require(value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()), "maximum");
            }
            "minLength" => {
                let is_long = |text: &str| text.chars().count() as u64 >= wanted.as_u64().unwrap();
                require(value.as_str().is_none_or(is_long), "minLength");
            }
            "minItems" => require(value.as_array().is_none_or(|list| !list.is_empty()), "minItems"),
            "maxItems" => {
                let is_short = |list: &Vec<Value>| list.len() as u64 <= wanted.as_u64().unwrap();
                require(value.as_array().is_none_or(is_short), "maxItems");
            }
            "minProperties" => {
                require(value.as_object().is_none_or(|table| !table.is_empty()), "minProperties")
            }
            // Names and sizes are covered by the tests of the reader.
            "pattern" | "propertyNames" => {}
            "required" => {
                let has = |key: &Value| value.get(key.as_str().unwrap()).is_some();
                require(list.unwrap().iter().all(has), "required");
            }
            "anyOf" => require(list.unwrap().iter().any(fits), "anyOf"),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    inside.extend(misfits(wanted, item, &format!("{place}[{index}]")));
                }
            }
            "properties" | "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (key, item) in value.as_object().into_iter().flatten() {
                    let inner = known.and_then(|known| known.get(key));
                    let place = format!("{place}.{key}");
                    match (word.as_str(), inner, wanted) {
                        ("properties", Some(inner), _) => inside.extend(misfits(inner, item, &place)),
                        ("additionalProperties", None, Value::Bool(false)) => inside.push(place),
                        ("additionalProperties", None, inner) => inside.extend(misfits(inner, item, &place)),
                        _ => {}
                    }
                }
            }
            other => panic!("unknown word {other}"),
        }
    }
    found.extend(inside);
    found
}

fn value(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

/// Returns the TOML blocks in a document that begin like a whole file.
fn blocks(document: &str, start: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository(document)).unwrap();
    let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_string());
    blocks.filter(|block| block.starts_with(start)).collect()
}

#[test]
fn the_files_of_the_project_fit_their_schemas() {
    for (kind, folder) in [("waveform", "waveforms"), ("experiment", "experiments")] {
        let schema = schema(kind);
        for path in toml_files(&repository(folder)) {
            let found = misfits(&schema, &value(&std::fs::read_to_string(&path).unwrap()), "");
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
    let documented = blocks("docs/waveform-file.md", "[waveform]");
    assert!(!documented.is_empty());
    for block in documented {
        assert_eq!(misfits(&schema("waveform"), &value(&block), ""), Vec::<String>::new());
    }
    let topics = "[domain]\n[default]\ntransport = 'shm'\n[topic.iq]\ndepth = 4\nresequence = { window = 8, \
                  skip-after-ms = 0 }\nbuffer = 65536\nsampling = 'off'\ndispatch = 'pool(2)'";
    assert_eq!(misfits(&schema("topics"), &value(topics), ""), Vec::<String>::new());
    // The parser of topics files also accepts the example.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topics.toml");
    std::fs::write(&path, topics).unwrap();
    run(&["check", path.to_str().unwrap()]).says(0, &[]);
}

#[test]
fn what_check_refuses_does_not_fit() {
    let component = "[component.a]\ntype = 'x'\n";
    for (kind, text, place) in [
        ("waveform", "[waveform]\n".to_string(), "required"),
        ("waveform", "[component.a]\n".into(), "anyOf"),
        ("waveform", format!("{component}restrat = 'never'"), "restrat"),
        ("waveform", format!("{component}restart = 'sometimes'"), "anyOf"),
        ("waveform", format!("{component}restart = {{ wehn = 'always' }}"), "anyOf"),
        ("waveform", format!("{component}priority = 100"), "maximum"),
        ("waveform", format!("{component}cpu = []"), "anyOf"),
        ("waveform", format!("{component}[[connection]]\nfrom = 'a.x'"), "required"),
        ("waveform", format!("{component}[[connection]]\nfrom = 'a'\nto = 'b'\ndepth = 0"), "minimum"),
        ("waveform", format!("{component}[[connection]]\nfrom = 'a'\nto = 'b'\ngroup = 'x'"), "group"),
        ("topics", "[topic.a]\ndepht = 4".into(), "depht"),
        ("topics", "[topic.a]\ntransport = 'pigeon'".into(), "enum"),
        ("topics", "[topic.a]\nbuffer = '2MiB'".into(), "type"),
        ("experiment", "[experiment]\nname = 'x'".into(), "required"),
        ("experiment", "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 0".into(), "anyOf"),
        ("experiment", "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstags = 1".into(), "stags"),
    ] {
        let found = misfits(&schema(kind), &value(&text), "");
        assert!(found.iter().any(|found| found.contains(place)), "{text}: {found:?}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.toml");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(run(&["check", path.to_str().unwrap()]).code, Some(2), "{text}");
    }
    run(&["schema", "radar"]).says(2, &["radar", "waveform", "topics", "experiment"]);
}

#[test]
fn completions_are_scripts_of_their_shells() {
    for (shell, start) in
        [("bash", "_stripline()"), ("zsh", "#compdef stripline"), ("fish", "# Print an optspec")]
    {
        let printed = run(&["completions", shell]);
        printed.says(0, &[]);
        assert!(printed.stdout.starts_with(start), "{shell}: {}", &printed.stdout[..200]);
        for word in ["waveforms", "links", "completions", "transport"] {
            assert!(printed.stdout.contains(word), "{shell}: {word}");
        }
        // The shell itself checks the syntax, if it is installed.
        let mut checked = Command::new(shell);
        checked.args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = checked.spawn() else {
            println!("NOT RUN: there is no {shell}");
            continue;
        };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), printed.stdout.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
    run(&["completions", "tcsh"]).says(2, &["tcsh", "bash", "zsh", "fish"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    let write = || run(&["man", "--output", pages.to_str().unwrap()]);
    write().says(0, &[]);
    // The second run replaces the pages of the first one.
    write().says(0, &[]);
    for name in ["stripline", "stripline-run", "stripline-links", "stripline-bench-ladder", "stripline-call"]
    {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH ") && page.contains("Exit codes: 0"), "{name}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    run(&["man", "--output", file.to_str().unwrap()]).says(2, &["cannot write", "file"]);
    run(&["man"]).says(2, &["--output"]);
}
