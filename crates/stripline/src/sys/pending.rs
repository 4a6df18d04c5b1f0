//! Connections that a listener has accepted, and that have not sent their first message yet.
//!
//! A first message is small and is sent whole, right after the connection is made. So a peer that
//! follows the protocol is admitted at the moment it is accepted, however many silent connections
//! came before it. A silent connection is kept for a second, in case its process was descheduled.
//! The number of silent connections is bounded: a further one closes the oldest connection of the
//! process that has the most.
//!
//! Until a first message is complete, it stays in the kernel, with the descriptors that come with
//! it. A pending peer therefore costs a descriptor, but no memory for received bytes.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;

use super::poller::{Interest, Poller};
use super::refusal::PeerRefusal;
use super::socket::{Accepted, Listener, Socket, receive_with_fds};
use crate::error::Result;

/// The time within which a peer must send its first message.
pub(crate) const FIRST_MESSAGE_TIME: Duration = Duration::from_secs(1);
/// The longest first message, in bytes: a text of 8 KiB, and the fields before it.
pub(crate) const FIRST_MESSAGE_MAX: usize = 8 * 1024 + 64;
/// Pending peers of all listeners of the process.
const PROCESS_MAX: usize = 256;
/// Pending peers of one listener.
const LISTENER_MAX: usize = 64;
/// Connections accepted between two polls of all other descriptors.
const BATCH: usize = 64;
/// How long a listener pauses when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(5);

/// The smallest token of the poller that belongs to this module. All greater tokens do as well.
const FIRST_TOKEN: u64 = 1 << 63;
const LISTENER: u64 = FIRST_TOKEN;

/// The number of listeners of this process, which share `PROCESS_MAX`.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// A function that returns the length of the message that begins with these bytes.
///
/// The function returns `None` if it needs more bytes to find the length.
///
/// # Errors
/// The fault of the bytes.
pub(crate) type MessageLength = fn(&[u8]) -> Result<Option<usize>, String>;

/// A listener, and the peers that it has accepted but not admitted yet.
pub(crate) struct PendingPeers {
    listener: Listener,
    poller: Poller,
    message_length: MessageLength,
    /// The oldest first, so that the first peer has the first deadline.
    peers: VecDeque<PendingPeer>,
    next_token: u64,
    /// The time until which nothing is accepted, for want of descriptors.
    paused: Option<Instant>,
}

struct PendingPeer {
    token: u64,
    socket: Socket,
    process: Option<u32>,
    deadline: Instant,
}

/// A first message, with the descriptors that came with it.
type FirstMessage = (Vec<u8>, Vec<OwnedFd>);

/// The outcome of an accepted connection.
pub(crate) enum Admission {
    /// The peer sent the first message.
    Message { socket: Socket, process: Option<u32>, message: Vec<u8>, fds: Vec<OwnedFd> },
    /// The peer belongs to another user, has gone, or broke the protocol.
    Rejected { socket: Socket, process: Option<u32>, refusal: PeerRefusal },
    /// The peer sent only this many bytes within the time limit, or before too many others came.
    Late { socket: Socket, process: Option<u32>, bytes: usize },
}

/// Returns a name for a peer before the first message: the process, or the address.
pub(crate) fn name_of(socket: &Socket, process: Option<u32>) -> String {
    match (process, socket.addresses()) {
        (Some(process), _) => format!("process {process}"),
        (None, Some([_, peer])) => format!("the peer at {peer}"),
        (None, None) => "a peer without a process here".into(),
    }
}

/// The outcome of a wait.
pub(crate) struct Woken {
    /// Tokens of the caller's descriptors that are ready.
    pub(crate) tokens: Vec<u64>,
    pub(crate) admissions: Vec<Admission>,
}

