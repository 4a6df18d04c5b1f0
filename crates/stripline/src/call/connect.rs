//! The methods of a node that make clients and servers, and the discovery of servers.

use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::link::{ConnectionOptions, EndsWhen, Incoming, Outgoing, PortEvent, PortEvents};
use crate::node::rendezvous::Offer;
use crate::node::{Node, OfferConsumer, Reconnector, TopicOptions, calls_payload};
use crate::packet::payload::TypeName;
use crate::terms::{Group, LinkOptions, Overflow, Scope, WaitStrategy};
use crate::transport::duplex::CallAcceptor;
use crate::transport::{self, BindRequest, ConnectRequest, Endpoint, StopToken};

use super::client_core::ClientCore;
use super::clients::{ClientTable, ServerInfo};
use super::pending::PendingCalls;
use super::server_connection::ReconnectOnDrop;
use super::{Client, ClientOptions, Operation, Payload, Server, ServerOptions, Service, ServiceClient};

impl Node {
    /// Creates a client of a service with one operation, [`Operation::ONLY`], as made by
    /// [`Node::server`]. Keep the node as long as the client, as with [`Node::service_client`].
    ///
    /// # Errors
    /// An invalid name, or an option out of range.
    pub fn client<Req: Payload, Rep: Payload, E: Payload>(
        &self,
        service: &str,
        options: ClientOptions,
    ) -> Result<Client<Req, Rep, E>> {
        self.service_client(service, options)?.operation(Operation::ONLY)
    }

    /// Creates a client of a service, which uses every server with that name in the domain, now and
    /// later. Keep the node as long as the client: without the node, no server is discovered and a
    /// lost connection is not made again.
    ///
    /// ```
    /// use stripline::call::{ClientOptions, ServiceClient};
    /// use stripline::node::Node;
    ///
    /// struct Panel {
    ///     tuner: ServiceClient,
    ///     // Discovers the servers.
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
    /// Same as [`Node::client`].
    pub fn service_client(&self, service: &str, options: ClientOptions) -> Result<ServiceClient> {
        self.check_own()?;
        let stop = self.stop_token().for_port(service);
        let core = Arc::new(ClientCore::new(service, options, stop.clone())?);
        let name = name_of_client(service)?;
        let discovery = Arc::new_cyclic(|own: &Weak<ServerDiscovery>| ServerDiscovery {
            own: own.clone(),
            node: self.reconnector(),
            core: Arc::downgrade(&core),
            name,
            topic: self.topics().of(service).clone(),
            stop,
        });
        self.subscribe(service, discovery).wait();
        Ok(ServiceClient { core })
    }

    /// Returns the servers of all services in the domain that this node has discovered. A node
    /// discovers existing servers soon after it has joined.
    ///
    /// # Errors
    /// Currently none.
    pub fn known_servers(&self) -> Result<Vec<ServerOffer>> {
        self.check_own()?;
        let known = self.known_offers(&calls_payload()?).into_iter();
        let mut offers: Vec<_> =
            known.map(|(service, endpoint)| ServerOffer { service, address: endpoint.to_string() }).collect();
        offers.sort();
        Ok(offers)
    }

    /// Requests the self-description of a server, as a connecting client does. The request to a
    /// suspended server fails with a timeout after some seconds.
    ///
    /// # Errors
    /// The server is gone, does not answer, or cannot be reached from this process, such as an
    /// `inproc` server of another process.
    ///
    /// ```
    /// use stripline::call::ServerOptions;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let _server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
    /// let described = node.describe(&node.known_servers()?[0])?;
    /// assert_eq!(described.operations[0].name, "call");
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn describe(&self, offer: &ServerOffer) -> Result<ServerDescription> {
        self.check_own()?;
        let ServerOffer { service, address } = offer;
        let known = self.known_offers(&calls_payload()?);
        let offer =
            known.into_iter().find(|(offer, endpoint)| offer == service && endpoint.to_string() == *address);
        let gone = || Error::of_system(format!("no server of `{service}` is at {address} any more"));
        let (_, endpoint) = offer.ok_or_else(gone)?;
        let topic = self.topics().of(service);
        // The same rule as for a client: connect only to a server with a user that the kernel can
        // name.
        let open_to = LinkOptions { group: topic.link.group, ..LinkOptions::default() };
        transport::check(&endpoint.transport, &open_to)?;
        let requested = ClientOptions {
            wait: WaitStrategy::Block,
            outstanding: 1,
            buffer: LinkOptions::BUFFER_MIN,
            ..ClientOptions::default()
        };
        let stop = self.stop_token().clone();
        let (_, _, server_info) = connect_to(&endpoint, &name_of_client(service)?, topic, &requested, stop)?;
        let ServerInfo { server, operations, .. } = ServerInfo::read(server_info, service, address)?;
        Ok(ServerDescription { server, operations })
    }

