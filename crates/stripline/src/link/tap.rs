//! A tap: copies of a sending port's packets, for receivers that the port never waits for.
//!
//! A tap is a separate ring beside the port's outlets. Thus no rule of the port's connections
//! applies to the readers of a tap: no scope, no count of receivers, no room, no end. The price is
//! a copy of each packet while a reader is attached:
//! docs/decisions/0024-inspection-costs-the-inspector.md.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::fragmentation::fragments;
use super::move_slot::{PortAttention, PortEnd};
use crate::error::{Error, Result};
use crate::packet::payload::TypeName;
use crate::packet::{HEADER_BYTES, Header, Kind, StreamInfo};
use crate::sys::mutex::lock;
use crate::terms::{LinkOptions, SenderOptions, WaitStrategy};
use crate::transport::{self, AnyOutlet, BindRequest, Endpoint, NextPacket, StopToken, Wait};

/// The time within which a tap must get its first reader.
const FIRST_READER_TIME: Duration = Duration::from_secs(5);
/// The smallest ring of a tap, in bytes.
const BUFFER_MIN: u32 = 8 << 20;
/// Packets between repeated stream descriptions, because readers may lose a description.
const DESCRIBE_EVERY: u64 = 1024;

/// The place where another thread leaves a tap for the port's own thread.
pub(crate) struct TapSlot {
    port: String,
    buffer: u32,
    stop: StopToken,
    pending: AtomicBool,
    state: Mutex<SlotState>,
    /// The port must leave the fast path to find the tap.
    attention: Arc<PortAttention>,
}

#[derive(Default)]
struct SlotState {
    added: Option<Box<Tap>>,
    open: Option<(Endpoint, Weak<()>)>,
    closed: Option<PortEnd>,
}

impl TapSlot {
    pub(super) fn new(port: &str, buffer: u32, stop: StopToken, attention: Arc<PortAttention>) -> Self {
        let (port, buffer) = (port.into(), buffer.max(BUFFER_MIN));
        Self { port, buffer, stop, pending: AtomicBool::new(false), state: Mutex::default(), attention }
    }

    /// Opens a tap for receivers of that type, or returns the endpoint of the open tap.
    ///
    /// # Errors
    /// The system lacks memory, descriptors or threads.
    pub(crate) fn open(&self, payload: &TypeName) -> Result<std::result::Result<Endpoint, PortEnd>> {
        let mut state = lock(&self.state);
        if let Some(refusal) = state.closed {
            return Ok(Err(refusal));
        }
        if let Some((endpoint, alive)) = &state.open
            && alive.strong_count() > 0
        {
            return Ok(Ok(endpoint.clone()));
        }
        let wait = WaitStrategy::Block;
        let options = LinkOptions { buffer: self.buffer, wait, ..LinkOptions::default() };
        let outlet = transport::find("shm")?.bind(BindRequest {
            port: self.port.clone(),
            payload: payload.clone(),
            options: SenderOptions::from(&options),
            stop: self.stop.clone(),
            former_paths: Arc::default(),
        })?;
        let alive = Arc::new(());
        let traits = outlet.traits();
        state.open = Some((traits.endpoint.clone(), Arc::downgrade(&alive)));
        state.added = Some(Box::new(Tap {
            outlet,
            payload_max: traits.frame_max.saturating_sub(HEADER_BYTES),
            described: None,
            undescribed: 0,
            staged: Staged::Nothing,
            large: Vec::new(),
            first_reader_by: Some(Instant::now() + FIRST_READER_TIME),
            _alive: alive,
        }));
        // Relaxed: the lock orders the rest, and the flags of the outlets are stored afterwards.
        self.pending.store(true, Ordering::Relaxed);
        drop(state);
        self.attention.request();
        Ok(Ok(traits.endpoint))
    }

    /// Takes the tap that was opened since the last call.
    fn take(&self) -> Option<Box<Tap>> {
        // Relaxed: the lock orders the rest. After an old value, the read is repeated at the next
        // packet.
        if !self.pending.load(Ordering::Relaxed) {
            return None;
        }
        self.pending.store(false, Ordering::Relaxed);
        lock(&self.state).added.take()
    }

    /// Opens no further tap.
    fn close(&self, refusal: PortEnd) {
        let added = {
            let mut state = lock(&self.state);
            state.closed.get_or_insert(refusal);
            state.added.take()
        };
        drop(added);
    }
}

/// A port's side of the slot, and the port's tap.
#[derive(Default)]
pub(super) struct PortTaps {
    slot: Option<Arc<TapSlot>>,
    tap: Option<Box<Tap>>,
}

