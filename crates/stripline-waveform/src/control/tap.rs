//! Taps: copies of the packets of a running waveform.

use std::time::{Duration, Instant};

use stripline::internal::tap;
use stripline::node::Subscriber;
use stripline::payload::TypeName;
use stripline::{Error, Received};

use super::client::PATIENCE;
use super::{ControlClient, ControlError, TapReply, TapRequest};

/// How long a component may be missing, as between two runs of it.
const MISSING_TIME: Duration = Duration::from_secs(10);
/// The interval between two requests to a component that is missing.
const RETRY_TIME: Duration = Duration::from_millis(50);
/// The most attempts to connect to a tap that was open a moment ago.
const ATTEMPTS: u32 = 5;

/// A tap: receives copies of what a port of a running waveform sends, as bytes.
///
/// The sender never waits for it, and it counts towards nothing that the sender waits for. Packets
/// that it does not take in time are dropped, the oldest first, and reported as a gap.
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
    /// The port has sent its end of stream, or its component has ended.
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

    /// Returns its payload type.
    pub fn payload(&self) -> &TypeName {
        &self.payload
    }

    /// Blocks until the next packet, but not longer than `timeout`. After [`Received::Ended`] the
    /// sender has ended its stream, or died. [`ControlClient::tap`] then returns which: another tap
    /// once a component was started again, or [`Tapped::Ended`].
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`].
    pub fn receive_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Received<stripline::Packet<'_, u8>>, Error> {
        self.subscriber.receive_timeout(timeout)
    }

    /// Returns the receiving side itself.
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
    /// Attaches a tap to a component's output, or to the sender of an input. Up to `depth` packets
    /// wait for it, at most 65,536.
    ///
    /// A component that is being started (again) is waited for, up to ten seconds. The first packet
    /// that the tap gets is one that the port begins after this returns.
    ///
    /// # Errors
    /// [`ControlError::Wrong`] when there is no such component or port, or when an input has
    /// several senders. [`ControlError::Cannot`] when the component's process does not answer.
    pub fn tap(&self, component: &str, port: &str, depth: u32) -> Result<Tapped, ControlError> {
        let request = TapRequest { component: component.into(), port: port.into() };
        let give_up = Instant::now() + MISSING_TIME;
        let mut attempts = 0;
        loop {
            match self.call::<_, TapReply>("tap", &request, PATIENCE)? {
                TapReply::Open { port, payload, endpoint } => {
                    match tap::connect(&port, &endpoint, &payload, depth) {
                        Ok(subscriber) => {
                            return Ok(Tapped::Open(Box::new(Tap { port, payload, subscriber })));
                        }
                        // The tap was closed meanwhile, or the process has just died.
                        Err(Error::System { .. }) if attempts < ATTEMPTS => attempts += 1,
                        Err(error) => return Err(error.into()),
                    }
                }
                TapReply::Ended { port } => return Ok(Tapped::Ended { port }),
                TapReply::NotYet(_) if Instant::now() < give_up => {}
                TapReply::NotYet(why) | TapReply::Refused(why) => return Err(ControlError::Cannot(why)),
                TapReply::Late => return Err(ControlError::Cannot("it has no answer".into())),
            }
            // Another request is the only way to learn that the component is there.
            std::thread::sleep(RETRY_TIME);
        }
    }
}
