//! Packets, and the data that comes with their samples.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_void};
use std::ptr::null;
use std::sync::Arc;

use stripline::internal::fast_path;
use stripline::node::{HeldPacket, Packet as RustPacket, PacketView, Window};
use stripline::payload::Dynamic;
use stripline::{Gap, GapReason as RustReason, StreamInfo};

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::{Failure, missing};
use crate::handle::Headed;
use crate::sized;
use crate::status::Status;
use crate::stream::{self, AxisView, StreamView};
use crate::subscriber::{Slots, Subscriber};
use crate::text::Text;

/// The cause of a gap.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// There is no gap.
    None = 0,
    /// The receiver was slow, and its policy drops packets.
    Overflow = 1,
    /// The sender or the receiver was restarted.
    PeerRestart = 2,
    /// The transport lost packets.
    Transport = 3,
    /// Packets did not arrive within the time that a resequencing port waits.
    Late = 4,
}

/// The place of a packet in the stream, and the gap before it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PacketInfo {
    /// `sizeof(stripline_packet_info)`, set by the caller.
    pub size: usize,
    /// The number of the packet among all packets of the sender, from 0.
    pub sequence: u64,
    /// The number of the first sample within the stream.
    pub sample_index: u64,
    /// The time when the first sample was taken, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// The time when the packet should have been sent, in monotonic nanoseconds of the host; 0: the
    /// sender has no schedule.
    pub intended_ns: u64,
    /// The time when the packet was sent, in monotonic nanoseconds of the host; 0: not measured.
    pub sent_ns: u64,
    /// The cause of the gap just before the packet: a `stripline_gap_reason`, 0 if nothing is
    /// missing.
    pub gap_reason: u32,
    /// The number of the first missing packet.
    pub gap_first: u64,
    /// The number of missing packets; 0 after a restart, because the number is unknown then.
    pub gap_packets: u64,
    /// The number of missing samples; 0 if it is unknown. A message counts as one sample.
    pub gap_samples: u64,
    /// 0: a window that has fewer samples than requested, because a boundary follows, or a window
    /// that begins within a row or frame. Otherwise 1.
    pub is_whole: u32,
}

sized::sized!(
    PacketInfo, "stripline_packet_info",
    size: usize, sequence: u64, sample_index: u64, time_ns: i64, intended_ns: u64, sent_ns: u64,
    gap_reason: u32, gap_first: u64, gap_packets: u64, gap_samples: u64, is_whole: u32,
);

/// Received samples, in place, until the packet is released.
///
/// A held packet (`hold`) may be used and released on any thread, and several threads may read it
/// at once. Any other packet belongs to the thread of its subscriber. All packets may be released
/// after their subscriber was freed. A packet that is not held keeps the subscriber's connections
/// until then.
pub struct Packet {
    /// The first sample, for any kind of content; NULL without content.
    samples: Cell<*const c_void>,
    content: UnsafeCell<Content>,
    /// The subscriber that lends the packet.
    pub(crate) owner: *const Subscriber,
}

