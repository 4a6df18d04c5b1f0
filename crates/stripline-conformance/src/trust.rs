//! Section 6: peers of another type, and untrusted peers at the rendezvous.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;
use stripline::payload::{Cbor, NoSchema};
use stripline::{Error, Received};

use crate::puppet::Puppet;
use crate::support::{
    DEADLINE, Dice, abstract_names, await_receivers, await_that, domain, join, meeting_point, node,
    take_number, unix_socket,
};

pub fn another_payload_type_is_refused_naming_both(transport: &'static str) {
    // Both ends are in a process with readable standard error, because a node reports the mismatch
    // there.
    let mut puppet = Puppet::start(&domain(), transport, "");
    puppet.order("publish numbers");
    puppet.order("mistake numbers");
    puppet.order("subscribe numbers");
    let said = puppet.await_error("refused");
    for part in ["numbers", "u64", "s16"] {
        assert!(said.contains(part), "{said}");
    }
    // No other connection is affected.
    puppet.order("receivers 1");
    puppet.order("send 3");
    assert_eq!(puppet.take(3), (0, None));
    puppet.end();
}

pub fn a_refused_connection_is_listed_for_as_long_as_it_is_offered(transport: &'static str) {
    let node = node(transport, "");
    let publisher = node.publisher::<u64>("numbers").unwrap();
    assert_eq!(node.refused_connections(), []);
    let subscriber = node.subscriber::<i16>("numbers").unwrap();
    let refused = node.refused_connections();
    let [(connection, reason)] = &refused[..] else { panic!("{refused:?}") };
    assert!(connection.starts_with("numbers@") && connection.ends_with("-> numbers"), "{connection}");
    assert!(reason.contains("u64") && reason.contains("s16"), "{reason}");
    // A second subscriber is refused independently, and a subscriber of the right type is not
    // refused.
    let second = node.subscriber::<i16>("numbers").unwrap();
    let _fits = node.subscriber::<u64>("numbers").unwrap();
    assert_eq!(node.refused_connections(), [refused[0].clone(), refused[0].clone()]);
    drop(second);
    assert_eq!(node.refused_connections().len(), 1);
    drop(publisher);
    assert_eq!(node.refused_connections(), []);
    drop(subscriber);
}

pub fn a_refusal_is_an_error_where_the_topic_wants_it(transport: &'static str) {
    let reporting = node(transport, "refusal-is-error = true");
    let mut subscriber = reporting.subscriber::<i16>("numbers").unwrap();
    assert_eq!(subscriber.refusals(), []);
    // The error is returned during the wait, as soon as the publisher exists.
    let error = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| subscriber.receive().map(drop).unwrap_err());
        let publisher = reporting.publisher::<u64>("numbers").unwrap();
        let error = waiting.join().unwrap();
        drop(publisher);
        error
    });
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("type u64, not s16")),
        "{error}"
    );
    // The error is returned once for each sender. Packets of the right type arrive.
    let mut fits = reporting.publisher::<i16>("numbers").unwrap();
    await_receivers(&mut fits, 1);
    fits.send(&[5]).unwrap();
    assert_eq!(*subscriber.receive().unwrap().expect("a packet"), [5]);
    let unfit = reporting.publisher::<u64>("numbers").unwrap();
    assert!(matches!(subscriber.try_receive(), Err(Error::Refused { .. })));
    assert!(matches!(subscriber.try_receive(), Ok(Received::Empty)));
    let [refused] = &subscriber.refusals()[..] else { panic!("one is refused") };
    assert_eq!(refused.summary(), "refused: sends u64, takes s16");
    drop(unfit);
    assert_eq!(subscriber.refusals(), []);
    // Without the option, the refusal is only listed.
    let silent = node(transport, "");
    let _unfit = silent.publisher::<u64>("numbers").unwrap();
    let mut subscriber = silent.subscriber::<i16>("numbers").unwrap();
    assert!(matches!(subscriber.try_receive(), Ok(Received::Empty)));
    assert_eq!(subscriber.refusals().len(), 1);
}

/// Two versions of one structure, as found in two programs built at different times.
pub mod versions {
    use stripline::Sample;

    #[derive(Clone, Copy, Sample)]
    #[repr(C)]
    #[sample(name = "det")]
    pub struct New {
        pub range_bin: u32,
        pub doppler_bin: i32,
        pub level_db: f32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Sample)]
    #[repr(C)]
    #[sample(name = "det")]
    pub struct Old {
        pub level_db: f32,
        pub range_bin: u32,
        pub doppler_bin: i32,
    }

    /// A third version, with another size and without a layout.
    #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    pub struct Bare(pub [u32; 4]);

    impl Sample for Bare {
        const TYPE: &'static str = "det";
    }
}

