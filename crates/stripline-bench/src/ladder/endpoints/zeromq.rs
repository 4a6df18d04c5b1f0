//! ZeroMQ: PUSH to PULL over a Unix socket, measured only with sleeping. A thread of ZeroMQ carries
//! the packets, and would starve beside a spinning thread on the same processor.

use super::super::case::Case;
use super::super::measure::{self, Receiver, Sender, Side};
use super::stripline::DEPTH;
use crate::Problem;

/// Connects one side. To receive, each side binds an abstract name, which leaves no file behind.
pub(crate) fn connect(case: &Case, place: u32, domain: &str) -> Result<Box<dyn Side>, Problem> {
    let context = zmq::Context::new();
    let end = |kind| -> Result<ZeromqEnd, Problem> {
        let socket = context.socket(kind).map_err(text)?;
        // The same number of packets may be queued as in Stripline.
        socket.set_sndhwm(DEPTH as i32).and(socket.set_rcvhwm(DEPTH as i32)).map_err(text)?;
        // If the peer has not bound yet, the attempt is repeated after this many milliseconds.
        socket.set_reconnect_ivl(1).map_err(text)?;
        Ok(ZeromqEnd { socket, bytes: vec![0; case.size] })
    };
    let address = |of: u32| format!("ipc://@{domain}-{of}");
    let (sender, receiver) = (end(zmq::PUSH)?, end(zmq::PULL)?);
    receiver.socket.bind(&address(place)).map_err(text)?;
    sender.socket.connect(&address(1 - place)).map_err(text)?;
    Ok(measure::side(case, place, sender, receiver))
}

fn text(error: zmq::Error) -> Problem {
    format!("ZeroMQ: {error}")
}

struct ZeromqEnd {
    socket: zmq::Socket,
    bytes: Vec<u8>,
}

impl Sender for ZeromqEnd {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        self.socket.send(&self.bytes[..], 0).map_err(text)
    }
}

impl Receiver for ZeromqEnd {
    fn receive(&mut self) -> Result<u64, Problem> {
        match self.socket.recv_into(&mut self.bytes, 0).map_err(text)? {
            len if len == self.bytes.len() => measure::read(&self.bytes),
            len => Err(format!("ZeroMQ: a packet of {len} bytes")),
        }
    }
}
