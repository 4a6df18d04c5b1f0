//! Nodes.

use stripline::node::{Node as RustNode, Topics};
use stripline_bindings::join;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::Failure;
use crate::handle::drop_quietly;
use crate::sized;
use crate::status::Status;

/// A node: a program's publishers and subscribers belong to it. Nodes of the same domain find each
/// other without a daemon. Several threads may use a node at once.
pub struct Node(RustNode);

/// Options of a node. Without options, the environment sets the domain (`STRIPLINE_DOMAIN`, or
/// `default` if it is unset) and the topics (the file `STRIPLINE_TOPICS`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeOptions {
    /// `sizeof(stripline_node_options)`.
    pub size: usize,
    /// The domain: 1 to 64 letters, digits, `-` and `_`. NULL: the domain of the environment.
    pub domain: Str,
    /// Options of topics, as the text of a topics file. NULL: the topics of the environment, or
    /// none if `domain` is set.
    pub topics: Str,
    /// Not 0: the node has a domain of its own, so that nothing outside this node is connected. For
    /// tests. The other members must not be set.
    pub isolated: u32,
}

sized::sized!(
    NodeOptions, "stripline_node_options",
    size: usize, domain: Str, topics: Str, isolated: u32,
);

/// Makes a node, which joins the domain.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid domain, with `STRIPLINE_CONFIGURATION`
/// for invalid topics or variables (the message names the mistake), and with `STRIPLINE_SYSTEM` if
/// descriptors or threads run out.
///
/// - Ownership: the caller frees the node. `options` may be NULL and is not kept.
/// - Blocking: only to start a thread.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_node_new(
    options: Ref<NodeOptions>,
    node: Out<*mut Node>,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        node.check("node")?;
        let options = options.read()?;
        let domain = options.domain.optional("domain")?;
        let topics = options.topics.optional("topics")?;
        node.give("node", Node(make(domain, topics, options.isolated != 0)?))
    })
}

fn make(domain: Option<&str>, topics: Option<&str>, is_isolated: bool) -> Result<RustNode, Failure> {
    stripline_middleware::register();
    if is_isolated {
        if domain.or(topics).is_some() {
            return Err(Failure::argument(
                "an isolated node has a domain of its own and no topics; leave `domain` and `topics` NULL, or \
                 `isolated` 0",
            ));
        }
        return Ok(RustNode::isolated()?);
    }
    Ok(join(domain, topics.map(Topics::parse).transpose()?)?.0)
}

/// Stops a node: all calls of the node's publishers and subscribers return `STRIPLINE_STOPPED`,
/// both the calls that wait now and all later calls. Nodes of other processes are not affected.
///
/// - Ownership: the caller keeps the node.
/// - Blocking: never.
/// - Threads: any, also while other threads use the node or wait in publishers and subscribers of
///   the node. Not in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_node_stop(node: Ref<Node>, error: ErrorOut) -> Status {
    error.guard(|| {
        node.link()?.stop();
        Ok(Status::Ok)
    })
}

/// Frees a node, which leaves the domain; NULL is allowed. The publishers and subscribers of the
/// node stay connected. Both may be freed before or after the node.
///
/// - Ownership: ends with this call. A second call with the same node is undefined.
/// - Blocking: until the node's thread has ended.
/// - Threads: any, once no other thread uses the node.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_node_free(node: Handle<Node>) {
    drop_quietly(node.into_box());
}

impl Ref<Node> {
    /// Returns the node behind a handle.
    pub(crate) fn link(&self) -> Result<&RustNode, Failure> {
        self.get("node").map(|node| &node.0)
    }
}

/// Several threads may use a node.
const _: fn() = || {
    fn is_sync<T: Send + Sync>() {}
    is_sync::<RustNode>();
};
