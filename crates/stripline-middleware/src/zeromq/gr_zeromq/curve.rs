//! CURVE for the sockets of `gr-zeromq-source` and `gr-zeromq-sink`: own keys from files, and the
//! keys of peers that may connect.
//!
//! The end that binds is the CURVE server. libzmq asks it about each peer over `inproc`, according
//! to [ZAP](https://rfc.zeromq.org/spec/27/).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use stripline::component::{Properties, PropertySpec};
use stripline::{Error, Result};

use crate::components::properties::{refusal, text};

/// The address at which libzmq asks about peers, in each context.
const QUESTIONS: &str = "inproc://zeromq.zap.01";
/// The address that ends the answering thread.
const END: &str = "inproc://stripline-zap-end";
/// The maximum size of a key file in bytes.
const FILE_MAX: u64 = 64 * 1024;
/// The maximum number of files in a folder of keys.
const FILES_MAX: usize = 10_000;
/// The maximum number of refused keys that are logged.
const LOGGED_MAX: usize = 100;

/// A key of CURVE.
type Key = [u8; 32];

/// Returns the properties of CURVE.
pub(super) fn properties() -> [PropertySpec; 2] {
    let keys = "file with the two own keys, as pyzmq writes them; empty: no CURVE";
    let peers = "file with the public key of the other end; where this side binds, also a folder with the keys of allowed peers";
    [text("curve_keys", keys), text("curve_peers", peers)]
}

/// The files of CURVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurveFiles {
    keys: PathBuf,
    peers: PathBuf,
}

impl CurveFiles {
    /// Returns the files from the properties; `None` if CURVE is not requested.
    ///
    /// # Errors
    /// One of the two properties is missing, or this libzmq has no CURVE.
    pub(super) fn of(properties: &Properties, is_built: bool) -> Result<Option<Self>> {
        let [keys, peers] = ["curve_keys", "curve_peers"].map(|name| properties.text(name));
        let missing = match (keys.is_empty(), peers.is_empty()) {
            (true, true) => return Ok(None),
            (true, false) => Some("curve_keys"),
            (false, true) => Some("curve_peers"),
            (false, false) => None,
        };
        if let Some(missing) = missing {
            let problem = format!("each end of CURVE knows the other, and `{missing}` is missing");
            return Err(refusal(missing, problem, "set `curve_keys` and `curve_peers`"));
        }
        if !is_built {
            let problem = "CURVE is asked for, and the libzmq of this program has none";
            let remedy = "build it with the system's libzmq, as docs/install.md says (Debian: libzmq3-dev)";
            return Err(refusal("curve_keys", problem, remedy));
        }
        Ok(Some(Self { keys: keys.into(), peers: peers.into() }))
    }

    /// Sets the keys of a socket, before the socket binds or connects. If the socket binds, the
    /// result admits peers until it is dropped. The result must be dropped after the socket.
    ///
    /// # Errors
    /// A file cannot be read, or has no key.
    pub(super) fn secure(
        &self,
        context: &zmq::Context,
        socket: &zmq::Socket,
        binds: bool,
    ) -> Result<Option<Admission>> {
        let own = KeyFile::read(&self.keys)?;
        let secret = own.secret.ok_or_else(|| lacks(&self.keys, "secret-key"))?;
        let peers = read_peers(&self.peers, binds)?;
        let failed = |e: zmq::Error| Error::system("cannot set keys of CURVE", e);
        socket.set_curve_publickey(&own.public).map_err(failed)?;
        socket.set_curve_secretkey(&secret).map_err(failed)?;
        match peers.first() {
            Some(peer) if !binds => socket.set_curve_serverkey(peer).map_err(failed).map(|()| None),
            _ => {
                // Start the thread before the socket binds: without an answer, libzmq admits every
                // key.
                let admission = Admission::start(context, peers)?;
                socket.set_curve_server(true).map_err(failed)?;
                Ok(Some(admission))
            }
        }
    }
}

