//! Clients and servers in a program's own event loop: one descriptor each for `poll`, epoll or a
//! toolkit.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::node::{ReadyDescriptor, WaitMember};
use crate::sys::doorbell::PollSet;
use crate::transport::Wait;

use super::client_core::ClientCore;
use super::client_ready::ReadyParts;
use super::server_connection::{RECHECK_INTERVAL, ServerConnection};
use super::{Server, ServiceClient};

impl ClientCore {
    fn arm(&self) -> Result<bool> {
        self.check_own()?;
        let ReadyParts { set, doorbell } = self.ready.parts()?;
        self.stop.check(Wait::FOREVER)?;
        doorbell.drain();
        if self.ready.arm() {
            // The reply to a call that the loop polled earlier may have arrived since it polled a
            // later one.
            return Ok(false);
        }
        let connections = self.used_connections();
        let mut receivers: Vec<_> = connections.iter().map(ServerConnection::try_receiver).collect();
        let mut poll_set = PollSet::for_ready_set();
        poll_set.readable(doorbell.as_fd());
        self.stop.add_to(&mut poll_set, Wait::FOREVER);
        let (mut until, mut found) = (None, None);
        for (index, receiver) in receivers.iter_mut().enumerate() {
            match receiver.as_deref_mut() {
                // Another thread receives. That thread rings for results, and when it stops
                // receiving.
                None => until = Some(Instant::now() + RECHECK_INTERVAL),
                Some(None) => {}
                Some(Some(incoming)) => {
                    incoming.cancel_sleep();
                    // An error belongs to this connection and ends it below.
                    if incoming.is_ready().unwrap_or(true) || !incoming.prepare_arm(&mut poll_set) {
                        found = Some(index);
                        break;
                    }
                }
            }
        }
        if found.is_none() {
            set.set(&poll_set, until)?;
        }
        drop(poll_set);
        drop(receivers);
        let Some(index) = found else { return Ok(true) };
        // Replies go to their calls. The end of a server goes to all calls at this server.
        connections[index].drain_late();
        Ok(false)
    }
}

impl ServiceClient {
    /// Returns a descriptor for `poll`, epoll or a toolkit, the same one each time. After
    /// [`ServiceClient::arm`] has returned true, it becomes readable when the pending calls must be
    /// polled ([`Pending::try_take`](super::Pending::try_take)).
    ///
    /// # Errors
    /// Same as [`Waitable::ready_descriptor`](crate::node::Waitable::ready_descriptor).
    ///
    /// ```
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::call::{ClientOptions, ServerOptions, Service};
    /// use stripline::node::{Dispatch, Node};
    ///
    /// let node = Node::isolated()?;
    /// let service = Service::new("double")?.operation("double", |x: f64| Ok::<f64, String>(2.0 * x))?;
    /// let mut server = node.service_server(service, ServerOptions::default())?;
    /// let client = node.service_client("double", ClientOptions::default())?;
    /// let double = client.operation::<f64, f64, String>("double")?;
    /// let descriptor = client.ready_descriptor()?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| server.serve(Dispatch::Queue));
    ///     let mut pending = double.start(&2.0).expect("a server is there");
    ///     let reply = loop {
    ///         match pending.try_take() {
    ///             Some(reply) => break reply,
    ///             None if !client.arm().expect("it is not stopped") => {}
    ///             // Beside the other descriptors of the loop.
    ///             None => drop(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None)),
    ///         }
    ///     };
    ///     assert_eq!(reply.expect("it is served"), 4.0);
    ///     node.stop();
    /// });
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn ready_descriptor(&self) -> Result<ReadyDescriptor> {
        self.core.check_own()?;
        Ok(ReadyDescriptor::new(Arc::clone(&self.core.ready.parts()?.set)))
    }

    /// Makes the descriptor readable once a reply may have arrived, or a server has connected or
    /// left. False: something has arrived already, so poll the pending calls first. Call this each
    /// time before the loop waits, and after starting a call. The call does not block. Other
    /// threads may make calls at the same time.
    ///
    /// Deadlines do not make the descriptor readable, so the loop needs a timer for them.
    ///
    /// # Errors
    /// Same as [`Waitable::arm`](crate::node::Waitable::arm).
    pub fn arm(&self) -> Result<bool> {
        self.core.arm()
    }
}

impl Server<'_> {
    /// Returns a descriptor for `poll`, epoll or a toolkit, the same one each time. After
    /// [`Server::arm`] has returned true, it becomes readable when [`Server::serve_one`] has
    /// something to do.
    ///
    /// # Errors
    /// Same as [`Waitable::ready_descriptor`](crate::node::Waitable::ready_descriptor).
    ///
    /// ```
    /// use std::time::Duration;
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use stripline::call::{ClientOptions, ServerOptions};
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let mut server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let double = node.client::<f64, f64, String>("double", ClientOptions::default())?;
    /// let descriptor = server.ready_descriptor()?;
    /// let pending = double.start(&2.0).expect("a server is there");
    /// while !server.serve_one(Duration::ZERO)? {
    ///     if server.arm()? {
    ///         // Beside the other descriptors of the loop.
    ///         poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it waits");
    ///     }
    /// }
    /// assert_eq!(pending.wait().expect("it was served"), 4.0);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        self.handlers.check_own()?;
        self.requests.incoming.ready_set().map(ReadyDescriptor::new)
    }

    /// Makes the descriptor readable once there may be a call. False: a call or an event has
    /// arrived already, so call [`Server::serve_one`] first. Call this each time before the loop
    /// waits. The call does not block.
    ///
    /// # Errors
    /// Same as [`Waitable::arm`](crate::node::Waitable::arm).
    pub fn arm(&mut self) -> Result<bool> {
        self.handlers.check_own()?;
        if !self.requests.queue.is_empty() {
            return Ok(false);
        }
        let incoming = &mut self.requests.incoming;
        let set = incoming.ready_set()?;
        incoming.arm(&set)
    }
}

impl WaitMember for Server<'_> {
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        Server::ready_descriptor(self)
    }

    fn arm(&mut self) -> Result<bool> {
        Server::arm(self)
    }
}

impl WaitMember for &ServiceClient {
    fn ready_descriptor(&mut self) -> Result<ReadyDescriptor> {
        ServiceClient::ready_descriptor(self)
    }

    fn arm(&mut self) -> Result<bool> {
        ServiceClient::arm(self)
    }
}
