//! A trait that is a service, and a client that is called like a function: in two processes or
//! more. `docs/guide.md` explains both.
//!
//! ```text
//! cargo run -p stripline --example tuner -- serve        in one terminal: Ctrl-C ends it
//! cargo run -p stripline --example tuner -- serve tcp    the same over this transport
//! cargo run -p stripline --example tuner -- tune 433.92  in another
//! cargo run -p stripline --example tuner -- status
//! ```

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stripline::Error;
use stripline::call::{CallError, ClientOptions, ServerOptions};
use stripline::node::{Dispatch, Node};

/// The operations of a radio.
#[stripline::service]
pub trait Tuner {
    /// Tunes in steps of 12.5 kHz, and returns the frequency reached.
    fn tune(&self, frequency_hz: f64) -> Result<f64, TuneError>;
    /// Returns the state of the radio.
    fn status(&self) -> Status;
}

/// The reason that a radio was not tuned.
#[derive(Debug, Serialize, Deserialize)]
pub enum TuneError {
    /// The frequency is outside the radio's range.
    OutOfRange {
        /// The requested frequency.
        frequency_hz: f64,
    },
}

/// The state of a radio.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The present frequency.
    pub frequency_hz: f64,
    /// Number of tunings so far.
    pub tunings: u64,
}

struct Radio(Mutex<Status>);

impl Tuner for Radio {
    fn tune(&self, frequency_hz: f64) -> Result<f64, TuneError> {
        if !(1e6..=6e9).contains(&frequency_hz) {
            return Err(TuneError::OutOfRange { frequency_hz });
        }
        let mut status = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        status.frequency_hz = (frequency_hz / 12.5e3).round() * 12.5e3;
        status.tunings += 1;
        Ok(status.frequency_hz)
    }

    fn status(&self) -> Status {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Stops the node on Ctrl-C: calls that block in it return. A server first replies to the call in
/// progress.
fn stop_on_ctrl_c(node: &Arc<Node>) -> stripline::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::failed)?;
    let node = Arc::clone(node);
    std::thread::spawn(move || signals.forever().take(1).for_each(|_| node.stop()));
    Ok(())
}

/// Serves until Ctrl-C. The server chooses the transport of the calls.
fn serve(transport: Option<&str>) -> stripline::Result<()> {
    let node = Arc::new(Node::new()?);
    stop_on_ctrl_c(&node)?;
    let radio = Radio(Mutex::new(Status { frequency_hz: 100e6, tunings: 0 }));
    let options = ServerOptions { transport: transport.map(String::from), ..ServerOptions::default() };
    let mut server = node.service_server(TunerService::of(radio)?, options)?;
    println!("serving `{}` at {}; Ctrl-C ends it", TunerService::NAME, server.address());
    server.serve(Dispatch::Queue)?;
    println!("answered {} calls", server.counts().calls);
    Ok(())
}

/// Connects a client. The caller must keep the node alive, because it discovers the servers.
fn client() -> stripline::Result<(Node, TunerClient)> {
    let node = Node::new()?;
    let client = TunerClient::connect(&node, TunerService::NAME, ClientOptions::default())?;
    Ok((node, client))
}

fn tune(mhz: &str) -> Result<(), String> {
    let frequency_hz =
        1e6 * mhz.parse::<f64>().map_err(|e| format!("`{mhz}` is not a number of MHz: {e}"))?;
    let (_node, tuner) = client().map_err(|error| error.to_string())?;
    match tuner.tune(frequency_hz) {
        Ok(reached_hz) => println!("{:.4} MHz", reached_hz / 1e6),
        Err(CallError::User(TuneError::OutOfRange { frequency_hz })) => {
            return Err(format!("{} MHz is not from 1 to 6000 MHz", frequency_hz / 1e6));
        }
        Err(CallError::NoServer { .. }) => return Err("no server is running: start `tuner serve`".into()),
        Err(error) => return Err(format!("the radio was not tuned: {error:?}")),
    }
    Ok(())
}

fn status() -> Result<(), String> {
    let (_node, tuner) = client().map_err(|error| error.to_string())?;
    let status = tuner.status().map_err(|error| error.to_string())?;
    println!("{:.4} MHz, tuned {} times", status.frequency_hz / 1e6, status.tunings);
    Ok(())
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["serve"] => serve(None).map_err(|error| error.to_string()),
        ["serve", transport] => serve(Some(transport)).map_err(|error| error.to_string()),
        ["tune", mhz] => tune(mhz),
        ["status"] => status(),
        _ => Err("use `serve [TRANSPORT]`, `tune MHZ` or `status`".into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
