//! Kills senders around two receivers that survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stripline::Received;
use stripline::node::{Node, Subscriber};

use crate::child::{Role, TOPIC, join};
use crate::ledger::Ledger;
use crate::notes::{Note, now_ns};
use crate::payload::Rng;
use crate::plan::{Death, Link, death, link};
use crate::worker::{End, TIMEOUT, Tally, Victim, Worker, wait_for_host};

/// Senders choose the transport and the scope.
const RULES: &str = "[default]\nbuffer = 32768\ndepth = 4";
const LOSSY: &str = "[default]\nbuffer = 32768\noverflow = 'drop-oldest'\ndepth = 4";

/// Kills the senders of a worker.
///
/// # Errors
/// The first failure.
pub fn run(worker: &Worker) -> Result<Tally, String> {
    let node = join(&worker.domain, RULES)?;
    wait_for_host(&worker.domain)?;
    let over = Arc::new(AtomicBool::new(false));
    let lossy = survive(join(&worker.domain, LOSSY), Link::plain(worker.transport), &over);
    let mut survivor = Survivor {
        subscriber: node.subscriber(TOPIC).map_err(|e| e.to_string())?,
        ledger: Ledger::new(false),
        visitors: join(&worker.domain, RULES)?,
        visitor: None,
    };
    let mut tally = Tally::default();
    let mut rng = Rng::new(worker.seed);
    let mut index = worker.first_death;
    let mut incarnation = 0;
    while tally.kills() < worker.kills {
        let death = death(true, index, worker.transport, &mut rng);
        index += 1;
        incarnation += 1;
        worker.heartbeat.beat(format!("sender {} of {}: {death:?}", tally.kills() + 1, worker.kills));
        kill_one(worker, death, incarnation, &mut rng, &mut survivor, &mut tally)
            .map_err(|problem| format!("{}: sender {incarnation}, {death:?}: {problem}", worker.domain))?;
    }
    worker.heartbeat.beat("the senders' end".into());
    over.store(true, Ordering::Release);
    let ledger = lossy.join().map_err(|_| "a survivor panicked")??;
    tally.packets += ledger.packets + survivor.ledger.packets;
    tally.missing += ledger.missing;
    Ok(tally)
}

/// The receiver that survives, and visitors: receivers that join and leave.
struct Survivor {
    subscriber: Subscriber<u64>,
    ledger: Ledger,
    visitors: Node,
    visitor: Option<Subscriber<u64>>,
}

impl Survivor {
    /// Receives a packet, if there is one. Returns whether there was one.
    fn take(&mut self, tally: &mut Tally) -> Result<bool, String> {
        let wait = Duration::from_micros(200);
        match self.subscriber.receive_timeout(wait).map_err(|e| format!("the survivor: {e}"))? {
            Received::Packet(packet) => {
                let (_, sequence) = self.ledger.enter(&packet)?;
                if sequence == 0
                    && let Some((_, address)) = packet.connection().split_once('@')
                {
                    tally.names.extend(address.split(' ').next().map(String::from));
                }
                Ok(true)
            }
            Received::Empty => Ok(false),
            Received::Ended => {
                std::thread::sleep(wait);
                Ok(false)
            }
        }
    }

    /// Lets a visitor join that receives nothing, or lets the visitor leave.
    fn visit(&mut self) -> Result<(), String> {
        self.visitor = match self.visitor.take() {
            Some(_) => None,
            None => Some(self.visitors.subscriber(TOPIC).map_err(|e| e.to_string())?),
        };
        Ok(())
    }
}

fn kill_one(
    worker: &Worker,
    death: Death,
    incarnation: u64,
    rng: &mut Rng,
    survivor: &mut Survivor,
    tally: &mut Tally,
) -> Result<(), String> {
    let notes = &worker.notes;
    notes.clear();
    let visited = matches!(death.name(), "writer-sleep" | "writer-wake" | "writer-detach" | "admit-returned");
    let wait = ["adaptive", "block"][rng.below(2) as usize];
    let link = link(death, worker.transport, rng);
    let role = Role {
        sends: true,
        domain: worker.domain.clone(),
        topics: format!("[default]\nbuffer = 32768\ndepth = 4\nwait = '{wait}'\n{}", link.rules()),
        incarnation,
        packets: if visited { 100_000 } else { 40 },
        receivers: 2,
        delay_us: 0,
    };
    let (child, bystander) = role.start(notes, death.fail_point())?;
    let mut child = Victim::new(child);
    let (mut joined, mut gone_ns, mut killed_ns) = (false, None, 0);
    let mut dead: Option<Instant> = None;
    let status = loop {
        let found = survivor.take(tally)?;
        match survivor.subscriber.senders() {
            0 if joined && gone_ns.is_none() => gone_ns = Some(now_ns()),
            0 => {}
            _ => joined = true,
        }
        // Read the note before the ledger, so packets that are noted as sent must have been
        // received by then.
        let sent = notes.get(Note::Sent);
        let got = survivor.ledger.next(incarnation);
        if link.is_target() && sent > got {
            return Err(format!("over {link:?}: {sent} sends returned, and {got} packets were taken"));
        }
        if let Some(status) = child.poll()? {
            let since = *dead.get_or_insert_with(Instant::now);
            if !found && survivor.subscriber.senders() == 0 && (got >= sent || link.is_lossy()) {
                break status;
            }
            if since.elapsed() > TIMEOUT {
                let text = format!("{got} of {sent} packets arrived over {link:?}, joined {joined}");
                return Err(format!("dead for long; {text}"));
            }
        }
        if let Death::Time(microseconds) = death
            && killed_ns == 0
            && child.has_lived(microseconds)
        {
            killed_ns = now_ns();
            child.kill();
        }
        // A visitor blocks the sender until it leaves.
        if visited && got > 0 && dead.is_none() && (!found || got.is_multiple_of(8)) {
            survivor.visit()?;
        }
    };
    survivor.visitor = None;
    let (got, begun) = (survivor.ledger.next(incarnation), notes.get(Note::Begun));
    if got > begun {
        return Err(format!("{got} packets arrived of {begun} that it had begun to send"));
    }
    if link.reports_tail() {
        survivor.ledger.lose(notes.get(Note::Sent).saturating_sub(got), begun - got);
    }
    tally.enter(End { status, death, over: link.to_string(), gone_ns, killed_ns, notes, bystander })
}

/// Runs a receiver that drops packets and survives.
fn survive(
    node: Result<Node, String>,
    link: Link,
    over: &Arc<AtomicBool>,
) -> JoinHandle<Result<Ledger, String>> {
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let node = node?;
        let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(|e| e.to_string())?;
        let mut ledger = Ledger::of_dropping(link);
        loop {
            let wait = Duration::from_millis(10);
            match subscriber.receive_timeout(wait).map_err(|e| format!("a lossy survivor: {e}"))? {
                Received::Packet(packet) => drop(ledger.enter(&packet)?),
                Received::Empty | Received::Ended if over.load(Ordering::Acquire) => return Ok(ledger),
                Received::Ended => std::thread::sleep(Duration::from_micros(100)),
                Received::Empty => {}
            }
        }
    })
}
