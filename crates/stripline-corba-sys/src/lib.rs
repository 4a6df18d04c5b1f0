//! omniORB for Stripline: declarations of the C interface of the C++ side
//! (`cpp/stripline_corba.h`). No exception leaves a function here, and none of them keeps a lock
//! while it calls back. What is called back must not panic.
//!
//! For the crate `stripline` alone, which has the safe side. Without the feature `omniorb` it is
//! empty.
//!
//! ```
//! # #[cfg(feature = "omniorb")]
//! # {
//! // SAFETY: it returns a text that stays.
//! let version = unsafe { std::ffi::CStr::from_ptr(stripline_corba_sys::stripline_corba_version()) };
//! assert!(version.to_str().is_ok_and(|version| version.starts_with('4')));
//! # }
//! ```

#![cfg(feature = "omniorb")]

pub mod bulkio;

use std::ffi::{c_char, c_int, c_void};

/// The place for a message that ends with a zero byte.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Text {
    /// Its first byte; null: no message is wanted.
    pub start: *mut c_char,
    /// Bytes that there is room for.
    pub size: usize,
}

/// The functions that a servant of a path calls, on threads of omniORB.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Receiver {
    /// Returns memory for so many bytes of a call with that key and number, and what stands for it.
    /// Null: the call is dropped. Calls with the highest number come with the descriptor of their
    /// connection; -1: none was found.
    pub place: unsafe extern "C" fn(*mut c_void, u64, u64, u32, c_int, *mut *mut c_void) -> *mut u8,
    /// The bytes of a place are there: its call's number, the frames up to its end, the bytes.
    pub arrived: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64, u32),
    /// The bytes of a place have not come whole.
    pub abandoned: unsafe extern "C" fn(*mut c_void, *mut c_void),
    /// The servant has ended, and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

/// The sender's socket of a path.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Socket {
    /// Bytes that its buffer is to have; 0: as it is.
    pub enlarge_to: c_int,
    /// Bytes that it has; -1: unknown, as before the first call.
    pub buffer: c_int,
    /// Bytes that it had before the call, the kernel's own included; -1: unknown.
    pub queued: c_int,
    /// Not 0: `queued` is 0 or `buffer`, by whether the kernel has a third of that free. TCP counts
    /// bytes without its own.
    pub is_tcp: c_int,
}

unsafe extern "C" {
    /// Returns the version of omniORB, a text that stays.
    pub fn stripline_corba_version() -> *const c_char;

    /// Returns the bytes of the largest message of GIOP, once the ORB runs.
    pub fn stripline_corba_message_max() -> u32;

    /// Starts the ORB of this process with pairs of options, behind which comes a pair of nulls.
    /// Returns 0 if it runs. One that the program had started before ignores the options. Not in a
    /// child of a process that has called it.
    pub fn stripline_corba_start(options: *const [*const c_char; 2], problem: Text) -> c_int;

    /// Makes the ORB, which runs, listen at one more address, as `giop:tcp:127.0.0.1:0`. Writes it
    /// with its port. Returns 0 if it does, until the process ends.
    pub fn stripline_corba_listen(endpoint: *const c_char, address: Text, problem: Text) -> c_int;

    /// Returns whether this program has omniORB's TLS: not 0.
    pub fn stripline_corba_has_tls() -> c_int;

    /// Makes the ORB speak TLS, with these files in PEM: the certificates that those of peers are
    /// checked by, the own one, and its key. Returns 0 if it will. Before the start, once.
    pub fn stripline_corba_use_tls(
        ca: *const c_char,
        certificate: *const c_char,
        private_key: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Activates a servant with an object key of its own; null: it failed, and `ended` was not
    /// called.
    pub fn stripline_corba_serve(
        object: *const c_char,
        receiver: *const Receiver,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Deactivates it. Calls that run go on; `ended` comes behind the last.
    pub fn stripline_corba_stop_serving(servant: *mut c_void);

    /// Takes a reference, without connecting; null: it is refused.
    pub fn stripline_corba_connect(reference: *const c_char, problem: Text) -> *mut c_void;

    /// Calls the servant: key, number, frames, and bytes that may change once it returns. One
    /// thread at a time uses a path. The socket is null, or takes what it is like. 0: the kernel
    /// has it all.
    pub fn stripline_corba_send(
        path: *mut c_void,
        key: u64,
        number: u64,
        frames: u64,
        bytes: *const u8,
        size: u32,
        socket: *mut Socket,
        problem: Text,
    ) -> c_int;

    /// Closes the connection and frees the path.
    pub fn stripline_corba_disconnect(path: *mut c_void);
}

/// omniORB as its users take it, with what its compiler generates. For benchmarks.
///
/// ```
/// // Declared for programs that start the ORB.
/// let _ = stripline_corba_sys::bare::stripline_corba_bare_receive;
/// ```
#[cfg(feature = "bare")]
pub mod bare {
    use std::ffi::{c_char, c_int, c_void};

    use super::Text;

    unsafe extern "C" {
        /// Activates a servant that hands each packet to a waiting thread, and waits while so many
        /// are there; null: it failed.
        pub fn stripline_corba_bare_serve(object: *const c_char, depth: usize, problem: Text) -> *mut c_void;

        /// Activates a servant that gives each packet to a function, on omniORB's thread; null: it
        /// failed.
        pub fn stripline_corba_bare_call_back(
            object: *const c_char,
            take: extern "C" fn(*mut c_void, *const u8, u32),
            context: *mut c_void,
            problem: Text,
        ) -> *mut c_void;

        /// Waits for a packet, and returns its bytes, until they are released; null: it failed.
        pub fn stripline_corba_bare_receive(servant: *mut c_void, size: *mut u32) -> *mut u8;

        /// Releases a packet.
        pub fn stripline_corba_bare_release(packet: *mut u8);

        /// Takes a reference; null: it is refused.
        pub fn stripline_corba_bare_connect(reference: *const c_char, problem: Text) -> *mut c_void;

        /// Calls the servant, one way; 0: the kernel has it all.
        pub fn stripline_corba_bare_send(
            client: *mut c_void,
            bytes: *const u8,
            size: u32,
            problem: Text,
        ) -> c_int;
    }
}
