//! Stock components of Stripline: sources, sinks and signal processing.
//!
//! | module | content |
//! | --- | --- |
//! | [`components`] | the components: ports, properties, and loops around the other modules |
//! | [`adsb`] | ADS-B and Mode S: demodulation, decoding, tracking, simulation |
//! | [`dsp`] | filters, demodulators, generators |
//! | [`formats`] | I/Q and WAV files |
//!
//! All modules but the first are independent of ports and links, and can be used alone.

pub mod adsb;
pub mod components;
pub mod dsp;
pub mod formats;

use stripline::component::{HandlerComponent, Registry};

/// Returns all stock components, by their names in waveform files.
///
/// ```
/// let registry = stripline_components::registry();
/// assert!(registry.specs().contains_key("adsb-source"));
/// ```
pub fn registry() -> Registry {
    use components::adsb::{AdsbDecoder, AdsbDemodulator, AdsbSink, AdsbSource};
    use components::{
        AmDemodulatorComponent, AwgnComponent, Decimator, FileSink, FileSource, FirFilterComponent,
        FmDemodulatorComponent, FmStationComponent, Magnitude, NullSink, NullSource, SignalGenerator, Tee,
        Throttle, WavSink,
    };
    Registry::new()
        .with::<AdsbDecoder>()
        .with::<AdsbDemodulator>()
        .with::<AdsbSink>()
        .with::<AdsbSource>()
        .with::<AmDemodulatorComponent>()
        .with::<AwgnComponent>()
        .with::<Decimator>()
        .with::<FileSink>()
        .with::<FileSource>()
        .with::<FirFilterComponent>()
        .with::<FmDemodulatorComponent>()
        .with::<FmStationComponent>()
        .with::<HandlerComponent<Magnitude>>()
        .with::<NullSink>()
        .with::<NullSource>()
        .with::<SignalGenerator>()
        .with::<Tee>()
        .with::<Throttle>()
        .with::<WavSink>()
}
