//! POSIX message queues (`mq_overview(7)`) without names: a queue is a pair of descriptors.
//!
//! Messages are passed by the system calls themselves. The functions of the C library are
//! cancellation points of threads, which cost 70 instructions each.
//!
//! Each end has opened the queue twice: for calls that wait, and for calls that do not. A time
//! limit costs the kernel 25 ns per call, so calls of the second kind have no time limit.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::fork::{self, Descriptor};

/// The maximum size of a message, in bytes: the system's default. The size keeps nine queues of ten
/// messages within a user's limit.
const MESSAGE_MAX: usize = 8192;
/// The memory that the kernel counts for a message beside the bytes (`ipc/mqueue.c`): a record, and
/// a node of the tree of priorities.
const MESSAGE_OVERHEAD: usize = 48 + 56;

/// The number of attempts to create a name while other processes of the user remove it in between.
const NAME_TRIES: usize = 1000;

/// An end of a queue.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    fd: Descriptor<OwnedFd>,
    /// The same queue, opened only by this process and without blocking, so that no peer can change
    /// that flag. `None`: the system refused to open it.
    at_once: Option<Descriptor<OwnedFd>>,
    message_max: usize,
}

impl MessageQueue {
    /// Makes a queue of at most `messages` messages, or fewer if the system's limit is lower.
    /// Returns the receiving end, and a descriptor for the sending end.
    ///
    /// # Errors
    /// A lack of descriptors, or the limit of the user's queues, with the remedy.
    pub(crate) fn new(messages: usize) -> io::Result<(Self, OwnedFd)> {
        let messages = messages.clamp(1, system_limit("msg_max", 10));
        let message_max = system_limit("msgsize_max", MESSAGE_MAX).min(MESSAGE_MAX);
        let mut sending = None;
        let fd = fork::open_one(|| {
            let [receiving, other] = create(messages, message_max)?;
            sending = Some(other);
            Ok(receiving)
        });
        match (fd, sending) {
            (Ok(fd), Some(sending)) => {
                let at_once = at_once(&fd, OFlags::RDONLY);
                Ok((Self { fd, at_once, message_max }, sending))
            }
            (fd, _) => Err(explain(fd.err().unwrap_or(io::ErrorKind::Other.into()), messages, message_max)),
        }
    }

    /// Takes the sending end from another process.
    ///
    /// # Errors
    /// The descriptor is not of a queue.
    pub(crate) fn from_peer(fd: OwnedFd) -> io::Result<Self> {
        let attributes = attributes(fd.as_fd())?;
        let message_max = usize::try_from(attributes.mq_msgsize).unwrap_or(0);
        if message_max == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let at_once = at_once(&fd, OFlags::WRONLY);
        Ok(Self { fd: Descriptor::new(fd), at_once, message_max: message_max.min(MESSAGE_MAX) })
    }

    /// Returns the maximum size of a message, in bytes.
    pub(crate) fn message_max(&self) -> usize {
        self.message_max
    }

    /// Sends a message of up to [`MessageQueue::message_max`] bytes. Waits for room at most
    /// `longest`.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is full.
    pub(crate) fn send(&self, message: &[u8], longest: Duration) -> io::Result<()> {
        let limit = Limit::of(longest, self);
        // SAFETY: the descriptor is open as long as the borrow, and the message and the time are
        // only read during the call. On 64-bit machines, a `libc::timespec` is the kernel's
        // structure.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_mq_timedsend,
                limit.fd.as_raw_fd(),
                message.as_ptr(),
                message.len(),
                0_u32,
                limit.until(),
            )
        };
        if sent == 0 { Ok(()) } else { Err(no_wait(io::Error::last_os_error())) }
    }

    /// Receives a message into a buffer of at least [`MessageQueue::message_max`] bytes. Waits for
    /// a message at most `longest`.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is empty.
    pub(crate) fn receive(&self, into: &mut [u8], longest: Duration) -> io::Result<usize> {
        let limit = Limit::of(longest, self);
        // SAFETY: the descriptor is open as long as the borrow, and the call writes at most the
        // length of the buffer. The time is only read during the call, as above.
        let received = unsafe {
            libc::syscall(
                libc::SYS_mq_timedreceive,
                limit.fd.as_raw_fd(),
                into.as_mut_ptr(),
                into.len(),
                std::ptr::null_mut::<u32>(),
                limit.until(),
            )
        };
        usize::try_from(received).map_err(|_| no_wait(io::Error::last_os_error()))
    }
}

