//! `gr-zeromq-source` and `gr-zeromq-sink`: samples of flowgraphs, through GNU Radio's own blocks
//! for ZeroMQ.

mod curve;
mod flowgraph_sink;
mod flowgraph_source;
#[cfg(test)]
mod gr_zeromq_tests;
mod peer;

use stripline::Result;
use stripline::component::{ComponentSpec, OrderRule, PortTypes, Properties, PropertySpec};

use crate::components::ends::{Wire, source};
use crate::components::properties::{any_samples, hertz, place, text};
use flowgraph_sink::FlowgraphSink;
use flowgraph_source::FlowgraphSource;
use peer::{PUB_SUB, PUSH_PULL};

/// The summary of a property.
const REPEAT: &str =
    "period of the tags of rate, frequency and time, for a flowgraph that joins late; 0: only changes";

/// Messages of GNU Radio's blocks for streams.
pub(crate) struct GrZeromq;

impl Wire for GrZeromq {
    type Receiver = FlowgraphSource;
    type Sender = FlowgraphSink;

    // An item of the flowgraph has a sample of each channel.
    const ONE_CHANNEL: Option<&'static str> = None;

    fn source() -> ComponentSpec {
        let summary = "Receives samples from any program of ZeroMQ, a packet from each message; also from a flowgraph's \
                       ZMQ PUSH or PUB Sink.";
        source("gr-zeromq-source", summary, "the flowgraph's samples, or messages")
            .sample_order(OrderRule { rows: Some("vlen".into()), ..OrderRule::default() })
            .property(any_samples())
            .property(hertz("sample_rate", "until a tag `rx_rate`; 0: unknown"))
            .property(hertz("frequency", "until a tag `rx_freq`; 0: unknown"))
    }

    fn sink() -> ComponentSpec {
        let summary = "Sends samples to any program of ZeroMQ, each packet as a message; also to a flowgraph's ZMQ PULL \
                       or SUB Source.";
        ComponentSpec::new("gr-zeromq-sink", summary)
            .input("in", PortTypes::Any, "samples for the flowgraph, or messages in CBOR")
            .property(PropertySpec::float("repeat_s", 1.0, REPEAT).range(0.0, 1e6).unit("s"))
            .sample_order(OrderRule { items: Some("vlen".into()), ..OrderRule::default() })
    }

    fn properties(is_sink: bool) -> Vec<PropertySpec> {
        let address = "address of ZeroMQ, as tcp://127.0.0.1:5555 or ipc:///tmp/iq";
        let patterns = &[PUSH_PULL, PUB_SUB];
        let bind = "whether this side binds, and the flowgraph's connects";
        let vlen = "samples of an item, as `vlen` of the flowgraph's block";
        let properties = [
            place("address", address, "tcp://127.0.0.1:5555"),
            PropertySpec::choice("pattern", patterns, PUSH_PULL, "the kind of blocks in the flowgraph"),
            PropertySpec::boolean("bind", is_sink, bind),
            text("key", "the `key` of the flowgraph's block, with pub-sub; empty: none"),
            PropertySpec::boolean("tags", false, "`pass_tags` of the flowgraph's block"),
            PropertySpec::integer("vlen", 1, 1, 1 << 20, vlen),
        ];
        properties.into_iter().chain(curve::properties()).collect()
    }

    fn check(properties: &Properties) -> Result<()> {
        peer::check(properties, peer::has_curve())
    }
}
