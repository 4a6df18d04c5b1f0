//! The credentials of a local link's peer, as the kernel reports them, and the access check.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::terms::Group;

/// The maximum number of supplementary groups that Linux gives a process.
const GROUPS_MAX: usize = 65_536;
/// The number that the kernel shows for each user and group without a number in this process's user
/// namespace, unless `/proc/sys/kernel` sets another one.
const UNMAPPED: u32 = 65_534;
/// The longest entry of the group database that is read, in bytes. A group may have many members.
const ENTRY_MAX: usize = 1 << 20;

impl Group {
    /// Returns the group with that name, from the machine's group database.
    ///
    /// # Errors
    /// The group does not exist, or the database cannot be read.
    pub fn named(name: &str) -> Result<Self> {
        let unknown = || {
            Error::InvalidArgument(format!(
                "there is no group `{name}` on this machine; `getent group` lists all groups"
            ))
        };
        let wanted = CString::new(name).map_err(|_| unknown())?;
        let mut space: Vec<libc::c_char> = vec![0; 1024];
        loop {
            let mut entry = MaybeUninit::<libc::group>::uninit();
            let mut found = std::ptr::null_mut();
            // SAFETY: the name is NUL-terminated, the entry and the result pointer live through the
            // call, and the buffer has the given length.
            let answer = unsafe {
                libc::getgrnam_r(
                    wanted.as_ptr(),
                    entry.as_mut_ptr(),
                    space.as_mut_ptr(),
                    space.len(),
                    &raw mut found,
                )
            };
            match answer {
                0 if found.is_null() => return Err(unknown()),
                // SAFETY: `found` is not null, so the entry has been filled in.
                0 => return Ok(Self::new(unsafe { entry.assume_init() }.gr_gid)),
                libc::EINTR => {}
                libc::ERANGE if space.len() < ENTRY_MAX => space.resize(space.len() * 2, 0),
                // Some name services return these errors instead of "not found".
                libc::ENOENT | libc::ESRCH => return Err(unknown()),
                number => {
                    let cause = std::io::Error::from_raw_os_error(number);
                    return Err(Error::system(format!("cannot find group `{name}`"), cause));
                }
            }
        }
    }

    /// Returns whether this process belongs to the group, so that links opened to the group accept
    /// this process.
    pub(crate) fn has_this_process(self) -> bool {
        rustix::process::getegid().as_raw() == self.gid()
            || rustix::process::getgroups()
                .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == self.gid()))
    }
}

/// The credentials of the other end at the time when it connected or began to listen.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    user: u32,
    group: u32,
    supplementary: Vec<u32>,
    process: Option<u32>,
    /// Whether the peer is in this user namespace. A number that the kernel also shows for
    /// strangers then really belongs to the peer.
    is_of_namespace: bool,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> Result<Self> {
        let failed = |e: std::io::Error| Error::system("cannot read a peer's credentials", e);
        let first = first_credentials(stream).map_err(failed)?;
        let user = first.uid;
        // The same user passes without the groups.
        let supplementary =
            if user == own_user() { Vec::new() } else { supplementary_groups(stream).map_err(failed)? };
        // The kernel returns 0 for a process of another process namespace, such as another
        // container.
        let process = u32::try_from(first.pid).ok().filter(|process| *process != 0);
        let is_unmapped = user == unmapped_user()
            || first.gid == unmapped_group()
            || supplementary.contains(&unmapped_group());
        let is_of_namespace = !is_unmapped || is_of_this_namespace(stream);
        Ok(Self { user, group: first.gid, supplementary, process, is_of_namespace })
    }

    /// Returns the peer's process at the time when the peer connected or began to listen.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns whether the peer belongs to another user. If so, the peer's shared memory must be
    /// copied before it is validated.
    pub(crate) fn is_other_user(&self) -> bool {
        !self.is_user(own_user())
    }

    /// Checks access: local links are open to the same user, and to the members of a group if one
    /// is named.
    ///
    /// # Errors
    /// A text for either side, with the user found and the user required.
    pub(crate) fn check(&self, group: Option<Group>) -> Result<(), String> {
        let (user, own) = (self.user, own_user());
        match group {
            _ if self.may_pass(own, group) => Ok(()),
            _ if user == own => Err(format!(
                "user {user} is of another user namespace, where the number may be anybody's; run both processes in \
                 one namespace, or as a user that has a number in both"
            )),
            None => Err(format!("user {user} is not user {own}; this link is open to no other user")),
            Some(group) => Err(format!(
                "user {user} is neither user {own} nor in group {}; this link is open to no other user",
                group.gid()
            )),
        }
    }

    fn may_pass(&self, user: u32, group: Option<Group>) -> bool {
        let is_in = |group: Group| {
            let is_its_own = group.gid() != unmapped_group() || self.is_of_namespace;
            is_its_own && (self.group == group.gid() || self.supplementary.contains(&group.gid()))
        };
        self.is_user(user) || group.is_some_and(is_in)
    }

    fn is_user(&self, user: u32) -> bool {
        self.user == user && (user != unmapped_user() || self.is_of_namespace)
    }
}