/// The packet behind a handle, of any kind. The kind is stored in a byte of its own, which costs
/// less to read than a niche in a member.
#[repr(u8)]
pub(crate) enum Content {
    /// A packet that was released, or none yet.
    Free,
    /// The one packet that a subscriber lends.
    Lent(RustPacket<'static, Dynamic>),
    /// One of several held packets, with the handles of all of them.
    Held(HeldPacket<Dynamic>, Arc<Slots>),
    /// The packet of a handler, which ends when the handler returns.
    View(PacketView<'static, Dynamic>),
    /// Samples across packet boundaries.
    Window(Window<'static, Dynamic>),
}

/// Evaluates an expression with the packet, of any kind, or the alternative without one.
macro_rules! with {
    ($content:expr, $packet:ident => $value:expr, $otherwise:expr) => {
        match $content {
            Content::Free => $otherwise,
            Content::Lent($packet) => $value,
            Content::Held($packet, _) => $value,
            Content::View($packet) => $value,
            Content::Window($packet) => $value,
        }
    };
}

impl Packet {
    pub(crate) fn new(content: Content, owner: *const Subscriber) -> Self {
        Self { samples: Cell::new(content.samples()), content: UnsafeCell::new(content), owner }
    }

    /// Returns whether the handle has no content.
    ///
    /// # Safety
    /// The caller must be on the thread that owns this packet. Only that thread may change the
    /// content.
    #[inline(always)]
    pub(crate) unsafe fn is_free(&self) -> bool {
        // SAFETY: the caller makes the same promise.
        matches!(unsafe { &*self.content.get() }, Content::Free)
    }

    /// Puts content into the empty handle.
    ///
    /// # Safety
    /// The caller must be on the thread that owns this packet. The handle must be free, and nothing
    /// may refer to the content.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, content: Content) {
        self.samples.set(content.samples());
        // SAFETY: the caller promises that the handle is free, so there is nothing to drop.
        unsafe { self.content.get().write(content) };
    }

    /// Takes the content out of the handle, for a call that ends it.
    ///
    /// # Safety
    /// The caller must be on the thread that owns this packet, and nothing may refer to the
    /// content.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> Content {
        self.samples.set(null());
        // SAFETY: the caller makes the same promise.
        std::mem::replace(unsafe { &mut *self.content.get() }, Content::Free)
    }

    /// Returns the content, for reading.
    #[inline(always)]
    pub(crate) fn content(&self) -> Result<&Content, Failure> {
        // SAFETY: only a release changes the content, and not during another call.
        match unsafe { &*self.content.get() } {
            Content::Free => Err(Self::released()),
            content => Ok(content),
        }
    }

    /// Returns the description of the packet's stream.
    fn stream(&self) -> Result<&Arc<StreamInfo>, Failure> {
        with!(self.content()?, packet => Ok(packet.stream()), Err(Self::released()))
    }

    #[cold]
    pub(crate) fn released() -> Failure {
        Failure::new(Status::Port, "the packet has been released; receive the next one")
    }
}

/// Returns the gap as numbers: reason, first, packets and samples.
pub(crate) fn gap_numbers(gap: Option<&Gap>) -> (u32, u64, u64, u64) {
    let Some(gap) = gap else { return (GapReason::None as u32, 0, 0, 0) };
    let reason = match gap.reason {
        RustReason::Overflow => GapReason::Overflow,
        RustReason::PeerRestart => GapReason::PeerRestart,
        RustReason::Transport => GapReason::Transport,
        RustReason::Late => GapReason::Late,
    };
    (reason as u32, gap.first, gap.packets, gap.samples)
}

impl Content {
    #[inline(always)]
    fn samples(&self) -> *const c_void {
        with!(self, packet => packet.as_ptr().cast(), null())
    }

    fn info(&self) -> PacketInfo {
        let (gap_reason, gap_first, gap_packets, gap_samples) =
            gap_numbers(with!(self, packet => packet.gap(), None));
        let intended_ns = match self {
            Self::Lent(packet) => packet.intended_ns(),
            Self::Held(packet, _) => packet.intended_ns(),
            Self::View(packet) => packet.intended_ns(),
            Self::Free | Self::Window(_) => None,
        };
        let sent_ns = if let Self::Lent(packet) = self { packet.sent_ns() } else { None };
        PacketInfo {
            size: 0,
            is_whole: u32::from(if let Self::Window(window) = self { window.is_whole() } else { true }),
            sequence: with!(self, packet => packet.sequence(), 0),
            sample_index: with!(self, packet => packet.sample_index(), 0),
            time_ns: with!(self, packet => packet.time_ns(), 0),
            intended_ns: intended_ns.unwrap_or(0),
            sent_ns: sent_ns.unwrap_or(0),
            gap_reason,
            gap_first,
            gap_packets,
            gap_samples,
        }
    }

    /// Gives the packet back with a refusal. A window cannot be refused, because it spans several
    /// packets.
    fn refuse(self, reason: &str) {
        match self {
            Self::Lent(packet) => packet.refuse(reason),
            Self::Held(packet, _) => packet.refuse(reason),
            content => drop(content),
        }
    }
}

/// Returns the samples of a packet, aligned for their type. The result is NULL for a packet that is
/// NULL or released. For a packet without samples, it is not NULL.
///
/// - Ownership: the samples are read only, and valid until the packet is released.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_samples(packet: Ref<Packet>) -> *const c_void {
    packet.as_ref().map_or(null(), |packet| packet.samples.get())
}

