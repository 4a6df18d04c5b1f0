//! The check against this machine: processors that spinning threads occupy, and limits of the
//! system.

use std::collections::BTreeSet;

use rustix::process::{Resource, getrlimit};
use stripline::terms::WaitStrategy;

use super::components::CheckedComponent;
use super::connections::{ConnectionEnd, ResolvedConnection};
use super::diagnostics::{Code, Diagnostic, Diagnostics};
use super::text::count;

/// Descriptors of a launcher, and additional ones for each component, as counted on runs.
const LAUNCHER_DESCRIPTORS: (u64, u64) = (21, 3);
/// Descriptors of a component process, and additional ones for each component and each output port
/// in it.
const PROCESS_DESCRIPTORS: (u64, u64, u64) = (8, 1, 5);
/// The bytes that each message takes in a message queue, and the maximum number of messages under
/// the default settings of the system.
const MESSAGE_BYTES: u64 = 8192 + 104;
const MESSAGES_MAX: u64 = 10;
/// The address space that each process needs besides the executable and the rings. The process
/// checks it at the start.
const PROCESS_BYTES: u64 = 64 << 20;

/// The limits of this process; `None` is unlimited. At the start of a process only the soft limit
/// of descriptors is raised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    descriptors: Option<u64>,
    file_bytes: Option<u64>,
    locked_bytes: Option<u64>,
    queue_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    /// The address space of this process, which runs the same executable as the stock components.
    own_bytes: u64,
}

impl Limits {
    pub(super) fn of_this_process() -> Self {
        let soft = |resource| getrlimit(resource).current;
        Self {
            descriptors: getrlimit(Resource::Nofile).maximum,
            file_bytes: soft(Resource::Fsize),
            locked_bytes: soft(Resource::Memlock).filter(|_| !may_lock_everything()),
            queue_bytes: soft(Resource::Msgqueue),
            memory_bytes: soft(Resource::As),
            own_bytes: own_bytes(),
        }
    }
}

/// Returns the address space of this process; 0 if it is unknown.
fn own_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Returns whether this process has `CAP_IPC_LOCK`.
fn may_lock_everything() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

/// The processors and the real-time priority of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule<'a> {
    pub priority: Option<u8>,
    pub cpus: &'a [usize],
}

impl Schedule<'_> {
    /// Returns whether a component with this schedule that spins leaves the other component no
    /// time: the priority is at least as high, and the processors include every processor that the
    /// other component may use.
    pub(super) fn starves(self, other: Self) -> bool {
        let is_above = self.priority.is_some_and(|priority| other.priority.unwrap_or(0) <= priority);
        is_above && !other.cpus.is_empty() && other.cpus.iter().all(|cpu| self.cpus.contains(cpu))
    }
}

/// Warns about threads that occupy the processor of the other end of a connection, and about limits
/// of the system that a run would reach.
pub(super) fn check(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    limits: Limits,
    found: &mut Diagnostics,
) {
    for link in links {
        let (Some(from), Some(to)) = (link.from, link.to) else { continue };
        spins(link, [&components[from.component], &components[to.component]], found);
        link_limits(link, limits, found);
    }
    sums(links, components, limits, found);
}

fn spins(link: &ResolvedConnection, [sender, receiver]: [&CheckedComponent; 2], found: &mut Diagnostics) {
    if link.draft.options.wait != WaitStrategy::Spin {
        return;
    }
    for (spinning, other) in [(receiver, sender), (sender, receiver)] {
        let [own, others] = [spinning, other].map(|it| Schedule { priority: it.priority, cpus: &it.cpus });
        if let Some(priority) = own.priority.filter(|_| own.starves(others)) {
            let (name, other) = (&spinning.name.value, &other.name.value);
            let message = format!(
                "`{name}` spins at real-time priority {priority} on the processor of `{other}`, and leaves it no time"
            );
            let remedy = format!(
                "give `{name}` and `{other}` different processors, leave out `priority`, or write wait = \"block\""
            );
            let place = link.draft.places.get("wait").unwrap_or(link.draft.place("to"));
            found.push(Diagnostic::warning(Code::SpinUnfit, place, message).help(remedy));
        }
    }
}

/// Warns about a ring that is larger than the limit for files, because shared memory is a file.
fn link_limits(link: &ResolvedConnection, limits: Limits, found: &mut Diagnostics) {
    let bytes = u64::from(link.draft.options.buffer);
    let Some(limit) = limits.file_bytes.filter(|limit| link.transport == "shm" && bytes >= *limit) else {
        return;
    };
    let message = format!(
        "the ring of this connection has {bytes} bytes, and a file may have {limit} here (RLIMIT_FSIZE)"
    );
    let remedy = "lower `buffer`, use transport = \"uds\", or raise the limit (`ulimit -f`)";
    let place = link.draft.places.get("buffer").unwrap_or(link.draft.place("from"));
    found.push(Diagnostic::warning(Code::Limit, place, message).help(remedy));
}

