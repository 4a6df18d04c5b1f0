//! Nodes.

use std::ffi::c_char;

use stripline::node::{Node as RustNode, Topics};

use crate::error::{Error, Failure};
use crate::handle::{drop_quietly, guard};
use crate::sized;
use crate::status::Status;
use crate::text;

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
    pub domain: *const c_char,
    /// Options of topics, as the text of a topics file. NULL: the topics of the environment, or
    /// none if `domain` is set.
    pub topics: *const c_char,
    /// Not 0: the node has a domain of its own, so that nothing outside this node is connected. For
    /// tests. The other members must not be set.
    pub isolated: u32,
}

sized::sized!(
    NodeOptions, "stripline_node_options",
    size: usize, domain: *const c_char, topics: *const c_char, isolated: u32,
);

/// Makes a node, which joins the domain.
///
/// Fails with `STRIPLINE_FAILED` for an invalid domain or topics (the message names the mistake),
/// and with `STRIPLINE_SYSTEM` if descriptors or threads run out.
///
/// - Ownership: the caller frees the node. `options` may be NULL and is not kept.
/// - Blocking: only to start a thread.
/// - Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_node_new(
    options: *const NodeOptions,
    node: *mut *mut Node,
    error: *mut *mut Error,
) -> Status {
    let make = || {
        text::check_place(node, "node")?;
        // SAFETY: the program follows the header's rule for structures.
        let options = unsafe { sized::read(options) }?;
        // SAFETY: the program follows the header's rule for texts.
        let domain = unsafe { text::optional(options.domain, "domain") }?;
        // SAFETY: as above.
        let topics = unsafe { text::optional(options.topics, "topics") }?;
        let made = Box::new(Node(make(domain, topics, options.isolated != 0)?));
        // SAFETY: the program follows the header's rule for results.
        unsafe { text::put(node, "node", Box::into_raw(made)) }?;
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, make) }
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
    match (domain, topics) {
        (None, None) => Ok(RustNode::new()?),
        (domain, topics) => {
            let environment = std::env::var_os("STRIPLINE_DOMAIN");
            let environment = environment.map(|value| value.to_string_lossy().into_owned());
            let domain = domain.map(String::from).or(environment).unwrap_or_else(|| "default".into());
            Ok(RustNode::join(&domain, Topics::parse(topics.unwrap_or(""))?)?)
        }
    }
}

/// Stops a node: all calls of the node's publishers and subscribers return `STRIPLINE_STOPPED`,
/// those that wait now and all later ones. It has no effect on nodes of other processes.
///
/// - Ownership: the node stays the caller's.
/// - Blocking: never.
/// - Threads: any, also while other threads use the node or wait in publishers and subscribers of
///   the node. Not in a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_node_stop(node: *const Node, error: *mut *mut Error) -> Status {
    // SAFETY: the program follows the header's rule for handles.
    let stop = || unsafe {
        Node::get(node)?.stop();
        Ok(Status::Ok)
    };
    // SAFETY: the program follows the header's rule for `error`.
    unsafe { guard(error, stop) }
}

/// Frees a node, which leaves the domain; NULL is allowed. The publishers and subscribers of the
/// node stay connected. They may be freed before or after the node.
///
/// - Ownership: ends here. A second call with the same node is undefined.
/// - Blocking: until the node's thread has ended.
/// - Threads: any, once no other thread uses the node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_node_free(node: *mut Node) {
    if !node.is_null() {
        // SAFETY: made by `stripline_node_new`, and freed once.
        drop_quietly(unsafe { Box::from_raw(node) });
    }
}

impl Node {
    /// Returns the node behind a handle.
    ///
    /// # Safety
    /// `node` must be NULL, or a node that is not freed during `'a`.
    pub(crate) unsafe fn get<'a>(node: *const Self) -> Result<&'a RustNode, Failure> {
        // SAFETY: the caller makes the same promise.
        unsafe { node.as_ref() }.map(|node| &node.0).ok_or_else(|| Failure::null("node"))
    }
}

/// Several threads may use a node.
const _: fn() = || {
    fn is_sync<T: Send + Sync>() {}
    is_sync::<RustNode>();
};
