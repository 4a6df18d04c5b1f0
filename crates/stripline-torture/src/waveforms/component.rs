//! The component type of the random waveforms, and their launcher. Both are this program, started
//! again.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use stripline::component::{Component, ComponentSpec, Direction, PortSpec, PortTypes, Ports, Properties};
use stripline::component::{PropertySpec, Registry, StopSignal};
use stripline::link::Sampling;
use stripline::{Error, Input, Output, Packet, Received, Result};
use stripline_waveform::{Catalog, Observer, Overrides, RunOptions, host_if_launched, parse_bytes, run};

use super::log::{Log, Origin, Record};
use super::plan::{connection_name, sender_in};
use crate::notes::now_ns;
use crate::payload;

/// The environment variable with the path of the waveform file, for a process that is to launch the
/// waveform.
pub const LAUNCH: &str = "STRIPLINE_TORTURE_LAUNCH";
/// The environment variable with the path of a file that is empty until the sources have sent
/// enough. The variable also marks all processes of a round.
pub const ENOUGH: &str = "STRIPLINE_TORTURE_ENOUGH";

/// A component that sends numbered packets, or sends a packet for each that it receives, and writes
/// a log.
struct Numbers {
    index: usize,
    packets: u64,
    burst: u64,
    pause: Duration,
    hold: Duration,
    /// The log is open before the component runs, because the process may die earlier.
    log: Log,
    /// The number of earlier starts, and the number of packets begun in them.
    life: usize,
    made_ns: u64,
    begun: u64,
}

