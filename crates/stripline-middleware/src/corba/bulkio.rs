//! Data ports of BulkIO over omniORB: [`BulkioInput`] is a provides port, [`BulkioOutput`] a uses
//! port. While an input has no room, calls of other programs wait. The wait is the flow control of
//! BulkIO.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stripline_corba_sys::{Text, bulkio as ffi};

use stripline::StreamInfo;
use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::{Error, Result};

use crate::corba::orb::{OrbMessage, caught};
use crate::wire::bulkio::{BulkioSri, BulkioTime, BulkioType, BulkioValue};

/// The maximum number of packets that wait at an input. Further calls wait.
const PACKETS_MAX: usize = 8;
/// The maximum number of open streams of an input.
const STREAMS_MAX: usize = 1000;
/// The maximum size of a reference, in bytes.
const REFERENCE_MAX: usize = 64 * 1024;

/// The answer to a call of another program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answer {
    Taken,
    Refused,
    /// The port has ended, or the code that takes the call has panicked.
    #[default]
    Ended,
}

/// Returns the text of a reference: `text` itself, or the content of the file with that name.
fn reference_of(text: &str) -> Result<CString> {
    let is_reference = ["IOR:", "corbaloc:", "corbaname:"].iter().any(|prefix| text.starts_with(prefix));
    let read = if is_reference {
        text.to_owned()
    } else {
        let file = std::fs::read(text)
            .map_err(|e| Error::system(format!("cannot read the reference in {text}"), e))?;
        let read = String::from_utf8(file).ok().map(|read| read.trim().to_owned());
        read.filter(|read| read.starts_with("IOR:") || read.starts_with("corba"))
            .ok_or_else(|| Error::Configuration(format!("{text} has no object reference, as IOR:…")))?
    };
    if read.len() > REFERENCE_MAX {
        return Err(Error::Configuration(format!("the reference {text} has {} bytes", read.len())));
    }
    CString::new(read).map_err(|e| Error::Configuration(e.to_string()))
}

/// Returns a string for C++, without zero bytes, which would end the string.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Returns a problem of omniORB, with a possible cause.
fn explained(problem: &OrbMessage) -> String {
    let problem = problem.to_string();
    let hint = match &problem {
        it if it.contains("NoUsableProfile") => {
            "; its address belongs to no available transport, or to another host without `insecure`"
        }
        it if it.contains("ConnectFailed") => "; nothing listens there: start its program first",
        it if it.contains("TIMEOUT") || it.contains("CallTimedout") => "; its program does not answer",
        it if it.contains("INV_OBJREF") || it.contains("BAD_PARAM") || it.contains("MARSHAL") => {
            "; it is not an object reference: is it complete?"
        }
        it if it.contains("OBJECT_NOT_EXIST") || it.contains("NoMatch") => "; its object has ended",
        it if it == "NotFound" => ": the naming service has no such name",
        _ => "",
    };
    problem + hint
}

/// A port on the C++ side, which ends when it is dropped. A child of a fork does not end it.
type OwnPort = Arc<Local<Port>>;

struct Port(NonNull<c_void>);

// SAFETY: the C++ side counts references atomically, and any thread may call the functions.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

impl Port {
    fn pointer(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    fn reference(&self) -> Result<String> {
        let mut bytes = vec![0_u8; REFERENCE_MAX];
        let mut problem = OrbMessage::default();
        let into = Text { start: bytes.as_mut_ptr().cast(), size: bytes.len() };
        // SAFETY: the port is active, and the buffer has the given size.
        if unsafe { ffi::stripline_bulkio_reference(self.pointer(), into, problem.text()) } != 0 {
            return Err(Error::of_system(format!("omniORB makes no reference: {problem}")));
        }
        let text = CStr::from_bytes_until_nul(&bytes).map_err(Error::of_system)?;
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Publishes the reference of a port in the file `file`, and under the name `name`, as
/// `corbaname:…#…`. An empty text publishes nothing.
fn publish(port: &OwnPort, file: &str, name: &str) -> Result<PublishedReference> {
    let mut published = PublishedReference { port: Arc::clone(port), file: None, name: None };
    if !name.is_empty() {
        let text = CString::new(name).map_err(|e| Error::Configuration(e.to_string()))?;
        let mut problem = OrbMessage::default();
        // SAFETY: the port is active, and the string is NUL-terminated.
        match unsafe { ffi::stripline_bulkio_bind(port.pointer(), text.as_ptr(), problem.text()) } {
            0 => published.name = Some(text),
            1 => {
                return Err(Error::Configuration(format!("{name} is the name of another object that lives")));
            }
            _ => return Err(Error::of_system(format!("{name} gets no object: {}", explained(&problem)))),
        }
    }
    if !file.is_empty() {
        let path = PathBuf::from(file);
        let reference = port.reference()?;
        write_whole(&path, &reference).map_err(|e| Error::system(format!("cannot write {file}"), e))?;
        published.file = Some((path, reference));
    }
    Ok(published)
}

/// Writes a file that readers see whole or not at all.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&unfinished);
    })
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the port is active, and is not used after this call.
        unsafe { ffi::stripline_bulkio_end(self.pointer()) };
    }
}