/// Warns about limits that all connections of a process, or of the user, reach together.
fn sums(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    limits: Limits,
    found: &mut Diagnostics,
) {
    let exceeds = |sum: u64, limit: Option<u64>| limit.filter(|limit| sum > *limit);
    let Some(last) = components.last() else { return };
    let mut warn = |place, message: String, remedy: &str| {
        found.push(Diagnostic::warning(Code::Limit, place, message).help(remedy));
    };
    let files_remedy = "raise the hard limit (`ulimit -Hn` as root, or `LimitNOFILE=` of a systemd unit)";
    let needed = LAUNCHER_DESCRIPTORS.0 + LAUNCHER_DESCRIPTORS.1 * components.len() as u64;
    if let Some(limit) = exceeds(needed, limits.descriptors) {
        let components = components.len();
        let message = format!(
            "the launcher of {components} components needs about {needed} descriptors, and may open {limit} (RLIMIT_NOFILE)"
        );
        warn(&last.name.place, message, files_remedy);
    }
    for process in processes(components) {
        let is_inside = |end: &ConnectionEnd| process.contains(&end.component);
        let ends =
            |link: &ResolvedConnection| [link.from, link.to].into_iter().flatten().filter(is_inside).count();
        let joined: Vec<&ResolvedConnection> = links.iter().filter(|link| ends(link) > 0).collect();
        let first = &components[process[0]].name;
        let name = match process.len() {
            1 => format!("the process of `{}`", first.value),
            many => format!("the process of `{}` and {} more", first.value, many - 1),
        };
        let outputs: BTreeSet<_> = joined
            .iter()
            .filter_map(|link| link.from.filter(is_inside))
            .map(|end| (end.component, end.port))
            .collect();
        let members = process.len() as u64;
        let (base, each, output) = PROCESS_DESCRIPTORS;
        let of_links: u64 =
            joined.iter().map(|link| ends(link) as u64 * link_descriptors(&link.transport)).sum();
        let needed = base + each * members + output * outputs.len() as u64 + of_links;
        if let Some(limit) = exceeds(needed, limits.descriptors) {
            let message = format!(
                "{name} needs about {needed} descriptors for its {}, and may open {limit} (RLIMIT_NOFILE)",
                count(joined.len(), "connection"),
            );
            warn(&first.place, message, files_remedy);
        }
        let locked = ring_bytes(joined.iter().copied().filter(|link| link.draft.options.locked));
        if let Some(limit) = exceeds(locked, limits.locked_bytes) {
            let place = joined.iter().find_map(|link| link.draft.places.get("locked"));
            let message =
                format!("{name} locks about {locked} bytes of memory, and may lock {limit} (RLIMIT_MEMLOCK)");
            let remedy =
                "lower `buffer`, leave out `locked`, or raise the limit (`ulimit -l`, `LimitMEMLOCK=`)";
            warn(place.unwrap_or(&first.place), message, remedy);
        }
        let mapped = limits.own_bytes + PROCESS_BYTES + ring_bytes(joined.iter().copied());
        if let Some(limit) = exceeds(mapped, limits.memory_bytes) {
            let message = format!(
                "{name} needs about {mapped} bytes of address space, and may have {limit} (RLIMIT_AS)"
            );
            warn(&first.place, message, "lower `buffer`, or raise the limit (`ulimit -v`, `LimitAS=`)");
        }
    }
    let queues: Vec<&ResolvedConnection> = links.iter().filter(|link| link.transport == "mqueue").collect();
    let messages = |link: &&ResolvedConnection| u64::from(link.draft.options.depth).min(MESSAGES_MAX);
    let queued = queues.iter().map(messages).sum::<u64>() * MESSAGE_BYTES;
    if let (Some(limit), Some(link)) = (exceeds(queued, limits.queue_bytes), queues.last()) {
        let place = link.draft.places.get("transport").unwrap_or(link.draft.place("to"));
        let message = format!(
            "the {} message queues need about {queued} bytes, and all of this user may have {limit} \
             (RLIMIT_MSGQUEUE)",
            queues.len()
        );
        warn(place, message, "use transport = \"uds\", lower `depth`, or raise the limit (`ulimit -q`)");
    }
}

/// Returns the components of each process.
fn processes(components: &[CheckedComponent]) -> Vec<Vec<usize>> {
    let mut processes: Vec<Vec<usize>> = Vec::new();
    for (index, component) in components.iter().enumerate() {
        let shared = |process: &&mut Vec<usize>| component.shares_process(&components[process[0]]);
        match processes.iter_mut().find(shared) {
            Some(process) => process.push(index),
            None => processes.push(vec![index]),
        }
    }
    processes
}

/// Returns the number of descriptors at one end of a connection, as counted on runs.
fn link_descriptors(transport: &str) -> u64 {
    match transport {
        "inproc" => 0,
        "shm" => 4,
        "mqueue" => 3,
        _ => 2,
    }
}

/// Returns the address space that the rings of these connections take in a process. Each ring is
/// mapped twice. The receivers of an output share a ring.
fn ring_bytes<'l>(links: impl Iterator<Item = &'l ResolvedConnection>) -> u64 {
    let rings = links.filter(|link| link.transport == "shm");
    let rings: BTreeSet<_> = rings.map(|link| (link.from, link.draft.options.buffer)).collect();
    rings.iter().map(|(_, buffer)| 2 * u64::from(*buffer)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_starved_without_a_processor_of_its_own() {
        let schedule = |priority, cpus| Schedule { priority, cpus };
        let spinning = schedule(Some(50), &[0, 1]);
        assert!(spinning.starves(schedule(None, &[1])));
        assert!(spinning.starves(schedule(Some(50), &[0])));
        assert!(!spinning.starves(schedule(Some(51), &[0])));
        assert!(!spinning.starves(schedule(None, &[1, 2])));
        assert!(!spinning.starves(schedule(None, &[])));
        assert!(!schedule(None, &[0]).starves(schedule(None, &[0])));
    }
}
