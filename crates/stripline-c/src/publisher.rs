//! Publishers and their loans.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_void};
use std::ptr::{self, null};
use std::time::Duration;

use stripline::node::{Loan as RustLoan, Publisher as RustPublisher};
use stripline::payload::Dynamic;
use stripline::terms::Scope;

use crate::error::{Error, Failure};
use crate::handle::{Head, drop_quietly, guard};
use crate::node::Node;
use crate::packet::{Content, Packet};
use crate::sample_type::{self, SampleType};
use crate::sized;
use crate::status::Status;
use crate::stream::{self, StreamDescription};
use crate::text;
use crate::time::timeout;

/// A publisher, which sends packets of samples to every receiver of a topic. One thread at a time
/// may use it.
pub struct Publisher {
    head: Head,
    /// Absent once the stream has ended.
    link: UnsafeCell<Option<RustPublisher<Dynamic>>>,
    loan: Loan,
    /// Whether the program has freed it while its loan was open.
    is_freed: Cell<bool>,
}

/// Room for the samples of one packet, to be written in place. It belongs to the thread of its
/// publisher, which has one at a time.
pub struct Loan {
    content: UnsafeCell<Option<RustLoan<'static, Dynamic>>>,
    owner: *const Publisher,
}

/// Members of `stripline_send_options` that are set, as bits.
#[repr(u64)]
#[derive(Clone, Copy)]
pub enum SendSet {
    /// `sample_index`.
    SampleIndex = 1,
    /// `time_ns`.
    Time = 2,
    /// `intended_ns`.
    Intended = 4,
    /// `scope`.
    Scope = 8,
    /// `deadline_ns`.
    Deadline = 16,
}

/// Options of one packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendOptions {
    /// `sizeof(stripline_send_options)`.
    pub size: usize,
    /// The members that are set: `STRIPLINE_SEND_SET_…`, combined with `|`.
    pub set: u64,
    /// The number of the packet's first sample within its stream; by default it continues the
    /// packet before.
    pub sample_index: u64,
    /// When the first sample was taken, in nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// When the packet should have been sent, in monotonic nanoseconds of the host.
    pub intended_ns: u64,
    /// When the send returns, instead of the connection's scope: 0 `none`, 1 `transport`, 2
    /// `server`, 3 `target` (`docs/glossary.md`).
    pub scope: u32,
    /// How long a receiver is waited for in the scopes `server` and `target`.
    pub deadline_ns: u64,
}

sized::sized!(
    SendOptions, "stripline_send_options",
    size: usize, set: u64, sample_index: u64, time_ns: i64, intended_ns: u64, scope: u32, deadline_ns: u64,
);

impl SendOptions {
    const ALL: u64 = 31;

    fn has(&self, member: SendSet) -> bool {
        self.set & member as u64 != 0
    }

    /// Reads what the program has passed, and checks it.
    ///
    /// # Safety
    /// The header's rule for structures.
    unsafe fn read(from: *const Self) -> Result<Self, Failure> {
        // SAFETY: the caller's promise is the same.
        let options = unsafe { sized::read(from) }?;
        if options.set & !Self::ALL != 0 {
            return Err(Failure::argument(format!(
                "`options->set` has the bits {:#x}, which this library does not have; update the library",
                options.set & !Self::ALL
            )));
        }
        if options.has(SendSet::Scope) && options.scope as usize >= Scope::ALL.len() {
            return Err(Failure::argument(format!(
                "`options->scope` is {}; it must be from 0 (`none`) to 3 (`target`)",
                options.scope
            )));
        }
        Ok(options)
    }

    fn apply<'a>(&self, mut loan: RustLoan<'a, Dynamic>) -> RustLoan<'a, Dynamic> {
        if self.has(SendSet::SampleIndex) {
            loan = loan.at_sample(self.sample_index);
        }
        if self.has(SendSet::Time) {
            loan = loan.at_time_ns(self.time_ns);
        }
        if self.has(SendSet::Intended) {
            loan = loan.intended_ns(self.intended_ns);
        }
        if self.has(SendSet::Scope) {
            loan = loan.scope(Scope::ALL[self.scope as usize]);
        }
        if self.has(SendSet::Deadline) {
            loan = loan.deadline(Duration::from_nanos(self.deadline_ns));
        }
        loan
    }
}

