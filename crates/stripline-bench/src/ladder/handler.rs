//! The blocks of a measurement with a handler that works in the callback of the receiving end. The
//! blocks are the same for every subject that calls back. The handler itself replies, and no packet
//! goes to another thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::case::{Case, Measure};
use super::measure::{self, Count, OneWayTimes, Sender, Side, check_echo};
use super::turns::now_ns;
use crate::Problem;

/// The handler of one side. A callback gives each packet to the handler, one at a time.
pub(crate) struct Handler<S> {
    work: Mutex<Work<S>>,
    changed: Condvar,
}

/// A side of a case that has a handler.
struct HandledSide<S, K> {
    handler: Arc<Handler<S>>,
    /// The receiving end, which calls back.
    _keeps: K,
}

struct Work<S> {
    role: HandlerRole,
    sender: Option<S>,
    /// The packets of this block that are still to come.
    left: u64,
    /// Whether the packets carry the time of sending.
    is_stamped: bool,
    /// The one-way times of a block, in nanoseconds.
    times_ns: Vec<u64>,
    /// The last word that was sent.
    word: u64,
    count: Count,
    problem: Option<Problem>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HandlerRole {
    /// Begins a ping-pong.
    Ping,
    /// Replies.
    Echo,
    /// Sends a stream, and gets no packets.
    Source,
    /// Receives a stream.
    Sink,
}

impl<S: Sender> Handler<S> {
    /// Creates the handler of a side.
    pub(crate) fn new(case: &Case, place: u32) -> Arc<Self> {
        let role = match (case.measure, place) {
            (Measure::Throughput, 0) => HandlerRole::Source,
            (Measure::Throughput, _) => HandlerRole::Sink,
            (_, 0) => HandlerRole::Ping,
            _ => HandlerRole::Echo,
        };
        let work = Work {
            role,
            sender: None,
            left: 0,
            is_stamped: false,
            times_ns: Vec::new(),
            word: 0,
            count: Count::default(),
            problem: None,
        };
        Arc::new(Self { work: Mutex::new(work), changed: Condvar::new() })
    }

    /// Handles a packet. Called where the packet is received.
    pub(crate) fn take(&self, packet: &[u8]) {
        let mut work = self.lock();
        // The other side may have begun the block already.
        while work.left == 0 && work.problem.is_none() {
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        if work.problem.is_some() {
            return;
        }
        work.left -= 1;
        if let Err(problem) = work.handle(packet) {
            work.problem = Some(problem);
        }
        if work.left == 0 || work.problem.is_some() {
            drop(work);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work<S>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a block. Returns the one-way times, if the packets carry times.
    fn run(&self, count: u64, is_stamped: bool) -> Result<Vec<u64>, Problem> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut work = self.lock();
        if work.role == HandlerRole::Source {
            (0..count).try_for_each(|_| work.send_numbered())?;
            return Ok(Vec::new());
        }
        (work.left, work.is_stamped) = (count, is_stamped);
        match work.role {
            HandlerRole::Ping => work.send_next()?,
            HandlerRole::Sink => work.count.end += count,
            HandlerRole::Echo | HandlerRole::Source => {}
        }
        self.changed.notify_all();
        while work.left > 0 && work.problem.is_none() {
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        match work.problem.clone() {
            Some(problem) => Err(problem),
            None => Ok(std::mem::take(&mut work.times_ns)),
        }
    }
}

impl<S: Sender> Work<S> {
    fn handle(&mut self, packet: &[u8]) -> Result<(), Problem> {
        let word = measure::read(packet)?;
        if self.is_stamped {
            self.times_ns.push(now_ns().saturating_sub(word));
        }
        match self.role {
            HandlerRole::Sink => self.count.take(word),
            HandlerRole::Source => return Err("a packet to a sender".into()),
            HandlerRole::Echo if self.is_stamped => self.send(now_ns())?,
            HandlerRole::Echo => self.send(word)?,
            HandlerRole::Ping => {
                if !self.is_stamped {
                    check_echo(word, self.word)?;
                }
                if self.left > 0 {
                    self.send_next()?;
                }
            }
        }
        Ok(())
    }

    fn send_next(&mut self) -> Result<(), Problem> {
        self.word += 1;
        let word = if self.is_stamped { now_ns() } else { self.word };
        self.send(word)
    }

    fn send_numbered(&mut self) -> Result<(), Problem> {
        let number = self.word;
        self.word += 1;
        self.send(number)
    }

    fn send(&mut self, word: u64) -> Result<(), Problem> {
        self.sender.as_mut().ok_or("a handler without a sender")?.send(word)
    }
}

/// Returns one side of a ping-pong, or of a one-way stream, as [`measure::side`] does. The
/// receiving end in `keeps`, which the side keeps until it is dropped, already calls the handler.
pub(crate) fn side<'n, S: Sender + Send + 'n>(
    sender: S,
    handler: Arc<Handler<S>>,
    keeps: impl Sized + 'n,
) -> Box<dyn Side + 'n> {
    handler.lock().sender = Some(sender);
    Box::new(HandledSide { handler, _keeps: keeps })
}

impl<S: Sender, K> Side for HandledSide<S, K> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        self.handler.run(count, false).map(drop)
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        let times_ns = self.handler.run(count, true)?;
        times_ns.into_iter().for_each(|ns| times.record(ns));
        Ok(())
    }