impl PendingPeers {
    /// Takes over a listener.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new(listener: Listener, message_length: MessageLength) -> Result<Self> {
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), LISTENER, Interest::Readable)?;
        // Relaxed: a count that sets a bound, and orders nothing.
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        let peers = VecDeque::new();
        Ok(Self { listener, poller, message_length, peers, next_token: LISTENER + 1, paused: None })
    }

    /// Returns the poller, to which the caller may add descriptors with tokens below 2^63.
    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Waits until a connection has an outcome, one of the caller's descriptors is ready, or
    /// `until` has passed.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<Woken> {
        let own = self.peers.front().map(|peer| peer.deadline);
        let deadline = own.into_iter().chain(self.paused).chain(until).min();
        self.wait_until(deadline)
    }

    /// Polls like [`PendingPeers::wait`], without waiting.
    #[cfg(fuzzing)]
    pub(crate) fn poll(&mut self) -> Result<Vec<Admission>> {
        self.wait_until(Some(Instant::now())).map(|woken| woken.admissions)
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Result<Woken> {
        let mut woken = Woken { tokens: Vec::new(), admissions: Vec::new() };
        let mut accept = false;
        for token in self.poller.wait(deadline)? {
            match token {
                LISTENER => accept = true,
                token if token > LISTENER => woken.admissions.extend(self.read(token)),
                token => woken.tokens.push(token),
            }
        }
        let now = Instant::now();
        while self.peers.front().is_some_and(|peer| peer.deadline <= now) {
            woken.admissions.extend(self.give_up(0));
        }
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            self.poller.change(self.listener.as_fd(), LISTENER, Interest::Readable)?;
        }
        if accept {
            self.accept(now, &mut woken.admissions)?;
        }
        Ok(woken)
    }

    fn accept(&mut self, now: Instant, admissions: &mut Vec<Admission>) -> Result<()> {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok(None) => break,
                Ok(Some(Accepted::Rejected(socket, reason))) => {
                    let refusal = PeerRefusal::Unfit(reason);
                    admissions.push(Admission::Rejected { socket, process: None, refusal });
                }
                Ok(Some(Accepted::Peer(socket, process))) => match self.receive(&socket) {
                    Ok(None) => self.add(socket, process, now, admissions)?,
                    Ok(Some((message, fds))) => {
                        admissions.push(Admission::Message { socket, process, message, fds });
                    }
                    Err(refusal) => admissions.push(Admission::Rejected { socket, process, refusal }),
                },
                // Closing a pending peer frees enough descriptors for the next connection.
                Err(_) if !self.peers.is_empty() => {
                    admissions.extend(self.give_up(self.dispensable()));
                    break;
                }
                Err(_) => {
                    self.poller.change(self.listener.as_fd(), LISTENER, Interest::Paused)?;
                    self.paused = Some(now + PAUSE);
                    break;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        socket: Socket,
        process: Option<u32>,
        now: Instant,
        admissions: &mut Vec<Admission>,
    ) -> Result<()> {
        if self.peers.len() >= share() {
            admissions.extend(self.give_up(self.dispensable()));
        }
        let token = self.next_token;
        self.next_token += 1;
        // The poller reports at once if bytes have arrived since the read.
        self.poller.add(socket.as_fd(), token, Interest::Arrival)?;
        self.peers.push_back(PendingPeer { token, socket, process, deadline: now + FIRST_MESSAGE_TIME });
        Ok(())
    }

    /// Returns the index of the oldest peer of the process that has the most.
    fn dispensable(&self) -> usize {
        oldest_of_most(self.peers.iter().map(|peer| peer.process)).unwrap_or(0)
    }

    /// Removes a peer. The peer is admitted if the message has arrived by now.
    fn give_up(&mut self, index: usize) -> Option<Admission> {
        let token = self.peers.get(index)?.token;
        self.read(token).or_else(|| {
            let PendingPeer { socket, process, .. } = self.remove(index)?;
            let bytes = peek(&socket, &mut [0; FIRST_MESSAGE_MAX]).unwrap_or(0);
            Some(Admission::Late { socket, process, bytes })
        })
    }

    /// Reads a peer's first message; `None`: the message is not complete.
    fn read(&mut self, token: u64) -> Option<Admission> {
        // The peer may have been removed since it was reported.
        let index = self.peers.binary_search_by_key(&token, |peer| peer.token).ok()?;
        let received = self.receive(&self.peers[index].socket).transpose()?;
        let PendingPeer { socket, process, .. } = self.remove(index)?;
        Some(match received {
            Ok((message, fds)) => Admission::Message { socket, process, message, fds },
            Err(refusal) => Admission::Rejected { socket, process, refusal },
        })
    }

    fn remove(&mut self, index: usize) -> Option<PendingPeer> {
        let peer = self.peers.remove(index)?;
        self.poller.remove(peer.socket.as_fd());
        Some(peer)
    }

    /// Receives the first message and the descriptors once the whole message has arrived, and not a
    /// byte more.
    fn receive(&self, socket: &Socket) -> Result<Option<FirstMessage>, PeerRefusal> {
        let broke = |e: io::Error| match e.kind() {
            io::ErrorKind::InvalidData => PeerRefusal::violation(format!("sent {e}")),
            _ => PeerRefusal::Unfit(format!("broke the connection during the handshake: {e}")),
        };
        let mut bytes = [0; FIRST_MESSAGE_MAX];
        let there = match peek(socket, &mut bytes) {
            Ok(0) => return Err("hung up during the handshake".into()),
            Ok(there) => there,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(e) => return Err(broke(e.into())),
        };
        let length = (self.message_length)(&bytes[..there]).map_err(PeerRefusal::Violation)?;
        let Some(length) = length else { return Ok(None) };
        if length > FIRST_MESSAGE_MAX {
            return Err(PeerRefusal::violation(format!(
                "announced a first message of {length} bytes (at most {FIRST_MESSAGE_MAX} are allowed)"
            )));
        }
        if there < length {
            return Ok(None);
        }
        let (mut message, mut fds, mut have) = (vec![0; length], Vec::new(), 0);
        while have < length {
            let read = match socket {
                Socket::Unix(stream) => {
                    let (read, more) = receive_with_fds(stream, &mut message[have..]).map_err(broke)?;
                    fds.extend(more);
                    read
                }
                Socket::Tcp(_) => io::Read::read(&mut &*socket, &mut message[have..]).map_err(broke)?,
            };
            if read == 0 {
                return Err("hung up during the handshake".into());
            }
            have += read;
        }
        Ok(Some((message, fds)))
    }
}

