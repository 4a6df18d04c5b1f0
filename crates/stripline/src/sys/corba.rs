//! Paths over omniORB: servants that take bytes, and clients that give them. A process has one ORB,
//! started when it is first needed.
//!
//! Its socket has a name for a moment only. A process that is to connect gets a descriptor of the
//! file, and connects by `/proc/self/fd`. So nothing outlives a process, and no other one finds the
//! socket. Each such address has a connection of its own, also within one process.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytemuck::Zeroable;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use stripline_corba_sys as ffi;

use super::aligned_buffer::{AlignedBuffer, CacheLine};
use super::descriptors::check_descriptors;
use super::fork::{Descriptor, PerProcess};
use super::owned_names::OwnedNames;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;

/// The names of the sockets, until their processes have them.
pub(crate) const NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-corba-" };
/// The file of a socket in its folder.
const SOCKET: &str = "orb";
/// Descriptors that an ORB takes at its start, and one end of a path.
const FOR_ORB: usize = 8;
const FOR_PATH: usize = 4;
/// The names of sockets that other programs connect to, until their processes end.
const OPEN_NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-bulkio-" };
/// What the environment must not set: addresses that this process would listen at or connect to.
const ADDRESSES: [&str; 3] = ["ORBendPoint", "ORBclientTransportRule", "ORBserverTransportRule"];
/// Options that have the same value in each process. The environment cannot change them.
const OPTIONS: [[&CStr; 2]; 11] = [
    // Only the owner's processes reach the name, and later those that have the descriptor.
    [c"unixTransportPermission", c"0666"],
    // A peer that is stopped is late, and not gone.
    [c"inConScanPeriod", c"0"],
    [c"outConScanPeriod", c"0"],
    [c"clientCallTimeOutPeriod", c"0"],
    [c"serverCallTimeOutPeriod", c"0"],
    [c"giopMaxMsgSize", c"2097152"],
    [c"threadPerConnectionPolicy", c"1"],
    [c"offerBiDirectionalGIOP", c"0"],
    [c"acceptBiDirectionalGIOP", c"0"],
    // It prints nothing.
    [c"traceLevel", c"0"],
    // The first call would be one that waits.
    [c"verifyObjectExistsAndType", c"0"],
];
/// Options where there are only paths.
const OF_PATHS: [[&CStr; 2]; 1] = [
    // One connection for each path.
    [c"maxGIOPConnectionPerServer", c"1"],
];
/// Options where other programs connect, too.
const OF_OPEN: [[&CStr; 2]; 4] = [
    // A call that waits for its target does not keep others from that program.
    [c"maxGIOPConnectionPerServer", c"64"],
    // One-way calls of a connection stay in order.
    [c"maxServerThreadPerConnection", c"1"],
    [c"supportPerThreadTimeOut", c"1"],
    // In milliseconds.
    [c"clientConnectTimeOutPeriod", c"10000"],
];
/// The addresses that an ORB connects to that stays on its host.
const OF_HOST: [[&CStr; 2]; 2] = [
    [c"clientTransportRule", c"localhost unix,ssl,tcp"],
    [c"clientTransportRule", c"127.0.0.0/255.0.0.0 unix,ssl,tcp"],
];
/// Those of other hosts, where it has TLS.
const OF_OTHERS: [&CStr; 2] = [c"clientTransportRule", c"* ssl"];

/// The ORB of this process, which ends with it.
static ORB: PerProcess<OnceLock<Result<Orb, String>>> = PerProcess::new(OnceLock::new);
/// Whether this process has started one, or one that it is a child of. A child has none of
/// omniORB's threads, and its locks may be held for ever there.
static WAS_STARTED: AtomicBool = AtomicBool::new(false);

/// The ORB, as far as it is used again.
struct Orb {
    /// The file of its socket, without its name.
    socket: Descriptor,
    /// Where other programs connect.
    access: Option<OpenAccess>,
}

/// The ways by which other programs reach this process, and it reaches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenAccess {
    /// Where it listens.
    pub listen: OpenAddress,
    /// Whether it may connect to other hosts without TLS.
    pub leaves_host: bool,
    /// The files of TLS, where it speaks that.
    pub tls: Option<TlsFiles>,
}

/// An address of an ORB for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenAddress {
    /// A Unix socket with a name.
    Unix,
    /// An address of TCP.
    Tcp(SocketAddr),
    /// An address of TCP, where it speaks TLS.
    Tls(SocketAddr),
}

