//! The response to each path: the files of the page, the requests of the page, and the metrics.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use stripline_waveform::control::{ControlError, Setting};

use super::access::Access;
use super::clients::Client;
use super::model::{PageModel, Selection};
use super::request::Request;
use super::response::Response;
use super::{events, metrics};

/// The files of the page, in the executable.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("app.js")),
    ("/access.js", "text/javascript; charset=utf-8", include_str!("access.js")),
    ("/graph.js", "text/javascript; charset=utf-8", include_str!("graph.js")),
    ("/plots.js", "text/javascript; charset=utf-8", include_str!("plots.js")),
    ("/properties.js", "text/javascript; charset=utf-8", include_str!("properties.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
/// The longest time for a change.
const SET_TIME: Duration = Duration::from_secs(5);
/// The greatest age of the state in the metrics.
const METRICS_AGE: Duration = Duration::from_millis(500);

/// The state that all clients of the server share.
pub(super) struct Site {
    pub access: Access,
    pub model: PageModel,
    pub started: Instant,
    is_over: AtomicBool,
}

/// A request to set one property.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetForm {
    waveform: String,
    pid: Option<u32>,
    component: String,
    property: String,
    value: String,
}

impl Site {
    pub(super) fn new(access: Access, model: PageModel) -> Self {
        Self { access, model, started: Instant::now(), is_over: AtomicBool::new(false) }
    }

    /// Ends the responses that are still open.
    pub(super) fn stop(&self) {
        // Relaxed: no other data depends on the flag.
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Answers a request that has been admitted.
    pub(super) fn answer(&self, request: &Request, client: &Client) -> io::Result<()> {
        let response = match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/events") => return events::send(self, request, client),
            ("GET", "/api/properties") => self.properties(request),
            ("GET", "/metrics") => {
                let snapshot = self.model.snapshot(METRICS_AGE);
                Response::text(200, metrics::CONTENT_TYPE, metrics::text(&snapshot))
            }
            ("GET", path) => match FILES.iter().find(|(name, ..)| *name == path) {
                Some((_, content_type, text)) => Response::text(200, content_type, *text),
                None => Response::error(404, "there is nothing at this path"),
            },
            ("POST", "/api/set") => self.set(request),
            ("POST", _) => Response::error(404, "there is nothing at this path"),
            _ => Response::error(405, "the methods are GET and POST"),
        };
        response.send(&client.stream)
    }

    fn properties(&self, request: &Request) -> Response {
        let which = match selection(request) {
            Ok(Some(which)) => which,
            Ok(None) => return Response::error(400, "the query needs a waveform"),
            Err(problem) => return Response::error(400, problem),
        };
        match self.model.client(&which).and_then(|client| client.get(None, None)) {
            Ok(readings) => Response::json(200, &readings),
            Err(error) => failed(&error),
        }
    }

    fn set(&self, request: &Request) -> Response {
        // A form of another site cannot have this content type.
        if request.field("content-type") != Some("application/json") {
            return Response::error(415, "the body must be application/json");
        }
        let form: SetForm = match serde_json::from_slice(&request.body) {
            Ok(form) => form,
            Err(error) => return Response::error(400, &format!("the body is not a setting: {error}")),
        };
        let SetForm { waveform, pid, component, property, value } = form;
        let which = Selection { name: waveform, pid };
        let setting = Setting { component, property, value };
        match self.model.client(&which).and_then(|client| client.set(&[setting], SET_TIME)) {
            Ok(changes) => Response::json(200, &json!({ "changes": changes })),
            Err(error) => failed(&error),
        }
    }
}

/// Returns whether a request is for a file of the page. The files are the same for all users.
pub(super) fn is_file(request: &Request) -> bool {
    request.method == "GET" && FILES.iter().any(|(name, ..)| *name == request.path)
}

/// Returns the waveform of a query, if it names one.
pub(super) fn selection(request: &Request) -> Result<Option<Selection>, &'static str> {
    let pid = match request.parameter("pid").map(str::parse) {
        Some(Ok(pid)) => Some(pid),
        Some(Err(_)) => return Err("`pid` is not a process number"),
        None => None,
    };
    Ok(request.parameter("waveform").map(|name| Selection { name: name.into(), pid }))
}

/// Returns the response to a request that a launcher did not serve.
fn failed(error: &ControlError) -> Response {
    let is_wrong = error.is_wrong() || matches!(error, ControlError::NoSuchWaveform { .. });
    Response::error(if is_wrong { 400 } else { 503 }, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_nothing_from_elsewhere_and_nothing_inline() {
        for (path, _, text) in FILES {
            // The address of SVG is an XML name, which no browser loads.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "//cdn", "url(", "@import", "eval("] {
                assert!(!text.contains(outside), "{path} has {outside}");
            }
        }
        let html = FILES[0].2;
        for inline in ["<style", "style=", "onclick", "onload", "javascript:"] {
            assert!(!html.contains(inline), "{inline}");
        }
        for part in html.split("<script").skip(1) {
            assert!(part.contains("src=\"") && part.contains("></script>"), "{part}");
        }
        for name in html.split(['"', '\'']).filter(|it| it.ends_with(".js") || it.ends_with(".css")) {
            assert!(FILES.iter().any(|(path, ..)| *path == format!("/{name}")), "{name}");
        }
    }

    #[test]
    fn settings_have_exactly_these_keys() {
        let parse = |text: &str| serde_json::from_str::<SetForm>(text);
        let right = r#"{"waveform":"w","pid":null,"component":"c","property":"p","value":"1"}"#;
        assert_eq!(parse(right).unwrap().value, "1");
        for wrong in ["", "[]", "{}", r#"{"waveform":"w"}"#, &right.replace("}", r#","folder":"/"}"#)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
