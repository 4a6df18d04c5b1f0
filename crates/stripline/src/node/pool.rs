//! A pool of threads that run a handler. The threads take turns at receiving, because a separate
//! thread that only distributed packets would cost one wake-up per packet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::{Error, Result, catch_panic};
use crate::link::{ConnectionStats, OwnedPacket, Progress, Receipt};
use crate::packet::payload::Content;
use crate::sys::clock::now_ns;
use crate::sys::doorbell::Doorbell;
use crate::sys::fork::OwnerProcess;
use crate::sys::mutex::lock;
use crate::transport::Wait;

use super::packet_view::view_of;
use super::serve::failure;
use super::wait::wait_until;
use super::{Completion, PacketView, Received, Subscriber};

/// Runs `work` for every packet on `threads` threads, and `release` for one packet at a time. The
/// pool ends at the end of stream or the first failure, once the handlers in progress have
/// returned.
pub(super) fn run<T, R, W, H>(
    subscriber: &mut Subscriber<T>,
    threads: usize,
    order: Completion,
    work: &W,
    hand_on: H,
) -> Result<()>
where
    T: Content,
    W: Fn(PacketView<'_, T>) -> Result<R> + Sync,
    H: FnMut(PacketView<'_, T>, R) -> Result<()> + Send,
{
    let port = subscriber.name().to_string();
    let progress = subscriber.incoming.progress().cloned();
    let pool = Pool {
        form: subscriber.form,
        source: Mutex::new(PoolSource { subscriber, taken: 0 }),
        exit: Mutex::new(Exit { release: hand_on, next: 0 }),
        released: Condvar::new(),
        order,
        work,
        doorbell: Doorbell::new()?,
        is_over: AtomicBool::new(false),
        error: Mutex::new(None),
        port,
        process: OwnerProcess::current(),
        progress,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let thread = std::thread::Builder::new().name("stripline-pool".into());
            if let Err(error) = thread.spawn_scoped(scope, || pool.run()) {
                pool.fail(Error::not_started("cannot start a thread of a pool", error));
                break;
            }
        }
    });
    let error = pool.error.into_inner().unwrap_or_else(PoisonError::into_inner);
    error.map_or(Ok(()), Err)
}

struct Pool<'a, T: Content, W, H> {
    form: T::Form,
    source: Mutex<PoolSource<'a, T>>,
    exit: Mutex<Exit<H>>,
    /// Notified when the next packet may be released.
    released: Condvar,
    order: Completion,
    work: &'a W,
    /// Wakes the receiving thread when it must stop receiving.
    doorbell: Doorbell,
    is_over: AtomicBool,
    error: Mutex<Option<Error>>,
    port: String,
    process: OwnerProcess,
    /// Counts the packets that handlers have, for a harness.
    progress: Option<Arc<Progress>>,
}

/// The state of the receiving thread.
struct PoolSource<'a, T: Content> {
    subscriber: &'a mut Subscriber<T>,
    /// The number of packets taken.
    taken: u64,
}

/// The state of the thread that passes results on.
struct Exit<H> {
    release: H,
    /// The number of packets passed on.
    next: u64,
}

/// The statistics of a measured packet, and the time when it was taken or the time that it took.
type Measured = (Arc<ConnectionStats>, u64);

/// A packet's number in the pool, the measurement of the packet, and the receipt to drop when it is
/// finished.
type PooledPacket = (u64, Option<Measured>, Option<Receipt>);

impl<T, R, W, H> Pool<'_, T, W, H>
where
    T: Content,
    W: Fn(PacketView<'_, T>) -> Result<R> + Sync,
    H: FnMut(PacketView<'_, T>, R) -> Result<()> + Send,
{
    /// Runs one thread of the pool.
    fn run(&self) {
        let mut copy = OwnedPacket::default();
        // Only the receiving thread may count, so the time of a handler is counted at the next
        // receive.
        let mut finished: Option<Measured> = None;
        // In a child that a handler forked, the other threads are missing but may still hold the
        // locks.
        while self.process.is_current() {
            let mut source = lock(&self.source);
            if let Some((stats, service_ns)) = finished.take() {
                stats.finished(service_ns);
            }
            let (number, measured, receipt) = match self.receive(&mut source, &mut copy) {
                Ok(Some(taken)) => taken,
                Ok(None) => return self.is_over.store(true, Ordering::Relaxed),
                Err(error) => return self.fail(error),
            };
            drop(source);
            if let Some(packet) = view_of(&copy, self.form) {
                self.handle(number, packet.with_receipt(receipt.as_ref()), receipt.as_ref());
            }
            // Acknowledges the packet, if the sender waits.
            drop(receipt);
            if let Some(progress) = &self.progress {
                progress.finish();
            }
            finished = measured.map(|(stats, taken_ns)| (stats, now_ns().saturating_sub(taken_ns)));
        }
    }

    /// Copies the next packet and returns the packet's number in the pool; `None`: the stream or
    /// the pool has ended.
    fn receive(&self, source: &mut PoolSource<T>, copy: &mut OwnedPacket) -> Result<Option<PooledPacket>> {
        loop {
            // Relaxed: a failure that is seen late costs one more packet, and the doorbell wakes a
            // sleeping thread.
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(None);
            }
            source.subscriber.incoming.stop().interrupt().take(false)?;
            match source.subscriber.take(|| Wait::Never)? {
                Received::Packet(_) => break,
                Received::Ended => return Ok(None),
                Received::Empty => {}
            }
            wait_until(&mut [&mut source.subscriber.incoming], Some(&self.doorbell), None)?;
        }
        let incoming = &mut source.subscriber.incoming;
        copy.copy_from(incoming);
        // From now on, a packet forwarded from this one carries the order.
        copy.is_ordered = true;
        let stats = Arc::clone(incoming.stats());
        let receipt = incoming.take_receipt();
        if let Some(progress) = &self.progress {
            progress.begin();
        }
        let taken_ns = incoming.release_copied();
        source.taken += 1;
        Ok(Some((source.taken - 1, taken_ns.map(|taken_ns| (stats, taken_ns)), receipt)))
    }

    /// Runs the two parts of the handler.
    fn handle(&self, number: u64, packet: PacketView<'_, T>, receipt: Option<&Receipt>) {
        let work = self.work;
        let made = catch_panic(|| work(packet));
        if !self.process.is_current() {
            return;
        }
        let mut exit = lock(&self.exit);
        if self.order == Completion::Resequence {
            let turn = self.released.wait_while(exit, |exit| exit.next != number);
            exit = turn.unwrap_or_else(PoisonError::into_inner);
        }
        let outcome = made.and_then(|made| catch_panic(|| (exit.release)(packet, made)));
        // The number also advances after a failure, because later packets must be finished as well.
        exit.next += 1;
        drop(exit);
        if self.order == Completion::Resequence {
            self.released.notify_all();
        }
        if let Err(error) = outcome {
            let (words, is_failure) = (error.to_string(), !matches!(error, Error::Stopped));
            // The pool ends before the sender gets the refusal, because the sender's next packet is
            // no longer meant for this pool.
            self.fail(failure(&self.port, packet, error));
            if let (Some(receipt), true) = (receipt, is_failure) {
                receipt.refuse(words);
            }
        }
    }
}

impl<T: Content, W, H> Pool<'_, T, W, H> {
    /// Ends the pool and keeps the first failure.
    fn fail(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
        self.doorbell.notify();
    }
}
