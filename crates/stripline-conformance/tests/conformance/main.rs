//! The link contract, rule by rule, for every transport of this build.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod callback_transport;
mod faulty_transport;
#[cfg(feature = "test-transports")]
mod multicast_groups;
#[path = "../../../../examples/carrier/src/lib.rs"]
mod pipe_transport;

/// Registers the transports of other crates, and of these tests.
fn register() {
    stripline_middleware::register();
    pipe_transport::register();
    stripline::carrier::register(&[&faulty_transport::FAULTY, &callback_transport::CALLBACK], &[]);
}

stripline_conformance::link_rules! {
    crate::register;
    inproc,
    shm,
    uds,
    tcp,
    mqueue,
    udp,
    #[cfg(feature = "zeromq")]
    zeromq,
    #[cfg(feature = "iceoryx2")]
    iceoryx2,
    #[cfg(feature = "zenoh")]
    zenoh,
    #[cfg(feature = "dds")]
    dds,
    #[cfg(feature = "corba")]
    corba,
    pipe,
    faulty,
    callback,
    #[cfg(feature = "test-transports")]
    lossy,
    #[cfg(feature = "test-transports")]
    multicast,
}

#[test]
fn every_transport_is_covered() {
    register();
    let mut covered = vec!["inproc", "shm", "uds", "tcp", "mqueue", "udp"];
    covered.extend(cfg!(feature = "zeromq").then_some("zeromq"));
    covered.extend(cfg!(feature = "iceoryx2").then_some("iceoryx2"));
    covered.extend(cfg!(feature = "zenoh").then_some("zenoh"));
    covered.extend(cfg!(feature = "dds").then_some("dds"));
    covered.extend(cfg!(feature = "corba").then_some("corba"));
    covered.extend(["pipe", "faulty", "callback"]);
    covered.extend(cfg!(feature = "test-transports").then_some(["lossy", "multicast"]).iter().flatten());
    let there: Vec<_> = stripline::transport::all().map(|transport| transport.name).collect();
    assert_eq!(there, covered, "add the transport to the lists in this file");
}
