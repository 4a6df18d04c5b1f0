//! Subscribers.

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, null};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stripline::Received;
use stripline::internal::fast_path;
use stripline::node::{
    HeldPacket, Holding, Packet as RustPacket, PortName, ReadyDescriptor, Subscriber as RustSubscriber,
    Waitable, Waker as RustWaker, Window, WindowUnit as RustWindowUnit, Windowed,
};
use stripline::payload::Dynamic;
use stripline_bindings::PortType;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::component::TakenPorts;
use crate::error::Failure;
use crate::handle::{Head, Headed, drop_quietly};
use crate::node::Node;
use crate::packet::{Content, Packet, gap_numbers};
use crate::sample_type::SampleType;
use crate::sized;
use crate::status::Status;
use crate::time::timeout;
use crate::wait_set::MemberSlot;
use crate::waker::Waker;

/// A shorter wait, in nanoseconds, does not poll on the short path: polling would take longer than
/// the wait.
const SPIN_NS: i64 = 10_000;

/// A subscriber, which receives packets of samples from every publisher of a topic. Only one thread
/// at a time may use it.
pub struct Subscriber {
    head: Head,
    source: UnsafeCell<Source>,
    /// The handle of the one packet or window that the subscriber lends.
    lent: Packet,
    /// The handles of held packets.
    slots: Option<Arc<Slots>>,
    /// Whether the program has freed the subscriber while its packet was lent.
    is_freed: Cell<bool>,
    /// The list of the component's ports, if the subscriber was taken from one.
    taken: Option<Arc<TakenPorts>>,
    pub(crate) member: MemberSlot<Self>,
}

/// The kind is stored in a byte of its own, as in [`Content`].
#[repr(u8)]
pub(crate) enum Source {
    One(RustSubscriber<Dynamic>),
    Holding(Holding<Dynamic>),
    Windowed(Box<Windowed<Dynamic>>),
}

/// The unit of the lengths of windows.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum WindowUnit {
    /// Samples.
    Samples = 1,
    /// Rows of a stream with `row_length`.
    Rows = 2,
    /// Frames of a stream with `row_length` or channels, with all channels.
    Frames = 3,
}

/// Options of a subscriber.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SubscriberOptions {
    /// `sizeof(stripline_subscriber_options)`.
    pub size: usize,
    /// Not 0: the number of packets that may be held at once, from 1 to 4096. The packets may be
    /// released in any order and on any thread, even after the subscriber was freed. 0: one packet
    /// at a time, which costs least.
    pub hold: u32,
    /// Not 0: samples are received in windows of any length (`stripline_subscriber_window`) instead
    /// of packets, and the value is the unit of the lengths: `STRIPLINE_WINDOW_UNIT_…`. Not with
    /// `hold`. An input that declares the shape `rows` or `frames` has no windows in samples.
    pub windowed: u32,
    /// Not 0: packets that several threads of an earlier stage have forwarded are put back in
    /// sequence. The value is the number of packets that wait behind a missing one, at most 65536.
    pub resequence_window: u32,
    /// The time to wait for a missing packet, in milliseconds.
    pub resequence_skip_after_ms: u32,
}

sized::sized!(
    SubscriberOptions, "stripline_subscriber_options",
    size: usize, hold: u32, windowed: u32, resequence_window: u32, resequence_skip_after_ms: u32,
);

/// The handles of held packets. The handles outlive the subscriber while a packet is held.
pub(crate) struct Slots {
    packets: Box<[Packet]>,
    is_free: Box<[AtomicBool]>,
    next: Cell<usize>,
}

