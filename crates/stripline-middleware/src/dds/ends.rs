//! Readers and writers of Cyclone DDS. The process has one participant for each place. The
//! participant is made with the first reader or writer, and ends with the last one.
//!
//! With [`DdsPlace::connections`], no message leaves the host: the only interface is `lo`, without
//! multicast. A fork copies the locks of Cyclone DDS as they are. So a child never calls Cyclone
//! DDS if the parent has called it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use stripline_dds_sys as sys;

use stripline::carrier::fork::OwnerProcess;
use stripline::carrier::mutex::lock;
use stripline::{Error, Result};

use super::security::DdsEnclave;
use crate::system::check_descriptors_of_select;

/// The DDS domain of all connections on the host. The number determines the ports.
const DOMAIN: u32 = 87;
/// The first number for a domain within this process. Other users of the library have smaller
/// numbers.
const LOCAL_DOMAINS: u32 = 0x5354_0000;
/// The only interface for messages that stay on the host.
const LOOPBACK: &str = "lo";
/// The last number of a participant on a host. The numbers of the participants' ports are bounded.
const PARTICIPANTS_MAX: u32 = 110;
/// Descriptors that a participant takes.
const FOR_PARTICIPANT: usize = 16;
/// Unacknowledged bytes at which a write would wait. The bytes in transit have a smaller bound, so
/// no write waits.
const UNACKED_MAX: u32 = 32 << 20;

static PARTICIPANTS: Mutex<Vec<Participant>> = Mutex::new(Vec::new());
/// The process that was the first to call Cyclone DDS.
static USER: OnceLock<OwnerProcess> = OnceLock::new();

/// The last log message of Cyclone DDS, for the error of a failed start.
static PROBLEM: Mutex<String> = Mutex::new(String::new());

/// The place of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdsPlace {
    /// The number of the DDS domain, up to 232.
    pub domain: u32,
    /// The network interface.
    pub interface: String,
    /// The addresses of further hosts where other participants are searched for.
    pub peers: Vec<String>,
    /// The files of DDS Security; `None`: messages are neither authenticated nor encrypted.
    pub security: Option<DdsEnclave>,
}

impl DdsPlace {
    /// Returns the place of all connections over the transport `dds`.
    pub fn connections() -> Self {
        Self { domain: DOMAIN, interface: LOOPBACK.into(), peers: Vec::new(), security: None }
    }

    /// Returns whether all messages stay on the host.
    pub fn stays(&self) -> bool {
        self.interface == LOOPBACK
    }

    /// Checks that the parts have the form of a domain, an interface and addresses.
    ///
    /// # Errors
    /// A description of the fault.
    pub fn check(&self) -> std::result::Result<(), String> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-_".contains(&byte))
        };
        if self.domain > 232 {
            return Err(format!("{} is not a DDS domain: they are numbered up to 232", self.domain));
        }
        let mut words = self.peers.iter().chain([&self.interface]);
        words
            .find(|word| !is_word(word))
            .map_or(Ok(()), |word| Err(format!("`{word}` is neither an interface nor an address")))
    }

    /// Returns the configuration of the participant.
    pub fn configuration(&self) -> String {
        let Self { domain, interface, peers, security: _ } = self;
        let stays = self.stays();
        let (multicast, spreads) =
            (if stays { "false" } else { "default" }, if stays { "false" } else { "spdp" });
        let peers: String = peers.iter().map(|peer| format!("<Peer address=\"{peer}\"/>")).collect();
        // Without multicast, each port of the host is tried. With multicast, the ports can be any.
        let discovery = if stays {
            format!(
                "<ParticipantIndex>auto</ParticipantIndex>\
                 <MaxAutoParticipantIndex>{PARTICIPANTS_MAX}</MaxAutoParticipantIndex>\
                 <Peers><Peer address=\"127.0.0.1\"/></Peers>"
            )
        } else {
            format!("<ParticipantIndex>auto</ParticipantIndex><Peers>{peers}</Peers>")
        };
        format!(
            "<CycloneDDS><Domain id=\"any\">\
             <General>\
             <Interfaces><NetworkInterface name=\"{interface}\" multicast=\"{multicast}\"/></Interfaces>\
             <AllowMulticast>{spreads}</AllowMulticast>\
             <MaxMessageSize>65500B</MaxMessageSize><FragmentSize>63000B</FragmentSize>\
             </General>\
             <Discovery>\
             <ExternalDomainId>{domain}</ExternalDomainId>{discovery}<LeaseDuration>3600s</LeaseDuration>\
             </Discovery>\
             <Internal>\
             <Watermarks><WhcHigh>{UNACKED_MAX}B</WhcHigh><WhcHighInit>{UNACKED_MAX}B</WhcHighInit>\
             <WhcAdaptive>false</WhcAdaptive></Watermarks>\
             <NackDelay>1ms</NackDelay><PreEmptiveAckDelay>1ms</PreEmptiveAckDelay>\
             <HeartbeatInterval min=\"1ms\" minsched=\"10ms\" max=\"8s\">20ms</HeartbeatInterval>\
             <WriterLingerDuration>0s</WriterLingerDuration>\
             </Internal>\
             <Tracing><Verbosity>warning</Verbosity><OutputFile>/dev/null</OutputFile></Tracing>\
             </Domain></CycloneDDS>"
        )
    }
}

