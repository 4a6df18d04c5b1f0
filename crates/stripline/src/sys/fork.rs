//! Forks. The child of a fork has copies of its parent's handles, but none of its threads. Nothing
//! that it does with those copies may reach the parent's links: not their use, not their drop, not
//! their descriptors at its exit.
//!
//! - Handlers of the C library (`pthread_atfork`) replace what the child has of every shared page
//!   that can be written, and every descriptor. What misses the checks below stays within the child
//!   all the same.
//! - Every handle remembers its [`OwnerProcess`]; in another process, its functions return
//!   [`Error::Forked`].
//! - What would lock, join or send when it is dropped is in a [`Local`], which a child does not
//!   drop.
//! - What there is once for each process is a [`PerProcess`], which a child begins afresh.
//!
//! The handlers run in `fork`, and in all that is built on it. `_Fork` and a bare `clone` skip
//! them: such a child has to execute another program or exit with `_exit`. If it touches a shared
//! page, it ends with SIGSEGV.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::mutex::lock;
use crate::error::{Error, Result};

/// On a line of its own, which is read with every packet and written by forks alone.
#[repr(align(64))]
struct Generation(AtomicU32);

/// How many forks lie between the first process with this library and this one.
static GENERATION: Generation = Generation(AtomicU32::new(0));

/// The process that made a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    pub(crate) fn current() -> Self {
        install();
        Self(GENERATION.0.load(Ordering::Relaxed))
    }

    /// Returns whether it is the one that runs now, and not its parent.
    #[inline(always)]
    pub(crate) fn is_current(self) -> bool {
        // Relaxed: only the handler in a new child writes it, before the child has a second thread.
        GENERATION.0.load(Ordering::Relaxed) == self.0
    }

    /// Checks that it is the one that runs now.
    ///
    /// # Errors
    /// [`Error::Forked`] with those words in a child of that process.
    #[inline(always)]
    pub(crate) fn check(self, what: impl FnOnce() -> String) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Self::forked(what)) }
    }

    #[cold]
    fn forked(what: impl FnOnce() -> String) -> Error {
        Error::Forked { what: what() }
    }
}

/// A value that only the process that made it drops. A child leaves it as it is. A drop there could
/// wait for a lock that a thread of the parent held, or join a thread that does not exist.
#[derive(Debug)]
pub struct Local<T> {
    process: OwnerProcess,
    value: ManuallyDrop<T>,
}

impl<T> Local<T> {
    /// Takes a value that belongs to this process.
    pub fn new(value: T) -> Self {
        Self { process: OwnerProcess::current(), value: ManuallyDrop::new(value) }
    }

    /// Returns whether this is the process that made it.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// Returns the process that made it.
    #[inline(always)]
    pub(crate) fn process(&self) -> OwnerProcess {
        self.process
    }

    /// Checks like [`OwnerProcess::check`].
    #[inline(always)]
    pub(crate) fn check(&self, what: impl FnOnce() -> String) -> Result<()> {
        self.process.check(what)
    }
}

impl<T> Deref for Local<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Local<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if self.is_current() {
            // SAFETY: it is dropped here only, and `self` is not used again.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// A lock that only the process that made it takes. In a child, it may be held for ever, by a
/// thread that there is not.
#[derive(Debug)]
pub(crate) struct LocalMutex<T> {
    process: OwnerProcess,
    mutex: Mutex<T>,
}

impl<T> LocalMutex<T> {
    /// Returns a lock on a value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: OwnerProcess::current(), mutex: Mutex::new(value) }
    }

    /// Takes the lock; `None` in a child of the process that made it.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        self.process.is_current().then(|| lock(&self.mutex))
    }
}

impl<T: Default> Default for LocalMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A static value that there is once for each process: a child begins with a new one, and never
/// locks its parent's.
pub(crate) struct PerProcess<T> {
    current: AtomicPtr<(OwnerProcess, T)>,
    make: fn() -> T,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self { current: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    pub(crate) fn get(&'static self) -> &'static T {
        // Acquire: with the address comes the value.
        let mut found = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or of a value that is never freed.
            if let Some((process, value)) = unsafe { found.as_ref() }
                && process.is_current()
            {
                return value;
            }
            let fresh = Box::into_raw(Box::new((OwnerProcess::current(), (self.make)())));
            // Release: the other half of the Acquire above, which a failure needs as well.
            match self.current.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = fresh,
                Err(other) => {
                    // SAFETY: made above, and never given to another thread.
                    drop(unsafe { Box::from_raw(fresh) });
                    found = other;
                }
            }
        }
    }
}

/// An open descriptor. In a child, the number stands for an empty file that is no socket: it has
/// nothing to read, and writing to it fails.
///
/// A child that kept the original could end a connection of its parent or take bytes from it. The
/// copy would also keep the connection open after the parent's death.
#[derive(Debug)]
pub(crate) struct Descriptor<F: AsFd = OwnedFd>(ManuallyDrop<F>);

