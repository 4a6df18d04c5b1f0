//! The blocks of a run, in which the cases of a group take turns.
//!
//! A block takes about a millisecond. Therefore all cases of a round find the machine in the same
//! state: the distance of the processors, and the other running programs. The order reverses every
//! round. Every fourth round measures the times of single packets.
//!
//! Each block begins with untimed packets. Such packets bring the memory of the case back into the
//! caches. Also, a link chooses its samples by the rate of the last millisecond, which must not be
//! a pause.

use super::case::{Measure, Outcome, SideJob};
use super::endpoints::stripline::BURST;
use super::measure::{OneWayTimes, Side};
use super::turns::{ControlPage, Turn, now_ns};
use crate::Problem;
use crate::usage::Usage;

/// The intended time of a block, in nanoseconds: long compared with the clock and the announcement,
/// and short compared with changes of the machine.
const BLOCK_NS: u64 = 1_000_000;
/// The intended time of a block after which many packets are in transit.
const LONG_BLOCK_NS: u64 = 10_000_000;
/// The intended time of a block if separate threads carry the packets, because these must wake up
/// first.
const CARRIED_BLOCK_NS: u64 = 50_000_000;
/// The intended time of the untimed packets, in nanoseconds.
const LEAD_NS: u64 = 1_500_000;
/// A run that measures for less than this time has shorter blocks, in seconds.
const SHORT_RUN_S: f64 = 0.1;
/// The number of packets of the first block.
const COUNT_MIN: u64 = 8;
const COUNT_MAX: u64 = 1 << 20;
/// The minimum number of rounds of a run.
const ROUNDS_MIN: usize = 4;
/// One round in this number measures the times of single packets.
const STAMPED_EVERY: usize = 4;

/// Runs the blocks of all cases. The side at place 0 leads. A case without a side here has only the
/// leader, or is a repetition.
pub(super) fn run(
    job: &SideJob,
    place: u32,
    sides: &mut [Option<Box<dyn Side + '_>>],
    page: &mut ControlPage,
) -> Result<Vec<Outcome>, Problem> {
    let mut record = Record::new(job, place)?;
    if place > 0 {
        while let Some(turn) = page.next_turn() {
            let side = sides.get_mut(job.group.original(turn.case)).and_then(Option::as_mut);
            let measured_ns = side.map_or(Ok(0), |side| record.run(side.as_mut(), turn))?;
            page.finish_turn(place, measured_ns);
        }
        return Ok(record.outcomes(sides));
    }
    let mut leader = Leader { job, sides, page, record };
    leader.lead()?;
    let Leader { record, .. } = leader;
    Ok(record.outcomes(sides))
}

/// The side that decides on the turns and measures the time of each.
struct Leader<'a, 's> {
    job: &'a SideJob,
    sides: &'a mut [Option<Box<dyn Side + 's>>],
    page: &'a mut ControlPage,
    record: Record,
}

impl Leader<'_, '_> {
    fn lead(&mut self) -> Result<(), Problem> {
        let cases = &self.job.group.cases;
        // The first blocks only warm up, and are not kept.
        let turns = (0..cases.len()).map(|case| self.calibrate(case)).collect::<Result<Vec<_>, _>>()?;
        let start_ns = now_ns();
        let mut rounds = 0;
        while rounds < ROUNDS_MIN || now_ns() - start_ns < (self.job.seconds * 1e9) as u64 {
            let is_stamped = rounds % STAMPED_EVERY == STAMPED_EVERY - 1;
            for index in 0..cases.len() {
                let case = if rounds % 2 == 0 { index } else { cases.len() - 1 - index };
                if is_stamped && !cases[case].has_times() {
                    continue;
                }
                let ns = self.take(Turn { is_stamped, ..turns[case] })?;
                if !is_stamped {
                    self.record.outcomes[case].blocks.push(ns);
                }
            }
            rounds += 1;
        }
        self.page.announce_end();
        Ok(())
    }

