//! omniORB: one-way calls through code that the compiler of omniORB generates. The receiver has a
//! queue to a waiting thread, or does the work in the servant. Measured only with sleeping, because
//! threads of omniORB carry the packets.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use stripline_corba_sys as ffi;

use super::super::case::{Case, Subject};
use super::super::handler::{self, Handler};
use super::super::measure::{self, Receiver, Sender, Side};
use super::stripline::DEPTH;
use crate::Problem;
use crate::timeout::wait_until;

/// Connects one side. Each side has a servant. The other side finds the servant's socket through a
/// file.
pub(crate) fn connect(case: &Case, place: u32, domain: &str) -> Result<Box<dyn Side>, Problem> {
    let socket = stripline_middleware::internal::corba_socket_path().map_err(|e| e.to_string())?;
    let object = format!("{domain}-{place}");
    let receiver = if case.subject == Subject::OmniorbServant {
        let handler: Arc<Handler<CorbaSender>> = Handler::new(case, place);
        let context = Arc::into_raw(Arc::clone(&handler)).cast_mut().cast();
        made(&object, |name, text| {
            // SAFETY: as below. The servant stays until the process ends, and so does the handler.
            unsafe { ffi::bare::stripline_corba_bare_call_back(name, take, context, text) }
        })?;
        CorbaReceiving::Called(handler)
    } else {
        let servant = made(&object, |name, text| {
            // SAFETY: the ORB is running, and the name is a NUL-terminated string.
            unsafe { ffi::bare::stripline_corba_bare_serve(name, DEPTH as usize, text) }
        })?;
        CorbaReceiving::Waiting(CorbaReceiver { servant, size: case.size })
    };
    let file = |of: u32| -> PathBuf { std::env::temp_dir().join(format!("{domain}-{of}")) };
    let whole = file(place).with_extension("part");
    let text = |e: std::io::Error| format!("{}: {e}", whole.display());
    std::fs::write(&whole, &socket).map_err(text)?;
    std::fs::rename(&whole, file(place)).map_err(text)?;
    wait_until::<Problem>("omniORB: the other side has no socket", || Ok(file(1 - place).exists()))?;
    let peers = std::fs::read_to_string(file(1 - place)).map_err(|e| format!("omniORB: {e}"))?;
    // No other process reads this file.
    std::fs::remove_file(file(1 - place)).map_err(|e| format!("omniORB: {e}"))?;
    let reference = format!("corbaloc:omniunix:1.2@{peers}:/{domain}-{}", 1 - place);
    let client = made(&reference, |reference, text| {
        // SAFETY: as above.
        unsafe { ffi::bare::stripline_corba_bare_connect(reference, text) }
    })?;
    let sender = CorbaSender { client, bytes: vec![0; case.size] };
    Ok(match receiver {
        CorbaReceiving::Waiting(receiver) => measure::side(case, place, sender, receiver),
        CorbaReceiving::Called(handler) => handler::side(sender, handler, ()),
    })
}

/// The receiving end, either for a waiting thread or with a handler that is called.
enum CorbaReceiving {
    Waiting(CorbaReceiver),
    Called(Arc<Handler<CorbaSender>>),
}

/// Handles a packet on a thread of omniORB.
extern "C" fn take(context: *mut c_void, bytes: *const u8, size: u32) {
    // SAFETY: the handler was leaked for the servant, and the bytes stay valid during the call.
    let (handler, bytes) = unsafe {
        (&*context.cast::<Handler<CorbaSender>>(), std::slice::from_raw_parts(bytes, size as usize))
    };
    handler.take(bytes);
}

/// Calls a function with a text. Returns the object that the function creates.
fn made(
    text: &str,
    make: impl FnOnce(*const c_char, ffi::Text) -> *mut c_void,
) -> Result<NonNull<c_void>, Problem> {
    let text = CString::new(text).map_err(|e| e.to_string())?;
    let mut problem = [0u8; 256];
    let place = ffi::Text { start: problem.as_mut_ptr().cast(), size: problem.len() };
    NonNull::new(make(text.as_ptr(), place)).ok_or_else(|| message(&problem))
}

fn message(problem: &[u8]) -> Problem {
    let text = CStr::from_bytes_until_nul(problem).unwrap_or_default();
    format!("omniORB: {}", text.to_string_lossy())
}

struct CorbaSender {
    client: NonNull<c_void>,
    bytes: Vec<u8>,
}

// SAFETY: any thread may use references of omniORB.
unsafe impl Send for CorbaSender {}

impl Sender for CorbaSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        let mut problem = [0u8; 256];
        let place = ffi::Text { start: problem.as_mut_ptr().cast(), size: problem.len() };
        let (start, size) = (self.bytes.as_ptr(), self.bytes.len() as u32);
        // SAFETY: the client stays valid, and so do the bytes during the call.
        match unsafe { ffi::bare::stripline_corba_bare_send(self.client.as_ptr(), start, size, place) } {
            0 => Ok(()),
            _ => Err(message(&problem)),
        }
    }
}

struct CorbaReceiver {
    servant: NonNull<c_void>,
    size: usize,
}

impl Receiver for CorbaReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        let mut size = 0;
        // SAFETY: the servant stays valid. The packet has this size, and is used only until its
        // release.
        unsafe {
            let packet = ffi::bare::stripline_corba_bare_receive(self.servant.as_ptr(), &mut size);
            if packet.is_null() || size as usize != self.size {
                return Err(format!("omniORB: a packet of {size} bytes"));
            }
            let word = measure::read(std::slice::from_raw_parts(packet, self.size));
            ffi::bare::stripline_corba_bare_release(packet);
            word
        }
    }
}
