//! Parts that most components need: pacing for sources, and the continuity of streams for the
//! components behind them. The stock components are built from these parts.
//!
//! ```
//! use stripline::StreamInfo;
//! use stripline::component::{ComponentSpec, kit};
//!
//! let spec = ComponentSpec::new("level", "Measures a level.").property(kit::sample_rate_property());
//! assert_eq!(spec.properties[0].name, "sample_rate");
//! let stream = StreamInfo::new("antenna").sample_rate_hz(2e6);
//! assert_eq!(kit::sample_rate(0.0, &stream)?, 2e6);
//! # Ok::<(), stripline::Error>(())
//! ```

mod continuity;
mod pacing;
mod text;

pub use continuity::{Continuity, StreamTracker, sample_rate, sample_rate_property};
pub use pacing::{Pace, PacedSource};
pub use text::{counted, grouped};
