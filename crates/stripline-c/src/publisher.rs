//! Publishers.

mod loan;
mod send;
mod send_options;

use std::cell::{Cell, UnsafeCell};
use std::ptr::null;
use std::sync::Arc;
use std::time::Duration;

use stripline::node::{PortName, Publisher as RustPublisher};
use stripline::payload::Dynamic;
use stripline_bindings::PortType;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::component::TakenPorts;
use crate::error::Failure;
use crate::handle::{Head, Headed, drop_quietly};
use crate::node::Node;
use crate::sample_type::SampleType;
use crate::status::Status;
use crate::stream::StreamDescription;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

pub use loan::{Loan, stripline_loan_commit, stripline_publisher_loan};
pub use send::stripline_publisher_send;
pub use send_options::{SendOptions, SendSet};

/// A publisher, which sends packets of samples to every receiver of a topic. Only one thread at a
/// time may use it.
pub struct Publisher {
    head: Head,
    /// The topic or port of the publisher.
    name: Box<str>,
    /// `None` once the stream has ended.
    link: UnsafeCell<Option<RustPublisher<Dynamic>>>,
    loan: Loan,
    /// Whether the program has freed the publisher while the loan was open.
    is_freed: Cell<bool>,
    /// The list of the component's ports, if the publisher was taken from one.
    taken: Option<Arc<TakenPorts>>,
    pub(crate) member: MemberSlot<Self>,
}

/// Makes a publisher of samples on a topic.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type, and with `STRIPLINE_SYSTEM` or
/// `STRIPLINE_UNSUPPORTED` if the transport cannot be opened.
///
/// - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
/// - Blocking: until the node's own subscribers are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_new(
    node: Ref<Node>,
    topic: Str,
    r#type: Ref<SampleType>,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let make = |topic: PortName<'_, Dynamic>| Ok(node.link()?.publisher(topic)?);
        publisher.open((topic, "topic"), |_| r#type.port_type(), None, make)
    })
}

/// Makes a publisher of messages on a topic. Each packet is one message in CBOR (RFC 8949), and the
/// samples are the bytes of the message.
///
/// `type` is `message/` and a name, or `message/` and a schema such as `tune{hz:f64}`
/// (`docs/layouts.md`); NULL is `message/cbor`, the type of any message. A subscriber with another
/// schema is refused. An end with `message/cbor` connects to an end with any schema.
///
/// With a schema, each message is checked when it is sent: a send or commit of another message
/// fails with `STRIPLINE_INVALID_ARGUMENT`, the error names the place, and nothing is sent.
/// Otherwise the bytes are not checked. Messages have times, sample indexes and scopes as samples
/// do (`stripline_send_options`, `stripline_loan_commit_like`).
///
/// Fails like `stripline_publisher_new`.
///
/// - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
/// - Blocking: until the node's own subscribers are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_message_publisher_new(
    node: Ref<Node>,
    topic: Str,
    r#type: Str,
    publisher: Out<*mut Publisher>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let make = |topic: PortName<'_, Dynamic>| Ok(node.link()?.publisher(topic)?);
        publisher.open((topic, "topic"), |_| r#type.message_type(), None, make)
    })
}

