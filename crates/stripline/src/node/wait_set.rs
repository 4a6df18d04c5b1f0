//! A wait for any number of ports, clients, servers and descriptors of the program.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, FoundReady, PollSet};
use crate::sys::fork::OwnerProcess;
use crate::sys::mutex::{lock, try_lock};
use crate::transport::Interrupt;

use super::waker::NoAttention;
use super::{ReadyDescriptor, Waitable, Waker};

/// The name of wait sets in errors.
const NAME: &str = "wait set";

/// A member of a [`WaitSet`]: a descriptor, and a function that prepares it.
///
/// Subscribers of all kinds, servers and clients of services are members themselves. Where a wait
/// needs a number, or for any other type, a member is a pair of both:
///
/// ```
/// use std::time::Duration;
/// use stripline::node::{Node, WaitSet};
///
/// let node = Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut windows = node.subscriber::<f32>("levels")?.windowed();
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[0.5; 8])?;
/// let set = WaitSet::new()?;
/// let mut room = (publisher.ready_descriptor()?, || publisher.arm(1000));
/// let mut window = (windows.ready_descriptor()?, || windows.arm(8));
/// let ready = set.wait(&mut [&mut room, &mut window], Some(Duration::from_secs(5)))?;
/// assert_eq!(ready.members, [0, 1]);
/// # Ok::<(), stripline::Error>(())
/// ```
pub trait WaitMember {
    /// Returns the descriptor of the member, the same one each time.
    ///
    /// # Errors
    /// Same as [`Waitable::ready_descriptor`].
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor>;

    /// Prepares the descriptor; false: the member is ready.
    ///
    /// # Errors
    /// Same as [`Waitable::arm`].
    fn arm(&mut self) -> Result<bool>;
}

impl<T: Waitable> WaitMember for T {
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        Waitable::ready_descriptor(self)
    }

    fn arm(&mut self) -> Result<bool> {
        Waitable::arm(self)
    }
}

impl<F: FnMut() -> Result<bool>> WaitMember for (ReadyDescriptor, F) {
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        Ok(self.0.clone())
    }

    fn arm(&mut self) -> Result<bool> {
        self.1()
    }
}

/// The readiness of a program's descriptor that a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitInterest {
    /// Waits until the descriptor can be read or is hung up.
    Readable,
    /// Waits until the descriptor can be written.
    Writable,
    /// Waits until the descriptor can be read or written.
    Both,
}

/// The outcome of [`WaitSet::wait`], empty if the time has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitReady {
    /// The indices of the ready members, among the members passed to the call, in order.
    pub members: Vec<usize>,
    /// The ready entries among the entries added to the set, in the order in which they were added.
    pub added: Vec<AddedReady>,
}

impl WaitReady {
    /// Returns whether nothing is ready.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.added.is_empty()
    }
}

/// The readiness of an entry that was added to a wait set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedReady {
    /// The key of the entry.
    pub key: u64,
    /// Whether the descriptor can be read or has ended. True for a member.
    pub readable: bool,
    /// Whether the descriptor can be written or has ended.
    pub writable: bool,
    /// Whether the descriptor has been closed. The entry stays ready until it is removed.
    pub closed: bool,
}

/// A wait for any number of subscribers, windows, publishers, clients and servers, and for any
/// descriptors of the program.
///
/// A wait returns everything that is ready, and does not consume anything: a member that the
/// program does not call stays ready for the next wait (level-triggered). Members are borrowed for
/// one wait, or added to the set with a key. Other threads may add and remove entries, even during
/// a wait, and end the wait with [`WaitSet::waker`].
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use std::time::Duration;
/// use stripline::node::{WaitInterest, Node, WaitSet};
/// use stripline::payload::Cbor;
///
/// let node = Node::isolated()?;
/// let mut levels = node.subscriber::<f32>("levels")?;
/// let mut texts = node.subscriber::<Cbor<String>>("texts")?;
/// # let mut publisher = node.publisher::<Cbor<String>>("texts")?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// let (button, pressed) = UnixStream::pair().expect("two sockets");
/// let set = WaitSet::new()?;
/// set.add_descriptor(7, pressed, WaitInterest::Readable)?;
/// publisher.send(&"hello".into())?;
/// let ready = set.wait(&mut [&mut levels, &mut texts], Some(Duration::from_secs(5)))?;
/// assert_eq!((ready.members, ready.added.len()), (vec![1], 0));
/// drop(button);
/// let ready = set.wait(&mut [&mut levels], Some(Duration::from_secs(5)))?;
/// assert_eq!(ready.added[0].key, 7);
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Debug)]
pub struct WaitSet {
    process: OwnerProcess,
    interrupt: Arc<Interrupt>,
    /// Rings when the entries change.
    changes: Doorbell,
    entries: Mutex<Vec<Arc<WaitEntry>>>,
    /// Held by the thread that waits.
    waiting: Mutex<()>,
}

