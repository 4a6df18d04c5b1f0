//! The blocks of a measurement, which are the same for every subject.

use std::hint::{black_box, spin_loop};

use hdrhistogram::Histogram;

use super::case::{Case, Measure};
use super::turns::now_ns;
use crate::Problem;

/// The longest one-way time, in nanoseconds. A longer time counts as this one.
const TIME_MAX: u64 = 100_000_000_000;

/// The pause before a packet to a sleeping receiver, in nanoseconds: long compared with the time to
/// fall asleep.
const PAUSE_NS: u64 = 50_000;

pub(crate) trait Sender {
    /// Sends a packet that begins with the word. Writes the complete packet.
    fn send(&mut self, word: u64) -> Result<(), Problem>;
}

pub(crate) trait Receiver {
    /// Returns the first word of the next packet, after reading one word of each cache line of the
    /// packet.
    fn receive(&mut self) -> Result<u64, Problem>;
}

/// A connected side of a case, which runs its part of each block.
pub(crate) trait Side {
    /// Sends or receives this side's part of a block of `count` packets.
    fn block(&mut self, count: u64) -> Result<(), Problem>;

    /// Runs a block of packets that carry the time of sending. Records the transit times of packets
    /// that this side receives.
    fn stamped(&mut self, _count: u64, _times: &mut OneWayTimes) -> Result<(), Problem> {
        Err("its packets carry no times".into())
    }

    /// Returns the nanoseconds of the last block, if the side measures them itself.
    fn measured_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the number of missing packets, and the number of packets out of order.
    fn losses(&self) -> [u64; 2] {
        [0, 0]
    }
}

/// One-way times, measured with the clock of the host.
pub(crate) struct OneWayTimes(Histogram<u64>);

impl OneWayTimes {
    pub(crate) fn new() -> Result<Self, Problem> {
        Histogram::new_with_bounds(1, TIME_MAX, 3).map(Self).map_err(|e| e.to_string())
    }

    /// Records a time.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Records the time since a reading of the clock.
    #[inline]
    pub(crate) fn record_since(&mut self, sent_ns: u64) {
        self.record(now_ns().saturating_sub(sent_ns));
    }

    /// Returns the times in nanoseconds, and the count of each time.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
    }
}

/// Writes the complete payload.
#[inline]
pub(crate) fn write(bytes: &mut [u8], word: u64) {
    // Words, because a call of `memset` would be a large part of the time of a small packet.
    let (words, rest) = bytes.as_chunks_mut();
    words.fill(word.to_le_bytes());
    rest.fill(word as u8);
}

/// Reads one word of every cache line of a payload, at any offset in the first line. Returns the
/// first word.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<u64, Problem> {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return Err(format!("a packet of {} bytes", bytes.len()));
    };
    let (lines, rest) = bytes.as_chunks::<64>();
    // A payload that starts within a line may cover one line more than the length suggests.
    let mut sum = u64::from_le_bytes(*last);
    for line in lines {
        let word: &[u8; 8] = line.first_chunk().unwrap_or(&[0; 8]);
        sum = sum.wrapping_add(u64::from_le_bytes(*word));
    }
    sum = sum.wrapping_add(rest.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    black_box(sum);
    Ok(u64::from_le_bytes(*first))
}

/// Returns one side of a ping-pong, or of a one-way stream.
pub(crate) fn side<'n>(
    case: &Case,
    place: u32,
    sender: impl Sender + 'n,
    receiver: impl Receiver + 'n,
) -> Box<dyn Side + 'n> {
    match (case.measure, place) {
        (Measure::Latency, 0) => Box::new(Pinging { sender, receiver, word: 0 }),
        (Measure::Latency, _) => Box::new(Echoing { sender, receiver }),
        (Measure::Wake, _) => Box::new(Waking { sender, receiver, begins: place == 0, times_ns: Vec::new() }),
        (_, 0) => Box::new(Source { sender, next: 0 }),
        (_, _) => Box::new(Sink { receiver, count: Count::default() }),
    }
}

/// The side that begins a ping-pong.
struct Pinging<S, R> {
    sender: S,
    receiver: R,
    word: u64,
}

impl<S: Sender, R: Receiver> Side for Pinging<S, R> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            self.word += 1;
            self.sender.send(self.word)?;
            check_echo(self.receiver.receive()?, self.word)?;
        }
        Ok(())
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        for _ in 0..count {
            self.sender.send(now_ns())?;
            times.record_since(self.receiver.receive()?);
        }
        Ok(())
    }
}

/// Checks that a packet came back unchanged.
pub(crate) fn check_echo(echo: u64, word: u64) -> Result<(), Problem> {
    if echo == word { Ok(()) } else { Err(format!("packet {echo} came back in place of {word}")) }
}

/// The side that replies in a ping-pong.
struct Echoing<S, R> {
    sender: S,
    receiver: R,
}

impl<S: Sender, R: Receiver> Side for Echoing<S, R> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            let word = self.receiver.receive()?;
            self.sender.send(word)?;
        }
        Ok(())
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        for _ in 0..count {
            times.record_since(self.receiver.receive()?);
            self.sender.send(now_ns())?;
        }
        Ok(())
    }
}

