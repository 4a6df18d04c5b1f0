//! Stripline: low-loss links between radio components.

pub mod component;
pub mod link;
pub mod payload;
pub mod waveform;

pub use payload::Sample;
