//! `stripline-torture` kills, stops and restarts the processes at both ends of a link, at every
//! step. The program checks that survivors lose nothing, never hang and leave nothing behind.

mod bystander;
mod call_child;
mod calls;
mod campaign;
mod child;
mod flood;
mod impair;
mod ledger;
mod leftovers;
mod network;
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
use impair::Problem;

/// Kills, stops and restarts the processes of a link, and checks what the survivors received.
#[derive(Debug, Parser)]
#[command(
    name = "stripline-torture",
    version,
    about,
    // Examples with comments are lines of up to 117 columns.
    max_term_width = 120,
    after_help = "Examples:\n  \
        stripline-torture torture --kills 500\n  \
        stripline-torture torture --kills 100000 --json torture.json\n  \
        stripline-torture torture --waveforms --kills 500\n  \
        stripline-torture stop --seconds 60\n  \
        stripline-torture flood\n  \
        stripline-torture impair --loss 5 -- iperf3 -s -1 -- iperf3 -c 10.77.0.1\n\n\
        Exit codes: 0 all is as it must be, 1 something is not, 77 not possible on this system."
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
        stripline-torture torture --waveforms --kills 1 --lanes 1 --seed 4711     one waveform again\n  \
        stripline-torture torture --waveforms --moves 2000     several pending moves at a time\n  \
        stripline-torture torture --waveforms --moves 2000 --deadly     beside kills and stops\n\n\
        The report is JSON: deaths by fail point, packets checked, and how soon deaths were noticed; with\n\
        --waveforms: kills, stops, and the outcome of all packets.")]
    Torture {
        /// How many processes to kill
        #[arg(long, value_name = "N", default_value_t = 500)]
        kills: u64,

        /// Seed of the random numbers; the order in which processes run is the system's
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,

        /// The transport of all links and calls [default: a mixture of shm, uds and tcp]
        ///
        /// The points in the code of the ring are reached only over shm. Over another transport
        /// those processes die at any time. For mqueue, use `--lanes 3`: a user has nine queues in
        /// total.
        #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(plan::transports()))]
        transport: Option<String>,

        /// The part of the library in which processes die
        #[arg(long, value_name = "PART", default_value = "all")]
        part: campaign::Part,

        /// Kill in random waveforms of 2 to 8 components, launchers included; each has its own seed
        #[arg(long, conflicts_with_all = ["part", "transport"])]
        waveforms: bool,

        /// Move outputs to other transports this many times
        #[arg(long, value_name = "N", requires = "waveforms", conflicts_with = "kills")]
        moves: Option<u64>,

        /// Kill and stop processes beside the moves, too
        #[arg(long, requires = "moves")]
        deadly: bool,

        /// Number of waveforms, or of survivors (some receive, some send, some run calls), at the
        /// same time
        #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
        lanes: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Stop and continue two receivers and a sender over each transport: one receiver drops packets
    #[command(after_help = "Examples:\n  \
        stripline-torture stop --seconds 60\n  \
        stripline-torture stop --seconds 0      until enough sends were refused\n  \
        stripline-torture stop --seconds 5 --transport zenoh")]
    Stop {
        /// The only transport [default: all that users have]
        #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(plan::users_transports()))]
        transport: Option<String>,

        /// Minimum number of seconds for which each process is stopped
        #[arg(long, value_name = "S", default_value_t = 60)]
        seconds: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Open connections that send nothing, and stop a second publisher, beside new subscribers
    #[command(after_help = "Examples:\n  \
        stripline-torture flood\n  \
        stripline-torture flood --connections 1000 --seconds 4 --newcomers 5\n  \
        stripline-torture flood --connections 1000 --seconds 12 --newcomers 3 --transport uds\n\n\
        The report is JSON: for each transport, the time to a newcomer's first packet, and rate and 99th percentile of an\n\
        established link, each without and with the connections in turn, with the null comparison. Then the same with a\n\
        second publisher of the topic, which is stopped.")]
    Flood {
        /// Connections held open
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        connections: u64,

        /// Connections opened per second
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
        rate: u64,

        /// Seconds during which connections are opened
        #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,

        /// Only this transport
        #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(flood::TRANSPORTS))]
        transport: Option<String>,

        /// Minimum number of new subscribers in each round
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
        newcomers: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Send packets between two network namespaces, through links that lose and reorder frames
    #[command(after_help = "Examples:\n  \
        stripline-torture network --packets 2000\n  \
        stripline-torture network --packets 1000000 --stop-ms 60000 --seed 7 --json network.json\n  \
        stripline-torture network --only 'loss-30 multicast' --seed 7       some cells again\n\n\
        A cell is a kind of fault, unicast or multicast to three receivers, and a policy. Of three receivers one is stopped\n\
        for a while. There is no limit for the time of a cell; one without progress for 90 s fails.\n\
        The report is JSON: for each cell its seed, the packets and gaps of each receiver, and the counts of frames.\n\n\
        Exit codes: 0 all is as it must be, 1 something is not, 77 not possible here: it takes root and /dev/net/tun.")]
    Network {
        /// Packets of each cell
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..))]
        packets: u64,

        /// The transport
        #[arg(long, value_name = "NAME", default_value = "udp", value_parser = clap::builder::PossibleValuesParser::new(network::transports()))]
        transport: String,

        /// Seed of the random numbers; the order of frames also depends on the system
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,

        /// Only cells with this text in their names
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,

        /// Milliseconds for which a receiver is stopped
        #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
        stop_ms: u64,

        /// Write the report to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Run two commands in two network namespaces, over a link that loses and reorders frames
    #[command(after_help = "Examples:\n  \
        stripline-torture impair --loss 5 -- iperf3 -s -1 -- iperf3 -c 10.77.0.1\n  \
        stripline-torture impair --reorder 25 --duplicate 5 --seed 7 -- ./sender -- ./receiver\n  \
        stripline-torture impair --delay-ms 1..20 --rate 100 -- sleep 5 -- ping -c 4 10.77.0.1\n\n\
        Command A has the address 10.77.0.1, command B 10.77.0.2, each on the interface link0 with a route for multicast.\n\
        Address resolution (ARP) passes unharmed. The run ends when both commands have ended; when one fails, the other is killed.\n\
        Standard error has the seed, and at the end the counts of frames.\n\n\
        Exit codes: 0 both commands ended well, 1 one did not, 77 not possible here: it takes root and /dev/net/tun.")]
    Impair {
        #[command(flatten)]
        faults: FaultArguments,

        /// Seed of the random numbers; the order of frames also depends on the system
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,

        /// Two commands, with `--` between them
        #[arg(last = true, required = true, value_name = "COMMAND_A -- COMMAND_B")]
        commands: Vec<String>,
    },
}

