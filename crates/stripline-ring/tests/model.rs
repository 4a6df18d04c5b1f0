//! Tests of random operations. Each is compared with a model that is a plain list of frames.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not count as tests

mod support;

use proptest::prelude::*;
use stripline_ring::{
    CopyOutcome, HEADER, HeapRing, LINE, Lag, Mode, Reader, ReaderId, ReserveError, Writer, frame_stride,
    max_frame,
};
use support::Ring;

const CAPACITY: usize = 4096;

#[derive(Clone, Debug)]
enum Step {
    Attach(Mode),
    Detach(usize),
    Reserve { len: usize, cancel: bool },
    Publish { part: usize, later: bool },
    Next { reader: usize, release: Release },
    Copy { reader: usize, depth: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Release {
    Keep,
    Now,
    Later,
}

/// The expected content of a frame.
struct Frame {
    position: u64,
    bytes: Vec<u8>,
}

struct Tested {
    id: ReaderId,
    mode: Mode,
    reader: Reader,
    /// The index of the next expected frame.
    next: usize,
    /// The index of the first frame that the writer considers unread.
    stored: usize,
}

struct Model<R> {
    ring: R,
    writer: Writer,
    start_count: u64,
    frames: Vec<Frame>,
    head: u64,
    reserved: Option<usize>,
    claim: u64,
    readers: Vec<Tested>,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![(0..6u32).prop_map(|depth| Mode::Blocking { depth }), Just(Mode::Lossy)];
    let len = prop_oneof![0..200usize, 0..=max_frame(CAPACITY), Just(max_frame(CAPACITY))];
    let release = prop_oneof![2 => Just(Release::Keep), 1 => Just(Release::Now), 2 => Just(Release::Later)];
    prop_oneof![
        1 => mode.prop_map(Step::Attach),
        1 => (0..4usize).prop_map(Step::Detach),
        10 => (len, prop::bool::weighted(0.1)).prop_map(|(len, cancel)| Step::Reserve { len, cancel }),
        10 => (1..4usize, any::<bool>()).prop_map(|(part, later)| Step::Publish { part, later }),
        14 => (0..4usize, release).prop_map(|(reader, release)| Step::Next { reader, release }),
        8 => (0..4usize, 0..5u32).prop_map(|(reader, depth)| Step::Copy { reader, depth }),
    ]
}

impl<R: Ring> Model<R> {
    fn new(start: u64, start_count: u64) -> Self {
        let (ring, writer) = R::make(CAPACITY, start, start_count);
        Self {
            ring,
            writer,
            start_count,
            frames: Vec::new(),
            head: start,
            reserved: None,
            claim: 0,
            readers: Vec::new(),
        }
    }

    fn run(&mut self, step: Step) {
        if !matches!(step, Step::Reserve { .. } | Step::Publish { later: true, .. } | Step::Next { .. }) {
            self.writer.finish_publishing();
        }
        assert_eq!(self.writer.newest(), self.frames.last().map(|frame| frame.position));
        match step {
            Step::Attach(mode) if self.readers.len() < 4 => self.attach(mode),
            Step::Attach(_) => {}
            Step::Detach(index) if index < self.readers.len() => {
                let Tested { id, reader, .. } = self.readers.remove(index);
                drop(reader);
                self.writer.detach(id);
                assert_eq!(self.writer.lag(id), None);
            }
            Step::Detach(_) => {}
            Step::Reserve { len, cancel } => {
                self.reserve(len);
                if cancel {
                    self.writer.cancel();
                    self.reserved = None;
                    assert!(self.writer.reserved().is_empty());
                }
            }
            Step::Publish { part, later } => self.publish(part, later),
            Step::Next { reader, release } => self.next(reader, release),
            Step::Copy { reader, depth } => self.copy(reader, depth),
        }
        for tested in &self.readers {
            let released = self.frames.get(tested.stored).map_or(self.head, |frame| frame.position);
            let lag = Lag { bytes: self.head - released, frames: (self.frames.len() - tested.stored) as u64 };
            assert_eq!(self.writer.lag(tested.id), Some(lag));
        }
        assert_eq!(self.writer.readers(), self.readers.len());
        assert_eq!(self.writer.position(), self.head);
        assert_eq!(self.writer.count(), self.start_count + self.frames.len() as u64);
    }

    fn attach(&mut self, mode: Mode) {
        if mode == Mode::Lossy && !self.readers.iter().any(|tested| tested.mode == Mode::Lossy) {
            self.claim = self.head + (frame_stride(self.reserved.unwrap_or(0)) + LINE) as u64;
        }
        let (id, mut reader) = self.ring.attach(&mut self.writer, mode);
        assert!(reader.is_attached());
        let next = self.frames.len();
        self.readers.push(Tested { id, mode, reader, next, stored: next });
    }

    fn reserve(&mut self, len: usize) {
        let needed = self.head + (frame_stride(len) + LINE) as u64;
        let hindering: Vec<ReaderId> = self
            .readers
            .iter()
            .filter(|tested| {
                let released = self.frames.get(tested.stored).map_or(self.head, |frame| frame.position);
                let unread = (self.frames.len() - tested.stored) as u32;
                match tested.mode {
                    Mode::Lossy => false,
                    Mode::Blocking { depth } => {
                        needed > released + CAPACITY as u64 || (depth > 0 && unread >= depth)
                    }
                }
            })
            .map(|tested| tested.id)
            .collect();
        match self.writer.try_reserve(len) {
            Ok(bytes) => {
                assert!(hindering.is_empty());
                assert_eq!(bytes.len(), len);
                resemble_commit_words(bytes, self.head, self.frames.len());
                self.reserved = Some(len);
                if self.readers.iter().any(|tested| tested.mode == Mode::Lossy) {
                    self.claim = self.claim.max(needed);
                }
            }
            Err(ReserveError::Full { slowest }) => {
                assert!(hindering.contains(&slowest));
                self.reserved = None;
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn publish(&mut self, part: usize, later: bool) {
        let Some(reserved) = self.reserved.take() else { return };
        let len = reserved / part;
        let mut bytes = vec![0; len];
        resemble_commit_words(&mut bytes, self.head, self.frames.len());
        self.writer.reserved()[..len].copy_from_slice(&bytes);
        // Lossy readers load the count of frames, so it must not be delayed.
        if later && self.readers.iter().all(|tested| tested.mode != Mode::Lossy) {
            self.writer.publish_later_with(len, []);
        } else {
            self.writer.finish_publishing();
            self.writer.publish(len);
        }
        self.frames.push(Frame { position: self.head, bytes });
        self.head += frame_stride(len) as u64;
    }

    fn next(&mut self, index: usize, release: Release) {
        let Some(tested) = self.readers.get_mut(index).filter(|tested| tested.mode != Mode::Lossy) else {
            return;
        };
        assert_eq!(tested.reader.count(), self.start_count + tested.next as u64);
        let expected = self.frames.get(tested.next).map(|frame| frame.bytes.as_slice());
        assert_eq!(tested.reader.try_next(), Ok(expected));
        let taken = usize::from(expected.is_some());
        match release {
            Release::Keep => {}
            Release::Now => {
                assert!(!tested.reader.finish_releases());
                assert!(!tested.reader.release());
                tested.next += taken;
                tested.stored = tested.next;
            }
            Release::Later => {
                assert!(!tested.reader.release_later());
                tested.next += taken;
                let Mode::Blocking { depth } = tested.mode else { return };
                let position = |index: usize| self.frames.get(index).map_or(self.head, |it| it.position);
                let frames = (tested.next - tested.stored) as u32;
                let is_quarter = position(tested.next) - position(tested.stored) >= CAPACITY as u64 / 4;
                if taken > 0 && (is_quarter || depth > 0 && frames >= (depth / 4).max(1)) {
                    tested.stored = tested.next;
                }
            }
        }
    }

    fn copy(&mut self, index: usize, depth: u32) {
        let Some(tested) = self.readers.get_mut(index).filter(|tested| tested.mode == Mode::Lossy) else {
            return;
        };
        let mut bytes = vec![1, 2, 3];
        let copied = tested.reader.try_copy(depth, &mut bytes).unwrap();
        let there = |frame: &Frame| frame.position + CAPACITY as u64 >= self.claim;
        let oldest = self.frames.iter().position(there).unwrap_or(self.frames.len());
        let newest = if depth == 0 { 0 } else { self.frames.len().saturating_sub(depth as usize) };
        let expected = tested.next.max(oldest).max(newest);
        match self.frames.get(expected) {
            None => assert_eq!(copied, CopyOutcome::Empty),
            Some(frame) => {
                assert_eq!(copied, CopyOutcome::Frame { skipped: (expected - tested.next) as u64 });
                assert_eq!(bytes, frame.bytes);
                tested.next = expected + 1;
                tested.stored = tested.next;
            }
        }
    }
}

fn check<R: Ring>(start: u64, start_count: u64, steps: Vec<Step>) {
    let mut model = Model::<R>::new(start, start_count);
    for step in steps {
        model.run(step);
    }
}

/// Returns starts around zero, around the 32-bit boundary, and at high values.
fn start() -> impl Strategy<Value = (u64, u64)> {
    let position = prop_oneof![Just(0), 0..200u64, Just((1 << 26) - 20), Just(1 << 50)];
    let count = prop_oneof![Just(0), Just(u64::from(u32::MAX) - 5), Just(u64::from(u32::MAX / 2) - 5)];
    (position.prop_map(|lines| lines * LINE as u64), count)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_ring_on_the_heap_is_like_a_list(
        (start, count) in start(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 400 }),
    ) {
        check::<HeapRing>(start, count, steps);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_ring_mapped_twice_is_like_a_list(
        (start, count) in start(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        check::<support::Mapped>(start, count, steps);
    }
}

/// Fills the bytes of a frame with the commit words for their places, alternately of this lap and
/// of the next one. None of them may be taken for a real commit word.
fn resemble_commit_words(bytes: &mut [u8], position: u64, number: usize) {
    let lap = if number.is_multiple_of(2) { CAPACITY as u64 } else { 0 };
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let place = position + (HEADER + index * 8) as u64;
        chunk.copy_from_slice(&((place + lap) | 1).to_le_bytes()[..chunk.len()]);
    }
}
