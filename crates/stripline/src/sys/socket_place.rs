//! The place of the names of local sockets: the kernel (abstract names), or the folder in the
//! environment variable `STRIPLINE_RUNTIME_DIR`. Abstract names belong to a network namespace.
//! Several namespaces can share a folder.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;

use rustix::net::SocketAddrUnix;

use super::fork::PerProcess;
use super::runtime_folder::{OpenFolder, RuntimeFolder};
use crate::error::{Error, Result};

/// The environment variable with the folder of the socket files.
pub(super) const VARIABLE: &str = "STRIPLINE_RUNTIME_DIR";
/// The prefix of an address that is a file of the folder. Without it, the address is an abstract
/// name.
const FILE_MARK: &str = "./";

/// The place of all names of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketPlace {
    /// The kernel. A name is gone with the last descriptor.
    Abstract,
    /// A folder with socket files.
    Folder(RuntimeFolder),
}

/// The variable is read once, so that all sockets of a process are in one place.
static PLACE: PerProcess<Result<SocketPlace, String>> =
    PerProcess::new(|| SocketPlace::parse(std::env::var_os(VARIABLE)));

impl SocketPlace {
    /// Returns the place that the environment selects.
    ///
    /// # Errors
    /// The value is not an absolute path. The error contains the name of the variable.
    pub(crate) fn current() -> Result<&'static Self> {
        PLACE.get().as_ref().map_err(|problem| Error::Configuration(problem.clone()))
    }

    /// Returns whether the environment selects a folder, even an invalid one.
    pub(crate) fn is_folder() -> bool {
        !matches!(PLACE.get(), Ok(Self::Abstract))
    }

    fn parse(value: Option<OsString>) -> Result<Self, String> {
        let Some(value) = value else { return Ok(Self::Abstract) };
        let problem = match value.to_str() {
            Some("") => "it is empty".into(),
            Some(path) if path.starts_with('/') => return Ok(Self::Folder(RuntimeFolder::new(path))),
            Some(path) => format!("`{path}` does not begin with `/`"),
            None => format!("`{}` is not UTF-8", value.display()),
        };
        Err(format!("{VARIABLE}: {problem}; name a folder by its whole path, or unset {VARIABLE}"))
    }

    /// Returns the address of a socket, for other processes.
    pub(crate) fn address(&self, name: &str) -> String {
        match self {
            Self::Abstract => name.into(),
            Self::Folder(_) => format!("{FILE_MARK}{name}"),
        }
    }

    /// Returns the name of the socket with an address that another process has announced.
    ///
    /// # Errors
    /// The address is in another place, or leads out of the folder.
    pub(crate) fn name<'a>(&self, address: &'a str) -> Result<&'a str> {
        match (self, address.strip_prefix(FILE_MARK)) {
            (Self::Abstract, None) => Ok(address),
            (Self::Folder(_), Some(name)) if is_file_name(name) => Ok(name),
            (Self::Folder(_), Some(_)) => {
                Err(Error::misbehaved(address, format!("announced no file of the folder of {VARIABLE}")))
            }
            (Self::Abstract, Some(_)) => Err(Error::Configuration(format!(
                "socket `{address}` is a file in the folder of {VARIABLE}, which this process was started without; start \
                 all processes with the same {VARIABLE}"
            ))),
            (Self::Folder(_), None) => Err(Error::Configuration(format!(
                "socket `@{address}` has an abstract name: its process was started without {VARIABLE}, and this one with \
                 it; start all processes with the same {VARIABLE}"
            ))),
        }
    }

    /// Returns a target that connects to the socket of that name.
    ///
    /// # Errors
    /// The folder is missing or not safe.
    pub(super) fn target<'a>(&self, name: &'a str) -> Result<SocketTarget<'a>> {
        let folder = match self {
            Self::Abstract => None,
            Self::Folder(folder) => Some(folder.open()?),
        };
        Ok(SocketTarget { name, folder })
    }
}

/// Returns whether the text is a name, and not a path.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// A socket to connect to.
pub(super) struct SocketTarget<'a> {
    name: &'a str,
    folder: Option<OpenFolder>,
}

impl SocketTarget<'_> {
    /// Connects once.
    pub(super) fn connect(&self, socket: &UnixStream) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            let address = SocketAddrUnix::new_abstract_name(self.name.as_bytes())?;
            return Ok(rustix::net::connect(socket, &address)?);
        };
        match rustix::net::connect(socket, &folder.address(self.name)?) {
            // The same error as for an abstract name: nothing listens there.
            Err(rustix::io::Errno::NOENT) => Err(rustix::io::Errno::CONNREFUSED.into()),
            connected => Ok(connected?),
        }
    }
}

/// The form for messages.
impl fmt::Display for SocketTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            None => write!(f, "@{}", self.name),
            Some(folder) => folder.path_of(self.name).display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn the_variable_names_a_folder_or_the_error_names_the_variable() {
        assert_eq!(SocketPlace::parse(None), Ok(SocketPlace::Abstract));
        let folder = SocketPlace::parse(Some("/run/radio".into())).unwrap();
        assert_eq!(folder, SocketPlace::Folder(RuntimeFolder::new("/run/radio")));
        for (value, problem) in [
            (OsString::new(), "it is empty"),
            ("run".into(), "`run` does not begin with `/`"),
            (OsString::from_vec(vec![b'/', 0xff]), "is not UTF-8"),
        ] {
            let error = SocketPlace::parse(Some(value)).unwrap_err();
            assert!(error.starts_with(VARIABLE) && error.contains(problem), "{error}");
            assert!(error.contains("or unset"), "{error}");
        }
    }

    #[test]
    fn an_address_of_the_other_place_is_refused_by_name() {
        let folder = SocketPlace::Folder(RuntimeFolder::new("/run/radio"));
        assert_eq!(SocketPlace::Abstract.address("one"), "one");
        assert_eq!(SocketPlace::Abstract.name("one").unwrap(), "one");
        assert_eq!(folder.address("one"), "./one");
        assert_eq!(folder.name("./one").unwrap(), "one");
        for (place, address, reason) in [
            (&SocketPlace::Abstract, "./one", "which this process was started without"),
            (&folder, "one", "has an abstract name"),
            (&folder, "./../one", "no file of the folder"),
            (&folder, "./..", "no file of the folder"),
            (&folder, "./", "no file of the folder"),
            (&folder, "./a\0b", "no file of the folder"),
        ] {
            let error = place.name(address).unwrap_err();
            assert!(!matches!(error, Error::System { .. }), "a node would try again for ever: {error}");
            assert!(error.to_string().contains(reason) && error.to_string().contains(VARIABLE), "{error}");
        }
    }
}
