//! The rules a connection is asked to keep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Flow, Group, WaitStrategy, Watermarks};

/// The rules of one connection, as the receiving port asks for them.
///
/// ```
/// use stripline::link::{LinkOptions, Overflow, Scope};
///
/// let options = LinkOptions::default();
/// assert_eq!((options.overflow, options.scope), (Overflow::Block, Scope::Transport));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkOptions {
    /// What happens when the receiver is slow.
    pub overflow: Overflow,
    /// Packets that may wait for the receiver, 1 to [`LinkOptions::DEPTH_MAX`].
    pub depth: u32,
    /// Under [`Overflow::Block`]: how many packets wait when the sender is held up, 1 to `depth`; `None`: `depth`.
    pub high_watermark: Option<u32>,
    /// Under [`Overflow::Block`]: how many are left when a sender that was held up, or told that there is no room, goes on:
    /// 0 to one less than the high watermark; `None`: three quarters of it, rounded down.
    pub low_watermark: Option<u32>,
    /// Under [`Overflow::Block`]: who sees to that.
    pub flow: Flow,
    /// How long a send waits for room, in milliseconds, 1 to [`LinkOptions::DEADLINE_MS_MAX`], before it fails with
    /// [`Error::Stalled`](crate::Error::Stalled); `None`: for as long as it takes. Of a port with several connections, the
    /// shortest that one of them asks for.
    pub send_timeout_ms: Option<u32>,
    /// When a send returns. A port with several connections keeps the strongest of theirs, for all of them.
    pub scope: Scope,
    /// How long a send of scope `server` or `target` waits for its receivers once the packet is sent, in milliseconds: 1
    /// to [`LinkOptions::DEADLINE_MS_MAX`]. Of a port with several connections, the longest of theirs.
    pub deadline_ms: u32,
    /// How the receiving port puts packets back in sequence that several threads forwarded as they finished them;
    /// `None`: it takes them as they come.
    pub resequence: Option<Resequence>,
    /// Bytes of the sending port's shared ring, a power of two in
    /// [`LinkOptions::BUFFER_MIN`] to [`LinkOptions::BUFFER_MAX`]; a packet that fits with its headers in half of it
    /// is written in place and sent in one piece, a larger one in several.
    pub buffer: u32,
    /// How the receiving port waits for packets, and the sending port for room. A port with several connections
    /// does as the busiest of them says.
    pub wait: WaitStrategy,
    /// Whether the sending port's ring is made of huge pages, which must be reserved; its buffer is a multiple of
    /// their size then. A port has one ring on a transport: it is so if any of its connections asks for it.
    pub huge_pages: bool,
    /// Whether the ring is locked into memory, on both sides, so that neither ever waits for a page. Of a sending
    /// port as `huge_pages`.
    pub locked: bool,
    /// Whom the link is open to besides its own user. Each side checks the other.
    pub group: Option<Group>,
}

impl LinkOptions {
    /// The largest depth, in packets.
    pub const DEPTH_MAX: u32 = 65_536;
    /// The longest deadline, in milliseconds: an hour.
    pub const DEADLINE_MS_MAX: u32 = 3_600_000;
    /// The smallest ring, in bytes.
    pub const BUFFER_MIN: u32 = 4096;
    /// The largest ring, in bytes.
    pub const BUFFER_MAX: u32 = 1 << 30;
    /// The largest packet, in bytes, whatever the ring.
    ///
    /// ```
    /// assert_eq!(stripline::link::LinkOptions::PACKET_MAX, 1 << 30);
    /// ```
    pub const PACKET_MAX: usize = 1 << 30;

