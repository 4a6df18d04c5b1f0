//! Messages of GNU Radio's blocks for ZeroMQ, and tags in the description of a stream.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::StreamInfo;
use stripline_fuzz as _; // for the allocator
use stripline_middleware::gnuradio::{CarriedTags, Described, KEYWORD, TaggedMessage};

fuzz_target!(|data: &[u8]| {
    read(data);
    // The tags alone, behind a correct start of the message.
    read(&[&[0xf0, 0x5f, 0x01], data].concat());
    let stream = StreamInfo::new("iq").keyword(KEYWORD, String::from_utf8_lossy(data));
    if let Ok(carried) = CarriedTags::of(&stream) {
        assert_eq!(CarriedTags::of(&carried.describe(stream)).as_ref(), Ok(&carried));
    }
});

fn read(bytes: &[u8]) {
    let Ok(message) = TaggedMessage::parse(bytes) else { return };
    let mut again = Vec::new();
    TaggedMessage::write_head(&mut again, message.first_item, &message.tags);
    again.extend_from_slice(message.samples);
    assert_eq!(again, bytes);
    let mut carried = CarriedTags::default();
    for tag in message.tags {
        if let Some(described) = Described::of(&tag) {
            assert!(Described::of(&described.tag(tag.item)).is_some());
        }
        carried.push(tag);
    }
    let described = carried.describe(StreamInfo::new("iq"));
    assert_eq!(CarriedTags::of(&described).unwrap(), carried);
}
