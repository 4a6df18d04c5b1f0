//! The choice of how each process dies.

use std::fmt;

use stripline::fail_point::POINTS;

use crate::payload::Rng;

/// The first point that a receiver passes. The points before it belong to senders.
const FIRST_OF_RECEIVERS: &str = "connect";
/// The first point of a move. Random waveforms pass these points.
const FIRST_OF_MOVES: &str = "move-prepared";
/// The first point that only calls pass: first the points of clients, then the points of servers.
const FIRST_OF_CALLS: &str = "call-numbered";
const FIRST_OF_SERVERS: &str = "call-waits";

/// A planned death.
#[derive(Clone, Copy, Debug)]
pub enum Death {
    /// At a fail point, when the point is reached for the nth time.
    Point(&'static str, u64),
    /// After this number of microseconds, at any place.
    Time(u64),
}

impl Death {
    /// Returns the name of the point, or `any-time`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Point(point, _) => point,
            Self::Time(_) => "any-time",
        }
    }

    /// Returns the point and the count, if the death is at a point.
    pub fn fail_point(self) -> Option<(&'static str, u64)> {
        match self {
            Self::Point(point, times) => Some((point, times)),
            Self::Time(_) => None,
        }
    }
}

/// The link on which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub transport: &'static str,
    pub scope: &'static str,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transport, self.scope)
    }
}

/// A link without acks.
pub const PLAIN: Link = Link { transport: "shm", scope: "transport" };

/// UDP that loses datagrams, determined by a seed. The library has this transport with the feature
/// `test-transports`.
const LOSSY: &str = "lossy";
/// Sockets of ZeroMQ.
const ZEROMQ: &str = "zeromq";
/// Shared memory of iceoryx2.
const ICEORYX2: &str = "iceoryx2";
/// Publications of zenoh.
const ZENOH: &str = "zenoh";
/// Topics of Cyclone DDS.
const DDS: &str = "dds";
/// Calls of omniORB.
const CORBA: &str = "corba";

/// The transports that are only for tests.
const FOR_TESTS: [&str; 2] = [LOSSY, "multicast"];

/// All transports between processes.
const BETWEEN_PROCESSES: [&str; 12] =
    ["shm", "uds", "tcp", "mqueue", "udp", ZEROMQ, ICEORYX2, ZENOH, DDS, CORBA, LOSSY, "multicast"];

/// Returns the transports with these names that this program has.
pub fn present(names: &[&'static str]) -> impl Iterator<Item = &'static str> + Clone {
    names.iter().copied().filter(|name| stripline::transport::all().any(|transport| transport.name == *name))
}

/// Returns the transports between processes.
pub fn transports() -> impl Iterator<Item = &'static str> + Clone {
    present(&BETWEEN_PROCESSES)
}

/// Returns the transports that users have.
pub fn users_transports() -> impl Iterator<Item = &'static str> + Clone {
    transports().filter(|name| !FOR_TESTS.contains(name))
}

/// Returns whether names of a killed process remain until the next port over that transport opens.
pub fn leaves_names(transport: &str) -> bool {
    [ICEORYX2, CORBA].contains(&transport)
}

/// Returns whether the library of a transport stays active in a process after its first use.
pub fn stays(transport: &str) -> bool {
    [ZENOH, CORBA].contains(&transport)
}

/// The transports of a mixture. A user has few message queues, and `udp` has a separate campaign.
pub const MIXTURE: [&str; 3] = ["shm", "uds", "tcp"];

/// The points of the handshake, on every transport.
const POINTS_OF_HANDSHAKE: [&str; 9] = [
    "greet",
    "greet-welcomed",
    "greet-entered",
    "admit",
    "admit-attached",
    "connect",
    "connect-hello",
    "connect-welcome",
    "connect-attached",
];

/// The points at the sender of a path that is probed.
const POINTS_OF_PROBES: [&str; 2] = ["probe", "probe-answered"];

/// The points of sessions over datagrams. If nothing is lost, the points of repairs are not passed.
const POINTS_OF_SESSIONS: [&str; 5] = ["probe", "probe-answered", "probed", "session-end", "session-ended"];
const POINTS_OF_REPAIRS: [&str; 4] = ["repair", "repaired", "missing", "missing-asked"];

/// The points of the names that iceoryx2 needs until both ends have found each other.
const POINTS_OF_NAMES: [&str; 2] = ["iceoryx2-names", "iceoryx2-connected"];

/// The points of the ends of a path over DDS.
const POINTS_OF_DDS: [&str; 3] = ["dds-writer", "dds-connected", "dds-reader"];
/// The points of the start of an ORB, up to the removal of its socket's name.
const POINTS_OF_ORBS: [&str; 2] = ["corba-name", "corba-nameless"];

/// The points that links over sockets pass too.
const POINTS_OF_SOCKETS: [&str; 14] = [
    "goodbye",
    "goodbye-sent",
    "await",
    "await-sleep",
    "await-woken",
    "await-answered",
    "end",
    "end-published",
    "reattach",
    "receive",
    "queue",
    "queue-accepted",
    "answer-said",
    "reader-end",
];

