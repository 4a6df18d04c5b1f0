//! System resources and their limits: huge pages, locked memory, and other users; the cost of a
//! connection; floods of connections; forks; sockets in a folder. Each test asserts the behaviour
//! for the machine on which it runs, and prints which case applied.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod child;
mod cost;
mod flood;
mod fork;
mod memory;
#[path = "../common/middleware.rs"]
mod middleware;
mod network;
mod places;
mod topics;
mod users;

/// Does nothing unless it is started as one of the child processes of a test.
#[test]
fn child_entry() {
    child::play_if_asked();
}
