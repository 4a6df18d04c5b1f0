//! Operations with types by value, calls without a borrow of their client, and replies that are
//! sent later.

use std::sync::mpsc;
use std::time::Duration;

use stripline::call::{
    CallError, Client, Operation, OwnedPending, RawBytes, Refusal, Responder, Service, ServiceClient,
};
use stripline::node::Dispatch;
use stripline::payload::TypeName;

use crate::support::{LONG, await_that, operation, with_server};

type RawClient = Client<RawBytes, RawBytes, RawBytes>;

fn bytes(name: &str) -> Operation {
    let bytes = TypeName::of::<u8>();
    Operation::new(name, bytes.clone(), bytes.clone(), bytes).unwrap()
}

fn raw(client: &ServiceClient, name: &str) -> RawClient {
    client.operation_of(&bytes(name)).unwrap()
}

fn start(client: &RawClient, text: &str) -> OwnedPending<RawBytes, RawBytes, RawBytes> {
    client.start(&text.as_bytes().to_vec().into()).unwrap().into_owned()
}

/// Returns a service with the operation `later`, which passes requests to a channel.
fn later() -> (Service<'static>, mpsc::Receiver<(String, Responder)>) {
    let (pass, passed) = mpsc::channel();
    let service = Service::new("later").unwrap();
    let service = service.operation_of(bytes("later"), move |request, responder| {
        pass.send((String::from_utf8(request.to_vec()).unwrap(), responder)).unwrap();
    });
    (service.unwrap(), passed)
}

pub fn a_reply_may_be_given_later_and_in_any_order(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(2).unwrap()] {
        let (service, passed) = later();
        with_server(transport, service, dispatch, |_, client| {
            let call = raw(&client, "later");
            let pending = ["a", "b", "c"].map(|text| (text, start(&call, text)));
            let mut taken: Vec<_> = (0..3).map(|_| passed.recv_timeout(LONG).unwrap()).collect();
            taken.sort_by(|(left, _), (right, _)| right.cmp(left));
            // The server has returned from all three handlers. While their replies are pending, it
            // serves another call.
            let fourth = start(&call, "d");
            let (text, responder) = passed.recv_timeout(LONG).unwrap();
            assert!(text == "d" && !responder.client().is_empty() && responder.deadline() == LONG);
            responder.reply(b"at once");
            assert_eq!(fourth.wait().unwrap().0, b"at once");
            std::thread::spawn(move || {
                taken.into_iter().for_each(|(text, responder)| responder.reply(text.repeat(3).as_bytes()));
            });
            for (text, pending) in pending {
                assert_eq!(pending.wait().unwrap().0, text.repeat(3).as_bytes());
            }
            assert_eq!(client.counts(), (4, 0));
        });
    }
}

pub fn each_call_gets_one_answer(transport: &str) {
    let (keep, kept) = mpsc::channel();
    let service =
        Service::new("odd").unwrap().operation_of(bytes("odd"), move |request, responder| match request {
            b"fail" => responder.fail(b"its own error"),
            b"refuse" => responder.refuse("not today"),
            b"refuse as" => responder.refuse_as(Refusal::Panicked, "ValueError"),
            b"panic" => panic!("before the reply"),
            b"keep and panic" => {
                keep.send(responder).unwrap();
                panic!("after it gave the responder away");
            }
            b"reply and panic" => {
                responder.reply(b"done");
                panic!("after the reply");
            }
            b"thread panics" => drop(
                std::thread::spawn(move || {
                    let _responder = responder;
                    panic!("with the responder");
                })
                .join(),
            ),
            b"drop" => drop(responder),
            other => responder.reply(other),
        });
    with_server(transport, service.unwrap(), Dispatch::Queue, |_, client| {
        let odd = raw(&client, "odd");
        let call = |text: &str| odd.call(&text.as_bytes().to_vec().into());
        let refused = |text: &str, refusal: Refusal, why: &str| match call(text).unwrap_err() {
            CallError::Refused { refusal: found, reason, .. } => {
                assert!(found == refusal && reason.contains(why), "{text}: {found:?} {reason}");
            }
            error => panic!("{text}: {error:?}"),
        };
        assert!(matches!(call("fail"), Err(CallError::User(RawBytes(words))) if words == b"its own error"));
        refused("refuse", Refusal::Failed, "not today");
        refused("refuse as", Refusal::Panicked, "ValueError");
        refused("drop", Refusal::Failed, "dropped the request without a reply");
        refused("panic", Refusal::Panicked, "panicked");
        refused("thread panics", Refusal::Panicked, "panicked");
        refused("keep and panic", Refusal::Panicked, "after it gave the responder away");
        assert_eq!(call("reply and panic").unwrap().0, b"done");
        // A second answer to a call has no effect. The client would take it for a protocol
        // violation.
        kept.recv_timeout(LONG).unwrap().reply(b"too late");
        assert_eq!(call("still here").unwrap().0, b"still here");
        assert!(client.servers()[0].connected);
    });
}