/// A side of a ping-pong that sleeps while it waits. Each packet is sent after a pause, so that the
/// receiver is asleep. The time of a block is the time of the median packet, multiplied by the
/// number of packets: a packet that the scheduler delays takes as long as a hundred others.
struct Waking<S, R> {
    sender: S,
    receiver: R,
    /// Whether this side sends first.
    begins: bool,
    /// The one-way times of the last block.
    times_ns: Vec<u64>,
}

impl<S: Sender, R: Receiver> Waking<S, R> {
    fn run(&mut self, count: u64, mut record: impl FnMut(u64)) -> Result<(), Problem> {
        for trip in 0..2 * count {
            if (trip % 2 == 0) == self.begins {
                let pause_end_ns = now_ns() + PAUSE_NS;
                while now_ns() < pause_end_ns {
                    spin_loop();
                }
                self.sender.send(now_ns())?;
            } else {
                let sent_ns = self.receiver.receive()?;
                record(now_ns().saturating_sub(sent_ns));
            }
        }
        Ok(())
    }
}

impl<S: Sender, R: Receiver> Side for Waking<S, R> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        let mut times_ns = std::mem::take(&mut self.times_ns);
        times_ns.clear();
        let result = self.run(count, |ns| times_ns.push(ns));
        times_ns.sort_unstable();
        self.times_ns = times_ns;
        result
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        self.run(count, |ns| times.record(ns))
    }

    fn measured_ns(&self) -> Option<u64> {
        let count = self.times_ns.len();
        self.times_ns.get(count / 2).map(|median_ns| median_ns * count as u64)
    }
}

/// The sender of a stream.
pub(crate) struct Source<S> {
    pub sender: S,
    pub next: u64,
}

impl<S: Sender> Side for Source<S> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            self.sender.send(self.next)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// The receiver of a stream, which counts missing packets.
pub(crate) struct Sink<R> {
    pub receiver: R,
    pub count: Count,
}

impl<R: Receiver> Side for Sink<R> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        self.count.end += count;
        while self.count.expected < self.count.end {
            self.count.take(self.receiver.receive()?);
        }
        Ok(())
    }

    fn losses(&self) -> [u64; 2] {
        [self.count.lost, self.count.reordered]
    }
}

/// A receiver's count of the packets from a sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    /// The number of the next packet.
    pub expected: u64,
    /// The number after the last packet of the block.
    pub end: u64,
    pub lost: u64,
    pub reordered: u64,
}

impl Count {
    #[inline]
    pub(crate) fn take(&mut self, number: u64) {
        if number == self.expected {
            self.expected += 1;
        } else {
            self.take_other(number);
        }
    }

    #[cold]
    fn take_other(&mut self, number: u64) {
        if number < self.expected {
            self.reordered += 1;
        } else {
            self.lost += number - self.expected;
            self.expected = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_late_is_counted() {
        let mut count = Count::default();
        for number in [0, 1, 4, 2, 5, 7] {
            count.take(number);
        }
        assert_eq!((count.expected, count.lost, count.reordered), (8, 3, 1));
    }

    #[test]
    fn a_stream_goes_on_from_block_to_block() {
        let (sender, receiver) = std::sync::mpsc::channel();
        struct Tx(std::sync::mpsc::Sender<u64>);
        struct Rx(std::sync::mpsc::Receiver<u64>);
        impl Sender for Tx {
            fn send(&mut self, word: u64) -> Result<(), Problem> {
                self.0.send(word).map_err(|e| e.to_string())
            }
        }
        impl Receiver for Rx {
            fn receive(&mut self) -> Result<u64, Problem> {
                self.0.recv().map_err(|e| e.to_string())
            }
        }
        let mut source = Source { sender: Tx(sender), next: 0 };
        let mut sink = Sink { receiver: Rx(receiver), count: Count::default() };
        for count in [3, 0, 5] {
            source.block(count).unwrap();
            sink.block(count).unwrap();
        }
        assert_eq!((sink.count.expected, sink.losses()), (8, [0, 0]));
    }

    #[test]
    fn one_way_times_are_kept_with_their_numbers() {
        let mut times = OneWayTimes::new().unwrap();
        (0..3).for_each(|_| times.record_since(now_ns() - 1_000_000));
        // A clock that goes backwards leads to a time of 1 ns, not to an overflow.
        times.record_since(u64::MAX);
        let counts = times.counts();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(counts[0], (1, 1));
        assert!(counts[1..].iter().all(|(ns, _)| *ns >= 999_000), "{counts:?}");
    }

    #[test]
    fn a_payload_carries_its_word() {
        for len in [8, 12, 64, 100] {
            let mut bytes = vec![0; len];
            write(&mut bytes, 0x0102_0304);
            assert_eq!(read(&bytes), Ok(0x0102_0304));
            let words = bytes.chunks_exact(8);
            assert!(words.remainder().iter().all(|byte| *byte == 4));
            assert!(words.into_iter().all(|place| place == 0x0102_0304u64.to_le_bytes()));
        }
        assert!(read(&[0; 7]).is_err());
    }
}
