//! How a node makes clients and servers, and brings them together.

use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::link::{Delivery, Ends, Incoming, LinkOptions, Mailbox, Outgoing, Overflow, Scope, Terms};
use crate::node::rendezvous::Offer;
use crate::node::{Again, Customer, Node, TopicOptions};
use crate::payload::TypeName;
use crate::transport::duplex::Host;
use crate::transport::{self, Bind, Connect, Stop};

use super::caller::Caller;
use super::line::Return;
use super::server::Premises;
use super::table::Table;
use super::{
    Client, ClientOptions, Operation, Payload, Server, ServerOptions, Service, ServiceClient, marker,
};

impl Node {
    /// A client of a service that has one operation, [`Operation::ONLY`]: as [`Node::server`] makes it. As with
    /// [`Node::service_client`], keep the node for as long as the client.
    ///
    /// # Errors
    /// A name that is none, or an option out of range.
    pub fn client<Req: Payload, Rep: Payload, E: Payload>(
        &self,
        service: &str,
        options: ClientOptions,
    ) -> Result<Client<Req, Rep, E>> {
        self.service_client(service, options)?.operation(Operation::ONLY)
    }

    /// A client of a service: of every server of that name in the domain, now and later. Keep the node for as long as the
    /// client: without it, no server is found any more, nor found again when a connection is lost.
    ///
    /// ```
    /// use stripline::call::{ClientOptions, ServiceClient};
    /// use stripline::node::Node;
    ///
    /// struct Panel {
    ///     tuner: ServiceClient,
    ///     // What finds the servers.
    ///     _node: Node,
    /// }
    ///
    /// let node = Node::isolated()?;
    /// let panel = Panel { tuner: node.service_client("tuner", ClientOptions::default())?, _node: node };
    /// assert!(panel.tuner.servers().is_empty());
    /// # Ok::<(), stripline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Node::client`].
    pub fn service_client(&self, service: &str, options: ClientOptions) -> Result<ServiceClient> {
        let stop = self.stop_of_all().clone();
        let caller = Arc::new(Caller::new(service, options, stop.clone())?);
        let marker = marker()?;
        // Processes of different containers may have the same number.
        let name = format!("{service}: client {}.{:08x}", std::process::id(), transport::random()? >> 32);
        let seeker = Arc::new_cyclic(|own: &Weak<Seeker>| Seeker {
            own: own.clone(),
            node: self.again(),
            caller: Arc::downgrade(&caller),
            name,
            topic: self.topics().of(service).clone(),
            marker,
            stop,
        });
        self.seek(service, seeker);
        Ok(ServiceClient { caller })
    }

    /// The servers of all services in the domain, as far as this node has heard of them: it hears of those that are there
    /// soon after it has joined.
    ///
    /// # Errors
    /// None today.
    pub fn services(&self) -> Result<Vec<ServerOffer>> {
        let known = self.known(&marker()?).into_iter();
        let mut offers: Vec<_> =
            known.map(|(service, endpoint)| ServerOffer { service, address: endpoint.to_string() }).collect();
        offers.sort();
        Ok(offers)
    }

