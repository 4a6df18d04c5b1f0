//! `rtl-tcp-sink`: serves samples as `rtl_tcp` does.

use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use stripline::call::{CallError, ClientOptions};
use stripline::component::{
    Component, ComponentSpec, FileReport, OrderRule, Ports, Properties, PropertySpec, Status,
};
use stripline::node::Node;
use stripline::payload::TypeName;
use stripline::{Complex, Error, Packet, Result, Sample};

use super::client_queue::{ClientQueue, QueueCounts, Server};
use super::protocol::{Command, Header};
use crate::address;
use crate::samples::{Number, check_one_channel, complex_types};
use crate::tuner::{TunerClient, TunerError};

/// The most commands that wait for the tuner.
const COMMANDS_MAX: usize = 64;

/// The component `rtl-tcp-sink`.
pub struct RtlTcpSink {
    properties: Properties,
    listener: TcpListener,
}

impl Component for RtlTcpSink {
    fn describe() -> ComponentSpec {
        let count = |name, summary| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        ComponentSpec::new("rtl-tcp-sink", "Serves samples by the rtl_tcp protocol, to one client at a time.")
            .input("in", complex_types(), "samples to serve, as unsigned bytes")
            .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
            .property(address::property("where the sink listens", "127.0.0.1:1234"))
            .property(
                PropertySpec::integer(
                    "buffer",
                    1 << 20,
                    1,
                    1 << 29,
                    "samples that wait for a slow client; further ones are dropped",
                )
                .unit("samples"),
            )
            .property(PropertySpec::text(
                "tuner",
                "",
                "name of the service that gets the commands of clients; empty: they are ignored",
            ))
            .property(address::insecure_property())
            .property(count("clients", "clients so far"))
            .property(count("dropped", "samples that a slow client did not take"))
            .property(count("commands", "commands that the tuner has taken"))
            .property(count("ignored", "commands that the tuner has refused, or that nothing takes"))
            .validated(address::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        address::check(properties)?;
        let address = properties.text("address");
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address::resolve(address)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|error| {
            Error::failed(format!("cannot listen at {address}: {error}; is another server running there?"))
        })?;
        // The message is only for the user.
        let _ = writeln!(io::stderr(), "listening at rtl_tcp={address}");
        Ok(Self { properties: properties.clone(), listener })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cu8", TypeName::as_str) {
            "cu8" => self.run_as::<u8>(ports),
            "cs8" => self.run_as::<i8>(ports),
            "cs16" => self.run_as::<i16>(ports),
            _ => self.run_as::<f32>(ports),
        }
    }
}

impl RtlTcpSink {
    fn run_as<T: Number>(self, mut ports: Ports) -> Result<()>
    where
        Complex<T>: Sample,
    {
        let Self { properties, listener } = self;
        let service = properties.text("tuner");
        let ignored = ports.status::<u64>("ignored")?;
        let retuning = match service {
            "" => None,
            service => Some(Retuning::start(service, ports.status("commands")?, ignored.clone())?),
        };
        let (commands, retuning) = retuning.unzip();
        let buffer = usize::try_from(properties.count("buffer")).unwrap_or(usize::MAX);
        let queue = ClientQueue::new(buffer).map_err(Error::failed)?;
        let clients = ports.status("clients")?;
        let server = Server { listener, queue: Arc::clone(&queue), commands, clients, ignored };
        let spawned = thread::Builder::new().name("stripline-rtl".into()).spawn(move || server.run());
        let thread = spawned.map_err(Error::failed)?;
        let mut intake = SinkInput::new(&queue, &ports)?;
        let received = intake.run::<T>(&mut ports);
        queue.finish();
        let served = thread.join();
        drop(retuning);
        let QueueCounts { sent, slow, without_client, places, .. } = queue.counts();
        intake.dropped.set(slow);
        ports.files().report(FileReport {
            samples: sent,
            clipped: intake.clipped,
            missing: slow + without_client + intake.missing,
            places: places + intake.places,
            finished: true,
            ..FileReport::new(format!("tcp://{}", properties.text("address")))
        });
        received?;
        match served {
            Ok(served) => served.map_err(Error::failed),
            Err(_) => Err(Error::failed("the thread of the server has panicked")),
        }
    }
}

/// Returns the byte for a number of full scale 1, and whether the number is beyond it.
fn byte(number: f32) -> (u8, bool) {
    let scaled = (number * 127.5 + 127.5).round();
    // The conversion saturates. A number that is not one becomes zero of the scale.
    (if scaled.is_nan() { 128 } else { scaled as u8 }, !(-1.0..=1.0).contains(&number))
}

