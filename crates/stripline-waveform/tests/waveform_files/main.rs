//! Checks waveform files of a corpus. The first lines of every file below `waveforms/invalid` list
//! the expected findings, and there must be no others. Files below `waveforms/valid` have at most
//! warnings. `UPDATE_SNAPSHOTS=1` writes the rendered texts to `waveforms/rendered`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use stripline::component::Value;
use stripline::node::Dispatch;
use stripline::terms::{Flow, LinkOptions, Overflow, Resequence, Scope, WaitStrategy};
use stripline::transport;
use stripline_waveform::internal::{check_spec, render_component, render_component_list};
use stripline_waveform::{
    AfterGivingUp, Catalog, ChosenBy, Code, DescribeError, Diagnostics, ExecutableSpecs, GiveUp, Level,
    Overrides, Placement, Program, ProgramCommand, Restart, RestartWhen, Waveform, load, parse_bytes,
};

mod stock;

use stock::{stock, with_layouts};

const TRANSPORTS: [&str; 4] = ["inproc", "shm", "unix", "tcp"];

type Checked = Result<(Waveform, Diagnostics), Diagnostics>;

fn corpus(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new("tests/waveforms").join(kind);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.iter().all(|path| path.extension().is_some_and(|e| e == "toml")));
    paths
}

/// Returns the values of the file's comments after `# KEY: `.
fn said(text: &str, key: &str) -> Vec<String> {
    let prefix = format!("# {key}: ");
    text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

fn overrides_of(text: &str) -> Overrides {
    let placement = said(text, "placement").pop().map(|word| match word.as_str() {
        "threads" => Placement::Thread,
        "processes" => Placement::Process,
        other => panic!("{other}"),
    });
    let writes = |option: String| {
        let (option, path) = option.split_once(' ').unwrap();
        (option.to_owned(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waveforms/invalid").join(path))
    };
    let writes = said(text, "writes").into_iter().map(writes).collect();
    Overrides { set: said(text, "set"), transport: said(text, "transport").pop(), placement, writes }
}

fn check_file(path: &Path) -> (String, Checked) {
    let text = std::fs::read_to_string(path).unwrap();
    let is_on_layouts = path.file_stem().unwrap().to_string_lossy().ends_with("layouts");
    let stock = if is_on_layouts { with_layouts() } else { stock() };
    let checked = load(path, &overrides_of(&text), &Catalog::new(&stock, &TRANSPORTS));
    (text, checked)
}

fn check_text(text: &str, overrides: &Overrides) -> Checked {
    parse_bytes(text.as_bytes(), Path::new("test.toml"), overrides, &Catalog::new(&stock(), &TRANSPORTS))
}

/// Checks that every expectation is met by a different finding, and that every finding is expected.
fn assert_expected(path: &Path, text: &str, found: &Diagnostics) {
    let mut left: Vec<_> = found.iter().collect();
    for expected in said(text, "expect") {
        let (code, part) = expected.split_once(": ").unwrap_or((&expected, ""));
        let fits =
            |d: &&stripline_waveform::Diagnostic| d.code().as_str() == code && d.message().contains(part);
        match left.iter().position(fits) {
            Some(index) => drop(left.remove(index)),
            None => panic!("{} lacks `{expected}`:\n{found}", path.display()),
        }
    }
    assert!(left.is_empty(), "{}: {left:?} is not expected in\n{found}", path.display());
}

#[test]
fn the_specs_of_these_tests_are_valid() {
    for spec in with_layouts().values() {
        assert_eq!(check_spec(spec), [""; 0], "{}", spec.name);
    }
}

#[test]
fn valid_files_pass() {
    for path in corpus("valid") {
        let (text, checked) = check_file(&path);
        let (waveform, warnings) = checked.unwrap_or_else(|found| panic!("{}:\n{found}", path.display()));
        assert_expected(&path, &text, &warnings);
        assert!(warnings.iter().all(|d| d.level() == Level::Warning));
        for component in &waveform.components {
            let connected = waveform.connections.iter().flat_map(|c| [&c.from, &c.to]);
            let ports: BTreeSet<&str> =
                connected.filter(|p| p.component == component.name).map(|p| p.port.as_str()).collect();
            let typed: BTreeSet<&str> = component.port_types.keys().map(String::as_str).collect();
            assert_eq!(ports, typed, "{}", path.display());
        }
    }
}

#[test]
fn invalid_files_have_exactly_the_expected_findings() {
    // The file `absent-transport.toml` is skipped if this program has the transport that it calls
    // absent.
    stripline_middleware::register();
    let has_zenoh = transport::all().any(|transport| transport.name == "zenoh");
    for path in corpus("invalid") {
        let (text, checked) = check_file(&path);
        if has_zenoh && path.ends_with("absent-transport.toml") {
            continue;
        }
        let found = checked.map(|_| ()).expect_err(&format!("{} passes", path.display()));
        assert!(text.starts_with("# expect: "), "{}", path.display());
        assert_expected(&path, &text, &found);
    }
}

#[test]
fn the_corpus_has_every_code_but_those_of_files_that_cannot_be_read() {
    let mut missing: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    for path in corpus("valid").into_iter().chain(corpus("invalid")) {
        for expected in said(&std::fs::read_to_string(path).unwrap(), "expect") {
            missing.remove(expected.split(": ").next().unwrap());
        }
    }
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), ["not-text", "unreadable"]);
}

#[test]
fn every_error_has_a_place_and_nearly_every_error_a_remedy() {
    let mut without = BTreeSet::new();
    for path in corpus("invalid") {
        let (text, checked) = check_file(&path);
        for diagnostic in &checked.unwrap_err() {
            let (line, _) = diagnostic.line_column();
            assert!(diagnostic.source() == "command line" || line <= text.lines().count() + 1);
            if diagnostic.remedy().is_empty() {
                without.insert(diagnostic.code().as_str());
            }
        }
    }
    let without: Vec<&str> = without.into_iter().collect();
    assert_eq!(without, ["bad-property", "syntax", "wrong-kind"], "their messages contain the remedy");
}

/// Compares a text with a file below `waveforms/rendered`, or writes the file.
fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new("tests/waveforms/rendered").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; if it should, run with UPDATE_SNAPSHOTS=1", path.display());
}

