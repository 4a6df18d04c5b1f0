//! A single thread for all ports of a component.

use crate::error::Result;
use crate::link::{FrameRef, Incoming};
use crate::packet::payload::Content;
use crate::transport::Wait;

use super::serve::serve_one;
use super::wait::wait_until;
use super::{PacketView, Received, Subscriber};

/// A runner of the handlers of several ports on one thread. No two handlers run at the same time,
/// so they can share state without locks, in a [`Cell`](std::cell::Cell) or
/// [`RefCell`](std::cell::RefCell).
///
/// Ports take turns, packet by packet: between two packets of a busy port, each other port runs at
/// most one handler.
///
/// ```
/// use std::cell::Cell;
/// use std::time::Duration;
/// use stripline::node::{Node, SingleThread};
/// use stripline::payload::Cbor;
///
/// let node = Node::isolated()?;
/// let mut publisher = node.publisher::<f32>("levels")?;
/// let mut levels = node.subscriber::<f32>("levels")?;
/// let mut commander = node.publisher::<Cbor<f32>>("gain")?;
/// let mut commands = node.subscriber::<Cbor<f32>>("gain")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// commander.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1.0, 2.0])?;
/// publisher.finish()?;
/// commander.send(&10.0)?;
/// commander.finish()?;
///
/// let gain = Cell::new(1.0);
/// let mut amplified = Vec::new();
/// let ports = SingleThread::new().packets(&mut commands, |command| {
///     gain.set(command.decode()?);
///     Ok(())
/// });
/// let ports = ports.packets(&mut levels, |packet| {
///     amplified.extend(packet.iter().map(|level| level * gain.get()));
///     Ok(())
/// });
/// ports.run()?;
/// assert_eq!(amplified, [10.0, 20.0]);
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Default)]
pub struct SingleThread<'a> {
    ports: Vec<Box<dyn ServedPort + 'a>>,
}

impl<'a> SingleThread<'a> {
    /// Returns a runner without ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler for the packets of a port.
    #[must_use]
    pub fn packets<T: Content>(
        mut self,
        subscriber: &'a mut Subscriber<T>,
        handler: impl FnMut(PacketView<'_, T>) -> Result<()> + 'a,
    ) -> Self {
        self.ports.push(Box::new(Served { subscriber, handler }));
        self
    }

    /// Runs the handlers until every port has reached the end of stream.
    ///
    /// # Errors
    /// [`Error::Handler`](crate::Error::Handler) when a handler fails or panics;
    /// [`Error::Stopped`](crate::Error::Stopped) when the component is stopped; otherwise the same
    /// as [`Subscriber::receive`].
    pub fn run(mut self) -> Result<()> {
        while !self.ports.is_empty() {
            let (mut is_idle, mut has_ended) = (true, Vec::new());
            for port in &mut self.ports {
                port.incoming().stop().interrupt().take(false)?;
                let found = port.serve_one()?;
                is_idle &= matches!(found, Received::Empty);
                has_ended.push(matches!(found, Received::Ended));
            }
            let mut has_ended = has_ended.into_iter();
            self.ports.retain(|_| has_ended.next() == Some(false));
            if is_idle {
                let mut links: Vec<&mut Incoming> =
                    self.ports.iter_mut().map(|port| port.incoming()).collect();
                wait_until(&mut links, None, None)?;
            }
        }
        Ok(())
    }
}

/// A port of any type with a handler.
trait ServedPort {
    fn serve_one(&mut self) -> Result<Received<FrameRef>>;
    fn incoming(&mut self) -> &mut Incoming;
}

struct Served<'a, T: Content, H> {
    subscriber: &'a mut Subscriber<T>,
    handler: H,
}

impl<T: Content, H: FnMut(PacketView<'_, T>) -> Result<()>> ServedPort for Served<'_, T, H> {
    fn serve_one(&mut self) -> Result<Received<FrameRef>> {
        serve_one(self.subscriber, Wait::Never, &mut self.handler)
    }

    fn incoming(&mut self) -> &mut Incoming {
        &mut self.subscriber.incoming
    }
}