/// Makes a publisher of samples on a topic.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a type with a mistake, and with `STRIPLINE_SYSTEM`
/// or `STRIPLINE_UNSUPPORTED` if its transport cannot be opened.
///
/// - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
/// - Blocking: until the node's own subscribers are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_new(
    node: *const Node,
    topic: *const c_char,
    r#type: *const SampleType,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(publisher, "publisher")?;
        // SAFETY: the header's rules for handles, texts and structures.
        let (node, topic, samples) =
            unsafe { (Node::get(node)?, text::required(topic, "topic")?, sample_type::read(r#type)?) };
        let made = Box::into_raw(Box::new(Publisher {
            head: Head::new(),
            link: UnsafeCell::new(Some(node.publisher_of(&samples, topic)?)),
            loan: Loan { content: UnsafeCell::new(None), owner: null() },
            is_freed: Cell::new(false),
        }));
        // SAFETY: just made; the loan's handle is part of it.
        unsafe { (*made).loan.owner = made };
        // SAFETY: the header's rule for results.
        unsafe { text::put(publisher, "publisher", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, make) }
}

impl Publisher {
    #[inline(always)]
    fn is_loan_open(&self) -> bool {
        // SAFETY: read on the publisher's thread, which alone changes it.
        unsafe { &*self.loan.content.get() }.is_some()
    }

    #[cold]
    fn loan_is_open() -> Failure {
        Failure::new(Status::Port, "the publisher has a loan open: commit or cancel it first")
    }

    #[cold]
    fn has_ended() -> Failure {
        Failure::new(Status::Port, "the publisher's stream has ended: make another one")
    }

    /// Runs a call while no loan is open and the stream has not ended.
    ///
    /// # Safety
    /// The header's rules for handles and `error`.
    #[inline(always)]
    unsafe fn call(
        publisher: *const Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut RustPublisher<Dynamic>, &Loan) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller's promise is the same.
        let Some(found) = (unsafe { publisher.as_ref() }) else {
            // SAFETY: the caller's promise is the same.
            return unsafe { Failure::null("publisher").report(error) };
        };
        let inside = || {
            if found.is_loan_open() {
                return Err(Self::loan_is_open());
            }
            // SAFETY: the call has entered the head, and no loan refers to it.
            match unsafe { &mut *found.link.get() } {
                Some(link) => call(link, &found.loan),
                None => Err(Self::has_ended()),
            }
        };
        // SAFETY: the caller's promise is the same.
        unsafe { found.head.enter(error, inside) }
    }

    /// Gives a number of the link in the named place, as [`Publisher::call`].
    ///
    /// # Safety
    /// The header's rules for handles, results and `error`.
    unsafe fn give<N>(
        publisher: *const Self,
        (place, name): (*mut N, &'static str),
        error: *mut *mut Error,
        number: impl FnOnce(&mut RustPublisher<Dynamic>) -> N,
    ) -> Status {
        let give = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
            // SAFETY: the caller's promise is the same.
            unsafe { text::put(place, name, number(link)) }?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller's promise is the same.
        unsafe { Self::call(publisher, error, give) }
    }

    /// Ends the stream by a call that takes the link.
    ///
    /// # Safety
    /// The header's rules for handles and `error`.
    unsafe fn end(
        publisher: *const Self,
        error: *mut *mut Error,
        end: impl FnOnce(RustPublisher<Dynamic>) -> stripline::Result<()>,
    ) -> Status {
        // SAFETY: the caller's promise is the same.
        let Some(found) = (unsafe { publisher.as_ref() }) else {
            // SAFETY: the caller's promise is the same.
            return unsafe { Failure::null("publisher").report(error) };
        };
        let inside = || {
            if found.is_loan_open() {
                return Err(Self::loan_is_open());
            }
            // SAFETY: the call has entered the head, and no loan refers to it.
            let link = unsafe { &mut *found.link.get() }.take();
            end(link.ok_or_else(Self::has_ended)?)?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller's promise is the same.
        unsafe { found.head.enter(error, inside) }
    }
}

/// Lends room for `samples` samples. On shared memory, they are written where the receivers read
/// them. The initial content is unspecified.
///
/// Waits while a receiver with policy `block` has no room. Fails with `STRIPLINE_PORT` while
/// another loan is open or after the end of the stream, and with `STRIPLINE_TOO_LARGE`,
/// `STRIPLINE_STALLED`, `STRIPLINE_STOPPED` and `STRIPLINE_SYSTEM`.
///
/// - Ownership: the caller commits or cancels the loan. `memory` gets the place of the samples,
///   aligned for their type and valid until then.
/// - Blocking: while a receiver has no room.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_loan(
    publisher: *mut Publisher,
    samples: usize,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe {
        Publisher::call(publisher, error, |link, handle| lend(link.loan(samples)?, handle, memory, loan))
    }
}

/// Lends room as `stripline_publisher_loan` does, without waiting.
///
/// Fails with `STRIPLINE_FULL` when a receiver with policy `block` has no room, and with
/// `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`; otherwise as that.
///
/// - Ownership: as for `stripline_publisher_loan`.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_try_loan(
    publisher: *mut Publisher,
    samples: usize,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe {
        Publisher::call(publisher, error, |link, handle| lend(link.try_loan(samples)?, handle, memory, loan))
    }
}

/// Keeps a loan under the publisher's handle of it.
#[inline(always)]
fn lend(
    mut lent: RustLoan<'_, Dynamic>,
    handle: &Loan,
    memory: *mut *mut c_void,
    loan: *mut *mut Loan,
) -> Result<Status, Failure> {
    // Before the loan is kept: it is cancelled if there is no place for it.
    text::check_place(loan, "loan")?;
    let place = lent.as_mut_ptr().cast();
    // SAFETY: the header's rule for results.
    unsafe { text::put(memory, "memory", place) }?;
    // SAFETY: the loan refers to the publisher, which neither moves nor is freed before the loan is
    // closed. An open loan keeps other calls out until then.
    let lent = unsafe { std::mem::transmute::<RustLoan<'_, Dynamic>, RustLoan<'static, Dynamic>>(lent) };
    // SAFETY: on the publisher's thread. No loan is open, so that there is nothing to drop.
    unsafe { ptr::write(handle.content.get(), Some(lent)) };
    // SAFETY: the header's rule for results; it is not NULL.
    unsafe { text::put(loan, "loan", ptr::from_ref(handle).cast_mut()) }?;
    Ok(Status::Ok)
}

impl Loan {
    /// Takes the loan out of its handle, for a call that closes it.
    ///
    /// # Safety
    /// The header's rules for handles and `error`.
    #[inline(always)]
    unsafe fn close(
        loan: *mut Self,
        error: *mut *mut Error,
        close: impl FnOnce(RustLoan<'static, Dynamic>, bool) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller's promise is the same.
        let Some(found) = (unsafe { loan.as_ref() }) else {
            // SAFETY: the caller's promise is the same.
            return unsafe { Failure::null("loan").report(error) };
        };
        // SAFETY: the loan's handle is part of its publisher.
        let owner = unsafe { &*found.owner };
        let inside = || {
            // SAFETY: on the publisher's thread: the thread rule of the header.
            let lent = unsafe { &mut *found.content.get() }.take();
            let lent = lent.ok_or_else(|| {
                Failure::new(Status::Port, "the loan is closed: it was committed or cancelled before")
            })?;
            close(lent, owner.is_freed.get())
        };
        // SAFETY: the caller's promise is the same.
        let status = unsafe { owner.head.enter(error, inside) };
        if owner.is_freed.get() && (!owner.is_loan_open() || owner.head.is_poisoned()) {
            // SAFETY: made by `stripline_publisher_new`, and freed once: here.
            drop_quietly(unsafe { Box::from_raw(found.owner.cast_mut()) });
        }
        status
    }

    #[cold]
    fn without_publisher() -> Failure {
        Failure::new(Status::Port, "the publisher was freed before its loan was committed: nothing was sent")
    }
}

/// Sends the samples of a loan as a packet, and closes the loan, also when it fails.
///
/// Waits while a receiver with policy `block` has no room, if the loan may, and then until the
/// scope is reached. Fails as `stripline_publisher_loan`, and with `STRIPLINE_UNSUPPORTED` for a
/// scope that the transport cannot keep. Where the scope was not reached, the packet stays sent;
/// that is `STRIPLINE_UNANSWERED`, `STRIPLINE_RECEIVER_GONE` or `STRIPLINE_PACKET_REFUSED`.
///
/// - Ownership: that of the loan and its memory ends here. `options` may be NULL and is not kept.
/// - Blocking: as written above.
/// - Threads: that of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_commit(
    loan: *mut Loan,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    let commit = |lent: RustLoan<'static, Dynamic>, is_freed| {
        if is_freed {
            return Err(Loan::without_publisher());
        }
        if options.is_null() {
            lent.send()?;
        } else {
            // SAFETY: the header's rule for structures.
            let options = unsafe { SendOptions::read(options) }?;
            options.apply(lent).send()?;
        }
        Ok(Status::Ok)
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, commit) }
}

