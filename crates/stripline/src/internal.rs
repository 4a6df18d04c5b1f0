//! What the launcher, the command and the bindings use of this crate beyond its public interface.
//! That is the control protocol of component processes, doorbells, names of sockets, and the
//! shortest paths of a packet.
//!
//! Not public API: any release may change or remove it.

/// For the code that `#[derive(stripline::Sample)]` makes.
pub use bytemuck;

pub use crate::component::host::{CHECK_OPTION, DESCRIBE_OPTION, host_if_launched};
pub use crate::component::log_filter::{LOG_VARIABLE, LogFilter};
pub use crate::component::log_to_stderr::{LogSink, log_to, log_to_stderr, parse_launched, rfc3339};
pub use crate::component::pace_log::PaceReport;
pub use crate::component::spec::number;
pub use crate::error::printable;
pub use crate::link::stats::FullReport;
#[cfg(feature = "corba")]
pub use crate::packet::bulkio::{BulkioSri, BulkioTime, BulkioType};
#[cfg(feature = "dds")]
pub use crate::packet::dds::{DdsSampleInfo, DdsSampleMessage, DdsSampleType};
#[cfg(feature = "corba")]
pub use crate::sys::bulkio::{BulkioInput, BulkioOutput, BulkioPacket, BulkioPlace};
#[cfg(feature = "corba")]
pub use crate::sys::corba::{TlsFiles, has_tls as corba_has_tls, socket_path as corba_socket_path};
#[cfg(feature = "dds")]
pub use crate::sys::dds::DdsPlace;
#[cfg(feature = "dds")]
pub use crate::sys::dds_samples::{DdsSampleReader, DdsSampleWriter, DdsTerms};
#[cfg(feature = "dds")]
pub use crate::sys::dds_security::{DdsEnclave, has_security as dds_has_security};
#[cfg(any(feature = "zeromq", feature = "corba"))]
pub use crate::sys::descriptors::check_descriptors;
pub use crate::sys::doorbell::{Doorbell, PollSet};
pub use crate::sys::fork::Local;
#[cfg(feature = "zenoh")]
pub use crate::sys::zenoh::settings as zenoh_settings;
pub use crate::terms::sender_options::SenderOptions;
pub use crate::transport::Endpoint;

use crate::error::Result;
use crate::node::{Node, Topics};

pub use crate::node::topics::TopicsProblem;

/// Parses the text of a topics file, as [`Topics::parse`].
///
/// # Errors
/// The problems of all topics.
pub fn parse_topics(text: &str) -> std::result::Result<Topics, Vec<TopicsProblem>> {
    Topics::parse_all(text)
}

/// Returns the domain that the environment names, as [`Node::new`] joins it.
///
/// # Errors
/// A value that is no domain, with the name of the variable.
pub fn domain_of_environment() -> Result<String> {
    crate::node::domain_of_environment()
}

/// Returns whether two programs have one build, by the content of their files; `None` is this
/// program. One that cannot be read equals nothing.
pub fn is_same_build(one: Option<&std::path::Path>, other: Option<&std::path::Path>) -> bool {
    crate::sys::build::is_same(one, other)
}

/// Observes a domain of this user that another process has opened: [`Node::join`] for a node that
/// never becomes the rendezvous host, and is stopped when the host is gone. It waits for no answer.
///
/// # Errors
/// As [`Node::join`]. A host that is missing or of another user. `WouldBlock` within
/// [`Error::System`](crate::Error::System) when the queue of its listener is full.
pub fn observe(domain: &str) -> Result<Node> {
    Node::observe(domain)
}

/// Receivers of copies: taps of components' outputs, and topics of any type.
pub mod tap {
    use super::{Endpoint, Node, Result};
    use crate::node::{Publisher, Subscriber, connect_tap};
    use crate::packet::payload::{Dynamic, TypeName};
    use crate::terms::Overflow;

    /// Connects to a tap of the output with that name.
    ///
    /// # Errors
    /// When nothing listens there any more, or the other side refuses.
    pub fn connect(
        port: &str,
        endpoint: &Endpoint,
        payload: &TypeName,
        depth: u32,
    ) -> Result<Subscriber<u8>> {
        connect_tap(port, endpoint, payload, depth)
    }

    /// Returns the payload types of a topic, as far as discovered.
    pub fn payloads_of(node: &Node, topic: &str) -> Vec<TypeName> {
        node.payloads_of(topic)
    }

    /// Returns the topics of a domain, as far as discovered.
    pub fn topics(node: &Node) -> Vec<String> {
        node.known_topics()
    }

    /// Creates a publisher on a topic of any type.
    ///
    /// # Errors
    /// Same as [`Node::publisher`].
    pub fn publisher(node: &Node, topic: &str, payload: &TypeName) -> Result<Publisher<Dynamic>> {
        node.raw_publisher(topic, payload)
    }

    /// Subscribes to a topic of any type. `overflow` applies when `depth` packets wait.
    ///
    /// # Errors
    /// A lack of descriptors.
    pub fn topic(
        node: &Node,
        topic: &str,
        payload: &TypeName,
        depth: u32,
        overflow: Overflow,
    ) -> Result<Subscriber<u8>> {
        node.tap_topic(topic, payload, depth, overflow)
    }
}

/// The messages between the launcher and a component process.
pub mod control {
    pub use crate::component::control::{
        Ask, Assignment, CONTROL_VARIABLE, ConnectionAssignment, ControlChannel, InputAssignment,
        LAUNCHER_VARIABLE, LauncherCommand, OpenOutput, OutputAssignment, Report, RequestAnswer, VERSION,
        send,
    };
    pub use crate::sys::messages::framed;
}

/// The shortest paths of a packet, for functions of other languages.
pub mod inlined {
    pub use crate::node::inlined::{loan, receive, release, send};
}

/// Processes and threads.
pub mod process {
    pub use crate::sys::process::{clear_priority, not_ignored, prepare_for_limits, state_and_parent};
}

/// Discovery of this user's listening sockets.
pub mod socket_names {
    pub use crate::sys::socket_names::{listening, unique_suffix};
}

/// Numbers written with a unit.
pub mod units {
    pub use crate::component::units::fix;

    use crate::component::PropertySpec;

    /// Returns the text to write in place of one that should have been a number.
    pub fn remedy(property: &PropertySpec, text: &str) -> Option<String> {
        property.remedy(text)
    }
}
