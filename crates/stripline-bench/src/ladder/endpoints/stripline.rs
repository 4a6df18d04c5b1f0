//! Stripline through the public interface, with statistics on unless the case turns them off.

use std::sync::Arc;

use stripline::node::{Dispatch, Node, PacketView, Publisher, Subscriber, Topics};
use stripline::{Error, Received};

use super::super::case::{Case, Measure, Subject};
use super::super::handler::{self, Handler};
use super::super::measure::{self, Count, Receiver, Sender, Side, Sink, Source};
use crate::Problem;
use crate::timeout::{TIMEOUT, wait_until};

/// Number of packets of a burst, less than the depth, so that a publish loads the cursors as rarely
/// with many readers as with one reader.
pub(crate) const BURST: u64 = 1024;
const BURST_DEPTH: u32 = 4096;
/// The number of packets of a `send_many`, and the maximum of a `drain`.
const TOGETHER: u64 = 64;
/// The largest depth, so that the bytes of the ring are the limit, as with the bare ring.
pub(crate) const DEPTH: u32 = 65_536;

/// Creates the node of this process in the case's domain.
pub(crate) fn node(case: &Case, domain: &str) -> Result<Node, Problem> {
    // A component in a chain uses the default depth.
    let depth = match case.measure {
        Measure::Pipeline => String::new(),
        Measure::Publish => format!("depth = {BURST_DEPTH}"),
        // The memory of iceoryx2 consists of places of one size.
        _ if case.transport == "iceoryx2" => format!("depth = {}", case.places()),
        Measure::Latency | Measure::Wake | Measure::Throughput | Measure::Outstanding => {
            format!("depth = {DEPTH}")
        }
    };
    let text = format!(
        "[default]\ntransport = '{}'\nwait = '{}'\nbuffer = {}\nsampling = '{}'\nscope = '{}'\n{depth}",
        case.transport,
        case.wait.as_str(),
        case.buffer(),
        if case.statistics { "auto" } else { "off" },
        if case.subject == Subject::Queued { "none" } else { "transport" },
    );
    Node::join(domain, Topics::parse(&text).map_err(text_of)?).map_err(text_of)
}

/// Connects one side of the case.
pub(crate) fn connect<'n>(case: &Case, place: u32, node: &'n Node) -> Result<Box<dyn Side + 'n>, Problem> {
    match case.measure {
        Measure::Latency | Measure::Wake => {
            let (sender, receiver) = both_ends(case, place, node)?;
            Ok(measure::side(case, place, sender, receiver))
        }
        Measure::Throughput | Measure::Pipeline => component(case, place, node),
        Measure::Publish if place == 0 => {
            let mut sender = StriplineSender::new(node, "there", case.size)?;
            sender.wait(case.readers)?;
            Ok(Box::new(Source { sender, next: 0 }))
        }
        Measure::Publish => Ok(Box::new(Polling::new(case, node)?)),
        Measure::Outstanding => Err("packets have no replies".into()),
    }
}

/// Connects one side with a handler of dispatch `direct`.
pub(crate) fn connect_direct<'n>(
    case: &Case,
    place: u32,
    node: &'n Node,
) -> Result<Box<dyn Side + 'n>, Problem> {
    let (sender, mut receiver) = both_ends(case, place, node)?;
    let handler = Handler::new(case, place);
    let receiving = Arc::clone(&handler);
    let serve = move || {
        receiver.0.serve(Dispatch::Direct, |packet| {
            receiving.take(&packet);
            Ok(())
        })
    };
    let thread = std::thread::Builder::new().name("direct".into()).spawn(serve).map_err(|e| e.to_string())?;
    Ok(handler::side(sender, handler, HandlerThread(Some(thread))))
}

/// The thread that waits while handlers run, until the sender of the other side ends.
struct HandlerThread(Option<std::thread::JoinHandle<stripline::Result<()>>>);

impl Drop for HandlerThread {
    fn drop(&mut self) {
        // The figures exist already, and a failure does not change them.
        let _ = self.0.take().map(std::thread::JoinHandle::join);
    }
}

/// Connects both ends of a side.
fn both_ends(case: &Case, place: u32, node: &Node) -> Result<(StriplineSender, StriplineReceiver), Problem> {
    let (own, peers) = if place == 0 { ("there", "back") } else { ("back", "there") };
    let mut sender = StriplineSender::new(node, own, case.size)?;
    let mut receiver = StriplineReceiver::new(node, peers)?;
    sender.wait(1)?;
    receiver.wait()?;
    Ok((sender, receiver))
}

