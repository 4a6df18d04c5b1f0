//! The subjects of measurements, each with its two ends. The bare ones are written as a good
//! engineer would write them.

pub(super) mod bare;
pub(super) mod calls;
#[cfg(feature = "peers")]
pub(super) mod iceoryx2;
pub(super) mod queue;
pub(super) mod ring;
pub(super) mod socket;
pub(super) mod stripline;
#[cfg(feature = "peers")]
pub(super) mod zeromq;

use super::Problem;
use super::case::{Case, Measure, Outcome};
use super::measure::{Receiver, Sender, echo, ping, sink, source};

/// Runs one side of a ping-pong, or of a one-way stream.
fn run_pair(
    case: &Case,
    place: u32,
    seconds: f64,
    mut sender: impl Sender,
    mut receiver: impl Receiver,
) -> Result<Outcome, Problem> {
    match (case.measure, place) {
        (Measure::Latency, 0) => ping(&mut sender, &mut receiver, seconds),
        (Measure::Latency, _) => echo(&mut sender, &mut receiver),
        (_, 0) => source(&mut sender, case.size, seconds),
        (_, _) => sink(&mut receiver),
    }
}