impl Out<*mut Publisher> {
    /// Opens a port by name and type, and writes the handle. `taken` is the list of a component's
    /// ports.
    pub(crate) fn open(
        &self,
        (name, what): (Str, &'static str),
        of: impl FnOnce(&str) -> Result<PortType, Failure>,
        taken: Option<&Arc<TakenPorts>>,
        make: impl FnOnce(PortName<'_, Dynamic>) -> Result<RustPublisher<Dynamic>, Failure>,
    ) -> Result<Status, Failure> {
        self.check("publisher")?;
        let name = name.required(what)?;
        self.put("publisher", Publisher::new(make(of(name)?.at(name))?, taken))
    }
}

impl Publisher {
    /// Returns a handle of a link.
    fn new(link: RustPublisher<Dynamic>, taken: Option<&Arc<TakenPorts>>) -> *mut Self {
        let made = Box::into_raw(Box::new(Self {
            head: Head::new(),
            name: link.name().into(),
            link: UnsafeCell::new(Some(link)),
            loan: Loan { content: UnsafeCell::new(None), owner: null() },
            is_freed: Cell::new(false),
            taken: taken.cloned(),
            member: MemberSlot::new(),
        }));
        // SAFETY: the publisher was just made, and the loan's handle is part of it.
        unsafe { (*made).loan.owner = made };
        taken.iter().for_each(|taken| taken.add_publisher(made));
        made
    }

    /// Frees a publisher, and cancels an open loan.
    ///
    /// # Safety
    /// The caller must not use the publisher or the loan again.
    pub(crate) unsafe fn free_with_loan(publisher: *const Self) {
        // SAFETY: made by `Publisher::new`, and freed once.
        let mut found = unsafe { Box::from_raw(publisher.cast_mut()) };
        if !found.head.is_poisoned() {
            drop_quietly(found.loan.content.get_mut().take());
        }
        drop_quietly(found);
    }

    #[inline(always)]
    fn is_loan_open(&self) -> bool {
        // SAFETY: this is the publisher's thread, and only that thread changes the content.
        unsafe { &*self.loan.content.get() }.is_some()
    }

    #[cold]
    fn loan_is_open() -> Failure {
        Failure::new(Status::Port, "the publisher has a loan open: commit or cancel it first")
    }

    #[cold]
    fn has_ended(&self) -> Failure {
        Failure::new(Status::Port, format!("{}: its stream has ended: make another publisher", self.name))
    }
}

impl Headed for Publisher {
    const NAME: &'static str = "publisher";

    #[inline(always)]
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Handle<Publisher> {
    /// Runs a call while no loan is open and the stream has not ended.
    #[inline(always)]
    pub(crate) fn call(
        &self,
        call: impl FnOnce(&mut RustPublisher<Dynamic>, &Loan) -> Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        self.call_slot(|slot, found| match slot {
            Some(link) => call(link, &found.loan),
            None => Err(found.has_ended()),
        })
    }

    /// Runs a call while no loan is open, which may end the stream.
    #[inline(always)]
    fn call_slot(
        &self,
        call: impl FnOnce(&mut Option<RustPublisher<Dynamic>>, &Publisher) -> Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        self.enter(|found| {
            if found.is_loan_open() {
                return Err(Publisher::loan_is_open());
            }
            // SAFETY: this call has entered the head, and no loan refers to the link.
            call(unsafe { &mut *found.link.get() }, found)
        })
    }

    /// Runs the short part of a call, like [`Handle::call`] and [`Head::enter_fast`].
    #[inline(always)]
    fn call_fast(
        &self,
        error: ErrorOut,
        call: impl FnOnce(&mut RustPublisher<Dynamic>, &Loan) -> bool,
    ) -> Option<Status> {
        let found = self.as_ref()?;
        let inside = || {
            if found.is_loan_open() {
                return false;
            }
            // SAFETY: the head is idle, and no loan refers to the link.
            unsafe { &mut *found.link.get() }.as_mut().is_some_and(|link| call(link, &found.loan))
        };
        found.head.enter_fast(error, inside)
    }
}

/// Sets the description of the samples that follow. With another `id`, the sample index begins at
/// 0. With other rows, frames or channels of the same `id`, the index goes on at the next multiple
/// of the new frame.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid description. The message names the
/// mistake. If the description is too large, the next send fails.
///
/// - Ownership: nothing is kept.
/// - Blocking: never. The call allocates.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_set_stream(
    publisher: Handle<Publisher>,
    stream: Ref<StreamDescription>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| {
        link.set_stream(stream.stream()?);
        Ok(Status::Ok)
    }))
}

/// Gets the number of receivers that are connected now.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_receivers(
    publisher: Handle<Publisher>,
    receivers: Out<usize>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| receivers.put("receivers", link.receivers())))
}

/// Waits until at least `count` receivers are connected.
///
/// Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) waits without end.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_wait_for_receivers(
    publisher: Handle<Publisher>,
    count: usize,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| {
        let is_there = link.wait_for_receivers(count, timeout(timeout_ns).unwrap_or(Duration::MAX))?;
        Ok(if is_there { Status::Ok } else { Status::Empty })
    }))
}

/// Makes a waker, which ends waits of the publisher: in a loan, a send or a commit, in
/// `stripline_publisher_wait_for_receivers` and in `stripline_publisher_finish`.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has no descriptor left.
///
/// - Ownership: the caller frees the waker, before or after the publisher.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_waker(
    publisher: Handle<Publisher>,
    waker: Out<*mut Waker>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| waker.waker(|| link.waker())))
}

/// Gets the number of the next packet.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_sequence(
    publisher: Handle<Publisher>,
    sequence: Out<u64>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| sequence.put("sequence", link.sequence())))
}

/// Gets the maximum number of samples in a packet.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_samples_max(
    publisher: Handle<Publisher>,
    samples: Out<usize>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| samples.put("samples", link.samples_max())))
}

/// Gets the maximum number of samples in a packet of one frame. Only such a packet is written in
/// place, and can be sent without waiting.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_samples_in_place(
    publisher: Handle<Publisher>,
    samples: Out<usize>,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call(|link, _| samples.put("samples", link.in_place_samples_max())))
}

/// Ends the stream. Later calls of the publisher fail with `STRIPLINE_PORT`. The caller still frees
/// it.
///
/// Fails with `STRIPLINE_FULL` when a receiver does not take the remaining packets in time. For
/// that receiver, the stream ends as after `stripline_publisher_abandon`. After
/// `STRIPLINE_INTERRUPTED`, another call continues to end the stream.
///
/// - Ownership: the caller keeps the publisher.
/// - Blocking: until the remaining packets have left this process, up to `timeout_ns`;
///   `STRIPLINE_FOREVER` (or any negative number) waits without end.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_finish(
    publisher: Handle<Publisher>,
    timeout_ns: i64,
    error: ErrorOut,
) -> Status {
    error.finish(publisher.call_slot(|slot, found| {
        let link = slot.as_mut().ok_or_else(|| found.has_ended())?;
        let outcome = link.end(timeout(timeout_ns).unwrap_or(Duration::MAX));
        match outcome {
            Err(stripline::Error::Interrupted { .. }) => {}
            Err(_) => slot.take().into_iter().for_each(RustPublisher::abandon),
            Ok(()) => drop(slot.take()),
        }
        Ok(outcome.map(|()| Status::Ok)?)
    }))
}

