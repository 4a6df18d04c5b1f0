//! Tests of experiment files: each problem is reported with its place, before anything starts.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::path::Path;

use stripline::node::Dispatch;
use stripline_bench::experiment::{Experiment, Order, Placement, Work};

const HEAD: &str = "[experiment]\nname = 'x'\n";

/// Asserts that the text is refused, and that the message contains all these words.
#[track_caller]
fn says(text: &str, words: &[&str]) {
    let problems = Experiment::parse(text, "x.toml").expect_err(text).to_string();
    for word in words {
        assert!(problems.contains(word), "`{word}` is not in:\n{problems}");
    }
    assert!(problems.contains("nothing was started"), "{problems}");
}

/// Asserts the same for a line in a case.
#[track_caller]
fn line(line: &str, words: &[&str]) {
    says(&format!("{HEAD}[[case]]\nname = 'a'\n{line}\n"), &[&["x.toml:5:"], words].concat());
}

#[test]
fn mistyped_words_and_keys() {
    line("transprot = 'shm'", &["transprot", "`transport`", "^"]);
    line("transport = 'pigeon'", &["pigeon", "inproc, shm, uds, tcp", "^"]);
    line("transport = ['shm', 'pigeon']", &["x.toml:5:21", "pigeon"]);
    line("scope = 'traget'", &["traget", "none, transport, server, target"]);
    line("dispatch = 'pool(0)'", &["pool(0)", "1 to 256"]);
    line("dispatch = 'swimming'", &["swimming", "queue, direct, pool(N)"]);
    line("order = 'random'", &["random", "resequence"]);
    line("windwo = 8", &["windwo", "`window`"]);
    line("skip-after = 8", &["skip-after", "skip-after-ms"]);
    line("work = 'hard'", &["hard", "none, busy, wait"]);
    line("placement = 'cloud'", &["cloud", "one-process"]);
    line("type = 'double'", &["double", "f64"]);
    line("target = { over-idael = 1 }", &["over-idael", "over-ideal"]);
    line("published = { last = 1 }", &["`last`", "last-ms"]);
    says(&format!("{HEAD}[[case]]\nname = 'a b'\n"), &["x.toml:4:8", "the name is not valid"]);
    line("scenario = 'a'", &["unknown key `scenario`", "the keys here are `name`"]);
    line("bytes = 8", &["`bytes`", "did you mean `size`?"]);
    line("count = 8", &["`count`", "did you mean `packets`?"]);
    says(&format!("{HEAD}[quikc]\n"), &["quikc", "x.toml:3:2"]);
    says("name = 'x'\n[[case]]\nname = 'a'\n", &["x.toml:1:1", "move it into the table [experiment]"]);
    says(&format!("stages = 3\n{HEAD}"), &["x.toml:1:1", "or into [default] for all cases"]);
    says("[experiment]\nname = 'x'\nrepeat = 1\n[[case]]\nname = 'a'\n", &["repeat", "repeats"]);
}

#[test]
fn values_of_another_kind() {
    line("packets = '1000'", &["string", "^"]);
    line("packets = 10.5", &["10.5"]);
    line("work-ms = true", &["boolean"]);
    line("transport = 1", &["integer"]);
    line("transport = []", &["no value"]);
    line("packets = [[1]]", &["sequence"]);
    line("published = 3", &["integer"]);
    line("pace-ms = 1979-05-27", &["x.toml:5:11"]);
    line("packets = { a = 1 }", &["map"]);
}

#[test]
fn numbers_out_of_range() {
    for (key, values) in [
        ("stages", &["0", "65", "-1"][..]),
        ("packets", &["0", "1000001"]),
        ("size", &["7", "67108865"]),
        ("work-ms", &["-1", "60000.1", "nan", "inf"]),
        ("pace-ms", &["-0.1", "1e9"]),
        ("window", &["0", "65537", "-1"]),
        ("skip-after-ms", &["-1", "3600000.1", "nan"]),
    ] {
        for value in values {
            line(&format!("{key} = {value}"), &[&format!("`{key}` is"), "from", "^"]);
        }
    }
    line("packets = 99999999999999999999", &["x.toml:5:11"]);
    line("target = { over-ideal = -1 }", &["over-ideal"]);
    line("target = { reordered = -1 }", &["reordered"]);
    line("target = { reordered-share-min = 1.5 }", &["reordered-share-min"]);
    says("[experiment]\nname = 'x'\nrepeats = 0\n[[case]]\nname = 'a'\n", &["`repeats` is 0", "1 to 1000"]);
    // All problems are reported at once.
    let text = format!("{HEAD}[[case]]\nname = 'a'\nstages = 0\npackets = [5, 0]\nwork = 'x'\n");
    says(&text, &["x.toml:5", "x.toml:6:15", "x.toml:7", "3 errors"]);
}

