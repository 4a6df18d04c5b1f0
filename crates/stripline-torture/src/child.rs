//! The senders and receivers that are killed. Each is this program, started again.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use stripline::node::{Node, Topics, wait_any};
use stripline::{Received, fail_point};

use crate::bystander::Bystander;
use crate::notes::{Note, Notes, now_ns};
use crate::payload;

/// The topic of all packets.
pub const TOPIC: &str = "numbers";
/// The environment variable that holds the role of a child.
const ROLE: &str = "STRIPLINE_TORTURE_ROLE";
/// A receive that takes longer counts as a hang.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The role of a child.
#[derive(Clone, Debug)]
pub struct Role {
    /// Whether the child is a sender.
    pub sends: bool,
    /// The domain that the child joins.
    pub domain: String,
    /// The rules of all topics.
    pub topics: String,
    /// The number of the child in packets that it sends.
    pub incarnation: u64,
    /// Packets that the child sends or receives before it ends.
    pub packets: u64,
    /// Receivers for which a sender waits before the first packet.
    pub receivers: usize,
    /// The time for which the child holds each packet.
    pub delay_us: u64,
}

impl Role {
    /// Starts a child. With a fail point, the child is killed at that point.
    ///
    /// # Errors
    /// When the system cannot start it.
    pub fn start(
        &self,
        notes: &Notes,
        fail_point: Option<(&str, u64)>,
    ) -> Result<(Child, Bystander), String> {
        let Self { sends, domain, topics, incarnation, packets, receivers, delay_us } = self;
        let words = format!(
            "{sends} {} {domain} {incarnation} {packets} {receivers} {delay_us} {topics}",
            notes.address()
        );
        begin(ROLE, &words, fail_point)
    }

    fn parse(words: &str) -> Option<(Self, Notes)> {
        let mut words = words.splitn(8, ' ');
        let sends = words.next()?.parse().ok()?;
        let notes = Notes::open(words.next()?).ok()?;
        let domain = words.next()?.to_string();
        let (incarnation, packets) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (receivers, delay_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let topics = words.next()?.to_string();
        Some((Self { sends, domain, topics, incarnation, packets, receivers, delay_us }, notes))
    }
}

/// Joins a domain.
///
/// # Errors
/// Errors of the library.
pub fn join(domain: &str, topics: &str) -> Result<Node, String> {
    Topics::parse(topics).and_then(|topics| Node::join(domain, topics)).map_err(|e| e.to_string())
}

/// Returns whether SIGKILL ended the process.
pub fn is_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}

/// Starts this program again with a role in the environment variable, together with a bystander.
///
/// # Errors
/// When the system cannot start it.
pub fn begin(
    variable: &str,
    words: &str,
    fail_point: Option<(&str, u64)>,
) -> Result<(Child, Bystander), String> {
    let mut command = Command::new("/proc/self/exe");
    let (bystander, socket) = Bystander::new()?;
    command.env(variable, words).stdin(socket).stdout(Stdio::null());
    if let Some((point, times)) = fail_point {
        command.env(fail_point::VARIABLE, format!("{point}:{times}"));
    }
    let child = command.spawn().map_err(|e| format!("cannot start a process: {e}"))?;
    Ok((child, bystander))
}

/// Runs the role in the environment, if there is one, and returns the exit code.
pub fn play_if_asked() -> Option<u8> {
    let words = std::env::var(ROLE).ok()?;
    // Children must not outlive the parent.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match Role::parse(&words).ok_or_else(|| format!("`{words}` is not a role")).and_then(play) {
        Ok(()) => Some(0),
        Err(problem) => {
            eprintln!("torture: a child: {problem}");
            Some(3)
        }
    }
}

static NOTES: OnceLock<Notes> = OnceLock::new();

fn play((role, notes): (Role, Notes)) -> Result<(), String> {
    let notes = NOTES.get_or_init(|| notes);
    fail_point::in_last_moment(|| {
        if let Some(notes) = NOTES.get() {
            notes.set(Note::KilledNs, now_ns());
        }
    });
    let node = join(&role.domain, &role.topics)?;
    if role.sends { send(&role, &node, notes) } else { receive(&role, &node, notes) }
        .map_err(|e| e.to_string())
}

fn send(role: &Role, node: &Node, notes: &Notes) -> stripline::Result<()> {
    let mut publisher = node.publisher::<u64>(TOPIC)?;
    if !publisher.wait_for_receivers(role.receivers, TIMEOUT)? {
        return Err(stripline::Error::failed("there is no receiver"));
    }
    for _ in 0..role.packets {
        let sequence = publisher.sequence();
        let mut loan = publisher.loan(payload::words(role.incarnation, sequence))?;
        payload::fill(&mut loan, role.incarnation, sequence);
        notes.set(Note::Begun, sequence + 1);
        match loan.send() {
            Ok(()) => {}
            // A receiver that drops packets may have dropped this one. The other receivers have it.
            Err(stripline::Error::PacketRefused { .. }) => {}
            Err(error) => return Err(error),
        }
        notes.set(Note::Sent, sequence + 1);
        delay(role);
    }
    publisher.finish()
}

fn receive(role: &Role, node: &Node, notes: &Notes) -> stripline::Result<()> {
    let mut subscriber = node.subscriber::<u64>(TOPIC)?;
    let mut next = None;
    for _ in 0..role.packets {
        // The time may have passed while this process was stopped. After it continues, threads of a
        // middleware first have to deliver the packets that have arrived in the meantime.
        wait_any(&mut [&mut subscriber], Some(TIMEOUT))?;
        let packet = match subscriber.receive_timeout(TIMEOUT)? {
            Received::Packet(packet) => packet,
            Received::Ended => break,
            Received::Empty => return Err(stripline::Error::failed("nothing comes")),
        };
        let (_, sequence) = payload::check(&packet).map_err(stripline::Error::failed)?;
        let gap = packet.gap().copied();
        let missing = gap.map_or(0, |gap| gap.packets);
        let expected = gap.map(|gap| gap.first).or(next);
        if packet.sequence() != sequence || expected.is_some_and(|next| next + missing != sequence) {
            let text = format!("packet {sequence} after {next:?}, {gap:?}");
            return Err(stripline::Error::failed(text));
        }
        if next.is_none() {
            notes.set(Note::ResumedFrom, gap.map_or(0, |gap| gap.first + 1));
            notes.set(Note::First, sequence + 1);
        } else if gap.is_some() && !role.topics.contains("drop") {
            return Err(stripline::Error::failed(format!("packet {sequence}: {gap:?} although it blocks")));
        }
        next = Some(sequence + 1);
        notes.set(Note::Taken, sequence + 1);
        delay(role);
        drop(packet);
        notes.set(Note::Released, sequence + 1);
    }
    notes.set(Note::Departs, 1);
    Ok(())
}

fn delay(role: &Role) {
    if role.delay_us > 0 {
        std::thread::sleep(Duration::from_micros(role.delay_us));
    }
}
