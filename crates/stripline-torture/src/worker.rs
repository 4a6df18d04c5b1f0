//! A survivor, and the processes that are killed around it one after the other.
//!
//! Several workers run at the same time.

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

/// The time after which a wait counts as a hang.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The task of a worker.
pub struct Worker {
    /// The notes of the worker's children.
    pub notes: Notes,
    /// The domain of the survivor and the children.
    pub domain: String,
    /// Processes to kill.
    pub kills: u64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The transport of all links and calls; `None` for a mixture.
    pub transport: Option<&'static str>,
    /// The index of the first death.
    pub first_death: u64,
    /// The sign of life for the campaign.
    pub heartbeat: Arc<Heartbeat>,
}

/// A counter of steps, with a description of the present step.
#[derive(Default)]
pub struct Heartbeat {
    beats: AtomicU64,
    doing: Mutex<String>,
}

impl Heartbeat {
    /// Records the present step.
    pub fn beat(&self, doing: String) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
        // Relaxed: the reader only compares the number with the previous number.
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of steps.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Returns the present step.
    pub fn doing(&self) -> String {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The time until a death was detected.
#[derive(Clone, Copy, Debug)]
pub struct Noticed {
    /// The name of the death.
    pub at: &'static str,
    /// Nanoseconds from the death until the survivor's link showed it.
    pub ns: u64,
    /// Nanoseconds from the death until the bystander got the hang-up.
    pub by_bystander_ns: u64,
}

/// The end of a process that was to be killed.
pub struct End<'a> {
    pub status: ExitStatus,
    /// The death that was planned.
    pub death: Death,
    /// The link: a transport and a scope, or calls.
    pub over: String,
    /// The time at which the survivor's link showed the death, if it did.
    pub gone_ns: Option<u64>,
    /// The time at which the process was killed; 0 if it died at a fail point.
    pub killed_ns: u64,
    pub notes: &'a Notes,
    pub bystander: Bystander,
}

/// The figures of a worker, or of all workers.
#[derive(Default)]
pub struct Tally {
    /// Deaths by fail point.
    pub deaths: BTreeMap<&'static str, u64>,
    /// Times until deaths were detected.
    pub noticed: Vec<Noticed>,
    /// Packets that survivors received and checked.
    pub packets: u64,
    /// Packets that gaps reported to survivors, because of the survivor's policy.
    pub missing: u64,
    /// Processes that ended before they could be killed.
    pub ended_early: u64,
    /// Receivers that got the gap of a dead predecessor.
    pub resumed: u64,
    /// Abstract names that must be gone.
    pub names: BTreeSet<String>,
    /// Deaths by transport and scope.
    pub links: BTreeMap<String, u64>,
    /// Sends that reported that a receiver was gone.
    pub deserted: u64,
    /// Sends that returned after the victim had released the packet.
    pub finished: u64,
    /// Calls of survivors that got a reply.
    pub calls: u64,
    /// Calls of survivors that reported that the server was gone.
    pub calls_deserted: u64,
    /// Calls of dead clients that a survivor has run.
    pub calls_of_the_dead: u64,
}

impl Tally {
    /// Adds the figures of another worker.
    pub fn add(&mut self, other: Self) {
        for (point, count) in other.deaths {
            *self.deaths.entry(point).or_default() += count;
        }
        self.noticed.extend(other.noticed);
        self.packets += other.packets;
        self.missing += other.missing;
        self.ended_early += other.ended_early;
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

    /// Enters the end of a process that was to be killed.
    ///
    /// # Errors
    /// When the process failed for another reason.
    pub fn enter(&mut self, end: End<'_>) -> Result<(), String> {
        let End { status, death, over, gone_ns, killed_ns, notes, bystander } = end;
        if !is_killed(status) {
            if !status.success() {
                return Err(format!("it failed by itself: {status}"));
            }
            self.ended_early += 1;
            return Ok(());
        }
        *self.deaths.entry(death.name()).or_default() += 1;
        *self.links.entry(over).or_default() += 1;
        // A process that dies at a fail point notes the time itself.
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

    /// Returns the number of deaths.
    pub fn kills(&self) -> u64 {
        self.deaths.values().sum()
    }
}

/// Waits until the host of a domain is present, so that no child becomes the host.
///
/// # Errors
/// When the host is not present in time.
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

/// A child that is killed with its owner.
pub struct Victim {
    child: Child,
    started: Instant,
    timeout: Duration,
    status: Option<ExitStatus>,
}

impl Victim {
    /// Takes over a child.
    pub fn new(child: Child) -> Self {
        Self::with_timeout(child, TIMEOUT)
    }

    /// Takes over a child with this time limit.
    pub fn with_timeout(child: Child, timeout: Duration) -> Self {
        Self { child, started: Instant::now(), timeout, status: None }
    }

    /// Returns the status once the child has ended.
    ///
    /// # Errors
    /// When the child neither dies nor ends in time.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>, String> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|e| format!("cannot wait for a child: {e}"))?;
            if self.status.is_none() && self.started.elapsed() > self.timeout {
                return Err(format!("process {} neither dies nor ends", self.child.id()));
            }
        }
        Ok(self.status)
    }

    /// Returns whether the child has lived for at least this time.
    pub fn has_lived(&self, microseconds: u64) -> bool {
        self.started.elapsed() >= Duration::from_micros(microseconds)
    }

    /// Waits until the child has ended.
    ///
    /// # Errors
    /// The same as for [`Victim::poll`].
    pub fn end(&mut self) -> Result<ExitStatus, String> {
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to the child.
    pub fn signal(&self, signal: Signal) {
        crate::stop::signal(&self.child, signal);
    }

    /// Kills the child.
    pub fn kill(&mut self) {
        // The child may be dead already.
        let _ = self.child.kill();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
