//! Paths over omniORB: servants that take bytes, and clients that send them. A process has one ORB,
//! which is started when it is first needed.
//!
//! The ORB's socket has a name only for a moment. A process that is to connect gets a descriptor of
//! the socket's file, and connects by `/proc/self/fd`. So nothing outlives the process, and no
//! other process finds the socket. Each such address has a separate connection, also within one
//! process.

mod call;
mod spelled_address;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use stripline_corba_sys as ffi;

use crate::system::check_descriptors;
use crate::system::owned_names::OwnedNames;

pub(crate) use call::{CallBytes, CallClient, CallReceiver, CallServer, KernelBuffer};
use stripline::carrier::fork::{Descriptor, PerProcess};
use stripline::carrier::mutex::lock;
use stripline::fail_point;
use stripline::{Error, Result};

/// The names of the sockets. A name is removed when the process has opened the socket's file.
pub(crate) const NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-corba-" };
/// The file of a socket in the socket's folder.
const SOCKET: &str = "orb";
/// Descriptors that an ORB takes at the start, and for each further address.
const FOR_ORB: usize = 8;
const FOR_ADDRESS: usize = 2;
/// The most peers that the system lets wait for the ORB to accept them.
const BACKLOG: i32 = 4096;
/// The names of sockets that other programs connect to. The names last until the process ends.
const OPEN_NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-bulkio-" };
/// Variables that the environment must not set: addresses that this process would listen at or
/// connect to.
const ADDRESSES: [&str; 3] = ["ORBendPoint", "ORBclientTransportRule", "ORBserverTransportRule"];
/// Options that have the same value in each process. The environment cannot change them.
const OPTIONS: [[&CStr; 2]; 12] = [
    // Only processes of the owner reach the name, and later only processes that have the
    // descriptor.
    [c"unixTransportPermission", c"0666"],
    // A stopped peer is late, not gone.
    [c"inConScanPeriod", c"0"],
    [c"outConScanPeriod", c"0"],
    [c"clientCallTimeOutPeriod", c"0"],
    // In milliseconds.
    [c"clientConnectTimeOutPeriod", c"10000"],
    [c"serverCallTimeOutPeriod", c"0"],
    [c"giopMaxMsgSize", c"2097152"],
    [c"threadPerConnectionPolicy", c"1"],
    [c"offerBiDirectionalGIOP", c"0"],
    [c"acceptBiDirectionalGIOP", c"0"],
    // omniORB prints nothing.
    [c"traceLevel", c"0"],
    // The first call would otherwise wait for an answer.
    [c"verifyObjectExistsAndType", c"0"],
];
/// Options for an ORB that serves only paths.
const OF_PATHS: [[&CStr; 2]; 1] = [
    // Each path has a separate connection.
    [c"maxGIOPConnectionPerServer", c"1"],
];
/// Options for an ORB that other programs connect to as well.
const OF_OPEN: [[&CStr; 2]; 3] = [
    // A call that waits for a target does not block other calls to the same program.
    [c"maxGIOPConnectionPerServer", c"64"],
    // One-way calls of one connection stay in order.
    [c"maxServerThreadPerConnection", c"1"],
    [c"supportPerThreadTimeOut", c"1"],
];
/// The addresses that an ORB connects to if it stays on the host.
const OF_HOST: [[&CStr; 2]; 2] = [
    [c"clientTransportRule", c"localhost unix,ssl,tcp"],
    [c"clientTransportRule", c"127.0.0.0/255.0.0.0 unix,ssl,tcp"],
];
/// The addresses of other hosts, if the ORB has TLS.
const OF_OTHERS: [&CStr; 2] = [c"clientTransportRule", c"* ssl"];

/// The ORB of this process, which ends with the process.
static ORB: PerProcess<OnceLock<Result<Orb, String>>> = PerProcess::new(OnceLock::new);
/// Whether this process, or a process that it was forked from, has started an ORB. A child does not
/// have omniORB's threads, and locks of omniORB may be held for ever in the child.
static WAS_STARTED: AtomicBool = AtomicBool::new(false);

/// The ORB's parts that are used again after the start.
struct Orb {
    /// The file of the ORB's socket, which has no name any more.
    socket: Descriptor,
    /// The ways by which other programs connect.
    access: Option<OpenAccess>,
    /// The addresses at which the ORB listens for paths to other hosts.
    addresses: Mutex<BTreeMap<IpAddr, SocketAddr>>,
}