    /// Creates a server of a service with one operation, [`Operation::ONLY`].
    ///
    /// # Errors
    /// Same as [`Node::service_server`].
    pub fn server<'h, Req: Payload, Rep: Payload, E: Payload>(
        &self,
        service: &str,
        handler: impl Fn(Req) -> Result<Rep, E> + Send + Sync + 'h,
        options: ServerOptions,
    ) -> Result<Server<'h>> {
        self.service_server(Service::new(service)?.operation(Operation::ONLY, handler)?, options)
    }

    /// Creates a server of a service. Clients in the domain can discover it from now on.
    ///
    /// # Errors
    /// A missing transport, an option out of range, or a lack of memory, descriptors or threads.
    pub fn service_server<'h>(&self, service: Service<'h>, options: ServerOptions) -> Result<Server<'h>> {
        self.check_own()?;
        let name = service.name().to_string();
        options
            .check()
            .map_err(|problem| Error::InvalidArgument(format!("server of `{name}`: {problem}")))?;
        let TopicOptions { transport: topic_transport, link, .. } = self.topics().of(&name).clone();
        let transport = options.transport.as_deref().map_or(&*topic_transport, transport::of_topic);
        let open_to = LinkOptions { group: link.group, ..LinkOptions::default() };
        transport::check(transport, &open_to)?;
        let stop = self.stop_token().clone();
        let events = Arc::new(PortEvents::new()?);
        let depth = LinkOptions::DEPTH_MAX / 2;
        let link = link_options(options.wait, options.buffer, depth, link.group);
        let (ends, port_events) = (EndsWhen::Never, Arc::clone(&events));
        let incoming = incoming(&name, port_events, link, stop, ends);
        // Replies have a separate stop token: calls that have begun are answered after the node's
        // stop.
        let stop_replies = StopToken::new()?;
        let request = bind(&name, &link, stop_replies.clone())?;
        let clients = ClientTable::new(events);
        Server::new(service, &options, incoming, clients, stop_replies, |host: Box<dyn CallAcceptor>| {
            let listener = transport::find(transport)?.listen_calls(request, host)?;
            let offer = Offer::new(&name, calls_payload()?, listener.endpoint.clone());
            Ok((listener, Box::new(self.offer(offer))))
        })
    }
}

/// A server that a node has discovered.
///
/// ```
/// use stripline::call::ServerOptions;
///
/// let node = stripline::node::Node::isolated()?;
/// let _server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), ServerOptions::default())?;
/// assert_eq!(node.known_servers()?[0].service, "double");
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerOffer {
    /// The name of the service, by which clients find it.
    pub service: String,
    /// The address of the server: `TRANSPORT:ADDRESS`.
    pub address: String,
}

/// The self-description of a server: see [`Node::describe`].
///
/// ```
/// use stripline::call::{ServerDescription, ServerOptions};
///
/// let node = stripline::node::Node::isolated()?;
/// let options = ServerOptions { name: Some("doubler".into()), ..ServerOptions::default() };
/// let server = node.server("double", |x: f64| Ok::<f64, String>(2.0 * x), options)?;
/// let ServerDescription { server: name, operations } = node.describe(&node.known_servers()?[0])?;
/// assert_eq!((&*name, &*operations), ("doubler", server.operations()));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerDescription {
    /// The name of the server.
    pub server: String,
    /// The operations of the server.
    pub operations: Vec<Operation>,
}