/// A published reference, which is withdrawn when it is dropped.
pub struct PublishedReference {
    port: OwnPort,
    file: Option<(PathBuf, String)>,
    name: Option<CString>,
}

impl Drop for PublishedReference {
    fn drop(&mut self) {
        if let Some((path, reference)) = &self.file
            && std::fs::read_to_string(path).is_ok_and(|read| read == *reference)
        {
            let _ = std::fs::remove_file(path);
        }
        if let Some(name) = &self.name {
            // SAFETY: the port is active, and the string is NUL-terminated.
            unsafe { ffi::stripline_bulkio_unbind(self.port.pointer(), name.as_ptr()) };
        }
    }
}

/// A packet from another program.
#[derive(Debug)]
pub struct BulkioPacket {
    /// The description of the stream. All packets share it until another description arrives.
    pub stream: Arc<StreamInfo>,
    /// Whole samples in this host's order.
    pub bytes: Vec<u8>,
    /// Nanoseconds since 1970; `None`: unknown.
    pub time_ns: Option<i64>,
    /// Whether the stream ends with this packet.
    pub ends: bool,
}

/// A provides port, to which other programs push.
pub struct BulkioInput {
    port: OwnPort,
    shared: Arc<InputShared>,
}

/// The part that calls and the receiver share.
struct InputShared {
    name: String,
    kind: BulkioType,
    is_complex: bool,
    state: Mutex<InputState>,
    arrived: Condvar,
    has_room: Condvar,
}

#[derive(Default)]
struct InputState {
    streams: HashMap<String, Arc<StreamInfo>>,
    packets: VecDeque<BulkioPacket>,
    /// Memory of packets that were taken, for reuse.
    kept: Vec<Vec<u8>>,
    /// The number of refused calls.
    refused: u64,
    is_ended: bool,
}

impl InputShared {
    /// Counts a fault of a peer. Any program may call, so only the first fault is logged.
    fn refuse(&self, state: &mut InputState, problem: &str) -> Answer {
        state.refused += 1;
        if state.refused == 1 {
            log::warn!(
                target: "stripline::bulkio",
                "{}: a call is refused: {problem}; further ones are counted", self.name
            );
        }
        Answer::Refused
    }

    fn take_stream(&self, sri: &BulkioSri) -> Answer {
        let mut state = lock(&self.state);
        if state.is_ended {
            return Answer::Ended;
        }
        self.describe(&mut state, sri)
    }

    fn describe(&self, state: &mut InputState, sri: &BulkioSri) -> Answer {
        let info = match sri.parse(self.is_complex) {
            Ok(info) => info,
            Err(problem) => return self.refuse(state, &problem),
        };
        match state.streams.get(&info.id) {
            Some(known) if **known == info => {}
            None if state.streams.len() >= STREAMS_MAX => {
                return self.refuse(state, &format!("there are {STREAMS_MAX} streams that have not ended"));
            }
            _ => drop(state.streams.insert(info.id.clone(), Arc::new(info))),
        }
        Answer::Taken
    }

