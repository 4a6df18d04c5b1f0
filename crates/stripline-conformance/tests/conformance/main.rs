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

stripline_conformance::link_rules! { crate::register; inproc, shm, uds, tcp, mqueue, udp, pipe, faulty, callback }

#[cfg(feature = "test-transports")]
stripline_conformance::link_rules! { further crate::register; lossy, multicast }

stripline_middleware::if_zeromq! { stripline_conformance::link_rules! { further crate::register; zeromq } }
stripline_middleware::if_iceoryx2! { stripline_conformance::link_rules! { further crate::register; iceoryx2 } }
stripline_middleware::if_zenoh! { stripline_conformance::link_rules! { further crate::register; zenoh } }
stripline_middleware::if_dds! { stripline_conformance::link_rules! { further crate::register; dds } }
stripline_middleware::if_corba! { stripline_conformance::link_rules! { further crate::register; corba } }

#[test]
fn every_transport_is_covered() {
    register();
    let mut covered = vec!["inproc", "shm", "uds", "tcp", "mqueue", "udp"];
    stripline_middleware::if_zeromq! { covered.push("zeromq"); }
    stripline_middleware::if_iceoryx2! { covered.push("iceoryx2"); }
    stripline_middleware::if_zenoh! { covered.push("zenoh"); }
    stripline_middleware::if_dds! { covered.push("dds"); }
    stripline_middleware::if_corba! { covered.push("corba"); }
    covered.extend(["pipe", "faulty", "callback"]);
    covered.extend(cfg!(feature = "test-transports").then_some(["lossy", "multicast"]).iter().flatten());
    let there: Vec<_> = stripline::transport::all().map(|transport| transport.name).collect();
    assert_eq!(there, covered, "add the transport to the lists in this file");
}
