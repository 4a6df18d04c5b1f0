//! The code of a component, and the dispatch of the code.

use std::sync::OnceLock;
use std::time::Duration;

use bytemuck::cast_slice;
use rustix::time::{ClockId, clock_gettime};
use stripline::node::{Dispatch, Publisher, Subscriber};
use stripline::{Error, Received, Result, Sample};

use super::case::{ExperimentCase, Order, Work};
use super::sequence::Sequence;
use super::stage::{PlaceBarrier, PlaceResult};
use crate::ladder::measure;
use crate::ladder::turns::now_ns as now;
use crate::process::NoResult;

/// Iterations of an empty loop between two readings of the clock, because a reading is a system
/// call.
const TURNS: u32 = 256;

/// The source of packets for a component or the observer.
pub(super) struct Input<T: Sample> {
    pub subscriber: Subscriber<T>,
    is_in_sequence: bool,
}

impl<T: Sample> Input<T> {
    /// Creates the input. Packets that come directly from the producer are in sequence already.
    pub(super) fn new(case: &ExperimentCase, place: u32, subscriber: Subscriber<T>) -> Result<Self> {
        if case.order == Order::AsCompleted || place <= 1 {
            return Ok(Self { subscriber, is_in_sequence: false });
        }
        let skip_after = Duration::from_secs_f64(case.skip_after_ms / 1e3);
        let subscriber = subscriber.resequenced(case.window as usize, skip_after)?;
        Ok(Self { subscriber, is_in_sequence: true })
    }

    /// Returns the number of a packet that has already arrived.
    fn number(&mut self) -> Option<Result<u64, String>> {
        match self.subscriber.try_receive() {
            Ok(Received::Packet(packet)) => Some(measure::read(cast_slice(&packet))),
            _ => None,
        }
    }
}

/// Runs a component's code on all packets, with the dispatch of the case. No other function depends
/// on the dispatch. The code of an observer does nothing, on a separate thread.
pub(super) fn work<T: Sample>(
    case: &ExperimentCase,
    place: u32,
    input: &mut Input<T>,
    mut output: Option<&mut Publisher<T>>,
    barrier: &impl PlaceBarrier,
) -> Result<PlaceResult, NoResult> {
    let (dispatch, work) = match place > case.stages {
        true => (Dispatch::Queue, Work::None),
        false => (case.dispatch, case.work),
    };
    let (mut exit, first_ns) = (Exit::new(case, input.is_in_sequence), OnceLock::new());
    let time = Duration::from_secs_f64(case.work_ms / 1e3);
    barrier.start()?;
    let outcome = input.subscriber.serve_then(
        dispatch,
        |packet| {
            first_ns.get_or_init(now);
            let number = measure::read(cast_slice(&packet)).map_err(Error::failed)?;
            Ok((number, exert(work, time)))
        },
        |packet, (number, service_ns)| {
            if let Some(output) = &mut output {
                let mut loan = output.loan(packet.len())?;
                loan.copy_from_slice(&packet);
                // The call also passes on the order number of the packet.
                loan.send_like(&packet)?;
            }
            exit.passed_on(number, service_ns)?;
            // Streams end only after all places have met at the end, so no place can wait for the
            // end of a stream. Other threads of a pool still finish their packets.
            if exit.is_over { Err(Error::Stopped) } else { Ok(()) }
        },
    );
    match outcome {
        Err(Error::Stopped) if exit.is_over => {}
        other => other?,
    }
    barrier.end()?;
    // Any surplus packet has arrived by now.
    while let Some(number) = input.number() {
        exit.sequence.take(number?)?;
    }
    Ok(exit.seen(first_ns.into_inner().unwrap_or_default()))
}

/// Works for the given time. Returns the nanoseconds of work, which are processor time for busy
/// work.
fn exert(work: Work, time: Duration) -> u64 {
    match work {
        Work::None => 0,
        Work::Wait => {
            let began = now();
            std::thread::sleep(time);
            now() - began
        }
        Work::Busy => {
            let began = processor_time();
            loop {
                for _ in 0..TURNS {
                    std::hint::spin_loop();
                }
                let worked = processor_time() - began;
                if u128::from(worked) >= time.as_nanos() {
                    return worked;
                }
            }
        }
    }
}

/// The exit of a component: the packets that have left it.
struct Exit {
    seen: PlaceResult,
    sequence: Sequence,
    packets: u64,
    /// Whether the packet with the highest number is the last one to take. A packet that was
    /// skipped arrived too late.
    ends_with_last: bool,
    /// Whether no more packets are to be taken.
    is_over: bool,
}

impl Exit {
    fn new(case: &ExperimentCase, ends_with_last: bool) -> Self {
        let services_ns = Vec::with_capacity(case.packets as usize);
        Self {
            seen: PlaceResult { services_ns, ..PlaceResult::default() },
            sequence: Sequence::new(case.packets),
            packets: case.packets.into(),
            ends_with_last,
            is_over: false,
        }
    }

    fn passed_on(&mut self, number: u64, service_ns: u64) -> Result<()> {
        self.seen.last_ns = now();
        self.seen.services_ns.push(service_ns);
        self.sequence.take(number).map_err(Error::failed)?;
        self.is_over |= self.sequence.missing() == 0 || self.ends_with_last && number + 1 == self.packets;
        Ok(())
    }

    fn seen(self, first_ns: u64) -> PlaceResult {
        let Sequence { reordered, duplicates, .. } = self.sequence;
        PlaceResult { first_ns, reordered, duplicates, missing: self.sequence.missing(), ..self.seen }
    }
}

/// Returns the nanoseconds of processor time that this thread has used.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn a_component_ends_with_its_last_packet() {
        let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\npackets = 4";
        let case = Experiment::parse(text, "x.toml").unwrap().cases[0].clone();
        let ends_after = |ends_with_last, numbers: &[u64]| {
            let mut exit = Exit::new(&case, ends_with_last);
            let is_over = |number: &u64| exit.passed_on(*number, 0).map(|()| exit.is_over).unwrap();
            numbers.iter().position(is_over).map(|index| index + 1)
        };
        assert_eq!(ends_after(false, &[3, 1, 2, 0]), Some(4));
        assert_eq!(ends_after(false, &[0, 0, 1, 3]), None);
        // Number 1 was skipped, and another thread still works on 2.
        assert_eq!(ends_after(true, &[0, 3, 2]), Some(2));
    }

    #[test]
    fn work_takes_at_least_its_time() {
        let time = Duration::from_millis(2);
        assert!(exert(Work::Wait, time) >= 2_000_000);
        let before = processor_time();
        assert!(exert(Work::Busy, time) >= 2_000_000);
        assert!(processor_time() - before >= 2_000_000);
        assert_eq!(exert(Work::None, time), 0);
    }
}