impl PortTaps {
    /// Keeps the slot, and returns it for other threads.
    pub(super) fn allow(&mut self, slot: TapSlot) -> Arc<TapSlot> {
        Arc::clone(self.slot.insert(Arc::new(slot)))
    }

    pub(super) fn is_tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// Takes a tap that was opened, and closes a tap that has lost its last reader. Returns whether
    /// the port has a tap.
    pub(super) fn admit(&mut self, next: NextPacket) -> bool {
        if let Some(opened) = self.slot.as_ref().and_then(|slot| slot.take()) {
            self.tap = Some(opened);
        }
        if self.tap.as_mut().is_some_and(|tap| !tap.admit(next)) {
            self.tap = None;
        }
        self.tap.is_some()
    }

    /// Copies a packet. Readers get it with [`PortTaps::commit`].
    pub(super) fn stage(&mut self, header: &Header, payload: &[u8], info: &StreamInfo) {
        if let Some(tap) = &mut self.tap {
            tap.stage(header, payload, info);
        }
    }

    /// Publishes the packet staged last, because the port has sent it.
    pub(super) fn commit(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.commit();
        }
    }

    /// Sends the end of stream. No tap is opened afterwards.
    pub(super) fn end(&mut self, header: &Header) {
        if let Some(tap) = &mut self.tap {
            tap.end(header);
        }
        if let Some(slot) = &self.slot {
            slot.close(PortEnd::Ended);
        }
    }
}

impl Drop for PortTaps {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.close(PortEnd::Gone);
        }
    }
}

/// The ring of a tap. The ring never waits, and its errors never reach the port.
struct Tap {
    outlet: AnyOutlet,
    /// The largest payload of one frame.
    payload_max: usize,
    /// The stream described last.
    described: Option<u16>,
    /// Bytes of packets since the last description.
    undescribed: usize,
    staged: Staged,
    /// A packet larger than a frame, until it is committed.
    large: Vec<u8>,
    /// The time when the tap is closed unless a reader has attached; `None` once a reader has
    /// attached.
    first_reader_by: Option<Instant>,
    /// Observed by the slot, which opens another tap once this one is gone.
    _alive: Arc<()>,
}

/// A packet that was copied and is not published yet.
#[derive(Clone, Copy)]
enum Staged {
    Nothing,
    Frame(usize),
    Large(Header),
}

impl Tap {
    /// Attaches and detaches readers; false: no reader is left, and the tap is over.
    fn admit(&mut self, next: NextPacket) -> bool {
        if self.outlet.admit(next).is_new {
            self.described = None;
        }
        if self.outlet.receivers(true) > 0 {
            self.first_reader_by = None;
            return true;
        }
        self.first_reader_by.is_some_and(|by| Instant::now() < by)
    }

    /// Copies a packet. The readers of the tap get it with [`Tap::commit`]. If the ring has no
    /// room, which only a reader that breaks the rules can cause, the readers lose the packet.
    fn stage(&mut self, header: &Header, payload: &[u8], info: &StreamInfo) {
        // Readers of a tap send no acknowledgements.
        let flags = header.flags & !(Header::SERVER | Header::TARGET);
        let header = Header { flags, ..*header };
        self.staged = Staged::Nothing;
        if self.outlet.receivers(false) == 0 || self.describe(&header, info).is_err() {
            return;
        }
        if payload.len() > self.payload_max {
            self.large.clear();
            self.large.extend_from_slice(payload);
            self.staged = Staged::Large(header);
        } else if self.write(&header, payload.len(), |place| place.copy_from_slice(payload)).is_ok() {
            self.staged = Staged::Frame(HEADER_BYTES + payload.len());
        }
    }

    /// Publishes the packet staged last, because the port has sent it.
    fn commit(&mut self) {
        match std::mem::replace(&mut self.staged, Staged::Nothing) {
            Staged::Nothing => {}
            Staged::Frame(bytes) => {
                self.undescribed = self.undescribed.saturating_add(bytes);
                let _ = self.outlet.publish(bytes, Wait::Never);
            }
            Staged::Large(header) => {
                let large = std::mem::take(&mut self.large);
                self.undescribed = usize::MAX;
                // After an error, the readers report the packet as missing.
                let _ = self.send_fragments(&header, &large);
                self.large = large;
            }
        }
    }

    /// Sends the end of stream.
    fn end(&mut self, header: &Header) {
        let written = self.write(header, 0, |_| ());
        if written.is_ok() {
            let _ = self.outlet.publish(HEADER_BYTES, Wait::Never);
        }
    }

