//! Findings of `check` on rates and processors. For each finding, the remedy is tested.

use crate::common::run;
use crate::common::waveform::File;

/// Runs `check` on a waveform with a file of samples, a demodulator and a sink.
fn checked(source: &str, demodulator: &str) -> crate::common::Run {
    let file = File::new(&format!(
        r#"
        [component.source]
        type = "file-source"
        properties = {{ path = "capture.cf32"{source} }}
        [component.fm]
        type = "fm-demodulator"
        {demodulator}
        [component.sink]
        type = "null-sink"
        [[connection]]
        from = "source.out"
        to = "fm.in"
        [[connection]]
        from = "fm.out"
        to = "sink.in"
        "#
    ));
    std::fs::write(file.path("capture.cf32"), [0; 800]).unwrap();
    run(&["check", file.path("file.toml").to_str().unwrap()])
}

#[test]
fn a_missing_sample_rate_is_found_and_either_remedy_helps() {
    let rate = "`fm` needs a sample rate, and the samples of `source` have none";
    checked("", "").says(2, &["error[no-rate]", rate, "set `sample_rate` of `source`, or of `fm`"]);
    checked(", sample_rate = 240e3", "").says(0, &[]);
    checked("", "properties = { sample_rate = 240e3 }").says(0, &[]);
    // The rate is below twice the deviation.
    checked(", sample_rate = 1e3", "").says(2, &["`fm`"]);
}

#[test]
fn spinning_on_the_processor_of_the_other_end_is_found_and_each_remedy_helps() {
    let check = |source: &str, sink: &str, wait: &str| {
        let file = File::new(&format!(
            r#"
            [component.source]
            type = "signal-generator"
            {source}
            [component.sink]
            type = "null-sink"
            {sink}
            [[connection]]
            from = "source.out"
            to = "sink.in"
            wait = "{wait}"
            "#
        ));
        run(&["check", file.path("file.toml").to_str().unwrap()])
    };
    let (source, sink) = ("cpu = 0", "cpu = 0\npriority = 50");
    check(source, sink, "spin").says(0, &["warning[spin-unfit]", "`sink` spins at real-time priority 50"]);
    for cured in [check(source, sink, "block"), check("", sink, "spin"), check(source, "cpu = 0", "spin")] {
        cured.says(0, &[]);
        assert!(!cured.stderr.contains("spin-unfit"), "{}", cured.stderr);
    }
}