impl OpenAddress {
    /// Returns the address of TCP; `None`: it is another one.
    pub(crate) fn tcp(self) -> Option<SocketAddr> {
        match self {
            Self::Unix => None,
            Self::Tcp(address) | Self::Tls(address) => Some(address),
        }
    }
}

/// The files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates that those of peers are checked by.
    pub ca: PathBuf,
    /// The own certificate, which peers check.
    pub certificate: PathBuf,
    /// Its key, without a password.
    pub private_key: PathBuf,
}

impl TlsFiles {
    /// Makes the ORB speak TLS once it is started.
    fn apply(&self) -> Result<()> {
        let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).map_err(Error::failed);
        let files = [text(&self.ca)?, text(&self.certificate)?, text(&self.private_key)?];
        let [ca, certificate, private_key] = files.each_ref().map(|file| file.as_ptr());
        let mut problem = OrbMessage::default();
        // SAFETY: three texts that live through the call. The ORB is started after it.
        match unsafe { ffi::stripline_corba_use_tls(ca, certificate, private_key, problem.text()) } {
            0 => Ok(()),
            _ => Err(Error::failed(format!("TLS of omniORB: {problem}"))),
        }
    }
}

/// Returns whether this program has omniORB's TLS.
pub fn has_tls() -> bool {
    // SAFETY: it returns a number.
    unsafe { ffi::stripline_corba_has_tls() != 0 }
}

/// Returns the version of omniORB in this program.
pub(crate) fn version() -> String {
    // SAFETY: it returns a text that stays.
    let version = unsafe { CStr::from_ptr(ffi::stripline_corba_version()) };
    format!("omniORB {}", version.to_string_lossy())
}

/// Returns the most bytes of a message that this process takes.
///
/// # Errors
/// As [`CallServer::new`].
pub(crate) fn message_max() -> Result<u32> {
    orb()?;
    // SAFETY: the ORB runs.
    Ok(unsafe { ffi::stripline_corba_message_max() })
}

fn orb() -> Result<&'static Orb> {
    orb_with(None)
}

/// Returns the ORB. The first call starts it.
fn orb_with(access: Option<&OpenAccess>) -> Result<&'static Orb> {
    ORB.get().get_or_init(|| start(access).map_err(|e| e.to_string())).as_ref().map_err(Error::failed)
}

/// Starts the ORB for other programs, if that is still to be done.
///
/// # Errors
/// As [`CallServer::new`]; it has been started without that access.
pub(crate) fn open(access: &OpenAccess) -> Result<()> {
    let its = &orb_with(Some(access))?.access;
    if its.as_ref() == Some(access) {
        return Ok(());
    }
    let other = match its {
        Some(_) => "with other values of `listen`, `insecure` or the files of TLS",
        None => "for connections over `corba`, before this component",
    };
    Err(Error::failed(format!(
        "omniORB runs in this process already, {other}; give the component a process of its own \
         (`placement = \"process\"`)"
    )))
}

/// Starts the ORB, if that is still to be done.
///
/// # Errors
/// As [`CallServer::new`].
pub(crate) fn check() -> Result<()> {
    orb().map(drop)
}

/// Starts the ORB, if that is still to be done. Returns the path by which another process of this
/// user can connect to its socket.
///
/// # Errors
/// The ORB does not start, or is the program's own.
pub fn socket_path() -> Result<String> {
    Ok(format!("/proc/{}/fd/{}", std::process::id(), orb()?.socket.as_fd().as_raw_fd()))
}

fn start(access: Option<&OpenAccess>) -> Result<Orb> {
    if WAS_STARTED.swap(true, Ordering::SeqCst) {
        return Err(Error::Forked { what: "omniORB, of which a process has one for its whole life,".into() });
    }
    let is_address = |name: &OsStr| {
        ADDRESSES.iter().any(|address| name.as_encoded_bytes().starts_with(address.as_bytes()))
    };
    if let Some((name, _)) = std::env::vars_os().find(|(name, _)| is_address(name)) {
        return Err(Error::failed(format!(
            "the environment has {}, by which omniORB would use other addresses; unset it",
            name.display()
        )));
    }
    check_descriptors("omniORB", FOR_ORB)?;
    let folder = make_folder(NAMES)?;
    let started = start_at(&folder.join(SOCKET), access);
    fail_point!("corba-name");
    let _ = std::fs::remove_dir_all(&folder);
    fail_point!("corba-nameless");
    started
}

