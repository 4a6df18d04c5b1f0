//! The processes at both ends. Each is this program, started again as a sender or a receiver.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use stripline::Received;

use super::account::{Account, SENDER, add_to_hash};
use crate::child::{TOPIC, join};
use crate::notes::{Note, Notes};
use crate::payload;

/// The environment variable that holds the role.
const ROLE: &str = "STRIPLINE_TORTURE_NETWORK_ROLE";
/// The number of packets between two notes of the progress.
const NOTE_PERIOD: u64 = 32;
/// The number of consecutive packets of a sender that is not held up, followed by the pause after
/// them. Without the pause, losses in the queues of the receivers would hide losses on the link.
const BURST: u64 = 8;
const BURST_PAUSE: Duration = Duration::from_micros(200);
/// The domain of both ends. Each cell has a separate runtime folder.
const DOMAIN: &str = "network";
/// The interval at which a waiting receiver checks whether the sender is gone.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// The parent ends a cell without progress much earlier than this.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The role of a process.
#[derive(Clone, Debug)]
pub struct EndRole {
    pub sends: bool,
    /// The total number of packets; `None` if the process ends when the last peer is gone.
    pub packets: Option<u64>,
    /// Receivers for which the sender waits.
    pub receivers: usize,
    /// The packet after which a receiver stops itself; 0 for never.
    pub stops_at: u64,
    /// The rules of all topics.
    pub topics: String,
}

impl EndRole {
    /// Starts a process in the namespace of the caller.
    ///
    /// # Errors
    /// When the system cannot start it.
    pub fn start(&self, notes: &str, folder: &Path) -> Result<Child, String> {
        let Self { sends, packets, receivers, stops_at, topics } = self;
        let mut command = Command::new("/proc/self/exe");
        let packets = packets.unwrap_or(0);
        command.env(ROLE, format!("{sends} {notes} {packets} {receivers} {stops_at} {topics}"));
        command.env("STRIPLINE_RUNTIME_DIR", folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map_err(|e| format!("cannot start a process: {e}"))
    }

    fn is_lossy(&self) -> bool {
        self.topics.contains("drop-")
    }

    fn parse(words: &str) -> Option<(Self, Notes)> {
        let mut words = words.splitn(6, ' ');
        let sends = words.next()?.parse().ok()?;
        let notes = Notes::open(words.next()?).ok()?;
        let packets = Some(words.next()?.parse().ok()?).filter(|packets| *packets > 0);
        let receivers = words.next()?.parse().ok()?;
        let (stops_at, topics) = (words.next()?.parse().ok()?, words.next()?.to_string());
        Some((Self { sends, packets, receivers, stops_at, topics }, notes))
    }
}

/// Runs the role in the environment, if there is one, and returns the exit code.
pub fn play_if_asked() -> Option<u8> {
    let words = std::env::var(ROLE).ok()?;
    // Children must not outlive the namespaces of the parent.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let name = if words.starts_with("true") { "the sender" } else { "a receiver" };
    match EndRole::parse(&words).ok_or_else(|| format!("`{words}` is not a role")).and_then(play) {
        Ok(()) => Some(0),
        Err(problem) => {
            eprintln!("network: {name}: {problem}");
            Some(3)
        }
    }
}

fn play((role, notes): (EndRole, Notes)) -> Result<(), String> {
    if role.sends { send(&role, &notes) } else { receive(&role, &notes) }
}

fn send(role: &EndRole, notes: &Notes) -> Result<(), String> {
    let node = join(DOMAIN, &role.topics)?;
    let failed = |e: stripline::Error| e.to_string();
    let mut publisher = node.publisher::<u64>(TOPIC).map_err(failed)?;
    if !publisher.wait_for_receivers(role.receivers, TIMEOUT).map_err(failed)? {
        return Err("there are too few receivers".into());
    }
    let mut hash = 0;
    let mut sequence = 0;
    while role.packets.is_none_or(|packets| sequence < packets) {
        let mut loan = publisher.loan(payload::words(SENDER, sequence)).map_err(failed)?;
        payload::fill(&mut loan, SENDER, sequence);
        hash = add_to_hash(hash, &loan);
        loan.send().map_err(|e| format!("packet {sequence}: {e}"))?;
        if sequence % NOTE_PERIOD == 0 {
            notes.set(Note::Sent, sequence);
            if role.packets.is_none() && publisher.receivers() == 0 {
                return Ok(());
            }
        }
        if role.is_lossy() && sequence % BURST == 0 {
            std::thread::sleep(BURST_PAUSE);
        }
        sequence += 1;
    }
    let receivers = publisher.receivers();
    if receivers != role.receivers {
        return Err(format!("{receivers} of {} receivers are left at the end", role.receivers));
    }
    publisher.finish().map_err(|e| format!("the end: {e}"))?;
    notes.set(Note::Hash, hash);
    notes.set(Note::Sent, sequence);
    Ok(())
}

fn receive(role: &EndRole, notes: &Notes) -> Result<(), String> {
    let node = join(DOMAIN, &role.topics)?;
    let failed = |e: stripline::Error| e.to_string();
    let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(failed)?;
    let mut account = Account::new(role.is_lossy());
    let mut stops_at = Some(role.stops_at).filter(|at| *at > 0);
    loop {
        let timeout = if role.packets.is_some() { TIMEOUT } else { LOOK_PERIOD };
        let is_empty = match subscriber.receive_timeout(timeout).map_err(failed)? {
            Received::Packet(packet) => {
                account.enter(&packet)?;
                false
            }
            Received::Ended => break,
            Received::Empty => true,
        };
        if is_empty {
            if role.packets.is_some() {
                return Err("nothing comes".into());
            }
            if account.received > 0 && subscriber.senders() == 0 {
                return Ok(());
            }
            continue;
        }
        if account.received % NOTE_PERIOD == 1 {
            notes.set(Note::Taken, account.received);
        }
        if stops_at.take_if(|at| account.next > *at).is_some() {
            notes.set(Note::Stops, 1);
            rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
                .map_err(|e| format!("cannot stop: {e}"))?;
            notes.set(Note::GoesOn, 1);
        }
    }
    let packets = role.packets.ok_or("the stream has ended, and its sender has not ended it")?;
    account.end(packets, subscriber.gap_at_end())?;
    for (note, value) in [
        (Note::Taken, account.received),
        (Note::Missing, account.missing),
        (Note::Gaps, account.gaps),
        (Note::Hash, account.hash),
    ] {
        notes.set(note, value);
    }
    Ok(())
}