/// Returns the user ID that stands for all users without a number in this namespace.
fn unmapped_user() -> u32 {
    static USER: OnceLock<u32> = OnceLock::new();
    unmapped("uid", &USER)
}

/// Returns the group ID that stands for all groups without a number in this namespace.
fn unmapped_group() -> u32 {
    static GROUP: OnceLock<u32> = OnceLock::new();
    unmapped("gid", &GROUP)
}

/// Returns the number for users or for groups. The number is kept after the first successful read,
/// as each connection needs it.
fn unmapped(kind: &str, kept: &OnceLock<u32>) -> u32 {
    if let Some(number) = kept.get() {
        return *number;
    }
    let set = std::fs::read_to_string(format!("/proc/sys/kernel/overflow{kind}"));
    let number = set.ok().and_then(|number| number.trim().parse().ok());
    number.map_or(UNMAPPED, |number| *kept.get_or_init(|| number))
}

/// Returns whether the other end's process is in the user namespace of this process. False if this
/// cannot be determined: before Linux 6.5, or once the process has ended.
fn is_of_this_namespace(stream: &UnixStream) -> bool {
    let namespace_of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
    let Some(handle) = process_handle(stream) else { return false };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()));
    let info = info.unwrap_or_default();
    let Some(process) = info.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim) else {
        return false;
    };
    let is_same = namespace_of(process).is_some_and(|namespace| Some(namespace) == namespace_of("self"));
    // The handle is readable once the process has ended. The number may then belong to another
    // process.
    let mut ended = PollSet::default();
    ended.readable(handle.as_fd());
    is_same && ended.wait(Some(Instant::now())).is_ok_and(|has_ended| !has_ended)
}

/// Returns a handle of the other end's process. Unlike the process number, a handle is not reused.
/// `None`: before Linux 6.5.
fn process_handle(stream: &UnixStream) -> Option<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let (mut handle, mut bytes) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the descriptor is open, and the kernel writes at most `bytes` bytes, the size of the
    // number. The descriptor that the kernel makes has no other owner.
    let made = unsafe {
        let (handle, bytes) = ((&raw mut handle).cast(), &raw mut bytes);
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, handle, bytes) == 0
    };
    // SAFETY: as above.
    (made && handle >= 0).then(|| unsafe { OwnedFd::from_raw_fd(handle) })
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns process, user and first group of the other end. The process may be 0, which the type of
/// `rustix` cannot hold.
fn first_credentials(stream: &UnixStream) -> std::io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `bytes` bytes, the size of the
    // structure. Any bytes are a valid structure.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut bytes,
        )
    };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if bytes as usize != size_of::<libc::ucred>() {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    Ok(credentials)
}