/// A participant of this process.
struct Participant {
    place: DdsPlace,
    domain: i32,
    participant: i32,
    /// The number of ends in the participant.
    ends: usize,
}

/// A share in a participant, identified by the domain.
pub(crate) struct ParticipantShare(i32);

impl ParticipantShare {
    /// Returns a further share in a participant that already has a share.
    fn new(domain: i32) -> Self {
        let mut participants = lock(&PARTICIPANTS);
        participants.iter_mut().filter(|known| known.domain == domain).for_each(|known| known.ends += 1);
        Self(domain)
    }
}

impl Drop for ParticipantShare {
    fn drop(&mut self) {
        let mut participants = lock(&PARTICIPANTS);
        let Some(index) = participants.iter().position(|known| known.domain == self.0) else {
            return;
        };
        participants[index].ends -= 1;
        if participants[index].ends == 0 {
            // SAFETY: the domain is open, and has no ends.
            unsafe { sys::stripline_dds_delete(self.0) };
            participants.swap_remove(index);
        }
    }
}

/// Returns the version of Cyclone DDS.
pub(crate) fn version() -> String {
    // SAFETY: the function returns a constant text.
    let version = unsafe { CStr::from_ptr(sys::stripline_dds_version()) };
    format!("Cyclone DDS {}", version.to_string_lossy())
}

/// Checks that this process may call Cyclone DDS: no parent has called it.
///
/// # Errors
/// [`Error::Forked`].
pub(crate) fn check_process() -> Result<()> {
    USER.get_or_init(OwnerProcess::current).check(|| {
        "Cyclone DDS, which the parent of this process has used; use another transport here, or execute the \
         program again"
            .into()
    })
}

/// Takes a record of the log.
unsafe extern "C" fn log(priority: u32, message: *const c_char, length: usize) {
    let record = || {
        // SAFETY: the message has `length` bytes, which live until this function returns.
        let message = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length) };
        let message = String::from_utf8_lossy(message);
        // Any process can cause a warning, as often as it likes.
        let level = if priority == 1 { log::Level::Warn } else { log::Level::Debug };
        log::log!(target: "stripline::transport", level, "Cyclone DDS: {message}");
        *lock(&PROBLEM) = message.into_owned();
    };
    // A logger may panic. The panic must not unwind into C.
    let _ = std::panic::catch_unwind(record);
}

/// Returns the participant of this process at a place, and a share in it.
fn participant(place: &DdsPlace) -> Result<(i32, ParticipantShare)> {
    check_process()?;
    let mut participants = lock(&PARTICIPANTS);
    let index = match participants.iter().position(|participant| participant.place == *place) {
        Some(index) => index,
        None => {
            participants.push(open(place)?);
            participants.len() - 1
        }
    };
    let participant = &mut participants[index];
    participant.ends += 1;
    Ok((participant.participant, ParticipantShare(participant.domain)))
}

