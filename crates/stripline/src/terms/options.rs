//! The options of a connection.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Flow, Group, TransportOptions, WaitStrategy, Watermarks};

/// The options of one connection, as requested by the receiving port.
///
/// ```
/// use stripline::terms::{LinkOptions, Overflow, Scope};
///
/// let options = LinkOptions::default();
/// assert_eq!((options.overflow, options.scope), (Overflow::Block, Scope::Transport));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkOptions {
    /// The effect of a slow receiver.
    pub overflow: Overflow,
    /// The number of packets that may wait for the receiver, 1 to [`LinkOptions::DEPTH_MAX`].
    pub depth: u32,
    /// Under [`Overflow::Block`]: the number of waiting packets at which the sender blocks, 1 to
    /// `depth`; `None`: `depth`.
    pub high_watermark: Option<u32>,
    /// Under [`Overflow::Block`]: the number of waiting packets at which a blocked sender resumes.
    /// The number is less than the high watermark, and may be 0; `None`: three quarters of the high
    /// watermark, rounded down. The number also applies after a `try_send` that found no room.
    pub low_watermark: Option<u32>,
    /// Under [`Overflow::Block`]: the mechanism that blocks the sender.
    pub flow: Flow,
    /// The time for which a send waits for room before it fails with
    /// [`Error::Stalled`](crate::Error::Stalled), in milliseconds, 1 to
    /// [`LinkOptions::DEADLINE_MS_MAX`]; `None`: no limit. A port with several connections uses the
    /// shortest of their times.
    pub send_timeout_ms: Option<u32>,
    /// The event at which a send returns. A port with several connections uses the strongest of
    /// their scopes for all of them.
    pub scope: Scope,
    /// The time for which a send of scope `server` or `target` waits for the receivers after the
    /// packet is sent, in milliseconds, 1 to [`LinkOptions::DEADLINE_MS_MAX`]. A port with several
    /// connections uses the longest of their times.
    pub deadline_ms: u32,
    /// The limits within which the receiving port restores the sequence of packets that several
    /// threads forwarded as they finished them; `None`: it takes packets as they arrive.
    pub resequence: Option<Resequence>,
    /// The size of the sending port's shared ring in bytes, a power of two from
    /// [`LinkOptions::BUFFER_MIN`] to [`LinkOptions::BUFFER_MAX`]. A packet that fits with the
    /// headers in half of the ring is written in place and sent in one frame. A larger packet is
    /// sent in fragments.
    pub buffer: u32,
    /// The strategy by which the receiving port waits for packets, and the sending port for room. A
    /// port with several connections uses the busiest of their strategies.
    pub wait: WaitStrategy,
    /// Whether the sending port's ring consists of huge pages, which must be reserved beforehand.
    /// The buffer must then be a multiple of the page size. A port has one ring per transport, so
    /// any connection of the port can request this.
    pub huge_pages: bool,
    /// Whether the ring is locked into memory on both sides, so that neither side ever waits for a
    /// page. Like `huge_pages`, any connection of a sending port can request this.
    pub locked: bool,
    /// A group that may use the link in addition to the link's user. Each side checks the other.
    pub group: Option<Group>,
    /// Whether samples of a type without a layout may come from a program that is built
    /// differently. In this case nothing proves that the structures are the same.
    #[serde(default)]
    pub any_build: bool,
    /// The tables for single transports. The table of a transport that is not used has no effect.
    #[serde(default)]
    pub transport_options: TransportOptions,
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
    /// The largest packet in bytes, independent of the ring.
    ///
    /// ```
    /// assert_eq!(stripline::terms::LinkOptions::PACKET_MAX, 1 << 30);
    /// ```
    pub const PACKET_MAX: usize = 1 << 30;

    /// Checks the numbers against their ranges.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::terms::LinkOptions;
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
        self.transport_options.check()?;
        if !self.buffer.is_power_of_two() || !(Self::BUFFER_MIN..=Self::BUFFER_MAX).contains(&self.buffer) {
            let (min, max) = (Self::BUFFER_MIN, Self::BUFFER_MAX);
            return Err(format!("buffer is {}; it must be a power of two from {min} to {max}", self.buffer));
        }
        Ok(())
    }

    /// Returns the watermarks. If the numbers do not pass [`LinkOptions::check`], returns the
    /// default watermarks of the depth.
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
            any_build: false,
            transport_options: TransportOptions::default(),
        }
    }
}

