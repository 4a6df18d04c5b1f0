//! The socket of `gr-zeromq-source` or `gr-zeromq-sink`.

use std::cell::Cell;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use stripline::component::{Properties, StopSignal};
use stripline::{Error, Result};

use super::curve::{Admission, CurveFiles};
use crate::components::ends::Setup;
use crate::components::properties::{STOP_CHECK, is_this_host, names_messages, refusal};
use crate::system::check_descriptors;

/// The time for sent messages to leave this process.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time for sent messages to leave this process after the component must stop.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of descriptors of a context and a socket with its connection.
const DESCRIPTORS: usize = 20;
/// The maximum size of a received message in bytes, which is the maximum size of a packet.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// The maximum number of parts of a received message.
const PARTS_MAX: usize = 65_536;

/// The choices of `pattern`.
pub(super) const PUSH_PULL: &str = "push-pull";
pub(super) const PUB_SUB: &str = "pub-sub";

/// A socket, with the settings for the messages.
pub(super) struct Peer {
    socket: zmq::Socket,
    /// With CURVE: the socket that receives a message for each peer that failed to connect.
    failures: Option<zmq::Socket>,
    /// Whether a failure was logged as a warning: a failing peer tries again several times a
    /// second.
    has_logged: Cell<bool>,
    /// The admission of peers, which must be dropped after the socket.
    _admission: Option<Admission>,
    address: String,
    is_pub_sub: bool,
    key: Vec<u8>,
    pub has_tags: bool,
    pub vlen: u64,
    stop: StopSignal,
}

/// Returns whether the libzmq of this program has CURVE.
pub(super) fn has_curve() -> bool {
    zmq::has("curve").unwrap_or(false)
}

/// Checks the properties without a socket.
pub(super) fn check(properties: &Properties, has_curve: bool) -> Result<()> {
    let curve = CurveFiles::of(properties, has_curve)?;
    check_messages(properties, names_messages(properties))?;
    let (address, pattern) = (properties.text("address"), properties.text("pattern"));
    let host = match address.split_once("://") {
        Some(("ipc", path)) if !path.is_empty() => None,
        Some(("tcp", place)) => match place.rsplit_once(':') {
            Some((host, port)) if port == "*" || port.parse::<u16>().is_ok() => Some(host),
            _ => {
                let problem = format!("`{address}` has no port");
                return Err(refusal("address", problem, "end it as in tcp://127.0.0.1:5555"));
            }
        },
        _ => {
            let problem = format!("`{address}` is not an address for ZeroMQ");
            return Err(refusal("address", problem, "use tcp://HOST:PORT or ipc://PATH"));
        }
    };
    if !host.is_none_or(is_this_host) && curve.is_none() && !properties.boolean("insecure") {
        let problem = format!("`{address}` can leave this host, without authentication or encryption");
        let remedy =
            "use 127.0.0.1 or ipc://, or CURVE (`curve_keys`, `curve_peers`), or set `insecure` to true";
        return Err(refusal("address", problem, remedy));
    }
    if pattern != PUB_SUB && !properties.text("key").is_empty() {
        let problem = "`key` is set, and push-pull has none";
        return Err(refusal("key", problem, "leave it empty, or use pub-sub"));
    }
    Ok(())
}

/// Checks that tags and items, which belong to samples, are not set for messages.
fn check_messages(properties: &Properties, has_messages: bool) -> Result<()> {
    for (property, is_set) in [("tags", properties.boolean("tags")), ("vlen", properties.count("vlen") > 1)] {
        if has_messages && is_set {
            let problem = format!("messages have no samples, and `{property}` is for samples");
            return Err(refusal(property, problem, &format!("leave `{property}` out")));
        }
    }
    Ok(())
}

impl Peer {
    /// Opens a socket of one of two kinds, for push-pull or for pub-sub.
    pub fn open(setup: &Setup<'_>, kinds: [zmq::SocketType; 2]) -> Result<Self> {
        let Setup { properties, payload, ports, .. } = *setup;
        check_messages(properties, payload.is_message())?;
        check_descriptors("ZeroMQ", DESCRIPTORS)?;
        let address = properties.text("address").to_owned();
        let [push_pull, pub_sub] = kinds;
        let kind = if properties.text("pattern") == PUB_SUB { pub_sub } else { push_pull };
        let key = properties.text("key").as_bytes().to_vec();
        let binds = properties.boolean("bind");
        let failed = |error: zmq::Error| {
            let action = if binds { "bind" } else { "connect to" };
            Error::system(format!("cannot {action} {address}"), std::io::Error::from(error))
        };
        let context = zmq::Context::new();
        let socket = context.socket(kind).map_err(failed)?;
        socket.set_linger(0).map_err(failed)?;
        if kind == zmq::SUB {
            socket.set_subscribe(&key).map_err(failed)?;
        }
        let (mut failures, mut admission) = (None, None);
        if let Some(curve) = CurveFiles::of(properties, has_curve())? {
            failures = Some(watch_failures(&context, &socket).map_err(failed)?);
            admission = curve.secure(&context, &socket, binds)?;
        }
        let peer = Self {
            socket,
            failures,
            has_logged: Cell::new(false),
            _admission: admission,
            address: address.clone(),
            is_pub_sub: kind == pub_sub,
            key,
            has_tags: properties.boolean("tags"),
            vlen: properties.count("vlen"),
            stop: ports.stop_signal(),
        };
        if binds { peer.socket.bind(&address) } else { peer.socket.connect(&address) }.map_err(failed)?;
        Ok(peer)
    }

