//! The stock components, by the `type` names of waveform files.
//!
//! The components use only Stripline's public interface, so each is also an example. The components
//! contain ports, properties and loops. Signal processing and file formats are elsewhere
//! ([`dsp`](crate::dsp), [`formats`](crate::formats), [`adsb`](crate::adsb)).
//!
//! `stripline components` lists all components. To add a component, add a file, and in this file a
//! `mod` line and a line in [`registry`].

mod adder;
pub mod adsb;
mod beamformer;
mod channel_select;
mod demodulate;
mod demultiplexer;
mod fft;
mod file_sink;
mod file_source;
mod filter;
mod generate;
mod inputs;
mod line_file;
mod magnitude;
mod multiplexer;
mod network;
mod noise;
mod null;
mod output_file;
mod packet_lines;
mod print_sink;
mod property_errors;
mod replay;
mod resample;
mod sent_type;
mod simulated_receiver;
mod stream_order;
mod stream_rules;
mod throttle_tee;
mod timing;
mod waterfall;
mod wav_sink;

use stripline::component::{HandlerComponent, Registry};

pub use adder::Adder;
pub use beamformer::Beamformer;
pub use channel_select::ChannelSelect;
pub use demodulate::{AmDemodulatorComponent, FmDemodulatorComponent};
pub use demultiplexer::Demultiplexer;
pub use fft::FftComponent;
pub use file_sink::FileSink;
pub use file_source::FileSource;
pub use filter::{Decimator, FirFilterComponent};
pub use generate::{FmStationComponent, SignalGenerator};
pub use magnitude::Magnitude;
pub use multiplexer::Multiplexer;
pub use network::{TcpSink, TcpSource, UdpSink, UdpSource};
pub use noise::AwgnComponent;
pub use null::{NullSink, NullSource};
pub use packet_lines::PacketLines;
pub use print_sink::PrintSink;
pub use replay::{Played, Replay, WITHOUT_CHECKSUMS, play};
pub use resample::ResamplerComponent;
pub use simulated_receiver::SimulatedReceiver;
pub use stream_rules::{STREAM_KEYS, STREAM_RULES, StreamRule, stream_rule};
pub use throttle_tee::{Tee, Throttle};
pub use waterfall::WaterfallSink;
pub use wav_sink::WavSink;

/// Returns all stock components, by their names in waveform files, with the components of
/// [`stripline_middleware`] and [`stripline_radio`]. Also adds the transports of
/// [`stripline_middleware`] to this process.
///
/// ```
/// let registry = stripline_components::registry();
/// assert!(registry.specs().contains_key("adsb-source"));
/// ```
pub fn registry() -> Registry {
    stripline_middleware::register();
    stripline_radio::with_components(stripline_middleware::with_components(Registry::new()))
        .with::<Adder>()
        .with::<adsb::AdsbDecoder>()
        .with::<adsb::AdsbDemodulator>()
        .with::<adsb::AdsbSink>()
        .with::<adsb::AdsbSource>()
        .with::<AmDemodulatorComponent>()
        .with::<AwgnComponent>()
        .with::<Beamformer>()
        .with::<ChannelSelect>()
        .with::<Decimator>()
        .with::<Demultiplexer>()
        .with::<FftComponent>()
        .with::<FileSink>()
        .with::<FileSource>()
        .with::<FirFilterComponent>()
        .with::<FmDemodulatorComponent>()
        .with::<FmStationComponent>()
        .with::<HandlerComponent<Magnitude>>()
        .with::<Multiplexer>()
        .with::<NullSink>()
        .with::<NullSource>()
        .with::<PrintSink>()
        .with::<Replay>()
        .with::<ResamplerComponent>()
        .with::<SignalGenerator>()
        .with::<SimulatedReceiver>()
        .with::<TcpSink>()
        .with::<TcpSource>()
        .with::<Tee>()
        .with::<Throttle>()
        .with::<UdpSink>()
        .with::<UdpSource>()
        .with::<WaterfallSink>()
        .with::<WavSink>()
}
