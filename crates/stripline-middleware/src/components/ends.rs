//! One source and one sink for all formats of other programs.

use std::marker::PhantomData;

use stripline::component::{
    Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec, RateRule, Registry,
};
use stripline::node::Publisher;
use stripline::payload::{Dynamic, MessageCheck, SampleType, Schema, TypeName};
use stripline::{Complex, Error, Packet, Result, StreamInfo};

use super::properties::{insecure, refusal};

/// A format of other programs: both components, and the ends that they open.
pub(crate) trait Wire: Send + 'static {
    type Receiver: WireReceiver;
    type Sender: WireSender;

    /// The part of the format that has no place for the channels of a stream; `None`: the format
    /// has a place.
    const ONE_CHANNEL: Option<&'static str>;

    /// Describes the source, without the properties that source and sink share.
    fn source() -> ComponentSpec;

    /// Describes the sink, without the properties that source and sink share.
    fn sink() -> ComponentSpec;

    /// Returns the properties that both components have beside `insecure`.
    fn properties(is_sink: bool) -> Vec<PropertySpec>;

    /// Checks the properties, without opening anything.
    fn check(properties: &Properties) -> Result<()>;

    /// Checks the properties when a component is created. Starts the library if that must come
    /// before the first port.
    fn create(properties: &Properties) -> Result<()> {
        Self::check(properties)
    }
}

/// The items that an end is opened with.
pub(crate) struct Setup<'a> {
    pub properties: &'a Properties,
    /// The type of the samples, or of the messages.
    pub payload: &'a TypeName,
    /// The size of a sample in bytes; 1 for messages.
    pub sample_bytes: usize,
    pub ports: &'a Ports,
}

/// The receiving end of a source.
pub(crate) trait WireReceiver: Sized {
    fn open(setup: &Setup<'_>) -> Result<Self>;

    /// Waits for a message, but only for some milliseconds, and sends the samples. Returns false
    /// after the last message.
    fn receive(&mut self, output: &mut WireOutput) -> Result<bool>;
}

/// The sending end of a sink.
pub(crate) trait WireSender: Sized {
    fn open(setup: &Setup<'_>) -> Result<Self>;

    fn send(&mut self, packet: Packet<'_, Dynamic>) -> Result<()>;

    /// Ends the stream at the other programs.
    fn finish(self) -> Result<()>;
}

/// Adds both components of a format.
pub(crate) fn add<W: Wire>(registry: Registry) -> Registry {
    registry.with::<WireSource<W>>().with::<WireSink<W>>()
}

/// Returns the description of a component, with the properties that source and sink share.
fn described<W: Wire>(spec: ComponentSpec, is_sink: bool) -> ComponentSpec {
    let properties = W::properties(is_sink).into_iter().chain([insecure()]);
    let check = move |properties: &Properties| {
        if !is_sink {
            payload_in(properties)?;
        }
        W::check(properties)
    };
    properties.fold(spec, ComponentSpec::property).validated(check)
}

/// Returns the type in the property `samples`, and the size of a sample.
fn payload_in(properties: &Properties) -> Result<(TypeName, usize)> {
    let refused = |problem: String| {
        refusal("samples", problem, "name a type, as u8, a layout, or messages, as message/tune{hz:f64}")
    };
    let payload = TypeName::parse(properties.text("samples")).map_err(|error| refused(error.to_string()))?;
    let bytes = sample_bytes(&payload).map_err(|error| refused(error.to_string()))?;
    Ok((payload, bytes))
}

/// Returns the size of a sample in bytes; 1 for messages.
fn sample_bytes(payload: &TypeName) -> Result<usize> {
    match payload.is_message() {
        true => Ok(1),
        false => Ok(SampleType::try_from(payload.clone())?.size()),
    }
}

/// Returns the description of a source with one output. The property `samples` has the type of the
/// samples.
pub(crate) fn source(name: &str, summary: &str, output: &str) -> ComponentSpec {
    let samples = PortTypes::Property("samples".into());
    ComponentSpec::new(name, summary)
        .sample_rate(RateRule::property("sample_rate"))
        .output("out", samples, output)
}

/// The output of a source.
pub(crate) struct WireOutput {
    publisher: Publisher<Dynamic>,
    sample_bytes: usize,
    /// The check of messages; `None`: the output has samples.
    check: Option<MessageCheck>,
    /// The rate of a stream that has no rate.
    rate_hz: Option<f64>,
}

impl WireOutput {
    /// Sets the description of the next samples.
    pub(crate) fn describe(&mut self, stream: StreamInfo) {
        let sample_rate_hz = stream.sample_rate_hz.or(self.rate_hz);
        self.publisher.set_stream(StreamInfo { sample_rate_hz, ..stream });
    }

    /// Returns whether the output has messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.check.is_some()
    }

    /// Checks that bytes from another program are whole samples, or a message of the schema.
    ///
    /// # Errors
    /// The problem with the bytes.
    pub(crate) fn check(&self, bytes: &[u8]) -> std::result::Result<(), String> {
        match &self.check {
            Some(check) => check.check(bytes),
            None if bytes.is_empty() || !bytes.len().is_multiple_of(self.sample_bytes) => Err(format!(
                "{} bytes are not a whole number of samples of {} bytes",
                bytes.len(),
                self.sample_bytes
            )),
            None => Ok(()),
        }
    }

    /// Sends whole samples as a packet, or a message. Without samples, it does nothing.
    pub(crate) fn send(&mut self, samples: &[u8], index: Option<u64>, time_ns: Option<i64>) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let mut loan = self.publisher.loan(samples.len() / self.sample_bytes)?;
        loan.copy_from_slice(samples);
        let loan = match index {
            Some(index) => loan.at_sample(index),
            None => loan,
        };
        match time_ns {
            Some(time_ns) => loan.at_time_ns(time_ns).send(),
            None => loan.send(),
        }
    }
}

/// The source of a format.
struct WireSource<W>(Properties, PhantomData<W>);

impl<W: Wire> Component for WireSource<W> {
    fn describe() -> ComponentSpec {
        described::<W>(W::source(), false)
    }

