//! The reply of a process to an inspection request.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::process;
use stripline::inspect::Overview;

fuzz_target!(|data: &[u8]| {
    let Ok(process) = process(data) else { return };
    let again = serde_json::to_vec(&process).unwrap();
    assert_eq!(stripline::fuzzing::process(&again).as_ref(), Ok(&process), "a reply does not round-trip");
    // The same process twice, so that connections match in more than one way.
    let overview = Overview::of(vec![process.clone(), process]);
    let in_chains: usize = overview.chains().iter().map(|chain| chain.waits.len()).sum();
    assert_eq!(in_chains, overview.waits().len());
});
