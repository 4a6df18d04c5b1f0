//! The dispatch of a port: the threads that run a component's handler.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The threads that run a handler ([`Subscriber::serve`](super::Subscriber::serve)).
///
/// ```
/// use stripline::node::{Completion, Dispatch};
///
/// assert_eq!("pool(4)".parse(), Ok(Dispatch::Pool { threads: 4, order: Completion::Any }));
/// assert_eq!("pool(4, resequence)".parse(), Ok(Dispatch::pool(4)?.in_order()));
/// assert_eq!(Dispatch::default().to_string(), "queue");
/// let error = "pool(0)".parse::<Dispatch>().unwrap_err();
/// assert_eq!(error, "a pool of 0 threads; it must have from 1 to 256");
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Dispatch {
    /// The component's own thread takes packets from the port's queue.
    #[default]
    Queue,
    /// The thread that receives: the component's own thread, or a middleware's thread that calls
    /// back. The handler never runs twice at once.
    Direct,
    /// Several threads at once.
    Pool {
        /// The number of threads: 1 to [`Dispatch::THREADS_MAX`].
        threads: usize,
        /// The order in which the results are passed on.
        order: Completion,
    },
}

/// The order in which a pool passes on results.
///
/// ```
/// use stripline::node::{Completion, Dispatch};
///
/// let pool = Dispatch::pool(2)?.in_order();
/// assert!(matches!(pool, Dispatch::Pool { order: Completion::Resequence, .. }));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// In the order in which the handlers finish.
    #[default]
    Any,
    /// In the order of the packets. A thread that finishes early waits for those before it.
    Resequence,
}

impl Dispatch {
    /// The most threads of a pool.
    pub const THREADS_MAX: usize = 256;

    /// Returns a pool that passes on results as they are finished.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::node::Dispatch;
    ///
    /// assert_eq!(Dispatch::pool(8)?.to_string(), "pool(8)");
    /// assert!(Dispatch::pool(Dispatch::THREADS_MAX + 1).is_err());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn pool(threads: usize) -> Result<Self> {
        let pool = Self::Pool { threads, order: Completion::Any };
        pool.check().map(|()| pool).map_err(Error::InvalidArgument)
    }

    /// Returns the same pool, but passing results on in the order of the packets. Other kinds of
    /// dispatch are unchanged.
    #[must_use]
    pub fn in_order(self) -> Self {
        match self {
            Self::Pool { threads, .. } => Self::Pool { threads, order: Completion::Resequence },
            Self::Queue | Self::Direct => self,
        }
    }

    /// Checks the number of threads.
    ///
    /// # Errors
    /// A sentence that names the number and the allowed range.
    ///
    /// ```
    /// use stripline::node::{Completion, Dispatch};
    ///
    /// assert!(Dispatch::Pool { threads: 0, order: Completion::Any }.check().is_err());
    /// ```
    pub fn check(self) -> Result<(), String> {
        match self {
            Self::Pool { threads, .. } if !(1..=Self::THREADS_MAX).contains(&threads) => {
                Err(format!("a pool of {threads} threads; it must have from 1 to {}", Self::THREADS_MAX))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("queue"),
            Self::Direct => f.write_str("direct"),
            Self::Pool { threads, order: Completion::Any } => write!(f, "pool({threads})"),
            Self::Pool { threads, order: Completion::Resequence } => write!(f, "pool({threads}, resequence)"),
        }
    }
}

impl FromStr for Dispatch {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "queue" => return Ok(Self::Queue),
            "direct" => return Ok(Self::Direct),
            _ => {}
        }
        let unknown = || {
            let text: String = text.chars().take(40).collect();
            format!("`{text}` is not a dispatch; use one of queue, direct, pool(N), pool(N, resequence)")
        };
        let inside =
            text.strip_prefix("pool(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(unknown)?;
        let (threads, order) = match inside.split_once(',') {
            None => (inside, Completion::Any),
            Some((threads, order)) if order.trim() == "resequence" => (threads, Completion::Resequence),
            Some(_) => return Err(unknown()),
        };
        let pool = Self::Pool { threads: threads.trim().parse().map_err(|_| unknown())?, order };
        pool.check().map(|()| pool)
    }
}

impl TryFrom<String> for Dispatch {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Dispatch> for String {
    fn from(dispatch: Dispatch) -> Self {
        dispatch.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dispatch_is_read_back_and_nothing_else() {
        let pool = |threads, order| Dispatch::Pool { threads, order };
        for (text, dispatch) in [
            ("queue", Dispatch::Queue),
            ("direct", Dispatch::Direct),
            ("pool(1)", pool(1, Completion::Any)),
            ("pool(256, resequence)", pool(256, Completion::Resequence)),
        ] {
            assert_eq!(text.parse(), Ok(dispatch));
            assert_eq!(dispatch.to_string(), text);
            let json = serde_json::to_string(&dispatch).unwrap();
            assert_eq!(serde_json::from_str::<Dispatch>(&json).unwrap(), dispatch);
        }
        assert_eq!("pool( 3 ,resequence )".parse(), Ok(pool(3, Completion::Resequence)));
        for (text, says) in [
            ("pool(0)", "a pool of 0 threads; it must have from 1 to 256"),
            ("pool(257)", "a pool of 257 threads"),
            ("pool", "`pool` is not a dispatch; use one of queue, direct, pool(N), pool(N, resequence)"),
            ("pool()", "is not a dispatch"),
            ("pool(-1)", "is not a dispatch"),
            ("pool(99999999999999999999)", "is not a dispatch"),
            ("pool(2, sorted)", "is not a dispatch"),
            ("Queue", "is not a dispatch"),
            ("", "`` is not a dispatch"),
        ] {
            let error = text.parse::<Dispatch>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!("x".repeat(1000).parse::<Dispatch>().unwrap_err().len() < 200);
    }
}
