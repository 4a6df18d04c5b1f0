//! Results of benchmarks, which `stripline bench compare` reads.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_bench::compare::{BenchResult, Change, compare};
use stripline_bench::report::Measured;
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    match BenchResult::parse(data) {
        Ok(own) => {
            let same = compare(&own, &own, 0.0).expect("it is of one benchmark");
            assert!(same.regressions().is_empty() && same.only_old.is_empty() && same.only_new.is_empty());
            for figure in &same.figures {
                assert!(!matches!(figure.change, Change::Slower | Change::Faster | Change::OtherCase));
                assert!(figure.low <= 1.0 && figure.high >= 1.0 && figure.smallest_percent >= 0.0);
            }
            assert!(
                !same.sections()[0].grid.rows.iter().flatten().any(|cell| cell.contains(char::is_control))
            );
        }
        Err(problem) => assert!(!problem.is_empty() && !problem.contains(char::is_control)),
    }
});
