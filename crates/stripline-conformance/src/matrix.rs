//! All sections at once: every scope with every dispatch, overflow policy and topology, on every
//! transport. Each combination sends a few packets, and is named when it fails. Several
//! combinations run at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use stripline::node::{Dispatch, Node, PacketView, Publisher, Subscriber, Topics};
use stripline::terms::{Flow, Overflow, Scope};
use stripline::{Error, Received, Result};

use crate::refusals::Refusal;
use crate::support::{DEADLINE, await_receivers, await_senders, bind, node, pair, topics_text};

/// The number of packets from each sender.
const PACKETS: u64 = 12;
const DEPTH: u64 = 4;
/// The number of combinations at a time. Most combinations wait most of the time.
const AT_ONCE: usize = 4;

/// The dispatch of the handler, and the order of the packets that it forwards.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Alone(Dispatch),
    /// A pool, followed by a port that puts packets back in sequence.
    Resequenced,
}

#[derive(Clone, Copy)]
struct Case {
    transport: &'static str,
    scope: Scope,
    way: Way,
    overflow: Overflow,
    senders: usize,
    receivers: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, scope, way, overflow, senders, receivers } = self;
        let way = match way {
            Way::Alone(dispatch) => dispatch.to_string(),
            Way::Resequenced => "pool(3) with resequencing behind it".into(),
        };
        write!(f, "{transport}: scope {scope}, dispatch {way}, overflow {overflow}, {senders} to {receivers}")
    }
}