#[test]
fn what_is_missing_or_does_not_fit_together() {
    says("", &["experiment"]);
    says(HEAD, &["no case", "[[case]]"]);
    says(&format!("{HEAD}[[case]]\nstages = 1\n"), &["no `name`", "x.toml:3:1"]);
    says("[[case]]\nname = 'a'\n", &["missing field `experiment`"]);
    says(&format!("{HEAD}[[case]]\nname = 'a'\n[[case]]\nname = 'a'\n"), &["x.toml:6:8", "already"]);
    let apart = "placement = 'process-per-stage'\ntransport = 'inproc'";
    line(apart, &["one process only", "leave `placement` out"]);
    line("type = 'f64'\nsize = 12", &["12 bytes", "`f64`", "multiple of 8"]);
    line("target = { over-case = { case = 'b', ratio = 1 } }", &["no case `b`"]);
    line("target = { over-case = { case = 'b' } }", &["ratio"]);
    let named = format!("{HEAD}[default]\nname = 'a'\n[[case]]\nname = 'b'\n");
    says(&named, &["`name` is not for all", "x.toml:4:8"]);
}

#[test]
fn files_that_are_cut_off_or_no_files_of_this_kind() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/e1-messaging.toml");
    let whole = std::fs::read_to_string(path).unwrap();
    assert_eq!(Experiment::parse(&whole, "e1.toml").unwrap().cases.len(), 48);
    // A file cut at any byte is either refused or valid, and nothing panics.
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        if let Err(problems) = Experiment::parse(&whole[..end], "e1.toml") {
            assert!(!problems.is_empty() && problems.to_string().contains("e1.toml"), "{problems}");
        }
    }
    says("\u{0}\u{1b}[31m", &["x.toml"]);
    says("[experiment]\nnaem = '\u{9b}31m'\n", &["x.toml:2:1", "·31m"]);
    says(&"x".repeat((1 << 20) + 1), &["larger", "1 MiB"]);
    says(&"x".repeat((1 << 16) + 1), &["line", "64 KiB"]);
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Experiment::load(&path).unwrap_err().to_string()
    };
    assert!(load("binary.toml", &[0xff, 0xfe, 0]).contains("UTF-8"));
    assert!(load("large.toml", &vec![b'#'; (1 << 20) + 1]).contains("1 MiB"));
    assert!(Experiment::load(folder.path()).unwrap_err().to_string().contains("cannot read"));
    assert!(Experiment::load("no/such.toml".as_ref()).unwrap_err().to_string().contains("no/such.toml"));
}

#[test]
fn matrices_are_spread_out_and_bounded() {
    let text = format!(
        "{HEAD}[default]\npackets = [10, 20]\nwork = 'wait'\nwork-ms = 2\n\
         [[case]]\nname = 'a'\ntransport = ['inproc', 'shm']\ndispatch = ['queue', 'pool(4)']\norder = 'resequence'\n\
         [[case]]\nname = 'b'\npackets = 5\nplacement = 'one-process'\n"
    );
    let cases = Experiment::parse(&text, "x.toml").unwrap().cases;
    let names: Vec<String> = cases.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), 9);
    assert_eq!(names[0], "a, 10 packets, queue, inproc");
    assert_eq!(names[7], "a, 20 packets, pool(4), shm");
    assert_eq!(names[8], "b, shm");
    assert_eq!((cases[0].placement, cases[1].placement), (Placement::OneProcess, Placement::ProcessPerStage));
    assert_eq!((cases[7].dispatch, cases[7].order), (Dispatch::pool(4).unwrap(), Order::Resequence));
    assert_eq!((cases[8].work, cases[8].work_ms, cases[8].packets), (Work::Wait, 2.0, 5));
    assert_eq!(cases[8].placement, Placement::OneProcess);

    let text = format!("{HEAD}[default]\nwindow = [8, 64]\n[[case]]\nname = 'a'\nskip-after-ms = [0, 2.5]\n");
    let cases = Experiment::parse(&text, "x.toml").unwrap().cases;
    assert_eq!(cases[3].to_string(), "a, window 64, skip after 2.5 ms");
    assert_eq!((cases[3].window, cases[3].skip_after_ms), (64, 2.5));

    let many: Vec<String> = (1..=64).map(|n| n.to_string()).collect();
    let many = many.join(", ");
    let text = format!("{HEAD}[[case]]\nname = 'a'\nstages = [{many}]\npackets = [{many}]\n");
    says(&text, &["more than 1024 cases", "x.toml:3:1"]);
    line(&format!("packets = [{many}, 65]"), &["at most 64 values"]);
}
