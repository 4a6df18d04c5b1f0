//! Stock components of Stripline.
pub mod adsb;
pub mod dsp;
pub mod formats;
