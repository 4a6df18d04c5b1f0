//! The outlet of an unconnected port.

use crate::error::Result;
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::PollSet;
use crate::terms::LinkOptions;
use crate::transport::{
    Admitted, Awaited, Endpoint, Flush, NextPacket, Outlet, OutletTraits, Prepared, Wait,
};

/// An outlet without receivers.
#[derive(Default)]
pub(super) struct NullOutlet {
    frame: AlignedBuffer,
}

impl Outlet for NullOutlet {
    fn traits(&self) -> OutletTraits {
        OutletTraits {
            endpoint: Endpoint { transport: "none".into(), address: String::new(), keys: [0; 2] },
            frame_max: LinkOptions::BUFFER_MAX as usize / 2,
            short_headers: false,
            scope_max: None,
            attention: None,
            departures: None,
        }
    }

    fn receivers(&self, _: bool) -> usize {
        0
    }

    fn admit(&mut self, _: NextPacket) -> Admitted {
        Admitted::default()
    }

    fn reserve(&mut self, bytes: usize, _: Wait) -> Result<&mut [u8]> {
        self.frame.grow(bytes);
        Ok(self.frame.bytes_mut())
    }

    fn reserved(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn publish(&mut self, _: usize, _: Wait) -> Result<()> {
        Ok(())
    }

    fn prepare_wait<'a>(&'a mut self, awaited: Awaited, _: &mut PollSet<'a>) -> Result<Prepared> {
        Ok(match awaited {
            Awaited::Room(_) => Prepared::Now,
            Awaited::Receivers => Prepared::Until(None),
        })
    }

    fn flush(&mut self, _: Flush, _: Wait) -> Result<()> {
        Ok(())
    }
}