    /// Takes a packet. Waits until there is room for it.
    fn take_packet(&self, name: &str, bytes: &[u8], time: BulkioTime, ends: bool) -> Answer {
        let mut state = lock(&self.state);
        let sample_bytes = self.kind.element_bytes() * if self.is_complex { 2 } else { 1 };
        if !bytes.len().is_multiple_of(sample_bytes) {
            let elements = bytes.len() / self.kind.element_bytes();
            let problem = format!("a packet has {elements} elements: a complex sample has two");
            return self.refuse(&mut state, &problem);
        }
        if !state.streams.contains_key(name) {
            let answer = self.describe(&mut state, &BulkioSri::unknown(name, self.is_complex));
            if answer != Answer::Taken {
                return answer;
            }
        }
        while state.packets.len() >= PACKETS_MAX && !state.is_ended {
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_ended {
            return Answer::Ended;
        }
        let stream = match ends {
            true => state.streams.remove(name),
            false => state.streams.get(name).cloned(),
        };
        // Another connection may have ended the stream already.
        let Some(stream) = stream else { return self.refuse(&mut state, "the stream of a packet has ended") };
        let mut kept = state.kept.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(bytes);
        state.packets.push_back(BulkioPacket { stream, bytes: kept, time_ns: time.time_ns(), ends });
        drop(state);
        self.arrived.notify_one();
        Answer::Taken
    }
}

impl BulkioInput {
    /// Makes a provides port for samples with elements of type `kind`. `name` is the object key.
    ///
    /// # Errors
    /// The ORB does not run, or has an object with that name.
    pub fn new(name: &str, kind: BulkioType, is_complex: bool) -> Result<Self> {
        let shared = Arc::new(InputShared {
            name: name.into(),
            kind,
            is_complex,
            state: Mutex::default(),
            arrived: Condvar::new(),
            has_room: Condvar::new(),
        });
        let receiver =
            ffi::PushReceiver { stream: take_stream, packet: take_packet, fill, ended: ended::<InputShared> };
        let object = CString::new(name).map_err(|e| Error::InvalidArgument(e.to_string()))?;
        let context = Arc::into_raw(Arc::clone(&shared));
        let mut problem = OrbMessage::default();
        // SAFETY: the functions are copied, and match the context, which they use until `ended`
        // releases it. The place of this port was opened, so the ORB runs.
        let port = unsafe {
            let context = context.cast_mut().cast();
            ffi::stripline_bulkio_provide(kind as c_int, object.as_ptr(), &receiver, context, problem.text())
        };
        let port = own_port(port, context, &problem)?;
        Ok(Self { port, shared })
    }

    /// Publishes the port's reference in the file `file`, and under the name `name`, as
    /// `corbaname:…#…`. An empty text publishes nothing.
    ///
    /// # Errors
    /// The file cannot be written, or the naming service does not answer, or has another object
    /// under that name.
    pub fn publish(&self, file: &str, name: &str) -> Result<PublishedReference> {
        publish(&self.port, file, name)
    }

    /// Connects the uses port of a reference, or of a file with a reference, to this port.
    ///
    /// # Errors
    /// The object is not a uses port, does not answer, or refuses.
    pub fn connect_to(&self, reference: &str, connection: &str) -> Result<ForeignConnection> {
        let text = reference_of(reference)?;
        let name = c_text(connection);
        let mut problem = OrbMessage::default();
        // SAFETY: the port is active, and the strings are NUL-terminated.
        let outcome = unsafe {
            let port = self.port.pointer();
            ffi::stripline_bulkio_connect_to(port, text.as_ptr(), name.as_ptr(), problem.text())
        };
        match outcome {
            0 => Ok(ForeignConnection { reference: text, connection: name }),
            _ => Err(Error::of_system(format!(
                "{} is not connected: {}",
                short(reference),
                explained(&problem)
            ))),
        }
    }

    /// Takes the next packet; `None`: no packet arrived within `longest`.
    pub fn receive(&self, longest: Duration) -> Option<BulkioPacket> {
        let until = Instant::now() + longest;
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(packet) = state.packets.pop_front() {
                drop(state);
                // Calls of several connections may wait.
                self.shared.has_room.notify_all();
                return Some(packet);
            }
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return None;
            }
            state = self.shared.arrived.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Disconnects the uses port of another program. Packets that arrive during the call are
    /// dropped, because the other program may wait in a call. Returns the number of dropped
    /// packets.
    pub fn disconnect(&self, connection: ForeignConnection) -> usize {
        let mut dropped = 0;
        std::thread::scope(|scope| {
            let disconnecting = std::thread::Builder::new().spawn_scoped(scope, || drop(connection));
            // If no thread starts, the connection has been dropped with the closure.
            while disconnecting.as_ref().is_ok_and(|thread| !thread.is_finished()) {
                dropped += usize::from(self.receive(Duration::from_millis(5)).is_some());
            }
        });
        dropped
    }

