//! Traits as services.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stripline::call::{CallError, CallOptions, Context, NoError, Samples, ServerOptions, ServiceClient};
use stripline::node::{Dispatch, Node, Topics};

use crate::support::{LONG, await_that, domain, named, over, patient, serving};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TuneError {
    OutOfRange { hz: f64 },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    hz: f64,
    notes: Vec<String>,
}

#[stripline::service(name = "radio")]
pub trait Tuner: Send + Sync {
    /// Tunes and returns the frequency reached.
    fn tune(&self, hz: f64) -> Result<f64, TuneError>;

    /// Returns the state of the radio.
    fn status(&self) -> Status;

    /// Records something, so many times; returns the time that its caller waits.
    fn note(&self, words: String, times: u32, context: &Context<'_>, r#in: Option<Duration>) -> Duration;

    fn reverse(&self, samples: Samples<i16>) -> Samples<i16>;

    fn reset(&self);

    /// Has a body and needs no implementation.
    ///
    #[doc = concat!(" Twice", " as much.")]
    fn double(&self, deadline: i64) -> i64 {
        2 * deadline
    }

    #[cfg(any())]
    fn not_there(&self, missing: TypeThatIsNotThere) -> u8;
}

#[derive(Default)]
struct Radio(Mutex<Status>);

impl Tuner for Radio {
    fn tune(&self, hz: f64) -> Result<f64, TuneError> {
        if !(1e6..6e9).contains(&hz) {
            return Err(TuneError::OutOfRange { hz });
        }
        self.0.lock().unwrap().hz = hz;
        Ok(hz)
    }

    fn status(&self) -> Status {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, words: String, times: u32, context: &Context<'_>, r#in: Option<Duration>) -> Duration {
        assert!(!context.is_cancelled());
        (0..times).for_each(|_| self.0.lock().unwrap().notes.push(words.clone()));
        r#in.unwrap_or(context.deadline())
    }

    fn reverse(&self, mut samples: Samples<i16>) -> Samples<i16> {
        samples.reverse();
        samples
    }

    fn reset(&self) {
        *self.0.lock().unwrap() = Status::default();
    }
}

/// Runs `test` with a client of a radio, and serves the radio while the test runs.
fn with_radio(transport: &str, dispatch: Dispatch, test: impl FnOnce(&Radio, TunerClient)) {
    let node = Node::isolated().unwrap();
    let radio = Radio::default();
    let mut server = node.service_server(TunerService::of(&radio).unwrap(), over(transport)).unwrap();
    let client = TunerClient::connect(&node, "radio", patient()).unwrap();
    serving(&node, &mut server, dispatch, || test(&radio, client));
}

pub fn a_trait_is_called_like_a_function(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(2).unwrap()] {
        with_radio(transport, dispatch, |radio, client| {
            assert_eq!(client.tune(100e6).unwrap(), 100e6);
            assert_eq!(client.status().unwrap().hz, 100e6);
            assert_eq!(client.with(CallOptions::deadline(LONG)).tune(200e6).unwrap(), 200e6);
            assert_eq!(client.with(CallOptions::key(7)).tune(300e6).unwrap(), 300e6);
            assert_eq!(client.double(-4).unwrap(), -8);
            assert_eq!(client.with(CallOptions::default()).double(21).unwrap(), 42);
            let pending: Vec<_> = (0..50).map(|n| client.start_double(n).unwrap()).collect();
            let doubled: Vec<_> = pending.into_iter().map(|reply| reply.wait().unwrap()).collect();
            assert_eq!(doubled, (0..50).map(|n| 2 * n).collect::<Vec<_>>());
            // A call outlives the view that started it.
            let pending = client.with(CallOptions::key(3)).start_double(5).unwrap();
            assert_eq!(pending.wait().unwrap(), 10);
            // The served radio is the radio of this process.
            assert_eq!(radio.status().hz, 300e6);
            let () = client.clone().reset().unwrap();
            assert_eq!(radio.status(), Status::default());
            assert_eq!(client.client().servers().len(), 1);
        });
    }
}

pub fn errors_of_a_trait_are_its_own(transport: &str) {
    with_radio(transport, Dispatch::Queue, |_, client| {
        let error = client.tune(1.0).unwrap_err();
        assert!(matches!(&error, CallError::User(TuneError::OutOfRange { hz: 1.0 })), "{error:?}");
        let status: Result<Status, CallError<NoError>> = client.status();
        assert_eq!(status.unwrap(), Status::default());
    });
}

