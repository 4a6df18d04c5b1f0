//! A value with a single owner. Others can only keep the value alive, so the owner needs no lock.

use std::cell::UnsafeCell;
use std::sync::Arc;

use stripline::carrier::fork::Local;

/// The owner of a value.
pub(crate) struct SoleOwner<T>(Arc<Local<KeptValue<T>>>);

/// A value that is kept alive by others, and used only by its owner.
pub(crate) struct KeptValue<T>(UnsafeCell<T>);

// SAFETY: a shared reference gives no access to the value. Only the owner has access, and the last
// keeper, which drops the value on the keeper's thread.
unsafe impl<T: Send> Sync for KeptValue<T> {}

impl<T: Send> SoleOwner<T> {
    /// Wraps a value. A child of a fork does not drop it.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Local::new(KeptValue(UnsafeCell::new(value)))))
    }

    /// Returns whether this process made the value.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.0.is_current()
    }

    /// Returns the value.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: the owner cannot be copied and is borrowed as long as the value, and nothing else
        // gives access to the value.
        unsafe { &mut *self.0.0.get() }
    }

    /// Returns a keeper of the value.
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