// SAFETY: the subscriber's thread uses a handle while it is free, and the thread that has the
// packet uses it while it is not. `is_free` hands the handle over. Only the subscriber's thread
// uses `next`.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(count: usize) -> Arc<Self> {
        let packets = (0..count).map(|_| Packet::new(Content::Free, null())).collect();
        let is_free = (0..count).map(|_| AtomicBool::new(true)).collect();
        Arc::new(Self { packets, is_free, next: Cell::new(0) })
    }

    /// Puts a packet under a free handle, and returns the handle.
    fn give(self: &Arc<Self>, content: impl FnOnce(Arc<Self>) -> Content) -> Option<*mut Packet> {
        let count = self.packets.len();
        for step in 0..count {
            let index = (self.next.get() + step) % count;
            // Acquire: the writes of the thread that released the handle come before the code
            // below.
            if self.is_free[index].load(Ordering::Acquire) {
                // Relaxed: this thread passes the handle to the thread that uses it next.
                self.is_free[index].store(false, Ordering::Relaxed);
                self.next.set((index + 1) % count);
                let packet = &self.packets[index];
                // SAFETY: the handle is free, so no other thread uses it.
                unsafe { packet.fill(content(Arc::clone(self))) };
                return Some(ptr::from_ref(packet).cast_mut());
            }
        }
        None
    }

    /// Frees a handle. The caller has taken the packet out before.
    ///
    /// # Safety
    /// `packet` must be one of these handles.
    pub unsafe fn free(&self, packet: *const Packet) {
        // SAFETY: both pointers are in one allocation.
        let index = unsafe { packet.offset_from(self.packets.as_ptr()) } as usize;
        // Release: pairs with the Acquire in `give`.
        self.is_free[index].store(true, Ordering::Release);
    }
}

/// Makes a subscriber to samples on a topic, which connects to every present and future publisher
/// of the topic.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type or option, and with
/// `STRIPLINE_SYSTEM` or `STRIPLINE_UNSUPPORTED` if it cannot be connected. A publisher with
/// another type is listed in the node's report.
///
/// - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
/// - Blocking: until the publishers that are present have answered, or for a few seconds.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_new(
    node: Ref<Node>,
    topic: Str,
    r#type: Ref<SampleType>,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let make = |topic: PortName<'_, Dynamic>| Ok(node.link()?.subscriber(topic)?);
        subscriber.open((topic, "topic"), |_| r#type.port_type(), &options, None, make)
    })
}

/// Makes a subscriber to messages on a topic. Each packet is one message in CBOR (RFC 8949), and
/// the samples are the bytes of the message. The bytes are not checked: the program can refuse a
/// message that does not decode (`stripline_packet_refuse`).
///
/// `type` is the same as for `stripline_message_publisher_new`. A publisher with another schema is
/// refused, and is listed in the node's report.
///
/// Fails like `stripline_subscriber_new`, and for the option `windowed`, because a message is not
/// divided.
///
/// - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
/// - Blocking: until the publishers that are present have answered, or for a few seconds.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_message_subscriber_new(
    node: Ref<Node>,
    topic: Str,
    r#type: Str,
    options: Ref<SubscriberOptions>,
    subscriber: Out<*mut Subscriber>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let make = |topic: PortName<'_, Dynamic>| Ok(node.link()?.subscriber(topic)?);
        subscriber.open((topic, "topic"), |_| r#type.message_type(), &options, None, make)
    })
}

