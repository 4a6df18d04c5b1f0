//! Stops peers for as long as the check needs. `stop --seconds 60` stops them for a minute.
#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

use std::process::Command;

#[test]
fn a_stopped_peer_is_late_not_dead() {
    let output = Command::new(env!("CARGO_BIN_EXE_stripline-torture"))
        .args(["stop", "--seconds", "0"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
