//! Kills receivers around a sender and two receivers that survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stripline::node::{Node, Publisher};
use stripline::{Error, Received};

use crate::child::{Role, TOPIC, join};
use crate::ledger::Ledger;
use crate::notes::{Note, Notes, now_ns};
use crate::payload::{self, Rng};
use crate::plan::{Death, Link, death, link};
use crate::worker::{End, TIMEOUT, Tally, Victim, Worker, wait_for_host};

const RULES: &str = "[default]\nbuffer = 32768\ndepth = 8";
const LOSSY: &str = "[default]\nbuffer = 32768\noverflow = 'drop-oldest'\ndepth = 4";
/// Packets of a receiver that is not killed.
const PACKETS: u64 = 40;
/// Receivers that survive.
const SURVIVORS: usize = 2;

/// Kills the receivers of a worker.
///
/// # Errors
/// The first failure.
pub fn run(worker: &Worker) -> Result<Tally, String> {
    let host = join(&worker.domain, RULES)?;
    wait_for_host(&worker.domain)?;
    let last = Arc::new(AtomicU64::new(0));
    let survivors = [(RULES, false), (LOSSY, true)];
    let threads = survivors.map(|(rules, lossy)| survive(join(&worker.domain, rules), lossy, &last));
    let mut sender = Sender {
        _host: host,
        domain: worker.domain.clone(),
        nodes: Vec::new(),
        link: Link::plain(worker.transport),
        publisher: None,
        incarnation: 0,
        sent: 0,
    };
    sender.begin()?;
    let mut tally = Tally::default();
    let mut rng = Rng::new(worker.seed);
    let mut predecessor = None;
    let mut index = worker.first_death;
    while tally.kills() < worker.kills {
        let death = death(false, index, worker.transport, &mut rng);
        index += 1;
        worker.heartbeat.beat(format!("receiver {} of {}: {death:?}", tally.kills() + 1, worker.kills));
        kill_one(worker, death, &mut rng, &mut sender, &mut predecessor, &mut tally)
            .map_err(|problem| format!("{}: a receiver, {death:?}: {problem}", worker.domain))?;
    }
    worker.heartbeat.beat("the receivers' end".into());
    // The stream ends when the last incarnation has ended.
    last.store(sender.incarnation, Ordering::Release);
    sender.end()?;
    for (thread, (_, lossy)) in threads.into_iter().zip(survivors) {
        let ledger = thread.join().map_err(|_| "a survivor panicked")??;
        tally.packets += ledger.packets;
        tally.missing += ledger.missing;
        if !lossy && ledger.packets != sender.sent {
            return Err(format!("{} of {} packets arrived", ledger.packets, sender.sent));
        }
    }
    Ok(tally)
}

/// The sender that survives.
struct Sender {
    _host: Node,
    domain: String,
    /// One node for each link.
    nodes: Vec<(Link, Node)>,
    /// The link that carries the packets now.
    link: Link,
    publisher: Option<Publisher<u64>>,
    incarnation: u64,
    sent: u64,
}

impl Sender {
    /// Begins a new stream after all survivors have connected.
    fn begin(&mut self) -> Result<(), String> {
        let known = self.nodes.iter().position(|(link, _)| *link == self.link);
        let index = match known {
            Some(index) => index,
            None => {
                let rules = format!("{RULES}\n{}", self.link.rules());
                self.nodes.push((self.link, join(&self.domain, &rules)?));
                self.nodes.len() - 1
            }
        };
        let mut publisher = self.nodes[index].1.publisher(TOPIC).map_err(|e| e.to_string())?;
        self.incarnation += 1;
        if !publisher.wait_for_receivers(SURVIVORS, TIMEOUT).map_err(|e| e.to_string())? {
            return Err("the survivors do not come back to a new sender".into());
        }
        self.publisher = Some(publisher);
        self.send().map(drop)
    }

