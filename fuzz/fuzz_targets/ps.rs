//! What a process answers when it is asked about its ports.
#![no_main]
#![allow(missing_docs)] // made by the macro

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::process;
use stripline::introspect::Overview;

fuzz_target!(|data: &[u8]| {
    let Ok(process) = process(data) else { return };
    let again = serde_json::to_vec(&process).unwrap();
    assert_eq!(stripline::fuzzing::process(&again).as_ref(), Ok(&process), "an answer changes");
    // Two of the same, so that connections find each other in more ways than one.
    let overview = Overview::of(vec![process.clone(), process]);
    let in_chains: usize = overview.chains().iter().map(|chain| chain.waits.len()).sum();
    assert_eq!(in_chains, overview.waits().len());
});