    fn losses(&self) -> [u64; 2] {
        let work = self.handler.lock();
        [work.count.lost, work.count.reordered]
    }
}

impl<S, K> Drop for HandledSide<S, K> {
    /// Ends the sender first: the receiving end may wait until the sender of the other side has
    /// ended.
    fn drop(&mut self) {
        let mut work = self.handler.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.sender = None;
        work.problem = Some("the side has ended".into());
        drop(work);
        self.handler.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::case::{Subject, Wait};
    use super::*;

    /// A sender to the handler of the other side. A thread calls the handler.
    struct Tx(mpsc::Sender<Vec<u8>>);

    impl Sender for Tx {
        fn send(&mut self, word: u64) -> Result<(), Problem> {
            self.0.send(word.to_le_bytes().into()).map_err(|e| e.to_string())
        }
    }

    /// Returns a handler, and a channel that sends packets to the handler.
    fn handled(measure: Measure, place: u32) -> (Arc<Handler<Tx>>, mpsc::Sender<Vec<u8>>) {
        let case = Case::new(measure, Subject::Direct, "corba", Wait::Block, 8);
        let handler = Handler::new(&case, place);
        let (tx, rx) = mpsc::channel::<Vec<u8>>();
        let receiving = Arc::clone(&handler);
        std::thread::spawn(move || rx.iter().for_each(|packet| receiving.take(&packet)));
        (handler, tx)
    }

    #[test]
    fn handlers_of_both_sides_reply_in_their_callbacks() {
        let ((ping, to_ping), (echo, to_echo)) = (handled(Measure::Latency, 0), handled(Measure::Latency, 1));
        let recorded = |times: &OneWayTimes| times.counts().iter().map(|(_, count)| count).sum::<u64>();
        let run = |handler, to_other| {
            let mut side = side(Tx(to_other), handler, ());
            let mut times = OneWayTimes::new().unwrap();
            [0, 3, 1].into_iter().for_each(|count| side.block(count).unwrap());
            side.stamped(5, &mut times).unwrap();
            recorded(&times)
        };
        std::thread::scope(|scope| {
            let replies = scope.spawn(move || run(echo, to_ping));
            assert_eq!((run(ping, to_echo), replies.join().unwrap()), (5, 5));
        });
    }

    #[test]
    fn a_stream_is_counted_and_a_packet_that_is_too_short_is_named() {
        let (handler, to_it) = handled(Measure::Throughput, 1);
        let unused = Tx(mpsc::channel().0);
        let mut sink = side(unused, handler, ());
        // The first packets arrive before the block begins.
        [0u64, 2, 1].into_iter().for_each(|word| to_it.send(word.to_le_bytes().into()).unwrap());
        sink.block(3).unwrap();
        assert_eq!(sink.losses(), [1, 1]);
        to_it.send(vec![0; 7]).unwrap();
        assert_eq!(sink.block(1), Err("a packet of 7 bytes".into()));
    }

    #[test]
    fn a_stream_has_its_numbers_from_block_to_block() {
        let (source, _) = handled(Measure::Throughput, 0);
        let (sink, to_sink) = handled(Measure::Throughput, 1);
        let mut sends = side(Tx(to_sink), source, ());
        let mut receives = side(Tx(mpsc::channel().0), sink, ());
        for count in [3, 0, 5] {
            sends.block(count).unwrap();
            receives.block(count).unwrap();
        }
        assert_eq!(receives.losses(), [0, 0]);
    }
}
