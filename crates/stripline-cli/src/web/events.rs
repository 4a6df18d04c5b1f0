//! The stream of events of a page: the state, at most ten times a second.

use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use stripline_waveform::control::{ControlError, RunningWaveform};

use super::clients::{Client, ClientKind};
use super::model::{PageState, Selection};
use super::request::Request;
use super::response::{Response, start_events};
use super::routes::{Site, selection};
use super::spectrum::{Spectrum, SpectrumView};
use crate::running::Connection;

/// The shortest time between two events.
const INTERVAL: Duration = Duration::from_millis(100);
/// The greatest age of the state in an event. Pages share one sample.
const AGE_MAX: Duration = Duration::from_millis(90);

/// One event.
#[derive(Debug, Serialize)]
struct Event<'a> {
    /// Milliseconds since the start of the server.
    at_ms: u64,
    /// The name of the waveform to which the page is limited.
    only: Option<&'a str>,
    waveforms: &'a [RunningWaveform],
    /// The connections of the waveform that the page shows.
    connections: Vec<&'a Connection>,
    problems: &'a [String],
    /// The spectrum, if it is new.
    spectrum: Option<&'a Spectrum>,
}

/// Sends events until the client or the server ends.
pub(super) fn send(site: &Site, request: &Request, client: &Client) -> io::Result<()> {
    let stream = &client.stream;
    let which = match selection(request) {
        Ok(which) => which,
        Err(problem) => return Response::error(400, problem).send(stream),
    };
    let view = match (request.parameter("port"), &which) {
        (None, _) => None,
        (Some(port), Some(which)) => {
            client.become_one(ClientKind::WithSpectrum)?;
            match open(site, which, port) {
                Ok(view) => Some(view),
                Err(problem) => return Response::error(400, &problem).send(stream),
            }
        }
        (Some(_), None) => return Response::error(400, "a port needs its waveform").send(stream),
    };
    start_events(stream)?;
    let mut shown = Spectrum::default();
    while !site.is_over() {
        let snapshot = site.model.snapshot(AGE_MAX);
        let latest = view.as_ref().map(SpectrumView::latest).filter(|latest| *latest != shown);
        let now = Instant::now();
        let at_ms = u64::try_from(now.duration_since(site.started).as_millis()).unwrap_or(u64::MAX);
        let event = Event {
            at_ms,
            only: site.model.only(),
            waveforms: &snapshot.waveforms,
            connections: connections_of(&snapshot, which.as_ref()),
            problems: &snapshot.problems,
            spectrum: latest.as_ref(),
        };
        // A client that does not take the whole event in time is closed.
        stream.send(format!("data: {}\n\n", serde_json::to_string(&event)?).as_bytes())?;
        if let Some(latest) = latest {
            shown = latest;
        }
        std::thread::sleep(INTERVAL.saturating_sub(now.elapsed()));
    }
    Ok(())
}

fn open(site: &Site, which: &Selection, port: &str) -> Result<SpectrumView, String> {
    let (component, port) = port.split_once('.').ok_or("a port is COMPONENT.PORT")?;
    let client = site.model.client(which).map_err(|error: ControlError| error.to_string())?;
    Ok(SpectrumView::open(client, component.into(), port.into()))
}

/// Returns the connections of the chosen waveform. Of several waveforms with the name, the first
/// one is used.
fn connections_of<'s>(snapshot: &'s PageState, which: Option<&Selection>) -> Vec<&'s Connection> {
    let Some(which) = which else { return Vec::new() };
    let is_chosen =
        |it: &&RunningWaveform| it.name == which.name && which.pid.is_none_or(|pid| pid == it.pid);
    let chosen = snapshot.waveforms.iter().find(is_chosen).map(|waveform| waveform.pid);
    snapshot.connections.iter().filter(|it| chosen.is_some() && it.launcher == chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::example;
    use super::*;

    #[test]
    fn a_page_gets_the_connections_of_its_waveform() {
        let snapshot = example();
        let count = |name: &str, pid: Option<u32>| {
            connections_of(&snapshot, Some(&Selection { name: name.into(), pid })).len()
        };
        let name = &snapshot.waveforms[0].name;
        assert_eq!(
            (count(name, None), count(name, Some(9)), count(name, Some(10)), count("x", None)),
            (1, 1, 0, 0)
        );
        assert!(connections_of(&snapshot, None).is_empty());
    }
}
