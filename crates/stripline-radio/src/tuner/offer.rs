//! The server of a component with a tuner.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use stripline::call::ServerOptions;
use stripline::component::{Properties, PropertySpec};
use stripline::node::{Dispatch, Node};
use stripline::terms::WaitStrategy;
use stripline::{Error, Result};

use super::{Tuner, TunerService};

/// The longest name of a server, in bytes.
const SERVER_NAME_MAX: usize = 64;

/// A tuner that is served on a thread of its own, beside the ports of a component, until this is
/// dropped. Calls run one after the other.
///
/// ```
/// use std::sync::Arc;
/// use stripline::call::ClientOptions;
/// use stripline::node::Node;
/// use stripline_radio::tuner::{OfferedTuner, Tuner, TunerClient};
///
/// fn offer(radio: impl Tuner + Send + Sync + 'static) -> stripline::Result<()> {
///     let node = Arc::new(Node::isolated()?);
///     let _offered = OfferedTuner::in_node(Arc::clone(&node), "tuner", "source", radio)?;
///     let tuner = TunerClient::connect(&node, "tuner", ClientOptions::default())?;
///     println!("{:?}", tuner.frequency());
///     Ok(())
/// }
/// ```
pub struct OfferedTuner {
    node: Arc<Node>,
    thread: Option<JoinHandle<()>>,
}

impl OfferedTuner {
    /// The name of the property that has the name of the service.
    pub const PROPERTY: &'static str = "tuner";

    /// Describes the property of a component that has the name of the service.
    ///
    /// ```
    /// use stripline_radio::tuner::OfferedTuner;
    ///
    /// assert_eq!(OfferedTuner::property().name, OfferedTuner::PROPERTY);
    /// ```
    pub fn property() -> PropertySpec {
        let summary = "name of the service that tunes, in the domain of the run; empty: none";
        PropertySpec::text(Self::PROPERTY, TunerService::NAME, summary)
    }

    /// Offers a tuner in the domain of the environment, under the name in the property
    /// [`OfferedTuner::PROPERTY`]; `None`: the name is empty. `server` is the name of the server,
    /// for a component its name in the waveform.
    ///
    /// # Errors
    /// The name is invalid, or the domain cannot be joined.
    pub fn of_properties(
        properties: &Properties,
        server: &str,
        tuner: impl Tuner + Send + Sync + 'static,
    ) -> Result<Option<Self>> {
        match properties.text(Self::PROPERTY) {
            "" => Ok(None),
            service => Self::in_node(Arc::new(Node::new()?), service, server, tuner).map(Some),
        }
    }

    /// Offers a tuner under the name `service` in a node. The node is stopped when the offer is
    /// dropped.
    ///
    /// # Errors
    /// The name of the service is invalid, or the system has no thread or socket left.
    pub fn in_node(
        node: Arc<Node>,
        service: &str,
        server: &str,
        tuner: impl Tuner + Send + Sync + 'static,
    ) -> Result<Self> {
        let name = (1..=SERVER_NAME_MAX).contains(&server.len()).then(|| server.to_owned());
        // A spinning thread would take time from the samples.
        let options = ServerOptions { name, wait: WaitStrategy::Block, ..ServerOptions::default() };
        let mut server = node.service_server(TunerService::named(service, tuner)?, options)?;
        let serve = move || {
            if let Err(error) = server.serve(Dispatch::Queue) {
                log::warn!(target: "stripline::tuner", "the tuner is no longer served: {error}");
            }
        };
        let thread =
            thread::Builder::new().name("stripline-tuner".into()).spawn(serve).map_err(Error::failed)?;
        Ok(Self { node, thread: Some(thread) })
    }
}

impl Drop for OfferedTuner {
    fn drop(&mut self) {
        self.node.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of a handler is reported to its caller, and does not end the thread.
            let _ = thread.join();
        }
    }
}
