//! Names in a folder that outlive a killed process. A name contains the process that made it and
//! the time at which that process was started, so that the next process can remove the names of
//! dead processes.

use std::path::{Path, PathBuf};

use stripline::carrier::process::start_time;
use stripline::{Error, Result};

/// Names of one kind, with the same folder and prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedNames {
    pub folder: &'static str,
    pub prefix: &'static str,
}

impl OwnedNames {
    /// Returns a unique name of this process, after removing the names of dead processes.
    ///
    /// # Errors
    /// A lack of random numbers, or of `/proc`.
    pub(crate) fn make(self) -> Result<String> {
        self.remove_dead();
        let random = getrandom::u64().map_err(|e| Error::of_system(format!("no random numbers: {e}")))?;
        let Owner { space, pid, start } = Owner::current()?;
        Ok(format!("{}{space}-{pid}-{start}-{random:016x}", self.prefix))
    }

    /// Returns whether a name, or the beginning of one, is of this kind.
    #[cfg(any(feature = "iceoryx2", test))]
    pub(crate) fn has(self, name: &str) -> bool {
        self.owner(name).is_some()
    }

    /// Returns the path of a name.
    pub(crate) fn path(self, name: &str) -> PathBuf {
        Path::new(self.folder).join(name)
    }

    /// Removes the names of processes that have ended.
    pub(crate) fn remove_dead(self) {
        self.remove(|name| self.owner(name).is_some_and(|owner| owner.is_dead()));
    }

    /// Removes the names that pass the check, with their content.
    pub(crate) fn remove(self, is_removed: impl Fn(&str) -> bool) {
        let Ok(entries) = std::fs::read_dir(self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(self.prefix)) else { continue };
            if is_removed(name) {
                // The names of another user stay, and another process may already have removed the
                // same name.
                let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => std::fs::remove_dir_all(entry.path()),
                    false => std::fs::remove_file(entry.path()),
                };
            }
        }
    }

    fn owner(self, name: &str) -> Option<Owner> {
        let mut words = name.strip_prefix(self.prefix)?.split('-');
        let (space, pid, start) = (words.next()?, words.next()?, words.next()?);
        let owner = Owner { space: space.parse().ok()?, pid: pid.parse().ok()?, start: start.parse().ok()? };
        let random = words.next()?.get(..16)?;
        random.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(owner)
    }
}

/// The process that owns names.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    /// The namespace of process ids.
    space: u64,
    pid: u32,
    /// The time at which the process was started, in the kernel's ticks.
    start: u64,
}

impl Owner {
    fn current() -> Result<Self> {
        let pid = std::process::id();
        let failed = || Error::of_system("/proc does not show this process; mount it");
        Ok(Self { space: own_space().ok_or_else(failed)?, pid, start: start_time(pid).ok_or_else(failed)? })
    }

    /// Returns whether the process has ended. A process of another namespace cannot be found, and
    /// counts as alive.
    fn is_dead(&self) -> bool {
        own_space() == Some(self.space) && start_time(self.pid) != Some(self.start)
    }
}

/// Returns the number of this process's namespace of process ids.
fn own_space() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-owned-test-" };

    #[test]
    fn names_of_the_dead_are_removed_and_others_stay() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (space, pid) = (own_space().unwrap(), child.id());
        let start = start_time(pid).unwrap();
        let name = |start: u64| format!("{}{space}-{pid}-{start}-0123456789abcdef", NAMES.prefix);
        let (own, other_start) = (name(start), name(start + 1));
        let strangers = [
            format!("{}{}-{pid}-{}-0123456789abcdef", NAMES.prefix, space + 1, start + 1),
            format!("{}{pid}-of-a-user", NAMES.prefix),
        ];
        let path = |name: &str| NAMES.path(name);
        for name in [&own, &other_start, &strangers[0], &strangers[1]] {
            std::fs::write(path(&format!("{name}.data")), "").unwrap();
            std::fs::create_dir_all(path(name).join("nodes")).unwrap();
        }
        let there = |name: &str| [path(name), path(&format!("{name}.data"))].map(|path| path.exists());
        NAMES.remove_dead();
        assert_eq!((there(&own), there(&other_start)), ([true; 2], [false; 2]));
        child.kill().unwrap();
        child.wait().unwrap();
        NAMES.remove_dead();
        assert_eq!(there(&own), [false; 2]);
        for name in &strangers {
            assert_eq!(there(name), [true; 2], "{name}");
            std::fs::remove_file(path(&format!("{name}.data"))).unwrap();
            std::fs::remove_dir_all(path(name)).unwrap();
        }
    }

    #[test]
    fn a_name_is_of_its_kind_alone() {
        let name = NAMES.make().unwrap();
        assert!(NAMES.has(&name) && NAMES.has(&format!("{name}.data")));
        assert!(!OwnedNames { prefix: "stripline-other-", ..NAMES }.has(&name));
        assert!(!NAMES.has("stripline-owned-test-1-2-3-zzzzzzzzzzzzzzzz"));
    }
}
