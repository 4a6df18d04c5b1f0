//! Methods of `Outgoing` for the fragments of a large packet. A sender that is interrupted between
//! two fragments sends the rest with the next call, so that the packet stays whole.

use std::sync::Arc;
use std::time::Duration;

use super::{Outgoing, SendPath};
use crate::error::{Error, Result};
use crate::flow::AckWait;
use crate::link::fragmentation::{Fragment, fragments};
use crate::packet::{Header, StreamInfo};
use crate::terms::Scope;
use crate::transport::Wait;

/// A packet in the port's own buffer, with some fragments already sent.
#[derive(Clone)]
pub(super) struct UnsentFragments {
    header: Header,
    payload: usize,
    info: Arc<StreamInfo>,
    /// The number of bytes that were sent.
    offset: usize,
}

impl UnsentFragments {
    /// Returns a packet without any sent fragment.
    pub(super) fn new(header: Header, payload: usize, info: &Arc<StreamInfo>) -> Self {
        Self { header, payload, info: Arc::clone(info), offset: 0 }
    }
}

impl Outgoing {
    /// Sends the remaining fragments of a packet. An interrupt between two fragments keeps the
    /// rest. The error comes with a flag: whether some fragments were sent.
    pub(super) fn send_fragments(
        &mut self,
        mut packet: UnsentFragments,
        wait: Wait,
    ) -> Result<(), (Error, bool)> {
        let UnsentFragments { header, payload, offset: start, .. } = packet;
        let all = fragments(payload, self.frame_payload_max);
        for fragment in all.skip_while(|fragment| fragment.offset < start) {
            packet.offset = fragment.offset;
            match self.publish_fragment(&header, fragment, wait) {
                Ok(()) => {}
                Err(Error::Interrupted { port, .. }) if fragment.offset > 0 => {
                    self.keep_unsent(packet);
                    return Err((Error::Interrupted { port, sent: true }, true));
                }
                Err(error) => {
                    // A later call continues with the rest that was kept before.
                    if start > 0 && matches!(error, Error::Full { .. }) {
                        self.keep_unsent(packet);
                    }
                    return Err((error, fragment.offset > 0));
                }
            }
        }
        let whole = Fragment { offset: 0, bytes: payload, flags: 0 };
        self.taps.stage(&header, self.fragmenter.bytes(whole), &packet.info);
        self.taps.commit();
        Ok(())
    }

    fn keep_unsent(&mut self, packet: UnsentFragments) {
        self.unsent = Some(packet);
        self.path = SendPath::Special;
    }

    /// Sends the rest of the interrupted packet. If this send is interrupted, the error is an
    /// interrupt of the current call, with nothing sent.
    #[cold]
    pub(super) fn send_remaining(&mut self, wait: Wait) -> Result<()> {
        let Some(packet) = self.unsent.take() else { return Ok(()) };
        let Header { sequence, flags, .. } = packet.header;
        self.send_fragments(packet, wait).map_err(|(error, _)| match error {
            Error::Interrupted { port, .. } => Error::Interrupted { port, sent: false },
            error => error,
        })?;
        let scope = match flags & (Header::SERVER | Header::TARGET) {
            0 => return Ok(()),
            Header::SERVER => Scope::Server,
            _ => Scope::Target,
        };
        // The send of this packet has returned, but acknowledgements will arrive.
        let _ = self.wait_acks(AckWait::new(sequence, scope, Duration::ZERO));
        Ok(())
    }
}
