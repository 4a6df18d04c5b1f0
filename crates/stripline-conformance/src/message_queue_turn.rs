//! The turn of a test that uses message queues: all programs of a user share nine queues.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

/// The right to use message queues, until it is dropped.
pub struct MessageQueueTurn {
    _file: File,
}

impl MessageQueueTurn {
    /// Waits for the turn, if the transport needs one.
    pub fn take(transport: &str) -> Option<Self> {
        if transport != "mqueue" {
            return None;
        }
        let user = rustix::process::getuid().as_raw();
        let file = File::create(std::env::temp_dir().join(format!("stripline-mqueue-{user}"))).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Some(Self { _file: file })
    }
}
