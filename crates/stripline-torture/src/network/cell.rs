//! A cell: the faults of the link, unicast or multicast, and a policy.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use serde_json::Value;

use super::Network;
use super::peer::EndRole;
use super::router;
use crate::impair::{ADDRESSES, Faults, INTERFACE, ImpairedLink, Only, Problem, Share};
use crate::notes::{Board, Note, Notes};
use crate::worker::Victim;

/// A cell without progress for this time counts as hung. There is no time limit for a cell that
/// makes progress.
const HANGS: Duration = Duration::from_secs(90);
/// The longest life of a process. This limit does not matter as long as cells without progress are
/// ended.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The pause between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(2);
/// A sender without progress for this time is waiting for room.
const FULL: Duration = Duration::from_secs(1);
/// The time after which a cut link is mended.
const CUT: Duration = Duration::from_secs(5);
const GROUP: &str = "239.77.0.1:7700";

/// A cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    transport: &'static str,
    faults_name: &'static str,
    faults: Faults,
    is_multicast: bool,
    overflow: &'static str,
    vanishes: Option<Vanishing>,
    /// Whether the link is cut for the time [`CUT`].
    is_cut: bool,
    /// Whether packets pass through a router beside the sender.
    is_routed: bool,
}

/// The moment at which the other host vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vanishing {
    /// While packets are in transit.
    Busy,
    /// While the receiver is stopped and the window is full.
    Stopped,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, faults_name, is_multicast, overflow, .. } = self;
        let way = if *is_multicast { "multicast" } else { "unicast" };
        write!(f, "{transport} {faults_name} {way} {overflow}")
    }
}

/// Returns all cells of a transport.
pub fn all(transport: &'static str) -> Vec<Cell> {
    let share = |percent: &str| percent.parse::<Share>().unwrap_or_default();
    let none = Faults::default();
    // If a third of the segments is lost, TCP spends most of the time waiting, and may get no
    // answer for the whole lease. Therefore the link is impaired only for datagrams in that case.
    let most = match transport {
        "udp" => ("loss-30", Faults { loss: share("30"), only: Only::Udp, ..none }),
        _ => ("loss-10", Faults { loss: share("10"), ..none }),
    };
    let faults = [
        ("no-faults", none),
        ("loss-1", Faults { loss: share("1"), ..none }),
        ("loss-5", Faults { loss: share("5"), ..none }),
        most,
        ("reorder-25", Faults { reorder: share("25"), ..none }),
        ("duplicate-5", Faults { duplicate: share("5"), ..none }),
    ];
    let mut cells = Vec::new();
    for (faults_name, faults) in faults {
        for is_multicast in [false, true] {
            for overflow in ["block", "drop-oldest"] {
                if transport == "udp" || !is_multicast {
                    cells.push(Cell {
                        transport,
                        faults_name,
                        faults,
                        is_multicast,
                        overflow,
                        vanishes: None,
                        is_cut: false,
                        is_routed: false,
                    });
                }
            }
        }
    }
    let vanishing = |faults_name, overflow, vanishes| Cell {
        transport,
        faults_name,
        faults: none,
        is_multicast: false,
        overflow,
        vanishes: Some(vanishes),
        is_cut: false,
        is_routed: false,
    };
    cells.push(vanishing("vanishes", "block", Vanishing::Busy));
    cells.push(vanishing("vanishes", "drop-oldest", Vanishing::Busy));
    cells.push(vanishing("vanishes-after-stop", "block", Vanishing::Stopped));
    let mended = |faults_name, is_cut, is_routed| Cell {
        transport,
        faults_name,
        faults: none,
        is_multicast: false,
        overflow: "block",
        vanishes: None,
        is_cut,
        is_routed,
    };
    cells.push(mended("cut", true, false));
    if transport == "zenoh" {
        cells.extend([mended("router", false, true), mended("router-cut", true, true)]);
    }
    cells
}

/// The figures of a cell.
#[derive(Debug, Serialize)]
pub struct CellFigures {
    seed: u64,
    seconds: f64,
    receivers: Vec<ReceiverFigures>,
    link: Value,
}

/// The figures of a receiver.
#[derive(Debug, Serialize)]
struct ReceiverFigures {
    received: u64,
    missing: u64,
    gaps: u64,
    /// Seconds from the cut until this receiver has ended, and until its sender has ended, if a
    /// host vanishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_s: Option<[f64; 2]>,
}

impl CellFigures {
    /// Returns the figures in one line.
    pub fn summary(&self) -> String {
        let receivers = self.receivers.iter().map(|receiver| {
            let ReceiverFigures { received, missing, gaps, noticed_s } = receiver;
            let noticed = noticed_s.map_or(String::new(), |[receiver, sender]| {
                format!(", the cut noticed after {receiver:.1} s, by the sender after {sender:.1} s")
            });
            format!("{received} received, {missing} missing in {gaps} gaps{noticed}")
        });
        let receivers: Vec<_> = receivers.collect();
        format!("{}; {:.1} s, link seed {}", receivers.join("; "), self.seconds, self.seed)
    }
}

