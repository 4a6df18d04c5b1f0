//! A receiver for a port of a running waveform, or for a topic.

use std::time::{Duration, Instant};

use stripline::internal::tap;
use stripline::node::{Node, Subscriber};
use stripline::payload::TypeName;
use stripline::terms::Overflow;
use stripline::{Error, Gap, Packet, Received};
use stripline_waveform::control::{ControlClient, Tapped};
use stripline_waveform::internal::suggestion;

use super::Interrupt;
use super::arguments::SourceArguments;
use crate::Exit;
use crate::failure::Failure;
use crate::format::printable;
use crate::services::{domain, join};

/// The longest wait for a packet between two checks for Ctrl-C.
pub(super) const POLL_TIME: Duration = Duration::from_millis(50);
/// The time after which a missing publisher of a topic is reported.
const DISCOVERY_TIME: Duration = Duration::from_secs(1);
/// The interval between two checks for a publisher.
const DISCOVERY_INTERVAL: Duration = Duration::from_millis(5);
/// The longest name in an error, in characters.
const NAME_MAX: usize = 60;

/// A receiver of copies of the packets.
pub(super) struct Source {
    /// The port or topic.
    pub name: String,
    pub payload: TypeName,
    subscriber: Subscriber<u8>,
    origin: Origin,
}

enum Origin {
    Port { client: ControlClient, component: String, port: String, depth: u32 },
    Topic { _node: Node },
}

/// The result of one poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    /// A packet was passed on.
    Packet,
    /// No packet arrived in time.
    Empty,
    /// The sender was restarted, and numbers packets from 0 again.
    Restarted,
    /// No packet will follow.
    Ended,
}

impl Source {
    /// Attaches to the port or topic. Returns `None` after Ctrl-C.
    ///
    /// # Errors
    /// The exit code, after the error was printed.
    pub(super) fn open(arguments: &SourceArguments, interrupt: &Interrupt) -> Result<Option<Self>, Failure> {
        match (&arguments.topic, &arguments.waveform, &arguments.port) {
            (Some(topic), ..) => Self::of_topic(topic, arguments.depth, arguments.overflow(), interrupt),
            (None, Some(waveform), Some((component, port))) => {
                let client = ControlClient::find(waveform, arguments.pid)?;
                Self::of_port(client, component, port, arguments.depth).map(Some)
            }
            // Not reached: the parser requires a topic, or a waveform and a port.
            _ => Err(Exit::Usage.into()),
        }
    }

    /// Attaches to a port of a waveform.
    pub(super) fn of_port(
        client: ControlClient,
        component: &str,
        port: &str,
        depth: u32,
    ) -> Result<Self, Failure> {
        match client.tap(component, port, depth)? {
            Tapped::Open(tap) => {
                let (name, payload) = (tap.port().to_string(), tap.payload().clone());
                let (component, port) = (component.into(), port.into());
                let origin = Origin::Port { client, component, port, depth };
                Ok(Self { name, payload, subscriber: tap.into_subscriber(), origin })
            }
            Tapped::Ended { port } => {
                let port = printable(&port, NAME_MAX);
                Err(Failure::new(format!("`{port}` sends nothing more: its stream has ended")))
            }
        }
    }

    /// Attaches to a topic once a publisher has announced the payload type.
    pub(super) fn of_topic(
        topic: &str,
        depth: u32,
        overflow: Overflow,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>, Failure> {
        let node = domain(None).and_then(|domain| join(&domain))?;
        let report_at = Instant::now() + DISCOVERY_TIME;
        let mut is_reported = false;
        let types = loop {
            let types = tap::payloads_of(&node, topic);
            if !types.is_empty() {
                break types;
            }
            if interrupt.is_set() {
                return Ok(None);
            }
            if !is_reported && Instant::now() >= report_at {
                is_reported = true;
                report_missing(&node, topic);
            }
            std::thread::sleep(DISCOVERY_INTERVAL);
        };
        let [payload] = &types[..] else {
            let names: Vec<&str> = types.iter().map(TypeName::as_str).collect();
            return Err(Failure::new(format!(
                "topic `{}` has publishers of several types, {}; stop the publishers of one type",
                printable(topic, NAME_MAX),
                names.join(", ")
            )));
        };
        let subscriber = tap::topic(&node, topic, payload, depth, overflow)?;
        let origin = Origin::Topic { _node: node };
        Ok(Some(Self { name: topic.into(), payload: payload.clone(), subscriber, origin }))
    }

    /// Returns the bytes of a sample, if the payload type determines them.
    pub(super) fn sample_bytes(&self) -> Option<usize> {
        self.payload.sample_bytes()
    }

    /// Waits at most `timeout` for a packet, and passes it to `each`.
    ///
    /// # Errors
    /// The sender violated the protocol.
    pub(super) fn poll(
        &mut self,
        timeout: Duration,
        each: impl FnOnce(&Packet<'_, u8>),
    ) -> Result<Poll, Error> {
        match self.subscriber.receive_timeout(timeout)? {
            Received::Packet(packet) => {
                each(&packet);
                return Ok(Poll::Packet);
            }
            Received::Empty => return Ok(Poll::Empty),
            Received::Ended => {}
        }
        let Origin::Port { client, component, port, depth } = &self.origin else { return Ok(Poll::Ended) };
        // The stream has ended, the sender has died, or the waveform ends.
        match client.tap(component, port, *depth) {
            Ok(Tapped::Open(tap)) => {
                self.subscriber = tap.into_subscriber();
                Ok(Poll::Restarted)
            }
            Ok(Tapped::Ended { .. }) | Err(_) => Ok(Poll::Ended),
        }
    }

    /// Returns the gap after the last packet, if packets are missing there.
    pub(super) fn gap_at_end(&mut self) -> Option<Gap> {
        self.subscriber.gap_at_end()
    }
}

/// Reports that a topic has no publisher yet.
fn report_missing(node: &Node, topic: &str) {
    let topics = tap::topics(node);
    let remedy = match suggestion(topic, topics.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if topics.is_empty() => {
            "there is no topic at all; is STRIPLINE_DOMAIN the publisher's domain?".into()
        }
        None => format!("there are {}", topics.join(", ")),
    };
    let (topic, remedy) = (printable(topic, NAME_MAX), printable(&remedy, super::TEXT_MAX));
    report!("waiting for a publisher of topic `{topic}`; {remedy}");
}
