//! The options of one packet that is sent.

use std::time::Duration;

use stripline::node::Loan;
use stripline::payload::Dynamic;
use stripline::terms::Scope;

/// The numbers and options that the sender sets for one packet. A loan has defaults for the others.
///
/// ```
/// use stripline::payload::SampleType;
/// use stripline_bindings::Stamps;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher(("iq", &SampleType::parse("cf32")?))?;
/// let stamps = Stamps { sample_index: Some(100), ..Stamps::default() };
/// stamps.apply(publisher.loan(1)?).send()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The number of the first sample within the stream.
    pub sample_index: Option<u64>,
    /// The time when the first sample was taken, in nanoseconds since the Unix epoch.
    pub time_ns: Option<i64>,
    /// The time when the packet should have been sent, in monotonic nanoseconds of the host.
    pub intended_ns: Option<u64>,
    /// The event after which the send returns.
    pub scope: Option<Scope>,
    /// The time limit for receivers.
    pub deadline: Option<Duration>,
}

impl Stamps {
    /// Sets the options of a loan.
    pub fn apply<'a>(&self, mut loan: Loan<'a, Dynamic>) -> Loan<'a, Dynamic> {
        if let Some(index) = self.sample_index {
            loan = loan.at_sample(index);
        }
        if let Some(time_ns) = self.time_ns {
            loan = loan.at_time_ns(time_ns);
        }
        if let Some(intended_ns) = self.intended_ns {
            loan = loan.intended_ns(intended_ns);
        }
        if let Some(scope) = self.scope {
            loan = loan.scope(scope);
        }
        if let Some(deadline) = self.deadline {
            loan = loan.deadline(deadline);
        }
        loan
    }
}