/// Returns the number of samples of a packet; 0 for a packet that is NULL or released.
///
/// - Ownership: the caller keeps the packet.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_length(packet: Ref<Packet>) -> usize {
    let Some(packet) = packet.as_ref() else { return 0 };
    // SAFETY: only a release changes the content.
    match unsafe { &*packet.content.get() } {
        // Check for a lent packet first, because most packets are lent.
        Content::Lent(packet) => packet.samples(),
        content => with!(content, packet => packet.samples(), 0),
    }
}

/// Gets the numbers of a packet, and the gap before it.
///
/// Fails with `STRIPLINE_PORT` for a packet that was released.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_get_info(
    packet: Ref<Packet>,
    info: Out<PacketInfo>,
    error: ErrorOut,
) -> Status {
    error.guard(|| info.write(&packet.get("packet")?.content()?.info()))
}

/// Gets the description of a packet's stream.
///
/// Fails with `STRIPLINE_PORT` for a packet that was released.
///
/// - Ownership: the text is valid until the packet is released.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_get_stream(
    packet: Ref<Packet>,
    stream: Out<StreamView>,
    error: ErrorOut,
) -> Status {
    error.guard(|| stream.write(&stream::view(packet.get("packet")?.stream()?)))
}

/// Gets an axis of a packet's stream: 0 is the axis along a row, 1 from row to row, and 2 from
/// frame to frame. `axis_count` of `stripline_stream_view` has the number of axes.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an axis that the stream does not have, and with
/// `STRIPLINE_PORT` for a packet that was released.
///
/// - Ownership: the text is valid until the packet is released.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_get_axis(
    packet: Ref<Packet>,
    index: usize,
    axis: Out<AxisView>,
    error: ErrorOut,
) -> Status {
    error.guard(|| axis.write(&stream::axis_view(packet.get("packet")?.stream()?, index)?))
}

/// Writes the whole description of a packet's stream as JSON, with a NUL at the end. The
/// description includes the axes, channels and keywords (`docs/wire.md`). `length` is set to the
/// number of bytes without the NUL, even if they do not fit. To get only the length, pass NULL as
/// `buffer` and 0 as `capacity`.
///
/// Fails with `STRIPLINE_TOO_LARGE` if `capacity` is not above the length, and with
/// `STRIPLINE_PORT` for a packet that was released.
///
/// - Ownership: nothing is kept.
/// - Blocking: never. The call allocates.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_get_stream_json(
    packet: Ref<Packet>,
    buffer: Out<c_char>,
    capacity: usize,
    length: Out<usize>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let json = serde_json::to_string(&**packet.get("packet")?.stream()?)
            .map_err(|error| Failure::argument(error.to_string()))?;
        length.put("length", json.len())?;
        if json.len() >= capacity {
            let need = json.len() + 1;
            return Err(Failure::new(
                Status::TooLarge,
                format!("the description has {need} bytes with NUL, and `capacity` is {capacity}"),
            ));
        }
        buffer.check("buffer")?;
        // SAFETY: the caller's buffer has `capacity` bytes, which is more than the length of the
        // text.
        unsafe {
            buffer.pointer().copy_from_nonoverlapping(json.as_ptr().cast(), json.len());
            buffer.pointer().add(json.len()).write(0);
        }
        Ok(Status::Ok)
    })
}

/// Returns the connection that a packet arrived on, as `from -> to`. The text is empty for a packet
/// that is NULL or released.
///
/// - Ownership: the text is valid until the packet is released.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_connection(packet: Ref<Packet>) -> Text {
    match packet.as_ref().map(Packet::content) {
        Some(Ok(content)) => with!(content, packet => Text::of(packet.connection()), Text::of("")),
        _ => Text::of(""),
    }
}

/// Releases a packet: the memory goes back to the transport, and a sender that waits for it
/// continues. NULL is allowed.
///
/// A second release is refused with `STRIPLINE_PORT`, and is harmless until the next packet is
/// received or the subscriber is freed. The packet of a handler ends when the handler returns. To
/// release it here is refused.
///
/// - Ownership: ends with this call, also for the samples.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_release(packet: Handle<Packet>, error: ErrorOut) -> Status {
    let Some(found) = packet.as_ref() else { return Status::Ok };
    match release_fast(found, error) {
        Some(status) => status,
        None => release_slow(packet, error),
    }
}

