//! `zenoh-source`: publications of any zenoh program, as packets.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::payload::{Dynamic, SampleType};
use stripline::{Error, Result, StreamInfo};
use zenoh::Wait;
use zenoh::sample::{Sample, SampleKind};

use super::zenoh_ends;

/// The types of samples. Samples of other types arrive as bytes.
const TYPES: [&str; 6] = ["cf32", "f32", "s32", "s16", "cs16", "u8"];
/// The maximum number of waiting publications. Beyond it, zenoh waits, and then the publisher.
const WAITING_MAX: usize = 256;
/// The longest wait for a publication between two checks of the stop signal.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// The component `zenoh-source`.
pub struct ZenohSource {
    properties: Properties,
}

impl Component for ZenohSource {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "zenoh-source",
            "Receives publications of zenoh: each payload is a packet, as it is.",
        )
        .sample_rate(RateRule::property("sample_rate"))
        .output("out", PortTypes::Property("samples".into()), "the samples of the payloads")
        .property(PropertySpec::choice("samples", &TYPES, "cf32", "type of the samples"))
        .property(
            PropertySpec::integer("items", 0, 0, 1 << 28, "samples of a payload; 0: any number")
                .unit("samples"),
        )
        .property(PropertySpec::float("sample_rate", 0.0, "0: unknown").range(0.0, 1e12).unit("Hz"));
        let spec = zenoh_ends::properties().into_iter().fold(spec, ComponentSpec::property);
        spec.validated(zenoh_ends::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        zenoh_ends::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let session = zenoh_ends::open(&self.properties)?;
        let stop = ports.stop_signal();
        let rate = Some(self.properties.float("sample_rate")).filter(|rate| *rate > 0.0);
        let samples = SampleType::parse(self.properties.text("samples"))?;
        let mut output = ports.output::<Dynamic>(("out", &samples))?;
        output.set_stream(StreamInfo { sample_rate_hz: rate, ..StreamInfo::new(ports.component()) });
        let (sender, publications) = sync_channel(WAITING_MAX);
        let key = self.properties.text("key").to_owned();
        // The callback runs on a thread of zenoh, which waits while the component is behind.
        let each = move |sample: Sample| {
            if sample.kind() == SampleKind::Put {
                // Sending fails after the component has ended.
                let _ = sender.send(sample.payload().clone());
            }
        };
        let declared = session.declare_subscriber(key.clone()).callback(each).wait();
        let subscriber = declared.map_err(|e| Error::failed(format!("cannot subscribe to {key}: {e}")))?;
        let (size, items) = (samples.size(), self.properties.count("items") as usize);
        let mut refused = 0_u64;
        let ended = loop {
            if stop.is_stopped() {
                break Err(Error::Stopped);
            }
            let payload = match publications.recv_timeout(STOP_CHECK) {
                Ok(payload) => payload,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            };
            let bytes = payload.to_bytes();
            // Any program may publish, so a publication of a wrong size must not end the component.
            if bytes.len() % size != 0 || bytes.is_empty() || items > 0 && bytes.len() != items * size {
                refused += 1;
                if refused == 1 {
                    log::warn!(
                        target: "stripline::zenoh-source",
                        "a publication of {} bytes is left out: it is no whole number of samples of {size} \
                         bytes, or not `items` of them; further ones are counted", bytes.len()
                    );
                }
                continue;
            }
            let mut send = |bytes: &[u8]| {
                let mut loan = output.loan(bytes.len() / size)?;
                loan.copy_from_slice(bytes);
                loan.send()
            };
            if let Err(error) = send(&bytes) {
                break Err(error);
            }
        };
        // Let a callback that waits for space return, so that the session can end.
        drop(publications);
        drop(subscriber);
        if refused > 0 {
            log::warn!(target: "stripline::zenoh-source", "{refused} publications of another size were left out");
        }
        ended
    }
}
