//! omniORB for Stripline: declarations of the C interface of the C++ side
//! (`cpp/stripline_corba.h`). No exception leaves a function of this interface, and no function
//! holds a lock while it calls back. The called functions must not panic.
//!
//! This crate is only for the crate `stripline`, which has the safe interface. Without the feature
//! `omniorb` it is empty.
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

/// The buffer for a NUL-terminated message.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Text {
    /// The first byte of the place; null if no message is wanted.
    pub start: *mut c_char,
    /// The size of the place in bytes.
    pub size: usize,
}

/// The functions that a servant of a path calls, on threads of omniORB.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Receiver {
    /// Returns memory for the bytes of a call with this key and number, and a handle for the
    /// memory; null drops the call. Calls with the highest number get the descriptor of the
    /// connection; -1 if none was found.
    pub place: unsafe extern "C" fn(*mut c_void, u64, u64, u32, c_int, *mut *mut c_void) -> *mut u8,
    /// All bytes of a place have been received. The arguments are the number of the call, the
    /// frames up to the end of the call, and the bytes.
    pub arrived: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64, u32),
    /// The bytes of a place were not received completely.
    pub abandoned: unsafe extern "C" fn(*mut c_void, *mut c_void),
    /// The servant has ended and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

/// The sender's socket of a path.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Socket {
    /// The requested size of the socket's buffer in bytes; 0 leaves the size as it is.
    pub enlarge_to: c_int,
    /// The size of the socket's buffer in bytes; -1 if unknown, as before the first call.
    pub buffer: c_int,
    /// Bytes in the socket's buffer before the call, including the kernel's overhead; -1 if
    /// unknown.
    pub queued: c_int,
    /// Nonzero for TCP. `queued` is then either 0 or `buffer`, depending on whether a third of the
    /// buffer is free, because the count of TCP leaves out the kernel's overhead.
    pub is_tcp: c_int,
}

unsafe extern "C" {
    /// Returns the version of omniORB, as a string that stays valid.
    pub fn stripline_corba_version() -> *const c_char;

    /// Returns the maximum size of a GIOP message in bytes, once the ORB is running.
    pub fn stripline_corba_message_max() -> u32;

    /// Starts the ORB of this process with pairs of options that end with a pair of nulls. Returns
    /// 0 if the ORB is running. An ORB that the program had started before ignores the options. Do
    /// not call this in a child of a process that has called it.
    pub fn stripline_corba_start(options: *const [*const c_char; 2], problem: Text) -> c_int;

    /// Makes the running ORB listen at one more address, such as `giop:tcp:127.0.0.1:0`. Writes the
    /// address with the port. Returns 0 if the ORB listens there, which it does until the process
    /// ends.
    pub fn stripline_corba_listen(endpoint: *const c_char, address: Text, problem: Text) -> c_int;

    /// Returns nonzero if this program has the TLS support of omniORB.
    pub fn stripline_corba_has_tls() -> c_int;

    /// Makes the ORB use TLS, with these PEM files: the certificates for verifying peers, the
    /// certificate of this process, and the private key of this certificate. Call this once, before
    /// the start. Returns 0 if the ORB will use TLS.
    pub fn stripline_corba_use_tls(
        ca: *const c_char,
        certificate: *const c_char,
        private_key: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Activates a servant with an object key that must not be in use. Returns null if this failed,
    /// in which case `ended` was not called.
    pub fn stripline_corba_serve(
        object: *const c_char,
        receiver: *const Receiver,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Deactivates the servant. Running calls continue; `ended` follows the last one.
    pub fn stripline_corba_stop_serving(servant: *mut c_void);

    /// Takes a reference without connecting. Returns null if the reference is refused.
    pub fn stripline_corba_connect(reference: *const c_char, problem: Text) -> *mut c_void;

    /// Calls the servant with the key, the number, the frames, and the bytes, which may change once
    /// this returns. Only one thread at a time may use a path. `socket` may be null; otherwise it
    /// receives the state of the socket. Returns 0 if the kernel has all bytes.
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

/// Plain use of omniORB with the code that the compiler of omniORB generates. For benchmarks.
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
        /// Activates a servant that passes each packet to a waiting thread, and blocks while
        /// `depth` packets are queued. Returns null if this failed.
        pub fn stripline_corba_bare_serve(object: *const c_char, depth: usize, problem: Text) -> *mut c_void;

        /// Activates a servant that passes each packet to a function, on a thread of omniORB.
        /// Returns null if this failed.
        pub fn stripline_corba_bare_call_back(
            object: *const c_char,
            take: extern "C" fn(*mut c_void, *const u8, u32),
            context: *mut c_void,
            problem: Text,
        ) -> *mut c_void;

        /// Waits for a packet, and returns the bytes. The bytes stay valid until they are released.
        /// Returns null if this failed.
        pub fn stripline_corba_bare_receive(servant: *mut c_void, size: *mut u32) -> *mut u8;

        /// Releases a packet.
        pub fn stripline_corba_bare_release(packet: *mut u8);

        /// Takes a reference. Returns null if the reference is refused.
        pub fn stripline_corba_bare_connect(reference: *const c_char, problem: Text) -> *mut c_void;

        /// Calls the servant one way. Returns 0 if the kernel has all bytes.
        pub fn stripline_corba_bare_send(
            client: *mut c_void,
            bytes: *const u8,
            size: u32,
            problem: Text,
        ) -> c_int;
    }
}
