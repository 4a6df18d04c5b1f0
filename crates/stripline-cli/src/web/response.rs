//! HTTP/1.1 responses. Each response is the last one on the connection.

use std::io;

use serde::Serialize;
use serde_json::json;

use super::stream::ClientStream;

/// Fields of every response. The page may load files only from this server, and must not be in a
/// frame.
const FIELDS: &str = "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Cache-Control: no-store\r\n\
    Connection: close\r\n";

/// A response with the body.
#[derive(Debug)]
pub(super) struct Response {
    pub status: u16,
    content_type: &'static str,
    pub body: Vec<u8>,
}

impl Response {
    pub(super) fn text(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, body: body.into() }
    }

    pub(super) fn json(status: u16, value: &impl Serialize) -> Self {
        // Text and numbers always serialise.
        Self::text(status, "application/json", serde_json::to_vec(value).unwrap_or_default())
    }

    /// Returns an error with a sentence.
    pub(super) fn error(status: u16, sentence: &str) -> Self {
        Self::json(status, &json!({ "error": sentence }))
    }

    /// Writes the response, and closes the connection.
    pub(super) fn send(&self, stream: &ClientStream) -> io::Result<()> {
        let Self { status, content_type, body } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{FIELDS}\r\n",
            reason(*status)
        );
        stream.send_last(&[head.as_bytes(), body].concat())
    }
}

/// Writes the head of a response that goes on until one side ends it.
pub(super) fn start_events(stream: &ClientStream) -> io::Result<()> {
    stream.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{FIELDS}\r\n").as_bytes())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
