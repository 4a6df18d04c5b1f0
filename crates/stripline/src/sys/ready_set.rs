//! A descriptor that stands for a changing set of others as long as a port exists: the descriptor
//! of an epoll instance.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::clock::now_ns;
use super::doorbell::PollSet;
use super::fork::{self, Descriptor};
use super::mutex::lock;
use super::timer::Timer;
use crate::error::{Error, Result};

/// A descriptor that is readable (level-triggered) while a member of the set is ready, or after a
/// time has passed. Any thread may wait for it while another thread changes the set.
#[derive(Debug)]
pub(crate) struct ReadySet {
    /// The epoll instance that users wait for, which contains the timer and the inner instance.
    outer: Descriptor,
    timer: Mutex<Timer>,
    members: Mutex<Members>,
}

/// The members of a set at present.
#[derive(Debug)]
struct Members {
    /// An epoll instance of the members alone, which is replaced when the members change. A
    /// descriptor that has been closed, but lives on in another process, cannot be taken out of an
    /// instance.
    inner: Option<Descriptor>,
    list: Vec<(RawFd, PollFlags)>,
    /// [`fork::closed_watched`] at the time when the members were put in.
    closed: u64,
}

impl ReadySet {
    /// Makes an empty set.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub(crate) fn new() -> Result<Self> {
        let outer = new_epoll()?;
        let timer = Timer::new().map_err(|e| Error::system("cannot make a timer", e))?;
        add(&outer, timer.as_fd(), EventFlags::IN)?;
        let members = Members { inner: None, list: Vec::new(), closed: 0 };
        Ok(Self { outer, timer: Mutex::new(timer), members: Mutex::new(members) })
    }

    /// Returns the set of a port. The first call makes it.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub(crate) fn of_port(place: &mut Option<Arc<Self>>) -> Result<Arc<Self>> {
        if let Some(set) = place {
            return Ok(Arc::clone(set));
        }
        let set = Arc::new(Self::new()?);
        *place = Some(Arc::clone(&set));
        Ok(set)
    }

    /// Replaces the members, and the time at which the set is ready without a ready member. A call
    /// with the same descriptors needs no system call for them.
    ///
    /// # Errors
    /// A lack of descriptors or memory. In this case, the members are as before.
    pub(crate) fn set(&self, poll_set: &PollSet<'_>, until: Option<Instant>) -> Result<()> {
        // `Instant` uses the same clock, but does not give its reading.
        let at_ns = until.map(|until| {
            let remaining = until.saturating_duration_since(Instant::now());
            now_ns().saturating_add(u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX))
        });
        lock(&self.timer).set(at_ns).map_err(|e| Error::system("cannot set a timer", e))?;
        let mut list: Vec<(RawFd, PollFlags)> = Vec::with_capacity(8);
        for (fd, interest) in poll_set.interests() {
            let number = fd.as_raw_fd();
            match list.iter_mut().find(|(listed, _)| *listed == number) {
                // An epoll instance takes each descriptor once.
                Some((_, interests)) => *interests |= interest,
                None => list.push((number, interest)),
            }
        }
        let mut members = lock(&self.members);
        // The count is read before the descriptors are put in: the next call notices a close in
        // between.
        let closed = fork::closed_watched();
        if members.inner.is_some() && members.closed == closed && members.list == list {
            return Ok(());
        }
        fork::watch(list.iter().map(|(number, _)| *number));
        let inner = new_epoll()?;
        for (fd, _) in poll_set.interests() {
            let number = fd.as_raw_fd();
            // The first entry of each number has the interests of all entries with that number.
            if let Some((_, interest)) = list.iter().find(|(listed, _)| *listed == number) {
                add(&inner, fd, flags(*interest))?;
            }
        }
        add(&self.outer, inner.as_fd(), EventFlags::IN)?;
        if let Some(before) = &members.inner {
            // Dropping the old instance is not enough: a process that is just being started has a
            // copy of it.
            epoll::delete(&self.outer, before)
                .map_err(|e| Error::system("cannot wait for other descriptors", e))?;
        }
        *members = Members { inner: Some(inner), list, closed };
        Ok(())
    }
}

impl AsFd for ReadySet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outer.as_fd()
    }
}

fn new_epoll() -> Result<Descriptor> {
    fork::open_one(|| epoll::create(CreateFlags::CLOEXEC))
        .map_err(|e| Error::system("cannot create an epoll instance", e))
}

/// Adds a descriptor, unless the instance has it.
fn add(epoll: &Descriptor, fd: BorrowedFd<'_>, flags: EventFlags) -> Result<()> {
    match epoll::add(epoll, fd, EventData::new_u64(0), flags) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        added => added.map_err(|e| Error::system("cannot wait for a descriptor", e)),
    }
}

