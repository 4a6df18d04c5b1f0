//! `stripline web`: a page that shows running waveforms, on the loopback interface.

mod access;
pub(crate) mod arguments;
mod clients;
mod events;
mod metrics;
mod model;
mod request;
mod response;
mod routes;
mod server;
mod spectrum;
mod stream;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use stripline_waveform::control::ControlClient;

use crate::Exit;
use crate::data::Interrupt;
use crate::failure::{Failure, Outcome};
use crate::show::{Printed, print_while_read};
use access::Access;
use arguments::WebArguments;
use model::{PageModel, Selection};
use routes::Site;

pub(crate) fn web(arguments: &WebArguments) -> Outcome {
    let WebArguments { waveform, pid, port } = arguments;
    let only = match (waveform, pid) {
        (Some(name), pid) => Some(Selection { name: name.clone(), pid: *pid }),
        (None, Some(_)) => {
            return Err(Failure::usage("--pid chooses among waveforms of one name; give the name, too"));
        }
        (None, None) => None,
    };
    if let Some(Selection { name, pid }) = &only {
        ControlClient::find(name, *pid)?;
    }
    let interrupt = Interrupt::catch()?;
    let listener = listen(*port).map_err(Failure::new)?;
    let port = listener.local_addr().map_err(Failure::new)?.port();
    let access = Access::new(port).map_err(Failure::usage)?;
    let url = access.url();
    let site = Arc::new(Site::new(access, PageModel::new(only)));
    if print_while_read(&format!("{url}\n")) == Printed::Failed {
        return Ok(Exit::Failure);
    }
    report!("the page is at the address above, for programs of this machine with its token; Ctrl-C ends it");
    server::serve(&listener, &site, || interrupt.is_set());
    Ok(Exit::Clean)
}

/// Listens on the loopback interface only.
fn listen(port: u16) -> Result<TcpListener, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        format!("cannot listen on 127.0.0.1:{port}: {error}; choose another --port, or leave it out")
    })?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}