/// Makes the participant of a place.
fn open(place: &DdsPlace) -> Result<Participant> {
    static NEXT: AtomicU32 = AtomicU32::new(LOCAL_DOMAINS);
    place.check().map_err(Error::Configuration)?;
    check_descriptors_of_select("Cyclone DDS", FOR_PARTICIPANT)?;
    let configuration =
        CString::new(place.configuration()).map_err(|e| Error::Configuration(e.to_string()))?;
    let security = place.security.as_ref().map_or(Ok(Vec::new()), DdsEnclave::properties);
    let security = security.map_err(|problem| Error::Configuration(format!("DDS Security: {problem}")))?;
    let mut properties: Vec<_> =
        security.iter().map(|pair| pair.each_ref().map(|text| text.as_ptr())).collect();
    properties.push([std::ptr::null(); 2]);
    let (text, properties) = (configuration.as_ptr(), properties.as_ptr());
    // The rules of DDS Security apply to the real number of a domain, so a process has at most one
    // participant with DDS Security per domain. Relaxed: the numbers only need to differ.
    let local = match place.security {
        Some(_) => place.domain,
        None => NEXT.fetch_add(1, Ordering::Relaxed),
    };
    let (mut domain, mut participant) = (0, 0);
    // SAFETY: the strings are NUL-terminated, the properties end with a pair of nulls, and both
    // numbers are writable.
    let outcome = unsafe {
        sys::stripline_dds_set_log(log);
        sys::stripline_dds_open(local, text, properties, &raw mut domain, &raw mut participant)
    };
    succeed(outcome).map_err(|e| {
        let files = place.security.as_ref();
        let files = files.map_or(String::new(), |files| format!("files in {files} that fit each other, "));
        Error::of_system(format!(
            "Cyclone DDS cannot start ({e}: {}); it needs {files}the interface `{}`, and UDP ports of domain {}: \
             {} processes of a host can use it at a time",
            lock(&PROBLEM),
            place.interface,
            place.domain,
            PARTICIPANTS_MAX + 1
        ))
    })?;
    Ok(Participant { place: place.clone(), domain, participant, ends: 0 })
}

/// Returns the bytes that the kernel lets wait in the socket of a participant, by the kernel's
/// count.
pub(crate) fn receive_buffer() -> u64 {
    // The size that Cyclone DDS requests. The kernel doubles the size that it grants.
    const ASKED: u64 = 1 << 20;
    let granted = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
    let granted = granted.and_then(|text| text.trim().parse().ok()).unwrap_or(212_992);
    2 * ASKED.min(granted)
}

/// Maps a return code to a result.
pub(super) fn succeed(code: i32) -> std::result::Result<i32, String> {
    if code >= 0 {
        return Ok(code);
    }
    // SAFETY: the function returns a constant text.
    let name = unsafe { CStr::from_ptr(sys::stripline_dds_message(code)) };
    Err(name.to_string_lossy().into_owned())
}

/// The terms that an end of a connection offers and requests: all samples, each once, from now on.
const RELIABLE: sys::Terms =
    sys::Terms { is_transient_local: 0, is_reliable: 1, depth: 0, deadline_ns: 0, write_ns: 0 };

/// The number of an end on the network.
pub(crate) type Guid = [u8; 16];

/// Events of an end, on a thread of Cyclone DDS or the thread of a writer of this process.
pub(crate) trait EndEvents: Send + Sync {
    /// Handles the event that the end has found or lost another end.
    fn matched(&self);

    /// Takes the samples that may have arrived.
    fn arrived(&self, _taker: SampleTaker) {}
}

/// An end with events.
struct DdsEnd {
    raw: sys::End,
    participant: i32,
    domain: i32,
    /// The structure to which Cyclone DDS has pointers.
    events: Option<Box<sys::Events>>,
    /// Whether the participant must outlive this end.
    lingers: AtomicBool,
    share: Option<ParticipantShare>,
}

// SAFETY: the handles are numbers, and Cyclone DDS locks the objects that they stand for. The
// context is an `Arc` of a value that several threads can use.
unsafe impl Send for DdsEnd {}
// SAFETY: as above.
unsafe impl Sync for DdsEnd {}

unsafe extern "C" fn matched<E: EndEvents>(context: *mut c_void, _end: i32) {
    // SAFETY: this is the context of the end, which lives until the end is deleted.
    let events = unsafe { &*context.cast::<E>() };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| events.matched()));
}

unsafe extern "C" fn arrived<E: EndEvents>(context: *mut c_void, end: i32) {
    // SAFETY: as above.
    let events = unsafe { &*context.cast::<E>() };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| events.arrived(SampleTaker(end))));
}

unsafe fn drop_context<E: EndEvents>(context: *mut c_void) {
    // SAFETY: the context came from `Arc::into_raw` in `OwnedEnd::new`, and is dropped once.
    drop(unsafe { Arc::from_raw(context.cast::<E>().cast_const()) });
}

/// A reader or a writer of a topic, and the receiver of the events.
pub(super) struct OwnedEnd<E: EndEvents>(DdsEnd, PhantomData<Arc<E>>);

