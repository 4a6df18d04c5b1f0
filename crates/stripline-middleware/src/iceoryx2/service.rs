//! Ports of iceoryx2, and the names that they use.
//!
//! Each connection has a separate service, with one publisher and one subscriber. All names of a
//! connection are in `/dev/shm` and begin with the same words: the process that made them, the time
//! at which the process was started, and a random number. The names are removed once both ports
//! have found each other. After a kill before that, the names stay, so the next process removes the
//! names of dead processes.
//!
//! No function here panics. iceoryx2 panics if it finds damaged memory, which any process of the
//! same user can cause.

use std::fmt::Debug;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Mutex;

use bytemuck::{Pod, Zeroable};
use iceoryx2::config::Config;
use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::{
    AllocationStrategy, BackpressureStrategy, FileName, LogLevel, PortFactory as _, SemanticString,
    SignalHandlingMode, ZeroCopySend, set_log_level,
};
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::ipc::Service;
use iceoryx2::service::port_factory::publish_subscribe;
use rustix::fs::FallocateFlags;

use stripline::Result;
use stripline::carrier::aligned_buffer::CacheLine;
use stripline::carrier::fork::{PerProcess, SharedPages};
use stripline::carrier::mutex::lock;

use crate::system::owned_names::OwnedNames;

/// The folder in which the C library puts the names of shared memory.
const FOLDER: &str = "/dev/shm";
/// All names of the connections.
const NAMES: OwnedNames = OwnedNames { folder: FOLDER, prefix: "stripline-iceoryx2-" };
/// The name of each service. The names of different connections differ in their prefix.
const SERVICE: &str = "path";

/// A [`CacheLine`] that iceoryx2 moves.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct SharedLine([u8; 64]);

// SAFETY: the line is plain bytes, valid at any address.
unsafe impl ZeroCopySend for SharedLine {}

type Factory = publish_subscribe::PortFactory<Service, [SharedLine], ()>;

/// Returns the version of iceoryx2 in this program.
pub(crate) fn version() -> String {
    format!("iceoryx2 {VERSION}")
}

/// The version in `Cargo.lock`. A test compares the two.
const VERSION: &str = "0.10.0";

/// The names of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionNames {
    prefix: String,
}

impl ConnectionNames {
    /// Returns names that this process owns, after removing the names of dead processes.
    ///
    /// # Errors
    /// A lack of random numbers, or of `/proc`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { prefix: NAMES.make()? })
    }

    /// Parses names that a peer has sent.
    pub(crate) fn parse(prefix: &str) -> Option<Self> {
        (prefix.len() < 100 && NAMES.has(prefix)).then(|| Self { prefix: prefix.into() })
    }

    /// Returns the prefix of the names.
    pub(crate) fn as_str(&self) -> &str {
        &self.prefix
    }

    /// Removes the names that exist. Processes that have mapped the memory keep it.
    pub(crate) fn remove(&self) {
        NAMES.remove(|name| name.starts_with(&self.prefix));
    }

    /// Makes the folder of the names that are files. Only this user has access to it.
    fn make_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdir(self.folder(), rustix::fs::Mode::RWXU)?)
    }

    fn folder(&self) -> PathBuf {
        NAMES.path(&self.prefix)
    }

    /// Returns a configuration that no file of the system can change.
    fn config(&self) -> Result<Config, String> {
        let mut config = Config::default();
        let folder = self.folder();
        let root = folder.to_str().unwrap_or_default().as_bytes();
        config.global.set_root_path(&SemanticString::new(root).map_err(text("the folder"))?);
        config.global.prefix = FileName::new(self.prefix.as_bytes()).map_err(text("the prefix"))?;
        // iceoryx2 must not remove anything of a stopped process.
        config.global.node.cleanup_dead_nodes_on_creation = false;
        config.global.node.cleanup_dead_nodes_on_destruction = false;
        config.global.service.cleanup_dead_nodes_on_open = false;
        Ok(config)
    }

    /// Allocates all memory of the connection at once. A lack of memory is then an error here, and
    /// not a signal later.
    fn allocate(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(FOLDER)?.flatten() {
            let is_memory = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_memory && entry.file_name().as_encoded_bytes().starts_with(self.prefix.as_bytes()) {
                let file = std::fs::OpenOptions::new().write(true).open(entry.path())?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, file.metadata()?.len())?;
            }
        }
        Ok(())
    }
}

