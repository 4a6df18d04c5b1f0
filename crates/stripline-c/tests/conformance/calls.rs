//! Calls: the sender's process has the client, and the receiver's process has the server.

use crate::languages::Language;
use crate::pair::Pair;
use crate::support::await_that;

/// Opens the nodes, and connects a client with this deadline.
fn connect(pair: &mut Pair, deadline_ms: u32) {
    pair.open("");
    pair.receiver().ok("server desk radio");
    pair.sender().ok(&format!("client radio radio {deadline_ms}"));
    pair.sender().ok("servers radio 1");
}

pub fn calls_have_replies_errors_and_refusals(pair: &mut Pair) {
    connect(pair, 3_600_000);
    pair.receiver().begin("serve desk 7 60000");
    for number in [0, 7, 200, 70_000, 5_000_000_000_u64] {
        pair.sender().expect(&format!("call radio double {number}"), &format!("ok {}", 2 * number));
    }
    // The operation's own error contains the value.
    let message = pair.sender().fails("call radio fail 77", "user-error");
    assert_eq!(message, "77");
    // A refusal in words. In Python, only an exception refuses.
    let code = match pair.receiver().language {
        Language::Rust | Language::C | Language::Cpp => "reply-failed",
        Language::Python => "handler-panicked",
    };
    let message = pair.sender().fails("call radio refuse 1", code);
    assert!(message.contains("the antenna is not plugged in"), "{message}");
    assert_eq!(pair.receiver().answer(), "ok");
    // The server does not get this call, so it need not serve.
    pair.receiver().begin("serve desk 1 60000");
    let message = pair.sender().fails("call radio nothing 1", "unknown-operation");
    assert!(message.contains("nothing"), "{message}");
    pair.sender().expect("call radio double 4", "ok 8");
    assert_eq!(pair.receiver().answer(), "ok");
}

pub fn a_call_without_a_server_or_a_reply_ends_in_time(pair: &mut Pair) {
    pair.open("");
    pair.sender().ok("client radio radio 30");
    let message = pair.sender().fails("call radio double 1", "no-server");
    assert!(message.contains("radio"), "{message}");
    pair.receiver().ok("server desk radio");
    pair.sender().ok("servers radio 1");
    // The server does not serve.
    let message = pair.sender().fails("call radio double 1", "call-unanswered");
    assert!(message.contains("radio"), "{message}");
}

pub fn a_handler_that_fails_refuses_its_call_and_the_server_goes_on(pair: &mut Pair) {
    connect(pair, 3_600_000);
    pair.receiver().begin("serve desk 3 60000");
    // The handler panics in Rust, and throws an exception in C++ and Python. In C, it reports a
    // mistake of its own.
    for _ in 0..2 {
        let message = pair.sender().fails("call radio throw 1", "handler-panicked");
        assert!(message.contains("the antenna has fallen over"), "{message}");
    }
    pair.sender().expect("call radio double 4", "ok 8");
    assert_eq!(pair.receiver().answer(), "ok");
}

pub fn a_call_of_another_type_is_refused(pair: &mut Pair) {
    // In C and C++ the types are texts, which are compared before the call is made. In Rust, the
    // server finds that the request has another type. Python has only values: the program checks
    // them itself, and so does a server for a client in Python.
    let (client, server) = (pair.sender().language, pair.receiver().language);
    let served = match (client, server) {
        (Language::Rust | Language::Python, Language::Rust) => 2,
        (Language::Python, _) | (_, Language::Python) => return,
        _ => 1,
    };
    connect(pair, 3_600_000);
    pair.receiver().begin(&format!("serve desk {served} 60000"));
    let message = pair.sender().fails("call radio typed 1 message/cbor(text)", "wrong-type");
    assert!(message.contains("radio.typed"), "{message}");
    assert!(served == 2 || message.matches("message/cbor").count() == 2, "{message}");
    pair.sender().expect("call radio double 4", "ok 8");
    assert_eq!(pair.receiver().answer(), "ok");
}

pub fn a_server_that_leaves_ends_its_call(pair: &mut Pair) {
    connect(pair, 3_600_000);
    // The server has the call, and does not serve it.
    pair.sender().begin("call radio double 4");
    pair.await_sender_waits();
    pair.receiver().ok("drop desk");
    let answer = pair.sender().answer();
    let message = pair.sender().is_failure(&answer, "server-gone");
    assert!(message.contains("radio"), "{message}");
}

pub fn a_killed_server_ends_its_call(pair: &mut Pair) {
    connect(pair, 3_600_000);
    pair.receiver().begin("serve desk 1 60000");
    pair.sender().begin("call radio stick 1");
    assert_eq!(pair.receiver().answer(), "stuck");
    assert!(pair.sender().is_silent());
    pair.kill_receiver();
    let answer = pair.sender().answer();
    let message = pair.sender().is_failure(&answer, "server-gone");
    assert!(message.contains("radio"), "{message}");
    // Another server takes the next call.
    pair.receiver().ok("server desk radio");
    await_that("the next server", || pair.sender().order("servers radio 1") == "ok");
    pair.receiver().begin("serve desk 1 60000");
    pair.sender().expect("call radio double 4", "ok 8");
    assert_eq!(pair.receiver().answer(), "ok");
}
