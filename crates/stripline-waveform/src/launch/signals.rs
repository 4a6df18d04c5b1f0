//! SIGINT, SIGTERM and SIGHUP as readable descriptors.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline::{Error, Result};

/// The signals that stop a waveform; SIGHUP comes when its terminal is closed.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A handler of the signals, from its creation until it is dropped.
pub(super) struct Signals {
    caught: Vec<(i32, UnixStream, SigId)>,
    any: UnixStream,
    any_ids: Vec<SigId>,
}

impl Signals {
    pub(super) fn catch() -> Result<Self> {
        let failed = |e| Error::system("cannot catch signals", e);
        let mut caught = Vec::new();
        for signal in SIGNALS {
            let (stream, ids) = pipe(&[signal]).map_err(failed)?;
            caught.extend(ids.into_iter().next().map(|id| (signal, stream, id)));
        }
        // Registered last, so that the thread that it wakes finds the signal's own byte written.
        let (any, any_ids) = pipe(&SIGNALS).map_err(failed)?;
        Ok(Self { caught, any, any_ids })
    }

    /// Returns the signals since the last call.
    pub(super) fn pending(&mut self) -> Vec<i32> {
        let mut bytes = [0; 64];
        let _ = (&self.any).read(&mut bytes);
        let mut signals = Vec::new();
        for (signal, stream, _) in &self.caught {
            let count = (&mut &*stream).read(&mut bytes).unwrap_or(0);
            signals.extend(std::iter::repeat_n(*signal, count));
        }
        signals
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let ids = self.any_ids.iter().chain(self.caught.iter().map(|(_, _, id)| id));
        for id in ids {
            signal_hook::low_level::unregister(*id);
        }
    }
}

/// Creates a stream that gets a byte for each of these signals.
fn pipe(signals: &[i32]) -> std::io::Result<(UnixStream, Vec<SigId>)> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    let ids =
        signals.iter().map(|signal| signal_hook::low_level::pipe::register(*signal, writer.try_clone()?));
    Ok((reader, ids.collect::<Result<_, _>>()?))
}