pub fn every_combination_keeps_the_contract(transport: &'static str) {
    let mut cases = Vec::new();
    let pool = Dispatch::pool(3).unwrap();
    let alone = [Dispatch::Queue, Dispatch::Direct, pool, pool.in_order()].map(Way::Alone);
    for scope in Scope::ALL {
        for way in alone.into_iter().chain([Way::Resequenced]) {
            for overflow in Overflow::ALL {
                for (senders, receivers) in [(1, 1), (1, 2), (2, 1)] {
                    cases.push(Case { transport, scope, way, overflow, senders, receivers });
                }
            }
        }
    }
    assert_eq!(cases.len(), 240);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // A user can have nine message queues in total.
        for _ in 0..if transport == "mqueue" { 1 } else { AT_ONCE } {
            scope.spawn(|| {
                // Relaxed: the numbers need only differ.
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if catch_unwind(AssertUnwindSafe(|| case.run())).is_err() {
                        eprintln!("failed: {case}");
                        failed.lock().unwrap().push(case.to_string());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} combinations:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// The identity of a packet, which is also the content: the sender, and the number at this sender.
type Name = (usize, u64);

/// The record of one receiver.
#[derive(Default)]
struct Account {
    /// Packets in the order in which they were handled.
    seen: Mutex<Vec<Name>>,
    /// Losses reported in band.
    lost: Mutex<u64>,
    ejections: AtomicUsize,
}

impl Account {
    fn note(&self, packet: PacketView<'_, u64>) -> Name {
        let name = (packet[0] as usize, packet[1]);
        *self.lost.lock().unwrap() += packet.gap().map_or(0, |gap| gap.packets);
        self.seen.lock().unwrap().push(name);
        name
    }

    fn has(&self, name: Name) -> bool {
        self.seen.lock().unwrap().contains(&name)
    }
}

/// A gate that blocks handlers until it is opened, and records the waiting handlers.
#[derive(Default)]
struct ScopedGate {
    state: Mutex<(bool, BTreeSet<usize>)>,
    changed: Condvar,
}

impl ScopedGate {
    fn pass(&self, who: usize) {
        let mut state = self.state.lock().unwrap();
        state.1.insert(who);
        self.changed.notify_all();
        let outcome = self.changed.wait_timeout_while(state, DEADLINE, |state| !state.0).unwrap();
        assert!(!outcome.1.timed_out(), "the gate stays shut");
    }

    fn await_waiting(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let outcome =
            self.changed.wait_timeout_while(state, DEADLINE, |state| state.1.len() < count).unwrap();
        assert!(!outcome.1.timed_out(), "not all {count} handlers run");
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }
}

/// A guard that ends all blocked calls when a combination fails, so that other combinations
/// continue.
struct Stopper<'a>(&'a Node);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl Case {
    fn run(&self) {
        let dispatch = match self.way {
            Way::Alone(dispatch) => dispatch,
            Way::Resequenced => Dispatch::pool(3).unwrap(),
        };
        let rules = format!(
            "[topic.a]\nscope = '{}'\noverflow = '{}'\ndispatch = '{dispatch}'\ndepth = {DEPTH}\nbuffer = 65536\n\
             deadline-ms = 30000\n[topic.b]\nresequence = {{ window = 64, skip-after-ms = 3600000 }}",
            self.scope, self.overflow,
        );
        let node = node(self.transport, &rules);
        let mut inputs: Vec<Subscriber<u64>> =
            (0..self.receivers).map(|_| node.subscriber("a").unwrap()).collect();
        let mut outputs: Vec<Publisher<u64>> =
            (0..self.senders).map(|_| node.publisher("a").unwrap()).collect();
        outputs.iter_mut().for_each(|output| await_receivers(output, self.receivers));
        inputs.iter_mut().for_each(|input| await_senders(input, self.senders));
        let accounts: Vec<Account> = inputs.iter().map(|_| Account::default()).collect();
        let mut behind: Subscriber<u64> = node.subscriber("b").unwrap();
        let mut forwards: Vec<Publisher<u64>> = match self.way {
            Way::Alone(_) => Vec::new(),
            Way::Resequenced => inputs.iter().map(|_| node.publisher("b").unwrap()).collect(),
        };
        forwards.iter_mut().for_each(|forward| await_receivers(forward, 1));
        let _stopper = Stopper(&node);
        let is_lossless = self.overflow == Overflow::Block || self.scope == Scope::Target;
        let outcomes = if is_lossless {
            self.send_while_served(inputs, outputs, forwards, &accounts)
        } else {
            let outcomes = self.send_unserved(&mut inputs, outputs, &accounts);
            std::thread::scope(|scope| {
                let mut forwards = forwards.into_iter();
                for (input, account) in inputs.into_iter().zip(&accounts) {
                    let forward = forwards.next();
                    scope.spawn(|| serve(input, forward, account, &|_| {}));
                }
            });
            outcomes
        };
        self.check(&node, &outcomes, &accounts, is_lossless);
        if self.way == Way::Resequenced {
            check_sequence(&mut behind, &accounts);
        }
    }

    /// Sends and receives concurrently, and checks that each send returns when the scope is
    /// reached. Returns the outcomes of each sender.
    fn send_while_served(
        &self,
        mut inputs: Vec<Subscriber<u64>>,
        outputs: Vec<Publisher<u64>>,
        forwards: Vec<Publisher<u64>>,
        accounts: &[Account],
    ) -> Vec<Vec<Result<()>>> {
        let gate = ScopedGate::default();
        let returned = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let send = |(sender, mut output): (usize, Publisher<u64>)| {
                let returned = &returned;
                scope.spawn(move || {
                    let send = |number: u64| {
                        let outcome = output.send(&[sender as u64, number, 0]);
                        if self.scope == Scope::Target && outcome.is_ok() {
                            // Every receiver has finished with the packet.
                            assert!(accounts.iter().all(|account| account.has((sender, number))), "{number}");
                        }
                        returned.fetch_add(1, Ordering::SeqCst);
                        outcome
                    };
                    let outcomes = (0..PACKETS).map(send).collect::<Vec<_>>();
                    output.finish().unwrap();
                    outcomes
                })
            };
            let mut senders: Vec<_> = Vec::new();
            if self.scope != Scope::Target {
                // No receiver serves yet. The packets that fit are sent nevertheless, and under
                // `server` they are in the queue.
                senders = outputs.into_iter().enumerate().map(&send).collect();
                crate::support::await_that("the sends return", || {
                    returned.load(Ordering::SeqCst) >= DEPTH as usize * self.senders
                });
                if self.scope == Scope::Server {
                    inputs.iter_mut().for_each(|input| {
                        assert_eq!(
                            stripline::node::wait_any(&mut [input], Some(Duration::ZERO)).unwrap(),
                            [0]
                        );
                    });
                }
                serve_all(scope, inputs, forwards, accounts, None);
            } else {
                serve_all(scope, inputs, forwards, accounts, Some(&gate));
                senders.extend(outputs.into_iter().enumerate().map(&send));
                gate.await_waiting(self.receivers);
                // No receiver has finished with a packet.
                assert_eq!(returned.load(Ordering::SeqCst), 0, "a send returned before the handler");
                gate.open();
            }
            senders.into_iter().map(|sender| sender.join().unwrap()).collect()
        })
    }

    /// Sends while no receiver takes packets, so that there are more packets than the queues hold.
    fn send_unserved(
        &self,
        inputs: &mut [Subscriber<u64>],
        outputs: Vec<Publisher<u64>>,
        accounts: &[Account],
    ) -> Vec<Vec<Result<()>>> {
        let mut outputs: Vec<_> = outputs.into_iter().enumerate().collect();
        let send = |(sender, output): &mut (usize, Publisher<u64>), number| {
            output.send(&[*sender as u64, number, 0])
        };
        let mut outcomes: Vec<_> = outputs.iter_mut().map(|output| vec![send(output, 0)]).collect();
        if let Way::Alone(_) = self.way {
            for (input, account) in inputs.iter_mut().zip(accounts) {
                for _ in 0..self.senders {
                    // Under `server` the packet is already in the queue.
                    let wait = if self.scope == Scope::Server { Duration::ZERO } else { DEADLINE };
                    let packet = input.receive_timeout(wait).unwrap().packet().expect("it was accepted");
                    assert_eq!((packet[1], packet.gap()), (0, None));
                    account.seen.lock().unwrap().push((packet[0] as usize, 0));
                }
            }
        }
        for (mut output, told) in outputs.into_iter().zip(&mut outcomes) {
            told.extend((1..PACKETS).map(|number| send(&mut output, number)));
            output.1.finish().unwrap();
        }
        outcomes
    }

    fn check(&self, node: &Node, outcomes: &[Vec<Result<()>>], accounts: &[Account], is_lossless: bool) {
        let in_order = self.way != Way::Alone(Dispatch::pool(3).unwrap()) && self.way != Way::Resequenced;
        for account in accounts {
            let seen = account.seen.lock().unwrap();
            let (lost, ejections) = (*account.lost.lock().unwrap(), account.ejections.load(Ordering::SeqCst));
            let once: BTreeSet<Name> = seen.iter().copied().collect();
            assert_eq!(once.len(), seen.len(), "exactly once: {seen:?}");
            for (sender, told) in outcomes.iter().enumerate() {
                let numbers: Vec<u64> =
                    seen.iter().filter(|name| name.0 == sender).map(|name| name.1).collect();
                assert!(!in_order || numbers.is_sorted(), "in order: {numbers:?}");
                let kept: BTreeSet<u64> = numbers.iter().copied().collect();
                self.check_sender(&kept, told, is_lossless);
            }
            let all = PACKETS * self.senders as u64;
            match self.overflow {
                Overflow::Eject => {
                    assert_eq!(ejections == 0, seen.len() as u64 == all && lost == 0, "reported")
                }
                _ => assert_eq!((seen.len() as u64 + lost, ejections), (all, 0), "exactly counted: {seen:?}"),
            }
        }
        let reports = node.connections();
        let reports = || reports.iter().filter(|report| report.connection.ends_with("-> a"));
        assert_eq!(reports().count(), self.senders * self.receivers);
        let counted: u64 = reports().map(|report| report.lost).sum();
        let told: u64 = accounts.iter().map(|account| *account.lost.lock().unwrap()).sum();
        assert_eq!(counted, told, "counted and reported in band");
        let taken: u64 = reports().map(|report| report.packets).sum();
        let seen: usize = accounts.iter().map(|account| account.seen.lock().unwrap().len()).sum();
        assert_eq!(taken, seen as u64);
    }

    /// Checks the packets of a sender that one receiver got, and the outcomes of that sender's
    /// sends.
    fn check_sender(&self, kept: &BTreeSet<u64>, told: &[Result<()>], is_lossless: bool) {
        let refused: BTreeSet<u64> = (0..PACKETS).filter(|number| told[*number as usize].is_err()).collect();
        if is_lossless {
            assert!(kept.iter().copied().eq(0..PACKETS), "nothing is lost: {kept:?}");
            assert!(refused.is_empty(), "{told:?}");
            return;
        }
        if self.scope < Scope::Server {
            assert!(refused.is_empty(), "a slow receiver is not a failure of the send: {told:?}");
        }
        // A packet was taken before the others were sent.
        let first = u64::from(self.way != Way::Resequenced);
        let newest_kept: BTreeSet<u64> = (0..first + DEPTH).collect();
        match self.overflow {
            // The first packet that finds the queue full is the last one sent to this receiver.
            Overflow::Eject => {
                assert!(kept.iter().copied().eq(0..kept.len() as u64), "{kept:?}");
                assert!(kept.is_superset(&newest_kept), "{kept:?}");
                if self.scope == Scope::Server {
                    assert_eq!(*kept, newest_kept);
                    assert_eq!(refused.first(), Some(&(first + DEPTH)), "{told:?}");
                }
            }
            Overflow::DropNewest if self.scope == Scope::Server => {
                assert_eq!(*kept, newest_kept);
                assert!(refused.iter().copied().eq(first + DEPTH..PACKETS), "{told:?}");
                let said = |error: &Error| matches!(error, Error::PacketRefused { reason, .. } if reason.contains("policy"));
                assert!(told.iter().all(|outcome| outcome.as_ref().err().is_none_or(said)), "{told:?}");
            }
            Overflow::DropOldest if self.scope == Scope::Server => {
                let oldest_dropped: BTreeSet<u64> = (0..first).chain(PACKETS - DEPTH..PACKETS).collect();
                assert_eq!(*kept, oldest_dropped);
                assert!(refused.is_empty(), "each was accepted: {told:?}");
            }
            // The number taken before the ejection depends on timing.
            _ => assert!(kept.len() as u64 >= DEPTH, "{kept:?}"),
        }
    }
}

fn serve_all<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    inputs: Vec<Subscriber<u64>>,
    forwards: Vec<Publisher<u64>>,
    accounts: &'scope [Account],
    gate: Option<&'scope ScopedGate>,
) {
    let mut forwards = forwards.into_iter();
    for (receiver, (input, account)) in inputs.into_iter().zip(accounts).enumerate() {
        let forward = forwards.next();
        scope.spawn(move || {
            let hold =
                |number: u64| gate.filter(|_| number == 0).into_iter().for_each(|gate| gate.pass(receiver));
            serve(input, forward, account, &hold);
        });
    }
}

