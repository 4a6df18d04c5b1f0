//! zenoh: a publisher and a subscriber for each direction, between two peers over TCP. Threads of
//! zenoh carry the packets. A subscriber passes the packets to the waiting thread through a
//! channel, or does the work in a callback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;

use ::zenoh::handlers::{FifoChannel, FifoChannelHandler};
use ::zenoh::pubsub::{Publisher, Subscriber};
use ::zenoh::qos::CongestionControl;
use ::zenoh::sample::Sample;
use ::zenoh::{Session, Wait};

use super::super::case::{Case, Subject};
use super::super::handler::{self, Handler};
use super::super::measure::{self, Receiver, Sender, Side};
use super::stripline::DEPTH;
use crate::Problem;
use crate::timeout::wait_until;

/// Connects one side. The first side listens, and passes the address to the other over a socket.
pub(crate) fn connect(case: &Case, place: u32, domain: &str) -> Result<Box<dyn Side>, Problem> {
    let name = SocketAddr::from_abstract_name(format!("{domain}-zenoh")).map_err(text)?;
    let session = if place == 0 {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(text)?;
        let session = open(&[format!("tcp/{port}")], &[])?;
        let listener = UnixListener::bind_addr(&name).map_err(text)?;
        let (mut stream, _) = listener.accept().map_err(text)?;
        stream.write_all(format!("tcp/{port}").as_bytes()).map_err(text)?;
        session
    } else {
        let mut stream = None;
        wait_until::<Problem>("zenoh: the peer does not listen", || {
            stream = UnixStream::connect_addr(&name).ok();
            Ok(stream.is_some())
        })?;
        let (mut stream, mut address) = (stream.ok_or("zenoh: no stream")?, String::new());
        stream.read_to_string(&mut address).map_err(text)?;
        open(&[], &[address])?
    };
    let key = |of: u32| format!("{domain}/{of}");
    // The same number of packets may be queued as in Stripline.
    let receiver = if case.subject == Subject::ZenohCallback {
        let handler = Handler::new(case, place);
        let receiving = Arc::clone(&handler);
        let take = move |sample: Sample| receiving.take(&sample.payload().to_bytes());
        let subscriber = session.declare_subscriber(key(place)).callback(take).wait().map_err(text)?;
        ZenohReceiving::Called(handler, subscriber)
    } else {
        let channel = FifoChannel::new(DEPTH as usize);
        ZenohReceiving::Waiting(session.declare_subscriber(key(place)).with(channel).wait().map_err(text)?)
    };
    let publisher = session.declare_publisher(key(1 - place)).congestion_control(CongestionControl::Block);
    let publisher = publisher.wait().map_err(text)?;
    wait_until::<Problem>("zenoh: the peer did not subscribe", || {
        Ok(publisher.matching_status().wait().map_err(text)?.matching())
    })?;
    // A side that only receives drops its sender. A session without owners would end the
    // subscribers.
    let held = session.clone();
    let sender = ZenohSender { publisher, bytes: vec![0; case.size], _session: session };
    Ok(match receiver {
        ZenohReceiving::Waiting(subscriber) => {
            measure::side(case, place, sender, ZenohReceiver { subscriber, _session: held })
        }
        ZenohReceiving::Called(handler, subscriber) => handler::side(sender, handler, (subscriber, held)),
    })
}

/// The receiving end, either for a waiting thread or with a handler that is called.
enum ZenohReceiving {
    Waiting(Subscriber<FifoChannelHandler<Sample>>),
    Called(Arc<Handler<ZenohSender>>, Subscriber<()>),
}

/// Opens a session with the settings of Stripline's transport: the same queues and the same
/// time limits.
fn open(listens: &[String], connects: &[String]) -> Result<Session, Problem> {
    let config = ::stripline_middleware::internal::zenoh_settings("peer", listens, connects, &[])?;
    ::zenoh::open(config).wait().map_err(text)
}

fn text(error: impl std::fmt::Display) -> Problem {
    format!("zenoh: {error}")
}

struct ZenohSender {
    publisher: Publisher<'static>,
    bytes: Vec<u8>,
    /// Dropped after the publisher.
    _session: Session,
}

impl Sender for ZenohSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        self.publisher.put(&self.bytes[..]).wait().map_err(text)
    }
}

struct ZenohReceiver {
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    _session: Session,
}

impl Receiver for ZenohReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        let sample = self.subscriber.recv().map_err(text)?;
        measure::read(&sample.payload().to_bytes())
    }
}
