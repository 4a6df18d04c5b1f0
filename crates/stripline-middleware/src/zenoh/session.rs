//! Sessions of zenoh, one for each end of a connection.
//!
//! A session has a queue for each link. If connections shared a link, a connection to a slow
//! component would hold up the others. The process has one set of zenoh threads, for any number of
//! sessions.
//!
//! No function here panics. zenoh panics if a setting does not fit.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use ::zenoh::bytes::ZBytes;
use ::zenoh::key_expr::KeyExpr;
use ::zenoh::liveliness::LivelinessToken;
use ::zenoh::matching::MatchingListener;
use ::zenoh::pubsub::{Publisher, Subscriber};
use ::zenoh::qos::CongestionControl;
use ::zenoh::sample::{Sample, SampleKind};
use ::zenoh::{Config, Session, Wait};

use stripline::carrier::fork::Local;
use stripline::{Error, Result};

/// The version in `Cargo.lock`, which a test checks.
const VERSION: &str = "1.10.2";

/// The longest silence of a peer, and the longest wait of a put: a day. The signalling socket
/// reports deaths. zenoh itself would close a connection after 10 s and 5 s.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The time that a sender's thread waits for a link to the receiver. The receiver's end has no
/// limit: after a stop of the receiver's process, zenoh would give up a link that it had half
/// accepted, and neither read nor close it.
const OPEN_TIME: Duration = Duration::from_secs(60);
/// The number of ports that are tried for a listener. A free port is chosen beforehand, because
/// zenoh does not report the port that the system assigns.
const PORT_ATTEMPTS: usize = 8;
/// The number of batches of 64 KiB in the queue of a link: zenoh's maximum.
const BATCHES: usize = 16;

/// The maximum size of a message that fits in a batch, in bytes, beside the frames of zenoh.
pub(crate) const MESSAGE_MAX: usize = 60 * 1024;
/// The bytes that a link accepts, in messages of any sizes, without waiting for the other end. Two
/// messages in a row may need a batch each, even if they have little more bytes than one batch
/// holds.
pub(crate) const LINK_BYTES: u64 = (BATCHES as u64 - 3) * 32 * 1024 - MESSAGE_MAX as u64;
/// The maximum number of bytes that zenoh adds to a message: a header, and the key in full.
pub(crate) const MESSAGE_OVERHEAD: u64 = 96;

/// Returns the version of zenoh in this program.
pub(crate) fn version() -> String {
    format!("zenoh {VERSION}")
}

/// The process that owns zenoh's threads, once a session has been started.
static THREADS: OnceLock<Local<()>> = OnceLock::new();

/// Checks that this process may use zenoh.
///
/// # Errors
/// This process was forked from a process that used zenoh: the threads are missing, and zenoh
/// starts no others.
pub(crate) fn check_process() -> Result<()> {
    THREADS.get().map_or(Ok(()), |threads| threads.check(|| "zenoh with its threads".into()))
}

/// The reach of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionReach {
    /// The session listens on a free port of that address.
    Listen(IpAddr),
    /// The session connects to a listener.
    Connect(SocketAddr),
    /// The session connects to a router, which forwards the publications.
    Router(SocketAddr),
}

/// A session.
pub(crate) struct ZenohSession {
    session: Local<Session>,
    /// The address at which the session listens.
    address: Option<SocketAddr>,
}