    /// Returns a turn of a case that takes as long as a block should. Runs turns of growing length
    /// to find it.
    fn calibrate(&mut self, case: usize) -> Result<Turn, Problem> {
        let mut turn = Turn { case, lead: 0, count: COUNT_MIN, is_stamped: false };
        let (lead_ns, block_ns) = match self.job.group.cases[case].measure {
            // A burst must fit into the ring.
            Measure::Publish => return Ok(Turn { count: BURST, ..turn }),
            Measure::Throughput if self.job.group.cases[case].has_carrier_threads() => (0, CARRIED_BLOCK_NS),
            Measure::Latency | Measure::Throughput => (LEAD_NS, BLOCK_NS),
            // Untimed packets would still be in the rings of the chain when the timed part begins.
            Measure::Pipeline => (0, LONG_BLOCK_NS),
            Measure::Outstanding | Measure::Wake => (LEAD_NS, LONG_BLOCK_NS),
        };
        let scale = (self.job.seconds / SHORT_RUN_S).min(1.0);
        let [lead_ns, block_ns] = [lead_ns, block_ns].map(|ns| (ns as f64 * scale) as u64);
        loop {
            let start_ns = now_ns();
            self.take(turn)?;
            let elapsed_ns = (now_ns() - start_ns).max(1);
            let packets = |ns: u64| (turn.count * ns / elapsed_ns).min(COUNT_MAX);
            if elapsed_ns > block_ns / 4 || turn.count == COUNT_MAX {
                let count = packets(block_ns).max(COUNT_MIN);
                return Ok(Turn { lead: packets(lead_ns), count, ..turn });
            }
            turn.count = (4 * turn.count).min(COUNT_MAX);
        }
    }

    /// Runs a block, and returns the nanoseconds per packet, one way.
    fn take(&mut self, turn: Turn) -> Result<f64, Problem> {
        let own = self.job.group.original(turn.case);
        let side = self.sides[own].as_mut().ok_or("the leader has no side")?;
        let case = &self.job.group.cases[own];
        self.page.announce(turn);
        let start_ns = now_ns();
        let own_ns = self.record.run(side.as_mut(), turn)?;
        let last_ns = self.page.wait_for_others();
        let whole_ns = now_ns() - start_ns;
        let ns = match case.measure {
            _ if case.has_one_side() => own_ns as f64,
            // The slower side determines the rate, because the other side may use up packets or
            // room in the ring.
            Measure::Throughput => own_ns.max(last_ns) as f64,
            Measure::Pipeline => whole_ns as f64,
            Measure::Latency => own_ns as f64 / 2.0,
            Measure::Wake => (own_ns + last_ns) as f64 / 2.0,
            Measure::Publish | Measure::Outstanding => own_ns as f64,
        };
        Ok(ns / turn.count as f64)
    }
}

/// The record of one side, for each case.
struct Record {
    outcomes: Vec<Outcome>,
    times: Vec<OneWayTimes>,
    /// Whether this side counts the usage of the process. In a shared process, only one side may
    /// count it.
    counts_usage: bool,
}

impl Record {
    fn new(job: &SideJob, place: u32) -> Result<Self, Problem> {
        let cases = &job.group.cases;
        Ok(Self {
            outcomes: vec![Outcome::default(); cases.len()],
            times: cases.iter().map(|_| OneWayTimes::new()).collect::<Result<_, _>>()?,
            counts_usage: place == 0 || !job.group.threads,
        })
    }

    /// Runs this side's part of a block, and returns the nanoseconds of the timed packets.
    fn run(&mut self, side: &mut dyn Side, turn: Turn) -> Result<u64, Problem> {
        let before = Usage::now();
        side.block(turn.lead)?;
        let start_ns = now_ns();
        if turn.is_stamped {
            side.stamped(turn.count, &mut self.times[turn.case])?;
        } else {
            side.block(turn.count)?;
        }
        let elapsed_ns = now_ns() - start_ns;
        if self.counts_usage {
            self.outcomes[turn.case].usage.add_part(Usage::now().since(before));
        }
        Ok(side.measured_ns().unwrap_or(elapsed_ns))
    }

    fn outcomes(mut self, sides: &[Option<Box<dyn Side + '_>>]) -> Vec<Outcome> {
        for (index, outcome) in self.outcomes.iter_mut().enumerate() {
            outcome.times = self.times[index].counts();
            if let Some(side) = &sides[index] {
                [outcome.lost, outcome.reordered] = side.losses();
            }
        }
        self.outcomes
    }
}
