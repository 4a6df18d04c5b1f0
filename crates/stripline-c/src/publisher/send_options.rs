//! Options of one packet that is sent.

use std::time::Duration;

use stripline::node::Loan as RustLoan;
use stripline::payload::Dynamic;
use stripline::terms::Scope;
use stripline_bindings::Stamps;

use crate::border::Ref;
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

/// All members that can be set.
const ALL: u64 = 31;

impl Ref<SendOptions> {
    /// Returns the options that the program has passed; `None` for NULL.
    pub(super) fn stamps(&self) -> Result<Option<Stamps>, Failure> {
        if self.pointer().is_null() {
            return Ok(None);
        }
        let given = self.read()?;
        if given.set & !ALL != 0 {
            return Err(Failure::argument(format!(
                "`options->set` has the bits {:#x}, which this library does not have; update the library",
                given.set & !ALL
            )));
        }
        let has = |member: SendSet| given.set & member as u64 != 0;
        let scope = Scope::ALL.get(given.scope as usize).copied();
        if has(SendSet::Scope) && scope.is_none() {
            let scope = given.scope;
            return Err(Failure::argument(format!(
                "`options->scope` is {scope}; it must be from 0 (`none`) to 3 (`target`)"
            )));
        }
        Ok(Some(Stamps {
            sample_index: has(SendSet::SampleIndex).then_some(given.sample_index),
            time_ns: has(SendSet::Time).then_some(given.time_ns),
            intended_ns: has(SendSet::Intended).then_some(given.intended_ns),
            scope: scope.filter(|_| has(SendSet::Scope)),
            deadline: has(SendSet::Deadline).then(|| Duration::from_nanos(given.deadline_ns)),
        }))
    }
}

/// Sends a loan with the options of the packet.
pub(super) fn send(loan: RustLoan<'_, Dynamic>, stamps: Option<Stamps>) -> Result<(), Failure> {
    let sent = match stamps {
        None => loan.send(),
        Some(stamps) => stamps.apply(loan).send(),
    };
    Ok(sent?)
}