#[test]
fn findings_are_rendered_as_before() {
    let names = [
        "control-characters",
        "dispatch-of-a-loop",
        "exec-panics",
        "inproc-by-option",
        "options",
        "properties",
        "properties-unfit",
        "same-connection",
        "syntax",
        "syntax-several",
        "type-mismatch",
        "type-mismatch-by-property",
        "type-mismatch-of-layouts",
        "type-mismatch-of-schemas-and-layouts",
        "misplaced-keys",
        "order-mismatch",
        "rows-of-another-output",
        "rate-mismatch",
        "unconnected",
        "unproven-layouts",
        "unit-without-quotes",
        "units",
        "unknown-keys",
        "wrong-way-round",
    ];
    for name in names {
        let (_, checked) =
            check_file(&Path::new("tests/waveforms/invalid").join(name).with_extension("toml"));
        let text = checked.unwrap_err().to_string();
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_snapshot(&format!("{name}.txt"), &text);
    }
}

#[test]
fn colours_are_only_added() {
    let (_, checked) = check_file(Path::new("tests/waveforms/invalid/unknown-keys.toml"));
    let found = checked.unwrap_err();
    let coloured = found.render(true);
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut parts = coloured.split('\u{1b}');
    plain.push_str(parts.next().unwrap());
    for part in parts {
        plain.push_str(part.split_once('m').unwrap().1);
    }
    assert_eq!(plain, found.render(false));
}