    /// Receives all parts of a message, without the key.
    ///
    /// # Errors
    /// [`Error::Stopped`], within some milliseconds. The parts do not fit the properties.
    pub fn receive(&self) -> Result<Vec<zmq::Message>> {
        loop {
            self.wait(zmq::POLLIN)?;
            let mut parts = Vec::with_capacity(1);
            let mut bytes = 0;
            loop {
                let part = self.socket.recv_msg(0).map_err(|error| self.failed("receive", error))?;
                let has_more = part.get_more();
                bytes += part.len();
                if bytes > MESSAGE_BYTES_MAX || parts.len() == PARTS_MAX {
                    return Err(self.misbehaves(format!(
                        "sent a message of more than {PARTS_MAX} parts or {MESSAGE_BYTES_MAX} bytes; send smaller ones"
                    )));
                }
                parts.push(part);
                if !has_more {
                    break;
                }
            }
            if self.take_key(&mut parts)? {
                return Ok(parts);
            }
        }
    }

    /// Removes the key from the parts of a message. Returns false if the message has another key.
    fn take_key(&self, parts: &mut Vec<zmq::Message>) -> Result<bool> {
        match (self.key.is_empty(), parts.len()) {
            (true, 1) => Ok(true),
            (true, count) if self.is_pub_sub => Err(self.misbehaves(format!(
                "sends messages of {count} parts, and the first can be a key; set `key` to it, or send one part"
            ))),
            (true, _) => Ok(true),
            (false, 1) => Err(self.misbehaves(
                "sends messages of one part, and a key is a part of its own; leave `key` empty, or set it in the block",
            )),
            // ZeroMQ delivers all keys that begin with the subscribed key.
            (false, _) => Ok(parts.remove(0)[..] == self.key[..]),
        }
    }

    /// Sends a message after the key, and waits for space in the queue.
    ///
    /// # Errors
    /// [`Error::Stopped`], within some milliseconds.
    pub fn send(&self, message: Vec<u8>) -> Result<()> {
        self.wait(zmq::POLLOUT)?;
        let send = || {
            if !self.key.is_empty() {
                self.socket.send(&self.key, zmq::SNDMORE)?;
            }
            self.socket.send(message, 0)
        };
        send().map_err(|error| self.failed("send", error))
    }

    /// Closes the socket. Sent messages have ten seconds to leave this process, and one second once
    /// the component must stop: a peer that does not read must not block the end.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn finish(self) -> Result<()> {
        let linger = TIMEOUT.as_millis() as i32;
        self.socket.set_linger(linger).map_err(|error| self.failed("end", error))?;
        let (address, stop) = (self.address.clone(), self.stop.clone());
        // Dropping the socket waits and cannot be interrupted, so it runs on a thread.
        let (ended, end) = std::sync::mpsc::channel();
        let close = move || {
            drop(self);
            let _ = ended.send(());
        };
        let spawned = std::thread::Builder::new().name("gr-zeromq-end".into()).spawn(close);
        spawned.map_err(|e| Error::not_started("cannot start a thread", e))?;
        let mut until = None;
        while end.recv_timeout(STOP_CHECK) == Err(RecvTimeoutError::Timeout) {
            if stop.is_stopped()
                && Instant::now() > *until.get_or_insert_with(|| Instant::now() + STOPPED_TIMEOUT)
            {
                log::warn!(target: "stripline::gr-zeromq", "packets that {address} had not taken are lost");
                break;
            }
        }
        Ok(())
    }

    /// Returns an error for wrong messages of the flowgraph.
    pub fn misbehaves(&self, violation: impl ToString) -> Error {
        Error::PeerMisbehaved { peer: self.address.clone(), violation: violation.to_string() }
    }

    fn wait(&self, events: zmq::PollEvents) -> Result<()> {
        loop {
            if self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            self.report_failures();
            match self.socket.poll(events, STOP_CHECK.as_millis() as i64) {
                Ok(0) | Err(zmq::Error::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.failed("wait", error)),
            }
        }
    }

    fn failed(&self, doing: &str, error: zmq::Error) -> Error {
        Error::system(format!("cannot {doing} at {}", self.address), std::io::Error::from(error))
    }

    /// Logs the peers that failed to connect. The first failure is logged as a warning.
    fn report_failures(&self) {
        while let Some(Ok(_)) = self.failures.as_ref().map(|failures| failures.recv_multipart(zmq::DONTWAIT))
        {
            let level = if self.has_logged.replace(true) { log::Level::Debug } else { log::Level::Warn };
            log::log!(
                target: "stripline::gr-zeromq",
                level,
                "a peer at {} has failed to connect; are `curve_keys` and `curve_peers` the keys of both ends?",
                self.address
            );
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.failures.is_some() {
            // Replace the monitor by one without events. Otherwise, the thread of libzmq would wait
            // for a reader.
            let _ = self.socket.monitor("inproc://no-failures", 0);
        }
    }
}