/// The ways by which other programs reach this process, and by which it reaches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenAccess {
    /// The address at which the ORB listens.
    pub listen: OpenAddress,
    /// Whether it may connect to other hosts without TLS.
    pub leaves_host: bool,
    /// The files of TLS, if the ORB uses TLS.
    pub tls: Option<TlsFiles>,
}

/// An address of an ORB for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenAddress {
    /// A Unix socket with a name.
    Unix,
    /// An address of TCP.
    Tcp(SocketAddr),
    /// An address of TCP at which the ORB uses TLS.
    Tls(SocketAddr),
}

impl OpenAddress {
    /// Returns the address of TCP; `None` for a Unix socket.
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
    /// The CA certificates that peers' certificates are checked against.
    pub ca: PathBuf,
    /// The certificate of this process, which peers check.
    pub certificate: PathBuf,
    /// The key of that certificate, without a password.
    pub private_key: PathBuf,
}

impl TlsFiles {
    /// Makes the ORB use TLS once it is started.
    fn apply(&self) -> Result<()> {
        let text = |path: &Path| {
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| Error::Configuration(e.to_string()))
        };
        let files = [text(&self.ca)?, text(&self.certificate)?, text(&self.private_key)?];
        let [ca, certificate, private_key] = files.each_ref().map(|file| file.as_ptr());
        let mut problem = OrbMessage::default();
        // SAFETY: the three strings live through the call. The ORB is started after the call.
        match unsafe { ffi::stripline_corba_use_tls(ca, certificate, private_key, problem.text()) } {
            0 => Ok(()),
            _ => Err(Error::of_system(format!("TLS of omniORB: {problem}"))),
        }
    }
}

/// Returns whether this program has omniORB's TLS.
pub fn has_tls() -> bool {
    // SAFETY: the function takes nothing and returns a number.
    unsafe { ffi::stripline_corba_has_tls() != 0 }
}

/// Returns the version of omniORB in this program.
pub(crate) fn version() -> String {
    // SAFETY: the function returns a text that is never freed.
    let version = unsafe { CStr::from_ptr(ffi::stripline_corba_version()) };
    format!("omniORB {}", version.to_string_lossy())
}

/// Returns the maximum size of a message that this process accepts, in bytes.
///
/// # Errors
/// The errors of [`CallServer::new`].
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
    ORB.get().get_or_init(|| start(access).map_err(|e| e.to_string())).as_ref().map_err(Error::of_system)
}

/// Starts the ORB for other programs, unless it has been started.
///
/// # Errors
/// The errors of [`CallServer::new`], or the ORB has been started without that access.
pub(crate) fn open(access: &OpenAccess) -> Result<()> {
    let open_access = &orb_with(Some(access))?.access;
    if open_access.as_ref() == Some(access) {
        return Ok(());
    }
    let other = match open_access {
        Some(_) => "with other values of `listen`, `insecure` or the files of TLS",
        None => "for connections over `corba`, before this component",
    };
    Err(Error::Configuration(format!(
        "omniORB runs in this process already, {other}; give the component a process of its own \
         (`placement = \"process\"`)"
    )))
}

/// Starts the ORB, unless it has been started.
///
/// # Errors
/// The errors of [`CallServer::new`].
pub(crate) fn check() -> Result<()> {
    orb().map(drop)
}

/// Starts the ORB, unless it has been started. Returns the path by which another process of this
/// user can connect to the ORB's socket.
///
/// # Errors
/// The ORB does not start, or the program has started an ORB itself.
pub fn socket_path() -> Result<String> {
    Ok(format!("/proc/{}/fd/{}", std::process::id(), orb()?.socket.as_fd().as_raw_fd()))
}

/// Returns the file of this process's socket. [`CallClient::of_file`] connects to it.
///
/// # Errors
/// The errors of [`CallServer::new`].
pub(crate) fn own_socket() -> Result<OwnedFd> {
    let socket = orb()?.socket.as_fd().try_clone_to_owned();
    socket.map_err(|e| Error::system("cannot copy a descriptor", e))
}

