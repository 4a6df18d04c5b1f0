//! A check for libraries that end the process, or wait for ever, where they find no descriptors.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// Checks that so many descriptors are free for a library, by opening them.
///
/// # Errors
/// There are not that many, with the remedy.
pub fn check_descriptors(library: &str, needed: usize) -> Result<()> {
    let open = |_| eventfd(0, EventfdFlags::CLOEXEC);
    let opened: std::result::Result<Vec<OwnedFd>, _> = (0..needed).map(open).collect();
    opened.map(drop).map_err(|e| {
        Error::system(
            format!("{library} needs {needed} descriptors here; raise the limit of open files (`ulimit -n`)"),
            e,
        )
    })
}