    /// Gives back the memory of a packet, for reuse.
    pub fn recycle(&self, packet: BulkioPacket) {
        let mut state = lock(&self.shared.state);
        if state.kept.len() < PACKETS_MAX {
            state.kept.push(packet.bytes);
        }
    }
}

impl Drop for BulkioInput {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_ended = true;
        let (waiting, refused) = (state.packets.len(), state.refused);
        drop(state);
        self.shared.has_room.notify_all();
        let name = &self.shared.name;
        if refused > 0 {
            log::warn!(target: "stripline::bulkio", "{name}: {refused} calls were refused");
        }
        if waiting > 0 {
            log::warn!(target: "stripline::bulkio", "{name}: {waiting} packets had come and were not sent on");
        }
    }
}

/// A connection of another program's uses port to an input. Dropping it disconnects the port.
pub struct ForeignConnection {
    reference: CString,
    connection: CString,
}

impl Drop for ForeignConnection {
    fn drop(&mut self) {
        let mut problem = OrbMessage::default();
        let (reference, connection) = (self.reference.as_ptr(), self.connection.as_ptr());
        // SAFETY: the strings are NUL-terminated.
        if unsafe { ffi::stripline_bulkio_disconnect_from(reference, connection, problem.text()) } != 0 {
            log::warn!(
                target: "stripline::bulkio",
                "{} is not disconnected: {}", self.connection.to_string_lossy(), explained(&problem)
            );
        }
    }
}

/// A uses port, which pushes to other programs.
pub struct BulkioOutput {
    port: OwnPort,
    kind: BulkioType,
}

impl BulkioOutput {
    /// Makes a uses port for elements of type `kind`. `name` is the object key.
    ///
    /// # Errors
    /// The errors of [`BulkioInput::new`].
    pub fn new(name: &str, kind: BulkioType) -> Result<Self> {
        let events = ffi::Events { connected, disconnected, ended: ended::<String> };
        let object = CString::new(name).map_err(|e| Error::InvalidArgument(e.to_string()))?;
        let context = Arc::into_raw(Arc::new(name.to_owned()));
        let mut problem = OrbMessage::default();
        // SAFETY: as in `BulkioInput::new`.
        let port = unsafe {
            let context = context.cast_mut().cast();
            ffi::stripline_bulkio_use(kind as c_int, object.as_ptr(), &events, context, problem.text())
        };
        Ok(Self { port: own_port(port, context, &problem)?, kind })
    }

    /// Publishes the port's reference like [`BulkioInput::publish`].
    ///
    /// # Errors
    /// The errors of [`BulkioInput::publish`].
    pub fn publish(&self, file: &str, name: &str) -> Result<PublishedReference> {
        publish(&self.port, file, name)
    }

    /// Connects the port to the provides port of a reference, or of a file with a reference.
    ///
    /// # Errors
    /// The other port has another type or does not answer, or the name of the connection is taken.
    pub fn connect(&self, reference: &str, connection: &str) -> Result<()> {
        let text = reference_of(reference)?;
        let name = c_text(connection);
        let mut problem = OrbMessage::default();
        // SAFETY: the port is active, and the strings are NUL-terminated.
        let outcome = unsafe {
            let port = self.port.pointer();
            ffi::stripline_bulkio_connect(port, text.as_ptr(), name.as_ptr(), problem.text())
        };
        match outcome {
            0 => Ok(()),
            _ => Err(Error::of_system(format!(
                "{} is not connected: {}",
                short(reference),
                explained(&problem)
            ))),
        }
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        // SAFETY: the port is active.
        unsafe { ffi::stripline_bulkio_connections(self.port.pointer()) }
    }

