//! Instructions per packet: a count that is the same on every machine and at any time.
//!
//! A child process sends packets to itself in one thread. The parent steps through the child, one
//! instruction at a time, from one marker to the next. Instructions of the kernel are not counted:
//! a system call counts as one instruction. Writing and reading the payload is not counted either.
//!
//! Statistics are off. The measured path is the path of a packet that is not sampled, as are most
//! packets at a high rate. Under single steps the rate is low, so every packet would be sampled.

mod child;
mod step;

use std::fmt::Write;

use crate::Problem;

pub(crate) use child::{SteppedJob, perform};

/// The transports of the packets.
const TRANSPORTS: [&str; 3] = ["shm", "inproc", "uds"];
/// The sizes of the packets in bytes.
const SIZES: [usize; 3] = [8, 64, 1024];
/// The number of packets of one `send_many` and one `drain`.
const TOGETHER: usize = 16;
/// The share by which a count may exceed the count in the table.
const GROWTH_MAX: f64 = 0.05;

/// The number of instructions for a packet: the median over packets.
///
/// ```
/// use stripline_bench::instructions::InstructionCount;
///
/// let one = InstructionCount { transport: "shm".into(), together: 1, size: 64, send: 130, receive: 140 };
/// assert_eq!(one.to_string(), "| `shm` | 64 | 130 | 140 |");
/// let many = InstructionCount { together: 16, ..one };
/// assert_eq!(many.to_string(), "| `shm`, 16 at a time | 64 | 130 | 140 |");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionCount {
    /// The transport.
    pub transport: String,
    /// The number of packets that one call sends or receives; 1 for single packets.
    pub together: usize,
    /// The size of the packet in bytes.
    pub size: usize,
    /// From `loan` to `send`, including both; or a packet's share of `send_many`.
    pub send: u64,
    /// From `receive` to the drop of the packet, including both; or a packet's share of `drain`.
    pub receive: u64,
}

impl std::fmt::Display for InstructionCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { transport, together, size, send, receive } = self;
        let together = if *together == 1 { String::new() } else { format!(", {together} at a time") };
        write!(f, "| `{transport}`{together} | {size} | {send} | {receive} |")
    }
}

/// Counts the instructions for a packet, for each transport and size. Over `shm` and `uds`, also
/// counts them for many packets at a time.
///
/// # Errors
/// If the system refuses to step through a process, or a process fails.
///
/// ```no_run
/// for count in stripline_bench::instructions::count()? {
///     println!("{count}");
/// }
/// # Ok::<(), String>(())
/// ```
pub fn count() -> Result<Vec<InstructionCount>, String> {
    let ways =
        TRANSPORTS.map(|transport| (transport, 1)).into_iter().chain([("shm", TOGETHER), ("uds", TOGETHER)]);
    let cases = ways.flat_map(|(transport, together)| SIZES.map(|size| (transport, together, size)));
    cases.map(|(transport, together, size)| one(transport, together, size)).collect()
}