/// Reads the keys of peers, from a file or from the `*.key` files in a folder.
fn read_peers(path: &Path, binds: bool) -> Result<BTreeSet<Key>> {
    if !path.is_dir() {
        return Ok(BTreeSet::from([KeyFile::read(path)?.public]));
    }
    if !binds {
        return Err(Error::Configuration(format!(
            "{} is a folder; the end that connects needs one file, with the public key of the end that binds",
            path.display()
        )));
    }
    let failed = |e| Error::system(format!("cannot read {}", path.display()), e);
    let mut peers = BTreeSet::new();
    for entry in std::fs::read_dir(path).map_err(failed)?.take(FILES_MAX) {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "key") {
            peers.insert(KeyFile::read(&file)?.public);
        }
    }
    if peers.is_empty() {
        return Err(Error::Configuration(format!(
            "{} has no `*.key` file, so no peer may connect",
            path.display()
        )));
    }
    Ok(peers)
}

fn lacks(path: &Path, key: &str) -> Error {
    Error::Configuration(format!(
        "{} has no `{key} = \"…\"` of 40 characters (make files with zmq.auth.create_certificates of pyzmq)",
        path.display()
    ))
}

/// The keys of a file in the format of `zmq.auth` ([ZPL](https://rfc.zeromq.org/spec/4/)).
struct KeyFile {
    public: Key,
    secret: Option<Key>,
}