/// Disconnects without an end of stream, for a stream that is not complete. Receivers get all
/// packets that were sent, and then wait for another publisher. The stream of that publisher begins
/// with a gap. Later calls fail with `STRIPLINE_PORT`. The caller still frees the publisher.
///
/// - Ownership: the caller keeps the publisher.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_abandon(publisher: Handle<Publisher>, error: ErrorOut) -> Status {
    error.finish(publisher.call_slot(|slot, found| {
        slot.take().ok_or_else(|| found.has_ended())?.abandon();
        Ok(Status::Ok)
    }))
}

/// Frees a publisher; NULL is allowed. The call ends the stream, unless it has ended before. An
/// error at the end of the stream goes only to the log (`stripline_publisher_finish` returns it).
///
/// If a loan is open, the memory of the loan stays valid, and the publisher ends when the loan is
/// closed. A commit then sends nothing and fails.
///
/// - Ownership: ends with this call. A second call with the same publisher is undefined.
/// - Blocking: until the remaining packets have left this process, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_publisher_free(publisher: Handle<Publisher>) {
    let Some(found) = publisher.as_ref() else { return };
    found.member.end();
    if !found.head.begin_free() {
        return;
    }
    if found.is_loan_open() && !found.head.is_poisoned() {
        found.is_freed.set(true);
        return;
    }
    drop_quietly(publisher.into_box());
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            taken.remove_publisher(self);
        }
        if self.head.is_poisoned() {
            // After a panic, the loan is not given back, and an end of stream would be wrong.
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

    use super::loan::stripline_loan_cancel;
    use super::*;
    use crate::border::Data;
    use crate::error::{stripline_error_free, stripline_error_message};
    use crate::node::{NodeOptions, stripline_node_free, stripline_node_new};

    // No C function panics on demand, so this test poisons the handle by a test call.
    #[test]
    fn a_poisoned_publisher_can_only_be_freed() {
        // SAFETY: each text is NULL, or ends with NUL and is static.
        let text = |text: Option<&'static std::ffi::CStr>| unsafe {
            Str::new(text.map_or(null(), std::ffi::CStr::as_ptr))
        };
        let options = NodeOptions {
            size: size_of::<NodeOptions>(),
            domain: text(None),
            topics: text(None),
            isolated: 1,
        };
        let size = size_of::<SampleType>();
        let samples = SampleType { size, name: text(Some(c"u8")), sample_size: 0, sample_align: 0 };
        let (mut node, mut publisher, mut loan, mut memory) =
            (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: each handle is made before it is used, and freed once. An error may be NULL.
        unsafe {
            let none = ErrorOut::new(null_mut());
            let status = stripline_node_new(Ref::new(&options), Out::new(&mut node), none);
            assert_eq!(status, Status::Ok);
            let (of, place) = (Ref::new(&samples), Out::new(&mut publisher));
            assert_eq!(
                stripline_publisher_new(Ref::new(node), text(Some(c"t")), of, place, none),
                Status::Ok
            );
            let publisher = || Handle::new(publisher);
            let mut lend = || {
                let (memory, loan) = (Out::new(&mut memory), Out::new(&mut loan));
                stripline_publisher_loan(publisher(), 1, memory, loan, none)
            };
            assert_eq!(lend(), Status::Ok);
            let mut error = null_mut();
            let status =
                ErrorOut::new(&mut error).finish(publisher().enter(|_| panic!("the text of the panic")));
            assert_eq!(status, Status::Panicked);
            let text = std::ffi::CStr::from_ptr(stripline_error_message(Ref::new(error)));
            assert!(text.to_string_lossy().contains("the text of the panic"));
            stripline_error_free(Handle::new(error));
            assert_eq!(lend(), Status::Panicked);
            let byte = Data::new([1_u8].as_ptr().cast());
            assert_eq!(
                stripline_publisher_send(publisher(), byte, 1, Ref::new(null()), none),
                Status::Panicked
            );
            assert_eq!(stripline_publisher_finish(publisher(), 0, none), Status::Panicked);
            assert_eq!(stripline_publisher_abandon(publisher(), none), Status::Panicked);
            assert_eq!(stripline_loan_commit(Handle::new(loan), Ref::new(null()), none), Status::Panicked);
            assert_eq!(stripline_loan_cancel(Handle::new(loan), none), Status::Panicked);
            stripline_publisher_free(publisher());
            stripline_node_free(Handle::new(node));
        }
    }
}