impl<E: EndEvents> OwnedEnd<E> {
    pub(super) fn new(
        place: &DdsPlace,
        (kind, topic): (u32, &str),
        terms: &sys::Terms,
        is_reader: bool,
        events: Arc<E>,
    ) -> Result<Self> {
        let (participant, share) = participant(place)?;
        let name = CString::new(topic).map_err(|e| Error::Configuration(e.to_string()))?;
        let context = Arc::into_raw(events).cast_mut().cast();
        let events = Box::new(sys::Events { matched: matched::<E>, arrived: arrived::<E>, context });
        let mut raw = sys::End::default();
        let create =
            if is_reader { sys::stripline_dds_create_reader } else { sys::stripline_dds_create_writer };
        // SAFETY: the participant is open, the strings are NUL-terminated, and the events stay in
        // their box until the end is deleted.
        let outcome = unsafe { create(participant, kind, name.as_ptr(), terms, &*events, &raw mut raw) };
        if let Err(error) = succeed(outcome) {
            // SAFETY: no end exists that could use the context.
            unsafe { drop_context::<E>(context) };
            return Err(Error::of_system(format!("cannot make an end of the topic {topic} ({error})")));
        }
        let end = DdsEnd {
            raw,
            participant,
            domain: share.0,
            events: Some(events),
            lingers: AtomicBool::new(false),
            share: Some(share),
        };
        Ok(Self(end, PhantomData))
    }

    /// Returns the handle of the end.
    pub(super) fn end(&self) -> i32 {
        self.0.raw.end
    }

    /// Returns the handle of the end's participant.
    pub(super) fn participant(&self) -> i32 {
        self.0.participant
    }

    /// Returns the right to take samples of the end.
    pub(super) fn taker(&self) -> SampleTaker {
        SampleTaker(self.0.raw.end)
    }

    fn guid(&self) -> Result<Guid> {
        let mut guid = [0; 16];
        // SAFETY: the end is open, and the buffer has 16 bytes.
        succeed(unsafe { sys::stripline_dds_guid(self.0.raw.end, guid.as_mut_ptr()) })
            .map_err(Error::of_system)?;
        Ok(guid)
    }
}

impl<E: EndEvents> Drop for OwnedEnd<E> {
    fn drop(&mut self) {
        // Relaxed: this is the only user left.
        if self.0.lingers.load(Ordering::Relaxed) {
            // Cyclone DDS continues with the end and its participant, as long as this process
            // lives.
            std::mem::forget((self.0.share.take(), self.0.events.take()));
            return;
        }
        // SAFETY: the end is open. Once it is deleted, no event of it runs or can come.
        unsafe {
            let is_deleted = sys::stripline_dds_delete(self.0.raw.end) >= 0;
            sys::stripline_dds_delete(self.0.raw.topic);
            if let (true, Some(events)) = (is_deleted, &self.0.events) {
                drop_context::<E>(events.context);
            }
        }
    }
}

/// A writer.
pub(crate) struct WriterEnd<E: EndEvents>(OwnedEnd<E>);

impl<E: EndEvents> WriterEnd<E> {
    /// Makes the writer of a topic.
    ///
    /// # Errors
    /// Cyclone DDS lacks a resource (the error names the remedy), or this process is a child of a
    /// process that has used Cyclone DDS.
    pub(crate) fn new(topic: &str, events: Arc<E>) -> Result<Self> {
        OwnedEnd::new(&DdsPlace::connections(), (sys::FRAMES, topic), &RELIABLE, false, events).map(Self)
    }

    /// Returns the writer's number on the network.
    ///
    /// # Errors
    /// An error of Cyclone DDS.
    pub(crate) fn guid(&self) -> Result<Guid> {
        self.0.guid()
    }

    /// Returns whether the writer has found a reader.
    pub(crate) fn has_reader(&self) -> bool {
        // SAFETY: the writer is open.
        unsafe { sys::stripline_dds_matched_readers(self.0.0.raw.end) > 0 }
    }

    /// Writes a sample.
    ///
    /// # Errors
    /// An error of Cyclone DDS.
    pub(crate) fn write(&self, key: u64, number: u64, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        // SAFETY: the writer is open, and copies the bytes before it returns.
        let outcome =
            unsafe { sys::stripline_dds_write_frames(self.0.0.raw.end, key, number, bytes.as_ptr(), length) };
        succeed(outcome).map(drop).map_err(io::Error::other)
    }

    /// Lets Cyclone DDS deliver unacknowledged samples even after the drop of this end.
    pub(crate) fn linger(&self) {
        // Relaxed: the drop of this end reads it.
        self.0.0.lingers.store(true, Ordering::Relaxed);
    }
}

/// A reader.
pub(crate) struct ReaderEnd<E: EndEvents>(OwnedEnd<E>);