/// The faults of a link, which apply to each of the two directions.
#[derive(Debug, clap::Args)]
struct FaultArguments {
    /// Frames that are lost, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: impair::Share,

    /// Frames that lose their end, in percent; the kernel drops most of them
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    cut: impair::Share,

    /// Frames that arrive twice, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate: impair::Share,

    /// Frames that 1 to 8 later frames overtake, in percent; a frame is held back for at most 10 ms
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    reorder: impair::Share,

    /// The transit time of a frame, in milliseconds: one value or a range; frames keep their order
    #[arg(long, value_name = "A..B", default_value = "0")]
    delay_ms: impair::Delay,

    /// Megabits per second; frames are dropped while 16,384 frames wait; 0: no limit
    #[arg(long, value_name = "MBIT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    rate: u64,

    /// The frames to which the faults apply; others pass unharmed
    #[arg(long, value_name = "FRAMES", default_value = "all")]
    only: impair::Only,
}

impl FaultArguments {
    fn faults(self) -> impair::Faults {
        let Self { loss, cut, duplicate, reorder, delay_ms: delay, rate, only } = self;
        impair::Faults { loss, cut, duplicate, reorder, delay, rate: rate * 1_000_000, only }
    }
}

fn main() -> ExitCode {
    stripline::internal::log_to_stderr();
    stripline_middleware::register();
    if let Some(code) = waveforms::run_if_launched() {
        return code;
    }
    if let Some(code) = child::play_if_asked()
        .or_else(call_child::play_if_asked)
        .or_else(flood::play_if_asked)
        .or_else(network::play_if_asked)
    {
        return ExitCode::from(code);
    }
    let outcome = match Arguments::parse().command {
        Order::Torture { kills, seed, transport, part, waveforms, moves, deadly, lanes: workers, json } => {
            let transport = plan::transports().find(|name| transport.as_deref() == Some(name));
            let report = match waveforms {
                true => {
                    let goal = match moves {
                        None => waveforms::Goal::Kills(kills),
                        Some(moves) if deadly => waveforms::Goal::DeadlyMoves(moves),
                        Some(moves) => waveforms::Goal::Moves(moves),
                    };
                    waveforms::Waveforms { goal, seed, lanes: workers }.run()
                }
                false => campaign::Campaign { kills, seed, workers, part, transport }.run(),
            };
            report.and_then(|report| campaign::write(&report, json.as_deref()))
        }
        Order::Stop { seconds, transport, json } => stop::Stop { seconds, transport }
            .run()
            .and_then(|report| campaign::write(&report, json.as_deref())),
        Order::Flood { connections, rate, seconds, transport, newcomers, json } => {
            flood::Flood { connections, rate, seconds, transport, newcomers: newcomers as usize }
                .run()
                .and_then(|report| campaign::write(&report, json.as_deref()))
        }
        Order::Network { packets, transport, seed, only, stop_ms, json } => {
            let known = network::transports().find(|name| transport == *name).unwrap_or("udp");
            match (network::Network { transport: known, packets, seed, stop_ms, only }).run() {
                Err(Problem::NotPossible(problem)) => return not_possible("network", &problem),
                report => {
                    report.map_err(String::from).and_then(|report| campaign::write(&report, json.as_deref()))
                }
            }
        }
        Order::Impair { faults, seed, commands } => {
            match (impair::Impair { faults: faults.faults(), seed, commands }).run() {
                Err(Problem::NotPossible(problem)) => return not_possible("impair", &problem),
                outcome => outcome.map_err(String::from),
            }
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

fn not_possible(command: &str, problem: &str) -> ExitCode {
    eprintln!("{command}: NOT POSSIBLE here: {problem}; it takes root and /dev/net/tun");
    ExitCode::from(impair::NOT_POSSIBLE)
}