    fn new(properties: &Properties) -> Result<Self> {
        W::create(properties)?;
        Ok(Self(properties.clone(), PhantomData))
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let (payload, sample_bytes) = payload_in(&self.0)?;
        let check = || MessageCheck::new(&payload.schema().unwrap_or_else(Schema::any));
        let mut output = WireOutput {
            publisher: ports.output(("out", &payload))?,
            sample_bytes,
            check: payload.is_message().then(check),
            rate_hz: Some(self.0.float("sample_rate")).filter(|rate| *rate > 0.0),
        };
        output.describe(StreamInfo::new(ports.component()));
        let mut end = W::Receiver::open(&Setup {
            properties: &self.0,
            payload: &payload,
            sample_bytes,
            ports: &ports,
        })?;
        let stop = ports.stop_signal();
        while !stop.is_stopped() && end.receive(&mut output)? {}
        Ok(())
    }
}

/// The sink of a format.
struct WireSink<W>(Properties, PhantomData<W>);

impl<W: Wire> Component for WireSink<W> {
    fn describe() -> ComponentSpec {
        let spec = match W::ONE_CHANNEL {
            Some(_) => W::sink().sample_order(OrderRule { takes_channels: false, ..OrderRule::default() }),
            None => W::sink(),
        };
        described::<W>(spec, true)
    }

    fn new(properties: &Properties) -> Result<Self> {
        W::create(properties)?;
        Ok(Self(properties.clone(), PhantomData))
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let payload = ports.payload("in").cloned().unwrap_or_else(TypeName::of::<Complex<f32>>);
        let mut end = W::Sender::open(&Setup {
            properties: &self.0,
            payload: &payload,
            sample_bytes: sample_bytes(&payload)?,
            ports: &ports,
        })?;
        let mut input = ports.input::<Dynamic>("in")?;
        while let Some(packet) = input.receive()? {
            if let Some(part) = W::ONE_CHANNEL {
                check_one_channel(packet.stream(), part)?;
            }
            end.send(packet)?;
        }
        end.finish()
    }
}

/// Checks that a stream has one channel.
///
/// # Errors
/// The stream has several channels. The error names the part that has no place for them.
fn check_one_channel(stream: &StreamInfo, part: &str) -> Result<()> {
    let (id, count) = (&stream.id, stream.channels.len());
    if count < 2 {
        return Ok(());
    }
    Err(Error::Configuration(format!(
        "the stream `{id}` has {count} channels (`channels`), and {part} has no place for them: put a `demultiplexer` \
         before it, and connect the output of one channel"
    )))
}

/// Returns the text of the error that a check gives for properties of a source; empty: none.
#[cfg(test)]
pub(crate) fn refusal_of<W: Wire>(given: &[(&str, &str)], check: fn(&Properties) -> Result<()>) -> String {
    use stripline::component::Value;

    let value = |text: &str| text.parse().map_or(Value::Text(text.into()), Value::Boolean);
    let given = given.iter().map(|(name, text)| ((*name).into(), value(text))).collect();
    let properties = Properties::new(&WireSource::<W>::describe(), given).unwrap();
    check(&properties).err().map_or(String::new(), |e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_without_a_place_are_refused_by_name() {
        let mut stream = StreamInfo::new("s");
        assert!(check_one_channel(&stream, "a topic").is_ok());
        stream.channels = vec!["a".into(), "b".into()];
        let error = check_one_channel(&stream, "a topic").unwrap_err().to_string();
        assert!(error.contains("2 channels (`channels`), and a topic has no place"), "{error}");
    }
}
