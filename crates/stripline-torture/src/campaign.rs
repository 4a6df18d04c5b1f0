//! A campaign: kills in rounds. After each round, no trace of the round may be left.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::leftovers::{self, Inventory};
use crate::notes::Board;
use crate::payload::mix;
use crate::plan;
use crate::worker::{Heartbeat, Tally, Worker};

/// Kills in a round, for all workers together.
const ROUND: u64 = 600;
/// A worker without a heartbeat for this time counts as hung.
const HANGS: Duration = Duration::from_secs(60);

/// A death that is detected later than this is late.
const LATE_NS: u64 = 10_000_000;

/// The options of a campaign.
pub struct Campaign {
    /// The number of processes to kill.
    pub kills: u64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Survivors that run at the same time.
    pub workers: u64,
    /// The part of the library in which processes die.
    pub part: Part,
    /// The only transport; `None` for a mixture.
    pub transport: Option<&'static str>,
}

/// The part of the library in which processes die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Links and calls
    All,
    /// Links only
    Links,
    /// Calls only
    Calls,
}

impl Part {
    /// Returns the function of a worker. With [`Part::All`], every third worker runs calls.
    fn work(self, worker: u64) -> fn(&Worker) -> Result<Tally, String> {
        match (self, worker % 3) {
            (Self::Calls, _) | (Self::All, 2) => crate::calls::run,
            (Self::Links, _) if worker % 2 == 1 => crate::receivers::run,
            (Self::All, 1) => crate::receivers::run,
            _ => crate::senders::run,
        }
    }

    fn points(self, transport: Option<&str>) -> Vec<&'static str> {
        let links = [true, false].into_iter().flat_map(|of_senders| plan::points(of_senders, transport));
        let links = links.filter(|_| self != Self::Calls);
        let calls = [true, false].into_iter().flat_map(plan::points_of_calls).copied();
        links.chain(calls.filter(|_| self != Self::Links)).collect()
    }
}

