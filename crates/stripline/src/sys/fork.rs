//! Protection of links from forks. The child of a fork has copies of its parent's handles, but none
//! of the parent's threads. No action of the child may reach the parent's links: neither the use
//! nor the drop of a handle, nor the close of descriptors when the child exits.
//!
//! - Handlers of the C library (`pthread_atfork`) replace all writable shared pages and all
//!   descriptors in the child. So code without the checks below cannot reach out of the child
//!   either.
//! - Every handle remembers its [`OwnerProcess`]. In another process, the handle's functions return
//!   [`Error::Forked`].
//! - A value with a drop that would lock, join or send is in a [`Local`], which a child does not
//!   drop.
//! - A value that exists once per process is in a [`PerProcess`], which a child creates anew.
//!
//! The handlers run in `fork` and in all functions built on it. `_Fork` and a bare `clone` skip
//! them: such a child must execute another program or exit with `_exit`. If it touches a shared
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

/// A cache line that is read with every packet, and written only by forks.
#[repr(align(64))]
struct Generation(AtomicU32);

/// The number of forks between the first process with this library and this process.
static GENERATION: Generation = Generation(AtomicU32::new(0));

/// The process that made a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProcess(u32);

impl OwnerProcess {
    /// Returns the running process.
    pub fn current() -> Self {
        install();
        Self(GENERATION.0.load(Ordering::Relaxed))
    }

    /// Returns whether this is the running process, and not a parent of it.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        // Relaxed: only the handler in a new child writes it, before the child has a second thread.
        GENERATION.0.load(Ordering::Relaxed) == self.0
    }

    /// Checks that this is the running process.
    ///
    /// # Errors
    /// [`Error::Forked`] with the text of `what`, in a child of that process.
    #[inline(always)]
    pub fn check(self, what: impl FnOnce() -> String) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Self::forked(what)) }
    }

    #[cold]
    fn forked(what: impl FnOnce() -> String) -> Error {
        Error::Forked { what: what() }
    }
}

/// A value that is dropped only in the process that made it. A child leaves the value as it is,
/// because a drop there could wait for a lock that a thread of the parent held, or join a thread
/// that does not exist.
#[derive(Debug)]
pub struct Local<T> {
    process: OwnerProcess,
    value: ManuallyDrop<T>,
}

impl<T> Local<T> {
    /// Wraps a value that belongs to this process.
    pub fn new(value: T) -> Self {
        Self { process: OwnerProcess::current(), value: ManuallyDrop::new(value) }
    }

    /// Returns whether this process made the value.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// Returns the process that made the value.
    #[inline(always)]
    pub fn process(&self) -> OwnerProcess {
        self.process
    }

    /// Checks like [`OwnerProcess::check`].
    #[inline(always)]
    pub fn check(&self, what: impl FnOnce() -> String) -> Result<()> {
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
            // SAFETY: the value is dropped only here, and `self` is not used again.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// A lock that is taken only in the process that made it. In a child, the lock may be held for
/// ever, by a thread that does not exist there.
#[derive(Debug)]
pub struct LocalMutex<T> {
    process: OwnerProcess,
    mutex: Mutex<T>,
}

impl<T> LocalMutex<T> {
    /// Returns a lock on a value of this process.
    pub fn new(value: T) -> Self {
        Self { process: OwnerProcess::current(), mutex: Mutex::new(value) }
    }

    /// Takes the lock; `None` in a child of the process that made the lock.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        self.process.is_current().then(|| lock(&self.mutex))
    }
}

impl<T: Default> Default for LocalMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A static value that exists once per process: a child makes a new value, and never locks the
/// parent's.
pub struct PerProcess<T> {
    current: AtomicPtr<(OwnerProcess, T)>,
    make: fn() -> T,
}

impl<T> PerProcess<T> {
    /// Returns a place that gets its value from `make` at the first use in each process.
    pub const fn new(make: fn() -> T) -> Self {
        Self { current: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    /// Returns the value of this process.
    pub fn get(&'static self) -> &'static T {
        // Acquire: with the address comes the value.
        let mut found = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: the pointer is null, or points to a value that is never freed.
            if let Some((process, value)) = unsafe { found.as_ref() }
                && process.is_current()
            {
                return value;
            }
            let fresh = Box::into_raw(Box::new((OwnerProcess::current(), (self.make)())));
            // Release: pairs with the Acquire above. A failure needs Acquire as well.
            match self.current.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = fresh,
                Err(other) => {
                    // SAFETY: the value was made above, and never given to another thread.
                    drop(unsafe { Box::from_raw(fresh) });
                    found = other;
                }
            }
        }
    }
}

/// An open descriptor. In a child, the number stands for an empty file instead of a socket: reads
/// find nothing, and writes fail.
///
/// A child that kept the original could end a connection of the parent or take bytes from it. The
/// copy would also keep the connection open after the parent's death.
#[derive(Debug)]
pub struct Descriptor<F: AsFd = OwnedFd>(ManuallyDrop<F>);

impl<F: AsFd> Descriptor<F> {
    /// Takes over a descriptor that was opened before. A fork before this call leaves a copy in the
    /// child.
    pub fn new(fd: F) -> Self {
        install();
        Self::listed(fd, &mut table())
    }

