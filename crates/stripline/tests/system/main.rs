//! What the system gives and refuses: huge pages, locked memory, and other users; what a connection takes of it; and what a fork leaves alone. Each test asserts what must hold on
//! the machine it finds itself on, and says in its output which case that was.

#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

mod child;
mod cost;
mod fork;
mod memory;
mod users;

/// Does nothing unless it is started as one of the processes that a test plays with.
#[test]
fn child_entry() {
    child::play_if_asked();
}
