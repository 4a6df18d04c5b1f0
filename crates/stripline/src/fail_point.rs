//! Points at which a test can have this process killed, to check that the surviving processes are
//! unharmed.
//!
//! Fail points exist only with the feature `fail-points`. Without it they compile to nothing. A
//! build with the feature reads an environment variable, so a program for users must not have it.

/// All points, in the order of a connection's life: first on the sending side, then on the
/// receiving side.
pub const POINTS: &[&str] = &[
    // Sending: the ring is created, and the port listens.
    "create-memory",
    "create-sealed",
    "create-door",
    // A receiver connects: the path is probed; messages of the handshake are exchanged; the sender
    // attaches the receiver.
    "probe",
    "probe-answered",
    "greet",
    "greet-welcomed",
    "greet-entered",
    "admit",
    "admit-returned",
    "admit-attached",
    // A packet is sent.
    "loan",
    "publish",
    "publish-committed",
    "publish-woken",
    // The sender waits for space.
    "writer-sleep",
    "writer-wake",
    // The sender waits for acknowledgements: packet published, asleep, woken, all received.
    "await",
    "await-sleep",
    "await-woken",
    "await-answered",
    // A receiver detaches, and the stream ends.
    "writer-detach",
    "end",
    "end-published",
    "end-closed",
    // The session of a sender over datagrams repairs losses of a receiver. At the end it passes on
    // the datagrams in transit.
    "repair",
    "repaired",
    "session-end",
    "session-ended",
    // The writer of a path over DDS is made, and has been discovered.
    "dds-writer",
    "dds-connected",
    // Receiving: a connection is made.
    "connect",
    "connect-hello",
    "probed",
    "connect-welcome",
    "connect-mapped",
    "connect-attached",
    // The names of a path over iceoryx2 are made; both ends have found each other.
    "iceoryx2-names",
    "iceoryx2-connected",
    // The reader of a path over DDS is made.
    "dds-reader",
    // The socket of an ORB has a name; the name has been removed.
    "corba-name",
    "corba-nameless",
    // A packet is received and released.
    "receive",
    "release",
    "release-stored",
    // A receiver continues after a predecessor that died. A test reaches this after a point of the
    // plain link has killed the predecessor.
    "reattach",
    // The sender waits for the packet: it is queued, and acknowledged as accepted. Later it is
    // finished: the result is stored, and then acknowledged.
    "queue",
    "queue-accepted",
    "answer",
    "answer-stored",
    "answer-said",
    // The receiver waits for packets.
    "reader-sleep",
    "reader-wake",
    // The session of a receiver over datagrams: datagrams are missing; the receiver has requested
    // them.
    "missing",
    "missing-asked",
    // The receiver reads the end of the stream, or detaches. A receiver without a successor sends a
    // goodbye first.
    "reader-end",
    "goodbye",
    "goodbye-sent",
    "reader-detach",
    // A port moves to another transport: it is open there; a receiver has connected; the port sends
    // the end of the path, and the receiver continues on the new one; the old path is dropped.
    "move-prepared",
    "move-connected",
    "move",
    "moved",
    "moved-receiver",
    "move-left",
    // A call: it is numbered; it is sent; the reply has arrived. Or it is cancelled, before and
    // after the server is notified.
    "call-numbered",
    "call-sent",
    "call-replied",
    "call-given-up",
    "call-taken-back",
    // At the server: a request is queued; the handler starts; the reply is about to be sent; the
    // reply was sent; the request is released.
    "call-waits",
    "call-begun",
    "call-answer",
    "call-answered",
    "call-released",
];

/// The environment variable that arms a point. With `NAME:N` the process is killed when it reaches
/// the point for the `N`th time.
#[cfg(feature = "fail-points")]
pub const VARIABLE: &str = "STRIPLINE_FAIL_POINT";

/// Marks a point of [`POINTS`]; a name that is not listed does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {{
        const _: () = assert!($crate::fail_point::is_known($name), "not in the list of fail points");
        $crate::fail_point::reached($name);
    }};
}
pub(crate) use fail_point;

#[cfg(feature = "fail-points")]
pub use armed::{in_last_moment, leave_like_the_dead, reached};

/// Does nothing, because this build has no fail points.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub fn reached(_point: &str) {}

/// Returns whether departing receivers must not send a goodbye.
pub(crate) fn is_silent() -> bool {
    #[cfg(feature = "fail-points")]
    return armed::is_silent();
    #[cfg(not(feature = "fail-points"))]
    false
}

/// Returns the start position of this process's rings, the frame count there, and the number of the
/// first packet.
pub(crate) fn start() -> (u64, u64) {
    #[cfg(feature = "fail-points")]
    if let Some(start) = armed::ring_start() {
        return start;
    }
    (0, 0)
}

/// Returns whether [`POINTS`] contains the name.
pub const fn is_known(name: &str) -> bool {
    let mut index = 0;
    while index < POINTS.len() {
        if is_same(POINTS[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

/// Compares two strings, because `==` is not `const` yet.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

#[cfg(feature = "fail-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::VARIABLE;

    /// The environment variable with the start of a ring, `POSITION,COUNT`. Packets are numbered
    /// from `COUNT`, too.
    const RING_START: &str = "STRIPLINE_RING_START";

    struct Armed {
        point: String,
        left: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    static LAST_MOMENT: OnceLock<fn()> = OnceLock::new();
    static SILENT: AtomicBool = AtomicBool::new(false);

    /// Makes the receivers of this process leave from now on as if the process had been killed.
    pub fn leave_like_the_dead() {
        SILENT.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_silent() -> bool {
        // Relaxed: this is set once, before any receiver exists.
        SILENT.load(Ordering::Relaxed)
    }

    /// Sets a function to run just before the kill, so that a test can record the time of death.
    pub fn in_last_moment(act: fn()) {
        // The function that was set first is kept.
        let _ = LAST_MOMENT.set(act);
    }

    /// Kills the process if this point is armed and the count is reached.
    pub fn reached(point: &str) {
        let Some(armed) = ARMED.get_or_init(armed) else { return };
        // Relaxed: only the count matters, and exactly one thread reaches zero.
        if armed.point == point && armed.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            if let Some(act) = LAST_MOMENT.get() {
                act();
            }
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Returns the start of rings that the environment specifies.
    pub(super) fn ring_start() -> Option<(u64, u64)> {
        let text = std::env::var(RING_START).ok()?;
        let (position, count) = text.split_once(',')?;
        Some((position.parse().ok()?, count.parse().ok()?))
    }

    fn armed() -> Option<Armed> {
        let text = std::env::var(VARIABLE).ok()?;
        let (point, times) = text.split_once(':')?;
        Some(Armed { point: point.into(), left: AtomicU64::new(times.parse().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_names_match_only_whole() {
        assert!(is_known("publish") && is_known("reader-detach"));
        assert!(!is_known("publis") && !is_known("publish-") && !is_known(""));
    }
}