    /// Sets the description of a stream. The description is sent before the stream's next packet.
    ///
    /// # Errors
    /// An error of omniORB.
    pub fn set_stream(&self, sri: &BulkioSri) -> Result<()> {
        let names: Vec<_> = sri.keywords.iter().map(|(name, _)| c_text(name)).collect();
        let text = |value: &BulkioValue| c_text(if let BulkioValue::Text(text) = value { text } else { "" });
        let texts: Vec<_> = sri.keywords.iter().map(|(_, value)| text(value)).collect();
        let keywords: Vec<_> = std::iter::zip(&names, &texts)
            .zip(&sri.keywords)
            .map(|((name, text), (_, value))| {
                let (kind, number, whole) = match value {
                    BulkioValue::Number(number) => (ffi::NUMBER, *number, 0),
                    BulkioValue::Whole(whole) => (ffi::WHOLE, 0.0, *whole),
                    BulkioValue::Truth(truth) => (ffi::TRUTH, 0.0, i64::from(*truth)),
                    BulkioValue::Text(_) => (ffi::TEXT, 0.0, 0),
                };
                ffi::Keyword { name: name.as_ptr(), text: text.as_ptr(), number, whole, kind }
            })
            .collect();
        let stream = c_text(&sri.stream);
        let raw = ffi::Sri {
            stream: stream.as_ptr(),
            keywords: keywords.as_ptr(),
            keyword_count: keywords.len(),
            xstart: sri.xstart,
            xdelta: sri.xdelta,
            ystart: sri.ystart,
            ydelta: sri.ydelta,
            subsize: sri.subsize,
            xunits: sri.xunits,
            yunits: sri.yunits,
            mode: sri.mode,
            // A receiver that has no room makes this process wait.
            blocking: 1,
        };
        let mut problem = OrbMessage::default();
        // SAFETY: the port is active. All that the structure points to lives through the call,
        // which copies it.
        match unsafe { ffi::stripline_bulkio_push_sri(self.port.pointer(), &raw, problem.text()) } {
            0 => Ok(()),
            _ => Err(Error::of_system(format!("omniORB takes no description: {problem}"))),
        }
    }

    /// Pushes whole elements to each connection, and waits until each has taken them. Returns the
    /// number of connections that have. Called by one thread at a time.
    ///
    /// # Errors
    /// [`Error::Stopped`] once pushing was ended, or an error of omniORB.
    pub fn push(&self, stream: &str, samples: &[u8], time: BulkioTime, ends: bool) -> Result<usize> {
        let stream = c_text(stream);
        let elements = samples.len() / self.kind.element_bytes();
        let BulkioTime { mode, status, offset, whole, fraction } = time;
        let time = ffi::Time { offset, whole, fraction, mode, status };
        let mut problem = OrbMessage::default();
        // SAFETY: the port is active, and the samples have the given number of elements. All
        // arguments live through the call.
        let taken = unsafe {
            let (port, start) = (self.port.pointer(), samples.as_ptr());
            let (stream, ends) = (stream.as_ptr(), c_int::from(ends));
            ffi::stripline_bulkio_push_packet(port, stream, start, elements, &time, ends, problem.text())
        };
        match usize::try_from(taken) {
            Ok(taken) => Ok(taken),
            Err(_) if problem.is_empty() => Err(Error::Stopped),
            Err(_) => Err(Error::of_system(format!("omniORB takes no packet: {problem}"))),
        }
    }

    /// Ends pushing: a waiting call fails at once, and later calls fail. Any thread may call it.
    pub fn end_pushing(&self) {
        // SAFETY: the port is active.
        unsafe { ffi::stripline_bulkio_end_pushing(self.port.pointer()) };
    }
}

/// Returns the beginning of a reference, which may be long.
fn short(reference: &str) -> String {
    match reference.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &reference[..end]),
        None => reference.into(),
    }
}

/// Returns the port that the C++ side has made. If there is no port, the context is released.
fn own_port<T>(port: *mut c_void, context: *const T, problem: &OrbMessage) -> Result<OwnPort> {
    match NonNull::new(port) {
        Some(port) => Ok(Arc::new(Local::new(Port(port)))),
        None => {
            // SAFETY: the caller has leaked the context, and `ended` was not called.
            drop(unsafe { Arc::from_raw(context) });
            Err(Error::of_system(format!("omniORB has no place for a port: {problem}")))
        }
    }
}