impl Drop for PendingPeers {
    fn drop(&mut self) {
        // Relaxed: as in `new`.
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of bytes of a first message that have arrived, and leaves them in the kernel.
/// 0: the peer has hung up.
fn peek(socket: &Socket, bytes: &mut [u8; FIRST_MESSAGE_MAX]) -> rustix::io::Result<usize> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, &mut bytes[..], flags).map(|(there, _)| there)
}

/// Returns the number of peers that a listener of this process may have pending.
fn share() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Most descriptors stay free for links.
    let process_max =
        limit.map_or(PROCESS_MAX, |limit| PROCESS_MAX.min(usize::try_from(limit / 8).unwrap_or(PROCESS_MAX)));
    // Relaxed: as in `new`.
    (process_max / LISTENERS.load(Ordering::Relaxed).max(1)).clamp(1, LISTENER_MAX)
}

/// Returns the index of the first entry of the process that has the most entries, so that a single
/// process cannot displace the others. All entries without a process (TCP) count as one process.
pub(crate) fn oldest_of_most(processes: impl Iterator<Item = Option<u32>> + Clone) -> Option<usize> {
    let mut counts: HashMap<Option<u32>, usize> = HashMap::new();
    processes.clone().for_each(|process| *counts.entry(process).or_default() += 1);
    let most = counts.values().copied().max()?;
    processes.enumerate().find(|(_, process)| counts[process] == most).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::own_process::in_own_process;
    use crate::sys::socket::{connect_unix, send_with_fds};

    /// Returns the length of a message: a byte with a number of at most 9, and that many bytes
    /// more.
    fn length(bytes: &[u8]) -> Result<Option<usize>, String> {
        match bytes.first() {
            Some(length @ 0..=9) => Ok(Some(1 + usize::from(*length))),
            Some(length) => Err(format!("length {length}")),
            None => Ok(None),
        }
    }

    fn listen() -> (String, PendingPeers) {
        let name = format!("stripline-test-{:016x}", getrandom::u64().unwrap());
        let pending = PendingPeers::new(Listener::unix(&name, None).unwrap(), length).unwrap();
        (name, pending)
    }

    fn admitted(pending: &mut PendingPeers) -> Admission {
        loop {
            if let Some(admission) = pending.wait(None).unwrap().admissions.pop() {
                return admission;
            }
        }
    }

    #[test]
    fn a_message_is_admitted_when_all_of_it_is_there_and_nothing_behind_it_is_read() {
        let (name, mut pending) = listen();
        let peer = connect_unix(&name, None).unwrap();
        for byte in [3, 7, 8] {
            (&*peer).write_all(&[byte]).unwrap();
            assert!(pending.wait(None).unwrap().admissions.is_empty());
        }
        (&*peer).write_all(&[9, 10]).unwrap();
        let Admission::Message { socket, process, message, fds } = admitted(&mut pending) else {
            panic!("not admitted")
        };
        assert_eq!((message, fds.len(), process), (vec![3, 7, 8, 9], 0, Some(std::process::id())));
        let mut rest = [0; 2];
        assert_eq!(std::io::Read::read(&mut &socket, &mut rest).unwrap(), 1);
        assert_eq!(rest, [10, 0]);
    }

    #[test]
    fn descriptors_come_with_the_message() {
        let (name, mut pending) = listen();
        let peer = connect_unix(&name, None).unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        send_with_fds(&peer, &[1, 5], &[one.as_fd(), other.as_fd()]).unwrap();
        let Admission::Message { message, fds, .. } = admitted(&mut pending) else { panic!("not admitted") };
        assert_eq!((message, fds.len()), (vec![1, 5], 2));
    }

    #[test]
    fn violations_and_hang_ups_are_rejected() {
        let (name, mut pending) = listen();
        (&*connect_unix(&name, None).unwrap()).write_all(&[200]).unwrap();
        let rejected = |admission| match admission {
            Admission::Rejected { refusal, .. } => refusal,
            _ => panic!("not rejected"),
        };
        assert_eq!(rejected(admitted(&mut pending)), PeerRefusal::violation("length 200"));
        drop(connect_unix(&name, None).unwrap());
        let refusal = rejected(admitted(&mut pending));
        assert!(matches!(&refusal, PeerRefusal::Unfit(reason) if reason.contains("hung up")), "{refusal}");
        // The part of a message hides the hang-up behind it.
        (&*connect_unix(&name, None).unwrap()).write_all(&[2, 0]).unwrap();
        assert!(matches!(admitted(&mut pending), Admission::Late { bytes: 2, .. }));
    }

    #[test]
    fn silent_peers_are_few_and_the_oldest_goes_first() {
        let test = "sys::pending::tests::silent_peers_are_few_and_the_oldest_goes_first";
        in_own_process(test, "connects", connect_silent_peers);
    }

    fn connect_silent_peers() {
        let (name, mut pending) = listen();
        let silent: Vec<_> = (0..=LISTENER_MAX).map(|_| connect_unix(&name, None).unwrap()).collect();
        let Admission::Late { socket: first, bytes: 0, .. } = admitted(&mut pending) else {
            panic!("a silent peer was admitted")
        };
        assert!(pending.peers.len() <= LISTENER_MAX);
        // `first` is the other end of the first connection.
        first.close();
        assert_eq!(std::io::Read::read(&mut &*silent[0], &mut [0]).unwrap(), 0);
        // A peer that follows the protocol is admitted, however many others are silent.
        let honest = connect_unix(&name, None).unwrap();
        (&*honest).write_all(&[0]).unwrap();
        while !matches!(admitted(&mut pending), Admission::Message { .. }) {}
    }

    #[test]
    fn the_process_with_most_connections_loses_one() {
        let oldest = |processes: &[u32]| oldest_of_most(processes.iter().map(|process| Some(*process)));
        assert_eq!(oldest(&[]), None);
        assert_eq!(oldest(&[1, 2, 3]), Some(0));
        assert_eq!(oldest(&[1, 2, 3, 2]), Some(1));
        assert_eq!(oldest_of_most([Some(1), None, None].into_iter()), Some(1));
    }
}