    fn send_fragments(&mut self, header: &Header, payload: &[u8]) -> Result<()> {
        for fragment in fragments(payload.len(), self.payload_max) {
            let mut header =
                Header { length: fragment.bytes as u32, flags: header.flags | fragment.flags, ..*header };
            if header.is_continued() {
                header.sample_index = fragment.offset as u64;
            }
            let bytes = &payload[fragment.offset..][..fragment.bytes];
            self.write(&header, bytes.len(), |place| place.copy_from_slice(bytes))?;
            self.outlet.publish(HEADER_BYTES + bytes.len(), Wait::Never)?;
        }
        Ok(())
    }

    /// Describes the stream of the next packet, if a reader may not have the description.
    fn describe(&mut self, header: &Header, info: &StreamInfo) -> Result<()> {
        let is_known = self.described == Some(header.stream)
            && !header.sequence.is_multiple_of(DESCRIBE_EVERY)
            && self.undescribed <= self.payload_max / 2;
        if is_known {
            return Ok(());
        }
        let text = serde_json::to_vec(info).map_err(|e| Error::InvalidArgument(e.to_string()))?;
        let header = Header {
            time_ns: 0,
            intended_ns: 0,
            sent_ns: 0,
            length: text.len() as u32,
            kind: Kind::Stream as u8,
            flags: 0,
            ..*header
        };
        self.write(&header, text.len(), |place| place.copy_from_slice(&text))?;
        self.outlet.publish(HEADER_BYTES + text.len(), Wait::Never)?;
        (self.described, self.undescribed) = (Some(header.stream), 0);
        Ok(())
    }