impl Campaign {
    /// Runs all rounds and returns the report.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&self) -> Result<Value, String> {
        let started = Instant::now();
        // The visitors of a sender stand for receivers that die and are restarted.
        stripline::fail_point::leave_like_the_dead();
        let link_if = |is_needed: fn(&str) -> bool| {
            self.transport.filter(|name| is_needed(name)).map_or(Ok(()), leftovers::make_link)
        };
        link_if(plan::stays)?;
        let board = Board::new(self.workers)?;
        let mut tally = Tally::default();
        for round in 0.. {
            let left = self.kills.saturating_sub(tally.kills());
            if left == 0 {
                break;
            }
            let before = Inventory::take();
            let done = self.round(&board, round, left.min(ROUND))?;
            link_if(plan::leaves_names)?;
            before.wait_until_back(&done.names)?;
            tally.add(done);
            // The names of a round are checked at the end of the round.
            tally.names.clear();
            eprintln!("torture: {:7} killed, {:.0} s", tally.kills(), started.elapsed().as_secs_f64());
        }
        Ok(self.report(&tally, started.elapsed()))
    }

    fn round(&self, board: &Board, round: u64, kills: u64) -> Result<Tally, String> {
        let mut workers = Vec::new();
        for worker in 0..self.workers {
            let seed = mix(self.seed ^ mix(round << 16 | worker));
            let heartbeat = Arc::new(Heartbeat::default());
            let job = Worker {
                notes: board.worker(worker)?,
                domain: format!("torture-{}-{round}-{worker}", std::process::id()),
                // The first workers take the remainder of the division.
                kills: kills / self.workers + u64::from(worker < kills % self.workers),
                seed,
                transport: self.transport,
                first_death: seed % 100,
                heartbeat: Arc::clone(&heartbeat),
            };
            let work = self.part.work(worker);
            workers.push((std::thread::spawn(move || work(&job)), heartbeat));
        }
        wait_for_workers(&workers);
        let mut tally = Tally::default();
        for (thread, _) in workers {
            tally.add(thread.join().map_err(|_| "a lane panicked")??);
        }
        Ok(tally)
    }

    fn report(&self, tally: &Tally, took: Duration) -> Value {
        let mut noticed = tally.noticed.clone();
        noticed.sort_unstable_by_key(|death| death.ns);
        let late = |ns: u64| ns > LATE_NS;
        let slowest = noticed.iter().rev().take(10);
        let slowest: Vec<_> =
            slowest.map(|d| json!([d.at, d.ns as f64 / 1e3, d.by_bystander_ns as f64 / 1e3])).collect();
        let of_link = percentiles(noticed.iter().map(|death| death.ns));
        let of_bystander = percentiles(noticed.iter().map(|death| death.by_bystander_ns));
        let added = percentiles(noticed.iter().map(|death| death.ns.saturating_sub(death.by_bystander_ns)));
        let late_in_any_case =
            noticed.iter().filter(|death| late(death.ns) && late(death.by_bystander_ns)).count();
        let points = self.part.points(self.transport).into_iter();
        let missed: Vec<_> = points.filter(|point| !tally.deaths.contains_key(point)).collect();
        json!({
            "kills": tally.kills(),
            "seed": self.seed,
            "lanes": self.workers,
            "transport": self.transport,
            "duration_s": took.as_secs_f64(),
            "rate_hz": tally.kills() as f64 / took.as_secs_f64(),
            "deaths": tally.deaths,
            "deaths_by_link": tally.links,
            "sends_deserted": tally.deserted,
            "sends_finished_with": tally.finished,
            "calls_answered": tally.calls,
            "calls_deserted": tally.calls_deserted,
            "calls_of_the_dead_carried_out": tally.calls_of_the_dead,
            "points_never_reached": missed,
            "ended_by_themselves": tally.ended_early,
            "packets_checked": tally.packets,
            "packets_reported_missing": tally.missing,
            "receivers_told_what_they_missed": tally.resumed,
            "death_noticed_us": of_link,
            "death_noticed_by_bystander_us": of_bystander,
            "noticed_after_bystander_us": added,
            "late": {
                "by_link": noticed.iter().filter(|death| late(death.ns)).count(),
                "by_both": late_in_any_case,
            },
            "slowest_us": slowest,
        })
    }
}

/// Returns percentiles in microseconds, and the number of times that are not late.
pub fn percentiles(times_ns: impl Iterator<Item = u64>) -> Value {
    let mut times: Vec<u64> = times_ns.collect();
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1))).map(|ns| *ns as f64 / 1e3)
    };
    json!({
        "samples": times.len(), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1.0),
        "within_10_ms": times.partition_point(|ns| *ns <= LATE_NS),
    })
}

/// Waits until all workers have ended. A worker that hangs cannot be stopped, so this function ends
/// the process.
fn wait_for_workers<T>(workers: &[(std::thread::JoinHandle<T>, Arc<Heartbeat>)]) {
    let mut seen: Vec<_> = workers.iter().map(|(_, heartbeat)| (heartbeat.beats(), Instant::now())).collect();
    while !workers.iter().all(|(thread, _)| thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(5));
        for ((thread, heartbeat), (beats, since)) in workers.iter().zip(&mut seen) {
            if thread.is_finished() || *beats != heartbeat.beats() {
                (*beats, *since) = (heartbeat.beats(), Instant::now());
            } else if since.elapsed() > HANGS {
                eprintln!("torture: FAILED: hangs for {HANGS:?}: {}", heartbeat.doing());
                for (_, heartbeat) in workers {
                    eprintln!("torture: a lane: {}", heartbeat.doing());
                }
                std::process::exit(1);
            }
        }
    }
}

/// Writes a report to a file or to standard output.
///
/// # Errors
/// When the report cannot be written.
pub fn write(report: &Value, to: Option<&Path>) -> Result<(), String> {
    let text = format!("{report:#}\n");
    match to {
        Some(path) => std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display())),
        None => std::io::stdout().write_all(text.as_bytes()).map_err(|e| format!("cannot write: {e}")),
    }
}