fn flags(interest: PollFlags) -> EventFlags {
    let pairs = [
        (PollFlags::IN, EventFlags::IN),
        (PollFlags::OUT, EventFlags::OUT),
        (PollFlags::RDHUP, EventFlags::RDHUP),
    ];
    pairs.into_iter().filter(|(of, _)| interest.contains(*of)).map(|(_, flags)| flags).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sys::doorbell::Doorbell;

    fn is_ready(set: &ReadySet) -> bool {
        let mut poll_set = PollSet::default();
        poll_set.readable(set.as_fd());
        poll_set.wait(Some(Instant::now())).unwrap()
    }

    fn set_to<'a>(set: &ReadySet, doorbells: impl IntoIterator<Item = &'a Doorbell>) {
        let mut poll_set = PollSet::for_ready_set();
        doorbells.into_iter().for_each(|doorbell| poll_set.readable(doorbell.as_fd()));
        set.set(&poll_set, None).unwrap();
    }

    #[test]
    fn it_is_ready_while_one_of_the_set_is() {
        let set = ReadySet::new().unwrap();
        assert!(!is_ready(&set));
        let doorbells = [Doorbell::new().unwrap(), Doorbell::new().unwrap()];
        for round in 0..3 {
            // The first doorbell is passed twice, and counts once.
            set_to(&set, doorbells.iter().chain(&doorbells[..1]));
            assert!(!is_ready(&set), "{round}");
            doorbells[round % 2].notify();
            assert!(is_ready(&set) && is_ready(&set));
            // The rung doorbell is no longer in the set.
            set_to(&set, &doorbells[1 - round % 2..][..1]);
            assert!(!is_ready(&set));
            assert!(doorbells.iter().all(Doorbell::drain));
        }
    }

    // A process that is being started has copies of all descriptors, until it runs the program.
    #[test]
    fn a_copy_of_what_was_replaced_does_not_make_it_ready() {
        let set = ReadySet::new().unwrap();
        let [one, other] = [Doorbell::new().unwrap(), Doorbell::new().unwrap()];
        set_to(&set, [&one]);
        one.notify();
        assert!(is_ready(&set));
        let _copy = lock(&set.members).inner.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
        set_to(&set, [&other]);
        assert!(!is_ready(&set));
    }

    #[test]
    fn the_interests_of_a_descriptor_are_joined() {
        let set = ReadySet::new().unwrap();
        let [one, other] = Doorbell::between().unwrap();
        let mut poll_set = PollSet::for_ready_set();
        poll_set.hung_up(one.as_fd());
        set.set(&poll_set, None).unwrap();
        other.notify();
        assert!(!is_ready(&set));
        poll_set.readable(one.as_fd());
        set.set(&poll_set, None).unwrap();
        assert!(is_ready(&set));
        one.drain();
        assert!(!is_ready(&set));
        let mut writable = PollSet::for_ready_set();
        writable.hung_up(one.as_fd());
        writable.writable(one.as_fd());
        set.set(&writable, None).unwrap();
        assert!(is_ready(&set));
    }

    // Another process keeps the file of the first doorbell open, and this doorbell rings.
    #[test]
    fn a_descriptor_that_was_closed_is_replaced_by_the_next_of_its_number() {
        let set = ReadySet::new().unwrap();
        for _ in 0..3 {
            let first = Doorbell::new().unwrap();
            let copy = first.as_fd().try_clone_to_owned().unwrap();
            set_to(&set, [&first]);
            first.notify();
            assert!(is_ready(&set));
            let number = first.as_fd().as_raw_fd();
            drop(first);
            let mut kept = Vec::new();
            let second = loop {
                let next = Doorbell::new().unwrap();
                if next.as_fd().as_raw_fd() == number || kept.len() == 64 {
                    break next;
                }
                kept.push(next);
            };
            set_to(&set, [&second]);
            assert!(!is_ready(&set));
            second.notify();
            assert!(is_ready(&set));
            drop(copy);
        }
    }

    #[test]
    fn it_is_ready_once_its_time_has_come() {
        let set = ReadySet::new().unwrap();
        let start = Instant::now();
        let until = start + Duration::from_millis(5);
        set.set(&PollSet::for_ready_set(), Some(until)).unwrap();
        let mut poll_set = PollSet::default();
        poll_set.readable(set.as_fd());
        poll_set.wait(None).unwrap();
        assert!(Instant::now() >= until);
        // The next set has no deadline.
        set_to(&set, []);
        assert!(!is_ready(&set));
    }

    // A set that replaces an epoll instance leaves the instance of the other set in place.
    #[test]
    fn sets_that_change_leave_others_as_they_are() {
        let (set, other, doorbells) = (
            ReadySet::new().unwrap(),
            ReadySet::new().unwrap(),
            [Doorbell::new().unwrap(), Doorbell::new().unwrap()],
        );
        let inner = |set: &ReadySet| lock(&set.members).inner.as_ref().map(|fd| fd.as_fd().as_raw_fd());
        for count in [1, 2, 1] {
            loop {
                set_to(&set, &doorbells);
                let closed = lock(&set.members).closed;
                let before = inner(&set);
                set_to(&other, &doorbells[..count]);
                set_to(&set, &doorbells);
                // Tests that run in parallel may close a watched descriptor, which makes every set
                // replace the instance.
                if fork::closed_watched() == closed {
                    assert_eq!(inner(&set), before);
                    break;
                }
            }
        }
    }
}
