//! Counters of a node's connections.

use stripline::link::ConnectionReport as RustReport;

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::text::{self, Text};

/// The counters of all connections to a node's subscribers at one time, and the refused
/// connections.
pub struct Report {
    connections: Vec<RustReport>,
    refused: Vec<(String, String)>,
}

/// The counters of one connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConnectionReport {
    /// `sizeof(stripline_connection_report)`, set by the caller.
    pub size: usize,
    /// The connection, as `from -> to`.
    pub connection: Text,
    /// Packets that the receiver has taken.
    pub packets: u64,
    /// The payload of these packets, in bytes.
    pub bytes: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Gaps reported in band.
    pub gaps: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// The number of times that a sender vanished without an end of stream.
    pub peer_deaths: u64,
}

sized::sized!(
    ConnectionReport, "stripline_connection_report",
    size: usize, connection: Text, packets: u64, bytes: u64, lost: u64, lost_samples: u64, gaps: u64,
    reordered: u64, peer_deaths: u64,
);

/// Reads the counters of every connection to the node's subscribers, and of the last connections
/// that ended.
///
/// - Ownership: the caller frees the report.
/// - Blocking: only for a lock of the node.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_node_report(
    node: *const Node,
    report: *mut *mut Report,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(report, "report")?;
        // SAFETY: the program follows the header's rule for handles.
        let node = unsafe { Node::get(node) }?;
        let made = Report { connections: node.connections(), refused: node.refused_connections() };
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(report, "report", Box::into_raw(Box::new(made))) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Returns the number of connections in a report; 0 for NULL.
///
/// - Ownership: the report stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_report_connections(report: *const Report) -> usize {
    // SAFETY: the program follows the header's rule for handles.
    unsafe { report.as_ref() }.map_or(0, |report| report.connections.len())
}

/// Gets the counters of one connection of a report, by index.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above the number of connections.
///
/// - Ownership: the text is valid until the report is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_report_connection(
    report: *const Report,
    index: usize,
    connection: *mut ConnectionReport,
    error: *mut *mut Error,
) -> Status {
    let give = || {
        // SAFETY: the program follows the header's rule for handles.
        let report = unsafe { report.as_ref() }.ok_or_else(|| Failure::null("report"))?;
        let from = report.connections.get(index).ok_or_else(|| {
            Failure::argument(format!("the index is {index}, of {} connections", report.connections.len()))
        })?;
        let value = ConnectionReport {
            size: 0,
            connection: Text::of(&from.connection),
            packets: from.packets,
            bytes: from.bytes,
            lost: from.lost,
            lost_samples: from.lost_samples,
            gaps: from.gaps,
            reordered: from.reordered,
            peer_deaths: from.peer_deaths,
        };
        // SAFETY: the program follows the header's rule for structures.
        unsafe { sized::write(connection, &value) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, give) }
}

/// Returns the number of refused connections in a report; 0 for NULL.
///
/// - Ownership: the report stays the caller's.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_report_refused_connections(report: *const Report) -> usize {
    // SAFETY: the program follows the header's rule for handles.
    unsafe { report.as_ref() }.map_or(0, |report| report.refused.len())
}

/// Gets the name of a refused connection of a report, by index, and the reason.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above the number of refused
/// connections.
///
/// - Ownership: the texts are valid until the report is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_report_refused_connection(
    report: *const Report,
    index: usize,
    connection: *mut Text,
    reason: *mut Text,
    error: *mut *mut Error,
) -> Status {
    let give = || {
        text::check_place(reason, "reason")?;
        // SAFETY: the program follows the header's rule for handles.
        let report = unsafe { report.as_ref() }.ok_or_else(|| Failure::null("report"))?;
        let (name, why) = report.refused.get(index).ok_or_else(|| {
            Failure::argument(format!("the index is {index}, of {} refused", report.refused.len()))
        })?;
        // SAFETY: the program follows the header's rule for results.
        unsafe {
            text::put(connection, "connection", Text::of(name))?;
            text::put(reason, "reason", Text::of(why))?;
        }
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, give) }
}

/// Frees a report; NULL is allowed.
///
/// - Ownership: ends here, also of the texts. A second call with the same report is undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_report_free(report: *mut Report) {
    if !report.is_null() {
        // SAFETY: made by `stripline_node_report`, and freed once.
        drop_quietly(unsafe { Box::from_raw(report) });
    }
}
