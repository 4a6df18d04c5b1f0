//! `stripline call`, with servers in this process.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;

use crate::common::{Run, run, stripline};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stripline::call::{Samples, ServerOptions, Service};
use stripline::node::{Dispatch, Node, Topics};

/// The error of the radio.
#[derive(Debug, Serialize, Deserialize)]
pub enum TuneError {
    /// Outside of the range.
    OutOfRange {
        /// The range's end.
        max_hz: f64,
    },
}

/// The service under test.
#[stripline::service]
pub trait Radio {
    /// Tunes.
    fn tune(&self, frequency_hz: f64) -> Result<f64, TuneError>;
    /// Joins both.
    fn route(&self, name: String, gain: f64) -> Result<BTreeMap<String, f64>, String>;
    /// Returns a number.
    fn count(&self) -> u64;
    /// Breaks.
    fn breaks(&self) -> bool;
}

struct Set;

impl Radio for Set {
    fn tune(&self, frequency_hz: f64) -> Result<f64, TuneError> {
        if frequency_hz > 6e9 { Err(TuneError::OutOfRange { max_hz: 6e9 }) } else { Ok(frequency_hz) }
    }

    fn route(&self, name: String, gain: f64) -> Result<BTreeMap<String, f64>, String> {
        if gain < 0.0 { Err(format!("{name}: \x1b[2Jno negative gain")) } else { Ok([(name, gain)].into()) }
    }

    fn count(&self) -> u64 {
        7
    }

    fn breaks(&self) -> bool {
        panic!("a broken radio")
    }
}

fn domain(test: &str) -> String {
    format!("call-{test}-{}", std::process::id())
}

/// Serves until the body has returned.
fn served(service: Service<'_>, domain: &str, body: impl FnOnce(&dyn Fn(&[&str]) -> Run)) {
    let node = Node::join(domain, Topics::default()).unwrap();
    let options = ServerOptions { transport: Some("uds".into()), ..ServerOptions::default() };
    let mut server = node.service_server(service, options).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(Dispatch::Queue));
        // The node is stopped even if the body panics. Otherwise the scope would wait for the
        // server.
        struct Stopped<'n>(&'n Node);
        impl Drop for Stopped<'_> {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        let _stopped = Stopped(&node);
        body(&|arguments| run(&[&["call", "--timeout", "30", "--domain", domain], arguments].concat()));
    });
}

#[track_caller]
fn replies(run: &Run, expected: &Value) {
    run.says(0, &[]);
    assert_eq!(&serde_json::from_str::<Value>(&run.stdout).unwrap(), expected);
    assert_eq!(run.stderr, "");
}

#[test]
fn requests_and_replies_are_json() {
    let name = domain("replies");
    served(RadioService::of(Set).unwrap(), &name, |call| {
        replies(&call(&["radio", "tune", "433.92e6"]), &json!(433.92e6));
        replies(&call(&["radio", "tune", "-2.0"]), &json!(-2.0));
        replies(&call(&["radio", "count"]), &json!(7));
        replies(&call(&["radio", "route", "[\"left\", 0.5]"]), &json!({"left": 0.5}));
        let mut child = stripline()
            .args(["call", "--domain", &name, "--timeout", "30", "radio", "tune", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"1e6\n").unwrap();
        assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), "1000000.0\n");
    });
}

#[test]
fn errors_have_the_words_of_the_service() {
    served(RadioService::of(Set).unwrap(), &domain("errors"), |call| {
        let refused = call(&["radio", "tune", "7e9"]);
        refused.says(1, &["error: `radio.tune`: {\"OutOfRange\":{\"max_hz\":6000000000.0}}"]);
        assert_eq!(refused.stdout, "");
        call(&["radio", "route", "[\"left\", -1.5]"])
            .says(1, &["`radio.route`: left: \\u{1b}[2Jno negative gain"]);
        call(&["radio", "breaks"]).says(1, &["panicked", "a broken radio"]);
        // The server checks the request. The command shows the server's problem with the remedy.
        call(&["radio", "tune", "7"]).says(2, &["another type", "expected", "as 2.0"]);
        call(&["radio", "tune"]).says(2, &["another type", "third argument"]);
        call(&["radio", "route", "[\"left\"]"]).says(2, &["another type", "stripline services"]);
        call(&["radio", "tnue", "7e6"]).says(2, &["an unknown operation", "tune"]);
    });
}

#[test]
fn wrong_names_and_requests_are_found_before_the_call() {
    let name = domain("names");
    run(&["call", "--domain", &name, "radio", "count"])
        .says(2, &["no server of `radio`", &name, "no server at all"]);
    served(RadioService::of(Set).unwrap(), &name, |call| {
        call(&["raido", "count"]).says(2, &["no server of `raido`", "did you mean `radio`?"]);
        call(&["oscilloscope", "count"]).says(2, &["there are radio"]);
    });
    run(&["call", "radio", "tune", "left"]).says(2, &["`left` is not JSON", "in quotes"]);
    run(&["call", "radio", "tune", "{\"a\": "]).says(2, &["is not JSON", "EOF"]);
    run(&["call", "--timeout", "7200", "radio", "tune"]).says(2, &["an hour at most"]);
    run(&["call", "--timeout", "soon", "radio", "tune"]).says(2, &["without a unit"]);
    run(&["call", "--domain", "no domain!", "radio", "tune"]).says(2, &["no domain!"]);
    run(&["call", "radio"]).says(2, &["OPERATION"]);
}

#[test]
fn samples_have_no_json_form() {
    let service = Service::new("dsp").unwrap();
    let service = service.operation("abs", |x: Samples<f32>| Ok::<Samples<f32>, String>(x)).unwrap();
    served(service, &domain("samples"), |call| {
        call(&["dsp", "abs", "[1.0]"]).says(2, &["its request is f32", "message/cbor"]);
    });
}

#[test]
fn a_server_that_does_not_reply_is_not_waited_for_longer_than_said() {
    let name = domain("silent");
    let node = Node::join(&name, Topics::default()).unwrap();
    // The server is never served.
    let _server = node.service_server(RadioService::of(Set).unwrap(), ServerOptions::default()).unwrap();
    run(&["call", "--domain", &name, "--timeout", "0.2", "radio", "count"]).says(1, &["radio", "200ms"]);
}