    /// Writes a frame, which is published later.
    fn write(&mut self, header: &Header, payload: usize, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let frame = self.outlet.reserve(HEADER_BYTES + payload, Wait::Never)?;
        header.write(frame);
        fill(&mut frame[HEADER_BYTES..][..payload]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        ConnectionOptions, EndsWhen, Incoming, Outgoing, Polled, PortBuilder, PortEvent, PortEvents,
        Sampling, policy,
    };
    use super::*;
    use crate::terms::{Overflow, Scope};
    use crate::transport::ConnectRequest;

    /// Returns a port over these transports, with their endpoints.
    fn port(transports: &[&str], options: SenderOptions) -> (Outgoing, Vec<Endpoint>) {
        let mut builder = PortBuilder::new("a.out", options, &StopToken::new().unwrap());
        let bound = transports.iter().map(|name| builder.bind(name, &TypeName::of::<u8>(), options).unwrap());
        let endpoints = bound.collect();
        (builder.build(Sampling::Off), endpoints)
    }

    /// Returns a port that receives from that endpoint.
    fn receiver(endpoint: &Endpoint, options: LinkOptions) -> Incoming {
        let (connection, payload) = ("a.out -> b.in".to_string(), TypeName::of::<u8>());
        let request = ConnectRequest::new(connection.clone(), payload, options);
        let inlet = policy::connect(endpoint, &request).unwrap();
        let events = Arc::new(PortEvents::new().unwrap());
        events.push(PortEvent::Connected(connection, inlet));
        let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&options));
        let mut incoming =
            Incoming::new("b.in".into(), events, options_for, StopToken::new().unwrap(), false, Some(1));
        incoming.set_ends(EndsWhen::WithSender);
        incoming
    }

    fn onlooker(endpoint: &Endpoint, depth: u32) -> Incoming {
        receiver(endpoint, LinkOptions { overflow: Overflow::DropOldest, depth, ..LinkOptions::default() })
    }

    fn send(port: &mut Outgoing, bytes: &[u8]) {
        let wait = Wait::within(Duration::from_secs(20));
        port.send_bytes(bytes.len(), wait, |place| place.copy_from_slice(bytes)).unwrap();
    }

    /// Receives the next packet. Returns the number, the bytes, and the number of packets missing
    /// before.
    fn next(incoming: &mut Incoming) -> Option<(u64, Vec<u8>, u64)> {
        match incoming.receive(|| Wait::within(Duration::from_secs(20))).unwrap() {
            Polled::Packet => {
                let taken = incoming.taken();
                let missing = taken.gap.map_or(0, |gap| gap.packets);
                // SAFETY: the packet was taken, and is released below.
                let bytes = unsafe { taken.payload.get::<u8>() }.to_vec();
                let found = (taken.header.sequence, bytes, missing);
                incoming.release();
                Some(found)
            }
            Polled::Ended => None,
            Polled::Empty => panic!("no packet within the time"),
        }
    }

    #[test]
    fn a_tap_gets_what_is_sent_from_then_on_over_every_transport() {
        for transports in [&["inproc"][..], &["shm"], &["uds"], &["tcp"], &["shm", "uds"], &[]] {
            let options = SenderOptions::from(&LinkOptions::default());
            let (mut port, endpoints) = port(transports, options);
            let slot = port.tap_slot(0);
            let mut receivers: Vec<Incoming> =
                endpoints.iter().map(|endpoint| receiver(endpoint, LinkOptions::default())).collect();
            (0..3).for_each(|number| send(&mut port, &[number]));
            let endpoint = slot.open(&TypeName::of::<u8>()).unwrap().unwrap();
            assert_eq!(slot.open(&TypeName::of::<u8>()).unwrap(), Ok(endpoint.clone()), "the same one");
            let mut tap = onlooker(&endpoint, 64);
            (3..6).for_each(|number| send(&mut port, &[number]));
            assert_eq!(port.receivers(), transports.len(), "{transports:?}");
            port.finish(Wait::within(Duration::from_secs(20))).unwrap();
            assert_eq!(slot.open(&TypeName::of::<u8>()).unwrap(), Err(PortEnd::Ended));
            for number in 3..6 {
                assert_eq!(next(&mut tap), Some((u64::from(number), vec![number], 0)), "{transports:?}");
            }
            assert_eq!(next(&mut tap), None);
            for receiver in &mut receivers {
                let all: Vec<u8> =
                    std::iter::from_fn(|| next(receiver)).map(|(_, bytes, _)| bytes[0]).collect();
                assert_eq!(all, [0, 1, 2, 3, 4, 5], "{transports:?}");
            }
        }
    }

    #[test]
    fn a_tap_that_takes_nothing_holds_up_no_packet_and_counts_for_no_scope() {
        let options = SenderOptions { scope: Scope::Target, ..SenderOptions::from(&LinkOptions::default()) };
        let (mut port, _endpoints) = port(&["shm"], options);
        let slot = port.tap_slot(0);
        let endpoint = slot.open(&TypeName::of::<u8>()).unwrap().unwrap();
        let mut tap = onlooker(&endpoint, 2);
        // The packets fill the tap's ring several times. A port that waited for the tap's reader
        // would hold up the first packet for an acknowledgement, or a later one for room.
        let packet = vec![7; 1 << 20];
        (0..40).for_each(|_| send(&mut port, &packet));
        port.finish(Wait::within(Duration::from_secs(20))).unwrap();
        let (mut taken, mut missing) = (0, 0);
        while let Some((sequence, bytes, gap)) = next(&mut tap) {
            (taken, missing) = (taken + 1, missing + gap);
            assert_eq!((sequence + 1, bytes.len()), (taken + missing, 1 << 20));
        }
        missing += tap.gap_at_end().map_or(0, |gap| gap.packets);
        assert_eq!(taken + missing, 40);
        assert!(missing > 0);
    }

    #[test]
    fn a_packet_larger_than_a_frame_arrives_whole() {
        let (mut port, _endpoints) = port(&["shm"], SenderOptions::from(&LinkOptions::default()));
        let slot = port.tap_slot(0);
        let mut tap = onlooker(&slot.open(&TypeName::of::<u8>()).unwrap().unwrap(), 64);
        let large: Vec<u8> = (0..6 << 20).map(|index: u32| index as u8).collect();
        send(&mut port, &[1]);
        send(&mut port, &large);
        assert_eq!(next(&mut tap), Some((0, vec![1], 0)));
        assert_eq!(
            next(&mut tap).map(|(sequence, bytes, gap)| (sequence, bytes == large, gap)),
            Some((1, true, 0))
        );
    }

    #[test]
    fn the_port_is_as_before_once_its_taps_are_gone() {
        let (mut port, endpoints) = port(&["shm"], SenderOptions::from(&LinkOptions::default()));
        let slot = port.tap_slot(0);
        let mut receiver = receiver(&endpoints[0], LinkOptions::default());
        let endpoint = slot.open(&TypeName::of::<u8>()).unwrap().unwrap();
        let mut tap = onlooker(&endpoint, 64);
        send(&mut port, &[0]);
        assert!(next(&mut tap).is_some());
        drop(tap);
        // The accept thread detects the end of the tap's reader.
        let mut sent = 1;
        let is_same = |slot: &TapSlot| slot.open(&TypeName::of::<u8>()).unwrap().unwrap() == endpoint;
        let give_up = Instant::now() + Duration::from_secs(20);
        while is_same(&slot) {
            assert!(Instant::now() < give_up);
            send(&mut port, &[0]);
            sent += 1;
            assert!(next(&mut receiver).is_some());
        }
        send(&mut port, &[1]);
        drop(port);
        let mut rest = 0;
        while next(&mut receiver).is_some() {
            rest += 1;
        }
        assert_eq!(rest, 2, "after {sent} packets with a tap");
        assert_eq!(slot.open(&TypeName::of::<u8>()).unwrap(), Err(PortEnd::Gone));
    }
}