/// An entry that was added with a key.
struct WaitEntry {
    key: u64,
    what: EntryKind,
}

enum EntryKind {
    Descriptor(Box<dyn AsFd + Send + Sync>, WaitInterest),
    /// The member is absent once it has been removed.
    Member(Mutex<Option<Box<dyn WaitMember + Send>>>, ReadyDescriptor),
}

impl std::fmt::Debug for WaitEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitEntry").field("key", &self.key).finish_non_exhaustive()
    }
}

impl WaitEntry {
    fn is(&self, other: &Arc<Self>) -> bool {
        std::ptr::eq(self, &**other)
    }
}

impl WaitSet {
    /// Makes an empty set.
    ///
    /// # Errors
    /// [`Error::System`] when the process has too few descriptors left: it takes two.
    pub fn new() -> Result<Self> {
        let interrupt = Arc::new(Interrupt::new(NAME));
        interrupt.enable()?;
        Ok(Self {
            process: OwnerProcess::current(),
            interrupt,
            changes: Doorbell::new()?,
            entries: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// Adds a member to every wait. The set owns the member. To use a member elsewhere as well, add
    /// a pair of the descriptor and a function that locks it.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use stripline::node::{Node, WaitSet, Waitable};
    ///
    /// let node = Node::isolated()?;
    /// let levels = Arc::new(Mutex::new(node.subscriber::<f32>("levels")?));
    /// let descriptor = levels.lock().expect("no panic").ready_descriptor()?;
    /// let set = WaitSet::new()?;
    /// let its = Arc::clone(&levels);
    /// set.add(3, (descriptor, move || its.lock().expect("no panic").arm()))?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// publisher.send(&[0.5])?;
    /// let ready = set.wait(&mut [], Some(Duration::from_secs(5)))?;
    /// assert_eq!(ready.added[0].key, 3);
    /// assert!(set.remove(3)?);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Port`] for a key that is in use; [`Error::Forked`]; and the errors of
    /// [`WaitMember::ready_descriptor`].
    pub fn add(&self, key: u64, mut member: impl WaitMember + Send + 'static) -> Result<()> {
        let descriptor = member.ready_descriptor()?;
        self.insert(key, EntryKind::Member(Mutex::new(Some(Box::new(member))), descriptor))
    }

    /// Adds a descriptor of the program to every wait.
    ///
    /// # Errors
    /// [`Error::Port`] for a key that is in use; [`Error::Forked`].
    pub fn add_descriptor(
        &self,
        key: u64,
        descriptor: impl AsFd + Send + Sync + 'static,
        interest: WaitInterest,
    ) -> Result<()> {
        self.insert(key, EntryKind::Descriptor(Box::new(descriptor), interest))
    }

    fn insert(&self, key: u64, what: EntryKind) -> Result<()> {
        self.check_own()?;
        let mut entries = lock(&self.entries);
        if entries.iter().any(|entry| entry.key == key) {
            return Err(Error::port(NAME, format!("has something with the key {key}: remove it first")));
        }
        entries.push(Arc::new(WaitEntry { key, what }));
        drop(entries);
        self.changes.notify();
        Ok(())
    }

    /// Removes the entry with this key and drops it. Returns false if no entry has the key. After
    /// this returns, no wait uses the entry or returns the key.
    ///
    /// Blocks at most until a call of the member's `arm` in progress has returned.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn remove(&self, key: u64) -> Result<bool> {
        self.check_own()?;
        let mut entries = lock(&self.entries);
        let Some(index) = entries.iter().position(|entry| entry.key == key) else { return Ok(false) };
        let removed = entries.remove(index);
        drop(entries);
        if let EntryKind::Member(member, _) = &removed.what {
            let member = lock(member).take();
            drop(member);
        }
        self.changes.notify();
        Ok(true)
    }

    /// Blocks until a borrowed member or an added entry is ready, and returns all that are ready.
    /// Without a timeout, it waits without limit. A member with an error counts as ready: the
    /// program gets the error when it calls the member.
    ///
    /// # Errors
    /// [`Error::Interrupted`] by a waker of the set or of a member, and [`Error::Stopped`] when a
    /// member's node is stopped; nothing is lost in either case. [`Error::Port`] while another
    /// thread waits with the set; [`Error::System`]; [`Error::Forked`].
    pub fn wait(&self, members: &mut [&mut dyn WaitMember], timeout: Option<Duration>) -> Result<WaitReady> {
        self.check_own()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(_waiting) = try_lock(&self.waiting) else {
            return Err(Error::port(NAME, "is waited for by another thread: make one for each"));
        };
        let borrowed: Vec<ReadyDescriptor> =
            members.iter_mut().map(|member| member.ready_descriptor()).collect::<Result<_>>()?;
        loop {
            self.interrupt.take(false)?;
            // Drain before the entries are read, so that a later change ends the wait below.
            self.changes.drain();
            let entries = lock(&self.entries).clone();
            let mut found = FoundInWait::default();
            for (index, member) in members.iter_mut().enumerate() {
                if is_ready(member.arm())? {
                    found.members.push(index);
                }
            }
            for entry in &entries {
                if entry.is_member_ready()? {
                    found.note(entry, FoundReady { reads: true, ..FoundReady::default() });
                }
            }
            let until = if found.is_empty() { deadline } else { Some(Instant::now()) };
            let mut poll_set = PollSet::default();
            self.interrupt.doorbell().into_iter().for_each(|doorbell| poll_set.readable(doorbell.as_fd()));
            poll_set.readable(self.changes.as_fd());
            borrowed.iter().for_each(|descriptor| poll_set.readable(descriptor.as_fd()));
            entries.iter().for_each(|entry| entry.add_to(&mut poll_set));
            let is_over = !poll_set.wait(until)? || deadline.is_some_and(|at| Instant::now() >= at);
            // The two doorbells come first in the poll set.
            let first = 2;
            for (index, member) in members.iter_mut().enumerate() {
                let is_new = poll_set.is_ready(first + index) && !found.members.contains(&index);
                if is_new && is_ready(member.arm())? {
                    found.members.push(index);
                }
            }
            for (index, entry) in entries.iter().enumerate() {
                let ready = poll_set.found(first + borrowed.len() + index);
                if ready == FoundReady::default() || found.has(entry) {
                    continue;
                }
                if entry.is_descriptor() || entry.is_member_ready()? {
                    found.note(entry, ready);
                }
            }
            let ready = self.report(found);
            if is_over || !ready.is_empty() {
                return Ok(ready);
            }
        }
    }

    /// Returns a handle with which other threads and signal handlers end a wait.
    ///
    /// # Errors
    /// [`Error::Forked`].
    ///
    /// ```
    /// use stripline::Error;
    /// use stripline::node::WaitSet;
    ///
    /// let set = WaitSet::new()?;
    /// set.waker()?.wake();
    /// assert!(matches!(set.wait(&mut [], None), Err(Error::Interrupted { .. })));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn waker(&self) -> Result<Waker> {
        self.check_own()?;
        Waker::new((Arc::clone(&self.interrupt), Arc::new(NoAttention)))
    }

    fn check_own(&self) -> Result<()> {
        self.process.check(|| NAME.into())
    }

    /// Returns the entries that were found and have not been removed since.
    fn report(&self, mut found: FoundInWait) -> WaitReady {
        found.members.sort_unstable();
        if found.added.is_empty() {
            return WaitReady { members: found.members, added: Vec::new() };
        }
        let entries = lock(&self.entries);
        let mut added: Vec<AddedReady> = Vec::with_capacity(found.added.len());
        for entry in &*entries {
            let ready = found.added.iter().find(|(of, _)| of.is(entry));
            added.extend(ready.map(|(_, ready)| AddedReady {
                key: entry.key,
                readable: ready.reads,
                writable: ready.writes,
                closed: ready.is_closed,
            }));
        }
        WaitReady { members: found.members, added }
    }
}

/// The members and entries that a wait has found ready so far.
#[derive(Default)]
struct FoundInWait {
    members: Vec<usize>,
    added: Vec<(Arc<WaitEntry>, FoundReady)>,
}

impl FoundInWait {
    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.added.is_empty()
    }