impl<E: EndEvents> ReaderEnd<E> {
    /// Makes the reader of a topic.
    ///
    /// # Errors
    /// The errors of [`WriterEnd::new`].
    pub(crate) fn new(topic: &str, events: Arc<E>) -> Result<Self> {
        OwnedEnd::new(&DdsPlace::connections(), (sys::FRAMES, topic), &RELIABLE, true, events).map(Self)
    }

    /// Returns a share in the reader's participant for an owner of samples, so that the samples are
    /// dropped before the participant is.
    pub(crate) fn share(&self) -> ParticipantShare {
        ParticipantShare::new(self.0.0.domain)
    }
}

/// The right to take the samples of a reader, while the reader is open.
pub(crate) struct SampleTaker(i32);

impl SampleTaker {
    /// Takes the next sample; `None`: no sample is waiting.
    pub(crate) fn take(&self) -> Option<TakenSample> {
        loop {
            let mut raw = sys::Sample {
                owner: std::ptr::null_mut(),
                bytes: std::ptr::null(),
                length: 0,
                publication: 0,
            };
            // SAFETY: the reader is open, as an event of it runs.
            match unsafe { sys::stripline_dds_take(self.0, &raw mut raw) } {
                1 => return Some(TakenSample(raw)),
                2 => {}
                _ => return None,
            }
        }
    }

    /// Returns the network number of a sample's writer, if the writer still exists.
    pub(crate) fn guid_of(&self, publication: u64) -> Option<Guid> {
        let mut guid = [0; 16];
        // SAFETY: the reader is open, and the buffer has 16 bytes.
        let outcome =
            unsafe { sys::stripline_dds_guid_of_publication(self.0, publication, guid.as_mut_ptr()) };
        (outcome >= 0).then_some(guid)
    }
}

/// A sample that was taken.
pub(crate) struct TakenSample(sys::Sample);

// SAFETY: Cyclone DDS counts users of a sample with atomics, and does not change it any more.
unsafe impl Send for TakenSample {}

impl TakenSample {
    /// Returns the sample's serialised form: four bytes that name the encoding, and the fields.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the sample has this number of bytes, which live until it is released.
        unsafe { std::slice::from_raw_parts(self.0.bytes, self.0.length) }
    }

    /// Returns the writer of the sample, as a number of the reader.
    pub(crate) fn publication(&self) -> u64 {
        self.0.publication
    }
}

impl Drop for TakenSample {
    fn drop(&mut self) {
        // SAFETY: the sample was taken, and is released once.
        unsafe { sys::stripline_dds_release(&raw mut self.0) }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use stripline::carrier::own_process::in_own_process;

    struct Silent;

    impl EndEvents for Silent {
        fn matched(&self) {}
    }

    #[test]
    fn a_lack_of_descriptors_is_an_error_and_nothing_aborts() {
        let test = "dds::ends::tests::a_lack_of_descriptors_is_an_error_and_nothing_aborts";
        in_own_process(test, "none", run_out);
        in_own_process(test, "too large", use_up_the_small_numbers);
    }

    /// Makes an end with more and more free descriptors.
    fn run_out() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let mut outcomes = Vec::new();
        for limit in 8..64 {
            setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
            let made = WriterEnd::new("stripline_1", Arc::new(Silent));
            if let Err(error) = &made {
                assert!(error.to_string().contains("`ulimit -n`"), "{limit}: {error}");
            }
            outcomes.push(made.is_ok());
        }
        assert_eq!((outcomes.first(), outcomes.last()), (Some(&false), Some(&true)));
    }

    /// Makes an end when all small numbers of descriptors are taken, and when they are free again.
    fn use_up_the_small_numbers() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        let taken: Vec<_> = (0..1100).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect();
        let error = WriterEnd::new("stripline_1", Arc::new(Silent)).err().unwrap().to_string();
        assert!(error.contains("below 1024"), "{error}");
        drop(taken);
        WriterEnd::new("stripline_1", Arc::new(Silent)).unwrap();
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
        let place = |domain, interface: &str, peers: &[&str]| {
            let peers = peers.iter().map(|peer| (*peer).into()).collect();
            DdsPlace { domain, interface: interface.into(), peers, security: None }.check()
        };
        assert_eq!(place(232, "lo", &["192.0.2.7", "fe80::1"]), Ok(()));
        assert!(place(233, "lo", &[]).unwrap_err().contains("232"));
        for word in ["", "\"/>", "a b", "<"] {
            assert!(place(0, word, &[]).unwrap_err().contains("neither an interface"), "{word}");
            assert!(place(0, "lo", &[word]).unwrap_err().contains("neither an interface"), "{word}");
        }
    }
}
