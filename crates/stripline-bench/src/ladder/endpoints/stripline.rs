//! Stripline through its public interface, with statistics on unless the case turns them off.

use std::time::{Duration, Instant};

use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::{Error, Received};

use super::super::Problem;
use super::super::case::{Case, Measure, Outcome, Wait};
use super::super::measure::{self, Receiver, Sender, is_last, sink, source};
use super::super::statistics::median;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Number of packets of one burst: fewer than the depth, so that a publish loads the cursors as
/// rarely with many readers as with one.
const BURST: u64 = 1024;
const BURST_DEPTH: u32 = 4096;
/// The largest depth: the ring's bytes are the bound, as with the bare ring.
const DEPTH: u32 = 65_536;

/// Creates this process's node in the case's domain.
pub(crate) fn node(case: &Case, domain: &str) -> Result<Node, Problem> {
    // A component in a chain has the defaults.
    let depth = match case.measure {
        Measure::Pipeline => String::new(),
        Measure::Publish => format!("depth = {BURST_DEPTH}"),
        Measure::Latency | Measure::Throughput | Measure::Outstanding => format!("depth = {DEPTH}"),
    };
    let text = format!(
        "[default]\ntransport = '{}'\nwait = '{}'\nbuffer = {}\nsampling = '{}'\n{depth}",
        case.transport,
        match case.wait {
            Wait::None | Wait::Spin => "spin",
            Wait::Adaptive => "adaptive",
            Wait::Block => "block",
        },
        case.buffer(),
        if case.statistics { "auto" } else { "off" },
    );
    Node::join(domain, Topics::parse(&text).map_err(text_of)?).map_err(text_of)
}

/// Runs one side of the case; `ready` returns when all sides are ready.
pub(crate) fn run(
    case: &Case,
    place: u32,
    seconds: f64,
    node: &Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    match case.measure {
        Measure::Latency => {
            let (own, peers) = if place == 0 { ("there", "back") } else { ("back", "there") };
            let sender = StriplineSender::new(node, own, case.size, 1);
            let (mut sender, mut receiver) = (sender?, StriplineReceiver::new(node, peers)?);
            sender.wait()?;
            receiver.wait()?;
            ready()?;
            super::run_pair(case, place, seconds, sender, receiver)
        }
        Measure::Throughput | Measure::Pipeline => chain(case, place, seconds, node, ready),
        Measure::Publish if place == 0 => publish(case, seconds, node, ready),
        Measure::Publish => acknowledge(case, node, ready),
        Measure::Outstanding => Err("packets have no replies".into()),
    }
}

/// Runs one of the components in a row: the first sends, the last counts, the others pass on a
/// copy.
fn chain(
    case: &Case,
    place: u32,
    seconds: f64,
    node: &Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    let is_last_place = place + 1 == case.components;
    let mut sender = if is_last_place {
        None
    } else {
        Some(StriplineSender::new(node, &format!("hop-{place}"), case.size, 1)?)
    };
    let mut receiver =
        if place == 0 { None } else { Some(StriplineReceiver::new(node, &format!("hop-{}", place - 1))?) };
    if let Some(sender) = &mut sender {
        sender.wait()?;
    }
    if let Some(receiver) = &mut receiver {
        receiver.wait()?;
    }
    ready()?;
    match (sender, receiver) {
        (Some(mut sender), None) => source(&mut sender, case.size, seconds),
        (None, Some(mut receiver)) => sink(&mut receiver),
        (Some(mut sender), Some(mut receiver)) => loop {
            let packet = receiver.0.receive().map_err(text_of)?.ok_or("the stream ended early")?;
            let word = measure::read(&packet)?;
            let mut loan = sender.publisher.loan(packet.len()).map_err(text_of)?;
            loan.copy_from_slice(&packet);
            loan.send().map_err(text_of)?;
            if is_last(word) {
                return Ok(Outcome::default());
            }
        },
        (None, None) => Err("a chain of one".into()),
    }
}

/// Sends bursts, and waits until all readers have taken each. Only the bursts are timed.
fn publish(
    case: &Case,
    seconds: f64,
    node: &Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    let mut sender = StriplineSender::new(node, "there", case.size, case.readers)?;
    let mut back = StriplineReceiver::new(node, "back")?;
    sender.wait()?;
    back.wait()?;
    ready()?;
    let start = Instant::now();
    let (warm, end) = (Duration::from_secs_f64(seconds / 10.0), Duration::from_secs_f64(seconds));
    let mut costs = Vec::new();
    let mut word = 0;
    while costs.len() < 3 || start.elapsed() < end {
        let began = Instant::now();
        for _ in 0..BURST {
            sender.send(word)?;
            word += 1;
        }
        let cost = began.elapsed().as_nanos() as f64 / BURST as f64;
        back.receive()?;
        if start.elapsed() >= warm {
            costs.push(cost);
        }
    }
    Ok(Outcome { typical_ns: median(&costs), ..Outcome::default() })
}

/// Polls all readers in turn, and acknowledges when all of them have taken a burst.
fn acknowledge(
    case: &Case,
    node: &Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    let readers = (0..case.readers).map(|_| StriplineReceiver::new(node, "there"));
    let mut readers = readers.collect::<Result<Vec<_>, _>>()?;
    let mut back = StriplineSender::new(node, "back", 8, 1)?;
    back.wait()?;
    for reader in &mut readers {
        reader.wait()?;
    }
    ready()?;
    let mut outcome = Outcome::default();
    let (mut taken, mut ended) = (0, 0);
    let mut next = vec![0; readers.len()];
    while ended < readers.len() {
        for (reader, next) in readers.iter_mut().zip(&mut next) {
            match reader.0.try_receive().map_err(text_of)? {
                Received::Packet(packet) => {
                    let word = measure::read(&packet)?;
                    outcome.lost += word.saturating_sub(*next);
                    outcome.reordered += u64::from(word < *next);
                    *next = word + 1;
                    taken += 1;
                }
                Received::Empty => {}
                Received::Ended => ended += 1,
            }
            if taken == BURST * u64::from(case.readers) {
                taken = 0;
                back.send(0)?;
            }
        }
    }
    Ok(outcome)
}

struct StriplineSender {
    publisher: Publisher<u8>,
    size: usize,
    receivers: u32,
}

impl StriplineSender {
    fn new(node: &Node, topic: &str, size: usize, receivers: u32) -> Result<Self, Problem> {
        Ok(Self { publisher: node.publisher(topic).map_err(text_of)?, size, receivers })
    }

    fn wait(&mut self) -> Result<(), Problem> {
        match self.publisher.wait_for_receivers(self.receivers as usize, TIMEOUT).map_err(text_of)? {
            true => Ok(()),
            false => Err(format!("only {} receivers connected", self.publisher.receivers())),
        }
    }
}

impl Sender for StriplineSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        let mut loan = self.publisher.loan(self.size).map_err(text_of)?;
        measure::write(&mut loan, word);
        loan.send().map_err(text_of)
    }
}

struct StriplineReceiver(Subscriber<u8>);

impl StriplineReceiver {
    fn new(node: &Node, topic: &str) -> Result<Self, Problem> {
        Ok(Self(node.subscriber(topic).map_err(text_of)?))
    }

    fn wait(&mut self) -> Result<(), Problem> {
        let end = Instant::now() + TIMEOUT;
        while self.0.senders() == 0 {
            if Instant::now() > end {
                return Err("no sender connected".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Receiver for StriplineReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        let packet = self.0.receive().map_err(text_of)?.ok_or("the stream ended early")?;
        measure::read(&packet)
    }
}

fn text_of(error: Error) -> Problem {
    error.to_string()
}
