//! The arguments of `stripline web`.

use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline web                    every running waveform of this user\n  \
    stripline web radio              the waveform `radio`\n  \
    stripline web radio --port 8080  on a port that stays the same, for Prometheus\n\n\
    The page shows the graph with rates and fill levels, latencies over time, the spectrum of a port, and properties \
    to change. The page is served on 127.0.0.1 only, to requests with the token of the printed address. Each start \
    has a new token, unless STRIPLINE_WEB_TOKEN has one (32 hexadecimal digits). /metrics has the same figures for \
    Prometheus. docs/web.md describes all of it.\n\n\
    Exit codes: 0 ended by Ctrl-C, 1 the port is in use or the page cannot be served, 2 there is no such waveform, or \
    wrong usage.")]
pub(crate) struct WebArguments {
    /// The running waveform, as `stripline waveforms` lists it; without it, all of them
    pub waveform: Option<String>,

    /// The launcher's process number, to choose among waveforms of the same name
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,

    /// The port of the page; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}