/// Sends the samples of a loan as `stripline_loan_commit` does, with the stream, sample index, time
/// and order of a packet that was received.
///
/// Fails with `STRIPLINE_PORT` for a packet that was released; otherwise as that.
///
/// - Ownership: that of the loan and its memory ends here. The packet stays the caller's.
/// - Blocking: as for `stripline_loan_commit`.
/// - Threads: that of the publisher, which has the packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_commit_like(
    loan: *mut Loan,
    packet: *const Packet,
    error: *mut *mut Error,
) -> Status {
    let commit = |lent: RustLoan<'static, Dynamic>, is_freed| {
        if is_freed {
            return Err(Loan::without_publisher());
        }
        // SAFETY: the header's rule for handles.
        match unsafe { Packet::get(packet) }? {
            Content::Free => return Err(Packet::released()),
            Content::Lent(packet) => lent.send_like(packet)?,
            Content::Held(packet, _) => lent.send_like(packet)?,
            Content::View(packet) => lent.send_like(packet)?,
            Content::Window(packet) => lent.send_like(packet)?,
        }
        Ok(Status::Ok)
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, commit) }
}

/// Keeps only the first `samples` samples of a loan. A number above its own changes nothing.
///
/// Fails with `STRIPLINE_PORT` for a loan that is closed.
///
/// - Ownership: the loan stays the caller's.
/// - Blocking: never.
/// - Threads: that of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_truncate(
    loan: *mut Loan,
    samples: usize,
    error: *mut *mut Error,
) -> Status {
    let truncate = || {
        // SAFETY: the header's rule for handles.
        let found = unsafe { loan.as_ref() }.ok_or_else(|| Failure::null("loan"))?;
        // SAFETY: on the publisher's thread: the thread rule of the header.
        match unsafe { &mut *found.content.get() } {
            Some(lent) => lent.truncate(samples),
            None => {
                return Err(Failure::new(
                    Status::Port,
                    "the loan is closed: it was committed or cancelled before",
                ));
            }
        }
        Ok(Status::Ok)
    };
    // SAFETY: the header's rule for `error`.
    unsafe { guard(error, truncate) }
}

