//! A publisher and the loan that refers to it, in one value.

use std::ptr::NonNull;

use stripline::Error;
use stripline::node::{Loan, Publisher};
use stripline::payload::Dynamic;

/// A publisher that may have a loan in place open.
pub struct Lender {
    /// From a box. A reference would not be allowed to move together with the loan.
    publisher: NonNull<Publisher<Dynamic>>,
    loan: Option<Loan<'static, Dynamic>>,
}

// SAFETY: the publisher may move to another thread, and so may the loan, which consists of a
// reference to the publisher and an address of the publisher's memory.
unsafe impl Send for Lender {}

impl Lender {
    pub fn new(publisher: Publisher<Dynamic>) -> Self {
        Self { publisher: NonNull::from(Box::leak(Box::new(publisher))), loan: None }
    }

    pub fn is_lent(&self) -> bool {
        self.loan.is_some()
    }

    /// Returns the publisher; `None`: a loan is open.
    #[inline]
    pub fn publisher(&mut self) -> Option<&mut Publisher<Dynamic>> {
        if self.is_lent() {
            return None;
        }
        // SAFETY: the box lives as long as `self`, and there is no other reference without a loan.
        Some(unsafe { self.publisher.as_mut() })
    }

    /// Opens a loan without waiting, and returns the first byte of the memory.
    pub fn lend(&mut self, samples: usize) -> Result<*mut u8, Error> {
        let publisher = self.publisher.as_ptr();
        assert!(self.loan.is_none(), "a loan was opened while another was open");
        // SAFETY: the box lives longer than the loan, which `self` drops first. No other reference
        // is made while the loan is open.
        let publisher: &'static mut Publisher<Dynamic> = unsafe { &mut *publisher };
        let loan = self.loan.insert(publisher.try_loan(samples)?);
        Ok(loan.as_mut_ptr())
    }

    /// Takes the open loan, which the caller sends or drops before it uses `self` again.
    pub fn take(&mut self) -> Option<Loan<'_, Dynamic>> {
        self.loan.take()
    }

    /// Forgets an open loan, in the child of a fork.
    pub fn forget_loan(&mut self) {
        std::mem::forget(self.loan.take());
    }

    pub fn into_inner(mut self) -> Publisher<Dynamic> {
        drop(self.loan.take());
        let publisher = std::mem::ManuallyDrop::new(self).publisher;
        // SAFETY: the pointer is from a box, and `self` is not dropped.
        *unsafe { Box::from_raw(publisher.as_ptr()) }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        drop(self.loan.take());
        // SAFETY: the pointer is from a box, and nothing else refers to it.
        drop(unsafe { Box::from_raw(self.publisher.as_ptr()) });
    }
}