impl ZenohSession {
    /// Opens a session. Waits until the session is connected.
    ///
    /// # Errors
    /// An error of zenoh.
    pub(crate) fn open(reach: &SessionReach) -> Result<Self, String> {
        THREADS.get_or_init(|| Local::new(()));
        check_process().map_err(|e| e.to_string())?;
        let (address, attempts) = match reach {
            SessionReach::Listen(ip) => (Some(*ip), PORT_ATTEMPTS),
            SessionReach::Connect(_) | SessionReach::Router(_) => (None, 1),
        };
        let mut failure = String::new();
        for _ in 0..attempts {
            let address = address.map(free_port).transpose().map_err(|e| e.to_string())?;
            let config = config(reach, address)?;
            match guarded(|| zenoh::open(config).wait().map_err(failed("open a session"))) {
                Ok(session) => return Ok(Self { session: Local::new(session), address }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the address at which the session listens.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Calls back for each publication under a key.
    ///
    /// # Errors
    /// An error of zenoh.
    pub(crate) fn subscribe(
        &self,
        key: &str,
        each: impl Fn(ZBytes) + Send + Sync + 'static,
    ) -> Result<Subscriber<()>, String> {
        let call = move |sample: Sample| _ = contained(|| each(sample.payload().clone()));
        guarded(|| {
            self.session.declare_subscriber(key_of(key)?).callback(call).wait().map_err(failed("subscribe"))
        })
    }

    /// Returns a publisher for a key.
    ///
    /// # Errors
    /// An error of zenoh.
    pub(crate) fn publisher(&self, key: &str) -> Result<Publisher<'static>, String> {
        guarded(|| {
            self.session
                .declare_publisher(key_of(key)?)
                .congestion_control(CongestionControl::Block)
                .wait()
                .map_err(failed("declare a publisher"))
        })
    }

    /// Announces a key as long as the token exists.
    ///
    /// # Errors
    /// An error of zenoh.
    pub(crate) fn token(&self, key: &str) -> Result<LivelinessToken, String> {
        guarded(|| {
            self.session.liveliness().declare_token(key_of(key)?).wait().map_err(failed("declare a token"))
        })
    }

    /// Calls back when the token of a key appears (true) or disappears.
    ///
    /// # Errors
    /// An error of zenoh.
    pub(crate) fn watch(
        &self,
        key: &str,
        each: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<Subscriber<()>, String> {
        let call = move |sample: Sample| _ = contained(|| each(sample.kind() == SampleKind::Put));
        guarded(|| {
            self.session
                .liveliness()
                .declare_subscriber(key_of(key)?)
                .history(true)
                .callback(call)
                .wait()
                .map_err(failed("watch a token"))
        })
    }
}

impl Drop for ZenohSession {
    fn drop(&mut self) {
        if self.session.is_current() {
            let close = || self.session.close().wait().map_err(failed("close a session"));
            if let Err(error) = guarded(close) {
                log::warn!(target: "stripline::transport", "{error}");
            }
        }
    }
}

/// Calls back when a publisher gets the first subscriber (true), or loses the last one.
///
/// # Errors
/// An error of zenoh.
pub(crate) fn watch_subscribers(
    publisher: &Publisher<'static>,
    each: impl Fn(bool) + Send + Sync + 'static,
) -> Result<MatchingListener<()>, String> {
    guarded(|| {
        let listener = publisher.matching_listener();
        let call = move |status: zenoh::matching::MatchingStatus| _ = contained(|| each(status.matching()));
        listener.callback(call).wait().map_err(failed("watch the subscribers"))
    })
}

/// Returns whether a publisher has a subscriber.
///
/// # Errors
/// An error of zenoh.
pub(crate) fn has_subscriber(publisher: &Publisher<'static>) -> Result<bool, String> {
    guarded(|| {
        let status = publisher.matching_status().wait().map_err(failed("count the subscribers"))?;
        Ok(status.matching())
    })
}

/// Publishes a message. Waits while the queue of the link is full.
///
/// # Errors
/// The session is closed.
pub(crate) fn put(publisher: &Publisher<'static>, message: Vec<u8>) -> Result<(), String> {
    guarded(|| publisher.put(message).wait().map_err(failed("publish")))
}

/// Returns a free port of an address.
fn free_port(ip: IpAddr) -> Result<SocketAddr> {
    let found = TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
    found.map_err(|e| Error::system(format!("cannot listen on {ip}"), e))
}

fn config(reach: &SessionReach, listens: Option<SocketAddr>) -> Result<Config, String> {
    let listens: Vec<String> = listens.iter().map(|address| format!("tcp/{address}")).collect();
    let connects: Vec<String> = match reach {
        SessionReach::Connect(address) | SessionReach::Router(address) => vec![format!("tcp/{address}")],
        SessionReach::Listen(_) => Vec::new(),
    };
    let is_listener = matches!(reach, SessionReach::Listen(_));
    // A listener has a single peer. If another peer connects first, it is not the sender, so the
    // sender's attempt fails.
    let sessions = if is_listener { "1" } else { "2" };
    let mode = if matches!(reach, SessionReach::Router(_)) { "client" } else { "peer" };
    let own = [
        ("transport/unicast/max_sessions", sessions.into()),
        ("transport/unicast/open_timeout", OPEN_TIME.as_millis().to_string()),
        ("transport/unicast/accept_timeout", TIMEOUT.as_millis().to_string()),
    ];
    settings(mode, &listens, &connects, &own)
}

/// Returns the settings of a session that listens at these addresses and connects to others. No
/// setting comes from files or the environment. Values are in JSON.
///
/// # Errors
/// zenoh does not accept a setting.
pub fn settings(
    mode: &str,
    listens: &[String],
    connects: &[String],
    more: &[(&str, String)],
) -> Result<Config, String> {
    let mut config = Config::default();
    let text = |value: &[String]| serde_json::to_string(value).map_err(failed("write its settings"));
    let settings = [
        ("mode", format!("\"{mode}\"")),
        ("listen/endpoints", text(listens)?),
        ("listen/exit_on_failure", "true".into()),
        ("connect/endpoints", text(connects)?),
        ("connect/timeout_ms", "0".into()),
        ("connect/exit_on_failure", "true".into()),
        // The session searches for nothing, and forwards nothing.
        ("scouting/multicast/enabled", "false".into()),
        ("scouting/gossip/enabled", "false".into()),
        ("transport/shared_memory/enabled", "false".into()),
        ("adminspace/enabled", "false".into()),
        ("transport/link/tx/lease", TIMEOUT.as_millis().to_string()),
        (
            "transport/link/tx/queue/congestion_control/block/wait_before_close",
            TIMEOUT.as_micros().to_string(),
        ),
        ("transport/link/tx/queue/size/data", BATCHES.to_string()),
    ];
    for (key, value) in settings.iter().chain(more) {
        config.insert_json5(key, value).map_err(|e| format!("zenoh, set {key}: {e}"))?;
    }
    Ok(config)
}

/// Opens a router, which runs until the result is dropped. The router has zenoh's default queues,
/// lease and time limits, because routers do not belong to Stripline.
///
/// # Errors
/// zenoh cannot listen at the address.
pub fn open_router(listen: SocketAddr) -> Result<Session, String> {
    let mut config = Config::default();
    let listens = format!("[\"tcp/{listen}\"]");
    for (key, value) in [
        ("mode", "\"router\""),
        ("listen/endpoints", &listens),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
    ] {
        config.insert_json5(key, value).map_err(|e| e.to_string())?;
    }
    ::zenoh::open(config).wait().map_err(|e| e.to_string())
}

fn key_of(key: &str) -> Result<KeyExpr<'static>, String> {
    KeyExpr::new(key.to_owned()).map_err(failed("name a key"))
}

fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("zenoh, {what}: {error}")
}

/// Runs work of zenoh. A panic becomes an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    contained(work).unwrap_or_else(|| Err("zenoh has panicked".into()))
}

/// Runs work of this crate on a thread of zenoh; `None`: it has panicked.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"zenoh\"\nversion = \"{VERSION}\"\n")));
    }

    #[test]
    fn a_session_finds_the_listener_and_its_end_is_noticed() {
        let listener = ZenohSession::open(&SessionReach::Listen([127, 0, 0, 1].into())).unwrap();
        let (sender, messages) = mpsc::channel();
        let _subscriber = listener.subscribe("a/data", move |bytes| _ = sender.send(bytes)).unwrap();
        let (sender, tokens) = mpsc::channel();
        let _watch = listener.watch("a/sender", move |is_there| _ = sender.send(is_there)).unwrap();
        let session = ZenohSession::open(&SessionReach::Connect(listener.address().unwrap())).unwrap();
        let token = session.token("a/sender").unwrap();
        let publisher = session.publisher("a/data").unwrap();
        let (sender, matches) = mpsc::channel();
        let _matching = watch_subscribers(&publisher, move |matching| _ = sender.send(matching)).unwrap();
        if !has_subscriber(&publisher).unwrap() {
            assert!(matches.recv().unwrap());
        }
        assert!(tokens.recv().unwrap());
        put(&publisher, vec![1, 2, 3]).unwrap();
        assert_eq!(*messages.recv().unwrap().to_bytes(), [1, 2, 3]);
        // A stranger is not admitted beside the first peer.
        assert!(ZenohSession::open(&SessionReach::Connect(listener.address().unwrap())).is_err());
        drop((token, publisher, session));
        assert!(!tokens.recv().unwrap());
    }
}
