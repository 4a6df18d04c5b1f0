//! Options of one packet that is sent.

use std::time::Duration;

use stripline::node::Loan as RustLoan;
use stripline::payload::Dynamic;
use stripline::terms::Scope;

use crate::error::Failure;
use crate::sized;

/// Members of `stripline_send_options` that are set, as bits.
#[repr(u64)]
#[derive(Clone, Copy)]
pub enum SendSet {
    /// `sample_index`.
    SampleIndex = 1,
    /// `time_ns`.
    Time = 2,
    /// `intended_ns`.
    Intended = 4,
    /// `scope`.
    Scope = 8,
    /// `deadline_ns`.
    Deadline = 16,
}

/// Options of one packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendOptions {
    /// `sizeof(stripline_send_options)`.
    pub size: usize,
    /// The members that are set: `STRIPLINE_SEND_SET_…`, combined with `|`.
    pub set: u64,
    /// The number of the packet's first sample within the stream. By default, it continues the
    /// previous packet.
    pub sample_index: u64,
    /// The time when the first sample was taken, in nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// The time when the packet should have been sent, in monotonic nanoseconds of the host.
    pub intended_ns: u64,
    /// The event after which the send returns, instead of the connection's scope: 0 `none`, 1
    /// `transport`, 2 `server`, 3 `target` (`docs/glossary.md`).
    pub scope: u32,
    /// The time limit for receivers in the scopes `server` and `target`.
    pub deadline_ns: u64,
}

sized::sized!(
    SendOptions, "stripline_send_options",
    size: usize, set: u64, sample_index: u64, time_ns: i64, intended_ns: u64, scope: u32, deadline_ns: u64,
);

impl SendOptions {
    const ALL: u64 = 31;

    fn has(&self, member: SendSet) -> bool {
        self.set & member as u64 != 0
    }

    /// Reads the structure that the program has passed, and checks it.
    ///
    /// # Safety
    /// The caller must follow the header's rule for structures.
    pub(crate) unsafe fn read(from: *const Self) -> Result<Self, Failure> {
        // SAFETY: the caller makes the same promise.
        let options = unsafe { sized::read(from) }?;
        if options.set & !Self::ALL != 0 {
            return Err(Failure::argument(format!(
                "`options->set` has the bits {:#x}, which this library does not have; update the library",
                options.set & !Self::ALL
            )));
        }
        if options.has(SendSet::Scope) && options.scope as usize >= Scope::ALL.len() {
            return Err(Failure::argument(format!(
                "`options->scope` is {}; it must be from 0 (`none`) to 3 (`target`)",
                options.scope
            )));
        }
        Ok(options)
    }

    pub(crate) fn apply<'a>(&self, mut loan: RustLoan<'a, Dynamic>) -> RustLoan<'a, Dynamic> {
        if self.has(SendSet::SampleIndex) {
            loan = loan.at_sample(self.sample_index);
        }
        if self.has(SendSet::Time) {
            loan = loan.at_time_ns(self.time_ns);
        }
        if self.has(SendSet::Intended) {
            loan = loan.intended_ns(self.intended_ns);
        }
        if self.has(SendSet::Scope) {
            loan = loan.scope(Scope::ALL[self.scope as usize]);
        }
        if self.has(SendSet::Deadline) {
            loan = loan.deadline(Duration::from_nanos(self.deadline_ns));
        }
        loan
    }
}