/// Closes a loan without sending anything; NULL is allowed.
///
/// - Ownership: that of the loan and its memory ends here.
/// - Blocking: never. If its publisher was freed, that ends here: see `stripline_publisher_free`.
/// - Threads: that of the publisher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_loan_cancel(loan: *mut Loan, error: *mut *mut Error) -> Status {
    if loan.is_null() {
        return Status::Ok;
    }
    let cancel = |lent, _| {
        drop(lent);
        Ok(Status::Ok)
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Loan::close(loan, error, cancel) }
}

/// Sends a copy of `count` samples as a packet.
///
/// Fails as `stripline_publisher_loan` and `stripline_loan_commit`.
///
/// - Ownership: nothing is kept. `samples` may be NULL if `count` is 0, `options` always.
/// - Blocking: while a receiver with policy `block` has no room, and until the scope is reached.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_send(
    publisher: *mut Publisher,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    let send = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        // SAFETY: the header's rules for structures and pointers.
        unsafe { fill_and_send(|| link.loan(count), samples, count, options) }
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, send) }
}

/// Sends as `stripline_publisher_send` does, without waiting for room: all receivers get the
/// packet, or none.
///
/// Fails as `stripline_publisher_try_loan` and `stripline_loan_commit`.
///
/// - Ownership: as for `stripline_publisher_send`.
/// - Blocking: only until the scope is reached, where that is `server` or `target`.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_try_send(
    publisher: *mut Publisher,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
    error: *mut *mut Error,
) -> Status {
    let send = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        // SAFETY: the header's rules for structures and pointers.
        unsafe { fill_and_send(|| link.try_loan(count), samples, count, options) }
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, send) }
}