/// Listens at a free port of an address of this host, until the process ends. Returns the address
/// with the port, which is the same in each call.
///
/// # Errors
/// The errors of [`CallServer::new`], or the host has no such address.
pub(crate) fn listen_at(ip: IpAddr) -> Result<SocketAddr> {
    let mut addresses = lock(&orb()?.addresses);
    if let Some(address) = addresses.get(&ip) {
        return Ok(*address);
    }
    check_descriptors("omniORB", FOR_ADDRESS)?;
    let endpoint = CString::new(format!("giop:tcp:{}", SocketAddr::new(ip, 0))).map_err(Error::of_system)?;
    let [mut found, mut problem] = [OrbMessage::default(), OrbMessage::default()];
    // SAFETY: the ORB runs, and the strings live through the call.
    let result = unsafe { ffi::stripline_corba_listen(endpoint.as_ptr(), found.text(), problem.text()) };
    if result != 0 {
        return Err(Error::of_system(format!("omniORB does not listen at {ip}: {problem}")));
    }
    let found = found.to_string();
    let address = found.strip_prefix("giop:tcp:").and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| Error::of_system(format!("omniORB listens at {found} for {ip}")))?;
    addresses.insert(ip, address);
    Ok(address)
}

fn start(access: Option<&OpenAccess>) -> Result<Orb> {
    if WAS_STARTED.swap(true, Ordering::SeqCst) {
        return Err(Error::Forked { what: "omniORB, of which a process has one for its whole life,".into() });
    }
    let is_address = |name: &OsStr| {
        ADDRESSES.iter().any(|address| name.as_encoded_bytes().starts_with(address.as_bytes()))
    };
    if let Some((name, _)) = std::env::vars_os().find(|(name, _)| is_address(name)) {
        return Err(Error::Configuration(format!(
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

/// Starts the ORB with a socket of that name, and with a socket for other programs if `access` is
/// given.
fn start_at(socket: &Path, access: Option<&OpenAccess>) -> Result<Orb> {
    let unix =
        |socket: &Path| CString::new(format!("giop:unix:{}", socket.display())).map_err(Error::of_system);
    let own = unix(socket)?;
    let tcp = |kind, address| CString::new(format!("giop:{kind}:{address}")).map_err(Error::of_system);
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
        // References contain the open address alone, because the other socket has no name.
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
    // SAFETY: the array has pairs of strings and then a pair of nulls, and lives through the call
    // like the strings. No parent of this process has called the function.
    if unsafe { ffi::stripline_corba_start(options.as_ptr(), problem.text()) } != 0 {
        let at = open.filter(|_| access.is_some_and(|access| access.listen.tcp().is_some()));
        return Err(Error::of_system(match at {
            Some(at) => format!(
                "omniORB does not listen at {}: {problem}; is it an address of this host, and free?",
                at.to_string_lossy()
            ),
            None => format!("omniORB does not start: {problem}"),
        }));
    }
    widen_backlog(socket);
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(CWD, socket, flags, Mode::empty()) {
        Ok(file) => {
            Ok(Orb { socket: Descriptor::new(file), access: access.cloned(), addresses: Mutex::default() })
        }
        // An ORB that was started before has no socket of that name.
        Err(Errno::NOENT) => Err(Error::of_system(
            "this program has started an ORB of omniORB before, of which a process has only one; use another \
             transport, or start the program's own ORB after the first connection, so that it gets this one",
        )),
        Err(error) => Err(Error::system(format!("cannot open {}", socket.display()), error)),
    }
}

/// Lets many peers connect at once to the socket of that name. omniORB listens with a backlog of
/// five, and further peers would fail to connect.
fn widen_backlog(socket: &Path) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    for number in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // SAFETY: if another thread closes the descriptor meanwhile, the calls fail or find another
        // socket. Only the listening socket of this name is changed.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let name =
            rustix::net::getsockname(descriptor).ok().and_then(|name| SocketAddrUnix::try_from(name).ok());
        if name.is_some_and(|name| name.path_bytes() == Some(socket.as_os_str().as_bytes())) {
            // With the old backlog, peers that fail to connect try again.
            let _ = rustix::net::listen(descriptor, BACKLOG);
        }
    }
}

/// The folder of the socket for other programs, which is removed when the process ends.
static NAMED_FOLDER: OnceLock<(u32, PathBuf)> = OnceLock::new();

/// Makes the folder of the socket for other programs. The folder is removed when the process ends,
/// or after a kill by the next process that starts an ORB.
fn named_folder() -> Result<PathBuf> {
    let folder = make_folder(OPEN_NAMES)?;
    if NAMED_FOLDER.set((std::process::id(), folder.clone())).is_ok() {
        // SAFETY: the function has no arguments and returns, and this library stays loaded.
        unsafe { libc::atexit(remove_named_folder) };
    }
    Ok(folder)
}

/// Removes the folder, unless this process is a child of a fork.
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

/// Runs a function of the receiver. After a panic, it returns the default value.
pub(super) fn caught<T: Default>(run: impl FnOnce() -> T) -> T {
    // The values that the function was changing are behind locks, which a panic poisons.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_default()
}
