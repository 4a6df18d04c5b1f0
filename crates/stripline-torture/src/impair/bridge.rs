//! The cable between the two devices: a thread for each direction.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use super::faults::{Counts, Direction, Faults};
use crate::notes::now_ns;
use crate::payload::mix;

/// More bytes than the largest frame.
const FRAME_MAX: usize = 1 << 17;

/// The running threads.
pub struct Bridge {
    threads: [JoinHandle<Result<DirectionFigures, String>>; 2],
    /// Closing this pipe ends the threads.
    stop: PipeWriter,
    is_severed: Arc<AtomicBool>,
}

/// The figures of one direction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DirectionFigures {
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames in transit when the bridge was stopped.
    pub left_over: u64,
    /// Frames that arrived after the cable was severed.
    pub severed: u64,
    /// Frames that the kernel of the other namespace refused.
    pub undelivered: u64,
}

impl Bridge {
    /// Starts the bridge between two devices.
    ///
    /// # Errors
    /// When the system lacks descriptors or threads.
    pub fn start(devices: [OwnedFd; 2], faults: Faults, seed: u64) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("cannot start the bridge: {e}");
        let (stopped, stop) = std::io::pipe().map_err(failed)?;
        let (stopped, devices) = (Arc::new(stopped), Arc::new(devices));
        let is_severed = Arc::new(AtomicBool::new(false));
        let carry = |from: usize| {
            let (stopped, devices, is_severed) =
                (Arc::clone(&stopped), Arc::clone(&devices), Arc::clone(&is_severed));
            let direction = Direction::new(faults, mix(seed ^ from as u64));
            std::thread::Builder::new()
                .name(["a-to-b", "b-to-a"][from].into())
                .spawn(move || carry(&devices[from], &devices[1 - from], &stopped, &is_severed, direction))
        };
        Ok(Self { threads: [carry(0).map_err(failed)?, carry(1).map_err(failed)?], stop, is_severed })
    }

    /// Severs the cable: from now on, nothing passes in either direction.
    pub fn sever(&self) {
        // Relaxed: one more frame may pass.
        self.is_severed.store(true, Ordering::Relaxed);
    }

    /// Mends the cable.
    pub fn mend(&self) {
        self.is_severed.store(false, Ordering::Relaxed);
    }

    /// Ends the bridge, and returns the figures of both directions.
    ///
    /// # Errors
    /// When a device has failed.
    pub fn end(self) -> Result<[DirectionFigures; 2], String> {
        drop(self.stop);
        let [a, b] = self.threads.map(|thread| thread.join());
        let outcome = |outcome: Result<_, _>| outcome.map_err(|_| "a thread of the bridge panicked")?;
        Ok([outcome(a)?, outcome(b)?])
    }
}

fn carry(
    from: &OwnedFd,
    to: &OwnedFd,
    stopped: &PipeReader,
    is_severed: &AtomicBool,
    mut direction: Direction,
) -> Result<DirectionFigures, String> {
    let mut frame = vec![0; FRAME_MAX];
    let (mut undelivered, mut severed) = (0, 0);
    let mut pass = |frame: &[u8]| {
        if rustix::io::write(to, frame).is_err() {
            // The kernel refuses frames for an interface that is down.
            undelivered += 1;
        }
    };
    loop {
        match rustix::io::read(from, &mut frame) {
            Ok(_) if is_severed.load(Ordering::Relaxed) => {
                severed += 1;
                continue;
            }
            Ok(bytes) => {
                let now = now_ns();
                direction.advance(now, &mut pass);
                direction.accept(&frame[..bytes], now, &mut pass);
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(format!("a device fails: {error}")),
        }
        let now = now_ns();
        direction.advance(now, &mut pass);
        let timeout = direction.next_ns().map(|next| {
            let ns = next.saturating_sub(now);
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
        });
        let mut polled =
            [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) if !polled[1].revents().is_empty() => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("cannot wait for frames: {error}")),
        }
    }
    let left_over = direction.on_the_way() as u64;
    Ok(DirectionFigures { counts: direction.counts(), left_over, severed, undelivered })
}