    /// Moves to another link. The survivors get the end of the stream and the start of a new one.
    fn change(&mut self, link: Link) -> Result<(), String> {
        self.end()?;
        self.link = link;
        self.begin()
    }

    /// Sends a packet and returns its outcome.
    fn send(&mut self) -> Result<Ending, String> {
        let Some(publisher) = &mut self.publisher else { return Ok(Ending::Finished) };
        let sequence = publisher.sequence();
        let send = |loan: stripline::Result<stripline::Loan<'_, u64>>| {
            let mut loan = loan?;
            payload::fill(&mut loan, self.incarnation, sequence);
            loan.send()
        };
        let outcome = send(publisher.loan(payload::words(self.incarnation, sequence)));
        self.sent += 1;
        match outcome {
            Ok(()) => Ok(Ending::Finished),
            Err(Error::ReceiverGone { .. }) if !self.link.is_plain() => Ok(Ending::Deserted),
            // A receiver's policy dropped the packet.
            Err(Error::PacketRefused { .. }) if !self.link.is_plain() => Ok(Ending::Refused),
            Err(error) => Err(format!("the survivor cannot send over {:?}: {error}", self.link)),
        }
    }

    fn receivers(&mut self) -> usize {
        self.publisher.as_mut().map_or(0, Publisher::receivers)
    }

    fn end(&mut self) -> Result<(), String> {
        let ended = self.publisher.take().map_or(Ok(()), Publisher::finish);
        ended.map_err(|e| format!("the survivor cannot end: {e}"))
    }
}

/// The outcome of a send.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// Everything that the scope promises was done.
    Finished,
    Refused,
    /// A receiver is gone.
    Deserted,
}

/// The position at which the dead receivers stopped: the minimum and the maximum.
///
/// The next receiver must get all packets from this position on, or a gap that begins there.
type Progress = Option<(u64, u64)>;

fn kill_one(
    worker: &Worker,
    death: Death,
    rng: &mut Rng,
    sender: &mut Sender,
    predecessor: &mut Progress,
    tally: &mut Tally,
) -> Result<(), String> {
    let notes = &worker.notes;
    notes.clear();
    let link = link(death, worker.transport, rng);
    if link != sender.link {
        sender.change(link)?;
        *predecessor = None;
    }
    if death.name() == "reattach" && predecessor.is_some() {
        // The dead receiver misses these packets, and its successor reports them.
        for _ in 0..4 {
            sender.send()?;
        }
    }
    // On a ring, only a receiver that drops packets acknowledges that packets are in the queue.
    let is_queued = matches!(death.name(), "queue" | "queue-accepted") && link.is_ring();
    let lossy = is_queued || matches!(death, Death::Time(_)) && rng.below(4) == 0;
    let rules = if lossy { LOSSY } else { RULES };
    let wait = ["adaptive", "block"][rng.below(2) as usize];
    let role = Role {
        sends: false,
        domain: worker.domain.clone(),
        topics: format!("{rules}\nwait = '{wait}'"),
        incarnation: 0,
        packets: PACKETS,
        receivers: 0,
        // A slow receiver makes the sender wait, and must then wake the sender. The delay makes the
        // receiver slower than the sender even on a machine that gives the sender little time.
        delay_us: if death.name() == "release-stored" { 5000 } else { 0 },
    };
    let (child, bystander) = role.start(notes, death.fail_point())?;
    let mut child = Victim::new(child);
    let (mut joined, mut gone_ns, mut killed_ns) = (false, None, 0);
    let mut dead: Option<Instant> = None;
    let status = loop {
        for _ in 0..4 {
            let number = sender.publisher.as_ref().map_or(0, Publisher::sequence);
            match sender.send()? {
                Ending::Finished if link.is_target() => {
                    tally.finished += u64::from(check_finished(notes, number, killed_ns)?);
                }
                Ending::Deserted => {
                    tally.deserted += 1;
                    joined = true;
                    gone_ns.get_or_insert_with(now_ns);
                }
                _ => {}
            }
        }
        match sender.receivers() {
            count if count > SURVIVORS => joined = true,
            _ if joined && gone_ns.is_none() => gone_ns = Some(now_ns()),
            _ => {}
        }
        if let Some(status) = child.poll()? {
            let since = *dead.get_or_insert_with(Instant::now);
            if !joined || gone_ns.is_some() {
                break status;
            }
            if since.elapsed() > TIMEOUT {
                return Err("its death is not noticed".into());
            }
        }
        if let Death::Time(microseconds) = death
            && killed_ns == 0
            && child.has_lived(microseconds)
        {
            killed_ns = now_ns();
            child.kill();
        }
        if death.name() == "reader-end" && dead.is_none() && notes.get(Note::Taken) > 0 {
            sender.end()?;
            // A new stream begins when the sender has to wait only for the survivors.
            let status = child.end()?;
            sender.begin()?;
            break status;
        }
        // Lets other threads run.
        std::thread::sleep(Duration::from_micros(50));
    };
    tally.enter(End { status, death, over: link.to_string(), gone_ns, killed_ns, notes, bystander })?;
    if lossy || death.name() == "reader-end" || !link.is_ring() {
        // The queue died with the receiver, or another stream has begun.
        *predecessor = None;
        return Ok(());
    }
    let (first, resumed) = (notes.get(Note::First), notes.get(Note::ResumedFrom));
    if first == 0 {
        return Ok(());
    }
    let from = if resumed > 0 { resumed } else { first } - 1;
    if let Some((least, most)) = *predecessor {
        if !(least..=most).contains(&from) {
            return Err(format!(
                "its gap begins at packet {from}; the one before it had taken {least} to {most}"
            ));
        }
        tally.resumed += 1;
    }
    if notes.get(Note::Departs) > 0 {
        // The next receiver may not share this history.
        *predecessor = None;
        return Ok(());
    }
    let (taken, released) = (notes.get(Note::Taken), notes.get(Note::Released));
    // If the receiver has released nothing, the sender may not have recorded the gap as delivered.
    *predecessor = Some((if released > 0 { released } else { from }, taken.max(first)));
    Ok(())
}

