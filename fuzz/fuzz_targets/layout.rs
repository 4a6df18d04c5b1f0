//! Texts of layouts and of schemas.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::payload::{Layout, Schema, TypeName};
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Layout>() {
        Ok(layout) => {
            // A layout has exactly one text.
            assert_eq!(layout.to_string(), text);
            assert_eq!(TypeName::parse(&text).map(|name| name.full_text().to_owned()), Ok(text.to_string()));
            // The numbers of a layout cover a sample without gaps.
            let sample = vec![0; layout.size()];
            let end = layout.scalars().fold(0, |end, place| {
                assert_eq!(place.offset, end);
                assert!(place.offset.is_multiple_of(place.scalar.align()));
                assert!(place.read(&sample).is_some());
                end + place.scalar.size()
            });
            assert_eq!(end, layout.size());
            assert!(end <= Layout::SIZE_MAX && text.len() <= Layout::TEXT_MAX);
        }
        Err(error) => assert!(error.to_string().len() < 2 * Layout::TEXT_MAX),
    }
    match text.parse::<Schema>() {
        Ok(schema) => {
            // A schema has exactly one text. A schema with a name is a message type.
            assert_eq!(schema.to_string(), text);
            assert!(text.len() <= Schema::TEXT_MAX);
            if let Some(name) = schema.name() {
                let full = format!("message/{text}");
                let parsed = TypeName::parse(&full).expect("a message type");
                assert_eq!((parsed.full_text(), parsed.as_str()), (&*full, &*format!("message/{name}")));
                assert_eq!(parsed.schema(), Some(schema));
            }
        }
        Err(error) => assert!(error.to_string().len() < 2 * Schema::TEXT_MAX),
    }
});