/// Copies the samples into a loan, and sends it.
///
/// # Safety
/// `samples` is NULL, or has as many samples as the loan that is made. The header's rule for
/// structures.
unsafe fn fill_and_send<'a>(
    loan: impl FnOnce() -> stripline::Result<RustLoan<'a, Dynamic>>,
    samples: *const c_void,
    count: usize,
    options: *const SendOptions,
) -> Result<Status, Failure> {
    // SAFETY: the caller's promise is the same.
    let options = unsafe { SendOptions::read(options) }?;
    if samples.is_null() && count != 0 {
        return Err(Failure::null("samples"));
    }
    let mut loan = loan()?;
    if !samples.is_null() {
        // SAFETY: `samples` has as many bytes; what was lent is the link's alone.
        unsafe { loan.as_mut_ptr().copy_from_nonoverlapping(samples.cast(), loan.len()) };
    }
    options.apply(loan).send()?;
    Ok(Status::Ok)
}

/// Sets the description of the samples that follow.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for a description with a mistake, which the message
/// names. One that is too large makes the next send fail.
///
/// - Ownership: nothing is kept.
/// - Blocking: never. It allocates.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_set_stream(
    publisher: *mut Publisher,
    stream: *const StreamDescription,
    error: *mut *mut Error,
) -> Status {
    let set = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        // SAFETY: the header's rules for structures and texts.
        link.set_stream(unsafe { stream::read(stream) }?);
        Ok(Status::Ok)
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, set) }
}

/// Gives the number of receivers that are connected now.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_receivers(
    publisher: *mut Publisher,
    receivers: *mut usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (receivers, "receivers"), error, |link| link.receivers()) }
}

/// Waits until at least `count` receivers are connected.
///
/// Returns `STRIPLINE_OK` if they are, and `STRIPLINE_EMPTY` if not in time.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_wait_for_receivers(
    publisher: *mut Publisher,
    count: usize,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let wait = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
        let is_there = link.wait_for_receivers(count, timeout(timeout_ns).unwrap_or(Duration::MAX))?;
        Ok(if is_there { Status::Ok } else { Status::Empty })
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, wait) }
}

/// Gives the number of the next packet.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_sequence(
    publisher: *mut Publisher,
    sequence: *mut u64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (sequence, "sequence"), error, |link| link.sequence()) }
}

/// Gives the most samples that a packet can have.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_samples_max(
    publisher: *mut Publisher,
    samples: *mut usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (samples, "samples"), error, |link| link.samples_max()) }
}

/// Gives the most samples of a packet that goes in one frame. Only such a packet is written in
/// place, and can be sent without waiting.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_samples_in_place(
    publisher: *mut Publisher,
    samples: *mut usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (samples, "samples"), error, |link| link.in_place_samples_max()) }
}

/// Ends the stream. Later calls of the publisher fail with `STRIPLINE_PORT`; it is still freed.
///
/// Fails with `STRIPLINE_FULL` when a receiver does not take the remaining packets in time. To it,
/// the end is that of `stripline_publisher_abandon`.
///
/// - Ownership: the publisher stays the caller's.
/// - Blocking: until the remaining packets have left this process, up to `timeout_ns`;
///   `STRIPLINE_FOREVER` (or any negative number) is without end.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_finish(
    publisher: *mut Publisher,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let finish =
        |link: RustPublisher<Dynamic>| link.finish_within(timeout(timeout_ns).unwrap_or(Duration::MAX));
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::end(publisher, error, finish) }
}

