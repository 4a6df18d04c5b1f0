//! Traces that processes might leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stripline::node::{Node, Topics};

/// The time after which all threads that wait for a peer have given up.
const SETTLE_TIME: Duration = Duration::from_secs(20);

/// The resources of this process, and the resources of the library on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    descriptors: usize,
    threads: usize,
    files: BTreeSet<PathBuf>,
}

impl Inventory {
    /// Takes an inventory of the present state.
    pub fn take() -> Self {
        let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
        let mut files = ours(Path::new("/dev/shm"));
        if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR") {
            files.extend(ours(folder.as_ref()));
        }
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        let threads = names.filter(|name| !is_of_library(name)).count();
        Self { descriptors: count("/proc/self/fd"), threads, files }
    }

    /// Returns whether this inventory has nothing that the other one does not have. A smaller
    /// inventory is fine, because a library may release resources that it needed for its start.
    fn is_within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.files.is_subset(&before.files)
    }

    /// Waits until there is nothing more than before and none of these abstract names is left.
    ///
    /// # Errors
    /// The differences that remain.
    pub fn wait_until_back(&self, names: &BTreeSet<String>) -> Result<(), String> {
        let deadline = Instant::now() + SETTLE_TIME;
        loop {
            let now = Self::take();
            let left: Vec<_> = abstract_names().intersection(names).cloned().collect();
            if now.is_within(self) && left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("left behind: before {self:?}, now {now:?}, sockets {left:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Makes a link over a transport in this process, and ends it. Afterwards, resources that the
/// transport's library keeps for the life of the process exist. Also, names that killed processes
/// left to the next port are removed.
///
/// # Errors
/// When the link cannot be made.
pub fn make_link(transport: &str) -> Result<(), String> {
    let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'"));
    let domain = format!("torture-{}-first", std::process::id());
    let linked = topics.and_then(|topics| {
        let node = Node::join(&domain, topics)?;
        let mut publisher = node.publisher::<u8>("first")?;
        let _subscriber = node.subscriber::<u8>("first")?;
        publisher.wait_for_receivers(1, SETTLE_TIME)
    });
    match linked {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("a link over {transport} is not made within {SETTLE_TIME:?}")),
        Err(error) => Err(format!("a link over {transport}: {error}")),
    }
}

/// Returns whether a thread belongs to zenoh or Cyclone DDS. Such threads run as long as the
/// process.
fn is_of_library(name: &str) -> bool {
    let zenoh = ["app-", "acc-", "tx-", "rx-", "net-"];
    let cyclone = ["dq.", "recv", "tev", "gc"];
    zenoh.iter().chain(&cyclone).any(|prefix| name.starts_with(prefix))
}

/// Returns the abstract Unix names on this host, without the `@`.
pub fn abstract_names() -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    table.lines().filter_map(|line| Some(line.rsplit_once(" @")?.1.to_string())).collect()
}

/// Returns the abstract Unix names of the sockets of these processes, without the `@`.
pub fn names_of(pids: impl Iterator<Item = u32>) -> BTreeSet<String> {
    let links = pids.flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten());
    let targets = links.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode = |path: PathBuf| Some(path.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string());
    let inodes: BTreeSet<_> = targets.filter_map(inode).collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // Num RefCount Protocol Flags Type St Inode Path
    let bound = table.lines().filter_map(|line| Some((line.split_ascii_whitespace().nth(6)?, line)));
    let ours = bound.filter(|(inode, _)| inodes.contains(*inode));
    ours.filter_map(|(_, line)| Some(line.rsplit_once(" @")?.1.to_string())).collect()
}

/// Returns the processes with this `NAME=value` in their environment.
pub fn processes_with(variable: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|of| of == variable.as_bytes())
    };
    pids.filter(has).collect()
}

/// Returns the abstract name of the rendezvous of a domain.
pub fn meeting_point(domain: &str) -> String {
    format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw())
}

/// Returns whether a folder of iceoryx2 belongs to another process that is alive. All processes of
/// the torture have ended by now.
fn is_of_another(name: &str) -> bool {
    let process = name.strip_prefix("stripline-iceoryx2-").and_then(|rest| rest.split('-').nth(1));
    process.is_some_and(|process| {
        process != std::process::id().to_string() && Path::new("/proc").join(process).exists()
    })
}

/// Returns the entries of a folder that have the library's name, with their content.
fn ours(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().contains("stripline") && !is_of_another(&name.to_string_lossy()) {
            found.extend(ours(&path));
            found.insert(path);
        }
    }
    found
}