/// Takes all packets with the dispatch of the topic. Forwards them if they are put in sequence
/// later.
fn serve(
    mut input: Subscriber<u64>,
    mut forward: Option<Publisher<u64>>,
    account: &Account,
    hold: &(impl Fn(u64) + Sync),
) {
    loop {
        let work = |packet: PacketView<'_, u64>| {
            hold(packet[1]);
            Ok(())
        };
        let outcome = input.serve_then(input.dispatch(), work, |packet, ()| {
            if let Some(forward) = &mut forward {
                let mut loan = forward.loan(packet.len())?;
                loan.copy_from_slice(&packet);
                loan.send_like(&packet)?;
            }
            account.note(packet);
            Ok(())
        });
        match outcome {
            Ok(()) => break,
            Err(Error::Ejected { .. }) => drop(account.ejections.fetch_add(1, Ordering::SeqCst)),
            Err(error) => panic!("{error}"),
        }
    }
    while let Some(gap) = input.gap_at_end() {
        *account.lost.lock().unwrap() += gap.packets;
    }
    // The end of stream has arrived, and persists.
    assert!(matches!(input.try_receive().unwrap(), Received::Ended));
    forward.into_iter().for_each(|forward| forward.finish().unwrap());
}

/// Checks that packets forwarded by pools are back in the order in which the pools received them.
fn check_sequence(behind: &mut Subscriber<u64>, accounts: &[Account]) {
    let (mut collected, mut last) = (Vec::new(), std::collections::BTreeMap::new());
    loop {
        match behind.receive_timeout(DEADLINE).unwrap() {
            Received::Packet(packet) => {
                let from = (packet.connection().to_owned(), packet[0]);
                assert!(last.insert(from, packet[1]) < Some(packet[1]), "{collected:?}, {packet:?}");
                collected.push((packet[0] as usize, packet[1]));
            }
            Received::Ended => break,
            Received::Empty => panic!("no end of stream"),
        }
    }
    let mut forwarded: Vec<Name> =
        accounts.iter().flat_map(|account| account.seen.lock().unwrap().clone()).collect();
    collected.sort_unstable();
    forwarded.sort_unstable();
    assert_eq!(collected, forwarded);
}

