//! The ends of a path: a servant that takes bytes, and a client that sends them.

use std::ffi::{CString, c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Zeroable;
use stripline_corba_sys as ffi;

use stripline::carrier::aligned_buffer::{AlignedBuffer, CacheLine};
use stripline::carrier::fork::Descriptor;
use stripline::{Error, Result};

use super::spelled_address::SpelledAddress;
use super::{OrbMessage, caught, orb};
use crate::system::check_descriptors;

/// Descriptors that omniORB takes for one end of a path.
const FOR_PATH: usize = 4;

/// Memory for the bytes of a call, behind a free cache line.
#[derive(Debug, Default)]
pub(crate) struct CallBytes {
    lines: Vec<CacheLine>,
    bytes: usize,
}

impl CallBytes {
    /// Makes room for `bytes` bytes. The old content is lost.
    pub(crate) fn set_len(&mut self, bytes: usize) {
        let lines = (AlignedBuffer::FRONT + bytes).div_ceil(size_of::<CacheLine>());
        if lines > self.lines.len() {
            self.lines.resize(lines, CacheLine::zeroed());
        }
        self.bytes = bytes;
    }

    /// Returns the bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[AlignedBuffer::FRONT..][..self.bytes]
    }

    fn start(&mut self) -> *mut u8 {
        bytemuck::cast_slice_mut::<CacheLine, u8>(&mut self.lines)[AlignedBuffer::FRONT..].as_mut_ptr()
    }

    /// Returns all lines, including the free one.
    pub(crate) fn lines(&self) -> &[CacheLine] {
        &self.lines
    }
}

/// The receiver of a servant's calls, on threads of omniORB. After a panic, the call is lost.
pub(crate) trait CallReceiver: Send + Sync + 'static {
    /// Returns memory for a call with this key, number and size; `None`: the call is dropped.
    /// `connection` is the descriptor of the call's connection. The descriptor is given only for
    /// the highest number.
    fn place(
        &self,
        key: u64,
        number: u64,
        bytes: usize,
        connection: Option<BorrowedFd<'_>>,
    ) -> Option<Box<CallBytes>>;

    /// Takes a call.
    fn arrived(&self, call: Box<CallBytes>, number: u64, frames: u64);

    /// Takes back the memory of a call that did not arrive completely.
    fn abandoned(&self, call: Box<CallBytes>);
}

/// A servant.
pub(crate) struct CallServer(NonNull<c_void>);

// SAFETY: the C++ side counts references to the servant atomically, and any thread may call the
// functions.
unsafe impl Send for CallServer {}
// SAFETY: as above.
unsafe impl Sync for CallServer {}

impl CallServer {
    /// Activates a servant with that object key, which should be random.
    ///
    /// # Errors
    /// The ORB does not start, or belongs to the program or to the parent, or descriptors are
    /// missing.
    pub(crate) fn new<R: CallReceiver>(object: &str, receiver: &Arc<R>) -> Result<Self> {
        orb()?;
        check_descriptors("omniORB", FOR_PATH)?;
        let object = CString::new(object).map_err(Error::of_system)?;
        let functions = ffi::Receiver {
            place: place::<R>,
            arrived: arrived::<R>,
            abandoned: abandoned::<R>,
            ended: ended::<R>,
        };
        let context = Arc::into_raw(Arc::clone(receiver));
        let mut problem = OrbMessage::default();
        // SAFETY: the ORB runs. The functions are copied, and match the context, which they use
        // until `ended` releases it.
        let servant = unsafe {
            ffi::stripline_corba_serve(object.as_ptr(), &functions, context.cast_mut().cast(), problem.text())
        };
        let Some(servant) = NonNull::new(servant) else {
            // SAFETY: the pointer was made above, and `ended` was not called.
            drop(unsafe { Arc::from_raw(context) });
            return Err(Error::of_system(format!("omniORB has no place for a servant: {problem}")));
        };
        Ok(Self(servant))
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        // SAFETY: the servant is active, and ends only here.
        unsafe { ffi::stripline_corba_stop_serving(self.0.as_ptr()) };
    }
}

/// Returns memory for a call, and writes a handle of the call to `into`; null: the call is dropped.
///
/// # Safety
/// The caller must pass the context of [`CallServer::new`], and a writable `into`.
unsafe extern "C" fn place<R: CallReceiver>(
    context: *mut c_void,
    key: u64,
    number: u64,
    bytes: u32,
    descriptor: c_int,
    into: *mut *mut c_void,
) -> *mut u8 {
    // SAFETY: the servant keeps the context until `ended`.
    let receiver = unsafe { &*context.cast::<R>() };
    // SAFETY: the descriptor is open while the call is read.
    let connection = (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) });
    let Some(mut call) = caught(|| receiver.place(key, number, bytes as usize, connection)) else {
        return std::ptr::null_mut();
    };
    if call.bytes != bytes as usize {
        return std::ptr::null_mut();
    }
    let start = call.start();
    // SAFETY: `into` is the caller's variable.
    unsafe { into.write(Box::into_raw(call).cast()) };
    start
}

/// Takes a call.
///
/// # Safety
/// The caller must pass the context of [`CallServer::new`] and a call from [`place`]. Each call is
/// passed once, to this function or to [`abandoned`].
unsafe extern "C" fn arrived<R: CallReceiver>(
    context: *mut c_void,
    call: *mut c_void,
    number: u64,
    frames: u64,
    _bytes: u32,
) {
    // SAFETY: as above; the call is the box of `place`.
    let (receiver, call) = unsafe { (&*context.cast::<R>(), Box::from_raw(call.cast::<CallBytes>())) };
    caught(|| receiver.arrived(call, number, frames));
}