/// The packets of the input.
struct SinkInput<'q> {
    queue: &'q ClientQueue,
    dropped: Status<u64>,
    clipped: u64,
    /// Samples that are missing in the stream.
    missing: u64,
    places: u64,
    /// The index of the next sample.
    next: Option<u64>,
    bytes: Vec<u8>,
}

impl<'q> SinkInput<'q> {
    fn new(queue: &'q ClientQueue, ports: &Ports) -> Result<Self> {
        let dropped = ports.status("dropped")?;
        Ok(Self { queue, dropped, clipped: 0, missing: 0, places: 0, next: None, bytes: Vec::new() })
    }

    fn run<T: Number>(&mut self, ports: &mut Ports) -> Result<()>
    where
        Complex<T>: Sample,
    {
        let mut input = ports.input::<Complex<T>>("in")?;
        while let Some(packet) = input.receive()? {
            self.take(&packet)?;
        }
        Ok(())
    }

    fn take<T: Number>(&mut self, packet: &Packet<'_, Complex<T>>) -> Result<()>
    where
        Complex<T>: Sample,
    {
        check_one_channel(packet.stream(), "rtl_tcp")?;
        let index = packet.sample_index();
        if let Some(next) = self.next.filter(|next| *next != index) {
            // The protocol has no place for a gap.
            self.missing += index.saturating_sub(next);
            self.places += 1;
        }
        self.next = Some(index + packet.len() as u64);
        self.bytes.clear();
        for number in packet.iter().flat_map(|sample| [sample.re, sample.im]) {
            let (byte, is_clipped) = byte(number.to_f32());
            self.bytes.push(byte);
            self.clipped += u64::from(is_clipped);
        }
        self.dropped.set(self.queue.push(&self.bytes).slow);
        Ok(())
    }
}

/// The thread that passes commands to a tuner.
struct Retuning {
    node: Arc<Node>,
    thread: Option<JoinHandle<()>>,
}

impl Retuning {
    /// Starts the thread, and returns the sender of its commands, too. Drop the sender first: the
    /// thread ends with it.
    fn start(service: &str, taken: Status<u64>, ignored: Status<u64>) -> Result<(SyncSender<Command>, Self)> {
        let node = Arc::new(Node::new()?);
        let tuner = TunerClient::connect(&node, service, ClientOptions::default())?;
        let (sender, receiver) = sync_channel(COMMANDS_MAX);
        let pass = move || pass_on(&receiver, &tuner, &taken, &ignored);
        let thread =
            thread::Builder::new().name("stripline-retune".into()).spawn(pass).map_err(Error::failed)?;
        Ok((sender, Self { node, thread: Some(thread) }))
    }
}

impl Drop for Retuning {
    fn drop(&mut self) {
        // A call in progress ends, and so do all later ones.
        self.node.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Calls the tuner for each command.
fn pass_on(commands: &Receiver<Command>, tuner: &TunerClient, taken: &Status<u64>, ignored: &Status<u64>) {
    while let Ok(command) = commands.recv() {
        match call(tuner, command) {
            Some(Ok(())) => taken.add(1),
            Some(Err(error)) => {
                ignored.add(1);
                log::warn!(target: "stripline::rtl-tcp-sink", "a command of the client was refused: {error}");
            }
            None => ignored.add(1),
        }
    }
}

/// Calls the tuner for a command; `None`: a tuner has no such setting.
fn call(tuner: &TunerClient, command: Command) -> Option<std::result::Result<(), CallError<TunerError>>> {
    Some(match command {
        Command::Frequency(hz) => tuner.set_frequency(hz.into(), None).map(drop),
        Command::Rate(hz) => tuner.set_rate(hz.into(), None).map(drop),
        Command::ManualGain(is_manual) => tuner.set_automatic_gain(!is_manual, None).map(drop),
        Command::Gain(tenths) => tuner.set_gain(f64::from(tenths) / 10.0, None).map(drop),
        Command::GainIndex(place) => {
            let gain = Header::R820T.gain_table().get(usize::try_from(place).ok()?)?;
            tuner.set_gain(f64::from(*gain) / 10.0, None).map(drop)
        }
        Command::Correction(_) | Command::Agc(_) | Command::BiasTee(_) | Command::Other { .. } => {
            return None;
        }
    })
}
