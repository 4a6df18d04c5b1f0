//! Wait sets: one wait for any number of handles, and for descriptors of the program.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stripline::Error as LinkError;
use stripline::node::{ReadyDescriptor, WaitInterest, WaitSet as RustSet};

use crate::border::{ErrorOut, Handle, Out, Ref};
use crate::call::{Client, Server};
use crate::error::Failure;
use crate::error::missing;
use crate::handle::drop_quietly;
use crate::publisher::Publisher;
use crate::status::Status;
use crate::subscriber::Subscriber;
use crate::time::timeout;
use crate::waker::Waker;

/// One wait for any number of subscribers, publishers, clients and servers, and for descriptors of
/// the program. Each has a key. One thread waits at a time; others may add, remove and wake.
///
/// A wait does not consume packets: a handle that you do not read is ready again in the next wait.
pub struct WaitSet {
    set: RustSet,
    /// The failure of a member, for the wait that ends with it.
    failed: Arc<Mutex<Option<Failure>>>,
    /// The publishers in the set, by their keys. A publisher has one descriptor, for one of two
    /// kinds of wait.
    publishers: Mutex<Vec<(u64, Arc<MemberOf<Publisher>>)>>,
    /// The index of the event that the next wait returns first, so that a small array serves all
    /// members in turn.
    next: AtomicUsize,
}

/// The ways to be ready in a wait set, as bits. The first two also select the events to wait for on
/// a descriptor.
#[repr(u64)]
#[derive(Clone, Copy)]
pub enum Ready {
    /// A handle needs a call, or a descriptor can be read or has ended.
    Readable = 1,
    /// A descriptor can be written or has ended.
    Writable = 2,
    /// A descriptor was closed without being removed. The descriptor stays in this state until it
    /// is removed.
    Closed = 4,
}

/// A thing that is ready in a wait set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WaitEvent {
    /// The key that the member was added with.
    pub key: u64,
    /// The way that the member is ready: `STRIPLINE_READY_…`, combined with `|`.
    pub ready: u64,
}

/// The slot by which wait sets find a handle: a part of the handle, which ends with the handle.
pub(crate) struct MemberSlot<T>(OnceLock<Arc<MemberOf<T>>>);

/// A handle as wait sets see it. NULL: the handle was freed.
pub(crate) struct MemberOf<T>(Mutex<*mut T>);

// SAFETY: only the thread that waits uses the address, under the lock, while the handle is not
// freed. By the header's rule, that thread may use the handle then.
unsafe impl<T> Send for MemberOf<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for MemberOf<T> {}

impl<T> MemberSlot<T> {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn member(&self, handle: *mut T) -> Arc<MemberOf<T>> {
        Arc::clone(self.0.get_or_init(|| Arc::new(MemberOf(Mutex::new(handle)))))
    }

    /// Takes the handle out of all wait sets, because it is being freed.
    pub fn end(&self) {
        if let Some(member) = self.0.get() {
            *lock(&member.0) = ptr::null_mut();
        }
    }
}

impl<T> Drop for MemberSlot<T> {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an empty wait set.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has too few descriptors left: a wait set needs two.
///
/// - Ownership: the caller frees the wait set.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_new(set: Out<*mut WaitSet>, error: ErrorOut) -> Status {
    error.guard(|| {
        set.check("set")?;
        let made = WaitSet {
            set: RustSet::new()?,
            failed: Arc::default(),
            publishers: Mutex::default(),
            next: AtomicUsize::new(0),
        };
        set.give("set", made)
    })
}

impl WaitSet {
    /// Adds a handle, with the call that arms the descriptor.
    fn add<T: 'static>(
        &self,
        key: u64,
        descriptor: ReadyDescriptor,
        member: Arc<MemberOf<T>>,
        arm: impl Fn(&Handle<T>) -> Result<Status, Failure> + Send + 'static,
    ) -> Result<Status, Failure> {
        let failed = Arc::clone(&self.failed);
        let prepare = move || {
            let handle = lock(&member.0);
            if handle.is_null() {
                // The handle was freed, and is never ready again.
                return Ok(true);
            }
            // SAFETY: the handle is not freed, and this is the thread that may use it.
            match arm(&unsafe { Handle::new(*handle) }) {
                Ok(status) => Ok(status == Status::Empty),
                Err(failure) => match Status::of(failure.code) {
                    Status::Stopped
                    | Status::Interrupted
                    | Status::Forked
                    | Status::InUse
                    | Status::TooManyHeld
                    | Status::Panicked => {
                        // If there are several failures, it does not matter which one is kept.
                        *lock(&failed) = Some(failure);
                        Err(LinkError::Stopped)
                    }
                    // The next call of the handle returns the same error.
                    _ => Ok(false),
                },
            }
        };
        self.set.add(key, (descriptor, prepare))?;
        Ok(Status::Ok)
    }
}

