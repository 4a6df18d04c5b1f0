//! The child process that is single-stepped.

use std::hint::black_box;

use serde::{Deserialize, Serialize};
use stripline::node::{Node, Publisher, Subscriber, Topics};

use crate::Problem;
use crate::process::NoResult;
use crate::statistics::median;
use crate::timeout::{TIMEOUT, wait_until};

/// Packets before the counted ones. Afterwards the links have settled and lazy symbols are bound.
const WARM_UP: u32 = 1000;
/// Counted packets. There are fewer in a test build, which takes several times the instructions.
const PACKETS: usize = if cfg!(debug_assertions) { 11 } else { 41 };
/// The windows of a packet: an empty one, `loan`, `send`, `receive`, and the drop.
const WINDOWS: usize = 5;
/// The windows of many packets at a time: an empty one, `send_many`, and `drain`.
const WINDOWS_TOGETHER: usize = 3;

/// The job of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SteppedJob {
    pub transport: String,
    /// The number of packets that one call sends or receives; 1 for single packets.
    pub together: usize,
    pub size: usize,
}

/// Performs the job of a process that is stepped through.
pub(crate) fn perform(job: &SteppedJob) -> Result<(), NoResult> {
    // SAFETY: the request takes no further arguments.
    if unsafe { libc::ptrace(libc::PTRACE_TRACEME) } < 0 {
        return Err(format!("cannot be stepped through: {}", std::io::Error::last_os_error()).into());
    }
    let topics = format!("[default]\ntransport = '{}'\nwait = 'spin'\nsampling = 'off'", job.transport);
    let node = Node::join(&format!("instructions-{}", std::process::id()), Topics::parse(&topics)?)?;
    let mut publisher = node.publisher::<u8>("packets")?;
    let mut subscriber = node.subscriber::<u8>("packets")?;
    if !publisher.wait_for_receivers(1, TIMEOUT)? {
        return Err("the receiver did not connect".into());
    }
    wait_until::<NoResult>("the sender did not connect", || Ok(subscriber.senders() > 0))?;
    let step = if job.together > 1 { packets } else { packet };
    (0..WARM_UP).try_for_each(|_| step(&mut publisher, &mut subscriber, job, false))?;
    (0..PACKETS).try_for_each(|_| step(&mut publisher, &mut subscriber, job, true))
}

/// Sends and receives several packets together. The content is neither written nor read.
fn packets(
    publisher: &mut Publisher<u8>,
    subscriber: &mut Subscriber<u8>,
    job: &SteppedJob,
    is_counted: bool,
) -> Result<(), NoResult> {
    let SteppedJob { together, size, .. } = *job;
    window(is_counted, || ());
    window(is_counted, || publisher.send_many(together, size, |_, place| _ = black_box(place)))?;
    let drained = window(is_counted, || subscriber.drain(together, |packet| _ = black_box(&*packet)))?;
    if drained == together {
        Ok(())
    } else {
        Err(format!("{drained} of {together} packets were there").into())
    }
}

/// Sends and receives a packet. If the packet is counted, there is a marker before and after each
/// step.
fn packet(
    publisher: &mut Publisher<u8>,
    subscriber: &mut Subscriber<u8>,
    job: &SteppedJob,
    is_counted: bool,
) -> Result<(), NoResult> {
    window(is_counted, || ());
    let mut loan = window(is_counted, || publisher.loan(job.size))?;
    loan.fill(7);
    window(is_counted, || loan.send())?;
    let packet = window(is_counted, || subscriber.receive())?.ok_or("the stream ended")?;
    black_box(packet.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    window(is_counted, || drop(packet));
    Ok(())
}

/// Runs an action between two markers.
#[inline(always)]
fn window<T>(is_counted: bool, action: impl FnOnce() -> T) -> T {
    mark(is_counted);
    let result = action();
    mark(is_counted);
    result
}

/// Stops this thread, for the parent.
#[inline(never)]
fn mark(is_counted: bool) {
    if is_counted {
        // SAFETY: the signal stops only this thread, because the parent traces it.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

/// Returns the instructions for sending and for receiving a packet, without the instructions of the
/// markers. The results are medians over packets, or over calls if each call has several packets.
pub(super) fn evaluate(windows: &[u64], together: usize) -> Result<[u64; 2], Problem> {
    let each = if together == 1 { WINDOWS } else { WINDOWS_TOGETHER };
    if windows.len() != PACKETS * each {
        return Err(format!("{} windows in place of {}", windows.len(), PACKETS * each));
    }
    let middle = |of: &dyn Fn(&[u64]) -> u64| {
        let packets: Vec<f64> = windows.chunks(each).map(|packet| of(packet) as f64).collect();
        // The median of an odd number of counts is a whole number.
        median(&packets).unwrap_or(0.0) as u64
    };
    let nothing = middle(&|packet| packet[0]);
    // There are as many windows for sending as for receiving.
    let half = each / 2;
    let [send, receive] =
        [1, 1 + half].map(|first| middle(&|packet| packet[first..first + half].iter().sum()));
    let share = |count: u64| count.saturating_sub(half as u64 * nothing).div_ceil(together as u64);
    Ok([share(send), share(receive)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_markers_are_not_counted() {
        let mut windows = [20, 60, 70, 50, 40].repeat(PACKETS);
        // One packet met a rare condition.
        windows[3] = 5000;
        assert_eq!(evaluate(&windows, 1), Ok([90, 50]));
        assert!(evaluate(&windows[1..], 1).is_err());
        assert_eq!(evaluate(&[20, 180, 100].repeat(PACKETS), 16), Ok([10, 5]));
    }
}
