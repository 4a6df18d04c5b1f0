//! ZeroMQ: a pair over a Unix socket, measured with sleeping only. Its own thread carries the
//! packets, and would starve beside a spinning thread on the same processor.

use super::super::Problem;
use super::super::case::{Case, Outcome};
use super::super::measure::{self, Receiver, Sender};

/// Runs one side. The first binds an abstract name, which leaves no file behind.
pub(crate) fn run(
    case: &Case,
    place: u32,
    seconds: f64,
    domain: &str,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::PAIR).map_err(text)?;
    let address = format!("ipc://@{domain}");
    if place == 0 {
        socket.bind(&address).map_err(text)?;
        ready()?;
    } else {
        // Connect only after the peer has bound: a failed attempt is repeated only after a delay.
        ready()?;
        socket.connect(&address).map_err(text)?;
    }
    let sending = ZeromqEnd { socket: &socket, bytes: vec![0; case.size] };
    let receiving = ZeromqEnd { socket: &socket, bytes: vec![0; case.size] };
    super::run_pair(case, place, seconds, sending, receiving)
}

fn text(error: zmq::Error) -> Problem {
    format!("ZeroMQ: {error}")
}

struct ZeromqEnd<'a> {
    socket: &'a zmq::Socket,
    bytes: Vec<u8>,
}

impl Sender for ZeromqEnd<'_> {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        self.socket.send(&self.bytes, 0).map_err(text)
    }
}

impl Receiver for ZeromqEnd<'_> {
    fn receive(&mut self) -> Result<u64, Problem> {
        match self.socket.recv_into(&mut self.bytes, 0).map_err(text)? {
            len if len == self.bytes.len() => measure::read(&self.bytes),
            len => Err(format!("ZeroMQ: a packet of {len} bytes")),
        }
    }
}