/// Adds a subscriber to a wait set, under a key that the caller selects. The subscriber is ready
/// when `stripline_subscriber_receive` has a packet, the end of stream or an error. For a windowed
/// subscriber, `samples` is the length of the window to wait for. For any other subscriber it is 0.
///
/// Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
/// `stripline_subscriber_ready_descriptor`.
///
/// - Ownership: the caller keeps the subscriber. The subscriber may be freed before the set, and is
///   then never ready. While another thread waits with the set, remove the subscriber first.
/// - Blocking: never.
/// - Threads: the thread of the subscriber. From then on, this must be the thread that waits with
///   the set.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_subscriber(
    set: Ref<WaitSet>,
    key: u64,
    subscriber: Handle<Subscriber>,
    samples: usize,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|found, source| {
        source.check_window(samples)?;
        let member = found.member.member(subscriber.pointer());
        let arm = move |handle: &Handle<Subscriber>| handle.arm(samples);
        set.get("set")?.add(key, source.ready_descriptor()?, member, arm)
    }))
}

/// Adds a publisher to a wait set. The publisher is ready when there is room for a packet of
/// `samples` samples, or an error.
///
/// A publisher has one descriptor, so add it only once to a set, by this function or by
/// `stripline_wait_set_add_publisher_for_receivers`. Fails with `STRIPLINE_PORT` for a key that is
/// in use, and otherwise like `stripline_publisher_ready_descriptor`. While the loan of the
/// publisher is open, it is always ready.
///
/// - Ownership: as for `stripline_wait_set_add_subscriber`.
/// - Blocking: never.
/// - Threads: as for `stripline_wait_set_add_subscriber`.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_publisher(
    set: Ref<WaitSet>,
    key: u64,
    publisher: Handle<Publisher>,
    samples: usize,
    error: ErrorOut,
) -> Status {
    add_publisher(set, key, publisher, move |handle| handle.arm(samples), error)
}

/// Adds a publisher to a wait set. The publisher is ready when at least `count` receivers are
/// connected.
///
/// Fails like `stripline_wait_set_add_publisher`.
///
/// - Ownership: as for `stripline_wait_set_add_subscriber`.
/// - Blocking: never.
/// - Threads: as for `stripline_wait_set_add_subscriber`.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_publisher_for_receivers(
    set: Ref<WaitSet>,
    key: u64,
    publisher: Handle<Publisher>,
    count: usize,
    error: ErrorOut,
) -> Status {
    add_publisher(set, key, publisher, move |handle| handle.arm_for_receivers(count), error)
}

fn add_publisher(
    set: Ref<WaitSet>,
    key: u64,
    publisher: Handle<Publisher>,
    arm: impl Fn(&Handle<Publisher>) -> Result<Status, Failure> + Send + 'static,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, loan| {
        let (set, member) = (set.get("set")?, loan.owner().member.member(publisher.pointer()));
        let mut publishers = lock(&set.publishers);
        if let Some((other, _)) = publishers.iter().find(|(_, other)| Arc::ptr_eq(other, &member)) {
            let text = format!("the publisher is in the set already, with the key {other}: remove it first");
            return Err(Failure::new(Status::Port, text));
        }
        let added = set.add(key, link.ready_descriptor()?, Arc::clone(&member), arm)?;
        publishers.push((key, member));
        Ok(added)
    }))
}

/// Adds a client to a wait set. The client is ready when the program must check the pending calls,
/// as after `stripline_client_arm`.
///
/// Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
/// `stripline_client_ready_descriptor`.
///
/// - Ownership: as for `stripline_wait_set_add_subscriber`.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_client(
    set: Ref<WaitSet>,
    key: u64,
    client: Ref<Client>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let (set, found) = (set.get("set")?, client.get("client")?);
        let member = found.member.member(client.pointer().cast_mut());
        let arm = |handle: &Handle<Client>| handle.get("client")?.arm();
        set.add(key, found.link.ready_descriptor()?, member, arm)
    })
}

/// Adds a server to a wait set. The server is ready when `stripline_server_serve_one` has something
/// to do.
///
/// Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
/// `stripline_server_ready_descriptor`.
///
/// - Ownership: as for `stripline_wait_set_add_subscriber`.
/// - Blocking: never.
/// - Threads: as for `stripline_wait_set_add_subscriber`.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_server(
    set: Ref<WaitSet>,
    key: u64,
    server: Handle<Server>,
    error: ErrorOut,
) -> Status {
    let member = server.as_ref().map(|found| found.member.member(server.pointer()));
    error.finish(server.call(|link| {
        let member = member.ok_or_else(|| missing("server"))?;
        set.get("set")?.add(key, link.ready_descriptor()?, member, Handle::<Server>::arm)
    }))
}