impl ConnectionNames {
    /// Runs work, and returns the writable memory that the work has mapped. The children of this
    /// process get other pages. Both ends may be in one process, so only one of them works at a
    /// time.
    fn while_mapping<T>(
        &self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Vec<SharedPages>), String> {
        static MAPPING: PerProcess<Mutex<()>> = PerProcess::new(Mutex::default);
        let _turn = lock(MAPPING.get());
        let mapped = || self.mapped().map_err(|e| format!("cannot read /proc/self/maps: {e}"));
        let before = mapped()?;
        let made = guarded(work)?;
        let added = mapped()?.into_iter().filter(|range| !before.contains(range));
        Ok((made, added.map(|(start, bytes)| SharedPages::new(start, bytes)).collect()))
    }

    /// Returns the address and the size of each writable mapping.
    fn mapped(&self) -> io::Result<Vec<(NonNull<u8>, usize)>> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let file = format!("{FOLDER}/{}", self.prefix);
        let written = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let [start, end] = [start, end].map(|digits| usize::from_str_radix(digits, 16).ok());
            let is_written = words.next()?.contains('w') && words.nth(3)?.starts_with(&file);
            let address = NonNull::new(std::ptr::with_exposed_provenance_mut(start?))?;
            is_written.then_some((address, end?.checked_sub(start?)?))
        };
        Ok(maps.lines().filter_map(written).collect())
    }
}

/// Removes the names of processes that have ended.
pub(crate) fn remove_dead() {
    NAMES.remove_dead();
}

/// The sizes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSizes {
    /// The maximum number of waiting messages.
    pub messages: usize,
    /// The maximum number of cache lines in a message.
    pub lines: usize,
}

/// The receiving end.
pub(crate) struct SubscriberEnd {
    /// The pages are dropped before the fields that unmap them.
    pages: Vec<SharedPages>,
    /// The message that is read at present, dropped before the subscriber.
    sample: Option<Sample<Service, [SharedLine], ()>>,
    subscriber: Subscriber<Service, [SharedLine], ()>,
    factory: Factory,
    _node: Node<Service>,
}

// SAFETY: `ipc::Service` counts references without atomics. All counts of these ports are in this
// value, which has one user at a time, and no part of it is given out.
unsafe impl Send for SubscriberEnd {}

/// The sending end.
pub(crate) struct PublisherEnd {
    /// The pages are dropped before the fields that unmap them.
    pages: Vec<SharedPages>,
    /// The place for the next message.
    loan: Option<LentPlace>,
    publisher: Publisher<Service, [SharedLine], ()>,
    sizes: PathSizes,
    _factory: Factory,
    _node: Node<Service>,
}

// SAFETY: as for `SubscriberEnd`.
unsafe impl Send for PublisherEnd {}

/// A place in the memory of iceoryx2.
type LentPlace = SampleMutUninit<Service, [std::mem::MaybeUninit<SharedLine>], ()>;

impl SubscriberEnd {
    /// Makes the service and the subscriber.
    ///
    /// # Errors
    /// An error of iceoryx2, such as a lack of resources.
    pub(crate) fn new(names: &ConnectionNames, sizes: PathSizes) -> Result<Self, String> {
        names
            .make_folder()
            .map_err(|e| format!("cannot make the folder {}: {e}", names.folder().display()))?;
        let make = || {
            let node = node(names)?;
            let factory = node
                .service_builder(&service_name()?)
                .publish_subscribe::<[SharedLine]>()
                // Without overflow, no message is lost.
                .enable_safe_overflow(false)
                .subscriber_max_buffer_size(sizes.messages)
                // The next message is received before the last one is released.
                .subscriber_max_borrowed_samples(2)
                .history_size(0)
                .max_publishers(1)
                .max_subscribers(1)
                .max_nodes(2)
                .create()
                .map_err(text("the service"))?;
            let subscriber = factory.subscriber_builder().create().map_err(text("the subscriber"))?;
            Ok(Self { pages: Vec::new(), sample: None, subscriber, factory, _node: node })
        };
        let (mut end, pages) = names.while_mapping(make)?;
        end.pages = pages;
        Ok(end)
    }

