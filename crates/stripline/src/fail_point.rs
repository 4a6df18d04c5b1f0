//! Points at which a test can have this process killed, to see that whoever survives it is none the worse.
//!
//! They are there with the feature `fail-points` only; without it they are nothing at all. Such a build looks at an
//! environment variable, so a program for users must not have it: [`ENABLED`] tells.

/// Every point, in the order of a connection's life: first the sending side, then the receiving one.
pub const POINTS: &[&str] = &[
    // Sending: the ring is made, and its door opened.
    "create-memory",
    "create-sealed",
    "create-door",
    // A receiver comes: between the messages of the handshake, and when the sender lets it in.
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
    // The sender waits for room.
    "writer-sleep",
    "writer-wake",
    // It waits for answers: the packet is out, it sleeps, it was woken, it has them all.
    "await",
    "await-sleep",
    "await-woken",
    "await-answered",
    // A receiver goes, and the stream ends.
    "writer-detach",
    "end",
    "end-published",
    "end-closed",
    // Receiving: a connection is made.
    "connect",
    "connect-hello",
    "connect-welcome",
    "connect-mapped",
    "connect-attached",
    "reattach",
    // A packet is taken and given back.
    "receive",
    "release",
    "release-stored",
    // The sender waits for it: it is in the queue, and that was said; it is finished with, that is written down, and said.
    "queue",
    "queue-accepted",
    "answer",
    "answer-stored",
    "answer-said",
    // The receiver waits for packets.
    "reader-sleep",
    "reader-wake",
    // It hears of the end, or goes.
    "reader-end",
    "reader-detach",
    // A call: it has its number, it was sent, its reply is here; or it is taken back, and that was said.
    "call-numbered",
    "call-sent",
    "call-replied",
    "call-given-up",
    "call-taken-back",
    // At the server: it waits for its turn, it is begun, it is to be answered, it was, and its request is given back.
    "call-waits",
    "call-begun",
    "call-answer",
    "call-answered",
    "call-released",
];

/// `NAME:N` in this variable: killed when that point is reached for the `N`th time.
pub const VARIABLE: &str = "STRIPLINE_FAIL_POINT";

/// Whether this build has fail points.
pub const ENABLED: bool = cfg!(feature = "fail-points");

/// A point of [`POINTS`]; a name that is not there does not compile.
macro_rules! fail_point {
    ($name:literal) => {{
        const _: () = assert!($crate::fail_point::is_known($name), "not in the list of fail points");
        #[cfg(feature = "fail-points")]
        $crate::fail_point::reached($name);
    }};
}
pub(crate) use fail_point;

#[cfg(feature = "fail-points")]
pub use armed::{in_last_moment, leave_like_the_dead, reached};

/// Whether receivers that leave are not to say so.
pub(crate) fn is_silent() -> bool {
    #[cfg(feature = "fail-points")]
    return armed::is_silent();
    #[cfg(not(feature = "fail-points"))]
    false
}

/// Where the rings of this process start (position, and number of frames), and at which number its packets do.
pub(crate) fn start() -> (u64, u64) {
    #[cfg(feature = "fail-points")]
    if let Some(start) = armed::ring_start() {
        return start;
    }
    (0, 0)
}

/// Whether the list has it.
pub(crate) const fn is_known(name: &str) -> bool {
    let mut index = 0;
    while index < POINTS.len() {
        if is_same(POINTS[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

/// Comparing strings is not for constants yet.
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

    /// Where a ring starts: `POSITION,COUNT`, and packets are numbered from `COUNT`, too.
    const RING_START: &str = "STRIPLINE_RING_START";

    struct Armed {
        point: String,
        left: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    static LAST_MOMENT: OnceLock<fn()> = OnceLock::new();
    static SILENT: AtomicBool = AtomicBool::new(false);

    /// From now on, receivers of this process go as if it had been killed.
    pub fn leave_like_the_dead() {
        SILENT.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_silent() -> bool {
        // Relaxed: set once, before there are receivers.
        SILENT.load(Ordering::Relaxed)
    }

    /// To be run just before the end, to tell somebody when that is.
    pub fn in_last_moment(act: fn()) {
        // Who asked first is asked.
        let _ = LAST_MOMENT.set(act);
    }

    /// The process is at that point.
    pub fn reached(point: &str) {
        let Some(armed) = ARMED.get_or_init(armed) else { return };
        // Relaxed: only the number counts; one thread sees it at 1.
        if armed.point == point && armed.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            if let Some(act) = LAST_MOMENT.get() {
                act();
            }
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// What the environment says of it.
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
    fn names_are_known_whole() {
        assert!(is_known("publish") && is_known("reader-detach"));
        assert!(!is_known("publis") && !is_known("publish-") && !is_known(""));
    }
}
