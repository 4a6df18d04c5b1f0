//! Components with a handler: the waveform selects the threads that run it.

use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use stripline::component::{Direction, Ports as RustPorts};
use stripline::node::PacketView;
use stripline::payload::Dynamic;
use stripline_bindings::{PortType, Requests, only_port, run_handler};

use crate::border::{ErrorOut, Handle, Out};
use crate::error::{Failure, missing};
use crate::packet::{Content, Packet};
use crate::status::Status;

use super::instance::Instance;
use super::{ComponentHandler, Reason};

/// The packet that a handler makes. The packet is empty at first, and valid until the handler
/// returns.
pub struct Made {
    /// The memory, aligned for every sample type.
    memory: Vec<u128>,
    bytes: usize,
    sample_bytes: usize,
}

/// The largest packet that a handler can make, in bytes.
const BYTES_MAX: usize = isize::MAX as usize / 2;

impl Made {
    fn new(sample_bytes: usize) -> Self {
        Self { memory: Vec::new(), bytes: 0, sample_bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the memory has at least `bytes` bytes, and all of them are initialized.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.bytes) }
    }

    fn resize(&mut self, samples: usize) -> Option<*mut c_void> {
        let bytes = samples.checked_mul(self.sample_bytes).filter(|bytes| *bytes <= BYTES_MAX)?;
        let words = bytes.div_ceil(size_of::<u128>());
        self.memory.try_reserve(words.saturating_sub(self.memory.len())).ok()?;
        if words > self.memory.len() {
            self.memory.resize(words, 0);
        }
        self.bytes = bytes;
        Some(self.memory.as_mut_ptr().cast())
    }
}

/// Sets the number of samples of the packet that a handler makes, and gets their memory. Samples
/// that were there before stay. The content of new samples is unspecified.
///
/// Fails with `STRIPLINE_TOO_LARGE` if there is no memory for them. A packet above the output's
/// limit fails when it is sent.
///
/// - Ownership: the memory is valid until the next call of this function, and until the handler
///   returns.
/// - Blocking: never. The call allocates if no earlier packet had as many samples.
/// - Threads: the thread of the handler.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_made_resize(
    made: Handle<Made>,
    samples: usize,
    memory: Out<*mut c_void>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        memory.check("memory")?;
        // SAFETY: the handle is NULL or valid, and the handler's thread uses it.
        let found = unsafe { made.pointer().as_mut() }.ok_or_else(|| missing("made"))?;
        let place = found.resize(samples).ok_or_else(|| {
            Failure::new(Status::TooLarge, format!("there is no memory for {samples} samples"))
        })?;
        memory.put("memory", place)
    })
}

/// Runs the handler for each packet, on the threads that the waveform selects.
pub(super) fn run(
    instance: &Arc<Instance>,
    handle: ComponentHandler,
    mut ports: RustPorts,
    requests: Option<Arc<Requests<Instance>>>,
) -> stripline::Result<()> {
    let spec = &instance.class.spec;
    // An earlier check made sure that there is one input.
    let input = only_port(spec, Direction::Input).unwrap_or_default();
    let of = PortType::of_port(spec, &ports, input)?;
    let input = ports.input(of.at(input))?;
    let mut output = match only_port(spec, Direction::Output) {
        Some(output) => {
            let of = PortType::of_port(spec, &ports, output)?;
            Some(ports.output(of.at(output))?)
        }
        None => None,
    };
    let sample_bytes = output.as_ref().map(|output| output.sample_bytes());
    let spare = Mutex::new(Vec::new());
    let spares = || spare.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = |packet: PacketView<'_, Dynamic>| {
        let mut made = sample_bytes.map(|bytes| spares().pop().unwrap_or_else(|| Made::new(bytes)));
        handle_one(instance, handle, packet, made.as_mut())?;
        Ok(made)
    };
    run_handler(input, requests, handle, |packet, made| {
        if let (Some(output), Some(mut made)) = (&mut output, made) {
            let bytes = made.as_bytes();
            let mut loan = output.loan(bytes.len() / output.sample_bytes().max(1))?;
            loan.copy_from_slice(bytes);
            loan.send_like(&packet)?;
            made.bytes = 0;
            spares().push(made);
        }
        Ok(())
    })
}

fn handle_one(
    instance: &Instance,
    handle: ComponentHandler,
    packet: PacketView<'_, Dynamic>,
    made: Option<&mut Made>,
) -> stripline::Result<()> {
    // SAFETY: the packet's handle ends before this function returns, and the header forbids later
    // use.
    let view =
        unsafe { std::mem::transmute::<PacketView<'_, Dynamic>, PacketView<'static, Dynamic>>(packet) };
    let (mut packet, mut reason) = (Packet::new(Content::View(view), null()), Reason::new());
    let made = made.map_or(null_mut(), from_mut);
    // SAFETY: the program promises that the handler may be called with this instance.
    let returned = unsafe { handle(instance.pointer, &raw mut packet, made, &raw mut reason) };
    reason.outcome(returned)
}
