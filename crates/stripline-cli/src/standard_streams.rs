//! Standard streams that are closed when the program starts become `/dev/null`.
//!
//! Rust does the same, but after the constructors of libraries. A library that opens descriptors
//! there, as omniORB does, would get the numbers of the standard streams.

use std::os::fd::{AsRawFd, IntoRawFd};

use rustix::fs::{Mode, OFlags, open};

// SAFETY: the loader calls the functions in this section of an executable, without arguments that
// matter, before all constructors (System V ABI, `DT_PREINIT_ARRAY`). The function makes system
// calls only, and does not panic.
#[unsafe(link_section = ".preinit_array")]
#[used]
static OPEN_CLOSED: extern "C" fn() = open_closed;

/// Opens `/dev/null` for each closed standard stream. The system takes the lowest free number.
extern "C" fn open_closed() {
    while let Ok(file) = open("/dev/null", OFlags::RDWR, Mode::empty()) {
        if file.as_raw_fd() > 2 {
            return;
        }
        let _stays_open = file.into_raw_fd();
    }
}