/// Returns a unique name. Processes in different containers may have the same process id, so a
/// random part is added.
fn name_of_client(service: &str) -> Result<String> {
    Ok(format!("{service}: client {}.{:08x}", std::process::id(), transport::random()? >> 32))
}

/// Returns the options of one direction of a connection.
fn link_options(wait: WaitStrategy, buffer: u32, depth: u32, group: Option<Group>) -> LinkOptions {
    let (overflow, scope) = (Overflow::Block, Scope::Transport);
    LinkOptions { overflow, scope, wait, buffer, depth, group, ..LinkOptions::default() }
}

/// Returns the request to bind the listener of a transport for one direction.
pub(super) fn bind(port: &str, link: &LinkOptions, stop: StopToken) -> Result<BindRequest> {
    let former_paths = Arc::default();
    Ok(BindRequest { port: port.into(), payload: calls_payload()?, options: link.into(), stop, former_paths })
}

/// Returns the receiving port of one side.
fn incoming(
    name: &str,
    events: Arc<PortEvents>,
    link: LinkOptions,
    stop: StopToken,
    ends: EndsWhen,
) -> Incoming {
    let options_for = Arc::new(move |_: &str| ConnectionOptions::new(&link));
    let is_open = ends == EndsWhen::Never;
    let mut incoming = Incoming::new(name.into(), events, options_for, stop, is_open, None);
    incoming.set_ends(ends);
    incoming
}

/// A client's subscription to every server of the service.
struct ServerDiscovery {
    own: Weak<Self>,
    node: Reconnector,
    core: Weak<ClientCore>,
    name: String,
    topic: TopicOptions,
    stop: StopToken,
}

impl OfferConsumer for ServerDiscovery {
    fn is_there(&self) -> bool {
        self.core.strong_count() > 0
    }

    fn wants(&self, payload: &TypeName) -> bool {
        calls_payload().is_ok_and(|calls| *payload == calls)
    }

    fn connect(&self, offer: &Offer, _: &str) -> Result<()> {
        let Some(core) = self.core.upgrade() else { return Ok(()) };
        let (outgoing, incoming, server_info) =
            connect_to(&offer.endpoint, &self.name, &self.topic, &core.options, self.stop.clone())?;
        let way_back = ReconnectOnDrop {
            reconnector: self.node.clone(),
            consumer: self.own.clone(),
            endpoint: offer.endpoint.clone(),
        };
        core.add_server(outgoing, incoming, server_info, way_back)
    }
}

/// Connects a client with that name to a server in both directions, and returns the server's
/// self-description. Blocks for a few seconds at most.
fn connect_to(
    endpoint: &Endpoint,
    name: &str,
    topic: &TopicOptions,
    requested: &ClientOptions,
    stop: StopToken,
) -> Result<(Outgoing, Incoming, serde_json::Value)> {
    // There is room for as many replies as can ever be outstanding.
    let depth = requested.outstanding + PendingCalls::abandoned_max(requested.outstanding);
    let link = link_options(requested.wait, requested.buffer, depth, topic.link.group);
    let request = ConnectRequest::new(name.into(), calls_payload()?, link);
    let bind = bind(name, &link, stop.clone())?;
    let connection = transport::find(&endpoint.transport)?.connect_calls(endpoint, &request, bind)?;
    let mut outgoing =
        Outgoing::new(name.into(), vec![connection.duplex.outlet], topic.sampling, stop.clone());
    outgoing.admit();
    let events = Arc::new(PortEvents::new()?);
    events.push(PortEvent::Connected(name.into(), connection.duplex.inlet));
    let mut incoming = incoming(name, events, link, stop.clone(), EndsWhen::WithSender);
    // The client's stop token is used, so that one waker serves all servers.
    incoming.set_stop(stop);
    Ok((outgoing, incoming, connection.server_info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_auto_is_one_between_processes() {
        let node = Node::isolated().unwrap();
        let of = |transport: &str| {
            let options = ServerOptions { transport: Some(transport.into()), ..ServerOptions::default() };
            node.server("echo", Ok::<u32, String>, options)
        };
        assert_eq!(of(transport::AUTO).unwrap().endpoint().transport, "shm");
        let error = of("automatic").err().unwrap().to_string();
        assert!(error.contains("there is no transport `automatic`"), "{error}");
    }
}
