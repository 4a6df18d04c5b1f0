//! Outlets and inlets of any transport, as the link holds them. A ring is called directly, every
//! other transport by the trait. A path that a port has left keeps the outlet.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use super::ring::{RingInlet, RingOutlet};
use super::{Departures, FormerPaths, Inlet, Outlet};
use crate::sys::mutex::lock;

/// An outlet. The link calls a ring directly, because a virtual call is a notable part of the cost
/// of a small packet.
pub(crate) enum AnyOutlet {
    Ring(Box<RingOutlet>),
    Other(Box<dyn Outlet>),
}

impl AnyOutlet {
    pub(crate) fn other(outlet: impl Outlet + 'static) -> Self {
        Self::Other(Box::new(outlet))
    }
}

impl From<RingOutlet> for AnyOutlet {
    fn from(outlet: RingOutlet) -> Self {
        Self::Ring(Box::new(outlet))
    }
}

impl Deref for AnyOutlet {
    type Target = dyn Outlet;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Ring(ring) => &**ring,
            Self::Other(other) => &**other,
        }
    }
}

impl DerefMut for AnyOutlet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Ring(ring) => &mut **ring,
            Self::Other(other) => &mut **other,
        }
    }
}

/// An inlet. As with [`AnyOutlet`], the link calls a ring directly.
pub(crate) enum AnyInlet {
    Ring(Box<RingInlet>),
    Other(Box<dyn Inlet>),
}

impl AnyInlet {
    pub(crate) fn other(inlet: impl Inlet + 'static) -> Self {
        Self::Other(Box::new(inlet))
    }
}

impl From<RingInlet> for AnyInlet {
    fn from(inlet: RingInlet) -> Self {
        Self::Ring(Box::new(inlet))
    }
}

impl Deref for AnyInlet {
    type Target = dyn Inlet;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Ring(ring) => &**ring,
            Self::Other(other) => &**other,
        }
    }
}

impl DerefMut for AnyInlet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Ring(ring) => &mut **ring,
            Self::Other(other) => &mut **other,
        }
    }
}

/// A path that a port has left.
pub(crate) struct FormerPath {
    outlet: LeftOutlet,
    token: u64,
    paths: Arc<FormerPaths>,
}

enum LeftOutlet {
    /// The ring's memory has the positions of the receivers, and other threads ask for them.
    Ring(Arc<Mutex<RingOutlet>>),
    Other(Box<dyn Outlet>),
}

impl FormerPath {
    /// Keeps an outlet until its receivers have taken the rest. `end`: the number of the first
    /// packet over the next path.
    pub(crate) fn new(outlet: AnyOutlet, paths: &Arc<FormerPaths>, end: u64) -> Self {
        let (outlet, departures) = match outlet {
            AnyOutlet::Ring(ring) => {
                let ring = Arc::new(Mutex::new(*ring));
                (LeftOutlet::Ring(Arc::clone(&ring)), Some(ring as Arc<dyn Departures>))
            }
            AnyOutlet::Other(outlet) => {
                let departures = outlet.traits().departures;
                (LeftOutlet::Other(outlet), departures)
            }
        };
        Self { outlet, token: paths.add(departures, end), paths: Arc::clone(paths) }
    }

    /// Calls a function with the outlet.
    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut dyn Outlet) -> T) -> T {
        match &mut self.outlet {
            LeftOutlet::Ring(ring) => act(&mut *lock(ring)),
            LeftOutlet::Other(outlet) => act(&mut **outlet),
        }
    }
}

impl Drop for FormerPath {
    fn drop(&mut self) {
        self.paths.close(self.token);
    }
}