pub fn a_reply_to_a_client_that_has_gone_has_no_effect(transport: &str) {
    let (service, passed) = later();
    with_server(transport, service, Dispatch::Queue, |node, client| {
        let own = node.service_client("later", crate::support::patient()).unwrap();
        let pending = start(&raw(&own, "later"), "gone");
        let (_, responder) = passed.recv_timeout(LONG).unwrap();
        // The call keeps its client alive, and the client ends with it.
        drop(own);
        drop(pending);
        responder.reply(b"to nobody");
        let call = start(&raw(&client, "later"), "here");
        passed.recv_timeout(LONG).unwrap().1.reply(b"yes");
        assert_eq!(call.wait().unwrap().0, b"yes");
    });
}

pub fn types_by_value_are_compared_with_rust_types(transport: &str) {
    let service = Service::new("mixed").unwrap();
    let service = service.operation("double", |x: f64| Ok::<f64, String>(2.0 * x)).unwrap();
    let cbor = TypeName::message("cbor").unwrap();
    let by_value = Operation::new("echo", cbor.clone(), cbor.clone(), cbor.clone()).unwrap();
    let service = service.operation_of(by_value, |request, responder| responder.reply(request)).unwrap();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        assert_eq!(operation::<String, String>(&client, "echo").call(&"text".into()).unwrap(), "text");
        let double = client.operation_of(&client.servers()[0].operations[0]).unwrap();
        let one = vec![0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];
        let two = double.call(&one.into()).unwrap();
        // 2 in CBOR, as a 16-bit floating-point number.
        assert_eq!(two.0, [0xf9, 0x40, 0x00]);
        // Bytes that are not CBOR are refused by the handler.
        let error = double.call(&vec![0xff].into()).unwrap_err();
        assert!(matches!(error, CallError::Refused { refusal: Refusal::WrongType, .. }), "{error:?}");
        let error = raw(&client, "double").call(&vec![].into()).unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { refusal: Refusal::WrongType, reason, .. }
                if reason == "its request is message/cbor, and not u8"),
            "{error:?}"
        );
        let error = raw(&client, "missing").call(&vec![].into()).unwrap_err();
        assert!(matches!(error, CallError::Refused { refusal: Refusal::UnknownOperation, .. }), "{error:?}");
    });
    let name = "no name";
    let [request, reply, error] = [(); 3].map(|()| cbor.clone());
    assert!(Operation::new(name, request, reply, error).unwrap_err().to_string().contains("`no name`"));
    let service = Service::new("twice").unwrap().operation_of(bytes("a"), |_, _| ()).unwrap();
    assert!(
        service.operation_of(bytes("a"), |_, _| ()).err().unwrap().to_string().contains("two operations")
    );
}

pub fn an_owned_call_waits_and_is_cancelled_like_a_borrowed_one(transport: &str) {
    let (service, passed) = later();
    with_server(transport, service, Dispatch::Queue, |_, client| {
        let call = raw(&client, "later");
        let mut pending = start(&call, "a");
        assert!(pending.try_take().is_none());
        assert!(pending.wait_timeout(Duration::from_millis(1)).is_none());
        passed.recv_timeout(LONG).unwrap().1.reply(b"a");
        assert_eq!(pending.wait_timeout(LONG).unwrap().unwrap().0, b"a");
        // The reply is returned once.
        assert!(pending.try_take().is_none());
        assert!(matches!(pending.wait(), Err(CallError::Cancelled)));
        for cancel in [OwnedPending::cancel, drop] {
            let pending = start(&call, "b");
            let (_, responder) = passed.recv_timeout(LONG).unwrap();
            cancel(pending);
            responder.reply(b"b");
        }
        await_that("late replies", || {
            assert!(client.wait_for_servers(1, LONG).unwrap());
            let report = &client.servers()[0];
            report.outstanding == 0
        });
    });
}
