//! `stripline services`: the operations of the servers of a domain.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use stripline::Error;
use stripline::call::{Operation, ServerDescription, ServerOffer};
use stripline::internal::domain_of_environment;
use stripline::node::{Node, Topics};
use stripline_waveform::internal::{at_once, check_topics, read_bytes};

use crate::arguments::ServicesArguments;
use crate::control::print_json;
use crate::failure::{Failure, Outcome};
use crate::format::printable;
use crate::run::refused;
use crate::show::print;

/// The longest wait for servers.
const DISCOVERY_MAX: Duration = Duration::from_secs(1);
/// The wait after the last change in the list of servers. A node that joins receives all servers at
/// once, so that no further ones are expected after it.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Interval between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of servers queried at a time. A suspended server delays only one batch.
const AT_ONCE: usize = 32;
/// The longest name in a line, in characters.
const NAME_MAX: usize = 64;
/// The longest address or reason.
const TEXT_MAX: usize = 300;

/// A service, with all servers of it.
#[derive(Debug, Serialize)]
struct Service {
    service: String,
    servers: Vec<Server>,
}

#[derive(Debug, Serialize)]
struct Server {
    address: String,
    /// The server's name.
    server: Option<String>,
    operations: Option<Vec<Operation>>,
    /// The reason that `server` and `operations` are missing.
    problem: Option<String>,
}

pub(crate) fn services(arguments: &ServicesArguments) -> Outcome {
    let domain = domain(arguments.domain.as_deref())?;
    let node = join(&domain)?;
    let services = described(&node, &discovered(&node).map_err(of_domain)?);
    if arguments.json {
        return Ok(print_json(&services));
    }
    if services.is_empty() {
        return Ok(print(&format!(
            "There is no server in domain `{domain}`. Start one, or name its domain: the value of STRIPLINE_DOMAIN \
             that it was started with (`default` if there was none).\n"
        )));
    }
    let texts: Vec<String> = services.iter().map(render).collect();
    Ok(print(&texts.join("\n")))
}

/// Returns the given domain, or the domain of the environment. The default is the same as in
/// `Node::new`.
pub(crate) fn domain(named: Option<&str>) -> Result<String, Failure> {
    named.map_or_else(domain_of_environment, |name| Ok(name.into())).map_err(Failure::usage)
}

/// Joins a domain, with the topics file of the environment.
pub(crate) fn join(domain: &str) -> Result<Node, Failure> {
    let topics = std::env::var_os("STRIPLINE_TOPICS").map(|path| topics_of(path.as_ref()));
    Node::join(domain, topics.transpose()?.unwrap_or_default()).map_err(of_domain)
}

/// Reads and checks the topics file that the environment names.
fn topics_of(path: &Path) -> Result<Topics, Failure> {
    read_bytes(path).and_then(|bytes| check_topics(&bytes, path)).map_err(|found| {
        let failure = refused(&found);
        report!("note: STRIPLINE_TOPICS names this topics file");
        failure
    })
}

/// Returns the failure to join a domain, because of the system or of a wrong name.
fn of_domain(error: Error) -> Failure {
    if matches!(error, Error::System { .. }) { Failure::new(error) } else { Failure::usage(error) }
}