/// The limits for restoring the sequence at a receiving port: how many packets it holds, and how
/// long it waits for a missing packet.
/// [`Subscriber::resequenced`](crate::node::Subscriber::resequenced) describes the result.
///
/// ```
/// use std::time::Duration;
/// use stripline::terms::Resequence;
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
    /// The largest number of packets that may be held.
    pub const WINDOW_MAX: u32 = 65_536;
    /// The longest wait for a missing packet, in milliseconds: an hour.
    ///
    /// ```
    /// assert_eq!(stripline::terms::Resequence::SKIP_AFTER_MS_MAX, 3_600_000);
    /// ```
    pub const SKIP_AFTER_MS_MAX: u32 = 3_600_000;

    /// Holds at most `window` packets, 1 to [`Resequence::WINDOW_MAX`], and each for at most
    /// `skip_after`, up to [`Resequence::SKIP_AFTER_MS_MAX`].
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
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
        // The time is at most an hour, which fits.
        Ok(Self { window, skip_after_ns: skip_after.as_nanos() as u64 })
    }

    /// Returns how many packets may wait for a missing packet.
    pub fn window(self) -> usize {
        self.window as usize
    }

    /// Returns the longest time for which packets wait.
    pub fn skip_after(self) -> Duration {
        Duration::from_nanos(self.skip_after_ns)
    }

    pub(crate) fn skip_after_ns(self) -> u64 {
        self.skip_after_ns
    }

    /// Checks the range of values that were deserialized instead of being made by `new`.
    fn check(self) -> Result<(), String> {
        Self::new(self.window(), self.skip_after()).map(drop)
    }
}

/// The effect of a slow receiver, set for each receiving port.
///
/// ```
/// use stripline::terms::Overflow;
///
/// assert_eq!("drop-oldest".parse(), Ok(Overflow::DropOldest));
/// assert_eq!(Overflow::ALL.map(Overflow::as_str), ["block", "drop-oldest", "drop-newest", "eject"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The sender waits, or `try_send` reports that there is no room.
    Block,
    /// The receiver loses the oldest waiting packets. The lost packets are counted and reported in
    /// band.
    DropOldest,
    /// The receiver loses the packets that arrive at a full queue. The lost packets are counted and
    /// reported in band.
    DropNewest,
    /// The receiver is disconnected and gets the reason.
    Eject,
}

impl Overflow {
    /// All policies, in the order documented.
    pub const ALL: [Self; 4] = [Self::Block, Self::DropOldest, Self::DropNewest, Self::Eject];

    /// Returns the word used in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::DropOldest => "drop-oldest",
            Self::DropNewest => "drop-newest",
            Self::Eject => "eject",
        }
    }
}

/// The event at which a send returns (the CORBA sync scopes). With several receivers, the event
/// must occur for all of them. Without receivers, the send returns at once.
///
/// A send of scope `server` or `target` first waits for room like any other. After the packet is
/// sent, it waits for the receivers until the connection's deadline
/// ([`Error::Unanswered`](crate::Error::Unanswered)). The send stops waiting for a receiver that
/// leaves or dies ([`Error::ReceiverGone`](crate::Error::ReceiverGone)), or that refuses the packet
/// or drops it by its policy ([`Error::PacketRefused`](crate::Error::PacketRefused)). The send
/// still waits for the other receivers, and returns the first error. In all cases the packet stays
/// sent.
///
/// ```
/// use stripline::terms::Scope;
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
    /// The transport has accepted the packet: it is in the socket buffer of the kernel, or in the
    /// ring.
    Transport,
    /// The receiving side's runtime has accepted the packet into the queue of the input port. Over
    /// a memory ring under `block`, this queue is the ring. Over sockets, a thread of the receiving
    /// side moves packets to the queue.
    Server,
    /// The receiving component has finished with the packet: it has dropped the
    /// [`Packet`](crate::Packet), [refused](crate::Packet::refuse) it, or returned from the
    /// handler. Packets that are taken into a window ([`Windowed`](crate::node::Windowed)) or held
    /// to restore the sequence ([`Resequence`]) count as finished earlier.
    Target,
}

impl Scope {
    /// All scopes, weakest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Transport, Self::Server, Self::Target];

    /// Returns the word used in a waveform file.
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
                    format!(concat!("`{}` is not ", $what, "; use one of {}"), word, words.join(", "))
                })
            }
        }
    };
}

pub(super) use words;

words!(Flow, "a kind of flow control");
words!(Overflow, "an overflow policy");
words!(Scope, "a sync scope");
words!(WaitStrategy, "a wait strategy");