impl<F: AsFd> Descriptor<F> {
    /// Takes one over that was open before. A fork before this call leaves a copy in the child.
    pub(crate) fn new(fd: F) -> Self {
        install();
        Self::listed(fd, &mut table())
    }

    fn listed(fd: F, table: &mut Table) -> Self {
        table.descriptors.set(fd.as_fd().as_raw_fd(), true);
        Self(ManuallyDrop::new(fd))
    }
}

/// How many watched descriptors have been closed.
static CLOSED_WATCHED: AtomicU64 = AtomicU64::new(0);

/// Makes the drops of descriptors with these numbers change [`closed_watched`], once each.
pub(crate) fn watch(numbers: impl Iterator<Item = RawFd>) {
    let mut table = table();
    for number in numbers {
        table.watched.set(number, true);
    }
}

/// Returns a count that grows when a descriptor of [`watch`] is closed. While it stays, such a
/// number stands for the same descriptor.
pub(crate) fn closed_watched() -> u64 {
    // Relaxed: see the drop of a descriptor.
    CLOSED_WATCHED.load(Ordering::Relaxed)
}

/// Makes descriptors, so that no fork comes between that and their entry in the table. `make` must
/// not block.
///
/// # Errors
/// As `make`.
pub(crate) fn open<F: AsFd, E, const N: usize>(
    make: impl FnOnce() -> Result<[F; N], E>,
) -> Result<[Descriptor<F>; N], E> {
    install();
    let mut table = table();
    Ok(make()?.map(|fd| Descriptor::listed(fd, &mut table)))
}

/// Makes one descriptor, as [`open`] does.
pub(crate) fn open_one<F: AsFd, E>(make: impl FnOnce() -> Result<F, E>) -> Result<Descriptor<F>, E> {
    open(|| make().map(|fd| [fd])).map(|[fd]| fd)
}

