//! SIGINT, SIGTERM and SIGHUP as readable file descriptors.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use stripline::internal::{PollSet, process};
use stripline::{Error, Result};

/// A handler of the signals that stop a waveform, active until it is dropped. SIGHUP is sent when
/// the terminal is closed. A signal that is ignored at the start stays ignored.
#[derive(Default)]
pub(super) struct Signals {
    caught: Vec<CaughtSignal>,
}

struct CaughtSignal {
    signal: i32,
    /// Gets a byte for each signal.
    stream: UnixStream,
    id: SigId,
}

impl Signals {
    pub(super) fn catch() -> Result<Self> {
        let mut signals = Self::default();
        for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            let caught = CaughtSignal::new(signal).map_err(|e| Error::system("cannot catch signals", e))?;
            signals.caught.push(caught);
        }
        Ok(signals)
    }

    pub(super) fn sleep_on<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        self.caught.iter().for_each(|caught| poll_set.readable(caught.stream.as_fd()));
    }

    /// Returns the signals since the last call.
    pub(super) fn pending(&self) -> Vec<i32> {
        let mut signals = Vec::new();
        for CaughtSignal { signal, stream, .. } in &self.caught {
            let count = (&mut &*stream).read(&mut [0; 64]).unwrap_or(0);
            signals.extend(std::iter::repeat_n(*signal, count));
        }
        signals
    }
}

impl CaughtSignal {
    fn new(signal: i32) -> io::Result<Self> {
        let (stream, writer) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        Ok(Self { signal, stream, id: low_level::pipe::register(signal, writer)? })
    }
}

impl Drop for CaughtSignal {
    fn drop(&mut self) {
        low_level::unregister(self.id);
    }
}