impl KeyFile {
    fn read(path: &Path) -> Result<Self> {
        let failed = |e| Error::system(format!("cannot read the keys in {}", path.display()), e);
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > FILE_MAX {
            return Err(Error::Configuration(format!(
                "{} has {size} bytes, and is not a file of keys",
                path.display()
            )));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let public = key_of(&text, "public-key").ok_or_else(|| lacks(path, "public-key"))?;
        Ok(Self { public, secret: key_of(&text, "secret-key") })
    }
}

/// Returns the key with this name; `None`: it is missing, or is not a CURVE key.
fn key_of(text: &str, name: &str) -> Option<Key> {
    let value = text.lines().map(str::trim).find_map(|line| {
        let (before, value) = line.split_once('=')?;
        (before.trim() == name).then(|| value.trim().trim_matches(['"', '\'']))
    })?;
    let key: Key = zmq::z85_decode(value).ok()?.try_into().ok()?;
    // The decoder accepts characters that Z85 does not have.
    zmq::z85_encode(&key).is_ok_and(|encoded| encoded == value).then_some(key)
}

/// A thread that answers the questions of libzmq about the peers of a context.
pub(super) struct Admission {
    end: zmq::Socket,
    thread: Option<JoinHandle<()>>,
}

impl Admission {
    fn start(context: &zmq::Context, peers: BTreeSet<Key>) -> Result<Self> {
        let failed = |e: zmq::Error| Error::system("cannot answer for CURVE", e);
        let questions = context.socket(zmq::REP).map_err(failed)?;
        questions.set_linger(0).map_err(failed)?;
        questions.bind(QUESTIONS).map_err(failed)?;
        let [end, ends] = [context.socket(zmq::PAIR), context.socket(zmq::PAIR)];
        let (end, ends) = (end.map_err(failed)?, ends.map_err(failed)?);
        end.set_linger(0).map_err(failed)?;
        end.bind(END).map_err(failed)?;
        ends.connect(END).map_err(failed)?;
        let thread = std::thread::Builder::new().name("curve".into());
        let thread = thread
            .spawn(move || answer(&questions, &ends, &peers))
            .map_err(|e| Error::not_started("cannot start a thread for CURVE", e))?;
        Ok(Self { end, thread: Some(thread) })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        // The thread receives the message, or has already ended.
        let _ = self.end.send("", zmq::DONTWAIT);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers questions until the end is requested.
fn answer(questions: &zmq::Socket, ends: &zmq::Socket, peers: &BTreeSet<Key>) {
    // Log each key only once: a peer tries again several times a second.
    let mut logged = BTreeSet::new();
    loop {
        let mut items = [questions.as_poll_item(zmq::POLLIN), ends.as_poll_item(zmq::POLLIN)];
        match zmq::poll(&mut items, -1) {
            Err(zmq::Error::EINTR) => continue,
            Err(_) => return,
            Ok(_) if items[1].is_readable() => return,
            Ok(_) => {}
        }
        let Ok(question) = questions.recv_multipart(zmq::DONTWAIT) else { continue };
        let (is_admitted, answer) = answer_to(&question, peers);
        let key = question.get(6).cloned().unwrap_or_default();
        if !is_admitted && logged.len() < LOGGED_MAX && logged.insert(key.clone()) {
            let address = question.get(3).map(|address| String::from_utf8_lossy(address));
            log::warn!(
                target: "stripline::gr-zeromq",
                "{} is refused: its key {} is not one of `curve_peers`",
                address.unwrap_or_default(),
                zmq::z85_encode(&key).unwrap_or_default()
            );
        }
        if questions.send_multipart(answer, 0).is_err() {
            return;
        }
    }
}

/// Returns whether a peer is admitted, and the answer to the ZAP question about the peer: version,
/// number, domain, address, identity, mechanism, key.
fn answer_to(question: &[Vec<u8>], peers: &BTreeSet<Key>) -> (bool, [Vec<u8>; 6]) {
    let part = |index: usize| question.get(index).map_or(&[][..], Vec::as_slice);
    let is_admitted = part(0) == b"1.0"
        && part(5) == b"CURVE"
        && <&Key>::try_from(part(6)).is_ok_and(|key| peers.contains(key));
    let [code, text]: [&[u8]; 2] = if is_admitted { [b"200", b"OK"] } else { [b"400", b"unknown key"] };
    (is_admitted, [b"1.0", part(1), code, text, b"", b""].map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

    #[test]
    fn keys_are_read_as_pyzmq_writes_them() {
        let text = format!(
            "#   ****  Generated on 2026-11-26 by pyzmq  ****\n\nmetadata\ncurve\n    public-key = \"{PUBLIC}\"\n"
        );
        assert_eq!(zmq::z85_encode(&key_of(&text, "public-key").unwrap()).unwrap(), PUBLIC);
        assert_eq!(key_of(&text, "secret-key"), None);
        for bad in ["", "public-key", "public-key = \"\"", "public-key = \"short\"", "# public-key = x"] {
            assert_eq!(key_of(bad, "public-key"), None, "{bad}");
        }
        for length in [39, 41, 400] {
            assert_eq!(key_of(&format!("public-key = \"{}\"", "0".repeat(length)), "public-key"), None);
        }
        // Forty characters that Z85 does not have, and forty bytes that are fewer than forty
        // characters.
        assert_eq!(key_of(&format!("public-key = {}", "~".repeat(40)), "public-key"), None);
        assert_eq!(key_of(&format!("public-key = {}", "é".repeat(20)), "public-key"), None);
    }

    #[test]
    fn only_known_keys_of_curve_are_admitted() {
        let peers = BTreeSet::from([[7; 32]]);
        let ask = |version: &str, mechanism: &str, key: &[u8]| {
            let question = [version.as_bytes(), b"42", b"", b"127.0.0.1", b"", mechanism.as_bytes(), key];
            let (is_admitted, answer) = answer_to(&question.map(<[u8]>::to_vec), &peers);
            assert_eq!((&answer[0][..], &answer[1][..]), (&b"1.0"[..], &b"42"[..]));
            assert_eq!(answer[2], if is_admitted { b"200" } else { b"400" });
            is_admitted
        };
        assert!(ask("1.0", "CURVE", &[7; 32]));
        for (version, mechanism, key) in [
            ("1.0", "CURVE", &[8; 32][..]),
            ("1.0", "CURVE", &[7; 31]),
            ("1.0", "CURVE", &[]),
            ("1.0", "PLAIN", &[7; 32]),
            ("2.0", "CURVE", &[7; 32]),
        ] {
            assert!(!ask(version, mechanism, key), "{version} {mechanism}");
        }
        for parts in 0..6 {
            assert!(!answer_to(&vec![Vec::new(); parts], &peers).0);
        }
    }
}