/// Connects a component of a chain: the first component sends, the last one counts, and the others
/// pass on a copy.
fn component<'n>(case: &Case, place: u32, node: &'n Node) -> Result<Box<dyn Side + 'n>, Problem> {
    let hop = |place: u32| format!("hop-{place}");
    let mut sender = if place + 1 == case.components {
        None
    } else {
        Some(StriplineSender::new(node, &hop(place), case.size)?)
    };
    let mut receiver = if place == 0 { None } else { Some(StriplineReceiver::new(node, &hop(place - 1))?) };
    if let Some(sender) = &mut sender {
        sender.wait(1)?;
    }
    if let Some(receiver) = &mut receiver {
        receiver.wait()?;
    }
    match (sender, receiver) {
        (Some(sender), None) => Ok(Box::new(Source { sender, next: 0 })),
        (None, Some(receiver)) => Ok(Box::new(Sink { receiver, count: Count::default() })),
        (Some(sender), Some(receiver)) => Ok(Box::new(Passing { sender, receiver })),
        (None, None) => Err("a chain of one".into()),
    }
}

/// A component in the middle of a chain.
struct Passing {
    sender: StriplineSender,
    receiver: StriplineReceiver,
}

impl Side for Passing {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            let packet = self.receiver.0.receive().map_err(text_of)?.ok_or("the stream ended early")?;
            measure::read(&packet)?;
            let mut loan = self.sender.publisher.loan(packet.len()).map_err(text_of)?;
            loan.copy_from_slice(&packet);
            loan.send().map_err(text_of)?;
        }
        Ok(())
    }
}

/// Connects one side of a stream in which many packets are sent and received at a time.
pub(crate) fn connect_many<'n>(
    case: &Case,
    place: u32,
    node: &'n Node,
) -> Result<Box<dyn Side + 'n>, Problem> {
    if place == 0 {
        let mut sender = StriplineSender::new(node, "there", case.size)?;
        sender.wait(1)?;
        return Ok(Box::new(ManySource { sender, next: 0 }));
    }
    let mut receiver = StriplineReceiver::new(node, "there")?;
    receiver.wait()?;
    Ok(Box::new(ManySink { receiver, count: Count::default() }))
}

struct ManySource {
    sender: StriplineSender,
    next: u64,
}

impl Side for ManySource {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        let end = self.next + count;
        while self.next < end {
            let (first, packets) = (self.next, (end - self.next).min(TOGETHER));
            let write = |index: usize, place: &mut [u8]| measure::write(place, first + index as u64);
            self.sender.publisher.send_many(packets as usize, self.sender.size, write).map_err(text_of)?;
            self.next += packets;
        }
        Ok(())
    }
}

struct ManySink {
    receiver: StriplineReceiver,
    count: Count,
}

impl Side for ManySink {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        self.count.end += count;
        while self.count.expected < self.count.end {
            let limit = (self.count.end - self.count.expected).min(TOGETHER) as usize;
            let (count, mut problem) = (&mut self.count, None);
            let take = |packet: PacketView<'_, u8>| match measure::read(&packet) {
                Ok(number) => count.take(number),
                Err(found) => problem = Some(found),
            };
            let drained = self.receiver.0.drain(limit, take).map_err(text_of)?;
            match problem {
                Some(problem) => return Err(problem),
                None if drained == 0 => return Err("the stream ended early".into()),
                None => {}
            }
        }
        Ok(())
    }

    fn losses(&self) -> [u64; 2] {
        [self.count.lost, self.count.reordered]
    }
}

/// All readers of a port, polled in turn.
struct Polling(Vec<(StriplineReceiver, Count)>);

impl Polling {
    fn new(case: &Case, node: &Node) -> Result<Self, Problem> {
        let readers = (0..case.readers).map(|_| StriplineReceiver::new(node, "there"));
        let mut readers = readers.collect::<Result<Vec<_>, _>>()?;
        readers.iter_mut().try_for_each(StriplineReceiver::wait)?;
        Ok(Self(readers.into_iter().map(|reader| (reader, Count::default())).collect()))
    }
}

impl Side for Polling {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        let mut busy = self.0.len();
        self.0.iter_mut().for_each(|(_, taken)| taken.end += count);
        while busy > 0 {
            busy = 0;
            for (reader, taken) in self.0.iter_mut().filter(|(_, taken)| taken.expected < taken.end) {
                busy += 1;
                match reader.0.try_receive().map_err(text_of)? {
                    Received::Packet(packet) => taken.take(measure::read(&packet)?),
                    Received::Empty => {}
                    Received::Ended => return Err("the stream ended early".into()),
                }
            }
        }
        Ok(())
    }

    fn losses(&self) -> [u64; 2] {
        let sum = |of: fn(&Count) -> u64| self.0.iter().map(|(_, count)| of(count)).sum();
        [sum(|count| count.lost), sum(|count| count.reordered)]
    }
}

struct StriplineSender {
    publisher: Publisher<u8>,
    size: usize,
}

impl StriplineSender {
    fn new(node: &Node, topic: &str, size: usize) -> Result<Self, Problem> {
        Ok(Self { publisher: node.publisher(topic).map_err(text_of)?, size })
    }

    fn wait(&mut self, receivers: u32) -> Result<(), Problem> {
        match self.publisher.wait_for_receivers(receivers as usize, TIMEOUT).map_err(text_of)? {
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
        wait_until("no sender connected", || Ok(self.0.senders() > 0))
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
