//! `bulkio-sink`: samples to REDHAWK and other programs with BulkIO, through a uses port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stripline::component::{
    Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec, StopSignal,
};
use stripline::node::Subscriber;
use stripline::payload::{Dynamic, TypeName};
use stripline::{Error, Packet, Result, StreamInfo};
use stripline_middleware::internal::{BulkioOutput, BulkioSri, BulkioTime};

use super::bulkio::{self, Elements};
use super::stream_order;

/// The maximum number of sample bytes in a call: the default of omniORB accepts 2 MiB.
const CALL_BYTES: usize = 1 << 20;
/// The maximum number of open streams. Beyond it, the oldest stream ends.
const STREAMS_MAX: usize = 64;

/// The component `bulkio-sink`.
pub struct BulkioSink {
    properties: Properties,
}

impl Component for BulkioSink {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "bulkio-sink",
            "Sends samples to REDHAWK and other programs by a uses port of BulkIO.",
        )
        .input("in", PortTypes::OneOf(bulkio::type_names()), "samples for the other programs")
        .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
        .property(PropertySpec::integer(
            "connections",
            1,
            0,
            256,
            "connections to provides ports that are waited for, at the start and after one has failed",
        ));
        bulkio::described(spec, "provides")
    }

    fn new(properties: &Properties) -> Result<Self> {
        bulkio::open(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let properties = &self.properties;
        let type_name = ports.payload("in").map_or("cf32", TypeName::as_str).to_owned();
        let Elements { samples, kind, is_complex } = Elements::of(&type_name)?;
        let (stop, watched) = (ports.stop_signal(), ports.stop_signal());
        let name = ports.component().to_owned();
        let output = BulkioOutput::new(&format!("{name}.in"), kind)?;
        let _reference = output.publish(properties.text("ior_file"), properties.text("name"))?;
        for reference in bulkio::references(properties) {
            output.connect(reference, &bulkio::connection_name(&name)?)?;
        }
        let input = ports.input::<Dynamic>(("in", &samples))?;
        let connections = properties.count("connections") as usize;
        let may_come = bulkio::is_findable(properties)?;
        let mut sink = StreamSink {
            output: &output,
            is_complex,
            sample_bytes: samples.size(),
            connections,
            may_come,
            open: Vec::new(),
        };
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // A call waits as long as the other program takes. A stop ends the call.
            let watch = || {
                // Relaxed: no other data is read depending on the flag.
                while !has_ended.load(Ordering::Relaxed) {
                    if watched.sleep(bulkio::STOP_CHECK).is_err() {
                        return output.end_pushing();
                    }
                }
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, watch);
            started.map_err(|e| Error::failed(format!("cannot start a thread: {e}")))?;
            let _end = SetAtEnd(&has_ended);
            sink.run(input, &stop)
        })
    }
}

/// A flag that is set when this value is dropped, also by a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        // Relaxed: no other data is read depending on the flag.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The port, and the open streams.
struct StreamSink<'a> {
    output: &'a BulkioOutput,
    is_complex: bool,
    sample_bytes: usize,
    connections: usize,
    /// Whether other programs can connect.
    may_come: bool,
    /// The open streams, in the order of their last descriptions.
    open: Vec<Arc<StreamInfo>>,
}

impl StreamSink<'_> {
    /// Pushes all packets, and then the ends of all streams.
    fn run(&mut self, mut input: Subscriber<Dynamic>, stop: &StopSignal) -> Result<()> {
        while let Some(packet) = input.receive()? {
            self.push(&packet, stop)?;
        }
        for info in std::mem::take(&mut self.open) {
            self.end(&info)?;
        }
        Ok(())
    }

    /// Waits until there are as many connections as required.
    fn await_connections(&self, stop: &StopSignal) -> Result<()> {
        while self.output.connections() < self.connections {
            if !self.may_come {
                return Err(Error::failed(format!(
                    "{} of {} connections are left, and no program can connect; start them before, and this again, or set \
                     `ior_file` so that they connect",
                    self.output.connections(),
                    self.connections
                )));
            }
            stop.sleep(bulkio::STOP_CHECK)?;
        }
        Ok(())
    }

    fn push(&mut self, packet: &Packet<'_, Dynamic>, stop: &StopSignal) -> Result<()> {
        let info = packet.stream();
        if self.open.last() != Some(info) {
            self.describe(info)?;
        }
        let most = CALL_BYTES / self.sample_bytes * self.sample_bytes;
        let mut time_ns = Some(packet.time_ns());
        let rate = info.sample_rate_hz.filter(|rate| *rate > 0.0);
        let mut before = 0;
        for part in packet.chunks(most) {
            // If no connection has taken the part, push it again to the next connection.
            loop {
                self.await_connections(stop)?;
                if self.output.push(&info.id, part, BulkioTime::of(time_ns), false)? > 0
                    || self.connections == 0
                {
                    break;
                }
            }
            before += part.len() / self.sample_bytes;
            // Without a rate, the times of later parts are unknown.
            time_ns = rate.map(|rate| packet.time_ns().saturating_add((before as f64 / rate * 1e9) as i64));
        }
        Ok(())
    }

    /// Sets the description of a stream.
    fn describe(&mut self, info: &Arc<StreamInfo>) -> Result<()> {
        stream_order::check_one_channel(info, "the description of a stream in BulkIO")?;
        match self.open.iter().position(|open| open.id == info.id) {
            Some(place) if self.open[place] == *info => {
                let open = self.open.remove(place);
                self.open.push(open);
                return Ok(());
            }
            Some(place) => drop(self.open.remove(place)),
            None if self.open.len() >= STREAMS_MAX => {
                let oldest = self.open.remove(0);
                self.end(&oldest)?;
            }
            None => {}
        }
        self.output.set_stream(&BulkioSri::of(info, self.is_complex))?;
        self.open.push(Arc::clone(info));
        Ok(())
    }

    fn end(&self, info: &StreamInfo) -> Result<()> {
        self.output.push(&info.id, &[], BulkioTime::of(None), true).map(drop)
    }
}
