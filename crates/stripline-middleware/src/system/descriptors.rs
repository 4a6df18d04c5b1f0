//! A check for libraries that end the process, or wait for ever, if they find no descriptors.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use stripline::{Error, Result};

/// Checks that `needed` descriptors are free for a library, by opening them.
///
/// # Errors
/// Fewer descriptors are free. The error names the remedy.
#[cfg(any(feature = "zeromq", feature = "corba"))]
pub(crate) fn check_descriptors(library: &str, needed: usize) -> Result<()> {
    open(library, needed).map(drop)
}

/// Checks that `needed` descriptors are free for a library that waits with `select`, and that their
/// numbers fit into the sets of `select`. Otherwise, the library would end the process.
///
/// # Errors
/// Fewer descriptors are free, or the numbers are too high. The error names the remedy.
#[cfg(feature = "dds")]
pub(crate) fn check_descriptors_of_select(library: &str, needed: usize) -> Result<()> {
    /// Descriptors that the program's other threads may open while the library starts.
    const FOR_OTHERS: i32 = 64;
    const LIMIT: i32 = libc::FD_SETSIZE as i32;
    let largest = open(library, needed)?.iter().map(std::os::fd::AsRawFd::as_raw_fd).max();
    if largest.is_some_and(|largest| largest >= LIMIT - FOR_OTHERS) {
        return Err(Error::of_system(format!(
            "{library} needs {needed} descriptors below {LIMIT} in this process, which has too many open; use it \
             before they are opened, or open fewer"
        )));
    }
    Ok(())
}

fn open(library: &str, needed: usize) -> Result<Vec<OwnedFd>> {
    let opened: std::result::Result<_, _> = (0..needed).map(|_| eventfd(0, EventfdFlags::CLOEXEC)).collect();
    opened.map_err(|e| Error::system(format!("{library} needs {needed} descriptors here"), e))
}
