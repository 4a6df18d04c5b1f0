//! `bulkio-source`: streams from REDHAWK and other programs with BulkIO, through a provides port.

use std::sync::Arc;

use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::node::Publisher;
use stripline::payload::Dynamic;
use stripline::{Result, StreamInfo};
use stripline_middleware::internal::{BulkioInput, BulkioPacket};

use super::bulkio::{self, Elements};

/// The component `bulkio-source`.
pub struct BulkioSource {
    properties: Properties,
}

impl Component for BulkioSource {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "bulkio-source",
            "Receives streams of REDHAWK and other programs by a provides port of BulkIO.",
        )
        .sample_rate(RateRule::property("sample_rate"))
        .output("out", PortTypes::Property("samples".into()), "the samples of all streams")
        .property(PropertySpec::choice(
            "samples",
            &bulkio::TYPES,
            "cf32",
            "type of the samples, which gives that of the port",
        ))
        .property(
            PropertySpec::float("sample_rate", 0.0, "of streams without one; 0: unknown")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(PropertySpec::integer(
            "streams",
            0,
            0,
            1_000_000,
            "streams until the component ends; 0: it goes on",
        ));
        bulkio::described(spec, "uses")
    }

    fn new(properties: &Properties) -> Result<Self> {
        bulkio::open(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let properties = &self.properties;
        let Elements { samples, kind, is_complex } = Elements::of(properties.text("samples"))?;
        let stop = ports.stop_signal();
        let name = ports.component().to_owned();
        let mut source = StreamSource {
            output: ports.output::<Dynamic>(("out", &samples))?,
            known: Some(properties.float("sample_rate")).filter(|rate| *rate > 0.0),
            stream: None,
            sample_bytes: samples.size(),
        };
        let input = BulkioInput::new(&format!("{name}.out"), kind, is_complex)?;
        let _reference = input.publish(properties.text("ior_file"), properties.text("name"))?;
        let mut joined = Vec::new();
        for reference in bulkio::references(properties) {
            joined.push(input.connect_to(reference, &bulkio::connection_name(&name)?)?);
        }
        let streams = properties.count("streams");
        let mut ended = 0;
        let outcome = loop {
            if stop.is_stopped() || (streams > 0 && ended >= streams) {
                break Ok(());
            }
            let Some(packet) = input.receive(bulkio::STOP_CHECK) else { continue };
            if let Err(error) = source.send(&packet) {
                break Err(error);
            }
            ended += u64::from(packet.ends);
            input.recycle(packet);
        };
        let dropped: usize = joined.into_iter().map(|connection| input.disconnect(connection)).sum();
        if dropped > 0 {
            log::warn!(target: "stripline::bulkio", "{name}: {dropped} packets came after the end, and are dropped");
        }
        outcome
    }
}

/// The output, and the current stream.
struct StreamSource {
    output: Publisher<Dynamic>,
    /// The rate for streams without one.
    known: Option<f64>,
    stream: Option<Arc<StreamInfo>>,
    sample_bytes: usize,
}

impl StreamSource {
    /// Sends a packet. If the stream is new, the description is set first.
    fn send(&mut self, packet: &BulkioPacket) -> Result<()> {
        if !self.stream.as_ref().is_some_and(|stream| Arc::ptr_eq(stream, &packet.stream)) {
            let info = (*packet.stream).clone();
            let sample_rate_hz = info.sample_rate_hz.or(self.known);
            self.output.set_stream(StreamInfo { sample_rate_hz, ..info });
            self.stream = Some(Arc::clone(&packet.stream));
        }
        // The last packet of a stream may have no samples.
        let samples = packet.bytes.len() / self.sample_bytes;
        if samples == 0 {
            return Ok(());
        }
        let mut loan = self.output.loan(samples)?;
        loan.copy_from_slice(&packet.bytes);
        match packet.time_ns {
            Some(time_ns) => loan.at_time_ns(time_ns).send(),
            None => loan.send(),
        }
    }
}
