//! Waiting on several subscribers at once.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::link::Incoming;
use crate::packet::payload::Content;
use crate::sys::clock::now_ns;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::transport::Wait;

use self::sealed::IncomingAccess;
use super::{Holding, ReadyDescriptor, Subscriber};

/// A receiver of packets: every [`Subscriber`] and [`Holding`], of any content.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::{Node, Waitable, wait_any};
/// use stripline::payload::Cbor;
///
/// let node = Node::isolated()?;
/// let mut samples = node.subscriber::<f32>("samples")?;
/// let mut commands = node.subscriber::<Cbor<String>>("commands")?;
/// let mut all: Vec<&mut dyn Waitable> = vec![&mut samples, &mut commands];
/// assert!(wait_any(&mut all, Some(Duration::from_millis(1)))?.is_empty());
/// # Ok::<(), stripline::Error>(())
/// ```
pub trait Waitable: sealed::Sealed {
    /// Returns a descriptor for `poll`, epoll or a toolkit, the same one each time. After
    /// [`Waitable::arm`] has returned true, it becomes readable when the receiver must be called
    /// again.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) when the process has too few descriptors left: it
    /// takes four. [`Error::Forked`](crate::Error::Forked).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::node::{Node, Received, Waitable};
    ///
    /// let node = Node::isolated()?;
    /// let mut levels = node.subscriber::<f32>("levels")?;
    /// let descriptor = levels.ready_descriptor()?;
    /// # let mut publisher = node.publisher::<f32>("levels")?;
    /// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
    /// # (0..3).try_for_each(|level| publisher.send(&[level as f32]))?;
    /// # publisher.finish()?;
    /// let mut packets = 0;
    /// loop {
    ///     let is_empty = match levels.try_receive()? {
    ///         Received::Ended => break,
    ///         Received::Empty => true,
    ///         Received::Packet(_) => {
    ///             packets += 1;
    ///             false
    ///         }
    ///     };
    ///     if is_empty && levels.arm()? {
    ///         // Beside the other descriptors of the loop.
    ///         poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it waits");
    ///     }
    /// }
    /// assert_eq!(packets, 3);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        self.incoming().0.ready_set().map(ReadyDescriptor::new)
    }

    /// Makes the descriptor readable once there may be a packet, the end of stream or an error.
    /// False: one of the three has arrived already, so receive first. When the last `try_receive`
    /// was empty, call this each time before the loop waits.
    ///
    /// This function does not block. The descriptor stays readable until the next call of this
    /// function. Any other call of the receiver may undo the preparation.
    ///
    /// # Errors
    /// The errors that end a wait: [`Error::Stopped`](crate::Error::Stopped) when the component is
    /// stopped, and [`Error::Interrupted`](crate::Error::Interrupted) by a [`Waker`](super::Waker).
    /// A wake and a stop make the descriptor readable. Otherwise the same as
    /// [`Waitable::ready_descriptor`].
    fn arm(&mut self) -> Result<bool> {
        let IncomingAccess(incoming) = self.incoming();
        let set = incoming.ready_set()?;
        incoming.arm(&set)
    }
}

impl<T: Content> Waitable for Subscriber<T> {}

impl<T: Content> Waitable for Holding<T> {}

pub(crate) mod sealed {
    use crate::link::Incoming;

    pub trait Sealed {
        #[doc(hidden)]
        fn incoming(&mut self) -> IncomingAccess<'_>;
    }

    /// A wrapper that keeps the link's type out of the public interface.
    pub struct IncomingAccess<'a>(pub(crate) &'a mut Incoming);
}

impl<T: Content> sealed::Sealed for Subscriber<T> {
    fn incoming(&mut self) -> sealed::IncomingAccess<'_> {
        sealed::IncomingAccess(&mut self.incoming)
    }
}

impl<T: Content> sealed::Sealed for Holding<T> {
    fn incoming(&mut self) -> sealed::IncomingAccess<'_> {
        sealed::IncomingAccess(&mut self.for_wait().incoming)
    }
}

/// Blocks until at least one of the subscribers has a packet or the end of stream. Returns the
/// indices of these subscribers, or an empty list if `timeout` passes first. Without a timeout, it
/// waits without limit.
///
/// ```
/// use std::time::Duration;
/// use stripline::node::{Node, wait_any};
///
/// let node = Node::isolated()?;
/// let mut left = node.subscriber::<f32>("left")?;
/// let mut right = node.subscriber::<i16>("right")?;
/// let mut publisher = node.publisher::<i16>("right")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// let ready = wait_any(&mut [&mut left, &mut right], Some(Duration::from_secs(5)))?;
/// assert_eq!(ready, [1]);
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// # Errors
/// [`Error::Stopped`](crate::Error::Stopped) when the component is stopped;
/// [`Error::Interrupted`](crate::Error::Interrupted) when a subscriber's waker ends the wait; errors
/// of a transport.
pub fn wait_any(subscribers: &mut [&mut dyn Waitable], timeout: Option<Duration>) -> Result<Vec<usize>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut links: Vec<&mut Incoming> = subscribers.iter_mut().map(|s| s.incoming().0).collect();
    wait_until(&mut links, None, deadline)
}

