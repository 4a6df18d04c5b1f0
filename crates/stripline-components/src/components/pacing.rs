//! Pacing for sources: a part of the public kit, under its path in this crate.

pub(crate) use stripline::component::kit::{Pace, PacedSource};