/// Returns the supplementary groups of the other end.
fn supplementary_groups(stream: &UnixStream) -> std::io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the descriptor is open, and the kernel writes at most `bytes` bytes, the size
        // of the vector.
        let answer = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if answer == 0 {
            groups.truncate(bytes as usize / size_of::<u32>());
            return Ok(groups);
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ERANGE) if groups.len() < GROUPS_MAX => {
                groups.resize((groups.len() * 4).min(GROUPS_MAX), 0);
            }
            // On a kernel before 4.13, only the first group counts.
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_same_user_and_the_members_of_a_named_group_pass() {
        let peer = Peer {
            user: 1000,
            group: 100,
            supplementary: vec![7, 42],
            process: None,
            is_of_namespace: false,
        };
        for (user, group, passes) in [
            (1000, None, true),
            (1000, Some(1), true),
            (0, None, false),
            (1001, None, false),
            (1001, Some(100), true),
            (1001, Some(42), true),
            (1001, Some(43), false),
            // A user's number must not count as a group's number.
            (1001, Some(1000), false),
        ] {
            assert_eq!(peer.may_pass(user, group.map(Group::new)), passes, "user {user}, group {group:?}");
        }
    }

    #[test]
    fn the_kernel_says_who_the_peer_is() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert!(!peer.is_other_user());
        peer.check(None).unwrap();
        let mut own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        let mut groups = supplementary_groups(&ours).unwrap();
        own.sort_unstable();
        groups.sort_unstable();
        assert_eq!((peer.group, groups), (rustix::process::getegid().as_raw(), own));
        let stranger = Peer { user: peer.user + 1, ..peer };
        assert!(stranger.is_other_user());
        let said = stranger.check(None).unwrap_err();
        assert!(said.contains(&format!("user {} is not user", stranger.user)), "{said}");
    }

    #[test]
    fn numbers_of_strangers_pass_only_within_the_namespace() {
        for is_of_namespace in [false, true] {
            let number = unmapped_user();
            let supplementary = vec![unmapped_group()];
            let peer = Peer { user: number, group: 5, supplementary, process: None, is_of_namespace };
            assert_eq!(peer.may_pass(number, None), is_of_namespace);
            assert_eq!(peer.may_pass(1, Some(Group::new(unmapped_group()))), is_of_namespace);
            assert!(peer.may_pass(1, Some(Group::new(5))), "a group that has a number here");
        }
    }

    /// Set in the process that enters a namespace: the address to connect to.
    const ADDRESS: &str = "STRIPLINE_TEST_NAMESPACE";

    /// Checks both sides, as in a container with a user without a number outside.
    #[test]
    fn a_process_of_another_namespace_is_a_stranger() {
        let name = format!("stripline-namespace-{}", crate::sys::socket_names::unique_suffix().unwrap());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let mut inside = Command::new(std::env::current_exe().unwrap());
        inside.args(["--exact", "sys::credentials::tests::meet_a_stranger"]).env(ADDRESS, &name);
        // SAFETY: the flag affects only the new process.
        let enter = || match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: only one system call runs between fork and exec.
        let inside = unsafe { inside.pre_exec(enter) }.stdout(Stdio::piped()).spawn().unwrap();
        let outside = listener.accept().unwrap().0;
        assert!(is_of_this_namespace(&UnixStream::pair().unwrap().0));
        assert!(!is_of_this_namespace(&outside), "the peer is in another namespace");
        drop(outside);
        let printed = inside.wait_with_output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
    }

    /// Does nothing, unless it is started as the process in the namespace.
    #[test]
    fn meet_a_stranger() {
        let Ok(name) = std::env::var(ADDRESS) else { return };
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let peer = Peer::of(&stream).unwrap();
        assert_eq!((own_user(), peer.user), (unmapped_user(), unmapped_user()));
        assert!(peer.is_other_user());
        let refused = peer.check(None).unwrap_err();
        assert!(refused.contains("another user namespace"), "{refused}");
        // The listener hangs up when it has checked this process.
        let _ = std::io::Read::read(&mut &stream, &mut [0]);
    }

    #[test]
    fn groups_are_found_by_name() {
        for name in ["", "no such group", "nul\0in it"] {
            let error = Group::named(name).unwrap_err().to_string();
            assert!(error.contains("there is no group"), "{error}");
        }
    }
}