impl<F: AsFd> Drop for Descriptor<F> {
    fn drop(&mut self) {
        // Closed with the table locked: a fork in between would leave a copy in the child.
        let mut table = table();
        let number = self.0.as_fd().as_raw_fd();
        table.descriptors.set(number, false);
        if table.watched.set(number, false) {
            // Relaxed: a thread that finds another descriptor of this number has got it by a lock,
            // or something like it.
            CLOSED_WATCHED.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: it is dropped here only, and `self` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl<F: AsFd> Deref for Descriptor<F> {
    type Target = F;
    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: AsFd> AsFd for Descriptor<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Shared pages that this process can write, in the table. In a child, private pages of zeros are
/// at their addresses.
pub(crate) struct SharedPages {
    start: usize,
}

impl SharedPages {
    /// Enters pages that are mapped now. They are to be taken out, by dropping this, before they
    /// are unmapped.
    pub(crate) fn new(start: NonNull<u8>, bytes: usize) -> Self {
        install();
        // SAFETY: changes only what a child gets. Without it, the pages stay in the child, where
        // the handler leaves them; the checks of the handles remain.
        let _ =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontFork) };
        let start = start.as_ptr().expose_provenance();
        table().pages.push((start, bytes));
        Self { start }
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        let pages = &mut table().pages;
        if let Some(index) = pages.iter().rposition(|(start, _)| *start == self.start) {
            pages.swap_remove(index);
        }
    }
}

/// The mappings and descriptors that a child has to replace. Small: a connection has several of
/// each.
struct Table {
    /// Address and bytes.
    pages: Vec<(usize, usize)>,
    descriptors: Numbers,
    /// Those of [`watch`].
    watched: Numbers,
}

/// A set of descriptors' numbers: a bit for each.
struct Numbers(Vec<u64>);

impl Numbers {
    /// Puts it in or takes it out; returns whether it was there.
    fn set(&mut self, number: RawFd, is_there: bool) -> bool {
        // An open descriptor is not negative.
        let (word, bit) = (number as usize / 64, 1 << (number as usize % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let was_there = self.0[word] & bit != 0;
        if is_there {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
        was_there
    }

    fn iter(&self) -> impl Iterator<Item = RawFd> {
        let set = (0..self.0.len() * 64).filter(|bit| self.0[bit / 64] & 1 << (bit % 64) != 0);
        set.map(|bit| bit as RawFd)
    }
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { pages: Vec::new(), descriptors: Numbers(Vec::new()), watched: Numbers(Vec::new()) });

fn table() -> MutexGuard<'static, Table> {
    // Every change of it is one call: it is whole also after a panic.
    lock(&TABLE)
}

/// The lock on the table during a fork, of the thread that forks.
struct Held(UnsafeCell<Option<MutexGuard<'static, Table>>>);

// SAFETY: used only by the handlers below, in the thread that holds the lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Installs the handlers, once.
fn install() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: only the choice of one thread. Not a `Once`, which a child would find locked after a
    // fork at this point.
    if INSTALLED.load(Ordering::Relaxed) || INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    // It fails only without memory. Then children are as unprotected as those of `_Fork`.
    // SAFETY: the three functions are there as long as the process, or the library is unloaded,
    // which removes them.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let guard = table();
    // SAFETY: the lock is held, so no other thread is at this.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn in_parent() {
    // SAFETY: as above: the lock has been held since `before`, which this thread called.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    // Relaxed: there is no other thread yet.
    GENERATION.0.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above: the one thread of the child is the one that called `before`.
    let held = unsafe { (*HELD.0.get()).take() };
    if let Some(table) = &held {
        // System calls only: all else in the C library may be locked.
        table.pages.iter().for_each(|(start, bytes)| replace_pages(*start, *bytes));
        replace_descriptors(table);
    }
}

fn replace_pages(start: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let place = std::ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    // SAFETY: the child has nothing at this place, because of `MADV_DONTFORK`; if there is
    // something, it stays.
    let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped != libc::MAP_FAILED && mapped != place {
        // SAFETY: just mapped, by a kernel that takes the address as a mere wish (before 4.17).
        unsafe { libc::munmap(mapped, bytes) };
    }
}

fn replace_descriptors(table: &Table) {
    if table.descriptors.iter().next().is_none() {
        return;
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    let inert = unsafe { libc::memfd_create(c"stripline-forked".as_ptr(), flags) };
    // Without any descriptor left, those of the parent stay; the checks of the handles remain.
    if inert < 0 {
        return;
    }
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: system calls with numbers only, on descriptors that are this library's.
    unsafe {
        libc::fcntl(inert, libc::F_ADD_SEALS, seals);
        for descriptor in table.descriptors.iter() {
            libc::dup3(inert, descriptor, libc::O_CLOEXEC);
        }
        libc::close(inert);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Runs that in a child, which exits with 0 if it returns true.
    fn in_child(act: impl FnOnce() -> bool) {
        // SAFETY: the child calls only what is tested, and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(false);
            // SAFETY: ends the child without anything of the test harness.
            unsafe { libc::_exit(i32::from(!ok)) };
        }
        let mut status = 0;
        // SAFETY: `status` lives across the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_child_begins_afresh_and_drops_nothing() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::default);
        struct Loud(std::sync::Arc<AtomicBool>);
        impl Drop for Loud {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let mut held = VALUE.get().lock().unwrap();
        *held = 7;
        let dropped = std::sync::Arc::new(AtomicBool::new(false));
        let local = Local::new(Loud(std::sync::Arc::clone(&dropped)));
        let process = OwnerProcess::current();
        let local = std::cell::Cell::new(Some(local));
        in_child(|| {
            drop(local.take());
            let refusal = process.check(|| "it".into()).unwrap_err().to_string();
            *VALUE.get().lock().unwrap() == 0 && !dropped.load(Ordering::Relaxed) && refusal.contains("child")
        });
        assert!(process.is_current() && !dropped.load(Ordering::Relaxed));
        drop(local.take());
        assert!(dropped.load(Ordering::Relaxed));
    }

    #[test]
    fn a_child_waits_for_no_lock_of_its_parent() {
        let own = LocalMutex::new(7);
        let held = own.lock().unwrap();
        in_child(|| own.lock().is_none());
        drop(held);
        assert_eq!(own.lock().map(|value| *value), Some(7));
    }

    #[test]
    fn a_child_has_neither_the_pages_nor_the_descriptors() {
        let memory = crate::sys::memory::SharedMemory::new("test", 4096).unwrap();
        let map = memory.map().unwrap();
        // SAFETY: within the mapping, which nothing else uses.
        unsafe { map.start().write(7) };
        let [ours, theirs] = open(|| UnixStream::pair().map(|(one, other)| [one, other])).unwrap();
        in_child(|| {
            // SAFETY: as above; private pages in the child.
            let before = unsafe { map.start().read() };
            // SAFETY: as above.
            unsafe { map.start().write(9) };
            // Whether it counts as the end or as an error depends on the system call that reads.
            let ended = (&*ours).read(&mut [0]).unwrap_or(0) == 0;
            let refused = std::io::Write::write(&mut &*theirs, &[1]).is_err();
            before == 0 && ended && refused && ours.shutdown(std::net::Shutdown::Both).is_err()
        });
        // SAFETY: as above.
        assert_eq!(unsafe { map.start().read() }, 7);
        std::io::Write::write_all(&mut &*theirs, &[5]).unwrap();
        let mut byte = [0];
        (&*ours).read_exact(&mut byte).unwrap();
        assert_eq!(byte, [5]);
    }
}
