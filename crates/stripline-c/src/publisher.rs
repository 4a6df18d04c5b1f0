//! Publishers.

mod loan;
mod send;
mod send_options;

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_char;
use std::ptr::null;
use std::sync::Arc;
use std::time::Duration;

use stripline::node::Publisher as RustPublisher;
use stripline::payload::Dynamic;

use crate::component::Given;
use crate::error::{Error, Failure};
use crate::handle::{Head, drop_quietly, guard};
use crate::message_type;
use crate::node::Node;
use crate::sample_type::{self, SampleType};
use crate::status::Status;
use crate::stream::{self, StreamDescription};
use crate::text;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

pub use loan::{Loan, stripline_loan_commit, stripline_publisher_loan};
pub use send::stripline_publisher_send;
pub use send_options::{SendOptions, SendSet};

/// A publisher. It sends packets of samples to every receiver of a topic. Only one thread at a time
/// may use it.
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
    given: Option<Arc<Given>>,
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
pub unsafe extern "C" fn stripline_publisher_new(
    node: *const Node,
    topic: *const c_char,
    r#type: *const SampleType,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(publisher, "publisher")?;
        // SAFETY: the program follows the header's rules for handles, texts and structures.
        let (node, topic, samples) =
            unsafe { (Node::get(node)?, text::required(topic, "topic")?, sample_type::read(r#type)?) };
        let made = Publisher::new(node.publisher::<Dynamic>((topic, &samples))?);
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(publisher, "publisher", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

/// Makes a publisher of messages on a topic. Each packet is one message in CBOR (RFC 8949), and the
/// samples are the bytes of the message. They are not checked.
///
/// `type` is `message/` and a name, or `message/` and a schema such as `tune{hz:f64}`
/// (`docs/layouts.md`); NULL is `message/cbor`, the type of any message. A subscriber with another
/// schema is refused. An end with `message/cbor` connects to an end with any schema.
///
/// Fails like `stripline_publisher_new`.
///
/// - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
/// - Blocking: until the node's own subscribers are connected.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_message_publisher_new(
    node: *const Node,
    topic: *const c_char,
    r#type: *const c_char,
    publisher: *mut *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(publisher, "publisher")?;
        // SAFETY: the program follows the header's rules for handles and texts.
        let (node, topic, messages) =
            unsafe { (Node::get(node)?, text::required(topic, "topic")?, message_type::read(r#type)?) };
        let made = Publisher::new(node.publisher::<Dynamic>((topic, &messages))?);
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(publisher, "publisher", made) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
}

impl Publisher {
    /// Returns a handle of a link.
    pub(crate) fn new(link: RustPublisher<Dynamic>) -> *mut Self {
        Self::given(link, None)
    }

    /// Returns a handle of a link that was taken from a component's ports.
    pub(crate) fn given(link: RustPublisher<Dynamic>, given: Option<&Arc<Given>>) -> *mut Self {
        let made = Box::into_raw(Box::new(Self {
            head: Head::new(),
            name: link.name().into(),
            link: UnsafeCell::new(Some(link)),
            loan: Loan { content: UnsafeCell::new(None), owner: null() },
            is_freed: Cell::new(false),
            given: given.cloned(),
            member: MemberSlot::new(),
        }));
        // SAFETY: the publisher was just made, and the loan's handle is part of it.
        unsafe { (*made).loan.owner = made };
        given.iter().for_each(|given| given.add_publisher(made));
        made
    }

    /// Frees a publisher, and cancels an open loan.
    ///
    /// # Safety
    /// The caller must not use the publisher or the loan again.
    pub(crate) unsafe fn free_with_loan(publisher: *const Self) {
        // SAFETY: made by `Publisher::given`, and freed once.
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

    /// Runs a call while no loan is open and the stream has not ended.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    #[inline(always)]
    pub(crate) unsafe fn call(
        publisher: *const Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut RustPublisher<Dynamic>, &Loan) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller makes the same promise.
        let Some(found) = (unsafe { publisher.as_ref() }) else {
            // SAFETY: the caller makes the same promise.
            return unsafe { Failure::null("publisher").report(error) };
        };
        let inside = || {
            if found.is_loan_open() {
                return Err(Self::loan_is_open());
            }
            // SAFETY: this call has entered the head, and no loan refers to the link.
            match unsafe { &mut *found.link.get() } {
                Some(link) => call(link, &found.loan),
                None => Err(found.has_ended()),
            }
        };
        // SAFETY: the caller makes the same promise.
        unsafe { found.head.enter(error, inside) }
    }

    /// Runs the short part of a call, like [`Publisher::call`] and [`Head::enter_fast`].
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    #[inline(always)]
    unsafe fn call_fast(
        publisher: *const Self,
        error: *mut *mut Error,
        call: impl FnOnce(&mut RustPublisher<Dynamic>, &Loan) -> bool,
    ) -> Option<Status> {
        // SAFETY: the caller makes the same promise.
        let found = unsafe { publisher.as_ref() }?;
        let inside = || {
            if found.is_loan_open() {
                return false;
            }
            // SAFETY: the head is idle, and no loan refers to the link.
            unsafe { &mut *found.link.get() }.as_mut().is_some_and(|link| call(link, &found.loan))
        };
        // SAFETY: the caller makes the same promise.
        unsafe { found.head.enter_fast(error, inside) }
    }

    /// Writes a number of the link to the named place, like [`Publisher::call`].
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles, results and `error`.
    unsafe fn give<N>(
        publisher: *const Self,
        (place, name): (*mut N, &'static str),
        error: *mut *mut Error,
        number: impl FnOnce(&mut RustPublisher<Dynamic>) -> N,
    ) -> Status {
        let give = |link: &mut RustPublisher<Dynamic>, _: &Loan| {
            // SAFETY: the caller makes the same promise.
            unsafe { text::put(place, name, number(link)) }?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { Self::call(publisher, error, give) }
    }

    /// Ends the stream by a call that takes the link.
    ///
    /// # Safety
    /// The caller must follow the header's rules for handles and `error`.
    unsafe fn end(
        publisher: *const Self,
        error: *mut *mut Error,
        end: impl FnOnce(&mut Option<RustPublisher<Dynamic>>, &Self) -> Result<(), Failure>,
    ) -> Status {
        // SAFETY: the caller makes the same promise.
        let Some(found) = (unsafe { publisher.as_ref() }) else {
            // SAFETY: the caller makes the same promise.
            return unsafe { Failure::null("publisher").report(error) };
        };
        let inside = || {
            if found.is_loan_open() {
                return Err(Self::loan_is_open());
            }
            // SAFETY: this call has entered the head, and no loan refers to the link.
            end(unsafe { &mut *found.link.get() }, found)?;
            Ok(Status::Ok)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { found.head.enter(error, inside) }
    }
}

/// Sets the description of the samples that follow.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid description. The message names the
/// mistake. If the description is too large, the next send fails.
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
        // SAFETY: the program follows the header's rules for structures and texts.
        link.set_stream(unsafe { stream::read(stream) }?);
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, set) }
}

/// Gets the number of receivers that are connected now.
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
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (receivers, "receivers"), error, |link| link.receivers()) }
}

/// Waits until at least `count` receivers are connected.
///
/// Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
///
/// - Ownership: nothing is kept.
/// - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) waits without end.
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
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::call(publisher, error, wait) }
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
pub unsafe extern "C" fn stripline_publisher_waker(
    publisher: *mut Publisher,
    waker: *mut *mut Waker,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::call(publisher, error, |link, _| Waker::give(waker, || link.waker())) }
}

/// Gets the number of the next packet.
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
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (sequence, "sequence"), error, |link| link.sequence()) }
}

