//! The service that a launcher offers to clients.

use std::thread::JoinHandle;

use stripline::call::{self, ServerOptions};
use stripline::internal::Local;
use stripline::internal::{process, socket_names};
use stripline::node::{Dispatch, Node, Topics};
use stripline::terms::WaitStrategy;
use stripline::{Error, Result};

use super::{ReplySender, RequestFault, RequestInbox, WaveformRequest};

/// The version of the operations and of the types, a part of the domain's name.
pub(super) const VERSION: u32 = 2;
/// The name of the service that every launcher offers in the launcher's domain.
///
/// ```
/// assert_eq!(stripline_waveform::control::SERVICE, "waveform-control");
/// ```
pub const SERVICE: &str = "waveform-control";
/// Concurrent calls. Most of them wait for a component or for the end of the waveform.
const CALLS_MAX: usize = 16;
/// Concurrent clients.
const CLIENTS_MAX: u32 = 128;

/// The server and the domain that it has joined. Both end when this value is dropped.
pub(crate) struct ControlService {
    node: Node,
    thread: Local<Option<JoinHandle<()>>>,
}

impl ControlService {
    pub(crate) fn start(waveform: &str, inbox: RequestInbox) -> Result<Self> {
        let domain = format!("run-{VERSION}-{}-{}", tag(waveform), socket_names::unique_suffix()?);
        let node = Node::join(&domain, Topics::default())?;
        let options = ServerOptions {
            // `uds` has no shared memory, so a client with a single request need not map any.
            transport: Some("uds".into()),
            wait: WaitStrategy::Block,
            clients: CLIENTS_MAX,
            ..ServerOptions::default()
        };
        let service = call::Service::new(SERVICE)?
            .operation("show", calling(&inbox, |(), reply| WaveformRequest::Show(reply)))?
            .operation("get", calling(&inbox, WaveformRequest::Get))?
            .operation("set", calling(&inbox, WaveformRequest::Set))?
            .operation("test", calling(&inbox, WaveformRequest::Test))?
            .operation("tap", calling(&inbox, WaveformRequest::Tap))?
            .operation("stop", calling(&inbox, WaveformRequest::Stop))?
            .operation("heard", move |()| {
                inbox.acknowledge();
                Ok::<(), RequestFault>(())
            })?;
        let mut server = node.service_server(service, options)?;
        let pool = Dispatch::pool(CALLS_MAX)?;
        let thread = std::thread::Builder::new()
            .name("stripline-ctl".into())
            .spawn(move || {
                process::clear_priority();
                // `serve` returns when the node is stopped. Without threads, no call is served.
                if let Err(error) = server.serve(pool) {
                    log::error!(target: "stripline::waveform", "the waveform serves no more requests: {error}");
                }
            })
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok(Self { node, thread: Local::new(Some(thread)) })
    }
}

impl Drop for ControlService {
    fn drop(&mut self) {
        if !self.thread.is_current() {
            return;
        }
        self.node.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a short hash that the domains of all waveforms of one name share. A client that searches
/// for a name then queries only these launchers. The name of a domain is too short to contain the
/// name of the waveform. The hash is FNV-1a (Fowler, Noll, Vo).
pub(super) fn tag(waveform: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", waveform.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Returns the handler of an operation, which passes the request on to the launcher's loop.
fn calling<Req, Rep>(
    inbox: &RequestInbox,
    request: fn(Req, ReplySender<Rep>) -> WaveformRequest,
) -> impl Fn(Req) -> Result<Rep, RequestFault> + use<Req, Rep> {
    let inbox = inbox.clone();
    move |asked| inbox.call(|reply| request(asked, reply))
}