impl Link {
    /// Returns the link without acks, over the requested transport.
    pub fn plain(only: Option<&'static str>) -> Self {
        Self { transport: only.unwrap_or(PLAIN.transport), ..PLAIN }
    }

    /// Returns whether the link has no acks.
    pub fn is_plain(self) -> bool {
        self.scope == PLAIN.scope
    }

    /// Returns the rules of a topic over the link. A send that reaches the deadline counts as a
    /// hang.
    pub fn rules(self) -> String {
        format!("transport = '{}'\nscope = '{}'\ndeadline-ms = 30000", self.transport, self.scope)
    }

    /// Returns whether packets of a killed sender may be missing at the end, because the link
    /// repairs nothing, or because the packets were in the memory of the sender.
    pub fn is_lossy(self) -> bool {
        [LOSSY, ZEROMQ, ZENOH, DDS].contains(&self.transport)
    }

    /// Returns whether the packets that were lost with a killed sender are reported to the
    /// receivers.
    pub fn reports_tail(self) -> bool {
        [ZEROMQ, ZENOH, DDS].contains(&self.transport)
    }

    /// Returns whether a ring carries the packets. The position of a dead receiver is then exact.
    pub fn is_ring(self) -> bool {
        self.transport == "shm"
    }

    /// Returns whether a send returns only after the receivers have released the packet.
    pub fn is_target(self) -> bool {
        self.scope == "target"
    }
}

/// Chooses the link for a death, over the requested transport if there is one. A point that only
/// acks pass gets a link with acks.
pub fn link(death: Death, only: Option<&'static str>, rng: &mut Rng) -> Link {
    let any = any_link(death, rng);
    Link { transport: only.unwrap_or(any.transport), ..any }
}

fn any_link(death: Death, rng: &mut Rng) -> Link {
    let transport = ["shm", "uds", "tcp"][rng.below(3) as usize];
    let scope = ["server", "target"][rng.below(2) as usize];
    match death.name() {
        "await" | "await-sleep" | "await-woken" | "await-answered" => Link { transport, scope: "target" },
        "queue" | "queue-accepted" => Link { transport, scope: "server" },
        "answer" | "answer-said" => Link { transport, scope: "target" },
        "answer-stored" => Link { transport: "shm", scope: "target" },
        "any-time" if rng.below(2) == 0 => Link { transport, scope },
        point if POINTS_OF_HANDSHAKE.contains(&point) => Link { transport, ..PLAIN },
        // These points need a receiver that takes nothing, or lie between two streams.
        "writer-sleep" | "writer-wake" | "writer-detach" | "admit-returned" | "reader-end" => PLAIN,
        "release-stored" | "reattach" | "any-time" => PLAIN,
        _ if rng.below(4) == 0 => Link { transport: "shm", scope },
        _ => PLAIN,
    }
}

/// Returns the points of senders, or of receivers, over the requested transport.
pub fn points(of_senders: bool, only: Option<&str>) -> Vec<&'static str> {
    let (senders, receivers) = POINTS.split_at(place(FIRST_OF_RECEIVERS));
    let receivers = &receivers[..place(FIRST_OF_MOVES) - senders.len()];
    let all = if of_senders { senders } else { receivers };
    all.iter().copied().filter(|point| !is_missing(point, only)).collect()
}

/// Returns the points of a move to another transport.
pub fn points_of_moves() -> &'static [&'static str] {
    &POINTS[place(FIRST_OF_MOVES)..place(FIRST_OF_CALLS)]
}

/// Returns the points that only servers of calls pass, or only clients of calls.
pub fn points_of_calls(of_servers: bool) -> &'static [&'static str] {
    let (clients, servers) =
        POINTS[place(FIRST_OF_CALLS)..].split_at(place(FIRST_OF_SERVERS) - place(FIRST_OF_CALLS));
    if of_servers { servers } else { clients }
}

fn place(of: &str) -> usize {
    POINTS.iter().position(|point| *point == of).unwrap_or(0)
}

/// Returns the `index`th death in calls, and whether a server dies.
///
/// Every point has its turn, with deaths at any time in between.
pub fn death_in_calls(index: u64, rng: &mut Rng) -> (Death, bool) {
    let (servers, clients) = (points_of_calls(true), points_of_calls(false));
    let turn = index % (servers.len() + clients.len() + 3) as u64;
    let point = servers.iter().chain(clients).nth(turn as usize);
    match point {
        Some(point) => (Death::Point(point, 1 + rng.below(20)), servers.contains(point)),
        None => (Death::Time(rng.below(20_000)), rng.below(2) == 0),
    }
}

/// Returns the `index`th death of senders, or of receivers.
///
/// Every point that links over the transport pass has its turn, with deaths at any time in between.
pub fn death(of_senders: bool, index: u64, only: Option<&'static str>, rng: &mut Rng) -> Death {
    let points = points(of_senders, only);
    let turn = points.len() as u64 + points.len() as u64 / 4;
    match points.get((index % turn) as usize) {
        Some(point) => Death::Point(point, 1 + rng.below(times(point))),
        None => Death::Time(rng.below(20_000)),
    }
}