#[test]
fn components_are_listed_as_before() {
    let stock = stock();
    assert_snapshot("component-list.txt", &render_component_list(stock.values(), None));
    let registered: String = ["clock", "file-source", "tone", "null-sink"]
        .map(|name| render_component(&stock[name], None))
        .join("----\n");
    assert_snapshot("components.txt", &registered);
}

#[test]
fn the_example_of_a_component_is_a_valid_table() {
    for spec in stock().values() {
        let text = render_component(spec, None);
        let example = text.split("In a waveform file\n").nth(1).unwrap();
        for example in [example.to_owned(), example.replace("# ", "")] {
            // The ports of a single component are not connected; all other checks must pass.
            if let Err(found) = check_text(&example, &Overrides::default()) {
                assert!(found.iter().all(|d| d.code() == Code::Unconnected), "{example}\n{found}");
            }
        }
    }
}

#[test]
fn the_remedies_of_a_missing_rate_and_of_spinning_help() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waveforms");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let followed = |text: &str, old: &str, new: &str| {
        assert!(text.contains(old), "{old}");
        let found = check_text(&text.replace(old, new), &Overrides::default());
        found.map(|(_, warnings)| warnings.to_string()).map_err(|found| found.to_string())
    };
    let text = read("invalid/no-rate.toml");
    let of_meter = "type = \"level-meter\"\nproperties = { sample_rate = 48e3 }";
    assert_eq!(followed(&text, "sample_rate = 0.0", "sample_rate = 48e3"), Ok(String::new()));
    assert_eq!(followed(&text, "type = \"level-meter\"", of_meter), Ok(String::new()));
    let text = read("valid/spin.toml");
    assert_eq!(followed(&text, "priority = 50\n", ""), Ok(String::new()));
    assert_eq!(followed(&text, "\"spin\"", "\"block\""), Ok(String::new()));
    assert_eq!(followed(&text, "type = \"audio-tone\"\ncpu = 0", "type = \"audio-tone\""), Ok(String::new()));
}

#[test]
fn threads_of_one_executable_are_joined_within_its_process() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/exec-types.toml"));
    let (waveform, _) = checked.unwrap();
    let transports: Vec<&str> = waveform.connections.iter().map(|link| link.transport.as_str()).collect();
    assert_eq!(transports, ["shm", "inproc", "shm"]);
    let types: Vec<&str> = waveform.components.iter().map(|plan| plan.spec.name.as_str()).collect();
    assert_eq!(types, ["audio-tone", "pick", "pick", "tick", "audio-sink"]);
}

#[test]
fn a_plan_has_the_restart_rules_of_the_file() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/restart.toml"));
    let (waveform, _) = checked.unwrap();
    let rules: Vec<Restart> = waveform.components.iter().map(|component| component.restart).collect();
    let limit = GiveUp::After { restarts: 10, within: Duration::from_secs(60) };
    let patient = Restart::new(RestartWhen::OnFailure, Duration::from_secs(5), GiveUp::Never).unwrap();
    let always = Restart::new(RestartWhen::Always, Restart::PAUSE_MAX_DEFAULT, limit).unwrap();
    let go_on = AfterGivingUp::GoOn;
    let expected =
        [patient.then(go_on), always, Restart::of(RestartWhen::Always), Restart::default().then(go_on)];
    assert_eq!(rules, expected);
}