impl Out<*mut Subscriber> {
    /// Opens a port by name and type, and writes the handle. `taken` is the list of a component's
    /// ports.
    pub(crate) fn open(
        &self,
        (name, what): (Str, &'static str),
        of: impl FnOnce(&str) -> Result<PortType, Failure>,
        options: &Ref<SubscriberOptions>,
        taken: Option<&Arc<TakenPorts>>,
        make: impl FnOnce(PortName<'_, Dynamic>) -> Result<RustSubscriber<Dynamic>, Failure>,
    ) -> Result<Status, Failure> {
        self.check("subscriber")?;
        let name = name.required(what)?;
        let (of, options) = (of(name)?, options.read()?);
        if options.windowed != 0 && matches!(of, PortType::Messages(_)) {
            return Err(Failure::argument("`windowed` is set, but a message is received whole; leave it 0"));
        }
        window_unit(options.windowed)?;
        if options.hold != 0 && options.windowed != 0 {
            return Err(Failure::argument("`hold` and `windowed` are both set; set one of them"));
        }
        self.put("subscriber", Subscriber::new(make(of.at(name))?, &options, taken)?)
    }
}

fn window_unit(unit: u32) -> Result<RustWindowUnit, Failure> {
    const UNITS: [RustWindowUnit; 4] =
        [RustWindowUnit::Samples, RustWindowUnit::Samples, RustWindowUnit::Rows, RustWindowUnit::Frames];
    UNITS.get(unit as usize).copied().ok_or_else(|| {
        Failure::argument(format!(
            "`windowed` is {unit}, which is no unit; use STRIPLINE_WINDOW_UNIT_SAMPLES"
        ))
    })
}

impl Subscriber {
    /// Returns a handle of a link.
    fn new(
        mut link: RustSubscriber<Dynamic>,
        options: &SubscriberOptions,
        taken: Option<&Arc<TakenPorts>>,
    ) -> Result<*mut Self, Failure> {
        if options.resequence_window != 0 {
            let skip_after = Duration::from_millis(options.resequence_skip_after_ms.into());
            link = link.resequenced(options.resequence_window as usize, skip_after)?;
        }
        let (source, slots) = match (options.hold as usize, options.windowed) {
            (0, 0) => (Source::One(link), None),
            (0, unit) => (Source::Windowed(Box::new(link.windowed_in(window_unit(unit)?))), None),
            (count, _) => (Source::Holding(link.holding(count)?), Some(Slots::new(count))),
        };
        let made = Box::into_raw(Box::new(Self {
            head: Head::new(),
            source: UnsafeCell::new(source),
            lent: Packet::new(Content::Free, null()),
            slots,
            is_freed: Cell::new(false),
            taken: taken.cloned(),
            member: MemberSlot::new(),
        }));
        // SAFETY: the subscriber was just made, and the packet's handle is part of it.
        unsafe { (*made).lent.owner = made };
        taken.iter().for_each(|taken| taken.add_subscriber(made));
        Ok(made)
    }

    #[inline(always)]
    pub(crate) fn is_freed(&self) -> bool {
        self.is_freed.get()
    }

    /// Frees the subscriber at the end of a call, because a handler has asked for that.
    ///
    /// # Safety
    /// The caller must not use the subscriber again.
    pub(crate) unsafe fn free_at_end(subscriber: *const Self) {
        // SAFETY: made by `Subscriber::new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(subscriber.cast_mut()) });
    }

    /// Returns whether a packet or window is lent.
    #[inline(always)]
    pub(crate) fn is_lent(&self) -> bool {
        // SAFETY: this is the subscriber's thread.
        !unsafe { self.lent.is_free() }
    }

    /// Returns the source, for a call of this thread.
    ///
    /// # Safety
    /// The caller must have entered the head, so that no other call has a reference to the source.
    /// No packet may be lent.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the head lets one call in at a time")]
    pub(crate) unsafe fn source(&self) -> &mut Source {
        // SAFETY: the caller makes the same promise.
        unsafe { &mut *self.source.get() }
    }

    #[cold]
    pub(crate) fn still_lent(&self) -> Failure {
        Failure::new(
            Status::TooManyHeld,
            "the packet before is not released; release it first, or make the subscriber with `hold`",
        )
    }

    /// Frees a subscriber that the program has freed while its packet was lent.
    ///
    /// # Safety
    /// The caller must not use the subscriber again if it was freed.
    #[inline(always)]
    pub(crate) unsafe fn end_if_freed(subscriber: *const Self) {
        // SAFETY: the subscriber exists until this call frees it.
        if unsafe { (*subscriber).is_freed.get() && !(*subscriber).is_lent() } {
            // SAFETY: the caller makes the same promise.
            unsafe { Self::free_at_end(subscriber) };
        }
    }

    /// Lends the received packet under the subscriber's own handle.
    ///
    /// # Safety
    /// The caller must have entered the head, and no packet may be lent.
    #[inline(always)]
    pub(crate) unsafe fn lend_packet(
        &self,
        found: Received<RustPacket<'_, Dynamic>>,
        place: &Out<*mut Packet>,
    ) -> Result<Status, Failure> {
        give(found, place, "packet", |found| {
            // SAFETY: the packet refers to the subscriber, which neither moves nor is freed before
            // the packet is released. Until then, `lent` blocks other calls.
            let found = unsafe {
                std::mem::transmute::<RustPacket<'_, Dynamic>, RustPacket<'static, Dynamic>>(found)
            };
            self.lend(Content::Lent(found))
        })
    }

    /// Lends the received packet under one of the handles of held packets.
    #[inline(always)]
    pub(crate) fn lend_held(
        &self,
        found: Received<HeldPacket<Dynamic>>,
        place: &Out<*mut Packet>,
    ) -> Result<Status, Failure> {
        give(found, place, "packet", |found| {
            let given = self.slots.as_ref().and_then(|slots| slots.give(|slots| Content::Held(found, slots)));
            given.expect("there is a handle for each packet that may be held")
        })
    }

    /// Lends the received window under the subscriber's own handle.
    ///
    /// # Safety
    /// The caller must follow the rules of [`Subscriber::lend_packet`].
    pub(crate) unsafe fn lend_window(
        &self,
        found: Received<Window<'_, Dynamic>>,
        place: &Out<*mut Packet>,
    ) -> Result<Status, Failure> {
        give(found, place, "window", |found| {
            // SAFETY: as for a packet.
            let found =
                unsafe { std::mem::transmute::<Window<'_, Dynamic>, Window<'static, Dynamic>>(found) };
            self.lend(Content::Window(found))
        })
    }

    #[cold]
    pub(crate) fn is_windowed() -> Failure {
        Failure::new(Status::Port, "the subscriber is windowed: use a function for windows")
    }

    #[cold]
    pub(crate) fn has_no_handler() -> Failure {
        Failure::new(
            Status::Port,
            "a subscriber with `hold` or `windowed` has no handler; make it without both",
        )
    }

    #[cold]
    pub(crate) fn is_not_windowed() -> Failure {
        Failure::new(Status::Port, "the subscriber receives packets: make it with `windowed` for windows")
    }

    /// Frees the subscriber after a call in which the program has freed it. A lent packet stays
    /// valid.
    ///
    /// # Safety
    /// The caller must not use the subscriber again.
    pub(crate) unsafe fn free_after_call(subscriber: *const Self) {
        // SAFETY: the call that has just ended kept the subscriber alive.
        let found = unsafe { &*subscriber };
        if found.is_lent() && !found.head.is_poisoned() {
            found.is_freed.set(true);
            return;
        }
        // SAFETY: the caller makes the same promise.
        unsafe { Self::free_at_end(subscriber) };
    }

    /// Stores the received content in the subscriber's own handle.
    #[inline(always)]
    fn lend(&self, content: Content) -> *mut Packet {
        // SAFETY: this is the subscriber's thread, and no packet is lent.
        unsafe { self.lent.fill(content) };
        ptr::from_ref(&self.lent).cast_mut()
    }
}

/// Writes the handle that `hand_out` makes for a received packet.
#[inline(always)]
fn give<P>(
    found: Received<P>,
    place: &Out<*mut Packet>,
    what: &'static str,
    hand_out: impl FnOnce(P) -> *mut Packet,
) -> Result<Status, Failure> {
    match found {
        Received::Packet(found) => place.put(what, hand_out(found)),
        Received::Empty => Ok(Status::Empty),
        Received::Ended => Ok(Status::Ended),
    }
}

impl Source {
    pub(crate) fn waker(&mut self) -> stripline::Result<RustWaker> {
        match self {
            Self::One(source) => source.waker(),
            Self::Holding(source) => source.waker(),
            Self::Windowed(source) => source.waker(),
        }
    }

    pub(crate) fn ready_descriptor(&mut self) -> stripline::Result<ReadyDescriptor> {
        match self {
            Self::One(source) => source.ready_descriptor(),
            Self::Holding(source) => source.ready_descriptor(),
            Self::Windowed(source) => source.ready_descriptor(),
        }
    }

    /// Checks the length of the window to wait for, which only a windowed subscriber has.
    pub(crate) fn check_window(&self, samples: usize) -> Result<(), Failure> {
        if samples != 0 && !matches!(self, Self::Windowed(_)) {
            return Err(Failure::argument("`samples` is of a windowed subscriber; pass 0"));
        }
        Ok(())
    }
}

impl Headed for Subscriber {
    const NAME: &'static str = "subscriber";

    #[inline(always)]
    fn head(&self) -> &Head {
        &self.head
    }
}

impl Handle<Subscriber> {
    /// Runs a call while no packet is lent.
    #[inline(always)]
    pub(crate) fn call(
        &self,
        call: impl FnOnce(&Subscriber, &mut Source) -> Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        self.enter(|found| {
            if found.is_lent() {
                return Err(found.still_lent());
            }
            // SAFETY: this call has entered the head, and no packet is lent.
            call(found, unsafe { found.source() })
        })
    }

    /// Receives the next packet of a steady stream, if it has arrived. Returns `None` if nothing
    /// was done.
    #[inline(always)]
    fn receive_fast(&self, timeout_ns: i64, place: &Out<*mut Packet>, error: ErrorOut) -> Option<Status> {
        let found = self.as_ref()?;
        if place.check("packet").is_err() || found.is_lent() {
            return None;
        }
        let mut failure = None;
        let receive = || {
            // SAFETY: the head is idle, and no packet is lent.
            let Source::One(source) = (unsafe { found.source() }) else { return false };
            match fast_path::receive(source, !(0..SPIN_NS).contains(&timeout_ns)) {
                // SAFETY: as above.
                Some(Ok(packet)) => unsafe { found.lend_packet(Received::Packet(packet), place) }.is_ok(),
                Some(Err(problem)) => {
                    failure = Some(Failure::from(problem));
                    true
                }
                None => false,
            }
        };
        let status = found.head.enter_fast(error, receive);
        match failure {
            None => status,
            Some(failure) => Some(error.report(failure)),
        }
    }
}

/// Receives the next packet. `timeout_ns` is the time to wait for it: 0 does not wait, and
/// `STRIPLINE_FOREVER` (or any negative number) waits without end.
///
/// Returns `STRIPLINE_OK` with a packet, `STRIPLINE_EMPTY` if no packet arrived in time, and
/// `STRIPLINE_ENDED` after every publisher has ended its stream. If a publisher dies, the
/// subscriber waits for another. Fails with `STRIPLINE_STOPPED` when the node is stopped, and with
/// `STRIPLINE_TOO_MANY_HELD` if no more packets may be held. Also fails with `STRIPLINE_EJECTED`
/// and `STRIPLINE_PEER_MISBEHAVED`. After `STRIPLINE_PEER_MISBEHAVED`, the program may continue to
/// receive.
///
/// - Ownership: the caller releases the packet.
/// - Blocking: up to the timeout.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_receive(
    subscriber: Handle<Subscriber>,
    timeout_ns: i64,
    packet: Out<*mut Packet>,
    error: ErrorOut,
) -> Status {
    match subscriber.receive_fast(timeout_ns, &packet, error) {
        Some(status) => status,
        None => receive_slow(subscriber, timeout_ns, packet, error),
    }
}

#[inline(never)]
fn receive_slow(
    subscriber: Handle<Subscriber>,
    timeout_ns: i64,
    packet: Out<*mut Packet>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|subscriber, source| {
        packet.check("packet")?;
        match source {
            // SAFETY: this call has entered the head, and no packet is lent.
            Source::One(source) => unsafe {
                subscriber.lend_packet(receive_one(source, timeout_ns)?, &packet)
            },
            Source::Holding(source) => subscriber.lend_held(receive_held(source, timeout_ns)?, &packet),
            Source::Windowed(_) => Err(Subscriber::is_windowed()),
        }
    }))
}