pub fn several_arguments_and_the_context_come_as_they_are(transport: &str) {
    with_radio(transport, Dispatch::pool(2).unwrap(), |_, client| {
        assert_eq!(client.note("antenna".into(), 2, None).unwrap(), LONG);
        let deadline = LONG / 2;
        let limited = client.with(CallOptions { key: Some(1), deadline: Some(deadline) });
        assert_eq!(limited.note("gain".into(), 1, None).unwrap(), deadline);
        let told = Duration::from_millis(3);
        assert_eq!(client.start_note(String::new(), 0, Some(told)).unwrap().wait().unwrap(), told);
        assert_eq!(client.status().unwrap().notes, ["antenna", "antenna", "gain"]);
    });
}

pub fn samples_travel_as_plain_memory(transport: &str) {
    with_radio(transport, Dispatch::Queue, |_, client| {
        assert_eq!(client.reverse(Samples(vec![1, 2, 3])).unwrap().0, [3, 2, 1]);
        let offered = client.client().servers().remove(0).operations;
        let reverse = offered.iter().find(|operation| operation.name == "reverse").unwrap();
        assert_eq!([reverse.request.as_str(), reverse.reply.as_str()], ["s16"; 2]);
    });
}

pub fn a_trait_may_be_served_under_another_name(transport: &str) {
    let node = Node::isolated().unwrap();
    let radios = [(); 2].map(|()| Arc::new(Radio::default()));
    let [mut first, mut second] = ["first", "second"].map(|name| {
        let radio = Arc::clone(&radios[usize::from(name == "second")]);
        node.service_server(TunerService::named(name, radio).unwrap(), named(transport, name)).unwrap()
    });
    let connect = |name| TunerClient::connect(&node, name, patient()).unwrap();
    serving(&node, &mut first, Dispatch::Queue, || {
        serving(&node, &mut second, Dispatch::Queue, || {
            connect("first").tune(1e6).unwrap();
            connect("second").tune(2e6).unwrap();
        });
    });
    assert_eq!(radios.map(|radio| radio.status().hz), [1e6, 2e6]);
    assert!(TunerService::named("two words", Radio::default()).is_err());
    assert_eq!(TunerService::NAME, "radio");
}

pub fn clients_are_told_what_operations_do(transport: &str) {
    with_radio(transport, Dispatch::Queue, |_, client| {
        let offered = client.client().servers().remove(0).operations;
        let doc = |name: &str| &offered.iter().find(|operation| operation.name == name).unwrap().doc;
        assert_eq!(doc("tune"), "Tunes and returns the frequency reached.");
        assert_eq!(doc("double"), "Has a body and needs no implementation.\n\nTwice as much.");
        assert_eq!(doc("reset"), "");
    });
}

/// Checks that the trait adds nothing to the wire format.
pub fn any_client_may_call_what_a_trait_offers(transport: &str) {
    with_radio(transport, Dispatch::Queue, |_, client| {
        let plain: &ServiceClient = client.client();
        let tune = plain.operation::<f64, f64, TuneError>("tune").unwrap();
        assert_eq!(tune.call(&5e6).unwrap(), 5e6);
        let note = plain.operation::<(String, u32, Option<Duration>), Duration, NoError>("note").unwrap();
        assert_eq!(note.call(&("by hand".into(), 1, None)).unwrap(), LONG);
        assert_eq!(client.status().unwrap(), Status { hz: 5e6, notes: vec!["by hand".into()] });
    });
}

pub fn who_only_asks_is_told_what_a_server_has_and_takes_no_place(transport: &str) {
    let domain = domain();
    let join = || Node::join(&domain, Topics::default()).unwrap();
    let (node, asking) = (join(), join());
    let options = ServerOptions { clients: 1, ..named(transport, "the radio") };
    let server = node.service_server(TunerService::of(Radio::default()).unwrap(), options).unwrap();
    let offered = || asking.known_servers().unwrap();
    await_that("the server is discovered", || !offered().is_empty());
    let offer = offered().remove(0);
    assert_eq!((&*offer.service, offer.address.clone()), (TunerService::NAME, server.address()));
    for _ in 0..3 {
        // The server may detect the last client's departure a moment later.
        let mut described = None;
        await_that("there is a place", || {
            described = asking.describe(&offer).ok();
            described.is_some()
        });
        let described = described.unwrap();
        assert_eq!((&*described.server, &*described.operations), ("the radio", server.operations()));
    }
    drop(server);
    await_that("the server is gone", || offered().is_empty());
    let error = asking.describe(&offer).unwrap_err().to_string();
    assert_eq!(error, format!("no server of `radio` is at {} any more", offer.address));
}