/// Makes a folder of this user for a socket.
fn make_folder(names: OwnedNames) -> Result<PathBuf> {
    let folder = names.path(&names.make()?);
    rustix::fs::mkdir(&folder, Mode::RWXU)
        .map_err(|e| Error::system(format!("cannot make a socket in {}", folder.display()), e))?;
    Ok(folder)
}

/// Starts the ORB with a socket of that name, and perhaps one for other programs.
fn start_at(socket: &Path, access: Option<&OpenAccess>) -> Result<Orb> {
    let unix = |socket: &Path| CString::new(format!("giop:unix:{}", socket.display())).map_err(Error::failed);
    let own = unix(socket)?;
    let tcp = |kind, address| CString::new(format!("giop:{kind}:{address}")).map_err(Error::failed);
    let open = match access.map(|access| access.listen) {
        None => None,
        Some(OpenAddress::Tcp(address)) => Some(tcp("tcp", address)?),
        Some(OpenAddress::Tls(address)) => Some(tcp("ssl", address)?),
        Some(OpenAddress::Unix) => Some(unix(&named_folder()?.join(SOCKET))?),
    };
    let tls = access.and_then(|access| access.tls.as_ref());
    if let Some(tls) = tls {
        tls.apply()?;
    }
    let mut options: Vec<[*const c_char; 2]> = OPTIONS.map(|pair| pair.map(CStr::as_ptr)).into();
    let mut add = |pairs: &[[&CStr; 2]]| options.extend(pairs.iter().map(|pair| pair.map(CStr::as_ptr)));
    match &open {
        // References have the open address alone: the other one has no name.
        Some(open) => add(&[[c"endPoint", open], [c"endPointNoPublish", &own]]),
        None => add(&[[c"endPoint", &own]]),
    }
    add(if open.is_some() { &OF_OPEN } else { &OF_PATHS });
    if access.is_some_and(|access| !access.leaves_host) {
        add(&OF_HOST);
        if tls.is_some() {
            add(&[OF_OTHERS]);
        }
    }
    options.push([std::ptr::null(); 2]);
    let mut problem = OrbMessage::default();
    // SAFETY: pairs of texts with a pair of nulls behind them, which live through the call. No
    // parent of this process has called it.
    if unsafe { ffi::stripline_corba_start(options.as_ptr(), problem.text()) } != 0 {
        let at = open.filter(|_| access.is_some_and(|access| access.listen.tcp().is_some()));
        return Err(Error::failed(match at {
            Some(at) => format!(
                "omniORB does not listen at {}: {problem}; is it an address of this host, and free?",
                at.to_string_lossy()
            ),
            None => format!("omniORB does not start: {problem}"),
        }));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(CWD, socket, flags, Mode::empty()) {
        Ok(file) => Ok(Orb { socket: Descriptor::new(file), access: access.cloned() }),
        // An ORB that was there before has no socket of that name.
        Err(Errno::NOENT) => Err(Error::failed(
            "this program has started an ORB of omniORB before, of which a process has only one; use another \
             transport, or start the program's own ORB after the first connection, so that it gets this one",
        )),
        Err(error) => Err(Error::system(format!("cannot open {}", socket.display()), error)),
    }
}

/// The folder of the socket for other programs, for the end of the process.
static NAMED_FOLDER: OnceLock<(u32, PathBuf)> = OnceLock::new();

/// Makes the folder of the socket for other programs. It goes with the process, or with the next
/// start after a kill.
fn named_folder() -> Result<PathBuf> {
    let folder = make_folder(OPEN_NAMES)?;
    if NAMED_FOLDER.set((std::process::id(), folder.clone())).is_ok() {
        // SAFETY: the function has no arguments and returns, and this library stays loaded.
        unsafe { libc::atexit(remove_named_folder) };
    }
    Ok(folder)
}

/// Removes it, unless this is a child of a fork.
extern "C" fn remove_named_folder() {
    if let Some((process, folder)) = NAMED_FOLDER.get()
        && *process == std::process::id()
    {
        // Another process may have removed it.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// A message of the C++ side.
pub(super) struct OrbMessage([u8; 256]);

impl Default for OrbMessage {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl OrbMessage {
    pub(super) fn text(&mut self) -> ffi::Text {
        ffi::Text { start: self.0.as_mut_ptr().cast(), size: self.0.len() }
    }

    /// Returns whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl std::fmt::Display for OrbMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = CStr::from_bytes_until_nul(&self.0).unwrap_or(c"no reason");
        f.write_str(&text.to_string_lossy())
    }
}

/// Memory for the bytes of one call, behind a line that is free.
#[derive(Debug, Default)]
pub(crate) struct CallBytes {
    lines: Vec<CacheLine>,
    bytes: usize,
}

impl CallBytes {
    /// Makes room for so many bytes. What was there is lost.
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

    /// Returns all lines, the free one included.
    pub(crate) fn lines(&self) -> &[CacheLine] {
        &self.lines
    }
}

/// The receiver of a servant's calls, on threads of omniORB. A panic there loses the call.
pub(crate) trait CallReceiver: Send + Sync + 'static {
    /// Returns memory for a call with that key, number and bytes; `None`: it is dropped.
    fn place(&self, key: u64, number: u64, bytes: usize) -> Option<Box<CallBytes>>;

    /// Takes a call.
    fn arrived(&self, call: Box<CallBytes>, number: u64, frames: u64);

    /// Takes back memory of a call that has not come whole.
    fn abandoned(&self, call: Box<CallBytes>);
}

/// A servant.
pub(crate) struct CallServer(NonNull<c_void>);

// SAFETY: the C++ side counts references to the servant atomically, and its functions may be called
// on any thread.
unsafe impl Send for CallServer {}
// SAFETY: as above.
unsafe impl Sync for CallServer {}

impl CallServer {
    /// Activates a servant with that object key, which is to be a random one. Returns the file of
    /// the socket that it is reached by, too.
    ///
    /// # Errors
    /// The ORB does not start, is the program's own or the parent's, or there are no descriptors.
    pub(crate) fn new<R: CallReceiver>(object: &str, receiver: &Arc<R>) -> Result<(Self, OwnedFd)> {
        let orb = orb()?;
        check_descriptors("omniORB", FOR_PATH)?;
        let socket = orb.socket.as_fd().try_clone_to_owned();
        let socket = socket.map_err(|e| Error::system("cannot copy a descriptor", e))?;
        let object = CString::new(object).map_err(Error::failed)?;
        let functions = ffi::Receiver {
            place: place::<R>,
            arrived: arrived::<R>,
            abandoned: abandoned::<R>,
            ended: ended::<R>,
        };
        let context = Arc::into_raw(Arc::clone(receiver));
        let mut problem = OrbMessage::default();
        // SAFETY: the ORB runs; the functions are copied, and match the context, which they use
        // until `ended` releases it.
        let servant = unsafe {
            ffi::stripline_corba_serve(object.as_ptr(), &functions, context.cast_mut().cast(), problem.text())
        };
        let Some(servant) = NonNull::new(servant) else {
            // SAFETY: made above; `ended` was not called.
            drop(unsafe { Arc::from_raw(context) });
            return Err(Error::failed(format!("omniORB has no place for a servant: {problem}")));
        };
        Ok((Self(servant), socket))
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        // SAFETY: the servant is active, and ends here only.
        unsafe { ffi::stripline_corba_stop_serving(self.0.as_ptr()) };
    }
}

/// Runs a function of the receiver, and takes a panic for the default.
pub(super) fn caught<T: Default>(run: impl FnOnce() -> T) -> T {
    // What was being changed is behind locks that a panic poisons.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_default()
}

/// Returns memory for a call, and what stands for it; null: it is dropped.
///
/// # Safety
/// The context is that of [`CallServer::new`], and `into` can be written.
unsafe extern "C" fn place<R: CallReceiver>(
    context: *mut c_void,
    key: u64,
    number: u64,
    bytes: u32,
    into: *mut *mut c_void,
) -> *mut u8 {
    // SAFETY: the servant keeps the context until `ended`.
    let receiver = unsafe { &*context.cast::<R>() };
    let Some(mut call) = caught(|| receiver.place(key, number, bytes as usize)) else {
        return std::ptr::null_mut();
    };
    if call.bytes != bytes as usize {
        return std::ptr::null_mut();
    }
    let start = call.start();
    // SAFETY: the caller's variable.
    unsafe { into.write(Box::into_raw(call).cast()) };
    start
}

/// Takes a call.
///
/// # Safety
/// As [`place`]; the call is one that it has returned, which comes here or to [`abandoned`] once.
unsafe extern "C" fn arrived<R: CallReceiver>(
    context: *mut c_void,
    call: *mut c_void,
    number: u64,
    frames: u64,
    _bytes: u32,
) {
    // SAFETY: as above, and the box of `place`.
    let (receiver, call) = unsafe { (&*context.cast::<R>(), Box::from_raw(call.cast::<CallBytes>())) };
    caught(|| receiver.arrived(call, number, frames));
}

/// Takes back the memory of a call.
///
/// # Safety
/// As [`arrived`].
unsafe extern "C" fn abandoned<R: CallReceiver>(context: *mut c_void, call: *mut c_void) {
    // SAFETY: as above.
    let (receiver, call) = unsafe { (&*context.cast::<R>(), Box::from_raw(call.cast::<CallBytes>())) };
    caught(|| receiver.abandoned(call));
}

/// Releases the context.
///
/// # Safety
/// The context is that of [`CallServer::new`], which is not used after this.
unsafe extern "C" fn ended<R: CallReceiver>(context: *mut c_void) {
    // SAFETY: the last use of what `new` has leaked.
    caught(|| drop(unsafe { Arc::from_raw(context.cast::<R>()) }));
}

/// A client of a servant. One thread at a time uses it.
pub(crate) struct CallClient {
    path: NonNull<c_void>,
    /// The file that its connection goes to.
    _socket: Descriptor,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for CallClient {}

/// The kernel's buffer of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelBuffer {
    /// Bytes that it takes.
    pub bytes: u32,
    /// Bytes that were in it before the call.
    pub queued: u32,
}

impl CallClient {
    /// Takes the object key of a servant, and the file of its process's socket. Does not connect.
    ///
    /// # Errors
    /// As [`CallServer::new`].
    pub(crate) fn new(object: &str, socket: OwnedFd) -> Result<Self> {
        orb()?;
        check_descriptors("omniORB", FOR_PATH)?;
        // omniORB shares connections between references with one address. A number that is used
        // again has another number of slashes before it.
        static ADDRESSES: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the addresses need only differ.
        let slashes = "/".repeat(1 + ADDRESSES.fetch_add(1, Ordering::Relaxed) as usize % 48);
        let socket = Descriptor::new(socket);
        let number = socket.as_fd().as_raw_fd();
        let reference = format!("corbaloc:omniunix:1.2@/proc/self{slashes}fd/{number}:/{object}");
        let reference = CString::new(reference).map_err(Error::failed)?;
        let mut problem = OrbMessage::default();
        // SAFETY: the ORB runs.
        let path = unsafe { ffi::stripline_corba_connect(reference.as_ptr(), problem.text()) };
        let path = NonNull::new(path)
            .ok_or_else(|| Error::failed(format!("omniORB refuses the reference of a path: {problem}")))?;
        Ok(Self { path, _socket: socket })
    }

    /// Calls the servant, one way. The kernel has the bytes once this returns.
    ///
    /// # Errors
    /// omniORB's own. The connection is closed; the next call makes another one.
    pub(crate) fn call(&mut self, key: u64, number: u64, frames: u64, bytes: &[u8]) -> Result<(), String> {
        self.send([key, number, frames], bytes, std::ptr::null_mut())
    }

    /// Calls as [`CallClient::call`], after enlarging the kernel's buffer to so many bytes, if it
    /// may. Returns what that is like; `None`: there was no connection before.
    ///
    /// # Errors
    /// As that.
    pub(crate) fn call_and_look(
        &mut self,
        [key, number, frames]: [u64; 3],
        bytes: &[u8],
        enlarge_to: c_int,
    ) -> Result<Option<KernelBuffer>, String> {
        let mut socket = ffi::Socket { enlarge_to, buffer: -1, queued: -1 };
        self.send([key, number, frames], bytes, &mut socket)?;
        let found = [socket.buffer, socket.queued].map(u32::try_from);
        Ok(if let [Ok(bytes), Ok(queued)] = found { Some(KernelBuffer { bytes, queued }) } else { None })
    }

    fn send(&mut self, numbers: [u64; 3], bytes: &[u8], socket: *mut ffi::Socket) -> Result<(), String> {
        let [key, number, frames] = numbers;
        let size = u32::try_from(bytes.len()).map_err(|e| e.to_string())?;
        let mut problem = OrbMessage::default();
        // SAFETY: the path is there until the drop, and `self` has one user. The bytes and the
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
        // SAFETY: it is not used after this.
        unsafe { ffi::stripline_corba_disconnect(self.path.as_ptr()) };
    }
}