    /// Connects to the publisher, while the names exist.
    ///
    /// # Errors
    /// The publisher is missing, or iceoryx2 has an error.
    pub(crate) fn connect(&mut self, names: &ConnectionNames) -> Result<(), String> {
        if self.factory.dynamic_config().number_of_publishers() == 0 {
            return Err("the sender has no publisher of iceoryx2".into());
        }
        let update = || self.subscriber.update_connections().map_err(text("the connection"));
        let ((), pages) = names.while_mapping(update)?;
        self.pages.extend(pages);
        Ok(())
    }

    /// Returns whether a message can be received.
    #[inline]
    pub(crate) fn has_message(&self) -> bool {
        guarded(|| self.subscriber.has_samples().map_err(text("the subscriber"))).unwrap_or(true)
    }

    /// Receives a message in place of the last one, and returns the lines; `None`: no message has
    /// arrived, and the last one stays. The lines stay valid and unchanged until the next
    /// call.
    ///
    /// # Errors
    /// iceoryx2 has found damaged memory.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<Option<&[CacheLine]>, String> {
        let received = guarded(|| self.subscriber.receive().map_err(text("the subscriber")))?;
        let Some(sample) = received else { return Ok(None) };
        Ok(Some(bytemuck::cast_slice(self.sample.insert(sample).payload())))
    }
}

impl PublisherEnd {
    /// Opens the service of a receiver, and makes the publisher.
    ///
    /// # Errors
    /// iceoryx2 lacks a resource, or the service has other settings.
    pub(crate) fn open(names: &ConnectionNames, sizes: PathSizes) -> Result<Self, String> {
        let make = || {
            let node = node(names)?;
            let factory = node
                .service_builder(&service_name()?)
                .publish_subscribe::<[SharedLine]>()
                .open()
                .map_err(text("the service"))?;
            let publisher = factory
                .publisher_builder()
                .initial_max_slice_len(sizes.lines)
                .allocation_strategy(AllocationStrategy::Static)
                .max_loaned_samples(2)
                // The queue is never full if the receiver counts correctly.
                .backpressure_strategy(BackpressureStrategy::DiscardData)
                .create()
                .map_err(text("the publisher"))?;
            names.allocate().map_err(|e| {
                format!(
                    "{FOLDER} has no room for {} messages of {} bytes: {e}",
                    sizes.messages,
                    64 * sizes.lines
                )
            })?;
            Ok(Self { pages: Vec::new(), loan: None, publisher, sizes, _factory: factory, _node: node })
        };
        let (mut end, pages) = names.while_mapping(make)?;
        end.pages = pages;
        Ok(end)
    }

    /// Returns the place for the next message: the same place until the message is sent. The memory
    /// is initialised, with zeros or an earlier message.
    ///
    /// # Errors
    /// No place is free, although the receiver has taken enough messages.
    #[inline]
    pub(crate) fn place(&mut self) -> Result<(NonNull<CacheLine>, usize), String> {
        let loan = match &mut self.loan {
            Some(loan) => loan,
            None => self.loan.insert(lend(&self.publisher, self.sizes.lines)?),
        };
        let lines = loan.payload_mut();
        Ok((NonNull::from(&mut *lines).cast(), lines.len()))
    }

    /// Sends the message in the place.
    ///
    /// # Errors
    /// The receiver has gone, or counts messages that it has not taken.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<(), String> {
        let Some(loan) = self.loan.take() else { return Err("there is no message".into()) };
        // SAFETY: the memory is initialised, as `place` states.
        let message = unsafe { loan.assume_init() };
        match guarded(|| message.send().map_err(text("the publisher")))? {
            0 => Err("the receiver has no room".into()),
            _ => Ok(()),
        }
    }

    /// Copies the parts to a place, one after the other, and sends them.
    ///
    /// # Errors
    /// The errors of [`PublisherEnd::place`] and [`PublisherEnd::send`].
    pub(crate) fn send_copy(&mut self, front: &CacheLine, bytes: &[u8]) -> Result<(), String> {
        // A buffer may use the place that is already lent.
        let mut loan = lend(&self.publisher, self.sizes.lines)?;
        let lines = loan.payload_mut();
        let room = size_of_val(lines);
        assert!(64 + bytes.len() <= room, "a message of {} bytes", bytes.len());
        let start: *mut u8 = std::ptr::from_mut(lines).cast();
        // SAFETY: both parts fit, and nothing else uses a place that was just lent.
        unsafe {
            start.copy_from_nonoverlapping(front.0.as_ptr(), 64);
            start.add(64).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        let kept = self.loan.replace(loan);
        let sent = self.send();
        self.loan = kept;
        sent
    }
}