/// Checks that every transport keeps all scopes, policies and kinds of flow control, or refuses a
/// rule by naming the transport, the rule, the reason and alternatives.
pub fn an_unsupported_rule_is_refused_with_reasons(transport: &'static str) {
    let scopes = Scope::ALL.map(|scope| format!("scope = '{scope}'"));
    let policies = Overflow::ALL.map(|overflow| format!("overflow = '{overflow}'"));
    let flows = Flow::ALL.map(|flow| format!("flow = '{flow}'"));
    for rules in scopes.iter().chain(&policies).chain(&flows) {
        Topics::parse(&topics_text(transport, rules)).unwrap();
    }
    let group = rustix_group();
    let remedy = if bind().is_some() { "use one of them" } else { "use inproc or shm or uds" };
    for (rules, refusal, words) in [
        (
            "locked = true",
            Refusal::MemoryOptions,
            ["locked", "it has no ring of memory", "use inproc or shm"],
        ),
        (
            "huge-pages = true",
            Refusal::MemoryOptions,
            ["huge-pages", "it has no ring of memory", "use inproc or shm"],
        ),
        (&*format!("[domain]\ngroup = '{group}'"), Refusal::Group, ["group", "kernel", remedy]),
    ] {
        let text = match rules.strip_prefix("[domain]") {
            Some(_) => format!("{rules}\n{}", topics_text(transport, "")),
            None => topics_text(transport, rules),
        };
        match Topics::parse(&text) {
            Ok(_) => assert!(!refusal.is_of(transport), "{transport} keeps {rules}"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(transport), "{transport}, {rules}: {error}");
                assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
                refusal.print(transport, rules, &error);
            }
        }
    }
    // A packet has a stronger scope than the connection.
    for connection in Scope::ALL {
        for own in Scope::ALL {
            let node = node(transport, &format!("scope = '{connection}'"));
            let (mut publisher, mut subscriber) = pair::<u64>(&node, "own");
            let component = std::thread::spawn(move || {
                let mut taken = 0;
                while subscriber.receive().unwrap().is_some() {
                    taken += 1;
                }
                taken
            });
            let is_stronger = own >= Scope::Server && connection < Scope::Server;
            let is_kept = !(is_stronger && Refusal::StrongerScope.is_of(transport));
            let outcome = publisher.loan(1).unwrap().scope(own).deadline(DEADLINE).send();
            match outcome {
                Ok(()) => assert!(is_kept, "{transport}: {own} on a connection of {connection}"),
                Err(Error::Unsupported { transport: ref named, ref rule, ref alternatives }) => {
                    let text = outcome.as_ref().unwrap_err().to_string();
                    assert!(!is_kept && *named == transport, "{text}");
                    assert!(rule.contains(own.as_str()) && rule.contains(connection.as_str()), "{text}");
                    assert!(alternatives.contains("give the connection scope"), "{text}");
                    assert!(rule.contains("fixed when"), "why: {text}");
                    let rule = format!("{own} on a connection of {connection}");
                    Refusal::StrongerScope.print(transport, &rule, &text);
                }
                Err(error) => panic!("{error}"),
            }
            publisher.finish().unwrap();
            assert_eq!(component.join().unwrap(), u64::from(is_kept), "refused is not sent");
        }
    }
}

/// Returns a group that this process is in.
fn rustix_group() -> String {
    let gid = rustix::process::getegid().as_raw();
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let is_it = |line: &&str| line.split(':').nth(2) == Some(&gid.to_string());
    groups.lines().find(is_it).and_then(|line| line.split(':').next()).unwrap().to_owned()
}
