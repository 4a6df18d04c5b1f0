//! What `gr-zeromq-source` and `gr-zeromq-sink` have in common: properties and sockets.

use std::time::Duration;

use stripline::component::{InvalidProperties, Properties, PropertySpec, StopSignal};
use stripline::internal::check_descriptors;
use stripline::{Error, Result};

/// How long a socket is waited for before the component asks whether it must stop.
const STOP_CHECK_MS: i64 = 20;
/// Descriptors of a context and a socket with its connection.
const DESCRIPTORS: usize = 20;

/// The choices of `pattern`.
pub(super) const PUSH_PULL: &str = "push-pull";
pub(super) const PUB_SUB: &str = "pub-sub";

/// Returns the properties of both. `binds`: the default of `bind`.
pub(super) fn properties(binds: bool) -> [PropertySpec; 7] {
    [
        PropertySpec::text("address", "", "address of ZeroMQ, as tcp://127.0.0.1:5555 or ipc:///tmp/iq")
            .required(),
        PropertySpec::choice(
            "pattern",
            &[PUSH_PULL, PUB_SUB],
            PUSH_PULL,
            "the kind of blocks in the flowgraph",
        ),
        PropertySpec::boolean("bind", binds, "whether this side binds, and the flowgraph's connects"),
        PropertySpec::text("key", "", "the `key` of the flowgraph's block, with pub-sub; empty: none"),
        PropertySpec::boolean("tags", false, "`pass_tags` of the flowgraph's block"),
        PropertySpec::integer(
            "vlen",
            1,
            1,
            1 << 20,
            "samples of an item, as `vlen` of the flowgraph's block",
        ),
        PropertySpec::boolean(
            "insecure",
            false,
            "whether to leave this host, without authentication or encryption",
        ),
    ]
}

/// A socket, and what its messages have besides samples.
pub(super) struct Peer {
    socket: zmq::Socket,
    address: String,
    pub key: Vec<u8>,
    pub has_tags: bool,
    pub vlen: u64,
}

/// Checks properties without a socket.
pub(super) fn check(properties: &Properties) -> Result<()> {
    let (address, pattern) = (properties.text("address"), properties.text("pattern"));
    let refuse = |property: &str, problem: String, remedy: &str| {
        Err(InvalidProperties::new(problem).property(property).remedy(remedy).into())
    };
    let host = match address.split_once("://") {
        Some(("ipc", path)) if !path.is_empty() => None,
        Some(("tcp", place)) => match place.rsplit_once(':') {
            Some((host, port)) if port == "*" || port.parse::<u16>().is_ok() => Some(host),
            _ => {
                return refuse(
                    "address",
                    format!("`{address}` has no port"),
                    "end it as in tcp://127.0.0.1:5555",
                );
            }
        },
        _ => {
            let problem = format!("`{address}` is no address for ZeroMQ");
            return refuse("address", problem, "use tcp://HOST:PORT or ipc://PATH");
        }
    };
    let stays = host.is_none_or(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    if !stays && !properties.boolean("insecure") {
        return refuse(
            "address",
            format!("`{address}` can leave this host, and the wire of gr-zeromq has no security"),
            "use 127.0.0.1 or ipc://, or set `insecure` to true",
        );
    }
    if pattern != PUB_SUB && !properties.text("key").is_empty() {
        return refuse(
            "key",
            "`key` is set, and push-pull has none".into(),
            "leave it empty, or use pub-sub",
        );
    }
    Ok(())
}

impl Peer {
    /// Opens a socket for one of two kinds: push-pull, or pub-sub.
    pub fn open(properties: &Properties, kinds: [zmq::SocketType; 2]) -> Result<Self> {
        check(properties)?;
        check_descriptors("ZeroMQ", DESCRIPTORS)?;
        let address = properties.text("address").to_owned();
        let [push_pull, pub_sub] = kinds;
        let kind = if properties.text("pattern") == PUB_SUB { pub_sub } else { push_pull };
        let key = properties.text("key").as_bytes().to_vec();
        let open = || {
            let socket = zmq::Context::new().socket(kind)?;
            socket.set_linger(0)?;
            if kind == zmq::SUB {
                socket.set_subscribe(&key)?;
            }
            if properties.boolean("bind") { socket.bind(&address) } else { socket.connect(&address) }?;
            Ok(socket)
        };
        let socket = open().map_err(|error: zmq::Error| {
            let action = if properties.boolean("bind") { "bind" } else { "connect to" };
            Error::system(format!("cannot {action} {address}"), std::io::Error::from(error))
        })?;
        let vlen = properties.count("vlen");
        Ok(Self { socket, address, key, has_tags: properties.boolean("tags"), vlen })
    }

    /// Receives a message without its key.
    ///
    /// # Errors
    /// [`Error::Stopped`], within some milliseconds.
    pub fn receive(&self, stop: &StopSignal) -> Result<zmq::Message> {
        self.wait(zmq::POLLIN, stop)?;
        let mut message = self.socket.recv_msg(0).map_err(|error| self.failed("receive", error))?;
        // A block with a key sends it as a part of its own.
        while message.get_more() {
            message = self.socket.recv_msg(0).map_err(|error| self.failed("receive", error))?;
        }
        Ok(message)
    }

    /// Sends a message behind the key, and waits for room.
    ///
    /// # Errors
    /// [`Error::Stopped`], within some milliseconds.
    pub fn send(&self, message: Vec<u8>, stop: &StopSignal) -> Result<()> {
        self.wait(zmq::POLLOUT, stop)?;
        let send = || {
            if !self.key.is_empty() {
                self.socket.send(&self.key, zmq::SNDMORE)?;
            }
            self.socket.send(message, 0)
        };
        send().map_err(|error| self.failed("send", error))
    }

    /// Ends it. What was sent has so long to leave this process.
    pub fn finish(self, patience: Duration) -> Result<()> {
        let linger = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        self.socket.set_linger(linger).map_err(|error| self.failed("end", error))
    }

    /// Returns an error of the flowgraph's messages.
    pub fn misbehaves(&self, violation: impl ToString) -> Error {
        Error::PeerMisbehaved { peer: self.address.clone(), violation: violation.to_string() }
    }

    fn wait(&self, events: zmq::PollEvents, stop: &StopSignal) -> Result<()> {
        loop {
            if stop.is_stopped() {
                return Err(Error::Stopped);
            }
            match self.socket.poll(events, STOP_CHECK_MS) {
                Ok(0) | Err(zmq::Error::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.failed("wait", error)),
            }
        }
    }

    fn failed(&self, doing: &str, error: zmq::Error) -> Error {
        Error::system(format!("cannot {doing} at {}", self.address), std::io::Error::from(error))
    }
}
