//! HTTP/1.1 requests, parsed with limits on their memory.

/// The longest head of a request: the first line and the fields, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most fields of a request.
const FIELDS_MAX: usize = 64;
/// The longest body, in bytes. A property's value has at most 64 KiB, and twice that as JSON.
const BODY_BYTES_MAX: usize = 192 << 10;

/// A complete request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The parts of the query, decoded.
    pub query: Vec<(String, String)>,
    /// The fields, with names in lower case.
    fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The reason that a request is refused or missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The client has closed the connection, or has sent only a part in time. The client gets no
    /// response.
    Gone,
    /// A status and a sentence for the response.
    Refused(u16, &'static str),
}

use RequestError::Refused;

impl Request {
    /// Parses the bytes received so far. Returns `None` if more must follow.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, RequestError> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        // Without the limit, every piece that arrives would cause all bytes before it to be parsed
        // again.
        let length = match head.parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX)]) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(httparse::Status::Partial) => return Err(Refused(431, "the head of the request is too long")),
            Err(httparse::Error::TooManyHeaders) => return Err(Refused(431, "too many fields")),
            Err(_) => return Err(Refused(400, "this is not a request of HTTP/1.1")),
        };
        let (Some(method), Some(target)) = (head.method, head.path) else { return Ok(None) };
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned);
        let named: Result<Vec<_>, _> =
            head.headers.iter().map(|it| Ok((it.name.to_ascii_lowercase(), text(it.value)?))).collect();
        let Ok(fields) = named.map_err(|_: std::str::Utf8Error| ()) else {
            return Err(Refused(400, "a field is not UTF-8"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.into(),
            path: path.into(),
            query: parse_query(query).ok_or(Refused(400, "the query is not a valid text"))?,
            fields,
            body: Vec::new(),
        };
        let body = &bytes[length..];
        let announced = request.body_bytes()?;
        if body.len() < announced {
            return Ok(None);
        }
        request.body = body[..announced].to_vec();
        Ok(Some(request))
    }

    /// Returns the length of the body.
    fn body_bytes(&self) -> Result<usize, RequestError> {
        if self.field("transfer-encoding").is_some() {
            return Err(Refused(411, "a body needs its Content-Length"));
        }
        let mut lengths = self.fields.iter().filter(|(name, _)| name == "content-length");
        let (first, second) = (lengths.next(), lengths.next());
        let Some((_, length)) = first else { return Ok(0) };
        let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        if second.is_some() || !is_number {
            return Err(Refused(400, "Content-Length is not one number"));
        }
        match length.parse() {
            Ok(length) if length <= BODY_BYTES_MAX => Ok(length),
            _ => Err(Refused(413, "the body is too long")),
        }
    }

    /// Returns the value of a field by its name in lower case. The value of a field that occurs
    /// twice is empty.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            // Other programs might use either value.
            (Some(_), Some(_)) => Some(""),
            (None, _) => None,
        }
    }

    /// Returns the value of a part of the query, if the query has it.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Decodes `a=b&c=d` with `%XX` and `+`. Returns `None` if the text is not UTF-8, or if a `%` is
/// not followed by two digits.
fn parse_query(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high << 4 | low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
impl Request {
    /// Parses a request from a text.
    pub(super) fn of(text: &str) -> Self {
        Self::parse(text.as_bytes()).unwrap().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> u16 {
        match Request::parse(text.as_bytes()) {
            Err(Refused(status, _)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_complete_with_the_last_byte_of_its_body() {
        let text = "POST /api/set?a=b%20c&d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcdef";
        for length in 0..text.len() - 3 {
            assert_eq!(Request::parse(&text.as_bytes()[..length]), Ok(None), "{length}");
        }
        let request = Request::of(text);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/set"));
        assert_eq!((request.parameter("a"), request.parameter("d")), (Some("b c"), Some("")));
        assert_eq!((request.field("host"), &request.body[..]), (Some("x"), &b"abc"[..]));
    }

    #[test]
    fn requests_beyond_a_limit_are_refused() {
        let long = "x".repeat(HEAD_BYTES_MAX);
        assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\n\r\n")), 431);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nA: {long}")), 431);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1))), 431);
        let post = |length: &str| format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(refused(&post(&(BODY_BYTES_MAX + 1).to_string())), 413);
        assert_eq!(refused(&post("99999999999999999999999")), 413);
        for length in ["-1", "+1", "0x10", "", "1 2", "1\r\nContent-Length: 1"] {
            assert_eq!(refused(&post(length)), 400, "{length}");
        }
        assert_eq!(refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 411);
        assert_eq!(refused("\u{1}\u{2}\r\n\r\n"), 400);
        assert_eq!(refused("GET /?a=%zz HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET /?a=%ff HTTP/1.1\r\n\r\n"), 400);
    }

    #[test]
    fn a_request_with_any_byte_changed_is_parsed_or_refused() {
        let text = b"POST /a?b=%20 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        let mut outcomes = [0; 3];
        for index in 0..text.len() {
            for byte in 0..=u8::MAX {
                let mut changed = text.to_vec();
                changed[index] = byte;
                outcomes[match Request::parse(&changed) {
                    Ok(Some(request)) => {
                        assert!(request.body.len() <= 4, "{request:?}");
                        0
                    }
                    Ok(None) => 1,
                    Err(_) => 2,
                }] += 1;
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }

    #[test]
    fn a_field_that_is_there_twice_has_no_value() {
        let request = Request::of("GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\n\r\n");
        assert_eq!((request.field("host"), request.field("origin")), (Some(""), None));
    }
}
