//! The outlet of an unconnected port.

use crate::error::Result;
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::terms::LinkOptions;
use crate::transport::{Endpoint, Outlet, Wait};

/// An outlet without receivers.
#[derive(Default)]
pub(super) struct NullOutlet {
    frame: AlignedBuffer,
}

impl Outlet for NullOutlet {
    fn endpoint(&self) -> Endpoint {
        Endpoint { transport: "none".into(), address: String::new(), keys: [0; 2] }
    }

    fn frame_max(&self) -> usize {
        LinkOptions::BUFFER_MAX as usize / 2
    }

    fn receivers(&self) -> usize {
        0
    }

    fn is_lossy(&self) -> bool {
        false
    }

    fn admit(&mut self) -> bool {
        false
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

    fn cancel(&mut self) {}

    fn flush(&mut self, _: Wait) -> Result<()> {
        Ok(())
    }
}
