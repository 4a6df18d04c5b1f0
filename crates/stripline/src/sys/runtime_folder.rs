//! A folder with socket files. The folder is locked while a file is made or debris removed, so that
//! only one of several processes gets a name. The file of a killed process stays behind until
//! another process makes a file, which removes it.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::fork::{self, Descriptor, Local, PerProcess};
use super::socket_place::VARIABLE;
use crate::error::{Error, Result};
use crate::terms::Group;

/// The longest time that another process may keep the folder locked. Only a stopped process takes
/// longer.
const LOCK_TIME: Duration = Duration::from_secs(5);
/// The pause between two attempts to lock the folder.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// The beginning of the names of all sockets. No other file is removed.
const PREFIX: &str = "stripline-";

/// Whether this process has removed the files that killed processes left.
static SWEPT: PerProcess<AtomicBool> = PerProcess::new(AtomicBool::default);

/// The path of the folder, which may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeFolder {
    path: PathBuf,
}

impl RuntimeFolder {
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Opens the folder and checks that no other user can change it, except members of the folder's
    /// group.
    ///
    /// # Errors
    /// The fault of the folder, and the remedy.
    pub(super) fn open(&self) -> Result<OpenFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(&self.path, flags, Mode::empty()).map(File::from);
        let descriptor = fork::open_one(open).map_err(|e| match e {
            Errno::NOTDIR => self.unfit("is not a folder; name one"),
            e => Error::system(format!("{VARIABLE}: cannot open folder `{}`", self.path.display()), e),
        })?;
        let status = descriptor.metadata().map_err(|e| self.unfit(format!("has no status: {e}")))?;
        check(&status).map_err(|problem| self.unfit(problem))?;
        Ok(OpenFolder { path: self.path.clone(), descriptor })
    }

    /// Opens the folder. If it is missing, makes it for this user alone.
    pub(super) fn make(&self) -> Result<OpenFolder> {
        match rustix::fs::mkdir(&self.path, Mode::RWXU) {
            // For an existing folder, opening it reports any other fault.
            Ok(()) | Err(Errno::EXIST) => self.open(),
            Err(e) if self.path.exists() => self.open().map_err(|opening| match opening {
                Error::System { .. } => self.cannot_make(e),
                unfit => unfit,
            }),
            Err(e) => Err(self.cannot_make(e)),
        }
    }

    fn cannot_make(&self, error: Errno) -> Error {
        let remedy = "make it with `mkdir -p -m 700`, or name another";
        Error::system(
            format!("{VARIABLE}: cannot make folder `{}` ({remedy})", self.path.display()),
            io::Error::from(error),
        )
    }

    fn unfit(&self, problem: impl std::fmt::Display) -> Error {
        Error::Configuration(format!("{VARIABLE}: `{}` {problem}", self.path.display()))
    }

    /// Returns the names of the sockets with a living process. A missing folder has no sockets.
    pub(super) fn living(&self) -> Result<Vec<String>> {
        let folder = match self.open() {
            Err(Error::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        let mut names = folder.names()?;
        names.retain(|name| matches!(folder.find(name), Ok(FolderEntry::Living)));
        Ok(names)
    }
}

/// Checks owner and mode of a folder.
fn check(status: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    let mode = status.mode() & 0o7777;
    if status.uid() != own && status.uid() != 0 {
        return Err(format!(
            "belongs to user {}; name a folder of user {own}, or one of root that its group shares",
            status.uid()
        ));
    }
    if mode & 0o002 != 0 {
        return Err(format!(
            "can be changed by every user (mode {mode:o}); name another folder, or `chmod o-w` this one"
        ));
    }
    if mode & 0o020 != 0 && !Group::new(status.gid()).has_this_process() {
        return Err(format!(
            "can be changed by group {}, which this process is not in (mode {mode:o}); `chmod g-w` it, or start the \
             process with `sg`",
            status.gid()
        ));
    }
    Ok(())
}

/// An entry of the folder, or the lack of an entry.
#[derive(Debug, PartialEq, Eq)]
enum FolderEntry {
    Nothing,
    /// A socket file without a socket.
    Debris,
    /// A socket file of a living process.
    Living,
    /// Another kind of file.
    Other,
}

/// The open folder.
#[derive(Debug)]
pub(super) struct OpenFolder {
    path: PathBuf,
    descriptor: Descriptor<File>,
}

impl OpenFolder {
    /// Returns the path of a file, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the address of a file, by the descriptor of the folder: a path may be longer than
    /// the 107 bytes of an address.
    pub(super) fn address(&self, name: &str) -> rustix::io::Result<SocketAddrUnix> {
        SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", self.descriptor.as_raw_fd()))
    }

    /// Listens on a new socket file. Removes debris of this name in each call, and all other debris
    /// in the first call of the process.
    ///
    /// # Errors
    /// `AddrInUse` within [`Error::System`] if a living process has the name.
    pub(super) fn listen(
        &self,
        name: &str,
        group: Option<Group>,
    ) -> Result<(Descriptor<UnixListener>, Local<SocketFile>)> {
        self.locked(|| {
            // Relaxed: only a flag. A second sweep does no harm.
            if !SWEPT.get().swap(true, Ordering::Relaxed) {
                self.sweep();
            }
            self.bind(name, group)
        })
    }

    fn bind(
        &self,
        name: &str,
        group: Option<Group>,
    ) -> Result<(Descriptor<UnixListener>, Local<SocketFile>)> {
        let path = self.path_of(name);
        let failed = |e: io::Error| {
            let what = format!(
                "cannot listen on Unix socket {}, in the folder of {VARIABLE}; it must be on a local file system with \
                 room, and this user must be able to write to it",
                path.display()
            );
            Error::system(what, e)
        };
        match self.find(name).map_err(|e| failed(e.into()))? {
            FolderEntry::Nothing => {}
            FolderEntry::Debris => self.unlink(name).map_err(|e| failed(e.into()))?,
            FolderEntry::Living => {
                let what = format!("cannot listen on Unix socket {}", path.display());
                return Err(Error::system(what, Errno::ADDRINUSE));
            }
            FolderEntry::Other => {
                return Err(Error::of_system(format!(
                    "{VARIABLE}: `{}` is not a socket, and a socket needs its name; remove it",
                    path.display()
                )));
            }
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let make = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let listener =
            fork::open_one(|| make().map(UnixListener::from)).map_err(|e| failed(io::Error::from(e)))?;
        let bound = || {
            // The file gets the socket's mode. Other users are kept out before the check of
            // credentials.
            rustix::fs::fchmod(&*listener, Mode::RUSR | Mode::WUSR)?;
            rustix::net::bind(&*listener, &self.address(name)?)
        };
        bound().map_err(|e: Errno| failed(e.into()))?;
        let ready = || -> io::Result<_> {
            let file = self.own_file(name)?;
            if let Some(group) = group {
                share(&file, group)?;
            }
            rustix::net::listen(&*listener, i32::MAX)?;
            Ok(SocketFile { path: path.clone(), identity: identity(&file.metadata()?) })
        };
        match ready() {
            Ok(file) => Ok((listener, Local::new(file))),
            Err(e) => {
                let _ = self.unlink(name);
                Err(failed(e))
            }
        }
    }

    /// Opens the socket file just made, and not another file that took the name.
    fn own_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        let status = file.metadata()?;
        let is_own = status.uid() == rustix::process::geteuid().as_raw();
        if is_own && status.file_type().is_socket() { Ok(file) } else { Err(Errno::STALE.into()) }
    }

    /// Removes the files of sockets without a process.
    fn sweep(&self) {
        for name in self.names().unwrap_or_default() {
            if matches!(self.find(&name), Ok(FolderEntry::Debris)) {
                // A file that cannot be removed disturbs only the process that needs the name.
                let _ = self.unlink(&name);
            }
        }
    }

    /// Returns the names of all files that may be sockets of this library.
    fn names(&self) -> Result<Vec<String>> {
        let failed =
            |e| Error::system(format!("{VARIABLE}: cannot list folder `{}`", self.path.display()), e);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.extend(entry.file_name().to_str().ok().map(String::from));
        }
        names.retain(|name| name.starts_with(PREFIX));
        Ok(names)
    }

    /// Returns the kind of entry that has the name. A living process does not notice the probe.
    fn find(&self, name: &str) -> rustix::io::Result<FolderEntry> {
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(FolderEntry::Nothing),
            status => {
                if FileType::from_raw_mode(status?.st_mode) != FileType::Socket {
                    return Ok(FolderEntry::Other);
                }
            }
        }
        // A datagram socket cannot connect to a stream socket, and the kernel returns `EPROTOTYPE`,
        // or `ECONNREFUSED` if no socket has the file.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(match rustix::net::connect(&probe, &self.address(name)?) {
            Err(Errno::CONNREFUSED) => FolderEntry::Debris,
            Err(Errno::NOENT) => FolderEntry::Nothing,
            _ => FolderEntry::Living,
        })
    }

    fn unlink(&self, name: &str) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())
    }

    /// Runs `act` while no other process makes or removes files here.
    fn locked<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + LOCK_TIME;
        while let Err(e) = rustix::fs::flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive) {
            let path = self.path.display();
            if !matches!(e, Errno::WOULDBLOCK | Errno::INTR) {
                return Err(Error::system(format!("{VARIABLE}: cannot lock folder `{path}`"), e));
            }
            if Instant::now() > deadline {
                return Err(Error::of_system(format!(
                    "{VARIABLE}: another process has kept folder `{path}` locked for {LOCK_TIME:?}; `fuser -v {path}` \
                     finds it, and `kill -CONT` resumes a stopped process"
                )));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let outcome = act();
        // The unlock is explicit, because a program that another thread starts has a copy of the
        // descriptor for a moment.
        let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
        outcome
    }
}

