//! Processes that are stopped for a while. Such processes are late, but never count as dead.

use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stripline::node::{Loan, Publisher, Subscriber};
use stripline::terms::Overflow;
use stripline::{Error, Received};

use crate::child::{Role, TOPIC, join};
use crate::ledger::Ledger;
use crate::notes::{Board, Note, Notes};
use crate::payload;
use crate::plan::users_transports;
use crate::worker::{TIMEOUT, Victim, wait_for_host};

/// The number of refused sends (because of a full queue) after which a receiver was stopped for
/// long enough.
const REFUSALS: u64 = 100;
/// More packets than any queue can hold.
const PACKETS: u64 = 2000;

/// The options of the test that stops processes.
pub struct Stop {
    /// The minimum number of seconds for which each process is stopped.
    pub seconds: u64,
    /// The only transport; `None` for all transports that users have.
    pub transport: Option<String>,
}

impl Stop {
    /// Stops and continues a receiver that blocks, a receiver that drops packets, and a sender,
    /// over each transport.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&self) -> Result<Value, String> {
        let is_wanted = |name: &&str| self.transport.as_deref().is_none_or(|wanted| *name == wanted);
        let transports = users_transports().filter(is_wanted);
        let board = Board::new(3 * transports.clone().count() as u64)?;
        let started = Instant::now();
        // All run at the same time, because each may be stopped for a minute.
        let reports: Vec<_> = std::thread::scope(|scope| {
            let run = |(first, transport)| {
                let board = &board;
                scope.spawn(move || {
                    let report = self.stop_over(transport, board, first);
                    report.map_err(|problem| format!("{transport}: {problem}"))
                })
            };
            let threads: Vec<_> = (0..).step_by(3).zip(transports.clone()).map(run).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut report = json!({"stopped_s": self.seconds, "duration_s": started.elapsed().as_secs_f64()});
        for (transport, outcome) in transports.zip(reports) {
            report[transport] = outcome.map_err(|_| format!("{transport}: a thread panicked"))??;
        }
        Ok(report)
    }

    fn stop_over(&self, transport: &str, board: &Board, first: u64) -> Result<Value, String> {
        let notes = [board.worker(first)?, board.worker(first + 1)?, board.worker(first + 2)?];
        let block = rules(transport, Overflow::Block);
        let drop_oldest = rules(transport, Overflow::DropOldest);
        let (blocking, lossy, sender) = std::thread::scope(|scope| {
            let blocking = scope.spawn(|| self.stop_receiver(&block, false, &notes[0]));
            let lossy = scope.spawn(|| self.stop_receiver(&drop_oldest, true, &notes[1]));
            let sender = self.stop_sender(&block, &notes[2]);
            (blocking.join(), lossy.join(), sender)
        });
        let panicked = "a thread panicked";
        let (blocking, lossy, sender) =
            (blocking.map_err(|_| panicked)??, lossy.map_err(|_| panicked)??, sender?);
        if blocking.refused < REFUSALS || lossy.refused > 0 {
            return Err(format!("refused to send: {} times, and {}", blocking.refused, lossy.refused));
        }
        Ok(json!({
            "receiver_block": {"packets": blocking.sent, "refused": blocking.refused},
            "receiver_drop_oldest": {"packets": lossy.sent, "refused": lossy.refused},
            "sender": sender,
        }))
    }

    fn stop_receiver(&self, rules: &str, lossy: bool, notes: &Notes) -> Result<Sent, String> {
        let domain = domain();
        let node = join(&domain, rules)?;
        wait_for_host(&domain)?;
        let mut publisher = node.publisher::<u64>(TOPIC).map_err(|e| e.to_string())?;
        let role = role(&domain, rules, false, if lossy { u64::MAX } else { PACKETS });
        let mut child = Victim::with_timeout(role.start(notes, None)?.0, self.timeout());
        if !publisher.wait_for_receivers(1, TIMEOUT).map_err(|e| e.to_string())? {
            return Err("the receiver does not come".into());
        }
        let mut sent = Sent::default();
        sent.send(&mut publisher)?;
        await_that("the receiver takes the first packet", || notes.get(Note::Released) > 0)?;
        child.signal(Signal::STOP);
        let stopped = Instant::now();
        let enough = |sent: &Sent| if lossy { sent.sent > PACKETS } else { sent.refused >= REFUSALS };
        while !enough(&sent) || stopped.elapsed() < self.duration() {
            if !sent.send(&mut publisher)? || self.seconds > 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            if publisher.receivers() != 1 {
                return Err("a receiver that is stopped is taken for dead".into());
            }
        }
        child.signal(Signal::CONT);
        // These sends block, because a loop of refused sends would keep a processor from the
        // receiver.
        while !lossy && sent.sent < PACKETS {
            let loan = publisher.loan(payload::words(1, publisher.sequence()));
            sent.fill(loan.map_err(|e| e.to_string())?)?;
        }
        publisher.finish().map_err(|e| e.to_string())?;
        // The receiver checks every packet, every gap, and with `block` also the number of packets.
        match child.end()? {
            status if status.success() => Ok(sent),
            status => Err(format!("the receiver that was stopped failed: {status}")),
        }
    }

    fn stop_sender(&self, rules: &str, notes: &Notes) -> Result<Value, String> {
        let domain = domain();
        let node = join(&domain, rules)?;
        wait_for_host(&domain)?;
        let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(|e| e.to_string())?;
        let role = role(&domain, rules, true, PACKETS);
        let mut child = Victim::with_timeout(role.start(notes, None)?.0, self.timeout());
        let mut ledger = Ledger::new(false);
        while ledger.packets < 10 {
            take(&mut subscriber, &mut ledger)?;
        }
        child.signal(Signal::STOP);
        let stopped = Instant::now();
        let mut nothing = 0;
        while nothing < REFUSALS || stopped.elapsed() < self.duration() {
            nothing += u64::from(!take(&mut subscriber, &mut ledger)?);
            if subscriber.senders() != 1 || node.connections().iter().any(|report| report.peer_deaths > 0) {
                return Err("a sender that is stopped is taken for dead".into());
            }
        }
        let before = ledger.packets;
        child.signal(Signal::CONT);
        while ledger.packets < PACKETS {
            take(&mut subscriber, &mut ledger)?;
            if child.poll()?.is_some_and(|status| !status.success()) {
                return Err("the sender that was stopped failed".into());
            }
        }
        match subscriber.receive_timeout(TIMEOUT).map_err(|e| e.to_string())? {
            Received::Ended => Ok(json!({"packets": ledger.packets, "before": before})),
            _ => Err("the stream of a sender that was stopped does not end".into()),
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Returns the time limit of a child. If all transports run at the same time beside a build,
    /// each link has only a small share of the processors.
    fn timeout(&self) -> Duration {
        4 * TIMEOUT + self.duration()
    }
}

#[derive(Default)]
struct Sent {
    sent: u64,
    refused: u64,
}

impl Sent {
    /// Sends a packet if there is room. Returns whether there was room.
    fn send(&mut self, publisher: &mut Publisher<u64>) -> Result<bool, String> {
        match publisher.try_loan(payload::words(1, publisher.sequence())) {
            Ok(loan) => self.fill(loan).map(|()| true),
            Err(Error::Full { .. }) => {
                self.refused += 1;
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Fills a packet and sends it.
    fn fill(&mut self, mut loan: Loan<'_, u64>) -> Result<(), String> {
        payload::fill(&mut loan, 1, self.sent);
        loan.send().map_err(|e| e.to_string())?;
        self.sent += 1;
        Ok(())
    }
}

fn take(subscriber: &mut Subscriber<u64>, ledger: &mut Ledger) -> Result<bool, String> {
    match subscriber.receive_timeout(Duration::from_millis(1)).map_err(|e| e.to_string())? {
        Received::Packet(packet) => ledger.enter(&packet).map(|_| true),
        Received::Empty => Ok(false),
        Received::Ended => Err("the stream ends too early".into()),
    }
}

fn role(domain: &str, topics: &str, sends: bool, packets: u64) -> Role {
    let (domain, topics) = (domain.into(), topics.into());
    Role { sends, domain, topics, incarnation: 1, packets, receivers: 1, delay_us: 0 }
}

/// Returns the rules of a topic over that transport.
fn rules(transport: &str, overflow: Overflow) -> String {
    // The socket of `tcp` can hold all packets, unless the link counts them.
    let flow = match (transport, overflow) {
        ("tcp", Overflow::Block) => "flow = 'credit'",
        _ => "",
    };
    format!(
        "[default]\ntransport = '{transport}'\noverflow = '{overflow}'\nbuffer = 32768\ndepth = 8\n{flow}"
    )
}

/// Returns a unique name for each domain that is in use at the same time.
fn domain() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers only have to differ.
    format!("stop-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn await_that(what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > TIMEOUT {
            return Err(format!("not within {TIMEOUT:?}: {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Sends a signal to a child. After SIGSTOP, waits until the child is stopped.
pub fn signal(child: &Child, signal: Signal) {
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return };
    let _ = kill_process(pid, signal);
    let stat = format!("/proc/{}/stat", child.id());
    let is_still = || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T "));
    if signal == Signal::STOP {
        let _ = await_that("the process stands still", is_still);
    }
}
