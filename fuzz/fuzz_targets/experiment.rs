//! Experiment files.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_bench::experiment::Experiment;
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Experiment::parse(text, "experiment.toml") {
        Ok(experiment) => {
            assert!((1..=1024).contains(&experiment.cases.len()) && experiment.repeats > 0);
            for case in &experiment.cases {
                assert!((1..=64).contains(&case.stages) && (1..=1_000_000).contains(&case.packets));
                assert!((8..=1 << 26).contains(&case.size));
                assert!(case.work_ms >= 0.0 && case.pace_ms >= 0.0);
                assert!((1..=65_536).contains(&case.window) && (0.0..=3.6e6).contains(&case.skip_after_ms));
                assert!(!case.to_string().is_empty());
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.to_string().contains("nothing was started"));
        }
    }
});
