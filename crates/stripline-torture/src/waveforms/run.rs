//! A round: launches a waveform, kills and stops the processes, and checks the logs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use stripline::fail_point;
use stripline_waveform::RunReport;
use stripline_waveform::control::{ChangeState, ControlClient, Setting};

use super::Goal;
use super::component::{ENOUGH, LAUNCH};
use super::ledger::{self, Count, Life};
use super::log::{Memory, Record};
use super::plan::{Plan, name};
use crate::leftovers::{abstract_names, names_of, processes_with};
use crate::notes::now_ns;
use crate::payload::{Rng, mix};
use crate::plan::{points_of_moves, users_transports};
use crate::worker::TIMEOUT;

/// A waveform that does not end within this time counts as hung.
const HANGS: Duration = Duration::from_secs(60);
/// The longest time during which processes are killed in one round.
const ROUND: Duration = Duration::from_secs(3);
/// The number of failures after which the launcher does not restart a component.
const RESTARTS_MAX: usize = 5;
/// The number of moves in a round.
const MOVES_MAX: usize = 2;
/// The time for which a move may wait for the sender's next packet.
const MOVE_TIME: Duration = Duration::from_millis(500);
/// The maximum number of moves in a round without kills.
const MANY_MOVES: u64 = 40;
/// The maximum number of pending requests for moves.
const PENDING_MAX: u64 = 5;

/// The figures of a round, or of all rounds.
#[derive(Default)]
pub struct RunTally {
    /// Components killed, including launchers.
    pub kills: u64,
    /// Processes stopped and continued.
    pub stops: u64,
    /// Launchers killed.
    pub launchers: u64,
    /// Waveforms launched.
    pub rounds: u64,
    /// Waveforms that ran until all components had ended.
    pub clean: u64,
    /// Connections.
    pub connections: u64,
    /// Packets, over all connections.
    pub count: Count,
    /// Packets neither received nor reported, over all connections.
    pub unaccounted: u64,
    /// Nanoseconds from the death of a launcher to the end of the components.
    pub outlived_ns: Vec<u64>,
    /// Outputs that moved to another transport.
    pub moves: u64,
    /// Moves that were refused, or not confirmed in time.
    pub refused: u64,
    /// Processes that died at a fail point of a move.
    pub deaths: BTreeMap<&'static str, u64>,
}

impl RunTally {
    /// Adds the figures of another round.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.stops += other.stops;
        self.launchers += other.launchers;
        self.rounds += other.rounds;
        self.clean += other.clean;
        self.connections += other.connections;
        self.count.add(other.count);
        self.unaccounted += other.unaccounted;
        self.outlived_ns.extend(other.outlived_ns);
        self.moves += other.moves;
        self.refused += other.refused;
        for (point, deaths) in other.deaths {
            *self.deaths.entry(point).or_default() += deaths;
        }
    }
}

/// A violation, with everything that is needed to repeat the round.
#[derive(Debug)]
pub struct Violation {
    /// The seed of the round.
    pub seed: u64,
    /// The option for rounds of this kind.
    pub option: &'static str,
    /// The problem.
    pub problem: String,
    /// The waveform file.
    pub waveform: String,
    /// The output of the launcher and the components.
    pub printed: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = std::env::temp_dir().join(format!("stripline-torture-{}.toml", self.seed));
        writeln!(f, "{}", self.problem)?;
        if !self.printed.is_empty() {
            writeln!(f, "printed by the waveform:\n{}", self.printed.trim_end())?;
        }
        match std::fs::write(&path, &self.waveform) {
            Ok(()) => writeln!(f, "waveform file: {}", path.display())?,
            Err(error) => writeln!(f, "{}: {error}\n{}", path.display(), self.waveform)?,
        }
        let (option, seed) = (self.option, self.seed);
        write!(f, "again: stripline-torture torture --waveforms {option} 1 --lanes 1 --seed {seed}")
    }
}

