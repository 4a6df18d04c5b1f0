//! The loops of a measurement, the same for every subject.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Problem;
use super::case::Outcome;
use super::statistics::median;

/// The first word of the first packet that counts.
const START: u64 = 1 << 63;
/// The first word of the last packet.
const STOP: u64 = 1 << 62;
const NUMBER: u64 = STOP - 1;
/// The share at the beginning that is dropped.
const WARM_UP: f64 = 0.1;
/// The approximate duration of one batch: long against the clock, short against disturbances of the
/// machine.
const BATCH: Duration = Duration::from_micros(20);
/// The most batches kept; no run has more.
const BATCHES_MAX: usize = 1 << 20;

pub(crate) trait Sender {
    /// Sends a packet that begins with the word, and writes all of it.
    fn send(&mut self, word: u64) -> Result<(), Problem>;
}

pub(crate) trait Receiver {
    /// Returns the next packet's first word, after reading one word of each of its cache lines.
    fn receive(&mut self) -> Result<u64, Problem>;
}

/// Writes all of a payload.
#[inline]
pub(crate) fn write(bytes: &mut [u8], word: u64) {
    bytes.fill(word as u8);
    bytes[..8].copy_from_slice(&word.to_le_bytes());
}

/// Reads one word of every cache line of a payload, at any offset in its first line. Returns the
/// first word.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<u64, Problem> {
    let Some((first, _)) = bytes.split_first_chunk() else {
        return Err(format!("a packet of {} bytes", bytes.len()));
    };
    let mut sum = 0u64;
    for line in bytes.chunks(64) {
        if let Some((word, _)) = line.split_first_chunk() {
            sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    // A payload that starts within a line may cover one line more than its length suggests.
    if let Some((_, last)) = bytes.split_last_chunk() {
        sum = sum.wrapping_add(u64::from_le_bytes(*last));
    }
    black_box(sum);
    Ok(u64::from_le_bytes(*first))
}

/// Runs one side of a ping-pong: first batches, timed as a whole, then single round trips.
pub(crate) fn ping(
    sender: &mut impl Sender,
    receiver: &mut impl Receiver,
    seconds: f64,
) -> Result<Outcome, Problem> {
    let mut outcome = Outcome::default();
    let mut word = 0;
    timed(seconds, &mut outcome, || {
        word += 1;
        sender.send(word)?;
        match receiver.receive()? {
            echo if echo == word => Ok(()),
            echo => Err(format!("packet {echo} came back in place of {word}")),
        }
    })?;
    outcome.typical_ns = outcome.typical_ns.map(|ns| ns / 2.0);
    sender.send(STOP)?;
    Ok(outcome)
}

/// Times an action in batches, and one by one.
pub(crate) fn timed(
    seconds: f64,
    outcome: &mut Outcome,
    mut action: impl FnMut() -> Result<(), Problem>,
) -> Result<(), Problem> {
    let start = Instant::now();
    let until = |part: f64| Duration::from_secs_f64(seconds * part);
    let mut warm = 0u32;
    while warm < 8 || start.elapsed() < until(WARM_UP) {
        action()?;
        warm += 1;
    }
    let trip = start.elapsed() / warm;
    let batch = (BATCH.as_nanos() / trip.as_nanos().max(1)).clamp(1, 4096) as u32;
    let mut batches = Vec::with_capacity(BATCHES_MAX);
    let middle = WARM_UP + (1.0 - WARM_UP) / 2.0;
    while batches.len() < BATCHES_MAX && (batches.len() < 3 || start.elapsed() < until(middle)) {
        let began = Instant::now();
        for _ in 0..batch {
            action()?;
        }
        batches.push(began.elapsed().as_nanos() as f64 / f64::from(batch));
    }
    outcome.typical_ns = median(&batches);
    let mut times: Histogram<u64> =
        Histogram::new_with_bounds(1, 100_000_000_000, 3).map_err(|e| e.to_string())?;
    let mut count = 0u32;
    loop {
        let began = Instant::now();
        action()?;
        let ended = Instant::now();
        // A value out of the histogram's bounds is longer than any run.
        let _ = times.record((ended - began).as_nanos().max(1) as u64);
        count += 1;
        if count >= 8 && ended - start >= until(1.0) {
            break;
        }
    }
    outcome.round_trips =
        times.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
    Ok(())
}

/// Runs the other side of a ping-pong.
pub(crate) fn echo(sender: &mut impl Sender, receiver: &mut impl Receiver) -> Result<Outcome, Problem> {
    loop {
        let word = receiver.receive()?;
        if word == STOP {
            return Ok(Outcome::default());
        }
        sender.send(word)?;
    }
}

/// Sends at full rate for a given time.
pub(crate) fn source(sender: &mut impl Sender, size: usize, seconds: f64) -> Result<Outcome, Problem> {
    // The clock is read once per so many packets.
    let chunk = ((1 << 16) / size).clamp(1, 1024);
    let mut word = 0;
    let start = Instant::now();
    let mut send_until = |end: f64, mark: u64| {
        let end = Duration::from_secs_f64(end);
        loop {
            for _ in 0..chunk {
                sender.send(word)?;
                word += 1;
            }
            if start.elapsed() >= end {
                break;
            }
        }
        sender.send(word | mark)?;
        word += 1;
        Ok::<(), Problem>(())
    };
    send_until(seconds * WARM_UP, START)?;
    send_until(seconds, STOP)?;
    Ok(Outcome::default())
}

/// Receives all packets of a source; times from the first packet that counts to the last.
pub(crate) fn sink(receiver: &mut impl Receiver) -> Result<Outcome, Problem> {
    let mut count = Count::default();
    loop {
        let word = receiver.receive()?;
        if count.take(word) {
            return Ok(count.outcome);
        }
    }
}

/// A receiver's count of a source's packets.
#[derive(Default)]
struct Count {
    expected: u64,
    first: Option<(u64, Instant)>,
    received: u64,
    outcome: Outcome,
}

impl Count {
    /// Counts a packet. Returns true after the last.
    #[inline]
    fn take(&mut self, word: u64) -> bool {
        self.received += 1;
        if word == self.expected {
            self.expected += 1;
            return false;
        }
        self.take_special(word)
    }

    #[cold]
    fn take_special(&mut self, word: u64) -> bool {
        let number = word & NUMBER;
        if number < self.expected {
            self.outcome.reordered += 1;
        } else {
            self.outcome.lost += number - self.expected;
            self.expected = number + 1;
        }
        if word & START != 0 {
            self.first = Some((self.received, Instant::now()));
        }
        if word & STOP != 0
            && let Some((before, start)) = self.first
        {
            self.outcome.elapsed_s = start.elapsed().as_secs_f64();
            self.outcome.packets = self.received - before;
        }
        word & STOP != 0
    }
}

/// Returns whether a word is that of the last packet, for the middle of a chain.
pub(crate) fn is_last(word: u64) -> bool {
    word & STOP != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_from_the_first_that_counts() {
        let mut count = Count::default();
        for word in [0, 1, 2 | START, 3, 4] {
            assert!(!count.take(word));
        }
        assert!(count.take(5 | STOP));
        assert_eq!((count.outcome.packets, count.outcome.lost, count.outcome.reordered), (3, 0, 0));
    }

    #[test]
    fn what_is_missing_or_late_is_counted() {
        let mut count = Count::default();
        for word in [START, 1, 4, 2, 5] {
            assert!(!count.take(word));
        }
        assert!(count.take(7 | STOP));
        assert_eq!((count.outcome.lost, count.outcome.reordered), (3, 1));
    }

    #[test]
    fn a_payload_carries_its_word() {
        for len in [8, 12, 64, 100] {
            let mut bytes = vec![0; len];
            write(&mut bytes, 0x0102_0304);
            assert_eq!(read(&bytes), Ok(0x0102_0304));
            assert!(bytes[8..].iter().all(|byte| *byte == 4));
        }
        assert!(read(&[0; 7]).is_err());
    }
}