/// A descriptor of the program, which keeps ownership.
struct Foreign(RawFd);

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is only passed to `poll`, which reports a number that is not open.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// Adds a descriptor of the program to a wait set. `interest` is the event to wait for:
/// `STRIPLINE_READY_READABLE`, `STRIPLINE_READY_WRITABLE` or both.
///
/// Fails with `STRIPLINE_PORT` for a key that is in use, and with `STRIPLINE_INVALID_ARGUMENT` for
/// a negative descriptor or another interest.
///
/// - Ownership: the caller keeps the descriptor. Remove it before it is closed. A closed descriptor
///   is reported with `STRIPLINE_READY_CLOSED`, unless the number is in use again.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_add_descriptor(
    set: Ref<WaitSet>,
    key: u64,
    descriptor: i32,
    interest: u64,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let set = set.get("set")?;
        const READABLE: u64 = Ready::Readable as u64;
        const WRITABLE: u64 = Ready::Writable as u64;
        const BOTH: u64 = READABLE | WRITABLE;
        let interest = match interest {
            READABLE => WaitInterest::Readable,
            WRITABLE => WaitInterest::Writable,
            BOTH => WaitInterest::Both,
            _ => {
                let text = format!("`interest` is {interest}; pass readable (1), writable (2) or both (3)");
                return Err(Failure::argument(text));
            }
        };
        if descriptor < 0 {
            return Err(Failure::argument(format!("`descriptor` is {descriptor}; pass an open one")));
        }
        set.set.add_descriptor(key, Foreign(descriptor), interest)?;
        Ok(Status::Ok)
    })
}

/// Removes the member that was added with a key. When this returns, no wait uses the member or
/// returns the key any more.
///
/// Returns `STRIPLINE_EMPTY` if there is no member with that key.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_remove(set: Ref<WaitSet>, key: u64, error: ErrorOut) -> Status {
    error.guard(|| {
        let set = set.get("set")?;
        let is_removed = set.set.remove(key)?;
        lock(&set.publishers).retain(|(other, _)| *other != key);
        Ok(if is_removed { Status::Ok } else { Status::Empty })
    })
}

/// Waits until something in the set is ready, and writes up to `capacity` events. `count` is set to
/// their number. The next wait begins with events that did not fit.
///
/// Returns `STRIPLINE_OK` with at least one event, and `STRIPLINE_EMPTY` if nothing was ready in
/// time. Fails with `STRIPLINE_INTERRUPTED` by a waker of the set or of a handle in it, and with
/// `STRIPLINE_STOPPED` when the node of a handle is stopped. Fails with `STRIPLINE_TOO_MANY_HELD`
/// for a subscriber with a lent packet, and with `STRIPLINE_PORT` while another thread waits. A
/// handle with any other error is ready: the next call of the handle returns the error. Nothing is
/// lost.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) waits without end.
/// - Threads: one at a time. The waiting thread uses the handles of the set.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_wait(
    set: Ref<WaitSet>,
    events: Out<WaitEvent>,
    capacity: usize,
    count: Out<usize>,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        events.check("events")?;
        count.check("count")?;
        if capacity == 0 {
            return Err(Failure::argument("`capacity` is 0; pass room for one event at least"));
        }
        let set = set.get("set")?;
        let found = match set.set.wait(&mut [], timeout(timeout_ns)) {
            Ok(found) => found.added,
            // The failure of a member is more precise than the error of the set.
            Err(failed) => return Err(lock(&set.failed).take().unwrap_or_else(|| failed.into())),
        };
        let first = if found.is_empty() { 0 } else { set.next.load(Ordering::Relaxed) % found.len() };
        let given = found.len().min(capacity);
        for (index, member) in found.iter().cycle().skip(first).take(given).enumerate() {
            let bits = [(member.readable, Ready::Readable), (member.writable, Ready::Writable)];
            let bits = bits.into_iter().chain([(member.closed, Ready::Closed)]);
            let ready = bits.filter(|(is_set, _)| *is_set).map(|(_, bit)| bit as u64).sum();
            // SAFETY: the caller has room for `capacity` events.
            unsafe { events.pointer().add(index).write(WaitEvent { key: member.key, ready }) };
        }
        let next = if given < found.len() { first + given } else { 0 };
        // Relaxed: one thread waits at a time.
        set.next.store(next, Ordering::Relaxed);
        count.put("count", given)?;
        Ok(if given == 0 { Status::Empty } else { Status::Ok })
    })
}

/// Makes a waker, which ends a wait of the set.
///
/// - Ownership: the caller frees the waker, before or after the set.
/// - Blocking: never.
/// - Threads: any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_waker(
    set: Ref<WaitSet>,
    waker: Out<*mut Waker>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let set = set.get("set")?;
        waker.waker(|| set.set.waker())
    })
}

/// Frees a wait set; NULL is allowed. The members are not freed.
///
/// - Ownership: ends with this call. A second call with the same set is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_wait_set_free(set: Handle<WaitSet>) {
    drop_quietly(set.into_box());
}