/// Runs the round of a seed.
///
/// # Errors
/// The first violation of the contract.
pub fn round(seed: u64, goal: Goal, interrupted: &AtomicBool) -> Result<RunTally, Violation> {
    let (plan, option) = match goal {
        Goal::Kills(_) => (Plan::new(seed), "--kills"),
        Goal::Moves(_) => (Plan::of_moves(seed), "--moves"),
        Goal::DeadlyMoves(_) => (Plan::of_deadly_moves(seed), "--deadly --moves"),
    };
    let violation = |problem, waveform, printed| Violation { seed, option, problem, waveform, printed };
    let mut round = Round::launch(&plan, goal, Rng::new(mix(!seed)))
        .map_err(|problem| violation(problem, String::new(), String::new()))?;
    let outcome = round.run(interrupted);
    let mut printed = String::from_utf8_lossy(&round.printed.bytes()).into_owned();
    if let Ok(Some(RunReport { failure: Some(failure), .. })) = round.report() {
        printed.push_str(&failure);
    }
    outcome.map(|()| std::mem::take(&mut round.tally)).map_err(|problem| {
        if let Some(point) = round.fail_point {
            printed.push_str(&format!("processes die at `{point}`\n"));
        }
        let waveform = String::from_utf8_lossy(&round.waveform.bytes()).into_owned();
        violation(problem, waveform, printed)
    })
}

struct Round<'a> {
    plan: &'a Plan,
    goal: Goal,
    dice: Rng,
    waveform: Memory,
    logs: Vec<Memory>,
    enough: Memory,
    report: Memory,
    printed: Memory,
    launcher: Launcher,
    /// The times at which the process of each component was killed.
    kills: BTreeMap<usize, Vec<u64>>,
    /// The abstract names of the waveform's sockets.
    names: BTreeSet<String>,
    launcher_killed_ns: Option<u64>,
    is_stopped: bool,
    /// Requests for moves. Each thread returns whether the move was made.
    moves: Vec<JoinHandle<bool>>,
    /// The fail point of a move at which processes die.
    fail_point: Option<&'static str>,
    tally: RunTally,
}