/// Gets the maximum number of samples in a packet.
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
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (samples, "samples"), error, |link| link.samples_max()) }
}

/// Gets the maximum number of samples in a packet of one frame. Only such a packet is written in
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
    // SAFETY: the program follows the header's rules for handles, results and `error`.
    unsafe { Publisher::give(publisher, (samples, "samples"), error, |link| link.in_place_samples_max()) }
}

/// Ends the stream. Later calls of the publisher fail with `STRIPLINE_PORT`. The caller still frees
/// it.
///
/// Fails with `STRIPLINE_FULL` when a receiver does not take the remaining packets in time. For
/// that receiver, the stream ends as after `stripline_publisher_abandon`. After
/// `STRIPLINE_INTERRUPTED`, another call continues to end the stream.
///
/// - Ownership: the publisher stays the caller's.
/// - Blocking: until the remaining packets have left this process, up to `timeout_ns`;
///   `STRIPLINE_FOREVER` (or any negative number) waits without end.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_finish(
    publisher: *mut Publisher,
    timeout_ns: i64,
    error: *mut *mut Error,
) -> Status {
    let finish = |slot: &mut Option<RustPublisher<Dynamic>>, found: &Publisher| {
        let link = slot.as_mut().ok_or_else(|| found.has_ended())?;
        let outcome = link.end(timeout(timeout_ns).unwrap_or(Duration::MAX));
        match outcome {
            Err(stripline::Error::Interrupted { .. }) => {}
            Err(_) => slot.take().into_iter().for_each(RustPublisher::abandon),
            Ok(()) => drop(slot.take()),
        }
        Ok(outcome?)
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::end(publisher, error, finish) }
}

/// Disconnects without an end of stream, for a stream that is not complete. Receivers get all
/// packets that were sent, and then wait for another publisher. The stream of that publisher begins
/// with a gap. Later calls fail with `STRIPLINE_PORT`. The caller still frees the publisher.
///
/// - Ownership: the publisher stays the caller's.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_abandon(
    publisher: *mut Publisher,
    error: *mut *mut Error,
) -> Status {
    let abandon = |slot: &mut Option<RustPublisher<Dynamic>>, found: &Publisher| {
        slot.take().ok_or_else(|| found.has_ended())?.abandon();
        Ok(())
    };
    // SAFETY: the program follows the header's rules for handles and `error`.
    unsafe { Publisher::end(publisher, error, abandon) }
}

/// Frees a publisher; NULL is allowed. This ends the stream, unless it has ended before. An error
/// at the end of the stream goes only to the log (`stripline_publisher_finish` returns it).
///
/// If a loan is open, the memory of the loan stays valid, and the publisher ends when the loan is
/// closed. A commit then sends nothing and fails.
///
/// - Ownership: ends here. A second call with the same publisher is undefined.
/// - Blocking: until the remaining packets have left this process, ten seconds at most.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_publisher_free(publisher: *mut Publisher) {
    // SAFETY: the program follows the header's rule for handles.
    let Some(found) = (unsafe { publisher.as_ref() }) else { return };
    found.member.end();
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
        if let Some(given) = self.given.take() {
            given.remove_publisher(self);
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
    use crate::node::{NodeOptions, stripline_node_free, stripline_node_new};

    // No C function panics on demand, so this test poisons the handle by a test call.
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
