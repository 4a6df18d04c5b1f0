//! Requests of a browser to `stripline web`.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_fuzz as _; // for the allocator

// The command is not a library, so the parser is compiled into this target.
#[allow(dead_code)]
#[path = "../../crates/stripline-cli/src/web/request.rs"]
mod request;

use request::{Request, RequestError};

fuzz_target!(|data: &[u8]| {
    match Request::parse(data) {
        Ok(Some(whole)) => {
            assert!(whole.path.len() + whole.body.len() <= data.len());
            // The bytes after a request do not belong to it.
            let more = [data, b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(Request::parse(&more), Ok(Some(whole.clone())));
            // A request that arrives piece by piece is refused, or becomes the same request.
            let pieces = (0..data.len()).filter_map(|end| Request::parse(&data[..end]).transpose());
            if let Some(Ok(first)) = pieces.into_iter().next() {
                assert_eq!(first, whole);
            }
        }
        Ok(None) => assert!(data.len() < request::HEAD_BYTES_MAX + (192 << 10)),
        Err(RequestError::Refused(status, words)) => {
            assert!((400..500).contains(&status) && !words.is_empty());
        }
        Err(RequestError::Gone) => panic!("no connection has ended"),
    }
});