/// Takes back the memory of a call.
///
/// # Safety
/// The caller must meet the conditions of [`arrived`].
unsafe extern "C" fn abandoned<R: CallReceiver>(context: *mut c_void, call: *mut c_void) {
    // SAFETY: as above.
    let (receiver, call) = unsafe { (&*context.cast::<R>(), Box::from_raw(call.cast::<CallBytes>())) };
    caught(|| receiver.abandoned(call));
}

/// Releases the context.
///
/// # Safety
/// The caller must pass the context of [`CallServer::new`], and must not use it afterwards.
unsafe extern "C" fn ended<R: CallReceiver>(context: *mut c_void) {
    // SAFETY: this is the last use of the pointer that `new` has leaked.
    caught(|| drop(unsafe { Arc::from_raw(context.cast::<R>()) }));
}

/// A client of a servant, with a separate connection. Only one thread at a time may use it.
pub(crate) struct CallClient {
    path: NonNull<c_void>,
    place: CallPlace,
}

/// The place that a connection leads to.
enum CallPlace {
    /// The file of a Unix socket, kept open.
    File { _socket: Descriptor },
    /// An address of TCP.
    Tcp { _address: SpelledAddress },
}

// SAFETY: no part of a client belongs to a thread.
unsafe impl Send for CallClient {}

/// The kernel's buffer of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelBuffer {
    /// The size of the buffer, in bytes.
    pub bytes: u32,
    /// Bytes that were in the buffer before the call. Over TCP, this is 0 or the whole size, which
    /// means that more than about two thirds were in use.
    pub queued: u32,
}

impl CallClient {
    /// Takes the object key of a servant, and the file of the socket of the servant's process. Does
    /// not connect.
    ///
    /// # Errors
    /// The errors of [`CallServer::new`].
    pub(crate) fn of_file(object: &str, socket: OwnedFd) -> Result<Self> {
        // omniORB shares connections between references with the same address. A reused descriptor
        // number therefore gets another number of slashes before it.
        static ADDRESSES: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the addresses only need to differ.
        let slashes = "/".repeat(1 + ADDRESSES.fetch_add(1, Ordering::Relaxed) as usize % 48);
        let socket = Descriptor::new(socket);
        let number = socket.as_fd().as_raw_fd();
        let reference = format!("corbaloc:omniunix:1.2@/proc/self{slashes}fd/{number}:/{object}");
        Self::new(reference, CallPlace::File { _socket: socket })
    }

    /// Takes the object key of a servant, and an address of the servant's process. Does not
    /// connect. The first call connects, which takes ten seconds at most.
    ///
    /// # Errors
    /// The errors of [`CallServer::new`], or too many connections to that address.
    pub(crate) fn of_address(object: &str, address: SocketAddr) -> Result<Self> {
        let address = SpelledAddress::new(address)?;
        let reference = format!("corbaloc:iiop:1.2@{address}/{object}");
        Self::new(reference, CallPlace::Tcp { _address: address })
    }

    fn new(reference: String, place: CallPlace) -> Result<Self> {
        orb()?;
        check_descriptors("omniORB", FOR_PATH)?;
        let reference = CString::new(reference).map_err(Error::of_system)?;
        let mut problem = OrbMessage::default();
        // SAFETY: the ORB runs.
        let path = unsafe { ffi::stripline_corba_connect(reference.as_ptr(), problem.text()) };
        let path = NonNull::new(path)
            .ok_or_else(|| Error::of_system(format!("omniORB refuses the reference of a path: {problem}")))?;
        Ok(Self { path, place })
    }

    /// Makes a one-way call of the servant. When it returns, the kernel has the bytes.
    ///
    /// # Errors
    /// An error of omniORB. The connection is closed, and the next call makes another one.
    pub(crate) fn call(&mut self, key: u64, number: u64, frames: u64, bytes: &[u8]) -> Result<(), String> {
        self.send([key, number, frames], bytes, std::ptr::null_mut())
    }

    /// Makes a call like [`CallClient::call`], after enlarging the kernel's buffer to `enlarge_to`
    /// bytes if the system allows it. Returns the state of the buffer; `None`: the connection did
    /// not exist before.
    ///
    /// # Errors
    /// The errors of [`CallClient::call`].
    pub(crate) fn call_and_look(
        &mut self,
        [key, number, frames]: [u64; 3],
        bytes: &[u8],
        enlarge_to: c_int,
    ) -> Result<Option<KernelBuffer>, String> {
        let is_tcp = matches!(self.place, CallPlace::Tcp { .. }).into();
        let mut socket = ffi::Socket { enlarge_to, buffer: -1, queued: -1, is_tcp };
        self.send([key, number, frames], bytes, &mut socket)?;
        let found = [socket.buffer, socket.queued].map(u32::try_from);
        Ok(if let [Ok(bytes), Ok(queued)] = found { Some(KernelBuffer { bytes, queued }) } else { None })
    }

    fn send(&mut self, numbers: [u64; 3], bytes: &[u8], socket: *mut ffi::Socket) -> Result<(), String> {
        let [key, number, frames] = numbers;
        let size = u32::try_from(bytes.len()).map_err(|e| e.to_string())?;
        let mut problem = OrbMessage::default();
        // SAFETY: the path exists until the drop, and `self` has a single user. The bytes and the
        // socket live through the call.
        let result = unsafe {
            let (path, start) = (self.path.as_ptr(), bytes.as_ptr());
            ffi::stripline_corba_send(path, key, number, frames, start, size, socket, problem.text())
        };
        if result == 0 { Ok(()) } else { Err(format!("omniORB: {problem}")) }
    }
}

impl Drop for CallClient {
    fn drop(&mut self) {
        // SAFETY: the path is not used after this call.
        unsafe { ffi::stripline_corba_disconnect(self.path.as_ptr()) };
    }
}