impl AsFd for MessageQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Creates a queue, opens both ends, and removes the name at once.
///
/// All processes of a user use the same name, so a name that a killed process has left is removed
/// when the user's next queue is made. If another user has that name, a name with this process's
/// number is used.
fn create(messages: usize, message_max: usize) -> io::Result<[OwnedFd; 2]> {
    let user = rustix::process::getuid().as_raw();
    let names = [format!("/stripline-{user}"), format!("/stripline-{user}-{}", std::process::id())];
    let count = |number: usize| libc::c_long::try_from(number).unwrap_or(libc::c_long::MAX);
    // SAFETY: the structure consists of integers, for which zeros are valid.
    let mut attributes: libc::mq_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attributes.mq_maxmsg = count(messages);
    attributes.mq_msgsize = count(message_max);
    let mut failure = io::ErrorKind::AlreadyExists.into();
    for name in names {
        let name = CString::new(name)?;
        for _ in 0..NAME_TRIES {
            match create_as(&name, &attributes) {
                // Another process has removed the name, or taken it.
                Ok(None) => {}
                Ok(Some(ends)) => return Ok(ends),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    failure = error;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Err(failure)
}

/// Creates a queue of that name; `None`: another process of this user interfered.
fn create_as(name: &CStr, attributes: &libc::mq_attr) -> io::Result<Option<[OwnedFd; 2]>> {
    let open = |flags: libc::c_int| {
        // `O_NONBLOCK` is not set: the time limit of each call decides, even if a peer changes the
        // flags.
        let (flags, mode): (_, libc::c_uint) = (flags | libc::O_CLOEXEC, 0o600);
        // SAFETY: the name and the attributes live across the call, which reads them.
        let fd = unsafe { libc::mq_open(name.as_ptr(), flags, mode, attributes) };
        match fd {
            // SAFETY: the descriptor was opened here, and has no other owner.
            0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the name lives across the call.
    let unlink = || unsafe { libc::mq_unlink(name.as_ptr()) } == 0;
    // The ends are two open files, so that each end has separate flags.
    let receiving = match open(libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL) {
        Ok(receiving) => receiving,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_gone = unlink() || io::Error::last_os_error().kind() == io::ErrorKind::NotFound;
            return if is_gone { Ok(None) } else { Err(error) };
        }
        Err(error) => return Err(error),
    };
    let sending = open(libc::O_WRONLY);
    unlink();
    let sending = match sending {
        Ok(sending) => sending,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Check that both ends are of the same queue: another process may have created a new queue in
    // between.
    let is_same = |a: rustix::fs::Stat, b: rustix::fs::Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
    let is_whole = is_same(rustix::fs::fstat(&receiving)?, rustix::fs::fstat(&sending)?);
    Ok(is_whole.then_some([receiving, sending]))
}

fn attributes(fd: BorrowedFd<'_>) -> io::Result<libc::mq_attr> {
    let mut attributes = MaybeUninit::<libc::mq_attr>::uninit();
    // SAFETY: the descriptor is open as long as the borrow. The call writes the whole structure, or
    // fails.
    unsafe {
        match libc::mq_getattr(fd.as_raw_fd(), attributes.as_mut_ptr()) {
            0 => Ok(attributes.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns a limit of the system for all queues, or the usual value if the system does not show it.
fn system_limit(name: &str, usual: usize) -> usize {
    let text = std::fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(usual)
}

/// Adds the remedy to an error of `mq_open`.
fn explain(error: io::Error, messages: usize, message_max: usize) -> io::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let needed = messages * (message_max + MESSAGE_OVERHEAD);
            let allowed = rustix::process::getrlimit(rustix::process::Resource::Msgqueue).current;
            let allowed = allowed.map_or("any number of".into(), |bytes| bytes.to_string());
            format!(
                "a queue of {messages} messages takes {needed} bytes, and all queues of this user may take \
                 {allowed} (RLIMIT_MSGQUEUE): lower `depth`, raise the limit (`ulimit -q`), or use uds; or the \
                 process has too many open files (`ulimit -n`)"
            )
        }
        Some(libc::ENOSPC) => {
            "the system has too many queues: raise /proc/sys/fs/mqueue/queues_max, or use uds".into()
        }
        Some(libc::ENOSYS) => "this kernel has no POSIX message queues: use uds".into(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}

/// The descriptor of a call, and the time limit.
struct Limit<'a> {
    fd: BorrowedFd<'a>,
    until: Option<libc::timespec>,
}

impl<'a> Limit<'a> {
    #[inline]
    fn of(longest: Duration, queue: &'a MessageQueue) -> Self {
        match &queue.at_once {
            Some(fd) if longest.is_zero() => Self { fd: fd.as_fd(), until: None },
            _ => Self { fd: queue.fd.as_fd(), until: Some(until(longest)) },
        }
    }

    fn until(&self) -> *const libc::timespec {
        self.until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}

/// Opens a queue again, for calls that do not wait; `None`: the system refuses it.
fn at_once(fd: &OwnedFd, access: OFlags) -> Option<Descriptor<OwnedFd>> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fork::open_one(|| rustix::fs::open(path, flags, Mode::empty())).ok()
}

/// Returns the end of a wait by the clock of the calls, which can be set. The end of a wait of zero
/// has passed by any clock.
fn until(longest: Duration) -> libc::timespec {
    if longest.is_zero() {
        return libc::timespec { tv_sec: 0, tv_nsec: 0 };
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let ns = now.tv_nsec as u64 + u64::from(longest.subsec_nanos());
    libc::timespec {
        tv_sec: now.tv_sec + (longest.as_secs() + ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Turns the error of a timeout into the error of a call that would block.
fn no_wait(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ETIMEDOUT) => io::ErrorKind::WouldBlock.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_queue_turn::MessageQueueTurn;

    fn queue(messages: usize) -> (MessageQueue, MessageQueue) {
        let (receiving, sending) = MessageQueue::new(messages).unwrap();
        (receiving, MessageQueue::from_peer(sending).unwrap())
    }

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let _turn = MessageQueueTurn::take("mqueue");
        let (receiving, sending) = queue(3);
        let mut bytes = [0; MESSAGE_MAX];
        for round in 0..3u8 {
            assert_eq!(
                receiving.receive(&mut bytes, Duration::ZERO).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            (0..3).for_each(|number| sending.send(&[round, number], Duration::ZERO).unwrap());
            assert_eq!(sending.send(&[9], Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert_eq!(attributes(sending.as_fd()).unwrap().mq_curmsgs, 3);
            for number in 0..3 {
                assert_eq!(receiving.receive(&mut bytes, Duration::ZERO).unwrap(), 2);
                assert_eq!(bytes[..2], [round, number]);
            }
        }
        let largest = vec![7; receiving.message_max()];
        sending.send(&largest, Duration::ZERO).unwrap();
        assert_eq!(receiving.receive(&mut bytes, Duration::ZERO).unwrap(), largest.len());
        assert!(sending.send(&vec![0; largest.len() + 1], Duration::ZERO).is_err());
    }

    #[test]
    fn without_a_second_descriptor_a_time_limit_of_zero_does_the_same() {
        let _turn = MessageQueueTurn::take("mqueue");
        let (mut receiving, mut sending) = queue(1);
        assert!(receiving.at_once.is_some() && sending.at_once.is_some());
        (receiving.at_once, sending.at_once) = (None, None);
        let mut bytes = [0; MESSAGE_MAX];
        for _ in 0..2 {
            sending.send(&[1], Duration::ZERO).unwrap();
            assert_eq!(sending.send(&[2], Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert_eq!(receiving.receive(&mut bytes, Duration::ZERO).unwrap(), 1);
            let empty = receiving.receive(&mut bytes, Duration::ZERO).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_peer_that_changes_the_flags_blocks_no_sender() {
        let _turn = MessageQueueTurn::take("mqueue");
        let (_receiving, fd) = MessageQueue::new(1).unwrap();
        let kept = fd.try_clone().unwrap();
        let sending = MessageQueue::from_peer(fd).unwrap();
        let mut blocking: libc::mq_attr = attributes(kept.as_fd()).unwrap();
        blocking.mq_flags = 0;
        // SAFETY: the descriptor is open, and the structure lives across the call.
        assert_eq!(unsafe { libc::mq_setattr(kept.as_raw_fd(), &blocking, std::ptr::null_mut()) }, 0);
        sending.send(&[1], Duration::ZERO).unwrap();
        assert_eq!(sending.send(&[2], Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn other_descriptors_are_refused() {
        let (reading, _writing) = io::pipe().unwrap();
        assert!(MessageQueue::from_peer(reading.into()).is_err());
    }

    fn leave(name: &CStr) {
        // SAFETY: the name lives across the call; no attributes are given.
        let left = unsafe {
            libc::mq_open(
                name.as_ptr(),
                libc::O_RDWR | libc::O_CREAT,
                0o600 as libc::c_uint,
                std::ptr::null::<libc::mq_attr>(),
            )
        };
        if left >= 0 {
            // SAFETY: the descriptor was opened above, and has no other owner.
            drop(unsafe { OwnedFd::from_raw_fd(left) });
        }
    }

    #[test]
    fn a_name_that_is_left_is_removed_with_the_next_queue() {
        let _turn = MessageQueueTurn::take("mqueue");
        let name = CString::new(format!("/stripline-{}", rustix::process::getuid().as_raw())).unwrap();
        leave(&name);
        let (receiving, sending) = queue(1);
        sending.send(&[3], Duration::ZERO).unwrap();
        let mut bytes = [0; MESSAGE_MAX];
        assert_eq!(receiving.receive(&mut bytes, Duration::ZERO).unwrap(), 1);
        // SAFETY: the name lives across the call.
        assert_eq!(unsafe { libc::mq_unlink(name.as_ptr()) }, -1);
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn both_ends_are_of_one_queue_while_others_use_the_name() {
        let _turn = MessageQueueTurn::take("mqueue");
        let name = CString::new(format!("/stripline-{}", rustix::process::getuid().as_raw())).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    leave(&name);
                    // SAFETY: the name lives across the call.
                    unsafe { libc::mq_unlink(name.as_ptr()) };
                }
            });
            let mut bytes = [0; MESSAGE_MAX];
            for round in 0..200u8 {
                let (receiving, sending) = queue(1);
                sending.send(&[round], Duration::ZERO).unwrap();
                assert_eq!(receiving.receive(&mut bytes, Duration::ZERO).unwrap(), 1);
                assert_eq!(bytes[0], round);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_lack_of_room_has_a_remedy() {
        let error = explain(io::Error::from_raw_os_error(libc::EMFILE), 10, 8192).to_string();
        assert!(error.contains("82960 bytes") && error.contains("ulimit -q"), "{error}");
    }
}