#[test]
fn a_plan_has_the_values_of_the_file() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/everything.toml"));
    let (waveform, _) = checked.unwrap();
    assert_eq!(waveform.name, "every-key");
    let [source, gain, sink] = &waveform.components[..] else { panic!() };
    assert_eq!(
        (source.placement, source.restart, source.priority),
        (Placement::Process, Restart::of(RestartWhen::OnFailure), Some(10))
    );
    assert_eq!((&source.cpus[..], &gain.cpus[..], &sink.cpus[..]), (&[0][..], &[0][..], &[][..]));
    assert_eq!(source.program, Program::Stock);
    assert_eq!((source.dispatch, gain.dispatch), (Dispatch::Queue, Dispatch::pool(2).unwrap().in_order()));
    let path = source.properties.path("path").unwrap();
    assert!(path.is_absolute() && path.ends_with("tests/waveforms/valid/capture.bin"), "{path:?}");
    assert_eq!(gain.properties.value("factor"), Some(&Value::Float(2.0)));
    assert_eq!(sink.port_types["in"].as_str(), "cf32");
    let [first, second] = &waveform.connections[..] else { panic!() };
    assert_eq!((first.from.to_string(), first.to.to_string()), ("source.out".into(), "gain.in".into()));
    assert_eq!((&*first.transport, &*second.transport), ("unix", "shm"));
    let options = LinkOptions {
        overflow: Overflow::Block,
        depth: 65_536,
        high_watermark: Some(1000),
        low_watermark: Some(0),
        flow: Flow::StopResume,
        send_timeout_ms: Some(3_600_000),
        scope: Scope::None,
        buffer: 4096,
        wait: WaitStrategy::Spin,
        ..LinkOptions::default()
    };
    assert_eq!(first.options, options);
    assert!(second.options.huge_pages && second.options.locked);
    assert_eq!((second.options.scope, second.options.deadline_ms), (Scope::Target, 250));
    assert_eq!((first.age_limit_ms, second.age_limit_ms), (None, Some(500)));
    let resequence = Resequence::new(64, Duration::from_millis(100)).unwrap();
    assert_eq!((first.options.resequence, second.options.resequence), (None, Some(resequence)));
    assert_eq!(first.payload.as_str(), "cf32");
}

#[test]
fn an_executable_describes_itself() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/executable.toml"));
    let (waveform, _) = checked.unwrap();
    let doubler = &waveform.components[1];
    let Program::Executable(command) = &doubler.program else { panic!() };
    assert!(command.program.is_absolute() && command.arguments.is_empty());
    assert_eq!(doubler.spec.name, "doubler");
    assert_eq!(doubler.properties.float("factor"), 3.0);
    assert_eq!(waveform.name, "executable");
}

#[test]
fn a_script_behind_an_interpreter_describes_itself() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/script.toml"));
    let (waveform, _) = checked.unwrap();
    let doubler = &waveform.components[1];
    let Program::Executable(command) = &doubler.program else { panic!() };
    assert!(command.program.is_absolute() && command.program.ends_with("sh"));
    assert!(command.arguments[0].is_absolute() && command.arguments[0].ends_with("programs/describes.sh"));
    assert_eq!((doubler.spec.name.as_str(), command.to_string()), ("doubler", "sh describes.sh".into()));
}

/// Checks two scripts of a class each. A script describes itself by a list, as in Python.
#[test]
fn threads_of_separate_scripts_are_refused_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |name: &str, direction: &str| {
        format!(
            r#"[{{"name":"{name}","summary":"A block.","properties":[],"ports":[{{"name":"{direction}",
            "direction":"{direction}put","types":{{"one-of":["f32"]}},"mandatory":true,"many_writers":false,
            "summary":"samples"}}]}}]"#
        )
    };
    let mut text = String::new();
    for (name, direction) in [("map", "out"), ("detector", "in")] {
        let script = format!("cat <<'END'\n{}\nEND\n", spec(name, direction));
        std::fs::write(folder.path().join(format!("{name}.py")), script).unwrap();
        text += &format!("[component.{name}]\nexec = [\"sh\", \"{name}.py\"]\n");
    }
    text += "[[connection]]\nfrom = \"map\"\nto = \"detector\"\n";
    let path = folder.path().join("radar.toml");
    let checked = |text: &str, overrides: &Overrides| {
        parse_bytes(text.as_bytes(), &path, overrides, &Catalog::new(&stock(), &TRANSPORTS))
    };
    let cure = |found: &Diagnostics, message: &str| {
        let finding = found.iter().find(|finding| finding.message().contains(message));
        let finding = finding.unwrap_or_else(|| panic!("{message}: {found}"));
        let remedy = finding.remedy();
        assert!(
            remedy.contains("stripline.main(Map, Detector)") && remedy.contains("same `exec`"),
            "{remedy}"
        );
    };
    let none = Overrides::default();
    let threads = text.replace(".py\"]", ".py\"]\nplacement = \"thread\"");
    cure(&checked(&threads, &none).unwrap_err(), "`map` cannot be a thread");
    cure(&checked(&threads, &none).unwrap_err(), "`detector` cannot be a thread");
    let inproc = format!("{text}transport = \"inproc\"\n");
    cure(&checked(&inproc, &none).unwrap_err(), "`map` and `detector` are processes of their own");
    let option = Overrides { transport: Some("inproc".into()), ..Overrides::default() };
    cure(&checked(&text, &option).unwrap_err(), "`map` and `detector` are processes");

    let option = Overrides { placement: Some(Placement::Thread), ..Overrides::default() };
    let (waveform, warnings) = checked(&text, &option).unwrap();
    cure(&warnings, "`map` and `detector` stay processes");
    assert_eq!(warnings.iter().count(), 1);
    assert!(waveform.components.iter().all(|plan| plan.placement == Placement::Process));
    assert_eq!(waveform.connections[0].transport, "shm");
}

