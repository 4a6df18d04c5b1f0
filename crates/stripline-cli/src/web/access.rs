//! The rules for requests: a request needs the token, a name of this machine, and the page as its
//! origin.

use super::request::Request;

/// The size of a token in bytes.
const TOKEN_BYTES: usize = 16;
/// The environment variable that may contain a token.
const TOKEN_VARIABLE: &str = "STRIPLINE_WEB_TOKEN";

/// The rules of one server.
pub(super) struct Access {
    token: String,
    port: u16,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The request is served.
    Served,
    /// The request has no token and needs none: it is for a file of the page.
    File,
    /// The reason of a refusal.
    Refused(&'static str),
}

impl Access {
    /// Creates the rules with the token of the environment, or with a new random token.
    ///
    /// # Errors
    /// A sentence: the token of the environment has a wrong form, or the system has no random
    /// numbers.
    pub(super) fn new(port: u16) -> Result<Self, String> {
        let token = match std::env::var(TOKEN_VARIABLE) {
            Ok(token) if is_token(&token) => token,
            Ok(_) => {
                let digits = 2 * TOKEN_BYTES;
                return Err(format!(
                    "{TOKEN_VARIABLE} is not {digits} hexadecimal digits in lower case; `openssl rand -hex {TOKEN_BYTES}` \
                     prints some"
                ));
            }
            Err(std::env::VarError::NotPresent) => new_token()?,
            Err(error) => return Err(format!("{TOKEN_VARIABLE}: {error}")),
        };
        Ok(Self { token, port })
    }

    /// Returns the address of the page, with the token.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.token)
    }

    /// Checks a request, which may be for a file of the page. The caller must not use any part of
    /// the request before this check.
    ///
    /// The token is in a header field that only the page's own script writes. A browser would send
    /// a cookie to every port of this host, where other users' servers may listen.
    pub(super) fn check(&self, request: &Request, is_file: bool) -> Admission {
        use Admission::{File, Refused, Served};
        // The name of another site may lead to this address (DNS rebinding).
        let Some(host) = request.field("host").filter(|host| self.is_own(host)) else {
            return Refused("the Host header is not this page's address; use the printed address");
        };
        let origin = request.field("origin");
        let is_foreign = |origin: &str| origin.strip_prefix("http://") != Some(host);
        if origin.is_some_and(is_foreign) || origin.is_none() && request.method != "GET" {
            return Refused("the request is not from this page");
        }
        if request.field("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"))
            && request.path != "/"
        {
            return Refused("the request is from another site");
        }
        match request.field("authorization").map(|field| field.strip_prefix("Bearer ").unwrap_or_default()) {
            Some(token) if self.is_right(token) => Served,
            None if is_file => File,
            _ => Refused("the token is missing or wrong; open the address that `stripline web` printed"),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = host.strip_suffix(&format!(":{}", self.port));
        // Browsers leave port 80 out.
        let name = name.or_else(|| Some(host).filter(|_| self.port == 80));
        matches!(name, Some("127.0.0.1" | "localhost" | "[::1]"))
    }

    /// Compares a token with the right one. The time does not depend on the position of a
    /// difference.
    fn is_right(&self, other: &str) -> bool {
        let (own, other) = (self.token.as_bytes(), other.as_bytes());
        let difference = own.iter().zip(other).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
        own.len() == other.len() && difference == 0
    }
}

fn is_token(text: &str) -> bool {
    text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn new_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers for a token: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::Admission::{File, Refused, Served};
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn check(head: &str) -> Admission {
        let access = Access { token: TOKEN.into(), port: 8080 };
        let request = Request::of(&format!("{head}\r\n\r\n"));
        access.check(&request, request.path == "/")
    }

    #[test]
    fn only_the_token_opens_more_than_the_files_of_the_page() {
        let get =
            |path: &str, fields: &str| check(&format!("GET {path} HTTP/1.1\r\nHost: localhost:8080{fields}"));
        assert_eq!((get("/", ""), get("/?waveform=a", "")), (File, File));
        assert_eq!(get("/metrics", &format!("\r\nAuthorization: Bearer {TOKEN}")), Served);
        let other = TOKEN.replace("ff", "fe");
        for (path, fields) in [
            ("/metrics".to_string(), String::new()),
            (format!("/metrics?token={TOKEN}"), String::new()),
            ("/metrics".into(), format!("\r\nCookie: stripline-8080={TOKEN}")),
            ("/metrics".into(), format!("\r\nAuthorization: Bearer {other}")),
            ("/metrics".into(), format!("\r\nAuthorization: Bearer {TOKEN}0")),
            ("/metrics".into(), format!("\r\nAuthorization: Bearer {}", &TOKEN[1..])),
            ("/metrics".into(), format!("\r\nAuthorization: Basic {TOKEN}")),
            ("/".into(), format!("\r\nAuthorization: Bearer {other}")),
        ] {
            assert!(matches!(get(&path, &fields), Refused(why) if why.contains("token")), "{path} {fields}");
        }
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let with = |method: &str, fields: &str| {
            check(&format!("{method} /api/set HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{fields}"))
        };
        for host in ["evil.example:8080", "127.0.0.1", "localhost:8081", "127.0.0.1:8080.evil.example", ""] {
            let host = format!("Host: {host}");
            assert!(matches!(with("GET", &host), Refused(why) if why.contains("Host")), "{host}");
        }
        assert!(matches!(check("GET / HTTP/1.1"), Refused(_)));
        let own = "Host: 127.0.0.1:8080";
        assert_eq!(with("GET", own), Served);
        assert_eq!(with("POST", &format!("{own}\r\nOrigin: http://127.0.0.1:8080")), Served);
        for fields in [
            "",
            "\r\nOrigin: null",
            "\r\nOrigin: http://evil.example",
            "\r\nOrigin: https://127.0.0.1:8080",
            "\r\nOrigin: http://127.0.0.1:8081",
            "\r\nOrigin: http://localhost:8080",
            "\r\nOrigin: http://127.0.0.1:8080\r\nSec-Fetch-Site: cross-site",
        ] {
            assert!(matches!(with("POST", &format!("{own}{fields}")), Refused(_)), "{fields}");
        }
        assert!(matches!(with("GET", &format!("{own}\r\nOrigin: http://evil.example")), Refused(_)));
    }

    #[test]
    fn tokens_have_128_bits_and_differ() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(is_token(&one) && is_token(&other) && one != other);
        assert!(!is_token("00112233445566778899AABBCCDDEEFF") && !is_token("0011"));
    }
}