fn lend(publisher: &Publisher<Service, [SharedLine], ()>, lines: usize) -> Result<LentPlace, String> {
    guarded(|| publisher.loan_slice_uninit(lines).map_err(text("a place")))
}

fn node(names: &ConnectionNames) -> Result<Node<Service>, String> {
    // iceoryx2 logs nothing, as the errors contain the causes.
    set_log_level(LogLevel::Fatal);
    NodeBuilder::new()
        .config(&names.config()?)
        // Signals belong to the program.
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<Service>()
        .map_err(text("the node"))
}

fn service_name() -> Result<iceoryx2::prelude::ServiceName, String> {
    SERVICE.try_into().map_err(text("the name"))
}

fn text<E: Debug>(what: &str) -> impl Fn(E) -> String + '_ {
    move |error| format!("iceoryx2, {what}: {error:?}")
}

/// Runs work of iceoryx2. A panic becomes an error.
#[inline]
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // The state that the work was changing is not used again: the connection ends.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("iceoryx2 has found its memory damaged".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: PathSizes = PathSizes { messages: 4, lines: 3 };

    fn is_there(names: &ConnectionNames) -> bool {
        let entries = std::fs::read_dir(FOLDER).unwrap().flatten();
        entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(&names.prefix))
    }

    #[test]
    fn names_are_removed_while_both_ends_go_on() {
        let names = ConnectionNames::new().unwrap();
        let mut subscriber = SubscriberEnd::new(&names, SIZES).unwrap();
        assert!(subscriber.connect(&names).is_err());
        let mut publisher = PublisherEnd::open(&names, SIZES).unwrap();
        subscriber.connect(&names).unwrap();
        assert!(is_there(&names));
        assert!(!subscriber.pages.is_empty() && !publisher.pages.is_empty());
        names.remove();
        assert!(!is_there(&names));
        for round in 0..10 {
            let (place, lines) = publisher.place().unwrap();
            assert_eq!(lines, 3);
            // SAFETY: the place has three lines, and nothing else uses it.
            unsafe { place.write(CacheLine([round; 64])) };
            publisher.send().unwrap();
            publisher.send_copy(&CacheLine([round + 100; 64]), b"abc").unwrap();
            assert!(subscriber.has_message());
            assert_eq!(subscriber.receive().unwrap().unwrap()[0].0, [round; 64]);
            let second = subscriber.receive().unwrap().unwrap();
            assert_eq!((second[0].0, &second[1].0[..3]), ([round + 100; 64], &b"abc"[..]));
            assert!(subscriber.receive().unwrap().is_none() && !subscriber.has_message());
        }
        let sent = std::iter::from_fn(|| publisher.send_copy(&CacheLine([1; 64]), b"").ok()).count();
        assert_eq!(sent, SIZES.messages);
        drop(publisher);
        let left = std::iter::from_fn(|| subscriber.receive().unwrap().map(|_| ())).count();
        assert_eq!(left, SIZES.messages, "what was sent outlives its sender");
        drop(subscriber);
        assert!(!is_there(&names), "the ends make no new names");
    }

    #[test]
    fn names_of_a_peer_are_parsed() {
        let names = ConnectionNames::new().unwrap();
        assert_eq!(ConnectionNames::parse(names.as_str()), Some(names.clone()));
        let long = format!("{}{}", names.as_str(), "0".repeat(100));
        for bad in
            ["", "/etc", "stripline-iceoryx2-1-2-3", "stripline-iceoryx2-1-2-3-../../../../../..", &long]
        {
            assert_eq!(ConnectionNames::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        assert!(lock.contains(&format!("name = \"iceoryx2\"\nversion = \"{VERSION}\"\n")));
    }
}
