//! The queues that implement a connection's policies, around the ends of any transport. At the
//! receiver, they implement overflow and the scopes `server` and `target`, and at the sender the
//! scope `none`.
//!
//! All connections are made here, so that no transport can leave a policy out.

mod pump;
mod receive_queue;
mod send_queue;

use crate::error::Result;
use crate::transport::handshake::is_late;
use crate::transport::{self, AnyInlet, AnyOutlet, BindRequest, ConnectRequest, Endpoint};

/// The maximum number of hellos that a receiver sends if the sender finds them late. A late hello
/// takes a second, and a late path two seconds.
const HELLOS_MAX: usize = 5;

/// Opens the sending side of a port over a transport. Receivers may connect from now on.
pub(crate) fn bind(transport: &str, request: BindRequest) -> Result<AnyOutlet> {
    send_queue::with_scope(transport::find(transport)?, request)
}

/// Connects a receiving port. Blocks for a few seconds at most. On an overloaded machine, a hello
/// may arrive late, or the path may not be found in time. Then the hello is sent again.
pub(crate) fn connect(endpoint: &Endpoint, request: &ConnectRequest) -> Result<AnyInlet> {
    let transport = transport::find(&endpoint.transport)?;
    let mut hellos = 1;
    let inlet = loop {
        match transport.connect(endpoint, request) {
            Err(error) if hellos < HELLOS_MAX && is_late(&error) => hellos += 1,
            outcome => break outcome?,
        }
    };
    with_policy(inlet, request)
}

pub(crate) use receive_queue::with_policy;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;
    use crate::Error;
    use crate::packet::payload::TypeName;
    use crate::terms::LinkOptions;
    use crate::transport::handshake::{HelloReply, encode};

    /// Connects to a sender with these replies, and returns the error.
    fn answered(replies: Vec<HelloReply>) -> Error {
        connected_to(move |listener| {
            for reply in replies {
                listener.accept().unwrap().0.write_all(&encode(&reply).unwrap()).unwrap();
            }
        })
    }

    fn connected_to(answer: impl FnOnce(UnixListener) + Send + 'static) -> Error {
        let name = format!("stripline-late-{}", crate::sys::socket_names::unique_suffix().unwrap());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let sender = std::thread::spawn(move || answer(listener));
        let endpoint = Endpoint { transport: "uds".into(), address: name, keys: [1, 2] };
        let options = LinkOptions::default();
        let request = ConnectRequest::new("a -> b".into(), TypeName::of::<u8>(), options);
        let error = connect(&endpoint, &request).err().unwrap();
        sender.join().unwrap();
        error
    }

    /// Sends each byte separately and in time. All bytes would take a quarter of an hour.
    #[test]
    fn a_reply_that_comes_a_byte_at_a_time_ends() {
        let given_up = connected_to(|listener| {
            let mut receiver = listener.accept().unwrap().0;
            let reply = encode(&HelloReply::Refused("a".repeat(1000))).unwrap();
            for byte in reply {
                if receiver.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        });
        assert!(matches!(&given_up, Error::System { .. }), "{given_up}");
    }

    #[test]
    fn a_hello_that_came_late_is_sent_again() {
        let late = || HelloReply::Late("sent no hello in time".into());
        let refused = answered(vec![late(), late(), HelloReply::Refused("it is full".into())]);
        assert!(matches!(&refused, Error::Refused { reason, .. } if reason == "it is full"), "{refused}");
        let given_up = answered((0..HELLOS_MAX).map(|_| late()).collect());
        assert!(is_late(&given_up) && given_up.to_string().contains("no hello in time"), "{given_up}");
    }

    #[test]
    fn a_reply_that_is_cut_is_a_violation_of_the_sender() {
        let reply = encode(&HelloReply::Refused("it is full".into())).unwrap();
        for bytes in [1, 11, 12, reply.len() - 1] {
            let part = reply[..bytes].to_vec();
            let error = connected_to(move |listener| {
                let mut receiver = listener.accept().unwrap().0;
                // The hello is read, so that no bytes are left unread at the end.
                let _ = std::io::Read::read(&mut receiver, &mut [0; 8192]).unwrap();
                receiver.write_all(&part).unwrap();
            });
            assert!(error.to_string().contains("ended in the middle of its reply"), "{bytes}: {error}");
            assert!(matches!(error, Error::PeerMisbehaved { .. }));
        }
        // The end is the same as after a kill.
        let error = connected_to(|listener| drop(listener.accept().unwrap()));
        assert!(matches!(error, Error::System { .. }), "{error}");
    }
}
