//! Taps: copies of the packets of a running waveform.

use std::time::{Duration, Instant};

use stripline::internal::tap;
use stripline::node::Subscriber;
use stripline::payload::TypeName;
use stripline::{Error, Received};

use super::client::TIMEOUT;
use super::{ControlClient, ControlError, TapReply, TapRequest};

/// The time for which a component may be missing, for example between two runs of it.
const MISSING_TIME: Duration = Duration::from_secs(10);
/// The interval between two requests to a missing component.
const RETRY_TIME: Duration = Duration::from_millis(50);
/// The maximum number of attempts to connect to a tap that was open a moment ago.
const ATTEMPTS: u32 = 5;

/// A tap: receives copies of the packets that a port of a running waveform sends, as bytes.
///
/// The sender never waits for a tap, and a tap counts towards nothing that the sender waits for. If
/// a tap does not take packets in time, the oldest packets are dropped and reported as a gap.
///
/// ```no_run
/// use std::time::Duration;
/// use stripline::Received;
/// use stripline_waveform::control::{ControlClient, Tapped};
///
/// let radio = ControlClient::find("radio", None)?;
/// let Tapped::Open(mut tap) = radio.tap("filter", "out", 64)? else { panic!("it has ended") };
/// println!("{} sends {}", tap.port(), tap.payload());
/// let mut packets = 0;
/// loop {
///     match tap.receive_timeout(Duration::from_millis(100))? {
///         Received::Packet(packet) => println!("{}: {} bytes", packet.sequence(), packet.len()),
///         Received::Empty => continue,
///         Received::Ended => break,
///     }
///     packets += 1;
///     if packets == 10 {
///         break;
///     }
/// }
/// # Ok::<(), stripline_waveform::control::ControlError>(())
/// ```
pub struct Tap {
    port: String,
    payload: TypeName,
    subscriber: Subscriber<u8>,
}

/// The result of a request for a tap.
///
/// ```
/// use stripline_waveform::control::Tapped;
///
/// fn is_over(tapped: &Tapped) -> bool {
///     matches!(tapped, Tapped::Ended { .. })
/// }
/// ```
#[derive(Debug)]
pub enum Tapped {
    /// The tap.
    Open(Box<Tap>),
    /// The port has ended the stream, or the component has ended.
    Ended {
        /// The sending port, as `component.port`.
        port: String,
    },
}

impl Tap {
    /// Returns the sending port, as `component.port`.
    pub fn port(&self) -> &str {
        &self.port
    }

    /// Returns the payload type of the port.
    pub fn payload(&self) -> &TypeName {
        &self.payload
    }

    /// Blocks until the next packet arrives, but not longer than `timeout`. [`Received::Ended`]
    /// means that the sender has ended the stream or died. Call [`ControlClient::tap`] to find out
    /// which: it returns another tap once the component was started again, or [`Tapped::Ended`].
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`].
    pub fn receive_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Received<stripline::Packet<'_, u8>>, Error> {
        self.subscriber.receive_timeout(timeout)
    }

    /// Returns the subscriber that receives the packets.
    pub fn into_subscriber(self) -> Subscriber<u8> {
        self.subscriber
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap")
            .field("port", &self.port)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}

impl ControlClient {
    /// Attaches a tap to an output of a component, or to the sender of an input. Up to `depth`
    /// packets are queued for the tap, at most 65,536.
    ///
    /// The call waits for a component that is being started (or restarted), up to ten seconds. The
    /// tap begins with the first packet that the port begins after this call returns.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] if there is no such component or port, or if an input has several
    /// senders. [`ControlError::Cannot`] if the process of the component does not answer.
    pub fn tap(&self, component: &str, port: &str, depth: u32) -> Result<Tapped, ControlError> {
        let request = TapRequest { component: component.into(), port: port.into() };
        let give_up = Instant::now() + MISSING_TIME;
        let mut attempts = 0;
        loop {
            match self.call::<_, TapReply>("tap", &request, TIMEOUT)? {
                TapReply::Open { port, payload, endpoint } => {
                    match tap::connect(&port, &endpoint, &payload, depth) {
                        Ok(subscriber) => {
                            return Ok(Tapped::Open(Box::new(Tap { port, payload, subscriber })));
                        }
                        // The tap was closed in the meantime, or the process has just died.
                        Err(Error::System { .. }) if attempts < ATTEMPTS => attempts += 1,
                        Err(error) => return Err(error.into()),
                    }
                }
                TapReply::Ended { port } => return Ok(Tapped::Ended { port }),
                TapReply::NotYet(_) if Instant::now() < give_up => {}
                TapReply::NotYet(why) | TapReply::Refused(why) => return Err(ControlError::Cannot(why)),
                TapReply::Late => return Err(ControlError::Cannot("it has no answer".into())),
            }
            // Only another request shows whether the component is present.
            std::thread::sleep(RETRY_TIME);
        }
    }
}
