//! Continuity of streams: a part of the public kit, under its path in this crate.

pub(crate) use stripline::component::kit::{Continuity, StreamTracker, sample_rate, sample_rate_property};