/// Copies a string from the C++ side. Returns an empty string for null.
///
/// # Safety
/// The caller must pass null or a NUL-terminated string.
unsafe fn copied(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees the zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Takes the description of a stream.
///
/// # Safety
/// The caller must pass the context of [`BulkioInput::new`], and a readable description.
unsafe extern "C" fn take_stream(context: *mut c_void, sri: *const ffi::Sri) -> c_int {
    // SAFETY: the port keeps the context until `ended`. The caller guarantees the rest.
    let (shared, raw) = unsafe { (&*context.cast::<InputShared>(), &*sri) };
    caught(|| {
        let keywords = match raw.keyword_count {
            0 => &[][..],
            // SAFETY: the description has this number of keywords.
            count => unsafe { std::slice::from_raw_parts(raw.keywords, count) },
        };
        let keyword = |keyword: &ffi::Keyword| {
            let value = match keyword.kind {
                ffi::NUMBER => BulkioValue::Number(keyword.number),
                ffi::TRUTH => BulkioValue::Truth(keyword.whole != 0),
                // SAFETY: the string is NUL-terminated.
                ffi::TEXT => BulkioValue::Text(unsafe { copied(keyword.text) }),
                _ => BulkioValue::Whole(keyword.whole),
            };
            // SAFETY: as above.
            (unsafe { copied(keyword.name) }, value)
        };
        shared.take_stream(&BulkioSri {
            // SAFETY: as above.
            stream: unsafe { copied(raw.stream) },
            xstart: raw.xstart,
            xdelta: raw.xdelta,
            xunits: raw.xunits,
            subsize: raw.subsize,
            ystart: raw.ystart,
            ydelta: raw.ydelta,
            yunits: raw.yunits,
            mode: raw.mode,
            keywords: keywords.iter().map(keyword).collect(),
        })
    }) as c_int
}

/// Takes a packet.
///
/// # Safety
/// The caller must meet the conditions of [`take_stream`]. In addition, `bytes` must be null or
/// point to `elements` elements.
unsafe extern "C" fn take_packet(
    context: *mut c_void,
    stream: *const c_char,
    bytes: *const u8,
    elements: usize,
    time: *const ffi::Time,
    ends: c_int,
) -> c_int {
    // SAFETY: as in `take_stream`.
    let (shared, time) = unsafe { (&*context.cast::<InputShared>(), &*time) };
    caught(|| {
        let bytes = match bytes.is_null() {
            true => &[][..],
            // SAFETY: the caller guarantees the number of elements.
            false => unsafe { std::slice::from_raw_parts(bytes, elements * shared.kind.element_bytes()) },
        };
        let ffi::Time { offset, whole, fraction, mode, status } = *time;
        // SAFETY: the string is NUL-terminated.
        let stream = unsafe { copied(stream) };
        shared.take_packet(&stream, bytes, BulkioTime { mode, status, offset, whole, fraction }, ends != 0)
    }) as c_int
}

/// Returns the fill level of the queue, from 0 to 1.
///
/// # Safety
/// The caller must pass the context of [`BulkioInput::new`].
unsafe extern "C" fn fill(context: *mut c_void) -> f64 {
    // SAFETY: as in `take_stream`.
    let shared = unsafe { &*context.cast::<InputShared>() };
    caught(|| lock(&shared.state).packets.len() as f64 / PACKETS_MAX as f64)
}

/// Releases a context.
///
/// # Safety
/// The caller must pass the context of a port, and must not use it afterwards.
unsafe extern "C" fn ended<T>(context: *mut c_void) {
    // SAFETY: this is the last use of the leaked context.
    caught(|| drop(unsafe { Arc::from_raw(context.cast::<T>()) }));
}

/// Logs a connection.
///
/// # Safety
/// The caller must pass the context of [`BulkioOutput::new`], and a NUL-terminated string.
unsafe extern "C" fn connected(context: *mut c_void, connection: *const c_char) {
    // SAFETY: as in `take_stream`.
    let (name, connection) = unsafe { (&*context.cast::<String>(), copied(connection)) };
    caught(|| log::info!(target: "stripline::bulkio", "{name}: `{connection}` is connected"));
}

/// Logs the end of a connection.
///
/// # Safety
/// The caller must meet the conditions of [`connected`], for both strings.
unsafe extern "C" fn disconnected(context: *mut c_void, connection: *const c_char, reason: *const c_char) {
    // SAFETY: as in `take_stream`.
    let (name, connection, reason) =
        unsafe { (&*context.cast::<String>(), copied(connection), copied(reason)) };
    caught(|| match reason.is_empty() {
        true => log::info!(target: "stripline::bulkio", "{name}: `{connection}` is disconnected"),
        false => log::warn!(
            target: "stripline::bulkio",
            "{name}: `{connection}` has failed and is disconnected: {reason}"
        ),
    });
}

#[cfg(test)]
mod tests;
