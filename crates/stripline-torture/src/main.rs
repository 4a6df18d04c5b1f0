//! `stripline-torture`: kills, stops and restarts the processes at both ends of a link, at every
//! step. It checks that survivors lose nothing, never hang and leave nothing behind.

mod bystander;
mod call_child;
mod calls;
mod campaign;
mod child;
mod flood;
mod ledger;
mod leftovers;
mod notes;
mod payload;
mod plan;
mod receivers;
mod senders;
mod stop;
mod waveforms;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kills, stops and restarts the processes of a link, and checks what the survivors received.
#[derive(Debug, Parser)]
#[command(
    name = "stripline-torture",
    version,
    about,
    after_help = "Examples:\n  \
        stripline-torture torture --kills 500\n  \
        stripline-torture torture --kills 100000 --json torture.json\n  \
        stripline-torture torture --waveforms --kills 500\n  \
        stripline-torture stop --seconds 60\n  \
        stripline-torture flood\n\n\
        Exit codes: 0 all is as it must be, 1 something is not."
)]
struct Arguments {
    #[command(subcommand)]
    command: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Kill senders and receivers at every step of a link's life, and at any time
    #[command(after_help = "Examples:\n  \
        stripline-torture torture --kills 500\n  \
        stripline-torture torture --kills 100000 --seed 7 --json torture.json\n  \
        stripline-torture torture --kills 20000 --part calls\n  \
        stripline-torture torture --kills 2000 --transport mqueue --lanes 3\n  \
        stripline-torture torture --waveforms --kills 500\n  \
        stripline-torture torture --waveforms --kills 1 --lanes 1 --seed 4711     one waveform again\n\n\
        The report is JSON: deaths by fail point, packets checked, and how soon deaths were noticed; with\n\
        --waveforms: kills, stops, and what became of all packets.")]
    Torture {
        /// How many processes to kill
        #[arg(long, value_name = "N", default_value_t = 500)]
        kills: u64,

        /// Seed of the random numbers; the order in which processes run is the system's
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,

        /// The transport of all links and calls [default: a mixture of shm, uds and tcp]
        ///
        /// Points of the ring's code are passed over shm only. Over another transport those
        /// processes die at any time. mqueue: a user has nine queues in all, so use `--lanes 3`.
        #[arg(long, value_name = "NAME", value_parser = plan::TRANSPORTS)]
        transport: Option<String>,

        /// What processes die in
        #[arg(long, value_name = "PART", default_value = "all")]
        part: campaign::Part,

        /// Kill in random waveforms of 2 to 8 components, launchers included; each has its own seed
        #[arg(long, conflicts_with_all = ["part", "transport"])]
        waveforms: bool,

        /// Waveforms at a time, or survivors: some receive, some send, some run calls
        #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
        lanes: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Stop and continue a receiver that blocks, one that drops packets, and a sender, over each transport
    #[command(after_help = "Examples:\n  \
        stripline-torture stop --seconds 60\n  \
        stripline-torture stop --seconds 0      until enough sends were refused")]
    Stop {
        /// Seconds that each of them is stopped, at least
        #[arg(long, value_name = "S", default_value_t = 60)]
        seconds: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Open connections that send nothing to all addresses of a publisher's process
    #[command(after_help = "Examples:\n  \
        stripline-torture flood\n  \
        stripline-torture flood --connections 1000 --seconds 4 --newcomers 5\n\n\
        The report is JSON: for each transport, the time to a newcomer's first packet, and rate and 99th percentile of an\n\
        established link, each without and with the connections in turn, with the null comparison.")]
    Flood {
        /// Connections held open
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        connections: u64,

        /// Connections opened in a second
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        rate: u64,

        /// Seconds in which they are opened
        #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,

        /// New subscribers in each round, at least
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
        newcomers: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    stripline::internal::log_to_stderr();
    if let Some(code) = waveforms::run_if_launched() {
        return code;
    }
    if let Some(code) =
        child::play_if_asked().or_else(call_child::play_if_asked).or_else(flood::play_if_asked)
    {
        return ExitCode::from(code);
    }
    let outcome = match Arguments::parse().command {
        Order::Torture { kills, seed, transport, part, waveforms, lanes: workers, json } => {
            let transport = plan::TRANSPORTS.into_iter().find(|name| transport.as_deref() == Some(name));
            let report = match waveforms {
                true => waveforms::Waveforms { kills, seed, lanes: workers }.run(),
                false => campaign::Campaign { kills, seed, workers, part, transport }.run(),
            };
            report.and_then(|report| campaign::write(&report, json.as_deref()))
        }
        Order::Stop { seconds, json } => {
            stop::Stop { seconds }.run().and_then(|report| campaign::write(&report, json.as_deref()))
        }
        Order::Flood { connections, rate, seconds, newcomers, json } => {
            flood::Flood { connections, rate, seconds, newcomers: newcomers as usize }
                .run()
                .and_then(|report| campaign::write(&report, json.as_deref()))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("torture: FAILED: {problem}");
            ExitCode::FAILURE
        }
    }
}