impl Cell {
    /// Runs the cell.
    ///
    /// # Errors
    /// Any deviation from the required result.
    pub fn run(&self, network: &Network, seed: u64) -> Result<CellFigures, Problem> {
        let started = Instant::now();
        let link = ImpairedLink::new(self.faults, seed)?;
        let outcome = self.exchange(network, &link);
        let figures = link.end().map_err(Problem::Failed)?;
        let receivers = outcome.map_err(|problem| Problem::Failed(format!("{problem}\n{figures}")))?;
        let (seconds, link) = (started.elapsed().as_secs_f64(), figures.report());
        Ok(CellFigures { seed, seconds, receivers, link })
    }

    fn exchange(&self, network: &Network, link: &ImpairedLink) -> Result<Vec<ReceiverFigures>, String> {
        let count = if self.is_multicast { 3 } else { 1 };
        let board = Board::new(2 + count)?;
        let folder = RuntimeFolder::new()?;
        let [a, b] = &link.namespaces;
        let mut processes = Vec::new();
        let router = self.is_routed.then(|| {
            let notes = board.worker(1 + count)?;
            let (path, address) = (folder.0.clone(), notes.address());
            let child = a.run(move || router::start(&address, &path))??;
            let mut victim = Victim::with_timeout(child, LIFE_MAX);
            let since = Instant::now();
            while notes.get(Note::Sent) == 0 {
                if let Some(status) = victim.poll()? {
                    return Err(format!("the router failed: {status}"));
                }
                if since.elapsed() > HANGS {
                    return Err("the router does not start".into());
                }
                std::thread::sleep(PAUSE);
            }
            Ok::<_, String>(victim)
        });
        let _router = router.transpose()?;
        for index in 0..=count {
            let sends = index == 0;
            let (namespace, own) = if sends { (a, ADDRESSES[0]) } else { (b, ADDRESSES[1]) };
            let notes = board.worker(index)?;
            let topics = format!("[default]\n{}", self.rules(&own.to_string()));
            // If there are several receivers, the first one is stopped.
            let stops = self.is_multicast || self.vanishes == Some(Vanishing::Stopped);
            let stops_at = if stops && index == 1 { network.packets / 4 } else { 0 };
            let packets = self.vanishes.is_none().then_some(network.packets);
            let role = EndRole { sends, packets, receivers: count as usize, stops_at, topics };
            let (path, address) = (folder.0.clone(), notes.address());
            let child = namespace.run(move || role.start(&address, &path))??;
            let name = if sends { "the sender".into() } else { format!("receiver {index}") };
            processes.push(Process {
                name,
                victim: Victim::with_timeout(child, LIFE_MAX),
                notes,
                has_ended: false,
            });
        }
        if let Some(vanishes) = self.vanishes {
            let noticed_s = watch_vanishing(&mut processes, vanishes, network.packets, || link.sever())?;
            let of = |note| processes[1].notes.get(note);
            let (received, missing, gaps) = (of(Note::Taken), of(Note::Missing), of(Note::Gaps));
            return Ok(vec![ReceiverFigures { received, missing, gaps, noticed_s: Some(noticed_s) }]);
        }
        if self.is_cut {
            await_half(&mut processes, network.packets)?;
            link.sever();
            std::thread::sleep(CUT);
            link.mend();
        }
        watch(&mut processes, Duration::from_millis(network.stop_ms))?;
        folder.check_empty()?;
        let (sender, receivers) = processes.split_at(1);
        let was_stopped = receivers.iter().any(|receiver| receiver.notes.get(Note::GoesOn) > 0);
        // A receiver that drops packets may have received the last packets before it reached the
        // stop.
        if self.is_multicast && self.overflow == "block" && !was_stopped {
            return Err("no receiver was stopped".into());
        }
        receivers.iter().map(|receiver| self.check(&sender[0], receiver, network.packets)).collect()
    }

    fn rules(&self, own: &str) -> String {
        let Self { transport, overflow, is_multicast, .. } = self;
        let group = match is_multicast {
            true => format!("group = '{GROUP}'\ninterface = '{INTERFACE}'\n"),
            false if self.is_routed => format!("router = '{}'\n", router::address()),
            false => String::new(),
        };
        format!(
            "transport = '{transport}'\noverflow = '{overflow}'\n[default.{transport}]\ninsecure = true\n\
             bind = '{own}'\n{group}"
        )
    }

    fn check(&self, sender: &Process, receiver: &Process, packets: u64) -> Result<ReceiverFigures, String> {
        let of = |note| receiver.notes.get(note);
        let (received, missing, gaps) = (of(Note::Taken), of(Note::Missing), of(Note::Gaps));
        if received + missing != packets {
            return Err(format!("{}: {received} received, {missing} missing of {packets}", receiver.name));
        }
        if self.overflow == "block" && of(Note::Hash) != sender.notes.get(Note::Hash) {
            return Err(format!("{}: the hash of its output is not the hash of the input", receiver.name));
        }
        Ok(ReceiverFigures { received, missing, gaps, noticed_s: None })
    }
}

