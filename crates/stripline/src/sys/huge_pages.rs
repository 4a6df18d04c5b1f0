//! Huge pages and locked memory: the state of the system, and the remedies when it refuses.

use crate::error::{Error, Result};

/// Huge pages of the default size, as listed in `/proc/meminfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HugePages {
    /// The size of a page, in bytes.
    pub size: usize,
    /// The number of pages reserved on this machine.
    pub total: u64,
    /// The number of reserved pages that are neither used nor promised to a process.
    pub free: u64,
}

impl HugePages {
    /// Reads the present numbers.
    ///
    /// # Errors
    /// The kernel has no huge pages, or does not list them.
    pub(crate) fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo")
            .map_err(|e| Error::system("cannot read /proc/meminfo", e))?;
        Self::parse(&text)
            .ok_or_else(|| Error::of_system("this system has no huge pages; leave out `huge-pages`"))
    }

    fn parse(meminfo: &str) -> Option<Self> {
        let number = |key: &str| -> Option<u64> {
            let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let size = usize::try_from(number("Hugepagesize")?.checked_mul(1024)?).ok()?;
        let promised = number("HugePages_Rsvd").unwrap_or(0);
        let free = number("HugePages_Free")?.saturating_sub(promised);
        size.is_power_of_two().then_some(Self { size, total: number("HugePages_Total")?, free })
    }

    /// Checks that a ring can consist of these pages.
    ///
    /// # Errors
    /// The capacity is not a multiple of the page size. The error names the next possible size.
    pub(crate) fn check_capacity(self, capacity: usize) -> Result<()> {
        if capacity.is_multiple_of(self.size) {
            return Ok(());
        }
        let (size, next) = (self.size, capacity.next_multiple_of(self.size));
        Err(Error::Configuration(format!(
            "`buffer` is {capacity}, but with `huge-pages` it is a multiple of their size, {size} bytes here; the \
             next is {next}"
        )))
    }

    /// Returns the error for a ring of `bytes` bytes that could not be made of these pages, with
    /// the remedy.
    pub(crate) fn refusal(self, bytes: usize, cause: rustix::io::Errno) -> Error {
        let Self { size, total, free } = self;
        let needed = (bytes / size) as u64;
        let remedy = if free < needed {
            let enough = total + needed - free;
            format!(
                "reserve more with `sysctl vm.nr_hugepages={enough}` as root (early: memory gets scattered)"
            )
        } else {
            "there seem to be enough, so a limit for this process or its control group is in the way".into()
        };
        Error::of_system(format!(
            "cannot make the ring of {needed} huge pages of {size} bytes: {total} are reserved on this machine, \
             {free} of them free ({cause}); {remedy}, or leave out `huge-pages`"
        ))
    }
}

/// Returns the error for memory that could not be locked, with the remedy.
pub(crate) fn lock_refusal(bytes: usize, cause: rustix::io::Errno) -> Error {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = limit.map_or_else(|| "none".into(), |limit| format!("{limit} bytes"));
    let locked = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| locked_bytes(&status));
    let locked = locked.map_or_else(String::new, |bytes| format!(", and {bytes} are in use"));
    Error::of_system(format!(
        "cannot lock {bytes} bytes of memory ({cause}): the limit of this process (RLIMIT_MEMLOCK) is \
         {limit}{locked}; raise it with `ulimit -l` or, for a systemd unit, `LimitMEMLOCK=`, give the program \
         CAP_IPC_LOCK, or leave out `locked`. A ring counts about twice its `buffer`, on every side that maps it"
    ))
}

/// Returns the number of bytes that this process has locked, from its `status` file.
pub(crate) fn locked_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    const MEMINFO: &str = "MemTotal: 9 kB\nHugePages_Total:       7\nHugePages_Free:        4\n\
                           HugePages_Rsvd:        1\nHugepagesize:       2048 kB\n";

    #[test]
    fn huge_pages_are_read_and_those_promised_are_not_free() {
        let pages = HugePages::parse(MEMINFO).unwrap();
        assert_eq!(pages, HugePages { size: 2 << 20, total: 7, free: 3 });
        for without in ["HugePages_Total", "HugePages_Free", "Hugepagesize"] {
            assert_eq!(HugePages::parse(&MEMINFO.replace(without, "Other")), None);
        }
        assert_eq!(HugePages::parse(&MEMINFO.replace("2048", "0")), None);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let pages = HugePages::parse(MEMINFO).unwrap();
        pages.check_capacity(4 << 20).unwrap();
        let error = pages.check_capacity(1 << 20).unwrap_err().to_string();
        assert!(error.contains("1048576") && error.contains("the next is 2097152"), "{error}");
        let error = pages.refusal(10 << 20, Errno::NOMEM).to_string();
        for part in ["5 huge pages", "7 are reserved", "3 of them free", "vm.nr_hugepages=9"] {
            assert!(error.contains(part), "{error}");
        }
        let error = pages.refusal(4 << 20, Errno::NOMEM).to_string();
        assert!(error.contains("control group"), "{error}");
        let error = lock_refusal(4096, Errno::NOMEM).to_string();
        for part in ["4096 bytes", "RLIMIT_MEMLOCK", "in use", "ulimit -l", "LimitMEMLOCK", "CAP_IPC_LOCK"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