#[test]
fn options_come_before_the_file() {
    let (_, checked) = check_file(Path::new("tests/waveforms/valid/overrides.toml"));
    let (waveform, _) = checked.unwrap();
    assert!(waveform.components.iter().all(|c| c.placement == Placement::Thread));
    assert_eq!(waveform.connections[0].transport, "inproc");
    assert_eq!(waveform.components[0].properties.float("frequency"), 5e3);

    let (_, checked) = check_file(Path::new("tests/waveforms/valid/set-what-must-be-set.toml"));
    let path = checked.unwrap().0.components[0].properties.path("path").unwrap();
    assert_eq!(path, std::env::current_dir().unwrap().join("x=y.bin"), "relative to the current folder");
}

#[test]
fn an_option_replaces_a_stock_component() {
    let text = "[component.tone]\ntype = \"tone\"\nproperties = { order = 16 }\n\
                [component.sink]\ntype = \"null-sink\"\n[[connection]]\nfrom = \"tone\"\nto = \"sink\"\n";
    let checked = |set: &[&str]| {
        let set = set.iter().map(|&set| set.to_owned()).collect();
        check_text(text, &Overrides { set, ..Overrides::default() })
    };
    let (waveform, _) = checked(&["tone.sample_rate=5e3", "tone.type=sampler"]).unwrap();
    assert_eq!(waveform.components[0].properties.float("sample_rate"), 5e3);
    let found = checked(&["tone.type=tones"]).unwrap_err();
    assert_eq!(codes(&found), [Code::UnknownType]);
    assert!(found.to_string().contains("--set tone.type=tones"), "{found}");
}

const CHAIN: &str = r#"
[component.tone]
type = "tone"
placement = "PLACEMENT"
[component.sink]
type = "null-sink"
placement = "PLACEMENT"
[[connection]]
from = "tone"
to = "sink"
"#;

#[test]
fn a_transport_left_out_follows_the_placement() {
    let transport = |placement: &str, option: Option<Placement>| {
        let overrides = Overrides { placement: option, ..Overrides::default() };
        let (waveform, _) = check_text(&CHAIN.replace("PLACEMENT", placement), &overrides).unwrap();
        waveform.connections[0].transport.clone()
    };
    assert_eq!(transport("process", None), "shm");
    assert_eq!(transport("thread", None), "inproc");
    assert_eq!(transport("process", Some(Placement::Thread)), "inproc");
    assert_eq!(transport("thread", Some(Placement::Process)), "shm");
}

