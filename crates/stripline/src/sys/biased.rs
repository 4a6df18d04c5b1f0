//! A biased lock. The first thread takes it without atomic instructions; when a second thread
//! comes, it becomes a mutex.
//!
//! A locked instruction waits until everything stored before it has left the processor. Behind a
//! packet that was just published, that takes as long as the rest of a call. The first thread only
//! sets a flag while it is inside. The second thread marks the lock as shared, runs a barrier on
//! all processors for both, and waits until the first is outside. From then on the lock is a mutex.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::membarrier;

pub(crate) struct Biased<T> {
    /// The thread that it is biased to; 0: none yet.
    owner: AtomicUsize,
    /// Whether that thread is inside.
    owner_inside: AtomicBool,
    /// Whether another thread has come: then all threads take the mutex.
    is_shared: AtomicBool,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: like a mutex, `lock` and `try_lock` give the value to one thread at a time.
unsafe impl<T: Send> Sync for Biased<T> {}

/// A guard with exclusive access to the value until it is dropped.
pub(crate) struct BiasedGuard<'a, T> {
    of: &'a Biased<T>,
    /// `None`: held by the thread that the lock is biased to.
    guard: Option<MutexGuard<'a, ()>>,
    /// Keeps the guard, and what it lends, on its thread.
    _stays: PhantomData<*const T>,
}

thread_local! {
    static TOKEN: u8 = const { 0 };
}

/// Returns a number that no other living thread has.
#[inline]
fn token() -> usize {
    TOKEN.with(|token| std::ptr::from_ref(token).addr())
}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            owner: AtomicUsize::new(0),
            owner_inside: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no other thread is inside. The calling thread must not be inside itself.
    ///
    /// # Panics
    /// Panics if the thread that the lock is biased to calls it while inside. (Any other thread
    /// deadlocks.)
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        self.enter().unwrap_or_else(|| self.lock_slow(false))
    }

    /// Locks like [`Biased::lock`], but only if no thread is inside.
    pub(crate) fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        self.enter().or_else(|| self.try_lock_slow(false))
    }

    /// Locks like [`Biased::lock`], for a thread that will lock it repeatedly.
    #[inline]
    pub(crate) fn lock_biased(&self) -> BiasedGuard<'_, T> {
        match self.enter() {
            Some(held) => held,
            None => self.lock_slow(true),
        }
    }

    /// Locks like [`Biased::try_lock`], for a thread that will lock it repeatedly.
    #[inline]
    pub(crate) fn try_lock_biased(&self) -> Option<BiasedGuard<'_, T>> {
        match self.enter() {
            Some(held) => Some(held),
            None => self.try_lock_slow(true),
        }
    }

    /// Enters as the thread that the lock is biased to.
    #[inline]
    fn enter(&self) -> Option<BiasedGuard<'_, T>> {
        // Relaxed throughout: only the owner stores its own number. Before the lock is shared, only
        // the owner reads `owner_inside` and the value.
        if self.owner.load(Ordering::Relaxed) != token() || self.owner_inside.load(Ordering::Relaxed) {
            return None;
        }
        self.owner_inside.store(true, Ordering::Relaxed);
        // Pairs with the barrier that the sharing thread runs on all processors: one of the two
        // sees the other's flag.
        compiler_fence(Ordering::SeqCst);
        if !self.is_shared.load(Ordering::Relaxed) {
            return Some(BiasedGuard::new(self, None));
        }
        // Release: nothing was changed, but a waiting thread may continue.
        self.owner_inside.store(false, Ordering::Release);
        None
    }

    #[cold]
    fn lock_slow(&self, as_own: bool) -> BiasedGuard<'_, T> {
        let is_owner = self.owner.load(Ordering::Relaxed) == token();
        assert!(!(is_owner && self.owner_inside.load(Ordering::Relaxed)), "a thread waits for itself");
        // The mutex itself protects no value, so poisoning is harmless.
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        if as_own && let Some(held) = self.adopt() {
            return held;
        }
        self.share();
        let mut spins = 0u32;
        // Acquire: pairs with the owner's Release when it leaves.
        while self.owner_inside.load(Ordering::Acquire) {
            spins = spins.saturating_add(1);
            match spins {
                0..64 => std::hint::spin_loop(),
                64..256 => std::thread::yield_now(),
                // It may be waiting for room, and then for long.
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
        }
        BiasedGuard::new(self, Some(guard))
    }

    #[cold]
    fn try_lock_slow(&self, as_own: bool) -> Option<BiasedGuard<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if as_own && let Some(held) = self.adopt() {
            return Some(held);
        }
        self.share();
        // Acquire: as in `lock_slow`.
        let is_free = !self.owner_inside.load(Ordering::Acquire);
        is_free.then_some(BiasedGuard::new(self, Some(guard)))
    }

    /// Makes this thread the owner of a lock without one. Called with the mutex held.
    fn adopt(&self) -> Option<BiasedGuard<'_, T>> {
        let is_new = self.owner.load(Ordering::Relaxed) == 0 && !self.is_shared.load(Ordering::Relaxed);
        if !is_new || !membarrier::is_supported() {
            return None;
        }
        self.owner.store(token(), Ordering::Relaxed);
        self.enter()
    }

    /// Marks the lock as shared: from now on all threads take the mutex. Called with the mutex
    /// held.
    fn share(&self) {
        // A lock without an owner needs no barrier.
        if self.owner.load(Ordering::Relaxed) != 0 && !self.is_shared.load(Ordering::Relaxed) {
            self.is_shared.store(true, Ordering::Relaxed);
            // A full barrier here and on every processor that runs a thread of this process. After
            // it, the owner has seen the flag, or is seen to be inside.
            membarrier::fence_before_sleep(membarrier::is_supported());
        }
    }
}

impl<'a, T> BiasedGuard<'a, T> {
    #[inline]
    fn new(of: &'a Biased<T>, guard: Option<MutexGuard<'a, ()>>) -> Self {
        Self { of, guard, _stays: PhantomData }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has exclusive access. Either it has the mutex, and the owner was
        // outside and stays so. Or it is the owner, was not inside before, and no thread has shared
        // the lock: such a thread would wait for it.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_none() {
            // Release: a thread that sees it sees what was done.
            self.of.owner_inside.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_however_many_come() {
        for round in 0..50 {
            let lock = Biased::new((0u64, 0u64));
            let add = |times: u64| {
                for _ in 0..times {
                    let mut held = lock.lock_biased();
                    held.0 += 1;
                    held.1 += 1;
                    assert_eq!(held.0, held.1);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(|| add(20_000));
                (0..2).for_each(|_| {
                    drop(scope.spawn(|| {
                        // Interrupts at another point every time.
                        while lock.try_lock().is_some_and(|held| held.0 < 100 * round) {}
                        add(1000);
                    }))
                });
            });
            assert_eq!(lock.lock().0, 22_000);
        }
    }

    #[test]
    fn who_is_in_does_not_get_in_again() {
        let lock = Biased::new(7);
        let held = lock.lock_biased();
        assert!(lock.try_lock_biased().is_none() && lock.try_lock().is_none());
        assert!(std::thread::scope(|scope| scope.spawn(|| lock.try_lock().is_none()).join().unwrap()));
        drop(held);
        assert_eq!(lock.try_lock().map(|held| *held), Some(7));
    }
}
