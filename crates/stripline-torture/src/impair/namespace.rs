//! A network namespace with one interface, a TAP device. The process that holds the descriptor of
//! the device is the other end of the cable.

use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::UnshareFlags;

/// The interface in each namespace.
pub const INTERFACE: &str = "link0";
/// Frames that the kernel queues for a late bridge. The kernel drops further frames.
const KERNEL_QUEUE: u32 = 16_384;

/// The reason why a namespace could not be created.
#[derive(Debug)]
pub enum Problem {
    /// This system does not allow namespaces.
    NotPossible(String),
    Failed(String),
}

impl From<Problem> for String {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::NotPossible(text) | Problem::Failed(text) => text,
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, which lives as long as this value or a process in the namespace.
pub struct Namespace {
    /// Sends jobs to the thread in the namespace.
    jobs: mpsc::Sender<Job>,
}

impl Namespace {
    /// Creates a namespace. The interface is up and has this address in a network of 24 bits.
    /// Returns the namespace and the descriptor of the device: a read takes a sent frame, and a
    /// write delivers a frame.
    ///
    /// # Errors
    /// When the system does not allow this, or lacks resources.
    pub fn new(address: Ipv4Addr) -> Result<(Self, OwnedFd), Problem> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || queue.into_iter().for_each(|job| job());
        std::thread::Builder::new()
            .name(format!("ns-{address}"))
            .spawn(run)
            .map_err(|e| Problem::Failed(format!("cannot start a thread: {e}")))?;
        let namespace = Self { jobs };
        let device = namespace.run(move || set_up(address)).map_err(Problem::Failed)??;
        Ok((namespace, device))
    }

    /// Runs a job in the namespace. Processes that the job starts are in the namespace too.
    ///
    /// # Errors
    /// When a job before this one panicked.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        let (done, outcome) = mpsc::channel();
        // If nothing receives the result, the caller has panicked.
        let job = move || drop(done.send(job()));
        self.jobs.send(Box::new(job)).map_err(|_| "the thread of a namespace is gone".to_string())?;
        outcome.recv().map_err(|_| "a job in a namespace panicked".into())
    }

    /// Returns the frames that the kernel dropped because the bridge was late.
    ///
    /// # Errors
    /// When the list of interfaces cannot be read.
    pub fn kernel_drops(&self) -> Result<u64, String> {
        let list = self.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let list = list.map_err(|e| format!("cannot read the list of interfaces: {e}"))?;
        let line = list.lines().find_map(|line| line.trim().strip_prefix(INTERFACE)?.strip_prefix(':'));
        // The columns for received data are bytes, packets, errs, drop, fifo, frame, compressed and
        // multicast. The same columns follow for sent data, so the twelfth column is the number of
        // dropped frames.
        let drops = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
        drops.ok_or_else(|| format!("{INTERFACE} is not in the list of interfaces"))
    }
}

/// The argument of calls about an interface: the name and, depending on the call, an address, flags
/// or a number.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    value: [u8; 24],
}

impl InterfaceRequest {
    fn new(interface: &str, value: &[u8]) -> Self {
        let mut request = Self { name: [0; 16], value: [0; 24] };
        request.name[..interface.len()].copy_from_slice(interface.as_bytes());
        request.value[..value.len()].copy_from_slice(value);
        request
    }
}

const SET_DEVICE: Opcode = 0x4004_54ca;
const SET_ADDRESS: Opcode = 0x8916;
const SET_MASK: Opcode = 0x891c;
const SET_FLAGS: Opcode = 0x8914;
const SET_QUEUE: Opcode = 0x8943;
const ADD_ROUTE: Opcode = 0x890b;

/// Runs in the thread that enters the new namespace.
fn set_up(address: Ipv4Addr) -> Result<OwnedFd, Problem> {
    // SAFETY: the flag affects only the network. Descriptors and memory stay shared with the other
    // threads.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|e| refused("making a network namespace", e))?;
    // The device is opened after the namespace was created, so it belongs to the namespace.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|e| refused("opening /dev/net/tun", e))?;
    let tap = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
    set::<SET_DEVICE>(&device, InterfaceRequest::new(INTERFACE, &tap.to_ne_bytes()))
        .map_err(|e| refused("making a TAP device", e))?;
    configure(address).map_err(|e| Problem::Failed(format!("cannot set up {INTERFACE}: {e}")))?;
    Ok(device)
}

fn configure(address: Ipv4Addr) -> io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let up = (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_MULTICAST | libc::IFF_BROADCAST) as u16;
    set::<SET_FLAGS>(&socket, InterfaceRequest::new("lo", &(libc::IFF_UP as u16).to_ne_bytes()))?;
    set::<SET_ADDRESS>(&socket, InterfaceRequest::new(INTERFACE, &socket_address(address)))?;
    let mask = Ipv4Addr::new(255, 255, 255, 0);
    set::<SET_MASK>(&socket, InterfaceRequest::new(INTERFACE, &socket_address(mask)))?;
    set::<SET_QUEUE>(&socket, InterfaceRequest::new(INTERFACE, &KERNEL_QUEUE.to_ne_bytes()))?;
    set::<SET_FLAGS>(&socket, InterfaceRequest::new(INTERFACE, &up.to_ne_bytes()))?;
    add_multicast_route(&socket)
}

/// Returns the bytes of a `sockaddr_in` without a port.
fn socket_address(address: Ipv4Addr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&address.octets());
    bytes
}

fn set<const OPCODE: Opcode>(fd: impl AsFd, request: InterfaceRequest) -> rustix::io::Result<()> {
    // SAFETY: each of the calls above reads a `struct ifreq`. The request is at least as long, and
    // begins with the same fields.
    unsafe { ioctl::ioctl(fd, ioctl::Setter::<OPCODE, _>::new(request)) }
}

/// Routes all multicast to the interface.
fn add_multicast_route(socket: &OwnedFd) -> io::Result<()> {
    let mut device = InterfaceRequest::new(INTERFACE, &[]).name;
    // SAFETY: zero is a valid value of each field: numbers, addresses and a pointer.
    let mut route: libc::rtentry = unsafe { MaybeUninit::zeroed().assume_init() };
    let address = |address: [u8; 4]| {
        let mut data = [0; 14];
        data[2..6].copy_from_slice(&address.map(|byte| byte as libc::c_char));
        libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
    };
    route.rt_dst = address([224, 0, 0, 0]);
    route.rt_genmask = address([240, 0, 0, 0]);
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = device.as_mut_ptr().cast();
    // SAFETY: the call reads a `struct rtentry` and the name to which it points. The name lives
    // until the end of this function.
    unsafe { ioctl::ioctl(socket, ioctl::Setter::<ADD_ROUTE, _>::new(route)) }?;
    Ok(())
}

fn refused(what: &str, error: Errno) -> Problem {
    let text = format!("{what} is refused: {}", io::Error::from(error));
    match error {
        Errno::PERM
        | Errno::ACCESS
        | Errno::NOENT
        | Errno::NODEV
        | Errno::NXIO
        | Errno::NOSYS
        | Errno::INVAL => Problem::NotPossible(text),
        _ => Problem::Failed(text),
    }
}
