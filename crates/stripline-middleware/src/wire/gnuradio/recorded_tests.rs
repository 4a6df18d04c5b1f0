//! Recorded messages of GNU Radio's own blocks for ZeroMQ are parsed, and written again unchanged.

use super::{Described, Tag, TaggedMessage};

/// Returns the bytes of a recorded message.
fn recorded(name: &str) -> Vec<u8> {
    let lines = include_str!("recorded.txt").lines();
    let hex = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).next().unwrap();
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Returns the items, keys and sources of the tags.
fn tags<'a>(message: &'a TaggedMessage<'_>) -> Vec<(u64, &'a str, Option<&'a str>)> {
    let of = |tag: &'a Tag<'_>| (tag.item, tag.key.symbol().unwrap(), tag.source.symbol());
    message.tags.iter().map(of).collect()
}

#[test]
fn tags_and_samples_are_those_that_the_flowgraph_sent() {
    let bytes = recorded("tagged");
    let message = TaggedMessage::parse(&bytes).unwrap();
    assert_eq!(message.first_item, 0);
    let expected = [
        (0, "rx_rate", None),
        (0, "rx_freq", None),
        (0, "rx_time", None),
        (2, "burst", Some("here")),
        (4, "taps", None),
    ];
    assert_eq!(tags(&message), expected);
    let described: Vec<_> = message.tags.iter().filter_map(Described::of).collect();
    let time_ns = 1_700_000_000_250_000_000;
    assert_eq!(
        described,
        [Described::RateHz(1e6), Described::FrequencyHz(100e6), Described::TimeNs(time_ns)]
    );
    assert_eq!(message.tags[3].value.count(), Some(7));
    let samples: Vec<f32> =
        message.samples.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    let sent: Vec<f32> = (0..5).flat_map(|n| [n as f32, -(n as f32)]).collect();
    assert_eq!(samples, sent);
}

#[test]
fn other_items_have_their_tags() {
    let bytes = recorded("bytes");
    let message = TaggedMessage::parse(&bytes).unwrap();
    assert_eq!((tags(&message), message.samples), (vec![(1, "packet_len", None)], &[1, 2, 3, 255][..]));
    let vectors = recorded("vectors");
    let message = TaggedMessage::parse(&vectors).unwrap();
    assert_eq!((tags(&message), message.samples.len()), (vec![(1, "row", None)], 12));
}

#[test]
fn a_message_without_tags_is_refused_and_its_block_named() {
    let plain = recorded("plain");
    assert!(!TaggedMessage::is_tagged(&plain));
    let error = TaggedMessage::parse(&plain).unwrap_err().to_string();
    assert!(error.contains("pass_tags"), "{error}");
}

#[test]
fn what_is_written_is_what_gnu_radio_writes() {
    for name in ["tagged", "bytes", "vectors"] {
        let bytes = recorded(name);
        let message = TaggedMessage::parse(&bytes).unwrap();
        let mut written = Vec::new();
        TaggedMessage::write_head(&mut written, message.first_item, &message.tags);
        written.extend(message.samples);
        assert_eq!(written, bytes, "{name}");
    }
}

#[test]
fn a_message_that_is_cut_is_refused_or_has_fewer_samples() {
    let bytes = recorded("tagged");
    let whole = TaggedMessage::parse(&bytes).unwrap();
    for length in 0..bytes.len() {
        match TaggedMessage::parse(&bytes[..length]) {
            Ok(cut) => {
                assert_eq!(cut.tags, whole.tags, "{length}");
                assert_eq!(cut.samples.len(), whole.samples.len() - (bytes.len() - length));
            }
            Err(_) => assert!(length < bytes.len() - whole.samples.len(), "{length}"),
        }
    }
}