/// Leaves without an end of stream, as for a stream that is not complete. Receivers get all packets
/// that were sent, and then wait for another publisher, which comes with a gap. Later calls fail
/// with `STRIPLINE_PORT`; the publisher is still freed.
///
/// - Ownership: the publisher stays the caller's.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_abandon(
    publisher: *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let abandon = |link: RustPublisher<Dynamic>| {
        link.abandon();
        Ok(())
    };
    // SAFETY: the header's rules for handles and `error`.
    unsafe { Publisher::end(publisher, error, abandon) }
}

/// Frees a publisher; NULL is allowed. It ends the stream, unless that has ended before. An error
/// of that goes to the log only (`stripline_publisher_finish` returns it).
///
/// With a loan open, the loan's memory stays, and the publisher ends when the loan is closed. A
/// commit then sends nothing and fails.
///
/// - Ownership: ends here. A second call with the same publisher is undefined.
/// - Blocking: until the remaining packets have left this process, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_free(publisher: *mut Publisher) {
    // SAFETY: the header's rule for handles.
    let Some(found) = (unsafe { publisher.as_ref() }) else { return };
    if !found.head.begin_free() {
        return;
    }
    if found.is_loan_open() && !found.head.is_poisoned() {
        found.is_freed.set(true);
        return;
    }
    // SAFETY: made by `stripline_publisher_new`, and freed once.
    drop_quietly(unsafe { Box::from_raw(publisher) });
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.head.is_poisoned() {
            // What the panic left is not given back, and an end of stream would not be true.
            std::mem::forget(self.loan.content.get_mut().take());
            if let Some(link) = self.link.get_mut().take() {
                link.abandon();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;
    use crate::node::{NodeOptions, stripline_node_free, stripline_node_new};

    // No entry panics on demand: the call that poisons the handle is one of this test.
    #[test]
    fn a_poisoned_publisher_can_only_be_freed() {
        let options =
            NodeOptions { size: size_of::<NodeOptions>(), domain: null(), topics: null(), isolated: 1 };
        let samples = SampleType {
            size: size_of::<SampleType>(),
            name: c"u8".as_ptr(),
            sample_size: 0,
            sample_align: 0,
        };
        let (mut node, mut publisher, mut loan, mut memory) =
            (null_mut(), null_mut(), null_mut(), null_mut());
        let (none, byte) = (null_mut(), [1_u8]);
        // SAFETY: each handle is made before it is used, and freed once.
        unsafe {
            assert_eq!(stripline_node_new(&options, &mut node, none), Status::Ok);
            assert_eq!(
                stripline_publisher_new(node, c"t".as_ptr(), &samples, &mut publisher, none),
                Status::Ok
            );
            assert_eq!(stripline_publisher_loan(publisher, 1, &mut memory, &mut loan, none), Status::Ok);
            let mut error = null_mut();
            let status = (*publisher).head.enter(&mut error, || panic!("the text of the panic"));
            assert_eq!(status, Status::Panicked);
            let text = std::ffi::CStr::from_ptr(crate::error::stripline_error_message(error));
            assert!(text.to_string_lossy().contains("the text of the panic"));
            crate::error::stripline_error_free(error);
            assert_eq!(
                stripline_publisher_loan(publisher, 1, &mut memory, &mut loan, none),
                Status::Panicked
            );
            assert_eq!(
                stripline_publisher_send(publisher, byte.as_ptr().cast(), 1, null(), none),
                Status::Panicked
            );
            assert_eq!(stripline_publisher_finish(publisher, 0, none), Status::Panicked);
            assert_eq!(stripline_publisher_abandon(publisher, none), Status::Panicked);
            assert_eq!(stripline_loan_commit(loan, null(), none), Status::Panicked);
            assert_eq!(stripline_loan_cancel(loan, none), Status::Panicked);
            stripline_publisher_free(publisher);
            stripline_node_free(node);
        }
    }
}
