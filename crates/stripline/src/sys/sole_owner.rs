//! A value with one owner, which others can only keep alive: no lock is needed to use it.

use std::cell::UnsafeCell;
use std::sync::Arc;

use super::fork::Local;

/// The owner of a value.
pub(crate) struct SoleOwner<T>(Arc<Local<KeptValue<T>>>);

/// A value that is kept alive, and that only its owner uses.
pub(crate) struct KeptValue<T>(UnsafeCell<T>);

// SAFETY: a shared reference gives no access to the value. Its owner alone has that, and the last
// of its keepers, which drops it on its own thread.
unsafe impl<T: Send> Sync for KeptValue<T> {}

impl<T: Send> SoleOwner<T> {
    /// Takes a value, which a child of a fork does not drop.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Local::new(KeptValue(UnsafeCell::new(value)))))
    }

    /// Returns whether this is the process that made it.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.0.is_current()
    }

    /// Returns the value.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: the owner is no copy, is borrowed as long as the value, and nothing else gives
        // access to it.
        unsafe { &mut *self.0.0.get() }
    }

    /// Returns what keeps the value alive.
    #[inline(always)]
    pub(crate) fn keeper(&self) -> &Arc<Local<KeptValue<T>>> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_outlives_the_owner_and_drops_the_value() {
        let counted = Arc::new(());
        let mut owner = SoleOwner::new((Arc::clone(&counted), 1));
        let keeper = Arc::clone(owner.keeper());
        owner.get_mut().1 += 1;
        assert!(owner.is_current() && owner.get_mut().1 == 2);
        drop(owner);
        assert_eq!(Arc::strong_count(&counted), 2);
        std::thread::spawn(|| drop(keeper)).join().unwrap();
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