/// Refuses a packet with a reason of at most 256 bytes, and releases it. A sender that waits for it
/// (scope `target`) fails with `STRIPLINE_PACKET_REFUSED`.
///
/// In a handler, the packet stays until the handler returns.
///
/// - Ownership: ends with this call, except in a handler. `reason` is not kept.
/// - Blocking: never.
/// - Threads: the thread of the subscriber; for a held packet any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_refuse(packet: Handle<Packet>, reason: Str, error: ErrorOut) -> Status {
    let reason = match reason.required("reason") {
        Ok(reason) => reason,
        Err(failure) => return error.report(failure),
    };
    if let Some(Ok(Content::View(view))) = packet.as_ref().map(Packet::content) {
        return error.guard(|| {
            view.refuse(reason);
            Ok(Status::Ok)
        });
    }
    release(packet, error, |content| content.refuse(reason))
}

/// Releases a window, but consumes only the first `samples` samples: the next window begins after
/// them. A number smaller than the length of the window makes windows that overlap. At least one
/// sample is consumed.
///
/// Fails with `STRIPLINE_PORT` for a packet that is not a window. Such a packet is not released.
///
/// - Ownership: ends with this call, also for the samples.
/// - Blocking: never.
/// - Threads: the thread of the subscriber.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_packet_consume(
    packet: Handle<Packet>,
    samples: usize,
    error: ErrorOut,
) -> Status {
    match packet.get("packet").and_then(Packet::content) {
        Ok(Content::Window(_)) => {}
        Ok(_) => return error.report(Failure::new(Status::Port, "the packet is not a window; release it")),
        Err(failure) => return error.report(failure),
    }
    release(packet, error, |content| {
        if let Content::Window(window) = content {
            window.consume(samples);
        }
    })
}

/// Releases a packet that its subscriber lends. Returns `None` if nothing was done.
#[inline(always)]
fn release_fast(handle: &Packet, error: ErrorOut) -> Option<Status> {
    // SAFETY: only this thread uses the content, as the header requires.
    let content = unsafe { &mut *handle.content.get() };
    let Content::Lent(lent) = content else { return None };
    // SAFETY: the handle of a lent packet is part of the subscriber.
    let owner = unsafe { &*handle.owner };
    if owner.is_freed() {
        return None;
    }
    let give_back = || {
        // SAFETY: the content is replaced at once, and not dropped.
        let lent = unsafe { std::ptr::read(lent) };
        handle.samples.set(null());
        // SAFETY: as above.
        unsafe { handle.content.get().write(Content::Free) };
        fast_path::release(lent);
        true
    };
    owner.head().enter_fast(error, give_back)
}

#[inline(never)]
fn release_slow(packet: Handle<Packet>, error: ErrorOut) -> Status {
    release(packet, error, drop)
}

/// Takes the packet out of the handle, and gives it back.
#[inline(always)]
fn release(packet: Handle<Packet>, error: ErrorOut, finish: impl FnOnce(Content)) -> Status {
    let Some(handle) = packet.as_ref() else { return error.report(missing("packet")) };
    // SAFETY: only this thread uses the content, as the header requires.
    match unsafe { &*handle.content.get() } {
        Content::Lent(_) | Content::Window(_) => {
            let place = handle.owner;
            // SAFETY: the handle of a lent packet is part of the subscriber.
            let owner = unsafe { &*place };
            let released = owner.head().enter(|| {
                // SAFETY: this is the subscriber's thread, and the call has entered the head.
                finish(unsafe { handle.take() });
                Ok(Status::Ok)
            });
            // SAFETY: the handle is not used again.
            unsafe { Subscriber::end_if_freed(place) };
            error.finish(released)
        }
        Content::Held(..) => {
            // SAFETY: only this thread uses the content, as the header requires.
            let taken = unsafe { handle.take() };
            let Content::Held(_, slots) = &taken else { unreachable!("matched above") };
            let slots = Arc::clone(slots);
            // SAFETY: the handle is one of these slots, and is not used again.
            unsafe { slots.free(packet.pointer()) };
            error.guard(|| {
                finish(taken);
                Ok(Status::Ok)
            })
        }
        Content::Free => error.report(Packet::released()),
        Content::View(_) => {
            let text = "the packet of a handler ends when the handler returns; do not release it";
            error.report(Failure::new(Status::Port, text))
        }
    }
}