#[inline(always)]
fn receive_one(
    source: &mut RustSubscriber<Dynamic>,
    timeout_ns: i64,
) -> stripline::Result<Received<RustPacket<'_, Dynamic>>> {
    if timeout_ns < 0 {
        return Ok(source.receive()?.map_or(Received::Ended, Received::Packet));
    }
    if timeout_ns == 0 {
        return source.try_receive();
    }
    source.receive_timeout(Duration::from_nanos(timeout_ns.unsigned_abs()))
}

#[inline(always)]
fn receive_held(
    source: &mut Holding<Dynamic>,
    timeout_ns: i64,
) -> stripline::Result<Received<HeldPacket<Dynamic>>> {
    match timeout(timeout_ns) {
        None => Ok(source.receive()?.map_or(Received::Ended, Received::Packet)),
        Some(Duration::ZERO) => source.try_receive(),
        Some(time) => source.receive_timeout(time),
    }
}

/// Receives the next `length` samples, rows or frames of a windowed subscriber as a packet, across
/// packet boundaries. A window has fewer samples before a gap, a new stream and the end of the
/// stream, and where it begins within a row or frame.
///
/// Returns and fails like `stripline_subscriber_receive`.
///
/// - Ownership: the caller releases the packet, or consumes a part of it
///   (`stripline_packet_consume`).
/// - Blocking: up to the timeout.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_window(
    subscriber: Handle<Subscriber>,
    length: usize,
    timeout_ns: i64,
    window: Out<*mut Packet>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|subscriber, source| {
        window.check("window")?;
        let Source::Windowed(source) = source else { return Err(Subscriber::is_not_windowed()) };
        let found = match timeout(timeout_ns) {
            None => source.window(length)?.map_or(Received::Ended, Received::Packet),
            Some(Duration::ZERO) => source.try_window(length)?,
            Some(time) => source.window_timeout(length, time)?,
        };
        // SAFETY: this call has entered the head, and no packet is lent.
        unsafe { subscriber.lend_window(found, &window) }
    }))
}