/// Waits like [`wait_any`], but returns also when the doorbell rings, perhaps without a packet.
pub(super) fn wait_until(
    links: &mut [&mut Incoming],
    doorbell: Option<&Doorbell>,
    deadline: Option<Instant>,
) -> Result<Vec<usize>> {
    let mut has_slept = false;
    loop {
        for link in links.iter() {
            link.stop().interrupt().take(false)?;
        }
        let mut ready = Vec::new();
        for (index, link) in links.iter_mut().enumerate() {
            if link.is_ready()? {
                ready.push(index);
            }
        }
        // The deadline is checked after every wait, because a peer can ring its doorbell
        // continuously.
        let is_over = has_slept && deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if !ready.is_empty() || is_over {
            return Ok(ready);
        }
        has_slept = true;
        links.iter().try_for_each(|link| link.stop().check(Wait::Never))?;
        // A resequencing port gives up missing packets when their time is over, even if nothing
        // arrives.
        let again = links.iter_mut().filter_map(|link| link.recheck_at()).min();
        let is_first = |again: &Instant| deadline.is_none_or(|deadline| *again < deadline);
        let again = again.filter(is_first);
        let mut poll_set = PollSet::default();
        if let Some(doorbell) = doorbell {
            poll_set.readable(std::os::fd::AsFd::as_fd(doorbell));
        }
        // Prepare all links, even if one is already ready: each must be cancelled again below.
        let mut quiet = true;
        for link in links.iter_mut() {
            quiet &= link.prepare_sleep(Wait::FOREVER, &mut poll_set);
        }
        let mut goes_on = true;
        if quiet {
            let in_time = poll_set.wait(again.or(deadline))? || again.is_some();
            goes_on = in_time && !(doorbell.is_some() && poll_set.is_ready(0));
        }
        let now_ns = now_ns();
        for link in links.iter_mut() {
            link.cancel_sleep();
            link.waited_until(now_ns);
        }
        if !goes_on {
            return Ok(ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::inspect;
    use crate::link::{ConnectionOptions, PortEvents};
    use crate::node::{Node, Publisher, Topics};
    use crate::terms::LinkOptions;
    use crate::transport::StopToken;

    /// Hangs if the wait checks the deadline only when nothing rings.
    #[test]
    fn a_doorbell_that_rings_for_nothing_holds_up_no_timeout() {
        let events = Arc::new(PortEvents::new().unwrap());
        let options_for = Arc::new(|_: &str| ConnectionOptions::new(&LinkOptions::default()));
        let stop = StopToken::new().unwrap();
        let mut port = Incoming::new("in".into(), Arc::clone(&events), options_for, stop, true, None);
        events.doorbell().notify();
        let deadline = Instant::now() + Duration::from_millis(1);
        assert!(wait_until(&mut [&mut port], None, Some(deadline)).unwrap().is_empty());
    }

    /// The planted time for which the component is elsewhere.
    const BUSY_NS: u64 = 3_000_000;

    /// Returns a sender and a receiver over a transport, with some terms.
    fn pair(terms: &str) -> (Publisher<f32>, Subscriber<f32>) {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let domain = format!("split-{}-{}", std::process::id(), PAIRS.fetch_add(1, Ordering::Relaxed));
        let node = Node::join(&domain, Topics::parse(&format!("[default]\n{terms}")).unwrap()).unwrap();
        let (mut publisher, subscriber) =
            (node.publisher("levels").unwrap(), node.subscriber("levels").unwrap());
        publisher.wait_for_receivers(1, Duration::from_secs(60)).unwrap();
        (publisher, subscriber)
    }

    fn be_busy() {
        let until_ns = now_ns() + BUSY_NS;
        while now_ns() < until_ns {}
    }

    /// Returns the largest latency and the largest part for which the component was busy.
    fn largest(subscriber: &Subscriber<f32>) -> (u64, u64) {
        let report = subscriber.incoming.stats().report("");
        let [latency, queued] = [report.latency, report.queued].map(|times| times.percentiles().max.unwrap());
        (latency, queued)
    }

    /// Splits the latency over each kind of transport and queue in the same way.
    #[test]
    fn a_packet_is_queued_only_while_the_component_is_busy() {
        for terms in [
            "transport = 'inproc'",
            "transport = 'shm'",
            "transport = 'shm'\noverflow = 'drop-oldest'",
            "transport = 'uds'",
            "transport = 'tcp'\nscope = 'server'",
        ] {
            let (mut publisher, mut subscriber) = pair(terms);
            // The wait ends before the component is busy.
            publisher.send(&[0.0]).unwrap();
            wait_any(&mut [&mut subscriber], None).unwrap();
            be_busy();
            drop(subscriber.receive().unwrap());
            let (latency_ns, queued_ns) = largest(&subscriber);
            assert!(
                queued_ns >= BUSY_NS / 16 * 15 && latency_ns >= BUSY_NS / 16 * 15,
                "{terms}: {queued_ns}"
            );

            let (mut publisher, mut subscriber) = pair(terms);
            // Each packet is sent after the receiver has begun to wait: only the transfer
            // takes time.
            let port = subscriber.name().to_owned();
            let sleeps = || inspect::snapshot().receiving.iter().any(|it| it.name == port && it.sleeps);
            let received = AtomicU32::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for sent in 0..3 {
                        while received.load(Ordering::Acquire) < sent || !sleeps() {
                            std::thread::yield_now();
                        }
                        publisher.send(&[0.0]).unwrap();
                    }
                    publisher.finish().unwrap();
                });
                while let Some(packet) = subscriber.receive().unwrap() {
                    drop(packet);
                    received.fetch_add(1, Ordering::Release);
                }
            });
            assert_eq!(largest(&subscriber).1, 0, "{terms}");
        }
    }
}
