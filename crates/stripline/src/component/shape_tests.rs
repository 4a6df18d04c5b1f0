//! Tests of inputs that take streams of one shape.

use super::harness::Harness;
use super::{ComponentSpec, Direction, PortSpec, PortTypes, Ports, Properties, Registry, StreamShape};
use crate::error::{ErrorCode, Result};
use crate::{Axis, StreamInfo};

/// Sends packets of each stream to an input that takes frames. Returns the number of packets that
/// arrive.
fn run(streams: &[StreamInfo]) -> Result<u64> {
    let input =
        PortSpec::new("in", Direction::Input, PortTypes::of::<f32>(), "maps").shape(StreamShape::Frames);
    let spec = ComponentSpec::new("peaks", "Finds peaks in maps.").port(input).output(
        "out",
        PortTypes::of::<u64>(),
        "packets so far",
    );
    let registry = Registry::new().with_value(spec, |_: &Properties| {
        Ok(|mut ports: Ports| {
            let (mut input, mut output) = (ports.input::<f32>("in")?, ports.output::<u64>("out")?);
            let mut count = 0;
            while input.receive()?.is_some() {
                count += 1;
                output.send(&[count])?;
            }
            Ok(())
        })
    });
    let mut run = Harness::of_type(&registry, "peaks").start()?;
    let (mut input, mut output) = (run.input::<f32>("in")?, run.output::<u64>("out")?);
    for stream in streams {
        input.set_stream(stream.clone());
        // The error of the component is the cause of an error here.
        let _ = input.send(&[0.0; 12]);
    }
    let _ = input.finish();
    run.finish()?;
    let mut count = 0;
    while let Some(packet) = output.receive()? {
        count = packet[0];
    }
    Ok(count)
}

#[test]
fn a_stream_of_another_shape_is_refused_with_its_first_packet() {
    let axis = || Axis::new(0.0, 1.0, "");
    let rows = StreamInfo::new("rows").rows(4, axis(), axis());
    let frames = StreamInfo { id: "frames".into(), ..rows.clone() }.frames(3, axis());
    let longer = StreamInfo { frame_rows: Some(1), ..frames.clone() };
    assert_eq!(run(&[frames.clone(), longer]).unwrap(), 2);
    // The stream of a sender that sends nothing has no shape.
    assert_eq!(run(&[]).unwrap(), 0);
    for (streams, found) in [
        (vec![StreamInfo::new("plain")], "the stream `plain` has no rows (`row_length`)"),
        (vec![rows.clone()], "the stream `rows` has rows of 4 samples (`row_length`) without frames"),
        (vec![frames, rows], "the stream `rows` has rows of 4 samples"),
    ] {
        let error = run(&streams).unwrap_err();
        let words = error.to_string();
        assert_eq!(error.code(), ErrorCode::Port, "{words}");
        let remedy = "set `row_length` and `frame_rows` of the stream at the sender";
        for part in ["in`: takes frames of rows", found, remedy] {
            assert!(words.contains(part), "{words}");
        }
    }
}
