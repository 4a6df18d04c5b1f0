//! Counters of a node's connections.

use stripline::link::ConnectionReport as RustReport;

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::node::Node;
use crate::sized;
use crate::status::Status;
use crate::stream::reference_number;
use crate::text::Text;

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
    /// The number of packets with a measured age; 0: no packet had a time, and the next members are
    /// not set.
    pub age_samples: u64,
    /// The age of the packet measured last, in nanoseconds: the time since the first sample was
    /// taken. A negative age is of a time in the future.
    pub age_last_ns: i64,
    /// The largest age, in nanoseconds.
    pub age_max_ns: i64,
    /// The largest error of the stream's clock, in nanoseconds; `UINT64_MAX`: unknown.
    pub age_error_ns: u64,
    /// The clock of the stream: one of `stripline_clock_reference`.
    pub age_clock: u32,
}

sized::sized!(
    ConnectionReport, "stripline_connection_report",
    size: usize, connection: Text, packets: u64, bytes: u64, lost: u64, lost_samples: u64, gaps: u64,
    reordered: u64, peer_deaths: u64, age_samples: u64, age_last_ns: i64, age_max_ns: i64, age_error_ns: u64,
    age_clock: u32,
);

/// Reads the counters of every connection to the node's subscribers, and of the last connections
/// that ended.
///
/// - Ownership: the caller frees the report.
/// - Blocking: only for a lock of the node.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_node_report(
    node: Ref<Node>,
    report: Out<*mut Report>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        report.check("report")?;
        let node = node.link()?;
        let made = Report { connections: node.connections(), refused: node.refused_connections() };
        report.give("report", made)
    })
}

/// Returns the number of connections in a report; 0 for NULL.
///
/// - Ownership: the caller keeps the report.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_report_connections(report: Ref<Report>) -> usize {
    report.as_ref().map_or(0, |report| report.connections.len())
}

/// Gets the counters of one connection of a report, by index.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above the number of connections.
///
/// - Ownership: the text is valid until the report is freed.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_report_connection(
    report: Ref<Report>,
    index: usize,
    connection: Out<ConnectionReport>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let report = report.get("report")?;
        let from = report.connections.get(index).ok_or_else(|| {
            Failure::argument(format!("the index is {index}, of {} connections", report.connections.len()))
        })?;
        let age = from.age.as_ref();
        let clock = age.and_then(|age| age.clock);
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
            age_samples: age.map_or(0, |age| age.samples),
            age_last_ns: age.map_or(0, |age| age.last_ns),
            age_max_ns: age.map_or(0, |age| age.max_ns),
            age_error_ns: clock.and_then(|clock| clock.error_ns).unwrap_or(u64::MAX),
            age_clock: reference_number(clock),
        };
        connection.write(&value)
    })
}

/// Returns the number of refused connections in a report; 0 for NULL.
///
/// - Ownership: the caller keeps the report.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_report_refused_connections(report: Ref<Report>) -> usize {
    report.as_ref().map_or(0, |report| report.refused.len())
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
pub extern "C" fn stripline_report_refused_connection(
    report: Ref<Report>,
    index: usize,
    connection: Out<Text>,
    reason: Out<Text>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        reason.check("reason")?;
        let report = report.get("report")?;
        let (name, why) = report.refused.get(index).ok_or_else(|| {
            Failure::argument(format!("the index is {index}, of {} refused", report.refused.len()))
        })?;
        connection.put("connection", Text::of(name))?;
        reason.put("reason", Text::of(why))
    })
}

/// Frees a report; NULL is allowed.
///
/// - Ownership: ends with this call, also for the texts. A second call with the same report is
///   undefined.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_report_free(report: Handle<Report>) {
    drop_quietly(report.into_box());
}
