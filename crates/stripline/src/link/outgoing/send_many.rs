//! Methods of `Outgoing` for a sender of many packets at a time.

use super::{Outgoing, SendPath};
use crate::error::Result;
use crate::link::FrameMut;
use crate::transport::AnyOutlet;

impl Outgoing {
    /// Sends packets of a steady stream, as long as there is room and nothing else is due. `fill`
    /// writes the packets from `index` on, up to `packets`. Returns the index of the first packet
    /// that is not sent.
    pub(crate) fn send_steady_run(
        &mut self,
        mut index: usize,
        packets: usize,
        payload: usize,
        samples: u64,
        mut fill: impl FnMut(usize, FrameMut),
    ) -> usize {
        let run = SteadyRun(self);
        while index < packets && run.0.path == SendPath::Steady {
            let Some(place) = run.0.reserve_steady(payload) else { break };
            fill(index, place);
            if !run.0.publish_steady(payload, samples, true) {
                break;
            }
            index += 1;
        }
        index
    }

    /// Sets whether packets are gathered, to be sent together. When gathering ends, the gathered
    /// packets are sent.
    pub(crate) fn gather(&mut self, gathers: bool) -> Result<()> {
        let (wait, is_own) = (self.wait(), self.is_own());
        match &mut **self.outlets {
            // A child leaves the packets to the process that sends them.
            [AnyOutlet::Other(only)] if is_own => only.gather(gathers, wait),
            _ => Ok(()),
        }
    }
}

/// Packets of a steady stream that are published together. The drop completes them, even if the
/// function that writes them panics.
struct SteadyRun<'a>(&'a mut Outgoing);

impl Drop for SteadyRun<'_> {
    fn drop(&mut self) {
        // A child leaves the packets to the process that sends them.
        if self.0.is_own()
            && let [AnyOutlet::Ring(ring)] = &mut **self.0.outlets
        {
            ring.finish_publishing();
        }
    }
}