/// Returns the discovered servers, once no more of them appear.
pub(crate) fn discovered(node: &Node) -> stripline::Result<Vec<ServerOffer>> {
    let end = Instant::now() + DISCOVERY_MAX;
    let (mut offers, mut since) = (Vec::new(), Instant::now());
    loop {
        let now = node.known_servers()?;
        if now != offers {
            (offers, since) = (now, Instant::now());
        }
        if Instant::now() >= end || (!offers.is_empty() && since.elapsed() >= SETTLE_TIME) {
            return Ok(offers);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Queries the description of each server.
fn described(node: &Node, offers: &[ServerOffer]) -> Vec<Service> {
    let mut services = BTreeMap::<&str, Vec<Server>>::new();
    for batch in offers.chunks(AT_ONCE) {
        for (offer, described) in at_once(batch.iter().collect(), |offer| (offer, node.describe(offer))) {
            services.entry(&offer.service).or_default().push(Server::of(&offer.address, described));
        }
    }
    let named = |(service, servers): (&str, _)| Service { service: service.into(), servers };
    services.into_iter().map(named).collect()
}

impl Server {
    fn of(address: &str, described: stripline::Result<ServerDescription>) -> Self {
        let address = address.into();
        match described {
            Ok(ServerDescription { server, operations }) => {
                Self { address, server: Some(server), operations: Some(operations), problem: None }
            }
            Err(error) => Self { address, server: None, operations: None, problem: Some(error.to_string()) },
        }
    }
}

/// Renders the servers of a service. Servers with the same operations are listed together, above
/// the operations.
fn render(service: &Service) -> String {
    let mut text = format!("{}\n", printable(&service.service, NAME_MAX));
    let mut kinds: Vec<&Vec<Operation>> = Vec::new();
    for operations in service.servers.iter().filter_map(|server| server.operations.as_ref()) {
        if !kinds.contains(&operations) {
            kinds.push(operations);
        }
    }
    for kind in kinds {
        for server in service.servers.iter().filter(|server| server.operations.as_ref() == Some(kind)) {
            let name = printable(server.server.as_deref().unwrap_or_default(), NAME_MAX);
            text += &format!("  {name} at {}\n", printable(&server.address, TEXT_MAX));
        }
        if kind.is_empty() {
            text += "    no operations\n";
        }
        kind.iter().for_each(|operation| text += &render_operation(operation));
    }
    for server in &service.servers {
        if let Some(problem) = &server.problem {
            let address = printable(&server.address, TEXT_MAX);
            text += &format!("  ? at {address}: it cannot be queried: {}\n", printable(problem, TEXT_MAX));
        }
    }
    text
}

fn render_operation(operation: &Operation) -> String {
    let Operation { name, request, reply, error, doc } = operation;
    let [name, request, reply, error] =
        [name, request.as_str(), reply.as_str(), error.as_str()].map(|word| printable(word, NAME_MAX));
    let mut text = format!("    {name}: {request} -> {reply} (error: {error})\n");
    for line in doc.lines() {
        text += format!("      {}", printable(line, Operation::DOC_MAX)).trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str, operations: &[&str]) -> Server {
        let of = |name: &&str| Operation::of::<f64, f64, String>(name).expect("a name");
        let operations = operations.iter().map(of).collect();
        Server::of(address, Ok(ServerDescription { server: format!("s-{address}"), operations }))
    }

    #[test]
    fn servers_with_the_same_operations_are_shown_together() {
        let gone = Server::of("uds:4", Err(Error::Failed("it is\n\x1b[31mgone".into())));
        let servers = vec![server("shm:1", &["a"]), server("shm:2", &["b"]), gone, server("tcp:3", &["a"])];
        let text = render(&Service { service: "x".into(), servers });
        let types = "message/cbor -> message/cbor (error: message/cbor)";
        assert_eq!(
            text,
            format!(
                "x\n  s-shm:1 at shm:1\n  s-tcp:3 at tcp:3\n    a: {types}\n  s-shm:2 at shm:2\n    b: {types}\n  \
                 ? at uds:4: it cannot be queried: it is\\u{{a}}\\u{{1b}}[31mgone\n"
            )
        );
    }

    #[test]
    fn documentation_keeps_its_lines_and_moves_no_cursor() {
        let mut operation = Operation::of::<f64, f64, String>("a").expect("a name");
        operation.doc = "One.\n\nTwo\x1b[2J.".into();
        let text = render_operation(&operation);
        assert_eq!(text.split_once('\n').expect("lines").1, "      One.\n\n      Two\\u{1b}[2J.\n");
        let none = render(&Service { service: "x".into(), servers: vec![server("shm:1", &[])] });
        assert_eq!(none, "x\n  s-shm:1 at shm:1\n    no operations\n");
    }
}
