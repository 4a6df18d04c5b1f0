//! Receivers die around a sender and two receivers that survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stripline::Received;
use stripline::node::{Node, Publisher};

use crate::child::{Role, TOPIC, is_killed, join};
use crate::lane::{Doomed, Lane, PATIENCE, Tally, await_host};
use crate::ledger::Ledger;
use crate::notes::{Note, now_ns};
use crate::payload::{self, Dice};
use crate::plan::{Death, death};

const RULES: &str = "[default]\ntransport = 'shm'\nbuffer = 32768\ndepth = 8";
const LOSSY: &str = "[default]\ntransport = 'shm'\nbuffer = 32768\noverflow = 'drop-oldest'\ndepth = 4";
/// Who receives and survives.
const SURVIVORS: usize = 2;

/// Kills so many receivers.
///
/// # Errors
/// What went wrong.
pub fn run(lane: &Lane) -> Result<Tally, String> {
    let node = join(&lane.domain, RULES)?;
    await_host(&lane.domain)?;
    let last = Arc::new(AtomicU64::new(0));
    let survivors = [(RULES, false), (LOSSY, true)];
    let threads = survivors.map(|(rules, lossy)| survive(join(&lane.domain, rules), lossy, &last));
    let mut sender = Sender { node, publisher: None, incarnation: 0, sent: 0 };
    sender.begin()?;
    let mut tally = Tally::default();
    let mut dice = Dice::new(lane.seed);
    let mut predecessor = None;
    let mut index = lane.first_death;
    while tally.kills() < lane.kills {
        let death = death(false, index, &mut dice);
        index += 1;
        lane.pulse.beat(format!("receiver {} of {}: {death:?}", tally.kills() + 1, lane.kills));
        kill_one(lane, death, &mut dice, &mut sender, &mut predecessor, &mut tally)
            .map_err(|problem| format!("{}: a receiver, {death:?}: {problem}", lane.domain))?;
    }
    lane.pulse.beat("the receivers' end".into());
    // Only the last incarnation's end is the end.
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
    node: Node,
    publisher: Option<Publisher<u64>>,
    incarnation: u64,
    sent: u64,
}

impl Sender {
    /// Begins anew, with all survivors listening.
    fn begin(&mut self) -> Result<(), String> {
        let mut publisher = self.node.publisher(TOPIC).map_err(|e| e.to_string())?;
        self.incarnation += 1;
        if !publisher.wait_for_receivers(SURVIVORS, PATIENCE).map_err(|e| e.to_string())? {
            return Err("the survivors do not come back to a new sender".into());
        }
        self.publisher = Some(publisher);
        self.send()
    }

    fn send(&mut self) -> Result<(), String> {
        let Some(publisher) = &mut self.publisher else { return Ok(()) };
        let sequence = publisher.sequence();
        let send = |loan: stripline::Result<stripline::Loan<'_, u64>>| {
            let mut loan = loan?;
            payload::fill(&mut loan, self.incarnation, sequence);
            loan.send()
        };
        send(publisher.loan(payload::words(self.incarnation, sequence)))
            .map_err(|e| format!("the survivor cannot send: {e}"))?;
        self.sent += 1;
        Ok(())
    }

    fn receivers(&mut self) -> usize {
        self.publisher.as_mut().map_or(0, Publisher::receivers)
    }

    fn end(&mut self) -> Result<(), String> {
        let ended = self.publisher.take().map_or(Ok(()), Publisher::finish);
        ended.map_err(|e| format!("the survivor cannot end: {e}"))
    }
}

/// Up to where the receivers that died have taken packets, at least and at most; what comes after, the next one must
/// get or be told of.
type Progress = Option<(u64, u64)>;

fn kill_one(
    lane: &Lane,
    death: Death,
    dice: &mut Dice,
    sender: &mut Sender,
    predecessor: &mut Progress,
    tally: &mut Tally,
) -> Result<(), String> {
    let notes = &lane.notes;
    notes.clear();
    let lossy = matches!(death, Death::Time(_)) && dice.below(4) == 0;
    let rules = if lossy { LOSSY } else { RULES };
    let wait = ["adaptive", "block"][dice.below(2) as usize];
    let role = Role {
        sends: false,
        domain: lane.domain.clone(),
        topics: format!("{rules}\nwait = '{wait}'"),
        incarnation: 0,
        packets: 40,
        receivers: 0,
        // One that is slow holds the sender up, and must then wake it.
        dawdle_us: if death.name() == "release-stored" { 500 } else { 0 },
    };
    let mut child = Doomed::new(role.start(notes, death.fail_point())?);
    let (mut joined, mut gone_ns, mut killed_ns) = (false, None, 0);
    let mut dead: Option<Instant> = None;
    let status = loop {
        for _ in 0..4 {
            sender.send()?;
        }
        match sender.receivers() {
            count if count > SURVIVORS => joined = true,
            _ if joined && gone_ns.is_none() => gone_ns = Some(now_ns()),
            _ => {}
        }
        if let Some(status) = child.look()? {
            let since = *dead.get_or_insert_with(Instant::now);
            if !joined || gone_ns.is_some() {
                break status;
            }
            if since.elapsed() > PATIENCE {
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
            // A new stream begins when only the survivors are there to be waited for.
            let status = child.end()?;
            sender.begin()?;
            break status;
        }
        // Others want to run, too.
        std::thread::sleep(Duration::from_micros(50));
    };
    if !is_killed(status) {
        if !status.success() {
            return Err(format!("it failed by itself: {status}"));
        }
        tally.lucky += 1;
    } else {
        *tally.deaths.entry(death.name()).or_default() += 1;
        if killed_ns == 0 {
            killed_ns = notes.get(Note::KilledNs);
        }
        if let Some(gone) = gone_ns
            && gone > killed_ns
        {
            tally.noticed_ns.push((gone - killed_ns, death.name()));
        }
    }
    if lossy || death.name() == "reader-end" {
        // What its queue held died with it; or another stream has begun.
        *predecessor = None;
        return Ok(());
    }
    let (first, told) = (notes.get(Note::First), notes.get(Note::ToldFrom));
    if first == 0 {
        return Ok(());
    }
    let from = if told > 0 { told } else { first } - 1;
    if let Some((least, most)) = *predecessor {
        if !(least..=most).contains(&from) {
            return Err(format!(
                "it was told of packets from {from} on; the one before it had taken {least} to {most}"
            ));
        }
        tally.resumed += 1;
    }
    let (taken, released) = (notes.get(Note::Taken), notes.get(Note::Released));
    // Of one that has given nothing back it may be unknown that it had been told.
    *predecessor = Some((if released > 0 { released } else { from }, taken.max(first)));
    Ok(())
}

/// A receiver that survives, until the last incarnation's end.
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
            match subscriber.receive_timeout(PATIENCE).map_err(|e| format!("a survivor: {e}"))? {
                Received::Packet(packet) => {
                    let (incarnation, _) = ledger.enter(&packet)?;
                    newest = newest.max(incarnation);
                }
                Received::Ended if newest == last.load(Ordering::Acquire) => return Ok(ledger),
                // Between two incarnations.
                Received::Ended => std::thread::sleep(Duration::from_micros(100)),
                Received::Empty => return Err("a survivor gets nothing any more".into()),
            }
        }
    })
}
