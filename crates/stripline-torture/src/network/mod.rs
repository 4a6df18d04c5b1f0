//! Packets between two network namespaces, through a link that loses, repeats and reorders frames.
//! Every packet and every gap is checked.

mod account;
mod cell;
mod peer;
mod router;

use std::time::Instant;

use serde_json::{Value, json};

use crate::impair::Problem;
use crate::payload::mix;

/// Runs the role in the environment, if there is one, and returns the exit code.
pub fn play_if_asked() -> Option<u8> {
    peer::play_if_asked().or_else(router::play_if_asked)
}

/// The options of a run.
pub struct Network {
    /// A transport of [`transports`].
    pub transport: &'static str,
    /// Packets of each cell.
    pub packets: u64,
    pub seed: u64,
    /// The time for which a receiver is stopped, in milliseconds.
    pub stop_ms: u64,
    /// Runs only cells with this text in their names; empty for all cells.
    pub only: String,
}

/// Returns the transports that reach another host.
pub fn transports() -> impl Iterator<Item = &'static str> + Clone {
    crate::plan::present(&["udp", "tcp", "zenoh", "corba"])
}

impl Network {
    /// Runs the cells and returns the report.
    ///
    /// # Errors
    /// The first cell that fails, with its name and seed.
    pub fn run(&self) -> Result<Value, Problem> {
        let cells: Vec<_> = cell::all(self.transport)
            .into_iter()
            .filter(|cell| cell.to_string().contains(&self.only))
            .collect();
        if cells.is_empty() {
            return Err(Problem::Failed(format!("no cell has `{}` in its name", self.only)));
        }
        let started = Instant::now();
        let mut reports = Vec::new();
        for cell in cells {
            let name = cell.to_string();
            // The seed depends on the name, so that a cell has the same seed alone and among all
            // cells.
            let seed = name.bytes().fold(mix(self.seed), |seed, byte| mix(seed ^ u64::from(byte)));
            let report = cell.run(self, seed).map_err(|problem| match problem {
                Problem::Failed(text) => {
                    Problem::Failed(format!("cell `{name}`, --seed {}: {text}", self.seed))
                }
                not_possible => not_possible,
            })?;
            eprintln!("network: {name}: {}", report.summary());
            reports.push(json!({"cell": name, "figures": report}));
        }
        Ok(json!({
            "transport": self.transport,
            "seed": self.seed,
            "packets_a_cell": self.packets,
            "duration_s": started.elapsed().as_secs_f64(),
            "cells": reports,
        }))
    }
}
