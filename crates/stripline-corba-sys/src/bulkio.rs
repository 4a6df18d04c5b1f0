//! Data ports of BulkIO (`cpp/stripline_bulkio.h`). The rules of the crate apply. The ports run on
//! the ORB that [`stripline_corba_start`](crate::stripline_corba_start) has started.
//!
//! ```
//! // Declared for programs that start the ORB.
//! let _ = stripline_corba_sys::bulkio::stripline_bulkio_connections;
//! ```

use std::ffi::{c_char, c_int, c_void};

use crate::Text;

/// A number with a fraction.
pub const NUMBER: c_int = 0;
/// A whole number.
pub const WHOLE: c_int = 1;
/// A truth value, stored as the whole number 0 or 1.
pub const TRUTH: c_int = 2;
/// A text.
pub const TEXT: c_int = 3;

/// A keyword of a stream.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Keyword {
    /// The name of the keyword.
    pub name: *const c_char,
    /// The value, if the kind is [`TEXT`].
    pub text: *const c_char,
    /// The value, if the kind is [`NUMBER`].
    pub number: f64,
    /// The value, if the kind is [`WHOLE`] or [`TRUTH`].
    pub whole: i64,
    /// The kind of the value.
    pub kind: c_int,
}

/// The description of a stream. The values are unchecked.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sri {
    /// The name of the stream.
    pub stream: *const c_char,
    /// The keywords of the stream.
    pub keywords: *const Keyword,
    /// The number of keywords.
    pub keyword_count: usize,
    /// The first value of the axis from sample to sample, in the unit of this axis.
    pub xstart: f64,
    /// The step of the axis from sample to sample.
    pub xdelta: f64,
    /// The first value of the axis from row to row, in the unit of this axis.
    pub ystart: f64,
    /// The step of the axis from row to row.
    pub ydelta: f64,
    /// The number of samples in a row; 0 if there are no rows.
    pub subsize: i32,
    /// The code of the unit of the axis from sample to sample.
    pub xunits: i16,
    /// The code of the unit of the axis from row to row.
    pub yunits: i16,
    /// 0 for scalar samples, 1 for complex samples.
    pub mode: i16,
    /// Whether a receiver that has no room makes the sender wait.
    pub blocking: u8,
}

/// The time of a packet. The values are unchecked.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Time {
    /// The offset, as a part of a sample.
    pub offset: f64,
    /// Whole seconds since 1970, UTC.
    pub whole: f64,
    /// The fraction of a second.
    pub fraction: f64,
    /// The source of the time.
    pub mode: i16,
    /// 1 if the time is valid.
    pub status: i16,
}

/// The functions that a provides port calls, on threads of omniORB. The functions may block, and
/// return 0 if the data was taken, 1 if it was refused, and 2 if the port ends.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PushReceiver {
    /// Receives the description of a stream.
    pub stream: unsafe extern "C" fn(*mut c_void, *const Sri) -> c_int,
    /// Receives a packet: the stream, the elements in the byte order of this host, the number of
    /// elements, the time, and whether the stream ends with this packet.
    pub packet:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const u8, usize, *const Time, c_int) -> c_int,
    /// Returns how full the queue is, from 0 to 1.
    pub fill: unsafe extern "C" fn(*mut c_void) -> f64,
    /// The port has ended and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

/// The functions that a uses port calls, on threads of omniORB and on threads that push.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Events {
    /// A connection was made.
    pub connected: unsafe extern "C" fn(*mut c_void, *const c_char),
    /// A connection has gone, for a reason; null if it was disconnected by name.
    pub disconnected: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char),
    /// The port has ended and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    /// Activates a provides port with an object key. `kind` is the type of the elements: 0 octet, 1
    /// short, 2 unsigned short, 3 long, 4 unsigned long, 5 float, 6 double. Returns null if this
    /// failed, in which case `ended` was not called.
    pub fn stripline_bulkio_provide(
        kind: c_int,
        object: *const c_char,
        receiver: *const PushReceiver,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Activates a uses port in the same way.
    pub fn stripline_bulkio_use(
        kind: c_int,
        object: *const c_char,
        events: *const Events,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Deactivates a port of either kind. Running calls continue; `ended` follows the last one.
    pub fn stripline_bulkio_end(port: *mut c_void);

    /// Writes the reference of a port. Returns 0 if the complete reference was written.
    pub fn stripline_bulkio_reference(port: *mut c_void, into: Text, problem: Text) -> c_int;

    /// Calls `connectPort` of the uses port with this reference, with a provides port and a name
    /// for the connection. Returns 0 if it is connected.
    pub fn stripline_bulkio_connect_to(
        port: *mut c_void,
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Calls `disconnectPort` of the uses port with this reference. Returns 0 if it is
    /// disconnected.
    pub fn stripline_bulkio_disconnect_from(
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Connects a uses port to the provides port with this reference. Returns 0 if it is connected.
    pub fn stripline_bulkio_connect(
        port: *mut c_void,
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Returns the number of connections of a uses port.
    pub fn stripline_bulkio_connections(port: *mut c_void) -> usize;

    /// Sets the description of a stream. The connections get the description before the next packet
    /// of the stream. Returns 0 if it was set.
    pub fn stripline_bulkio_push_sri(port: *mut c_void, sri: *const Sri, problem: Text) -> c_int;

    /// Calls the connections one after the other with a packet, and waits for each. Only one thread
    /// at a time may push. Returns how many connections have taken the packet; -1 if pushing was
    /// ended or failed.
    pub fn stripline_bulkio_push_packet(
        port: *mut c_void,
        stream: *const c_char,
        bytes: *const u8,
        elements: usize,
        time: *const Time,
        ends: c_int,
        problem: Text,
    ) -> c_int;

    /// Ends pushing: waiting calls fail at once, and no more follow. May be called from any thread.
    pub fn stripline_bulkio_end_pushing(port: *mut c_void);

    /// Gives a port a name in a naming service. Returns 0 if the port has the name, 1 if another
    /// object that is alive has it, and 2 if this failed.
    pub fn stripline_bulkio_bind(port: *mut c_void, name: *const c_char, problem: Text) -> c_int;

    /// Removes the name, if it belongs to this port.
    pub fn stripline_bulkio_unbind(port: *mut c_void, name: *const c_char);
}