    /// A server of a service that has one operation, [`Operation::ONLY`].
    ///
    /// # Errors
    /// As [`Node::service`].
    pub fn server<'h, Req: Payload, Rep: Payload, E: Payload>(
        &self,
        service: &str,
        handler: impl Fn(Req) -> Result<Rep, E> + Send + Sync + 'h,
        options: ServerOptions,
    ) -> Result<Server<'h>> {
        self.service(Service::new(service)?.operation(Operation::ONLY, handler)?, options)
    }

    /// A server of a service, which clients of the domain find from now on.
    ///
    /// # Errors
    /// A transport that is missing, an option out of range, or when the system lacks memory, descriptors or threads.
    pub fn service<'h>(&self, service: Service<'h>, options: ServerOptions) -> Result<Server<'h>> {
        let name = service.name().to_string();
        options.check().map_err(|problem| Error::failed(format!("server of `{name}`: {problem}")))?;
        let TopicOptions { transport: its, link, .. } = self.topics().of(&name).clone();
        let transport = options.transport.clone().unwrap_or(its);
        let open_to = LinkOptions { group: link.group, ..LinkOptions::default() };
        transport::check(&transport, &open_to)?;
        let stop = self.stop_of_all().clone();
        let mailbox = Arc::new(Mailbox::new()?);
        let link = LinkOptions {
            overflow: Overflow::Block,
            scope: Scope::Transport,
            wait: options.wait,
            buffer: options.buffer,
            depth: LinkOptions::DEPTH_MAX / 2,
            group: link.group,
            ..LinkOptions::default()
        };
        let terms_for = Arc::new(move |_: &str| Terms::new(&link));
        let mut incoming =
            Incoming::new(name.clone(), Arc::clone(&mailbox), terms_for, stop.clone(), true, None);
        incoming.set_ends(Ends::Never);
        let premises = Premises { mailbox, incoming, stop: stop.clone() };
        let request = bind(&name, &link, stop)?;
        Server::new(service, &options, premises, |host: Box<dyn Host>| {
            let door = transport::find(&transport)?.open(request, host)?;
            let offer = Offer { topic: name, payload: marker()?, endpoint: door.endpoint.clone() };
            Ok((door, Box::new(self.offer(offer))))
        })
    }
}

/// A server that a node knows of.
///
/// ```
/// use stripline::call::ServerOptions;
///
/// let node = stripline::node::Node::isolated()?;
/// let _server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// assert_eq!(node.services()?[0].service, "double");
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerOffer {
    /// The service's name: what a client asks for.
    pub service: String,
    /// Where it is: `TRANSPORT:ADDRESS`.
    pub address: String,
}

/// What is asked of the transport of one direction.
pub(super) fn bind(port: &str, link: &LinkOptions, stop: Stop) -> Result<Bind> {
    Ok(Bind {
        port: port.into(),
        payload: marker()?,
        buffer: link.buffer,
        scope: Scope::Transport,
        watermarks: link.watermarks(),
        send_timeout: None,
        wait: link.wait,
        huge_pages: false,
        locked: false,
        group: link.group,
        stop,
    })
}

/// A client that wants every server of its service.
struct Seeker {
    own: Weak<Self>,
    node: Again,
    caller: Weak<Caller>,
    name: String,
    topic: TopicOptions,
    marker: TypeName,
    stop: Stop,
}

impl Customer for Seeker {
    fn is_there(&self) -> bool {
        self.caller.strong_count() > 0
    }

    fn wants(&self, payload: &TypeName) -> bool {
        *payload == self.marker
    }

    fn connect(&self, offer: &Offer, _: &str) -> Result<()> {
        let Some(caller) = self.caller.upgrade() else { return Ok(()) };
        let asked = caller.options();
        let link = LinkOptions {
            overflow: Overflow::Block,
            scope: Scope::Transport,
            wait: asked.wait,
            buffer: asked.buffer,
            // As many replies as there may ever be to come.
            depth: asked.outstanding + Table::owed_max(asked.outstanding),
            group: self.topic.link.group,
            ..LinkOptions::default()
        };
        let request = Connect { connection: self.name.clone(), payload: self.marker.clone(), options: link };
        let bind = bind(&self.name, &link, self.stop.clone())?;
        let visit = transport::find(&offer.endpoint.transport)?.visit(&offer.endpoint, &request, bind)?;
        let mut outgoing =
            Outgoing::new(self.name.clone(), vec![visit.pair.outlet], self.topic.sampling, self.stop.clone());
        outgoing.admit();
        let mailbox = Arc::new(Mailbox::new()?);
        mailbox.deliver(Delivery::Connected(self.name.clone(), visit.pair.inlet));
        let terms_for = Arc::new(move |_: &str| Terms::new(&link));
        let mut incoming =
            Incoming::new(self.name.clone(), mailbox, terms_for, self.stop.clone(), false, None);
        incoming.set_ends(Ends::WithSender);
        let way_back =
            Return { again: self.node.clone(), customer: self.own.clone(), endpoint: offer.endpoint.clone() };
        caller.welcome(outgoing, incoming, visit.card, way_back)
    }
}
