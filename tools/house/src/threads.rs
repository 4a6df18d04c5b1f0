//! Threads: if the system has no room for a thread, starting it in the product is an error, not a
//! panic.

use crate::{names, tree};

/// The crates that users run. The other crates measure and test.
const CRATES: [&str; 4] = ["stripline", "stripline-waveform", "stripline-components", "stripline-cli"];

#[test]
fn a_thread_that_cannot_start_is_an_error() {
    let mut bare = Vec::new();
    for name in CRATES {
        let paths = names::files(&tree::root().join("crates").join(name).join("src"));
        for path in paths.into_iter().filter(|path| !path.ends_with("tests.rs")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let is_code = |line: &&str| !(line.starts_with("#[cfg(") && line.contains("test"));
            let lines = text.lines().take_while(is_code).enumerate();
            bare.extend(lines.filter(|(_, line)| is_bare(line)).map(|(at, _)| (path.clone(), at + 1)));
        }
    }
    assert!(bare.is_empty(), "use `std::thread::Builder`, whose spawn returns an error: {bare:#?}");
}

fn is_bare(line: &str) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    !is_comment && (line.contains("thread::spawn(") || line.contains("scope.spawn("))
}

#[test]
fn bare_spawns_are_found() {
    for bare in ["    std::thread::spawn(|| 1);", "scope.spawn(work)"] {
        assert!(is_bare(bare));
    }
    for allowed in
        ["/// thread::spawn(work)", "JoinedThread::spawn(work)", "builder.spawn_scoped(scope, work)"]
    {
        assert!(!is_bare(allowed));
    }
}
