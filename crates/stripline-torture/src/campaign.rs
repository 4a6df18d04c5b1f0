//! Everything that is killed, in rounds: after each round, nothing may be left of it.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lane::{Lane, Pulse, Tally};
use crate::leftovers::Inventory;
use crate::notes::Board;
use crate::payload::mix;
use crate::plan;

/// Killed in a round, by all lanes.
const ROUND: u64 = 600;
/// A lane that has not done anything for so long hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What is asked for.
pub struct Campaign {
    /// How many processes are killed.
    pub kills: u64,
    /// What the randomness comes from.
    pub seed: u64,
    /// How many survivors there are at a time.
    pub lanes: u64,
}

impl Campaign {
    /// Kills them all.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn run(&self) -> Result<Value, String> {
        let started = Instant::now();
        let board = Board::new(self.lanes)?;
        let mut tally = Tally::default();
        for round in 0.. {
            let left = self.kills.saturating_sub(tally.kills());
            if left == 0 {
                break;
            }
            let before = Inventory::take();
            let done = self.round(&board, round, left.min(ROUND))?;
            before.await_again(&done.names)?;
            tally.add(done);
            // Only what one round saw is compared.
            tally.names.clear();
            eprintln!("torture: {:7} killed, {:.0} s", tally.kills(), started.elapsed().as_secs_f64());
        }
        Ok(self.report(&tally, started.elapsed()))
    }

    fn round(&self, board: &Board, round: u64, kills: u64) -> Result<Tally, String> {
        let mut lanes = Vec::new();
        for lane in 0..self.lanes {
            let seed = mix(self.seed ^ mix(round << 16 | lane));
            let pulse = Arc::new(Pulse::default());
            let job = Lane {
                notes: board.lane(lane)?,
                domain: format!("torture-{}-{round}-{lane}", std::process::id()),
                // The first lanes take what cannot be shared equally.
                kills: kills / self.lanes + u64::from(lane < kills % self.lanes),
                seed,
                first_death: seed % 100,
                pulse: Arc::clone(&pulse),
            };
            let of_senders = lane % 2 == 0;
            let work =
                move || if of_senders { crate::senders::run(&job) } else { crate::receivers::run(&job) };
            lanes.push((std::thread::spawn(work), pulse));
        }
        await_lanes(&lanes);
        let mut tally = Tally::default();
        for (thread, _) in lanes {
            tally.add(thread.join().map_err(|_| "a lane panicked")??);
        }
        Ok(tally)
    }

    fn report(&self, tally: &Tally, took: Duration) -> Value {
        let mut noticed = tally.noticed_ns.clone();
        noticed.sort_unstable();
        let at = |share: f64| {
            let index = (noticed.len() as f64 * share) as usize;
            noticed.get(index.min(noticed.len().saturating_sub(1))).map(|(ns, _)| *ns as f64 / 1000.0)
        };
        let within = noticed.partition_point(|(ns, _)| *ns <= 10_000_000);
        let slowest: Vec<_> =
            noticed.iter().rev().take(10).map(|(ns, at)| json!([at, *ns as f64 / 1000.0])).collect();
        let missed: Vec<_> = [true, false]
            .into_iter()
            .flat_map(plan::points)
            .filter(|point| !tally.deaths.contains_key(point))
            .collect();
        json!({
            "kills": tally.kills(),
            "seed": self.seed,
            "lanes": self.lanes,
            "duration_s": took.as_secs_f64(),
            "rate_hz": tally.kills() as f64 / took.as_secs_f64(),
            "deaths": tally.deaths,
            "points_never_reached": missed,
            "ended_by_themselves": tally.lucky,
            "packets_checked": tally.packets,
            "packets_reported_missing": tally.missing,
            "receivers_told_what_they_missed": tally.resumed,
            "death_noticed_us": {
                "samples": noticed.len(), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1.0),
                "within_10_ms": within, "slowest": slowest,
            },
        })
    }
}

/// Waits until all lanes are done; a lane that hangs ends the process, which is all that can be done about it.
fn await_lanes<T>(lanes: &[(std::thread::JoinHandle<T>, Arc<Pulse>)]) {
    let mut seen: Vec<_> = lanes.iter().map(|(_, pulse)| (pulse.beats(), Instant::now())).collect();
    while !lanes.iter().all(|(thread, _)| thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(5));
        for ((thread, pulse), (beats, since)) in lanes.iter().zip(&mut seen) {
            if thread.is_finished() || *beats != pulse.beats() {
                (*beats, *since) = (pulse.beats(), Instant::now());
            } else if since.elapsed() > HANGS {
                eprintln!("torture: FAILED: hangs for {HANGS:?}: {}", pulse.doing());
                for (_, pulse) in lanes {
                    eprintln!("torture: a lane: {}", pulse.doing());
                }
                std::process::exit(1);
            }
        }
    }
}

/// Writes a report where it is wanted.
///
/// # Errors
/// When that cannot be written.
pub fn write(report: &Value, to: Option<&Path>) -> Result<(), String> {
    let text = format!("{report:#}\n");
    match to {
        Some(path) => std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display())),
        None => std::io::stdout().write_all(text.as_bytes()).map_err(|e| format!("cannot write: {e}")),
    }
}