/// Checks that a living receiver has released the packet of this number, as the scope `target`
/// requires.
///
/// Returns whether the receiver was connected when the packet was sent.
fn check_finished(notes: &Notes, number: u64, killed_ns: u64) -> Result<bool, String> {
    let (first, taken) = (notes.get(Note::First), notes.get(Note::Taken));
    // Read the time of the kill after the positions: a time of 0 then proves that a living receiver
    // noted the positions.
    let is_alive = notes.get(Note::KilledNs) == 0 && killed_ns == 0;
    // A receiver ends after its last packet.
    let stays = taken + 1 < first + PACKETS;
    let is_there = is_alive && stays && (1..=number + 1).contains(&first);
    if is_there && taken <= number {
        return Err(format!("the send of {number} returned, and only {taken} packets were taken"));
    }
    Ok(is_there)
}

/// Runs a receiver that survives, until the last incarnation has ended.
fn survive(
    node: Result<Node, String>,
    lossy: bool,
    last: &Arc<AtomicU64>,
) -> JoinHandle<Result<Ledger, String>> {
    let last = Arc::clone(last);
    std::thread::spawn(move || {
        let node = node?;
        let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(|e| e.to_string())?;
        let mut ledger = Ledger::new(lossy);
        let mut newest = 0;
        loop {
            match subscriber.receive_timeout(TIMEOUT).map_err(|e| format!("a survivor: {e}"))? {
                Received::Packet(packet) => {
                    let (incarnation, _) = ledger.enter(&packet)?;
                    newest = newest.max(incarnation);
                }
                Received::Ended if newest == last.load(Ordering::Acquire) => return Ok(ledger),
                // One incarnation has ended, and the next has not begun.
                Received::Ended => std::thread::sleep(Duration::from_micros(100)),
                Received::Empty => return Err("a survivor gets nothing any more".into()),
            }
        }
    })
}
