//! The service that a launcher offers to its clients.

use std::thread::JoinHandle;

use stripline::call::{self, ServerOptions};
use stripline::internal::Local;
use stripline::internal::{process, socket_names};
use stripline::node::{Dispatch, Node, Topics};
use stripline::terms::WaitStrategy;
use stripline::{Error, Result};

use super::{ReplySender, RequestFault, RequestInbox, WaveformRequest};

/// The version of the operations and their types, part of the domain's name.
pub(super) const VERSION: u32 = 2;
/// The name of the service that every launcher offers in its domain.
///
/// ```
/// assert_eq!(stripline_waveform::control::SERVICE, "waveform-control");
/// ```
pub const SERVICE: &str = "waveform-control";
/// Calls served at a time: most of them wait for a component, or for the waveform's end.
const CALLS_MAX: usize = 16;
/// Clients at a time.
const CLIENTS_MAX: u32 = 128;

/// The server in its domain; both end when this is dropped.
pub(crate) struct ControlService {
    node: Node,
    thread: Local<Option<JoinHandle<()>>>,
}

impl ControlService {
    pub(crate) fn start(waveform: &str, inbox: RequestInbox) -> Result<Self> {
        let domain = format!("run-{VERSION}-{}-{}", tag(waveform), socket_names::unique_suffix()?);
        let node = Node::join(&domain, Topics::default())?;
        let options = ServerOptions {
            // No memory of its own, so a client with a single request need not map any.
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
                // It ends when the node is stopped; without threads, no call is served.
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

/// Returns a short hash that the domains of all waveforms of that name share. A client that
/// searches for one name then queries only those launchers; a domain's own name is too short for
/// theirs. FNV-1a (Fowler, Noll, Vo).
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