/// Returns whether links over the transport do not pass a point. `None` stands for the transports
/// of the mixture.
fn is_missing(point: &str, only: Option<&str>) -> bool {
    let (of_sessions, of_repairs) = (POINTS_OF_SESSIONS.contains(&point), POINTS_OF_REPAIRS.contains(&point));
    let (of_names, of_orbs) = (POINTS_OF_NAMES.contains(&point), POINTS_OF_ORBS.contains(&point));
    match only.unwrap_or(PLAIN.transport) {
        ICEORYX2 if of_names || POINTS_OF_PROBES.contains(&point) => false,
        DDS if POINTS_OF_DDS.contains(&point) || POINTS_OF_PROBES.contains(&point) => false,
        CORBA if of_orbs || POINTS_OF_PROBES.contains(&point) => false,
        LOSSY if of_sessions || of_repairs => false,
        "udp" | "multicast" if of_sessions => false,
        ZENOH if POINTS_OF_PROBES.contains(&point) => false,
        "shm" => of_sessions || of_repairs || of_names || of_orbs || POINTS_OF_DDS.contains(&point),
        _ => !POINTS_OF_SOCKETS.contains(&point) && !POINTS_OF_HANDSHAKE.contains(&point),
    }
}

/// Returns the minimum number of times that a point is passed.
fn times(point: &str) -> u64 {
    match point {
        "greet" | "greet-entered" | "greet-welcomed" | "admit" | "admit-attached" => 2,
        "session-end" | "session-ended" | "probe" | "probe-answered" => 2,
        "loan" | "publish" | "publish-committed" | "publish-woken" => 30,
        "receive" | "release" => 20,
        "await" | "await-answered" | "queue" | "queue-accepted" => 20,
        "answer" | "answer-stored" | "answer-said" => 20,
        "writer-sleep" | "writer-wake" | "reader-sleep" | "reader-wake" | "release-stored"
        | "await-sleep" => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_its_turn() {
        let mut rng = Rng::new(1);
        for of_senders in [true, false] {
            let all: Vec<_> = (0..100).map(|index| death(of_senders, index, None, &mut rng).name()).collect();
            assert!(points(of_senders, None).iter().all(|point| all.contains(point)));
            assert!(all.contains(&"any-time"));
        }
        let links = |name| (0..100).map(move |n| link(Death::Point(name, 1), None, &mut Rng::new(n)));
        assert!(links("await").all(Link::is_target) && links("queue").any(|link| !link.is_ring()));
        assert!(links("publish").all(Link::is_ring) && links("publish").any(Link::is_target));
        let lists = [
            &POINTS_OF_SOCKETS[..],
            &POINTS_OF_HANDSHAKE,
            &POINTS_OF_SESSIONS,
            &POINTS_OF_PROBES,
            &POINTS_OF_REPAIRS,
            &POINTS_OF_NAMES,
            &POINTS_OF_DDS,
            &POINTS_OF_ORBS,
        ];
        assert!(lists.concat().iter().all(|point| POINTS.contains(point)));
        assert!(links("greet").any(|link| !link.is_ring()) && links("greet").any(Link::is_ring));
        for index in 0..100 {
            let death = death(index % 2 == 0, index, Some("mqueue"), &mut rng);
            let passes = [&POINTS_OF_SOCKETS[..], &POINTS_OF_HANDSHAKE, &["any-time"]].concat();
            assert!(passes.contains(&death.name()));
            assert_eq!(link(death, Some("mqueue"), &mut rng).transport, "mqueue");
        }
        let points_over = |only| [points(true, only), points(false, only)].concat();
        assert!(
            points_over(Some(LOSSY)).contains(&"repair") && !points_over(Some("udp")).contains(&"repair")
        );
        assert!(points_over(Some("udp")).contains(&"session-end"));
        assert!(points_over(Some(ICEORYX2)).contains(&"iceoryx2-names"));
        assert!(
            points(true, Some(DDS)).contains(&"dds-writer")
                && points(false, Some(DDS)).contains(&"dds-reader")
        );
        assert!(points_over(Some(CORBA)).contains(&"corba-name"));
        let of_calls = [true, false].map(|of_servers| points_of_calls(of_servers).len());
        let others = of_calls[0]
            + of_calls[1]
            + points_of_moves().len()
            + POINTS_OF_SESSIONS.len()
            + POINTS_OF_NAMES.len()
            + POINTS_OF_DDS.len()
            + POINTS_OF_ORBS.len()
            + POINTS_OF_REPAIRS.len();
        assert_eq!(points_over(None).len() + others, POINTS.len(), "every point belongs to one part");
        assert!(
            points_of_calls(false).contains(&"call-sent") && points_of_calls(true).contains(&"call-begun")
        );
        let all: Vec<_> = (0..100).map(|index| death_in_calls(index, &mut rng)).collect();
        for of_servers in [true, false] {
            for point in points_of_calls(of_servers) {
                assert!(all.iter().any(|(death, server)| death.name() == *point && *server == of_servers));
            }
        }
    }
}
