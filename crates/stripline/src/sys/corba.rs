//! Paths over omniORB: servants that take bytes, and clients that give them. A process has one ORB,
//! started when it is first needed.
//!
//! Its socket has a name for a moment only. A process that is to connect gets a descriptor of the
//! file, and connects by `/proc/self/fd`. So nothing outlives a process, and no other one finds the
//! socket. Each such address has a connection of its own, also within one process.

mod call;
mod spelled_address;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use stripline_corba_sys as ffi;

use super::descriptors::check_descriptors;
use super::fork::{Descriptor, PerProcess};
use super::mutex::lock;
use super::owned_names::OwnedNames;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
pub(crate) use call::{CallBytes, CallClient, CallReceiver, CallServer, KernelBuffer};

/// The names of the sockets, until their processes have them.
pub(crate) const NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-corba-" };
/// The file of a socket in its folder.
const SOCKET: &str = "orb";
/// Descriptors that an ORB takes at its start, and for each further address.
const FOR_ORB: usize = 8;
const FOR_ADDRESS: usize = 2;
/// The names of sockets that other programs connect to, until their processes end.
const OPEN_NAMES: OwnedNames = OwnedNames { folder: "/tmp", prefix: "stripline-bulkio-" };
/// What the environment must not set: addresses that this process would listen at or connect to.
const ADDRESSES: [&str; 3] = ["ORBendPoint", "ORBclientTransportRule", "ORBserverTransportRule"];
/// Options that have the same value in each process. The environment cannot change them.
const OPTIONS: [[&CStr; 2]; 12] = [
    // Only the owner's processes reach the name, and later those that have the descriptor.
    [c"unixTransportPermission", c"0666"],
    // A peer that is stopped is late, and not gone.
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
const OF_OPEN: [[&CStr; 2]; 3] = [
    // A call that waits for its target does not keep others from that program.
    [c"maxGIOPConnectionPerServer", c"64"],
    // One-way calls of a connection stay in order.
    [c"maxServerThreadPerConnection", c"1"],
    [c"supportPerThreadTimeOut", c"1"],
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
    /// Where it listens for paths to other hosts.
    addresses: Mutex<BTreeMap<IpAddr, SocketAddr>>,
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

/// Returns the file of this process's socket, by which [`CallClient::of_file`] reaches it.
///
/// # Errors
/// As [`CallServer::new`].
pub(crate) fn own_socket() -> Result<OwnedFd> {
    let socket = orb()?.socket.as_fd().try_clone_to_owned();
    socket.map_err(|e| Error::system("cannot copy a descriptor", e))
}

/// Listens at a free port of an address of this host, until the process ends. Returns both, which
/// are the same each time.
///
/// # Errors
/// As [`CallServer::new`], and the host has no such address.
pub(crate) fn listen_at(ip: IpAddr) -> Result<SocketAddr> {
    let mut addresses = lock(&orb()?.addresses);
    if let Some(address) = addresses.get(&ip) {
        return Ok(*address);
    }
    check_descriptors("omniORB", FOR_ADDRESS)?;
    let endpoint = CString::new(format!("giop:tcp:{}", SocketAddr::new(ip, 0))).map_err(Error::failed)?;
    let [mut found, mut problem] = [OrbMessage::default(), OrbMessage::default()];
    // SAFETY: the ORB runs, and the texts live through the call.
    let result = unsafe { ffi::stripline_corba_listen(endpoint.as_ptr(), found.text(), problem.text()) };
    if result != 0 {
        return Err(Error::failed(format!("omniORB does not listen at {ip}: {problem}")));
    }
    let found = found.to_string();
    let address = found.strip_prefix("giop:tcp:").and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| Error::failed(format!("omniORB listens at {found} for {ip}")))?;
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
        Ok(file) => {
            Ok(Orb { socket: Descriptor::new(file), access: access.cloned(), addresses: Mutex::default() })
        }
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

/// Runs a function of the receiver, and takes a panic for the default.
pub(super) fn caught<T: Default>(run: impl FnOnce() -> T) -> T {
    // What was being changed is behind locks that a panic poisons.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_default()
}