/// Returns a socket that receives a message for each peer that fails to connect to `socket`.
fn watch_failures(context: &zmq::Context, socket: &zmq::Socket) -> zmq::Result<zmq::Socket> {
    use zmq::SocketEvent;
    const PLACE: &str = "inproc://failures";
    let events = [
        SocketEvent::HANDSHAKE_FAILED_NO_DETAIL,
        SocketEvent::HANDSHAKE_FAILED_PROTOCOL,
        SocketEvent::HANDSHAKE_FAILED_AUTH,
    ];
    let events = events.iter().fold(0, |all, event| all | i32::from(event.to_raw()));
    socket.monitor(PLACE, events)?;
    let failures = context.socket(zmq::PAIR)?;
    failures.set_linger(0)?;
    // No bound, so that the thread of libzmq never waits for a reader.
    failures.set_rcvhwm(0)?;
    failures.connect(PLACE)?;
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use stripline::component::Value;

    use super::super::GrZeromq;
    use super::*;
    use crate::components::ends::refusal_of;

    fn refusal(given: &[(&str, &str)], has_curve: bool) -> String {
        let check: fn(&Properties) -> Result<()> =
            if has_curve { |it| check(it, true) } else { |it| check(it, false) };
        refusal_of::<GrZeromq>(given, check)
    }

    #[test]
    fn what_does_not_fit_the_samples_is_refused_before_the_start() {
        let spec = crate::with_components(stripline::component::Registry::new());
        let refusal = |samples: &str, more: &[(&str, Value)]| {
            let given = [("address", Value::from("ipc:///tmp/iq")), ("samples", samples.into())];
            let given = given.iter().chain(more).map(|(name, value)| ((*name).into(), value.clone()));
            let spec = &spec.specs()["gr-zeromq-source"];
            let properties = Properties::new(spec, given.collect()).unwrap();
            spec.validate(&properties).err().map_or(String::new(), |error| error.to_string())
        };
        for samples in ["u8", "cf64", "det{level_db:f32}", "message/cbor", "message/tune{hz:f64}"] {
            assert_eq!(refusal(samples, &[]), "", "{samples}");
        }
        for (samples, problem) in [
            ("", "name a type"),
            ("det", "a name without a layout"),
            ("det{level_db:x}", "not a built-in type"),
            ("message/tune{hz}", "a field must be here"),
        ] {
            let refusal = refusal(samples, &[]);
            assert!(refusal.contains(problem), "{samples}: {refusal}");
        }
        for (property, value) in [("tags", Value::Boolean(true)), ("vlen", Value::Integer(2))] {
            let refusal = refusal("message/cbor", &[(property, value)]);
            assert!(refusal.contains(&format!("leave `{property}` out")), "{refusal}");
        }
    }

    #[test]
    fn what_leaves_the_host_takes_curve_or_insecure() {
        for stays in ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1", "ipc:///tmp/iq"] {
            assert_eq!(refusal(&[("address", stays)], false), "", "{stays}");
        }
        let remote = ("address", "tcp://192.0.2.7:5555");
        assert!(refusal(&[remote], true).contains("can leave this host"));
        assert_eq!(refusal(&[remote, ("insecure", "true")], false), "");
        let [keys, peers] = [("curve_keys", "own.key_secret"), ("curve_peers", "peer.key")];
        assert_eq!(refusal(&[remote, keys, peers], true), "");
        assert!(refusal(&[remote, keys, peers], false).contains("libzmq3-dev"));
        assert!(refusal(&[remote, keys], true).contains("`curve_peers` is missing"));
        assert!(refusal(&[remote, peers], true).contains("`curve_keys` is missing"));
    }
}