    fn listed(fd: F, table: &mut Table) -> Self {
        table.descriptors.set(fd.as_fd().as_raw_fd(), true);
        Self(ManuallyDrop::new(fd))
    }
}

/// The number of watched descriptors that have been closed.
static CLOSED_WATCHED: AtomicU64 = AtomicU64::new(0);

/// Makes [`closed_watched`] change when a descriptor with any of these numbers is dropped, once for
/// each number.
pub fn watch(numbers: impl Iterator<Item = RawFd>) {
    let mut table = table();
    for number in numbers {
        table.watched.set(number, true);
    }
}

/// Returns a count that grows when a descriptor of [`watch`] is closed. While the count is
/// unchanged, a watched number stands for the same descriptor.
pub fn closed_watched() -> u64 {
    // Relaxed: see the drop of `Descriptor`.
    CLOSED_WATCHED.load(Ordering::Relaxed)
}

/// Makes descriptors. No fork comes between `make` and the entry in the table. `make` must not
/// block.
///
/// # Errors
/// The errors of `make`.
pub fn open<F: AsFd, E, const N: usize>(
    make: impl FnOnce() -> Result<[F; N], E>,
) -> Result<[Descriptor<F>; N], E> {
    install();
    let mut table = table();
    Ok(make()?.map(|fd| Descriptor::listed(fd, &mut table)))
}

/// Makes a single descriptor, as [`open`] does.
pub fn open_one<F: AsFd, E>(make: impl FnOnce() -> Result<F, E>) -> Result<Descriptor<F>, E> {
    open(|| make().map(|fd| [fd])).map(|[fd]| fd)
}

impl<F: AsFd> Drop for Descriptor<F> {
    fn drop(&mut self) {
        // The close happens with the table locked: a fork in between would leave a copy in the
        // child.
        let mut table = table();
        let number = self.0.as_fd().as_raw_fd();
        table.descriptors.set(number, false);
        if table.watched.set(number, false) {
            // Relaxed: a thread that finds another descriptor with this number has received it by a
            // lock or a similar synchronization.
            CLOSED_WATCHED.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the descriptor is dropped only here, and `self` is not used again.
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

/// Shared pages in the table, which this process can write. In a child, private pages of zeros
/// replace them at the same addresses.
pub struct SharedPages {
    start: usize,
}

impl SharedPages {
    /// Enters pages that are mapped now. The caller must drop the `SharedPages` before it unmaps
    /// the pages.
    pub fn new(start: NonNull<u8>, bytes: usize) -> Self {
        install();
        // SAFETY: the call changes only the pages of a child. If it fails, the child keeps the
        // shared pages, which the handler leaves in place. The checks of the handles still work.
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

/// The mappings and descriptors that a child has to replace. The table is small: a connection has
/// several entries of each kind.
struct Table {
    /// Addresses and lengths in bytes.
    pages: Vec<(usize, usize)>,
    descriptors: Numbers,
    /// The descriptors of [`watch`].
    watched: Numbers,
}

/// A set of descriptors' numbers, with a bit for each.
struct Numbers(Vec<u64>);

impl Numbers {
    /// Puts the number in or takes it out. Returns whether it was in the set before.
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
    // Each change of the table is a single call, so the table is whole even after a panic.
    lock(&TABLE)
}

/// The lock on the table during a fork, held by the forking thread.
struct Held(UnsafeCell<Option<MutexGuard<'static, Table>>>);

// SAFETY: only the handlers below use it, in the thread that holds the lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Installs the handlers, once.
fn install() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: it only chooses one thread. A `Once` would be found locked by a child after a fork
    // at this point.
    if INSTALLED.load(Ordering::Relaxed) || INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    // The call fails only without memory. Then children are as unprotected as the children of
    // `_Fork`.
    // SAFETY: the three functions live as long as the process. If the library is unloaded, the C
    // library removes the handlers.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let guard = table();
    // SAFETY: the lock is held, so no other thread accesses the cell.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn in_parent() {
    // SAFETY: as above: the lock has been held since `before`, which this thread called.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    // Relaxed: the child has no other thread yet.
    GENERATION.0.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above: the only thread of the child is the thread that called `before`.
    let held = unsafe { (*HELD.0.get()).take() };
    if let Some(table) = &held {
        // Only system calls are allowed: any other function of the C library may find a lock held.
        table.pages.iter().for_each(|(start, bytes)| replace_pages(*start, *bytes));
        replace_descriptors(table);
    }
}

fn replace_pages(start: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let place = std::ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    // SAFETY: because of `MADV_DONTFORK`, the child has no mapping at this address. If there is a
    // mapping, it stays.
    let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped != libc::MAP_FAILED && mapped != place {
        // SAFETY: the pages were just mapped, by a kernel that takes the address as a mere hint
        // (before 4.17).
        unsafe { libc::munmap(mapped, bytes) };
    }
}

fn replace_descriptors(table: &Table) {
    if table.descriptors.iter().next().is_none() {
        return;
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is NUL-terminated.
    let inert = unsafe { libc::memfd_create(c"stripline-forked".as_ptr(), flags) };
    // Without a free descriptor, the parent's descriptors stay open. The checks of the handles
    // still work.
    if inert < 0 {
        return;
    }
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: system calls with only numbers as arguments, on descriptors of this library.
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

    /// Runs `act` in a child, which exits with 0 if `act` returns true.
    fn in_child(act: impl FnOnce() -> bool) {
        // SAFETY: the child calls only the tested functions and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(false);
            // SAFETY: ends the child without running anything of the test harness.
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
        // SAFETY: the address is within the mapping, which nothing else uses.
        unsafe { map.start().write(7) };
        let [ours, theirs] = open(|| UnixStream::pair().map(|(one, other)| [one, other])).unwrap();
        in_child(|| {
            // SAFETY: as above; private pages in the child.
            let before = unsafe { map.start().read() };
            // SAFETY: as above.
            unsafe { map.start().write(9) };
            // The result is an end or an error, depending on the system call that reads.
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
