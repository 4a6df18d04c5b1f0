//! `pipe`: a pipe for each connection, as the example of a carrier. See `docs/write-carriers.md`.
//!
//! [`register`] adds the transport to a process. `tests/conformance.rs` runs the link contract over
//! it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use stripline::carrier::{
    Capabilities, Carrier, Frames, PathRequest, PathSink, PathSource, PeerRefusal, PollSet, ReadRoom,
    ReadWait, Sink, Source, StreamTransport, Ticket, fork,
};
use stripline::{Error, Result};

/// Adds the transport to this process. Later calls do nothing.
pub fn register() {
    stripline::carrier::register(&[&PIPE], &[]);
}

/// The transport.
pub static PIPE: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "pipe",
        summary: "a pipe for each connection: the example of a carrier",
        depth: "the kernel's pipe buffer; with flow credit or stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        ..StreamTransport::CAPABILITIES
    },
    carrier: Some(PIPES),
    ..StreamTransport::LOCAL
};

/// The bytes that may wait in a pipe.
const PIPE_BYTES: usize = 256 * 1024;

/// The carrier.
pub const PIPES: Carrier = Carrier { source, sink };

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let failed = |e: io::Error| Error::system(format!("{}: cannot make a pipe", request.connection), e);
    let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(io::Error::from);
    let [reading, writing] =
        fork::open(|| pipe().map(|(reading, writing)| [reading, writing])).map_err(failed)?;
    // If the user has many pipes, the pipe gets fewer pages, and the sender only waits earlier.
    let _ = fcntl_setpipe_size(&writing, PIPE_BYTES);
    let writing = writing.as_fd().try_clone_to_owned().map_err(failed)?;
    Ok((Source::new(PipeEnd(reading)), Ticket::new(String::new(), vec![writing])))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let [fd]: [OwnedFd; 1] = ticket.fds.try_into().map_err(|_| "a pipe is one descriptor")?;
    let failed = |e: Errno| format!("the descriptor is not of a pipe: {e}");
    if !FileType::from_raw_mode(fstat(&fd).map_err(failed)?.st_mode).is_fifo() {
        return Err("the descriptor is not of a pipe".into());
    }
    // Open the file again, only for this process. The peer can change the flags of the other open
    // file, and a write would block.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let own = fork::open_one(|| open(path, flags, Mode::empty())).map_err(failed)?;
    Ok(Sink::new(PipeEnd(own)))
}

/// One end of a pipe.
struct PipeEnd(fork::Descriptor<OwnedFd>);

impl PathSink for PipeEnd {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, frames)?)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.writable(self.0.as_fd());
    }
}

impl PathSource for PipeEnd {
    fn read(&mut self, room: &mut ReadRoom<'_>, _wait: ReadWait) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, room.bytes())?)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(self.0.as_fd());
        true
    }
}