    /// Checks the numbers.
    ///
    /// # Errors
    /// A sentence that names the number and its range.
    ///
    /// ```
    /// use stripline::link::LinkOptions;
    ///
    /// let options = LinkOptions { depth: 0, ..LinkOptions::default() };
    /// assert_eq!(options.check().unwrap_err(), "depth is 0; it must be from 1 to 65536");
    /// ```
    pub fn check(&self) -> Result<(), String> {
        if self.depth == 0 || self.depth > Self::DEPTH_MAX {
            return Err(format!("depth is {}; it must be from 1 to {}", self.depth, Self::DEPTH_MAX));
        }
        Watermarks::new(self.depth, self.high_watermark, self.low_watermark)?;
        if let Some(timeout) = self.send_timeout_ms.filter(|ms| *ms == 0 || *ms > Self::DEADLINE_MS_MAX) {
            return Err(format!(
                "send-timeout-ms is {timeout}; it must be from 1 to {}",
                Self::DEADLINE_MS_MAX
            ));
        }
        if self.deadline_ms == 0 || self.deadline_ms > Self::DEADLINE_MS_MAX {
            let max = Self::DEADLINE_MS_MAX;
            return Err(format!("deadline-ms is {}; it must be from 1 to {max}", self.deadline_ms));
        }
        self.resequence.map_or(Ok(()), Resequence::check)?;
        if !self.buffer.is_power_of_two() || !(Self::BUFFER_MIN..=Self::BUFFER_MAX).contains(&self.buffer) {
            let (min, max) = (Self::BUFFER_MIN, Self::BUFFER_MAX);
            return Err(format!("buffer is {}; it must be a power of two from {min} to {max}", self.buffer));
        }
        Ok(())
    }

    /// How long a send waits for room.
    pub(crate) fn send_timeout(&self) -> Option<Duration> {
        self.send_timeout_ms.map(|ms| Duration::from_millis(u64::from(ms)))
    }

    /// Where a sender is held up and goes on; of numbers that do not pass [`LinkOptions::check`], those of the depth.
    pub(crate) fn watermarks(&self) -> Watermarks {
        let marks = Watermarks::new(self.depth, self.high_watermark, self.low_watermark);
        marks.unwrap_or_else(|_| Watermarks::of_depth(self.depth))
    }
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            overflow: Overflow::Block,
            depth: 64,
            high_watermark: None,
            low_watermark: None,
            flow: Flow::Transport,
            send_timeout_ms: None,
            scope: Scope::Transport,
            deadline_ms: 10_000,
            resequence: None,
            buffer: 1 << 21,
            wait: WaitStrategy::Adaptive,
            huge_pages: false,
            locked: false,
            group: None,
        }
    }
}

/// How a receiving port puts packets back in sequence: for how many, and for how long, a missing one is waited for. What
/// comes of it is said at [`Subscriber::resequenced`](crate::node::Subscriber::resequenced).
///
/// ```
/// use std::time::Duration;
/// use stripline::link::Resequence;
///
/// let resequence = Resequence::new(64, Duration::from_millis(100)).expect("both are in range");
/// assert_eq!((resequence.window(), resequence.skip_after().as_millis()), (64, 100));
/// let error = Resequence::new(0, Duration::ZERO).unwrap_err();
/// assert_eq!(error, "the resequencing window is 0; it must be from 1 to 65536");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resequence {
    window: u32,
    skip_after_ns: u64,
}

impl Resequence {
    /// The most packets that may be held.
    pub const WINDOW_MAX: u32 = 65_536;
    /// The longest that a missing packet can be waited for, in milliseconds: an hour.
    ///
    /// ```
    /// assert_eq!(stripline::link::Resequence::SKIP_AFTER_MS_MAX, 3_600_000);
    /// ```
    pub const SKIP_AFTER_MS_MAX: u32 = 3_600_000;

    /// Holds `window` packets at most, 1 to [`Resequence::WINDOW_MAX`], and each for `skip_after` at most,
    /// [`Resequence::SKIP_AFTER_MS_MAX`] at most.
    ///
    /// # Errors
    /// A sentence that names the number and its range.
    pub fn new(window: usize, skip_after: Duration) -> Result<Self, String> {
        let max = Self::WINDOW_MAX;
        let window = u32::try_from(window)
            .ok()
            .filter(|n| (1..=max).contains(n))
            .ok_or_else(|| format!("the resequencing window is {window}; it must be from 1 to {max}"))?;
        let longest = Duration::from_millis(Self::SKIP_AFTER_MS_MAX.into());
        if skip_after > longest {
            return Err(format!("a missing packet is skipped after {skip_after:?}; {longest:?} is the most"));
        }
        // At most an hour, which fits.
        Ok(Self { window, skip_after_ns: skip_after.as_nanos() as u64 })
    }

