//! Nodes of a domain and topics that a program names, or the environment.

use stripline::internal::domain_of_environment;
use stripline::node::{Node, Topics};
use stripline::{Error, Result};

/// Joins a domain. Without a domain, the environment names it (`STRIPLINE_DOMAIN`), and without
/// both domain and topics, it names the topics as well (`STRIPLINE_TOPICS`). Returns the node and
/// the topics.
///
/// # Errors
/// A value of the environment that is invalid, or the errors of [`Node::join`].
///
/// ```
/// let domain = format!("bindings-{}", std::process::id());
/// let (node, topics) = stripline_bindings::join(Some(&domain), None)?;
/// assert!(node.publisher::<f32>("levels").is_ok());
/// assert_eq!(topics.of("levels").transport, "shm");
/// # Ok::<(), stripline::Error>(())
/// ```
pub fn join(domain: Option<&str>, topics: Option<Topics>) -> Result<(Node, Topics)> {
    let topics = match (topics, std::env::var_os("STRIPLINE_TOPICS")) {
        (Some(topics), _) => topics,
        // With a domain of its own, the program also sets the topics.
        (None, Some(path)) if domain.is_none() => Topics::load(path.as_ref())
            .map_err(|error| Error::Configuration(format!("topics file of STRIPLINE_TOPICS: {error}")))?,
        (None, _) => Topics::default(),
    };
    let domain = domain.map_or_else(domain_of_environment, |domain| Ok(domain.into()))?;
    Ok((Node::join(&domain, topics.clone())?, topics))
}
