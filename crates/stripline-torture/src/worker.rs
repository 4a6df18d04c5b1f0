//! One survivor and those who die around it, one after the other. Several lanes run at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bystander::Bystander;
use crate::child::is_killed;
use crate::leftovers::{abstract_names, meeting_point};
use crate::notes::{Note, Notes};
use crate::plan::Death;

/// A hang, and not merely a slow machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// What a lane is to do.
pub struct Worker {
    /// Its notes.
    pub notes: Notes,
    /// Where everybody of it meets.
    pub domain: String,
    /// How many are to be killed.
    pub kills: u64,
    /// What its randomness comes from.
    pub seed: u64,
    /// Where in the list of deaths it begins.
    pub first_death: u64,
    /// What it is doing, for whoever watches.
    pub heartbeat: Arc<Heartbeat>,
}

/// What a lane is doing.
#[derive(Default)]
pub struct Heartbeat {
    beats: AtomicU64,
    doing: Mutex<String>,
}

impl Heartbeat {
    /// Says what is being done now.
    pub fn beat(&self, doing: String) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
        // Relaxed: it need only change.
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it said so.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// What it said last.
    pub fn doing(&self) -> String {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How soon a death was noticed.
#[derive(Clone, Copy, Debug)]
pub struct Noticed {
    /// Where the dead one was.
    pub at: &'static str,
    /// When the survivor knew, after the death.
    pub ns: u64,
    /// When a thread knew that waited for nothing else, without any link.
    pub by_bystander_ns: u64,
}

/// How somebody ended who was to die.
pub struct End<'a> {
    pub status: ExitStatus,
    /// What it was to die of.
    pub death: Death,
    /// What carried what it said: a transport, and what is asked of it.
    pub over: String,
    /// When the survivor knew, if it did.
    pub gone_ns: Option<u64>,
    /// When it was killed; 0: it did so itself.
    pub killed_ns: u64,
    pub notes: &'a Notes,
    pub bystander: Bystander,
}

/// What came of it.
#[derive(Default)]
pub struct Tally {
    /// By fail point: how many died there.
    pub deaths: BTreeMap<&'static str, u64>,
    /// How soon deaths were noticed.
    pub noticed: Vec<Noticed>,
    /// Packets that survivors took and checked.
    pub packets: u64,
    /// Packets that survivors were told they had missed, by their own policy.
    pub missing: u64,
    /// Those who ended by themselves before they could be killed.
    pub lucky: u64,
    /// Receivers that were told what the dead one before them had missed.
    pub resumed: u64,
    /// Abstract names that must be gone.
    pub names: BTreeSet<String>,
    /// By transport and scope: how many died over it.
    pub links: BTreeMap<String, u64>,
    /// Sends that were told that a receiver had died on them.
    pub deserted: u64,
    /// Sends that returned when those who were to die had finished with the packet.
    pub finished: u64,
    /// Calls of survivors that were answered.
    pub calls: u64,
    /// Calls of survivors that were told that their server had died on them.
    pub calls_deserted: u64,
    /// Calls of those who died that a survivor has carried out.
    pub calls_of_the_dead: u64,
}

impl Tally {
    /// Everything of two.
    pub fn add(&mut self, other: Self) {
        for (point, count) in other.deaths {
            *self.deaths.entry(point).or_default() += count;
        }
        self.noticed.extend(other.noticed);
        self.packets += other.packets;
        self.missing += other.missing;
        self.lucky += other.lucky;
        self.resumed += other.resumed;
        self.names.extend(other.names);
        for (link, count) in other.links {
            *self.links.entry(link).or_default() += count;
        }
        self.deserted += other.deserted;
        self.finished += other.finished;
        self.calls += other.calls;
        self.calls_deserted += other.calls_deserted;
        self.calls_of_the_dead += other.calls_of_the_dead;
    }

    /// Takes down how somebody ended who was to die.
    ///
    /// # Errors
    /// When it ended by itself, and not well.
    pub fn enter(&mut self, end: End<'_>) -> Result<(), String> {
        let End { status, death, over, gone_ns, killed_ns, notes, bystander } = end;
        if !is_killed(status) {
            if !status.success() {
                return Err(format!("it failed by itself: {status}"));
            }
            self.lucky += 1;
            return Ok(());
        }
        *self.deaths.entry(death.name()).or_default() += 1;
        *self.links.entry(over).or_default() += 1;
        // Who dies at a fail point has said when.
        let killed_ns = if killed_ns == 0 { notes.get(Note::KilledNs) } else { killed_ns };
        if let Some(gone_ns) = gone_ns
            && gone_ns > killed_ns
        {
            let seen = bystander.saw()?;
            self.noticed.push(Noticed {
                at: death.name(),
                ns: gone_ns - killed_ns,
                by_bystander_ns: seen.saturating_sub(killed_ns),
            });
        }
        Ok(())
    }

    /// How many died.
    pub fn kills(&self) -> u64 {
        self.deaths.values().sum()
    }
}

/// Waits until the host of a domain is there, so that no child becomes it.
///
/// # Errors
/// When it does not come.
pub fn wait_for_host(domain: &str) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    while !abstract_names().contains(&meeting_point(domain)) {
        if Instant::now() > deadline {
            return Err(format!("domain {domain} has no host"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A child that does not outlive its owner, whatever happens to that.
pub struct Victim {
    child: Child,
    started: Instant,
    timeout: Duration,
    status: Option<ExitStatus>,
}

impl Victim {
    /// Takes over a child.
    pub fn new(child: Child) -> Self {
        Self::patient(child, TIMEOUT)
    }

    /// Takes over a child that may live for so long.
    pub fn patient(child: Child, patience: Duration) -> Self {
        Self { child, started: Instant::now(), timeout: patience, status: None }
    }

    /// How it ended, once it has.
    ///
    /// # Errors
    /// When it neither dies nor ends.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>, String> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|e| format!("cannot wait for a child: {e}"))?;
            if self.status.is_none() && self.started.elapsed() > self.timeout {
                return Err(format!("process {} neither dies nor ends", self.child.id()));
            }
        }
        Ok(self.status)
    }

    /// Whether it has lived for that long.
    pub fn has_lived(&self, microseconds: u64) -> bool {
        self.started.elapsed() >= Duration::from_micros(microseconds)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Victim::poll`].
    pub fn end(&mut self) -> Result<ExitStatus, String> {
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        crate::stop::signal(&self.child, signal);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
