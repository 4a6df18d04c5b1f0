//! The peer's credentials on a local link, as reported by the kernel, and the access check.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::error::{Error, Result};
use crate::terms::Group;

/// The most supplementary groups that Linux gives a process.
const GROUPS_MAX: usize = 65_536;
/// The longest entry of the group database that is read, in bytes: a group may have many members.
const ENTRY_MAX: usize = 1 << 20;

impl Group {
    /// Returns the group of that name, from the machine's group database.
    ///
    /// # Errors
    /// An unknown group, or an unreadable database.
    pub fn named(name: &str) -> Result<Self> {
        let unknown = || {
            Error::failed(format!(
                "there is no group `{name}` on this machine; `getent group` lists those there are"
            ))
        };
        let wanted = CString::new(name).map_err(|_| unknown())?;
        let mut space: Vec<libc::c_char> = vec![0; 1024];
        loop {
            let mut entry = MaybeUninit::<libc::group>::uninit();
            let mut found = std::ptr::null_mut();
            // SAFETY: the name ends with a zero, entry and result pointer live across the call, and
            // the length is that of the buffer.
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
                // SAFETY: not null, so the entry has been filled in.
                0 => return Ok(Self::new(unsafe { entry.assume_init() }.gr_gid)),
                libc::EINTR => {}
                libc::ERANGE if space.len() < ENTRY_MAX => space.resize(space.len() * 2, 0),
                // Some name services return these instead of "not found".
                libc::ENOENT | libc::ESRCH => return Err(unknown()),
                number => {
                    let cause = std::io::Error::from_raw_os_error(number);
                    return Err(Error::system(format!("cannot find group `{name}`"), cause));
                }
            }
        }
    }

    /// Returns whether this process belongs to it, so that links opened to the group accept this
    /// process.
    pub(crate) fn has_this_process(self) -> bool {
        rustix::process::getegid().as_raw() == self.gid()
            || rustix::process::getgroups()
                .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == self.gid()))
    }
}

/// The credentials of the other end, from when it connected or began to listen.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    user: u32,
    group: u32,
    supplementary: Vec<u32>,
    process: Option<u32>,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> Result<Self> {
        let failed = |e: std::io::Error| Error::system("cannot read a peer's credentials", e);
        let first = first_credentials(stream).map_err(failed)?;
        let user = first.uid;
        // The same user passes without them.
        let supplementary =
            if user == own_user() { Vec::new() } else { supplementary_groups(stream).map_err(failed)? };
        // The kernel gives 0 for a process of another process namespace, as of another container.
        let process = u32::try_from(first.pid).ok().filter(|process| *process != 0);
        Ok(Self { user, group: first.gid, supplementary, process })
    }

    /// Returns its process, as it was when it connected or began to listen.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns whether it belongs to another user: its shared memory must be copied before it is
    /// validated.
    pub(crate) fn is_other_user(&self) -> bool {
        self.user != own_user()
    }

    /// Checks access: local links are open to the same user, and to the members of a group where
    /// one is named.
    ///
    /// # Errors
    /// The user found and the one required, in a text for either side.
    pub(crate) fn check(&self, group: Option<Group>) -> Result<(), String> {
        let (its, own) = (self.user, own_user());
        match group {
            _ if self.may_pass(own, group) => Ok(()),
            None => Err(format!("user {its} is not user {own}; this link is open to no other user")),
            Some(group) => Err(format!(
                "user {its} is neither user {own} nor in group {}; this link is open to no other user",
                group.gid()
            )),
        }
    }

    fn may_pass(&self, user: u32, group: Option<Group>) -> bool {
        self.user == user
            || group
                .is_some_and(|group| self.group == group.gid() || self.supplementary.contains(&group.gid()))
    }
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
    // structure; any bytes are a valid one.
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
            // A kernel before 4.13: only the first group counts.
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_user_and_the_members_of_a_named_group_pass() {
        let peer = Peer { user: 1000, group: 100, supplementary: vec![7, 42], process: None };
        for (user, group, passes) in [
            (1000, None, true),
            (1000, Some(1), true),
            (0, None, false),
            (1001, None, false),
            (1001, Some(100), true),
            (1001, Some(42), true),
            (1001, Some(43), false),
            // A user's number must not count as a group's.
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
        let mut its = supplementary_groups(&ours).unwrap();
        own.sort_unstable();
        its.sort_unstable();
        assert_eq!((peer.group, its), (rustix::process::getegid().as_raw(), own));
        let stranger = Peer { user: peer.user + 1, ..peer };
        assert!(stranger.is_other_user());
        let said = stranger.check(None).unwrap_err();
        assert!(said.contains(&format!("user {} is not user", stranger.user)), "{said}");
    }

    #[test]
    fn groups_are_found_by_name() {
        for name in ["", "no such group", "nul\0in it"] {
            let error = Group::named(name).unwrap_err().to_string();
            assert!(error.contains("there is no group"), "{error}");
        }
    }
}
