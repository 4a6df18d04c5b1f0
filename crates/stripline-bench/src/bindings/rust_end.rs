//! The ends in Rust, which are processes of this program.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stripline::node::{HeldPacket, Holding, Node, Publisher, Subscriber, Topics};

/// The number of packets that the kind `held` keeps at the same time.
const HELD: usize = 4;
/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The job of an end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndJob {
    pub kind: String,
    pub role: String,
    pub size: usize,
    pub name: String,
}

/// Performs the job of this process until the input ends, and returns the exit code.
pub(crate) fn perform(job: &EndJob) -> ExitCode {
    match End::new(job).and_then(|mut end| end.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// An end of a link.
struct End {
    role: Role,
    /// `None` for a receiver.
    out: Option<Publisher<u8>>,
    incoming: Incoming,
    source: Vec<u8>,
    _node: Node,
}

/// The order of sends and receives.
#[derive(Clone, Copy)]
enum Role {
    /// Sends a packet and receives one: the same packet, or the packet that the partner returns.
    First,
    /// Receives a packet and returns it.
    Second,
    Sender,
    Receiver,
}

enum Incoming {
    None,
    One(Subscriber<u8>),
    /// With the held packets, oldest first.
    Held(Holding<u8>, VecDeque<HeldPacket<u8>>),
}

impl End {
    fn new(EndJob { kind, role, size, name }: &EndJob) -> stripline::Result<Self> {
        let (role, out, incoming) = match role.as_str() {
            "one-thread" => (Role::First, Some("to"), Some("to")),
            "ping" => (Role::First, Some("to"), Some("from")),
            "pong" => (Role::Second, Some("from"), Some("to")),
            "sender" => (Role::Sender, Some("to"), None),
            _ => (Role::Receiver, None, Some("to")),
        };
        let transport = if out == incoming { "inproc" } else { "shm" };
        let wait = if matches!(kind.as_str(), "spin" | "held") { "\nwait = 'spin'" } else { "" };
        let topics = Topics::parse(&format!("[default]\ntransport = '{transport}'{wait}"))?;
        let node = Node::join(name, topics)?;
        let out = out.map(|topic| node.publisher(topic)).transpose()?;
        let incoming = match incoming.map(|topic| node.subscriber(topic)).transpose()? {
            None => Incoming::None,
            Some(found) if kind == "held" => Incoming::Held(found.holding(HELD)?, VecDeque::new()),
            Some(found) => Incoming::One(found),
        };
        Ok(Self { role, out, incoming, source: vec![1; *size], _node: node })
    }

    /// Handles packets, line by line, until the input ends.
    fn serve(&mut self) -> stripline::Result<()> {
        if let Some(out) = &mut self.out {
            out.wait_for_receivers(1, Duration::MAX)?;
        }
        let mut output = std::io::stdout();
        // A failure means that the other side is gone, in which case the input has ended as well.
        let _ = writeln!(output, "ready");
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let mut numbers = line.split(' ').filter_map(|word| word.parse::<u32>().ok());
            let (Some(warm), Some(packets)) = (numbers.next(), numbers.next()) else {
                return Err(stripline::Error::failed(format!("the line `{line}`")));
            };
            self.packets(warm)?;
            let start = Instant::now();
            self.packets(packets)?;
            let _ = writeln!(output, "{}", start.elapsed().as_nanos());
        }
        Ok(())
    }

    fn packets(&mut self, count: u32) -> stripline::Result<()> {
        let Self { role, out, incoming, source, .. } = self;
        let steps = Steps { role: *role, count, out: out.as_mut(), source };
        match incoming {
            Incoming::None => steps.run(|| Ok(())),
            Incoming::One(incoming) => steps.run(|| {
                incoming.receive()?.iter().for_each(|packet| read_lines(packet));
                Ok(())
            }),
            Incoming::Held(incoming, held) => steps.run(|| {
                if held.len() == HELD {
                    held.pop_front();
                }
                let packet = incoming.receive()?;
                packet.iter().for_each(|packet| read_lines(packet));
                held.extend(packet);
                Ok(())
            }),
        }
    }
}

/// The sends and receives of a block.
struct Steps<'a> {
    role: Role,
    count: u32,
    out: Option<&'a mut Publisher<u8>>,
    source: &'a [u8],
}

impl Steps<'_> {
    /// Runs the steps. The function is inlined for each way to receive, so that the loop contains
    /// no branch for that.
    #[inline(always)]
    fn run(self, mut receive: impl FnMut() -> stripline::Result<()>) -> stripline::Result<()> {
        let Self { role, count, out, source } = self;
        let Some(out) = out else { return (0..count).try_for_each(|_| receive()) };
        match role {
            Role::First => (0..count).try_for_each(|_| {
                send(out, source)?;
                receive()
            }),
            Role::Second => (0..count).try_for_each(|_| {
                receive()?;
                send(out, source)
            }),
            Role::Sender | Role::Receiver => (0..count).try_for_each(|_| send(out, source)),
        }
    }
}

#[inline(always)]
fn send(out: &mut Publisher<u8>, source: &[u8]) -> stripline::Result<()> {
    let mut loan = out.loan(source.len())?;
    loan.copy_from_slice(source);
    loan.send()
}

/// Reads one byte of each cache line.
#[inline(always)]
fn read_lines(samples: &[u8]) {
    black_box(samples.iter().step_by(LINE).fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte))));
}
