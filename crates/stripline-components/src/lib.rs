//! Stock components of Stripline: sources, sinks and signal processing.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`components`] | the components: ports, properties and loops around what the others give |
//! | [`adsb`] | ADS-B and Mode S: demodulation, decoding, tracking, simulation |
//! | [`dsp`] | filters, demodulators, generators |
//! | [`formats`] | I/Q and WAV files |
//!
//! All but the first know neither ports nor links, and can be used alone.

pub mod adsb;
pub mod components;
pub mod dsp;
pub mod formats;

use stripline::component::{Handled, Registry};

/// All stock components, by the names that a waveform file knows them under.
///
/// ```
/// let registry = stripline_components::registry();
/// assert!(registry.specs().contains_key("adsb-source"));
/// ```
pub fn registry() -> Registry {
    use components::adsb::{AdsbDecoder, AdsbDemodulator, AdsbSink, AdsbSource};
    use components::{
        AmDemodulator, Awgn, Decimator, FileSink, FileSource, FirFilter, FmDemodulator, FmStation, Magnitude,
        NullSink, NullSource, SignalGenerator, Tee, Throttle, WavSink,
    };
    Registry::new()
        .with::<AdsbDecoder>()
        .with::<AdsbDemodulator>()
        .with::<AdsbSink>()
        .with::<AdsbSource>()
        .with::<AmDemodulator>()
        .with::<Awgn>()
        .with::<Decimator>()
        .with::<FileSink>()
        .with::<FileSource>()
        .with::<FirFilter>()
        .with::<FmDemodulator>()
        .with::<FmStation>()
        .with::<Handled<Magnitude>>()
        .with::<NullSink>()
        .with::<NullSource>()
        .with::<SignalGenerator>()
        .with::<Tee>()
        .with::<Throttle>()
        .with::<WavSink>()
}