#[test]
fn connections_of_one_output_share_the_largest_buffer() {
    let mut text = String::from("[component.tone]\ntype = \"tone\"\n");
    for (n, rest) in
        ["buffer = \"64KiB\"", "buffer = \"1MiB\"", "", "transport = \"unix\""].iter().enumerate()
    {
        text.push_str(&format!("[component.s{n}]\ntype = \"null-sink\"\n"));
        text.push_str(&format!("[[connection]]\nfrom = \"tone\"\nto = \"s{n}\"\n{rest}\n"));
    }
    let (waveform, _) = check_text(&text, &Overrides::default()).unwrap();
    let buffers: Vec<u32> = waveform.connections.iter().map(|c| c.options.buffer).collect();
    assert_eq!(buffers, [1 << 20, 1 << 20, 1 << 20, LinkOptions::default().buffer]);
}

#[test]
fn a_catalog_without_the_transports_of_auto_requires_one() {
    let text = CHAIN.replace("PLACEMENT", "process");
    let stock = stock();
    let catalog = Catalog::new(&stock, &["tcp"]);
    let check =
        |text: &str| parse_bytes(text.as_bytes(), Path::new("x.toml"), &Overrides::default(), &catalog);
    let found = check(&text).unwrap_err();
    assert_eq!(codes(&found), [Code::TransportUnfit]);
    let expected = "inproc: it is not in this program; shm: it is not in this program";
    assert!(found.to_string().contains(expected), "{found}");
    let (waveform, _) = check(&format!("{text}allow = [\"tcp\"]\n")).unwrap();
    let link = &waveform.connections[0];
    assert_eq!((&*link.transport, link.choice.by), ("tcp", ChosenBy::Auto));
    assert_eq!(link.choice.passed_over().unwrap(), expected);
}

#[test]
fn auto_reports_what_it_considered() {
    let text = |connection: &str| CHAIN.replace("PLACEMENT", "process") + connection;
    let choice = |text: &str, options: &Overrides| {
        let (waveform, _) = check_text(text, options).unwrap();
        let plan = &waveform.connections[0];
        let rules = plan.choice.candidates.iter();
        let rules = rules.map(|it| (it.transport.clone(), it.struck_out.clone().unwrap_or_default()));
        (plan.transport.clone(), plan.choice.by, rules.collect::<Vec<_>>())
    };
    let named = |names: [(&str, &str); 4]| names.map(|(name, rule)| (name.into(), rule.into())).to_vec();
    let apart = "`tone` and `sink` are processes of their own";
    let unnamed = "`allow` does not name it";
    for key in ["", "transport = \"auto\"\n"] {
        let rules = named([("inproc", apart), ("shm", ""), ("unix", unnamed), ("tcp", unnamed)]);
        assert_eq!(choice(&text(key), &Overrides::default()), ("shm".into(), ChosenBy::Auto, rules));
    }
    let rules = named([("inproc", apart), ("shm", ""), ("tcp", ""), ("unix", unnamed)]);
    let allowed = text("allow = [\"tcp\"]\n");
    assert_eq!(choice(&allowed, &Overrides::default()), ("shm".into(), ChosenBy::Auto, rules));
    let other = "the file names `tcp`";
    let rules = named([("tcp", ""), ("inproc", apart), ("shm", other), ("unix", other)]);
    let tcp = text("transport = \"tcp\"\n");
    assert_eq!(choice(&tcp, &Overrides::default()), ("tcp".into(), ChosenBy::File, rules));
    // An option replaces the setting of the file, in both directions.
    let option = |name: &str| Overrides { transport: Some(name.into()), ..Overrides::default() };
    assert_eq!(choice(&tcp, &option("auto")).0, "shm");
    let (transport, by, _) = choice(&allowed, &option("unix"));
    assert_eq!((&*transport, by), ("unix", ChosenBy::Option));
}

#[test]
fn auto_takes_what_the_executables_at_both_ends_have() {
    let (waveform, _) = check_file(Path::new("tests/waveforms/valid/allowed-transport.toml")).1.unwrap();
    let taken: Vec<&str> = waveform.connections.iter().map(|link| &*link.transport).collect();
    assert_eq!(taken, ["unix", "tcp"]);
    let passed_over = waveform.connections[1].choice.passed_over().unwrap();
    let expected = "inproc: `doubler` and `sink` are processes of their own; \
                    shm: the executable of `doubler` does not have it";
    assert_eq!(passed_over, expected);
}