/// Makes a waker, which ends waits of the subscriber, also in `stripline_serve` and
/// `stripline_wait_any`. Packets stay in their queue.
///
/// Fails with `STRIPLINE_SYSTEM` if the process has no descriptor left.
///
/// - Ownership: the caller frees the waker, before or after the subscriber.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_waker(
    subscriber: Handle<Subscriber>,
    waker: Out<*mut Waker>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|_, source| waker.waker(|| source.waker())))
}

/// Gets the number of publishers that are connected now.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_senders(
    subscriber: Handle<Subscriber>,
    senders: Out<usize>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|_, source| {
        let count = match source {
            Source::One(source) => source.senders(),
            Source::Holding(source) => source.senders(),
            Source::Windowed(_) => {
                return Err(Failure::new(Status::Port, "a windowed subscriber does not count its senders"));
            }
        };
        senders.put("senders", count)
    }))
}

/// Gets, after the end of stream, the numbers of packets and samples that were missing at the very
/// end. Both are 0 if nothing was missing, and for a second call.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_gap_at_end(
    subscriber: Handle<Subscriber>,
    packets: Out<u64>,
    samples: Out<u64>,
    error: ErrorOut,
) -> Status {
    error.finish(subscriber.call(|_, source| {
        packets.check("packets")?;
        samples.check("samples")?;
        let gap = match source {
            Source::One(source) => source.gap_at_end(),
            Source::Holding(source) => source.gap_at_end(),
            Source::Windowed(source) => source.gap_at_end(),
        };
        let (_, _, gap_packets, gap_samples) = gap_numbers(gap.as_ref());
        packets.put("packets", gap_packets)?;
        samples.put("samples", gap_samples)
    }))
}

/// Frees a subscriber, which closes the connections; NULL is allowed.
///
/// Held packets stay valid until they are released. So does a lent packet: then the connections
/// stay open until the release. If a handler of the subscriber frees it, it is freed when the call
/// that runs the handler returns.
///
/// - Ownership: ends with this call. A second call with the same subscriber is undefined.
/// - Blocking: never.
/// - Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_subscriber_free(subscriber: Handle<Subscriber>) {
    let Some(found) = subscriber.as_ref() else { return };
    found.member.end();
    if !found.head.begin_free() {
        return;
    }
    if found.is_lent() && !found.head.is_poisoned() {
        found.is_freed.set(true);
        return;
    }
    drop_quietly(subscriber.into_box());
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            taken.remove_subscriber(self);
        }
        // SAFETY: nothing else uses the subscriber.
        let lent = unsafe { self.lent.take() };
        // A packet refers to the source. After a panic, it is not given back.
        if self.head.is_poisoned() {
            std::mem::forget(lent);
        }
    }
}
