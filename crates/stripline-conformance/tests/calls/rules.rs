//! Successful calls, and the errors that a server reports.

use stripline::call::{CallError, ClientOptions, Plain, Refusal, Samples, Service};
use stripline::node::{Dispatch, Node};

use crate::support::{LONG, operation, over, patient, serving, with_server};

fn arithmetic() -> Service<'static> {
    Service::new("arithmetic")
        .unwrap()
        .operation("double", |x: f64| Ok::<f64, String>(2.0 * x))
        .unwrap()
        .operation("add", |pair: Plain<num_complex::Complex<i32>>| {
            Ok::<_, String>(Plain(pair.re.wrapping_add(pair.im)))
        })
        .unwrap()
        .operation("root", |x: f64| if x < 0.0 { Err(format!("{x} has no root")) } else { Ok(x.sqrt()) })
        .unwrap()
        .operation("reverse", |samples: Samples<i16>| {
            Ok::<_, String>(Samples(samples.iter().rev().copied().collect()))
        })
        .unwrap()
        .operation("panic", |words: String| -> Result<(), String> { panic!("{words}") })
        .unwrap()
}

pub fn a_call_returns_its_reply(transport: &str) {
    with_server(transport, arithmetic(), Dispatch::Queue, |_, client| {
        let double = operation::<f64, f64>(&client, "double");
        let add = operation::<Plain<num_complex::Complex<i32>>, Plain<i32>>(&client, "add");
        for x in 0..100 {
            assert_eq!(double.call(&f64::from(x)).unwrap(), f64::from(2 * x));
            assert_eq!(add.call(&Plain(num_complex::Complex::new(x, 1))).unwrap(), Plain(x + 1));
        }
        assert_eq!(client.servers()[0].outstanding, 0);
    });
}

pub fn an_error_of_the_operation_is_a_value(transport: &str) {
    with_server(transport, arithmetic(), Dispatch::Direct, |_, client| {
        let root = operation::<f64, f64>(&client, "root");
        assert_eq!(root.call(&9.0).unwrap(), 3.0);
        let error = root.call(&-1.0).unwrap_err();
        assert!(matches!(&error, CallError::User(words) if words == "-1 has no root"), "{error}");
        assert_eq!(root.call(&16.0).unwrap(), 4.0);
    });
}

pub fn any_number_may_be_outstanding(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::pool(3).unwrap()] {
        with_server(transport, arithmetic(), dispatch, |_, client| {
            let double = operation::<f64, f64>(&client, "double");
            for outstanding in [1, 2, 10, 100, 1000] {
                let pending: Vec<_> =
                    (0..outstanding).map(|x| double.start(&f64::from(x)).unwrap()).collect();
                for (x, reply) in pending.into_iter().enumerate() {
                    assert_eq!(reply.wait().unwrap(), 2.0 * x as f64);
                }
            }
        });
    }
}

pub fn many_threads_share_a_client(transport: &str) {
    with_server(transport, arithmetic(), Dispatch::Queue, |_, client| {
        let double = operation::<f64, f64>(&client, "double");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let double = &double;
                scope.spawn(move || {
                    for call in 0..200 {
                        let x = f64::from(1000 * thread + call);
                        assert_eq!(double.call(&x).unwrap(), 2.0 * x);
                    }
                });
            }
        });
    });
}

pub fn large_requests_and_replies_travel(transport: &str) {
    let node = Node::isolated().unwrap();
    let options = stripline::call::ServerOptions { buffer: 1 << 14, ..over(transport) };
    let mut server = node.service_server(arithmetic(), options).unwrap();
    let client = node.service_client("arithmetic", ClientOptions { buffer: 1 << 14, ..patient() }).unwrap();
    serving(&node, &mut server, Dispatch::Queue, || {
        let reverse = operation::<Samples<i16>, Samples<i16>>(&client, "reverse");
        assert!(client.wait_for_servers(1, LONG).unwrap());
        for length in [0, 1, 1000, 100_000, 1_000_000] {
            let samples: Vec<i16> = (0..length).map(|n| n as i16).collect();
            let reversed: Vec<i16> = samples.iter().rev().copied().collect();
            let pending: Vec<_> = (0..4).map(|_| reverse.start(&Samples(samples.clone())).unwrap()).collect();
            for reply in pending {
                assert!(reply.wait().unwrap().0 == reversed, "{length}");
            }
        }
    });
}

pub fn a_handler_panic_is_reported_and_the_server_goes_on(transport: &str) {
    for dispatch in [Dispatch::Queue, Dispatch::Direct, Dispatch::pool(2).unwrap()] {
        with_server(transport, arithmetic(), dispatch, |_, client| {
            let panics = operation::<String, ()>(&client, "panic");
            for _ in 0..3 {
                let error = panics.call(&"out of order".into()).unwrap_err();
                assert!(
                    matches!(&error, CallError::Refused { refusal: Refusal::Panicked, reason, .. }
                        if reason == "out of order"),
                    "{error}"
                );
            }
            assert_eq!(operation::<f64, f64>(&client, "double").call(&1.5).unwrap(), 3.0);
        });
    }
}