/// The launcher's process. When it ends, the components end too.
struct Launcher(Child);

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Round<'a> {
    fn launch(plan: &'a Plan, goal: Goal, mut rng: Rng) -> Result<Self, String> {
        let logs: Vec<_> = plan.components.iter().map(|_| Memory::new()).collect::<Result<_, _>>()?;
        let (waveform, enough) = (Memory::new()?, Memory::new()?);
        let (report, printed) = (Memory::new()?, Memory::new()?);
        let paths: Vec<_> = logs.iter().map(Memory::path).collect();
        waveform.write(plan.file(&paths).as_bytes());
        let points = points_of_moves();
        let dies = plan.has_moves && rng.below(2) == 0 && !matches!(goal, Goal::Moves(_));
        let fail_point = dies.then(|| points[rng.below(points.len() as u64) as usize]);
        let mut command = Command::new("/proc/self/exe");
        if let Some(point) = fail_point {
            command.env(fail_point::VARIABLE, format!("{point}:1"));
        }
        let child = command
            .env(LAUNCH, waveform.path())
            .env(ENOUGH, enough.path())
            .stdin(Stdio::null())
            .stdout(report.file()?)
            .stderr(printed.file()?)
            // Ctrl-C ends the torture, which then ends the launcher.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start a launcher: {e}"))?;
        Ok(Self {
            plan,
            goal,
            dice: rng,
            waveform,
            logs,
            enough,
            report,
            printed,
            launcher: Launcher(child),
            kills: BTreeMap::new(),
            names: BTreeSet::new(),
            launcher_killed_ns: None,
            is_stopped: false,
            moves: Vec::new(),
            fail_point,
            tally: RunTally { rounds: 1, ..RunTally::default() },
        })
    }

    fn run(&mut self, interrupted: &AtomicBool) -> Result<(), String> {
        match self.goal {
            Goal::Kills(_) | Goal::DeadlyMoves(_) => self.torture(interrupted)?,
            Goal::Moves(_) => self.move_around(interrupted)?,
        }
        self.enough.write(b"enough");
        let ends_by_itself = matches!(self.goal, Goal::Moves(_));
        if !ends_by_itself && self.dice.below(8) == 0 {
            self.pause(20_000);
            self.kill_launcher();
        } else if !ends_by_itself && self.dice.below(4) == 0 {
            self.is_stopped = true;
            self.signal(self.launcher.0.id(), Signal::TERM);
        }
        self.await_end()?;
        self.collect_moves(0)?;
        self.enter_deaths()?;
        self.check()
    }

    /// Kills and stops processes at random moments, until there are enough kills.
    fn torture(&mut self, interrupted: &AtomicBool) -> Result<(), String> {
        let kills = 2 + self.dice.below(11);
        // In some rounds, processes die while the waveform starts.
        if self.dice.below(4) > 0 {
            self.await_start()?;
        }
        let sample_at = self.dice.below(kills);
        let started = Instant::now();
        // Relaxed: the flag orders no other data.
        while self.tally.kills < kills && !interrupted.load(Ordering::Relaxed) {
            if self.launcher_killed_ns.is_some() || self.has_ended()? || started.elapsed() > ROUND {
                break;
            }
            if self.tally.kills == sample_at {
                self.names.extend(names_of(self.children().into_iter().map(|(pid, _)| pid)));
            }
            let time = [1000, 20_000, 100_000][self.dice.below(3) as usize];
            self.pause(time);
            match self.goal {
                Goal::DeadlyMoves(_) => self.request_moves()?,
                _ if self.plan.has_moves && self.moves.len() < MOVES_MAX => self.request_move(),
                _ => {}
            }
            match self.dice.below(40) {
                0 => self.kill_launcher(),
                1 => self.stop_for_a_while(self.launcher.0.id()),
                2..8 => {
                    if let Some((pid, _)) = self.victim() {
                        self.stop_for_a_while(pid);
                    }
                }
                _ => self.kill_component(),
            }
        }
        Ok(())
    }

    /// Requests random moves, several at the same time.
    fn move_around(&mut self, interrupted: &AtomicBool) -> Result<(), String> {
        self.await_start()?;
        let started = Instant::now();
        // Relaxed: the flag orders no other data.
        for _ in 0..4 + self.dice.below(MANY_MOVES - 3) {
            if interrupted.load(Ordering::Relaxed) || self.has_ended()? || started.elapsed() > ROUND {
                break;
            }
            let pending = self.dice.below(PENDING_MAX) as usize;
            self.collect_moves(pending)?;
            self.request_move();
            let time = [100, 5000, 50_000][self.dice.below(3) as usize];
            self.pause(time);
        }
        self.collect_moves(0)
    }

    /// Requests the moves between two kills.
    fn request_moves(&mut self) -> Result<(), String> {
        for _ in 0..self.dice.below(8) {
            let pending = self.dice.below(PENDING_MAX) as usize;
            self.collect_moves(pending)?;
            self.request_move();
            let time = [100, 5000][self.dice.below(2) as usize];
            self.pause(time);
        }
        Ok(())
    }

    /// Waits for the oldest requests for moves, until at most `pending` are left.
    fn collect_moves(&mut self, pending: usize) -> Result<(), String> {
        while self.moves.len() > pending {
            let is_made = self.moves.remove(0).join().map_err(|_| "a request of a move panicked")?;
            self.tally.moves += u64::from(is_made);
            self.tally.refused += u64::from(!is_made);
        }
        Ok(())
    }

    /// Requests to move an output to another transport. Kills go on in the meantime.
    fn request_move(&mut self) {
        let index = self.dice.below(self.plan.connections.len() as u64) as usize;
        let transports: Vec<&str> = match self.goal {
            Goal::Kills(_) | Goal::DeadlyMoves(_) => vec!["shm", "uds", "tcp"],
            // A user has few message queues.
            Goal::Moves(_) => users_transports().filter(|name| *name != "mqueue").collect(),
        };
        let transport = transports[self.dice.below(transports.len() as u64) as usize];
        let setting = Setting {
            component: name(self.plan.connections[index].from),
            property: "out:transport".into(),
            value: transport.into(),
        };
        let launcher = self.launcher.0.id();
        self.moves.push(std::thread::spawn(move || {
            // The launcher may be dead, or the component may be about to be restarted.
            let Ok(client) = ControlClient::find("torture", Some(launcher)) else { return false };
            let changes = client.set(&[setting], MOVE_TIME).unwrap_or_default();
            !changes.is_empty() && changes.iter().all(|change| change.taken == ChangeState::Applied)
        }));
    }

    /// Enters the deaths at fail points, which the logs contain.
    fn enter_deaths(&mut self) -> Result<(), String> {
        let Some(point) = self.fail_point else { return Ok(()) };
        let mut times = BTreeSet::new();
        for (index, log) in self.logs.iter().enumerate() {
            for record in log.records().map_err(|wrong| format!("{}: {wrong}", name(index)))? {
                if let Record::Dies { at_ns } = record {
                    times.insert(at_ns);
                    self.kills.entry(index).or_default().push(at_ns);
                }
            }
        }
        self.kills.values_mut().for_each(|kills| kills.sort_unstable());
        if !times.is_empty() {
            // Components of one process die at the same time.
            self.tally.kills += times.len() as u64;
            *self.tally.deaths.entry(point).or_default() += times.len() as u64;
        }
        Ok(())
    }

    fn await_start(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.logs.iter().any(Memory::is_written) && !self.has_ended()? {
            if Instant::now() > deadline {
                return Err("the waveform does not start".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn pause(&mut self, microseconds: u64) {
        std::thread::sleep(Duration::from_micros(self.dice.below(microseconds)));
    }

    fn has_ended(&mut self) -> Result<bool, String> {
        let status = self.launcher.0.try_wait().map_err(|e| format!("cannot wait for the launcher: {e}"))?;
        Ok(status.is_some())
    }

    /// Returns the processes of components, with the components in them.
    fn children(&self) -> Vec<(u32, Vec<usize>)> {
        let launcher = self.launcher.0.id();
        let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(|pid| Some((pid, self.components_in(pid)?))).collect()
    }

    /// Returns the components in a process, if the process runs components.
    fn components_in(&self, pid: u32) -> Option<Vec<usize>> {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let names = command.split('\0').skip_while(|word| *word != "component").nth(1)?;
        let index = |of: &str| (0..self.plan.components.len()).find(|index| name(*index) == of);
        Some(names.split(", ").filter_map(index).collect())
    }

    /// Chooses a process to kill or to stop. In most cases it is a process that the launcher
    /// restarts.
    fn victim(&mut self) -> Option<(u32, Vec<usize>)> {
        let is_restarted = |index: &usize| {
            let kills = self.kills.get(index).map_or(0, Vec::len);
            // Moves kill processes too, and the launcher counts these deaths.
            let others = if self.fail_point.is_some() { MOVES_MAX } else { 0 };
            self.plan.components[*index].is_restarted && kills + others < RESTARTS_MAX
        };
        let (mut often, rarely): (Vec<_>, Vec<_>) =
            self.children().into_iter().partition(|(_, components)| components.iter().all(is_restarted));
        if !rarely.is_empty() && (often.is_empty() || self.dice.below(20) == 0) {
            often = rarely;
        }
        let index = self.dice.below(often.len().max(1) as u64) as usize;
        (index < often.len()).then(|| often.swap_remove(index))
    }

    fn kill_component(&mut self) {
        let Some((pid, _)) = self.victim() else { return };
        let Some(process) = open(pid) else { return };
        // The process may have died, and the number may belong to another process now.
        let Some(components) = self.components_in(pid) else { return };
        let now = now_ns();
        if pidfd_send_signal(process.as_fd(), Signal::KILL).is_ok() {
            self.tally.kills += 1;
            components.into_iter().for_each(|index| self.kills.entry(index).or_default().push(now));
        }
    }

    fn kill_launcher(&mut self) {
        if self.launcher_killed_ns.is_none() && matches!(self.has_ended(), Ok(false)) {
            self.launcher_killed_ns = Some(now_ns());
            let _ = self.launcher.0.kill();
            self.tally.kills += 1;
            self.tally.launchers += 1;
        }
    }

    /// Stops a process for a while. Sometimes kills a component in the meantime.
    fn stop_for_a_while(&mut self, pid: u32) {
        let Some(process) = open(pid) else { return };
        if pid != self.launcher.0.id() && self.components_in(pid).is_none() {
            return;
        }
        if pidfd_send_signal(process.as_fd(), Signal::STOP).is_ok() {
            self.tally.stops += 1;
        }
        self.pause(30_000);
        if self.dice.below(4) == 0 && pid != self.launcher.0.id() {
            self.kill_component();
        }
        // The process may be dead.
        let _ = pidfd_send_signal(process.as_fd(), Signal::CONT);
    }

    fn signal(&self, pid: u32, signal: Signal) {
        if let Some(process) = open(pid) {
            // The process may have ended.
            let _ = pidfd_send_signal(process.as_fd(), signal);
        }
    }

    /// Waits until no process and no name of the waveform is left.
    fn await_end(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while !self.has_ended()? {
            if started.elapsed() > HANGS {
                return Err(format!("the waveform hangs: {:?} have not ended", self.children()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let marker = format!("{ENOUGH}={}", self.enough.path());
        let left = || processes_with(&marker);
        await_none("processes", left)?;
        if let Some(killed_ns) = self.launcher_killed_ns {
            self.tally.outlived_ns.push(now_ns() - killed_ns);
        }
        let names = std::mem::take(&mut self.names);
        await_none("sockets", || abstract_names().intersection(&names).cloned().collect())
    }

    fn check(&mut self) -> Result<(), String> {
        let report = self.report()?;
        let failure = report.as_ref().and_then(|report| report.failure.clone());
        // A waveform that is stopped before it runs does not restart anything.
        let never_ran = self.is_stopped && report.as_ref().is_some_and(|report| report.duration_s == 0.0);
        if let Some(failure) = failure.filter(|_| !self.may_fail() && !never_ran) {
            return Err(format!("the waveform failed for no reason: {failure}"));
        }
        let mut lives: Vec<Vec<Life>> = Vec::new();
        for (index, log) in self.logs.iter().enumerate() {
            let kills = self.kills.get(&index).map_or(&[][..], Vec::as_slice);
            let wrong = |wrong| format!("{}: {wrong}", name(index));
            let of_component = ledger::lives(&log.records().map_err(wrong)?, kills).map_err(wrong)?;
            if of_component.len() > kills.len() + 1 {
                return Err(format!("{} was started again without being killed", name(index)));
            }
            lives.push(of_component);
        }
        for (index, connection) in self.plan.connections.iter().enumerate() {
            let count = ledger::check(self.plan, connection, &lives)?;
            self.tally.connections += 1;
            self.tally.count.add(count);
            self.tally.unaccounted += count.unaccounted();
            if let Some(report) = report.as_ref().filter(|report| report.failure.is_none()) {
                compare(&count, report, index)?;
            }
        }
        self.tally.clean += u64::from(report.is_some_and(|report| report.failure.is_none()));
        Ok(())
    }

    /// Returns the launcher's report, unless the launcher was killed.
    fn report(&self) -> Result<Option<RunReport>, String> {
        let bytes = self.report.bytes();
        match serde_json::from_slice(&bytes) {
            Ok(report) => Ok(Some(report)),
            Err(_) if self.launcher_killed_ns.is_some() => Ok(None),
            // The stop came before the start was complete.
            Err(_) if self.is_stopped && bytes.is_empty() => Ok(None),
            Err(error) => Err(format!("the launcher ended without a report: {error}")),
        }
    }

    /// Returns whether the kills are a reason for the waveform to fail.
    fn may_fail(&self) -> bool {
        self.kills
            .iter()
            .any(|(index, kills)| !self.plan.components[*index].is_restarted || kills.len() > RESTARTS_MAX)
    }
}

/// Compares the logs with the launcher's figures, if neither end was killed.
fn compare(count: &Count, report: &RunReport, index: usize) -> Result<(), String> {
    let Some(connection) = report.connections.get(index).filter(|_| count.is_whole) else { return Ok(()) };
    let reported = (connection.sent, connection.packets, connection.lost);
    if reported != (Some(count.sent), count.received, count.missing) {
        let (from, to) = (&connection.from, &connection.to);
        return Err(format!("{from} -> {to}: the launcher reports {reported:?}, the ledger has {count:?}"));
    }
    Ok(())
}

/// Opens a handle of a process. The handle stays valid for this process even if another process
/// gets the number.
fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until none is left.
fn await_none<T: fmt::Debug>(what: &str, left: impl Fn() -> Vec<T>) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = left();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("left behind: {what} {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