    fn note(&mut self, entry: &Arc<WaitEntry>, ready: FoundReady) {
        self.added.push((Arc::clone(entry), ready));
    }

    fn has(&self, entry: &Arc<WaitEntry>) -> bool {
        self.added.iter().any(|(of, _)| of.is(entry))
    }
}

impl WaitEntry {
    fn is_descriptor(&self) -> bool {
        matches!(self.what, EntryKind::Descriptor(..))
    }

    /// Prepares a member and returns whether it is ready.
    fn is_member_ready(&self) -> Result<bool> {
        match &self.what {
            EntryKind::Descriptor(..) => Ok(false),
            // A removed member is not ready.
            EntryKind::Member(member, _) => match &mut *lock(member) {
                Some(member) => is_ready(member.arm()),
                None => Ok(false),
            },
        }
    }

    fn add_to<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        match &self.what {
            EntryKind::Descriptor(descriptor, interest) => {
                let (reads, writes) =
                    (*interest != WaitInterest::Writable, *interest != WaitInterest::Readable);
                poll_set.add_for(descriptor.as_fd(), reads, writes);
            }
            EntryKind::Member(_, descriptor) => poll_set.readable(descriptor.as_fd()),
        }
    }
}

/// Returns whether a member is ready. A member with an error is: calling it returns the error.
fn is_ready(armed: Result<bool>) -> Result<bool> {
    match armed {
        Ok(is_armed) => Ok(!is_armed),
        Err(error @ (Error::Interrupted { .. } | Error::Stopped | Error::Forked { .. })) => Err(error),
        Err(_) => Ok(true),
    }
}
