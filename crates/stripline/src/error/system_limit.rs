//! Limits of the system that make a call fail, with their names, values and remedies.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit};

/// A limit of the system that a process has reached.
///
/// ```
/// use stripline::SystemLimit;
///
/// // `EMFILE`: the process has as many descriptors open as it may.
/// let error = std::io::Error::from_raw_os_error(24);
/// let limit = SystemLimit::of(&error).expect("it is a limit's");
/// assert!(limit.to_string().contains("RLIMIT_NOFILE"));
/// assert_eq!(SystemLimit::of(&std::io::ErrorKind::NotFound.into()), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLimit {
    named: LimitWords,
    soft: Option<u64>,
    hard: Option<u64>,
}

/// The words that describe a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitWords {
    what: &'static str,
    name: &'static str,
    unit: &'static str,
    /// The letter for the limit in `ulimit`.
    letter: char,
    /// The key for the limit in a systemd unit.
    key: &'static str,
}

const FILES: LimitWords =
    LimitWords { what: "open files", name: "RLIMIT_NOFILE", unit: "", letter: 'n', key: "LimitNOFILE" };
const FILE_SIZE: LimitWords = LimitWords {
    what: "the size of a file",
    name: "RLIMIT_FSIZE",
    unit: " bytes",
    letter: 'f',
    key: "LimitFSIZE",
};
const MEMORY: LimitWords =
    LimitWords { what: "the address space", name: "RLIMIT_AS", unit: " bytes", letter: 'v', key: "LimitAS" };
const THREADS: LimitWords = LimitWords {
    what: "this user's processes and threads",
    name: "RLIMIT_NPROC",
    unit: "",
    letter: 'u',
    key: "LimitNPROC",
};

impl SystemLimit {
    /// Returns the limit that caused an error of the operating system.
    pub fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::new(FILES, Resource::Nofile)),
            Errno::FBIG => Self::new(FILE_SIZE, Resource::Fsize).if_limited(),
            Errno::NOMEM => Self::new(MEMORY, Resource::As).if_limited(),
            _ => None,
        }
    }

    /// Returns the limit that kept a thread or process from starting, given the error.
    ///
    /// ```
    /// // No limit causes `ENOENT`.
    /// let error = std::io::Error::from_raw_os_error(2);
    /// assert_eq!(stripline::SystemLimit::of_thread(&error), None);
    /// ```
    pub fn of_thread(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            // The stack of the thread may not fit in the address space either.
            Errno::AGAIN => Self::new(MEMORY, Resource::As)
                .if_limited()
                .or_else(|| Self::new(THREADS, Resource::Nproc).if_limited()),
            _ => None,
        }
    }

    fn new(named: LimitWords, resource: Resource) -> Self {
        let Rlimit { current: soft, maximum: hard } = getrlimit(resource);
        Self { named, soft, hard }
    }

    fn if_limited(self) -> Option<Self> {
        self.soft.is_some().then_some(self)
    }
}

impl fmt::Display for SystemLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named: LimitWords { what, name, unit, letter, key }, soft, hard } = self;
        let soft_text = soft.map_or("none".into(), |value| format!("{value}{unit}"));
        write!(f, "the limit on {what} ({name}) is {soft_text}; raise it with `ulimit -{letter}`")?;
        if soft.is_some() && soft == hard {
            f.write_str(" as root")?;
        }
        write!(f, " or, for a systemd unit, `{key}=`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_its_value_and_the_remedy() {
        let mut limit = SystemLimit { named: FILE_SIZE, soft: Some(512_000), hard: None };
        let text =
            "the limit on the size of a file (RLIMIT_FSIZE) is 512000 bytes; raise it with `ulimit -f`";
        assert_eq!(limit.to_string(), format!("{text} or, for a systemd unit, `LimitFSIZE=`"));
        limit.hard = limit.soft;
        assert!(limit.to_string().contains("`ulimit -f` as root or"), "{limit}");
    }

    #[test]
    fn errors_have_the_limit_that_they_come_from() {
        let of = |errno: Errno| SystemLimit::of(&errno.into()).map(|limit| limit.named);
        assert_eq!(of(Errno::MFILE), Some(FILES));
        // A limit that is not set cannot be the reason.
        assert_eq!(of(Errno::FBIG).is_some(), getrlimit(Resource::Fsize).current.is_some());
        assert_eq!(of(Errno::NOENT), None);
        let error = crate::Error::system("cannot open a socket", Errno::MFILE).to_string();
        assert!(error.contains("RLIMIT_NOFILE) is ") && error.contains("`ulimit -n`"), "{error}");
        let thread = |errno: Errno| SystemLimit::of_thread(&errno.into()).map(|limit| limit.named);
        assert_eq!(thread(Errno::MFILE), None);
    }
}