#[test]
fn auto_joins_the_ports_of_one_process_within_it() {
    let (waveform, _) = check_file(Path::new("tests/waveforms/valid/self-loop-that-drops.toml")).1.unwrap();
    let itself = waveform.connections.iter().find(|it| it.from.component == it.to.component).unwrap();
    assert_eq!((&*itself.transport, itself.choice.passed_over()), ("inproc", None));
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_accepted() {
    let text = CHAIN.replace("PLACEMENT", "process").replace('\n', "\r\n");
    check_text(&format!("\u{feff}{text}"), &Overrides::default()).unwrap();
    let found = check_text(&format!("\u{feff}{text}what = 1\r\n"), &Overrides::default()).unwrap_err();
    assert_eq!(codes(&found), [Code::UnknownKey]);
    assert_eq!(found.iter().next().unwrap().line_column(), (11, 1));
}

/// Checks that texts of the user are quoted in remedies too.
#[test]
fn findings_contain_no_terminal_controls() {
    for bad in ["type = a\u{1b}[2Jb", "a\u{7}b = 1", "type = \"a\u{202e}b\"", "type = \"\\u001b[2J\""] {
        let text = format!("[component.a]\n{bad}\n");
        let found = check_text(&text, &Overrides::default()).unwrap_err().to_string();
        assert!(!found.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{found:?}");
    }
}

fn codes(found: &Diagnostics) -> Vec<Code> {
    found.iter().map(|d| d.code()).collect()
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let stock = stock();
    let catalog = Catalog::new(&stock, &TRANSPORTS);
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str| load(&folder.path().join(name), &Overrides::default(), &catalog).unwrap_err();
    assert_eq!(codes(&load("missing.toml")), [Code::Unreadable]);
    assert_eq!(codes(&load("")), [Code::Unreadable]);

    std::fs::write(folder.path().join("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(codes(&load("large.toml")), [Code::Limit]);
    std::fs::write(folder.path().join("line.toml"), vec![b'#'; 1 << 20]).unwrap();
    assert_eq!(codes(&load("line.toml")), [Code::Limit]);

    std::fs::write(folder.path().join("binary.toml"), b"# a\n[component.\xff\xfe]\n").unwrap();
    let found = load("binary.toml");
    assert_eq!(codes(&found), [Code::NotText]);
    assert_eq!(found.iter().next().unwrap().line_column(), (2, 12));
}

#[test]
fn a_waveform_has_limits() {
    let mut text = String::new();
    for n in 0..1025 {
        text.push_str(&format!("[component.c{n}]\ntype = \"clock\"\n"));
    }
    assert_eq!(codes(&check_text(&text, &Overrides::default()).unwrap_err()), [Code::Limit]);

    let mut text = CHAIN.replace("PLACEMENT", "process");
    for _ in 0..4096 {
        text.push_str("[[connection]]\nfrom = \"tone\"\nto = \"sink\"\n");
    }
    assert_eq!(codes(&check_text(&text, &Overrides::default()).unwrap_err()), [Code::Limit]);

    let mut text = String::new();
    for n in 0..600 {
        text.push_str(&format!("[component.c{n}]\ntype = \"clock\"\ncpu = 1023\n"));
    }
    let (_, warnings) = check_text(&text, &Overrides::default()).unwrap();
    assert_eq!(warnings.len(), Diagnostics::LENGTH_MAX);
    text.push_str("[component.last]\ntype = \"no such type\"\n");
    let found = check_text(&text, &Overrides::default()).unwrap_err();
    assert_eq!(found.iter().filter(|d| d.code() == Code::UnknownType).count(), 1, "errors are kept");
    let text = found.to_string();
    let summary = "1 error and 600 warnings; 500 of them are shown; nothing was started";
    assert_eq!(text.lines().last(), Some(summary));
}

#[test]
fn the_reference_is_up_to_date() {
    let page = std::fs::read_to_string("../../docs/waveform-file.md").unwrap();
    let (_, errors) = page.split_once("\n## Errors\n").unwrap();
    let (errors, _) = errors.split_once("\n## ").unwrap();
    for code in Code::ALL {
        assert!(errors.contains(&format!(" `{code}`")), "the page lacks `{code}`");
    }
}

/// Checks the largest waveform, in the worst order for the type inference.
#[test]
fn the_largest_waveform_is_checked() {
    let mut text = String::from("[component.source]\ntype = \"generator\"\n");
    text.push_str("[component.c1023]\ntype = \"audio-sink\"\n");
    for n in 1..1023 {
        text.push_str(&format!("[component.c{n}]\ntype = \"throttle\"\n"));
    }
    for n in (1..1023).rev() {
        text.push_str(&format!("[[connection]]\nfrom = \"c{n}\"\nto = \"c{}\"\n", n + 1));
    }
    text.push_str("[[connection]]\nfrom = \"source\"\nto = \"c1\"\n");
    let (waveform, _) = check_text(&text, &Overrides::default()).unwrap();
    assert!(waveform.connections.iter().all(|c| c.payload.as_str() == "f32"));
}

fn no_executables(command: &ProgramCommand) -> Result<ExecutableSpecs, DescribeError> {
    Err(DescribeError::Missing(command.clone()))
}

/// Checks arbitrary bytes and renders the findings. The limits must hold.
fn never_panics(bytes: &[u8], overrides: &Overrides) {
    let stock = stock();
    let catalog = Catalog { describe: no_executables, ..Catalog::new(&stock, &TRANSPORTS) };
    match parse_bytes(bytes, Path::new("any.toml"), overrides, &catalog) {
        Ok((waveform, warnings)) => {
            assert!(!warnings.has_errors());
            assert!((1..=1024).contains(&waveform.components.len()));
            assert!(waveform.connections.len() <= 4096);
        }
        Err(found) => {
            assert!(found.has_errors() && found.len() <= Diagnostics::LENGTH_MAX);
            assert!(!found.to_string().contains('\u{1b}'));
            assert!(found.iter().all(|d| d.line_column() >= (1, 1)));
        }
    }
}

fn corpus_texts() -> Vec<String> {
    let paths = corpus("valid").into_iter().chain(corpus("invalid"));
    paths.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        never_panics(&bytes, &Overrides::default());
    }

    #[test]
    fn any_options(set in ".{0,40}", rest in "(tone|sink|.)[.](frequency|order|.)=.{0,20}", transport in ".{0,20}") {
        let text = CHAIN.replace("PLACEMENT", "process");
        let overrides = Overrides { set: vec![set, rest], transport: Some(transport), ..Overrides::default() };
        never_panics(text.as_bytes(), &overrides);
    }

    /// Generates files of the corpus in which parts are replaced by other parts of the same file,
    /// or by arbitrary bytes.
    #[test]
    fn mutated_files(
        file in any::<prop::sample::Index>(),
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), 0usize..30, any::<prop::sample::Index>(), 0usize..30, any::<Option<u8>>()),
            1..6,
        ),
        threads in any::<bool>(),
    ) {
        let texts = corpus_texts();
        let mut bytes = file.get(&texts).clone().into_bytes();
        for (at, cut, from, take, byte) in edits {
            let source = bytes.clone();
            let at = at.index(bytes.len() + 1);
            let from = from.index(source.len() + 1);
            let piece = &source[from..(from + take).min(source.len())];
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, piece.iter().copied().chain(byte));
            prop_assume!(!bytes.is_empty());
        }
        let placement = threads.then_some(Placement::Thread);
        never_panics(&bytes, &Overrides { placement, ..Overrides::default() });
    }
}