pub fn another_layout_of_one_name_is_refused_naming_both(transport: &'static str) {
    let node = node(transport, "");
    let mut publisher = node.publisher::<versions::New>("detections").unwrap();
    let mut old = node.subscriber::<versions::Old>("detections").unwrap();
    let mut bare = node.subscriber::<versions::Bare>("detections").unwrap();
    let refused = node.refused_connections();
    let [(_, first), (_, second)] = &refused[..] else { panic!("{refused:?}") };
    let sent = "the sending port has type det{range_bin:u32,doppler_bin:s32,level_db:f32}, not det";
    let fields = "{level_db:f32,range_bin:u32,doppler_bin:s32}";
    assert!(first.ends_with(&format!("{sent}{fields}")), "{first}");
    assert!(second.ends_with(&format!("{sent} (no layout)")), "{second}");
    // The subscriber of the right version gets all packets. The others get nothing, in particular
    // not 1e-44 for 7.
    let mut new = node.subscriber::<versions::New>("detections").unwrap();
    await_receivers(&mut publisher, 1);
    let detection = versions::New { range_bin: 7, doppler_bin: -3, level_db: 12.5 };
    publisher.send(&[detection; 4]).unwrap();
    let packet = new.receive().unwrap().expect("a packet");
    assert_eq!((packet[3].range_bin, packet[3].doppler_bin, packet[3].level_db), (7, -3, 12.5));
    assert!(matches!(old.try_receive().unwrap(), Received::Empty));
    assert!(matches!(bare.try_receive().unwrap(), Received::Empty));
}

/// Two messages of one name, as found in programs built from different sources.
mod messages {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize, stripline::Message)]
    pub struct Tune {
        pub hz: f64,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, stripline::Message)]
    #[message(name = "tune")]
    pub struct Old {
        pub mhz: f64,
    }
}

pub fn another_schema_of_a_message_is_refused_naming_both(transport: &'static str) {
    let node = node(transport, "");
    let mut publisher = node.publisher::<Cbor<messages::Tune>>("tune").unwrap();
    let mut old = node.subscriber::<Cbor<messages::Old>>("tune").unwrap();
    let [(_, reason)] = &node.refused_connections()[..] else { panic!("one is refused") };
    let both = "the sending port has type message/tune{hz:f64}, not message/tune{mhz:f64}: `tune` has the \
                field `hz:f64`, not `mhz:f64`";
    assert!(reason.ends_with(both), "{reason}");
    // A subscriber with the same schema gets the message, and so does a subscriber without a
    // schema.
    let mut typed = node.subscriber::<Cbor<messages::Tune>>("tune").unwrap();
    let mut untyped = node.subscriber::<Cbor<messages::Tune, NoSchema>>("tune").unwrap();
    assert!(publisher.wait_for_receivers(2, DEADLINE).unwrap());
    publisher.send(&messages::Tune { hz: 1090e6 }).unwrap();
    let decoded = [
        typed.receive().unwrap().expect("a message").decode(),
        untyped.receive().unwrap().expect("a message").decode(),
    ];
    assert_eq!(decoded.map(Result::unwrap), [(); 2].map(|()| messages::Tune { hz: 1090e6 }));
    assert!(matches!(old.try_receive().unwrap(), Received::Empty));
    // Without a schema, another structure is an error at the first message.
    let mut other = node.publisher::<Cbor<messages::Old, NoSchema>>("tune").unwrap();
    assert!(other.wait_for_receivers(3, DEADLINE).unwrap());
    other.send(&messages::Old { mhz: 1090.0 }).unwrap();
    let error = typed.receive().unwrap().expect("a message").decode().unwrap_err().to_string();
    assert!(error.contains("hz"), "{error}");
}

/// Connects to a Unix name or address.
pub fn connect(name: &str) -> UnixStream {
    let stream = UnixStream::connect_addr(&unix_socket(name)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Joins a domain by hand: the host treats the connection as a node's connection.
pub fn join_by_hand(domain: &str) -> UnixStream {
    let mut host = connect(&meeting_point(domain));
    send_message(&mut host, r#"{"Join":{"version":1}}"#);
    host
}

/// Sends a message to the host of a domain.
pub fn send_message(host: &mut UnixStream, text: &str) {
    host.write_all(&(text.len() as u32).to_le_bytes()).unwrap();
    host.write_all(text.as_bytes()).unwrap();
}

/// Returns the endpoint of the first offer that the host of a domain sends.
pub fn offered_endpoint(domain: &str) -> Value {
    let mut host = join_by_hand(domain);
    let mut length = [0; 4];
    host.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_le_bytes(length) as usize];
    host.read_exact(&mut text).unwrap();
    let message: Value = serde_json::from_slice(&text).unwrap();
    message["Offer"]["endpoint"].clone()
}

pub fn garbage_at_the_rendezvous_disturbs_no_node(transport: &'static str) {
    let domain = domain();
    let host = join(&domain, transport, "");
    await_that("the meeting point", || abstract_names().contains(&meeting_point(&domain)));
    let mut publisher = host.publisher::<u64>("numbers").unwrap();
    let mut subscriber = host.subscriber::<u64>("numbers").unwrap();
    let (mut rng, mut silent) = (Dice::new(7), Vec::new());
    let huge = u32::MAX.to_le_bytes().to_vec();
    let words = [b"\x05\0\0\0hello".to_vec(), b"\x02\0\0\0{}".to_vec()];
    let noise = (0..5000).map(|_| rng.below(256) as u8).collect();
    for bytes in [vec![], vec![9], huge, noise].into_iter().chain(words) {
        let mut stranger = connect(&meeting_point(&domain));
        // The host may have closed the connection before everything is written.
        let _ = stranger.write_all(&bytes);
        if bytes.len() > 4 {
            // Bytes that cannot start a message end the connection.
            let mut rest = Vec::new();
            let _ = stranger.read_to_end(&mut rest);
        } else {
            silent.push(stranger);
        }
    }
    let other = join(&domain, transport, "");
    let mut late = other.subscriber::<u64>("numbers").unwrap();
    await_receivers(&mut publisher, 2);
    publisher.send(&[1]).unwrap();
    take_number(&mut subscriber, 0);
    take_number(&mut late, 0);
}
