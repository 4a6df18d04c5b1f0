//! Two network namespaces with a link between them that loses, cuts, repeats, delays and reorders
//! frames, as determined by a seed. The link carries any protocol, including multicast.

mod bridge;
mod faults;
mod namespace;

use std::fmt;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

pub use bridge::{Bridge, DirectionFigures};
pub use faults::{Delay, Faults, Only, Share};
pub use namespace::{INTERFACE, Namespace, Problem};

/// The exit code on systems that have no TAP devices or network namespaces, or do not allow them.
pub const NOT_POSSIBLE: u8 = 77;

/// The addresses of the two ends.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];

/// The interval between two checks whether the commands have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Two namespaces and the link between them.
pub struct ImpairedLink {
    /// The namespaces A and B.
    pub namespaces: [Namespace; 2],
    bridge: Bridge,
}

impl ImpairedLink {
    /// Creates both namespaces and starts the link.
    ///
    /// # Errors
    /// When the system does not allow this, or lacks resources.
    pub fn new(faults: Faults, seed: u64) -> Result<Self, Problem> {
        let [(a, device_a), (b, device_b)] = [Namespace::new(ADDRESSES[0])?, Namespace::new(ADDRESSES[1])?];
        let bridge = Bridge::start([device_a, device_b], faults, seed).map_err(Problem::Failed)?;
        Ok(Self { namespaces: [a, b], bridge })
    }

    /// Severs the link: for each end, the other host has vanished.
    pub fn sever(&self) {
        self.bridge.sever();
    }

    /// Mends the severed link.
    pub fn mend(&self) {
        self.bridge.mend();
    }

    /// Ends the link and returns the figures of the link.
    ///
    /// # Errors
    /// When a device has failed.
    pub fn end(self) -> Result<LinkFigures, String> {
        let [a, b] = &self.namespaces;
        let drops = [a.kernel_drops()?, b.kernel_drops()?];
        let [a, b] = self.bridge.end()?;
        Ok(LinkFigures([(a, drops[0]), (b, drops[1])]))
    }
}

/// The figures of both directions, A to B first. Each direction also has the number of frames that
/// the kernel dropped before the bridge could take them.
pub struct LinkFigures([(DirectionFigures, u64); 2]);

impl LinkFigures {
    /// Returns the figures for a report.
    pub fn report(&self) -> Value {
        let [a, b] = self.0.map(|(carried, drops)| json!({"frames": carried, "dropped_by_kernel": drops}));
        json!({"a_to_b": a, "b_to_a": b})
    }
}

impl fmt::Display for LinkFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, (carried, drops)) in ["a to b", "b to a"].into_iter().zip(self.0) {
            let DirectionFigures { counts, left_over, severed, undelivered } = carried;
            writeln!(
                f,
                "impair: {name}: {} frames, {} lost, {} cut, {} duplicated, {} reordered, {} delayed, \
                 {} refused by the queue, {} exempt; {} passed, {severed} after the cut, {left_over} on the way at the end, \
                 {undelivered} not taken, {drops} dropped by the kernel before",
                counts.arrived,
                counts.lost,
                counts.cut,
                counts.duplicated,
                counts.reordered,
                counts.delayed,
                counts.refused,
                counts.exempt,
                counts.passed,
            )?;
        }
        Ok(())
    }
}

/// A pair of commands to run, one in each namespace.
pub struct Impair {
    pub faults: Faults,
    pub seed: u64,
    /// Both commands, with `--` between them.
    pub commands: Vec<String>,
}

impl Impair {
    /// Runs both commands to their end.
    ///
    /// # Errors
    /// When the link cannot be made, or when a command fails. The other command is then killed.
    pub fn run(self) -> Result<(), Problem> {
        let commands = parse_commands(&self.commands).map_err(Problem::Failed)?;
        let link = ImpairedLink::new(self.faults, self.seed)?;
        let [a, b] = ADDRESSES;
        eprintln!("impair: seed {}; A is {a}, B is {b}, both on {INTERFACE}", self.seed);
        let outcome = run_both(&link, commands);
        eprint!("{}", link.end().map_err(Problem::Failed)?);
        outcome.map_err(Problem::Failed)
    }
}

fn parse_commands(words: &[String]) -> Result<[Vec<String>; 2], String> {
    let mut commands = words.split(|word| word == "--").map(<[String]>::to_vec);
    match [commands.next(), commands.next(), commands.next()] {
        [Some(a), Some(b), None] if !a.is_empty() && !b.is_empty() => Ok([a, b]),
        _ => Err("give two commands: impair [OPTIONS] -- COMMAND_A -- COMMAND_B".into()),
    }
}

fn run_both(link: &ImpairedLink, commands: [Vec<String>; 2]) -> Result<(), String> {
    let mut running: Vec<RunningCommand> = Vec::new();
    for ((namespace, words), name) in link.namespaces.iter().zip(commands).zip(["A", "B"]) {
        let program = words.first().cloned().unwrap_or_default();
        let child = namespace.run(move || start(&words))?;
        let child = child.map_err(|e| format!("command {name} cannot be started: `{program}`: {e}"))?;
        running.push(RunningCommand { name, child, status: None });
    }
    loop {
        let mut is_over = true;
        for RunningCommand { name, child, status } in &mut running {
            if status.is_none() {
                *status = child.try_wait().map_err(|e| format!("cannot wait for command {name}: {e}"))?;
            }
            match status {
                Some(status) if !status.success() => return Err(format!("command {name} ended: {status}")),
                Some(_) => {}
                None => is_over = false,
            }
        }
        if is_over {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

fn start(words: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    // The command must not outlive the link.
    let die_with_parent = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec, the function makes one system call and allocates nothing.
    unsafe { command.pre_exec(die_with_parent) };
    command.spawn()
}

/// A command that was started. Dropping it kills the command.
struct RunningCommand {
    name: &'static str,
    child: Child,
    status: Option<ExitStatus>,
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if self.status.is_none() {
            // The command may have ended by now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commands_stand_between_dashes() {
        let parse = |text: &str| parse_commands(&text.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(parse("a b -- c -d").unwrap(), [vec!["a", "b"], vec!["c", "-d"]]);
        for text in ["a", "a --", "-- a", "a -- b -- c", "--"] {
            assert!(parse(text).unwrap_err().contains("two commands"), "{text}");
        }
    }
}
