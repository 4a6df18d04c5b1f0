//! The waveform chooses the dispatch of a component. The output is the same with each dispatch.

use crate::common::{example, run};

/// A source of packets. The number of packets is not a multiple of any block size of a handler.
const SOURCE: &str = "[component.source]\ntype = \"signal-generator\"\nproperties = { waveform = \"noise\", \
                      packet = 100, duration_s = 0.01, sample_rate = 2e6 }\n";

/// Returns the samples that leave `source -> stage -> wav-sink`, and the number of packets
/// overtaken on the second connection.
fn through(stage: &str, rules: &str, transport: &str) -> (Vec<u8>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = format!(
        "{SOURCE}[component.stage]\n{stage}\n\
         [component.sink]\ntype = \"wav-sink\"\nproperties = {{ path = \"{}\", encoding = \"float32\" }}\n\
         [[connection]]\nfrom = \"source\"\nto = \"stage\"\n\
         [[connection]]\nfrom = \"stage\"\nto = \"sink\"\n{rules}\n",
        file("out.wav"),
    );
    std::fs::write(file("test.toml"), text).unwrap();
    let arguments =
        ["run", &file("test.toml"), "--quiet", "--transport", transport, "--output", &file("r.json")];
    run(&arguments).says(0, &[]);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(file("r.json")).unwrap()).unwrap();
    let connections = report["connections"].as_array().unwrap();
    let behind = connections.iter().find(|c| c["from"] == "stage.out").unwrap();
    assert_eq!((&behind["packets"], &behind["lost"]), (&200.into(), &0.into()), "{behind}");
    (std::fs::read(file("out.wav")).unwrap(), behind["reordered"].as_u64().unwrap())
}

const RESEQUENCE: &str = "resequence = { window = 200, skip-after-ms = 60000 }";

#[test]
fn a_pool_with_resequencing_behind_it_makes_what_the_queue_makes() {
    let stage = |dispatch: &str| format!("type = \"magnitude\"\ndispatch = \"{dispatch}\"");
    let (expected, overtaken) = through(&stage("queue"), "", "shm");
    assert_eq!((expected.len() > 80_000, overtaken), (true, 0), "a WAV file of 20000 numbers");
    for transport in ["shm", "uds", "tcp", "udp"] {
        for (dispatch, rules) in
            [("direct", ""), ("pool(4)", RESEQUENCE), ("pool(3, resequence)", ""), ("pool(1)", "")]
        {
            let (made, _) = through(&stage(dispatch), rules, transport);
            assert!(made == expected, "{transport}: {dispatch} {rules}");
        }
    }
}

#[test]
fn an_executable_that_is_a_handler_is_run_by_a_pool() {
    let path = example("handler");
    let stage = |dispatch: &str, pause: &str| {
        let path = path.display();
        format!("exec = \"{path}\"\ndispatch = \"{dispatch}\"\nproperties = {{ pause = {pause} }}")
    };
    let (expected, _) = through(&stage("queue", "0.0"), "", "shm");
    // Two of three packets overtake the slow ones.
    let (made, overtaken) = through(&stage("pool(4)", "2.0"), RESEQUENCE, "shm");
    assert!(made == expected && overtaken > 0, "{overtaken} overtaken");
    let (made, overtaken) = through(&stage("pool(4, resequence)", "2.0"), "", "uds");
    assert!(made == expected && overtaken == 0, "{overtaken} overtaken");
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    for (text, words) in [
        (
            SOURCE.replace("properties", "dispatch = \"pool(2)\"\nproperties"),
            &[
                "error[dispatch-unfit]: `source` takes its packets itself, so its `dispatch` cannot be \"pool(2)\"",
                "`signal-generator` owns its loop",
                "other dispatches are for `magnitude`",
                "test.toml:3:12",
            ][..],
        ),
        (
            SOURCE.replace("properties", "dispatch = \"pool(0)\"\nproperties"),
            &[
                "error[bad-value]: `dispatch`: a pool of 0 threads",
                "it must have from 1 to 256",
                "test.toml:3:12",
            ][..],
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        run(&["check", path.to_str().unwrap()]).says(2, words);
    }
}