impl Component for Numbers {
    fn describe() -> ComponentSpec {
        let port =
            |name, direction| PortSpec::new(name, direction, PortTypes::of::<u64>(), "numbered packets");
        ComponentSpec::new("numbers", "Sends and receives numbered packets, and writes down events.")
            .port(port("in", Direction::Input).optional().many_writers())
            .port(port("out", Direction::Output).optional())
            .property(PropertySpec::integer("index", 0, 0, 1000, "which component this is"))
            .property(PropertySpec::integer("packets", 0, 0, 1 << 40, "packets that a source sends"))
            .property(PropertySpec::integer("burst", 1, 1, 1 << 20, "packets between two pauses"))
            .property(PropertySpec::integer("pause-us", 0, 0, 1 << 40, "length of a pause").unit("us"))
            .property(PropertySpec::integer("hold-us", 0, 0, 1 << 40, "how long a packet is kept").unit("us"))
            .property(PropertySpec::text("log", "", "the file for the events"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        let micros = |name| Duration::from_micros(properties.integer(name) as u64);
        let (log, life, begun) = Log::open(properties.text("log")).map_err(Error::failed)?;
        Ok(Self {
            index: properties.integer("index") as usize,
            packets: properties.integer("packets") as u64,
            burst: properties.integer("burst") as u64,
            pause: micros("pause-us"),
            hold: micros("hold-us"),
            log,
            life,
            made_ns: now_ns(),
            begun,
        })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        self.log.write(Record::Started { at_ns: now_ns(), made_ns: self.made_ns });
        let origin = Origin { component: self.index, life: self.life };
        let input = ports.is_connected("in").then(|| ports.input("in")).transpose()?;
        let output = ports.is_connected("out").then(|| ports.output("out")).transpose()?;
        let stop = ports.stop_signal();
        let mut running = Running { numbers: self, origin, output, stop };
        let outcome = match input {
            Some(input) => running.relay(input),
            None => running.source(),
        };
        if matches!(outcome, Ok(()) | Err(Error::Stopped)) {
            let sent = running.output.as_ref().map_or(0, Output::sequence);
            running.numbers.log.write(Record::Done(sent));
        }
        outcome
    }
}

struct Running {
    numbers: Numbers,
    origin: Origin,
    output: Option<Output<u64>>,
    stop: StopSignal,
}

impl Running {
    /// Sends the packets that no earlier start has begun.
    fn source(&mut self) -> Result<()> {
        let enough = std::env::var(ENOUGH).ok().and_then(|path| File::open(path).ok());
        let is_enough = || enough.as_ref().is_some_and(|file| file.metadata().is_ok_and(|of| of.len() > 0));
        for number in self.numbers.begun..self.numbers.packets {
            if is_enough() {
                break;
            }
            self.send()?;
            if number.is_multiple_of(self.numbers.burst) {
                self.stop.sleep(self.numbers.pause)?;
            }
        }
        Ok(())
    }

    /// Receives until the end of the streams, and sends a packet for each received packet.
    fn relay(&mut self, mut input: Input<u64>) -> Result<()> {
        for number in 0.. {
            match input.receive() {
                Ok(None) => break,
                Ok(Some(packet)) => {
                    self.enter(&packet);
                    if u64::is_multiple_of(number, 4) && !self.numbers.hold.is_zero() {
                        self.stop.sleep(self.numbers.hold)?;
                    }
                    drop(packet);
                    self.numbers.log.write(Record::Released);
                    self.send()?;
                }
                // The other connections go on.
                Err(Error::Ejected { connection, .. }) => {
                    self.numbers.log.write(Record::Ejected(sender_in(&connection).unwrap_or(usize::MAX)));
                }
                Err(error) => return Err(error),
            }
        }
        while let Some(gap) = input.gap_at_end() {
            self.numbers.log.write(Record::GapAtEnd { first: gap.first, packets: gap.packets });
        }
        self.numbers.log.write(Record::Ended);
        match input.try_receive() {
            Ok(Received::Ended) | Err(Error::Stopped) => {}
            Ok(Received::Packet(_)) => self.numbers.log.write(Record::Wrong(2)),
            Ok(Received::Empty) => self.numbers.log.write(Record::Wrong(3)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Records a packet.
    fn enter(&mut self, packet: &Packet<'_, u64>) {
        let Ok((number, sequence)) = payload::check(packet) else {
            self.numbers.log.write(Record::Wrong(0));
            return;
        };
        let origin = Origin::from_number(number);
        let connection = connection_name(origin.component, self.origin.component);
        if packet.sequence() != sequence || packet.connection() != connection {
            self.numbers.log.write(Record::Wrong(1));
        }
        if let Some(gap) = packet.gap() {
            self.numbers.log.write(Record::gap(origin.component, gap));
        }
        self.numbers.log.write(Record::Packet { origin, sequence });
    }

    fn send(&mut self) -> Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let (sequence, number) = (output.sequence(), self.origin.number());
        let mut loan = output.loan(payload::words(number, sequence))?;
        payload::fill(&mut loan, number, sequence);
        self.numbers.log.write(Record::Begun(sequence));
        match loan.send() {
            // A receiver died, or a receiver's policy dropped the packet. The other receivers have
            // it.
            Ok(()) | Err(Error::ReceiverGone { .. } | Error::PacketRefused { .. }) => {}
            Err(error) => return Err(error),
        }
        self.numbers.log.write(Record::Sent(sequence));
        Ok(())
    }
}

/// Runs a component or launches a waveform, if the environment asks for this.
///
/// In that case returns the exit code.
pub fn run_if_launched() -> Option<ExitCode> {
    let registry = Registry::new().with::<Numbers>();
    if let Some(code) = host_if_launched(&registry) {
        return Some(code);
    }
    let path = std::env::var(LAUNCH).ok()?;
    // A launcher must not outlive the process that started it.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match launch(&path, &registry) {
        Ok(report) => println!("{report}"),
        Err(problem) => {
            eprintln!("{problem}");
            return Some(ExitCode::FAILURE);
        }
    }
    Some(ExitCode::SUCCESS)
}

/// Launches the waveform of a file. Returns the report as JSON.
fn launch(path: &str, registry: &Registry) -> Result<String, String> {
    let text = std::fs::read(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let catalog = Catalog::new(registry.specs(), &["inproc", "shm", "uds", "tcp"]);
    let overrides = Overrides::default();
    let checked = parse_bytes(&text, "torture.toml".as_ref(), &overrides, &catalog);
    let (waveform, _) = checked.map_err(|found| found.to_string())?;
    let host = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let options = RunOptions {
        host,
        duration: None,
        sampling: Sampling::Auto,
        quiet: true,
        output: Default::default(),
    };
    let report = run(&waveform, &options, &mut Warnings).map_err(|e| e.to_string())?;
    serde_json::to_string(&report).map_err(|e| e.to_string())
}

/// An observer that prints everything that the launcher and the components report.
struct Warnings;

impl Observer for Warnings {
    fn warning(&mut self, component: &str, text: &str) {
        eprintln!("warning: {component}: {text}");
    }

    fn line(&mut self, component: &str, text: &str) {
        eprintln!("[{component}] {text}");
    }

    fn stopping(&mut self, reason: &str) {
        eprintln!("stopping: {reason}");
    }
}