/// Opens a socket file to a group.
fn share(file: &File, group: Group) -> rustix::io::Result<()> {
    let gid = rustix::fs::Gid::from_raw(group.gid());
    rustix::fs::chownat(file, "", None, Some(gid), AtFlags::EMPTY_PATH)?;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
    // The mode is set by the descriptor, so that no symbolic link is followed.
    rustix::fs::chmodat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), mode, AtFlags::empty())
}

/// The file of a listening socket, which is removed when dropped, before the socket is closed.
/// Another file that has taken the name stays.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The device and the number of the file. No other file gets them while the socket is open.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::*;

    fn folder() -> (tempfile::TempDir, RuntimeFolder) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = RuntimeFolder::new(folder.path());
        (folder, runtime)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Leaves the file of a socket that no process has.
    fn leave_debris(path: &Path) {
        drop(UnixListener::bind(path).unwrap());
        assert!(path.exists());
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_listener_has_a_file_for_this_user_that_goes_with_it() {
        let (place, runtime) = folder();
        let (listener, file) = runtime.make().unwrap().listen("stripline-one", None).unwrap();
        let path = place.path().join("stripline-one");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o077, 0);
        UnixStream::connect(&path).unwrap();
        // A second listener does not get the name, and leaves the first one alone.
        let taken = runtime.make().unwrap().listen("stripline-one", None).unwrap_err();
        assert!(
            matches!(&taken, Error::System { source, .. } if source.kind() == io::ErrorKind::AddrInUse),
            "{taken}"
        );
        UnixStream::connect(&path).unwrap();
        assert_eq!(runtime.living().unwrap(), ["stripline-one"]);
        drop(file);
        drop(listener);
        assert_eq!(names(place.path()), [""; 0]);
    }

    #[test]
    fn debris_is_removed_and_what_lives_or_is_no_socket_stays() {
        let (place, runtime) = folder();
        let path = |name: &str| place.path().join(name);
        let living = UnixListener::bind(path("stripline-living")).unwrap();
        // This socket is bound, and not listening yet.
        let early = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&early, &SocketAddrUnix::new(path("stripline-early")).unwrap()).unwrap();
        leave_debris(&path("stripline-dead"));
        leave_debris(&path("another-program"));
        std::fs::write(path("stripline-file"), "kept").unwrap();
        std::fs::create_dir(path("stripline-folder")).unwrap();
        symlink("stripline-dead", path("stripline-link")).unwrap();
        let open = runtime.open().unwrap();
        open.sweep();
        let kept =
            ["another-program", "stripline-early", "stripline-file", "stripline-folder", "stripline-link"];
        assert_eq!(names(place.path()), [&kept[..], &["stripline-living"]].concat());
        assert_eq!(runtime.living().unwrap().len(), 2);
        drop((living, early));
        // A child that another test forks has the descriptor until it runs another program.
        while UnixStream::connect(path("stripline-living")).is_ok() {
            std::thread::yield_now();
        }
        // The name of a dead process is given again. Other files keep their names.
        let (_listener, file) = open.bind("stripline-living", None).unwrap();
        for name in ["stripline-file", "stripline-folder", "stripline-link"] {
            let error = open.bind(name, None).unwrap_err().to_string();
            assert!(
                error.contains(VARIABLE) && error.contains(name) && error.contains("remove it"),
                "{error}"
            );
        }
        assert_eq!(std::fs::read_to_string(path("stripline-file")).unwrap(), "kept");
        drop(file);
    }

    #[test]
    fn a_file_that_took_the_place_of_ours_stays() {
        let (place, runtime) = folder();
        let (_listener, file) = runtime.make().unwrap().listen("stripline-one", None).unwrap();
        let path = place.path().join("stripline-one");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
    }

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let (place, _) = folder();
        let path = place.path().join("x".repeat(200));
        let runtime = RuntimeFolder::new(&path);
        let name = format!("{PREFIX}{}", "y".repeat(75));
        let (_listener, _file) = runtime.make().unwrap().listen(&name, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700, "made for this user alone");
        let open = runtime.open().unwrap();
        let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::connect(&stream, &open.address(&name).unwrap()).unwrap();
    }

    #[test]
    fn unfit_folders_are_refused_with_variable_and_remedy() {
        let (place, _) = folder();
        let path = |name: &str| place.path().join(name);
        let refused = |name: &str| RuntimeFolder::new(path(name)).make().unwrap_err().to_string();
        std::fs::write(path("file"), "").unwrap();
        std::fs::create_dir(path("open")).unwrap();
        set_mode(&path("open"), 0o1777);
        symlink("nowhere", path("dangling")).unwrap();
        for (name, words) in [
            ("file", "is not a folder; name one"),
            ("file/below", "mkdir -p"),
            ("missing/below", "mkdir -p"),
            ("open", "can be changed by every user (mode 1777)"),
            ("dangling", "cannot open folder"),
        ] {
            let error = refused(name);
            assert!(error.starts_with(VARIABLE) && error.contains(words), "{name}: {error}");
        }
        // A missing folder has no sockets, and listing them does not make the folder.
        assert_eq!(RuntimeFolder::new(path("missing")).living().unwrap(), [""; 0]);
        assert!(!path("missing").exists());
        let unwritable = Path::new("/proc/self");
        let open = RuntimeFolder::new(unwritable).make();
        let error = open.and_then(|open| open.listen("stripline-one", None).map(drop)).unwrap_err();
        assert!(error.to_string().contains(VARIABLE) && error.to_string().contains("write"), "{error}");
    }

    #[test]
    fn owner_and_mode_of_a_folder_are_checked() {
        let own = rustix::process::geteuid();
        if !own.is_root() {
            println!("not root: the folder of another user is not tested");
            return;
        }
        let (place, runtime) = folder();
        set_mode(place.path(), 0o770);
        let others = (0..).find(|gid| !Group::new(*gid).has_this_process()).unwrap();
        std::os::unix::fs::chown(place.path(), None, Some(others)).unwrap();
        let error = runtime.open().unwrap_err().to_string();
        assert!(error.contains(&format!("by group {others}, which this process is not in")), "{error}");
        set_mode(place.path(), 0o750);
        runtime.open().unwrap();
        std::os::unix::fs::chown(place.path(), Some(65_534), None).unwrap();
        let error = runtime.open().unwrap_err().to_string();
        assert!(error.contains("belongs to user 65534"), "{error}");
        std::os::unix::fs::chown(place.path(), Some(0), None).unwrap();
    }

    #[test]
    fn a_group_gets_the_file() {
        let (place, runtime) = folder();
        let group = Group::new(rustix::process::getegid().as_raw());
        let (_listener, _file) = runtime.make().unwrap().listen("stripline-one", Some(group)).unwrap();
        let status = std::fs::metadata(place.path().join("stripline-one")).unwrap();
        assert_eq!((status.gid(), status.mode() & 0o777), (group.gid(), 0o660));
    }

    #[test]
    fn a_folder_that_stays_locked_is_an_error() {
        let (place, runtime) = folder();
        let holder = runtime.open().unwrap();
        let refusal = holder
            .locked(|| {
                let refusal = runtime.make()?.listen("stripline-one", None).unwrap_err();
                Ok(refusal.to_string())
            })
            .unwrap();
        assert!(refusal.contains(VARIABLE) && refusal.contains("fuser -v"), "{refusal}");
        assert_eq!(names(place.path()), [""; 0]);
        runtime.make().unwrap().listen("stripline-one", None).unwrap();
    }

    #[test]
    fn a_forked_child_leaves_the_file_to_its_parent() {
        let (place, runtime) = folder();
        let path = place.path().join("stripline-one");
        let (_listener, file) = runtime.make().unwrap().listen("stripline-one", None).unwrap();
        let file = std::cell::Cell::new(Some(file));
        // SAFETY: the child drops its copy, and ends without running anything of the test harness.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(file.take());
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` lives across the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        UnixStream::connect(&path).unwrap();
        drop(file.take());
        assert!(!path.exists());
    }

    /// Lets many threads request the same name. Exactly one gets it.
    #[test]
    fn of_many_one_gets_the_name() {
        let (place, runtime) = folder();
        for _ in 0..20 {
            leave_debris(&place.path().join("stripline-host"));
            let barrier = std::sync::Barrier::new(8);
            let hosts: Vec<_> = std::thread::scope(|scope| {
                let tries: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            runtime.make().unwrap().listen("stripline-host", None)
                        })
                    })
                    .collect();
                tries.into_iter().filter_map(|one| one.join().unwrap().ok()).collect()
            });
            assert_eq!(hosts.len(), 1);
            UnixStream::connect(place.path().join("stripline-host")).unwrap();
            for (listener, file) in hosts {
                drop(file);
                drop(listener);
            }
        }
    }
}