    /// Packets that may wait for a missing one.
    pub fn window(self) -> usize {
        self.window as usize
    }

    /// How long they do.
    pub fn skip_after(self) -> Duration {
        Duration::from_nanos(self.skip_after_ns)
    }

    pub(super) fn skip_after_ns(self) -> u64 {
        self.skip_after_ns
    }

    /// What was not made here but read may be out of range.
    fn check(self) -> Result<(), String> {
        Self::new(self.window(), self.skip_after()).map(drop)
    }
}

/// What happens when a receiver is slow; set per receiving port.
///
/// ```
/// use stripline::link::Overflow;
///
/// assert_eq!("drop-oldest".parse(), Ok(Overflow::DropOldest));
/// assert_eq!(Overflow::ALL.map(Overflow::as_str), ["block", "drop-oldest", "drop-newest", "eject"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The sender waits, or `try_send` says full.
    Block,
    /// The receiver loses its oldest waiting packets, counted and reported in band.
    DropOldest,
    /// The receiver loses the packets that find its queue full, counted and reported in band.
    DropNewest,
    /// The receiver is disconnected and told why.
    Eject,
}

impl Overflow {
    /// Every policy, in the order documented.
    pub const ALL: [Self; 4] = [Self::Block, Self::DropOldest, Self::DropNewest, Self::Eject];

    /// The word in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::DropOldest => "drop-oldest",
            Self::DropNewest => "drop-newest",
            Self::Eject => "eject",
        }
    }
}

/// When a send returns (the CORBA sync scopes). With several receivers it holds for all of them, with none at once.
///
/// A send of scope `server` or `target` first waits for room as any other. From when the packet is sent, it waits for its
/// receivers until the connection's deadline ([`Error::Unanswered`](crate::Error::Unanswered)); one that leaves or dies
/// meanwhile is waited for no longer ([`Error::ReceiverGone`](crate::Error::ReceiverGone)), nor is one that
/// refuses the packet or drops it by its policy ([`Error::PacketRefused`](crate::Error::PacketRefused)). The others are, and
/// the first error is returned. In all cases the packet stays sent.
///
/// ```
/// use stripline::link::Scope;
///
/// assert_eq!("transport".parse(), Ok(Scope::Transport));
/// assert_eq!(Scope::ALL.map(Scope::as_str), ["none", "transport", "server", "target"]);
/// assert!(Scope::None < Scope::Target);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The packet is queued in the sender's own process.
    None,
    /// The transport has accepted it: the kernel's socket buffer, the ring.
    Transport,
    /// The receiving side's runtime has accepted it into the input port's queue. Over memory that blocks, the ring is
    /// that queue; over sockets, a thread of the receiving side takes packets to it.
    Server,
    /// The receiving component has finished with it: it has dropped the [`Packet`](crate::Packet), or its handler has
    /// returned; or has said that it [refuses](crate::Packet::refuse) it. What was taken into a window
    /// ([`Windowed`](crate::node::Windowed)), held to be put in sequence ([`Resequence`]), or
    /// decoded and returned as a [`Message`](crate::node::Message) is the component's own, and counts as finished.
    Target,
}

impl Scope {
    /// Every scope, weakest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Transport, Self::Server, Self::Target];

    /// The word in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Transport => "transport",
            Self::Server => "server",
            Self::Target => "target",
        }
    }
}

macro_rules! words {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|known| known.as_str() == word).ok_or_else(|| {
                    let words: Vec<&str> = Self::ALL.iter().map(|known| known.as_str()).collect();
                    format!(concat!("`{}` is no ", $what, "; use one of {}"), word, words.join(", "))
                })
            }
        }
    };
}

words!(Flow, "kind of flow control");
words!(Overflow, "overflow policy");
words!(Scope, "sync scope");
words!(WaitStrategy, "wait strategy");
