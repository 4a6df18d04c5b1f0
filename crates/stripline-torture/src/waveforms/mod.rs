//! Random waveforms of real processes. Components and launchers are killed and stopped at any time.

mod component;
mod ledger;
mod log;
mod plan;
mod run;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

pub use component::run_if_launched;

use crate::campaign::percentiles;
use crate::leftovers::Inventory;
use run::RunTally;

/// The number of events at which a run of random waveforms ends.
#[derive(Clone, Copy)]
pub enum Goal {
    /// Processes are killed and stopped, and some outputs move.
    Kills(u64),
    /// Outputs move to other transports, and nothing is killed or stopped.
    Moves(u64),
    /// All outputs move to other transports, while processes are killed and stopped.
    DeadlyMoves(u64),
}

impl Goal {
    /// Returns the number to reach, the number reached, and the word for them.
    fn progress(self, tally: &RunTally) -> (u64, u64, &'static str) {
        match self {
            Self::Kills(kills) => (kills, tally.kills, "killed"),
            Self::Moves(moves) | Self::DeadlyMoves(moves) => (moves, tally.moves, "moved"),
        }
    }
}

/// The options of a run of random waveforms.
pub struct Waveforms {
    /// The number of events to reach.
    pub goal: Goal,
    /// The seed of the first waveform. Each further waveform uses the next number.
    pub seed: u64,
    /// Waveforms that run at the same time.
    pub lanes: u64,
}

impl Waveforms {
    /// Runs waveforms until the number is reached, or until Ctrl-C.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&self) -> Result<Value, String> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // A second Ctrl-C ends the process at once. No launcher and no component outlives the
        // process.
        let first = signal_hook::flag::register_conditional_shutdown(
            signal_hook::consts::SIGINT,
            130,
            Arc::clone(&interrupted),
        );
        first
            .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted)))
            .map_err(|e| format!("cannot listen for Ctrl-C: {e}"))?;
        let before = Inventory::take();
        let work = Work {
            goal: self.goal,
            next_seed: AtomicU64::new(self.seed),
            over: AtomicBool::new(false),
            interrupted: &interrupted,
            started: Instant::now(),
            done: Mutex::default(),
        };
        std::thread::scope(|scope| {
            for _ in 0..self.lanes {
                scope.spawn(|| work.lane());
            }
        });
        let (tally, violation) = work.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        if let Some(violation) = violation {
            return Err(violation);
        }
        before.wait_until_back(&std::collections::BTreeSet::new())?;
        Ok(self.report(&tally, work.started.elapsed().as_secs_f64(), interrupted.load(Ordering::Relaxed)))
    }

    fn report(&self, tally: &RunTally, took_s: f64, interrupted: bool) -> Value {
        json!({
            "seed": self.seed,
            "interrupted": interrupted,
            "duration_s": took_s,
            "kills": tally.kills,
            "rate_hz": tally.kills as f64 / took_s,
            "stops": tally.stops,
            "moves": tally.moves,
            "moves_refused": tally.refused,
            "deaths_in_moves": tally.deaths,
            "launchers_killed": tally.launchers,
            "waveforms": tally.rounds,
            "waveforms_without_failure": tally.clean,
            "connections": tally.connections,
            "packets_sent": tally.count.sent,
            "packets_received": tally.count.received,
            "packets_reported_missing": tally.count.missing,
            "gaps": tally.count.gaps,
            "packets_unaccounted": tally.unaccounted,
            "violations": 0,
            "launcher_outlived_us": percentiles(tally.outlived_ns.iter().copied()),
        })
    }
}

/// The state that the threads share.
struct Work<'a> {
    goal: Goal,
    next_seed: AtomicU64,
    over: AtomicBool,
    interrupted: &'a AtomicBool,
    started: Instant,
    done: Mutex<(RunTally, Option<String>)>,
}

impl Work<'_> {
    /// Runs waveforms one after the other.
    fn lane(&self) {
        // Relaxed, here and below: these flags order no other data.
        while !self.over.load(Ordering::Relaxed) && !self.interrupted.load(Ordering::Relaxed) {
            let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
            let outcome = run::round(seed, self.goal, self.interrupted);
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(tally) => done.0.add(tally),
                Err(violation) => {
                    done.1.get_or_insert_with(|| violation.to_string());
                    self.over.store(true, Ordering::Relaxed);
                }
            }
            self.show(&done.0);
            let (enough, reached, _) = self.goal.progress(&done.0);
            if reached >= enough {
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Prints the progress. On a terminal, always uses the same line.
    fn show(&self, tally: &RunTally) {
        let (enough, reached, what) = self.goal.progress(tally);
        let text = format!(
            "torture: {reached:7} of {enough} {what} in {} waveforms, {} packets, {:.0} s",
            tally.rounds,
            tally.count.received,
            self.started.elapsed().as_secs_f64()
        );
        if std::io::stderr().is_terminal() {
            eprint!("\r{text}\x1b[K");
        } else if tally.rounds.is_multiple_of(100) {
            eprintln!("{text}");
        }
    }
}