/// A process of a cell.
struct Process {
    name: String,
    victim: Victim,
    notes: Notes,
    has_ended: bool,
}

impl Process {
    /// Checks whether the process has ended, and records it.
    ///
    /// # Errors
    /// When the process has failed.
    fn check(&mut self) -> Result<(), String> {
        match self.victim.poll()? {
            Some(status) if !status.success() => Err(format!("{} failed: {status}", self.name)),
            Some(_) => {
                self.has_ended = true;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Waits until the receiver has half of the packets.
fn await_half(processes: &mut [Process], packets: u64) -> Result<(), String> {
    let since = Instant::now();
    while processes[1].notes.get(Note::Taken) < packets / 2 {
        for process in processes.iter_mut() {
            process.check()?;
        }
        if since.elapsed() > HANGS {
            return Err("the receiver does not get half of the packets".into());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Waits until all processes have ended. A process that stops itself is continued after the time
/// `stop`.
fn watch(processes: &mut [Process], stop: Duration) -> Result<(), String> {
    let (mut progress, mut since) = (0, Instant::now());
    let mut stopped_at = None;
    while !processes.iter().all(|process| process.has_ended) {
        let mut now = 0;
        for process in processes.iter_mut() {
            process.check()?;
            let Process { victim, notes, has_ended, .. } = process;
            if notes.get(Note::Stops) > notes.get(Note::GoesOn)
                && stopped_at.get_or_insert_with(Instant::now).elapsed() >= stop
            {
                // The signal is sent more than once, because the first may arrive before the stop.
                victim.signal(Signal::CONT);
            }
            let notes = [Note::Sent, Note::Taken, Note::Stops, Note::GoesOn].map(|note| notes.get(note));
            now += notes.into_iter().sum::<u64>() + u64::from(*has_ended);
        }
        if now != progress {
            (progress, since) = (now, Instant::now());
        }
        if since.elapsed() > HANGS + stop {
            let states = processes.iter().map(|process| {
                let Process { name, notes, has_ended, .. } = process;
                let (sent, taken) = (notes.get(Note::Sent), notes.get(Note::Taken));
                format!("{name}: {sent} sent, {taken} received, ended: {has_ended}")
            });
            return Err(format!("hangs for {HANGS:?}: {}", states.collect::<Vec<_>>().join("; ")));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Severs the link once the receiver has half of the packets, or is stopped while the sender waits.
/// Then waits until both ends have detected the cut. Returns the seconds until the receiver and the
/// sender have detected it. A stopped receiver is continued after the sender has detected the cut.
fn watch_vanishing(
    processes: &mut [Process],
    vanishes: Vanishing,
    packets: u64,
    sever: impl FnOnce(),
) -> Result<[f64; 2], String> {
    let [sender, receiver] = processes else { return Err("a cell with one receiver".into()) };
    let (mut sent, mut since) = (0, Instant::now());
    loop {
        let of = |note| receiver.notes.get(note);
        let now = sender.notes.get(Note::Sent) + of(Note::Taken);
        if now != sent {
            (sent, since) = (now, Instant::now());
        }
        let is_due = match vanishes {
            Vanishing::Busy => of(Note::Taken) > packets / 2,
            Vanishing::Stopped => of(Note::Stops) > 0 && since.elapsed() > FULL,
        };
        if is_due {
            break;
        }
        for process in [&mut *sender, receiver] {
            process.check()?;
            if process.has_ended {
                return Err(format!("{} has ended before the cut", process.name));
            }
        }
        if since.elapsed() > HANGS {
            return Err(format!("hangs for {HANGS:?} before the cut: {sent} sent and received"));
        }
        std::thread::sleep(PAUSE);
    }
    sever();
    let cut = Instant::now();
    let mut noticed = [None; 2];
    while noticed.contains(&None) {
        for (process, noticed) in [&mut *receiver, sender].into_iter().zip(&mut noticed) {
            process.check()?;
            if process.has_ended {
                noticed.get_or_insert_with(|| cut.elapsed().as_secs_f64());
            }
        }
        if vanishes == Vanishing::Stopped && sender.has_ended {
            receiver.victim.signal(Signal::CONT);
        }
        if cut.elapsed() > HANGS {
            return Err(format!("the cut is not noticed within {HANGS:?}: receiver, sender: {noticed:?}"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(noticed.map(Option::unwrap_or_default))
}

/// A runtime folder for the sockets of both ends. Dropping this value removes the folder.
struct RuntimeFolder(PathBuf);

impl RuntimeFolder {
    fn new() -> Result<Self, String> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("stripline-network-{}-{}", std::process::id(), crate::notes::now_ns());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| format!("cannot make the folder {}: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// Checks that the processes have left nothing in the folder.
    fn check_empty(&self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.0).map_err(|e| format!("the runtime folder: {e}"))?;
        let left: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("left in the runtime folder: {left:?}")) }
    }
}

impl Drop for RuntimeFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
