//! Data ports of BulkIO (`cpp/stripline_bulkio.h`), with the rules of the crate. They run on the
//! ORB that [`stripline_corba_start`](crate::stripline_corba_start) has started.
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
/// A truth value, in the whole number: 0 or 1.
pub const TRUTH: c_int = 2;
/// A text.
pub const TEXT: c_int = 3;

/// A keyword of a stream.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Keyword {
    /// Its name.
    pub name: *const c_char,
    /// Its value, if the kind is [`TEXT`].
    pub text: *const c_char,
    /// Likewise, [`NUMBER`].
    pub number: f64,
    /// Likewise, [`WHOLE`] or [`TRUTH`].
    pub whole: i64,
    /// The kind of its value.
    pub kind: c_int,
}

/// The description of a stream, unchecked.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sri {
    /// The name of the stream.
    pub stream: *const c_char,
    /// Its keywords.
    pub keywords: *const Keyword,
    /// How many.
    pub keyword_count: usize,
    /// The first value of the axis from sample to sample, in its unit.
    pub xstart: f64,
    /// Its step.
    pub xdelta: f64,
    /// The first value of the axis from row to row, in its unit.
    pub ystart: f64,
    /// Its step.
    pub ydelta: f64,
    /// Samples of a row; 0: there are no rows.
    pub subsize: i32,
    /// The code of the first axis's unit.
    pub xunits: i16,
    /// That of the second.
    pub yunits: i16,
    /// 0: of scalars. 1: of complex samples.
    pub mode: i16,
    /// Whether a receiver without room has its sender wait.
    pub blocking: u8,
}

/// The time of a packet, unchecked.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Time {
    /// A part of a sample.
    pub offset: f64,
    /// Whole seconds since 1970, UTC.
    pub whole: f64,
    /// The fraction of a second.
    pub fraction: f64,
    /// Where it comes from.
    pub mode: i16,
    /// 1: it is valid.
    pub status: i16,
}

/// The functions that a provides port calls, on threads of omniORB that may wait in them. They
/// return 0 for what is taken, 1 for what is refused, and 2 when the port ends.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PushReceiver {
    /// A stream is described.
    pub stream: unsafe extern "C" fn(*mut c_void, *const Sri) -> c_int,
    /// A packet has come: its stream, elements in this host's order, how many, its time, and
    /// whether the stream ends with it.
    pub packet:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const u8, usize, *const Time, c_int) -> c_int,
    /// Returns how full the queue is, from 0 to 1.
    pub fill: unsafe extern "C" fn(*mut c_void) -> f64,
    /// The port has ended, and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

/// The functions that a uses port calls, on threads of omniORB and on those that push.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Events {
    /// A connection has come.
    pub connected: unsafe extern "C" fn(*mut c_void, *const c_char),
    /// A connection has gone, for a reason; null: it was disconnected by its name.
    pub disconnected: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char),
    /// The port has ended, and makes no more calls.
    pub ended: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    /// Activates a provides port with an object key. Its elements are 0 octet, 1 short, 2 unsigned
    /// short, 3 long, 4 unsigned long, 5 float, 6 double. Null: it failed, and `ended` was not
    /// called.
    pub fn stripline_bulkio_provide(
        kind: c_int,
        object: *const c_char,
        receiver: *const PushReceiver,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Activates a uses port, likewise.
    pub fn stripline_bulkio_use(
        kind: c_int,
        object: *const c_char,
        events: *const Events,
        context: *mut c_void,
        problem: Text,
    ) -> *mut c_void;

    /// Deactivates a port of either kind. Calls that run go on; `ended` comes behind the last.
    pub fn stripline_bulkio_end(port: *mut c_void);

    /// Writes the reference of a port. 0: it is there whole.
    pub fn stripline_bulkio_reference(port: *mut c_void, into: Text, problem: Text) -> c_int;

    /// Calls `connectPort` of the uses port of that reference, with a provides port and a name of
    /// the connection. 0: it is connected.
    pub fn stripline_bulkio_connect_to(
        port: *mut c_void,
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Calls its `disconnectPort`. 0: it is disconnected.
    pub fn stripline_bulkio_disconnect_from(
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Connects a uses port to the provides port of a reference. 0: it is connected.
    pub fn stripline_bulkio_connect(
        port: *mut c_void,
        reference: *const c_char,
        connection: *const c_char,
        problem: Text,
    ) -> c_int;

    /// Returns how many connections a uses port has.
    pub fn stripline_bulkio_connections(port: *mut c_void) -> usize;

    /// Sets the description of a stream, which connections get before its next packet. 0: it is
    /// set.
    pub fn stripline_bulkio_push_sri(port: *mut c_void, sri: *const Sri, problem: Text) -> c_int;

    /// Calls each connection with a packet, one after the other, and waits for each. One thread at
    /// a time pushes. Returns how many have taken it; -1: pushing was ended, or it failed.
    pub fn stripline_bulkio_push_packet(
        port: *mut c_void,
        stream: *const c_char,
        bytes: *const u8,
        elements: usize,
        time: *const Time,
        ends: c_int,
        problem: Text,
    ) -> c_int;

    /// Ends pushing: calls that wait fail at once, and there are no more. From any thread.
    pub fn stripline_bulkio_end_pushing(port: *mut c_void);

    /// Gives a port a name in a naming service. 0: it has it. 1: another living object has it. 2:
    /// it failed.
    pub fn stripline_bulkio_bind(port: *mut c_void, name: *const c_char, problem: Text) -> c_int;

    /// Removes the name, if it is that of this port.
    pub fn stripline_bulkio_unbind(port: *mut c_void, name: *const c_char);
}