/// Compares counts with the counts in a table. Returns the counts that have fallen by more than 5
/// %.
///
/// # Errors
/// A count that has grown by more than 5 %, or a table without a row for each count.
///
/// ```
/// use stripline_bench::instructions::{InstructionCount, check};
///
/// let count = |send| InstructionCount {
///     transport: "shm".into(),
///     together: 1,
///     size: 64,
///     send,
///     receive: 140,
/// };
/// let table = "| `shm` | 64 | 100 | 140 |\n";
/// assert_eq!(check(&[count(105)], table), Ok(String::new()));
/// assert!(check(&[count(106)], table).unwrap_err().contains("100 to 106"));
/// assert!(check(&[count(90)], table)?.contains("100 to 90"));
/// # Ok::<(), String>(())
/// ```
pub fn check(counts: &[InstructionCount], table: &str) -> Result<String, String> {
    let stored: Vec<InstructionCount> = table.lines().filter_map(parse).collect();
    let (mut grown, mut fallen) = (String::new(), String::new());
    for count in counts {
        let InstructionCount { transport, together, size, .. } = count;
        let name = match together {
            1 => format!("{transport}, {size} B"),
            _ => format!("{transport}, {together} at a time, {size} B"),
        };
        let old = stored
            .iter()
            .find(|old| (&old.transport, &old.together, &old.size) == (transport, together, size))
            .ok_or_else(|| format!("the table has no row for {name}: add `{count}`"))?;
        let [send, receive] =
            if *together == 1 { ["loan to send", "receive to drop"] } else { ["send_many", "drain"] };
        for (what, old, new) in [(send, old.send, count.send), (receive, old.receive, count.receive)] {
            let change = new as f64 - old as f64;
            let share = change / old as f64;
            let list = if change > 0.0 { &mut grown } else { &mut fallen };
            if share.abs() > GROWTH_MAX {
                let _ = writeln!(list, "{name}, {what}: from {old} to {new} ({:+.1} %)", share * 100.0);
            }
        }
    }
    if grown.is_empty() { Ok(fallen) } else { Err(grown) }
}

/// Reads a row of the table; `None` if the line is not such a row.
fn parse(line: &str) -> Option<InstructionCount> {
    let cells: Vec<&str> =
        line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [transport, size, send, receive] = *cells else { return None };
    let (transport, way) = transport.strip_prefix('`')?.split_once('`')?;
    let together = match way {
        "" => 1,
        _ => way.strip_prefix(", ")?.strip_suffix(" at a time")?.parse().ok()?,
    };
    let (size, send, receive) = (size.parse().ok()?, send.parse().ok()?, receive.parse().ok()?);
    Some(InstructionCount { transport: transport.into(), together, size, send, receive })
}

/// Counts the instructions for a packet of one transport and size, with `together` packets at a
/// time.
fn one(transport: &str, together: usize, size: usize) -> Result<InstructionCount, Problem> {
    let job = SteppedJob { transport: transport.into(), together, size };
    let windows = step::windows(job)
        .map_err(|problem| format!("{transport}, {together} at a time, {size} B: {problem}"))?;
    let [send, receive] = child::evaluate(&windows, together)?;
    Ok(InstructionCount { transport: transport.into(), together, size, send, receive })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(transport: &str, size: usize, send: u64, receive: u64) -> InstructionCount {
        InstructionCount { transport: transport.into(), together: 1, size, send, receive }
    }

    #[test]
    fn a_table_is_read_back() {
        let many = InstructionCount { together: 16, ..some("shm", 8, 5, 6) };
        let counts = [some("shm", 8, 1, 2), some("uds", 1024, 3, 4), many];
        let rows = counts.each_ref().map(ToString::to_string).join("\n");
        let table = format!("text\n| transport | bytes |\n| --- | --- |\n{rows}\n");
        assert_eq!(table.lines().filter_map(parse).collect::<Vec<_>>(), counts);
    }

    #[test]
    fn only_growth_fails() {
        let table = "| `shm` | 8 | 200 | 100 |\n| `uds` | 8 | 1 | 1 |";
        assert_eq!(check(&[some("shm", 8, 210, 95)], table), Ok(String::new()));
        assert!(check(&[some("shm", 8, 150, 50)], table).unwrap().contains("-25.0 %"));
        let error = check(&[some("shm", 8, 150, 106)], table).unwrap_err();
        assert!(error.contains("shm, 8 B, receive to drop: from 100 to 106 (+6.0 %)"), "{error}");
        assert!(!error.contains("150"), "{error}");
        let many = InstructionCount { together: 16, ..some("shm", 8, 1, 1) };
        assert!(check(&[many], table).unwrap_err().contains("no row for shm, 16 at a time, 8 B"));
        assert!(check(&[some("tcp", 8, 1, 1)], table).unwrap_err().contains("no row for tcp, 8 B"));
    }
}
